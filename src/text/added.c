/* See added.h. Among tokens that begin at the same place the longest counts, as in the
 * tokenizers library. */
#include "text/added.h"

#include <unictype.h>

typedef struct token {
    char *content;
    zoe_chars spelling; /* what is looked for: the content, normalised if `normalized` */
    int32_t id;
    bool single_word, left, right,
        normalized; /* left, right: takes white space on that side along */
} token;

struct zoe_added {
    token *tokens;
    size_t count;
};

static zoe_status read_flag(zoe_context *ctx, bool *flag, const json_t *json, const char *name,
                            const char *content)
{
    const json_t *field = json_object_get(json, name);
    if (!json_is_boolean(field))
        return zoe_fail(ctx, ZOE_FORMAT, "added_tokens: \"%s\" without %s", content, name);
    *flag = json_is_true(field);
    return ZOE_OK;
}

static zoe_status read_token(zoe_context *ctx, token *t, const json_t *json,
                             const zoe_normalizer *normalizer)
{
    const char *content = json_string_value(json_object_get(json, "content"));
    const json_t *id = json_object_get(json, "id");
    if (!content || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) >= INT32_MAX)
        return zoe_fail(ctx, ZOE_FORMAT, "added_tokens: one without content or an id from 0");
    t->id = (int32_t)json_integer_value(id);
    TRY(zoe_strdup(ctx, &t->content, content));
    TRY(read_flag(ctx, &t->single_word, json, "single_word", content));
    TRY(read_flag(ctx, &t->left, json, "lstrip", content));
    TRY(read_flag(ctx, &t->right, json, "rstrip", content));
    TRY(read_flag(ctx, &t->normalized, json, "normalized", content));
    TRY(zoe_chars_decode(ctx, &t->spelling, content, strlen(content)));
    return t->normalized ? zoe_normalizer_run(ctx, normalizer, &t->spelling) : ZOE_OK;
}

/* The id must be the one that the library would give. */
static zoe_status check_id(zoe_context *ctx, const token *t, size_t *size, const zoe_unigram *model,
                           size_t pieces)
{
    const int32_t known = zoe_unigram_find(model, t->content, strlen(t->content));
    if (known >= 0 && known != t->id)
        return zoe_fail(ctx, ZOE_FORMAT, "added_tokens: \"%s\" has id %d, in the vocab %d",
                        t->content, t->id, known);
    if (known < 0 && (size_t)t->id < pieces)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "added_tokens: \"%s\" has id %d, where the vocab has another piece",
                        t->content, t->id);
    if (known < 0 && (size_t)t->id != *size)
        return zoe_fail(ctx, ZOE_FORMAT, "added_tokens: \"%s\" has id %d, the next free one is %zu",
                        t->content, t->id, *size);
    *size += known < 0;
    return ZOE_OK;
}

zoe_status zoe_added_read(zoe_context *ctx, zoe_added **added, size_t *size, const json_t *json,
                          const zoe_unigram *model, size_t pieces, const zoe_normalizer *normalizer)
{
    void *p;
    *added = NULL;
    *size = pieces;
    if (json && !json_is_null(json) && !json_is_array(json))
        return zoe_fail(ctx, ZOE_FORMAT, "added_tokens is no list");
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_added), "added tokens"));
    zoe_added *a = p;
    zoe_status status;
    const size_t count = json_array_size(json);
    TRY_GOTO(zoe_alloc_zero(ctx, &p, count, sizeof(token), "added tokens"));
    a->tokens = p;
    for (size_t i = 0; i < count; i++) {
        token *t = &a->tokens[i];
        a->count = i + 1; /* so that a token read in part is freed too */
        TRY_GOTO(read_token(ctx, t, json_array_get(json, i), normalizer));
        TRY_GOTO(check_id(ctx, t, size, model, pieces));
    }
    *added = a;
    return ZOE_OK;
done:
    zoe_added_free(a);
    return status;
}

void zoe_added_free(zoe_added *added)
{
    if (!added)
        return;
    for (size_t i = 0; i < added->count; i++) {
        zoe_free(added->tokens[i].content);
        zoe_chars_free(&added->tokens[i].spelling);
    }
    zoe_free(added->tokens);
    zoe_free(added);
}

int32_t zoe_added_find(const zoe_added *added, const char *content)
{
    for (size_t i = 0; i < added->count; i++)
        if (!strcmp(added->tokens[i].content, content))
            return added->tokens[i].id;
    return -1;
}

/* A character of a word in the sense of Unicode's regular expressions (UTS 18). */
static bool is_word(uint32_t c)
{
    return uc_is_property_alphabetic(c) || uc_is_property_join_control(c) ||
           uc_is_general_category_withtable(c, UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_Nd |
                                                   UC_CATEGORY_MASK_Pc);
}

/* The longest token at place i of the text, or NULL. */
static const token *token_at(const zoe_added *added, const uint32_t *at, size_t count, size_t i,
                             bool normalized)
{
    const token *best = NULL;
    for (size_t k = 0; k < added->count; k++) {
        const token *t = &added->tokens[k];
        const size_t n = t->spelling.count;
        if (t->normalized != normalized || n == 0 || n > count - i || at[i] != t->spelling.at[0])
            continue;
        if (!memcmp(at + i, t->spelling.at, n * sizeof *at) && (!best || n > best->spelling.count))
            best = t;
    }
    return best;
}

bool zoe_added_next(const zoe_added *added, zoe_stretch *stretch, const uint32_t *at, size_t count,
                    bool normalized)
{
    const size_t first = stretch->end;
    if (first >= count)
        return false;
    for (size_t i = first; i < count; i++) {
        const token *t = token_at(added, at, count, i, normalized);
        if (!t)
            continue;
        size_t begin = i, end = i + t->spelling.count;
        if (t->single_word &&
            ((begin > 0 && is_word(at[begin - 1])) || (end < count && is_word(at[end])))) {
            i = end - 1;
            continue;
        }
        while (t->left && begin > first && zoe_char_is_space(at[begin - 1]))
            begin--;
        while (t->right && end < count && zoe_char_is_space(at[end]))
            end++;
        *stretch = (zoe_stretch){first, begin, end, t->id};
        return true;
    }
    *stretch = (zoe_stretch){first, count, count, -1};
    return true;
}
