# zoe info: what a model, a video or a picture is, and whether it is sound.
. "$COMMON"
cp -r "$CKPT" ckpt
chmod -R u+w ckpt
LOW=ckpt/low_noise_model/diffusion_pytorch_model.safetensors

# says TEXT: standard output has it. value KEY...: the value of the one JSON object on standard output.
says() {
    grep -qF -- "$1" stdout || bad "standard output lacks: $1"
}
value() {
    "$TOOL" value stdout "$@"
}

# A sound model.
zoe info ckpt
expect_code 0
[ ! -s stderr ] || bad "something on standard error"
for text in 'I2V-A14B' official 'high-noise transformer: ckpt/high_noise_model' 'layers 2' 'f32: 69' 'Wan 2.1 VAE' umT5; do
    says "$text"
done
zoe info --json --verify --threads 1 ckpt
expect_code 0
expect_equal "kind" "$(value kind)" model
expect_equal "sound" "$(value sound)" true
expect_equal "supported" "$(value supported)" true
expect_equal "layers" "$(value parts 0 sizes layers)" 2
expect_equal "SHA-256" "$(value parts 1 files 1 sha256)" "$(sha256sum $LOW | cut -c 1-64)"
cp stdout one
zoe info --json --verify --threads 3 ckpt
expect_same stdout one

# Every tensor of one part.
zoe info --tensors $LOW
expect_code 0
says 'blocks.1.cross_attn.norm_k.weight  f32 [64]'
expect_equal "lines of tensors" "$(grep -c '^    [a-z].* f32 \[' stdout)" 69

# One NaN: told by its official name, in any layout of names.
"$TOOL" poison $LOW blocks.1.ffn.0.weight
zoe info $LOW
expect_code 0
zoe info --verify $LOW
expect_code 3
expect_says 'blocks.1.ffn.0.weight'
expect_says '1 NaN'
zoe info --verify --json ckpt
expect_code 3
expect_equal "sound" "$(value sound)" false
expect_equal "name" "$(value parts 1 nonfinite 0 name)" blocks.1.ffn.0.weight

# A shard, a part, the folder missing; something else.
mv ckpt/high_noise_model/*-00002-of-00002.safetensors .
zoe info ckpt
expect_code 3
expect_says '34 of 69 tensors would be missing'
mv ./*-00002-of-00002.safetensors ckpt/high_noise_model
rm ckpt/Wan2.1_VAE.pth
zoe info ckpt
expect_code 3
expect_says 'Wan2.1_VAE.pth is not there'
zoe info nowhere
expect_code 3
expect_says 'nowhere: no such file or folder'
mkdir empty
zoe info empty
expect_code 3
expect_says 'neither weights nor frames'
printf 'hello\n' >text.txt
zoe info text.txt
expect_code 3
head -c 1000 $LOW >cut.safetensors
zoe info cut.safetensors
expect_code 3
expect_says 'cut short'
zoe info
expect_code 2
zoe info ckpt ckpt
expect_code 2
zoe info --frobnicate ckpt
expect_code 2

# Of other hands.
zoe info "$IMAGE"
expect_code 0
says '150x110'
says 'nothing of the kind'

# Of ours: everything that a run writes tells how it was made.
tiny --seed 77 -o v.mp4 --frames-out frames --latents-out l.safetensors --checkpoint state
expect_code 0
for path in v.mp4 frames frames/frame_00003.png l.safetensors state; do
    zoe info "$path"
    expect_code 0
    says 'A white cat sits.'
    says 'seed                   77'
    zoe info --json "$path"
    expect_code 0
    expect_equal "seed of $path" "$(value record seed)" 77
done
zoe info --json --verify v.mp4
expect_code 0
expect_equal "frames" "$(value frames)" 5
expect_equal "fps" "$(value fps)" 16
head -c 3000 v.mp4 >cut.mp4
zoe info --verify cut.mp4
expect_code 3
expect_says 'cut.mp4'

# Hostile names do not reach the terminal as commands.
name=$(printf 'a\033[2Jb.safetensors')
cp l.safetensors "$name"
zoe info "$name"
expect_code 0
[ "$(tr -d '\n' <stdout | tr -d ' -~' | wc -c)" -eq 0 ] || bad "control characters on standard output"
zoe info --json "$name"
expect_code 0
value path >/dev/null || bad "no path in the JSON"

if [ -w /dev/full ]; then
    "$ZOE" info --json "$IMAGE" >/dev/full 2>stderr
    code=$?
    expect_code 1
fi
finish
