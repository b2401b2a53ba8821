#!/usr/bin/env bash
# custom_op.sh SOURCE BUILD: operator projects from their prototype to torch. The tutorial (examples/custom_op/rmsnorm) is
# run whole; a second operator has what it lacks: several combinations of types, a bool attribute, two outputs. The
# interpreter is found as in run.sh; without torch in it, the test is skipped.
set -euo pipefail
source=$1 build=$2
python=${ZOE_PYTHON:-${ZOE_VENV:-$source/build/venv}/bin/python}
if ! "$python" -c 'import torch, pytest' 2>/dev/null; then
    echo "skipped custom_op: no Python with torch and pytest ($python); ./dev venv makes one"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ZOE=${ZOE:-$build/zoe} PYTHON=$python PYTHONDONTWRITEBYTECODE=1 BENCH="--seconds 0.2"
export CFLAGS="-Werror -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes"

# build PROJECT FOLDER
build() {
    if ! { cmake -S "$1" -B "$2" && cmake --build "$2"; } > "$work/log" 2>&1; then
        cat "$work/log"
        exit 1
    fi
}

"$source/examples/custom_op/rmsnorm/run.sh" "$work/rmsnorm"

echo "a project as it is generated: the identity"
cat > "$work/two.json" <<'JSON'
[{"op": "TwoThings", "language": "cpp",
  "input_desc": [
    {"name": "a", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "bf16"]},
    {"name": "b", "param_type": "optional", "format": ["ND", "ND"], "type": ["float", "bf16"]}],
  "output_desc": [
    {"name": "y", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "float"]},
    {"name": "z", "param_type": "required", "format": ["ND", "ND"], "type": ["float", "bf16"]}],
  "attr": [
    {"name": "count", "param_type": "optional", "type": "int", "default_value": "3"},
    {"name": "fast", "param_type": "optional", "type": "bool", "default_value": "false"}]}]
JSON
"$ZOE" op new "$work/two.json" --out "$work/two"
build "$work/two" "$work/two/build"
(cd "$work/two" && "$python" -m pytest -q -p no:cacheprovider tests)

echo "the tutorial's files in three combinations of types"
cat > "$work/three.json" <<'JSON'
[{"op": "RmsnormCustom", "language": "cpp",
  "input_desc": [
    {"name": "x", "param_type": "required", "format": ["ND"], "type": ["fp16", "bf16", "float"]},
    {"name": "gamma", "param_type": "optional", "format": ["ND"], "type": ["fp16", "bf16", "float"]}],
  "output_desc": [{"name": "y", "param_type": "required", "format": ["ND"], "type": ["fp16", "bf16", "float"]}],
  "attr": [{"name": "eps", "param_type": "optional", "type": "float", "default_value": "1e-6"}]}]
JSON
"$ZOE" op new "$work/three.json" --out "$work/three"
cp -r "$source/examples/custom_op/rmsnorm/op_host" "$source/examples/custom_op/rmsnorm/op_kernel" \
    "$source/examples/custom_op/rmsnorm/tests" "$work/three/"
build "$work/three" "$work/three/build"
(cd "$work/three" && "$python" -m pytest -q -p no:cacheprovider tests)

echo "attributes without a default: tests and bench.py of the identity pass as they are generated"
cat > "$work/sum.json" <<'JSON'
[{"op": "RowSum", "language": "cpp",
  "input_desc": [{"name": "x", "param_type": "required", "format": ["ND"], "type": ["float"]}],
  "output_desc": [{"name": "y", "param_type": "required", "format": ["ND"], "type": ["float"]}],
  "attr": [
    {"name": "early", "param_type": "optional", "type": "float", "default_value": "2.5"},
    {"name": "count", "param_type": "required", "type": "int"},
    {"name": "scale", "param_type": "required", "type": "float"},
    {"name": "fast", "param_type": "required", "type": "bool"}]}]
JSON
"$ZOE" op new "$work/sum.json" --out "$work/sum"
build "$work/sum" "$work/sum/build"
(cd "$work/sum" && "$python" -m pytest -q -p no:cacheprovider tests && "$python" bench.py --seconds 0.05)

