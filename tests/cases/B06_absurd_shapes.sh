# Pictures of absurd shapes: used, or refused with a sentence before any weight is read; no unchecked product.
. "$COMMON"

"$TOOL" picture dot.ppm 1 1
tiny --image dot.ppm --out v.mp4
expect_code 0
expect_says 'picture 1x1; video 64x64'
expect_equal "video" "$("$TOOL" probe v.mp4)" '64 64 5'

# The official rule gives 19968x16 and 32x11536 here: the first is over the largest side.
"$TOOL" picture line.ppm 1000 1
tiny --image line.ppm --size 832x480 --out w.mp4
expect_code 2
expect_says 'line.ppm: the picture is 1000x1'
expect_says 'a video of 19968x16 of it, and sides of 16 to 16384 are wanted: ask for another size, or crop the picture'
expect_silent_about 'text begins'
expect_no_files w.mp4
tiny --image line.ppm --dry-run
expect_code 2
expect_says line.ppm
"$TOOL" picture tower.ppm 3 1000
tiny --image tower.ppm --size 832x480 --dry-run
expect_code 0
expect_says 'video 32x11536'

# 400 million pixels, in a file that holds them (without blocks on the disk) and in one that does not: refused by the
# header, before memory is taken.
printf 'P4\n20000 20000\n' >whole.pbm
truncate -s +50000000 whole.pbm
printf 'P6\n20000 20000\n255\n' >huge.ppm
for name in whole.pbm huge.ppm; do
    said="a picture of 20000x20000, $name"
    most=$("$TOOL" memory "$ZOE" generate --model "$CKPT" --image $name --threads 1 --out w.mp4 2>stderr)
    code=$?
    expect_code 3
    expect_says "$name: a picture of 20000x20000 is larger than 268435456 pixels"
    expect_silent_about 'text begins'
    [ -n "${SANITIZED:-}" ] || [ "$most" -lt 200000000 ] || bad "took $most bytes"
    expect_no_files w.mp4
done

# Products that overflow, and sides of nothing.
printf 'P6\n4294967297 4294967297\n255\n' >overflow.ppm
printf 'P6\n4294967295 4294967295\n255\n' >almost.ppm
printf 'P6\n0 0\n255\n' >none.ppm
printf 'P6\n5 0\n255\n' >flat.ppm
for name in overflow.ppm almost.ppm none.ppm flat.ppm; do
    tiny --image $name --out w.mp4
    expect_code 3
    expect_says $name
    expect_no_files w.mp4
done
finish
