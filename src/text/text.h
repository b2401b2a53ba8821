/* Room 4, text: prompt to token ids. Cleaning as the official code does it (mojibake, HTML
 * entities, white space), and the SentencePiece unigram tokenizer of umT5. */
#ifndef ZOE_TEXT_H
#define ZOE_TEXT_H

#include "base/base.h"

/* Cleans a prompt (bytes, UTF-8 wanted; invalid bytes become U+FFFD). *clean is NUL-terminated,
 * free with zoe_free; NUL characters of the input are dropped. *suspect becomes true when the
 * result holds U+FFFD or still looks like text that was decoded with the wrong encoding, so that
 * the model would see rubbish: the caller warns. Errors: ZOE_INVALID for more than 1 MiB or for
 * text that needs more than 200 rounds, ZOE_NOMEM. What is done and how it was measured against
 * ftfy 6.3.1, which the official code uses: docs/TEXT.md. */
zoe_status zoe_text_clean(zoe_context *ctx, char **clean, bool *suspect, const char *text,
                          size_t bytes);

typedef struct zoe_tokenizer zoe_tokenizer;

/* Opens a tokenizer: a folder with tokenizer.json or spiece.model (the first is preferred, as the
 * official code does), or one such file. */
zoe_status zoe_tokenizer_open(zoe_context *ctx, zoe_tokenizer **tokenizer, const char *path);
/* Opens a spiece.model that lies in memory, such as the tensor spiece_model of some weight files.
 * `name` is for messages; model is not used after the call. */
zoe_status zoe_tokenizer_open_model(zoe_context *ctx, zoe_tokenizer **tokenizer, const void *model,
                                    size_t bytes, const char *name);
void zoe_tokenizer_close(zoe_tokenizer *tokenizer); /* NULL is fine */
/* Number of ids, pad and special tokens included: the embedding must have at least so many rows. */
size_t zoe_tokenizer_size(const zoe_tokenizer *tokenizer);

/* Ids of a cleaned text with </s> at the end, at most `limit` of them (cut before </s>). ids has
 * room for limit. *count: ids written, at least 1. *full: how many there would be without the
 * limit. Any thread, any number at once. */
zoe_status zoe_tokenizer_encode(zoe_context *ctx, const zoe_tokenizer *tokenizer, int32_t *ids,
                                size_t *count, size_t *full, size_t limit, const char *text);

#endif
