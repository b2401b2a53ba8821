# The number of frames must be 4n+1: said before anything is loaded, with the nearest legal numbers.
. "$COMMON"

for frames in 1 5; do
    tiny --frames $frames --out v$frames.mp4
    expect_code 0
    expect_equal "video" "$("$TOOL" probe v$frames.mp4)" "64 48 $frames"
done
refuse() {
    zoe generate --model nowhere --image nothing.png --frames "$1"
    expect_code 2
    expect_says "$2"
}
refuse 2 '1 and 5'
refuse 4 '1 and 5'
refuse 80 '77 and 81'
refuse 82 '81 and 85'
refuse 0 'from 1 to'
refuse -3 'from 1 to'
refuse 2147483647 'from 1 to'
finish
