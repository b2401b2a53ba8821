# Which expert works when is stated, the boundary itself is the high-noise expert's, the guidance pair is (low, high).
. "$COMMON"

expect_equal 'high steps at 0.9' "$(plan high_steps --steps 8)" 3
expect_equal 'low steps at 0.9' "$(plan low_steps --steps 8)" 5
# The first timestep is 999: at exactly this boundary it is high.
expect_equal 'high steps at 0.999' "$(plan high_steps --steps 8 --boundary 0.999)" 1
expect_equal 'high steps at 1' "$(plan high_steps --steps 8 --boundary 1)" 0
expect_equal 'low steps at 0' "$(plan low_steps --steps 8 --boundary 0)" 0
# A scale of 1 saves the second pass: of the five low steps, then of the three high ones.
expect_equal 'passes with low scale 1' "$(plan passes --steps 8 --guide-scale 1,3.5)" 11
expect_equal 'passes with high scale 1' "$(plan passes --steps 8 --guide-scale 3.5,1)" 13
tiny --dry-run --steps 8
expect_says '3 with the high-noise expert, 5 with the low-noise expert'

tiny --steps 8 --no-metadata --latents-out right.safetensors
tiny --steps 8 --no-metadata --latents-out swapped.safetensors \
    --high-noise "$CKPT/low_noise_model" --low-noise "$CKPT/high_noise_model"
expect_code 0
expect_different right.safetensors swapped.safetensors

# One expert alone is no model.
zoe generate --high-noise "$CKPT/high_noise_model" --image "$IMAGE" --out v.mp4
expect_code 2
expect_says --low-noise
mkdir half
ln -s "$CKPT"/* half
rm half/low_noise_model
tiny --model half --out v.mp4
expect_code 3
expect_says low_noise_model
finish
