# A transformer larger than --memory: its blocks are read ahead of use and let go afterwards. The same bytes as with all of
# it in memory, no more memory than was allowed, and a refusal that tells what cannot be streamed.
. "$COMMON"
TI2V=$DATA/e2e_ti2v
large=large.safetensors
"$RANDOM_MODEL" wan $large dim=512 ffn=2048 layers=20 text=48 || exit 1
bytes=$(wc -c <$large)

# run ARGS: one step of both branches.
request="--transformer $large --vae $TI2V/ckpt_safetensors/vae.safetensors --tokenizer $CKPT/google/umt5-xxl
    --text-encoder $CKPT/models_t5_umt5-xxl-enc-bf16.pth --prompt cat --negative-prompt blurry --size 96x64 --frames 5 --steps 2
    --seed 1 --threads 1 --no-metadata --progress json"
run() {
    # shellcheck disable=SC2086
    zoe generate $request "$@"
}

# limited MEMORY ARGS: the same within so much, measured.
limited() {
    limit=$1
    shift
    said="zoe generate --memory $limit $*"
    # shellcheck disable=SC2086
    most=$("$TOOL" memory "$ZOE" generate $request --memory "$limit" "$@" 2>stderr)
    code=$?
    expect_code 0
    [ -n "${SANITIZED:-}" ] || [ "$most" -le "$limit" ] || bad "$most bytes were held, $limit are allowed"
}
stays() {
    "$TOOL" get stderr plan resident
}

run --latents-out whole.safetensors --memory 1G
expect_code 0
expect_equal "layers that stay" "$(stays)" 20

for MiB in 105 150; do
    limit=$((MiB << 20))
    [ $limit -lt "$bytes" ] || bad "the model has only $bytes bytes"
    limited $limit --latents-out $MiB.safetensors --verbose
    [ "$(stays)" -lt 20 ] || bad "nothing is streamed in $MiB MiB"
    expect_says 'layers stay in memory, the others are read ahead of use and let go afterwards, once for both branches'
    expect_same whole.safetensors $MiB.safetensors
done
[ "$(stays)" -gt 5 ] || bad "only $(stays) layers stay in 150 MiB"

# One branch, and branches of which a cache decides.
run --latents-out one.safetensors --guide-scale 1
limited $((105 << 20)) --latents-out one_streamed.safetensors --guide-scale 1
expect_same one.safetensors one_streamed.safetensors
cache='FBCache,force=true'
run --latents-out cached.safetensors --cache $cache
expect_code 0
limited $((120 << 20)) --latents-out cached_streamed.safetensors --cache $cache --verbose
expect_says 'for each branch in turn (the step cache decides on each alone)'
expect_same cached.safetensors cached_streamed.safetensors

# Weights in int8 are made in one reading and stay.
run --latents-out int8.safetensors --compute int8
expect_code 0
limited $((200 << 20)) --latents-out int8_streamed.safetensors --compute int8
expect_same int8.safetensors int8_streamed.safetensors
run --latents-out l.safetensors --compute int8 --memory 105M
expect_code 4
expect_says 'weights in int8, which are never streamed), 105 MiB are allowed'

run --latents-out l.safetensors --memory 80M
expect_code 4
expect_says 'of it weights, the others are streamed), 80 MiB are allowed'
expect_no_files l.safetensors
finish