echo "sums of rows: those of width 0 are 0; an operator that would leave an output unwritten is refused"
cat > "$work/sum/op_host/row_sum.c" <<'C'
#include "op.h"

bool op_infer(op_call *call)
{
    size_t shape[OP_MOST_AXES];
    const int rank = op_rank(call, INPUT_X);
    if (rank < 1)
        return op_refuse(call, "x has no axes, wanted at least 1");
    for (int i = 0; i < rank - 1; i++)
        shape[i] = op_size(call, INPUT_X, i);
    shape[rank - 1] = 1;
    return op_output(call, OUTPUT_Y, rank, shape);
}

bool op_tile(op_call *call, op_tiling *tiling)
{
    op_tile_rows(call, tiling, INPUT_X);
#ifdef NO_ROWS
    tiling->rows = 0;
#endif
    return true;
}
C
cat > "$work/sum/op_kernel/row_sum.c" <<'C'
static void KERNEL(const op_block *block)
{
    const size_t width = block->tiling->width;
    const float *x = (const float *)block->input[INPUT_X];
    float *y = (float *)block->output[OUTPUT_Y];
    for (size_t row = block->first; row < block->first + block->rows; row++)
        y[row] = tile_sum(x + row * width, width);
}
C
cat > "$work/sum.py" <<'PYTHON'
import sys

import torch

torch.ops.load_library(sys.argv[1])
row_sum = torch.ops.custom.row_sum
for width in (0, 1, 40):
    for leading in ((8,), (2, 40000), (2, 0), (0,), ()):
        x = torch.ones(*leading, width)
        kept = [torch.full((*leading, 1), 7.0) for _ in range(8)]  # what memory may hold afterwards
        del kept
        try:
            y = row_sum(x, 1.0, 2, 3.0, True)
        except RuntimeError as error:
            assert len(sys.argv) > 2 and str(error).startswith("row_sum: op_tile gives 0 rows, but y is not empty"), error
            assert 0 not in leading
            continue
        assert len(sys.argv) == 2 or 0 in leading
        assert torch.equal(y, x.sum(-1, keepdim=True)), (leading, width)
PYTHON
build "$work/sum" "$work/sum/build"
"$python" "$work/sum.py" "$work/sum/build/librow_sum.so"
CFLAGS="$CFLAGS -DNO_ROWS" build "$work/sum" "$work/sum/none"
"$python" "$work/sum.py" "$work/sum/none/librow_sum.so" refused

echo "its tests notice a kernel that is wrong: gamma added, not multiplied"
cp -r "$work/rmsnorm" "$work/wrong"
sed -i 's/a \* scale \* g/a * scale + g/' "$work/wrong/op_kernel/rmsnorm_custom.c"
build "$work/wrong" "$work/wrong/other"
if OP_LIBRARY=$work/wrong/other/librmsnorm_custom.so "$python" -m pytest -q -p no:cacheprovider -k test_values \
    "$work/wrong/tests" > "$work/log"; then
    echo "the tests passed with gamma added"
    exit 1
fi
grep -q "units from the reference" "$work/log"

echo "two operators in one process; a second library of one of them adds nothing and says so"
"$python" - "$work" 2> "$work/log" <<'PYTHON'
import sys

import torch

for name in ("rmsnorm/build/librmsnorm_custom.so", "two/build/libtwo_things.so", "wrong/other/librmsnorm_custom.so"):
    torch.ops.load_library(f"{sys.argv[1]}/{name}")
x, gamma = torch.randn(3, 64).half(), torch.full((64,), 2.0).half()
assert torch.equal(torch.ops.custom.rmsnorm_custom(x, gamma), 2 * torch.ops.custom.rmsnorm_custom(x))
y, z = torch.ops.custom.two_things(x, fast=True)
assert torch.equal(y, x) and z.dtype == torch.float32
PYTHON
grep -q "torch has an operator custom::rmsnorm_custom already" "$work/log" || { cat "$work/log"; exit 1; }
