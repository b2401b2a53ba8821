# zoe sweep: a table of settings against the uncached run, and a drawing of it.
. "$COMMON"

# sweep OPTIONS: of a small request.
sweep() {
    zoe sweep --threads 1 "$@" -- --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." --size 64x64 --frames 5 \
        --steps 12 --seed 1
}
# cell FILE NAME N: column N of the row of a setting without commas before it.
cell() {
    grep "^$2," "$1" | cut -d, -f"$3"
}
HEAD=setting,options,steps,steps_computed,runs,seconds,steps_seconds,speedup,steps_speedup,psnr_db,ssim,front

sweep --repeats 2 -s "none: --cache EasyCache,threshold=0" -s 'few <&">: --steps 6 --solver euler' --setting="--shift 3" \
    --csv t.csv --svg t.svg
expect_code 0
expect_nothing_on_stdout
expect_equal "the head" "$(head -n 1 t.csv)" $HEAD
expect_equal "rows" "$(wc -l <t.csv)" 5
expect_equal "the first row" "$(sed -n 2p t.csv | cut -d, -f1-5)" uncached,,12,12,2
expect_equal "its speed" "$(cell t.csv uncached 8-11)" 1.000,1.000,inf,1.000000
expect_equal "a cache that skips nothing" "$(sed -n 3p t.csv | cut -d, -f1-6,11-12 | cut -d, -f1,4-6)" \
    'none,12,12,2'
grep '^none,' t.csv | grep -qF ',inf,1.000000,' || bad "the same run has other frames"
expect_equal "few steps" "$(sed -n 4p t.csv | cut -d, -f1-5)" '"few <&"">",--steps 6 --solver euler,6,6,2'
expect_equal "options alone" "$(sed -n 5p t.csv | cut -d, -f1-5)" '--shift 3,--shift 3,12,12,2'
"$TOOL" markup t.svg || bad "t.svg is broken"
for text in 'few &lt;&amp;&quot;&gt;' '--shift 3' 'class="front"' 'PSNR' 'times as fast' 'medians of 2'; do
    grep -qF -- "$text" t.svg || bad "t.svg lacks: $text"
done
expect_no_parts

# The figures are those of zoe compare, and of zoe generate.
run() {
    tiny --negative-prompt "" --no-metadata --steps 12 "$@"
}
run --frames-out a
run --cache FBCache,threshold=10 --frames-out b
sweep -r 1 -s "cached: --cache FBCache,threshold=10 --prompt 'A white cat sits.'" --speed steps --clock cpu
expect_code 0
grep -q '^cached,' stdout || bad "the table is not on standard output"
cp stdout t.csv
zoe compare a b --json
psnr=$("$TOOL" value stdout total psnr)
found=$(grep '^cached,' t.csv | awk -F, '{ print $(NF - 2) }')
expect_equal PSNR "$found" "$(printf %.3f "$psnr")"
ssim=$("$TOOL" value stdout total ssim)
expect_equal SSIM "$(grep '^cached,' t.csv | awk -F, '{ print $(NF - 1) }')" "$(printf %.6f "$ssim")"
computed=$(grep '^cached,' t.csv | awk -F, '{ print $(NF - 8) }')
[ "$computed" -gt 0 ] && [ "$computed" -lt 12 ] || bad "$computed of 12 steps were computed"

# A file of settings; Ctrl-C keeps what is done.
printf '\357\273\277# a remark\n\n  one: --steps 10\r\ntwo: --steps 11\n' >list
said="an interrupted sweep"
"$TOOL" signal INT 1 '1/50 one' "$ZOE" sweep -t 1 -r 50 --settings list --csv part.csv -- --model "$CKPT" \
    --image "$IMAGE" --prompt x --size 64x64 --frames 5 --steps 12 --seed 1 2>stderr
code=$?
expect_code 130
grep -q '^one,--steps 10,10,10,' part.csv || bad "what was done is not in the table"
expect_no_parts

# The default table leaves out what does not fit.
sweep -r 1 --csv d.csv
expect_code 0
expect_says 'DBCache F8 is left out'
for name in FBCache TeaCache TaylorSeer EasyCache MagCache '6 steps' '3 steps'; do
    grep -q "^$name," d.csv || bad "the default table lacks $name"
done

# With few steps, a third and a quarter are as many.
for steps in 3 8; do
    zoe sweep -t 1 -r 1 --csv d.csv -- --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --seed 1 --steps $steps
    expect_code 0
    grep -q "^$((steps / 3)) steps," d.csv || bad "the default table lacks $((steps / 3)) steps"
done

# Refused before the first run; in the last case too.
refused() {
    text=$1
    shift
    "$@"
    expect_code 2
    expect_says "$text"
    expect_silent_about "settings, "
    expect_nothing_on_stdout
}
refused 'the request is missing' zoe sweep -s "a: --steps 3"
refused 'is wanted' sweep -s "no colon"
refused 'two of this name' sweep -s "a: --steps 3" -s "a: --steps 4"
refused 'a quote without its end' sweep -s "a: --prompt 'x"
refused '--frob is no option' sweep -s "a: --steps 3" -s "b: --frob"
refused 'b: --out' sweep -s "a: --steps 3" -s "b: --out v.mp4"
refused '--threads' sweep -s "b: --threads 2"
refused 'only clips of one size' sweep -s "b: --frames 9"
refused 'at least 10 steps' sweep -s "b: --steps 9 --cache FBCache"
refused 'the same file' sweep --csv t.svg --svg t.svg
refused 'the same file' sweep -s "a: --steps 3" --csv new.csv --svg ./new.csv
cp list kept
refused '--csv and --settings are the same file' sweep --settings list --csv ./list
expect_same list kept
echo 'zoe: {steps: 12}' >run.yaml
refused 'run.yaml is the file of --config' sweep -s "a: --config run.yaml" --csv run.yaml
printf '# a remark\n\n' >none
refused 'none: no setting in it' sweep --settings none
printf 'a: --steps 10\n\000b: --steps 11\n' >none
refused 'none: a zero byte at 14' sweep --settings none
refused 'cannot write' sweep -s "a: --steps 3" --svg none/t.svg
cp "$IMAGE" in.png
refused 'are the same file' zoe sweep --csv in.png -- --model "$CKPT" --image in.png --steps 12 --frames 5 --size 64x64 \
    --seed 1
refused 'make it a --setting' zoe sweep -- --model "$CKPT" --image "$IMAGE" --steps 12 --seed 1 --cache FBCache
refused '--seed is missing' zoe sweep -- --model "$CKPT" --image "$IMAGE" --steps 12
sweep --settings nowhere
expect_code 3

# What --dump-config prints is a request like another; only what it says of outputs is refused.
zoe generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --steps 2 --seed 1 --dump-config --dry-run
cp stdout dumped.yaml
zoe sweep -r 1 -s "one: --steps 1" -- --config dumped.yaml
expect_code 0
zoe generate --config dumped.yaml --out v.mp4 --dump-config
cp stdout dumped.yaml
refused '--out: the runs of a sweep' zoe sweep -s "one: --steps 1" -- --config dumped.yaml
finish
