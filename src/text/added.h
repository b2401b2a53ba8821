/* Added tokens of a tokenizer.json: strings that are a token wherever a text spells them. For
 * this room only. */
#ifndef ZOE_ADDED_H
#define ZOE_ADDED_H

#include <jansson.h>

#include "text/normalizer.h"
#include "text/unigram.h"

typedef struct zoe_added zoe_added;

/* Reads the field "added_tokens" (NULL or JSON null: none). A token that is in the vocab must
 * have its id there, others must go on from `pieces`, the vocab's size. *size: ids with the
 * added ones. Errors: ZOE_FORMAT, ZOE_NOMEM. */
zoe_status zoe_added_read(zoe_context *ctx, zoe_added **added, size_t *size, const json_t *json,
                          const zoe_unigram *model, size_t pieces,
                          const zoe_normalizer *normalizer);
void zoe_added_free(zoe_added *added); /* NULL is fine */

/* Id of the added token that is spelled so, or -1. */
int32_t zoe_added_find(const zoe_added *added, const char *content);

/* A stretch of text and the token that follows it. Begin with all zero. */
typedef struct zoe_stretch {
    size_t first, last; /* the stretch is first .. last-1 */
    size_t end;         /* of the token */
    int32_t id;         /* -1: no token, the text ends */
} zoe_stretch;

/* Goes on to the next stretch; false at the end of the text. Tokens that are looked for before
 * (false) or after (true) normalising. */
bool zoe_added_next(const zoe_added *added, zoe_stretch *stretch, const uint32_t *at, size_t count,
                    bool normalized);

#endif
