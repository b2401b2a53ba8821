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
    "$TOOL" json stderr || bad "not every line is a JSON event"
    expect_files "$folder/v w.mp4" "$folder/fr ames/frame_00000.png" "$folder/l.safetensors"
done

# Names that look like options.
cp -- "$IMAGE" ./--x.png
zoe generate --threads 1 --model "$CKPT" --image=--x.png --size 64x64 --frames 1 --steps 1 --out=--v.mp4
expect_code 0
expect_files ./--v.mp4
zoe generate --threads 1 --model "$CKPT" --size 64x64 --frames 1 --steps 1 --out v.mp4 -- --x.png
expect_code 0
zoe generate --threads 1 --model "$CKPT" --image -dash/a\ b.png --size 64x64 --frames 1 --steps 1 -o -v.mp4
expect_code 0
expect_files ./-v.mp4

# A path of 4095 bytes is the longest there is; a longer one is refused with a sentence.
dots=$(awk 'BEGIN { for (i = 0; i < 2040; i++) printf "./" }')
cp "$IMAGE" long-name.png
zoe generate --threads 1 --model "$CKPT" --image "${dots}long-name.png" --size 64x64 --frames 1 --steps 1 --out v.mp4
expect_code 0
zoe generate --threads 1 --model "$CKPT" --image "${dots}${dots}long-name.png" --size 64x64 --frames 1 --steps 1 --out v.mp4
expect_code 3
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
