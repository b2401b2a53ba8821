# Processes that an MPI starts do the work of one, to the byte; one of them speaks.
. "$COMMON"
[ -z "$SANITIZED" ] || { echo "skipped: MPI libraries are not made for sanitizers"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_orte_execute_quiet=1 OMP_WAIT_POLICY=passive

# launcher MODULE NAMES: the first command of these that is there, if the program has the module.
launcher() {
    [ -e "${ZOE%/*}/zoetrope-mpi-$1.so" ] || return
    shift
    for name in "$@"; do
        command -v "$name" && return
    done
}
# ranks N ARGS: the tiny run on N processes.
ranks() {
    n=$1
    shift
    said="$mpirun -n $n zoe $*"
    "$mpirun" -n "$n" "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." --size 64x64 \
        --frames 5 --negative-prompt blurry --steps 4 --seed 1 --threads 1 "$@" >stdout 2>stderr
    code=$?
}
# expect_failed CODE: of the ranks; MPICH's launcher makes something of its own of it.
expect_failed() {
    if [ $mpi = openmpi ]; then
        expect_code "$1"
    elif [ "$code" -eq 0 ]; then
        bad "exit code 0"
    fi
}
# What the program said, among what the launcher did.
sentences() {
    grep -c '^zoe: ' stderr
}

tiny --steps 4 --out one.mp4 --frames-out one --latents-out one.safetensors
expect_code 0

# Processes that do not work together.
try_apart() {
    # What one does by itself.
    for command in sweep calibrate plan convert preview-fit op nonsense; do
        said="$mpirun -n 3 zoe $command"
        "$mpirun" -n 3 "$ZOE" $command --out r.mp4 >stdout 2>stderr
        code=$?
        expect_failed 2
        expect_equal "sentences" "$(sentences)" 1
        [ $command = nonsense ] || expect_says "zoe $command is the work of one process, and the launcher has started 3"
        expect_no_files r.mp4
    done

    # One that cannot join the others: these do not wait for it. The first one has left: the next one says so.
    cat >odd <<'TEXT'
#!/bin/sh
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = "$ODD" ]; then
    [ "$HOW" = leave ] || export ZOE_MPI_MODULE=/nowhere
    [ "$HOW" = join ] || set -- "$@" --dry-run
fi
exec "$@"
TEXT
    chmod +x odd
    for case in "0 join" "2 join" "0 leave"; do
        export ODD="${case% *}" HOW="${case#* }"
        said="$mpirun -n 3, rank $ODD does not $HOW with the others"
        timeout 60 "$mpirun" -n 3 ./odd "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt cat --size 64x64 --frames 5 \
            --threads 1 --progress none --out r.mp4 >stdout 2>stderr
        code=$?
        [ $code -ne 0 ] && [ $code -ne 124 ] || bad "exit code $code"
        [ $HOW = leave ] && what='rank 0 has ended' || what='/nowhere is not there'
        sentences=$(grep -c "^zoe: .*$what" stderr)
        # A launcher may end the rank that would say it, once another has ended.
        [ $HOW = leave ] && [ "$sentences" -eq 0 ] || expect_equal "sentences" "$sentences" 1
        expect_no_files r.mp4
    done
}
try_all() {
    for n in 1 2 4; do
        ranks $n --out "r.mp4" --frames-out r --latents-out r.safetensors --progress none --checkpoint ck
        expect_code 0
        expect_equal "sentences" "$(sentences)" 1
        expect_says 'wrote r.mp4'
        expect_same one.mp4 r.mp4
        expect_same one.safetensors r.safetensors
        diff -r one r >/dev/null || bad "frames differ"
        expect_no_parts
        rm -rf r r.mp4 r.safetensors ck
    done
    ranks 4 --cfg-ranks 2 --ulysses 2 --ring 1 --vae-ranks 3 --progress json --out r.mp4 --trace t.json
    expect_code 0
    expect_same one.mp4 r.mp4
    expect_equal "first lines" "$(grep -c '"event":"begin"' stderr)" 1
    expect_equal "last lines" "$(grep -c '"event":"done"' stderr)" 1
    grep '^{' stderr >events && mv events stderr # the launcher's libraries may say something too
    expect_equal "the plan" "$("$TOOL" get stderr plan ranks) $("$TOOL" get stderr plan cfg_ranks) \
$("$TOOL" get stderr plan ulysses) $("$TOOL" get stderr plan ring) $("$TOOL" get stderr plan vae_ranks)" "4 2 2 1 3"
    for pid in 0 1 2 3; do
        grep -q "\"pid\": *$pid" t.json || bad "no rank $pid in the trace"
    done
    grep -q '"step"' t.json || bad "no step in the trace"
    ranks 2 --ring 2 --ring-form steps --out ring.mp4 --dry-run
    expect_code 0
    expect_says '2 ranks: CFG 1 x Ulysses 1 x ring 2, VAE on 2'
    expect_says 'memory of each:'
    expect_says '; 2 ranks on this host: '
    expect_no_files ring.mp4

    # Refusals: one sentence, whoever finds it.
    ranks 4 --ulysses 3 --out r.mp4
    expect_failed 2
    expect_equal "sentences" "$(sentences)" 1
    expect_says 'cannot be made of the 4 ranks that the run has; possible are 2 x 2 x 1'
    ranks 2 --steps 0 --out r.mp4
    expect_failed 2
    expect_equal "sentences" "$(sentences)" 1
    ranks 2 --image nowhere.png --out r.mp4
    expect_equal "sentences" "$(sentences)" 1
    expect_says 'nowhere.png'
    expect_failed 3
    # The words of a sentence are not what tells of which rank it is.
    ranks 2 --model 'rank 1: nothing' --out r.mp4
    expect_failed 3
    expect_equal "sentences" "$(sentences)" 1
    expect_says 'zoe: rank 0: rank 1: nothing'
    rm -f r.mp4 t.json

    # A pass that ranks share is measured as one row.
    said="$mpirun -n 2 zoe bench step"
    "$mpirun" -n 2 "$ZOE" bench step --filter 'step_tiny f32 *' --quick --threads 1 --json >stdout 2>stderr
    code=$?
    expect_code 0
    expect_equal "rows" "$(grep -c '"op":"step_tiny".*"ranks":2' stdout)" 1
    try_apart
}

tried=0
for mpi in openmpi mpich; do
    case $mpi in
    openmpi) mpirun=$(launcher openmpi mpirun.openmpi mpirun) ;;
    mpich) mpirun=$(launcher mpich mpirun.mpich mpiexec.hydra) ;;
    esac
    if [ -n "$mpirun" ]; then
        echo "with $mpirun"
        try_all
        tried=$((tried + 1))
    fi
done
[ $tried -gt 0 ] || { echo "skipped: no MPI whose mpirun and module are there"; exit 77; }
finish
