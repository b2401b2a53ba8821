/* Norms by the root of a mean square: guests for NEON. What a form says of the caches is not heeded
 * here. */
#include "kernel/arm/vector_neon.h"

/* ---- sums of squares ---- */

typedef struct sums {
    float64x2_t part[4];
} sums;

INLINE sums no_sums(void)
{
    const float64x2_t none = vdupq_n_f64(0.0);
    return (sums){{none, none, none, none}};
}

/* Adds squares in f64, where they are exact. */
INLINE sums add_squares(sums s, v8 v)
{
    const float64x2_t d[4] = {vcvt_f64_f32(vget_low_f32(v.a)), vcvt_high_f64_f32(v.a),
                              vcvt_f64_f32(vget_low_f32(v.b)), vcvt_high_f64_f32(v.b)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        s.part[j] = vfmaq_f64(s.part[j], d[j], d[j]);
    return s;
}

INLINE sums add_rounded(sums s, v8 v, zoe_dtype type)
{
    const v8 q = round8((v8){vmulq_f32(v.a, v.a), vmulq_f32(v.b, v.b)}, type);
    s.part[0] = vaddq_f64(s.part[0], widened_sum(q.a));
    s.part[1] = vaddq_f64(s.part[1], widened_sum(q.b));
    return s;
}

INLINE double total_of(sums s)
{
    return vaddvq_f64(vaddq_f64(vaddq_f64(s.part[0], s.part[1]), vaddq_f64(s.part[2], s.part[3])));
}

INLINE double squares(const void *x, zoe_dtype type, size_t n)
{
    float room[8];
    sums s = no_sums();
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        s = add_squares(s, load8(element_at(x, type, i), type));
    if (i < n)
        s = add_squares(s, load8(part8(room, element_at(x, type, i), type, n - i), type));
    return total_of(s);
}

static double squares_f32_neon(const void *x, size_t n)
{
    return squares(x, ZOE_F32, n);
}

static double squares_f16_neon(const void *x, size_t n)
{
    return squares(x, ZOE_F16, n);
}

static double squares_bf16_neon(const void *x, size_t n)
{
    return squares(x, ZOE_BF16, n);
}

static double squares_rounded_neon(const void *x, zoe_dtype type, size_t n)
{
    float room[8];
    sums s = no_sums();
    for (size_t i = 0; i < n; i += 8) {
        const void *p = element_at(x, type, i);
        s = add_rounded(s, load8(n - i < 8 ? part8(room, p, type, n - i) : p, type), type);
    }
    return total_of(s);
}

/* ---- rms_apply ---- */

INLINE void apply8(void *y, const void *x, const void *gamma, float rstd, zoe_rms_form f)
{
    const v8 in = load8(x, f.x);
    v8 v = round8((v8){vmulq_n_f32(in.a, rstd), vmulq_n_f32(in.b, rstd)}, f.cast);
    if (f.gamma != ZOE_NONE) {
        const float32x4_t one = vdupq_n_f32(1.0f);
        v8 g = round8(load8(gamma, f.gamma), f.weight);
        if (f.one_plus)
            g = (v8){vaddq_f32(one, g.a), vaddq_f32(one, g.b)};
        v = round8((v8){vmulq_f32(v.a, g.a), vmulq_f32(v.b, g.b)}, f.product);
    }
    store8(y, v, f.y);
}

INLINE void apply(void *y, const void *x, const void *gamma, float rstd, zoe_rms_form f, size_t n)
{
    unsigned char *to = y;
    const bool weighted = f.gamma != ZOE_NONE;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        apply8(to + i * bytes_of(f.y), element_at(x, f.x, i),
               weighted ? element_at(gamma, f.gamma, i) : NULL, rstd, f);
    if (i == n)
        return;
    float x_room[8], g_room[8], y_room[8];
    apply8(y_room, part8(x_room, element_at(x, f.x, i), f.x, n - i),
           weighted ? part8(g_room, element_at(gamma, f.gamma, i), f.gamma, n - i) : NULL, rstd, f);
    memcpy(to + i * bytes_of(f.y), y_room, (n - i) * bytes_of(f.y));
}

/* The forms that models use, each a loop of its own without a question in it:
 * FORM(x, y, gamma, cast, weight, product) */
#define FORMS                                                                                      \
    FORM(F32, F32, NONE, NONE, NONE, NONE)                                                         \
    FORM(F32, F32, F32, NONE, NONE, NONE)                                                          \
    FORM(F32, BF16, NONE, NONE, NONE, NONE)                                                        \
    FORM(F32, BF16, F32, NONE, NONE, NONE)                                                         \
    FORM(F32, F16, NONE, NONE, NONE, NONE)                                                         \
    FORM(F32, F16, F32, NONE, NONE, NONE)                                                          \
    FORM(F16, F16, NONE, NONE, NONE, NONE)                                                         \
    FORM(F16, F16, F16, NONE, NONE, NONE)                                                          \
    FORM(F16, F16, F32, NONE, NONE, NONE)                                                          \
    FORM(F16, F32, F32, NONE, NONE, NONE)                                                          \
    FORM(BF16, BF16, NONE, NONE, NONE, NONE)                                                       \
    FORM(BF16, BF16, BF16, NONE, NONE, NONE)                                                       \
    FORM(BF16, BF16, F32, NONE, NONE, NONE)                                                        \
    FORM(BF16, F32, F32, NONE, NONE, NONE)                                                         \
    FORM(BF16, BF16, BF16, BF16, NONE, NONE)                                                       \
    FORM(BF16, BF16, F32, BF16, BF16, NONE)                                                        \
    FORM(BF16, F32, F32, BF16, BF16, BF16)

#define FORM(x_, y_, gamma_, cast_, weight_, product_)                                             \
    static void apply_##x_##_##y_##_##gamma_##_##cast_##weight_##product_(                         \
        void *y, const void *x, const void *gamma, float rstd, size_t n)                           \
    {                                                                                              \
        apply(y, x, gamma, rstd,                                                                   \
              (zoe_rms_form){.x = ZOE_##x_,                                                        \
                             .y = ZOE_##y_,                                                        \
                             .gamma = ZOE_##gamma_,                                                \
                             .cast = ZOE_##cast_,                                                  \
                             .weight = ZOE_##weight_,                                              \
                             .product = ZOE_##product_},                                           \
              n);                                                                                  \
    }
FORMS
#undef FORM

static void rms_apply_neon(void *y, const void *x, const void *gamma, float rstd,
                           const zoe_rms_form *f, size_t n)
{
    if (f->other) {
        zoe_rms_form g = *f;
        g.other = NULL;
        rms_apply_neon(f->other->y, f->other->x, gamma, f->other->rstd, &g, n);
    }
#define FORM(x_, y_, gamma_, cast_, weight_, product_)                                             \
    if (!f->one_plus && f->x == ZOE_##x_ && f->y == ZOE_##y_ && f->gamma == ZOE_##gamma_ &&        \
        f->cast == ZOE_##cast_ && f->weight == ZOE_##weight_ && f->product == ZOE_##product_) {    \
        apply_##x_##_##y_##_##gamma_##_##cast_##weight_##product_(y, x, gamma, rstd, n);           \
        return;                                                                                    \
    }
    FORMS
#undef FORM
    apply(y, x, gamma, rstd, *f, n); /* asks for its types as it goes */
}

/* ---- l2_apply ---- */

INLINE float32x4_t l2_value(float32x4_t v, const float *gamma, const float *bias,
                            const zoe_l2_form *f)
{
    v = round4(vdivq_f32(v, vdupq_n_f32(f->norm)), f->round);
    v = round4(vmulq_n_f32(v, f->root), f->round);
    if (gamma)
        v = round4(vmulq_f32(v, vld1q_f32(gamma)), f->round);
    if (bias)
        v = round4(vaddq_f32(v, vld1q_f32(bias)), f->round);
    return f->silu ? silu_v(v) : v;
}

INLINE void l2_8(void *y, const void *x, const float *gamma, const float *bias,
                 const zoe_l2_form *f)
{
    const v8 v = load8(x, f->x);
    const v8 w = {l2_value(v.a, gamma, bias, f),
                  l2_value(v.b, gamma ? gamma + 4 : NULL, bias ? bias + 4 : NULL, f)};
    store8(y, w, f->y);
}

INLINE void l2(void *y, const void *x, const float *gamma, const float *bias, const zoe_l2_form *f,
               size_t n)
{
    unsigned char *to = y;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        l2_8(to + i * bytes_of(f->y), element_at(x, f->x, i), gamma ? gamma + i : NULL,
             bias ? bias + i : NULL, f);
    if (i == n)
        return;
    float x_room[8], g_room[8], b_room[8], y_room[8];
    l2_8(y_room, part8(x_room, element_at(x, f->x, i), f->x, n - i),
         gamma ? part8(g_room, gamma + i, ZOE_F32, n - i) : NULL,
         bias ? part8(b_room, bias + i, ZOE_F32, n - i) : NULL, f);
    memcpy(to + i * bytes_of(f->y), y_room, (n - i) * bytes_of(f->y));
}

static void l2_apply_neon(void *y, const void *x, const float *gamma, const float *bias,
                          const zoe_l2_form *f, size_t n)
{
    zoe_l2_form plain = {.x = ZOE_F32, .y = ZOE_F32, .norm = f->norm, .root = f->root};
    if (f->x != ZOE_F32 || f->y != ZOE_F32 || f->round != ZOE_NONE || !gamma || bias) {
        l2(y, x, gamma, bias, f, n);
    } else if (f->silu) { /* the form of the video autoencoder */
        plain.silu = true;
        l2(y, x, gamma, NULL, &plain, n);
    } else {
        l2(y, x, gamma, NULL, &plain, n);
    }
}

/* ---- the rest ---- */

static void add_rows_neon(float *y, const void *a, const void *b, zoe_dtype type, bool round,
                          size_t n)
{
    float a_room[8], b_room[8], y_room[8];
    for (size_t i = 0; i < n; i += 8) {
        const size_t part = n - i < 8 ? n - i : 8;
        const void *p = element_at(a, type, i), *q = element_at(b, type, i);
        const v8 v = load8(part < 8 ? part8(a_room, p, type, part) : p, type);
        const v8 w = load8(part < 8 ? part8(b_room, q, type, part) : q, type);
        const v8 sum = {vaddq_f32(v.a, w.a), vaddq_f32(v.b, w.b)};
        store8(part < 8 ? y_room : y + i, round8(sum, round ? type : ZOE_NONE), ZOE_F32);
        if (part < 8)
            memcpy(y + i, y_room, part * sizeof *y);
    }
}

INLINE void shift_scale4(float *y, const float *x, const float *shift, const float *scale, size_t i,
                         size_t part)
{
    float32x4_t v = load_part(x + i, part);
    if (shift)
        v = vaddq_f32(v, load_part(shift + i, part));
    if (scale)
        v = vmulq_f32(v, load_part(scale + i, part));
    store_part(y + i, v, part);
}

static void shift_scale_neon(float *y, const float *x, const float *shift, const float *scale,
                             size_t n)
{
#define FOUR(i, part) shift_scale4(y, x, shift, scale, i, part)
    EACH_FOUR(n, FOUR);
#undef FOUR
}

/* Four values rounded to nearest even, within 16 bits; the conversion makes NaN 0. */
INLINE int16x4_t quantised(const float *x, const float *scale, const float *offset, bool divide,
                           size_t n)
{
    const float32x4_t v = load_part(x, n), s = load_part_or(scale, n, 1.0f);
    float32x4_t w = divide ? vdivq_f32(v, s) : vmulq_f32(v, s);
    if (offset)
        w = vaddq_f32(w, load_part(offset, n));
    return vqmovn_s32(vcvtnq_s32_f32(w));
}

static void quantise_neon(int8_t *q, const float *x, const float *scale, const float *offset,
                          bool divide, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const int16x4_t low = quantised(x + i, scale + i, offset ? offset + i : NULL, divide, 4);
        const int16x4_t high =
            quantised(x + i + 4, scale + i + 4, offset ? offset + i + 4 : NULL, divide, 4);
        vst1_s8(q + i, vqmovn_s16(vcombine_s16(low, high)));
    }
    for (; i < n; i += 4) {
        const int16x4_t v = quantised(x + i, scale + i, offset ? offset + i : NULL, divide, n - i);
        int8_t bytes[8];
        vst1_s8(bytes, vqmovn_s16(vcombine_s16(v, v)));
        memcpy(q + i, bytes, n - i < 4 ? n - i : 4);
    }
}

void zoe_kernels_fill_rms_neon(zoe_kernels *k)
{
    k->squares_f32 = squares_f32_neon;
    k->squares_f16 = squares_f16_neon;
    k->squares_bf16 = squares_bf16_neon;
    k->squares_rounded = squares_rounded_neon;
    k->rms_apply = rms_apply_neon;
    k->l2_apply = l2_apply_neon;
    k->add_rows = add_rows_neon;
    k->shift_scale = shift_scale_neon;
    k->quantise = quantise_neon;
}
