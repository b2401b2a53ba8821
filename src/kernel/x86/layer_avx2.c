/* LayerNorm, modulation and gated residuals: guests for AVX2. One body a kind, for every type: the
 * types are constants where it is called, so each kernel is a loop of its own without branches. */
#include "kernel/x86/row_avx2.h"

#define INLINE ROW_INLINE

/* Elements of one turn of a loop. */
enum { STEP = 16 };
/* Elements that are added in f32 before the sum goes on in f64: of half types, and of f32. */
enum { RUN = 1024, SHORT_RUN = 256 };

/* Eight elements of x from element i on. */
INLINE __m256 load8(const void *x, size_t i, const zoe_dtype dtype)
{
    if (dtype == ZOE_F32)
        return _mm256_loadu_ps((const float *)x + i);
    const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)((const uint16_t *)x + i));
    if (dtype == ZOE_F16)
        return _mm256_cvtph_ps(h);
    /* each half of the register has all eight, and takes four of them as upper halves */
    const __m256i place =
        _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1,
                         -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15);
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(h), place));
}

/* STEP elements of y from element i on. NaN is looked for only if `nan`. */
INLINE void store16(void *y, size_t i, __m256 a, __m256 b, const zoe_dtype dtype, const bool nan,
                    const bool stream)
{
    row_store((unsigned char *)y + i * row_element(dtype), (v16){a, b}, dtype, false, nan, stream);
}

/* ---- sums ---- */

/* Sums of differences and of their squares, in 32 lanes, and in f64. Of f32, the elements themselves
 * are added, in f64. */
typedef struct sums32 {
    __m256 plain[4], square[4];
    __m256d wide[4];
} sums32;
typedef struct sums4 {
    __m256d plain, square;
} sums4;

/* Adds lanes in f64, in a fixed order. */
INLINE __m256d widened(__m256 v)
{
    return _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                         _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
}

INLINE __m256d widened4(const __m256 v[4])
{
    return _mm256_add_pd(_mm256_add_pd(widened(v[0]), widened(v[1])),
                         _mm256_add_pd(widened(v[2]), widened(v[3])));
}

INLINE double total_of(__m256d v)
{
    double lane[4];
    _mm256_storeu_pd(lane, v);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* v, and what of it is to be added: other lanes of v hold the shift, and those of `there` 0. */
INLINE void add8(sums32 *s, const int j, __m256 v, __m256 there, __m256 shift,
                 const zoe_dtype dtype)
{
    const __m256 d = _mm256_sub_ps(v, shift);
    if (dtype == ZOE_F32) {
        s->wide[j] = _mm256_add_pd(s->wide[j], _mm256_cvtps_pd(_mm256_castps256_ps128(there)));
        s->wide[j] = _mm256_add_pd(s->wide[j], _mm256_cvtps_pd(_mm256_extractf128_ps(there, 1)));
    } else {
        s->plain[j] = _mm256_add_ps(s->plain[j], d);
    }
    s->square[j] = _mm256_fmadd_ps(d, d, s->square[j]);
}

/* The last n < 32 elements of a row; lanes beyond them get nothing. */
INLINE void add_last(sums32 *s, const void *x, const zoe_dtype dtype, __m256 shift, size_t n)
{
    float part[32] = {0.0f};
    memcpy(part, x, n * row_element(dtype));
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const size_t before = 8 * (size_t)j, m = n > before ? n - before : 0;
        const __m256 mask = _mm256_castsi256_ps(lanes(m < 8 ? m : 8));
        const __m256 v = load8(part, before, dtype);
        add8(s, j, _mm256_blendv_ps(shift, v, mask), _mm256_and_ps(v, mask), shift, dtype);
    }
}

/* Sums of squares of f32 are short, and are added up to one vector before they are widened. */
INLINE __m256d run_total(const __m256 v[4], const zoe_dtype dtype)
{
    if (dtype != ZOE_F32)
        return widened4(v);
    return widened(_mm256_add_ps(_mm256_add_ps(v[0], v[1]), _mm256_add_ps(v[2], v[3])));
}

/* Element i of a run goes to lane i mod 32. */
INLINE sums4 add_runs(const void *x, const zoe_dtype dtype, float shift, size_t n)
{
    const __m256 s = _mm256_set1_ps(shift), zero = _mm256_setzero_ps();
    const size_t length = dtype == ZOE_F32 ? SHORT_RUN : RUN;
    const __m256d none = _mm256_setzero_pd();
    sums4 all = {none, none};
    sums32 run = {.wide = {none, none, none, none}};
    for (size_t i = 0; i < n;) {
        const size_t end = n - i < length ? n : i + length;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            run.plain[j] = run.square[j] = zero;
        for (; i + 32 <= end; i += 32)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const __m256 v = load8(x, i + 8 * (size_t)j, dtype);
                add8(&run, j, v, v, s, dtype);
            }
        if (i < end)
            add_last(&run, (const unsigned char *)x + i * row_element(dtype), dtype, s, end - i);
        i = end;
        if (dtype != ZOE_F32)
            all.plain = _mm256_add_pd(all.plain, widened4(run.plain));
        all.square = _mm256_add_pd(all.square, run_total(run.square, dtype));
    }
    if (dtype == ZOE_F32)
        all.plain = _mm256_add_pd(_mm256_add_pd(run.wide[0], run.wide[1]),
                                  _mm256_add_pd(run.wide[2], run.wide[3]));
    return all;
}

