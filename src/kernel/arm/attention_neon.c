/* Attention's products and the merging of its parts: guests for NEON. */
#include "kernel/arm/tile_neon.h"

INLINE void attend_rows(float *c, size_t c_stride, const float *factors, const float *a,
                        size_t a_stride, const float *panel, const size_t rows, size_t k)
{
    float32x4_t s[TILE_ROWS][TILE_PARTS];
    tile_sums(s, a, a_stride, panel, rows, k);
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (size_t j = 0; j < TILE_PARTS; j++) {
            float *out = c + m * c_stride + 4 * j;
            vst1q_f32(out, factors ? vfmaq_n_f32(s[m][j], vld1q_f32(out), factors[m]) : s[m][j]);
        }
}

static void attend_neon(float *c, size_t c_stride, const float *factors, const float *a,
                        size_t a_stride, const float *panel, size_t rows, size_t k)
{
#define TILE(m, n)                                                                                 \
    attend_rows(c + (m)*c_stride, c_stride, factors ? factors + (m) : NULL, a + (m)*a_stride,      \
                a_stride, panel, n, k)
    EACH_TILE(rows, TILE);
#undef TILE
}

INLINE void spread(float *y, size_t distance, const void *x, ptrdiff_t stride, size_t width,
                   size_t k, zoe_dtype type)
{
    for (size_t i = 0; i < k; i++, y += ZOE_PANEL) {
        const void *p = element_at(x, type, i * (size_t)stride);
        float *to = y;
        size_t d = 0;
        for (; d + ZOE_PANEL <= width; d += ZOE_PANEL, to += distance) {
            store8(to, load8(element_at(p, type, d), type), ZOE_F32);
            store8(to + 8, load8(element_at(p, type, d + 8), type), ZOE_F32);
        }
        if (d < width) {
            zoe_widen(to, element_at(p, type, d), type, width - d);
            memset(to + (width - d), 0, (ZOE_PANEL - (width - d)) * sizeof *to);
        }
    }
}

static void spread_f32_neon(float *y, size_t distance, const void *x, ptrdiff_t stride,
                            size_t width, size_t k)
{
    spread(y, distance, x, stride, width, k, ZOE_F32);
}

static void spread_f16_neon(float *y, size_t distance, const void *x, ptrdiff_t stride,
                            size_t width, size_t k)
{
    spread(y, distance, x, stride, width, k, ZOE_F16);
}

static void spread_bf16_neon(float *y, size_t distance, const void *x, ptrdiff_t stride,
                             size_t width, size_t k)
{
    spread(y, distance, x, stride, width, k, ZOE_BF16);
}

static void add_weighted_neon(float *y, const float *x, float weight, size_t n)
{
#define FOUR(i, part)                                                                              \
    store_part(y + (i),                                                                            \
               vaddq_f32(load_part(y + (i), part), vmulq_n_f32(load_part(x + (i), part), weight)), \
               part)
    EACH_FOUR(n, FOUR);
#undef FOUR
}

void zoe_kernels_fill_attention_neon(zoe_kernels *k)
{
    k->attend = attend_neon;
    k->spread_f32 = spread_f32_neon;
    k->spread_f16 = spread_f16_neon;
    k->spread_bf16 = spread_bf16_neon;
    k->add_weighted = add_weighted_neon;
}
