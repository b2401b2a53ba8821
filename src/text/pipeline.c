/* See pipeline.h. */
#include "text/pipeline.h"

#include "text/added.h"
#include "text/normalizer.h"

enum { SPLIT_LIMIT = 8 };

/* How text is cut into words: at white space, which vanishes; or (Metaspace) at spaces, which
 * become another character that the word after it begins with. */
typedef struct split {
    bool metaspace;
    uint32_t replacement;
    enum { ALWAYS, FIRST, NEVER } prepend; /* a replacement in front of a stretch that has none */
    bool cuts;
} split;

struct zoe_pipeline {
    zoe_normalizer *normalizer;
    split splits[SPLIT_LIMIT];
    size_t split_count;
    zoe_unigram *model;
    zoe_added *added;
    size_t size;
    int32_t end;
};

/* ---- reading ---- */

static zoe_status read_prepend(zoe_context *ctx, split *s, const json_t *json)
{
    const json_t *field = json_object_get(json, "prepend_scheme");
    const char *scheme = json_string_value(field);
    if (!field) { /* older files say only whether */
        s->prepend = json_is_false(json_object_get(json, "add_prefix_space")) ? NEVER : ALWAYS;
        return ZOE_OK;
    }
    if (scheme && !strcmp(scheme, "always"))
        s->prepend = ALWAYS;
    else if (scheme && !strcmp(scheme, "first"))
        s->prepend = FIRST;
    else if (scheme && !strcmp(scheme, "never"))
        s->prepend = NEVER;
    else
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "pre_tokenizer: prepend_scheme %s is not known",
                        scheme ? scheme : "?");
    return ZOE_OK;
}

static zoe_status read_split(zoe_context *ctx, split *s, const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    *s = (split){.cuts = true};
    if (!type)
        return zoe_fail(ctx, ZOE_FORMAT, "pre_tokenizer: one without a type");
    if (!strcmp(type, "WhitespaceSplit"))
        return ZOE_OK;
    if (strcmp(type, "Metaspace") != 0)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "pre_tokenizer: type %s is not known", type);
    const char *replacement = json_string_value(json_object_get(json, "replacement"));
    if (!replacement || !replacement[0] ||
        replacement[zoe_utf8_next(&s->replacement, (const unsigned char *)replacement,
                                  strlen(replacement))])
        return zoe_fail(ctx, ZOE_FORMAT,
                        "pre_tokenizer: the replacement of Metaspace is not one character");
    s->metaspace = true;
    s->cuts = !json_is_false(json_object_get(json, "split"));
    return read_prepend(ctx, s, json);
}

static zoe_status read_splits(zoe_context *ctx, zoe_pipeline *p, const json_t *json)
{
    if (!json || json_is_null(json))
        return ZOE_OK;
    const char *type = json_string_value(json_object_get(json, "type"));
    const bool sequence = type && !strcmp(type, "Sequence");
    const json_t *list = json_object_get(json, "pretokenizers");
    if (sequence && !json_is_array(list))
        return zoe_fail(ctx, ZOE_FORMAT, "pre_tokenizer: Sequence without pretokenizers");
    p->split_count = sequence ? json_array_size(list) : 1;
    if (p->split_count > SPLIT_LIMIT)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "pre_tokenizer: %zu in sequence, at most %d are known", p->split_count,
                        SPLIT_LIMIT);
    for (size_t i = 0; i < p->split_count; i++)
        TRY(read_split(ctx, &p->splits[i], sequence ? json_array_get(list, i) : json));
    return ZOE_OK;
}

static zoe_status read_vocab(zoe_context *ctx, zoe_piece *pieces, const json_t *vocab)
{
    for (size_t i = 0; i < json_array_size(vocab); i++) {
        const json_t *row = json_array_get(vocab, i);
        const json_t *text = json_array_get(row, 0), *score = json_array_get(row, 1);
        if (json_array_size(row) != 2 || !json_is_string(text) || !json_is_number(score))
            return zoe_fail(ctx, ZOE_FORMAT, "vocab: entry %zu is no pair of text and score", i);
        pieces[i] = (zoe_piece){json_string_value(text), json_number_value(score)};
    }
    return ZOE_OK;
}

