# A signal in any phase: code 130, nothing under the final names, nothing half made. An old video stays. That it takes at
# most one block, and that the library's context can go on: see B44_cancel.c.
. "$COMMON"

# Slow enough that a signal finds it at work, also on a busy machine; the sanitizers make it slow enough by themselves.
size=128x128
[ -z "${SANITIZED:-}" ] || size=64x64

# stop SIGNAL TIMES TEXT OPTIONS: sends the signal when TEXT is said.
stop() {
    said="signal $*"
    signal=$1 times=$2 text=$3
    shift 3
    "$TOOL" signal "$signal" "$times" "$text" "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." \
        --size $size --frames 17 --solver euler --steps 3000 --seed 1 --threads 1 --progress plain "$@" >stdout 2>stderr
    code=$?
}

echo old >v.mp4
signal=INT
for text in 'text begins' 'text 1/' 'encode begins' 'encode 1/' 'steps begins' 'steps 2/'; do
    stop $signal 1 "$text" --out v.mp4 --latents-out l.safetensors --frames-out frames
    expect_code 130
    expect_says interrupted
    expect_silent_about 'decode begins'
    expect_equal "the old file" "$(cat v.mp4)" old
    expect_no_files l.safetensors frames
    expect_no_parts
    case $signal in INT) signal=TERM ;; TERM) signal=HUP ;; HUP) signal=INT ;; esac
done

# In the decoder, and while frames are written.
while read -r signal kind text; do
    echo old >v.$kind
    stop $signal 1 "$text" --steps 1 --frames 33 --out v.$kind --frames-out frames --latents-out l.safetensors
    expect_code 130
    expect_says interrupted
    expect_equal "the old file" "$(cat v.$kind)" old
    expect_no_files l.safetensors frames
    expect_no_parts
done <<END
INT mp4 decode begins
TERM mp4 decode 2/
INT webm decode 2/
HUP y4m decode 2/
END
# Into a pipe: the stream ends early and the code says so.
said='a signal while Y4M goes into a pipe'
"$TOOL" signal TERM 1 'decode 2/' "$ZOE" generate --model "$CKPT" --image "$IMAGE" --size $size --frames 33 --steps 1 \
    --seed 1 --threads 1 --progress plain --out - 2>stderr >stdout
code=$?
expect_code 130
# At the last moment, when the file is being completed: a whole video or none.
stop INT 1 'decode 5/5' --steps 1 --out last.mp4
case $code in
0) expect_equal "frames" "$("$TOOL" probe last.mp4 | cut -d ' ' -f 3)" 17 ;;
130) expect_no_files last.mp4 ;;
*) bad "exit code $code" ;;
esac
expect_no_parts

# The second signal ends at once, and takes along what is half made: videos, latents, the hidden folder of the frames and
# the folder that was made for it. What was there before stays.
mkdir old
echo old >old/note
while read -r signal folder text; do
    stop $signal 2 "$text" --steps 1 --frames 33 --out w.mp4 --frames-out $folder
    expect_code 130
    expect_no_files w.mp4 frames
    expect_no_parts
    expect_equal "the old folder" "$(ls -A old)" note
done <<END
INT frames steps begins
TERM frames decode begins
INT frames decode 3/
HUP old decode 3/
INT old decode begins
END

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
