# Which expert works when is stated, the boundary itself is the high-noise expert's, the guidance pair is (low, high).
. "$COMMON"

expect_equal 'high steps at 0.9' "$(plan high_steps --steps 8)" 3
expect_equal 'low steps at 0.9' "$(plan low_steps --steps 8)" 5
# The first timestep is 999: at exactly this boundary it is high, above it low.
expect_equal 'high steps at 0.999' "$(plan high_steps --steps 8 --boundary 0.999)" 1
expect_equal 'high steps at 0.9991' "$(plan high_steps --steps 8 --boundary 0.9991)" 0
expect_equal 'high steps at 1' "$(plan high_steps --steps 8 --boundary 1)" 0
expect_equal 'low steps at 0' "$(plan low_steps --steps 8 --boundary 0)" 0
# A scale of 1 saves the second pass: of the five low steps, then of the three high ones.
expect_equal 'passes with low scale 1' "$(plan passes --steps 8 --guide-scale 1,3.5)" 11
expect_equal 'passes with high scale 1' "$(plan passes --steps 8 --guide-scale 3.5,1)" 13
tiny --dry-run --steps 8
expect_says '3 with the high-noise expert, 5 with the low-noise expert'

# The first number of the pair is the low-noise expert's: it changes nothing where only the other works, and the second
# nothing where only the low-noise one does.
paired() {
    tiny --steps 2 --frames 1 --no-metadata --boundary "$1" --guide-scale "$2" --latents-out "$3.safetensors"
    expect_code 0
}
paired 0 2,3 high
paired 0 5,3 high_low_changed
paired 0 2,5 high_high_changed
expect_same high.safetensors high_low_changed.safetensors
expect_different high.safetensors high_high_changed.safetensors
paired 1 2,3 low
paired 1 2,5 low_high_changed
paired 1 5,3 low_low_changed
expect_same low.safetensors low_high_changed.safetensors
expect_different low.safetensors low_low_changed.safetensors

# Swapped: another video. Nothing inside the files tells, their names do: a warning; without telling names, the log says
# which is taken for which.
tiny --steps 8 --no-metadata --latents-out right.safetensors --verbose
expect_code 0
expect_says "the high-noise expert is $CKPT/high_noise_model, the low-noise expert $CKPT/low_noise_model; nothing in such files"
expect_silent_about swapped
tiny --steps 8 --no-metadata --latents-out swapped.safetensors \
    --high-noise "$CKPT/low_noise_model" --low-noise "$CKPT/high_noise_model"
expect_code 0
expect_says 'warning: the experts seem to be swapped'
expect_different right.safetensors swapped.safetensors
mkdir Wan-HighNoise-fp8
cp "$CKPT"/low_noise_model/* Wan-HighNoise-fp8
cp -r "$CKPT/high_noise_model" second
tiny --dry-run --high-noise second --low-noise Wan-HighNoise-fp8
expect_code 0
expect_silent_about warning
mv second MODEL_LOW.parts
tiny --dry-run --high-noise MODEL_LOW.parts --low-noise Wan-HighNoise-fp8
expect_code 0
expect_says 'warning: the experts seem to be swapped'
tiny --dry-run --low-noise "$CKPT/high_noise_model" --high-noise "$CKPT/high_noise_model"
expect_code 0
expect_says 'is given for both experts'

# One expert alone is no model.
zoe generate --high-noise "$CKPT/high_noise_model" --image "$IMAGE" --out v.mp4
expect_code 2
expect_says --low-noise
for gone in low_noise_model high_noise_model; do
    mkdir half
    ln -s "$CKPT"/* half
    rm half/$gone
    tiny --model half --out v.mp4
    expect_code 3
    expect_says half
    [ $gone = high_noise_model ] || expect_says 'half: low_noise_model is not there: the low-noise transformer'
    expect_no_files v.mp4
    rm -r half
done
finish
