# The same model in the forms that people have: GGUF and fp8 with scales of every spelling give what their values, written
# out in f32, give.
. "$COMMON"

cp "$CKPT/high_noise_model/config.json" .
tiny --no-metadata --latents-out official.safetensors

# same_as_expanded FILE WORD...: recasts into FILE, runs with it and with its values in f32.
same_as_expanded() {
    file=$1
    shift
    rm -f ours.safetensors theirs.safetensors
    "$RECAST" "$CKPT/high_noise_model" "$file" "$@" || bad "recast $*"
    "$RECAST" "$file" expanded.safetensors || bad "recast of $file"
    for dtype in f32 bf16; do
        tiny --no-metadata --dtype $dtype --high-noise "$file" --latents-out ours.$dtype.safetensors
        expect_code 0
        tiny --no-metadata --dtype $dtype --high-noise expanded.safetensors --latents-out theirs.safetensors
        # In bf16 a scale is rounded before it multiplies, which an expanded weight cannot show.
        [ "$dtype $1" = 'bf16 type=f8_e4m3' ] || expect_same ours.$dtype.safetensors theirs.safetensors
    done
    expect_different official.safetensors ours.f32.safetensors
}

same_as_expanded q8.gguf type=q8_0
zoe compare --min-psnr 50 official.safetensors ours.f32.safetensors
expect_code 0
same_as_expanded bf16.gguf type=bf16

same_as_expanded old.safetensors type=f8_e4m3 scales=old
cp ours.f32.safetensors fp8.safetensors
cp ours.bf16.safetensors fp8_bf16.safetensors
zoe compare --min-psnr 30 official.safetensors fp8.safetensors
expect_code 0
same_as_expanded new.safetensors type=f8_e4m3 scales=new prefix=model.diffusion_model.
expect_same ours.f32.safetensors fp8.safetensors
expect_same ours.bf16.safetensors fp8_bf16.safetensors
same_as_expanded rows.safetensors type=f8_e4m3 scales=rows
expect_different ours.f32.safetensors fp8.safetensors
same_as_expanded none.safetensors type=f8_e4m3 scales=none
expect_different ours.f32.safetensors fp8.safetensors

# Names of another network's layers do not hide a scale.
"$RECAST" "$CKPT/high_noise_model" old.safetensors type=f8_e4m3 scales=old
sed 's/self_attn\.q\.scale_weight/self_attn.Q.scale_weight/' old.safetensors >odd.safetensors
tiny --dry-run --high-noise odd.safetensors
expect_code 3
expect_says 'self_attn.Q.scale_weight'
expect_says 'no tensor blocks.0.self_attn.Q.weight'
finish
