# Threads and repetition change no byte of any output.
. "$COMMON"

outputs() {
    tiny --frames 9 --threads "$2" --out "$1.$3" --frames-out "$1.frames" --latents-out "$1.safetensors"
    expect_code 0
    expect_nothing_on_stdout
    expect_files "$1.$3" "$1.safetensors" "$1.frames/frame_00000.png" "$1.frames/frame_00008.png"
    expect_no_files "$1.frames/frame_00009.png"
}

for kind in mp4 y4m webm; do
    outputs one 1 $kind
    outputs again 1 $kind
    outputs two 2 $kind
    expect_same one.$kind again.$kind
    expect_same one.$kind two.$kind
    expect_same one.safetensors two.safetensors
    expect_same one.safetensors again.safetensors
    for frame in one.frames/*; do
        expect_same "$frame" "two.frames/${frame##*/}"
        expect_same "$frame" "again.frames/${frame##*/}"
    done
done

# Y4M on standard output is the same as in a file.
tiny --frames 9 --out -
expect_code 0
expect_same stdout one.y4m

# Nothing is left of the making.
expect_equal "leftovers" "$(find . -name '*.part' | wc -l | tr -d ' ')" 0

# Options of the outputs do not change the latents; those of the run do.
tiny --frames 9 --latents-out bare.safetensors --no-metadata
tiny --frames 9 --latents-out bare2.safetensors --no-metadata --fps 24000/1001
expect_same bare.safetensors bare2.safetensors
tiny --frames 9 --latents-out other.safetensors --no-metadata --seed 2
expect_different bare.safetensors other.safetensors
tiny --frames 9 --latents-out other.safetensors --no-metadata --dtype bf16
expect_different bare.safetensors other.safetensors
tiny --frames 9 --latents-out other.safetensors --no-metadata --solver dpm++
expect_different bare.safetensors other.safetensors
finish
