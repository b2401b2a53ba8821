# What goes wrong for someone who knows the README only: each sentence says what to do next.
. "$COMMON"

begin() {
    zoe generate --image "$IMAGE" --prompt "A cat." --size 64x64 --frames 5 --steps 1 --threads 1 --progress none \
        --model "$CKPT" --out v.mp4 "$@"
    expect_nothing_on_stdout
}
refused() {
    expect_code "$1"
    shift
    for text in "$@"; do
        expect_says "$text"
    done
    expect_no_files v.mp4
    expect_no_parts
}

# 1. The wrong folder.
begin --model Wan2.2-I2V-A14B
refused 3 'Wan2.2-I2V-A14B: no such folder; the folder of a checkpoint is wanted, which has high_noise_model, model_index.json or the VAE in it'
begin --model .
refused 3 'give the folder into which a model such as Wan2.2-I2V-A14B was downloaded'
begin --model "$CKPT/high_noise_model"
refused 3 'this is a part of a checkpoint; give the folder that it is in'
mkdir downloads && ln -s "$CKPT" downloads/Wan
begin --model downloads
refused 3 'downloads: no checkpoint, but downloads/Wan is one; give that'
begin --model "$IMAGE"
refused 3 'this is a file; give the folder of the whole checkpoint'

# 2. A download that is not whole.
cp -RL "$CKPT" ckpt
chmod -R u+w ckpt
rm ckpt/high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors
begin --model ckpt
refused 3 'diffusion_pytorch_model-00002-of-00002.safetensors, which is not there' 'Download that file again'
head -c 5000 "$CKPT/high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors" \
    >ckpt/high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors
begin --model ckpt
refused 3 'has 5000 bytes' 'download it again'
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 305496\n' 7 \
    >ckpt/high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors
