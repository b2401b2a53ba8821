# The one fit rule: --size gives the area only. The video has the picture's own ratio, rounded down to multiples of 16,
# and the whole picture is scaled onto it; nothing is cropped, nothing padded, and the model sees it as its first frame.
. "$COMMON"

# demo ARGS: the demo model, whose first frame resembles the picture.
demo() {
    zoe generate --model "$DEMO" --prompt "" --frames 5 --steps 4 --seed 1 --threads 1 "$@"
    expect_code 0
}
# likeness A B: PSNR of the first frames in dB.
likeness() {
    "$ZOE" compare --frames 1 "$1" "$2" | awk '$1 == "total" { print $2 }'
}
# at_least A B WHAT
at_least() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a == "equal" || a + 0 >= b + 0) }' || bad "$3 is $1 dB, wanted $2"
}
# border W H X Y: white, within it a dark rectangle that leaves X and Y pixels on each side.
border() {
    awk -v w="$1" -v h="$2" -v x="$3" -v y="$4" 'BEGIN {
        print "P3", w, h, 255
        for (i = 0; i < w * h; i++) {
            c = i % w; r = int(i / w); v = c < x || c >= w - x || r < y || r >= h - y ? 240 : 40
            print v, v, v
        }
    }'
}

# A white picture does not become a black frame.
{ printf 'P6\n64 64\n255\n' && head -c 12288 /dev/zero | tr '\0' '\377'; } >white.ppm
demo --image white.ppm --size 64x64 --frames-out white --out white.mp4
at_least "$(likeness white.ppm white)" 18 "the first frame's likeness to white"
at_least "$(likeness white.ppm white.mp4)" 18 "the same in the video"

# A wide picture on a high canvas stays wide.
border 128 72 16 9 >wide.ppm
demo --image wide.ppm --size 64x112 --frames-out wide
expect_says 'picture 128x72; video 112x48'
border 112 48 14 6 >whole.ppm
border 112 48 0 6 >sides_cropped.ppm
border 112 48 14 0 >top_cropped.ppm
whole=$(likeness whole.ppm wide)
at_least "$whole" 12 "the likeness to the whole picture"
for name in sides_cropped.ppm top_cropped.ppm; do
    at_least "$whole" "$(likeness $name wide | awk '{ print $1 + 3 }')" "more than that to $name"
done
expect_equal "a high picture on a wide canvas" \
    "$(border 72 128 9 16 >high.ppm && plan width --image high.ppm --size 112x64)x$(plan height --image high.ppm --size 112x64)" 48x112
finish
