/* Rotary position embedding of one head: guests for NEON. Products and sums round one by one, as in the
 * definition. */
#include "kernel/arm/vector_neon.h"

/* A rotation as its loop knows it. */
typedef struct turning {
    zoe_dtype x, y, trig, cast;
    bool half, full;
} turning;

/* Eight pairs: the first of each and the second. */
typedef struct pairs {
    v8 a, b;
} pairs;

/* Sixteen elements whose pairs lie side by side. */
INLINE pairs load_pairs(const void *p, zoe_dtype type)
{
    if (type == ZOE_F32) {
        const float32x4x2_t low = vld2q_f32(p), high = vld2q_f32((const float *)p + 8);
        return (pairs){{low.val[0], high.val[0]}, {low.val[1], high.val[1]}};
    }
    const uint16x8x2_t h = vld2q_u16(p);
    return type == ZOE_F16 ? (pairs){widen8_f16(h.val[0]), widen8_f16(h.val[1])}
                           : (pairs){widen8_bf16(h.val[0]), widen8_bf16(h.val[1])};
}

INLINE void store_pairs(void *p, pairs v, zoe_dtype type)
{
    if (type == ZOE_F32) {
        vst2q_f32(p, (float32x4x2_t){{v.a.a, v.b.a}});
        vst2q_f32((float *)p + 8, (float32x4x2_t){{v.a.b, v.b.b}});
    } else {
        vst2q_u16(p, (uint16x8x2_t){{narrow8(v.a, type), narrow8(v.b, type)}});
    }
}

INLINE float32x4_t turn_first(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t s)
{
    return vsubq_f32(vmulq_f32(a, c), vmulq_f32(b, s));
}

INLINE float32x4_t turn_second(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t s)
{
    return vaddq_f32(vmulq_f32(b, c), vmulq_f32(a, s));
}

/* c, s: the entries for the first and the second of each pair. */
INLINE pairs turned(pairs v, pairs c, pairs s)
{
    return (pairs){
        {turn_first(v.a.a, v.b.a, c.a.a, s.a.a), turn_first(v.a.b, v.b.b, c.a.b, s.a.b)},
        {turn_second(v.a.a, v.b.a, c.b.a, s.b.a), turn_second(v.a.b, v.b.b, c.b.b, s.b.b)}};
}

/* The entries of eight pairs; those of the second ones lie `apart` elements behind, or between. */
INLINE pairs trig_of(const void *p, turning t, size_t apart)
{
    pairs v;
    if (!t.full)
        v.a = v.b = load8(p, t.trig);
    else if (t.half)
        v = (pairs){load8(p, t.trig), load8(element_at(p, t.trig, apart), t.trig)};
    else
        v = load_pairs(p, t.trig);
    return (pairs){round8(v.a, t.cast), round8(v.b, t.cast)};
}

/* Eight pairs; the second ones lie `half` elements behind the first, if not beside them. */
INLINE void turn8(void *y, const void *x, const void *cosines, const void *sines, turning t,
                  size_t half)
{
    const pairs c = trig_of(cosines, t, half), s = trig_of(sines, t, half);
    if (t.half) {
        const pairs v = {load8(x, t.x), load8(element_at(x, t.x, half), t.x)};
        const pairs w = turned(v, c, s);
        store8(y, w.a, t.y);
        store8((unsigned char *)y + half * bytes_of(t.y), w.b, t.y);
    } else {
        store_pairs(y, turned(load_pairs(x, t.x), c, s), t.y);
    }
}

/* Copies the elements of n < 8 pairs; those of a half lie `apart` behind the others on each side. */
INLINE void copy_pairs(void *to, size_t to_apart, const void *from, size_t from_apart,
                       zoe_dtype type, bool half, size_t n)
{
    const size_t bytes = bytes_of(type);
    if (!half) {
        memcpy(to, from, 2 * n * bytes);
        return;
    }
    memcpy(to, from, n * bytes);
    memcpy((unsigned char *)to + to_apart * bytes, (const unsigned char *)from + from_apart * bytes,
           n * bytes);
}

/* The last n < 8 pairs, by way of memory that has room for eight. */
INLINE void turn_rest(void *y, const void *x, const void *cosines, const void *sines, turning t,
                      size_t half, size_t n)
{
    float x_room[16] = {0}, y_room[16], c_room[16] = {0}, s_room[16] = {0};
    copy_pairs(x_room, 8, x, half, t.x, t.half, n);
    if (t.full) {
        copy_pairs(c_room, 8, cosines, half, t.trig, t.half, n);
        copy_pairs(s_room, 8, sines, half, t.trig, t.half, n);
    } else {
        memcpy(c_room, cosines, n * bytes_of(t.trig));
        memcpy(s_room, sines, n * bytes_of(t.trig));
    }
    turn8(y_room, x_room, c_room, s_room, t, 8);
    copy_pairs(y, half, y_room, 8, t.y, t.half, n);
}

INLINE void turn(void *y, const void *x, const void *cosines, const void *sines, turning t,
                 size_t width)
{
    const size_t half = width / 2, element = t.half ? 1 : 2, entry = t.full ? element : 1;
    for (size_t j = 0; j < half; j += 8) {
        unsigned char *to = (unsigned char *)y + j * element * bytes_of(t.y);
        const void *from = element_at(x, t.x, j * element);
        const void *c = element_at(cosines, t.trig, j * entry);
        const void *s = element_at(sines, t.trig, j * entry);
        if (half - j >= 8)
            turn8(to, from, c, s, t, half);
        else
            turn_rest(to, from, c, s, t, half, half - j);
    }
}

/* The forms that models use have f32 tables of one entry a pair, and these types; each has a loop of its
 * own, since a head is short. */
#define FORMS                                                                                      \
    FORM(F32, F32)                                                                                 \
    FORM(F32, BF16)                                                                                \
    FORM(F32, F16)                                                                                 \
    FORM(BF16, BF16)                                                                               \
    FORM(F16, F16)

#define FORM(x_, y_)                                                                               \
    static void turn_##x_##_##y_(void *y, const void *x, const void *cosines, const void *sines,   \
                                 bool half, size_t width)                                          \
    {                                                                                              \
        if (half)                                                                                  \
            turn(y, x, cosines, sines,                                                             \
                 (turning){.x = ZOE_##x_, .y = ZOE_##y_, .trig = ZOE_F32, .half = true}, width);   \
        else                                                                                       \
            turn(y, x, cosines, sines, (turning){.x = ZOE_##x_, .y = ZOE_##y_, .trig = ZOE_F32},   \
                 width);                                                                           \
    }
FORMS
#undef FORM

static void rotate_neon(void *y, const void *x, const void *cosines, const void *sines,
                        const zoe_rotation *r, size_t width)
{
    if (r->trig == ZOE_F32 && !r->full && r->cast == ZOE_NONE) {
#define FORM(x_, y_)                                                                               \
    if (r->x == ZOE_##x_ && r->y == ZOE_##y_) {                                                    \
        turn_##x_##_##y_(y, x, cosines, sines, r->half, width);                                    \
        return;                                                                                    \
    }
        FORMS
#undef FORM
    }
    /* asks for its types as it goes */
    turn(y, x, cosines, sines,
         (turning){.x = r->x,
                   .y = r->y,
                   .trig = r->trig,
                   .cast = r->cast,
                   .half = r->half,
                   .full = r->full},
         width);
}

void zoe_kernels_fill_rotary_neon(zoe_kernels *k)
{
    k->rotate = rotate_neon;
}
