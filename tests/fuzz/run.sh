#!/usr/bin/env bash
# Searches for inputs that break a parser: builds the fuzz targets with clang, libFuzzer, ASan and UBSan and runs one of
# them, or all one after the other. See README.md.
#
#     tests/fuzz/run.sh [TARGET|all [SECONDS]]     default: all, 60 seconds each
#     tests/fuzz/run.sh minimise TARGET|all        new inputs that reach new code go into corpus/TARGET
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${ZOE_FUZZ_BUILD:-$here/../../build/fuzz}
found=$build/found # found/TARGET: every input that reached new code; found/TARGET-crash-...: those that broke something

targets() { sed -n 's/^zoe_fuzz(\([a-z]*\) .*/\1/p' "$here/CMakeLists.txt"; }

# The folders that the target's line in CMakeLists.txt names.
folders() { sed -n "s/^zoe_fuzz($1 [a-z]* \(.*\))\$/\1/p" "$here/CMakeLists.txt"; }

# What one target needs beside the rest. The words of a format help the search; several targets may share them.
options() {
    case $1 in
    safetensors | shards | config | record | wan | folder | proto) echo "-dict=$here/dict/json.dict" ;;
    yaml) echo "-dict=$here/dict/yaml.dict" ;;
    lora) echo "-dict=$here/dict/lora.dict" ;;
    options) echo "-dict=$here/dict/options.dict -close_fd_mask=2" ;; # it talks on standard error
    metadata | video) echo "-malloc_limit_mb=2100" ;; # FFmpeg's own bound of one allocation is 2 GiB
    esac
}

build_targets() {
    CC=clang CXX=clang++ cmake -G Ninja -S "$here/../.." -B "$build" -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG="-O1 -g" -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g" -DZOE_FUZZ=ON \
        -DZOE_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
    # shellcheck disable=SC2046
    cmake --build "$build" ${ZOE_JOBS:+-j "$ZOE_JOBS"} --target $(printf 'fuzz_%s ' "$@")
}

search() {
    local target=$1 seconds=$2
    mkdir -p "$found/$target"
    cd "$here"
    # shellcheck disable=SC2046
    nice -n 19 "$build/tests/fuzz/fuzz_$target" "$found/$target" $(folders "$target") \
        -max_total_time="$seconds" -max_len=8192 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
        -artifact_prefix="$found/$target-" -print_final_stats=1 $(options "$target")
}

# Of the smallest set that reaches all that is reached, every so-manieth by size, so that whole files are among them.
minimise() {
    local target=$1 best some=30
    best=$(mktemp -d)
    cd "$here"
    mkdir -p "corpus/$target" "$found/$target"
    # shellcheck disable=SC2046
    "$build/tests/fuzz/fuzz_$target" -merge=1 -max_len=2048 -timeout=10 "$best" $(folders "$target") "$found/$target"
    # shellcheck disable=SC2012 # names are digests
    ls -S -r "$best" | awk -v some=$some -v all="$(find "$best" -type f | wc -l)" \
        'NR >= next_one { print; next_one += all > some ? all / some : 1 }' |
        while read -r name; do cp "$best/$name" "corpus/$target/"; done
    rm -rf "$best"
}

command=search seconds=60
if [ "${1:-}" = minimise ]; then
    command=minimise
    shift
fi
read -r -a chosen <<<"$([ "${1:-all}" = all ] && targets | tr '\n' ' ' || echo "$1")"
[ $# -lt 2 ] || seconds=$2
build_targets "${chosen[@]}"
for target in "${chosen[@]}"; do
    echo "== $target"
    $command "$target" "$seconds"
done
