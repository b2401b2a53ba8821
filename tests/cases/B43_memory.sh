# Fifty jobs in one process: see B43_memory.c. Sanitizers keep freed memory for a while, so that nothing could be flat; the
# leak sanitizer watches the same jobs elsewhere.
. "$COMMON"
[ -z "$SANITIZED" ] || {
    echo "skipped: sanitizers keep freed memory"
    exit 77
}

said="case_b43"
"$CASES/case_B43_memory" "$CKPT" "$IMAGE" "$work" >stdout 2>stderr
code=$?
expect_code 0
finish
