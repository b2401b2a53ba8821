/* Peaks of AVX2 and FMA. Assembly where a compiler would merge chains or move work out of the loop. */
#include <immintrin.h>

#include "kernel/peak.h"

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define CLOBBERS                                                                                   \
    "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10",       \
        "ymm11", "ymm12", "ymm13", "cc"
enum { CHAINS = 10 }; /* more than latency times ports, on every cpu known */

static void fma_f32_avx2(size_t rounds)
{
    const float factor = 0.999999f, addend = 1e-7f;
    if (rounds == 0)
        return;
#define BEGIN(k) "vmovaps %%ymm12, %%ymm" #k "\n\t"
#define STEP(k) "vfmadd213ps %%ymm13, %%ymm12, %%ymm" #k "\n\t"
    __asm__ volatile("vbroadcastss %1, %%ymm12\n\tvbroadcastss %2, %%ymm13\n\t" EACH(
                         BEGIN) "1:\n\t" EACH(STEP) "dec %0\n\tjnz 1b\n\t"
                     : "+r"(rounds)
                     : "m"(factor), "m"(addend)
                     : CLOBBERS);
#undef BEGIN
#undef STEP
}

/* Pairs of products in 16 bits, pairs of those in 32, and a sum: what there is before VNNI. */
static void mul_int8_avx2(size_t rounds)
{
    if (rounds == 0)
        return;
#define BEGIN(k) "vpxor %%ymm" #k ", %%ymm" #k ", %%ymm" #k "\n\t"
#define STEP(k)                                                                                    \
    "vpmaddubsw %%ymm12, %%ymm11, %%ymm10\n\tvpmaddwd %%ymm13, %%ymm10, %%ymm10\n\t"               \
    "vpaddd %%ymm10, %%ymm" #k ", %%ymm" #k "\n\t"
    __asm__ volatile(
        "vpxor %%ymm11, %%ymm11, %%ymm11\n\tvpxor %%ymm12, %%ymm12, %%ymm12\n\t"
        "vpxor %%ymm13, %%ymm13, %%ymm13\n\t" EACH(BEGIN) "1:\n\t" EACH(STEP) "dec %0\n\tjnz 1b\n\t"
        : "+r"(rounds)
        :
        : CLOBBERS);
#undef BEGIN
#undef STEP
}

static float read_avx2(const void *src, size_t bytes)
{
    const char *p = src;
    __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                       _mm256_setzero_si256()};
    for (size_t i = 0; i < bytes; i += 128)
        for (size_t j = 0; j < 4; j++)
            sums[j] = _mm256_xor_si256(
                sums[j], _mm256_load_si256((const __m256i *)(const void *)(p + i + 32 * j)));
    const __m256i all =
        _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
    int32_t lanes[8];
    _mm256_storeu_si256((__m256i *)(void *)lanes, all);
    return (float)(lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3] ^ lanes[4] ^ lanes[5] ^ lanes[6] ^
                   lanes[7]);
}

static void copy_avx2(void *dst, const void *src, size_t bytes)
{
    const char *from = src;
    char *to = dst;
    for (size_t i = 0; i < bytes; i += 128) {
        __m256i v[4];
        for (size_t j = 0; j < 4; j++)
            v[j] = _mm256_load_si256((const __m256i *)(const void *)(from + i + 32 * j));
        for (size_t j = 0; j < 4; j++)
            _mm256_store_si256((__m256i *)(void *)(to + i + 32 * j), v[j]);
    }
}

static void copy_stream_avx2(void *dst, const void *src, size_t bytes)
{
    const char *from = src;
    char *to = dst;
    for (size_t i = 0; i < bytes; i += 128) {
        __m256i v[4];
        for (size_t j = 0; j < 4; j++)
            v[j] = _mm256_load_si256((const __m256i *)(const void *)(from + i + 32 * j));
        for (size_t j = 0; j < 4; j++)
            _mm256_stream_si256((__m256i *)(void *)(to + i + 32 * j), v[j]);
    }
    _mm_sfence();
}

void zoe_peaks_fill_avx2(zoe_peaks *p)
{
    p->fma_f32 = fma_f32_avx2;
    p->fma_f32_work = 2 * 8 * CHAINS;
    p->mul_int8 = mul_int8_avx2;
    p->mul_int8_work = 2 * 32 * CHAINS;
    p->read = read_avx2;
    p->copy = copy_avx2;
    p->copy_stream = copy_stream_avx2;
}
