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

# A pipe or a device where a file is wanted is refused, not waited for; a pipe that somebody writes to is read where texts
# and pictures are.
mkfifo idle
mkdir folder
mkfifo folder/model.safetensors
# prompt_refusal CODE TEXT COMMAND...
prompt_refusal() {
    wanted=$1 text=$2
    shift 2
    said="$*"
    timeout -k 1 60 "$@" >stdout 2>stderr
    code=$?
    expect_code "$wanted"
    expect_says "$text"
}
nobody='is a pipe to which nobody writes'
prompt_refusal 3 "idle: $nobody" "$ZOE" info idle
prompt_refusal 3 "idle: $nobody" "$ZOE" compare idle "$IMAGE"
prompt_refusal 3 "idle: $nobody" "$ZOE" generate --config idle
prompt_refusal 3 "idle: $nobody" "$ZOE" sweep --settings idle -- --model "$CKPT"
prompt_refusal 3 "idle: $nobody" "$ZOE" generate --model "$CKPT" --image idle --prompt x --out v.mp4
prompt_refusal 3 'idle: is a device or pipe' "$ZOE" generate --model "$CKPT" --image "$IMAGE" --lora idle --out v.mp4
prompt_refusal 1 'idle: is a device or pipe' "$ZOE" convert idle x.gguf --type f16
prompt_refusal 1 'folder/model.safetensors: is a device or pipe' "$ZOE" convert folder x.gguf --type f16
prompt_refusal 3 '/dev/zero: is a device or pipe' "$ZOE" generate --config /dev/zero
mkdir -p diffusers/transformer
mkfifo diffusers/model_index.json
prompt_refusal 3 'diffusers/' "$ZOE" generate --model diffusers --image "$IMAGE" --prompt x --out v.mp4
expect_no_files v.mp4 x.gguf
(
    sleep 0.3
    echo "zoe: {model: $CKPT, image: $IMAGE, prompt: x, size: 64x64, frames: 1, steps: 1, seed: 1, threads: 1, out: v.y4m}" >idle
) &
prompt_refusal 0 'wrote v.y4m' "$ZOE" generate --config idle
wait
cat "$IMAGE" >idle &
prompt_refusal 0 'wrote w.y4m' "$ZOE" generate --model "$CKPT" --image idle --prompt x --size 64x64 --frames 1 --steps 1 --seed 1 \
    --threads 1 --out w.y4m
wait
expect_same v.y4m w.y4m
finish
