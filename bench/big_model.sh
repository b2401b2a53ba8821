#!/bin/sh
# A transformer of 10 GB in memory and within 4 GiB: most memory held, bytes from the disk, time, and whether the latents are
# the same. Needs a build, about 11 GB of disk, and for the first of the two runs as much memory.
#
#     sh bench/big_model.sh FOLDER [BUILD]
set -eu
folder=${1:?usage: big_model.sh FOLDER [BUILD]}
root=$(cd "$(dirname "$0")/.." && pwd)
build=${2:-$root/build}
data=$root/tests/data
trap 'rm -f "$folder/big.safetensors" "$folder/text.safetensors" "$folder/streamed.safetensors" "$folder/whole.safetensors"' EXIT

mkdir -p "$folder"
"$build/random_model" wan "$folder/big.safetensors"
"$build/random_model" umt5 "$folder/text.safetensors" ffn=64 layers=1 vocab=4096
echo "model: $(wc -c <"$folder/big.safetensors") bytes, text encoder: $(wc -c <"$folder/text.safetensors") bytes"

# run NAME ARGS: one step with both branches, with nothing of the model in the page cache.
run() {
    name=$1
    shift
    sync
    dd if="$folder/big.safetensors" iflag=nocache count=0 2>/dev/null
    begun=$(date +%s)
    figures=$("$build/tests/cli/cli_tool" reads "$build/zoe" generate --transformer "$folder/big.safetensors" \
        --vae "$data/e2e_ti2v/ckpt_safetensors/vae.safetensors" --text-encoder "$folder/text.safetensors" \
        --tokenizer "$data/e2e_i2v/ckpt/google/umt5-xxl" --prompt "A white cat sits." --negative-prompt blurry \
        --dtype bf16 --size 192x192 --frames 9 --steps 1 --seed 1 --no-metadata --latents-out "$folder/$name.safetensors" "$@")
    echo "$name: held at most ${figures% *} bytes, read ${figures#* } bytes from the disk, $(($(date +%s) - begun)) s"
}

run streamed --memory 4G
run whole --memory 16G
cmp "$folder/streamed.safetensors" "$folder/whole.safetensors"
echo "the latents are the same"
