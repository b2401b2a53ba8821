# two_hosts.sh [PROGRAM ARGS...]: a program on two hosts, its ranks dealt to them in turn, which reach one another by TCP
# only: two network namespaces, joined by a pair of virtual interfaces. Without a program: the check of exchanges. Needs
# root. RANKS: how many [4].
. "$COMMON"
a=zoe-a-$$ b=zoe-b-$$

clean() {
    for host in "$a" "$b"; do
        for pid in $(ip netns pids "$host" 2>/dev/null); do
            kill -KILL "$pid" 2>/dev/null
        done
        ip netns del "$host" 2>/dev/null
    done
    rm -rf "$work"
}
why() {
    echo "skipped: two hosts need $1: $(head -n 1 refused)"
    exit 77
}
command -v ip >/dev/null || skip "two hosts need ip (Debian: iproute2)"
trap clean EXIT
ip netns add "$a" 2>refused && ip netns add "$b" 2>>refused || why "network namespaces"
ip netns exec "$a" true 2>refused || why "to enter network namespaces" # not in a chroot
ip link add zoe0 netns "$a" type veth peer name zoe0 netns "$b" 2>refused || why "virtual interfaces"
unshare --uts true 2>refused || why "host names of their own"
ip -n "$a" address add 10.77.0.1/24 dev zoe0
ip -n "$b" address add 10.77.0.2/24 dev zoe0
for host in "$a" "$b"; do
    ip -n "$host" link set lo up
    ip -n "$host" link set zoe0 up
done
# The kernel calls them up only a while later; UCX passes over those that are not.
for host in "$a" "$b"; do
    tries=0
    until ip netns exec "$host" cat /sys/class/net/zoe0/operstate | grep -q up || [ $tries -eq 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
done

# on HOST COMMAND...
cat >on <<TEXT
#!/bin/sh
host=\$1
shift
exec ip netns exec "\$host" unshare --uts sh -c 'hostname "\$1"; shift; exec "\$@"' on "\$host" "\$@"
TEXT
# What launchers call in the place of ssh: [OPTIONS] ADDRESS COMMAND...
cat >agent <<TEXT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
[ "\$1" = 10.77.0.1 ] && host=$a || host=$b
shift
exec "$PWD/on" "\$host" sh -c "\$*"
TEXT
chmod +x on agent

if [ $# -eq 0 ]; then
    mkdir folder
    set -- "$CHECK" ${RANKS:-4} run "$PWD/folder"
    own=1
else
    own=0
fi
case $MPI in
openmpi)
    launcher="$PWD/on $a $launcher --host 10.77.0.1:2,10.77.0.2:2 --map-by node --mca plm_rsh_agent $PWD/agent
        --mca oob_tcp_if_include zoe0 --mca btl_tcp_if_include zoe0 -x ZOE_MPI_MODULE
        -x OMPI_MCA_btl_vader_single_copy_mechanism"
    ;;
mpich)
    # The two share a kernel, so that shared memory would do.
    export UCX_TLS=tcp,self UCX_NET_DEVICES=zoe0
    launcher="$PWD/on $a $launcher -hosts 10.77.0.1:1,10.77.0.2:1 -launcher ssh -launcher-exec $PWD/agent -iface zoe0"
    ;;
esac
ranks ${RANKS:-4} "$@"
[ $code -eq 0 ] || bad "exit code $code"
crossed=$(ip -n "$a" -s -j link show zoe0 | sed 's/.*"rx":{"bytes":\([0-9]*\).*"tx":{"bytes":\([0-9]*\).*/\1 \2/')
echo "bytes between the hosts, there and back: $crossed"
if [ $own -eq 1 ]; then
    [ "$(grep -c 'all well' said)" -eq ${RANKS:-4} ] || bad "not all are well"
    grep 'messages:' said
    # Ranks 0 and 1 are on different hosts and have sent each other 130 MiB.
    [ "${crossed% *}" -gt 136000000 ] && [ "${crossed#* }" -gt 136000000 ] || bad "little went between the hosts"
else
    cat said
fi
finish
