# --step-list and --boundary-step: what they bring along, on the line, in a file, in records and checkpoints.
. "$COMMON"

list=1000,750,500,250
bare() {
    zoe generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." --size 64x64 --frames 5 --negative-prompt blurry \
        --seed 1 --threads 1 --progress none "$@"
}
# dumped KEY: of the last dump.
dumped() {
    sed -n "s/^  $1: //p" stdout
}
dump() {
    bare --dump-config "$@"
    [ "$code" -eq 0 ] || bad "exit code $code, wanted 0"
}

# Their number, Euler, and no guidance unless it is asked for, which is said.
bare --step-list $list --latents-out a.safetensors
expect_code 0
expect_says 'guidance is off, as it is meant with a step list'
bare --step-list $list --steps 4 --solver euler --guide-scale 1 --latents-out b.safetensors --no-metadata
expect_silent_about 'guidance is off'
zoe compare a.safetensors b.safetensors --min-psnr 1000
expect_code 0
# Four even steps are these; others are others.
bare --steps 4 --solver euler --guide-scale 1 --latents-out c.safetensors --no-metadata
expect_same b.safetensors c.safetensors
bare --step-list 1000,800,500,250 --guide-scale 1 --latents-out c.safetensors --no-metadata
expect_different b.safetensors c.safetensors
bare --step-list $list --guide-scale 2,3 --dry-run
expect_silent_about 'guidance is off'
expect_says 'Euler steps: 2 with the high-noise expert, 2 with the low-noise expert; 8 passes'

# The boundary by number counts whatever the noise level is.
for n in 0 1 3 4; do
    expect_equal "high steps" "$(plan high_steps --steps 4 --step-list $list --boundary-step $n)" $n
    expect_equal "passes" "$(plan passes --steps 4 --step-list $list --boundary-step $n)" 4
done
expect_equal "high steps" "$(plan high_steps --steps 8 --boundary-step 6)" 6
expect_equal "high steps at shift 12" "$(plan high_steps --steps 4 --step-list $list --shift 12)" 3
expect_equal "high steps at shift 12" "$(plan high_steps --steps 4 --step-list $list --shift 12 --boundary-step 2)" 2
zoe generate --transformer "$DATA/e2e_ti2v/ckpt" --vae "$DATA/e2e_ti2v/ckpt_safetensors/vae.safetensors" --tokenizer \
    "$CKPT/google/umt5-xxl" --text-encoder "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" --size 96x64 --frames 5 --boundary-step 2 \
    --dry-run
expect_code 2
expect_says 'boundary step: 2; Wan 2.2 TI2V-5B has one transformer for all steps: leave it out'

# A file: as a list or a text, and back.
printf '%s\n' zoe: '  step-list: [1000, 750.5, 500, 250]' '  boundary_step: 3' >list.yaml
dump --config list.yaml
expect_equal steps "$(dumped steps)" 4
expect_equal "the list" "$(dumped step-list)" "[1000, 750.5, 500, 250]"
expect_equal "the solver" "$(dumped solver)" '"euler"'
expect_equal guidance "$(dumped guide-scale)" "[1, 1]"
expect_equal "the boundary" "$(dumped boundary)$(dumped boundary-step)" 3
cp stdout dumped.yaml
zoe generate --config dumped.yaml --dump-config
expect_code 0
expect_same stdout dumped.yaml
printf '%s\n' zoe: '  step-list: 1000,750.5,500,250' '  boundary_step: 3' >text.yaml
dump --config text.yaml
expect_same stdout dumped.yaml
# The line's list in the place of the file's steps and solver, and the other way round; each boundary displaces the other.
bare --dump-config --steps 30 --solver dpm++ --guide-scale 2,3 --boundary 0.8
cp stdout full.yaml
zoe generate --config full.yaml --step-list $list --boundary-step 1 --dump-config
expect_code 0
expect_equal steps "$(dumped steps)" 4
expect_equal "the solver" "$(dumped solver)" '"euler"'
expect_equal guidance "$(dumped guide-scale)" "[2, 3]"
expect_equal "the boundary" "$(dumped boundary)$(dumped boundary-step)" 1
zoe generate --config full.yaml --step-list none --dump-config
expect_same stdout full.yaml
zoe generate --config dumped.yaml --boundary 0.5 --dump-config
expect_equal "the boundary" "$(dumped boundary)/$(dumped boundary-step)" 0.5/
zoe generate --config dumped.yaml --steps 8
expect_code 2
expect_says '--steps 8: the step list has 4'
zoe generate --config list.yaml --model "$CKPT" --image "$IMAGE" --step-list none --steps 8 --boundary-step 2 --dump-config
expect_code 0
expect_equal "the list" "$(dumped steps)$(dumped step-list)$(dumped solver)" '8"unipc"'
for wrong in '[1000, x]' '[]' '[1000, [750]]' 0; do
    printf '%s\n' zoe: "  step-list: $wrong" >wrong.yaml
    tiny --config wrong.yaml --dry-run
    expect_code 2
    expect_says 'wrong.yaml:2:'
