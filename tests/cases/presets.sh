# The presets of examples/config that cann-recipes-infer had, as they are apart from paths and the size of the video, on a
# small random model of the shape of A14B: they leave out what their formulas say. presets.c has these.
. "$COMMON"

# calm FOLDER: the tiny model with weights so calm that there is something to leave out.
calm() {
    mkdir "$1"
    cp -R "$CKPT/google" "$CKPT"/*.pth "$1"
    for expert in high_noise_model low_noise_model; do
        mkdir "$1/$expert"
        cp "$CKPT/$expert/config.json" "$1/$expert"
        "$RECAST" "$CKPT/$expert" "$1/$expert/diffusion_pytorch_model.safetensors" calm=0.2 || bad "recast failed"
    done
}
calm model
for method in FBCache TeaCache; do
    preset=$EXAMPLES/config/14b_single_$(echo $method | tr '[:upper:]' '[:lower:]').yaml
    small="--config $preset --model model --image $IMAGE --size 64x64 --frames 5 --threads 1"
    zoe generate $small --dump-config
    expect_code 0
    cache=$(sed -n 's/^  cache: "\(.*\)"$/\1/p' stdout)
    said="presets of $method"
    "$CASES/case_presets" model "$IMAGE" $method "$cache" ours.safetensors >counted 2>stderr || bad "not as the formulas say"
    [ "$(cat counted)" -gt 2 ] || bad "only $(cat counted) steps were left out"
    zoe generate $small --no-metadata --progress json --latents-out theirs.safetensors
    expect_code 0
    expect_same ours.safetensors theirs.safetensors
    expect_equal "steps left out" \
        $(($("$TOOL" get stderr cache high_skipped) + $("$TOOL" get stderr cache low_skipped))) "$(cat counted)"
    expect_says 'passed over'
    # Guidance 3.5, 40 steps, seed 100, UniPC: as the preset and the official defaults have it.
    zoe generate --model model --image "$IMAGE" --size 64x64 --frames 5 --threads 1 --steps 40 --seed 100 --no-metadata \
        --prompt "Summer beach vacation style, a white cat wearing sunglasses sits on a surfboard." --cache "$cache" \
        --latents-out line.safetensors
    expect_same line.safetensors theirs.safetensors
done

# The one without a cache gives what no cache gives.
zoe generate --config "$EXAMPLES/config/14b_single.yaml" --model model --image "$IMAGE" --size 64x64 --frames 5 --threads 1 \
    --no-metadata --latents-out none.safetensors
expect_code 0
expect_different none.safetensors theirs.safetensors
zoe generate --config "$EXAMPLES/config/14b_single_fbcache.yaml" --model model --image "$IMAGE" --size 64x64 --frames 5 \
    --threads 1 --no-metadata --cache NoCache --latents-out l.safetensors
expect_same l.safetensors none.safetensors
finish
