# zoe compare: frames of videos, pictures and folders, latents; figures, JSON, refusals and codes.
. "$COMMON"

total() {
    awk '$1 == "total" { print $2, $3, $4 }' stdout
}

# ---- figures that are known ----
# 16x16 of one value each: PSNR 20 log10(255 / 10); SSIM (2ab + C1) / (aa + bb + C1).
flat() {
    printf 'P6\n%s\n255\n' "$1"
    head -c "$2" /dev/zero | tr '\0' "$3"
}
flat '16 16' 768 '\144' >a.ppm # 100
flat '16 16' 768 '\156' >b.ppm # 110
zoe compare a.ppm b.ppm
expect_code 0
expect_equal "total" "$(total)" "28.131 0.995476 10"
zoe compare a.ppm a.ppm
expect_code 0
expect_equal "total" "$(total)" "equal 1.000000 0"
flat '10 12' 360 '\144' >small_a.ppm
flat '10 12' 360 '\145' >small_b.ppm
zoe compare small_a.ppm small_b.ppm
expect_code 0
expect_equal "total" "$(total)" "48.131 - 1"

# ---- every container against the frames ----
tiny --frames 5 --out v.mp4 --frames-out frames --latents-out l.safetensors
expect_code 0
for kind in webm y4m; do
    tiny --frames 5 --out v.$kind
done
zoe compare frames v.y4m
expect_code 0
expect_equal "frames" "$(grep -c '^ *[0-9]' stdout)" 5
[ "$(awk '$1 == "total" { print $4 }' stdout)" -le 1 ] || bad "Y4M differs by more than 1"
for kind in mp4 webm; do
    zoe compare frames v.$kind --min-psnr 20
    expect_code 0
    expect_equal "frames" "$(grep -c '^ *[0-9]' stdout)" 5
done
said="a pipe"
"$ZOE" compare frames - <v.y4m >stdout 2>stderr || bad "cannot read a pipe"
expect_equal "frames" "$(grep -c '^ *[0-9]' stdout)" 5

# Any number of threads.
zoe compare frames v.mp4 --json --threads 1
cp stdout one
zoe compare frames v.mp4 --json --threads 3
expect_same stdout one

# ---- JSON ----
zoe compare frames frames --json
expect_code 0
one='{"psnr":null,"ssim":1.0,"max_abs":0.0}'
expect_equal "JSON" "$(cat stdout)" '{"kind":"frames","width":64,"height":48,"count":5,"peak":255,"equal":true,'"\
"'"frames":['"$one,$one,$one,$one,$one],\"total\":$one}"

# ---- latents ----
zoe compare l.safetensors l.safetensors
expect_code 0
expect_equal "total" "$(total)" "equal 0.000e+00 0.000e+00"
tiny --frames 5 --seed 2 --latents-out other.safetensors
tiny --frames 9 --latents-out longer.safetensors
zoe compare l.safetensors other.safetensors
expect_code 0
expect_equal "frames" "$(grep -c '^ *[0-9]' stdout)" 2
zoe compare l.safetensors longer.safetensors
expect_code 3
expect_says 'l.safetensors has latents of f32 [16, 2, 6, 8], longer.safetensors of f32 [16, 3, 6, 8]'
zoe compare l.safetensors longer.safetensors --frames 1 --json
expect_code 0
grep -q '"kind":"latents","count":1,' stdout || bad "no JSON of latents"
cp l.safetensors nan.safetensors
"$TOOL" poison nan.safetensors latents
zoe compare l.safetensors nan.safetensors
expect_code 3
expect_says 'nan.safetensors: of the 1536 values of its latents, 1 are NaN and 0 infinite, the first at [0, 0, 0, 0]'
zoe compare l.safetensors v.mp4
expect_code 3
expect_says 'l.safetensors holds latents, v.mp4 does not'
cp l.safetensors renamed
zoe compare renamed l.safetensors
expect_code 0
zoe compare l.safetensors "$CKPT/models_t5_umt5-xxl-enc-bf16.safetensors"
expect_code 3

# ---- what does not fit together ----
zoe compare a.ppm small_a.ppm
expect_code 3
expect_says 'a.ppm has frames of 16x16, small_a.ppm of 10x12'
expect_nothing_on_stdout
tiny --frames 9 --out longer.mp4
zoe compare v.mp4 longer.mp4
expect_code 3
expect_says 'v.mp4 has 5 frames, longer.mp4 has 9; --frames 5 would'
expect_nothing_on_stdout
zoe compare longer.mp4 v.webm
expect_code 3
expect_says 'longer.mp4 has 9 frames, v.webm has 5'
zoe compare longer.mp4 v.webm --json
expect_code 3
expect_nothing_on_stdout
zoe compare longer.mp4 v.webm --frames 5
expect_code 0
zoe compare longer.mp4 v.webm --frames 6
expect_code 3
expect_says 'v.webm has 5 frames, --frames asks for 6'
for name in missing.mp4 empty text cut.mp4; do
    case $name in
    empty) : >empty ;;
    text) echo "This is no video." >text ;;
    cut.mp4) head -c 2000 v.mp4 >cut.mp4 ;;
    esac
    zoe compare v.mp4 $name
    expect_code 3
    expect_says "$name: "
    expect_nothing_on_stdout
done
rm frames/frame_00002.png
zoe compare frames v.mp4
expect_code 3
expect_says 'frames: frame_00002.png is missing'

# ---- codes ----
zoe compare a.ppm b.ppm --min-psnr 28
expect_code 0
zoe compare a.ppm b.ppm --min-psnr 29
expect_code 1
expect_says 'the total PSNR is 28.131 dB, --min-psnr wants 29'
zoe compare a.ppm a.ppm --min-psnr 1000
expect_code 0
for arguments in '' a.ppm 'a.ppm b.ppm a.ppm' 'a.ppm b.ppm --frames 0' '--nonsense a.ppm b.ppm'; do
    # shellcheck disable=SC2086
    zoe compare $arguments
    expect_code 2
    expect_nothing_on_stdout
done
zoe compare --help
expect_code 0
grep -q -- --min-psnr stdout || bad "the help text lacks --min-psnr"
finish
