/* Norms by the root of a mean square: guests for AVX-512, of the forms that rms_avx2.c has. see
 * row_avx512.h. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512bf16")
#else
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#endif
#include "kernel/x86/row_avx512.h"

/* ---- rms_apply ---- */

typedef struct apply_form {
    zoe_dtype x, y, gamma, cast, weight, product;
} apply_form;

INLINE v32 times(v32 v, v32 w)
{
    return (v32){_mm512_mul_ps(v.a, w.a), _mm512_mul_ps(v.b, w.b)};
}

INLINE void apply32(void *y, const void *x, const void *gamma, __m512 rstd, apply_form f,
                    bool stream)
{
    v32 v = round32(times(load32(x, f.x), (v32){rstd, rstd}), f.cast);
    if (f.gamma != ZOE_NONE)
        v = round32(times(v, round32(load32(gamma, f.gamma), f.weight)), f.product);
    store32(y, v, f.y, stream);
}

INLINE void apply_part(void *y, const void *x, const void *gamma, __m512 rstd, apply_form f,
                       size_t n)
{
    float x_room[STEP], g_room[STEP], y_room[STEP];
    apply32(y_room, part(x_room, x, f.x, n),
            f.gamma == ZOE_NONE ? NULL : part(g_room, gamma, f.gamma, n), rstd, f, false);
    memcpy(y, y_room, n * bytes_of(f.y));
}

INLINE size_t apply_loop(unsigned char *y, const unsigned char *x, const unsigned char *gamma,
                         __m512 rstd, apply_form f, bool stream, size_t i, size_t n)
{
    for (; i + STEP <= n; i += STEP)
        apply32(y + i * bytes_of(f.y), x + i * bytes_of(f.x),
                f.gamma == ZOE_NONE ? NULL : gamma + i * bytes_of(f.gamma), rstd, f, stream);
    return i;
}

INLINE void apply(unsigned char *y, const unsigned char *x, const unsigned char *gamma, float value,
                  apply_form f, bool stream, size_t n)
{
    const __m512 rstd = _mm512_set1_ps(value);
    const size_t off = (0 - (uintptr_t)y) % 64, head = off / bytes_of(f.y);
    size_t i = 0;
    if (stream && off % bytes_of(f.y) == 0 && head < n) {
        if (head > 0)
            apply_part(y, x, gamma, rstd, f, head);
        i = apply_loop(y, x, gamma, rstd, f, true, head, n);
    } else {
        i = apply_loop(y, x, gamma, rstd, f, false, 0, n);
    }
    if (i < n)
        apply_part(y + i * bytes_of(f.y), x + i * bytes_of(f.x),
                   f.gamma == ZOE_NONE ? NULL : gamma + i * bytes_of(f.gamma), rstd, f, n - i);
}

/* Elements of a row that are handled before those of the other one. */
enum { GROUP = 64 };

/* Two rows from their ends on, as in rms_avx2.c. */
INLINE void apply_groups(const zoe_rms_row rows[2], const unsigned char *gamma,
                         const void *const ahead[2], apply_form f, bool stream, size_t n)
{
    const size_t ex = bytes_of(f.x), ey = bytes_of(f.y), eg = bytes_of(f.gamma);
    const __m512 rstd[2] = {_mm512_set1_ps(rows[0].rstd), _mm512_set1_ps(rows[1].rstd)};
    for (size_t i = n, soon = 0; i > 0; soon += GROUP) {
        i -= GROUP;
#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
            const unsigned char *x = (const unsigned char *)rows[r].x + i * ex;
            const char *far = (const char *)ahead[r] + soon * ex;
#pragma GCC unroll 4
            for (size_t o = 0; o < GROUP * ex; o += 64)
                _mm_prefetch(far + o, _MM_HINT_T1);
#pragma GCC unroll 2
            for (size_t j = 0; j < GROUP; j += STEP)
                apply32((unsigned char *)rows[r].y + (i + j) * ey, x + j * ex,
                        f.gamma == ZOE_NONE ? NULL : gamma + (i + j) * eg, rstd[r], f, stream);
        }
    }
}