static zoe_status read_model(zoe_context *ctx, zoe_pipeline *p, const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type || strcmp(type, "Unigram") != 0)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "model: type %s, only Unigram is known",
                        type ? type : "is missing");
    const json_t *vocab = json_object_get(json, "vocab"), *unk = json_object_get(json, "unk_id");
    const json_t *fallback = json_object_get(json, "byte_fallback");
    const size_t count = json_array_size(vocab);
    if (!json_is_array(vocab) || count == 0)
        return zoe_fail(ctx, ZOE_FORMAT, "model: no vocab");
    if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
        json_integer_value(unk) >= (json_int_t)count || count > INT32_MAX)
        return zoe_fail(ctx, ZOE_FORMAT, "model: unk_id is no id of the %zu pieces", count);
    if (fallback && !json_is_boolean(fallback) && !json_is_null(fallback))
        return zoe_fail(ctx, ZOE_FORMAT, "model: byte_fallback is neither true nor false");
    void *pieces;
    TRY(zoe_alloc(ctx, &pieces, count, sizeof(zoe_piece), "vocab"));
    zoe_status status = read_vocab(ctx, pieces, vocab);
    if (status == ZOE_OK)
        status = zoe_unigram_new(ctx, &p->model, pieces, count, (int32_t)json_integer_value(unk),
                                 json_is_true(fallback));
    zoe_free(pieces);
    return status;
}

/* Does this part of the template stand for the text itself? */
static bool is_text(const json_t *part)
{
    const char *id = json_string_value(json_object_get(json_object_get(part, "Sequence"), "id"));
    return id && !strcmp(id, "A");
}

static zoe_status read_end(zoe_context *ctx, zoe_pipeline *p, const json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    if (!type || strcmp(type, "TemplateProcessing") != 0)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "post_processor: type %s, only TemplateProcessing is known",
                        type ? type : "is missing");
    const json_t *parts = json_object_get(json, "single");
    const char *name = json_string_value(
        json_object_get(json_object_get(json_array_get(parts, 1), "SpecialToken"), "id"));
    if (json_array_size(parts) != 2 || !is_text(json_array_get(parts, 0)) || !name)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "post_processor: the template is not the text and one end token");
    const json_t *ids =
        json_object_get(json_object_get(json_object_get(json, "special_tokens"), name), "ids");
    const json_t *id = json_array_get(ids, 0);
    if (json_array_size(ids) != 1 || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= (json_int_t)p->size)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "post_processor: the end token %s has no single id below %zu", name,
                        p->size);
    p->end = (int32_t)json_integer_value(id);
    int32_t known = zoe_unigram_find(p->model, name, strlen(name));
    if (known < 0)
        known = zoe_added_find(p->added, name);
    if (known != p->end)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "post_processor: the end token %s has id %d, in the vocab %d", name, p->end,
                        known);
    return ZOE_OK;
}

zoe_status zoe_pipeline_read(zoe_context *ctx, zoe_pipeline **pipeline, const void *json,
                             size_t bytes)
{
    json_error_t error;
    void *p;
    *pipeline = NULL;
    json_t *root = json_loadb(json, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) { /* without memory, jansson finds syntax errors where there are none */
        TRY(zoe_alloc_probe(ctx, bytes, "tokenizer"));
        return zoe_fail(ctx, ZOE_FORMAT, "line %d, column %d: %s", error.line, error.column,
                        error.text);
    }
    zoe_pipeline *pipe = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_pipeline), "tokenizer"));
    pipe = p;
    if (!json_is_object(root))
        TRY_GOTO(zoe_fail(ctx, ZOE_FORMAT, "the JSON is no object"));
    TRY_GOTO(zoe_normalizer_read(ctx, &pipe->normalizer, json_object_get(root, "normalizer")));
    TRY_GOTO(read_splits(ctx, pipe, json_object_get(root, "pre_tokenizer")));
    TRY_GOTO(read_model(ctx, pipe, json_object_get(root, "model")));
    const json_t *model = json_object_get(root, "model");
    TRY_GOTO(zoe_added_read(ctx, &pipe->added, &pipe->size, json_object_get(root, "added_tokens"),
                            pipe->model, json_array_size(json_object_get(model, "vocab")),
                            pipe->normalizer));
    TRY_GOTO(read_end(ctx, pipe, json_object_get(root, "post_processor")));
    *pipeline = pipe;
    pipe = NULL;
done:
    zoe_pipeline_free(pipe);
    json_decref(root);
    return status;
}

void zoe_pipeline_free(zoe_pipeline *pipeline)
{
    if (!pipeline)
        return;
    zoe_normalizer_free(pipeline->normalizer);
    zoe_unigram_free(pipeline->model);
    zoe_added_free(pipeline->added);
    zoe_free(pipeline);
}

