/* Random normals, equal to torch's CPU generator bit for bit. */
#ifndef ZOE_RANDOM_H
#define ZOE_RANDOM_H

#include "base/base.h"

typedef struct zoe_random {
    uint32_t state[624];
    size_t next; /* index of the next word */
    double kept; /* second value of a pair in the path of fewer than 16 values */
    bool has_kept;
} zoe_random;

/* MT19937 seeded with the low 32 bits of seed, as torch.Generator().manual_seed(seed) is. */
void zoe_random_seed(zoe_random *r, uint64_t seed);
uint32_t zoe_random_word(zoe_random *r);
/* The n values of torch.randn(n, dtype=float32) of a contiguous CPU tensor (the AVX2 form on every
 * cpu). Fewer than 16 values come in pairs: after an odd number the second one of the last pair is
 * kept and starts the next such call. Source: Matsumoto and Nishimura 1998; the order of draws is
 * torch's. */
void zoe_random_normal(zoe_random *r, float *values, size_t n);

#endif
