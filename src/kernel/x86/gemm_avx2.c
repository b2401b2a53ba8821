/* Products: guests for AVX2 and FMA. */
#include "kernel/x86/vector_avx2.h"

#define INLINE static inline __attribute__((always_inline))

INLINE __m256 load8_e4m3(const unsigned char *p)
{
    return widen8_e4m3(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

INLINE __m256 load8_e5m2(const unsigned char *p)
{
    return widen8_e5m2(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/* Element i of v[r] becomes element r of v[i]. The loops here and below are unrolled by name: arrays must
 * become registers. */
INLINE void transpose(__m256 v[8])
{
    __m256 t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

/* out[i * step + r] = v[r][i]. */
INLINE void store_transposed(float *out, size_t step, __m256 v[8])
{
    transpose(v);
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++)
        _mm256_storeu_ps(out + i * step, v[i]);
}

/* Packs `rows` <= 8 rows into columns 0..7 of the panel. */
INLINE void pack8(float *panel, const unsigned char *w, size_t stride, size_t rows, size_t k,
                  size_t bytes, zoe_dtype dtype, load8_of *load)
{
    size_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m256 v[8];
#pragma GCC unroll 8
        for (size_t r = 0; r < 8; r++)
            v[r] = r < rows ? load(w + (r * stride + i) * bytes) : _mm256_setzero_ps();
        store_transposed(panel + i * ZOE_PANEL, ZOE_PANEL, v);
    }
    for (; i < k; i++)
        for (size_t r = 0; r < 8; r++)
            panel[i * ZOE_PANEL + r] = r < rows ? zoe_load_f32(w, dtype, r * stride + i) : 0.0f;
}

INLINE void pack(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k, size_t bytes,
                 zoe_dtype dtype, load8_of *load)
{
    const unsigned char *p = w;
    const size_t step = (size_t)stride;
    for (size_t half = 0; half < ZOE_PANEL; half += 8, p += 8 * step * bytes) {
        const size_t left = rows > half ? rows - half : 0;
        if (left >= 8)
            pack8(panel + half, p, step, 8, k, bytes, dtype, load);
        else
            pack8(panel + half, p, step, left, k, bytes, dtype, load);
    }
}

static void pack_f32_avx2(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, 4, ZOE_F32, load8_f32);
}

static void pack_f16_avx2(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, 2, ZOE_F16, load8_f16);
}

/* Pairs of bf16 are moved as one: half the shuffles of the other types. */
INLINE void pack8_bf16(float *panel, const unsigned char *w, size_t stride, size_t k)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    size_t i = 0;
    for (; i + 16 <= k; i += 16) {
        __m256 v[8];
        float pairs[64];
#pragma GCC unroll 8
        for (size_t r = 0; r < 8; r++)
            v[r] = load8_f32(w + (r * stride + i) * 2);
        store_transposed(pairs, 8, v);
#pragma GCC unroll 8
        for (size_t j = 0; j < 8; j++) {
            const __m256i p = _mm256_castps_si256(_mm256_loadu_ps(pairs + 8 * j));
            float *out = panel + (i + 2 * j) * ZOE_PANEL;
            _mm256_storeu_ps(out, _mm256_castsi256_ps(_mm256_slli_epi32(p, 16)));
            _mm256_storeu_ps(out + ZOE_PANEL, _mm256_castsi256_ps(_mm256_and_si256(p, upper)));
        }
    }
    pack8(panel + i * ZOE_PANEL, w + 2 * i, stride, 8, k - i, 2, ZOE_BF16, load8_bf16);
}

static void pack_bf16_avx2(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    const unsigned char *p = w;
    const size_t step = (size_t)stride;
    if (rows < ZOE_PANEL) {
        pack(panel, w, stride, rows, k, 2, ZOE_BF16, load8_bf16);
        return;
    }
    pack8_bf16(panel, p, step, k);
    pack8_bf16(panel + 8, p + 16 * step, step, k);
}

