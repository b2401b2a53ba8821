/* See normalizer.h. Each kind does what the tokenizers library does under that name. */
#include "text/normalizer.h"

#include <stdlib.h>
#include <unigbrk.h>

#include "text/charsmap.h"

typedef enum kind { PRECOMPILED, STRIP, REPLACE, PREPEND, FORM } kind;

typedef struct step {
    kind kind;
    unsigned char *bytes; /* PRECOMPILED: what map points into */
    zoe_charsmap map;
    bool left, right;  /* STRIP */
    zoe_chars pattern; /* REPLACE: the string, or one character if it is a run */
    size_t run;        /* REPLACE: least length of a run, 0 for a string */
    zoe_chars content; /* REPLACE, PREPEND */
    zoe_normal_form form;
} step;

struct zoe_normalizer {
    step *steps;
    size_t count;
};

/* ---- reading ---- */

/* Decodes base64 with padding; text is NUL-terminated. */
static zoe_status read_base64(zoe_context *ctx, unsigned char **out, size_t *bytes,
                              const char *text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t length = strlen(text);
    void *p;
    size_t n = 0;
    if (length % 4 != 0)
        return zoe_fail(ctx, ZOE_FORMAT, "precompiled_charsmap: %zu characters are no base64",
                        length);
    TRY(zoe_alloc(ctx, &p, length / 4 * 3, 1, "character map"));
    unsigned char *to = p;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t group = 0;
        size_t padding = 0;
        for (size_t k = 0; k < 4; k++) {
            const char c = text[i + k];
            const char *digit = c ? strchr(digits, c) : NULL;
            const bool pad = c == '=' && k >= 2 && i + 4 == length;
            if (!pad && (!digit || padding)) {
                zoe_free(p);
                return zoe_fail(ctx, ZOE_FORMAT, "precompiled_charsmap: character %zu is no base64",
                                i + k);
            }
            padding += pad;
            group = group << 6 | (pad ? 0 : (uint32_t)(digit - digits));
        }
        for (size_t k = 0; k < 3 - padding; k++)
            to[n++] = (unsigned char)(group >> (16 - 8 * k));
    }
    *out = to;
    *bytes = n;
    return ZOE_OK;
}

static zoe_status read_precompiled(zoe_context *ctx, step *s, const json_t *json)
{
    const json_t *field = json_object_get(json, "precompiled_charsmap");
    size_t bytes;
    s->kind = PRECOMPILED;
    if (json_is_null(field))
        return ZOE_OK;
    if (!json_is_string(field))
        return zoe_fail(ctx, ZOE_FORMAT, "normalizer: Precompiled without precompiled_charsmap");
    TRY(read_base64(ctx, &s->bytes, &bytes, json_string_value(field)));
    return zoe_charsmap_read(ctx, &s->map, s->bytes, bytes);
}

static zoe_status read_strip(zoe_context *ctx, step *s, const json_t *json)
{
    const json_t *left = json_object_get(json, "strip_left"),
                 *right = json_object_get(json, "strip_right");
    s->kind = STRIP;
    if (!json_is_boolean(left) || !json_is_boolean(right))
        return zoe_fail(ctx, ZOE_FORMAT, "normalizer: Strip without strip_left and strip_right");
    s->left = json_is_true(left);
    s->right = json_is_true(right);
    return ZOE_OK;
}

static zoe_status read_text(zoe_context *ctx, zoe_chars *out, const json_t *json, const char *what)
{
    if (!json_is_string(json))
        return zoe_fail(ctx, ZOE_FORMAT, "normalizer: %s is no string", what);
    return zoe_chars_decode(ctx, out, json_string_value(json), json_string_length(json));
}

/* A pattern "c{n,}" or "c+" of one plain character. Returns the least length, 0 for anything
 * else. */
static size_t read_run(const char *pattern, uint32_t *c)
{
    const size_t length = strlen(pattern);
    if (length < 2 || strchr(".[](){}*+?^$|\\", pattern[0]))
        return 0;
    const size_t width = zoe_utf8_next(c, (const unsigned char *)pattern, length);
    const char *rest = pattern + width;
    if (!strcmp(rest, "+"))
        return 1;
    if (rest[0] != '{' || rest[1] < '0' || rest[1] > '9')
        return 0;
    char *end;
    const unsigned long least = strtoul(rest + 1, &end, 10);
    return !strcmp(end, ",}") && least < 1000 ? least : 0;
}

