# Files of the right length with wrong bytes: one NaN in one weight is reported, by the run and, by its tensor's name, by
# `zoe info --verify`; a flipped bit changes the digest.
. "$COMMON"

cp -r "$CKPT" ckpt
low=ckpt/low_noise_model/diffusion_pytorch_model.safetensors
for tensor in blocks.1.self_attn.q.weight text_embedding.0.weight patch_embedding.bias; do
    cp "$CKPT/low_noise_model/${low##*/}" $low
    "$TOOL" poison $low $tensor || bad "cannot spoil $tensor"
    tiny --model ckpt --boundary 1 --out v.mp4
    expect_code 1
    expect_says "step 1 of 2: the low-noise expert gave NaN or inf in the conditional branch (ckpt/low_noise_model)"
    expect_no_files v.mp4
    expect_no_parts
    zoe info --verify $low
    expect_code 3
    expect_says $tensor
    expect_says NaN
    # The names of the other tensors are no part of the sentence.
    expect_silent_about blocks.0.ffn.2.bias
done
zoe info --verify ckpt/low_noise_model
expect_code 3
expect_says patch_embedding.bias

# Sound files pass.
for part in low_noise_model high_noise_model Wan2.1_VAE.pth models_t5_umt5-xxl-enc-bf16.pth; do
    zoe info --verify "$CKPT/$part"
    expect_code 0
done

# A flipped bit in the last byte of the data: nothing is broken, but the digest is another one.
digest() {
    zoe info --verify "$1"
    expect_code 0
    sed 's/^[^:]*: //' stdout | grep -oE '[0-9a-f]{64}' | sort -u
}
cp "$CKPT/low_noise_model/${low##*/}" $low
before=$(digest $low)
again=$(digest "$CKPT/low_noise_model/${low##*/}")
expect_equal "the digest of a copy" "$again" "$before"
[ -n "$before" ] || bad "no digest is printed"
"$TOOL" flip $low -1 || bad "cannot flip"
after=$(digest $low)
[ "$before" != "$after" ] || bad "a flipped bit does not change the digest"
finish
