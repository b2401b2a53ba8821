# The prompt is cleaned as the official code does it: what comes out of the rules is what the model sees. See also the C
# file.
. "$COMMON"

said=case_B15_cleaning
"$CASES/case_B15_cleaning" "$DATA" >stdout 2>stderr
code=$?
expect_code 0

# both RAW CLEAN: the same video; other text, another one.
both() {
    tiny --prompt "$1" --frames 1 --steps 1 --no-metadata --latents-out raw.safetensors
    expect_code 0
    tiny --prompt "$2" --frames 1 --steps 1 --no-metadata --latents-out clean.safetensors
    expect_code 0
    expect_same raw.safetensors clean.safetensors
    tiny --prompt "$2 x" --frames 1 --steps 1 --no-metadata --latents-out other.safetensors
    expect_different clean.safetensors other.safetensors
}
both '“curly” ’quote' "\"curly\" 'quote"
both 'ﬁre ＡＢＣ' 'fire ABC'
both '&amp;amp;lt;b&gt;' '<b>'
both "$(printf 'white\343\200\200cat\302\240sits')" 'white cat sits'
finish