size_t zoe_pipeline_size(const zoe_pipeline *pipeline)
{
    return pipeline->size;
}

int32_t zoe_pipeline_end(const zoe_pipeline *pipeline)
{
    return pipeline->end;
}

/* ---- running ---- */

static zoe_status add_word(zoe_context *ctx, const zoe_pipeline *p, zoe_ids *ids,
                           const uint32_t *at, size_t count)
{
    char *word;
    size_t bytes;
    TRY(zoe_chars_encode(ctx, &word, &bytes, at, count));
    const zoe_status status = zoe_unigram_encode(ctx, p->model, ids, word, bytes);
    zoe_free(word);
    return status;
}

static bool is_cut(const split *s, uint32_t c)
{
    return s->metaspace ? s->cuts && c == s->replacement : zoe_char_is_space(c);
}

/* Puts the replacement for spaces and where wanted in front. */
static zoe_status replace_spaces(zoe_context *ctx, const split *s, zoe_chars *out,
                                 const uint32_t *at, size_t count, bool at_start)
{
    const bool begins = at[0] == ' ' || at[0] == s->replacement;
    if (!begins && (s->prepend == ALWAYS || (s->prepend == FIRST && at_start)))
        TRY(zoe_chars_add_one(ctx, out, s->replacement));
    for (size_t i = 0; i < count; i++)
        TRY(zoe_chars_add_one(ctx, out, at[i] == ' ' ? s->replacement : at[i]));
    return ZOE_OK;
}

/* Runs the splits from `k` on over a stretch, then the model over each word. at_start: the text
 * begins here. */
static zoe_status run_splits(zoe_context *ctx, const zoe_pipeline *p, size_t k, zoe_ids *ids,
                             const uint32_t *at, size_t count, bool at_start)
{
    if (count == 0)
        return ZOE_OK;
    if (k == p->split_count)
        return add_word(ctx, p, ids, at, count);
    const split *s = &p->splits[k];
    zoe_status status = ZOE_OK;
    zoe_chars replaced = {0};
    if (s->metaspace) {
        TRY_GOTO(replace_spaces(ctx, s, &replaced, at, count, at_start));
        at = replaced.at;
        count = replaced.count;
    }
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && !is_cut(s, at[end]); end++)
            ;
        const bool dropped = !s->metaspace && is_cut(s, at[first]); /* the white space itself */
        const size_t from = first + dropped;
        TRY_GOTO(run_splits(ctx, p, k + 1, ids, at + from, end - from, at_start && from == 0));
    }
done:
    zoe_chars_free(&replaced);
    return status;
}

/* A stretch between added tokens: normalise it, look for the tokens that are spelled normalised,
 * split the rest. */
static zoe_status add_stretch(zoe_context *ctx, const zoe_pipeline *p, zoe_ids *ids,
                              const uint32_t *at, size_t count, bool at_start)
{
    zoe_status status;
    zoe_chars text = {0};
    TRY_GOTO(zoe_chars_add(ctx, &text, at, count));
    TRY_GOTO(zoe_normalizer_run(ctx, p->normalizer, &text));
    for (zoe_stretch s = {0}; zoe_added_next(p->added, &s, text.at, text.count, true);) {
        TRY_GOTO(run_splits(ctx, p, 0, ids, text.at + s.first, s.last - s.first,
                            at_start && s.first == 0));
        if (s.id >= 0)
            TRY_GOTO(zoe_ids_add(ctx, ids, s.id));
    }
done:
    zoe_chars_free(&text);
    return status;
}

zoe_status zoe_pipeline_encode(zoe_context *ctx, const zoe_pipeline *p, zoe_ids *ids,
                               const char *text)
{
    zoe_status status;
    zoe_chars chars = {0};
    TRY_GOTO(zoe_chars_decode(ctx, &chars, text, strlen(text)));
    for (size_t i = 0; i < chars.count; i++)
        if (zoe_char_is_surrogate(chars.at[i]))
            chars.at[i] = 0xfffd;
    for (zoe_stretch s = {0}; zoe_added_next(p->added, &s, chars.at, chars.count, false);) {
        TRY_GOTO(add_stretch(ctx, p, ids, chars.at + s.first, s.last - s.first, s.first == 0));
        if (s.id >= 0)
            TRY_GOTO(zoe_ids_add(ctx, ids, s.id));
    }
done:
    zoe_chars_free(&chars);
    return status;
}
