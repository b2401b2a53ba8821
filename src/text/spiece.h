/* Checks of a spiece.model before the library may read it. For this room only. */
#ifndef ZOE_SPIECE_H
#define ZOE_SPIECE_H

#include "base/base.h"

/* Checks what the SentencePiece library itself takes on trust: that the protobuf is whole, the
 * model is unigram, pieces are UTF-8 with finite scores, and character maps stay within
 * themselves. *silent becomes true when the model has a character map: without one the library
 * prints a notice. Errors: ZOE_FORMAT, ZOE_UNSUPPORTED, ZOE_NOMEM. */
zoe_status zoe_spiece_check(zoe_context *ctx, bool *silent, const void *model, size_t bytes);

/* Appends a character map that maps nothing to a model that has none. *copy gets *bytes more;
 * free with zoe_free. */
zoe_status zoe_spiece_silence(zoe_context *ctx, void **copy, size_t *bytes, const void *model);

#endif
