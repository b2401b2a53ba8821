/* The unigram model of SentencePiece as the tokenizers library runs it: scores are summed in
 * f64. For this room only. */
#ifndef ZOE_UNIGRAM_H
#define ZOE_UNIGRAM_H

#include "base/base.h"

/* A growing list of token ids; all zero is an empty one. */
typedef struct zoe_ids {
    int32_t *at;
    size_t count, room;
} zoe_ids;

zoe_status zoe_ids_add(zoe_context *ctx, zoe_ids *ids, int32_t id);
void zoe_ids_free(zoe_ids *ids);

typedef struct zoe_unigram zoe_unigram;

typedef struct zoe_piece {
    const char *text; /* NUL-terminated UTF-8 */
    double score;     /* finite; log probability */
} zoe_piece;

/* Builds a model of count pieces, whose ids are their places; the texts are copied. A text that
 * occurs twice means the later id. unk < count is the id of what is in no piece. Errors:
 * ZOE_FORMAT for an empty text, ZOE_NOMEM. */
zoe_status zoe_unigram_new(zoe_context *ctx, zoe_unigram **model, const zoe_piece *pieces,
                           size_t count, int32_t unk, bool byte_fallback);
void zoe_unigram_free(zoe_unigram *model);

/* Id of the piece with just these bytes, or -1. */
int32_t zoe_unigram_find(const zoe_unigram *model, const char *text, size_t bytes);

/* Appends the ids of the best split of a UTF-8 text. A run of unknown characters gives one unk,
 * or its bytes' pieces with byte fallback if all are there. */
zoe_status zoe_unigram_encode(zoe_context *ctx, const zoe_unigram *model, zoe_ids *ids,
                              const char *text, size_t bytes);

#endif
