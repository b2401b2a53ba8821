# A prompt over the model's length is cut, with a warning that has the numbers; the end token stays. See also the C file.
. "$COMMON"

said=case_B14_long_prompt
"$CASES/case_B14_long_prompt" "$DATA" >stdout 2>stderr
code=$?
expect_code 0

# The tiny model, told that it takes 512 tokens as the real ones do.
cp -r "$CKPT" long
for config in long/*_noise_model/config.json; do
    sed 's/"text_len": 32/"text_len": 512/' "$config" >c.json
    expect_different c.json "$config"
    mv c.json "$config"
done
prompt=$(awk 'BEGIN { for (i = 0; i < 600; i++) printf "cat " }')
tiny --model long --prompt "$prompt" --frames 1 --no-metadata --latents-out all.safetensors
expect_code 0
expect_says 'zoe: warning: the prompt has 601 tokens; the model takes 512, the rest is left out'
expect_says 'text tokens: prompt 512,'

# What is left out counts for nothing; what is kept does, up to the last word.
words() {
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "cat " }'
}
tiny --model long --prompt "$(words 511)" --frames 1 --no-metadata --latents-out kept.safetensors
expect_code 0
expect_silent_about warning
expect_same all.safetensors kept.safetensors
tiny --model long --prompt "$(words 510)" --frames 1 --no-metadata --latents-out fewer.safetensors
expect_silent_about warning
expect_says 'text tokens: prompt 511,'
expect_different all.safetensors fewer.safetensors

# A negative prompt that was given is warned of too; the model's own, which the tiny tokenizer makes long, is not.
tiny --negative-prompt "$prompt" --frames 1 --dry-run
expect_says 'zoe: warning: the negative prompt has 601 tokens; the model takes 32'
tiny --negative-prompt '' --frames 1 --dry-run
expect_code 0
expect_silent_about warning
finish
