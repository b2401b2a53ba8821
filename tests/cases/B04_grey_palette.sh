# Grey, grey with alpha, 1 to 16 bits, palettes with and without transparency, interlaced: the RGB meaning of the file,
# as Pillow has it in the .ppm beside it.
. "$COMMON"

# equals A B: not one value differs.
equals() {
    zoe compare "$1" "$2"
    expect_code 0
    expect_equal "the difference of $1" "$(awk '$1 == "total" { print $2, $4 }' stdout)" "equal 0"
}

for name in grey grey1 grey2 grey4 grey16 grey_alpha palette palette1 palette2 palette4 palette_trns rgb16 rgba16 \
    rgb_interlaced; do
    equals "$DATA/picture/$name.png" "$DATA/picture/$name.png.ppm"
done
for name in grey.gif palette.bmp one.bmp palette.tif grey.tif one.tif one.pbm; do
    equals "$DATA/picture/$name" "$DATA/picture/$name.ppm"
done

# Grey values are the same in all three channels, a bit is black or white: 4x1 of each, by hand.
printf 'P5\n4 1\n255\n\000\100\200\377' >grey.pgm
printf 'P6\n4 1\n255\n\0\0\0\100\100\100\200\200\200\377\377\377' >grey.ppm
equals grey.pgm grey.ppm
printf 'P4\n4 1\n\120' >bits.pbm
printf 'P6\n4 1\n255\n\377\377\377\0\0\0\377\377\377\0\0\0' >bits.ppm
equals bits.pbm bits.ppm

# And so they reach the model.
tiny --image grey.pgm --steps 1 --latents-out a.safetensors --no-metadata
expect_code 0
tiny --image grey.ppm --steps 1 --latents-out b.safetensors --no-metadata
expect_code 0
expect_same a.safetensors b.safetensors
finish
