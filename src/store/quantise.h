/* From f32 to the types that checkpoints store; for this room only. */
#ifndef ZOE_QUANTISE_H
#define ZOE_QUANTISE_H

#include "base/base.h"

/* Rounds n finite values, a whole number of blocks, into dst: F32, F16, BF16, F8_E4M3 (magnitudes
 * beyond 448 become 448) or a block type. In blocks, scales are chosen for the least sum of squared
 * errors among a few around the obvious one, and the elements are rounded for the scales as they are
 * stored. Any alignment of dst. */
void zoe_quantise(void *dst, zoe_dtype dtype, const float *src, size_t n);

#endif
