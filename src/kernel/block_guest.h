/* Block-quantised types as guests compute them, whatever the instruction set: where the parts of a block lie.
 * The quantised elements become bytes, 16 at a time; one function a formula turns those into floats with
 * the same products and sums as the definition.
 *
 * To be included once, in a file that has defined, for a vector of 16 bytes:
 *   bytes16             the type
 *   half(p)             the f16 at p, widened
 *   load16(p)           16 bytes
 *   field(q, from, n)   the n bits of each byte from bit `from` on, moved down
 *   upper(q, from, n, to)   the same, moved up to bit `to`
 *   either(a, b)        or
 *   fifth_bits(p)       bit i of the 16 bits at p as 16 in byte i
 *   minus(q, n)         q - n, bytes with sign
 *   put(y, q, d), put_plus(y, q, d, m), put_less(y, q, d, m)
 *                       y[i] = d q[i], plus m, less m; bytes with sign
 *   BLOCK_GUEST(name)   the name with that of the instruction set */
#include "base/block.h"

#define BLOCK_INLINE static inline __attribute__((always_inline))

BLOCK_INLINE void block_q4_0(float *y, const unsigned char *b)
{
    const bytes16 q = load16(b + 2);
    put(y, minus(field(q, 0, 4), 8), half(b));
    put(y + 16, minus(field(q, 4, 4), 8), half(b));
}

BLOCK_INLINE void block_q4_1(float *y, const unsigned char *b)
{
    const bytes16 q = load16(b + 4);
    put_plus(y, field(q, 0, 4), half(b), half(b + 2));
    put_plus(y + 16, field(q, 4, 4), half(b), half(b + 2));
}

BLOCK_INLINE void block_q5_0(float *y, const unsigned char *b)
{
    const bytes16 q = load16(b + 6);
    put(y, minus(either(field(q, 0, 4), fifth_bits(b + 2)), 16), half(b));
    put(y + 16, minus(either(field(q, 4, 4), fifth_bits(b + 4)), 16), half(b));
}

BLOCK_INLINE void block_q5_1(float *y, const unsigned char *b)
{
    const bytes16 q = load16(b + 8);
    put_plus(y, either(field(q, 0, 4), fifth_bits(b + 4)), half(b), half(b + 2));
    put_plus(y + 16, either(field(q, 4, 4), fifth_bits(b + 6)), half(b), half(b + 2));
}

BLOCK_INLINE void block_q8_0(float *y, const unsigned char *b)
{
    put(y, load16(b + 2), half(b));
    put(y + 16, load16(b + 18), half(b));
}

BLOCK_INLINE void block_q4_k(float *y, const unsigned char *b)
{
    const float d = half(b), dmin = half(b + 2);
    uint8_t scale[8], min[8];
    zoe_block_pairs(scale, min, b + 4);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const float s = d * (float)scale[j], m = dmin * (float)min[j];
        for (int i = 0; i < 32; i += 16)
            put_less(y + 32 * j + i, field(load16(b + 16 + j / 2 * 32 + i), j % 2 * 4, 4), s, m);
    }
}

BLOCK_INLINE void block_q5_k(float *y, const unsigned char *b)
{
    const float d = half(b), dmin = half(b + 2);
    uint8_t scale[8], min[8];
    zoe_block_pairs(scale, min, b + 4);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const float s = d * (float)scale[j], m = dmin * (float)min[j];
        for (int i = 0; i < 32; i += 16) {
            const bytes16 low = field(load16(b + 48 + j / 2 * 32 + i), j % 2 * 4, 4);
            const bytes16 high = upper(load16(b + 16 + i), j, 1, 4);
            put_less(y + 32 * j + i, either(low, high), s, m);
        }
    }
}

BLOCK_INLINE void block_q2_k(float *y, const unsigned char *b)
{
    const float d = half(b + 80), dmin = half(b + 82);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const bytes16 q = load16(b + 16 + k / 8 * 32 + k % 2 * 16);
        put_less(y + 16 * k, field(q, k % 8 / 2 * 2, 2), d * (float)(b[k] & 15),
                 dmin * (float)(b[k] >> 4));
    }
}

BLOCK_INLINE void block_q3_k(float *y, const unsigned char *b)
{
    const float d = half(b + 108);
    int8_t scale[16];
    zoe_block_scales(scale, b + 96);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const bytes16 low = field(load16(b + 32 + k / 8 * 32 + k % 2 * 16), k % 8 / 2 * 2, 2);
        const bytes16 high = upper(load16(b + k % 2 * 16), k / 2, 1, 2);
        put(y + 16 * k, minus(either(low, high), 4), d * (float)scale[k]);
    }
}

BLOCK_INLINE void block_q6_k(float *y, const unsigned char *b)
{
    const float d = half(b + 208);
#pragma GCC unroll 16
    for (int k = 0; k < 16; k++) {
        const int j = k % 8 / 2, part = k % 2 * 16;
        const bytes16 low = field(load16(b + k / 8 * 64 + j % 2 * 32 + part), j / 2 * 4, 4);
        const bytes16 high = upper(load16(b + 128 + k / 8 * 32 + part), 2 * j, 2, 4);
        put(y + 16 * k, minus(either(low, high), 32), d * (float)(int8_t)b[192 + k]);
    }
}

typedef void widen_block(float *y, const unsigned char *b);

BLOCK_INLINE void widen(float *y, const void *x, zoe_dtype dtype, size_t n, widen_block *block)
{
    const size_t elements = zoe_block_elements(dtype), bytes = zoe_block_bytes(dtype);
    const unsigned char *b = x;
    for (; n >= elements; n -= elements, y += elements, b += bytes)
        block(y, b);
    zoe_widen(y, b, dtype, n);
}

/* The kernels of all types, and their slots. */
#define WIDEN(name, NAME)                                                                          \
    static void BLOCK_GUEST(name)(float *y, const void *x, size_t n)                               \
    {                                                                                              \
        widen(y, x, ZOE_##NAME, n, block_##name);                                                  \
    }
WIDEN(q4_0, Q4_0)
WIDEN(q4_1, Q4_1)
WIDEN(q5_0, Q5_0)
WIDEN(q5_1, Q5_1)
WIDEN(q8_0, Q8_0)
WIDEN(q2_k, Q2_K)
WIDEN(q3_k, Q3_K)
WIDEN(q4_k, Q4_K)
WIDEN(q5_k, Q5_K)
WIDEN(q6_k, Q6_K)
#undef WIDEN

static void fill(zoe_kernels *k)
{
    k->widen_q4_0 = BLOCK_GUEST(q4_0);
    k->widen_q4_1 = BLOCK_GUEST(q4_1);
    k->widen_q5_0 = BLOCK_GUEST(q5_0);
    k->widen_q5_1 = BLOCK_GUEST(q5_1);
    k->widen_q8_0 = BLOCK_GUEST(q8_0);
    k->widen_q2_k = BLOCK_GUEST(q2_k);
    k->widen_q3_k = BLOCK_GUEST(q3_k);
    k->widen_q4_k = BLOCK_GUEST(q4_k);
    k->widen_q5_k = BLOCK_GUEST(q5_k);
    k->widen_q6_k = BLOCK_GUEST(q6_k);
}
