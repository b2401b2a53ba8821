/* Normalisation and rotation: guests for AVX2. Elementwise parts round where the definitions round,
 * so that given the same statistics the bits are the same. */
#include "kernel/x86/vector_avx2.h"

/* sum[0] and sum[1] take what eight elements add. */
static inline void add8(__m256d sum[2], const float *x, __m256d shift, const bool square)
{
    const __m256d a = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x)), shift);
    const __m256d b = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + 4)), shift);
    sum[0] = square ? _mm256_fmadd_pd(a, a, sum[0]) : _mm256_add_pd(a, sum[0]);
    sum[1] = square ? _mm256_fmadd_pd(b, b, sum[1]) : _mm256_add_pd(b, sum[1]);
}

/* Sum over x of x - shift or of its square: element i in lane i mod 16, the rest of fewer than 8
 * elements added last, in order. */
static inline double sum_of(const float *x, double shift, size_t n, const bool square)
{
    const __m256d zero = _mm256_setzero_pd(), s = _mm256_set1_pd(shift);
    __m256d even[2] = {zero, zero}, odd[2] = {zero, zero};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        add8(even, x + i, s, square);
        add8(odd, x + i + 8, s, square);
    }
    if (i + 8 <= n) {
        add8(even, x + i, s, square);
        i += 8;
    }
    double lane[4];
    _mm256_storeu_pd(lane,
                     _mm256_add_pd(_mm256_add_pd(even[0], even[1]), _mm256_add_pd(odd[0], odd[1])));
    double total = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    for (; i < n; i++) {
        const double d = (double)x[i] - shift;
        total += square ? d * d : d;
    }
    return total;
}

static double sum_avx2(const float *x, double shift, size_t n)
{
    return sum_of(x, shift, n, false);
}

static double sum_squares_avx2(const float *x, double shift, size_t n)
{
    return sum_of(x, shift, n, true);
}

static void rms_scale_avx2(float *y, const float *x, float rstd, const float *gamma, bool round,
                           size_t n)
{
    const __m256 r = _mm256_set1_ps(rstd);
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(load_part(x + i, n - i), r);
        v = round ? round_to_bf16(v) : v;
        if (gamma) {
            const __m256 g = load_part(gamma + i, n - i);
            v = _mm256_mul_ps(v, round ? round_to_bf16(g) : g);
            v = round ? round_to_bf16(v) : v;
        }
        store_part(y + i, v, n - i);
    }
}

static void layer_scale_avx2(float *y, const float *x, const zoe_layer_scaling *s, size_t n)
{
    const __m256 mean = _mm256_set1_ps(s->mean), rest = _mm256_set1_ps(s->mean_rest);
    const __m256 rstd = _mm256_set1_ps(s->rstd), one = _mm256_set1_ps(1.0f);
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = load_part(x + i, n - i);
        v = _mm256_mul_ps(_mm256_sub_ps(_mm256_sub_ps(v, mean), rest), rstd);
        if (s->gamma)
            v = _mm256_add_ps(_mm256_mul_ps(v, load_part(s->gamma + i, n - i)),
                              load_part(s->beta + i, n - i));
        v = s->round ? round_to_bf16(v) : v;
        if (s->scale)
            v = _mm256_add_ps(_mm256_mul_ps(v, _mm256_add_ps(one, load_part(s->scale + i, n - i))),
                              load_part(s->shift + i, n - i));
        store_part(y + i, v, n - i);
    }
}

static void l2_scale_avx2(float *y, const float *x, float norm, float root, const float *gamma,
                          bool silu, size_t n)
{
    const __m256 d = _mm256_set1_ps(norm), r = _mm256_set1_ps(root);
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_div_ps(load_part(x + i, n - i), d), r);
        v = _mm256_mul_ps(v, load_part(gamma + i, n - i));
        store_part(y + i, silu ? silu_v(v) : v, n - i);
    }
}

static void rope_avx2(float *y, const float *x, const float *cos, const float *sin, size_t pairs)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (size_t j = 0; j < pairs; j += 4) {
        const size_t n = pairs - j;
        __m128 c, s;
        if (n >= 4) {
            c = _mm_loadu_ps(cos + j);
            s = _mm_loadu_ps(sin + j);
        } else {
            const __m128i mask = _mm256_castsi256_si128(lanes(n));
            c = _mm_maskload_ps(cos + j, mask);
            s = _mm_maskload_ps(sin + j, mask);
        }
        const __m256 cc = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(c), twice);
        const __m256 ss = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(s), twice);
        const __m256 v = load_part(x + 2 * j, 2 * n);
        const __m256 swapped = _mm256_permute_ps(v, 0xb1);
        store_part(y + 2 * j, _mm256_addsub_ps(_mm256_mul_ps(v, cc), _mm256_mul_ps(swapped, ss)),
                   2 * n);
    }
}

void zoe_kernels_fill_norm_avx2(zoe_kernels *k)
{
    k->sum = sum_avx2;
    k->sum_squares = sum_squares_avx2;
    k->rms_scale = rms_scale_avx2;
    k->layer_scale = layer_scale_avx2;
    k->l2_scale = l2_scale_avx2;
    k->rope = rope_avx2;
}
