#!/bin/sh
# Instructions per source byte, counted by callgrind; it knows AVX2 and neither GFNI nor AVX-512.
# Counts of 1 and 11 repetitions are subtracted, so that what happens once does not count.
set -eu
program=${1:-"$(dirname "$0")/target/release/fulmar-fec-compare"}
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" --repeat "$1" "$2" 2>&1 >/dev/null |
        sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
for what in rs-encode rs-decode window-sources dfcp-encode dfcp-decode; do
    bytes=$("$program" --repeat "$what" 1)
    awk -v what="$what" -v one="$(count "$what" 1)" -v eleven="$(count "$what" 11)" -v bytes="$bytes" \
        'BEGIN { printf "%-16s %8.2f instructions per byte\n", what, (eleven - one) / 10 / bytes }'
done
