/* The few calls of the SentencePiece library that the engine needs, in C. For this room only. */
#ifndef ZOE_SENTENCEPIECE_SHIM_H
#define ZOE_SENTENCEPIECE_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include "zoetrope/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zoe_sentencepiece zoe_sentencepiece;

/* Loads a serialized model. On ZOE_FORMAT, reason (room bytes) says why. Other error: ZOE_NOMEM. */
zoe_status zoe_sentencepiece_new(zoe_sentencepiece **model, const void *proto, size_t bytes,
                                 char *reason, size_t room);
void zoe_sentencepiece_free(zoe_sentencepiece *model); /* NULL is fine */
size_t zoe_sentencepiece_size(const zoe_sentencepiece *model);
/* Id of the end token, or -1. */
int32_t zoe_sentencepiece_end(const zoe_sentencepiece *model);

/* Calls add(user, id) for each id of the text until it returns other than ZOE_OK, which is then
 * returned. */
zoe_status zoe_sentencepiece_encode(const zoe_sentencepiece *model, const char *text, size_t bytes,
                                    zoe_status (*add)(void *user, int32_t id), void *user);

#ifdef __cplusplus
}
#endif
#endif
