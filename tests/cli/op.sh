# zoe op new: projects of operators from prototypes, and every way in which a prototype can be wrong.
. "$COMMON"

# proto FILE OP INPUTS OUTPUTS [ATTRS]
proto() {
    printf '{"op": "%s", "language": "cpp", "input_desc": [%s], "output_desc": [%s], "attr": [%s]}\n' \
        "$2" "$3" "$4" "${5:-}" >"$1"
}
X='{"name": "x", "param_type": "required", "format": ["ND"], "type": ["fp16"]}'
Y='{"name": "y", "param_type": "required", "format": ["ND"], "type": ["fp16"]}'
G='{"name": "gamma", "param_type": "optional", "format": ["ND"], "type": ["fp16"]}'

# ---- the prototype of the tutorial, in the form that tutorials write and in msopgen's ----

zoe op new "$EXAMPLES/custom_op/rmsnorm/rmsnorm_custom.json"
expect_code 0
expect_nothing_on_stdout
expect_says 'rmsnorm_custom(Tensor x, Tensor? gamma=None, float eps=1e-06) -> Tensor, 2 kernels'
expect_no_parts
for file in README.md CMakeLists.txt rmsnorm_custom.json op_host/rmsnorm_custom.c op_host/proto.h \
    op_kernel/rmsnorm_custom.c op_kernel/variants.c framework/op.h framework/op.c framework/torch.c \
    framework/torch_stable.h framework/tile.h tests/reference.py tests/test_op.py bench.py; do
    expect_files "rmsnorm_custom/$file"
done
# No word of the templates is left, and no place of this machine.
! grep -rnE '@(op|OP|schema|parameters|attributes|(first_)?(in|out)put|(FIRST_)?(IN|OUT)PUT)@' rmsnorm_custom || bad "a word was left"
! grep -rn "$work" rmsnorm_custom || bad "a path of this machine"

# The prototype that the project holds gives the same project.
zoe op new rmsnorm_custom/rmsnorm_custom.json --out again
expect_code 0
diff -r rmsnorm_custom again >diff.txt || bad "the project of the project's prototype differs: $(head -c 300 diff.txt)"

# It builds without a warning, and says what it registers.
if command -v cmake >/dev/null; then
    for compiler in gcc clang; do
        command -v $compiler >/dev/null || continue
        CC=$compiler CFLAGS="-Werror -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes" \
            cmake -S again -B $compiler >log 2>&1 && cmake --build $compiler >>log 2>&1 || bad "$compiler: $(tail -n 5 log)"
        expect_files $compiler/librmsnorm_custom.so
    done
fi

# What stands at the place is left as it is.
zoe op new "$EXAMPLES/custom_op/rmsnorm/rmsnorm_custom.json"
expect_code 2
expect_says 'rmsnorm_custom is there already'
mkdir empty
zoe op new "$EXAMPLES/custom_op/rmsnorm/rmsnorm_custom.json" --out empty
expect_code 2
zoe op new "$EXAMPLES/custom_op/rmsnorm/rmsnorm_custom.json" --out no/such/folder
expect_code 1
expect_says 'no/such/'
zoe op new "$EXAMPLES/custom_op/rmsnorm/rmsnorm_custom.json" --out slash/
expect_code 0
expect_files slash/README.md

# ---- many tensors, types and flags ----

cat >many.json <<'JSON'
[{"op": "First", "input_desc": [{"name": "x", "type": "float"}], "output_desc": [{"name": "y", "type": "float"}]},
 {"op": "ManyThings", "language": "cpp",
  "input_desc": [
    {"name": "a", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "bf16"]},
    {"name": "b", "param_type": "optional", "format": ["ND"], "type": ["float"]},
    {"name": "c", "param_type": "required", "format": ["ND", "NCHW"], "type": ["float", "bf16"]}],
  "output_desc": [
    {"name": "y", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "float"]},
    {"name": "z", "param_type": "required", "format": ["ND"], "type": ["float"]}],
  "attr": [
    {"name": "count", "param_type": "required", "type": "int"},
    {"name": "fast", "param_type": "optional", "type": "bool", "default_value": "false"},
    {"name": "scale", "param_type": "optional", "type": "float", "default_value": 2},
    {"name": "exact", "type": "bool", "default": true}]}]
JSON
zoe op new many.json
expect_code 3
expect_says 'it has 2 operators, wanted one chosen by --op: First, ManyThings'
zoe op new many.json --op Second
expect_code 3
expect_says 'there is no operator Second; it has First, ManyThings'
zoe op new many.json --op many_things
expect_code 0
expect_says 'many_things(Tensor a, Tensor? b, Tensor c, int count, bool fast=False, float scale=2.0, bool exact=True) -> (Tensor, Tensor), 16 kernels'
if command -v cmake >/dev/null; then
    CFLAGS="-Werror -Wpedantic -Wshadow -Wconversion" cmake -S many_things -B many >log 2>&1 &&
        cmake --build many >>log 2>&1 || bad "$(tail -n 5 log)"
    expect_files many/libmany_things.so
