# An official command line means the same after changing the program's name.
. "$COMMON"

tiny --latents-out ours.safetensors --guide-scale 3.5 --shift 5 --negative-prompt ''
expect_code 0
zoe generate --threads 1 --task i2v-A14B --size '64*64' --ckpt_dir "$CKPT" --offload_model True --convert_model_dtype \
    --image "$IMAGE" --prompt "A white cat sits." --frame_num 5 --sample_steps 2 --sample_solver unipc \
    --sample_shift 5.0 --sample_guide_scale 3.5 --base_seed 1 --t5_cpu --ulysses_size 1 \
    --save_file theirs.mp4 --latents-out theirs.safetensors
expect_code 0
expect_same ours.safetensors theirs.safetensors
expect_files theirs.mp4
for name in offload_model convert_model_dtype t5_cpu; do
    expect_says "--$name changes nothing"
done

# The form with "=", and without an output: zoe.mp4, but never over an old one.
zoe generate --threads 1 --task=i2v-A14B --size=64*64 --ckpt_dir="$CKPT" --image="$IMAGE" --prompt="x" --frame_num=1 \
    --sample_steps=1 --base_seed=-1
expect_code 0
expect_files zoe.mp4
expect_says 'wrote zoe.mp4'
cp zoe.mp4 kept
zoe generate --threads 1 --size 64x64 --ckpt_dir "$CKPT" --image "$IMAGE" --frame_num 1 --sample_steps 1
expect_code 2
expect_says 'zoe.mp4, which would be taken, is there already'
expect_same zoe.mp4 kept

# The parts one by one, and the picture as an operand.
zoe generate --threads 1 --high-noise "$CKPT/high_noise_model" --vae "$CKPT/Wan2.1_VAE.pth" \
    --low-noise "$CKPT/low_noise_model/diffusion_pytorch_model.safetensors" \
    --text-encoder "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --tokenizer "$CKPT/google/umt5-xxl" \
    --prompt "A white cat sits." --size 64x64 --frames 5 --steps 2 --seed 1 --no-metadata --latents-out parts.safetensors \
    "$IMAGE"
expect_code 0
tiny --latents-out ours.safetensors --negative-prompt '' --no-metadata
expect_same ours.safetensors parts.safetensors
finish
