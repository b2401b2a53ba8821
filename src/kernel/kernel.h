/* Room 5, kernel: what one core does with one piece of data. Each kernel has one plain C
 * definition; guests for an instruction set take its slot when the cpu can run them. Kernels know
 * no tensors, threads or errors: pointers are dense runs of elements, any alignment, sizes may be
 * 0, and nothing outside the named extents is touched.
 *
 * To add one: docs/ADDING_A_KERNEL.md. */
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
/* y[i] = f(a[i], b[i]); y may be a or b. geglu_bf16: gelu(a) b, inputs are bf16 values, every step is
 * rounded to bf16. */
typedef void zoe_kernel_pair(float *y, const float *a, const float *b, size_t n);
/* The largest of x and top, passing over NaN. */
typedef float zoe_kernel_largest(const float *x, float top, size_t n);
/* y[i] = exp(x[i] - top), no x above top; returns their sum; y may be x. */
typedef double zoe_kernel_exponentials(float *y, const float *x, float top, size_t n);

/* ---- rows of norms and rotations, in the types that they are stored in: F32, F16 or BF16 ---- */

/* Sum of the squares of n elements of the type in the kernel's name, in double up to what the
 * tolerance allows. */
typedef double zoe_kernel_squares(const void *x, size_t n);
/* The same of any type, each square rounded to that type. */
typedef double zoe_kernel_squares_rounded(const void *x, zoe_dtype type, size_t n);
/* Another row of zoe_kernel_rms_apply. */
typedef struct zoe_rms_row {
    void *y;
    const void *x;
    float rstd;
} zoe_rms_row;
/* The types of zoe_kernel_rms_apply, and what is rounded to which type; NONE: not. */
typedef struct zoe_rms_form {
    zoe_dtype x, y, gamma;           /* gamma NONE: there is none */
    zoe_dtype cast, weight, product; /* x * rstd; gamma; the product of both */
    bool one_plus;                   /* 1 + gamma in place of gamma */
    bool stream;                     /* y need not stay in the caches */
    const zoe_rms_row *other; /* a row done along with this one, with the same gamma, or NULL */
    const void *ahead[2];     /* with `other`: rows like x that are soon read, or any memory */
} zoe_rms_form;
/* y[i] = x[i] * rstd * gamma[i]; y may be x. */
typedef void zoe_kernel_rms_apply(void *y, const void *x, const void *gamma, float rstd,
                                  const zoe_rms_form *form, size_t n);
/* Types, factors and endings of zoe_kernel_l2_apply. */
typedef struct zoe_l2_form {
    zoe_dtype x, y, round; /* round: the type that each step is rounded to, or NONE */
    float norm, root;
    bool silu, stream;
} zoe_l2_form;
/* y[i] = x[i] / norm * root * gamma[i] + bias[i], then silu if asked; gamma and bias may be NULL; y may
 * be x. */
typedef void zoe_kernel_l2_apply(void *y, const void *x, const float *gamma, const float *bias,
                                 const zoe_l2_form *form, size_t n);
/* y[i] = a[i] + b[i], rounded to their type if asked. */
typedef void zoe_kernel_add_rows(float *y, const void *a, const void *b, zoe_dtype type, bool round,
                                 size_t n);
/* y[i] = (x[i] + shift[i]) * scale[i]; shift and scale may be NULL; y may be x. */
typedef void zoe_kernel_shift_scale(float *y, const float *x, const float *shift,
                                    const float *scale, size_t n);
/* q[i] = x[i] / scale[i] + offset[i] (or times scale), rounded to nearest even and kept within -128 ..
 * 127; NaN becomes 0; offset may be NULL. */
typedef void zoe_kernel_quantise(int8_t *q, const float *x, const float *scale, const float *offset,
                                 bool divide, size_t n);
/* A head of zoe_kernel_rotate. */
typedef struct zoe_rotation {
    zoe_dtype x, y, trig; /* trig: type of cos and sin */
    zoe_dtype cast;       /* that they are rounded to first, or NONE */
    bool half;            /* pairs are j and j + width / 2, else 2j and 2j + 1 */
    bool full;            /* cos and sin have an entry for each element, else for each pair */
    bool stream;
} zoe_rotation;
/* Of each pair (a, b): a cos - b sin and b cos + a sin; y may be x. width is even. */
typedef void zoe_kernel_rotate(void *y, const void *x, const void *cos, const void *sin,
                               const zoe_rotation *rotation, size_t width);

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
/* The same straight from ZOE_PANEL rows of w of the type in the kernel's name: c[m][j] (+)= sum over
 * i < k of a[m][i] * w[j * stride + i]; rows up to ZOE_FEW_ROWS, k up to ZOE_FEW_DEPTH. The bytes of the
 * gemm of the same rung on the packed panel. */