static void pack_f8_e4m3_avx2(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, 1, ZOE_F8_E4M3, load8_e4m3);
}

static void pack_f8_e5m2_avx2(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, 1, ZOE_F8_E5M2, load8_e5m2);
}

static void scale_panel_avx2(float *panel, const float *factors, size_t k)
{
    const __m256 left = _mm256_loadu_ps(factors), right = _mm256_loadu_ps(factors + 8);
    for (size_t i = 0; i < k; i++, panel += ZOE_PANEL) {
        _mm256_storeu_ps(panel, _mm256_mul_ps(_mm256_loadu_ps(panel), left));
        _mm256_storeu_ps(panel + 8, _mm256_mul_ps(_mm256_loadu_ps(panel + 8), right));
    }
}

INLINE void slice(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k,
                  size_t bytes, zoe_dtype dtype, load8_of *load)
{
    const unsigned char *p = w;
    for (size_t i = 0; i < k; i++, p += (size_t)stride * bytes, panel += ZOE_PANEL) {
        if (columns == ZOE_PANEL) {
            _mm256_storeu_ps(panel, load(p));
            _mm256_storeu_ps(panel + 8, load(p + 8 * bytes));
        } else {
            zoe_widen(panel, p, dtype, columns);
            memset(panel + columns, 0, (ZOE_PANEL - columns) * sizeof *panel);
        }
    }
}

static void slice_f32_avx2(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k)
{
    slice(panel, w, stride, columns, k, 4, ZOE_F32, load8_f32);
}

static void slice_bf16_avx2(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k)
{
    slice(panel, w, stride, columns, k, 2, ZOE_BF16, load8_bf16);
}

/* Rows of one inner loop: with 16 columns, 12 accumulators; with 2 registers for the panel's row
 * and 1 for a broadcast that is what fits in 16 registers. */
enum { ROWS = 6 };

/* `rows` <= ROWS, a constant at each call, so that the accumulators are registers. */
INLINE void gemm_rows(float *c, size_t c_stride, const float *a, size_t a_stride,
                      const float *panel, const size_t rows, size_t k, bool add)
{
    __m256 left[ROWS], right[ROWS];
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++)
        left[m] = right[m] = _mm256_setzero_ps();
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++) /* sums may lie far away */
        __builtin_prefetch(c + m * c_stride, 1);
    for (size_t i = 0; i < k; i++) {
        const __m256 p = _mm256_loadu_ps(panel + i * ZOE_PANEL);
        const __m256 q = _mm256_loadu_ps(panel + i * ZOE_PANEL + 8);
#pragma GCC unroll 6
        for (size_t m = 0; m < rows; m++) {
            const __m256 x = _mm256_broadcast_ss(a + m * a_stride + i);
            left[m] = _mm256_fmadd_ps(x, p, left[m]);
            right[m] = _mm256_fmadd_ps(x, q, right[m]);
        }
    }
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++) {
        float *out = c + m * c_stride;
        if (add) {
            left[m] = _mm256_add_ps(left[m], _mm256_loadu_ps(out));
            right[m] = _mm256_add_ps(right[m], _mm256_loadu_ps(out + 8));
        }
        _mm256_storeu_ps(out, left[m]);
        _mm256_storeu_ps(out + 8, right[m]);
    }
}

static void gemm_avx2(float *c, size_t c_stride, const float *a, size_t a_stride,
                      const float *panel, size_t rows, size_t k, bool add)
{
    for (; rows >= ROWS; rows -= ROWS, a += ROWS * a_stride, c += ROWS * c_stride)
        gemm_rows(c, c_stride, a, a_stride, panel, ROWS, k, add);
    switch (rows) {
    case 5: gemm_rows(c, c_stride, a, a_stride, panel, 5, k, add); break;
    case 4: gemm_rows(c, c_stride, a, a_stride, panel, 4, k, add); break;
    case 3: gemm_rows(c, c_stride, a, a_stride, panel, 3, k, add); break;
    case 2: gemm_rows(c, c_stride, a, a_stride, panel, 2, k, add); break;
    case 1: gemm_rows(c, c_stride, a, a_stride, panel, 1, k, add); break;
    default: break;
    }
}

