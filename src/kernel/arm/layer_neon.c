/* LayerNorm, modulation and gated residuals: guests for NEON. One body a kind, for every type: the types
 * are constants where it is called, so each kernel is a loop of its own without branches. What a form
 * says of the caches is not heeded here. */
#include "kernel/arm/vector_neon.h"

/* ---- sums ---- */

/* Lanes of the sums of half types, and elements that are added in f32 before they go on in f64. */
enum { LANES = 32, RUN = 1024 };

INLINE void sums_f32(double sums[2], const float *x, float shift, size_t n)
{
    const float64x2_t s = vdupq_n_f64((double)shift), none = vdupq_n_f64(0.0);
    float64x2_t plain[4] = {none, none, none, none}, square[4] = {none, none, none, none};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const v8 v = load8(x + i, ZOE_F32);
        const float64x2_t d[4] = {
            vsubq_f64(vcvt_f64_f32(vget_low_f32(v.a)), s), vsubq_f64(vcvt_high_f64_f32(v.a), s),
            vsubq_f64(vcvt_f64_f32(vget_low_f32(v.b)), s), vsubq_f64(vcvt_high_f64_f32(v.b), s)};
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            plain[j] = vaddq_f64(plain[j], d[j]);
            square[j] = vfmaq_f64(square[j], d[j], d[j]);
        }
    }
    double rest[2] = {0.0, 0.0};
    for (; i < n; i++) {
        const double d = (double)x[i] - (double)shift;
        rest[0] += d;
        rest[1] += d * d;
    }
    sums[0] += vaddvq_f64(vaddq_f64(vaddq_f64(plain[0], plain[1]), vaddq_f64(plain[2], plain[3]))) +
               rest[0];
    sums[1] +=
        vaddvq_f64(vaddq_f64(vaddq_f64(square[0], square[1]), vaddq_f64(square[2], square[3]))) +
        rest[1];
}

INLINE void add_half(float32x4_t *plain, float32x4_t *square, float32x4_t v, float32x4_t shift)
{
    const float32x4_t d = vsubq_f32(v, shift);
    *plain = vaddq_f32(*plain, d);
    *square = vfmaq_f32(*square, d, d);
}

/* The sums of up to RUN elements. */
INLINE void sums_run(float64x2_t sums[2], const void *x, zoe_dtype type, float shift, size_t n)
{
    enum { PARTS = LANES / 4 };
    const float32x4_t s = vdupq_n_f32(shift);
    float32x4_t plain[PARTS], square[PARTS];
    size_t i = 0;
#pragma GCC unroll 8
    for (int j = 0; j < PARTS; j++)
        plain[j] = square[j] = vdupq_n_f32(0.0f);
    for (; i + LANES <= n; i += LANES)
#pragma GCC unroll 4
        for (size_t j = 0; j < PARTS; j += 2) {
            const v8 v = load8(element_at(x, type, i + 4 * j), type);
            add_half(&plain[j], &square[j], v.a, s);
            add_half(&plain[j + 1], &square[j + 1], v.b, s);
        }
    for (; i < n; i += 8) { /* elements that are not there are made `shift` */
        float room[8];
        const size_t left = n - i < 8 ? n - i : 8;
        for (size_t j = left; j < 8; j++)
            room[j] = shift;
        zoe_widen(room, element_at(x, type, i), type, left);
        const v8 v = load8(room, ZOE_F32);
        add_half(&plain[0], &square[0], v.a, s);
        add_half(&plain[1], &square[1], v.b, s);
    }
#pragma GCC unroll 8
    for (int j = 0; j < PARTS; j++) {
        sums[0] = vaddq_f64(sums[0], widened_sum(plain[j]));
        sums[1] = vaddq_f64(sums[1], widened_sum(square[j]));
    }
}

INLINE void sums_half(double sums[2], const void *x, zoe_dtype type, float shift, size_t n)
{
    float64x2_t total[2] = {vdupq_n_f64(0.0), vdupq_n_f64(0.0)};
    for (size_t i = 0; i < n; i += RUN)
        sums_run(total, element_at(x, type, i), type, shift, n - i < RUN ? n - i : RUN);
    sums[0] += vaddvq_f64(total[0]);
    sums[1] += vaddvq_f64(total[1]);
}

INLINE void sums_of(double sums[2], const void *x, zoe_dtype type, float shift, size_t n)
{
    if (type == ZOE_F32)
        sums_f32(sums, x, shift, n);
    else
        sums_half(sums, x, type, shift, n);
}

/* ---- apply ---- */

INLINE float32x4_t normed(float32x4_t x, const zoe_layer_form *f, const bool exact)
{
    const float32x4_t f_mean = vdupq_n_f32(f->mean), offset = vdupq_n_f32(f->offset);
    const float32x4_t d = vsubq_f32(x, f_mean);
    if (!exact)
        return vfmaq_n_f32(offset, d, f->rstd + f->rest);
    const float32x4_t settled = vdupq_n_f32(isfinite(f->rstd) ? f->rstd : 0.0f);
    const float32x4_t mean = vsubq_f32(x, d), back = vaddq_f32(d, mean);
    float32x4_t low = vfmaq_n_f32(offset, d, f->rest);
    low = vfmsq_f32(low, vsubq_f32(f_mean, mean), settled);
    low = vfmsq_f32(low, vsubq_f32(back, x), settled);
    return vfmaq_n_f32(low, d, f->rstd);
}

