# A NaN ends the run at the step where it appears; stage, step, expert and branch are named and there is no video.
. "$COMMON"

# failed_run OPTIONS: no output is left, an old one stays.
failed_run() {
    echo old >v.mp4
    tiny --out v.mp4 --frames-out frames --latents-out l.safetensors "$@"
    expect_code 1
    expect_says 'NaN or inf'
    expect_equal "the old file" "$(cat v.mp4)" old
    expect_no_files frames l.safetensors
    expect_no_parts
}
# spoil FILE TENSOR: a fresh checkpoint with one NaN.
spoil() {
    rm -rf ckpt
    cp -r "$CKPT" ckpt
    "$TOOL" poison "ckpt/$1" "$2" || bad "cannot spoil $1"
}

# A block of the low-noise expert: its first step is where the boundary puts it, step 2 and step 4 of 8.
low=low_noise_model/diffusion_pytorch_model.safetensors
spoil $low blocks.0.ffn.2.bias
failed_run --model ckpt --steps 8 --boundary 0.999
expect_says 'step 2 of 8: the low-noise expert gave NaN or inf in the conditional branch (ckpt/low_noise_model'
expect_says 'steps 1/8'
expect_silent_about 'steps 2/8'
failed_run --model ckpt --steps 8
expect_says 'step 4 of 8: the low-noise expert'
expect_says 'steps 3/8'

spoil high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors head.head.bias
failed_run --model ckpt --steps 8
expect_says 'step 1 of 8: the high-noise expert'
failed_run --model ckpt --progress json
"$TOOL" json stderr || bad "not every line is a JSON event"
expect_equal code "$("$TOOL" get stderr error code)" NONFINITE

# The network's parts before and after the steps.
"$TOOL" spoil_vae "$CKPT/Wan2.1_VAE.pth" encoder.safetensors conv1.bias nan || bad "cannot spoil the VAE"
failed_run --vae encoder.safetensors
expect_says 'the VAE encoder gave NaN or inf for the picture (encoder.safetensors)'
expect_silent_about 'steps begins'
echo old >v.mp4
"$TOOL" spoil_vae "$CKPT/Wan2.1_VAE.pth" decoder.safetensors conv2.bias nan || bad "cannot spoil the VAE"
tiny --vae decoder.safetensors --out v.mp4 --frames-out frames
expect_code 1
expect_says 'the VAE decoder gave NaN or inf in frame 0 (decoder.safetensors)'
expect_equal "the old file" "$(cat v.mp4)" old
expect_no_files frames
expect_no_parts
finish
