/* What the networks share: fetching weights, probing. For this room only. */
#ifndef ZOE_WEIGHTS_H
#define ZOE_WEIGHTS_H

#include "model/model.h"

static inline size_t zoe_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- small vectors (norms, biases, modulations): copied to f32 at load, rounded to bf16 first if
 * `round` ---- */

typedef struct zoe_vectors {
    bool round;
    void **pieces;
    size_t count, room;
    size_t bytes;
} zoe_vectors;

/* The tensor prefix+name with n elements (any shape of that count). */
zoe_status zoe_vector(zoe_context *ctx, zoe_vectors *vectors, const zoe_store *store,
                      float **values, const char *prefix, const char *name, size_t n);
void zoe_vectors_free(zoe_vectors *vectors);

/* The tensor prefix+name as [rows, columns] in its stored form; trailing axes of a convolution
 * count as columns. 0 fits any extent. Of a block type, rows of a given width must be whole
 * blocks. */
zoe_status zoe_matrix(zoe_context *ctx, const zoe_store *store, zoe_tensor *matrix,
                      const char *prefix, const char *name, size_t rows, size_t columns);

/* One more than the highest N of the names "blocks.N.". Gaps show as missing tensors. */
size_t zoe_count_blocks(const zoe_store *store);

/* The names that a network has: at top level, and behind "blocks.N.". */
typedef struct zoe_names_known {
    const char *const *top;
    size_t top_count;
    const char *const *block;
    size_t block_count;
    size_t optional; /* so many of the last ones at top level need not be there */
} zoe_names_known;
extern const zoe_names_known zoe_umt5_names;
/* Those of the transformer that the store holds, with or without an image branch. */
const zoe_names_known *zoe_wan_names(const zoe_store *store);

/* Is it one of the names, in the first `blocks` blocks? */
bool zoe_name_is_known(const zoe_names_known *known, const char *name, size_t blocks);
/* Splits "PREFIX<N>.rest"; false if the name has another form. */
bool zoe_name_split(const char *name, const char *prefix, size_t *number, const char **rest);

/* Every tensor of the store must be one of the network's: what is left over (scales of quantised weights, LoRA, parts of
 * another network) would change the result if it were known. ZOE_UNSUPPORTED, naming the first. */
zoe_status zoe_refuse_unknown(zoe_context *ctx, const zoe_store *store,
                              const zoe_names_known *known, size_t blocks);

/* ---- probes: NULL is fine ---- */

void zoe_probe_see(const zoe_probe *probe, const char *name, zoe_tensor value);
/* Sees "block<i>.<name>". */
void zoe_probe_block(const zoe_probe *probe, size_t i, const char *name, zoe_tensor value);

#endif
