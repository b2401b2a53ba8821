/* Norms by the root of a mean square: guests for AVX2. */
#include "kernel/x86/row_avx2.h"

/* ---- sums of squares ---- */

typedef struct sums {
    __m256d a, b;
} sums;

ROW_INLINE sums add_square(sums s, __m256 v)
{
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    return (sums){_mm256_fmadd_pd(low, low, s.a), _mm256_fmadd_pd(high, high, s.b)};
}

ROW_INLINE sums add_wide(sums s, __m256 v)
{
    return (sums){_mm256_add_pd(s.a, _mm256_cvtps_pd(_mm256_castps256_ps128(v))),
                  _mm256_add_pd(s.b, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)))};
}

ROW_INLINE double total_of(sums s)
{
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(s.a, s.b));
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* Elements of a block whose squares are added in f32: 64 lanes, 4 each, then those of 8 vectors in
 * pairs. Its sum is then wrong by less than 4 units of 2^-24; longer blocks would show in rows of equal
 * values. */
enum { BLOCK = 256 };

ROW_INLINE v16 square16(v16 sum, const void *x, zoe_dtype type, size_t i)
{
    const v16 w = row_load(row_at(x, type, i), type, true);
    return (v16){_mm256_fmadd_ps(w.a, w.a, sum.a), _mm256_fmadd_ps(w.b, w.b, sum.b)};
}

/* One block of f32 sums. */
ROW_INLINE sums add_block(sums s, const void *x, zoe_dtype type)
{
    const v16 zero = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    v16 a = zero, b = zero, c = zero, d = zero;
    for (size_t i = 0; i < BLOCK; i += 64) {
        a = square16(a, x, type, i);
        b = square16(b, x, type, i + 16);
        c = square16(c, x, type, i + 32);
        d = square16(d, x, type, i + 48);
    }
    const __m256 ab = _mm256_add_ps(_mm256_add_ps(a.a, a.b), _mm256_add_ps(b.a, b.b));
    const __m256 cd = _mm256_add_ps(_mm256_add_ps(c.a, c.b), _mm256_add_ps(d.a, d.b));
    return add_wide(s, _mm256_add_ps(ab, cd));
}

/* What follows the blocks, and rows in which f32 would overflow or lose digits, in double. */
ROW_INLINE sums add_rest(sums s, const void *x, zoe_dtype type, size_t n)
{
    float room[16];
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const v16 v = row_load(row_at(x, type, i), type, true);
        s = add_square(add_square(s, v.a), v.b);
    }
    if (i < n) {
        const v16 v = row_load(row_part(room, row_at(x, type, i), type, n - i), type, true);
        s = add_square(add_square(s, v.a), v.b);
    }
    return s;
}

ROW_INLINE double squares(const void *x, zoe_dtype type, size_t n)
{
    const sums zero = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    sums s = zero;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        s = add_block(s, row_at(x, type, i), type);
    const double total = total_of(add_rest(s, row_at(x, type, i), type, n - i));
    /* A square below 2^-126 is wrong by up to 2^-150. */
    if (n < BLOCK || (total >= (double)n * 0x1p-120 && total < INFINITY))
        return total;
    return total_of(add_rest(zero, x, type, n));
}

static double squares_f32_avx2(const void *x, size_t n)
{
    return squares(x, ZOE_F32, n);
}

static double squares_f16_avx2(const void *x, size_t n)
{
    return squares(x, ZOE_F16, n);
}

static double squares_bf16_avx2(const void *x, size_t n)
{
    return squares(x, ZOE_BF16, n);
}

static double squares_rounded_avx2(const void *x, zoe_dtype type, size_t n)
{
    float room[16];
    sums s = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    for (size_t i = 0; i < n; i += 16) {
        const void *p = row_at(x, type, i);
        const v16 v = row_load(n - i < 16 ? row_part(room, p, type, n - i) : p, type, false);
        const v16 q =
            row_round((v16){_mm256_mul_ps(v.a, v.a), _mm256_mul_ps(v.b, v.b)}, type, true);
        s = add_wide(add_wide(s, q.a), q.b);
    }
    return total_of(s);
}

/* ---- rms_apply ---- */

/* What a loop knows: `split` says that all operands are bf16, `exact` that a NaN in f32 may come in. */
typedef struct apply_form {
    zoe_dtype x, y, gamma, cast, weight, product;
    bool one_plus, stream, split, exact;
} apply_form;

