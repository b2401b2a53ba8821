# What the scripts of tests/comm share. ctest gives in the environment:
#   CHECK    ranks_check            MODULES  the folder of the modules
#   MPI      openmpi or mpich: whose launcher to use
# Each script runs in an empty folder of its own, exits with 1 if an expectation failed, and with 77 and a reason if the
# MPI is not there.
set -u
skip() {
    echo "skipped: $*"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# The launcher, by the name that distributions give it where several are installed, or by what it says it is.
launcher=
case $MPI in
openmpi)
    names="mpirun.openmpi mpirun"
    sign="Open MPI\|OpenRTE\|PRTE"
    package=openmpi-bin
    # Root in a container is fine here; nor may processes read each other's memory there.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none \
        PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ;;
mpich)
    names="mpiexec.mpich mpiexec.hydra mpiexec"
    sign="HYDRA"
    package=mpich
    ;;
esac
for name in $names; do
    if [ -z "$launcher" ] && "$name" --version 2>/dev/null | grep -q "$sign"; then
        launcher=$name
    fi
done
[ -n "$launcher" ] || skip "the launcher of $MPI is not installed (Debian: $package)"
[ -e "$MODULES/zoetrope-mpi-$MPI.so" ] || skip "the module for $MPI was not built"
export ZOE_MPI_MODULE="$MODULES"

# More ranks than cpus are fine, and none is bound to one.
[ "$MPI" = mpich ] || launcher="$launcher --oversubscribe --bind-to none"

# ranks N PROGRAM ARGS: runs them, for at most 100 s; leaves the exit code in $code, what was said in the file said, and
# the seconds it took in $seconds.
ranks() {
    count=$1
    shift
    asked="$launcher -n $count $*"
    begun=$(date +%s%N)
    timeout -k 5 100 $launcher -n "$count" "$@" >said 2>&1 </dev/null
    code=$?
    seconds=$((($(date +%s%N) - begun) / 1000000000))
}
bad() {
    echo "FAIL: $*"
    echo "  after: $asked; exit code $code, $seconds s"
    sed 's/^/  said: /' said | head -n 40
    failures=$((failures + 1))
}
expect_says() {
    grep -q -- "$1" said || bad "nothing says: $1"
}
finish() {
    [ "$failures" -eq 0 ] || exit 1
}
