/* LayerNorm, modulation and gated residuals: guests for AVX-512, of the form that layer_avx2.c has. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx512bf16")
#else
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#endif
#include "kernel/x86/row_avx512.h"

/* Elements that are added in f32 before the sum goes on in f64: of half types, and of f32. */
enum { RUN = 1024, SHORT_RUN = 512 };

/* Element i of a row. */
INLINE const void *at(const void *x, size_t i, const zoe_dtype dtype)
{
    return (const unsigned char *)x + i * bytes_of(dtype);
}

/* ---- sums: as in layer_avx2.c, in 64 lanes ---- */

typedef struct sums64 {
    __m512 plain[4], square[4];
    __m512d wide[4];
} sums64;
typedef struct sums8 {
    __m512d plain, square;
} sums8;

INLINE __m512d widened(__m512 v)
{
    return _mm512_add_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(v)),
                         _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)));
}

INLINE __m512d widened4(const __m512 v[4])
{
    return _mm512_add_pd(_mm512_add_pd(widened(v[0]), widened(v[1])),
                         _mm512_add_pd(widened(v[2]), widened(v[3])));
}

INLINE void add16(sums64 *s, const int j, __m512 v, __m512 there, __m512 shift,
                  const zoe_dtype dtype)
{
    const __m512 d = _mm512_sub_ps(v, shift);
    if (dtype == ZOE_F32) {
        s->wide[j] = _mm512_add_pd(s->wide[j], _mm512_cvtps_pd(_mm512_castps512_ps256(there)));
        s->wide[j] = _mm512_add_pd(s->wide[j], _mm512_cvtps_pd(_mm512_extractf32x8_ps(there, 1)));
    } else {
        s->plain[j] = _mm512_add_ps(s->plain[j], d);
    }
    s->square[j] = _mm512_fmadd_ps(d, d, s->square[j]);
}

/* The last n < 64 elements of a row. */
INLINE void add_last(sums64 *s, const void *x, const zoe_dtype dtype, __m512 shift, size_t n)
{
    float part[64] = {0.0f};
    const uint64_t there = (UINT64_C(1) << n) - 1;
    memcpy(part, x, n * bytes_of(dtype));
#pragma GCC unroll 2
    for (int j = 0; j < 2; j++) {
        const v32 v = load32(at(part, 32 * (size_t)j, dtype), dtype);
        const __mmask16 a = (__mmask16)(there >> 32 * j), b = (__mmask16)(there >> (32 * j + 16));
        add16(s, 2 * j, _mm512_mask_blend_ps(a, shift, v.a), _mm512_maskz_mov_ps(a, v.a), shift,
              dtype);
        add16(s, 2 * j + 1, _mm512_mask_blend_ps(b, shift, v.b), _mm512_maskz_mov_ps(b, v.b), shift,
              dtype);
    }
}

INLINE __m512d run_total(const __m512 v[4], const zoe_dtype dtype)
{
    if (dtype != ZOE_F32)
        return widened4(v);
    return widened(_mm512_add_ps(_mm512_add_ps(v[0], v[1]), _mm512_add_ps(v[2], v[3])));
}

INLINE sums8 add_runs(const void *x, const zoe_dtype dtype, float shift, size_t n)
{
    const __m512 s = _mm512_set1_ps(shift), zero = _mm512_setzero_ps();
    const size_t length = dtype == ZOE_F32 ? SHORT_RUN : RUN;
    const __m512d none = _mm512_setzero_pd();
    sums8 all = {none, none};
    sums64 run = {.wide = {none, none, none, none}};
    for (size_t i = 0; i < n;) {
        const size_t end = n - i < length ? n : i + length;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            run.plain[j] = run.square[j] = zero;
        for (; i + 64 <= end; i += 64)
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                const v32 v = load32_unordered(at(x, i + 32 * (size_t)j, dtype), dtype);
                add16(&run, 2 * j, v.a, v.a, s, dtype);
                add16(&run, 2 * j + 1, v.b, v.b, s, dtype);
            }
        if (i < end)
            add_last(&run, (const unsigned char *)x + i * bytes_of(dtype), dtype, s, end - i);
        i = end;
        if (dtype != ZOE_F32)
            all.plain = _mm512_add_pd(all.plain, widened4(run.plain));
        all.square = _mm512_add_pd(all.square, run_total(run.square, dtype));
    }
    if (dtype == ZOE_F32)
        all.plain = _mm512_add_pd(_mm512_add_pd(run.wide[0], run.wide[1]),
                                  _mm512_add_pd(run.wide[2], run.wide[3]));
    return all;
}

