# The number of frames must be 4n+1: said before anything is loaded, with the nearest legal numbers.
. "$COMMON"

for frames in 1 5; do
    tiny --frames $frames --out v$frames.mp4
    expect_code 0
    expect_equal "video" "$("$TOOL" probe v$frames.mp4)" "64 48 $frames"
done
for frames in 9 77 81 85; do
    expect_equal frames "$(plan frames --frames $frames)" $frames
    expect_equal latent_frames "$(plan latent_frames --frames $frames)" $(((frames + 3) / 4))
done

# Neither the model nor the picture is there: the number alone is enough for a refusal.
refuse() {
    zoe generate --model nowhere --image nothing.png --frames "$1"
    expect_code 2
    expect_says "$2"
    expect_silent_about nowhere
}
refuse 2 '1 and 5'
refuse 4 '1 and 5'
refuse 3 '1 and 5'
refuse 80 '77 and 81'
refuse 82 '81 and 85'
refuse 84 '81 and 85'
refuse 0 'from 1 to'
refuse -3 'from 1 to'
refuse 2147483647 'from 1 to'
refuse 4294967297 'from 1 to'
refuse 18446744073709551617 'from 1 to'
refuse 5.0 'from 1 to'
refuse five 'from 1 to'
# The official spelling of the option follows the same rule.
zoe generate --ckpt_dir nowhere --image nothing.png --frame_num 80
expect_code 2
expect_says '77 and 81'
finish
