# Thread counts change no byte. The default honours the affinity mask.
. "$COMMON"

for threads in 1 2 3 64; do
    tiny --no-metadata -t $threads --out $threads.y4m
    expect_code 0
    expect_says "$threads thread"
    expect_same 1.y4m $threads.y4m
done
if command -v taskset >/dev/null && taskset -c 0 true 2>/dev/null; then
    taskset -c 0 "$ZOE" --version >stdout 2>stderr
    grep -q ', 1 threads' stdout || bad "affinity is not honoured"
fi
finish
