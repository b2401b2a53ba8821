# One frame rate: what was asked for is in the plan and in every container, exactly; 23.976 is 2997/125 and not
# 24000/1001, which may be written too. Wan's models take no rate.
. "$COMMON"

for row in '25 25/1 25' '23.976 2997/125 2997/125' '24000/1001 24000/1001 24000/1001' '12.5 25/2 25/2'; do
    # shellcheck disable=SC2086
    set -- $row
    expect_equal "the plan's rate" "$(plan fps --fps "$1")" "$3"
    for kind in mp4 webm y4m; do
        tiny --frames 5 --steps 1 --fps "$1" --out v.$kind
        expect_code 0
        expect_equal "the rate of $kind" "$("$TOOL" rate v.$kind)" "$2"
    done
done

# Two rates are told apart.
tiny --frames 5 --steps 1 --fps 25 --out a.mp4
tiny --frames 5 --steps 1 --fps 23.976 --out b.mp4
zoe compare a.mp4 b.mp4
expect_code 0
expect_says 'the frame rates differ: 25/1 and 2997/125 a second'
finish
