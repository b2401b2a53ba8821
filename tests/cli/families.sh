# The other models on the command line: TI2V-5B with and without a picture, against the official code; defaults of a
# model; a last picture; what does not suit the model. The models that are made for it are in tests/unit/job_family.c.
. "$COMMON"

TI2V=$DATA/e2e_ti2v
mkdir official && ln -s "$TI2V/ckpt/"* "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" "$CKPT/google" official
ln -s "$TI2V/ckpt_safetensors/vae.safetensors" official/Wan2.2_VAE.pth
mkdir diffusers && ln -s "$TI2V/ckpt" diffusers/transformer
ln -s "$TI2V/ckpt_safetensors" diffusers/vae
mkdir diffusers/text_encoder && ln -s "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" diffusers/text_encoder/t5.pth
ln -s "$CKPT/google/umt5-xxl" diffusers/tokenizer
echo '{"transformer": ["diffusers", "WanTransformer3DModel"], "transformer_2": [null, null]}' >diffusers/model_index.json

# golden ARGS: the run of the golden data.
golden() {
    zoe generate --prompt "A white cat sits on the beach, the camera pans left." --size 96x64 --frames 5 --steps 6 \
        --guide-scale 4 --seed 43 --threads 1 "$@"
}

# By its parts, and as a folder of either layout.
golden --transformer "$TI2V/ckpt" --vae "$TI2V/ckpt_safetensors/vae.safetensors" --tokenizer "$CKPT/google/umt5-xxl" \
    --text-encoder "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --image "$IMAGE" --latents-out parts.safetensors --task ti2v-5B \
    --no-metadata
expect_code 0
zoe compare "$TI2V/latents.safetensors" parts.safetensors --min-psnr 120
expect_code 0
for layout in official diffusers; do
    golden --model $layout "$IMAGE" --latents-out $layout.safetensors --no-metadata
    expect_code 0
    expect_same parts.safetensors $layout.safetensors
    zoe info $layout --json
    expect_code 0
    grep -q 'Wan 2.2 TI2V-5B' stdout || bad "info does not know the model"
    expect_equal supported "$("$TOOL" value stdout supported)" true
done

# Its own defaults, but for what is given.
zoe generate --model official --image "$IMAGE" --dry-run --progress json --frames 5 --memory 999T
expect_code 0
expect_equal task "$("$TOOL" get stderr plan task)" ti2v-5B
expect_equal fps "$("$TOOL" get stderr plan fps)" 24
expect_equal steps "$("$TOOL" get stderr plan high_steps)" 50
expect_equal frames "$("$TOOL" get stderr plan frames)" 5
zoe generate --model official --dry-run --progress json --steps 3 --memory 999T
expect_equal width "$("$TOOL" get stderr plan width)" 1280
expect_equal height "$("$TOOL" get stderr plan height)" 704
expect_equal frames "$("$TOOL" get stderr plan frames)" 121
expect_equal steps "$("$TOOL" get stderr plan high_steps)" 3

# Text alone.
golden --model official --latents-out text.safetensors --out text.mp4 --progress plain --preview p.png
expect_code 0
expect_silent_about 'encode begins'
expect_says 'no preview: there are no colours for this VAE'
expect_no_files p.png
golden --model official --latents-out text.safetensors --size 96x72
expect_code 2
expect_says 'without a picture Wan 2.2 TI2V-5B wants multiples of 32: the nearest is 96x64'
zoe generate --from text.mp4 --threads 1 --latents-out again.safetensors
expect_code 0
expect_same text.safetensors again.safetensors

# Killed, and on.
golden --model official --image "$IMAGE" --latents-out whole.safetensors --preview p.png
expect_code 0
expect_files p.png
said=killed
"$TOOL" signal KILL 1 'steps 2/6' "$ZOE" generate --model official --image "$IMAGE" --size 96x64 --frames 5 --steps 6 \
    --prompt "A white cat sits on the beach, the camera pans left." --guide-scale 4 --seed 43 --threads 1 \
    --progress plain --checkpoint state --latents-out killed.safetensors 2>stderr
