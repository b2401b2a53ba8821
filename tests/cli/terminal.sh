# On a terminal: sentences are wrapped, progress is one line that is erased and written anew, nothing is wider than it is.
. "$COMMON"
"$TOOL" terminal 80 true >/dev/null 2>&1 || {
    echo "skipped: this system has no pseudoterminals"
    exit 77
}

on_terminal() {
    said="terminal $*"
    columns=$1
    shift
    TERM=xterm "$TOOL" terminal "$columns" "$ZOE" "$@" >raw 2>&1
    code=$?
    # What stands on the screen in the end, and everything that stood there at some time.
    tr -d '\r' <raw | sed "s/.*$(printf '\033')\[K//" >stderr
    tr '\r' '\n' <raw | sed "s/$(printf '\033')\[K//g" >ever
}
expect_narrow() {
    [ "$(awk -v n="$1" 'length > n' ever | wc -l)" -eq 0 ] || bad "lines wider than $1"
}

for columns in 30 50 120; do
    on_terminal $columns generate --model "$CKPT" --image "$IMAGE" --negative-prompt blurry --size 64x64 --frames 5 \
        --steps 2 --seed 1 --threads 1 --out v.mp4
    expect_code 0
    expect_narrow "$columns"
    grep -q 'steps  \[' ever || bad "no bar of the steps"
    expect_silent_about '['
    expect_says 'wrote v.mp4'
done
expect_says 'seed 1, in '

on_terminal 40 generate --model m --image i --frames 82
expect_code 2
expect_narrow 40
grep -q '^     [^ ]' stderr || bad "a wrapped line is not indented"

on_terminal 80 generate --model "$CKPT" --image "$IMAGE" --frames 5 --out -
expect_code 2
expect_says 'standard output is a terminal'

# Without an erasable line, plain lines.
TERM=dumb "$TOOL" terminal 80 "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 1 --steps 1 \
    --threads 1 --out v.mp4 >stderr 2>&1
code=$?
expect_code 0
expect_says 'steps begins'
finish
