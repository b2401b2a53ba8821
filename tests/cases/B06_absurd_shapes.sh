# Pictures of absurd shapes: used, or refused with a sentence before any weight is read; no unchecked product.
. "$COMMON"

"$TOOL" picture dot.ppm 1 1
tiny --image dot.ppm --out v.mp4
expect_code 0
expect_says 'picture 1x1; video 64x64'

# The official rule gives 19968x16 and 32x11536 here: the first is over the largest side.
"$TOOL" picture line.ppm 1000 1
tiny --image line.ppm --size 832x480 --dry-run
expect_code 2
expect_says 'line.ppm: the picture is 1000x1'
expect_says 'a video of 19968x16 of it, and sides of 16 to 16384 are wanted: ask for another size, or crop the picture'
tiny --image line.ppm --dry-run
expect_code 2
expect_says line.ppm
"$TOOL" picture tower.ppm 3 1000
tiny --image tower.ppm --size 832x480 --dry-run
expect_code 0
expect_says 'video 32x11536'

printf 'P6\n20000 20000\n255\n' >huge.ppm
printf 'P6\n4294967297 4294967297\n255\n' >overflow.ppm
printf 'P6\n0 0\n255\n' >none.ppm
for name in huge.ppm overflow.ppm none.ppm; do
    tiny --image $name --out w.mp4
    expect_code 3
    expect_says $name
    expect_no_files w.mp4
done
finish
