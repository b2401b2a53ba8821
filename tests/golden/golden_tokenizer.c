/* golden_tokenizer DIR: cleaning and token ids of the strings in DIR/cases.json, from
 * DIR/tokenizer.json and from DIR/spiece.model, and with the field byte_fallback of
 * tokenizer.json set. */
#define _GNU_SOURCE /* mkstemp under every C library */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "golden.h"
#include "text/text.h"

static void end_with(const char *what)
{
    printf("%s FAIL\n", what);
    exit(1);
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!json) {
        printf("%s: line %d: %s\n", path, error.line, error.text);
        end_with(path);
    }
    return json;
}

/* Log probability of id by the vocabulary of tokenizer.json; NaN if it has none. */
static double score_of(const json_t *vocabulary, json_int_t id)
{
    const json_t *piece = id < 0 ? NULL : json_array_get(vocabulary, (size_t)id);
    const json_t *score = json_array_get(piece, 1);
    return json_is_number(score) ? json_number_value(score) : (double)NAN;
}

/* Are the two lists splits of equal probability? Releases of the SentencePiece library choose differently between those, by the
 * rounding of their sums. */
static bool is_tie(const json_t *vocabulary, const int32_t *ids, size_t count, const json_t *want)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += score_of(vocabulary, ids[i]);
    for (size_t i = 0; i < json_array_size(want); i++)
        sum -= score_of(vocabulary, json_integer_value(json_array_get(want, i)));
    return vocabulary && fabs(sum) < 1e-4;
}

/* Compares the ids of `text`, cut to `limit` (0: not at all) and then padded with `pad`, with
 * the row's list `field`. With a vocabulary, a split of the same probability is right as well. */
static void compare_ids(golden *g, const zoe_tokenizer *tokenizer, const json_t *row, size_t index,
                        const char *field, const char *text, size_t limit, int32_t pad,
                        const json_t *vocabulary)
{
    const json_t *want = json_object_get(row, field);
    if (!json_is_array(want))
        return;
    const size_t room = strlen(text) * 20 + json_array_size(want) + 64;
    int32_t *ids = calloc(room, sizeof *ids);
    if (!ids)
        end_with("no memory");
    size_t count, full;
    golden_must(
        g, zoe_tokenizer_encode(g->ctx, tokenizer, ids, &count, &full, limit ? limit : room, text),
        field);
    for (; limit && count < limit; count++)
        ids[count] = pad;
    size_t equal = 0;
    while (equal < count && equal < json_array_size(want) &&
           ids[equal] == (int32_t)json_integer_value(json_array_get(want, equal)))
        equal++;
    char name[96];
    snprintf(name, sizeof name, "row %zu %s", index, field);
    const bool same = equal == count && equal == json_array_size(want);
    const bool tie = !same && is_tie(vocabulary, ids, count, want);
    golden_check(g, name, same || tie, "%zu of %zu equal%s", equal, json_array_size(want),
                 tie ? ", a tie" : "");
    free(ids);
}

/* The list whose name begins with "ids_padded" has text_len entries, n_valid of them from the
 * text. */
static void compare_padded(golden *g, const zoe_tokenizer *tokenizer, json_t *row, size_t index,
                           const char *text, int32_t pad)
{
    const char *key;
    json_t *want;
    json_object_foreach(row, key, want)
    {
        if (strncmp(key, "ids_padded", 10) != 0)
            continue;
        const size_t limit = json_array_size(want);
        compare_ids(g, tokenizer, row, index, key, text, limit, pad, NULL);
        int32_t *ids = calloc(limit + 1, sizeof *ids);
        size_t count = 0, full;
        if (!ids)
            end_with("no memory");
        golden_must(g, zoe_tokenizer_encode(g->ctx, tokenizer, ids, &count, &full, limit, text),
                    key);
        char name[96];
        snprintf(name, sizeof name, "row %zu n_valid", index);
        golden_check(g, name,
                     (json_int_t)count == json_integer_value(json_object_get(row, "n_valid")),
                     "%zu", count);
        free(ids);
    }
}

