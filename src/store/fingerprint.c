/* What the weights are, in 64 digits: from samples of a large checkpoint, or from all of it. */
#include <sys/stat.h>

#include "base/digest.h"
#include "store/content.h"

/* A tensor of more than WHOLE bytes is known by BLOCKS blocks of BLOCK bytes, the first at its
 * begin, the last at its end. */
enum { WHOLE = 1 << 20, BLOCK = 16 << 10, BLOCKS = 16, PIECE = 16 << 20 };

typedef struct survey {
    const zoe_context *ctx; /* to ask for cancelling only: workers must not write to it */
    const zoe_store *store;
    bool whole;                       /* no samples */
    char (*digests)[ZOE_DIGEST_TEXT]; /* of each tensor's bytes; "" where that failed */
} survey;

/* Where block i of so many bytes begins. */
static size_t block_at(size_t bytes, size_t i)
{
    const size_t last = bytes - BLOCK, gaps = BLOCKS - 1;
    return last / gaps * i + last % gaps * i / gaps;
}

/* Asks for the blocks of all large tensors at once, so that a disk can serve them in its order. */
static void will_need_blocks(const zoe_store *store)
{
    for (size_t n = 0; n < zoe_store_count(store); n++) {
        const zoe_tensor t = zoe_store_tensor(store, n);
        const size_t bytes = zoe_tensor_bytes(t);
        for (size_t i = 0; bytes > WHOLE && i < BLOCKS; i++)
            zoe_store_will_need(
                store, zoe_tensor_1d((unsigned char *)t.data + block_at(bytes, i), ZOE_U8, BLOCK));
    }
}

/* Lets each piece go again, so that no more than a piece is in memory, whatever the model's size. */
static void add_pieces(const survey *s, zoe_digest *digest, const unsigned char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        zoe_digest_add(digest, data + at, n);
        zoe_store_drop_tensor(s->store, zoe_tensor_1d((void *)(uintptr_t)(data + at), ZOE_U8, n));
    }
}

static void digest_tensor(void *arg, size_t n, size_t worker)
{
    const survey *s = arg;
    zoe_digest *digest;
    (void)worker;
    if (zoe_cancelled(s->ctx) || zoe_digest_new(NULL, &digest) != ZOE_OK)
        return;
    const zoe_tensor t = zoe_store_tensor(s->store, n);
    const unsigned char *data = t.data;
    const size_t bytes = zoe_tensor_bytes(t);
    if (bytes <= WHOLE || s->whole)
        add_pieces(s, digest, data, bytes);
    else
        for (size_t i = 0; i < BLOCKS; i++)
            add_pieces(s, digest, data + block_at(bytes, i), BLOCK);
    if (zoe_digest_end(NULL, digest, s->digests[n]) != ZOE_OK)
        s->digests[n][0] = '\0';
    zoe_digest_free(digest);
}

static void add_size(zoe_digest *digest, size_t size)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)((uint64_t)size >> 8 * i);
    zoe_digest_add(digest, bytes, sizeof bytes);
}

/* Factors beside a weight are part of what it is. */
static void add_scaling(zoe_digest *digest, zoe_tensor t)
{
    const zoe_scaling *s = t.scaling;
    const size_t rows = t.rank ? t.shape[0] : 1;
    if (!s || rows == 0)
        return;
    add_size(digest, s->row_step);
    add_size(digest, s->column_step);
    zoe_digest_add(digest, (const unsigned char *)s->values,
                   ((rows - 1) / s->row_step + 1) * s->columns * sizeof *s->values);
}

/* Name, type, shape and bytes of every tensor, in order of names. */
static zoe_status combine(zoe_context *ctx, const survey *s, char text[ZOE_DIGEST_TEXT])
{
    zoe_digest *digest;
    TRY(zoe_digest_new(ctx, &digest));
    for (size_t n = 0; n < zoe_store_count(s->store); n++) {
        const zoe_tensor t = zoe_store_tensor(s->store, n);
        zoe_digest_add_text(digest, zoe_store_name(s->store, n));
        zoe_digest_add_text(digest, zoe_dtype_name(t.dtype));
        add_size(digest, (size_t)t.rank);
        for (int i = 0; i < t.rank; i++)
            add_size(digest, t.shape[i]);
        add_scaling(digest, t);
        zoe_digest_add_text(digest, s->digests[n]);
    }
    const zoe_status status = zoe_digest_end(ctx, digest, text);
    zoe_digest_free(digest);
    return status;
}

static zoe_status digest_store(zoe_context *ctx, const zoe_store *store, bool whole, char text[65])
{
    const size_t count = zoe_store_count(store);
    void *p;
    zoe_status status;
    text[0] = '\0';
    TRY(zoe_store_check(ctx, store));
    TRY(zoe_alloc_zero(ctx, &p, count, ZOE_DIGEST_TEXT, "digests of the tensors"));
    survey s = {.ctx = ctx, .store = store, .whole = whole, .digests = p};
    if (!whole)
        will_need_blocks(store);
    zoe_parallel_for(ctx, count, digest_tensor, &s);
    TRY_GOTO(zoe_check_cancel(ctx));
    for (size_t n = 0; n < count; n++)
        if (s.digests[n][0] == '\0')
            TRY_GOTO(zoe_fail(ctx, ZOE_NOMEM, "%s: no memory for the digest of tensor %s",
                              zoe_store_file(store, n), zoe_store_name(store, n)));
    TRY_GOTO(combine(ctx, &s, text));
done:
    zoe_free(s.digests);
    return status;
}

zoe_status zoe_store_fingerprint(zoe_context *ctx, const zoe_store *store, char text[65])
{
    return digest_store(ctx, store, false, text);
}

zoe_status zoe_store_digest(zoe_context *ctx, const zoe_store *store, char text[65])
{
    return digest_store(ctx, store, true, text);
}

zoe_status zoe_store_stamp(zoe_context *ctx, const zoe_store *store, char text[65])
{
    zoe_digest *digest;
    zoe_status status = ZOE_OK;
    text[0] = '\0';
    TRY(zoe_digest_new(ctx, &digest));
    for (size_t i = 0; i < store->n_files && !store->borrowed; i++) {
        struct stat st;
        if (fstat(store->files[i].fd, &st) != 0)
            TRY_GOTO(zoe_fail(ctx, ZOE_IO, "%s: cannot stat", store->files[i].path));
        const long long parts[] = {(long long)st.st_dev, (long long)st.st_ino,
                                   (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                                   (long long)st.st_mtim.tv_nsec};
        zoe_digest_add(digest, parts, sizeof parts);
    }
    status = zoe_digest_end(ctx, digest, text);
done:
    zoe_digest_free(digest);
    return status;
}