INLINE void add_wide(sums8 *s, __m256 v, float shift)
{
    const __m512d d = _mm512_sub_pd(_mm512_cvtps_pd(v), _mm512_set1_pd((double)shift));
    s->plain = _mm512_add_pd(s->plain, d);
    s->square = _mm512_fmadd_pd(d, d, s->square);
}

/* In f64 throughout. */
static __attribute__((noinline)) sums8 add_slowly(const float *x, float shift, size_t n)
{
    sums8 all = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        add_wide(&all, _mm256_loadu_ps(x + i), shift);
    if (i < n)
        add_wide(
            &all,
            _mm256_mask_loadu_ps(_mm256_set1_ps(shift), (__mmask8)((1u << (n - i)) - 1), x + i),
            shift);
    return all;
}

INLINE void sums_of(double sums[2], const void *x, const zoe_dtype dtype, float shift, size_t n)
{
    sums8 all = add_runs(x, dtype, shift, n);
    double square = _mm512_reduce_add_pd(all.square), plain = _mm512_reduce_add_pd(all.plain);
    if (dtype == ZOE_F32)
        plain -= (double)n * (double)shift;
    /* A square below 2^-126 is wrong by up to 2^-150. */
    if (dtype == ZOE_F32 && !(square >= (double)n * 0x1p-120 && square < INFINITY)) {
        all = add_slowly(x, shift, n);
        square = _mm512_reduce_add_pd(all.square);
        plain = _mm512_reduce_add_pd(all.plain);
    }
    sums[0] += plain;
    sums[1] += square;
}

/* ---- apply ---- */

INLINE __m512 normed(__m512 x, const zoe_layer_form *f, const bool exact)
{
    const __m512 f_mean = _mm512_set1_ps(f->mean), offset = _mm512_set1_ps(f->offset);
    const __m512 d = _mm512_sub_ps(x, f_mean);
    if (!exact)
        return _mm512_fmadd_ps(d, _mm512_set1_ps(f->rstd + f->rest), offset);
    const __m512 settled = _mm512_set1_ps(isfinite(f->rstd) ? f->rstd : 0.0f);
    const __m512 mean = _mm512_sub_ps(x, d), back = _mm512_add_ps(d, mean);
    __m512 low = _mm512_fmadd_ps(d, _mm512_set1_ps(f->rest), offset);
    low = _mm512_fnmadd_ps(_mm512_sub_ps(f_mean, mean), settled, low);
    low = _mm512_fnmadd_ps(_mm512_sub_ps(back, x), settled, low);
    return _mm512_fmadd_ps(d, _mm512_set1_ps(f->rstd), low);
}

INLINE __m512 formed(__m512 v, const zoe_layer_form *f, size_t i, const bool weighted,
                     const bool exact)
{
    v = normed(v, f, exact);
    if (weighted)
        v = _mm512_add_ps(_mm512_mul_ps(v, _mm512_loadu_ps(f->weight + i)),
                          _mm512_loadu_ps(f->bias + i));
    return v;
}

INLINE void apply_step(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                       const zoe_layer_form *f, size_t i, const bool weighted, const bool stream,
                       const bool exact)
{
    const v32 v = load32(at(x, i, x_type), x_type);
    const v32 r = {formed(v.a, f, i, weighted, exact), formed(v.b, f, i + 16, weighted, exact)};
    store32((unsigned char *)y + i * bytes_of(y_type), r, y_type, stream);
}

/* ---- gate ---- */

INLINE void gate_step(void *y, const void *x, const zoe_dtype x_type, const void *h,
                      const zoe_dtype h_type, const float *gate, size_t i)
{
    const v32 v = load32(at(x, i, x_type), x_type), w = load32(at(h, i, h_type), h_type);
    const v32 r = {
        _mm512_add_ps(v.a, _mm512_mul_ps(_mm512_loadu_ps(gate + i), w.a)),
        _mm512_add_ps(v.b, _mm512_mul_ps(_mm512_loadu_ps(gate + i + 16), w.b)),
    };
    store32((unsigned char *)y + i * bytes_of(x_type), r, x_type, false);
}

#include "kernel/x86/layer_walk.h"

#define LAYER_NAME(name) name##_avx512
#include "kernel/layer_types.h"

/* Without the instruction for bf16 the guests of AVX2 stay in all places, which are as fast on memory. */
void zoe_kernels_fill_layer_avx512(zoe_kernels *k)
{
    if (!zoe_cpu_extras_get().bf16)
        return;
    fill_types(k);
}
#if !(defined(__GNUC__) && !defined(__clang__))
#pragma clang attribute pop
#endif
