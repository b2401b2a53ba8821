# GGUF against the gguf package of Python, where there is one: what `zoe convert` writes is read by the package, and what
# the package writes is read here, with the same values to the last bit. ZOE_PYTHON names a python that has the package.
. "$COMMON"

python=${ZOE_PYTHON:-python3}
"$python" -c 'import gguf' 2>/dev/null || {
    echo "skipped: $python has no package gguf (pip install gguf, or name another python in ZOE_PYTHON)"
    exit 77
}
# package WHAT FILES...
package() {
    said="gguf_check.py $*"
    "$python" "${COMMON%/*}/gguf_check.py" "$@" >stdout 2>stderr
    code=$?
    expect_code 0
}

# Rows of 256 elements, so that every type has whole blocks.
"$TYPES" make in.safetensors 256 256 1 || bad "no transformer"
for type in f32 f16 bf16 q8_0 q6_k q5_k q5_1 q5_0 q4_k q4_1 q4_0 q3_k q2_k; do
    kind=$(echo $type | tr a-z A-Z)
    zoe convert in.safetensors ours.gguf --type $type
    expect_code 0
    zoe convert ours.gguf values.safetensors --type f32
    expect_code 0
    package check ours.gguf values.safetensors "$kind"
    rm -f ours.gguf values.safetensors

    package write in.safetensors theirs.gguf values.safetensors "$kind"
    zoe convert theirs.gguf read.safetensors --type f32
    expect_code 0
    package check theirs.gguf read.safetensors "$kind"
    # The package's own reader is not the only witness: the values are those that its quantiser gave.
    zoe convert values.safetensors sorted.safetensors --type f32
    expect_code 0
    expect_same read.safetensors sorted.safetensors
    rm -f theirs.gguf values.safetensors read.safetensors sorted.safetensors
done

# A text encoder has the names of llama.cpp there.
for type in f16 q8_0; do
    zoe convert "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" t5.gguf --type $type
    expect_code 0
    zoe convert t5.gguf t5.safetensors --type f32
    expect_code 0
    package same t5.gguf t5.safetensors
    rm -f t5.gguf t5.safetensors
done
finish