begin --model ckpt
refused 3 'Git LFS pointer' 'fetch that'
rm ckpt/high_noise_model/*
begin --model ckpt
refused 3 'ckpt/high_noise_model: holds no .safetensors file' 'download the files of this folder again'
rm -r ckpt/google
cp "$CKPT/high_noise_model/"* ckpt/high_noise_model
begin --model ckpt
refused 3 'google/umt5-xxl is not there: the tokenizer' 'download it into that folder, or say where another one is'

# 3. 80 frames.
begin --frames 80
refused 2 'frames: 80; 4 n + 1 is wanted' '77 and 81'

# 4. A size that no video has: it is an area, and the plan tells what comes out.
zoe generate --model "$CKPT" --image "$IMAGE" --size 100x60 --frames 5 --dry-run
expect_code 0
expect_says 'video 80x64, 5 frames'
expect_says 'size: the area of 100x60 in the shape of the picture, in multiples of 16'
begin --size 100
refused 2 '--size 100: wanted is WIDTHxHEIGHT, such as 832x480'

# 5. A GIF as the picture; something that is no picture.
printf 'GIF87a\20\0\20\0\201\0\0\377\377\377\0\0\0\0\0\0\0\0\0' >gif_head
printf '\54\0\0\0\0\20\0\20\0\100\10\35\0\1\10\34\110\260\240\301\203\10\23\52\134\310\260\241\303\207\20\43\112\234\110\261\242\305\201\1\1\0' >gif_picture
cat gif_head gif_picture >still.gif
printf '\73' >>still.gif
cat gif_head gif_picture gif_picture >moving.gif
printf '\73' >>moving.gif
begin --image still.gif
expect_code 0
expect_silent_about warning
begin --image moving.gif
expect_code 0
expect_says 'warning: the GIF holds several pictures; the first one is used'
cp v.mp4 clip.mp4
rm v.mp4
begin --image clip.mp4
refused 3 'clip.mp4: MP4 (a video) is not read; convert it to PNG'
begin --image cat.png
refused 3 'cat.png: no such file; a picture is wanted there: check its name and the current folder'
begin --image downloads
refused 3 'downloads: this is a folder; give the file of one picture'
echo hello >text.png
begin --image text.png
refused 3 'no known kind of picture; PNG, JPEG, WebP, BMP, TIFF, GIF or PNM is wanted'

# 6. No space, where a small disk can be made: told before the work if it is certain, a warning if it is likely.
cat >small.sh <<'END'
mkdir disk && mount -t tmpfs -o size=40k none disk || exit 77
run() {
    "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 33 --steps 1 --threads 1 "$@"
    echo "code $?" >&2
    find disk -name '*.part' >&2
}
run --out disk/v.y4m --progress plain
run --frames-out disk/frames --progress none
END
said="a small disk"
: >stdout
if command -v unshare >/dev/null && CKPT=$CKPT IMAGE=$IMAGE ZOE=$ZOE unshare -rm sh small.sh >stdout 2>stderr; then
    expect_says 'disk/v.y4m: its disk has room for 0.0391 MiB, and the run will write'
    expect_says 'make room, or name another place'
    expect_silent_about 'begins'
    expect_says 'cannot write: No space left on device; make room there or name another place'
    expect_equal "exit codes" "$(grep -c '^code [12]$' stderr)" 2
    ! grep -q '\.part$' stderr || bad "something half written is left"
else
    echo "not tried: a small disk, which needs user namespaces"
fi

# 7. A folder in which one may not write. Root may everywhere.
mkdir locked
chmod 555 locked
as_user=
[ "$(id -u)" -ne 0 ] || as_user="setpriv --reuid=65534 --clear-groups"
chmod 755 .
if $as_user test -x "$ZOE" 2>/dev/null && ! $as_user test -w locked; then
    for option in "--out locked/v.mp4" "--latents-out locked/l" "--frames-out locked" "--log locked/log" \
        "--preview locked/p.png" "--checkpoint locked/state"; do
        said="generate $option in a locked folder"
        # shellcheck disable=SC2086
        $as_user "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --steps 1 --threads 1 \
            --progress none --out - $option >stdout 2>stderr
        code=$?
        expect_code 2
        expect_says 'Permission denied'
        expect_says 'name '
        expect_nothing_on_stdout
    done
else
    echo "not tried: a locked folder, which needs another user"
fi
begin --out no/such/v.mp4
refused 2 'no/such/v.mp4: cannot write: No such file or directory; its folder must be there'
begin --out v.avi
refused 2 'v.avi: the suffix names no known kind of video; .mp4, .webm, .y4m'

# 8. A prompt of 600 words.
zoe generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --dry-run --prompt "$(yes cat | head -n 600)"
expect_code 0
expect_says 'warning: the prompt has'
expect_says 'the rest is left out: say what matters first, or shorten it'

# 9. A wrong name of an option or a command; a prompt without quotes; a line break that the shell ate.
begin --frame 5
refused 2 '--frame is no option; did you mean --frames?' 'zoe generate --help'
begin --resolution 832x480
refused 2 '--resolution is no option; `zoe generate --help` lists them all'
begin a white cat
refused 2 'a prompt with blanks needs quotes'
zoe genrate
refused 2 'genrate is no command; they are generate'
zoe generate
refused 2 '--model is missing: the folder of the checkpoint'
zoe
expect_code 2
expect_says 'zoe generate --help'

# 10. A model that is not supported.
mkdir one_transformer
cp "$CKPT/low_noise_model/"* one_transformer
ln -s "$CKPT/Wan2.1_VAE.pth" "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" "$CKPT/google" one_transformer
begin --model one_transformer
refused 3 'this is one of the two transformers of Wan 2.2 I2V-A14B' 'give both, for high and for low noise'

# A part given for another one, and one shard of several.
begin --model "$CKPT" --vae "$CKPT/low_noise_model"
refused 3 'the VAE is wanted, this is something else (Wan 2.2 image-to-video transformer'
begin --model "$CKPT" --text-encoder "$CKPT/Wan2.1_VAE.pth"
refused 3 'the text encoder is wanted, this is something else (Wan 2.1 VAE)'
begin --model "$CKPT" --low-noise "$CKPT/models_t5_umt5-xxl-enc-bf16.pth"
refused 3 'the transformer is wanted, this is something else (umT5 text encoder)'
begin --model "$CKPT" --high-noise "$CKPT/high_noise_model/diffusion_pytorch_model-00001-of-00002.safetensors"
refused 3 'this is one shard of several; give the index beside it, or the folder'
finish
