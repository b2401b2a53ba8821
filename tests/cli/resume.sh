# A run that was broken off goes on: from another folder, with other outputs, without its text encoder's work, and
# refuses what would make it another run.
. "$COMMON"

# stop TEXT ARGS: a run that is killed when it says TEXT.
stop() {
    text=$1
    shift
    said="zoe generate, killed at: $text"
    "$TOOL" signal KILL 1 "$text" "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt "A white cat sits." \
        --size 64x64 --frames 5 --negative-prompt blurry --steps 30 --threads 1 --progress plain "$@" >stdout 2>stderr
    code=$?
    expect_code 137
}

tiny --steps 30 --out whole.mp4 --latents-out whole.safetensors
expect_code 0

# By the folder alone, and from anywhere: its request has complete paths.
stop 'steps 2/30' --seed 1 --checkpoint ck --out v.mp4 --latents-out l.safetensors
expect_no_files v.mp4 l.safetensors
mkdir elsewhere
cd elsewhere || exit 1
zoe generate --resume ../ck --threads 1 --progress plain
expect_code 0
expect_silent_about 'text begins'
expect_silent_about 'encode begins'
expect_says 'steps goes on after'
expect_silent_about 'steps 2/30,'
cd ..
expect_same v.mp4 whole.mp4
expect_same l.safetensors whole.safetensors
expect_no_parts

# A finished run gives other outputs without its steps.
zoe generate --resume ck --out v.y4m --frames-out frames --progress plain
expect_code 0
expect_files v.y4m frames/frame_00004.png
expect_silent_about 'steps begins'

# A new run does not begin on an old one.
tiny --steps 30 --out v.mp4 --checkpoint ck
expect_code 2
expect_says '--resume ck goes on with it'
expect_same v.mp4 whole.mp4

# All that differs is said at once, old and new.
zoe generate --resume ck --steps 5 --shift 3 --seed 7
expect_code 2
expect_says 'steps: 30 in the checkpoint, 5 asked for; shift: 5 in the checkpoint, 3 asked for; seed: 1 in the checkpoint'
zoe generate --resume ck --image "$DATA/../../examples/red-circle.png"
expect_code 2
expect_says 'the picture is another one'
zoe generate --resume ck --model "$DEMO"
expect_code 2
expect_says 'the high-noise transformer has other weights'
expect_says 'the VAE has other weights'
ZOE_CPU=c zoe generate --resume ck --dry-run
[ "$code" -eq 0 ] || expect_says 'instruction set'

# A random seed stays.
stop 'steps 1/30' --checkpoint random --latents-out r.safetensors
seed=$(sed -n 's/.*seed \([0-9]*\), .*/\1/p' stderr)
zoe generate --resume random --threads 1
expect_code 0
tiny --steps 30 --seed "$seed" --latents-out r2.safetensors
expect_same r.safetensors r2.safetensors

# Nothing there: with a whole request the run begins, without one it cannot.
tiny --steps 30 --resume new --out n.mp4
expect_code 0
expect_says 'begins anew'
expect_same n.mp4 whole.mp4
zoe generate --resume nothing-here
expect_code 2
expect_says nothing-here
expect_no_files nothing-here
mkdir other
echo '{}' >other/model_index.json
zoe generate --resume other
expect_code 2
expect_equal "the folder" "$(ls -A other)" model_index.json

# A dry run leaves nothing, and does not touch what is there.
tiny --dry-run --checkpoint dry --out d.mp4
expect_code 0
expect_no_files dry
stop 'steps 1/30' --seed 1 --checkpoint half --latents-out h.safetensors
find half -type f ! -name '*.part' -exec cksum {} + | sort >before
zoe generate --resume half --dry-run
expect_code 0
find half -type f ! -name '*.part' -exec cksum {} + | sort >after
expect_same before after

# Interrupted rather than killed.
said=interrupted
"$TOOL" signal INT 1 'steps 25/30' "$ZOE" generate --resume half --threads 1 --progress plain 2>stderr
code=$?
expect_code 130
expect_no_files h.safetensors
zoe generate --resume half --threads 1 --progress plain
expect_code 0
expect_silent_about 'steps 2/30,'
expect_same h.safetensors whole.safetensors

