#!/usr/bin/env bash
# The example of the operators, built with find_package(zoetrope), shared and static.
set -euo pipefail
source=$1 build=$2 cmake=$4
prefix=$build/package
for target in op op-static; do
    folder=$prefix/cmake-$target
    "$cmake" -S "$source/examples/op" -B "$folder" -DCMAKE_PREFIX_PATH="$prefix" -DOPERATORS=zoetrope::$target >"$prefix/log" ||
        { cat "$prefix/log"; exit 1; }
    "$cmake" --build "$folder" >"$prefix/log" || { cat "$prefix/log"; exit 1; }
    "$folder/norm_linear"
done
# A version that this one does not serve is refused.
if "$cmake" -S "$source/examples/op" -B "$prefix/refused" -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=9.9 >/dev/null 2>&1; then
    echo "find_package(zoetrope 9.9) was not refused"
    exit 1
fi
