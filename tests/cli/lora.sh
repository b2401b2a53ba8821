# --lora: as good as merged weights, for each expert; strengths; what is noted; refusals.
. "$COMMON"

HIGH=$CKPT/high_noise_model
LOW=$CKPT/low_noise_model
"$LORA" make "$HIGH" lora.safetensors 1 || bad "no LoRA"
"$LORA" make "$HIGH" "b:2.safetensors" 2 || bad "no LoRA"
# merged FOLDER MODEL LORA STRENGTH
merged() {
    mkdir "$1"
    cp "$2/config.json" "$1"
    "$LORA" merge "$2" "$3" "$4" "$1/diffusion_pytorch_model.safetensors" || bad "not merged"
}
bare() {
    tiny --steps 4 --no-metadata "$@"
}
# expect_near A B DB
expect_near() {
    zoe compare "$1" "$2" --min-psnr "$3"
    expect_code 0
}
expect_far() {
    zoe compare "$1" "$2" --min-psnr "$3"
    expect_code 1
}

bare --latents-out none.safetensors
expect_code 0

# Both experts, with one strength; and nothing of it on disk or in memory twice.
merged high "$HIGH" lora.safetensors 0.5
merged low "$LOW" lora.safetensors 0.5
bare --lora lora.safetensors:0.5 --latents-out l.safetensors
expect_code 0
bare --high-noise high --low-noise low --latents-out m.safetensors
expect_code 0
expect_near l.safetensors m.safetensors 90
expect_far l.safetensors none.safetensors 60
bare --lora lora.safetensors:0.5 --threads 3 --latents-out l3.safetensors
expect_same l.safetensors l3.safetensors

# One of them, and two files.
merged one "$HIGH" lora.safetensors 1
bare --lora lora.safetensors:high=1 --latents-out l.safetensors
expect_code 0
bare --high-noise one --latents-out m.safetensors
expect_near l.safetensors m.safetensors 90
merged two "$LOW" "b:2.safetensors" -0.25
bare --lora lora.safetensors:high=1.0,low=0 --lora "b:2.safetensors:low=-0.25" --latents-out l.safetensors
expect_code 0
bare --high-noise one --low-noise two --latents-out m.safetensors
expect_near l.safetensors m.safetensors 90

# A model with one transformer.
TI2V=$DATA/e2e_ti2v
one() {
    zoe generate --vae "$TI2V/ckpt_safetensors/vae.safetensors" --tokenizer \
        "$CKPT/google/umt5-xxl" --text-encoder "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --prompt "A white cat sits." \
        --size 96x64 --frames 5 --steps 4 --guide-scale 4 --seed 43 --threads 1 --no-metadata "$@"
}
"$LORA" make "$TI2V/ckpt" ti2v.safetensors 3 || bad "no LoRA"
merged only "$TI2V/ckpt" ti2v.safetensors 0.5
one --transformer "$TI2V/ckpt" --image "$IMAGE" --lora ti2v.safetensors:0.5 --latents-out l.safetensors
expect_code 0
one --transformer only --image "$IMAGE" --latents-out m.safetensors
expect_near l.safetensors m.safetensors 90
# The only transformer takes whichever strength is given, by the line or by a word in the name; two are too many.
cp ti2v.safetensors low-poly-style.safetensors
one --transformer "$TI2V/ckpt" --image "$IMAGE" --lora ti2v.safetensors:low=0.5 --latents-out low.safetensors
expect_code 0
zoe compare l.safetensors low.safetensors --min-psnr 1000
expect_code 0
one --transformer "$TI2V/ckpt" --image "$IMAGE" --lora low-poly-style.safetensors --dry-run
expect_code 0
expect_silent_about 'its strength is 0'
one --transformer "$TI2V/ckpt" --lora ti2v.safetensors:high=1,low=0.5 --dry-run
expect_code 2
expect_says 'the model has one transformer, and one number is wanted'

# By its name for one expert.
cp lora.safetensors lora_high_noise.safetensors
bare --lora lora_high_noise.safetensors --latents-out l.safetensors
expect_code 0
bare --high-noise one --latents-out m.safetensors
expect_near l.safetensors m.safetensors 90
bare --lora lora_high_noise.safetensors:1 --dry-run
expect_code 0
expect_says 'made for the high-noise expert'

# Strength 0 is none.
bare --lora lora.safetensors:0 --latents-out l.safetensors
expect_code 0
expect_says 'its strength is 0'
expect_same l.safetensors none.safetensors

# It is noted without folders, and repeated.
mkdir secret-folder
mv lora.safetensors secret-folder
tiny --steps 4 --lora secret-folder/lora.safetensors:high=0.3,low=1 --out v.mp4 --latents-out l.safetensors
expect_code 0
for file in v.mp4 l.safetensors; do
    zoe info "$file" --json
    for text in '"name":"lora.safetensors","high":0.3' '"low":1.0,"sha256":"' '"high_parts":'; do
        grep -qF "$text" stdout || bad "$file lacks $text"
    done
    ! grep -qaF secret-folder "$file" || bad "$file names a folder"
done
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --latents-out again.safetensors
expect_code 2
expect_says '--lora is missing'
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --threads 1 --latents-out again.safetensors \
    --lora secret-folder/lora.safetensors:high=0.3,low=1
expect_code 0
expect_silent_about 'another LoRA'
expect_same again.safetensors l.safetensors
cp secret-folder/lora.safetensors .
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --threads 1 --latents-out again.safetensors
expect_code 0
expect_same again.safetensors l.safetensors
cp "b:2.safetensors" lora.safetensors
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --threads 1 --dry-run
expect_code 0
expect_says 'another LoRA than that of the record'

# A run goes on from another folder; with other strengths or another file it does not.
"$TOOL" signal KILL 1 'steps 5/30' "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." \
    --size 64x64 --frames 5 --negative-prompt blurry --steps 30 --seed 1 --threads 1 --progress plain \
    --lora lora.safetensors:0.3 --checkpoint ck --latents-out r.safetensors 2>stderr
tiny --steps 30 --lora lora.safetensors:0.3 --latents-out l.safetensors
expect_code 0
zoe generate --resume ck --lora lora.safetensors:0.4
expect_code 2
expect_says 'strength of LoRA 1: high=0.3,low=0.3 in the checkpoint, high=0.4,low=0.4 asked for'
zoe generate --resume ck --lora secret-folder/lora.safetensors:0.3
expect_code 2
expect_says 'LoRA 1 is another one'
cd secret-folder || exit 1
zoe generate --resume ../ck --threads 1
expect_code 0
cd ..
expect_same r.safetensors l.safetensors

# Refused.
tiny --lora no-such.safetensors --dry-run
expect_code 3
expect_says no-such.safetensors
tiny --lora lora.safetensors:hihg=1 --dry-run
expect_code 2
expect_says ':high=1.0,low=0.8'
tiny --lora lora.safetensors:high=1,high=1 --dry-run
expect_code 2
tiny --lora lora.safetensors:5000 --dry-run
expect_code 2
expect_says 'strength 5000'
tiny --lora '' --dry-run
expect_code 2
tiny --lora l.safetensors --dry-run # it holds latents
expect_code 3
expect_says l.safetensors
tiny --lora lora.safetensors --latents-out lora.safetensors
expect_code 2
expect_says 'the same file'
set --
for i in 1 2 3 4 5 6 7 8 9; do
    set -- "$@" --lora lora.safetensors
done
tiny "$@" --dry-run
expect_code 2
expect_says 'up to 8 times'
finish
