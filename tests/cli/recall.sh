# --from repeats a run from what its outputs note; --resume takes the request from the checkpoint.
. "$COMMON"

mkdir here && cd here || exit 1
cp "$IMAGE" cat.png
ln -s "$CKPT" model
again() {
    zoe generate --threads 1 --progress none "$@"
}
again --model model --image cat.png --prompt "A white cat sits." --negative-prompt blurry --size 80x64 --frames 5 --steps 2 \
    --seed -1 --solver euler --shift 4.5 --guide-scale 2,3 --boundary 0.8 --fps 24000/1001 --dtype bf16 --out a.mp4 \
    --frames-out frames --latents-out a.safetensors
expect_code 0

again --from a.mp4 --out b.mp4
expect_code 0
expect_same a.mp4 b.mp4
again --from frames/frame_00000.png --out b.mp4 # the picture is in the current folder, not beside it
expect_code 0
expect_same a.mp4 b.mp4
again --from a.safetensors --latents-out b.safetensors
expect_code 0
expect_same a.safetensors b.safetensors
again --from a.mp4 --out b.mp4 --seed 5 --solver unipc
expect_code 0
expect_different a.mp4 b.mp4

# Beside the file, from another folder; the model is named anew.
mkdir -p ../far
cp a.mp4 cat.png ../far
mv cat.png away
again --from ../far/a.mp4 --out b.mp4
expect_code 0
expect_same a.mp4 b.mp4

# Another picture of that name is not taken; the sentence names the one that is wanted.
digest=$(sha256sum away | cut -d ' ' -f 1)
again --from a.mp4 --out c.mp4
expect_code 2
expect_says "--image is missing: a.mp4 was made from the picture cat.png, SHA-256 $digest"
"$TOOL" picture cat.png 64 48
again --from a.mp4 --out c.mp4
expect_code 2
expect_says 'the file of that name here is another picture'
expect_no_files c.mp4
again --from a.mp4 --image cat.png --out c.mp4
expect_code 0
expect_says 'warning: cat.png: another picture'
mv away cat.png

mv model elsewhere
again --from a.mp4 --out c.mp4
expect_code 2
expect_says '--model is missing: a.mp4 was made with model, which is not in the current folder'
again --from a.mp4 --ckpt_dir elsewhere --out b.mp4
expect_code 0
expect_silent_about warning
again --from a.mp4 --model "$DEMO" --out c.mp4
expect_code 0
expect_says 'warning: the VAE has other weights'
mv elsewhere model

# What notes nothing.
again --from cat.png
expect_code 3
expect_says '--from wants a video, PNG or latents file made by zoe'
again --from missing.mp4
expect_code 3
expect_says missing.mp4
again --from a.mp4 --frames 6
expect_code 2
expect_says '5 and 9'
again --from a.mp4 --out b.mp4 x.png y.png
expect_code 2
expect_says 'one argument too many'

# --resume: begins where nothing is, needs no options afterwards, and lets nothing change that shapes the result.
request="--model model --image cat.png --prompt mouse --size 64x64 --frames 5 --steps 3 --seed 4"
again $request --out whole.y4m
again $request --resume state --out one.y4m
expect_code 0
expect_same whole.y4m one.y4m
again --resume state --out two.y4m
expect_code 0
expect_same whole.y4m two.y4m
rm two.y4m
(cd / && "$ZOE" generate --resume "$OLDPWD/state" --threads 1) 2>stderr # to where the last one went
expect_same whole.y4m two.y4m
again --resume state --steps 4
expect_code 2
expect_says 'steps'
again $request --checkpoint state --out three.y4m
expect_code 2
expect_no_files three.y4m
expect_says '--resume'
again --resume state --dry-run --progress json
expect_equal "steps done" "$("$TOOL" get stderr plan steps_done)" 3

# A failure says that the work is kept.
if [ -w /dev/full ]; then
    said="resume to a full disk"
    "$ZOE" generate --resume state --out - >/dev/full 2>stderr
    code=$?
    expect_code 1
    expect_says 'what was done is kept in state'
fi
finish
