#!/bin/sh
# The demo model on several processes of this machine.
#
#   examples/mpi/run-local.sh [RANKS [OPTIONS OF zoe generate]]
#
# RANKS: 2. ZOE: the program [build/zoe]. MPIRUN: Open MPI's or MPICH's launcher [mpirun]. The video is demo-ranks.mp4.
set -eu
cd "$(dirname "$0")/../.."
ranks=${1:-2}
[ $# -eq 0 ] || shift

# More processes than processors, waiting without taking them from each other; and root in a container may start them.
# MPICH passes over all of these.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMP_WAIT_POLICY=passive

exec "${MPIRUN:-mpirun}" -n "$ranks" "${ZOE:-build/zoe}" generate --model models/demo --image examples/red-circle.png \
    --prompt "a red circle moves right" --size 64x64 --frames 17 --steps 20 --seed 1 --out demo-ranks.mp4 "$@"