INLINE void apply_rows(const zoe_rms_row rows[2], const unsigned char *gamma,
                       const zoe_rms_form *form, apply_form f, size_t n)
{
    const bool aligned = ((uintptr_t)rows[0].y | (uintptr_t)rows[1].y) % 64 == 0;
    const size_t whole = form->stream && !aligned ? 0 : n - n % GROUP;
    if (form->stream && aligned)
        apply_groups(rows, gamma, form->ahead, f, true, whole);
    else
        apply_groups(rows, gamma, form->ahead, f, false, whole);
    for (int r = 0; r < 2 && whole < n; r++)
        apply((unsigned char *)rows[r].y + whole * bytes_of(f.y),
              (const unsigned char *)rows[r].x + whole * bytes_of(f.x),
              f.gamma == ZOE_NONE ? NULL : gamma + whole * bytes_of(f.gamma), rows[r].rstd, f,
              form->stream, n - whole);
}

/* The forms that models use, each a function of its own without a question in its loop:
 * FORM(x, y, gamma, cast, weight, product) */
#define FORMS                                                                                      \
    FORM(F32, F32, NONE, NONE, NONE, NONE)                                                         \
    FORM(F32, F32, F32, NONE, NONE, NONE)                                                          \
    FORM(F32, BF16, NONE, NONE, NONE, NONE)                                                        \
    FORM(F32, BF16, F32, NONE, NONE, NONE)                                                         \
    FORM(BF16, BF16, NONE, NONE, NONE, NONE)                                                       \
    FORM(BF16, BF16, BF16, NONE, NONE, NONE)                                                       \
    FORM(BF16, BF16, F32, NONE, NONE, NONE)                                                        \
    FORM(BF16, F32, F32, NONE, NONE, NONE)                                                         \
    FORM(BF16, BF16, BF16, BF16, NONE, NONE)                                                       \
    FORM(BF16, BF16, F32, BF16, BF16, NONE)                                                        \
    FORM(BF16, F32, F32, BF16, BF16, BF16)

typedef void apply_fn(void *y, const void *x, const void *gamma, float rstd,
                      const zoe_rms_form *form, size_t n);

