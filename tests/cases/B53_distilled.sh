# B53: a LoRA that is, by its name, made for few steps in a run of many, or with a step cache; and the fitting run.
. "$COMMON"

"$LORA" make "$CKPT/high_noise_model" Wan22-Lightning-4steps-HIGH.safetensors 1 || bad "no LoRA"
lora=Wan22-Lightning-4steps-HIGH.safetensors
tiny --steps 40 --guide-scale 3.5 --lora "$lora" --dry-run
expect_code 0
expect_says 'made for 4 steps without guidance; the run has 40 steps with guidance 3.5,3.5'
expect_says '--steps 4 --guide-scale 1 --solver euler --shift 5'

# As its authors mean: half of the steps with each expert, each one pass.
tiny --steps 4 --guide-scale 1 --solver euler --shift 5 --lora "$lora" --progress json --latents-out l.safetensors
expect_code 0
expect_silent_about 'made for'
expect_equal "steps of the high-noise expert" "$("$TOOL" get stderr plan high_steps)" 2
expect_equal "passes" "$("$TOOL" get stderr plan passes)" 4

# Each step counts there: no cache.
tiny --steps 20 --guide-scale 1 --cache FBCache --lora "$lora" --dry-run
expect_code 2
expect_says distilled
# One that does not take part does not matter.
tiny --steps 20 --cache FBCache --lora "$lora:0" --dry-run
expect_code 0
finish
