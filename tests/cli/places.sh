# What stands where an output shall go: only files are replaced, only what the run made is removed, and no output meets
# another one or what the run reads.
. "$COMMON"

# refused TEXT OPTIONS: code 2 with the text, before anything is loaded.
refused() {
    wanted=$1
    shift
    tiny "$@"
    expect_code 2
    expect_says "$wanted"
    expect_silent_about begins
    expect_no_parts
}

# No files: left as they are.
mkfifo pipe.mp4
mkdir folder.mp4
ln -s nowhere dangling.mp4
ln -s pipe.mp4 to_pipe.mp4
for option in --out --latents-out; do
    refused 'is a pipe' $option pipe.mp4
    refused 'is a pipe' $option to_pipe.mp4
    refused 'is a folder' $option folder.mp4
    refused 'leads nowhere' $option dangling.mp4
done
refused 'is a device' --latents-out /dev/null --dry-run
[ -c /dev/null ] || bad "/dev/null is no device any more"
[ -p pipe.mp4 ] || bad "the pipe is gone"
[ -L dangling.mp4 ] && [ -L to_pipe.mp4 ] || bad "a link is gone"
expect_no_files nowhere
mkdir frames
mkdir frames/frame_00002.png
refused 'frame_00002.png: is a folder' --frames-out frames
rmdir frames/frame_00002.png frames

# A link: the file behind it is replaced.
mkdir kept
echo old >kept/real.y4m
ln -s kept/real.y4m link.y4m
tiny --out link.y4m
expect_code 0
[ -L link.y4m ] || bad "the link was replaced"
expect_equal "video" "$("$TOOL" probe kept/real.y4m)" "64 48 5"

# Others' files with names like those of our parts are not touched, and links in their place not followed.
echo mine >v.y4m.part
echo mine >target
ln -s target l.safetensors.part
tiny --out v.y4m --latents-out l.safetensors
expect_code 0
expect_equal "v.y4m.part" "$(cat v.y4m.part)" mine
expect_equal "target" "$(cat target)" mine
rm v.y4m.part l.safetensors.part

# The same file twice.
ln v.y4m hard.y4m
ln -s . here
for other in v.y4m ./v.y4m "$PWD/v.y4m" here/v.y4m hard.y4m; do
    refused 'are the same file' --out v.y4m --latents-out "$other"
    refused 'are the same file' --out new.y4m --latents-out ./new.y4m
done
refused 'are the same file' --out new.y4m --frames-out ./new.y4m/
mkdir d
refused 'has the name of a frame' --frames-out d --latents-out d/frame_00001.png
refused 'has the name of a frame' --frames-out here/d --latents-out d/frame_00004.png
tiny --steps 1 --frames 1 --frames-out d --latents-out d/frame_00005.png
expect_code 0

# Outputs that are inputs.
cp "$IMAGE" picture.png
cp "$IMAGE" d/frame_00000.png
refused 'the picture' --image picture.png --frames 1 --out ./picture.png
refused 'the picture' --image d/frame_00000.png --frames-out d
expect_same picture.png "$IMAGE"
expect_same d/frame_00000.png "$IMAGE"
cp -r "$CKPT" ckpt
ln -s ckpt other
for file in Wan2.1_VAE.pth high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors google/umt5-xxl/tokenizer.json; do
    refused 'a file of the checkpoint' --model ckpt --latents-out other/$file
    expect_same ckpt/$file "$CKPT/$file"
done
for part in high_noise_model high_noise_model/diffusion_pytorch_model.safetensors.index.json; do
    refused 'a file of the checkpoint' --high-noise ckpt/$part \
        --latents-out ckpt/high_noise_model/diffusion_pytorch_model-00001-of-00002.safetensors
done
refused 'a file of the checkpoint' --vae ckpt/Wan2.1_VAE.pth --latents-out ckpt/./Wan2.1_VAE.pth

# Frames: a run that fails leaves the old ones, and a folder only if it was there.
rm -r d
mkdir d
tiny --steps 1 --frames 9 --frames-out d
expect_code 0
expect_equal "frames" "$(ls -A d | wc -l | tr -d ' ')" 9
expect_silent_about 'longer clip'
cp -r d before
for value in nan inf -inf; do
    "$TOOL" spoil_vae "$CKPT/Wan2.1_VAE.pth" spoilt.safetensors decoder.head.2.bias $value || bad "cannot spoil the VAE"
    tiny --vae spoilt.safetensors --steps 1 --frames-out d --out spoilt.mp4
    expect_code 1
    expect_says 'NaN or inf'
    expect_says spoilt.safetensors
    expect_no_parts
    diff -r d before >/dev/null || bad "the old frames changed"
    tiny --vae spoilt.safetensors --steps 1 --frames-out new
    expect_code 1
    expect_no_files new spoilt.mp4
done
"$TOOL" signal INT 1 'decode 2/' "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 128x128 --frames 65 --steps 1 \
    --threads 1 --progress plain --frames-out d >stdout 2>stderr
code=$?
expect_code 130
expect_no_parts
diff -r d before >/dev/null || bad "the old frames changed"

# A shorter clip: said how many old frames are still there.
tiny --steps 1 --frames-out d
expect_code 0
expect_says 'd: 4 frames of an earlier, longer clip are still there, from number 5 on'
expect_equal "frames" "$(ls -A d | wc -l | tr -d ' ')" 9
finish
