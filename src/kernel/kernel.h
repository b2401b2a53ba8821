/* Room 5, kernel: what one core does with one piece of data. Each kernel has one plain C
 * definition; guests for an instruction set take its slot when the cpu can run them. Kernels know
 * no tensors, threads or errors: pointers are dense runs of elements, any alignment, sizes may be
 * 0, and nothing outside the named extents is touched.
 *
 * To add one: a row in kernels.def; its definition in a file here, put into the slot by that file's
 * fill function; a check for its family if that is new, here in selftest.c and in the tests in
 * kernel_check.c; guests under x86/, put into the slot by their fill function. */
#ifndef ZOE_KERNEL_H
#define ZOE_KERNEL_H

#include "base/base.h"
#include "zoetrope/op.h"

/* Columns of a packed panel: panel[k][ZOE_PANEL]. */
#define ZOE_PANEL 16

/* y[i] = x[i], widened exactly from the type in the kernel's name; of a block type, x begins with a
 * block and n may end within one. */
typedef void zoe_kernel_widen(float *y, const void *x, size_t n);
/* y[i] = x[i], rounded to nearest even. NaN stays NaN. */
typedef void zoe_kernel_narrow(void *y, const float *x, size_t n);
/* y[i] = f(x[i]); y may be x. */
typedef void zoe_kernel_map(float *y, const float *x, size_t n);
/* y[i] = gelu(gate[i]) * up[i]; y may be gate or up. geglu_bf16: inputs are bf16 values, every step
 * is rounded to bf16. */
typedef void zoe_kernel_geglu(float *y, const float *gate, const float *up, size_t n);

/* Sum of x[i] - shift, or of its square, in double: no overflow, no cancellation that matters. */
typedef double zoe_kernel_sum(const float *x, double shift, size_t n);
/* y[i] = x[i] * rstd * gamma[i]; gamma may be NULL. round: gamma and each product, to bf16. y may
 * be x.
 */
typedef void zoe_kernel_rms_scale(float *y, const float *x, float rstd, const float *gamma,
                                  bool round, size_t n);
/* How zoe_kernel_layer_scale turns x into y; pointers of a pair are both NULL or neither. */
typedef struct zoe_layer_scaling {
    float mean, mean_rest; /* the mean is their sum, so that large means cost no digits */
    float rstd;
    bool round; /* to bf16 before the modulation */
    const float *gamma, *beta, *scale, *shift;
} zoe_layer_scaling;
/* y[i] = ((x[i] - mean) * rstd * gamma[i] + beta[i]) * (1 + scale[i]) + shift[i]; y may be x. */
typedef void zoe_kernel_layer_scale(float *y, const float *x, const zoe_layer_scaling *s, size_t n);
/* y[i] = x[i] / norm * root * gamma[i], then silu if asked; y may be x. */
typedef void zoe_kernel_l2_scale(float *y, const float *x, float norm, float root,
                                 const float *gamma, bool silu, size_t n);
/* Pairs: (y[2j], y[2j+1]) = (x[2j] cos[j] - x[2j+1] sin[j], x[2j] sin[j] + x[2j+1] cos[j]), j <
 * pairs; y may be x. */
typedef void zoe_kernel_rope(float *y, const float *x, const float *cos, const float *sin,
                             size_t pairs);

/* panel[i][r] = w[r * stride + i] for i < k, r < rows <= ZOE_PANEL, widened; columns from rows on
 * are 0. stride counts elements. */
typedef void zoe_kernel_pack(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k);
/* panel[i][r] *= factors[r] for i < k, r < ZOE_PANEL. */
typedef void zoe_kernel_scale_panel(float *panel, const float *factors, size_t k);
/* panel[i][r] = w[i * stride + r] for i < k, r < columns <= ZOE_PANEL, widened; other columns are
 * 0. */
typedef void zoe_kernel_slice(float *panel, const void *w, ptrdiff_t stride, size_t columns,
                              size_t k);
/* c[m][j] (+)= sum over i < k of a[m][i] * panel[i][j], m < rows, j < ZOE_PANEL. One accumulator an
 * element, i ascending; the sum is added to c if `add`, else replaces it. An element's value does
 * not depend on rows. */
typedef void zoe_kernel_gemm(float *c, size_t c_stride, const float *a, size_t a_stride,
                             const float *panel, size_t rows, size_t k, bool add);
/* What happens to a product on its way out; every pointer may be NULL. */
typedef struct zoe_finishing {
    const float *bias, *gate, *residual;
    zoe_activation activation;
    bool round; /* to bf16 after the bias and after the activation */
} zoe_finishing;
/* y[i] = residual[i] + gate[i] * activation(x[i] + bias[i]); y may be x or the residual. */
typedef void zoe_kernel_finish(float *y, const float *x, const zoe_finishing *f, size_t n);

