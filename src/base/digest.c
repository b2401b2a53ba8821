/* SHA-256 by libcrypto. */
#include "base/digest.h"
#include "base/file.h"

#include <errno.h>
#include <openssl/evp.h>
#include <unistd.h>

struct zoe_digest {
    EVP_MD_CTX *md;
    bool failed;
};

zoe_status zoe_digest_new(zoe_context *ctx, zoe_digest **digest)
{
    void *p;
    *digest = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **digest, "digest"));
    zoe_digest *d = p;
    d->md = EVP_MD_CTX_new();
    if (!d->md || EVP_DigestInit_ex(d->md, EVP_sha256(), NULL) != 1) {
        zoe_digest_free(d);
        return zoe_fail(ctx, ZOE_NOMEM, "digest: libcrypto gives no SHA-256");
    }
    *digest = d;
    return ZOE_OK;
}

void zoe_digest_free(zoe_digest *digest)
{
    if (!digest)
        return;
    EVP_MD_CTX_free(digest->md);
    zoe_free(digest);
}

void zoe_digest_add(zoe_digest *digest, const void *data, size_t bytes)
{
    if (bytes > 0 && EVP_DigestUpdate(digest->md, data, bytes) != 1)
        digest->failed = true;
}

void zoe_digest_add_text(zoe_digest *digest, const char *text)
{
    const uint64_t length = strlen(text);
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(length >> 8 * i);
    zoe_digest_add(digest, bytes, sizeof bytes);
    zoe_digest_add(digest, text, (size_t)length);
}

zoe_status zoe_digest_end(zoe_context *ctx, zoe_digest *digest, char text[ZOE_DIGEST_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    text[0] = '\0';
    if (digest->failed || EVP_DigestFinal_ex(digest->md, bytes, &n) != 1 ||
        2 * n + 1 != ZOE_DIGEST_TEXT)
        return zoe_fail(ctx, ZOE_INTERNAL, "digest: libcrypto failed");
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[ZOE_DIGEST_TEXT - 1] = '\0';
    return ZOE_OK;
}

zoe_status zoe_digest_of(zoe_context *ctx, char text[ZOE_DIGEST_TEXT], const void *data,
                         size_t bytes)
{
    zoe_digest *digest;
    TRY(zoe_digest_new(ctx, &digest));
    zoe_digest_add(digest, data, bytes);
    const zoe_status status = zoe_digest_end(ctx, digest, text);
    zoe_digest_free(digest);
    return status;
}

static zoe_status add_file(zoe_context *ctx, zoe_digest *digest, int fd, unsigned char *buffer,
                           size_t room, const char *path)
{
    for (;;) {
        TRY(zoe_check_cancel(ctx));
        const ssize_t n = read(fd, buffer, room);
        if (n == 0)
            return ZOE_OK;
        if (n < 0 && errno != EINTR)
            return zoe_fail(ctx, ZOE_IO, "%s: cannot read: %s", path, strerror(errno));
        if (n > 0)
            zoe_digest_add(digest, buffer, (size_t)n);
    }
}

zoe_status zoe_file_digest(zoe_context *ctx, char text[ZOE_DIGEST_TEXT], const char *path)
{
    enum { BUFFER = 1 << 20 };
    zoe_digest *digest = NULL;
    void *buffer = NULL;
    zoe_status status;
    int fd;
    text[0] = '\0';
    TRY(zoe_file_open(ctx, &fd, path, false));
    TRY_GOTO(zoe_digest_new(ctx, &digest));
    TRY_GOTO(zoe_alloc(ctx, &buffer, BUFFER, 1, "file buffer"));
    TRY_GOTO(add_file(ctx, digest, fd, buffer, BUFFER, path));
    TRY_GOTO(zoe_digest_end(ctx, digest, text));
done:
    close(fd);
    zoe_free(buffer);
    zoe_digest_free(digest);
    return status;
}
