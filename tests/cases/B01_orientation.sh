# EXIF orientation is applied before anything looks at the size; bad values do nothing; --no-rotate ignores it, as the
# official program does. Each .ppm is what Pillow's exif_transpose makes of the picture beside it.
. "$COMMON"

# as_pillow PICTURE: equal to the .ppm but for the rounding of JPEG.
as_pillow() {
    zoe compare "$DATA/picture/$1.ppm" "$DATA/picture/$1"
    expect_code 0
    worst=$(awk '$1 == "total" { print $4 }' stdout)
    [ "${worst:-256}" -le 3 ] || bad "$1 differs by ${worst:-anything}"
}

for order in le be; do
    for tag in 0 1 2 3 4 5 6 7 8 9; do
        name=turn${tag}_$order.jpg
        as_pillow $name
        case $tag in 5 | 6 | 7 | 8) size=4x6 ;; *) size=6x4 ;; esac
        tiny --image "$DATA/picture/$name" --dry-run
        expect_code 0
        expect_says "picture $size; "
        [ $order = be ] || continue
        tiny --image "$DATA/picture/$name" --no-rotate --dry-run
        expect_code 0
        expect_says "picture 6x4; "
    done
done
for name in turn6.png turn7.webp turn8.tif jpeg_444.jpg; do
    as_pillow $name
done

# The turned picture is the one that the video is made of.
for name in turn6_le.jpg turn6.png; do
    tiny --image "$DATA/picture/$name" --steps 1 --frames-out turned --latents-out turned.safetensors
    expect_code 0
    tiny --image "$DATA/picture/$name.ppm" --steps 1 --frames-out plain --latents-out plain.safetensors
    expect_code 0
    zoe compare turned plain --min-psnr 45
    expect_code 0
    tiny --image "$DATA/picture/$name" --no-rotate --steps 1 --latents-out stored.safetensors
    expect_code 0
    zoe compare stored.safetensors plain.safetensors
    expect_code 3
    rm -r turned plain
done
finish
