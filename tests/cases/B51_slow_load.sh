# Weights that are not in memory: see B51_slow_load.c. The file lies beside the programs, since a temporary folder may be
# one in memory.
. "$COMMON"
[ -z "$SANITIZED" ] || {
    echo "skipped: sanitizers take more time than the disk"
    exit 77
}

said="case_B51_slow_load"
place=$(mktemp -d "$CASES/B51.XXXXXX") || exit 1
trap 'rm -rf "$work" "$place"' EXIT
"$CASES/case_B51_slow_load" "$place/weights.safetensors" >stdout 2>stderr
code=$?
cat stdout
[ "$code" -ne 77 ] || exit 77
expect_code 0
finish