#define FORM(x_, y_, gamma_, cast_, weight_, product_)                                             \
    static void apply_##x_##_##y_##_##gamma_##_##cast_##weight_##product_(                         \
        void *y, const void *x, const void *gamma, float rstd, const zoe_rms_form *form, size_t n) \
    {                                                                                              \
        const apply_form f = {.x = ZOE_##x_,                                                       \
                              .y = ZOE_##y_,                                                       \
                              .gamma = ZOE_##gamma_,                                               \
                              .cast = ZOE_##cast_,                                                 \
                              .weight = ZOE_##weight_,                                             \
                              .product = ZOE_##product_};                                          \
        if (form->other)                                                                           \
            apply_rows((const zoe_rms_row[2]){{y, x, rstd}, *form->other}, gamma, form, f, n);     \
        else                                                                                       \
            apply(y, x, gamma, rstd, f, form->stream, n);                                          \
    }
FORMS
#undef FORM

#define KEY(x_, y_, gamma_, cast_, weight_, product_)                                              \
    ((unsigned)(x_) | (unsigned)(y_) << 2 | (unsigned)(gamma_) << 4 | (unsigned)(cast_) << 6 |     \
     (unsigned)(weight_) << 8 | (unsigned)(product_) << 10)
_Static_assert(ZOE_F32 < 4 && ZOE_F16 < 4 && ZOE_BF16 < 4, "two bits a type");

/* NULL for forms that are not in the list. */
static apply_fn *apply_of(const zoe_rms_form *f)
{
    if (f->one_plus)
        return NULL;
    switch (KEY(f->x, f->y, f->gamma, f->cast, f->weight, f->product)) {
#define FORM(x_, y_, gamma_, cast_, weight_, product_)                                             \
    case KEY(ZOE_##x_, ZOE_##y_, ZOE_##gamma_, ZOE_##cast_, ZOE_##weight_, ZOE_##product_):        \
        return apply_##x_##_##y_##_##gamma_##_##cast_##weight_##product_;
        FORMS
#undef FORM
    default: return NULL;
    }
}

/* What AVX2 does with the other forms. */
static zoe_kernel_rms_apply *any_form;

static void rms_apply_avx512(void *y, const void *x, const void *gamma, float rstd,
                             const zoe_rms_form *f, size_t n)
{
    apply_fn *known = apply_of(f);
    if (known)
        known(y, x, gamma, rstd, f, n);
    else
        any_form(y, x, gamma, rstd, f, n);
}

/* ---- sums of squares: as rms_avx2.c adds them, in 64 lanes of blocks of 256 ---- */

enum { BLOCK = 256 };

INLINE __m512d add_wide(__m512d s, __m512 v)
{
    s = _mm512_add_pd(s, _mm512_cvtps_pd(_mm512_castps512_ps256(v)));
    return _mm512_add_pd(s, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}

INLINE __m512d add_square(__m512d s, __m512 v)
{
    const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    return _mm512_fmadd_pd(b, b, _mm512_fmadd_pd(a, a, s));
}

INLINE __m512d add_block(__m512d s, const unsigned char *x, zoe_dtype type)
{
    const __m512 zero = _mm512_setzero_ps();
    __m512 a = zero, b = zero, c = zero, d = zero;
    for (size_t i = 0; i < BLOCK; i += 64) {
        const v32 v = load32_unordered(x + i * bytes_of(type), type);
        const v32 w = load32_unordered(x + (i + 32) * bytes_of(type), type);
        a = _mm512_fmadd_ps(v.a, v.a, a);
        b = _mm512_fmadd_ps(v.b, v.b, b);
        c = _mm512_fmadd_ps(w.a, w.a, c);
        d = _mm512_fmadd_ps(w.b, w.b, d);
    }
    return add_wide(s, _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)));
}

/* What follows the blocks, and rows in which f32 would overflow or lose digits, in double. */
INLINE __m512d add_rest(__m512d s, const unsigned char *x, zoe_dtype type, size_t n)
{
    float room[STEP];
    for (size_t i = 0; i < n; i += STEP) {
        const void *p = x + i * bytes_of(type);
        const v32 v = load32(n - i < STEP ? part(room, p, type, n - i) : p, type);
        s = add_square(add_square(s, v.a), v.b);
    }
    return s;
}

INLINE double squares(const unsigned char *x, zoe_dtype type, size_t n)
{
    __m512d s = _mm512_setzero_pd();
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        s = add_block(s, x + i * bytes_of(type), type);
    const double total = _mm512_reduce_add_pd(add_rest(s, x + i * bytes_of(type), type, n - i));
    /* A square below 2^-126 is wrong by up to 2^-150. */
    if (n < BLOCK || (total >= (double)n * 0x1p-120 && total < INFINITY))
        return total;
    return _mm512_reduce_add_pd(add_rest(_mm512_setzero_pd(), x, type, n));
}

static double squares_f32_avx512(const void *x, size_t n)
{
    return squares(x, ZOE_F32, n);
}

static double squares_bf16_avx512(const void *x, size_t n)
{
    return squares(x, ZOE_BF16, n);
}

/* ---- l2_apply of f32 with gamma and silu, as the VAE has it ---- */

/* v / (1 + e^-v), e^-v from the polynomial of vector_avx2.h and the quotient from an inverse that is
 * corrected once, within 3 ulp; -0 below -87, where the value is less than 1.5e-36. */
INLINE __m512 silu(__m512 v)
{
    const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
    __m512 u = _mm512_sub_ps(zero, v);
    /* Operands in this order let NaN through. */
    u = _mm512_min_ps(_mm512_set1_ps(87.0f), _mm512_max_ps(_mm512_set1_ps(-104.0f), u));
    /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum. */
    const __m512 magic = _mm512_set1_ps(0x1.8p23f);
    const __m512 n =
        _mm512_sub_ps(_mm512_fmadd_ps(u, _mm512_set1_ps(1.44269504088896f), magic), magic);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), u);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    const __m512 r2 = _mm512_mul_ps(r, r);
    const __m512 low =
        _mm512_fmadd_ps(_mm512_set1_ps(1.66665201074e-1f), r, _mm512_set1_ps(4.99999934123e-1f));
    __m512 high =
        _mm512_fmadd_ps(_mm512_set1_ps(8.36878044597e-3f), r, _mm512_set1_ps(4.16683942426e-2f));
    high = _mm512_fmadd_ps(_mm512_set1_ps(1.38144657224e-3f), r2, high);
    const __m512 p = _mm512_fmadd_ps(_mm512_fmadd_ps(high, r2, low), r2, r);
    const __m512 d = _mm512_add_ps(one, _mm512_scalef_ps(_mm512_add_ps(p, one), n));
    const __m512 rough = _mm512_rcp14_ps(d);
    const __m512 inverse = _mm512_fmadd_ps(rough, _mm512_fnmadd_ps(d, rough, one), rough);
    const __mmask16 seen = _mm512_cmp_ps_mask(v, _mm512_set1_ps(-87.0f), _CMP_NLT_UQ);
    return _mm512_mul_ps(v, _mm512_maskz_mov_ps(seen, inverse));
}

