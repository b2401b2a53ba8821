# GGUF: patch_embedding.weight with five dimensions, and folded to four, with the key that gives its shape back and, as
# stable-diffusion.cpp writes it, without.
. "$COMMON"

cp "$CKPT/high_noise_model/config.json" .
tiny --no-metadata --latents-out official.safetensors
for fold in '' fold=yes fold=bare fold=rows; do
    "$RECAST" "$CKPT/high_noise_model" high.gguf arch=wan $fold || bad "recast $fold"
    "$RECAST" "$CKPT/low_noise_model" low.gguf arch=wan $fold || bad "recast $fold"
    tiny --no-metadata --high-noise high.gguf --low-noise low.gguf --latents-out gguf.safetensors
    expect_code 0
    expect_same official.safetensors gguf.safetensors
done

"$RECAST" "$CKPT/high_noise_model" high.gguf fold=wrong
tiny --dry-run --high-noise high.gguf
expect_code 3
expect_says high.gguf
expect_says patch_embedding.weight
expect_says orig_shape

# Half a download.
"$RECAST" "$CKPT/high_noise_model" whole.gguf
head -c 100000 whole.gguf >high.gguf
tiny --dry-run --high-noise high.gguf
expect_code 3
expect_says 'cut off'
expect_says 'has 100000 bytes'
finish
