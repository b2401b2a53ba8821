#!/bin/sh
# Builds check_kernels for 64-bit ARM and runs it under qemu.
#     neon.sh SOURCES BUILD_FOLDER CMAKE
set -eu
for tool in aarch64-linux-gnu-gcc qemu-aarch64 ninja; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: kernels for 64-bit ARM need $tool" \
            "(apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ninja-build)"
        exit 77
    fi
done
log=$2.log
cd "$1"
if ! { "$3" --preset aarch64 -B "$2" && "$3" --build "$2" --target check_kernels; } >"$log" 2>&1; then
    cat "$log"
    exit 1
fi
qemu-aarch64 -L /usr/aarch64-linux-gnu "$2/tests/check_kernels" --isa neon
