/* Products of int8: guests for AVX2. Bytes are widened to 16 bits and multiplied in pairs, each pair
 * summed in 32 bits, which is exact for all bytes. (The instruction for bytes saturates at 16 bits: to
 * keep it exact costs a change of sign for each row and panel, which makes as many instructions.) */
#include "kernel/x86/vector_avx2.h"

#define INLINE static inline __attribute__((always_inline))

/* Rows of one inner loop over a panel, as in gemm_avx2.c; elements of panels that are widened
 * together: several panels, so that rows are widened less often. */
enum { ROWS = 6, DEPTH = ZOE_INT8_GROUP, WIDE = 2 * DEPTH };

typedef struct scratch {
    _Alignas(64) int16_t w[WIDE * ZOE_PANEL];
    int16_t a[ROWS * DEPTH];
} scratch;

/* The first n elements of a panel: fours of bytes become [2][ZOE_PANEL][2] of 16 bits, the first pair
 * of each four and then the second. */
static void widen_panel(int16_t *out, const int8_t *w, size_t n)
{
    for (size_t i = 0; i < n; i += 4, w += 4 * ZOE_PANEL, out += 4 * ZOE_PANEL)
        for (size_t j = 0; j < ZOE_PANEL; j += 8) {
            const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(w + 4 * j));
            const __m256i low = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(v));
            const __m256i high = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1));
            const __m256 a = _mm256_castsi256_ps(low), b = _mm256_castsi256_ps(high);
            const __m256i first = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
            const __m256i second = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
            _mm256_storeu_si256((__m256i *)(void *)(out + 2 * j),
                                _mm256_permute4x64_epi64(first, 0xd8));
            _mm256_storeu_si256((__m256i *)(void *)(out + 2 * (ZOE_PANEL + j)),
                                _mm256_permute4x64_epi64(second, 0xd8));
        }
}

/* n elements of a row, and a 0 behind an odd last one. */
static void widen_row(int16_t *out, const int8_t *a, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256(
            (__m256i *)(void *)(out + i),
            _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(a + i))));
    for (; i < n; i++)
        out[i] = a[i];
    if (n % 2)
        out[n] = 0;
}

INLINE __m256i two(const int16_t *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return _mm256_set1_epi32(v);
}

INLINE __m256i eight_at(const int16_t *w)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)w);
}

INLINE void store_sums(int32_t *c, __m256i v, bool add)
{
    __m256i *out = (__m256i *)(void *)c;
    _mm256_storeu_si256(out, add ? _mm256_add_epi32(v, _mm256_loadu_si256(out)) : v);
}

INLINE void store_scaled(float *c, __m256i v, const float *w_scale, float a_scale, bool add)
{
    const __m256 sum = _mm256_mul_ps(_mm256_cvtepi32_ps(v), _mm256_loadu_ps(w_scale));
    const __m256 before = add ? _mm256_loadu_ps(c) : _mm256_setzero_ps();
    _mm256_storeu_ps(c, _mm256_add_ps(before, _mm256_mul_ps(sum, _mm256_set1_ps(a_scale))));
}

/* One group of elements of a tile of rows and a panel. */
typedef struct group {
    const int16_t *a; /* [ROWS][DEPTH] */
    const int16_t *w; /* [n / 2][ZOE_PANEL][2] */
    size_t n;
    void *c; /* int32, or float with scales */
    size_t c_stride;
    bool add;
    const float *a_scale, *w_scale; /* NULL: no scales */
    size_t a_scale_stride;
} group;

/* rows is a constant at each call, so that the sums are registers. */
INLINE void run_group(const group *g, const size_t rows)
{
    __m256i left[ROWS], right[ROWS];
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++)
        left[m] = right[m] = _mm256_setzero_si256();
    const int16_t *a = g->a, *w = g->w;
    for (size_t i = 0; i < g->n; i += 2, a += 2, w += 2 * ZOE_PANEL) {
        const __m256i p = eight_at(w), q = eight_at(w + ZOE_PANEL);
#pragma GCC unroll 6
        for (size_t m = 0; m < rows; m++) {
            const __m256i x = two(a + m * DEPTH);
            left[m] = _mm256_add_epi32(left[m], _mm256_madd_epi16(x, p));
            right[m] = _mm256_add_epi32(right[m], _mm256_madd_epi16(x, q));
        }
    }
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++) {
        const size_t at = m * g->c_stride;
        if (g->a_scale) {
            const float a_scale = g->a_scale[m * g->a_scale_stride];
            store_scaled((float *)g->c + at, left[m], g->w_scale, a_scale, g->add);
            store_scaled((float *)g->c + at + 8, right[m], g->w_scale + 8, a_scale, g->add);
        } else {
            store_sums((int32_t *)g->c + at, left[m], g->add);
            store_sums((int32_t *)g->c + at + 8, right[m], g->add);
        }
    }
}

/* Functions of their own: within a larger one the compiler runs out of registers. */
#define GROUP(rows)                                                                                \
    static __attribute__((noinline)) void group_##rows(const group *g)                             \
    {                                                                                              \
        run_group(g, rows);                                                                        \
    }
