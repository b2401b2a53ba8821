/* The tokenizer on the copy of the golden data: limits, kinds of added tokens, files that are
 * broken or of a kind that is not known, memory that runs out. That ids are right is what
 * golden_tokenizer tests. */
#define _GNU_SOURCE /* mkstemps */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "text/text.h"

#define FOLDER ZOE_TEST_DATA "/tokenizer"

enum { ROOM = 64 };

static void check_ids(zoe_context *ctx, const zoe_tokenizer *t, const char *text, size_t limit,
                      const int32_t *want, size_t count, size_t full)
{
    int32_t ids[ROOM];
    size_t n, all;
    assert_int_equal(zoe_tokenizer_encode(ctx, t, ids, &n, &all, limit, text), ZOE_OK);
    assert_int_equal(n, count);
    assert_int_equal(all, full);
    assert_memory_equal(ids, want, count * sizeof *ids);
}

static void cuts_before_the_end_token(void **state)
{
    (void)state;
    static const int32_t whole[] = {264, 285, 526, 552, 501, 504, 387, 301, 265, 262, 319, 263, 1};
    static const int32_t four[] = {264, 285, 526, 1};
    static const int32_t end[] = {1};
    static const char text[] = "A white cat sits on the beach.";
    static const char *const files[] = {FOLDER, FOLDER "/tokenizer.json", FOLDER "/spiece.model"};
    zoe_context *ctx = zoe_context_new(1);
    for (size_t i = 0; i < 3; i++) {
        zoe_tokenizer *t;
        assert_int_equal(zoe_tokenizer_open(ctx, &t, files[i]), ZOE_OK);
        check_ids(ctx, t, text, ROOM, whole, 13, 13);
        check_ids(ctx, t, text, 13, whole, 13, 13);
        check_ids(ctx, t, text, 4, four, 4, 13);
        check_ids(ctx, t, text, 1, end, 1, 13);
        check_ids(ctx, t, "", ROOM, end, 1, 1);
        assert_int_equal(zoe_tokenizer_size(t), i < 2 ? 910 : 900);
        int32_t id;
        size_t n, full;
        assert_int_equal(zoe_tokenizer_encode(ctx, t, &id, &n, &full, 0, text), ZOE_INVALID);
        zoe_context_clear(ctx);
        zoe_tokenizer_close(t);
    }
    zoe_context_free(ctx);
}

/* ---- edited copies of tokenizer.json ---- */

static zoe_status open_json(zoe_context *ctx, zoe_tokenizer **t, json_t *json)
{
    char path[] = "/tmp/zoe_text_tokenizer_XXXXXX.json";
    const int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(json_dumpfd(json, fd, JSON_ENCODE_ANY), 0);
    close(fd);
    const zoe_status status = zoe_tokenizer_open(ctx, t, path);
    unlink(path);
    return status;
}

static json_t *load(void)
{
    json_error_t error;
    json_t *json = json_load_file(FOLDER "/tokenizer.json", 0, &error);
    assert_non_null(json);
    return json;
}

/* Puts the JSON text `value` at "a/b/0/c"; NULL removes the last key. */
static void edit(json_t *json, const char *path, const char *value)
{
    char key[64];
    const char *slash;
    while ((slash = strchr(path, '/'))) {
        snprintf(key, sizeof key, "%.*s", (int)(slash - path), path);
        json = json_is_array(json) ? json_array_get(json, (size_t)atoi(key))
                                   : json_object_get(json, key);
        assert_non_null(json);
        path = slash + 1;
    }
    json_t *new_value = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(!value || new_value);
    if (json_is_array(json))
        assert_int_equal(json_array_set_new(json, (size_t)atoi(path), new_value), 0);
    else if (value)
        assert_int_equal(json_object_set_new(json, path, new_value), 0);
    else
        assert_int_equal(json_object_del(json, path), 0);
}

