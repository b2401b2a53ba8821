# The run is seen: a picture after every step, in a file or a terminal. It shows what comes out, changes nothing, and
# does not end a run when it cannot be written.
. "$COMMON"

# demo ARGS: the demo model, a clip of five latent frames.
demo() {
    zoe generate --model "$DEMO" --image "$DEMO/../../examples/red-circle-256.png" --prompt "a red circle moves right" \
        --size 64x64 --frames 17 --steps 4 --seed 1 --threads 1 --progress plain "$@"
}
# at_least WHAT PSNR WANTED
at_least() {
    [ "${2:-0}" -ge "$3" ] 2>/dev/null || bad "$1: $2 dB, wanted $3"
}
# shows_frames DB: the first and the last tile of the preview against the frames.
shows_frames() {
    at_least "first tile" "$("$SHOWN" cells p.png 0 frames/frame_00000.png)" "$1"
    at_least "last tile" "$("$SHOWN" cells p.png 4 frames/frame_00016.png)" "$1"
}

demo --latents-out plain.safetensors --out plain.y4m --no-metadata
expect_code 0

# Nothing else changes, and nothing is left beside.
demo --latents-out seen.safetensors --out seen.y4m --no-metadata --frames-out frames --preview p.png
expect_code 0
expect_same plain.safetensors seen.safetensors
expect_same plain.y4m seen.y4m
expect_files p.png
expect_no_parts
shows_frames 19
# No metadata: a picture that is written every step says nothing of the prompt.
! grep -q tEXt p.png || bad "a text entry in the preview"

# Without factors for the VAE, from the run's own picture.
ln -s "$DEMO/Wan2.1_VAE.pth" vae.pth
mkdir model
for part in high_noise_model low_noise_model models_t5_umt5-xxl-enc-bf16.pth google Wan2.1_VAE.pth; do
    ln -s "$DEMO/$part" model/$part
done
demo --model model --latents-out seen.safetensors --no-metadata --preview p.png
expect_code 0
expect_same plain.safetensors seen.safetensors
shows_frames 15

# Factors that are named, or found in the folder of the model.
short() {
    demo --model model --frames 1 --steps 2 --latents-out l.safetensors "$@"
}
short --preview own.png
short --preview named.png --preview-factors "$DEMO/preview.json"
expect_code 0
expect_different own.png named.png
cp "$DEMO/preview.json" model
short --preview found.png
expect_code 0
expect_same found.png named.png
echo '{"zoetrope": "preview factors", "channels": 48}' >model/preview.json
short --preview p.png
expect_code 3
expect_says '48 latent channels, the VAE has 16'
demo --latents-out l.safetensors --preview p.png --preview-factors nowhere.json
expect_code 3
expect_says nowhere.json

# Made by preview-fit, for this VAE, from a few pictures: better than none.
zoe preview-fit --vae vae.pth "$DEMO"/../../examples/*-256.png --size 64x64 --out fitted.json --threads 1
expect_code 0
expect_says 'fitted to 3 pictures, 576 latent positions'
demo --latents-out l.safetensors --preview p.png --preview-factors fitted.json
expect_code 0
shows_frames 17
# Only older factors are replaced: not the picture that a pattern of the shell put there, nor the model.
cp "$IMAGE" first.png
for name in first.png vae.pth; do
    cp "$name" before
    zoe preview-fit --vae vae.pth first.png --size 64x64 --out "$name" --threads 1
    expect_code 2
    expect_says "$name: is there already and holds no factors"
    expect_same "$name" before
done
zoe preview-fit --vae vae.pth --out x.json
expect_code 2
zoe preview-fit --vae vae.pth nothing.png --out x.json
expect_code 3
zoe preview-fit --model model "$IMAGE"
expect_code 2
expect_says '--out is missing'
expect_no_files x.json

# A name that it cannot have.
mkdir folder.png
for name in p.jpg folder.png model; do
    demo --latents-out l.safetensors --preview "$name"
    expect_code 2
    expect_silent_about begins
done
demo --latents-out l.safetensors --frames-out frames --preview frames/frame_00003.png
expect_code 2
expect_says 'has the name of a frame'
cp "$IMAGE" mine.png
demo --image mine.png --latents-out l.safetensors --preview ./mine.png
expect_code 2
expect_says 'are the same file'
expect_same mine.png "$IMAGE"
demo --latents-out l.safetensors --preview nowhere/p.png
expect_code 2

# A folder that goes away in the middle: one warning, and the run goes on.
mkdir away
"$ZOE" generate --model "$DEMO" --image "$IMAGE" --prompt x --size 64x64 --frames 5 --steps 8 --seed 1 --threads 1 \
    --progress plain --latents-out l.safetensors --preview away/p.png 2>&1 >stdout | while IFS= read -r line; do
    printf '%s\n' "$line"
    case $line in *'encode begins'*) rm -r away ;; esac
done >stderr
said="a preview in a folder that goes away"
expect_equal "number of warnings" "$(grep -c 'no preview: ' stderr)" 1
expect_says 'the run goes on without it'
expect_says 'wrote l.safetensors'
expect_no_files away

# ---- terminals ----
"$TOOL" terminal 80 true >/dev/null 2>&1 || {
    echo "the rest is skipped: this system has no pseudoterminals"
    exit 0
}
# on_terminal VARIABLES... -- ARGS: a short run; leaves what was written in raw.
on_terminal() {
    said="terminal $*"
    vars=
    while [ "$1" != -- ]; do
        vars="$vars $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    env -u KITTY_WINDOW_ID -u TERM_PROGRAM -u LC_TERMINAL -u TMUX -u STY TERM=xterm $vars \
        "$TOOL" terminal 80 "$ZOE" generate --model "$DEMO" --image "$DEMO/../../examples/red-circle-256.png" \
        --prompt "a red circle moves right" --size 64x64 --frames 5 --steps 3 --seed 1 --threads 1 \
        --latents-out l.safetensors "$@" >raw 2>&1
    code=$?
    cp raw stderr
}
demo --frames 5 --steps 3 --latents-out l.safetensors --preview p.png
for kind in kitty iterm sixel; do
    on_terminal -- --show-preview $kind
    expect_code 0
    expect_equal "pictures of $kind" "$("$SHOWN" $kind raw shown.png)" 3
    case $kind in sixel) wanted=20 ;; *) wanted=999 ;; esac
    at_least "$kind" "$("$SHOWN" psnr shown.png p.png)" $wanted
    # Room is made once; the next pictures take the place of the first.
    expect_equal "rows of $kind" "$(tr -d '\r' <raw | grep -c "^$(printf '\033')\[4A")" 1
    expect_equal "ways back up of $kind" "$(grep -o "$(printf '\033')\[4A" raw | wc -l)" 3
done
detects() {
    kind=$1
    shift
    on_terminal "$@" -- --show-preview auto
    expect_code 0
    for other in kitty iterm sixel; do
        n=0
        [ $other != "$kind" ] || n=3
        expect_equal "pictures of $other under $*" "$("$SHOWN" $other raw shown.png)" $n
    done
}
detects kitty KITTY_WINDOW_ID=1
detects iterm TERM_PROGRAM=WezTerm
detects sixel TERM=foot-extra
detects none KITTY_WINDOW_ID=1 TMUX=/tmp/tmux-0/default,1,0
expect_says 'no terminal that is known to show pictures'
# Not a terminal: nothing of it.
demo --frames 1 --steps 2 --latents-out l.safetensors --show-preview kitty
expect_code 0
expect_equal "pictures in a file" "$("$SHOWN" kitty stderr shown.png)" 0
finish