/* ---- few rows, straight from w ---- */

/* sum[m] += a[m][i] * w for `rows` rows, a constant. */
INLINE void few_step(__m256 *sum, const float *a, size_t a_stride, __m256 w, const size_t rows)
{
#pragma GCC unroll 4
    for (size_t m = 0; m < rows; m++)
        sum[m] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + m * a_stride), w, sum[m]);
}

/* Elements i .. k - 1, one at a time. */
INLINE void few_rest(__m256 sum[2][ZOE_FEW_ROWS], const float *a, size_t a_stride,
                     const unsigned char *w, size_t stride, zoe_dtype dtype, const size_t rows,
                     size_t i, size_t k)
{
    for (; i < k; i++) {
        float column[ZOE_PANEL];
        for (size_t r = 0; r < ZOE_PANEL; r++)
            column[r] = zoe_load_f32(w, dtype, r * stride + i);
        few_step(sum[0], a + i, a_stride, _mm256_loadu_ps(column), rows);
        few_step(sum[1], a + i, a_stride, _mm256_loadu_ps(column + 8), rows);
    }
}

/* 16 elements of 8 rows of bf16 against those of a: moved in pairs, as in pack8_bf16. */
INLINE void few_pairs(__m256 *sum, const float *a, size_t a_stride, const unsigned char *w,
                      size_t stride, const size_t rows)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    __m256 v[8];
#pragma GCC unroll 8
    for (size_t r = 0; r < 8; r++)
        v[r] = load8_f32(w + r * stride * 2);
    transpose(v);
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; j++) {
        const __m256i p = _mm256_castps_si256(v[j]);
        few_step(sum, a + 2 * j, a_stride, _mm256_castsi256_ps(_mm256_slli_epi32(p, 16)), rows);
        few_step(sum, a + 2 * j + 1, a_stride, _mm256_castsi256_ps(_mm256_and_si256(p, upper)),
                 rows);
    }
}

/* 8 elements of 8 rows of another type. */
INLINE void few_eight(__m256 *sum, const float *a, size_t a_stride, const unsigned char *w,
                      size_t stride, size_t bytes, load8_of *load, const size_t rows)
{
    __m256 v[8];
#pragma GCC unroll 8
    for (size_t r = 0; r < 8; r++)
        v[r] = load(w + r * stride * bytes);
    transpose(v);
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; j++)
        few_step(sum, a + j, a_stride, v[j], rows);
}

INLINE void few_rows(float *c, size_t c_stride, const float *a, size_t a_stride,
                     const unsigned char *w, size_t stride, const size_t rows, size_t k, bool add,
                     size_t bytes, zoe_dtype dtype, load8_of *load)
{
    const size_t step = dtype == ZOE_BF16 ? 16 : 8, half = 8 * stride * bytes;
    __m256 sum[2][ZOE_FEW_ROWS];
#pragma GCC unroll 4
    for (size_t m = 0; m < rows; m++)
        sum[0][m] = sum[1][m] = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + step <= k; i += step) {
        const unsigned char *p = w + i * bytes;
        if (dtype == ZOE_BF16) {
            few_pairs(sum[0], a + i, a_stride, p, stride, rows);
            few_pairs(sum[1], a + i, a_stride, p + half, stride, rows);
        } else {
            few_eight(sum[0], a + i, a_stride, p, stride, bytes, load, rows);
            few_eight(sum[1], a + i, a_stride, p + half, stride, bytes, load, rows);
        }
    }
    few_rest(sum, a, a_stride, w, stride, dtype, rows, i, k);