fi
grep -q 'ATTRIBUTES = ({"count": 1},)' many_things/tests/reference.py ||
    bad "no value for a required attribute"
grep -q '^ATTRIBUTES = ({},)' rmsnorm_custom/tests/reference.py || bad "a value for an attribute that has a default"

# Names that are targets of CMake, of the project or of the system.
for pair in All:all Help:help M:m C:c EditCache:edit_cache TorchStub:torch_stub KernelsAvx2:kernels_avx2 Op:op Tile:tile; do
    name=${pair#*:}
    proto p.json "${pair%:*}" "$X" "$Y"
    zoe op new p.json
    expect_code 0
    if command -v cmake >/dev/null; then
        CFLAGS=-Werror cmake -DCMAKE_BUILD_TYPE=Debug -S "$name" -B "$name/build" >log 2>&1 &&
            cmake --build "$name/build" >>log 2>&1 || bad "$name: $(tail -n 5 log)"
        expect_files "$name/build/lib$name.so"
    fi
done

# op_host may say tile_round; a function that nobody has is found when it is built, not when it is loaded.
if command -v cmake >/dev/null; then
    # built WHAT: op with `tiling->scratch =` so
    built() {
        sed "s/tiling->scratch = .*/tiling->scratch = $1;/" kept.c >op/op_host/op.c
        cmake --build op/build >log 2>&1
    }
    cp op/op_host/op.c kept.c
    built '2 * tile_round(tiling->width)' || bad "tile_round: $(tail -n 5 log)"
    ! built 'tile_rounded(tiling->width)' || bad "a function without a declaration was compiled"
    grep -q tile_rounded log || bad "nothing of tile_rounded: $(tail -n 5 log)"
    sed -i 's/^bool op_infer/size_t missing(void);\n&/' kept.c
    ! built 'missing()' || bad "a function without a definition was linked"
    grep -q missing log || bad "nothing of missing: $(tail -n 5 log)"
fi

# A flag that is a macro of C is refused by name, with every compiler.
for name in m_pi size_max fp_nan int64_max; do
    proto p.json Flagged "$X" "$Y" "{\"name\": \"$name\", \"type\": \"bool\", \"default\": true}"
    zoe op new p.json --out "flag_$name"
    expect_code 0
    command -v cmake >/dev/null || continue
    ! { cmake -S "flag_$name" -B "flag_$name/build" && cmake --build "flag_$name/build"; } >log 2>&1 ||
        bad "$name was built"
    grep -qi "the flag $name is a macro of C" log || bad "$name: $(tail -n 5 log)"
done

# Some editors put a mark before UTF-8.
{ printf '\357\273\277'; cat "$EXAMPLES/custom_op/rmsnorm/rmsnorm_custom.json"; } >marked.json
zoe op new marked.json --out marked
expect_code 0
diff -r rmsnorm_custom marked >diff.txt || bad "a mark before the prototype: $(head -c 300 diff.txt)"
for pair in RMSNorm:rms_norm RmsNormZoe:rms_norm_zoe Conv2D:conv2d AddN:add_n x1y:x1y; do
    proto p.json "${pair%:*}" "$X" "$Y"
    zoe op new p.json
    expect_code 0
    expect_files "${pair#*:}/${pair#*:}.json"
done

# ---- refusals: one sentence with the file, the member, what was found and what is wanted ----

# refused CODE TEXT...: of p.json, which leaves nothing behind.
refused() {
    wanted=$1
    shift
    zoe op new p.json --out refused
    expect_code "$wanted"
    expect_says p.json
    for text in "$@"; do
        expect_says "$text"
    done
    expect_equal "lines of the refusal" "$(wc -l <stderr)" 1
    expect_no_files refused
    expect_no_parts
    rm -rf refused
}
# tensor JSON: refused as the first input. attr JSON: as an attribute.
tensor() {
    proto p.json Thing "$1" "$Y"
    shift
    refused 3 "$@"
}
attr() {
    proto p.json Thing "$X, $G" "$Y" "$1"
    shift
    refused 3 "$@"
}

echo '{"op":' >p.json
refused 3 'bad JSON at line'
: >p.json
refused 3 'bad JSON'
echo '{"op": "A", "op": "B"}' >p.json
refused 3 'bad JSON' duplicate
echo '[]' >p.json
refused 3 'the list has no operator'
echo '[3]' >p.json
refused 3 '[0] is 3, wanted an object'
echo '"text"' >p.json
refused 3 'wanted an object'
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "[" }' >p.json
refused 3 'bad JSON'
head -c 2000000 /dev/zero | tr '\0' ' ' >p.json
refused 3 'longer than'
echo '{"op": "Thing", "inputs": [], "outputs": []}' >p.json
refused 3 'a member "inputs"' 'input_desc, output_desc and attr'
for name in '' 3x 'a b' ../../etc '/tmp/x' 'é' for int float Variants proto Name TorchCpu \
    "$(awk 'BEGIN { for (i = 0; i < 64; i++) printf "a" }')"; do
    proto p.json "$name" "$X" "$Y"
    refused 3 'op is'