ROW_INLINE v16 scale_by(v16 v, v16 w)
{
    return (v16){_mm256_mul_ps(v.a, w.a), _mm256_mul_ps(v.b, w.b)};
}

ROW_INLINE void apply16(void *y, const void *x, const void *gamma, __m256 rstd, apply_form f)
{
    v16 v = scale_by(row_load(x, f.x, f.split), (v16){rstd, rstd});
    v = row_round(v, f.cast, f.x == ZOE_F32);
    if (f.gamma != ZOE_NONE) {
        v16 g = row_round(row_load(gamma, f.gamma, f.split), f.weight, true);
        const __m256 one = _mm256_set1_ps(1.0f);
        if (f.one_plus)
            g = (v16){_mm256_add_ps(one, g.a), _mm256_add_ps(one, g.b)};
        v = row_round(scale_by(v, g), f.product, f.exact);
    }
    row_store(y, v, f.y, f.split, f.exact, f.stream);
}

ROW_INLINE void apply_part(void *y, const void *x, const void *gamma, __m256 rstd, apply_form f,
                           size_t n)
{
    float x_room[16], g_room[16], y_room[16];
    f.stream = false;
    apply16(y_room, row_part(x_room, x, f.x, n),
            f.gamma == ZOE_NONE ? NULL : row_part(g_room, gamma, f.gamma, n), rstd, f);
    memcpy(y, y_room, n * row_element(f.y));
}

/* All elements from *at on that are whole sixteens. */
ROW_INLINE void apply_loop(unsigned char *y, const unsigned char *x, const unsigned char *gamma,
                           __m256 rstd, apply_form f, size_t n, size_t *at)
{
    const size_t ex = row_element(f.x), ey = row_element(f.y), eg = row_element(f.gamma);
    size_t i = *at;
    for (; i + 16 <= n; i += 16) {
        apply16(y + i * ey, x + i * ex, f.gamma == ZOE_NONE ? NULL : gamma + i * eg, rstd, f);
    }
    *at = i;
}

ROW_INLINE void apply(unsigned char *y, const unsigned char *x, const unsigned char *gamma,
                      float rstd_value, apply_form f, bool stream, size_t n)
{
    const __m256 rstd = _mm256_set1_ps(rstd_value);
    const size_t head = stream ? row_head(y, row_element(f.y), 32) : n;
    size_t i = 0;
    if (head < n) {
        f.stream = true;
        if (head > 0)
            apply_part(y, x, gamma, rstd, f, head);
        i = head;
        apply_loop(y, x, gamma, rstd, f, n, &i);
    } else {
        f.stream = false;
        apply_loop(y, x, gamma, rstd, f, n, &i);
    }
    if (i < n)
        apply_part(y + i * row_element(f.y), x + i * row_element(f.x),
                   f.gamma == ZOE_NONE ? NULL : gamma + i * row_element(f.gamma), rstd, f, n - i);
}

/* Elements of a row that are handled before those of the other one. */
enum { GROUP = 64 };

/* Two rows, from their ends to their beginnings: the first cache still has the end of what was summed
 * before, and each piece of gamma serves twice while it is there. What is soon read is asked for at the
 * pace of what is written, so that memory is busy both ways. */
ROW_INLINE void apply_groups(const zoe_rms_row rows[2], const unsigned char *gamma,
                             const void *const ahead[2], apply_form f, size_t n)
{
    const size_t ex = row_element(f.x), ey = row_element(f.y), eg = row_element(f.gamma);
    const __m256 rstd[2] = {_mm256_set1_ps(rows[0].rstd), _mm256_set1_ps(rows[1].rstd)};
    for (size_t i = n, soon = 0; i > 0; soon += GROUP) {
        i -= GROUP;
#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
            const unsigned char *x = (const unsigned char *)rows[r].x + i * ex;
            const char *far = (const char *)ahead[r] + soon * ex;
#pragma GCC unroll 4
            for (size_t o = 0; o < GROUP * ex; o += 64)
                _mm_prefetch(far + o, _MM_HINT_T1);
#pragma GCC unroll 4
            for (size_t j = 0; j < GROUP; j += 16)
                apply16((unsigned char *)rows[r].y + (i + j) * ey, x + j * ex,
                        f.gamma == ZOE_NONE ? NULL : gamma + (i + j) * eg, rstd[r], f);
        }
    }
}

