# --report: one page that is complete in itself, whatever the prompt is; written after every end of a run; checked as the
# other outputs are; it changes nothing.
. "$COMMON"

# expect_page FILE: well-formed, without scripts and without anything to be fetched.
expect_page() {
    "$TOOL" markup "$1" || bad "$1 is no page of the kind"
    for word in http '<script' onload; do
        ! grep -qi -- "$word" "$1" || bad "$1 has: $word"
    done
}
# expect_in FILE TEXT ...
expect_in() {
    page=$1
    shift
    for text in "$@"; do
        grep -qF -- "$text" "$page" || bad "$page lacks: $text"
    done
}
# count_in FILE TEXT: how often.
count_in() {
    grep -oF -- "$2" "$1" | wc -l
}
cached() {
    tiny --steps 12 --cache FBCache,threshold=10 "$@"
}

# A run with a step cache: every step and pass is drawn, frames are in it.
cached --no-metadata --frames-out plain --out plain.y4m
cached --no-metadata --frames-out f --out o.y4m --report r.html
expect_code 0
expect_says 'r.html (report)'
expect_same o.y4m plain.y4m
expect_page r.html
expect_in r.html 'A white cat sits.' 'FBCache,threshold=10' 'skipped by the step cache' 'high-noise expert' \
    '<title>step 12, ' 'unconditional branch computed' 'distance' 'convolution' 'plan, peak' 'seen, peak' \
    "$CKPT" 'first: frame 0' 'last: frame 4'
expect_equal "pictures" "$(count_in r.html data:image/png)" 7
computed=$(sed -n 's/.*: \([0-9]*\) computed, [0-9]* skipped.*/\1/p' r.html)
skipped=$(sed -n 's/.*computed, \([0-9]*\) skipped.*/\1/p' r.html)
expect_equal "steps" $((computed + skipped)) 12
[ "$skipped" -gt 2 ] || bad "only $skipped steps were skipped"
# A bar and two cells a step, and what the legend has.
expect_equal "marks of skipped steps" "$(count_in r.html 'class="skipped"')" $((3 * skipped + 1))
expect_equal "marks of computed steps" "$(count_in r.html 'class="computed"')" $((3 * computed + 1))
expect_no_parts

# Texts from outside are no markup.
tiny --prompt "<b>&amp; 'x' \"y\"</td><script>alert(1)</script>" --negative-prompt ']]>-->' --report r.html \
    --latents-out '<i>&.safetensors'
expect_code 0
"$TOOL" markup r.html || bad "r.html is broken by the prompt"
expect_in r.html '&lt;b&gt;&amp;amp; &#39;x&#39; &quot;y&quot;&lt;/td&gt;&lt;script&gt;' ']]&gt;--&gt;' \
    '&lt;i&gt;&amp;.safetensors' 'No frame was decoded'
! grep -qi '<script' r.html || bad "the prompt became a script"
name=$(printf 'x\377y')
tiny --report r.html --latents-out "$name"
expect_code 0
expect_page r.html

# Broken off: the page says so; going on: what was done before is marked.
# It is written under the name that the checkpoint notes.
said="an interrupted run"
"$TOOL" signal INT 1 'steps 7/12' "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt x --size 64x64 --frames 5 \
    --steps 12 --seed 1 --threads 1 --progress plain --cache FBCache,threshold=10 --checkpoint ck --report part.html \
    --latents-out l.safetensors 2>stderr
code=$?
expect_code 130
expect_page part.html
expect_in part.html 'did not finish' 'It was interrupted.' 'not reached'
done=$(sed -n 's/.* \([0-9]*\) of 12 steps were done.*/\1/p' part.html)
rm -f part.html
zoe generate --resume ck --threads 1
expect_code 0
expect_page part.html
expect_in part.html "The first $done steps were done in an earlier part" 'earlier part of the run' \
    'not in this part of the run'
expect_equal "steps marked" "$(count_in part.html 'class="earlier"')" $((3 * done + 1))

# A run that fails tells why. The text has no broken characters where it is shown.
cp -r "$CKPT" poisoned
"$TOOL" poison poisoned/low_noise_model/diffusion_pytorch_model.safetensors head.head.bias
tiny --model poisoned --steps 4 --latents-out l.safetensors --report bad.html
expect_code 1
expect_page bad.html
expect_in bad.html 'did not finish' 'NaN or inf'

# For programs.
tiny --progress json --latents-out l.safetensors --report r.html
expect_code 0
"$TOOL" events stderr done || bad "the events are not those of the manual"
expect_equal "the report of done" "$("$TOOL" get stderr done report)" r.html

# Refused before the work, as other outputs are.
tiny --out v.mp4 --report v.mp4
expect_code 2
expect_says 'are the same file'
tiny --latents-out l.safetensors --report none/r.html
expect_code 2
expect_says 'none/r.html: cannot write'
tiny --latents-out l.safetensors --report -
expect_code 2
tiny --latents-out l.safetensors --report ''
expect_code 2
cp "$IMAGE" in.png
tiny --image in.png --latents-out l.safetensors --report in.png
expect_code 2
expect_same in.png "$IMAGE"
mkdir folder
tiny --latents-out l.safetensors --report folder
expect_code 2
tiny --dry-run --latents-out l.safetensors --report dry.html
expect_code 0
expect_no_files dry.html
# A link is kept: what is behind it is replaced.
echo old >behind.html
ln -s behind.html link.html
tiny --latents-out l.safetensors --report link.html
expect_code 0
[ -L link.html ] || bad "the link was replaced"
expect_page behind.html
expect_no_parts
finish
