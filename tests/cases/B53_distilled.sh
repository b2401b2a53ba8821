# B53: a LoRA or model that is, by its name, made for few steps in a run of many, or with a step cache; a full model in
# few steps without guidance; and the fitting runs. What fits is suggested as it is typed, and never done unasked.
. "$COMMON"

"$LORA" make "$CKPT/high_noise_model" Wan22-Lightning-4steps-HIGH.safetensors 1 || bad "no LoRA"
lora=Wan22-Lightning-4steps-HIGH.safetensors
# suggested: the options of the last warning.
suggested() {
    sed -n 's/.*: \(--step-list .*\) would fit$/\1/p' stderr
}
fitting='--step-list 1000,750,500,250 --boundary-step 2 --guide-scale 1 --solver euler --shift 5'

tiny --steps 40 --guide-scale 3.5 --lora "$lora" --dry-run
expect_code 0
expect_says "warning: $lora: by its name (\"lightning\") made for 4 steps without guidance"
expect_says 'the run has 40 steps of UniPC with shift 5 and guidance 3.5,3.5'
expect_equal "the suggestion" "$(suggested)" "$fitting"
expect_says 'UniPC steps: 15 with the high-noise expert, 25 with the low-noise expert; 80 passes'
run=$(suggested)

# As it is suggested, and as its authors mean: half of the steps with each expert, each one pass.
as_meant() {
    tiny "$@" --lora "$lora" --progress json --latents-out l.safetensors
    expect_code 0
    expect_silent_about 'made for'
    expect_silent_about distilled
    expect_equal "steps of the high-noise expert" "$("$TOOL" get stderr plan high_steps)" 2
    expect_equal "passes" "$("$TOOL" get stderr plan passes)" 4
}
# shellcheck disable=SC2086
as_meant --steps 4 $run
mv l.safetensors suggested.safetensors
# The same by other words.
as_meant --steps 4 --guide-scale 1 --solver euler --shift 5
zoe compare l.safetensors suggested.safetensors --min-psnr 1000
expect_code 0

# Another shift matters, also without guidance; what is near is said to who asks.
tiny --steps 4 --guide-scale 1 --solver euler --shift 12 --lora "$lora" --dry-run
expect_says 'with shift 12 and guidance 1,1'
expect_equal "the suggestion" "$(suggested)" "$fitting"
tiny --steps 4 --guide-scale 1 --lora "$lora" --dry-run
expect_silent_about 'made for'
tiny --steps 4 --guide-scale 1 --lora "$lora" --dry-run --verbose
expect_silent_about warning
expect_equal "the suggestion" "$(suggested)" "$fitting"
tiny $fitting --steps 4 --boundary-step 3 --lora "$lora" --dry-run --verbose
expect_equal "the suggestion" "$(suggested)" "$fitting"

# Six and eight steps; a name wins over the usual four.
for n in 6 8; do
    cp "$lora" turbo-$n-step.safetensors
    tiny --steps 40 --lora turbo-$n-step.safetensors --dry-run
    case $n in
    6) list=1000,833,667,500,333,167 half=3 ;;
    8) list=1000,875,750,625,500,375,250,125 half=4 ;;
    esac
    expect_equal "the suggestion" "$(suggested)" "--step-list $list --boundary-step $half --guide-scale 1 --solver euler --shift 5"
done

# Each step counts there: no cache.
tiny --steps 20 --guide-scale 1 --cache FBCache --lora "$lora" --dry-run
expect_code 2
expect_says distilled
tiny --steps 20 --cache FBCache,force=true --lora "$lora" --dry-run
expect_code 0
expect_equal "the suggestion" "$(suggested)" "$fitting --cache NoCache"
# One that does not take part does not matter.
tiny --steps 20 --cache FBCache --lora "$lora:0" --dry-run
expect_code 0
expect_silent_about 'made for'

# A model that is distilled by the name of its folder or of a transformer; folders above say nothing.
mkdir lightning
ln -s "$CKPT" Wan2.2-Distill-Models
ln -s "$CKPT" lightning/plain
ln -s "$CKPT/high_noise_model" wan2.2_i2v_A14b_high_noise_lightx2v_4step
for model in "--model Wan2.2-Distill-Models" "--model Wan2.2-Distill-Models/" \
    "--high-noise wan2.2_i2v_A14b_high_noise_lightx2v_4step"; do
    tiny --steps 40 $model --dry-run
    expect_code 0
    expect_says 'warning: '
    expect_equal "the suggestion" "$(suggested)" "$fitting"
    tiny --steps 4 $fitting $model --dry-run
    expect_code 0
    expect_silent_about warning
done
tiny --steps 20 --model Wan2.2-Distill-Models --cache FBCache --dry-run
expect_code 2
expect_says distilled
tiny --steps 40 --model lightning/plain --dry-run
expect_code 0
expect_silent_about warning

# A model with one transformer has no boundary.
"$LORA" make "$DATA/e2e_ti2v/ckpt" my_4steps.safetensors 3 || bad "no LoRA"
zoe generate --transformer "$DATA/e2e_ti2v/ckpt" --vae "$DATA/e2e_ti2v/ckpt_safetensors/vae.safetensors" --tokenizer \
    "$CKPT/google/umt5-xxl" --text-encoder "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --lora my_4steps.safetensors --size 96x64 --frames 5 \
    --dry-run
expect_code 0
expect_equal "the suggestion" "$(suggested)" "--step-list 1000,750,500,250 --guide-scale 1 --solver euler --shift 5"

# The reverse: nothing is distilled.
for few in "--step-list 1000,750,500,250 --steps 4" "--steps 4 --guide-scale 1"; do
    tiny $few --dry-run
    expect_code 0
    expect_says 'warning: 4 steps without guidance are for models distilled to few steps'
done
for usual in "--steps 4" "--steps 20 --guide-scale 1" "--steps 4 --guide-scale 1,3.5"; do
    tiny $usual --dry-run
    expect_code 0
    expect_silent_about warning
done
finish
