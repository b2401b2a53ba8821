# What the scripts of tests/cli and tests/cases share. ctest gives in the environment:
#   ZOE   the program        TOOL  cli_tool        DATA  tests/data        DEMO  models/demo
#   RECAST  cli_recast   LORA  cli_lora    EXAMPLES  examples   TYPES  wan_types
# Each script runs in an empty folder of its own and exits with 1 if an expectation failed.
set -u
CKPT=$DATA/e2e_i2v/ckpt
IMAGE=$DATA/e2e_i2v/input.png
unset TERM COLUMNS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# zoe ARGS: runs the program; leaves its exit code in $code and its texts in the files stdout and stderr.
zoe() {
    said="zoe $*"
    "$ZOE" "$@" >stdout 2>stderr
    code=$?
}

# A small run without outputs; later options override its own. One thread: tests may run beside others on few cores.
tiny() {
    zoe generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." --size 64x64 --frames 5 \
        --negative-prompt blurry --steps 2 --seed 1 --threads 1 "$@"
}

bad() {
    echo "FAIL: $*"
    echo "  after: $said" | cut -c 1-600
    sed 's/^/  stderr: /' stderr | cut -c 1-600 | head -n 20
    failures=$((failures + 1))
}

expect_code() {
    [ "$code" -eq "$1" ] || bad "exit code $code, wanted $1"
}
expect_says() {
    grep -qF -- "$1" stderr || bad "standard error lacks: $1"
}
expect_silent_about() {
    ! grep -qF -- "$1" stderr || bad "standard error has: $1"
}
expect_nothing_on_stdout() {
    [ ! -s stdout ] || bad "something on standard output"
}
expect_files() {
    for name in "$@"; do
        [ -s "$name" ] || bad "$name is missing or empty"
    done
}
expect_no_files() {
    for name in "$@"; do
        [ ! -e "$name" ] || bad "$name is there"
    done
}
# expect_no_parts [FOLDER]: nothing half written is left.
expect_no_parts() {
    parts=$(find "${1:-.}" -name '*.part')
    [ -z "$parts" ] || bad "left behind: $parts"
}
expect_same() {
    cmp -s "$1" "$2" || bad "$1 and $2 differ"
}
expect_different() {
    ! cmp -s "$1" "$2" || bad "$1 and $2 are equal"
}
# expect_equal WHAT FOUND WANTED
expect_equal() {
    [ "$2" = "$3" ] || bad "$1 is $2, wanted $3"
}
# plan KEY ARGS: a value of the plan of a dry run.
plan() {
    key=$1
    shift
    tiny --dry-run --progress json "$@"
    [ "$code" -eq 0 ] || bad "exit code $code, wanted 0"
    "$TOOL" get stderr plan "$key"
}
finish() {
    [ "$failures" -eq 0 ] || exit 1
}
