# --compute int8: near what float gives, noted, planned, resumed, with LoRAs and with stored types.
. "$COMMON"

bare() {
    tiny --steps 4 --no-metadata "$@"
}
# expect_near A B DB
expect_near() {
    zoe compare "$1" "$2" --min-psnr "$3"
    expect_code 0
}

bare --latents-out float.safetensors
expect_code 0
bare --compute float --latents-out again.safetensors
expect_same float.safetensors again.safetensors
bare --compute int8 --latents-out int8.safetensors
expect_code 0
expect_different float.safetensors int8.safetensors
expect_near float.safetensors int8.safetensors 35
bare --compute int8 --threads 3 --latents-out three.safetensors
expect_same int8.safetensors three.safetensors
bare --compute int8 --dtype bf16 --latents-out bf16.safetensors
expect_code 0
expect_near float.safetensors bf16.safetensors 35

# One transformer, with tokens of two timesteps.
TI2V=$DATA/e2e_ti2v
one() {
    zoe generate --transformer "$TI2V/ckpt" --vae "$TI2V/ckpt_safetensors/vae.safetensors" --tokenizer \
        "$CKPT/google/umt5-xxl" --text-encoder "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --prompt "A white cat sits." \
        --image "$IMAGE" --size 96x64 --frames 5 --steps 4 --guide-scale 4 --seed 43 --threads 1 --no-metadata "$@"
}
one --latents-out float1.safetensors
one --compute int8 --latents-out int8_1.safetensors
expect_code 0
expect_near float1.safetensors int8_1.safetensors 35

# Weights in blocks and a LoRA, of rank and as a difference, are quantised from their values.
cp "$CKPT/high_noise_model/config.json" .
"$RECAST" "$CKPT/high_noise_model" q8.gguf type=q8_0 || bad "recast"
bare --compute int8 --high-noise q8.gguf --latents-out q8.safetensors
expect_code 0
expect_near float.safetensors q8.safetensors 35
"$LORA" make "$CKPT/high_noise_model" lora.safetensors 1 || bad "no LoRA"
bare --lora lora.safetensors:high=4 --latents-out lora_float.safetensors
bare --lora lora.safetensors:high=4 --compute int8 --latents-out lora_int8.safetensors
expect_code 0
expect_near lora_float.safetensors lora_int8.safetensors 50
zoe compare float.safetensors lora_int8.safetensors --min-psnr 50
expect_code 1

# It is noted and repeated; another kind of products is another run.
tiny --compute int8 --out a.mp4 --checkpoint state
expect_code 0
grep -aq 'Compute: int8' a.mp4 || bad "the comment does not say int8"
zoe generate --threads 1 --from a.mp4 --model "$CKPT" --image "$IMAGE" --out b.mp4
expect_code 0
zoe compare a.mp4 b.mp4 --min-psnr 1000
expect_code 0
zoe generate --threads 1 --resume state --out c.mp4
expect_code 0
zoe compare a.mp4 c.mp4 --min-psnr 1000
expect_code 0
zoe generate --threads 1 --resume state --compute float
expect_code 2
expect_says 'products: int8 in the checkpoint, float asked for'

# The plan counts the weights that are made; f32 originals are not counted beside them.
steps_float=$(plan steps_bytes)
steps_int8=$(plan steps_bytes --compute int8)
[ "$steps_int8" -lt "$steps_float" ] || bad "the steps take $steps_int8 bytes in int8, $steps_float in float"
finish
