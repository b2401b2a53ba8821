#!/usr/bin/env bash
# Every global symbol of the library bears the prefix zoe_.
set -euo pipefail
cd "$(dirname "$0")/.."
libraries=(build/libzoe_*.a)
[ -e "${libraries[0]}" ] || { echo "check_symbols: build first: no build/libzoe_*.a" >&2; exit 1; }
# Names with other beginnings: C++ of the one shim, and what the sanitizers or the compiler add.
foreign=$(nm -g --defined-only "${libraries[@]}" 2>/dev/null |
    awk 'NF == 3 { print $3 }' | grep -vE '^(zoe_|_Z|DW\.ref|__)' | sort -u || true)
if [ -n "$foreign" ]; then
    echo "global symbols without the prefix zoe_:"
    echo "$foreign"
    exit 1
fi
