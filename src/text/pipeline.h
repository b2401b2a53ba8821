/* A tokenizer.json as the tokenizers library runs it: added tokens, normaliser, splits, unigram
 * model. For this room only. */
#ifndef ZOE_PIPELINE_H
#define ZOE_PIPELINE_H

#include "text/unigram.h"

typedef struct zoe_pipeline zoe_pipeline;

/* Reads the text of the file. Errors: ZOE_FORMAT (no JSON, or fields that are missing or
 * contradict each other), ZOE_UNSUPPORTED (a kind of normaliser, split, model or post-processor
 * that is not known, named), ZOE_NOMEM. */
zoe_status zoe_pipeline_read(zoe_context *ctx, zoe_pipeline **pipeline, const void *json,
                             size_t bytes);
void zoe_pipeline_free(zoe_pipeline *pipeline); /* NULL is fine */

/* Number of ids. */
size_t zoe_pipeline_size(const zoe_pipeline *pipeline);
/* The token that the post-processor puts behind a text. */
int32_t zoe_pipeline_end(const zoe_pipeline *pipeline);

/* Appends the ids of a text, without the end token. */
zoe_status zoe_pipeline_encode(zoe_context *ctx, const zoe_pipeline *pipeline, zoe_ids *ids,
                               const char *text);

#endif
