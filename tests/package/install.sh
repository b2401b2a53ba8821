#!/usr/bin/env bash
# Installs the operator library alone into the build folder; it needs nothing but the C library and OpenMP.
set -euo pipefail
build=$2 libdir=$3 cmake=$4
prefix=$build/package
rm -rf "$prefix"
"$cmake" --install "$build" --component op --prefix "$prefix" >/dev/null

library=$prefix/$libdir/libzoetrope-op.so
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
foreign=$(grep -vE '^(lib(c|m|gomp|omp|pthread|gcc_s|asan|ubsan|tsan)\.so|ld-)' <<<"$needed" || true)
if [ -n "$foreign" ]; then
    echo "libzoetrope-op.so needs more than it should:"
    echo "$foreign"
    exit 1
fi
readelf -d "$library" | grep 'SONAME.*\[libzoetrope-op.so.0\]' >/dev/null || { echo "its soname is another"; exit 1; }

# The headers of operators and what they include, no others.
(cd "$prefix/include" && find . -name '*.h' | sort) >"$build/package.found"
(cd "$1/include" && find ./zoetrope/op ./zoetrope/op.h ./zoetrope/status.h ./zoetrope/tensor.h -name '*.h' | sort) |
    diff "$build/package.found" -
