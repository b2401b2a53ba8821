/* See peak.h. Here, what a compiler makes of plain loops: where there is no rung, that is the measure. */
#include "kernel/peak.h"

enum { LANES = 64 };

/* Operands that the compiler cannot know, so that no round is folded into another. */
static volatile float factor = 0.999999f, addend = 1e-7f;
static volatile int8_t byte = 3;
static volatile float float_sink;
static volatile int32_t int_sink;

static void fma_f32_c(size_t rounds)
{
    float sums[LANES];
    const float m = factor, a = addend;
    for (size_t i = 0; i < LANES; i++)
        sums[i] = (float)i;
    for (size_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < LANES; i++)
            sums[i] = sums[i] * m + a;
    for (size_t i = 0; i < LANES; i++)
        float_sink = sums[i];
}

static void mul_int8_c(size_t rounds)
{
    int32_t sums[LANES] = {0};
    int8_t a[LANES], b[LANES];
    for (size_t i = 0; i < LANES; i++)
        a[i] = b[i] = byte;
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < LANES; i++)
            sums[i] += (int32_t)a[i] * b[i];
        a[r % LANES] = byte;
    }
    for (size_t i = 0; i < LANES; i++)
        int_sink = sums[i];
}

static float read_c(const void *src, size_t bytes)
{
    const uint64_t *words = src;
    uint64_t sums[8] = {0};
    for (size_t i = 0; i < bytes / sizeof *words; i += 8)
        for (size_t j = 0; j < 8; j++)
            sums[j] ^= words[i + j];
    for (size_t j = 1; j < 8; j++)
        sums[0] ^= sums[j];
    return (float)sums[0];
}

static void copy_c(void *dst, const void *src, size_t bytes)
{
    const uint64_t *from = src;
    uint64_t *to = dst;
    for (size_t i = 0; i < bytes / sizeof *to; i += 8)
        for (size_t j = 0; j < 8; j++)
            to[i + j] = from[i + j];
}

/* The library's copy chooses stores that pass the caches by itself where the machine has them. */
static void copy_stream_c(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

zoe_peaks zoe_peaks_get(void)
{
    zoe_peaks p = {
        .fma_f32 = fma_f32_c,
        .fma_f32_work = 2 * LANES,
        .mul_int8 = mul_int8_c,
        .mul_int8_work = 2 * LANES,
        .read = read_c,
        .copy = copy_c,
        .copy_stream = copy_stream_c,
    };
#if defined(__x86_64__)
    if (zoe_cpu_isa() >= ZOE_ISA_AVX2)
        zoe_peaks_fill_avx2(&p);
    if (zoe_cpu_isa() >= ZOE_ISA_AVX512)
        zoe_peaks_fill_avx512(&p);
#elif defined(__aarch64__)
    if (zoe_cpu_isa() == ZOE_ISA_NEON)
        zoe_peaks_fill_neon(&p);
#endif
    return p;
}
