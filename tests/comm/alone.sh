# Without a launcher there is one rank and no MPI; modules refuse programs that they do not fit.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
fail() {
    echo "FAIL: $*"
    exit 1
}
for name in $(env | sed -n 's/^\(\(OMPI\|MPI\|PMI\|PMIX\|SLURM\)_[A-Z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done
export ZOE_MPI_MODULE=/nowhere
"$CHECK" 1 run "$work" >said 2>&1 || fail "alone: $(cat said)"
[ ! -s said ] || grep -q "rank 0 of 1: all well" said || fail "alone: $(cat said)"

# Tasks of Slurm that MPI knows nothing of: a warning, once, and none waits.
SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$CHECK" 1 run "$work" >said 2>&1 || fail "tasks: $(cat said)"
[ "$(grep -c '^warning: srun has started 4 tasks without MPI' said)" -eq 1 ] || fail "tasks: $(cat said)"
SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 "$CHECK" 1 run "$work" >said 2>&1 || fail "tasks: $(cat said)"
! grep -q "^warning" said || fail "each task warns"
# A shell of salloc is a step of one task.
PMIX_RANK=0 SLURM_STEP_NUM_TASKS=1 "$CHECK" 1 run "$work" >said 2>&1 || fail "a step of one task: $(cat said)"

# Ranks share the cpus of their host.
"$CHECK" 0 threads - || fail "threads of a program alone"
OMPI_COMM_WORLD_LOCAL_SIZE=1 "$CHECK" 0 threads - || fail "threads of one rank"
OMPI_COMM_WORLD_LOCAL_SIZE=100000 "$CHECK" 0 threads 1 || fail "threads of many ranks, Open MPI"
MPI_LOCALNRANKS=100000 "$CHECK" 0 threads 1 || fail "threads of many ranks, MPICH"
SLURM_STEP_NUM_TASKS=100001 SLURM_STEP_NUM_NODES=2 "$CHECK" 0 threads 1 || fail "threads of many ranks, Slurm"
SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=4 "$CHECK" 0 threads - || fail "threads of a rank on each node"

# refused SENTENCE VARIABLES...: two ranks by name.
refused() {
    sentence=$1
    shift
    if env "$@" "$CHECK" 2 run "$work" >said 2>&1; then
        fail "was not refused: $*"
    fi
    grep -q "$sentence" said || fail "$* gives: $(cat said)"
}
refused "/nowhere is not there" OMPI_COMM_WORLD_SIZE=2
refused "started by MPICH's mpiexec, .* looked for $work/zoetrope-mpi-mpich.so" PMI_RANK=0 PMI_SIZE=2 ZOE_MPI_MODULE="$work"
refused "started by a launcher with PMIx, .*openmpi.so, $work/zoetrope-mpi-mpich.so" PMIX_RANK=0 ZOE_MPI_MODULE="$work"
refused "started by srun with PMI" PMI_RANK=0 PMI_SIZE=2 SLURM_STEP_NUM_TASKS=2 ZOE_MPI_MODULE="$work"
refused "zoetrope-mpi-openmpi.so, .*lib/.*zoetrope/zoetrope-mpi-openmpi.so" OMPI_COMM_WORLD_SIZE=2 ZOE_MPI_MODULE=
echo "no library" >broken.so
refused "broken.so cannot be loaded" OMPI_COMM_WORLD_SIZE=2 ZOE_MPI_MODULE="$work/broken.so"
refused "is no module of this program" OMPI_COMM_WORLD_SIZE=2 ZOE_MPI_MODULE="$OTHER"

modules=0
for module in "$MODULES"/zoetrope-mpi-*.so; do
    [ -e "$module" ] || continue
    modules=$((modules + 1))
    "$CHECK" 0 abi "$module" || fail "$module takes a program of another version"
    entries=$(nm -D --defined-only "$module" | awk '$2 == "T" { print $3 }' | tr '\n' ' ')
    [ -n "$SANITIZED" ] || [ "$entries" = "zoe_transport_open " ] || fail "$module exports $entries"
done
[ $modules -gt 0 ] || echo "skipped: no module for MPI was built (Debian: libopenmpi-dev, libmpich-dev)"
