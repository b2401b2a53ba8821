# Pictures: what can be read is told by content; what cannot is code 3 with the name.
. "$COMMON"

picture() {
    tiny --image "$1" --out v.mp4
}

cp "$IMAGE" named.jpg
picture named.jpg
expect_code 0
printf 'P5\n4 1\n255\nabcd' >grey.pgm
picture grey.pgm
expect_code 0
printf 'P4\n8 1\n\252' >bits.pbm
picture bits.pbm
expect_code 0
mkfifo pipe
cat "$IMAGE" >pipe &
picture pipe
expect_code 0
rm v.mp4

for name in missing.png /; do
    picture "$name"
    expect_code 3
    expect_says "$name"
    expect_no_files v.mp4
done
: >empty.png
echo "This is no picture at all, it only bears the name of one." >text.png
head -c 200 "$IMAGE" >cut.png
for name in empty.png text.png cut.png; do
    picture $name
    expect_code 3
    expect_says $name
    expect_no_files v.mp4
done
finish