static zoe_status read_replace(zoe_context *ctx, step *s, const json_t *json)
{
    const json_t *pattern = json_object_get(json, "pattern");
    const json_t *string = json_object_get(pattern, "String"),
                 *regex = json_object_get(pattern, "Regex");
    s->kind = REPLACE;
    TRY(read_text(ctx, &s->content, json_object_get(json, "content"), "Replace content"));
    if (!json_is_string(regex)) {
        TRY(read_text(ctx, &s->pattern, string, "Replace pattern"));
        return s->pattern.count
                   ? ZOE_OK
                   : zoe_fail(ctx, ZOE_FORMAT, "normalizer: Replace of an empty string");
    }
    uint32_t c;
    s->run = read_run(json_string_value(regex), &c);
    if (!s->run)
        return zoe_fail(
            ctx, ZOE_UNSUPPORTED,
            "normalizer: Replace with the pattern \"%s\", only one repeated character is known",
            json_string_value(regex));
    return zoe_chars_add_one(ctx, &s->pattern, c);
}

static zoe_status read_step(zoe_context *ctx, step *s, const json_t *json)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    const char *type = json_string_value(json_object_get(json, "type"));
    *s = (step){.kind = FORM};
    if (!type)
        return zoe_fail(ctx, ZOE_FORMAT, "normalizer: one without a type");
    if (!strcmp(type, "Precompiled"))
        return read_precompiled(ctx, s, json);
    if (!strcmp(type, "Strip"))
        return read_strip(ctx, s, json);
    if (!strcmp(type, "Replace"))
        return read_replace(ctx, s, json);
    if (!strcmp(type, "Prepend")) {
        s->kind = PREPEND;
        return read_text(ctx, &s->content, json_object_get(json, "prepend"), "Prepend prepend");
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(type, forms[i])) {
            s->form = (zoe_normal_form)i;
            return ZOE_OK;
        }
    return zoe_fail(ctx, ZOE_UNSUPPORTED, "normalizer: type %s is not known", type);
}

zoe_status zoe_normalizer_read(zoe_context *ctx, zoe_normalizer **normalizer, const json_t *json)
{
    void *p;
    *normalizer = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_normalizer), "normalizer"));
    zoe_normalizer *n = p;
    zoe_status status = ZOE_OK;
    const char *type = json_string_value(json_object_get(json, "type"));
    const bool sequence = type && !strcmp(type, "Sequence");
    const json_t *list = json_object_get(json, "normalizers");
    const size_t count = !json || json_is_null(json) ? 0 : sequence ? json_array_size(list) : 1;
    if (sequence && !json_is_array(list))
        TRY_GOTO(zoe_fail(ctx, ZOE_FORMAT, "normalizer: Sequence without normalizers"));
    TRY_GOTO(zoe_alloc_zero(ctx, &p, count, sizeof(step), "normalizer"));
    n->steps = p;
    for (size_t i = 0; i < count; i++) {
        n->count = i + 1; /* so that a step read in part is freed too */
        TRY_GOTO(read_step(ctx, &n->steps[i], sequence ? json_array_get(list, i) : json));
    }
    *normalizer = n;
    return ZOE_OK;
done:
    zoe_normalizer_free(n);
    return status;
}

void zoe_normalizer_free(zoe_normalizer *normalizer)
{
    if (!normalizer)
        return;
    for (size_t i = 0; i < normalizer->count; i++) {
        zoe_free(normalizer->steps[i].bytes);
        zoe_chars_free(&normalizer->steps[i].pattern);
        zoe_chars_free(&normalizer->steps[i].content);
    }
    zoe_free(normalizer->steps);
    zoe_free(normalizer);
}

/* ---- running ---- */

/* Bytes of the UTF-8 of count characters if they fit in out. */
static size_t put_short(unsigned char *out, size_t room, const uint32_t *at, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned char unit[4];
        const size_t width = zoe_utf8_put(unit, at[i]);
        if (n + width > room)
            return 0;
        memcpy(out + n, unit, width);
        n += width;
    }
    return n;
}

/* Replaces one grapheme cluster. A short one is looked up whole, and if a key is but its start
 * the rest is dropped: that is how the library does it, and how the models were trained.
 * Otherwise its characters are looked up. */
