# --config: what a file says and the line leaves; mistakes with their places; --dump-config gives back the same run.
. "$COMMON"

# yaml LINES: makes run.yaml; the parts of the tiny model come with it.
yaml() {
    printf '%s\n' "$@" >run.yaml
}
# value KEY: of the last dump.
value() {
    sed -n "s/^  $1: //p" stdout
}
dump() {
    zoe generate --dump-config "$@"
    [ "$code" -eq 0 ] || bad "exit code $code, wanted 0"
}

# What the line says counts, before --config and after it, by any name of an option.
yaml "zoe:" "  model: $CKPT" "  image: $IMAGE" "  prompt: from the file" "  steps: 7" "  size: [80, 64]" \
    "  guide-scale: [2, 3]" "  frame_num: 9" "  no-metadata: true" "  lora: [a.safetensors, 'b.safetensors:0.5']" \
    "  out: file.mp4" "  checkpoint: state"
dump --config run.yaml
expect_equal steps "$(value steps)" 7
expect_equal size "$(value size)" 80x64
expect_equal scales "$(value guide-scale)" "[2, 3]"
expect_equal frames "$(value frames)" 9
expect_equal "the flag" "$(value no-metadata)" true
expect_equal "the number of LoRAs" "$(grep -c '^    - ' stdout)" 2
dump --sample_steps 8 --config run.yaml --frames 5 --no-metadata=false --lora c.safetensors --seed 4
expect_equal steps "$(value steps)" 8
expect_equal frames "$(value frames)" 5
expect_equal "the flag" "$(value no-metadata)" ""
expect_equal "the LoRAs" "$(sed -n 's/^    - //p' stdout)" '"c.safetensors"'
expect_equal "the seed" "$(value seed)" 4
expect_equal "the prompt" "$(value prompt)" '"from the file"'
dump --config run.yaml --resume elsewhere "$DATA/e2e_ti2v/input.png"
expect_equal "the picture" "$(value image)" "\"$DATA/e2e_ti2v/input.png\""
expect_equal "the state" "$(value resume)$(value checkpoint)" '"elsewhere"'
# Of a model that is not there the rest is not known.
zoe generate --config run.yaml --model nowhere --dump-config
expect_code 3
expect_nothing_on_stdout

# A launch file: the same run as its options.
yaml "model_args:" "  ckpt_dir: \"$CKPT\"" "  image: $IMAGE" "  task: 'i2v-A14B'" '  size: "64*64" # an area' "  frame_num: 5" \
    "  sample_steps: 2" "  sample_guide_scale: 3.0" "  sample_solver: dpm++" "  base_seed: 3" "  prompt: >-" "    A white cat" \
    "    sits." "  offload_model: False" "  t5_cpu: true" "  cfg_size: 1" "  quant_mode: 0" "  sample_shift: null" \
    "  use_prompt_extend: false" "model_name: wan2.2-i2v" "world_size: 1" "entry_script: generate.py" "master_port: 29600" \
    "launcher: torchrun" "launcher_args: {}" "env_vars: {A: \"1\", B: true}" "sparse: {method: no_sparse}" "dit_cache:"
zoe generate --config run.yaml --threads 1 --latents-out file.safetensors --no-metadata
expect_code 0
expect_says 'it: model_args.t5_cpu, model_name, entry_script, master_port, launcher, launcher_args, env_vars, sparse'
zoe generate --model "$CKPT" --image "$IMAGE" --size 64x64 --frames 5 --steps 2 --guide-scale 3 --solver dpm++ --seed 3 \
    --prompt "A white cat sits." --threads 1 --latents-out line.safetensors --no-metadata
expect_code 0
expect_same line.safetensors file.safetensors

# The ranks that a launch file asks for must be there.
yaml "model_name: wan2.2-i2v" "world_size: 8" "entry_script: generate.py" "model_args:" "  cfg_size: 2" "  ulysses_size: 4" \
    "  ring_size: 1" "  tp_size: 1" "  vae_parallel: true" "  dit_fsdp: true"
tiny --config run.yaml --latents-out never.safetensors
expect_code 2
expect_says 'the options ask for 8 ranks, and this process was started alone; start all of them: mpirun -n 8 zoe generate'
tiny --config run.yaml --dump-config
expect_equal "ranks" "$(value cfg-ranks) $(value ulysses) $(value ring) $(value vae-ranks)" "2 4 1 "

