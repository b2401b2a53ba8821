/* Products: guests for NEON. */
#include "kernel/arm/tile_neon.h"

/* out[i * ZOE_PANEL + r] = v_r[i] */
INLINE void store_transposed(float *out, float32x4_t v0, float32x4_t v1, float32x4_t v2,
                             float32x4_t v3)
{
    const float64x2_t even_left = vreinterpretq_f64_f32(vtrn1q_f32(v0, v1));
    const float64x2_t odd_left = vreinterpretq_f64_f32(vtrn2q_f32(v0, v1));
    const float64x2_t even_right = vreinterpretq_f64_f32(vtrn1q_f32(v2, v3));
    const float64x2_t odd_right = vreinterpretq_f64_f32(vtrn2q_f32(v2, v3));
    vst1q_f32(out, vreinterpretq_f32_f64(vtrn1q_f64(even_left, even_right)));
    vst1q_f32(out + ZOE_PANEL, vreinterpretq_f32_f64(vtrn1q_f64(odd_left, odd_right)));
    vst1q_f32(out + 2 * ZOE_PANEL, vreinterpretq_f32_f64(vtrn2q_f64(even_left, even_right)));
    vst1q_f32(out + 3 * ZOE_PANEL, vreinterpretq_f32_f64(vtrn2q_f64(odd_left, odd_right)));
}

/* Eight elements of each row at a time. */
INLINE void pack_rows(float *panel, const void *w, size_t stride, size_t rows, size_t k,
                      zoe_dtype type)
{
    const v8 zero = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
    size_t i = 0;
    for (; i + 8 <= k; i += 8)
        for (size_t r = 0; r < ZOE_PANEL; r += 4) {
            float *out = panel + i * ZOE_PANEL + r;
            v8 v[4];
#pragma GCC unroll 4
            for (size_t j = 0; j < 4; j++)
                v[j] = r + j < rows ? load8(element_at(w, type, (r + j) * stride + i), type) : zero;
            store_transposed(out, v[0].a, v[1].a, v[2].a, v[3].a);
            store_transposed(out + 4 * ZOE_PANEL, v[0].b, v[1].b, v[2].b, v[3].b);
        }
    for (; i < k; i++)
        for (size_t r = 0; r < ZOE_PANEL; r++)
            panel[i * ZOE_PANEL + r] = r < rows ? zoe_load_f32(w, type, r * stride + i) : 0.0f;
}

INLINE void pack(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k,
                 zoe_dtype type)
{
    if (rows == ZOE_PANEL)
        pack_rows(panel, w, (size_t)stride, ZOE_PANEL, k, type);
    else
        pack_rows(panel, w, (size_t)stride, rows, k, type);
}

static void pack_f32_neon(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, ZOE_F32);
}

static void pack_f16_neon(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, ZOE_F16);
}

static void pack_bf16_neon(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, ZOE_BF16);
}

static void pack_f8_e4m3_neon(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, ZOE_F8_E4M3);
}

static void pack_f8_e5m2_neon(float *panel, const void *w, ptrdiff_t stride, size_t rows, size_t k)
{
    pack(panel, w, stride, rows, k, ZOE_F8_E5M2);
}

static void scale_panel_neon(float *panel, const float *factors, size_t k)
{
    const v8 left = load8(factors, ZOE_F32), right = load8(factors + 8, ZOE_F32);
    for (size_t i = 0; i < k; i++, panel += ZOE_PANEL) {
        const v8 p = load8(panel, ZOE_F32), q = load8(panel + 8, ZOE_F32);
        store8(panel, (v8){vmulq_f32(p.a, left.a), vmulq_f32(p.b, left.b)}, ZOE_F32);
        store8(panel + 8, (v8){vmulq_f32(q.a, right.a), vmulq_f32(q.b, right.b)}, ZOE_F32);
    }
}

INLINE void slice(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k,
                  zoe_dtype type)
{
    for (size_t i = 0; i < k; i++, panel += ZOE_PANEL) {
        const void *p = element_at(w, type, i * (size_t)stride);
        if (columns == ZOE_PANEL) {
            store8(panel, load8(p, type), ZOE_F32);
            store8(panel + 8, load8(element_at(p, type, 8), type), ZOE_F32);
        } else {
            zoe_widen(panel, p, type, columns);
            memset(panel + columns, 0, (ZOE_PANEL - columns) * sizeof *panel);
        }
    }
}

static void slice_f32_neon(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k)
{
    slice(panel, w, stride, columns, k, ZOE_F32);
}

static void slice_bf16_neon(float *panel, const void *w, ptrdiff_t stride, size_t columns, size_t k)
{
    slice(panel, w, stride, columns, k, ZOE_BF16);
}

