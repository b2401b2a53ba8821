/* The precompiled character map of SentencePiece: a double-array trie from UTF-8 strings to
 * their replacements. For this room only. */
#ifndef ZOE_CHARSMAP_H
#define ZOE_CHARSMAP_H

#include "base/base.h"

/* Points into the bytes it was read from; all zero is an empty map. */
typedef struct zoe_charsmap {
    const unsigned char *units; /* little-endian u32 */
    size_t count;
    const unsigned char *pool; /* NUL-terminated replacements */
    size_t pool_bytes;
} zoe_charsmap;

/* Reads and checks a map: no walk from the root may leave the trie or the pool, whatever the
 * text, and replacements are UTF-8. Zero bytes are an empty map. Errors: ZOE_FORMAT, ZOE_NOMEM. */
zoe_status zoe_charsmap_read(zoe_context *ctx, zoe_charsmap *map, const void *data, size_t bytes);

/* The replacement of the shortest key that text begins with, or NULL. */
const char *zoe_charsmap_find(const zoe_charsmap *map, const unsigned char *text, size_t bytes);

#endif