typedef void zoe_kernel_few(float *c, size_t c_stride, const float *a, size_t a_stride,
                            const void *w, ptrdiff_t stride, size_t rows, size_t k, bool add);
enum { ZOE_FEW_ROWS = 4, ZOE_FEW_DEPTH = 256 };
/* What happens to a product on its way out; every pointer may be NULL. */
typedef struct zoe_finishing {
    const float *bias, *gate, *residual;
    zoe_activation activation;
    bool round; /* to bf16 after the bias and after the activation */
} zoe_finishing;
/* y[i] = residual[i] + gate[i] * activation(x[i] + bias[i]); y may be x or the residual. */
typedef void zoe_kernel_finish(float *y, const float *x, const zoe_finishing *f, size_t n);

/* One step of softmaxes over long rows, in base 2 (Milakov and Gimelshein 2018, arXiv 1805.02867). For
 * each row of n scores s[r * stride + i], r < rows:
 *   top = max(max[r], max s);  s[i] = 2^(s[i] - top);  factor[r] = 2^(max[r] - top);
 *   sum[r] = sum[r] * factor[r] + sum of s;  max[r] = top;
 * earlier weighted sums are to be multiplied by the factor. Start with max = -inf, sum = 0. The maximum
 * passes over NaN; a NaN score shows in s and sum. A row's values do not depend on the others. */
typedef void zoe_kernel_softmax_step(float *s, size_t stride, size_t rows, size_t n, float *max,
                                     float *sum, float *factor);
/* A whole row: t = s * scale rounded to bf16, t + bias rounded to bf16, `extra` added to the last
 * element, then s = softmax(t), rounded to bf16. */
typedef void zoe_kernel_softmax_bf16(float *s, size_t n, float scale, const float *bias,
                                     float extra);
/* c[m][j] = c[m][j] * factors[m] + sum over i < k of a[m][i] * panel[i][j], m < rows, j < ZOE_PANEL;
 * without factors (NULL) c is not read. One accumulator an element, i ascending; an element's value does
 * not depend on rows. */
typedef void zoe_kernel_attend(float *c, size_t c_stride, const float *factors, const float *a,
                               size_t a_stride, const float *panel, size_t rows, size_t k);
/* y[d / ZOE_PANEL * distance + i * ZOE_PANEL + d % ZOE_PANEL] = x[i * stride + d] for i < k, d < width,
 * widened: rows become panels that lie `distance` apart. The last panel is filled up with 0. */
typedef void zoe_kernel_spread(float *y, size_t distance, const void *x, ptrdiff_t stride,
                               size_t width, size_t k);
/* y[i] += x[i] * weight. */
typedef void zoe_kernel_add_weighted(float *y, const float *x, float weight, size_t n);
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

/* ---- products of int8, see include/zoetrope/op/int8.h ---- */

/* The largest |x[i]|; NaN if any is. 0 for n = 0. */
typedef float zoe_kernel_int8_peak(const float *x, size_t n);
/* q[i] = x[i] * factor, rounded to nearest even and kept within -127 .. 127; NaN becomes 0. */
typedef void zoe_kernel_int8_round(int8_t *q, const float *x, float factor, size_t n);
/* Rows of int8 against panels of int8 weights: w[panel * w_distance + (i / 4 * ZOE_PANEL + j) * 4 +
 * i % 4] is element i of row panel * ZOE_PANEL + j of the weights; behind the last i it is 0 up to a
 * multiple of 4. k is 1 to ZOE_INT8_DEPTH, panels up to ZOE_INT8_PANELS. */