done
proto p.json Thing "" "$Y"
refused 3 'input_desc has 0 entries'
proto p.json Thing "$X" ""
refused 3 'output_desc has 0 entries'
proto p.json Thing '"x"' "$Y"
refused 3 'input_desc[0] is "x", wanted an object'
proto p.json Thing "$X, $X" "$Y"
refused 3 'two names "x"'
proto p.json Thing "$X" '{"name": "X", "type": "fp16"}'
refused 3 'two names "x"'
proto p.json Thing "$X" '{"name": "y", "param_type": "optional", "type": "fp16"}'
refused 3 'output_desc[0].param_type is "optional"'
proto p.json Thing "$X, {\"name\": \"z\", \"type\": [\"fp16\", \"float\"]}" "$Y"
zoe op new p.json --out two_columns
expect_code 0
tensor '{"name": "x"}' 'input_desc[0].type is missing'
tensor '{"type": "fp16"}' 'input_desc[0].name is missing'
tensor '{"name": "x", "type": 3}' 'input_desc[0].type is 3' float16
tensor '{"name": "x", "type": ["int8"]}' 'input_desc[0].type[0] is "int8"' 'bfloat16'
tensor '{"name": "x", "type": []}' 'input_desc[0].type has 0 entries'
tensor '{"name": "x", "type": ["fp16", "half"]}' 'combinations 0 and 1 have the same types'
tensor '{"name": "x", "type": ["fp16", "bf16"], "format": ["ND", "ND", "ND"]}' 'type has 2 entries' 'have 3'
tensor '{"name": "x", "type": "fp16", "format": ["FRACTAL_NZ"]}' 'format[0] is "FRACTAL_NZ"' NHWC
tensor '{"name": "x", "type": "fp16", "param_type": "optional"}' 'the first input is always there'
tensor '{"name": "x", "type": "fp16", "param_type": "dynamic"}' 'lists of tensors are not supported'
tensor '{"name": "x", "type": "fp16", "param_type": "requierd"}' 'param_type is "requierd"'
tensor '{"name": "x", "type": "fp16", "shape": [1]}' 'input_desc[0] has a member "shape"'
for name in while lambda torch width op_call KERNEL Input_x; do
    tensor "{\"name\": \"$name\", \"type\": \"fp16\"}" "\"$name\", a word that"
done
attr '{"name": "eps", "type": "str", "default": "x"}' 'attr[0].type is "str", wanted float, int or bool'
attr '{"name": "eps", "type": "flaot", "default": "x"}' 'attr[0].type is "flaot"'
attr '{"name": "eps", "type": "float", "param_type": "optional"}' 'attr[0].default_value is missing'
attr '{"name": "eps", "type": "float", "default": 1, "default_value": "1"}' 'both default_value and default'
for value in '"1e-6x"' '""' '" 1"' '"inf"' '"nan"' '"0x10"' true '[1]' '"1e999"'; do
    attr "{\"name\": \"eps\", \"type\": \"float\", \"default\": $value}" "attr[0].default is $value" 'a finite number'
done
for value in 1.5 '"1.0"' '"ten"' 9007199254740993 '"99999999999999999999"'; do
    attr "{\"name\": \"n\", \"type\": \"int\", \"default_value\": $value}" "attr[0].default_value is $value" 'whole number'
done
attr '{"name": "fast", "type": "bool", "default_value": "yes"}' 'wanted true or false'
attr '{"name": "x", "type": "int", "default": 1}' 'two names "x"'
attr '{"name": "has_gamma", "type": "int", "default": 1}' 'two names "has_gamma"'
attr '{"name": "has_x", "type": "bool", "default": true}' 'make the first input optional'
flags=$(for i in 1 2 3 4 5 6; do printf '{"name": "b%d", "type": "bool", "default": true}, ' $i; done)
attr "${flags%, }" '7 optional inputs and bool attributes, wanted at most 6'
many=$(for i in $(seq 17); do printf '{"name": "x%d", "type": "fp16"}, ' "$i"; done)
tensor "${many%, }" 'input_desc has 17 entries'

# ---- places and command lines ----

zoe op new nothing.json
expect_code 3
expect_says nothing.json
zoe op new .
expect_code 3
mkfifo pipe
zoe op new pipe
expect_code 3
zoe op new /dev/null
expect_code 3
# What cannot be written whole leaves nothing.
said="zoe op new under a limit of the size of files"
(ulimit -f 8; exec "$ZOE" op new "$EXAMPLES/custom_op/rmsnorm/rmsnorm_custom.json" --out limited >stdout 2>stderr)
code=$?
expect_code 1
expect_says 'File too large'
expect_no_files limited
expect_no_parts
for line in '' new old 'new a.json b.json' 'old p.json'; do
    # shellcheck disable=SC2086
    zoe op $line
    expect_code 2
    expect_says 'zoe op new PROTO.json'
done
zoe help op
expect_code 0
grep -q 'new PROTO.json' stdout || bad "the help does not teach"
finish
