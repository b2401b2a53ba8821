#!/usr/bin/env bash
# Each public header compiles alone, as C11 and as C++17, with this build's compiler and with clang if it is here.
set -euo pipefail
cd "$1/include"
warnings="-Wall -Wextra -Wpedantic -Werror -fsyntax-only"
for header in $(find zoetrope -name '*.h' | sort); do
    for compiler in "${CC:-cc}" clang; do
        command -v "$compiler" >/dev/null || continue
        # shellcheck disable=SC2086
        echo "#include \"$header\"" | "$compiler" -std=c11 $warnings -I. -x c -
    done
    for compiler in "${CXX:-c++}" clang++; do
        command -v "$compiler" >/dev/null || continue
        # shellcheck disable=SC2086
        echo "#include \"$header\"" | "$compiler" -std=c++17 $warnings -I. -x c++ -
    done
done
