# --memory: units of the size, and the limit itself.
. "$COMMON"

peak=$(plan peak_bytes)
[ "$peak" -gt 1000000 ] || bad "a peak of $peak bytes"
kib=$((peak / 1024 + 1))
mib=$((peak / 1048576 + 1))
for size in "$peak" "${peak}B" "${peak}.9" "${kib}K" "${kib}KiB" "${kib}kib" "${mib}M" "${mib}MiB" 1G 1.5GiB 0.5gb 1T 1TiB 1TB; do
    tiny --dry-run --memory $size
    expect_code 0
done
for size in 1 "$((peak - 1))" "${kib}KB" "${mib}MB" 0.00001T 0.001g; do
    tiny --dry-run --memory $size
    expect_code 4
    expect_says 'are allowed'
done
finish
