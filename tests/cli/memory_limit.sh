# --memory: what does not fit is refused before the work, with what would fit; what fits stays below the limit.
. "$COMMON"

# A clip of which both frames and size matter to memory.
clip="--size 128x128 --frames 301 --steps 1 --guide-scale 1 --progress json"
limited() {
    # shellcheck disable=SC2086
    tiny $clip --latents-out l.safetensors "$@"
}

limited --dry-run
expect_code 0
peak=$("$TOOL" get stderr plan peak_bytes)

# One byte less is too little, and nothing was begun.
for more in --verbose --dry-run; do
    limited --memory $((peak - 1)) $more
    expect_code 4
    expect_equal "code" "$("$TOOL" get stderr error code)" NOMEM
    expect_says 'are allowed; '
    expect_silent_about '"plan"'
    expect_no_files l.safetensors
    expect_no_parts
done

# What is suggested fits, and the process holds no more than the limit.
limit=$((peak - peak / 40))
limited --memory $limit
expect_code 4
frames=$(sed -n 's/.*are allowed; \([0-9]*\) frames\{0,1\} at this size would fit.*/\1/p' stderr)
size=$(sed -n 's/.* at size \([0-9]*x[0-9]*\).*/\1/p' stderr)
limited --memory $limit --frames "${frames:-none}" --dry-run
expect_code 0
said="zoe generate --size $size --memory $limit"
# shellcheck disable=SC2086
most=$("$TOOL" memory "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." \
    --negative-prompt blurry --seed 1 --threads 1 $clip --latents-out l.safetensors --memory $limit \
    --size "${size:-none}" 2>stderr)
code=$?
expect_code 0
[ -n "${SANITIZED:-}" ] || [ "$most" -le $limit ] || bad "$most bytes were held, $limit are allowed"

# The program and the weights alone are too much: no frames, no size.
limited --memory 1M
expect_code 4
expect_says 'no number of frames and no size would fit'
limited --memory 0
expect_code 2
finish
