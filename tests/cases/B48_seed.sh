# Any 64-bit seed; of the noise only its low 32 bits count, as in torch. Threads and instruction sets: see also B52.
. "$COMMON"

seeded() {
    tiny --frames 1 --no-metadata --seed "$1" --latents-out "$1.safetensors"
    expect_code 0
}
for seed in 0 1 4294967296 4294967297 9223372036854775807; do
    seeded $seed
    expect_says "seed $seed,"
done
expect_same 0.safetensors 4294967296.safetensors
expect_same 1.safetensors 4294967297.safetensors
expect_different 0.safetensors 1.safetensors

# A negative seed is replaced by a random one, which is printed and repeats the run.
tiny --frames 1 --no-metadata --seed -1 --latents-out random.safetensors --progress json
expect_code 0
seed=$("$TOOL" get stderr "done" seed)
seeded "$seed"
expect_same random.safetensors "$seed.safetensors"
tiny --frames 1 --no-metadata --seed -1 --latents-out again.safetensors
expect_different random.safetensors again.safetensors
finish