INLINE float32x4_t formed(float32x4_t v, const zoe_layer_form *f, size_t i, const bool weighted,
                          const bool exact)
{
    v = normed(v, f, exact);
    if (weighted)
        v = vaddq_f32(vmulq_f32(v, vld1q_f32(f->weight + i)), vld1q_f32(f->bias + i));
    return v;
}

INLINE void apply8(void *y, zoe_dtype y_type, const void *x, zoe_dtype x_type,
                   const zoe_layer_form *f, size_t i, const bool weighted, const bool exact)
{
    const v8 v = load8(x, x_type);
    store8(y, (v8){formed(v.a, f, i, weighted, exact), formed(v.b, f, i + 4, weighted, exact)},
           y_type);
}

INLINE void apply_all(void *y, zoe_dtype y_type, const void *x, zoe_dtype x_type,
                      const zoe_layer_form *form, size_t n, const bool weighted, const bool exact)
{
    zoe_layer_form f = *form;
    unsigned char *to = y;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        apply8(to + i * bytes_of(y_type), y_type, element_at(x, x_type, i), x_type, &f, i, weighted,
               exact);
    if (i == n)
        return;
    float x_room[8], y_room[8], weight[8], bias[8];
    if (weighted) {
        f.weight = part8(weight, f.weight + i, ZOE_F32, n - i);
        f.bias = part8(bias, f.bias + i, ZOE_F32, n - i);
    }
    apply8(y_room, y_type, part8(x_room, element_at(x, x_type, i), x_type, n - i), x_type, &f, 0,
           weighted, exact);
    memcpy(to + i * bytes_of(y_type), y_room, (n - i) * bytes_of(y_type));
}

INLINE void apply_one(void *y, zoe_dtype y_type, const void *x, zoe_dtype x_type,
                      const zoe_layer_form *f, size_t n)
{
    const bool exact = y_type == ZOE_F32 && f->exact;
    if (f->weight && exact)
        apply_all(y, y_type, x, x_type, f, n, true, true);
    else if (f->weight)
        apply_all(y, y_type, x, x_type, f, n, true, false);
    else if (exact)
        apply_all(y, y_type, x, x_type, f, n, false, true);
    else
        apply_all(y, y_type, x, x_type, f, n, false, false);
}

INLINE void apply_of(void *y, zoe_dtype y_type, const void *x, zoe_dtype x_type,
                     const zoe_layer_form *f, size_t n)
{
    apply_one(y, y_type, x, x_type, f, n);
    if (f->other) {
        const zoe_layer_form other = zoe_layer_form_of_other(f);
        apply_one(f->other->y, y_type, f->other->x, x_type, &other, n);
    }
}

/* ---- gate ---- */

INLINE void gate8(void *y, const void *x, zoe_dtype x_type, const void *h, zoe_dtype h_type,
                  const float *gate)
{
    const v8 v = load8(x, x_type), w = load8(h, h_type), g = load8(gate, ZOE_F32);
    store8(y, (v8){vaddq_f32(v.a, vmulq_f32(g.a, w.a)), vaddq_f32(v.b, vmulq_f32(g.b, w.b))},
           x_type);
}

INLINE void gate_of(void *y, const void *x, zoe_dtype x_type, const void *h, zoe_dtype h_type,
                    const float *gate, size_t n)
{
    unsigned char *to = y;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        gate8(to + i * bytes_of(x_type), element_at(x, x_type, i), x_type, element_at(h, h_type, i),
              h_type, gate + i);
    if (i == n)
        return;
    float x_room[8], h_room[8], g_room[8], y_room[8];
    gate8(y_room, part8(x_room, element_at(x, x_type, i), x_type, n - i), x_type,
          part8(h_room, element_at(h, h_type, i), h_type, n - i), h_type,
          part8(g_room, gate + i, ZOE_F32, n - i));
    memcpy(to + i * bytes_of(x_type), y_room, (n - i) * bytes_of(x_type));
}

INLINE float32x4_t weight_of(float32x4_t v, float add)
{
    const float32x4_t plain_nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000u));
    return vbslq_f32(vceqq_f32(v, v), vaddq_f32(v, vdupq_n_f32(add)), plain_nan);
}

static void layer_weight_neon(float *y, const float *x, float add, size_t n)
{
#define FOUR(i, part) store_part(y + (i), weight_of(load_part(x + (i), part), add), part)
    EACH_FOUR(n, FOUR);
#undef FOUR
}

#define LAYER_NAME(name) name##_neon
#include "kernel/layer_types.h"

void zoe_kernels_fill_layer_neon(zoe_kernels *k)
{
    k->layer_weight = layer_weight_neon;
    fill_types(k);
}
