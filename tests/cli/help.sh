# --help and --version: on standard output, code 0, and complete.
. "$COMMON"

zoe generate --help
expect_code 0
[ ! -s stderr ] || bad "something on standard error"
for text in --model --guide-scale '[3.5,3.5]' 'Exit codes' models/demo --ckpt_dir; do
    grep -qF -- "$text" stdout || bad "the help text lacks $text"
done
[ "$(awk 'length > 90' stdout | wc -l)" -eq 0 ] || bad "the help text has long lines"
cp stdout help

zoe help generate
expect_code 0
expect_same stdout help
zoe generate -h --nonsense
expect_code 0
expect_same stdout help

# Every command has one, that says where the options are and what the exit codes mean.
for command in compare completion help; do
    zoe help $command
    expect_code 0
    grep -q "^zoe $command: " stdout || bad "no help for $command"
    grep -qF 'Exit codes: 0 done; 1 the run failed; ' stdout || bad "the help of $command lacks the exit codes"
    cp stdout help
    zoe $command --help
    expect_same stdout help
done

zoe --help
expect_code 0
grep -q version stdout || bad "the list of commands is not whole"

zoe --version
expect_code 0
grep -q '^zoe [0-9]' stdout || bad "no version"
for text in compiler cpu libavcodec; do
    grep -q "$text" stdout || bad "the version text lacks $text"
done

# A text that could not be written is a failure.
if [ -w /dev/full ]; then
    "$ZOE" --help >/dev/full 2>stderr
    code=$?
    expect_code 1
    expect_says 'standard output'
fi
finish