static const struct {
    const char *path, *value;
    zoe_status status;
    const char *says;
} refusals[] = {
    {"normalizer", "{\"type\":\"Lowercase\"}", ZOE_UNSUPPORTED, "Lowercase"},
    {"normalizer", "{}", ZOE_FORMAT, "type"},
    {"normalizer/normalizers", "7", ZOE_FORMAT, "Sequence"},
    {"normalizer/normalizers/0/precompiled_charsmap", "\"AAA\"", ZOE_FORMAT, "base64"},
    {"normalizer/normalizers/0/precompiled_charsmap", "\"A=AA\"", ZOE_FORMAT, "base64"},
    {"normalizer/normalizers/0/precompiled_charsmap", "\"AA==\"", ZOE_FORMAT, "too few"},
    {"normalizer/normalizers/0/precompiled_charsmap", "\"/////wAAAAA=\"", ZOE_FORMAT, "trie"},
    {"normalizer/normalizers/0/precompiled_charsmap", "3", ZOE_FORMAT, "precompiled_charsmap"},
    {"normalizer/normalizers/1/strip_left", NULL, ZOE_FORMAT, "Strip"},
    {"normalizer/normalizers/2/pattern", "{\"Regex\":\"[a-z]+\"}", ZOE_UNSUPPORTED, "[a-z]+"},
    {"normalizer/normalizers/2/pattern", "{\"String\":\"\"}", ZOE_FORMAT, "empty"},
    {"normalizer/normalizers/2/content", NULL, ZOE_FORMAT, "content"},
    {"pre_tokenizer/type", "\"ByteLevel\"", ZOE_UNSUPPORTED, "ByteLevel"},
    {"pre_tokenizer/replacement", "\"ab\"", ZOE_FORMAT, "one character"},
    {"pre_tokenizer/replacement", NULL, ZOE_FORMAT, "one character"},
    {"pre_tokenizer/prepend_scheme", "\"sometimes\"", ZOE_UNSUPPORTED, "sometimes"},
    {"model", NULL, ZOE_UNSUPPORTED, "model"},
    {"model/type", "\"BPE\"", ZOE_UNSUPPORTED, "BPE"},
    {"model/vocab", NULL, ZOE_FORMAT, "vocab"},
    {"model/vocab", "[]", ZOE_FORMAT, "vocab"},
    {"model/vocab", "{\"a\":1}", ZOE_FORMAT, "vocab"},
    {"model/vocab/5", "[\"a\"]", ZOE_FORMAT, "entry 5"},
    {"model/vocab/5", "[\"a\", \"b\"]", ZOE_FORMAT, "entry 5"},
    {"model/vocab/5", "[\"\", -1.0]", ZOE_FORMAT, "piece 5"},
    {"model/unk_id", "null", ZOE_FORMAT, "unk_id"},
    {"model/unk_id", "-1", ZOE_FORMAT, "unk_id"},
    {"model/unk_id", "910", ZOE_FORMAT, "unk_id"},
    {"model/unk_id", "99999999999999", ZOE_FORMAT, "unk_id"},
    {"model/byte_fallback", "\"yes\"", ZOE_FORMAT, "byte_fallback"},
    {"added_tokens", "{}", ZOE_FORMAT, "list"},
    {"added_tokens/1/id", "2", ZOE_FORMAT, "</s>"},
    {"added_tokens/1/id", "-2", ZOE_FORMAT, "id"},
    {"added_tokens/1/content", "\"new\"", ZOE_FORMAT, "another piece"},
    {"added_tokens/1/lstrip", NULL, ZOE_FORMAT, "lstrip"},
    {"added_tokens/13",
     "{\"id\":5000,\"content\":\"far\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
     "\"normalized\":false,\"special\":true}",
     ZOE_FORMAT, "next free"},
    {"post_processor", "null", ZOE_UNSUPPORTED, "post_processor"},
    {"post_processor/single/1", "{\"Sequence\":{\"id\":\"B\"}}", ZOE_UNSUPPORTED, "template"},
};

static void refuses_by_name(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        json_t *json = load();
        zoe_tokenizer *t;
        edit(json, refusals[i].path, refusals[i].value);
        zoe_context_clear(ctx);
        const zoe_status status = open_json(ctx, &t, json);
        if (status != refusals[i].status || !strstr(zoe_context_message(ctx), refusals[i].says))
            print_error("%s: %d, %s\n", refusals[i].path, status, zoe_context_message(ctx));
        assert_int_equal(status, refusals[i].status);
        assert_non_null(strstr(zoe_context_message(ctx), refusals[i].says));
        assert_null(t);
        json_decref(json);
    }
    zoe_context_free(ctx);
}

/* The end token must be what the vocab says it is. */
static void refuses_wrong_end_token(void **state)
{
    (void)state;
    static const char *const ids[] = {"[]", "[1,2]", "[2]", "[-1]", "[910]", "[\"1\"]"};
    zoe_context *ctx = zoe_context_new(1);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        json_t *json = load();
        zoe_tokenizer *t;
        json_t *token = json_object_get(
            json_object_get(json_object_get(json, "post_processor"), "special_tokens"), "</s>");
        edit(token, "ids", ids[i]);
        zoe_context_clear(ctx);
        assert_int_equal(open_json(ctx, &t, json), ZOE_FORMAT);
        assert_non_null(strstr(zoe_context_message(ctx), "end token"));
        json_decref(json);
    }
    zoe_context_free(ctx);
}

/* Added tokens that take white space along, stand only for themselves, or are looked for after
 * normalising. */
