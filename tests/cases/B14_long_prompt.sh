# A prompt over the model's length is cut, with a warning that has the numbers; the end token stays.
. "$COMMON"

long=$(awk 'BEGIN { for (i = 0; i < 600; i++) printf "cat " }')
tiny --prompt "$long" --frames 1 --latents-out l.safetensors
expect_code 0
expect_says 'zoe: warning: the prompt has'
expect_says '32'
expect_equal prompt_tokens "$(plan prompt_tokens --prompt "$long")" 32
expect_equal prompt_tokens "$(plan prompt_tokens --prompt cat)" "$(plan prompt_tokens --prompt ' cat ')"
finish
