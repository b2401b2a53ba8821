# zoe convert: every kind of file and type is read back as what it says, the rest is refused.
. "$COMMON"

cp "$CKPT/high_noise_model/config.json" .
tiny --no-metadata --latents-out official.safetensors
HIGH=$CKPT/high_noise_model

# run FILE OUT [ARGS]: with this high-noise expert.
run() {
    file=$1 out=$2
    shift 2
    tiny --no-metadata --high-noise "$file" --latents-out "$out" "$@"
    expect_code 0
}

# Without rounding nothing changes, in either kind of file, there and back.
for name in a.gguf a.safetensors; do
    zoe convert "$HIGH" $name --type f32
    expect_code 0
    expect_says "wrote $name"
    run $name same.safetensors
    expect_same official.safetensors same.safetensors
done
zoe convert a.gguf b.safetensors --type f32
expect_same a.safetensors b.safetensors

# Types keep what they promise; a q file and its values in f32 are one.
for row in f16:60 bf16:55 q8_0:50 q5_1:35 q5_0:35 q4_1:30 q4_0:30; do
    type=${row%:*}
    zoe convert "$HIGH" $type.gguf --type $type
    expect_code 0
    run $type.gguf $type.safetensors
    zoe compare --min-psnr "${row#*:}" official.safetensors $type.safetensors
    expect_code 0
done
zoe convert q8_0.gguf expanded.safetensors --type f32
run expanded.safetensors same.safetensors
expect_same q8_0.safetensors same.safetensors
[ "$(($(wc -c <q8_0.gguf) * 2))" -lt "$(wc -c <a.gguf)" ] || bad 'q8_0 is not half of f32'

# Rows of 64 are no blocks of 256: those matrices stay f16.
zoe convert "$HIGH" k.gguf --type q4_k
expect_code 0
expect_says ' 0 of 69 tensors are q4_k'
expect_says 'nothing could become q4_k'
run k.gguf same.safetensors

zoe convert "$HIGH" fp8.safetensors --type fp8
expect_code 0
run fp8.safetensors fp8_latents.safetensors
zoe compare --min-psnr 30 official.safetensors fp8_latents.safetensors
expect_code 0
zoe convert fp8.safetensors again.safetensors --type fp8
run again.safetensors same.safetensors
zoe compare --min-psnr 60 fp8_latents.safetensors same.safetensors
expect_code 0

# A trained model keeps its pictures: docs/FORMATS.md has the figures of every type.
for expert in high low; do
    mkdir demo_$expert
    cp "$DEMO/${expert}_noise_model/config.json" demo_$expert
    zoe convert "$DEMO/${expert}_noise_model" demo_$expert/model.gguf --type q8_0
    expect_code 0
done
# demo OUT [ARGS]
demo() {
    video=$1
    shift
    zoe generate --model "$DEMO" --image "$EXAMPLES/red-circle.png" --prompt "a red circle moves left fast" \
        --size 64x64 --frames 5 --steps 6 --seed 3 --threads 1 --out "$video" "$@"
    expect_code 0
}
demo full.y4m
demo q8_0.y4m --high-noise demo_high --low-noise demo_low
zoe compare --min-psnr 40 full.y4m q8_0.y4m
expect_code 0

# The other parts of a model.
zoe convert "$CKPT/models_t5_umt5-xxl-enc-bf16.pth" t5.gguf --type f32
expect_code 0
run "$HIGH" same.safetensors --text-encoder t5.gguf
expect_same official.safetensors same.safetensors
zoe convert "$CKPT/Wan2.1_VAE.pth" vae.safetensors --type f32
expect_code 0
run "$HIGH" same.safetensors --vae vae.safetensors
expect_same official.safetensors same.safetensors

# The image tower of Wan 2.1: the file is one again, and whole.
zoe convert "$DATA/clip/model.safetensors" clip.safetensors --type f32
expect_code 0
zoe convert clip.safetensors clip16.gguf --type f16
expect_code 0
zoe convert "$DATA/clip/model.safetensors" again.gguf --type f16
expect_same clip16.gguf again.gguf
for row in clip.gguf:q8_0 clip8.safetensors:fp8; do
    zoe convert "$DATA/clip/model.safetensors" ${row%:*} --type ${row#*:}
    expect_code 0
    grep -q " of [0-9]* tensors are ${row#*:} now" stderr || bad "nothing is told"
    ! grep -q ' 0 of' stderr || bad "nothing became ${row#*:}"
    zoe info --verify ${row%:*}
    expect_code 0
    grep -q 'CLIP image tower' stdout || bad "${row%:*} is no CLIP image tower"
done

# Interrupted: nothing is left. Killed: the next one clears what is left, and nothing of one that is at work.
"$TYPES" make large.safetensors 512 2048 4 || bad "no transformer"
# begin OUT: a conversion that has begun to write; its process is $!.
begin() {
    said="zoe convert large.safetensors $1"
    "$ZOE" convert large.safetensors "$1" --type q4_k --threads 1 2>stderr &
    waited=0
    until [ -n "$(find . -name "$1.*.part" -size +0)" ] || [ $waited -ge 3000 ]; do
        sleep 0.01
        waited=$((waited + 1))
    done
}
for signal in TERM HUP; do # a shell's background jobs ignore INT
    begin i.gguf
    kill -$signal $!
    wait $!
    code=$?
    expect_code 130
    expect_says interrupted
    expect_no_files i.gguf
    expect_no_parts
done
begin k.big.gguf
kill -KILL $!
wait $! 2>/dev/null
code=$?
expect_code 137
expect_equal "parts left" "$(find . -name '*.part' | wc -l)" 1
zoe convert "$HIGH" k.big.gguf --type q8_0
expect_code 0
expect_same k.big.gguf q8_0.gguf
expect_no_parts
rm k.big.gguf
begin k.big.gguf
zoe convert "$HIGH" k.big.gguf --type q8_0
expect_code 0
expect_equal "parts of the other one" "$(find . -name '*.part' | wc -l)" 1
wait $!
code=$?
expect_code 0
expect_no_parts

# The same bytes for any number of threads.
zoe convert "$HIGH" c.gguf --type q4_0 --threads 3
expect_same q4_0.gguf c.gguf

zoe convert "$HIGH" c.gguf --type q4_0
expect_code 2
expect_says 'is there already'
zoe convert "$HIGH" x.gguf
expect_code 2
expect_says '--type is wanted'
zoe convert "$HIGH" x.bin --type f16
expect_code 2
expect_says '.gguf or .safetensors'
zoe convert "$HIGH" x.safetensors --type q8_0
expect_code 2
expect_says 'let the name end with .gguf'
zoe convert "$HIGH" x.gguf --type fp8
expect_code 2
expect_says 'let the name end with .safetensors'
zoe convert "$IMAGE" x.gguf --type f16
expect_code 3
zoe convert official.safetensors x.gguf --type f16
expect_code 3
expect_says 'neither a Wan transformer'
zoe convert "$HIGH" nowhere/x.gguf --type f16
expect_code 2
expect_no_files x.gguf x.safetensors x.bin
expect_no_parts

# A weight that is not finite is named.
cp f16.gguf nan.gguf
printf '\377\377\377\377' | dd of=nan.gguf bs=1 seek=$(($(wc -c <nan.gguf) - 64)) conv=notrunc 2>/dev/null
zoe convert nan.gguf x.gguf --type q8_0
expect_code 3
expect_says 'holds NaN or inf'
expect_no_files x.gguf
expect_no_parts
finish
