# Alpha is dropped, as in the official code: (255,0,0,0) and (0,255,0,128) are red and green. One line says so, and only
# when some pixel is not opaque.
. "$COMMON"

printf 'P6\n2 1\n255\n\377\0\0\0\377\0' >red_green.ppm
zoe compare "$DATA/picture/two_clear.png" red_green.ppm
expect_code 0
expect_equal "the difference" "$(awk '$1 == "total" { print $2, $4 }' stdout)" "equal 0"

tiny --image "$DATA/picture/two_clear.png" --steps 1 --frames-out clear --progress none
expect_code 0
expect_says transparency
expect_equal "lines about it" "$(grep -c transparency stderr)" 1
tiny --image red_green.ppm --steps 1 --frames-out plain
expect_code 0
expect_silent_about transparency
zoe compare clear plain
expect_equal "the difference" "$(awk '$1 == "total" { print $2, $4 }' stdout)" "equal 0"

# An alpha channel that is 255 everywhere is not worth a word.
tiny --image "$DATA/picture/opaque.png" --dry-run
expect_code 0
expect_silent_about transparency
for name in rgba.png grey_alpha.png palette_trns.png lossy_alpha.webp rgba.tif; do
    tiny --image "$DATA/picture/$name" --dry-run
    expect_code 0
    expect_says "$name: transparency"
done
finish
