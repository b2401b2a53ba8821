#!/usr/bin/env bash
# The table of docs/PERFORMANCE.md: every figure that has a goal, beside the peers that are installed. Takes about half
# an hour; nothing else should run meanwhile.
#
#   bench/table.sh [PROGRAM] >rows.md
#
# PROGRAM: build/zoe. ZOE_PEERS: the peers [torch,onednn,openblas]. ZOE_PYTHON: a python that has torch. ZOE_PARTS: some
# of ops, step, vae and text [all of them].
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-build/zoe}
peers=${ZOE_PEERS:-torch,onednn,openblas}
threads=1
all=$("$program" version | sed -n 's/.* \([0-9]*\) threads$/\1/p')
[ "$all" = 1 ] || threads=1,$all

measure() {
    "$program" bench "$@" --table --compare "$peers"
    echo
}

echo "$(date -u +%F), $("$program" version | head -n 1), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
    "$all cores, kernels and threads: $("$program" version | sed -n 's/^  cpu *//p'); load before: $(cut -d ' ' -f 1 /proc/loadavg)"
echo
for part in ${ZOE_PARTS:-ops step vae text}; do
    case $part in
    ops) measure ops --threads "$threads" ;;
    step) measure step --threads "$threads" --filter 'step_1.3b*' && measure step --threads "$all" --filter 'step_14b*bf16*' ;;
    vae) measure vae --threads "$all" --repeats 1 ;;
    text) measure text --threads "$all" ;;
    *)
        echo "table.sh: no part \"$part\"; they are ops, step, vae and text" >&2
        exit 2
        ;;
    esac
done
