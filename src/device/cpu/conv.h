/* Convolution on the cpu: the form of the packed weights, and the ways in which it is computed. */
#ifndef ZOE_DEVICE_CPU_CONV_H
#define ZOE_DEVICE_CPU_CONV_H

#include "device/device.h"
#include "kernel/kernel.h"

/* Output channels are cut into panels of 16; what is left over makes one last panel, of 8 if that
 * is enough. A panel is [kt kh kw][Cin][width], dense, so that a kernel reads it front to back;
 * channels beyond Cout are zero. Panel i begins at panels + 16 i kt kh kw Cin. The parts lie in one
 * allocation, at `panels`. */
typedef struct conv_packed {
    zoe_conv_weights head;
    float *panels; /* 64-byte aligned */
    float *bias;   /* [Cout rounded up to 16], zero without bias and beyond Cout */
    float *zeros;  /* [Cin], what a tap reads outside the picture */
} conv_packed;

enum { CONV_PANEL = 16 };

static inline size_t conv_panels(size_t Cout)
{
    return Cout / CONV_PANEL + (Cout % CONV_PANEL != 0);
}

/* Width of panel i: 16 or 8. */
static inline size_t conv_panel_width(size_t Cout, size_t i)
{
    return Cout - i * CONV_PANEL > CONV_PANEL / 2 ? CONV_PANEL : CONV_PANEL / 2;
}

/* Widths of all panels together. */
static inline size_t conv_columns(size_t Cout)
{
    const size_t panels = conv_panels(Cout);
    return (panels - 1) * CONV_PANEL + conv_panel_width(Cout, panels - 1);
}

static inline float *conv_panel(const conv_packed *packed, size_t i)
{
    const zoe_conv_weights *w = &packed->head;
    return packed->panels + i * CONV_PANEL * w->kt * w->kh * w->kw * w->Cin;
}

/* f32 pixels of one frame: (row, column), counted from (top, left), lies at data + row * row_step +
 * column * column_step. */
typedef struct conv_view {
    const float *data;
    ptrdiff_t row_step, column_step;
    size_t top, left;
} conv_view;

/* A rectangle of a frame. */
typedef struct conv_region {
    size_t top, left, rows, columns;
} conv_region;

/* Frame `index` of the timeline (past, x). Of f32 it is where it lies; other types are widened
 * within `region`, which lies in the frame, into tile [rows][columns][Cin]. */
conv_view zoe_conv_view_of(const zoe_kernels *k, const zoe_conv3d_args *args, size_t index,
                           conv_region region, float *tile);

/* The part of `region` that lies in a frame of rows x columns; the region may begin before it, its
 * top and left then being huge. */
conv_region zoe_conv_clip(conv_region region, size_t rows, size_t columns);

static inline const float *conv_view_pixel(const conv_view *v, size_t row, size_t column)
{
    return v->data + (ptrdiff_t)(row - v->top) * v->row_step +
           (ptrdiff_t)(column - v->left) * v->column_step;
}

/* Element (frame, row, column, 0) of t, counted from t.data. */
static inline ptrdiff_t conv_offset(zoe_tensor t, size_t frame, size_t row, size_t column)
{
    return (ptrdiff_t)frame * t.stride[0] + (ptrdiff_t)row * t.stride[1] +
           (ptrdiff_t)column * t.stride[2];
}

/* conv_write for any types: the sum is rounded once, to that of y. */
void zoe_conv_write_rounded(const zoe_kernels *k, const zoe_conv3d_args *args, size_t t, size_t row,
                            size_t column, size_t channel, const float *values, size_t count);

/* y = values + residual for `count` channels of one pixel, at most CONV_PANEL, from `channel` on. */
static inline void conv_write(const zoe_kernels *k, const zoe_conv3d_args *args, size_t t,
                              size_t row, size_t column, size_t channel, const float *values,
                              size_t count)
{
    const zoe_dtype added = args->residual.dtype;
    if (args->y.dtype != ZOE_F32 || (added != ZOE_F32 && added != ZOE_NONE)) {
        zoe_conv_write_rounded(k, args, t, row, column, channel, values, count);
        return;
    }
    float *y = (float *)args->y.data + conv_offset(args->y, t, row, column) + channel;
    if (added == ZOE_NONE) {
        if (count == CONV_PANEL) /* said apart, as nearly all are, and then it is no call */
            memcpy(y, values, CONV_PANEL * sizeof *y);
        else
            memcpy(y, values, count * sizeof *y);
        return;
    }
    const float *residual =
        (const float *)args->residual.data + conv_offset(args->residual, t, row, column) + channel;
    if (count == CONV_PANEL) {
        for (size_t c = 0; c < CONV_PANEL; c++)
            y[c] = values[c] + residual[c];
        return;
    }
    for (size_t c = 0; c < count; c++)
        y[c] = values[c] + residual[c];
}

/* By pointers to the input pixels of every tap. Any arguments; bytes of work as told here, SIZE_MAX
 * for more than can be addressed. */
size_t zoe_cpu_conv_direct_bytes(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_cpu_conv_direct(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

/* As four smaller convolutions, where the frames are enlarged: can it be done so, bytes of work, and
 * the computation. */
bool zoe_cpu_conv_is_enlarged(const zoe_conv3d_args *args);
size_t zoe_cpu_conv_enlarged_bytes(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_cpu_conv_enlarged(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

/* By Winograd's transform: can it be done, is it the faster way, bytes of work, and the computation.
 */
bool zoe_cpu_conv_can_winograd(const zoe_conv3d_args *args);
bool zoe_cpu_conv_is_winograd(const zoe_conv3d_args *args);
size_t zoe_cpu_conv_winograd_bytes(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_cpu_conv_winograd(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

#endif