ROW_INLINE void apply_rows(const zoe_rms_row rows[2], const unsigned char *gamma,
                           const zoe_rms_form *form, apply_form f, size_t n)
{
    const bool aligned = ((uintptr_t)rows[0].y | (uintptr_t)rows[1].y) % 64 == 0;
    const size_t whole = form->stream && !aligned ? 0 : n - n % GROUP;
    f.stream = true;
    if (form->stream && aligned)
        apply_groups(rows, gamma, form->ahead, f, whole);
    f.stream = false;
    if (!form->stream)
        apply_groups(rows, gamma, form->ahead, f, whole);
    for (int r = 0; r < 2 && whole < n; r++)
        apply((unsigned char *)rows[r].y + whole * row_element(f.y),
              (const unsigned char *)rows[r].x + whole * row_element(f.x),
              f.gamma == ZOE_NONE ? NULL : gamma + whole * row_element(f.gamma), rows[r].rstd, f,
              form->stream, n - whole);
}

ROW_INLINE void apply_either(void *y, const void *x, const void *gamma, float rstd,
                             const zoe_rms_form *form, apply_form f, size_t n)
{
    if (form->other)
        apply_rows((const zoe_rms_row[2]){{y, x, rstd}, *form->other}, gamma, form, f, n);
    else
        apply(y, x, gamma, rstd, f, form->stream, n);
}

/* The forms that models use, each a function of its own without a question in its loop:
 * FORM(x, y, gamma, cast, weight, product, split, exact) */
#define FORMS                                                                                      \
    FORM(F32, F32, NONE, NONE, NONE, NONE, false, true)                                            \
    FORM(F32, F32, F32, NONE, NONE, NONE, false, true)                                             \
    FORM(F32, BF16, NONE, NONE, NONE, NONE, false, true)                                           \
    FORM(F32, BF16, F32, NONE, NONE, NONE, false, true)                                            \
    FORM(F32, F16, NONE, NONE, NONE, NONE, false, true)                                            \
    FORM(F32, F16, F32, NONE, NONE, NONE, false, true)                                             \
    FORM(F16, F16, NONE, NONE, NONE, NONE, false, true)                                            \
    FORM(F16, F16, F16, NONE, NONE, NONE, false, true)                                             \
    FORM(F16, F16, F32, NONE, NONE, NONE, false, true)                                             \
    FORM(F16, F32, F32, NONE, NONE, NONE, false, true)                                             \
    FORM(BF16, BF16, NONE, NONE, NONE, NONE, true, false)                                          \
    FORM(BF16, BF16, BF16, NONE, NONE, NONE, true, false)                                          \
    FORM(BF16, BF16, F32, NONE, NONE, NONE, false, true)                                           \
    FORM(BF16, F32, F32, NONE, NONE, NONE, false, true)                                            \
    FORM(BF16, BF16, BF16, BF16, NONE, NONE, true, false)                                          \
    FORM(BF16, BF16, F32, BF16, BF16, NONE, false, false)                                          \
    FORM(BF16, F32, F32, BF16, BF16, BF16, false, false)

typedef void apply_fn(void *y, const void *x, const void *gamma, float rstd,
                      const zoe_rms_form *form, size_t n);

#define FORM(x_, y_, gamma_, cast_, weight_, product_, split_, exact_)                             \
    static void apply_##x_##_##y_##_##gamma_##_##cast_##weight_##product_(                         \
        void *y, const void *x, const void *gamma, float rstd, const zoe_rms_form *form, size_t n) \
    {                                                                                              \
        apply_either(y, x, gamma, rstd, form,                                                      \
                     (apply_form){.x = ZOE_##x_,                                                   \
                                  .y = ZOE_##y_,                                                   \
                                  .gamma = ZOE_##gamma_,                                           \
                                  .cast = ZOE_##cast_,                                             \
                                  .weight = ZOE_##weight_,                                         \
                                  .product = ZOE_##product_,                                       \
                                  .split = (split_),                                               \
                                  .exact = (exact_)},                                              \
                     n);                                                                           \
    }
FORMS
#undef FORM

#define KEY(x_, y_, gamma_, cast_, weight_, product_)                                              \
    ((((((unsigned)(x_)*4 + (unsigned)(y_)) * 4 + (unsigned)(gamma_)) * 4 + (unsigned)(cast_)) *   \
          4 +                                                                                      \
      (unsigned)(weight_)) *                                                                       \
         4 +                                                                                       \
     (unsigned)(product_))
