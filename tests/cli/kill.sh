# SIGKILL at random moments of a run of the demo model, and once in each stage; what goes on afterwards gives the bytes of
# a run that nobody disturbed, and nothing half made stays.
#   KILLS      number of random moments [10]
#   KILL_SEED  of the random numbers [the time]
. "$COMMON"
if [ -z "$SANITIZED" ]; then # under a sanitizer all takes ten times as long
    kills=${KILLS:-10} frames=17 chunks=5 steps=20
else
    kills=${KILLS:-2} frames=5 chunks=2 steps=4
fi
seed=${KILL_SEED:-$(date +%s)}
echo "KILLS=$kills KILL_SEED=$seed"

# start COMMAND...: becomes the run; COMMAND is the program, with what goes before it, and options. For a subshell.
start() {
    exec "$@" --model "$DEMO" --image "$DEMO/../../examples/red-circle.png" --prompt "a red circle moves right" \
        --size 64x64 --frames $frames --steps $steps --seed 1 --threads 1 --progress plain --out v.mp4 --frames-out frames \
        --latents-out l.safetensors --preview p.png 2>stderr
}
# random N: the N-th number of [0, 1) of this seed.
random() {
    awk -v seed="$seed" -v n="$1" 'BEGIN { srand(seed); for (i = 0; i <= n; i++) x = rand(); print x }'
}
# kill_one ARGS: lets a run with these arguments live for a random part of a whole run's time.
draw=0
kill_one() {
    draw=$((draw + 1))
    moment=$(awk -v x="$(random $draw)" -v t="$duration" 'BEGIN { printf "%.4f", x * t }')
    moments="$moments $moment"
    start "$ZOE" generate "$@" &
    sleep "$moment"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    code=$?
    [ $code -eq 137 ] && hits=$((hits + 1))
}
# The outputs are those of ../whole, nothing else is there, the checkpoint's folder is tidy.
check() {
    expect_code 0
    for name in v.mp4 l.safetensors p.png; do
        expect_same "$name" "../whole/$name"
    done
    diff -r frames ../whole/frames >/dev/null || bad "frames differ"
    expect_equal "what is there" "$(ls -A | tr '\n' ' ')" "ck frames l.safetensors p.png stderr v.mp4 "
    expect_equal "what is in the checkpoint" "$(ls -A ck | tr '\n' ' ')" \
        "condition.safetensors context.safetensors lock request.json step.safetensors "
    expect_no_parts
}
# begin: an empty folder for a run.
begin() {
    cd "$work" || exit 1
    rm -rf run
    mkdir run
    cd run || exit 1
}
# go_on ALONE: the last run; ALONE 1: by the folder alone, as a person would.
go_on() {
    if [ "$1" = 1 ] && [ -e ck/request.json ]; then
        "$ZOE" generate --resume ck --threads 1 --preview p.png --progress none 2>stderr
    else
        (start "$ZOE" generate --resume ck)
    fi
    code=$?
}

# The time of a whole run: the shorter of two, as the machine may be busy with other things.
said="a whole run"
mkdir whole
cd whole || exit 1
duration=1000
for turn in 1 2; do
    rm -rf ck
    begun=$(date +%s%N)
    (start "$ZOE" generate --checkpoint ck)
    code=$?
    expect_code 0
    duration=$(awk -v ns="$(($(date +%s%N) - begun))" -v t="$duration" \
        'BEGIN { s = ns / 1e9; print s < t ? s : t }')
done
[ "$failures" -eq 0 ] || finish

# In each stage, and when all frames are decoded but not yet in place.
for text in "picture" "text begins" "text 1/2" "encode begins" "encode 1/$chunks" "steps begins" "steps 1/$steps" \
    "steps $((steps / 2))/$steps" "steps $steps/$steps" "decode begins" "decode 1/$chunks" "decode $chunks/$chunks"; do
    said="SIGKILL at: $text"
    begin
    (start "$TOOL" signal KILL 1 "$text" "$ZOE" generate --checkpoint ck)
    code=$?
    [ $code -eq 137 ] || [ "$text" = "decode $chunks/$chunks" ] || bad "was not killed, code $code"
    go_on 1
    check
done

hits=0
i=0
while [ $i -lt "$kills" ]; do
    i=$((i + 1))
    begin
    moments=
    kill_one --checkpoint ck
    [ $((i % 2)) -eq 0 ] && kill_one --resume ck
    [ $((i % 4)) -eq 0 ] && kill_one --resume ck
    go_on $((i % 2))
    said="KILL_SEED=$seed, run $i of $kills, killed after$moments s of $duration s"
    check
done
cd "$work" || exit 1
said="KILL_SEED=$seed"
echo "$draw kills, $hits of them before the run's end"
[ $((4 * hits)) -ge "$draw" ] || bad "nearly all runs ended before they were killed"
finish
