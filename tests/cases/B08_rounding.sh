# The official rule for the video's size, to the last bit of its arithmetic.
. "$COMMON"

rule() {
    "$TOOL" picture p.ppm "$1" "$2"
    tiny --image p.ppm --size "$3" --dry-run
    expect_code 0
    expect_says "video $4,"
}
rule 832 480 832x480 832x464
rule 480 832 832x480 480x832
rule 640 360 640x360 640x352
rule 1280 720 1280x720 1280x720
rule 640 640 832x480 624x624
rule 640 640 1280x720 960x960
finish