done

# Noted and repeated.
bare --step-list $list --boundary-step 1 --guide-scale 1.5,2 --out v.mp4 --latents-out a.safetensors
expect_code 0
zoe info v.mp4 --json
for text in '"step_list":' '"boundary_step":' '1000.0'; do
    grep -qF "$text" stdout || bad "the note lacks $text"
done
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --threads 1 --latents-out b.safetensors
expect_code 0
expect_silent_about 'guidance is off'
expect_same a.safetensors b.safetensors
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --boundary 0.9 --step-list 1000,500 --dump-config
expect_code 0
expect_equal "the list" "$(dumped steps)$(dumped step-list)" '2[1000, 500]'
expect_equal guidance "$(dumped guide-scale)" "[1.5, 2]"
expect_equal "the boundary" "$(dumped boundary)/$(dumped boundary-step)" 0.9/
zoe generate --from v.mp4 --model "$CKPT" --image "$IMAGE" --steps 8 --dry-run
expect_code 2
expect_says '--steps 8: the step list has 4'
# To a run of even steps, a list brings its own solver and guidance.
bare --steps 2 --guide-scale 2 --latents-out even.safetensors
zoe generate --from even.safetensors --model "$CKPT" --image "$IMAGE" --step-list $list --dump-config
expect_code 0
expect_equal "what comes along" "$(dumped steps)$(dumped solver)$(dumped guide-scale)" '4"euler"[1, 1]'

# A run that is killed goes on with the same list only.
"$TOOL" signal KILL 1 'steps 5/30' "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." \
    --size 64x64 --frames 5 --negative-prompt blurry --seed 1 --threads 1 --progress plain --guide-scale 3 \
    --step-list "$(seq -s , 1000 -33 40)" --boundary-step 9 --checkpoint ck --latents-out r.safetensors 2>stderr
bare --step-list "$(seq -s , 1000 -33 40)" --boundary-step 9 --guide-scale 3 --latents-out l.safetensors
expect_code 0
zoe generate --resume ck --step-list "$(seq -s , 999 -33 40)" --threads 1
expect_code 2
expect_says 'step list: 1000, 967, '
zoe generate --resume ck --boundary-step 8 --threads 1
expect_code 2
expect_says 'boundary step: 9 in the checkpoint, 8 asked for'
zoe generate --resume ck --threads 1
expect_code 0
expect_same r.safetensors l.safetensors

# In a sweep a list is a setting like others.
zoe sweep --csv s.csv --repeats 1 --threads 1 --setting "list: --steps 4 --step-list $list --boundary-step 2" -- --model "$CKPT" --image "$IMAGE" \
    --size 64x64 --frames 5 --steps 6 --seed 1
expect_code 0
grep -q '^list,.*,4,4,' s.csv || bad "the sweep has no run of four steps: $(cat s.csv)"
# It brings its number and solver along, whatever the request says; only the setting itself can contradict it.
listed() {
    zoe sweep --csv s.csv --repeats 1 --threads 1 --setting "$1" -- --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 \
        --steps 6 --solver unipc --seed 1
}
listed "list: --step-list $list --boundary-step 2"
expect_code 0
grep -q '^list,.*,4,4,' s.csv || bad "the sweep has no run of four steps: $(cat s.csv)"
listed "list: --step-list $list --steps 5"
expect_code 2
expect_says '--steps 5: the step list has 4'
listed "list: --solver unipc --step-list $list"
expect_code 2
expect_says 'a step list goes with euler alone'
listed "none: --step-list none --shift 4"
expect_code 0
grep -q '^none,.*,6,6,' s.csv || bad "the sweep has no run of six steps: $(cat s.csv)"
zoe sweep --csv s.csv --repeats 1 --threads 1 -- --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --step-list $list --seed 1
expect_code 0
finish
