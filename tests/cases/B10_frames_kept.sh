# Every container holds exactly the frames that were asked for.
. "$COMMON"

for frames in 5 9 17; do
    for kind in mp4 webm y4m; do
        tiny --frames $frames --steps 1 --out v.$kind --frames-out frames$frames
        expect_code 0
        expect_equal "$kind" "$("$TOOL" probe v.$kind)" "64 48 $frames"
    done
    expect_equal "PNG files" "$(ls frames$frames | wc -l | tr -d ' ')" $frames
done
finish
