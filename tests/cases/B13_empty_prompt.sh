# No prompt, an empty one and blanks are the same: one end token, and no default in its place. That all other rows of the
# context are zero: B17_padded_rows.c, which tries the empty prompt too.
. "$COMMON"

zoe generate --threads 1 --model "$CKPT" --image "$IMAGE" --size 64x64 --negative-prompt blurry --frames 1 --steps 2 --seed 1 --no-metadata --latents-out none.safetensors
expect_code 0
expect_says 'text tokens: prompt 1,'
for prompt in '' ' ' '
' "$(printf '\t \n ')" "$(printf '\343\200\200\302\240')"; do
    tiny --prompt "$prompt" --frames 1 --no-metadata --latents-out some.safetensors
    expect_code 0
    expect_says 'text tokens: prompt 1,'
    expect_silent_about warning
    expect_same none.safetensors some.safetensors
done
tiny --prompt cat --frames 1 --no-metadata --latents-out some.safetensors
expect_different none.safetensors some.safetensors

# An empty negative prompt, as in the official code, is the one left out: the model's own.
tiny --frames 1 --no-metadata --negative-prompt '' --latents-out empty.safetensors
expect_code 0
zoe generate --threads 1 --model "$CKPT" --image "$IMAGE" --size 64x64 --prompt 'A white cat sits.' --frames 1 --steps 2 --seed 1 --no-metadata --latents-out own.safetensors
expect_same empty.safetensors own.safetensors
tiny --frames 1 --no-metadata --latents-out blurry.safetensors
expect_different empty.safetensors blurry.safetensors

# What is noted in the file is what was given.
tiny --prompt '' --frames 1 --latents-out noted.safetensors
expect_code 0
grep -aqF '\"prompt\":\"\"' noted.safetensors || bad 'the empty prompt is not noted as such'
finish
