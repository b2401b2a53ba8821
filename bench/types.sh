#!/usr/bin/env bash
# The table of docs/FORMATS.md: what each type of the weights costs in exactness, on the demo model and on a random
# transformer whose rows are whole blocks of 256. Takes some minutes; the figures do not depend on the machine's load.
#
#   bench/types.sh [FOLDER] >rows.md
#
# FOLDER: where zoe and wan_types were built [build]. Prints for each type: bits an element; the relative L2 error of the
# random transformer's velocities and the same in dB; of the demo's velocities; the PSNR of the demo's frames.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(cd "${1:-build}" && pwd)
zoe=$build/zoe demo=models/demo
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# video OUT [EXPERTS...]: the demo's run.
video() {
    local out=$1
    shift
    "$zoe" generate --model "$demo" --image examples/red-circle.png --prompt "a red circle moves left fast" \
        --size 96x96 --frames 9 --steps 10 --seed 3 --no-metadata --out "$out" "$@" 2>"$work/log" || {
        cat "$work/log" >&2
        return 1
    }
}

# convert IN OUT TYPE: succeeds if anything became of that type.
convert() {
    "$zoe" convert "$1" "$2" --type "$3" 2>"$work/log" || {
        cat "$work/log" >&2
        exit 1
    }
    ! grep -q 'nothing could become' "$work/log"
}

db_of_frames() {
    "$zoe" compare "$work/f32.y4m" "$1" | awk '$1 == "total" { print $2 == "equal" ? $2 : sprintf("%.1f", $2) }'
}

"$build/wan_types" make "$work/random.safetensors"
for expert in high low; do
    mkdir "$work/$expert"
    cp "$demo/${expert}_noise_model/config.json" "$work/$expert"
    convert "$demo/${expert}_noise_model" "$work/$expert/f32.safetensors" f32
    mv "$work/$expert/f32.safetensors" "$work/$expert/f32"
done
video "$work/f32.y4m"

echo "| type | bits an element | random, rel. L2 | random, dB | demo's velocities, dB | demo's frames, PSNR |"
echo "|---|---|---|---|---|---|"
for row in f16:16 bf16:16 q8_0:8.5 fp8:8 q6_k:6.56 q5_1:6 q5_k:5.5 q5_0:5.5 q4_1:5 q4_k:4.5 q4_0:4.5 q3_k:3.44 q2_k:2.63; do
    type=${row%:*} end=gguf
    [ "$type" != fp8 ] || end=safetensors
    convert "$work/random.safetensors" "$work/random.$type.$end" "$type"
    read -r relative db <<<"$("$build/wan_types" compare "$work/random.safetensors" "$work/random.$type.$end")"
    velocity='' frames=''
    if convert "$demo/high_noise_model" "$work/high/$type.$end" "$type"; then
        convert "$demo/low_noise_model" "$work/low/$type.$end" "$type"
        read -r _ velocity <<<"$("$build/wan_types" compare "$work/high/f32" "$work/high/$type.$end" "$work/high/config.json")"
        video "$work/$type.y4m" --high-noise "$work/high/$type.$end" --low-noise "$work/low/$type.$end"
        frames=$(db_of_frames "$work/$type.y4m")
    fi
    echo "| $type | ${row#*:} | $relative | $db | $velocity | $frames |"
    rm -f "$work"/*/"$type.$end" "$work/random.$type.$end" "$work/$type.y4m"
done
