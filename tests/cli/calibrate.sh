# zoe calibrate: what it writes is taken by --config and --cache and leaves out steps; the same bytes however it is run;
# what is no calibration is refused.
. "$COMMON"
export SOURCE_DATE_EPOCH=1700000000

# The tiny model has two experts; of 12 steps, 5 are the high-noise one's.
REQUEST="--model $CKPT --image $IMAGE --size 64x64 --frames 5 --steps 12 --seed 1 --negative-prompt blurry"
calibrate() {
    zoe calibrate --threads 1 "$@" -- $REQUEST
}
# skipped: the number in the closing line.
skipped() {
    sed -n 's/.*the cache skipped \([0-9]*\) of .*/\1/p' stderr
}
# cache METHOD FILE: what stands in the file for the command line.
cache() {
    sed -n "s/^#   --cache \"\($1,.*\)\"\$/\1/p" "$2"
}

calibrate -p "A white cat sits." -p "A dog runs." --out a.yaml --csv a.csv
expect_code 0
expect_nothing_on_stdout
expect_says 'run 2/2: seed 2'
expect_says 'TeaCache from 40 samples'
expect_no_parts
expect_equal "rows" "$(wc -l <a.csv)" 49
expect_equal "the head" "$(head -n 1 a.csv)" \
    run,seed,step,expert,branch,modulated,embedding,projection,residual,output,magnitude
expect_equal "a first step" "$(sed -n 2p a.csv)" 1,1,1,high,cond,,,,,,
expect_equal "the switch" "$(sed -n 12p a.csv | cut -d, -f1-10)" 1,1,6,low,cond,,,,,
for text in 'on 2023-11-14.' 'Wan 2.2 I2V-A14B (i2v-A14B), "ckpt"' 'high_noise_model", fingerprint ' \
    '12 (high-noise expert 5, low-noise expert 7, boundary 0.9), solver unipc, shift 5, guidance 3.5,3.5, f32' \
    '#   seed 2: "A dog runs.", "input.png"' 'all: 40 samples' 'high-noise expert: 16 samples' \
    'low-noise expert: 24 samples'; do
    grep -qF -- "$text" a.yaml || bad "a.yaml lacks: $text"
done

