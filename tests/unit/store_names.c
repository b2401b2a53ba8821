/* The name tables against maps that were proved by running both programs, and what happens when two
 * names meet. */
#include "store_case.h"

/* data/names/FILE maps official names to foreign ones. A checkpoint under the foreign names must
 * open with the official ones, each still with its own value; one under the official names must
 * stay as it is. */
static void check_map(store_case *c, const char *file, zoe_names names, const char *prefix)
{
    char path[512], foreign[512];
    json_t *map;
    const char *official;
    json_t *value;
    snprintf(path, sizeof path, "%s/names/%s", ZOE_TEST_DATA, file);
    assert_int_equal(zoe_json_read(c->ctx, &map, path), ZOE_OK);
    const size_t n = json_object_size(map);
    assert_in_range(n, 30, 2000);
    zoe_named_tensor *tensors = calloc(n, sizeof *tensors), *own = calloc(n, sizeof *own);
    int32_t *numbers = calloc(n, sizeof *numbers);
    size_t i = 0;
    json_object_foreach(map, official, value)
    {
        numbers[i] = (int32_t)i;
        snprintf(foreign, sizeof foreign, "%s%s", prefix, json_string_value(value));
        own[i] = (zoe_named_tensor){official, zoe_tensor_1d(&numbers[i], ZOE_I32, 1)};
        tensors[i++] = (zoe_named_tensor){strdup(foreign), own[0].tensor};
        tensors[i - 1].tensor.data = &numbers[i - 1];
    }
    for (int pass = 0; pass < 2; pass++) {
        const char *made = case_path(c, "names.safetensors");
        assert_int_equal(zoe_safetensors_write(c->ctx, made, pass ? own : tensors, n, NULL, 0),
                         ZOE_OK);
        zoe_store *s = case_open(c, made, names);
        assert_int_equal(zoe_store_count(s), n);
        for (i = 0; i < n; i++) {
            zoe_tensor t;
            if (!zoe_store_find(s, own[i].name, &t))
                fail_msg("%s: %s is not found as %s", file, tensors[i].name, own[i].name);
            assert_int_equal(*(const int32_t *)t.data, numbers[i]);
        }
        zoe_store_close(s);
    }
    for (i = 0; i < n; i++)
        free((void *)(uintptr_t)tensors[i].name);
    free(tensors);
    free(own);
    free(numbers);
    json_decref(map);
}

static void diffusers_transformers(void **state)
{
    check_map(*state, "dit_i2v_a14b.json", ZOE_NAMES_WAN_DIT, "");
    check_map(*state, "dit_t2v.json", ZOE_NAMES_WAN_DIT, "");
    check_map(*state, "dit_i2v_21_clip.json", ZOE_NAMES_WAN_DIT, "");
}

static void diffusers_autoencoders(void **state)
{
    check_map(*state, "vae21.json", ZOE_NAMES_WAN_VAE, "");
    check_map(*state, "vae22.json", ZOE_NAMES_WAN_VAE, "");
}

static void transformers_umt5(void **state)
{
    check_map(*state, "umt5.json", ZOE_NAMES_UMT5, "");
}

static void prefixes_are_stripped(void **state)
{
    check_map(*state, "dit_t2v.json", ZOE_NAMES_WAN_DIT, "model.diffusion_model.");
    check_map(*state, "dit_t2v.json", ZOE_NAMES_WAN_DIT, "diffusion_model.");
    check_map(*state, "dit_t2v.json", ZOE_NAMES_WAN_DIT, "model.");
}

static zoe_store *open_bytes(store_case *c, zoe_names names, const char *a, uint8_t x,
                             const char *b, uint8_t y)
{
    const zoe_named_tensor tensors[] = {
        {a, zoe_tensor_1d(&x, ZOE_U8, 1)},
        {b, zoe_tensor_1d(&y, ZOE_U8, 1)},
        {"encoder.block.0.layer.0.SelfAttention.q.weight", zoe_tensor_1d(&x, ZOE_U8, 1)}};
    const char *path = case_path(c, "two.safetensors");
    zoe_store *s;
    zoe_context_clear(c->ctx);
    assert_int_equal(zoe_safetensors_write(c->ctx, path, tensors, 3, NULL, 0), ZOE_OK);
    const zoe_status status = zoe_store_open(c->ctx, &s, path, names);
    assert_true(status == ZOE_OK || status == ZOE_FORMAT);
    return s;
}

/* The embedding may be stored under both of its names, but then it must be one thing. */
static void tied_embeddings(void **state)
{
    store_case *c = *state;
    zoe_store *s =
        open_bytes(c, ZOE_NAMES_UMT5, "shared.weight", 5, "encoder.embed_tokens.weight", 5);
    assert_non_null(s);
    assert_int_equal(zoe_store_count(s), 2);
    zoe_tensor t;
    assert_true(zoe_store_find(s, "token_embedding.weight", &t));
    zoe_store_close(s);
    assert_null(
        open_bytes(c, ZOE_NAMES_UMT5, "shared.weight", 5, "encoder.embed_tokens.weight", 6));
    assert_non_null(strstr(
        zoe_context_message(c->ctx),
        "encoder.embed_tokens.weight and shared.weight both stand for token_embedding.weight"));
    assert_null(open_bytes(c, ZOE_NAMES_WAN_DIT, "model.x", 5, "x", 6));
}

static void foreign_tensors_keep_their_names(void **state)
{
    store_case *c = *state;
    zoe_store *s = open_bytes(c, ZOE_NAMES_UMT5, "spiece_model", 5,
                              "encoder.block.x.layer.0.layer_norm.weight", 6);
    assert_non_null(s);
    zoe_tensor t;
    assert_true(zoe_store_find(s, "spiece_model", &t));
    assert_true(zoe_store_find(s, "encoder.block.x.layer.0.layer_norm.weight", &t));
    assert_true(zoe_store_find(s, "blocks.0.attn.q.weight", &t));
    zoe_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(diffusers_transformers),
        cmocka_unit_test(diffusers_autoencoders),
        cmocka_unit_test(transformers_umt5),
        cmocka_unit_test(prefixes_are_stripped),
        cmocka_unit_test(tied_embeddings),
        cmocka_unit_test(foreign_tensors_keep_their_names),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
