# Paths are bytes: blanks, Chinese, quotes, a leading dash, line feeds, no UTF-8, the longest that the system allows.
. "$COMMON"

LC_ALL=C
export LC_ALL
for folder in '模型 猫' "it's" 'a "b" $c' "$(printf 'bytes\377\376')" "$(printf 'two\nlines')" '%s%n' '-dash'; do
    mkdir -- "$folder"
    cp -r -- "$CKPT" "$folder/ck pt"
    cp -- "$IMAGE" "$folder/a b.png"
    zoe generate --threads 1 --model "$folder/ck pt" --image "$folder/a b.png" --size 64x64 --frames 1 --steps 1 \
        --out "$folder/v w.mp4" --frames-out "$folder/fr ames" --latents-out "$folder/l.safetensors" --progress json
    expect_code 0
    expect_no_parts "./$folder"
    "$TOOL" json stderr || bad "not every line is a JSON event"
    expect_files "$folder/v w.mp4" "$folder/fr ames/frame_00000.png" "$folder/l.safetensors"
done

# Every part by its own path, in a locale that knows no letters beyond ASCII.
folder='модель 猫'
mkdir -- "$folder"
cp -- "$CKPT/low_noise_model/diffusion_pytorch_model.safetensors" "$folder/a b.safetensors"
cp -- "$CKPT/low_noise_model/config.json" "$folder"
cp -- "$CKPT/Wan2.1_VAE.pth" "$folder/é \"v\".pth"
tiny --low-noise "$folder/a b.safetensors" --vae "$folder/é \"v\".pth" --frames 1 --no-metadata --latents-out "$folder/l 猫.safetensors"
expect_code 0
expect_says "$folder/l 猫.safetensors"
tiny --frames 1 --no-metadata --latents-out plain.safetensors
expect_same plain.safetensors "$folder/l 猫.safetensors"
printf x >>"$folder/a b.safetensors"
tiny --low-noise "$folder/a b.safetensors" --frames 1 --out v.mp4
expect_code 3
expect_says "$folder/a b.safetensors: has "

# Names that look like options.
cp -- "$IMAGE" ./--x.png
zoe generate --threads 1 --model "$CKPT" --image=--x.png --size 64x64 --frames 1 --steps 1 --out=--v.mp4
expect_code 0
expect_files ./--v.mp4
zoe generate --threads 1 --model "$CKPT" --size 64x64 --frames 1 --steps 1 --out v.mp4 -- --x.png
expect_code 0
# Behind "--" nothing is an option, not even one that exists.
cp -- "$IMAGE" ./--help
zoe generate --threads 1 --model "$CKPT" --size 64x64 --frames 1 --steps 1 --out v.mp4 -- --help
expect_code 0
expect_nothing_on_stdout
zoe generate --threads 1 --model "$CKPT" --image -dash/a\ b.png --size 64x64 --frames 1 --steps 1 -o -v.mp4
expect_code 0
expect_files ./-v.mp4

# A path of 4095 bytes is the longest there is; a longer one is refused with a sentence.
dots=$(awk 'BEGIN { for (i = 0; i < 2040; i++) printf "./" }')
cp "$IMAGE" long-name.png
zoe generate --threads 1 --model "$CKPT" --image "${dots}long-name.png" --size 64x64 --frames 1 --steps 1 --out v.mp4
expect_code 0
zoe generate --threads 1 --model "$CKPT" --image "${dots}${dots}long-name.png" --size 64x64 --frames 1 --steps 1 --out w.mp4
expect_code 3
expect_says 'long-name.png: '
expect_no_files w.mp4
# Exactly 4095 bytes, for the picture and for the output, whose half made file has a longer name: refused, not cut.
exact=${dots}./long-name.png
expect_equal length "${#exact}" 4095
zoe generate --threads 1 --model "$CKPT" --image "$exact" --size 64x64 --frames 1 --steps 1 --out v.mp4
expect_code 0
exact=${dots}././././out.mp4
expect_equal length "${#exact}" 4095
zoe generate --threads 1 --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 1 --steps 1 --out "$exact"
expect_code 2
expect_says 'too long'
expect_no_files out.mp4
name=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "n" }')
zoe generate --threads 1 --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 1 --steps 1 --out "$name.mp4"
expect_code 2
expect_says 'too long'
name=$(awk 'BEGIN { for (i = 0; i < 251; i++) printf "n" }')
zoe generate --threads 1 --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 1 --steps 1 --out "$name.mp4"
expect_code 0
expect_files "$name.mp4"
expect_no_parts
finish
