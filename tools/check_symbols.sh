#!/usr/bin/env bash
# check_symbols.sh [BUILD]: every global symbol of the libraries bears the prefix zoe_, and the operator library exports
# what zoetrope/op.h declares: no more and no less.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
libraries=("$build"/libzoe_*.a "$build"/libzoetrope-op.a)
shared=$build/libzoetrope-op.so
for library in "${libraries[@]}" "$shared"; do
    [ -e "$library" ] || { echo "check_symbols: build first: no $library" >&2; exit 1; }
done
# Names with other beginnings: C++ of the one shim, and what the sanitizers, the compiler or the linker add.
foreign=$({ nm -g --defined-only "${libraries[@]}"; nm -D --defined-only "$shared"; } |
    awk 'NF == 3 { print $3 }' | grep -vE '^(zoe_|_Z|DW\.ref|__|_(init|fini|end|edata)$)' | sort -u || true)
if [ -n "$foreign" ]; then
    echo "global symbols without the prefix zoe_:"
    echo "$foreign"
    exit 1
fi
declared=$(echo '#include "zoetrope/op.h"' | "${CC:-cc}" -E -P -I include - | grep -oE '\bzoe_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$shared" | awk '$3 ~ /^zoe_/ { print $3 }' | sort -u)
[ -n "$declared" ] || { echo "check_symbols: no declaration found in zoetrope/op.h"; exit 1; }
if ! difference=$(diff <(echo "$declared") <(echo "$exported")); then
    echo "declared in zoetrope/op.h but not exported (<), or exported but not declared (>):"
    grep '^[<>]' <<<"$difference"
    exit 1
fi