#pragma GCC unroll 4
    for (size_t m = 0; m < rows; m++)
        for (size_t h = 0; h < 2; h++) {
            float *out = c + m * c_stride + 8 * h;
            _mm256_storeu_ps(out, add ? _mm256_add_ps(sum[h][m], _mm256_loadu_ps(out)) : sum[h][m]);
        }
}

INLINE void few(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                ptrdiff_t stride, size_t rows, size_t k, bool add, size_t bytes, zoe_dtype dtype,
                load8_of *load)
{
    const size_t s = (size_t)stride;
    switch (rows) {
    case 1: few_rows(c, c_stride, a, a_stride, w, s, 1, k, add, bytes, dtype, load); break;
    case 2: few_rows(c, c_stride, a, a_stride, w, s, 2, k, add, bytes, dtype, load); break;
    case 3: few_rows(c, c_stride, a, a_stride, w, s, 3, k, add, bytes, dtype, load); break;
    case 4: few_rows(c, c_stride, a, a_stride, w, s, 4, k, add, bytes, dtype, load); break;
    default: break;
    }
}

static void few_f32_avx2(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                         ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, stride, rows, k, add, 4, ZOE_F32, load8_f32);
}

static void few_f16_avx2(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                         ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, stride, rows, k, add, 2, ZOE_F16, load8_f16);
}

static void few_bf16_avx2(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                          ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, stride, rows, k, add, 2, ZOE_BF16, load8_bf16);
}

INLINE void finish(float *y, const float *x, const zoe_finishing *f, size_t n,
                   const zoe_activation activation)
{
    for (size_t i = 0; i < n; i += 8) {
        const size_t left = n - i;
        __m256 v = load_part(x + i, left);
        if (f->bias)
            v = _mm256_add_ps(v, load_part(f->bias + i, left));
        if (f->round)
            v = round_to_bf16(v);
        if (activation == ZOE_ACT_SILU)
            v = silu_v(v);
        else if (activation == ZOE_ACT_GELU_TANH)
            v = gelu_tanh_v(v);
        else if (activation == ZOE_ACT_GELU_ERF)
            v = gelu_erf_v(v);
        else if (activation == ZOE_ACT_GELU_SIGMOID)
            v = gelu_sigmoid_v(v);
        if (f->round && activation != ZOE_ACT_NONE)
            v = round_to_bf16(v);
        if (f->gate)
            v = _mm256_mul_ps(v, load_part(f->gate + i, left));
        if (f->residual)
            v = _mm256_add_ps(v, load_part(f->residual + i, left));
        store_part(y + i, v, left);
    }
}

static void finish_avx2(float *y, const float *x, const zoe_finishing *f, size_t n)
{
    switch (f->activation) {
    case ZOE_ACT_NONE: finish(y, x, f, n, ZOE_ACT_NONE); break;
    case ZOE_ACT_SILU: finish(y, x, f, n, ZOE_ACT_SILU); break;
    case ZOE_ACT_GELU_TANH: finish(y, x, f, n, ZOE_ACT_GELU_TANH); break;
    case ZOE_ACT_GELU_ERF: finish(y, x, f, n, ZOE_ACT_GELU_ERF); break;
    case ZOE_ACT_GELU_SIGMOID: finish(y, x, f, n, ZOE_ACT_GELU_SIGMOID); break;
    }
}

void zoe_kernels_fill_gemm_avx2(zoe_kernels *k)
{
    k->pack_f32 = pack_f32_avx2;
    k->pack_f16 = pack_f16_avx2;
    k->pack_bf16 = pack_bf16_avx2;
    k->pack_f8_e4m3 = pack_f8_e4m3_avx2;
    k->pack_f8_e5m2 = pack_f8_e5m2_avx2;
    k->scale_panel = scale_panel_avx2;
    k->slice_f32 = slice_f32_avx2;
    k->slice_bf16 = slice_bf16_avx2;
    k->gemm = gemm_avx2;
    k->few_f32 = few_f32_avx2;
    k->few_f16 = few_f16_avx2;
    k->few_bf16 = few_bf16_avx2;
    k->finish = finish_avx2;
}
