/* Convolution on the cpu: the form of the packed weights, and the ways in which it is computed. */
#ifndef ZOE_DEVICE_CPU_CONV_H
#define ZOE_DEVICE_CPU_CONV_H

#include "device/device.h"

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

static inline float *conv_pixel(zoe_tensor t, size_t frame, size_t row, size_t column)
{
    return (float *)t.data + (ptrdiff_t)frame * t.stride[0] + (ptrdiff_t)row * t.stride[1] +
           (ptrdiff_t)column * t.stride[2];
}

/* y = values + residual for `count` channels of one pixel, from `channel` on. */
static inline void conv_write(const zoe_conv3d_args *args, size_t t, size_t row, size_t column,
                              size_t channel, const float *values, size_t count)
{
    float *y = conv_pixel(args->y, t, row, column) + channel;
    if (args->residual.dtype == ZOE_NONE) {
        memcpy(y, values, count * sizeof *y);
        return;
    }
    const float *residual = conv_pixel(args->residual, t, row, column) + channel;
    for (size_t c = 0; c < count; c++)
        y[c] = values[c] + residual[c];
}

/* By pointers to the input pixels of every tap. Any arguments; work as zoe_cpu_conv_direct_bytes
 * says. */
size_t zoe_cpu_conv_direct_bytes(const zoe_context *ctx, const zoe_conv_weights *weights);
zoe_status zoe_cpu_conv_direct(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

/* As four smaller convolutions, where the frames are enlarged: can it be done so, floats for the
 * weights of the largest of the four, and the computation (work as for zoe_cpu_conv_direct). */
bool zoe_cpu_conv_is_enlarged(const zoe_conv3d_args *args);
size_t zoe_cpu_conv_enlarged_floats(const zoe_conv_weights *weights);
zoe_status zoe_cpu_conv_enlarged(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work,
                                 float *merged);

/* By Winograd's transform, for 3 x 3 kernels that step by one; bytes of work as told here. */
bool zoe_cpu_conv_is_winograd(const zoe_conv3d_args *args);
size_t zoe_cpu_conv_winograd_bytes(const zoe_context *ctx, const zoe_conv3d_args *args);
zoe_status zoe_cpu_conv_winograd(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work);

#endif
