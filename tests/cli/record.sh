# What is noted in the outputs: the same in all of them, without folders, and nothing with --no-metadata.
. "$COMMON"

mkdir secret-folder
cp "$IMAGE" secret-folder/cat.png
tiny --image secret-folder/cat.png --out v.mp4 --frames-out frames --latents-out l.safetensors --fps 24000/1001 --no-rotate
expect_code 0
tiny --image secret-folder/cat.png --out v.webm
expect_code 0
picture=$(sha256sum secret-folder/cat.png | cut -d ' ' -f 1)
for file in v.mp4 v.webm frames/frame_00003.png l.safetensors; do
    for folder in secret-folder "$work" "$CKPT"; do
        ! grep -qaF -- "$folder" "$file" || bad "$file names the folder $folder"
    done
done
# Texts in these are not compressed.
for file in v.mp4 v.webm l.safetensors; do
    for text in zoetrope "A white cat sits." "$picture" cat.png instruction_set model_sha256 low_noise; do
        grep -qaF -- "$text" "$file" || bad "$file lacks $text"
    done
done

tiny --out v.mp4 --frames-out frames --latents-out l.safetensors --no-metadata
expect_code 0
tiny --out v.webm --no-metadata
expect_code 0
for file in v.mp4 v.webm frames/frame_00003.png l.safetensors; do
    for text in "A white cat sits." zoetrope "$picture"; do
        ! grep -qaF -- "$text" "$file" || bad "$file has $text"
    done
done
finish
