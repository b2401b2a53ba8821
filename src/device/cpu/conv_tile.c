/* Pixels of convolutions on their way in and out: other types than f32 are widened tile by tile, and
 * results rounded as they are written. */
#include "device/cpu/conv.h"
#include "device/cpu/rows.h"

/* The part of [first, first + extent) within [0, limit); a first that has wrapped below 0 is huge. */
static void clip_axis(size_t *first, size_t *extent, size_t limit)
{
    if (*first > PTRDIFF_MAX) { /* so many before 0 */
        const size_t before = 0 - *first;
        *extent = *extent > before ? *extent - before : 0;
        *first = 0;
    }
    if (*first >= limit)
        *first = *extent = 0;
    *extent = zoe_min(*extent, limit - *first);
}

conv_region zoe_conv_clip(conv_region region, size_t rows, size_t columns)
{
    clip_axis(&region.top, &region.rows, rows);
    clip_axis(&region.left, &region.columns, columns);
    return region;
}

conv_view zoe_conv_view_of(const zoe_kernels *k, const zoe_conv3d_args *args, size_t index,
                           conv_region region, float *tile)
{
    const size_t past = args->past.dtype == ZOE_NONE ? 0 : args->past.shape[0];
    const bool old = index < past;
    const zoe_tensor *source = old ? &args->past : &args->x;
    const size_t frame = old ? index : index - past, C = source->shape[3];
    if (source->dtype == ZOE_F32)
        return (conv_view){.data =
                               (const float *)source->data + (ptrdiff_t)frame * source->stride[0],
                           .row_step = source->stride[1],
                           .column_step = source->stride[2]};
    const size_t element = zoe_dtype_bytes(source->dtype);
    const bool dense = region.columns < 2 || source->stride[2] == (ptrdiff_t)C;
    const size_t runs = dense ? 1 : region.columns, run = region.columns * C / (runs ? runs : 1);
    for (size_t i = 0; i < region.rows; i++)
        for (size_t j = 0; j < runs; j++)
            zoe_row_widen(k, tile + i * region.columns * C + j * run,
                          (const unsigned char *)source->data +
                              (size_t)conv_offset(*source, frame, region.top + i, region.left + j) *
                                  element,
                          source->dtype, run);
    return (conv_view){.data = tile,
                       .row_step = (ptrdiff_t)(region.columns * C),
                       .column_step = (ptrdiff_t)C,
                       .top = region.top,
                       .left = region.left};
}

void zoe_conv_write_rounded(const zoe_kernels *k, const zoe_conv3d_args *args, size_t t, size_t row,
                            size_t column, size_t channel, const float *values, size_t count)
{
    const zoe_tensor y = args->y, residual = args->residual;
    float sums[CONV_PANEL];
    memcpy(sums, values, count * sizeof *sums);
    if (residual.dtype != ZOE_NONE) {
        float added[CONV_PANEL];
        const size_t at = (size_t)conv_offset(residual, t, row, column) + channel;
        zoe_row_widen(k, added,
                      (const unsigned char *)residual.data + at * zoe_dtype_bytes(residual.dtype),
                      residual.dtype, count);
        for (size_t c = 0; c < count; c++)
            sums[c] += added[c];
    }
    const size_t at = (size_t)conv_offset(y, t, row, column) + channel;
    zoe_row_write(k, (unsigned char *)y.data + at * zoe_dtype_bytes(y.dtype), y.dtype, sums, count);
}
