# A NaN ends the run at the step where it appears; step, expert and branch are named and there is no video.
. "$COMMON"

spoil() {
    rm -rf ckpt
    cp -r "$CKPT" ckpt
    "$TOOL" poison "ckpt/$1" "$2" || bad "cannot spoil $1"
    tiny --model ckpt --steps 8 --out v.mp4 --frames-out frames --latents-out l.safetensors
    expect_code 1
    expect_no_files v.mp4 frames l.safetensors
    expect_no_parts
}
spoil low_noise_model/diffusion_pytorch_model.safetensors blocks.0.ffn.2.bias
expect_says 'step 4 of 8'
expect_says 'low-noise expert'
expect_says 'conditional branch'
expect_says 'steps 3/8'
spoil high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors head.head.bias
expect_says 'step 1 of 8'
expect_says 'high-noise expert'

tiny --model ckpt --out v.mp4 --progress json
expect_code 1
"$TOOL" json stderr || bad "not every line is a JSON event"
expect_equal code "$("$TOOL" get stderr error code)" NONFINITE
finish
