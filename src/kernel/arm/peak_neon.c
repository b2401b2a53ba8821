/* Peaks of NEON. Assembly where a compiler would merge chains or move work out of the loop. */
#include <arm_neon.h>

#include "kernel/peak.h"

#define EACH(X)                                                                                    \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
#define CLOBBERS                                                                                   \
    "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",      \
        "v22", "v23", "v24", "v25", "v26", "cc"
enum { CHAINS = 16 }; /* latency times pipes of the widest cpu known */

static void fma_f32_neon(size_t rounds)
{
    const float factor = 0.999999f;
    if (rounds == 0)
        return;
#define BEGIN(k) "movi v" #k ".4s, #0\n\t"
#define STEP(k) "fmla v" #k ".4s, v24.4s, v25.4s\n\t"
    __asm__ volatile("ld1r {v24.4s}, [%1]\n\tmov v25.16b, v24.16b\n\t" EACH(BEGIN) "1:\n\t" EACH(
                         STEP) "subs %0, %0, #1\n\tb.ne 1b\n\t"
                     : "+r"(rounds)
                     : "r"(&factor), "m"(factor)
                     : CLOBBERS);
#undef BEGIN
#undef STEP
}

/* Products in 16 bits, added in pairs to sums of 32 bits: what there is before dot products. */
static void mul_int8_neon(size_t rounds)
{
    if (rounds == 0)
        return;
#define BEGIN(k) "movi v" #k ".4s, #0\n\t"
#define STEP(k) "smull v26.8h, v24.8b, v25.8b\n\tsadalp v" #k ".4s, v26.8h\n\t"
    __asm__ volatile("movi v24.16b, #3\n\tmovi v25.16b, #5\n\t" EACH(BEGIN) "1:\n\t" EACH(
                         STEP) "subs %0, %0, #1\n\tb.ne 1b\n\t"
                     : "+r"(rounds)
                     :
                     : CLOBBERS);
#undef BEGIN
#undef STEP
}

static float read_neon(const void *src, size_t bytes)
{
    const uint8_t *p = src;
    uint8x16_t sums[4] = {vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0), vdupq_n_u8(0)};
    for (size_t i = 0; i < bytes; i += 64)
        for (size_t j = 0; j < 4; j++)
            sums[j] = veorq_u8(sums[j], vld1q_u8(p + i + 16 * j));
    return (float)vaddvq_u8(veorq_u8(veorq_u8(sums[0], sums[1]), veorq_u8(sums[2], sums[3])));
}

static void copy_neon(void *dst, const void *src, size_t bytes)
{
    const uint8_t *from = src;
    uint8_t *to = dst;
    for (size_t i = 0; i < bytes; i += 64) {
        uint8x16_t v[4];
        for (size_t j = 0; j < 4; j++)
            v[j] = vld1q_u8(from + i + 16 * j);
        for (size_t j = 0; j < 4; j++)
            vst1q_u8(to + i + 16 * j, v[j]);
    }
}

/* Stores that pass the caches are left to the library (peak.c). */
void zoe_peaks_fill_neon(zoe_peaks *p)
{
    p->fma_f32 = fma_f32_neon;
    p->fma_f32_work = 2 * 4 * CHAINS;
    p->mul_int8 = mul_int8_neon;
    p->mul_int8_work = 2 * 8 * CHAINS;
    p->read = read_neon;
    p->copy = copy_neon;
}
