# The demo on two hosts that reach one another by TCP only (two_hosts.sh): the bytes of one process. Further in the
# environment: ZOE, the program, and DEMO, the folder of its model.
. "$COMMON"
request="--model $DEMO --image $DEMO/../../examples/red-circle.png --size 64x64 --frames 9 --steps 3 --seed 1 --threads 1
    --progress none --no-metadata"
asked="one process"
# shellcheck disable=SC2086
"$ZOE" generate $request --prompt red --out one.mp4 --latents-out one.safetensors >said 2>&1
code=$? seconds=0
[ $code -eq 0 ] || bad "exit code $code"
for layout in "2 2 1" "1 2 2"; do
    set -- $layout
    asked="two hosts, CFG $1 x Ulysses $2 x ring $3"
    # shellcheck disable=SC2086
    RANKS=4 sh "${COMMON%/*}/two_hosts.sh" "$ZOE" generate $request --prompt red --cfg-ranks "$1" --ulysses "$2" --ring "$3" \
        --vae-ranks 4 --out "$PWD/r.mp4" --latents-out "$PWD/r.safetensors" >said 2>&1
    code=$?
    [ $code -ne 77 ] || skip "$(sed -n 's/^skipped: //p' said)"
    [ $code -eq 0 ] || bad "exit code $code"
    grep '^bytes between' said
    if [ "$3" -eq 1 ]; then
        cmp one.mp4 r.mp4 && cmp one.safetensors r.safetensors || bad "other bytes than one process has"
    else
        "$ZOE" compare one.safetensors r.safetensors --min-psnr 90 >said 2>&1 || bad "far from what one process has"
    fi
    rm -f r.mp4 r.safetensors
done
finish