_Static_assert(ZOE_F32 < 4 && ZOE_F16 < 4 && ZOE_BF16 < 4, "two bits a type");

/* NULL for forms that are not in the list. */
static apply_fn *apply_of(const zoe_rms_form *f)
{
    if (f->one_plus)
        return NULL;
    switch (KEY(f->x, f->y, f->gamma, f->cast, f->weight, f->product)) {
#define FORM(x_, y_, gamma_, cast_, weight_, product_, split_, exact_)                             \
    case KEY(ZOE_##x_, ZOE_##y_, ZOE_##gamma_, ZOE_##cast_, ZOE_##weight_, ZOE_##product_):        \
        return apply_##x_##_##y_##_##gamma_##_##cast_##weight_##product_;
        FORMS
#undef FORM
    default: return NULL;
    }
}

static void rms_apply_avx2(void *y, const void *x, const void *gamma, float rstd,
                           const zoe_rms_form *f, size_t n)
{
    apply_fn *known = apply_of(f);
    if (known) {
        known(y, x, gamma, rstd, f, n);
        return;
    }
    /* asks for its types as it goes */
    apply_either(y, x, gamma, rstd, f,
                 (apply_form){.x = f->x,
                              .y = f->y,
                              .gamma = f->gamma,
                              .cast = f->cast,
                              .weight = f->weight,
                              .product = f->product,
                              .one_plus = f->one_plus,
                              .exact = true},
                 n);
}

/* ---- l2_apply ---- */

typedef struct l2_operands {
    __m256 norm, inverse, root;
    bool quick; /* divide by way of the inverse */
} l2_operands;

/* x / norm. Quick: the product with the inverse, corrected by its remainder, is the quotient rounded
 * to nearest, unless the remainder is subnormal. */
ROW_INLINE __m256 quotient(__m256 x, const l2_operands *o)
{
    if (!o->quick)
        return _mm256_div_ps(x, o->norm);
    const __m256 q = _mm256_mul_ps(x, o->inverse);
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(q, o->norm, x), o->inverse, q);
}

ROW_INLINE __m256 l2_value(__m256 v, const float *gamma, const float *bias, const l2_operands *o,
                           zoe_dtype round, bool silu)
{
    v = row_round8(quotient(v, o), round, true);
    v = row_round8(_mm256_mul_ps(v, o->root), round, true);
    if (gamma)
        v = row_round8(_mm256_mul_ps(v, _mm256_loadu_ps(gamma)), round, true);
    if (bias)
        v = row_round8(_mm256_add_ps(v, _mm256_loadu_ps(bias)), round, true);
    return silu ? silu_v(v) : v;
}

ROW_INLINE void l2_16(void *y, const void *x, const float *gamma, const float *bias,
                      const l2_operands *o, zoe_l2_form f)
{
    const v16 v = row_load(x, f.x, false);
    row_store(
        y,
        (v16){l2_value(v.a, gamma, bias, o, f.round, f.silu),
              l2_value(v.b, gamma ? gamma + 8 : NULL, bias ? bias + 8 : NULL, o, f.round, f.silu)},
        f.y, false, true, f.stream);
}

ROW_INLINE void l2_part(void *y, const void *x, const float *gamma, const float *bias,
                        const l2_operands *o, zoe_l2_form f, size_t n)
{
    float x_room[16], g_room[16], b_room[16], y_room[16];
    f.stream = false;
    l2_16(y_room, row_part(x_room, x, f.x, n), gamma ? row_part(g_room, gamma, ZOE_F32, n) : NULL,
          bias ? row_part(b_room, bias, ZOE_F32, n) : NULL, o, f);
    memcpy(y, y_room, n * row_element(f.y));
}

ROW_INLINE void l2_loop(unsigned char *y, const unsigned char *x, const float *gamma,
                        const float *bias, const l2_operands *o, zoe_l2_form f, size_t n,
                        size_t *at)
{
    size_t i = *at;
    for (; i + 16 <= n; i += 16) {
        l2_16(y + i * row_element(f.y), x + i * row_element(f.x), gamma ? gamma + i : NULL,
              bias ? bias + i : NULL, o, f);
    }
    *at = i;
}

