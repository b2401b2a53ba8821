/* Peaks of AVX-512, with VNNI where the cpu has it. Memory gains nothing beyond what AVX2 does. */
#include "kernel/peak.h"

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define CLOBBERS                                                                                   \
    "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",       \
        "zmm11", "zmm12", "zmm13", "cc"
enum { CHAINS = 10 };

static void fma_f32_avx512(size_t rounds)
{
    const float factor = 0.999999f, addend = 1e-7f;
    if (rounds == 0)
        return;
#define BEGIN(k) "vmovaps %%zmm12, %%zmm" #k "\n\t"
#define STEP(k) "vfmadd213ps %%zmm13, %%zmm12, %%zmm" #k "\n\t"
    __asm__ volatile("vbroadcastss %1, %%zmm12\n\tvbroadcastss %2, %%zmm13\n\t" EACH(
                         BEGIN) "1:\n\t" EACH(STEP) "dec %0\n\tjnz 1b\n\t"
                     : "+r"(rounds)
                     : "m"(factor), "m"(addend)
                     : CLOBBERS);
#undef BEGIN
#undef STEP
}

#define BEGIN(k) "vpxord %%zmm" #k ", %%zmm" #k ", %%zmm" #k "\n\t"
#define ZERO_OPERANDS                                                                              \
    "vpxord %%zmm11, %%zmm11, %%zmm11\n\tvpxord %%zmm12, %%zmm12, %%zmm12\n\t"                     \
    "vpxord %%zmm13, %%zmm13, %%zmm13\n\t"

static void mul_int8_avx512(size_t rounds)
{
    if (rounds == 0)
        return;
#define STEP(k)                                                                                    \
    "vpmaddubsw %%zmm12, %%zmm11, %%zmm10\n\tvpmaddwd %%zmm13, %%zmm10, %%zmm10\n\t"               \
    "vpaddd %%zmm10, %%zmm" #k ", %%zmm" #k "\n\t"
    __asm__ volatile(ZERO_OPERANDS EACH(BEGIN) "1:\n\t" EACH(STEP) "dec %0\n\tjnz 1b\n\t"
                     : "+r"(rounds)
                     :
                     : CLOBBERS);
#undef STEP
}

static void mul_int8_vnni(size_t rounds)
{
    if (rounds == 0)
        return;
#define STEP(k) "vpdpbusd %%zmm12, %%zmm11, %%zmm" #k "\n\t"
    __asm__ volatile(ZERO_OPERANDS EACH(BEGIN) "1:\n\t" EACH(STEP) "dec %0\n\tjnz 1b\n\t"
                     : "+r"(rounds)
                     :
                     : CLOBBERS);
#undef STEP
}

void zoe_peaks_fill_avx512(zoe_peaks *p)
{
    p->fma_f32 = fma_f32_avx512;
    p->fma_f32_work = 2 * 16 * CHAINS;
    p->mul_int8 = zoe_cpu_extras_get().vnni ? mul_int8_vnni : mul_int8_avx512;
    p->mul_int8_work = 2 * 64 * CHAINS;
}