# There and back: the same request in a checkpoint, whatever stands in the texts.
prompt=$(printf '%s\n\t- "a": \\b #c \302\205\342\200\250\357\273\277\360\237\220\261 %%' "'no'")
set -- --model "$CKPT" --image "$IMAGE" --prompt "$prompt" --negative-prompt no --size 80x64 --frames 5 --steps 12 \
    --solver euler --shift 4.3333333333333339 --guide-scale 0.1,3 --boundary 0.80000000000000004 --fps 24000/1001 \
    --dtype bf16 --seed 9223372036854775807 --memory 24G --threads 1 --cache 'TeaCache,coefficients=[1, 2e-3],force=true' \
    --latents-out l.safetensors --no-metadata --no-rotate
dump "$@"
mv stdout dumped.yaml
dump --config dumped.yaml
expect_same stdout dumped.yaml
zoe generate "$@" --checkpoint one
expect_code 0
zoe generate --config dumped.yaml --checkpoint two
expect_code 0
for folder in one two; do
    grep -v '"letters"' $folder/request.json >$folder.json
done
expect_same one.json two.json
# What a record says is merged, too.
dump --resume one --threads 2
sed 's/^  resume: "one"$/  checkpoint: three/' stdout >dumped.yaml
zoe generate --config dumped.yaml
expect_code 0
grep -v '"letters"' three/request.json >three.json
expect_same one.json three.json
# A run that goes on with its file, and one that asks for something else.
zoe generate --config dumped.yaml --resume three
expect_code 0
zoe generate --config dumped.yaml --resume three --steps 13
expect_code 2

# Mistakes: where, what, and what is like it.
count=0
mistake() {
    wanted=$1
    shift
    yaml "$@"
    tiny --config run.yaml --dry-run
    expect_code 2
    expect_says "run.yaml:$wanted"
    expect_nothing_on_stdout
    count=$((count + 1))
}
launch="model_name: x
world_size: 1
entry_script: x"
mistake '1:1: zoo is no key; did you mean zoe?' 'zoo: 1'
mistake '2:3: zoe.stepz is no key; did you mean steps?' 'zoe:' '  stepz: 3'
mistake '2:11: zoe.frames x: wanted is a whole number from 1 to 100001' 'zoe:' '  frames: x'
mistake '2:11: zoe.frames: a value is wanted, and this is a list' 'zoe:' '  frames: [5]'
mistake '1:20: zoe.no-rotate: true or false, without quotes, is wanted' 'zoe: {"no-rotate": 1}'
mistake '1:15: zoe.prompt: no without quotes is true or false' 'zoe: {prompt: no}'
mistake '3:3: steps stands here for a second time, after line 2' 'zoe:' '  steps: 3' '  steps: 3'
mistake '1:31: zoe.sample_steps: the same was said before, at run.yaml:1:14: zoe.steps' 'zoe: {steps: 3, sample_steps: 4}'
mistake '1:7: zoe.config belongs on the command line' 'zoe: {config: x}'
mistake '1:7: zoe.dump_config belongs on the command line' 'zoe: {dump_config: true}'
mistake '1:7: zoe.use_prompt_extend: prompts are not rewritten' 'zoe: {use_prompt_extend: true}'
mistake '1:14: zoe.cache: ' 'zoe: {cache: "FBCache,rel=1"}'
mistake '1:6: zoe: a map of options is wanted, and this is a value' 'zoe: 1'
mistake '1:1: the file: a map of settings is wanted, and this is a list' '- 1'
mistake '1:1: model_name is missing' 'model_args: {frame_num: 5}'
mistake '4:14: model_args.frame is no key; did you mean frame_num?' "$launch" 'model_args: {frame: 5}'
mistake '4:14: model_args.fps is no key; it is an option of this program, which stands under zoe:' "$launch" 'model_args: {fps: 5}'
mistake '4:23: model_args.tp_size 2: layers are not split over ranks here' 'model_name: x' 'world_size: 2' 'entry_script: x' \
    'model_args: {tp_size: 2}'
mistake '4:24: model_args.cfg_size: wanted is a whole number from 1 to 2, and this is 3' "$launch" 'model_args: {cfg_size: 3}'
mistake '4:28: model_args.vae_parallel: true or false, without quotes, is wanted' "$launch" 'model_args: {vae_parallel: 2}'
mistake '2:13: world_size is 1, but cfg_size, ulysses_size, ring_size and tp_size make 4' "$launch" \
    'model_args: {ulysses_size: 2, ring_size: 2}'
