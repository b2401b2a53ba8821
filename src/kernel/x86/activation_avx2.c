/* Activations: guests for AVX2. */
#include "kernel/x86/vector_avx2.h"

static void silu_avx2(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, silu_v(load_part(x + i, n - i)), n - i);
}

static void gelu_tanh_avx2(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, gelu_tanh_v(load_part(x + i, n - i)), n - i);
}

static void gelu_erf_avx2(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, gelu_erf_v(load_part(x + i, n - i)), n - i);
}

static void gelu_sigmoid_avx2(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, gelu_sigmoid_v(load_part(x + i, n - i)), n - i);
}

static void multiply_avx2(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, _mm256_mul_ps(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
}

static void add_avx2(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, _mm256_add_ps(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
}

static float largest_avx2(const float *x, float top, size_t n)
{
    __m256 high = _mm256_set1_ps(top);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        high = _mm256_max_ps(_mm256_loadu_ps(x + i), high); /* the second operand if one is NaN */
    top = max_of_lanes(high);
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

static double exponentials_avx2(float *y, const float *x, float top, size_t n)
{
    const __m256 t = _mm256_set1_ps(top);
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    for (size_t i = 0; i < n; i += 8) {
        __m256 e = exp_v(_mm256_sub_ps(load_part(x + i, n - i), t));
        if (n - i < 8)
            e = _mm256_and_ps(e, _mm256_castsi256_ps(lanes(n - i)));
        store_part(y + i, e, n - i);
        low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm256_castps256_ps128(e)));
        high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm256_extractf128_ps(e, 1)));
    }
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(low, high));
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static __m256 gelu_bf16_steps(__m256 v)
{
    const __m256 square = round_to_bf16(_mm256_mul_ps(v, v));
    const __m256 cube = round_to_bf16(_mm256_mul_ps(square, v));
    const __m256 part = round_to_bf16(_mm256_mul_ps(_mm256_set1_ps(0.044715f), cube));
    const __m256 inner = round_to_bf16(_mm256_add_ps(v, part));
    const __m256 angle = round_to_bf16(_mm256_mul_ps(_mm256_set1_ps(0.797884560802865f), inner));
    const __m256 t = round_to_bf16(tanh_v(angle));
    const __m256 weight = round_to_bf16(_mm256_add_ps(_mm256_set1_ps(1.0f), t));
    const __m256 half = round_to_bf16(_mm256_mul_ps(_mm256_set1_ps(0.5f), v));
    return round_to_bf16(_mm256_mul_ps(half, weight));
}

static void geglu_bf16_avx2(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = gelu_bf16_steps(load_part(gate + i, n - i));
        store_part(y + i, round_to_bf16(_mm256_mul_ps(v, load_part(up + i, n - i))), n - i);
    }
}

void zoe_kernels_fill_activation_avx2(zoe_kernels *k)
{
    k->silu = silu_avx2;
    k->gelu_tanh = gelu_tanh_avx2;
    k->gelu_erf = gelu_erf_avx2;
    k->gelu_sigmoid = gelu_sigmoid_avx2;
    k->geglu_bf16 = geglu_bf16_avx2;
    k->multiply = multiply_avx2;
    k->add = add_avx2;
    k->largest = largest_avx2;
    k->exponentials = exponentials_avx2;
}
