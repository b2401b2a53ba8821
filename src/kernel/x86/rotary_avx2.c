/* Rotary position embedding of one head: guests for AVX2. Products and sums round one by one, as in
 * the definition. */
#include "kernel/x86/row_avx2.h"

/* A rotation as its loop knows it. */
typedef struct turning {
    zoe_dtype x, y, trig, cast;
    bool full, stream;
} turning;

/* a cos - b sin and b cos + a sin of pairs (a, b) side by side. */
ROW_INLINE __m256 turn_pairs(__m256 v, __m256 c, __m256 s)
{
    return _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s));
}

/* Each of four values twice. */
ROW_INLINE __m256 doubled(__m128 v)
{
    return _mm256_set_m128(_mm_unpackhi_ps(v, v), _mm_unpacklo_ps(v, v));
}

/* The entries for sixteen elements whose pairs lie side by side. */
ROW_INLINE v16 paired_trig(const void *p, turning t)
{
    if (t.full)
        return row_round(row_load(p, t.trig, false), t.cast, true);
    __m256 v;
    if (t.trig == ZOE_F32)
        v = _mm256_loadu_ps(p);
    else
        v = t.trig == ZOE_F16 ? _mm256_cvtph_ps(_mm_loadu_si128(p))
                              : widen8_bf16(_mm_loadu_si128(p));
    v = row_round8(v, t.cast, true);
    return (v16){doubled(_mm256_castps256_ps128(v)), doubled(_mm256_extractf128_ps(v, 1))};
}

ROW_INLINE void interleaved16(void *y, const void *x, const void *cosines, const void *sines,
                              turning t)
{
    const v16 v = row_load(x, t.x, false);
    const v16 c = paired_trig(cosines, t), s = paired_trig(sines, t);
    row_store(y, (v16){turn_pairs(v.a, c.a, s.a), turn_pairs(v.b, c.b, s.b)}, t.y, false, true,
              t.stream);
}

ROW_INLINE void interleaved(unsigned char *y, const unsigned char *x, const unsigned char *cosines,
                            const unsigned char *sines, turning t, size_t width)
{
    const size_t ex = row_element(t.x), ey = row_element(t.y), et = row_element(t.trig);
    size_t i = 0;
    for (; i + 16 <= width; i += 16) {
        const size_t at = (t.full ? i : i / 2) * et;
        interleaved16(y + i * ey, x + i * ex, cosines + at, sines + at, t);
    }
    if (i == width)
        return;
    float x_room[16], y_room[16], c_room[16], s_room[16];
    const size_t n = width - i, at = t.full ? i : i / 2, entries = t.full ? n : n / 2;
    t.stream = false;
    interleaved16(y_room, row_part(x_room, x + i * ex, t.x, n),
                  row_part(c_room, cosines + at * et, t.trig, entries),
                  row_part(s_room, sines + at * et, t.trig, entries), t);
    memcpy(y + i * ey, y_room, n * ey);
}

/* Sixteen pairs (a, b): their entries are those of a, and with full tables those of b as well. */
typedef struct pairs {
    const void *a, *b, *cos_a, *sin_a, *cos_b, *sin_b;
} pairs;

ROW_INLINE void halves16(void *y_a, void *y_b, pairs p, turning t)
{
    const v16 a = row_load(p.a, t.x, false), b = row_load(p.b, t.x, false);
    const v16 c = row_round(row_load(p.cos_a, t.trig, false), t.cast, true);
    const v16 s = row_round(row_load(p.sin_a, t.trig, false), t.cast, true);
    const v16 d = t.full ? row_round(row_load(p.cos_b, t.trig, false), t.cast, true) : c;
    const v16 r = t.full ? row_round(row_load(p.sin_b, t.trig, false), t.cast, true) : s;
    const v16 first = {_mm256_sub_ps(_mm256_mul_ps(a.a, c.a), _mm256_mul_ps(b.a, s.a)),
                       _mm256_sub_ps(_mm256_mul_ps(a.b, c.b), _mm256_mul_ps(b.b, s.b))};
    const v16 second = {_mm256_add_ps(_mm256_mul_ps(b.a, d.a), _mm256_mul_ps(a.a, r.a)),
                        _mm256_add_ps(_mm256_mul_ps(b.b, d.b), _mm256_mul_ps(a.b, r.b))};
    row_store(y_a, first, t.y, false, true, t.stream);
    row_store(y_b, second, t.y, false, true, t.stream);
}

ROW_INLINE pairs pairs_at(const unsigned char *x, const unsigned char *cosines,
                          const unsigned char *sines, turning t, size_t j, size_t half)
{
    const size_t ex = row_element(t.x), et = row_element(t.trig), b = t.full ? j + half : j;
    return (pairs){x + j * ex,     x + (j + half) * ex, cosines + j * et,
                   sines + j * et, cosines + b * et,    sines + b * et};
}

