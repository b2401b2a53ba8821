# zoe doctor: complete, well on this machine, robust where something is missing.
. "$COMMON"

value() {
    "$TOOL" value stdout "$@"
}

zoe doctor
expect_code 0
[ ! -s stderr ] || bad "something on standard error"
for text in cpu kernels threads caches memory cgroup 'huge pages' libavcodec libpng jansson OpenSSL sentencepiece \
    H.264 VP9 devices disk self-test GFLOP/s GB/s; do
    grep -qF -- "$text" stdout || bad "the text lacks $text"
done
grep -q 'self-test.*: right$' stdout || bad "the self-test does not say that all is right"

# Nothing is left behind.
mkdir tmp
TMPDIR=$work/tmp zoe doctor --json
expect_code 0
[ -z "$(ls tmp)" ] || bad "left in TMPDIR: $(ls tmp)"
expect_equal "temporary folder" "$(value temporary)" "$work/tmp"
expect_equal "well" "$(value well)" true
expect_equal "faults" "$(value faults)" 0
expect_equal "device" "$(value devices 0)" cpu
[ "$(value kernels)" -ge 30 ] || bad "too few kernels were tried"
[ "$(value machine threads)" -ge 1 ] || bad "no threads"
expect_equal "H.264" "$(value encoders 0 works)" true
expect_equal "VP9" "$(value encoders 1 works)" true
best=$(value machine kernels)

# The instruction set and why.
ZOE_CPU=c
export ZOE_CPU
zoe doctor --json
expect_code 0
expect_equal "kernels" "$(value machine kernels)" c
expect_equal "kernels for the cpu" "$(value kernels_for_cpu)" 0
# A temporary folder that is not there is no fault.
export TMPDIR
TMPDIR=$work/nowhere
ZOE_CPU=abacus zoe doctor --json
unset TMPDIR
expect_code 0
grep -q 'could not be tried' stdout || bad "untried encoders are not told"
expect_equal "kernels" "$(value machine kernels)" "$best"
grep -q 'ZOE_CPU=abacus is passed over' stdout || bad "a wrong ZOE_CPU is not told"
unset ZOE_CPU

# One cpu by affinity.
if command -v taskset >/dev/null && [ "$(nproc)" -gt 1 ] && [ -z "$SANITIZED" ]; then
    first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
    taskset -c "$first" "$ZOE" doctor --json >stdout 2>stderr
    code=$?
    expect_code 0
    expect_equal "threads" "$(value machine threads)" 1
    grep -q 'affinity' stdout || bad "affinity is not told"
fi

zoe doctor now
expect_code 2
zoe doctor --help
expect_code 0
finish