/* One step of a softmax over a long row (Milakov and Gimelshein 2018, arXiv 1805.02867):
 *   t[i] = s[i] * scale + bias[i] (bias may be NULL);  m = max(*max, max t);  s[i] = exp(t[i] - m);
 *   *sum = *sum * exp(*max - m) + sum of s;  *max = m;
 * returns exp(old max - m), by which earlier weighted sums are to be multiplied. Start with *max =
 * -inf, *sum = 0. The maximum passes over NaN; a NaN score shows in s and *sum. */
typedef float zoe_kernel_softmax_step(float *s, size_t n, float scale, const float *bias,
                                      float *max, float *sum);
/* A whole row: t = s * scale rounded to bf16, t + bias rounded to bf16, `extra` added to the last
 * element, then s = softmax(t), rounded to bf16. */
typedef void zoe_kernel_softmax_bf16(float *s, size_t n, float scale, const float *bias,
                                     float extra);
/* y[i] *= factor. */
typedef void zoe_kernel_scale(float *y, float factor, size_t n);

/* Pixels of a tile of the convolution. */
#define ZOE_CONV_ROWS 6
/* sums[r][n] += sum over tap, c of x[tap * ZOE_CONV_ROWS + r][c] * w[(tap * C + c) * width + n],
 * r < ZOE_CONV_ROWS, n < width, width 16 or 8, c < C: rows reached through pointers, one panel of
 * weights. An element's value does not depend on its row. */
typedef void zoe_kernel_conv(float *sums, const float *const *x, const float *w, size_t taps,
                             size_t C, size_t width);
/* G w G^T of Winograd's F(2 x 2, 3 x 3) for n kernels side by side: w[(3 * i + j) * w_distance + c]
 * is tap (i, j), u[place * distance + c] the value at one of 16 places; c < n, a multiple of 8. */
typedef void zoe_kernel_winograd_weights(float *u, size_t distance, const float *w,
                                         size_t w_distance, size_t n);
/* B^T d B of its input: x[4 * i + j][c] is pixel (i, j) of a square of 4 x 4, v[place * distance +
 * c] the value at one of 16 places; c < C, a multiple of 8. */
typedef void zoe_kernel_winograd_input(float *v, size_t distance, const float *const *x, size_t C);
/* y[2 * i + j][n] = (A^T m A)[i][j] + bias[n], of m[place * distance + n], n < width, 16 or 8. */
typedef void zoe_kernel_winograd_output(float *y, const float *m, size_t distance,
                                        const float *bias, size_t width);

typedef struct zoe_kernels {
#define KERNEL(name, family, tolerance) zoe_kernel_##family *name;
#include "kernel/kernels.def"
#undef KERNEL
} zoe_kernels;

/* The table for this cpu (see zoe_cpu_isa), filled at the first call. Any thread. */
const zoe_kernels *zoe_kernels_get(void);
/* A table of the rungs up to isa, for tests; the cpu must have isa. */
void zoe_kernels_fill(zoe_kernels *k, zoe_isa isa);

/* Tries every kernel of the table once against its definition, on a small input, and calls see with
 * its name, whether it is a guest, the largest error found and the one allowed. Errors: ZOE_NOMEM. */
typedef void (*zoe_selftest_fn)(void *user, const char *name, bool guest, double error,
                                double tolerance);
zoe_status zoe_kernels_selftest(zoe_context *ctx, const zoe_kernels *table, zoe_selftest_fn see,
                                void *user);

/* For table.c: each file of definitions or guests puts its functions into their slots. */
void zoe_kernels_fill_convert_c(zoe_kernels *k);
void zoe_kernels_fill_block_c(zoe_kernels *k);
void zoe_kernels_fill_activation_c(zoe_kernels *k);
void zoe_kernels_fill_norm_c(zoe_kernels *k);
void zoe_kernels_fill_gemm_c(zoe_kernels *k);
void zoe_kernels_fill_softmax_c(zoe_kernels *k);
void zoe_kernels_fill_conv_c(zoe_kernels *k);

#if defined(__x86_64__)
void zoe_kernels_fill_convert_avx2(zoe_kernels *k);
void zoe_kernels_fill_block_avx2(zoe_kernels *k);
void zoe_kernels_fill_activation_avx2(zoe_kernels *k);
void zoe_kernels_fill_norm_avx2(zoe_kernels *k);
void zoe_kernels_fill_gemm_avx2(zoe_kernels *k);
void zoe_kernels_fill_softmax_avx2(zoe_kernels *k);
void zoe_kernels_fill_conv_avx2(zoe_kernels *k);
#endif

#endif
