# B42 with processes: SIGKILL for any rank in the midst of the steps, SIGTERM for one, and a rank without the model's
# files. All end within ten seconds, with one sentence that names the rank (of one that was killed by the launcher, which
# ends the others before they miss it), and the run goes on with other ranks.
. "$COMMON"
[ -z "$SANITIZED" ] || { echo "skipped: MPI libraries are not made for sanitizers"; exit 77; }
mpirun=$(command -v mpirun.openmpi || command -v mpirun)
[ -n "$mpirun" ] && [ -e "${ZOE%/*}/zoetrope-mpi-openmpi.so" ] ||
    { echo "skipped: no Open MPI, or no module for it"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMP_WAIT_POLICY=passive ZOE
STEPS=100

# one_rank NAME...: what each rank is: notes its process, and becomes the program.
cat >one_rank <<'END'
rank=$OMPI_COMM_WORLD_RANK
echo $$ >pid.$rank
[ "$rank" = "${LOST-}" ] && set -- "$@" --vae nowhere.pth
exec "$ZOE" "$@"
END
# start N ARGS: such a run in the background; its code goes to the file `code`.
start() {
    n=$1
    shift
    said="mpirun -n $n zoe $*"
    rm -f pid.* code
    ("$mpirun" -n "$n" sh one_rank generate --model "$DEMO" --image "$EXAMPLES/red-circle.png" --prompt "a red circle" \
        --size 64x64 --frames 9 --steps $STEPS --seed 1 --threads 1 --latents-out l.safetensors --progress plain \
        "$@" >stdout 2>stderr
    echo $? >code) &
}
# alive RANK: its process may stay as a zombie where nobody collects it.
alive() {
    grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$(cat "pid.$1")/status" 2>/dev/null
}
# Waits for a text on standard error, a minute at most.
await() {
    tries=0
    until grep -qF -- "$1" stderr 2>/dev/null || [ -e code ] || [ $tries -gt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}
# Waits for the end; it must not take ten seconds.
ended() {
    since=$(date +%s)
    wait
    code=$(cat code)
    took=$(($(date +%s) - since))
    [ "$took" -le 10 ] || bad "it took $took s to end"
}
# go_on N ARGS: to the latents of a run of one process.
go_on() {
    start "$@" --resume ck
    await "wrote"
    wait
    code=$(cat code)
    expect_code 0
    expect_same l.safetensors one.safetensors
    rm -rf ck l.safetensors
}

start 1
wait
code=$(cat code)
expect_code 0
mv l.safetensors one.safetensors

for victim in 0 1 2; do
    start 4 --checkpoint ck
    await "steps 2/$STEPS"
    kill -KILL "$(cat pid.$victim)" || bad "rank $victim ended too early"
    ended
    [ "$code" -ne 0 ] || bad "exit code 0"
    expect_no_files l.safetensors
    [ $victim -eq 0 ] || expect_no_parts
    grep -q "rank $victim" stderr || bad "nobody says which rank, not even the launcher"
    for rank in 0 1 2 3; do
        ! alive "$rank" || bad "rank $rank still lives"
    done
    go_on $((victim + 1))
done

start 4 --checkpoint ck
await "steps 2/$STEPS"
kill -TERM "$(cat pid.3)" || bad "rank 3 ended too early"
ended
[ "$code" -ne 0 ] || bad "exit code 0"
expect_says 'rank 3: '
expect_equal "sentences of the failure" "$(grep -c '^zoe: .*rank 3: ' stderr)" 1
expect_says 'what was done is kept in ck'
go_on 2

LOST=1 start 4
ended
expect_says 'rank 1: nowhere.pth'
expect_equal "sentences" "$(grep -c '^zoe: ' stderr)" 1
expect_code 3
finish
