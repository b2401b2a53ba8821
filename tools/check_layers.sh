#!/usr/bin/env bash
# Dependencies point one way: a room may include only itself and the rooms before it in this list.
set -euo pipefail
cd "$(dirname "$0")/.."
rooms=(base media store text kernel device op comm model sample job)
bad=0

level_of() {
    local i
    for i in "${!rooms[@]}"; do
        [ "${rooms[$i]}" = "$1" ] && { echo "$i"; return; }
    done
    echo -1
}

# Public headers belong to the room that implements them.
room_of_public() {
    case "$1" in
    status | tensor) echo base ;;
    solver) echo base ;;
    op) echo kernel ;; # its types are what device and kernel carry out
    zoetrope) echo job ;;
    *) echo "$1" ;;
    esac
}

for room in "${rooms[@]}"; do
    [ -d "src/$room" ] || continue
    here=$(level_of "$room")
    while IFS=: read -r file line include; do
        case "$include" in
        zoetrope/op/*) there=$(level_of kernel) ;;
        zoetrope/*) there=$(level_of "$(room_of_public "$(basename "$include" .h)")") ;;
        */*) there=$(level_of "${include%%/*}") ;;
        *) continue ;;
        esac
        if [ "$there" -gt "$here" ]; then
            echo "$file:$line: room $room includes $include, which lies above it"
            bad=1
        fi
    done < <(grep -rnoE '^#include "[^"]+"' "src/$room" | sed -E 's/#include "([^"]+)"/\1/')
done
exit $bad
