# Odd sides at the encoder: 4:2:0 repeats the last row or column, Y4M keeps the size; the file is never empty. Videos of
# the model are always multiples of 16.
. "$COMMON"

while read -r width height even; do
    for kind in mp4 webm y4m; do
        said="video $width $height $kind"
        : >stderr
        "$TOOL" video odd.$kind "$width" "$height" 3 2>stderr || bad "cannot write"
        expect_files odd.$kind
        wanted=$even
        [ $kind != y4m ] || wanted="$width $height"
        expect_equal $kind "$("$TOOL" probe odd.$kind)" "$wanted 3"
    done
done <<END
33 17 34 18
1 1 2 2
16 15 16 16
15 16 16 16
END
"$TOOL" picture p.ppm 37 53
tiny --image p.ppm --out v.mp4
expect_code 0
expect_says 'video 48x64'
expect_equal "video" "$("$TOOL" probe v.mp4)" "48 64 5"
finish