typedef struct zoe_int8_product {
    const int8_t *a, *w;
    size_t a_stride, w_distance, panels, rows, k;
    /* int8_gemm_scaled alone: scales of the rows, a_scale[m * a_scale_stride + g], and of the columns,
     * w_scale[panel * w_scale_distance + g * ZOE_PANEL + j], for each group g of `group` elements of
     * k, a multiple of 4 from ZOE_INT8_GROUP / 2 to ZOE_INT8_GROUP; the last one may be shorter. */
    size_t group;
    const float *a_scale, *w_scale;
    size_t a_scale_stride, w_scale_distance;
} zoe_int8_product;
enum { ZOE_INT8_DEPTH = 2048, ZOE_INT8_GROUP = 256, ZOE_INT8_PANELS = 16 };
/* c[m][j] (+)= sum over i < k of a[m][i] * w[j][i], m < rows, j < panels * ZOE_PANEL. A call's own sum
 * is exact; with c it wraps around at 2^32. */
typedef void zoe_kernel_int8_gemm(int32_t *c, size_t c_stride, const zoe_int8_product *p, bool add);
/* The same for each group, then c[m][j] += sum * w_scale * a_scale, each step rounded to f32, groups
 * ascending; without `add`, c begins as 0. */
typedef void zoe_kernel_int8_gemm_scaled(float *c, size_t c_stride, const zoe_int8_product *p,
                                         bool add);

/* ---- gradients of norms, over rows in f32 with v = (x - mean) rstd ---- */

/* sums[0] += sum of dy w, sums[1] += sum of dy w v; products in f32, sums in f64. */
typedef void zoe_kernel_grad_sums(double sums[2], const float *dy, const float *x, const float *w,
                                  float mean, float rstd, size_t n);
typedef struct zoe_grad_form {
    float mean, rstd;
    float plain, along; /* the means of dy w and of dy w v */
    float *dyv, *dys;   /* get += dy v and += dy, or both NULL */
} zoe_grad_form;
/* dx = rstd ((dy w - plain) - v along), each step rounded; dx may be dy or x. */
typedef void zoe_kernel_grad_apply(float *dx, const float *dy, const float *x, const float *w,
                                   const zoe_grad_form *form, size_t n);

/* ---- the LayerNorm family, over elements of the types in the kernel's name ---- */

/* sums[0] += sum of x[i] - shift, sums[1] += sum of its square. The first is in f64 for x in f32, since
 * results near the mean have as many digits as it has. Guests add eight squares, or 32 elements of half
 * types, whose digits are so few that f32 loses none that count, in each of 32 lanes or more of f32
 * before they go on in f64; where squares of f32 overflow or are too small for it, they begin again in
 * f64. shift should be a value of the type. */
typedef void zoe_kernel_layer_sums(double sums[2], const void *x, float shift, size_t n);
/* Another row of zoe_kernel_layer_apply. */
typedef struct zoe_layer_row {
    void *y;
    const void *x;
    float mean, rstd, rest, offset;
    const void *ahead[2];
} zoe_layer_row;
/* How zoe_kernel_layer_apply turns x into y. */
typedef struct zoe_layer_form {
    float mean, rstd;
    float rest;   /* what rstd lacks of the exact value, not negative */
    float offset; /* minus what `mean` lacks of the mean, times rstd */
    bool exact;   /* of results in f32: v is rounded once; half types would not show it */
    const float *weight,
        *bias;   /* both or none; NaN among them is the one of zoe_kernel_layer_weight */
    bool stream; /* y is written past the caches, if it is aligned to 64 bytes */
    const void
        *ahead[2]; /* memory that is soon read, as many elements as x: of x and, else NULL, of
                           * another tensor; need not be valid */
    size_t ahead_bytes[2]; /* of an element there */
    const zoe_layer_row
        *other; /* a row done along with this one, with the same vectors, or NULL; its
                                 * ahead is where this one has some */
} zoe_layer_form;
/* The form of the other row alone. */
static inline zoe_layer_form zoe_layer_form_of_other(const zoe_layer_form *f)
{
    zoe_layer_form g = *f;
    g.mean = f->other->mean;
    g.rstd = f->other->rstd;
    g.rest = f->other->rest;
    g.offset = f->other->offset;
    g.other = NULL;
    for (int j = 0; j < 2; j++)
        g.ahead[j] = f->other->ahead[j];
    return g;
}
/* The exact v of x, rounded once but for parts of 2^-24 of a unit in its last place: what x - mean loses is
 * found and added. An infinite x or rstd gives what the plain form gives, or NaN; zeros keep their
 * signs where mean is 0 and offset -0. Guests do the same steps. */
