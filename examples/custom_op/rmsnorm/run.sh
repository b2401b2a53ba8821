#!/usr/bin/env bash
# run.sh [DIR]: the tutorial from its prototype to figures, in DIR (default ./rmsnorm_custom, which must not be there).
# ZOE: the program zoe. PYTHON: an interpreter with torch and pytest. BENCH: what bench.py is given.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
project=${1:-rmsnorm_custom}
python=${PYTHON:-python3}

"${ZOE:-zoe}" op new "$here/rmsnorm_custom.json" --out "$project"
cp -r "$here/op_host" "$here/op_kernel" "$here/tests" "$project/"      # what an engineer writes
cmake -S "$project" -B "$project/build"
cmake --build "$project/build"

cd "$project"
echo
echo "the kernels: _0 without gamma, _1 with gamma, each for two sets of instructions"
nm -S build/librmsnorm_custom.so | grep -E ' t rmsnorm_custom_0_[01]$' | sort -k4
for kernel in rmsnorm_custom_0_0 rmsnorm_custom_0_1; do
    nm build/librmsnorm_custom.so | grep -q " t $kernel\$"
done
echo
"$python" -m pytest -q -p no:cacheprovider tests
PYTHONPATH=tests "$python" "$here/check.py" build/librmsnorm_custom.so
echo
# shellcheck disable=SC2086
"$python" bench.py ${BENCH:-}
