/* A tile of a product: up to six rows times one panel. */
#ifndef ZOE_TILE_NEON_H
#define ZOE_TILE_NEON_H

#include "kernel/arm/vector_neon.h"

/* 24 sums, 4 registers for the panel's row, and the other 4 of 32 for elements of the rows, which are
 * multiplied by lane. */
enum { TILE_ROWS = 6, TILE_PARTS = ZOE_PANEL / 4 };

/* s[m][j] = sum over i < k of a[m][i] * panel[i][4 j ..], i ascending. `rows` <= TILE_ROWS is a constant
 * at each call, so that the sums are registers. */
INLINE void tile_sums(float32x4_t s[TILE_ROWS][TILE_PARTS], const float *a, size_t a_stride,
                      const float *panel, const size_t rows, size_t k)
{
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (size_t j = 0; j < TILE_PARTS; j++)
            s[m][j] = vdupq_n_f32(0.0f);
    for (size_t i = 0; i < k; i++, panel += ZOE_PANEL) {
        float32x4_t p[TILE_PARTS];
#pragma GCC unroll 4
        for (size_t j = 0; j < TILE_PARTS; j++)
            p[j] = vld1q_f32(panel + 4 * j);
#pragma GCC unroll 6
        for (size_t m = 0; m < rows; m++) {
            const float x = a[m * a_stride + i];
#pragma GCC unroll 4
            for (size_t j = 0; j < TILE_PARTS; j++)
                s[m][j] = vfmaq_n_f32(s[m][j], p[j], x);
        }
    }
}

/* DO(m, n) for tiles of n rows from row m on; n is a constant each time. */
#define EACH_TILE(rows, DO)                                                                        \
    do {                                                                                           \
        size_t tile_m = 0;                                                                         \
        for (; tile_m + TILE_ROWS <= (rows); tile_m += TILE_ROWS)                                  \
            DO(tile_m, TILE_ROWS);                                                                 \
        switch ((rows)-tile_m) {                                                                   \
        case 5: DO(tile_m, 5); break;                                                              \
        case 4: DO(tile_m, 4); break;                                                              \
        case 3: DO(tile_m, 3); break;                                                              \
        case 2: DO(tile_m, 2); break;                                                              \
        case 1: DO(tile_m, 1); break;                                                              \
        default: break;                                                                            \
        }                                                                                          \
    } while (0)

#endif
