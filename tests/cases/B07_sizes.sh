# Sizes that are no multiples of 16: only the area counts, what was chosen is printed. Three signs mean "by".
. "$COMMON"

"$TOOL" picture wide.ppm 100 60
tiny --image wide.ppm --size 100x60 --dry-run
expect_code 0
expect_says 'picture 100x60; video 96x48'
for size in 832x470 '832*470' 832×470 832X470; do
    tiny --image wide.ppm --size "$size" --dry-run
    expect_code 0
    expect_says 'video 800x480'
done
finish
