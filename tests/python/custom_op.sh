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
