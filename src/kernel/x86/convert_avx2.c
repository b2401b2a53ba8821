/* Element types: guests for AVX2. */
#include "kernel/x86/vector_avx2.h"

/* The last n < 8 elements go through the definition by way of the table of plain C in base. */
static void widen_f16_avx2(float *y, const void *x, size_t n)
{
    const uint16_t *h = x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + i))));
    zoe_widen(y + i, h + i, ZOE_F16, n - i);
}

static void widen_bf16_avx2(float *y, const void *x, size_t n)
{
    const uint16_t *h = x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         widen8_bf16(_mm_loadu_si128((const __m128i *)(const void *)(h + i))));
    zoe_widen(y + i, h + i, ZOE_BF16, n - i);
}

static void widen_f8_e4m3_avx2(float *y, const void *x, size_t n)
{
    const uint8_t *b = x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         widen8_e4m3(_mm_loadl_epi64((const __m128i *)(const void *)(b + i))));
    zoe_widen(y + i, b + i, ZOE_F8_E4M3, n - i);
}

static void widen_f8_e5m2_avx2(float *y, const void *x, size_t n)
{
    const uint8_t *b = x;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         widen8_e5m2(_mm_loadl_epi64((const __m128i *)(const void *)(b + i))));
    zoe_widen(y + i, b + i, ZOE_F8_E5M2, n - i);
}

static void narrow_f16_avx2(void *y, const float *x, size_t n)
{
    uint16_t *h = y;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(h + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    zoe_narrow(h + i, ZOE_F16, x + i, n - i);
}

static void narrow_bf16_avx2(void *y, const float *x, size_t n)
{
    uint16_t *h = y;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256i u =
            _mm256_srli_epi32(_mm256_castps_si256(round_to_bf16(_mm256_loadu_ps(x + i))), 16);
        _mm_storeu_si128(
            (__m128i *)(void *)(h + i),
            _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1)));
    }
    zoe_narrow(h + i, ZOE_BF16, x + i, n - i);
}

static void round_bf16_avx2(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store_part(y + i, round_to_bf16(load_part(x + i, n - i)), n - i);
}

void zoe_kernels_fill_convert_avx2(zoe_kernels *k)
{
    k->widen_f16 = widen_f16_avx2;
    k->widen_bf16 = widen_bf16_avx2;
    k->widen_f8_e4m3 = widen_f8_e4m3_avx2;
    k->widen_f8_e5m2 = widen_f8_e5m2_avx2;
    k->narrow_f16 = narrow_f16_avx2;
    k->narrow_bf16 = narrow_bf16_avx2;
    k->round_bf16 = round_bf16_avx2;
}
