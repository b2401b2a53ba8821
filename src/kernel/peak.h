/* What this core can do at most, for benchmarks: loops that are limited by one thing only. The ones
 * that suit the rung in use (zoe_cpu_isa) are given. */
#ifndef ZOE_PEAK_H
#define ZOE_PEAK_H

#include "base/base.h"

typedef struct zoe_peaks {
    /* `rounds` times so many independent operations, multiplications and additions counted. */
    void (*fma_f32)(size_t rounds);
    size_t fma_f32_work;
    /* Products of bytes, summed in 32 bits. */
    void (*mul_int8)(size_t rounds);
    size_t mul_int8_work;
    /* 64-byte aligned memory, whole multiples of 256 bytes. copy_stream goes past the caches. */
    float (*read)(const void *src, size_t bytes); /* a value that depends on every byte */
    void (*copy)(void *dst, const void *src, size_t bytes);
    void (*copy_stream)(void *dst, const void *src, size_t bytes);
} zoe_peaks;

zoe_peaks zoe_peaks_get(void);

/* The rungs, for peak.c: each replaces what it has. */
#if defined(__x86_64__)
void zoe_peaks_fill_avx2(zoe_peaks *p);
void zoe_peaks_fill_avx512(zoe_peaks *p);
#elif defined(__aarch64__)
void zoe_peaks_fill_neon(zoe_peaks *p);
#endif

#endif