static void knows_kinds_of_added_tokens(void **state)
{
    (void)state;
    static const char *const tokens[] = {
        "{\"id\":910,\"content\":\"[l]\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,"
        "\"normalized\":false}",
        "{\"id\":911,\"content\":\"[r]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":true,"
        "\"normalized\":false}",
        "{\"id\":912,\"content\":\"zebra\",\"single_word\":true,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false}",
        "{\"id\":913,\"content\":\"ﬁx\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":true}",
        "{\"id\":914,\"content\":\"[l]s\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":false}",
    };
    zoe_context *ctx = zoe_context_new(1);
    json_t *json = load();
    zoe_tokenizer *t;
    for (size_t i = 0; i < 5; i++)
        json_array_append_new(json_object_get(json, "added_tokens"),
                              json_loads(tokens[i], 0, NULL));
    assert_int_equal(open_json(ctx, &t, json), ZOE_OK);
    assert_int_equal(zoe_tokenizer_size(t), 915);
    check_ids(ctx, t, "a  [l][r]  b", ROOM, (int32_t[]){283, 910, 911, 298, 1}, 5, 5);
    check_ids(ctx, t, "zebra", ROOM, (int32_t[]){912, 1}, 2, 2);
    check_ids(ctx, t, "fix[l]s", ROOM, (int32_t[]){913, 914, 1}, 3, 3);
    int32_t ids[ROOM];
    size_t n, full;
    assert_int_equal(zoe_tokenizer_encode(ctx, t, ids, &n, &full, ROOM, "zebras"), ZOE_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(ids[i], 912);
    zoe_tokenizer_close(t);
    json_decref(json);
    zoe_context_free(ctx);
}

/* ---- files that are no tokenizer ---- */

static void refuses_missing(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tokenizer *t;
    assert_int_equal(zoe_tokenizer_open(ctx, &t, ZOE_TEST_DATA), ZOE_MISSING);
    assert_non_null(strstr(zoe_context_message(ctx), "spiece.model"));
    zoe_context_clear(ctx);
    assert_int_equal(zoe_tokenizer_open(ctx, &t, FOLDER "/none.json"), ZOE_MISSING);
    assert_null(t);
    zoe_context_free(ctx);
}

/* Cuts and flips of a spiece.model: refused in a sentence, or a model that can be used. */
static void survives_broken_models(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    char *model;
    size_t bytes;
    assert_int_equal(zoe_file_read(ctx, &model, &bytes, FOLDER "/spiece.model", 1 << 24), ZOE_OK);
    uint32_t random = 1;
    for (size_t i = 0; i < 80; i++) {
        random = random * 1664525u + 1013904223u;
        const size_t at = random % bytes;
        const bool cut = i % 2 == 0;
        const char old = model[at];
        zoe_tokenizer *t;
        if (!cut)
            model[at] = (char)((unsigned char)old ^ 1u << random % 7);
        zoe_context_clear(ctx);
        const zoe_status status =
            zoe_tokenizer_open_model(ctx, &t, model, cut ? at : bytes, "model");
        model[at] = old;
        if (status != ZOE_OK) {
            assert_null(t);
            assert_non_null(strstr(zoe_context_message(ctx), "model: "));
            continue;
        }
        int32_t ids[ROOM];
        size_t n, full;
        (void)zoe_tokenizer_encode(ctx, t, ids, &n, &full, ROOM, "A cat. ㎡ ﬁ é 猫");
        zoe_tokenizer_close(t);
    }
    zoe_context_clear(ctx);
    zoe_tokenizer *t;
    assert_int_equal(zoe_tokenizer_open_model(ctx, &t, "", 0, "model"), ZOE_FORMAT);
    zoe_free(model);
    zoe_context_free(ctx);
}

static void survives_no_memory(void **state)
{
    (void)state;
    static const char *const files[] = {FOLDER "/tokenizer.json", FOLDER "/spiece.model"};
    zoe_context *ctx = zoe_context_new(1);
    for (size_t i = 0; i < 2; i++) {
        zoe_status status = ZOE_NOMEM;
        for (size_t n = 1; status == ZOE_NOMEM; n++) {
            zoe_tokenizer *t;
            int32_t ids[ROOM];
            size_t count, full;
            zoe_context_clear(ctx);
            zoe_alloc_fail_at(n);
            status = zoe_tokenizer_open(ctx, &t, files[i]);
            if (status == ZOE_OK)
                status = zoe_tokenizer_encode(ctx, t, ids, &count, &full, ROOM, "A cat. 里 </s>");
            zoe_alloc_fail_at(0);
            zoe_tokenizer_close(t);
        }
        assert_int_equal(status, ZOE_OK);
    }
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_before_the_end_token), cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(refuses_wrong_end_token),   cmocka_unit_test(knows_kinds_of_added_tokens),
        cmocka_unit_test(refuses_missing),           cmocka_unit_test(survives_broken_models),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
