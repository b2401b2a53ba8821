# --cache: what leaves out nothing changes nothing, what leaves out something says so, a run that was broken off goes on
# with it, and it is noted.
. "$COMMON"

METHODS="FBCache TeaCache TaylorSeer EasyCache DBCache,Fn_compute_blocks=1 MagCache,mag_ratios=i2v_A14B"
long() {
    tiny --steps 30 --no-metadata "$@"
}
# threshold_of METHOD X: the method with this threshold; X 0 leaves out nothing.
threshold_of() {
    case $1,$2 in
    TaylorSeer,0) echo TaylorSeer,skip_interval_steps=1 ;;
    TaylorSeer,*) echo TaylorSeer ;;
    *) echo "$1,threshold=$2" ;;
    esac
}
# skipped: the number in the closing line.
skipped() {
    sed -n 's/.*the cache skipped \([0-9]*\) of 30 steps.*/\1/p' stderr
}

long --latents-out none.safetensors
expect_code 0
expect_silent_about cache
long --cache NoCache --latents-out l.safetensors
expect_same l.safetensors none.safetensors
expect_silent_about cache
at=6
for method in $METHODS; do
    long --cache "$(threshold_of "$method" 0)" --latents-out l.safetensors
    expect_code 0
    expect_same l.safetensors none.safetensors
    expect_equal "steps skipped" "$(skipped)" 0
    long --cache "$(threshold_of "$method" 10)" --latents-out l.safetensors
    expect_code 0
    expect_different l.safetensors none.safetensors
    [ "$(skipped)" -gt 5 ] || bad "only $(skipped) steps were skipped"
    # Broken off, and going on with another number of threads. 11 of the steps are high-noise: either expert gets a turn.
    rm -rf ck
    at=$((19 - at))
    said="zoe generate --cache $method, killed in step $at"
    "$TOOL" signal KILL 1 "steps $at/30" "$ZOE" generate --model "$CKPT" --image "$IMAGE" \
        --prompt "A white cat sits." --size 64x64 --frames 5 --negative-prompt blurry --steps 30 --seed 1 \
        --threads 1 --no-metadata --progress plain --cache "$(threshold_of "$method" 10)" \
        --checkpoint ck --latents-out r.safetensors 2>stderr
    code=$?
    expect_code 137
    zoe generate --resume ck --threads 2
    expect_code 0
    expect_same r.safetensors l.safetensors
done

# What was done, for programs; the plan counts its memory.
tiny --steps 30 --cache TaylorSeer --progress json --out v.mp4 --latents-out l.safetensors
expect_code 0
"$TOOL" events stderr done || bad "the events are not those of the manual"
high=$("$TOOL" get stderr cache high_computed)
expect_equal "steps of the high-noise expert" $((high + $("$TOOL" get stderr cache high_skipped))) \
    "$("$TOOL" get stderr plan high_steps)"
expect_equal "steps of the low-noise expert" \
    $(($("$TOOL" get stderr cache low_computed) + $("$TOOL" get stderr cache low_skipped))) \
    "$("$TOOL" get stderr plan low_steps)"
expect_equal "the smallest distance" "$("$TOOL" get stderr cache smallest_distance)" null
with=$("$TOOL" get stderr plan steps_bytes)
[ "$with" -gt "$(plan steps_bytes --steps 30)" ] || bad "the plan does not count the cache"

# It is noted, and repeated.
zoe info v.mp4 --json
grep -qF '"cache":"TaylorSeer"' stdout || bad "v.mp4 does not tell of the cache"
zoe info l.safetensors --json
grep -qF '"cache":"TaylorSeer"' stdout || bad "l.safetensors does not tell of the cache"
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --threads 1 --latents-out again.safetensors
expect_code 0
expect_same again.safetensors l.safetensors

# Another cache is another run.
rm -rf ck
tiny --steps 30 --cache FBCache,threshold=0.1 --checkpoint ck --latents-out l.safetensors
expect_code 0
zoe generate --resume ck --cache FBCache,threshold=0.2
expect_code 2
expect_says 'step cache: "FBCache,threshold=0.1" in the checkpoint, "FBCache,threshold=0.2" asked for'
zoe generate --resume ck --cache NoCache
expect_code 2
expect_says 'step cache'

# A model with one transformer, with a still first frame and from text alone.
TI2V=$DATA/e2e_ti2v
one() {
    zoe generate --transformer "$TI2V/ckpt" --vae "$TI2V/ckpt_safetensors/vae.safetensors" --tokenizer \
        "$CKPT/google/umt5-xxl" --text-encoder "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --prompt "A white cat sits." \
        --size 96x64 --frames 5 --steps 30 --guide-scale 4 --seed 43 --threads 1 --no-metadata "$@"
}
for picture in "--image $IMAGE" ""; do
    one $picture --latents-out none.safetensors
    expect_code 0
    for method in FBCache EasyCache TaylorSeer; do
        one $picture --cache "$(threshold_of $method 0)" --latents-out l.safetensors
        expect_code 0
        expect_same l.safetensors none.safetensors
        one $picture --cache "$(threshold_of $method 10)" --latents-out l.safetensors
        expect_code 0
        [ "$(skipped)" -gt 5 ] || bad "only $(skipped) steps were skipped"
        expect_different l.safetensors none.safetensors
    done
done

# Refused.
tiny --steps 9 --cache FBCache --dry-run
expect_code 2
expect_says 'at least 10 steps'
tiny --steps 9 --cache FBCache,force=true --dry-run
expect_code 0
tiny --steps 30 --cache DBCache --dry-run
expect_code 2
expect_says 'Fn_compute_blocks 8'
tiny --steps 30 --cache MagCache --dry-run
expect_code 2
expect_says mag_ratios
finish