static void compare_cleaned(golden *g, const json_t *row, size_t index)
{
    const json_t *text = json_object_get(row, "text");
    const char *want = json_string_value(json_object_get(row, "cleaned"));
    char *clean, name[96];
    bool suspect;
    if (!json_is_string(text) || !want)
        end_with("a row without text and cleaned");
    golden_must(
        g,
        zoe_text_clean(g->ctx, &clean, &suspect, json_string_value(text), json_string_length(text)),
        "cleaning");
    snprintf(name, sizeof name, "row %zu cleaned%s", index, suspect ? " (suspect)" : "");
    golden_check(g, name, !strcmp(clean, want), "%zu bytes", strlen(clean));
    zoe_free(clean);
}

/* The row's cleaned text, or its uncleaned text if that has no NUL; NULL then. */
static const char *text_of(const json_t *row, bool cleaned)
{
    const json_t *text = json_object_get(row, cleaned ? "cleaned" : "text");
    const char *value = json_string_value(text);
    return value && strlen(value) == json_string_length(text) ? value : NULL;
}

static void compare_rows(golden *g, const json_t *cases, const zoe_tokenizer *tokenizer,
                         const char *cleaned, const char *uncleaned, const json_t *vocabulary)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(cases, "rows"), i, row)
    {
        const char *text = text_of(row, true), *raw = text_of(row, false);
        compare_ids(g, tokenizer, row, i, cleaned, text, 0, 0, vocabulary);
        if (uncleaned && raw)
            compare_ids(g, tokenizer, row, i, uncleaned, raw, 0, 0, vocabulary);
        if (!strcmp(cleaned, "ids"))
            compare_padded(g, tokenizer, row, i, text,
                           (int32_t)json_integer_value(json_object_get(cases, "pad")));
    }
}

/* A copy of tokenizer.json with byte_fallback set, in a file of its own. */
static void compare_fallback(golden *g, const json_t *cases, const char *path)
{
    json_t *json = load(path);
    char copy[] = "/tmp/golden_tokenizer_XXXXXX.json";
    const int fd = mkstemps(copy, 5);
    if (fd < 0 ||
        json_object_set_new(json_object_get(json, "model"), "byte_fallback", json_true()) != 0 ||
        json_dumpfd(json, fd, JSON_REAL_PRECISION(17)) != 0)
        end_with("cannot write a copy of tokenizer.json");
    close(fd);
    zoe_tokenizer *tokenizer;
    const zoe_status status = zoe_tokenizer_open(g->ctx, &tokenizer, copy);
    unlink(copy);
    golden_must(g, status, "tokenizer.json with byte_fallback");
    compare_rows(g, cases, tokenizer, "ids_byte_fallback_true", NULL, NULL);
    zoe_tokenizer_close(tokenizer);
    json_decref(json);
}

int main(int argc, char **argv)
{
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    json_t *cases = load(golden_path(dir, "cases.json"));
    zoe_tokenizer *tokenizer;
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(cases, "rows"), i, row) compare_cleaned(&g, row, i);

    const char *path = golden_path(dir, "tokenizer.json");
    if (zoe_file_exists(path)) {
        golden_must(&g, zoe_tokenizer_open(g.ctx, &tokenizer, path), "tokenizer.json");
        const json_t *size = json_object_get(cases, "vocab_size");
        if (json_is_integer(size))
            golden_check(&g, "vocab_size",
                         (json_int_t)zoe_tokenizer_size(tokenizer) == json_integer_value(size),
                         "%zu", zoe_tokenizer_size(tokenizer));
        compare_rows(&g, cases, tokenizer, "ids", "ids_uncleaned", NULL);
        zoe_tokenizer_close(tokenizer);
        compare_fallback(&g, cases, path);
    }
    path = golden_path(dir, "spiece.model");
    if (zoe_file_exists(path)) {
        const char *beside = golden_path(dir, "tokenizer.json");
        json_t *json = zoe_file_exists(beside) ? load(beside) : NULL;
        golden_must(&g, zoe_tokenizer_open(g.ctx, &tokenizer, path), "spiece.model");
        compare_rows(&g, cases, tokenizer, "ids_spiece_cleaned", "ids_spiece_uncleaned",
                     json_object_get(json_object_get(json, "model"), "vocab"));
        zoe_tokenizer_close(tokenizer);
        json_decref(json);
    }
    json_decref(cases);
    return golden_end(&g);
}
