# The plan's bytes hold: a run takes no more than the peak that was announced, and its memory does not grow
# with the number of frames. Sanitizers have memory of their own, so there only the run itself is tested.
. "$COMMON"
"$TOOL" picture big.ppm 320 320

# run FRAMES: the demo model on a large picture, one step.
run() {
    said="zoe generate, $1 frames of 320x320"
    most=$("$TOOL" memory "$ZOE" generate --model "$DEMO" --image big.ppm --prompt "a red circle grows" \
        --size 320x320 --frames "$1" --steps 1 --guide-scale 1 --seed 1 --progress json --out "$1.y4m" 2>stderr)
    code=$?
    expect_code 0
    peak=$("$TOOL" get stderr plan peak_bytes)
    [ -n "${SANITIZED:-}" ] || [ "$most" -le "$peak" ] ||
        bad "$1 frames took $most bytes, the plan said $peak"
}

# Fewer than three chunks leave out frames that nothing comes after.
run 9
short=$most
run 17
[ -n "${SANITIZED:-}" ] || [ "$most" -le $((short + short / 10)) ] || bad "17 frames took $most bytes, 9 took $short"
finish
