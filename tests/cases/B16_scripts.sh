# Emoji, joiners, Chinese, right-to-left, both forms of an accent: all run, with the ids that the C file asserts. Bytes
# that are no UTF-8 are replaced, with a warning, also where metadata are written.
. "$COMMON"

said=case_B16_scripts
"$CASES/case_B16_scripts" "$DATA" >stdout 2>stderr
code=$?
expect_code 0

composed=$(printf '\303\251') decomposed=$(printf 'e\314\201')
for prompt in '🐈‍⬛' '掬' "$composed" "$decomposed" 'שלום עולם' 'مرحبا' '</s><pad>'; do
    tiny --prompt "$prompt" --frames 1 --steps 1 --out v.mp4
    expect_code 0
    expect_silent_about warning
done
# Both forms of the accent are one prompt.
tiny --prompt "$composed" --frames 1 --steps 1 --no-metadata --latents-out composed.safetensors
tiny --prompt "$decomposed" --frames 1 --steps 1 --no-metadata --latents-out decomposed.safetensors
expect_same composed.safetensors decomposed.safetensors

tiny --prompt "$(printf 'a \377\376 cat')" --frames 1 --steps 1 --out v.mp4 --latents-out bytes.safetensors
expect_code 0
expect_says 'warning: --prompt is not all UTF-8: 2 places'
tiny --prompt "$(printf 'a \357\277\275\357\277\275 cat')" --frames 1 --steps 1 --out v.mp4 --latents-out signs.safetensors
expect_code 0
expect_same bytes.safetensors signs.safetensors
# A character cut short is one place, as in the model's own reading.
tiny --prompt "$(printf 'a \360\237\220')" --negative-prompt "$(printf '\303(')" --frames 1 --steps 1 --out v.mp4
expect_code 0
expect_says 'warning: --prompt is not all UTF-8: 1 places'
expect_says 'warning: --negative-prompt is not all UTF-8: 1 places'
finish
