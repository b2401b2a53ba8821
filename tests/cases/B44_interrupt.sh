# A signal in any phase: code 130, nothing under the final names, nothing half made. An old video stays.
. "$COMMON"

# stop SIGNAL TIMES TEXT OPTIONS: sends the signal when TEXT is said.
stop() {
    said="signal $*"
    signal=$1 times=$2 text=$3
    shift 3
    "$TOOL" signal "$signal" "$times" "$text" "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." \
        --size 128x128 --frames 17 --solver euler --steps 3000 --seed 1 --threads 1 --progress plain "$@" >stdout 2>stderr
    code=$?
}

echo old >v.mp4
for text in 'text begins' 'encode begins' 'steps begins' 'steps 2/'; do
    for signal in INT TERM; do
        stop $signal 1 "$text" --out v.mp4 --latents-out l.safetensors --frames-out frames
        expect_code 130
        expect_says interrupted
        expect_silent_about 'decode begins'
        expect_equal "the old file" "$(cat v.mp4)" old
        expect_no_files l.safetensors frames
        expect_no_parts
    done
done
for text in 'decode begins' 'decode 2/'; do
    stop INT 1 "$text" --steps 1 --frames 65 --out v.mp4
    expect_code 130
    expect_says interrupted
    expect_equal "the old file" "$(cat v.mp4)" old
    expect_no_parts
done

# The second signal ends at once.
stop INT 2 'steps 1/' --out w.mp4
expect_code 130
expect_no_files w.mp4
stop HUP 2 'decode 1/' --steps 1 --frames 65 --out w.mp4
expect_code 130
expect_no_files w.mp4
expect_no_parts

# A background job that ignores the signal goes on ignoring it.
stop_ignored() {
    trap '' HUP
    "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 1 --solver euler --steps 300 --threads 1 --out u.mp4 2>stderr &
    sleep 0.05
    kill -HUP $!
    wait $!
    code=$?
    trap - HUP
}
stop_ignored
expect_code 0
expect_files u.mp4
finish
