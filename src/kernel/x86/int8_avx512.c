/* Products of int8: guests for AVX-512 with VNNI, whose one instruction multiplies unsigned by signed
 * bytes and sums four products in 32 bits without saturation. Rows are made unsigned by adding 128;
 * sums then begin at -128 times the sum of the weights, which gives back the signed ones exactly. */
#include <immintrin.h>

#include "kernel/kernel.h"

#define INLINE static inline __attribute__((always_inline))

/* Rows of one inner loop, and panels: 24 sums, two vectors of weights, and what the end needs. */
enum { ROWS = 12, PAIR = 2 };
/* The most groups of all panels of one call. */
enum { BIASES = ZOE_INT8_DEPTH / (ZOE_INT8_GROUP / 2) * ZOE_INT8_PANELS };

/* What a sum begins at, for n elements of a panel. */
static __m512i bias_of(const int8_t *w, size_t n)
{
    const __m512i offset = _mm512_set1_epi8((char)0x80);
    __m512i sum = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 4)
        sum = _mm512_dpbusd_epi32(sum, offset, _mm512_loadu_si512(w + i * ZOE_PANEL));
    return _mm512_sub_epi32(_mm512_setzero_si512(), sum);
}

/* to[m][i] = a[m][i] + 128 for one tile of rows, with 128 up to a multiple of 64. */
static void shift_rows(uint8_t *to, const int8_t *a, size_t a_stride, size_t rows, size_t k)
{
    const __m512i offset = _mm512_set1_epi8((char)0x80);
    for (size_t m = 0; m < rows; m++)
        for (size_t i = 0; i < k; i += 64) {
            const __mmask64 mask = k - i < 64 ? (1ull << (k - i)) - 1 : ~0ull;
            const __m512i v = _mm512_maskz_loadu_epi8(mask, a + m * a_stride + i);
            _mm512_storeu_si512(to + m * ZOE_INT8_DEPTH + i, _mm512_xor_si512(v, offset));
        }
}

/* One group of elements of a tile of rows and one or two panels. */
typedef struct group {
    const uint8_t *a; /* [ROWS][ZOE_INT8_DEPTH], unsigned */
    const int8_t *w[PAIR];
    const __m512i *bias[PAIR];
    size_t n;
    void *c; /* int32, or float with scales */
    size_t c_stride;
    bool add;
    const float *a_scale, *w_scale[PAIR]; /* NULL: no scales */
    size_t a_scale_stride;
} group;

INLINE __m512i four(const uint8_t *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return _mm512_set1_epi32(v);
}

INLINE void store_sums(int32_t *c, __m512i v, bool add)
{
    _mm512_storeu_si512(c, add ? _mm512_add_epi32(v, _mm512_loadu_si512(c)) : v);
}

INLINE void store_scaled(float *c, __m512i v, __m512 w_scale, float a_scale, bool add)
{
    const __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(v), w_scale);
    const __m512 before = add ? _mm512_loadu_ps(c) : _mm512_setzero_ps();
    _mm512_storeu_ps(c, _mm512_add_ps(before, _mm512_mul_ps(sum, _mm512_set1_ps(a_scale))));
}

/* rows and panels are constants at each call, so that the sums are registers. */
INLINE void run_group(const group *g, const size_t rows, const size_t panels)
{
    __m512i sums[ROWS][PAIR];
#pragma GCC unroll 12
    for (size_t m = 0; m < rows; m++)
#pragma GCC unroll 2
        for (size_t p = 0; p < panels; p++)
            sums[m][p] = *g->bias[p];
    const uint8_t *a = g->a;
    const int8_t *w0 = g->w[0], *w1 = g->w[panels - 1];
    for (size_t i = 0; i < g->n; i += 4, a += 4, w0 += 4 * ZOE_PANEL, w1 += 4 * ZOE_PANEL) {
        const __m512i v[PAIR] = {_mm512_loadu_si512(w0), _mm512_loadu_si512(w1)};
#pragma GCC unroll 12
        for (size_t m = 0; m < rows; m++) {
            const __m512i x = four(a + m * ZOE_INT8_DEPTH);
#pragma GCC unroll 2
            for (size_t p = 0; p < panels; p++)
                sums[m][p] = _mm512_dpbusd_epi32(sums[m][p], x, v[p]);
        }
    }
#pragma GCC unroll 12
    for (size_t m = 0; m < rows; m++)
#pragma GCC unroll 2
        for (size_t p = 0; p < panels; p++) {
            const size_t at = m * g->c_stride + p * ZOE_PANEL;
            if (g->a_scale)
                store_scaled((float *)g->c + at, sums[m][p], _mm512_loadu_ps(g->w_scale[p]),
                             g->a_scale[m * g->a_scale_stride], g->add);
            else
                store_sums((int32_t *)g->c + at, sums[m][p], g->add);
        }
}