static zoe_status map_cluster(zoe_context *ctx, const zoe_charsmap *map, zoe_chars *out,
                              const uint32_t *at, size_t count)
{
    unsigned char bytes[5];
    const size_t n = put_short(bytes, sizeof bytes, at, count);
    const char *text = n ? zoe_charsmap_find(map, bytes, n) : NULL;
    if (text)
        return zoe_chars_decode(ctx, out, text, strlen(text));
    for (size_t i = 0; i < count; i++) {
        text = zoe_charsmap_find(map, bytes, put_short(bytes, sizeof bytes, at + i, 1));
        TRY(text ? zoe_chars_decode(ctx, out, text, strlen(text))
                 : zoe_chars_add_one(ctx, out, at[i]));
    }
    return ZOE_OK;
}

static zoe_status run_precompiled(zoe_context *ctx, const step *s, zoe_chars *text)
{
    if (!text->count)
        return ZOE_OK;
    zoe_status status;
    zoe_chars out = {0};
    void *p = NULL;
    TRY_GOTO(zoe_alloc(ctx, &p, text->count, 1, "grapheme clusters"));
    char *begins = p; /* 1 where a cluster begins */
    u32_grapheme_breaks(text->at, text->count, begins);
    for (size_t first = 0, end; first < text->count; first = end) {
        end = first + 1;
        while (end < text->count && !begins[end])
            end++;
        TRY_GOTO(map_cluster(ctx, &s->map, &out, text->at + first, end - first));
    }
    zoe_chars_take(text, &out);
done:
    zoe_free(p);
    zoe_chars_free(&out);
    return status;
}

static void run_strip(const step *s, zoe_chars *text)
{
    size_t first = 0;
    while (s->right && text->count && zoe_char_is_space(text->at[text->count - 1]))
        text->count--;
    while (s->left && first < text->count && zoe_char_is_space(text->at[first]))
        first++;
    if (first)
        memmove(text->at, text->at + first, (text->count - first) * sizeof *text->at);
    text->count -= first;
}

/* Length of the pattern's match at at[0], or 0. */
static size_t match_length(const step *s, const uint32_t *at, size_t n)
{
    if (!s->run) {
        const size_t count = s->pattern.count;
        return count <= n && !memcmp(at, s->pattern.at, count * sizeof *at) ? count : 0;
    }
    size_t i = 0;
    while (i < n && at[i] == s->pattern.at[0])
        i++;
    return i >= s->run ? i : 0;
}

static zoe_status run_replace(zoe_context *ctx, const step *s, zoe_chars *text)
{
    zoe_status status = ZOE_OK;
    zoe_chars out = {0};
    for (size_t i = 0; i < text->count;) {
        const size_t length = match_length(s, text->at + i, text->count - i);
        if (length)
            TRY_GOTO(zoe_chars_add(ctx, &out, s->content.at, s->content.count));
        else
            TRY_GOTO(zoe_chars_add_one(ctx, &out, text->at[i]));
        i += length ? length : 1;
    }
    zoe_chars_take(text, &out);
done:
    zoe_chars_free(&out);
    return status;
}

static zoe_status run_prepend(zoe_context *ctx, const step *s, zoe_chars *text)
{
    if (!text->count)
        return ZOE_OK;
    zoe_status status;
    zoe_chars out = {0};
    TRY_GOTO(zoe_chars_add(ctx, &out, s->content.at, s->content.count));
    TRY_GOTO(zoe_chars_add(ctx, &out, text->at, text->count));
    zoe_chars_take(text, &out);
done:
    zoe_chars_free(&out);
    return status;
}

static zoe_status run_form(zoe_context *ctx, const step *s, zoe_chars *text)
{
    zoe_chars out = {0};
    const zoe_status status = zoe_chars_normalize(ctx, &out, text->at, text->count, s->form);
    if (status == ZOE_OK)
        zoe_chars_take(text, &out);
    zoe_chars_free(&out);
    return status;
}

zoe_status zoe_normalizer_run(zoe_context *ctx, const zoe_normalizer *normalizer, zoe_chars *text)
{
    for (size_t i = 0; i < normalizer->count; i++) {
        const step *s = &normalizer->steps[i];
        switch (s->kind) {
        case PRECOMPILED: TRY(run_precompiled(ctx, s, text)); break;
        case STRIP: run_strip(s, text); break;
        case REPLACE: TRY(run_replace(ctx, s, text)); break;
        case PREPEND: TRY(run_prepend(ctx, s, text)); break;
        case FORM: TRY(run_form(ctx, s, text)); break;
        }
    }
    return ZOE_OK;
}