# Damage is named, with what to do.
printf x | dd of=half/step.safetensors bs=1 seek=2000 conv=notrunc 2>/dev/null
zoe generate --resume half
expect_code 3
expect_says 'if you remove step.safetensors from half, the run begins its steps anew'
rm half/step.safetensors
zoe generate --resume half --threads 1
expect_code 0
expect_same h.safetensors whole.safetensors
echo '[1]' >half/request.json
zoe generate --resume half
expect_code 3
expect_says half/request.json

# An output under a name of the checkpoint's own.
tiny --checkpoint own --latents-out own/step.safetensors
expect_code 2
expect_says 'has the name of a file of the checkpoint'
expect_no_files own

# A folder that cannot be.
tiny --checkpoint no/such/folder --out x.mp4
expect_code 2
expect_says no/such/folder
: >file
tiny --checkpoint file --out x.mp4
expect_code 2
expect_says file

# What no tensor shows is looked at too: the settings in config.json.
cp -r "$CKPT" model
chmod -R u+w model
stop 'steps 2/30' --model model --seed 1 --checkpoint settings --latents-out s.safetensors
for config in model/*/config.json; do
    sed 's/"eps": [^,]*/"eps": 0.001/' "$config" >edited
    cp edited "$config"
done
zoe generate --resume settings
expect_code 2
expect_says 'the config.json of the high-noise transformer says something else'
zoe generate --model "$CKPT" --resume settings --threads 1
expect_code 0
expect_same s.safetensors whole.safetensors

# Files that were written to since are read again whole: equal ones are fine, others are not.
cp -r "$CKPT" model2
stop 'steps 2/30' --model model2 --seed 1 --checkpoint bytes --latents-out b.safetensors
touch model2/*.pth
zoe generate --resume bytes --dry-run
expect_code 0
sed '/"weights_sha256"/,/}/s/\("vae": "\)......../\100000000/' bytes/request.json >edited
cmp -s edited bytes/request.json && bad 'the digest of the VAE was not found in request.json'
cp edited bytes/request.json
zoe generate --resume bytes --dry-run
expect_code 2
expect_says 'the VAE has other weights (00000000'

# A folder of something else is not for checkpoints, and nothing in it is touched.
mkdir project
echo '{"my": "request"}' >project/request.json
cp project/request.json mine
tiny --checkpoint project --latents-out p.safetensors --dry-run
expect_code 3
expect_same project/request.json mine
cp -r "$CKPT" model3
tiny --model model3 --checkpoint model3 --latents-out p.safetensors
expect_code 2
expect_says 'holds other things'
expect_no_files model3/lock model3/request.json p.safetensors

# A request that nothing was worked out of outlives a dry run.
stop 'picture' --checkpoint begun --latents-out g.safetensors
cp begun/request.json mine
tiny --checkpoint begun --latents-out p.safetensors --dry-run
expect_code 0
expect_same begun/request.json mine

# The name that was taken because none was given is never written over.
stop 'steps 2/30' --seed 1 --checkpoint default
echo old >zoe.mp4
zoe generate --resume default --threads 1
expect_code 2
expect_says 'zoe.mp4, which the run took'
expect_equal "the old file" "$(cat zoe.mp4)" old

# After Ctrl-C while frames are made, nothing stands under the latents' name either.
said='interrupted in decode'
"$TOOL" signal INT 1 'decode begins' "$ZOE" generate --model "$CKPT" --image "$IMAGE" --prompt x --size 64x64 \
    --frames 41 --steps 1 --seed 1 --threads 1 --progress plain --out i.mp4 --latents-out i.safetensors >stdout 2>stderr
code=$?
expect_code 130
expect_no_files i.mp4 i.safetensors
tiny --latents-out named.mp4
expect_code 0
expect_says 'warning: named.mp4: latents are written as safetensors'
finish
