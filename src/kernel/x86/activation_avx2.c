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

static void geglu_avx2(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = gelu_tanh_v(load_part(gate + i, n - i));
        store_part(y + i, _mm256_mul_ps(v, load_part(up + i, n - i)), n - i);
    }
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
    k->geglu = geglu_avx2;
    k->geglu_bf16 = geglu_bf16_avx2;
}