mistake '2:13: world_size: wanted is a whole number' 'model_name: x' 'world_size: one' 'entry_script: x'
mistake '4:26: model_args.quant_mode 1: weights that were quantised' "$launch" 'model_args: {quant_mode: 1}'
mistake '4:33: model_args.use_prompt_extend: prompts are not rewritten' "$launch" 'model_args: {use_prompt_extend: true}'
mistake '4:11: launcher: wanted is torchrun or accelerate' "$launch" 'launcher: mpirun'
mistake '4:14: master_port: wanted is a whole number from 1 to 65535' "$launch" 'master_port: -1'
mistake '4:15: env_vars.A: a value is wanted, and this is a list' "$launch" 'env_vars: {A: [1]}'
mistake '4:18: sparse.method SVG: attention is never sparse here' "$launch" 'sparse: {method: SVG}'
mistake '1:21: dit_cache.method: fbcache is no method, and capitals count; did you mean FBCache?' 'dit_cache: {method: fbcache}'
mistake '3:12: dit_cache.params.rel_l1_tresh is no key; did you mean rel_l1_thresh?' 'dit_cache:' '  method: TeaCache' \
    '  params: {rel_l1_tresh: 0.1}'
mistake '3:20: TeaCache: warmup is "many", but a whole number' 'dit_cache:' '  method: TeaCache' '  params: {warmup: many}'
mistake '3:41: FBCache: threshold and rel_l1_thresh are two names of one setting' 'dit_cache:' '  method: FBCache' \
    '  params: {threshold: 1, rel_l1_thresh: 0.1}'
mistake '1:38: dit_cache.params: a map is wanted, and this is a list' 'dit_cache: {method: FBCache, params: [1]}'
mistake '1:21: dit_cache.params: a map is wanted' 'dit_cache: {params: 1}'
mistake '2:3: dit_cache.enabled is no key; there are method, enable_separate_cfg, params' 'dit_cache:' '  enabled: true'
mistake '1:15: b: anchors and aliases are not taken' 'zoe: {prompt: &b x}'
mistake '1:15: b: anchors and aliases are not taken' 'zoe: {prompt: *b }'
mistake '1:15: tag:yaml.org,2002:str: tags are not taken' 'zoe: {prompt: !!str x}'
mistake '2:1: a second document' '---' '---'
mistake '2:7: this is no YAML: ' 'zoe:' '  a: b: c'
mistake '1:9: no text in UTF-8: ' "$(printf 'zoe: {a:\377}')"
mistake '1:9: maps and lists are nested too deep' '[[[[[[[[[[1]]]]]]]]]]'
mistake ' the file says nothing' '# nothing'
mistake '2:12: dit_cache: the same was said before, at run.yaml:1:14: zoe.cache' 'zoe: {cache: NoCache}' 'dit_cache: {method: FBCache}'
[ $count -gt 35 ] || bad "only $count mistakes were made"

# Large, deep and repeated files are no trouble.
head -c 300000 /dev/zero | tr '\0' '#' >run.yaml
tiny --config run.yaml --dry-run
expect_code 3
yes '[' | head -n 100000 >run.yaml
tiny --config run.yaml --dry-run
expect_code 2
expect_says 'nested too deep'
{ echo 'zoe: {lora: ['; yes '1,' | head -n 20000; echo ']}'; } >run.yaml
tiny --config run.yaml --dry-run
expect_code 2
expect_says 'more than 8192 values in one file'
zoe generate --config missing.yaml
expect_code 3
expect_says 'missing.yaml'
zoe generate --config .
expect_code 3
zoe generate --config -
expect_code 2
zoe generate --config ''
expect_code 2

# It is never written over.
yaml "zoe: {steps: 3}"
cp run.yaml kept.yaml
for option in --out --latents-out --preview --report; do
    tiny --config run.yaml --no-metadata --latents-out l.safetensors $option ./run.yaml
    expect_code 2
    expect_same run.yaml kept.yaml
done
expect_says 'the output ./run.yaml is the same file'

# For programs, whoever says so.
yaml "zoe: {progress: json}"
tiny --config run.yaml --dry-run
expect_code 0
"$TOOL" json stderr || bad "not every line is JSON"
tiny --config run.yaml --progress json --dry-run
"$TOOL" json stderr || bad "not every line is JSON"
tiny --config run.yaml --progress plain --dry-run
expect_silent_about '{'

# A name that YAML cannot hold.
tiny --out "$(printf 'a\377.mp4')" --dump-config
expect_code 2
expect_says '--out is no UTF-8'
expect_nothing_on_stdout

# The examples: each is read, and makes the file that it names.
for file in "$EXAMPLES"/config/*.yaml; do
    zoe generate --config "$file" --model "$CKPT" --image "$IMAGE" --dry-run
    expect_code 0
done
ln -s "$EXAMPLES" examples
mkdir models
ln -s "$DEMO" models/demo
zoe generate --config examples/config/demo_cached.yaml --dry-run
expect_code 0
finish
