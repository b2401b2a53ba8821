/* Attention's products and the merging of its parts: guests for AVX2 and FMA. */
#include "kernel/x86/vector_avx2.h"

#define INLINE static inline __attribute__((always_inline))

/* Rows of one inner loop: 12 accumulators, 2 registers for the panel's row, 1 for a broadcast. */
enum { ROWS = 6 };

/* `rows` <= ROWS, a constant at each call, so that the accumulators are registers. */
INLINE void attend_rows(float *c, size_t c_stride, const float *factors, const float *a,
                        size_t a_stride, const float *panel, const size_t rows, size_t k)
{
    __m256 left[ROWS], right[ROWS];
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++)
        left[m] = right[m] = _mm256_setzero_ps();
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
        if (factors) {
            const __m256 f = _mm256_broadcast_ss(factors + m);
            left[m] = _mm256_fmadd_ps(f, _mm256_loadu_ps(out), left[m]);
            right[m] = _mm256_fmadd_ps(f, _mm256_loadu_ps(out + 8), right[m]);
        }
        _mm256_storeu_ps(out, left[m]);
        _mm256_storeu_ps(out + 8, right[m]);
    }
}

INLINE void attend(float *c, size_t c_stride, const float *factors, const float *a, size_t a_stride,
                   const float *panel, size_t rows, size_t k)
{
    size_t m = 0;
#define PART(n)                                                                                    \
    attend_rows(c + m * c_stride, c_stride, factors ? factors + m : NULL, a + m * a_stride,        \
                a_stride, panel, n, k)
    for (; m + ROWS <= rows; m += ROWS)
        PART(ROWS);
    switch (rows - m) {
    case 5: PART(5); break;
    case 4: PART(4); break;
    case 3: PART(3); break;
    case 2: PART(2); break;
    case 1: PART(1); break;
    default: break;
    }
#undef PART
}

static void attend_avx2(float *c, size_t c_stride, const float *factors, const float *a,
                        size_t a_stride, const float *panel, size_t rows, size_t k)
{
    if (factors)
        attend(c, c_stride, factors, a, a_stride, panel, rows, k);
    else
        attend(c, c_stride, NULL, a, a_stride, panel, rows, k);
}

INLINE void spread(float *y, size_t distance, const void *x, ptrdiff_t stride, size_t width,
                   size_t k, zoe_dtype dtype, size_t bytes, load8_of *load)
{
    const unsigned char *p = x;
    for (size_t i = 0; i < k; i++, y += ZOE_PANEL) {
        float *to = y;
        size_t d = 0;
        p += i > 0 ? (size_t)stride * bytes
                   : 0; /* not beyond the last row: a stride may be anything */
        for (; d + ZOE_PANEL <= width; d += ZOE_PANEL, to += distance) {
            _mm256_storeu_ps(to, load(p + d * bytes));
            _mm256_storeu_ps(to + 8, load(p + (d + 8) * bytes));
        }
        if (d < width) {
            zoe_widen(to, p + d * bytes, dtype, width - d);
            memset(to + (width - d), 0, (ZOE_PANEL - (width - d)) * sizeof *to);
        }
    }
}

static void spread_f32_avx2(float *y, size_t distance, const void *x, ptrdiff_t stride,
                            size_t width, size_t k)
{
    spread(y, distance, x, stride, width, k, ZOE_F32, 4, load8_f32);
}

static void spread_f16_avx2(float *y, size_t distance, const void *x, ptrdiff_t stride,
                            size_t width, size_t k)
{
    spread(y, distance, x, stride, width, k, ZOE_F16, 2, load8_f16);
}

static void spread_bf16_avx2(float *y, size_t distance, const void *x, ptrdiff_t stride,
                             size_t width, size_t k)
{
    spread(y, distance, x, stride, width, k, ZOE_BF16, 2, load8_bf16);
}

static void add_weighted_avx2(float *y, const float *x, float weight, size_t n)
{
    const __m256 w = _mm256_set1_ps(weight);
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = _mm256_mul_ps(load_part(x + i, n - i), w);
        store_part(y + i, _mm256_add_ps(load_part(y + i, n - i), v), n - i);
    }
}

void zoe_kernels_fill_attention_avx2(zoe_kernels *k)
{
    k->attend = attend_avx2;
    k->spread_f32 = spread_f32_avx2;
    k->spread_f16 = spread_f16_avx2;
    k->spread_bf16 = spread_bf16_avx2;
    k->add_weighted = add_weighted_avx2;
}
