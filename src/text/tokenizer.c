/* The tokenizer: a tokenizer.json through the pipeline, a spiece.model through the SentencePiece
 * library. */
#include "base/file.h"
#include "text/pipeline.h"
#include "text/sentencepiece_shim.h"
#include "text/spiece.h"
#include "text/text.h"

struct zoe_tokenizer {
    zoe_pipeline *pipeline; /* one of the two */
    zoe_sentencepiece *sentence;
    size_t size;
    int32_t end;
};

static zoe_status make(zoe_context *ctx, zoe_tokenizer **tokenizer)
{
    void *p;
    *tokenizer = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_tokenizer), "tokenizer"));
    *tokenizer = p;
    return ZOE_OK;
}

static zoe_status open_json(zoe_context *ctx, zoe_tokenizer *t, const void *json, size_t bytes)
{
    TRY(zoe_pipeline_read(ctx, &t->pipeline, json, bytes));
    t->size = zoe_pipeline_size(t->pipeline);
    t->end = zoe_pipeline_end(t->pipeline);
    return ZOE_OK;
}

static zoe_status load_model(zoe_context *ctx, zoe_tokenizer *t, const void *model, size_t bytes)
{
    char reason[512];
    const zoe_status status =
        zoe_sentencepiece_new(&t->sentence, model, bytes, reason, sizeof reason);
    if (status == ZOE_NOMEM)
        return zoe_fail(ctx, status, "no memory for a SentencePiece model of %zu bytes", bytes);
    if (status != ZOE_OK)
        return zoe_fail(ctx, status, "no SentencePiece model: %s", reason);
    t->size = zoe_sentencepiece_size(t->sentence);
    t->end = zoe_sentencepiece_end(t->sentence);
    if (t->end < 0)
        return zoe_fail(ctx, ZOE_FORMAT, "the model has no end token </s>");
    return ZOE_OK;
}

static zoe_status open_model(zoe_context *ctx, zoe_tokenizer *t, const void *model, size_t bytes)
{
    bool silent;
    if (bytes > INT32_MAX)
        return zoe_fail(ctx, ZOE_FORMAT, "%zu bytes are too many for a SentencePiece model", bytes);
    TRY(zoe_spiece_check(ctx, &silent, model, bytes));
    if (silent)
        return load_model(ctx, t, model, bytes);
    void *copy;
    TRY(zoe_spiece_silence(ctx, &copy, &bytes, model));
    const zoe_status status = load_model(ctx, t, copy, bytes);
    zoe_free(copy);
    return status;
}

typedef zoe_status (*open_fn)(zoe_context *ctx, zoe_tokenizer *t, const void *data, size_t bytes);

static zoe_status open_bytes(zoe_context *ctx, zoe_tokenizer **tokenizer, open_fn open,
                             const void *data, size_t bytes, const char *name)
{
    zoe_tokenizer *t;
    *tokenizer = NULL;
    TRY(make(ctx, &t));
    const zoe_status status = open(ctx, t, data, bytes);
    if (status != ZOE_OK) {
        zoe_fail_in(ctx, "%s", name);
        zoe_tokenizer_close(t);
        return status;
    }
    *tokenizer = t;
    return ZOE_OK;
}

static zoe_status open_file(zoe_context *ctx, zoe_tokenizer **tokenizer, const char *path)
{
    const size_t n = strlen(path);
    const bool json = n >= 5 && !strcmp(path + n - 5, ".json");
    zoe_map map;
    TRY(zoe_map_open(ctx, &map, path));
    const zoe_status status = open_bytes(ctx, tokenizer, json ? open_json : open_model,
                                         map.size ? (const void *)map.data : "", map.size, path);
    zoe_map_close(&map);
    return status;
}

zoe_status zoe_tokenizer_open(zoe_context *ctx, zoe_tokenizer **tokenizer, const char *path)
{
    static const char *const names[] = {"tokenizer.json", "spiece.model"};
    *tokenizer = NULL;
    if (!zoe_folder_exists(path))
        return open_file(ctx, tokenizer, path);
    for (size_t i = 0; i < 2; i++) {
        char *file;
        TRY(zoe_path_join(ctx, &file, path, names[i]));
        const bool there = zoe_file_exists(file);
        const zoe_status status = there ? open_file(ctx, tokenizer, file) : ZOE_OK;
        zoe_free(file);
        if (there)
            return status;
    }
    return zoe_fail(ctx, ZOE_MISSING, "%s has neither tokenizer.json nor spiece.model", path);
}

zoe_status zoe_tokenizer_open_model(zoe_context *ctx, zoe_tokenizer **tokenizer, const void *model,
                                    size_t bytes, const char *name)
{
    return open_bytes(ctx, tokenizer, open_model, model, bytes, name);
}

void zoe_tokenizer_close(zoe_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    zoe_pipeline_free(tokenizer->pipeline);
    zoe_sentencepiece_free(tokenizer->sentence);
    zoe_free(tokenizer);
}

size_t zoe_tokenizer_size(const zoe_tokenizer *tokenizer)
{
    return tokenizer->size;
}

/* Where the shim's ids go. */
typedef struct sink {
    zoe_context *ctx;
    zoe_ids *ids;
} sink;

static zoe_status add_id(void *user, int32_t id)
{
    const sink *s = user;
    return zoe_ids_add(s->ctx, s->ids, id);
}

static zoe_status encode_sentence(zoe_context *ctx, const zoe_sentencepiece *model, zoe_ids *ids,
                                  const char *text)
{
    sink s = {ctx, ids};
    const zoe_status status = zoe_sentencepiece_encode(model, text, strlen(text), add_id, &s);
    return status == ZOE_OK ? ZOE_OK : zoe_fail(ctx, status, "SentencePiece cannot split the text");
}

zoe_status zoe_tokenizer_encode(zoe_context *ctx, const zoe_tokenizer *tokenizer, int32_t *ids,
                                size_t *count, size_t *full, size_t limit, const char *text)
{
    *count = *full = 0;
    if (limit == 0)
        return zoe_fail(ctx, ZOE_INVALID, "tokens: no room for even the end token");
    zoe_status status;
    zoe_ids all = {0};
    TRY_GOTO(tokenizer->pipeline ? zoe_pipeline_encode(ctx, tokenizer->pipeline, &all, text)
                                 : encode_sentence(ctx, tokenizer->sentence, &all, text));
    const size_t kept = all.count < limit ? all.count : limit - 1;
    if (kept)
        memcpy(ids, all.at, kept * sizeof *ids);
    ids[kept] = tokenizer->end;
    *count = kept + 1;
    *full = all.count + 1;
done:
    zoe_ids_free(&all);
    return status;
}
