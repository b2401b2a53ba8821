# --log: everything that is said, with the time, and the progress in plain lines whatever is shown.
. "$COMMON"

stamp='^[0-9]\{4\}-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]\.[0-9]\{3\}Z [a-z]*: '
expect_log() {
    grep -q -- "$1" log || bad "the log lacks: $1"
}

tiny --out v.mp4 --progress none --log log --prompt "it's a cat" --image "$IMAGE"
expect_code 0
expect_equal "lines on standard error" "$(wc -l <stderr | tr -d ' ')" 1
grep -v "$stamp" log | grep -qv '^     ' && bad "a line without time"
expect_log "Z begin: zoe [0-9.]*: generate --model .* --prompt 'it'\\\\''s a cat'"
expect_log 'Z note: picture '
expect_log '^     seed 1, 1 thread$'
expect_log 'Z note: steps begins, 2 steps'
expect_log 'Z note: steps 2/2, '
expect_log 'Z note: wrote v.mp4: 5 frames'
expect_equal "beginnings" "$(grep -c ' begin: ' log)" 1

# The next run is appended; JSON on standard error leaves the log as it is.
tiny --out v.mp4 --progress json --log log
expect_code 0
"$TOOL" events stderr whole || bad "no events"
expect_equal "beginnings" "$(grep -c ' begin: ' log)" 2
expect_equal "ends" "$(grep -c 'note: wrote v.mp4' log)" 2
expect_silent_about '"note"'

# Failures are there too, and no control character.
tiny --image "$(printf 'no\tsuch\nfile.png')" --out v.mp4 --log log
expect_code 3
expect_log 'Z error: no.*such.*file.png: no such file'
[ -z "$(LC_ALL=C tr -d ' -~\n\200-\377' <log)" ] || bad "control characters in the log"

# A file that is no text is not appended to.
cp "$IMAGE" picture.png
tiny --out v.mp4 --log picture.png
expect_code 2
expect_says 'no log of zoe'
expect_same picture.png "$IMAGE"
tiny --out w.y4m --log w.y4m
expect_code 2
expect_says 'two names are wanted'
expect_no_files w.y4m
printf 'P3 1 1 1 0 0 0\n' >text.ppm
tiny --image text.ppm --out v.mp4 --log text.ppm
expect_code 2
expect_equal "the picture" "$(cat text.ppm)" 'P3 1 1 1 0 0 0'

# Nor is a text that is none of its own, such as a part of the model.
printf '{"dim": 64}\n' >config.json
tiny --out v.mp4 --log config.json
expect_code 2
expect_says 'no log of zoe'
expect_equal "the config" "$(cat config.json)" '{"dim": 64}'

# A full disk under the log costs the log.
if [ -w /dev/full ]; then
    tiny --out full.mp4 --log /dev/full
    expect_code 0
    expect_equal "warnings" "$(grep -c 'warning: /dev/full: the log ends here: No space' stderr)" 1
    expect_files full.mp4
fi

# A pipe that nobody reads does not hold up the program.
mkfifo pipe
tiny --out v.mp4 --log pipe
expect_code 2
expect_says '--log pipe'
finish
