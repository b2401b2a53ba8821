# Every allocation of a tiny job fails in turn: see B49_allocations.c. Under sanitizers, which take five times as long, each
# 11th: 11 is odd to how allocations repeat, and releases do them all.
. "$COMMON"
stride=1
[ -z "$SANITIZED" ] || stride=11

# In memory if that is possible: thousands of small files are written, and flushed, on the way.
base=/dev/shm
[ -w "$base" ] || base=$work
folder=$(mktemp -d "$base/zoe-allocations-XXXXXX")
trap 'rm -rf "$folder" "$work"' EXIT

said="case_b49_allocations, stride $stride"
"$LORA" make "$CKPT/high_noise_model" lora.safetensors 1 3 || bad "no LoRA"
"$CASES/case_B49_allocations" "$CKPT" "$IMAGE" "$folder" "$stride" "$work/lora.safetensors" >stdout 2>stderr
code=$?
expect_code 0
finish
