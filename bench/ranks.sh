#!/usr/bin/env bash
# Several ranks on this machine, against one and against their plan. Takes two to three minutes.
#
#   bench/ranks.sh [PROGRAM]
#
# PROGRAM: build/zoe. MPIRUN: the launcher [mpirun]. ZOE_ROUNDS: how often each is run, in turn [3]. ZOE_CASE: the case
# of zoe bench step [step_1.3b f32/bf16 1536x8960x30x16x16x1x60x104].
#
# First the bench step: two ranks of one thread each, in turn with one rank of two threads. Then whole runs of the demo
# model on 1, 2 and 4 ranks of one thread, their steps beside the estimate of zoe plan: more ranks than the machine has
# cores share them, so that their ratio says less.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-build/zoe}")
mpirun=${MPIRUN:-mpirun}
rounds=${ZOE_ROUNDS:-3}
case=${ZOE_CASE:-step_1.3b f32/bf16 1536x8960x30x16x16x1x60x104}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none \
    OMP_WAIT_POLICY=passive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
request=(--model models/demo --image examples/red-circle-256.png --prompt "a red circle moves right" --size 256x256
    --frames 33 --steps 4 --seed 1)

field() { # NAME FILE: the last number of that name in lines of JSON
    sed -n "s/.*\"$1\": *\([0-9.e+-]*\).*/\1/p" "$2" | tail -n 1
}
median() {
    sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}
step() { # RANKS THREADS: seconds of the bench step
    "$mpirun" -n "$1" "$program" bench step --threads "$2" --filter "$case" --repeats 1 --time wall --json >"$work/step"
    field median_s "$work/step"
}
# Seconds of a step of the demo, of RANKS.
run() {
    "$mpirun" -n "$1" "$program" generate "${request[@]}" --threads 1 --progress json \
        --latents-out "$work/l.safetensors" 2>"$work/run"
    awk -v s="$(field steps_seconds "$work/run")" 'BEGIN { print s / 4 }'
}
planned() { # RANKS; the network is this machine's memory
    "$program" plan --ranks "$1" --threads-per-rank 1 --bandwidth 5 --latency 20 --json -- "${request[@]}" >"$work/plan"
    field step "$work/plan"
}

echo "$(date -u +%F), $("$program" version | head -n 1), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
    "load before: $(cut -d ' ' -f 1 /proc/loadavg)"
echo
echo "bench step ($case), $rounds times in turn:"
for ((i = 0; i < rounds; i++)); do
    step 1 2 >>"$work/one"
    step 2 1 >>"$work/two"
done
one=$(median <"$work/one")
two=$(median <"$work/two")
awk -v a="$one" -v b="$two" 'BEGIN {
    printf "  1 rank, 2 threads: %.3f s; 2 ranks, 1 thread each: %.3f s; speed of the second to the first: %.3f\n", a, b, a / b
}'
echo
echo "a step of the demo model (256x256, 33 frames), one thread a rank:"
for n in 1 2 4; do
    : >"$work/runs"
    for ((i = 0; i < rounds; i++)); do run $n >>"$work/runs"; done
    awk -v n=$n -v m="$(median <"$work/runs")" -v p="$(planned $n)" 'BEGIN {
        printf "  %d rank%s: %.3f s, planned %.3f s; planned to measured: %.2f\n", n, (n > 1 ? "s" : ""), m, p, p / m
    }'
done
