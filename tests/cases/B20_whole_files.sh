# A checkpoint's pieces fill its file: a byte more is refused in every kind of file, by name, before any work. Holes and
# overlaps: see the C file.
. "$COMMON"

said=case_B20_whole_files
"$CASES/case_B20_whole_files" "$DATA" >stdout 2>stderr
code=$?
expect_code 0

for file in Wan2.1_VAE.pth models_t5_umt5-xxl-enc-bf16.pth \
    low_noise_model/diffusion_pytorch_model.safetensors \
    high_noise_model/diffusion_pytorch_model-00002-of-00002.safetensors; do
    rm -rf ckpt
    cp -r "$CKPT" ckpt
    bytes=$(wc -c <"ckpt/$file" | tr -d ' ')
    printf x >>"ckpt/$file"
    tiny --model ckpt --out v.mp4
    expect_code 3
    expect_says "ckpt/$file: has $((bytes + 1)) bytes"
    expect_says "$bytes: there is something behind"
    expect_no_files v.mp4
done
finish