static inline float zoe_layer_value(float x, const zoe_layer_form *f)
{
    const float settled = isfinite(f->rstd) ? f->rstd : 0.0f;
    const float d = x - f->mean, mean = x - d, back = d + mean;
    float low = fmaf(d, f->rest, f->offset);
    low = fmaf(-(f->mean - mean), settled, low);
    low = fmaf(-(back - x), settled, low);
    return fmaf(d, f->rstd, low);
}
/* v = (x[i] - mean) * (rstd + rest) + offset, rounded as d = x[i] - mean, fma(d, rstd + rest, offset);
 * if `exact` and y is f32, by zoe_layer_value. y[i] = v * weight[i] + bias[i], rounded to f32 after each
 * step, then to the type of y. y may be x if of its type. */
typedef void zoe_kernel_layer_apply(void *y, const void *x, const zoe_layer_form *f, size_t n);
/* y[i] = x[i] + gate[i] * h[i], rounded to f32 after each step, then to the type of y and x, which is
 * the first in the name; that of h is the second. gate: as weight above. y may be x. */
typedef void zoe_kernel_layer_gate(void *y, const void *x, const void *h, const float *gate,
                                   size_t n);
/* y[i] = x[i] + add; any NaN becomes the quiet one with no other bits. y may be x. */
typedef void zoe_kernel_layer_weight(float *y, const float *x, float add, size_t n);
/* y[i] = c[i] * scale[i] * factor, each step rounded to f32; y may be the memory of c. */
typedef void zoe_kernel_int8_scale(float *y, const int32_t *c, const float *scale, float factor,
                                   size_t n);

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
void zoe_kernels_fill_rms_c(zoe_kernels *k);
void zoe_kernels_fill_rotary_c(zoe_kernels *k);
void zoe_kernels_fill_grad_c(zoe_kernels *k);
void zoe_kernels_fill_layer_c(zoe_kernels *k);
void zoe_kernels_fill_gemm_c(zoe_kernels *k);
void zoe_kernels_fill_softmax_c(zoe_kernels *k);
void zoe_kernels_fill_attention_c(zoe_kernels *k);
void zoe_kernels_fill_conv_c(zoe_kernels *k);
void zoe_kernels_fill_int8_c(zoe_kernels *k);

#if defined(__x86_64__)
void zoe_kernels_fill_convert_avx2(zoe_kernels *k);
void zoe_kernels_fill_block_avx2(zoe_kernels *k);
void zoe_kernels_fill_activation_avx2(zoe_kernels *k);
void zoe_kernels_fill_rms_avx2(zoe_kernels *k);
void zoe_kernels_fill_rms_avx512(zoe_kernels *k);
void zoe_kernels_fill_rotary_avx512(zoe_kernels *k);
void zoe_kernels_fill_rotary_avx2(zoe_kernels *k);
void zoe_kernels_fill_grad_avx2(zoe_kernels *k);
void zoe_kernels_fill_layer_avx2(zoe_kernels *k);
void zoe_kernels_fill_gemm_avx2(zoe_kernels *k);
void zoe_kernels_fill_softmax_avx2(zoe_kernels *k);
void zoe_kernels_fill_attention_avx2(zoe_kernels *k);
void zoe_kernels_fill_softmax_avx512(zoe_kernels *k);
void zoe_kernels_fill_attention_avx512(zoe_kernels *k);
void zoe_kernels_fill_conv_avx2(zoe_kernels *k);
void zoe_kernels_fill_int8_avx2(zoe_kernels *k);
void zoe_kernels_fill_layer_avx512(zoe_kernels *k);
void zoe_kernels_fill_int8_avx512(zoe_kernels *k);
#elif defined(__aarch64__)
void zoe_kernels_fill_convert_neon(zoe_kernels *k);
void zoe_kernels_fill_block_neon(zoe_kernels *k);
void zoe_kernels_fill_activation_neon(zoe_kernels *k);
void zoe_kernels_fill_rms_neon(zoe_kernels *k);
void zoe_kernels_fill_rotary_neon(zoe_kernels *k);
void zoe_kernels_fill_layer_neon(zoe_kernels *k);
void zoe_kernels_fill_gemm_neon(zoe_kernels *k);
void zoe_kernels_fill_softmax_neon(zoe_kernels *k);
void zoe_kernels_fill_attention_neon(zoe_kernels *k);
void zoe_kernels_fill_conv_neon(zoe_kernels *k);
void zoe_kernels_fill_int8_neon(zoe_kernels *k);
#endif

#endif