GROUP(6)
GROUP(2)
GROUP(1)

/* Elements from .. from + n - 1, group i of the panels first .. first + panels - 1, all rows. */
typedef struct part {
    size_t first, panels, from, n, i;
} part;

static void multiply_part(void *c, size_t c_stride, const zoe_int8_product *p, const part *b,
                          bool add, bool scaled)
{
    scratch s;
    const size_t panel = (b->n + 3) / 4 * 4 * ZOE_PANEL;
    for (size_t j = 0; j < b->panels; j++)
        widen_panel(s.w + j * panel, p->w + (b->first + j) * p->w_distance + b->from * ZOE_PANEL,
                    b->n);
    for (size_t row = 0, rows; row < p->rows; row += rows) {
        rows = p->rows - row >= ROWS ? ROWS : p->rows - row >= 2 ? 2 : 1;
        for (size_t m = 0; m < rows; m++)
            widen_row(s.a + m * DEPTH, p->a + (row + m) * p->a_stride + b->from, b->n);
        for (size_t j = 0; j < b->panels; j++) {
            group g = {.a = s.a,
                       .w = s.w + j * panel,
                       .n = b->n,
                       /* int32 and float are of one size */
                       .c = (int32_t *)c + row * c_stride + (b->first + j) * ZOE_PANEL,
                       .c_stride = c_stride,
                       .add = add};
            if (scaled) {
                g.a_scale = p->a_scale + row * p->a_scale_stride + b->i;
                g.a_scale_stride = p->a_scale_stride;
                g.w_scale = p->w_scale + (b->first + j) * p->w_scale_distance + b->i * ZOE_PANEL;
            }
            (rows == ROWS ? group_6 : rows == 2 ? group_2 : group_1)(&g);
        }
    }
}

/* The whole product in groups of `depth` elements, with scales or without. */
static void multiply(void *c, size_t c_stride, const zoe_int8_product *p, bool add, size_t depth,
                     bool scaled)
{
    part b = {.i = 0};
    for (; b.from < p->k; b.from += depth, b.i++) {
        b.n = p->k - b.from < depth ? p->k - b.from : depth;
        for (b.first = 0; b.first < p->panels; b.first += b.panels) {
            const size_t left = p->panels - b.first, most = WIDE / depth;
            b.panels = left < most ? left : most;
            multiply_part(c, c_stride, p, &b, add || b.i > 0, scaled);
        }
    }
}

static void gemm_avx2(int32_t *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    multiply(c, c_stride, p, add, DEPTH, false);
}

static void gemm_scaled_avx2(float *c, size_t c_stride, const zoe_int8_product *p, bool add)
{
    multiply(c, c_stride, p, add, p->group, true);
}

static float peak_avx2(const float *x, size_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 peak = _mm256_setzero_ps(), nan = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = _mm256_andnot_ps(sign, load_part(x + i, n - i));
        nan = _mm256_or_ps(nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        peak = _mm256_max_ps(v, peak);
    }
    return _mm256_movemask_ps(nan) ? NAN : max_of_lanes(peak);
}

/* Eight products with the factor as 32-bit integers. */
INLINE __m256i rounded(const float *x, __m256 factor, size_t n)
{
    const __m256 v = _mm256_mul_ps(load_part(x, n), factor);
    const __m256 number = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    const __m256 near =
        _mm256_min_ps(_mm256_max_ps(number, _mm256_set1_ps(-127.0f)), _mm256_set1_ps(127.0f));
    return _mm256_cvtps_epi32(near);
}

static void round_avx2(int8_t *q, const float *x, float factor, size_t n)
{
    const __m256 f = _mm256_set1_ps(factor);
    for (size_t i = 0; i < n; i += 16) {
        const size_t left = n - i;
        const __m256i low = rounded(x + i, f, left);
        const __m256i high = left > 8 ? rounded(x + i + 8, f, left - 8) : _mm256_setzero_si256();
        const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
        const __m128i bytes =
            _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        if (left >= 16) {
            _mm_storeu_si128((__m128i *)(void *)(q + i), bytes);
        } else {
            int8_t last[16];
            _mm_storeu_si128((__m128i *)(void *)last, bytes);
            memcpy(q + i, last, left);
        }
    }
}

static void scale_avx2(float *y, const int32_t *c, const float *scale, float factor, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const size_t left = n - i;
        const __m256i sum = left >= 8 ? _mm256_loadu_si256((const __m256i *)(const void *)(c + i))
                                      : _mm256_maskload_epi32((const int *)c + i, lanes(left));
        const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), load_part(scale + i, left));
        store_part(y + i, _mm256_mul_ps(v, _mm256_set1_ps(factor)), left);
    }
}

void zoe_kernels_fill_int8_avx2(zoe_kernels *k)
{
    k->int8_peak = peak_avx2;
    k->int8_round = round_avx2;
    k->int8_gemm = gemm_avx2;
    k->int8_gemm_scaled = gemm_scaled_avx2;
    k->int8_scale = scale_avx2;
}