INLINE void add_wide(sums4 *s, __m128 v, float shift)
{
    const __m256d d = _mm256_sub_pd(_mm256_cvtps_pd(v), _mm256_set1_pd((double)shift));
    s->plain = _mm256_add_pd(s->plain, d);
    s->square = _mm256_fmadd_pd(d, d, s->square);
}

/* In f64 throughout. */
static __attribute__((noinline)) sums4 add_slowly(const float *x, float shift, size_t n)
{
    sums4 all = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        add_wide(&all, _mm_loadu_ps(x + i), shift);
    if (i < n) {
        float last[4] = {shift, shift, shift, shift};
        memcpy(last, x + i, (n - i) * sizeof *x);
        add_wide(&all, _mm_loadu_ps(last), shift);
    }
    return all;
}

INLINE void sums_of(double sums[2], const void *x, const zoe_dtype dtype, float shift, size_t n)
{
    sums4 all = add_runs(x, dtype, shift, n);
    double square = total_of(all.square), plain = total_of(all.plain);
    if (dtype == ZOE_F32)
        plain -= (double)n * (double)shift;
    /* A square below 2^-126 is wrong by up to 2^-150. */
    if (dtype == ZOE_F32 && !(square >= (double)n * 0x1p-120 && square < INFINITY)) {
        all = add_slowly(x, shift, n);
        square = total_of(all.square);
        plain = total_of(all.plain);
    }
    sums[0] += plain;
    sums[1] += square;
}

/* ---- apply ---- */

INLINE __m256 normed(__m256 x, const zoe_layer_form *f, const bool exact)
{
    const __m256 f_mean = _mm256_set1_ps(f->mean), offset = _mm256_set1_ps(f->offset);
    const __m256 d = _mm256_sub_ps(x, f_mean);
    if (!exact)
        return _mm256_fmadd_ps(d, _mm256_set1_ps(f->rstd + f->rest), offset);
    const __m256 settled = _mm256_set1_ps(isfinite(f->rstd) ? f->rstd : 0.0f);
    const __m256 mean = _mm256_sub_ps(x, d), back = _mm256_add_ps(d, mean);
    __m256 low = _mm256_fmadd_ps(d, _mm256_set1_ps(f->rest), offset);
    low = _mm256_fnmadd_ps(_mm256_sub_ps(f_mean, mean), settled, low);
    low = _mm256_fnmadd_ps(_mm256_sub_ps(back, x), settled, low);
    return _mm256_fmadd_ps(d, _mm256_set1_ps(f->rstd), low);
}

INLINE __m256 formed(__m256 v, const zoe_layer_form *f, size_t i, const bool weighted,
                     const bool exact)
{
    v = normed(v, f, exact);
    if (weighted)
        v = _mm256_add_ps(_mm256_mul_ps(v, _mm256_loadu_ps(f->weight + i)),
                          _mm256_loadu_ps(f->bias + i));
    return v;
}

INLINE void apply_step(void *y, const zoe_dtype y_type, const void *x, const zoe_dtype x_type,
                       const zoe_layer_form *f, size_t i, const bool weighted, const bool stream,
                       const bool exact)
{
    const __m256 a = formed(load8(x, i, x_type), f, i, weighted, exact);
    const __m256 b = formed(load8(x, i + 8, x_type), f, i + 8, weighted, exact);
    store16(y, i, a, b, y_type, x_type != ZOE_BF16, stream);
}

/* ---- gate ---- */

INLINE void gate_step(void *y, const void *x, const zoe_dtype x_type, const void *h,
                      const zoe_dtype h_type, const float *gate, size_t i)
{
    const __m256 a = _mm256_mul_ps(_mm256_loadu_ps(gate + i), load8(h, i, h_type));
    const __m256 b = _mm256_mul_ps(_mm256_loadu_ps(gate + i + 8), load8(h, i + 8, h_type));
    store16(y, i, _mm256_add_ps(load8(x, i, x_type), a), _mm256_add_ps(load8(x, i + 8, x_type), b),
            x_type, h_type != ZOE_BF16, false);
}

#include "kernel/x86/layer_walk.h"

static void layer_weight_avx2(float *y, const float *x, float add, size_t n)
{
    const __m256 plain_nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    const __m256 a = _mm256_set1_ps(add);
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = load_part(x + i, n - i);
        const __m256 nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
        store_part(y + i, _mm256_blendv_ps(_mm256_add_ps(v, a), plain_nan, nan), n - i);
    }
}

#define LAYER_NAME(name) name##_avx2
#include "kernel/layer_types.h"

void zoe_kernels_fill_layer_avx2(zoe_kernels *k)
{
    k->layer_weight = layer_weight_avx2;
    fill_types(k);
}