# The ratios are the means of the table of samples.
expect_equal "the first ratios" "$(cache MagCache a.yaml | cut -d[ -f2 | cut -d, -f1-2)" "1, 1"
mean=$(awk -F, '$3 == 6 && $5 == "uncond" { sum += $11 } END { printf "%.5f", sum / 2 }' a.csv)
found=$(cache MagCache a.yaml | cut -d[ -f2 | tr -d ' ]' | cut -d, -f12)
expect_equal "the ratio over the switch" "$(printf %.5f "$found")" "$mean"

# Twice, with other threads, and the prompts from a file: the same bytes.
printf '\357\273\277# a remark\r\nA white cat sits.\r\n\n%s\tA dog runs.\n' "$IMAGE" >list
calibrate --prompts list --out b.yaml --csv b.csv
expect_code 0
expect_same a.yaml b.yaml
expect_same a.csv b.csv
zoe calibrate --threads 2 -p "A white cat sits." -p "A dog runs." --out b.yaml --csv b.csv -- $REQUEST
expect_code 0
expect_same a.yaml b.yaml
expect_same a.csv b.csv

# It is taken, and does the same by either way.
run() {
    zoe generate $REQUEST --threads 1 --prompt "A white cat sits." --no-metadata --latents-out l.safetensors "$@"
}
run
expect_code 0
cp l.safetensors none.safetensors
calibrate -p "A white cat sits." -p "A dog runs." --method MagCache --out m.yaml
expect_code 0
for method in TeaCache MagCache; do
    file=a.yaml
    [ $method = TeaCache ] || file=m.yaml
    sed 's/^    threshold: .*/    threshold: 10/' $file >high.yaml
    run --config high.yaml
    expect_code 0
    [ "$(skipped)" -gt 1 ] || bad "$method: $(skipped) steps were skipped"
    expect_different l.safetensors none.safetensors
    cp l.safetensors config.safetensors
    run --cache "$(cache $method $file),threshold=10"
    expect_code 0
    expect_same l.safetensors config.safetensors
    expect_equal "the other method" "$(cache $method a.yaml)" "$(cache $method m.yaml)"
    run --config $file
    expect_code 0
    foretold=$(sed -n 's/^    threshold: .* about \([0-9]*\) of 12 .*/\1/p' $file)
    [ "$foretold" -gt 0 ] && [ "$foretold" -le 6 ] || bad "$method: $foretold steps are foretold"
    # MagCache goes by its table alone; what TeaCache sees depends on the prompt.
    off=$(($(skipped) - foretold))
    [ $off -eq 0 ] || { [ $method = TeaCache ] && [ ${off#-} -eq 1 ]; } ||
        bad "$method skipped $(skipped) steps, foretold were $foretold"
done

# A trained model: the polynomial tells most of what changes, and the threshold leaves out steps.
demo() {
    command=$1
    shift
    zoe "$command" --threads 1 "$@" --model "$DEMO" --image "$EXAMPLES/red-circle.png" --size 64x64 --frames 5 --steps 20
}
demo calibrate -p "a red circle grows" --out demo.yaml -- --seed 4
expect_code 0
expect_silent_about 'explains little'
demo generate --config demo.yaml --prompt "a red circle moves right" --seed 1 --latents-out l.safetensors
expect_code 0
[ "$(skipped)" -ge 4 ] && [ "$(skipped)" -le 11 ] || bad "$(skipped) of 20 steps were skipped"

# One expert, another judge, several seeds, no guidance: both columns of the ratios are the same.
TI2V=$DATA/e2e_ti2v
zoe calibrate --threads 1 --judge embedding --target residual --seeds 2 --out one.yaml -- --transformer "$TI2V/ckpt" \
    --vae "$TI2V/ckpt_safetensors/vae.safetensors" --tokenizer "$CKPT/google/umt5-xxl" --text-encoder \
    "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --prompt 'say "A\B"' --size 96x64 --frames 5 --steps 10 --guide-scale 1
expect_code 0
expect_says 'run 2/2: seed 1'
grep -qF 'seed 0: "say \x22A\x5CB\x22"' one.yaml || bad "the prompt is not in one.yaml"
! grep -q 'expert' one.yaml || bad "one.yaml speaks of experts"
grep -qF 'judge: "embedding"' one.yaml || bad "the judge is not in one.yaml"
cache MagCache one.yaml | cut -d[ -f2 | tr -d ' ]' | tr , '\n' | paste - - |
    awk '$1 != $2 { print "differ: " $0; bad = 1 } END { exit bad || NR != 10 }' || bad "the ratios of a run without guidance"

# Ctrl-C: nothing is written, and what was there stays.
cp a.yaml old.yaml
said="an interrupted calibration"
"$TOOL" signal INT 1 'run 1/50' "$ZOE" calibrate -t 1 --seeds 50 --out a.yaml --csv new.csv -- $REQUEST --prompt x 2>stderr
code=$?
expect_code 130
expect_same a.yaml old.yaml
expect_no_files new.csv
expect_no_parts

# Refused before the first run.
refused() {
    wanted=$1 text=$2
    shift 2
    "$@"
    expect_code "$wanted"
    expect_says "$text"
    expect_silent_about "run 1/"
    expect_no_files x.yaml
}
refused 2 'the request is missing' zoe calibrate --out x.yaml
refused 2 '--out is missing' zoe calibrate -- $REQUEST
refused 2 '--out: the name of a file' calibrate --out -
refused 2 'the same file' calibrate --out x.yaml --csv x.yaml
refused 2 'the same file' calibrate --out x.yaml --csv ./x.yaml
echo 'zoe: {steps: 12}' >run.yaml
refused 2 'run.yaml is the file of --config' zoe calibrate --out run.yaml -- --config run.yaml $REQUEST
refused 2 'cannot write' calibrate --out none/x.yaml
cp "$IMAGE" in.png
refused 2 'are the same file' zoe calibrate --out in.png -- $REQUEST --image in.png
expect_same in.png "$IMAGE"
refused 2 '10 to 256 are wanted' zoe calibrate --out x.yaml -- $REQUEST --steps 9
refused 2 '10 to 256 are wanted' zoe calibrate --out x.yaml -- $REQUEST --steps 257
refused 2 'leave it out' zoe calibrate --out x.yaml -- $REQUEST --cache FBCache
refused 2 '--latents-out' zoe calibrate --out x.yaml -- $REQUEST --latents-out l.safetensors
refused 2 '--threads' zoe calibrate --out x.yaml -- $REQUEST --threads 1
refused 2 'is no option' zoe calibrate --out x.yaml -- $REQUEST --frob
refused 2 '--judge' calibrate --out x.yaml --judge hidden
refused 3 'nowhere' zoe calibrate --out x.yaml -- $REQUEST --model nowhere
refused 3 'none.png' zoe calibrate -p a -p b --out x.yaml -- $REQUEST --image none.png
refused 3 'nowhere' calibrate --out x.yaml --prompts nowhere
printf 'a\tb\tc\n' >list
refused 2 'list:1: a line is a prompt' calibrate --out x.yaml --prompts list
printf '# nothing\n' >list
refused 2 'no prompt in it' calibrate --out x.yaml --prompts list
finish
