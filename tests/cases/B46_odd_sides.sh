# Odd sides at the encoder: the last row or column is repeated, the file is not empty. Videos of the model are always
# multiples of 16.
. "$COMMON"

for size in '33 17' '1 1' '16 15' '15 16'; do
    for kind in mp4 webm y4m; do
        said="video $size $kind"
        : >stderr
        # shellcheck disable=SC2086
        "$TOOL" video odd.$kind $size 3 2>stderr || bad "cannot write"
        expect_files odd.$kind
        found=$("$TOOL" probe odd.$kind)
        expect_equal "frames" "${found##* }" 3
    done
    expect_equal "y4m" "$found" "$size 3"
done
"$TOOL" picture p.ppm 37 53
tiny --image p.ppm --out v.mp4
expect_code 0
expect_says 'video 48x64'
expect_equal "video" "$("$TOOL" probe v.mp4)" "48 64 5"
finish
