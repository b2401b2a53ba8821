/* Block-quantised types: what their blocks mean. */
#ifndef ZOE_BLOCK_H
#define ZOE_BLOCK_H

#include "base/base.h"

/* Elements of the largest block. */
#define ZOE_BLOCK_MOST 256

/* Widens whole blocks: the definition, to the last bit what the formulas of the format give in f32,
 * multiplied and added in the written order. Any alignment. Source: the ggml formats, as the GGUF
 * tools read them.
 *
 * d, m, dmin are f16, q are quantised elements of some bits, s are scales of groups.
 *
 *   q4_0  d (q - 8)       q4_1  d q + m        32 elements; the low halves of 16 bytes, then the high
 *   q5_0  d (q - 16)      q5_1  d q + m        the same, and a word of fifth bits
 *   q8_0  d q                                  32 signed bytes
 *   q2_k  (d s) q - (dmin m)                   16 groups of 16; s and m of 4 bits
 *   q3_k  (d (s - 32)) (q - 4)                 16 groups of 16; s of 6 bits
 *   q4_k, q5_k  (d s) q - (dmin m)             8 groups of 32; s and m of 6 bits
 *   q6_k  (d s) (q - 32)                       16 groups of 16; s a signed byte */
void zoe_block_widen(float *dst, const void *src, zoe_dtype dtype, size_t blocks);

/* A little-endian f16 at any address. */
static inline uint16_t zoe_block_half(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

/* The 8 pairs of 6 bits that q4_k and q5_k keep in 12 bytes: the first four as they are, with the
 * upper two bits of the last four above them. */
static inline void zoe_block_pairs(uint8_t scale[8], uint8_t min[8], const unsigned char s[12])
{
    for (size_t j = 0; j < 4; j++) {
        scale[j] = s[j] & 63;
        min[j] = s[j + 4] & 63;
        scale[j + 4] = (uint8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        min[j + 4] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

/* The 16 scales of 6 bits, less 32, that q3_k keeps in 12 bytes: four bits of each in the first 8,
 * two in the last 4. */
static inline void zoe_block_scales(int8_t scale[16], const unsigned char s[12])
{
    for (size_t k = 0; k < 16; k++) {
        const int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
        const int high = s[8 + k % 4] >> 2 * (k / 4) & 3;
        scale[k] = (int8_t)((low | high << 4) - 32);
    }
}

#endif
