/* SHA-256, as model hubs list it for their files. On OpenSSL's libcrypto, which uses the cpu's
 * instructions for it. */
#ifndef ZOE_DIGEST_H
#define ZOE_DIGEST_H

#include "base/base.h"

enum { ZOE_DIGEST_TEXT = 65 }; /* 64 hexadecimal digits and the end */

typedef struct zoe_digest zoe_digest;

/* Errors: ZOE_NOMEM. */
zoe_status zoe_digest_new(zoe_context *ctx, zoe_digest **digest);
void zoe_digest_add(zoe_digest *digest, const void *data, size_t bytes);
/* A string with its length, so that two lists of strings never give the same bytes. */
void zoe_digest_add_text(zoe_digest *digest, const char *text);
/* Ends it; text gets the lower-case hexadecimal digits. Errors: ZOE_INTERNAL (libcrypto failed on
 * the way). */
zoe_status zoe_digest_end(zoe_context *ctx, zoe_digest *digest, char text[ZOE_DIGEST_TEXT]);
void zoe_digest_free(zoe_digest *digest); /* NULL is fine */

/* Of some memory. */
zoe_status zoe_digest_of(zoe_context *ctx, char text[ZOE_DIGEST_TEXT], const void *data,
                         size_t bytes);
/* Of a file, read through once. Errors: ZOE_MISSING, ZOE_IO, ZOE_NOMEM, ZOE_CANCELLED. */
zoe_status zoe_file_digest(zoe_context *ctx, char text[ZOE_DIGEST_TEXT], const char *path);

#endif
