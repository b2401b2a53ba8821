# Sizes that are no multiples of 16: only the area counts, what was chosen is printed. Three signs mean "by".
. "$COMMON"

"$TOOL" picture wide.ppm 100 60
tiny --image wide.ppm --size 100x60 --steps 1 --out v.mp4
expect_code 0
expect_says 'picture 100x60; video 96x48'
expect_says 'wrote v.mp4: 5 frames of 96x48'
expect_equal "video" "$("$TOOL" probe v.mp4)" '96 48 5'
for size in 832x470 '832*470' 832×470 832X470; do
    tiny --image wide.ppm --size "$size" --dry-run
    expect_code 0
    expect_says 'video 800x480'
done
for size in 832x480 '832*480' 832×480; do
    tiny --image wide.ppm --size "$size" --dry-run
    expect_code 0
    expect_says 'video 800x480'
done
# The rule is in the help text.
"$ZOE" generate --help >stdout
grep -q 'multiples of 16' stdout || bad 'the help text does not tell the rule'

for size in 832 832x 'x480' 832x480x3 832:480 -832x480 0x480 15x480 8e2x480 99999999999999999999x16 ''; do
    tiny --image wide.ppm --size "$size" --dry-run
    expect_code 2
    expect_says -- --size
done
finish
