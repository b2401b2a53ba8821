# No prompt, an empty one and blanks are the same: one end token; and they run.
. "$COMMON"

zoe generate --threads 1 --model "$CKPT" --image "$IMAGE" --size 64x64 --negative-prompt blurry --frames 1 --steps 2 --seed 1 --no-metadata --latents-out none.safetensors
expect_code 0
expect_says 'text tokens: prompt 1,'
for prompt in '' ' ' '
'; do
    tiny --prompt "$prompt" --frames 1 --no-metadata --latents-out some.safetensors
    expect_code 0
    expect_same none.safetensors some.safetensors
done
tiny --prompt cat --frames 1 --no-metadata --latents-out some.safetensors
expect_different none.safetensors some.safetensors
finish