code=$?
expect_code 137
zoe generate --resume state --threads 1 --progress plain
expect_code 0
expect_silent_about 'encode begins'
expect_same whole.safetensors killed.safetensors
zoe generate --resume state --last-image "$IMAGE"
expect_code 2
expect_says '--last-image'

# Between two pictures.
cp "$DATA/../../examples/red-circle.png" last.png
tiny --last-image last.png --latents-out last.safetensors --out last.mp4
expect_code 0
expect_says 'another shape than the first picture'
tiny --latents-out first.safetensors
expect_different last.safetensors first.safetensors
mkdir elsewhere && cp last.mp4 elsewhere && cd elsewhere || exit 1
zoe generate --from last.mp4 --model "$CKPT" --image "$IMAGE" --dry-run
expect_code 2
expect_says '--last-image is missing: last.mp4 was made from the picture last.png, SHA-256'
cd ..
zoe generate --from last.mp4 --model "$CKPT" --image "$IMAGE" --threads 1 --latents-out again.safetensors
expect_code 0
expect_same last.safetensors again.safetensors
tiny --last-image last.png --preview last.png
expect_code 2
expect_says 'are the same file'
tiny --last-image last.png --frames 1
expect_code 2
expect_says 'at least 5 are wanted'
tiny --last-image none.png
expect_code 3
expect_says 'none.png: no such file'

# What does not suit the model.
zoe generate --model "$CKPT"
expect_code 2
expect_says '--image is missing: Wan 2.2 I2V-A14B wants the picture that the video begins with'
tiny --task ti2v-5B
expect_code 2
expect_says '--task ti2v-5B: this model is Wan 2.2 I2V-A14B, whose task is i2v-A14B'
golden --model official --last-image "$IMAGE"
expect_code 2
expect_says '--last-image'
golden --model official --guide-scale 3,4
expect_code 2
expect_says 'Wan 2.2 TI2V-5B has one transformer, and one number is wanted'
golden --model official --boundary 0.9 --dry-run
expect_code 0
expect_says '--boundary changes nothing'
golden --model official --vae "$CKPT/Wan2.1_VAE.pth"
expect_code 3
expect_says '16 latent channels'
golden --transformer "$CKPT/low_noise_model" --model official
expect_code 3
expect_says 'one of the two transformers of Wan 2.2 I2V-A14B'

# A download that lacks its second transformer is not taken for a model with one.
echo '{"transformer_2": ["diffusers", "WanTransformer3DModel"]}' >diffusers/model_index.json
golden --model diffusers
expect_code 3
expect_says 'transformer_2 is not there: the low-noise transformer of the diffusers layout'
# The folder says at which noise level the experts change: that is the default.
mkdir two && ln -s "$CKPT/high_noise_model" two/transformer && ln -s "$CKPT/low_noise_model" two/transformer_2
ln -s "$PWD/diffusers/vae" "$PWD/diffusers/text_encoder" "$PWD/diffusers/tokenizer" two
for ratio in '0.75 boundary: 0.75' 'null boundary: 0.9'; do
    echo "{\"boundary_ratio\": ${ratio%% *}}" >two/model_index.json
    golden --model two --image "$IMAGE" --dump-config
    expect_code 0
    expect_equal "what is dumped" "$(sed -n 's/^ *boundary:/boundary:/p' stdout)" "${ratio#* }"
done
for index in '{"boundary_ratio": 7}' '{"boundary_ratio": "0.9"}' '{' '[]'; do
    echo "$index" >two/model_index.json
    golden --model two --image "$IMAGE" --dry-run
    expect_code 3
    expect_says 'two/model_index.json'
done
rm official/diffusion_pytorch_model.safetensors
golden --model official
expect_code 3
expect_says 'the transformer of the official layout'
finish