ROW_INLINE void halves(unsigned char *y, const unsigned char *x, const unsigned char *cosines,
                       const unsigned char *sines, turning t, size_t width)
{
    const size_t half = width / 2, ey = row_element(t.y);
    size_t j = 0;
    for (; j + 16 <= half; j += 16)
        halves16(y + j * ey, y + (j + half) * ey, pairs_at(x, cosines, sines, t, j, half), t);
    if (j == half)
        return;
    float room[6][16], y_a[16], y_b[16];
    const size_t n = half - j;
    const pairs p = pairs_at(x, cosines, sines, t, j, half);
    const pairs q = {row_part(room[0], p.a, t.x, n),        row_part(room[1], p.b, t.x, n),
                     row_part(room[2], p.cos_a, t.trig, n), row_part(room[3], p.sin_a, t.trig, n),
                     row_part(room[4], p.cos_b, t.trig, n), row_part(room[5], p.sin_b, t.trig, n)};
    t.stream = false;
    halves16(y_a, y_b, q, t);
    memcpy(y + j * ey, y_a, n * ey);
    memcpy(y + (j + half) * ey, y_b, n * ey);
}

ROW_INLINE void turn(void *y, const void *x, const void *cosines, const void *sines, turning t,
                     bool half, size_t width)
{
    if (half)
        halves(y, x, cosines, sines, t, width);
    else
        interleaved(y, x, cosines, sines, t, width);
}

/* A function of its own for each form that models use, since a head is short: KNOWN(X, Y) are those
 * from type X to type Y with f32 tables; if pairs lie side by side, also with an entry an element. */
#define KNOWN(x_, y_)                                                                              \
    ONE(x_, y_, 0, 0, 0)                                                                           \
    ONE(x_, y_, 0, 0, 1)                                                                           \
    ONE(x_, y_, 0, 1, 0)                                                                           \
    ONE(x_, y_, 0, 1, 1)                                                                           \
    ONE(x_, y_, 1, 0, 0)                                                                           \
    ONE(x_, y_, 1, 0, 1)
#define ALL_KNOWN KNOWN(F32, F32) KNOWN(F32, BF16) KNOWN(F32, F16) KNOWN(BF16, BF16) KNOWN(F16, F16)
#define ONE(x_, y_, half_, full_, stream_)                                                         \
    static void turn_##x_##_##y_##_##half_##full_##stream_(                                        \
        void *y, const void *x, const void *cosines, const void *sines, size_t width)              \
    {                                                                                              \
        turn(y, x, cosines, sines,                                                                 \
             (turning){.x = ZOE_##x_,                                                              \
                       .y = ZOE_##y_,                                                              \
                       .trig = ZOE_F32,                                                            \
                       .full = (full_),                                                            \
                       .stream = (stream_)},                                                       \
             (half_), width);                                                                      \
    }
ALL_KNOWN
#undef ONE

/* Every other form; asks for its types as it goes. */
static void turn_any(void *y, const void *x, const void *cosines, const void *sines,
                     const zoe_rotation *r, bool stream, size_t width)
{
    const turning t = {
        .x = r->x, .y = r->y, .trig = r->trig, .cast = r->cast, .full = r->full, .stream = stream};
    turn(y, x, cosines, sines, t, r->half, width);
}

#define KEY(x_, y_, half_, full_, stream_)                                                         \
    ((unsigned)(x_) << 8 | (unsigned)(y_) << 4 | (unsigned)(half_) << 2 | (unsigned)(full_) << 1 | \
     (unsigned)(stream_))

static void rotate_avx2(void *y, const void *x, const void *cosines, const void *sines,
                        const zoe_rotation *r, size_t width)
{
    const bool stream = r->stream && (uintptr_t)y % 32 == 0 &&
                        (!r->half || width / 2 * row_element(r->y) % 32 == 0);
    if (r->trig != ZOE_F32 || r->cast != ZOE_NONE) {
        turn_any(y, x, cosines, sines, r, stream, width);
        return;
    }
    switch (KEY(r->x, r->y, r->half, r->full, stream)) {
#define ONE(x_, y_, half_, full_, stream_)                                                         \
    case KEY(ZOE_##x_, ZOE_##y_, half_, full_, stream_):                                           \
        turn_##x_##_##y_##_##half_##full_##stream_(y, x, cosines, sines, width);                   \
        break;
        ALL_KNOWN
#undef ONE
    default: turn_any(y, x, cosines, sines, r, stream, width); break;
    }
}

void zoe_kernels_fill_rotary_avx2(zoe_kernels *k)
{
    k->rotate = rotate_avx2;
}