ROW_INLINE void l2(unsigned char *y, const unsigned char *x, const float *gamma, const float *bias,
                   const l2_operands *o, zoe_l2_form f, size_t n)
{
    const size_t head = f.stream ? row_head(y, row_element(f.y), 32) : n;
    size_t i = 0;
    if (head < n) {
        f.stream = true;
        if (head > 0)
            l2_part(y, x, gamma, bias, o, f, head);
        i = head;
        l2_loop(y, x, gamma, bias, o, f, n, &i);
    } else {
        f.stream = false;
        l2_loop(y, x, gamma, bias, o, f, n, &i);
    }
    if (i < n)
        l2_part(y + i * row_element(f.y), x + i * row_element(f.x), gamma ? gamma + i : NULL,
                bias ? bias + i : NULL, o, f, n - i);
}

static void l2_apply_avx2(void *y, const void *x, const float *gamma, const float *bias,
                          const zoe_l2_form *form, size_t n)
{
    zoe_l2_form f = *form;
    l2_operands o = {.norm = _mm256_set1_ps(f.norm),
                     .inverse = _mm256_set1_ps(1.0f / f.norm),
                     .root = _mm256_set1_ps(f.root)};
    if (f.x == ZOE_F32 && f.y == ZOE_F32 && f.round == ZOE_NONE && gamma && !bias &&
        f.norm > 0x1p-60f && f.norm < 0x1p60f) {
        f.x = f.y = ZOE_F32;
        f.round = ZOE_NONE;
        o.quick = true;
        if (f.silu) {
            f.silu = true;
            l2(y, x, gamma, NULL, &o, f, n);
        } else {
            f.silu = false;
            l2(y, x, gamma, NULL, &o, f, n);
        }
        return;
    }
    o.quick = false;
    l2(y, x, gamma, bias, &o, f, n);
}

/* ---- the rest ---- */

static void add_rows_avx2(float *y, const void *a, const void *b, zoe_dtype type, bool round,
                          size_t n)
{
    float a_room[16], b_room[16], y_room[16];
    for (size_t i = 0; i < n; i += 16) {
        const size_t part = n - i < 16 ? n - i : 16;
        const void *p = row_at(a, type, i), *q = row_at(b, type, i);
        const v16 v = row_load(part < 16 ? row_part(a_room, p, type, part) : p, type, false);
        const v16 w = row_load(part < 16 ? row_part(b_room, q, type, part) : q, type, false);
        const v16 sum = row_round((v16){_mm256_add_ps(v.a, w.a), _mm256_add_ps(v.b, w.b)},
                                  round ? type : ZOE_NONE, true);
        row_store(part < 16 ? y_room : y + i, sum, ZOE_F32, false, true, false);
        if (part < 16)
            memcpy(y + i, y_room, part * sizeof *y);
    }
}

static void shift_scale_avx2(float *y, const float *x, const float *shift, const float *scale,
                             size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = load_part(x + i, n - i);
        if (shift)
            v = _mm256_add_ps(v, load_part(shift + i, n - i));
        if (scale)
            v = _mm256_mul_ps(v, load_part(scale + i, n - i));
        store_part(y + i, v, n - i);
    }
}

/* Eight values as int32; NaN becomes 0. Clamped before, so that the conversion is defined. */
static inline __m256i to_int8(__m256 v)
{
    v = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(-128.0f)), _mm256_set1_ps(127.0f));
    return _mm256_cvtps_epi32(v);
}

static void quantise_avx2(int8_t *q, const float *x, const float *scale, const float *offset,
                          bool divide, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = load_part(x + i, n - i), s = load_part(scale + i, n - i);
        __m256 w = divide ? _mm256_div_ps(v, s) : _mm256_mul_ps(v, s);
        if (offset)
            w = _mm256_add_ps(w, load_part(offset + i, n - i));
        const __m256i u = to_int8(w);
        const __m128i words =
            _mm_packs_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
        int8_t bytes[16];
        _mm_storeu_si128((__m128i *)(void *)bytes, _mm_packs_epi16(words, words));
        memcpy(q + i, bytes, n - i < 8 ? n - i : 8);
    }
}

void zoe_kernels_fill_rms_avx2(zoe_kernels *k)
{
    k->squares_f32 = squares_f32_avx2;
    k->squares_f16 = squares_f16_avx2;
    k->squares_bf16 = squares_bf16_avx2;
    k->squares_rounded = squares_rounded_avx2;
    k->rms_apply = rms_apply_avx2;
    k->l2_apply = l2_apply_avx2;
    k->add_rows = add_rows_avx2;
    k->shift_scale = shift_scale_avx2;
    k->quantise = quantise_avx2;
}
