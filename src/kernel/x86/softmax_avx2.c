/* Softmax over rows of scores: guests for AVX2. */
#include "kernel/x86/vector_avx2.h"

/* -inf in the lanes from n < 8 on. */
static inline __m256 mask_rest(__m256 v, size_t n)
{
    const __m256 low = _mm256_set1_ps(-INFINITY);
    return n >= 8 ? v : _mm256_blendv_ps(low, v, _mm256_castsi256_ps(lanes(n)));
}

/* s[i] = exp(s[i] - origin); returns the sum. */
static inline float exponentials(float *s, size_t n, float origin)
{
    const __m256 o = _mm256_set1_ps(origin);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256 a = exp_not_positive(_mm256_sub_ps(_mm256_loadu_ps(s + i), o));
        const __m256 b = exp_not_positive(_mm256_sub_ps(_mm256_loadu_ps(s + i + 8), o));
        _mm256_storeu_ps(s + i, a);
        _mm256_storeu_ps(s + i + 8, b);
        sum[0] = _mm256_add_ps(sum[0], a);
        sum[1] = _mm256_add_ps(sum[1], b);
    }
    for (; i < n; i += 8) {
        const __m256 t = mask_rest(load_part(s + i, n - i), n - i);
        const __m256 a = exp_not_positive(_mm256_sub_ps(t, o));
        store_part(s + i, a, n - i);
        sum[0] = _mm256_add_ps(sum[0], a);
    }
    return sum_of_lanes(_mm256_add_ps(sum[0], sum[1]));
}

/* s = s * scale + bias (NULL: none); returns the largest of the results and of `top`, passing over
 * NaN. */
static inline float scale_and_top(float *s, size_t n, float scale, const float *bias, float top)
{
    const __m256 f = _mm256_set1_ps(scale);
    __m256 high = _mm256_set1_ps(top);
    size_t i = 0;
    if (bias)
        for (; i + 8 <= n; i += 8) {
            const __m256 t =
                _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(s + i), f), _mm256_loadu_ps(bias + i));
            _mm256_storeu_ps(s + i, t);
            high = _mm256_max_ps(t, high); /* gives the second operand if one is NaN */
        }
    else
        for (; i + 8 <= n; i += 8) {
            const __m256 t = _mm256_mul_ps(_mm256_loadu_ps(s + i), f);
            _mm256_storeu_ps(s + i, t);
            high = _mm256_max_ps(t, high);
        }
    if (i < n) {
        __m256 t = _mm256_mul_ps(load_part(s + i, n - i), f);
        t = bias ? _mm256_add_ps(t, load_part(bias + i, n - i)) : t;
        store_part(s + i, t, n - i);
        high = _mm256_max_ps(mask_rest(t, n - i), high);
    }
    return max_of_lanes(high);
}

static float softmax_step_avx2(float *s, size_t n, float scale, const float *bias, float *max,
                               float *sum)
{
    const float m = scale_and_top(s, n, scale, bias, *max);
    const float origin = m == -INFINITY ? 0.0f : m;
    const float factor = *max == origin ? 1.0f : expf(*max - origin);
    *sum = *sum * factor + exponentials(s, n, origin);
    *max = m;
    return factor;
}

static void softmax_bf16_avx2(float *s, size_t n, float scale, const float *bias, float extra)
{
    if (n == 0)
        return;
    const __m256 factor = _mm256_set1_ps(scale);
    __m256 top = _mm256_set1_ps(-INFINITY);
    for (size_t i = 0; i < n; i += 8) {
        __m256 t = round_to_bf16(_mm256_mul_ps(load_part(s + i, n - i), factor));
        if (bias)
            t = round_to_bf16(_mm256_add_ps(t, load_part(bias + i, n - i)));
        store_part(s + i, t, n - i);
        top = _mm256_max_ps(mask_rest(t, n - i), top);
    }
    s[n - 1] += extra;
    const float m = max_of_lanes(top);
    const float origin = s[n - 1] > m ? s[n - 1] : m;
    const __m256 sum = _mm256_set1_ps(exponentials(s, n, origin));
    for (size_t i = 0; i < n; i += 8)
        store_part(s + i, round_to_bf16(_mm256_div_ps(load_part(s + i, n - i), sum)), n - i);
}

static void scale_avx2(float *y, float factor, size_t n)
{
    const __m256 f = _mm256_set1_ps(factor);
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, _mm256_mul_ps(load_part(y + i, n - i), f), n - i);
}

void zoe_kernels_fill_softmax_avx2(zoe_kernels *k)
{
    k->softmax_step = softmax_step_avx2;
    k->softmax_bf16 = softmax_bf16_avx2;
    k->scale = scale_avx2;
}
