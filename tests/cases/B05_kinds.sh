# PNG by other writers, all kinds of JPEG, and files that bear the wrong suffix: decoded by content, or refused with the
# kind's name.
. "$COMMON"

# near MOST A B: no two values differ by more.
near() {
    zoe compare "$2" "$3"
    expect_code 0
    worst=$(awk '$1 == "total" { print $4 }' stdout)
    [ "${worst:-256}" -le "$1" ] || bad "$2 differs by ${worst:-anything}"
}

near 0 "$DATA/picture/rgb_pieces.png" "$DATA/picture/rgb_pieces.png.ppm"
for kind in 444 422 420 411 progressive restart grey; do
    near 3 "$DATA/picture/jpeg_$kind.jpg" "$DATA/picture/jpeg_$kind.jpg.ppm"
done
near 5 "$DATA/picture/jpeg_cmyk.jpg" "$DATA/picture/jpeg_cmyk.jpg.ppm"

# The suffix does not matter.
for name in lossy.webp jpeg_420.jpg rgb.bmp rgb.tif palette.gif; do
    cp "$DATA/picture/$name" wrong.png
    tiny --image wrong.png --steps 1 --latents-out a.safetensors --no-metadata
    expect_code 0
    tiny --image "$DATA/picture/$name" --steps 1 --latents-out b.safetensors --no-metadata
    expect_code 0
    expect_same a.safetensors b.safetensors
done
cp "$DATA/picture/rgb.png" wrong.webp
near 0 wrong.webp "$DATA/picture/rgb.png"

# refused NAME KIND: one sentence with both, before the work begins.
refused() {
    tiny --image "$1" --out v.mp4
    expect_code 3
    expect_says "$1: $2 is not read; convert it to PNG, JPEG"
    expect_silent_about begins
    expect_equal "lines" "$(wc -l <stderr | tr -d ' ')" 1
    expect_no_files v.mp4
}
cp "$DATA/picture/avif.png" avif.png
refused avif.png AVIF
printf '\0\0\0\030ftypheic\0\0\0\0mif1heic' >heic.png
refused heic.png HEIC
printf '\0\0\0\030ftypmif1\0\0\0\0mif1heic' >heif.jpg
refused heif.jpg HEIF
printf '\377\012\0\0\0\0\0\0\0\0\0\0' >jxl.png
refused jxl.png 'JPEG XL'
printf '\0\0\0\014jP  \r\n\207\n\0\0\0\024ftypjp2 ' >jp2.jpg
refused jp2.jpg 'JPEG 2000'
"$TOOL" video video.png.mp4 64 48 3
mv video.png.mp4 video.png
refused video.png 'MP4 (a video)'
finish
