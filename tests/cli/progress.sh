# --dry-run and the styles of --progress.
. "$COMMON"

tiny --dry-run --out v.mp4
expect_code 0
expect_nothing_on_stdout
expect_no_files v.mp4
expect_no_parts
for text in 'picture ' 'video 64x48, 5 frames at 16 a second' 'latent 2 frames of 8x6, 24 tokens' 'passes' \
    'memory: text' 'peak' 'seed 1,'; do
    expect_says "$text"
done
tiny --dry-run --fps 23.976
expect_says 'at 2997/125 a second'
tiny --dry-run --fps 24000/1001
expect_says 'at 24000/1001 a second'

# Plain lines: a line for each step, beginning and end of each phase.
tiny --out v.mp4 --progress plain
expect_code 0
for text in 'text begins' 'encode begins' 'steps begins, 2 steps' 'steps 1/2' 'steps 2/2' 'decode begins' 'decode: ' \
    'wrote v.mp4: 5 frames of 64x48, seed 1, in '; do
    expect_says "$text"
done
cp stderr plain
tiny --out v.mp4
expect_equal "lines of auto without a terminal" "$(wc -l <stderr)" "$(wc -l <plain)"

# None: only what matters.
tiny --out v.mp4 --progress none
expect_code 0
expect_equal "number of lines" "$(wc -l <stderr | tr -d ' ')" 1
expect_says 'wrote v.mp4'

# JSON: the events that the manual page lists, in their order, with their members.
tiny --out v.mp4 --progress json --verbose
expect_code 0
"$TOOL" events stderr whole || bad "these are not the events of a run"
expect_equal seed "$("$TOOL" get stderr "done" seed)" 1
expect_equal out "$("$TOOL" get stderr "done" out)" v.mp4
expect_equal frames "$("$TOOL" get stderr "done" frames)" 5
expect_equal "last phase" "$("$TOOL" get stderr progress phase)" decode
expect_equal "done of the last phase" "$("$TOOL" get stderr progress "done")" "$("$TOOL" get stderr progress total)"
expect_equal width "$("$TOOL" get stderr plan width)" 64
expect_equal "lines of steps" "$(grep -c '"phase":"steps"' stderr)" 3

# Previews and checkpoints are told when their files are there; a run that goes on tells what was done.
tiny --out v.mp4 --progress json --preview now.png --checkpoint state
expect_code 0
"$TOOL" events stderr whole || bad "these are not the events of a run"
expect_equal "steps kept" "$("$TOOL" get stderr checkpoint steps)" 2
expect_equal "preview" "$("$TOOL" get stderr preview path) $("$TOOL" get stderr preview step)" 'now.png 1'
expect_equal "previews" "$(grep -c '"event":"preview"' stderr)" 2
expect_files now.png
zoe generate --resume state --progress json --threads 1
expect_code 0
"$TOOL" events stderr whole || bad "these are not the events of a run"
expect_equal "steps done" "$("$TOOL" get stderr plan steps_done)" 2
tiny --dry-run --progress json
"$TOOL" events stderr || bad "these are not the events of a plan"
expect_equal "lines of a plan" "$(wc -l <stderr | tr -d ' ')" 2

# JSON of failures, with bytes in a path that are no UTF-8.
tiny --image "$(printf 'no\377such"\\.png')" --out v.mp4 --progress json
expect_code 3
"$TOOL" events stderr whole || bad "these are not the events of a failure"
expect_equal code "$("$TOOL" get stderr error code)" MISSING
expect_equal exit "$("$TOOL" get stderr error exit)" 3

# A mistake in the line itself, before or after the option.
for line in '--progress json --frmes 5' '--frmes 5 --progress=json' '--progress json --frames 6'; do
    # shellcheck disable=SC2086
    tiny --out v.mp4 $line
    expect_code 2
    "$TOOL" events stderr whole || bad "these are not the events of a failure"
    expect_equal code "$("$TOOL" get stderr error code)" INVALID
done
tiny --frmes 5 --progress json --progress none
expect_says 'zoe: --frmes is no option'
finish
