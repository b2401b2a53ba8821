# Every container holds exactly the frames that were asked for, and the announced number is that number.
. "$COMMON"

for frames in 5 9 17; do
    for kind in mp4 webm y4m; do
        rm -rf frames
        tiny --frames $frames --steps 1 --out v.$kind --frames-out frames
        expect_code 0
        expect_says "video 64x48, $frames frames"
        expect_says ": $frames frames of 64x48"
        expect_equal "$kind" "$("$TOOL" probe v.$kind)" "64 48 $frames"
        expect_equal "PNG files" "$(ls frames | wc -l | tr -d ' ')" $frames
        expect_files frames/frame_00000.png "$(printf 'frames/frame_%05d.png' $((frames - 1)))"
    done
    tiny --frames $frames --steps 1 --out -
    expect_code 0
    expect_same stdout v.y4m
done
finish
