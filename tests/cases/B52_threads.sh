# Thread counts change no byte. The default honours the affinity mask and the quota (see also B52_quota.c); what is asked
# for is what runs, never more.
. "$COMMON"

for threads in 1 2 3 64; do
    tiny --no-metadata -t $threads --out $threads.y4m
    expect_code 0
    expect_says "$threads thread"
    expect_same 1.y4m $threads.y4m
done

# threads_of OPTIONS: the number that a run says it uses.
threads_of() {
    "$@" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --dry-run --progress json >stdout 2>stderr
    "$TOOL" get stderr plan threads
}
default=$(threads_of "$ZOE")
[ "$default" -ge 1 ] && [ "$default" -le "$(getconf _NPROCESSORS_ONLN)" ] || bad "$default threads by default"
if command -v taskset >/dev/null && taskset -c 0 true 2>/dev/null; then
    expect_equal "threads on one cpu" "$(threads_of taskset -c 0 "$ZOE")" 1
fi

# The threads of the running process, again and again: not more than those asked for. OpenMP lets some go between small loops.
if [ -d /proc/self/task ]; then
    for threads in 1 3; do
        said="threads of a run with -t $threads"
        "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --solver euler --steps 1000 --seed 1 \
            --progress plain -t $threads --out v.y4m >stdout 2>stderr &
        child=$!
        until grep -qF 'steps 5/' stderr || ! kill -0 $child 2>/dev/null; do
            sleep 0.01
        done
        # The least of ten: when a smaller team follows a larger one, threads end and begin.
        least=1000 most=0
        for i in 1 2 3 4 5 6 7 8 9 10; do
            found=$(ls /proc/$child/task | wc -l)
            [ "$found" -ge $least ] || least=$((found))
            [ "$found" -le $most ] || most=$((found))
            sleep 0.02
        done
        [ $least -ge 1 ] && [ $least -le $threads ] || bad "$least tasks"
        [ $threads -eq 1 ] || [ $most -gt 1 ] || bad "never more than one task"
        kill $child
        wait $child
    done
fi
finish
