/* The normalisers of a tokenizer.json, run in the order of the file. For this room only. */
#ifndef ZOE_NORMALIZER_H
#define ZOE_NORMALIZER_H

#include <jansson.h>

#include "text/unicode.h"

typedef struct zoe_normalizer zoe_normalizer;

/* Reads the field "normalizer" (NULL or JSON null: none). Kinds: Sequence, Precompiled, Strip,
 * Replace (of a plain string, or of one character repeated, such as " {2,}"), Prepend, NFC, NFD,
 * NFKC, NFKD. Errors: ZOE_UNSUPPORTED for another kind, named; ZOE_FORMAT; ZOE_NOMEM. */
zoe_status zoe_normalizer_read(zoe_context *ctx, zoe_normalizer **normalizer, const json_t *json);
void zoe_normalizer_free(zoe_normalizer *normalizer); /* NULL is fine */

/* Normalises a text without surrogates in place. */
zoe_status zoe_normalizer_run(zoe_context *ctx, const zoe_normalizer *normalizer, zoe_chars *text);

#endif