INLINE void gemm_rows(float *c, size_t c_stride, const float *a, size_t a_stride,
                      const float *panel, const size_t rows, size_t k, bool add)
{
    float32x4_t s[TILE_ROWS][TILE_PARTS];
    tile_sums(s, a, a_stride, panel, rows, k);
#pragma GCC unroll 6
    for (size_t m = 0; m < rows; m++)
#pragma GCC unroll 4
        for (size_t j = 0; j < TILE_PARTS; j++) {
            float *out = c + m * c_stride + 4 * j;
            vst1q_f32(out, add ? vaddq_f32(s[m][j], vld1q_f32(out)) : s[m][j]);
        }
}

static void gemm_neon(float *c, size_t c_stride, const float *a, size_t a_stride,
                      const float *panel, size_t rows, size_t k, bool add)
{
#define TILE(m, n)                                                                                 \
    gemm_rows(c + (m)*c_stride, c_stride, a + (m)*a_stride, a_stride, panel, n, k, add)
    EACH_TILE(rows, TILE);
#undef TILE
}

INLINE float32x4_t activated(float32x4_t v, const zoe_activation activation)
{
    switch (activation) {
    case ZOE_ACT_SILU: return silu_v(v);
    case ZOE_ACT_GELU_TANH: return gelu_tanh_v(v);
    case ZOE_ACT_GELU_ERF: return gelu_erf_v(v);
    case ZOE_ACT_GELU_SIGMOID: return gelu_sigmoid_v(v);
    case ZOE_ACT_NONE: break;
    }
    return v;
}

INLINE void finish4(float *y, const float *x, const zoe_finishing *f, size_t i, size_t part,
                    const zoe_activation activation)
{
    float32x4_t v = load_part(x + i, part);
    if (f->bias)
        v = vaddq_f32(v, load_part(f->bias + i, part));
    if (f->round)
        v = round_to_bf16(v);
    v = activated(v, activation);
    if (f->round && activation != ZOE_ACT_NONE)
        v = round_to_bf16(v);
    if (f->gate)
        v = vmulq_f32(v, load_part(f->gate + i, part));
    if (f->residual)
        v = vaddq_f32(v, load_part(f->residual + i, part));
    store_part(y + i, v, part);
}

INLINE void finish(float *y, const float *x, const zoe_finishing *f, size_t n,
                   const zoe_activation activation)
{
#define FOUR(i, part) finish4(y, x, f, i, part, activation)
    EACH_FOUR(n, FOUR);
#undef FOUR
}

static void finish_neon(float *y, const float *x, const zoe_finishing *f, size_t n)
{
    switch (f->activation) {
    case ZOE_ACT_NONE: finish(y, x, f, n, ZOE_ACT_NONE); break;
    case ZOE_ACT_SILU: finish(y, x, f, n, ZOE_ACT_SILU); break;
    case ZOE_ACT_GELU_TANH: finish(y, x, f, n, ZOE_ACT_GELU_TANH); break;
    case ZOE_ACT_GELU_ERF: finish(y, x, f, n, ZOE_ACT_GELU_ERF); break;
    case ZOE_ACT_GELU_SIGMOID: finish(y, x, f, n, ZOE_ACT_GELU_SIGMOID); break;
    }
}

/* By way of a panel, so that there is one order of operations. */
static void few(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                ptrdiff_t stride, size_t rows, size_t k, bool add, zoe_kernel_pack *pack_w)
{
    float panel[ZOE_FEW_DEPTH * ZOE_PANEL];
    pack_w(panel, w, stride, ZOE_PANEL, k);
    gemm_neon(c, c_stride, a, a_stride, panel, rows, k, add);
}

static void few_f32_neon(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                         ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, stride, rows, k, add, pack_f32_neon);
}

static void few_f16_neon(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                         ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, stride, rows, k, add, pack_f16_neon);
}

static void few_bf16_neon(float *c, size_t c_stride, const float *a, size_t a_stride, const void *w,
                          ptrdiff_t stride, size_t rows, size_t k, bool add)
{
    few(c, c_stride, a, a_stride, w, stride, rows, k, add, pack_bf16_neon);
}

void zoe_kernels_fill_gemm_neon(zoe_kernels *k)
{
    k->pack_f32 = pack_f32_neon;
    k->pack_f16 = pack_f16_neon;
    k->pack_bf16 = pack_bf16_neon;
    k->pack_f8_e4m3 = pack_f8_e4m3_neon;
    k->pack_f8_e5m2 = pack_f8_e5m2_neon;
    k->scale_panel = scale_panel_neon;
    k->slice_f32 = slice_f32_neon;
    k->slice_bf16 = slice_bf16_neon;
    k->gemm = gemm_neon;
    k->few_f32 = few_f32_neon;
    k->few_f16 = few_f16_neon;
    k->few_bf16 = few_bf16_neon;
    k->finish = finish_neon;
}
