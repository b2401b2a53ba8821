# GGUF: what the file says of its architecture is advice; its tensors tell what it is.
. "$COMMON"

cp "$CKPT/high_noise_model/config.json" .
tiny --no-metadata --latents-out official.safetensors
for arch in arch=wan arch=pig arch=cow arch=flux arch= 'arch=a
b' ''; do
    "$RECAST" "$CKPT/high_noise_model" high.gguf ${arch:+"$arch"} || bad "recast $arch"
    tiny --no-metadata --high-noise high.gguf --latents-out gguf.safetensors
    expect_code 0
    expect_same official.safetensors gguf.safetensors
done

# The names may have the prefix of whole checkpoints.
"$RECAST" "$CKPT/high_noise_model" high.gguf prefix=model.diffusion_model.
tiny --no-metadata --high-noise high.gguf --latents-out gguf.safetensors
expect_code 0
expect_same official.safetensors gguf.safetensors

# Without a Wan model in it, no architecture helps.
"$RECAST" "$CKPT/high_noise_model" high.gguf arch=wan prefix=other.
tiny --dry-run --high-noise high.gguf
expect_code 3
expect_says 'no Wan model'
finish
