/* A look at a latent without the decoder: one colour for each latent position, by a linear map from
 * its channels. The map is fitted to latents whose pictures are known. See docs/PREVIEW.md. */
#ifndef ZOE_MODEL_PREVIEW_H
#define ZOE_MODEL_PREVIEW_H

#include "base/base.h"

enum { ZOE_PROJECTION_CHANNELS = 128 /* at most */ };

/* rgb[k] = sum over c of weight[k][c] * latent[c] + bias[k], 0 to 1 from black to white. */
typedef struct zoe_projection {
    size_t channels;
    float weight[3][ZOE_PROJECTION_CHANNELS], bias[3];
} zoe_projection;

/* rgb [cells, 3], not clamped, for positions whose channel c lies at latent[c * stride + i]. */
void zoe_projection_apply(const zoe_projection *projection, float *rgb, const float *latent,
                          size_t stride, size_t cells);

/* Ridge least squares. Sums are kept in f64, so any number of cells may be added. */
typedef struct zoe_projection_fit zoe_projection_fit;
/* Errors: ZOE_UNSUPPORTED (more channels than ZOE_PROJECTION_CHANNELS), ZOE_NOMEM. */
zoe_status zoe_projection_fit_new(zoe_context *ctx, zoe_projection_fit **fit, size_t channels);
void zoe_projection_fit_free(zoe_projection_fit *fit); /* NULL is fine */
/* Latents as in zoe_projection_apply, and the colour [cells, 3] of each. */
void zoe_projection_fit_add(zoe_projection_fit *fit, const float *latent, size_t stride,
                            const float *rgb, size_t cells);
size_t zoe_projection_fit_cells(const zoe_projection_fit *fit);
/* The best map for what was added. error: its root mean square over all colours, may be NULL.
 * Errors: ZOE_INVALID (nothing was added), ZOE_NONFINITE (NaN or inf was). */
zoe_status zoe_projection_fit_solve(zoe_context *ctx, const zoe_projection_fit *fit,
                                    zoe_projection *projection, double *error);

/* What a latent position should show: rgb [h, w, 3] in 0 to 1, the means over the pieces of a frame
 * [H, W, 3] in [-1, 1]. H and W are multiples of h and w. */
void zoe_cell_colours(float *rgb, size_t h, size_t w, const float *frame, size_t H, size_t W);

/* A projection as a small JSON file. */
zoe_status zoe_projection_write(zoe_context *ctx, const char *path,
                                const zoe_projection *projection);
/* For a VAE with so many channels. Errors: ZOE_MISSING, ZOE_FORMAT (no such file's content, or made
 * for another number of channels), ZOE_IO, ZOE_NOMEM. */
zoe_status zoe_projection_read(zoe_context *ctx, zoe_projection *projection, const char *path,
                               size_t channels);

#endif