/* The quotient is that of rms_avx2.c. */
INLINE __m512 l2_value(__m512 x, __m512 gamma, __m512 norm, __m512 inverse, __m512 root)
{
    const __m512 q = _mm512_mul_ps(x, inverse);
    const __m512 a = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, norm, x), inverse, q);
    return silu(_mm512_mul_ps(_mm512_mul_ps(a, root), gamma));
}

INLINE void l2_silu(float *y, const float *x, const float *gamma, const zoe_l2_form *f, size_t n,
                    bool stream)
{
    const __m512 norm = _mm512_set1_ps(f->norm), inverse = _mm512_set1_ps(1.0f / f->norm);
    const __m512 root = _mm512_set1_ps(f->root);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        put(y + i,
            _mm512_castps_si512(
                l2_value(_mm512_loadu_ps(x + i), _mm512_loadu_ps(gamma + i), norm, inverse, root)),
            stream);
    const __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
    if (rest)
        _mm512_mask_storeu_ps(y + i, rest,
                              l2_value(_mm512_maskz_loadu_ps(rest, x + i),
                                       _mm512_maskz_loadu_ps(rest, gamma + i), norm, inverse,
                                       root));
}

/* What AVX2 does with the other forms. */
static zoe_kernel_l2_apply *any_l2;

static void l2_apply_avx512(void *y, const void *x, const float *gamma, const float *bias,
                            const zoe_l2_form *f, size_t n)
{
    if (f->x != ZOE_F32 || f->y != ZOE_F32 || f->round != ZOE_NONE || !f->silu || !gamma || bias ||
        !(f->norm > 0x1p-60f && f->norm < 0x1p60f))
        any_l2(y, x, gamma, bias, f, n);
    else if (f->stream && (uintptr_t)y % 64 == 0)
        l2_silu(y, x, gamma, f, n, true);
    else
        l2_silu(y, x, gamma, f, n, false);
}

/* Without the instruction for bf16 the guests of AVX2 stay in all places; for f16 they are faster. */
void zoe_kernels_fill_rms_avx512(zoe_kernels *k)
{
    if (!zoe_cpu_extras_get().bf16)
        return;
    any_form = k->rms_apply;
    any_l2 = k->l2_apply;
    k->l2_apply = l2_apply_avx512;
    k->squares_f32 = squares_f32_avx512;
    k->squares_bf16 = squares_bf16_avx512;
    k->rms_apply = rms_apply_avx512;
}
#if !(defined(__GNUC__) && !defined(__clang__))
#pragma clang attribute pop
#endif