/* Functions of their own: within a larger one the compiler runs out of registers. */
#define GROUP(rows, panels)                                                                        \
    static __attribute__((noinline)) void group_##rows##_##panels(const group *g)                  \
    {                                                                                              \
        run_group(g, rows, panels);                                                                \
    }
GROUP(12, 2)
GROUP(12, 1)
GROUP(4, 2)
GROUP(4, 1)
GROUP(1, 2)
GROUP(1, 1)

static void run(const group *g, size_t rows, size_t panels)
{
    if (rows == ROWS)
        (panels == PAIR ? group_12_2 : group_12_1)(g);
    else if (rows == 4)
        (panels == PAIR ? group_4_2 : group_4_1)(g);
    else
        (panels == PAIR ? group_1_2 : group_1_1)(g);
}

/* The whole product in groups of `depth` elements, with scales or without. */
static void multiply(void *c, size_t c_stride, const zoe_int8_product *p, bool add, size_t depth,
                     bool scaled)
{
    _Alignas(64) uint8_t a[ROWS * ZOE_INT8_DEPTH];
    __m512i biases[BIASES];
    const size_t groups = (p->k + depth - 1) / depth;
    for (size_t i = 0; i < p->panels * groups; i++) {
        const size_t from = i % groups * depth, left = p->k - from;
        biases[i] = bias_of(p->w + i / groups * p->w_distance + from * ZOE_PANEL,
                            left < depth ? left : depth);
    }
    for (size_t row = 0, rows; row < p->rows; row += rows) {
        rows = p->rows - row >= ROWS ? ROWS : p->rows - row >= 4 ? 4 : 1;
        shift_rows(a, p->a + row * p->a_stride, p->a_stride, rows, p->k);
        for (size_t first = 0, panels; first < p->panels; first += panels) {
            panels = p->panels - first < PAIR ? 1 : PAIR;
            for (size_t i = 0; i < groups; i++) {
                const size_t from = i * depth, left = p->k - from;
                group g = {.a = a + from,
                           .n = left < depth ? left : depth,
                           /* int32 and float are of one size */
                           .c = (int32_t *)c + row * c_stride + first * ZOE_PANEL,
                           .c_stride = c_stride,
                           .add = add || i > 0};
                for (size_t j = 0; j < panels; j++) {
                    g.w[j] = p->w + (first + j) * p->w_distance + from * ZOE_PANEL;
                    g.bias[j] = biases + (first + j) * groups + i;
                    if (scaled)
                        g.w_scale[j] =
                            p->w_scale + (first + j) * p->w_scale_distance + i * ZOE_PANEL;
                }
                if (scaled) {
                    g.a_scale = p->a_scale + row * p->a_scale_stride + i;
                    g.a_scale_stride = p->a_scale_stride;
                }
                run(&g, rows, panels);
            }
        }
    }
}

static void gemm_vnni(int32_t *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    multiply(c, c_stride, p, add, p->k, false);
}

static void gemm_scaled_vnni(float *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    multiply(c, c_stride, p, add, p->group, true);
}

static float peak_avx512(const float *x, size_t n)
{
    __m512 peak = _mm512_setzero_ps();
    __mmask16 nan = 0;
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 mask = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
        const __m512 v = _mm512_abs_ps(_mm512_maskz_loadu_ps(mask, x + i));
        nan |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        peak = _mm512_max_ps(v, peak);
    }
    return nan ? NAN : _mm512_reduce_max_ps(peak);
}

static void round_avx512(int8_t *q, const float *x, float factor, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        const __mmask16 mask = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
        const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(factor));
        const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
        const __m512 near =
            _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(-127.0f)), _mm512_set1_ps(127.0f));
        _mm512_mask_cvtepi32_storeu_epi8(q + i, mask, _mm512_maskz_cvtps_epi32(number, near));
    }
}

void zoe_kernels_fill_int8_avx512(zoe_kernels *k)
{
    k->int8_peak = peak_avx512;
    k->int8_round = round_avx512;
    if (!zoe_cpu_extras_get().vnni)
        return;
    k->int8_gemm = gemm_vnni;
    k->int8_gemm_scaled = gemm_scaled_vnni;
}
