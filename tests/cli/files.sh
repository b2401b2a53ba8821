# Model files that are missing, broken or exchanged: code 3, the file is named, nothing is written.
. "$COMMON"

# A copy of the checkpoint that may be spoilt, as links but for what is spoilt.
fresh() {
    rm -rf ckpt
    cp -r "$CKPT" ckpt
}
refused() {
    tiny --model ckpt --out v.mp4 "$@"
    expect_code 3
    expect_no_files v.mp4
    expect_no_parts
}

tiny --model nowhere --out v.mp4
expect_code 3
expect_says nowhere
mkdir empty
tiny --model empty --out v.mp4
expect_code 3
expect_says empty

for part in high_noise_model low_noise_model Wan2.1_VAE.pth models_t5_umt5-xxl-enc-bf16.pth google/umt5-xxl; do
    fresh
    rm -r ckpt/$part
    refused
    expect_says "$part"
done

shard=diffusion_pytorch_model-00002-of-00002.safetensors
fresh
rm ckpt/high_noise_model/$shard
refused
expect_says $shard

one=low_noise_model/diffusion_pytorch_model.safetensors
size=$(wc -c <"$CKPT/$one")
for cut in 0 4 8 2000 $((size / 2)) $((size - 1)); do
    fresh
    head -c "$cut" "$CKPT/$one" >ckpt/$one
    refused
    expect_says $one
done

for cut in 0 100 500000; do
    fresh
    head -c $cut "$CKPT/Wan2.1_VAE.pth" >ckpt/Wan2.1_VAE.pth
    refused
    expect_says Wan2.1_VAE.pth
done

# The wrong kind at a place: the sentence names the file and what is missing in it.
fresh
refused --text-encoder ckpt/Wan2.1_VAE.pth
expect_says Wan2.1_VAE.pth
refused --vae ckpt/models_t5_umt5-xxl-enc-bf16.pth
expect_says models_t5_umt5-xxl-enc-bf16.pth
refused --vae ckpt/low_noise_model
expect_says low_noise_model
refused --high-noise ckpt/Wan2.1_VAE.pth
expect_says Wan2.1_VAE.pth
refused --tokenizer ckpt/Wan2.1_VAE.pth
expect_says Wan2.1_VAE.pth
refused --low-noise "$IMAGE"
expect_says "$IMAGE"
echo '{"dim": "many"}' >ckpt/high_noise_model/config.json
refused
expect_says config.json
finish
