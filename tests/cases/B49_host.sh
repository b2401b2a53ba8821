# The library in a host: see B49_host.c. Here the program with little memory: a code and a sentence, never a signal.
. "$COMMON"

said="case_b49"
"$B49" "$CKPT" "$IMAGE" "$work/v.y4m" >stdout 2>stderr
code=$?
expect_code 0
expect_nothing_on_stdout

# The sanitizers reserve more address space than this.
if ! nm "$ZOE" 2>/dev/null | grep -q __asan_init; then
    for kib in 200000 250000 350000; do
        said="ulimit -v $kib"
        (
            ulimit -v $kib # no POSIX, but every sh has it
            exec "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 256x256 --frames 5 --steps 1 --threads 1 \
                --out v.mp4
        ) >stdout 2>stderr
        code=$?
        case $code in
        0 | 1 | 3 | 4 | 127) ;;
        *) bad "exit code $code" ;;
        esac
    done
fi
finish
