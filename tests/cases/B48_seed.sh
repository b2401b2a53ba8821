# Any 64-bit seed; of the noise only its low 32 bits count, as in torch. The noise has the same bits for any number of
# threads and any instruction set; the whole output for any number of threads of one instruction set. (Of ranks: when
# there are some.)
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
expect_different 0.safetensors 9223372036854775807.safetensors

# A negative seed is replaced by a random one, which is printed and repeats the run.
tiny --frames 1 --no-metadata --seed -1 --latents-out random.safetensors --progress json
expect_code 0
seed=$("$TOOL" get stderr "done" seed)
[ "$seed" -ge 0 ] || bad "the seed printed is $seed"
seeded "$seed"
expect_same random.safetensors "$seed.safetensors"
tiny --frames 1 --no-metadata --seed -1 --latents-out again.safetensors
expect_different random.safetensors again.safetensors

# Beyond 64 bits: refused, not wrapped.
for seed in 9223372036854775808 -9223372036854775809 1.5 ''; do
    tiny --frames 1 --seed "$seed" --dry-run
    expect_code 2
    expect_says -- --seed
done

# run_bits ISA SEED THREADS: digests of noise and latent.
run_bits() {
    ZOE_CPU=$1 "$CASES/case_B48_seed" "$DATA" "$2" "$3" l.safetensors 2>stderr
}
other=
for seed in 0 4294967296 9223372036854775807; do
    said="noise of seed $seed"
    noise=
    for isa in c avx2; do
        one=$(run_bits $isa $seed 1)
        [ $seed != 0 ] || expect_equal "$isa, 16 threads" "$(run_bits $isa $seed 16)" "$one"
        [ -n "$noise" ] || noise=${one% *}
        expect_equal "the noise, $isa" "${one% *}" "$noise"
        [ ${#noise} -eq 16 ] || bad "no digest"
        # The rungs differ in the rounding of the products; if not, one of them did not run.
        if [ $isa = avx2 ] && grep -qw avx2 /proc/cpuinfo 2>/dev/null; then
            [ "${one#* }" != "$c_latent" ] || bad 'ZOE_CPU=c and ZOE_CPU=avx2 give one and the same latent'
        fi
        c_latent=${one#* }
    done
    [ $seed = 4294967296 ] || [ "$noise" != "$other" ] || bad "the noise does not depend on the seed"
    other=$noise
done
finish
