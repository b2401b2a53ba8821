# A rank is killed, or stops, in a stage: all end soon, none is left, and what was done goes on with other ranks to the bytes
# of a run that nobody disturbed.
. "$COMMON"
[ -z "$SANITIZED" ] || { echo "skipped: MPI libraries are not made for sanitizers"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_WAIT_POLICY=passive
request="--model $DEMO --image $DEMO/../../examples/red-circle.png --prompt red --size 64x64 --frames 9 --steps 6 --seed 1
    --threads 1 --no-metadata --progress plain --out v.mp4 --latents-out l.safetensors"

# What a launcher starts: leaves the number of the process under the rank's name.
cat >rank <<'TEXT'
#!/bin/sh
echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
exec "$ZOE" "$@"
TEXT
chmod +x rank
launcher() {
    case $1 in
    openmpi) names="mpirun.openmpi mpirun" ;;
    mpich) names="mpirun.mpich mpiexec.hydra" ;;
    esac
    [ -e "${ZOE%/*}/zoetrope-mpi-$1.so" ] || return
    for name in $names; do
        command -v "$name" && return
    done
}
start() {
    n=$1
    shift
    case $mpi in
    openmpi) set -- "$mpirun" --oversubscribe --bind-to none -n "$n" "$@" ;;
    mpich) set -- "$mpirun" -n "$n" "$@" ;;
    esac
    exec "$@" >stdout 2>stderr </dev/null
}

# strike SIGNAL RANK TEXT: of three ranks, when the first one has said the text.
strike() {
    said="$mpirun: $1 to rank $2 of 3 at: $3"
    rm -rf ck v.mp4 l.safetensors pid.*
    # shellcheck disable=SC2086
    (start 3 ./rank generate $request --checkpoint ck --cfg-ranks 1) &
    run=$! tries=0
    until grep -q -- "$3" stderr 2>/dev/null && [ -s "pid.$2" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 3000 ] || ! kill -0 $run 2>/dev/null; then
            break
        fi
        sleep 0.01
    done
    kill -"$1" "$(cat "pid.$2")" 2>/dev/null || bad "there was no rank $2 any more"
    begun=$(date +%s%N)
    wait $run
    code=$?
    ms=$((($(date +%s%N) - begun) / 1000000))
    [ $code -ne 0 ] || bad "exit code 0"
    [ $ms -le 10500 ] || bad "the others ended after $ms ms"
    sleep 0.2
    for rank in 0 1 2; do
        state=$(ps -o stat= -p "$(cat pid.$rank)") # Z: nobody has collected it yet
        [ -z "${state%%Z*}" ] || bad "rank $rank is left"
    done
}
# go_on RANKS OPTIONS: from what is left.
go_on() {
    n=$1
    shift
    # shellcheck disable=SC2086
    (start "$n" "$ZOE" generate --resume ck $request "$@")
    code=$?
    expect_code 0
    expect_same v.mp4 one.mp4
    expect_same l.safetensors one.safetensors
    expect_no_parts
}

said="one process"
# shellcheck disable=SC2086
"$ZOE" generate $request 2>stderr >stdout
code=$?
expect_code 0
mv v.mp4 one.mp4
mv l.safetensors one.safetensors
tried=0
for mpi in openmpi mpich; do
    mpirun=$(launcher $mpi)
    [ -n "$mpirun" ] || continue
    tried=$((tried + 1))
    strike KILL 1 "text begins"
    go_on 2 --ulysses 2
    strike KILL 0 "encode 1/"
    go_on 1
    strike KILL 2 "steps 2/"
    expect_equal "sentences that name another rank" "$(grep '^zoe: rank' stderr | grep -vc 'interrupted, by hand or by')" 0
    go_on 4 --cfg-ranks 2 --vae-ranks 3
    strike KILL 0 "decode 1/"
    go_on 2 --cfg-ranks 2
    strike TERM 1 "steps 1/"
    expect_equal "sentences" "$(grep -c '^zoe: rank 1: interrupted' stderr)" 1
    go_on 3 --ulysses 3
    # The one that speaks hangs: the next one speaks.
    export ZOE_MPI_PATIENCE=4
    for victim in 0 2; do
        strike STOP $victim "steps 1/"
        expect_equal "sentences" "$(grep -c "^zoe: rank $victim has not been heard of for 4 s" stderr)" 1
        go_on $((victim + 1))
    done
    unset ZOE_MPI_PATIENCE
done
[ $tried -gt 0 ] || { echo "skipped: no MPI whose mpirun and module are there"; exit 77; }
finish
