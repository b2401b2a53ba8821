#!/usr/bin/env bash
# The example of the operators, built with what pkg-config says, shared and static.
set -euo pipefail
source=$1 build=$2 libdir=$3
prefix=$build/package
export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
[ "$(pkg-config --variable=libdir zoetrope-op | xargs realpath)" = "$(realpath "$prefix/$libdir")" ]
program=$prefix/norm_linear
# shellcheck disable=SC2046,SC2086
${CC:-cc} -std=c11 $CFLAGS -o "$program" "$source/examples/op/norm_linear.c" \
    $(pkg-config --cflags --libs zoetrope-op) -Wl,-rpath,"$prefix/$libdir" -lm
readelf -d "$program" | grep 'NEEDED.*libzoetrope-op.so.0' >/dev/null
"$program"
# Without the shared library beside it, -lzoetrope-op is the static one.
mkdir -p "$prefix/static"
cp "$prefix/$libdir/libzoetrope-op.a" "$prefix/static/"
# shellcheck disable=SC2046,SC2086
${CC:-cc} -std=c11 $CFLAGS -o "$program-static" "$source/examples/op/norm_linear.c" -L"$prefix/static" \
    $(pkg-config --static --cflags --libs zoetrope-op)
if readelf -d "$program-static" | grep zoetrope; then
    echo "the static program needs the shared library"
    exit 1
fi
"$program-static"
