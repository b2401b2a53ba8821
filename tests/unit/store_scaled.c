/* Weights with scales beside them: every spelling, what the factors fall on, and what is refused. */
#include "store_case.h"

/* Entries of a header, in order, and the data that they describe; the case's data are 0, 1, 2 ... */
static const char *file_of(store_case *c, const char *header, const void *data, size_t n)
{
    unsigned char bytes[4096];
    const size_t length = strlen(header);
    assert_in_range(length + n, 0, sizeof bytes - 8);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> 8 * i);
    memcpy(bytes + 8, header, length);
    memcpy(bytes + 8 + length, data, n);
    return case_write(c, "m.safetensors", bytes, 8 + length + n);
}

#define ENTRY(name, type, shape, begin, end)                                                       \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

/* A weight of one layer that is 1 everywhere (0x38 in e4m3) and its scale. */
typedef struct layer {
    float scale[8];
    unsigned char weight[8];
} layer;

static layer ones(void)
{
    layer l = {.scale = {2, 3, 5, 7, 11, 13, 17, 19}};
    memset(l.weight, 0x38, sizeof l.weight);
    return l;
}

static void expect_values(const zoe_store *s, const char *name, const float *wanted, size_t n)
{
    float got[64];
    zoe_tensor t;
    if (!zoe_store_find(s, name, &t))
        fail_msg("%s is not there", name);
    assert_int_equal(zoe_tensor_count(t), n);
    zoe_tensor_widen(got, t, 0, n);
    for (size_t i = 0; i < n; i++)
        if (got[i] != wanted[i])
            fail_msg("%s: element %zu is %g, wanted %g", name, i, (double)got[i],
                     (double)wanted[i]);
}

static void every_spelling_multiplies(void **state)
{
    store_case *c = *state;
    static const char *const headers[] = {
        "{" ENTRY("l.scale_weight", "F32", "[]", "0", "4") "," ENTRY(
            "l.scale_input", "F32", "[]", "4",
            "8") "," ENTRY("scaled_fp8", "F8_E4M3", "[24]", "8",
                           "32") "," ENTRY("l.weight", "F8_E4M3", "[2,4]", "32", "40") "}",
        "{" ENTRY("model.diffusion_model.l.scale_weight", "F32", "[1]", "0", "4") "," ENTRY(
            "model.diffusion_model.scaled_fp8", "F32", "[7]", "4",
            "32") "," ENTRY("model.diffusion_model.l.weight", "F8_E4M3", "[2,4]", "32", "40") "}",
        "{" ENTRY("l.weight_scale", "F32", "[]", "0",
                  "4") "," ENTRY("l.input_scale", "F32", "[7]", "4",
                                 "32") "," ENTRY("l.weight", "F8_E4M3", "[2,4]", "32", "40") "}",
    };
    const layer l = ones();
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const char *path = file_of(c, headers[i], &l, sizeof l);
        zoe_store *s = case_open(c, path, ZOE_NAMES_WAN_DIT);
        assert_int_equal(zoe_store_count(s), 1);
        expect_values(s, "l.weight", (const float[]){2, 2, 2, 2, 2, 2, 2, 2}, 8);
        zoe_store_close(s);
        /* as stored, nothing is joined */
        s = case_open(c, path, ZOE_NAMES_AS_STORED);
        assert_in_range(zoe_store_count(s), 3, 4);
        for (size_t k = 0; k < zoe_store_count(s); k++)
            assert_null(zoe_store_tensor(s, k).scaling);
        zoe_store_close(s);
    }
}

static void one_for_each_row_or_square(void **state)
{
    store_case *c = *state;
    const layer l = ones();
    static const struct {
        const char *header;
        float wanted[8];
    } rows[] = {
        {"{" ENTRY("l.weight_scale", "F32", "[4,1]", "0",
                   "16") "," ENTRY("rest", "F32", "[4]", "16",
                                   "32") "," ENTRY("l.weight", "F8_E4M3", "[4,2]", "32", "40") "}",
         {2, 2, 3, 3, 5, 5, 7, 7}},
        {"{" ENTRY("l.scale_weight", "F32", "[8]", "0", "32") "," ENTRY("l.weight", "F8_E4M3",
                                                                        "[8,1]", "32", "40") "}",
         {2, 3, 5, 7, 11, 13, 17, 19}},
        {"{" ENTRY("l.weight_scale", "F32", "[2]", "0",
                   "8") "," ENTRY("rest", "F32", "[6]", "8",
                                  "32") "," ENTRY("l.weight", "F8_E4M3", "[2,2,2]", "32", "40") "}",
         {2, 2, 2, 2, 3, 3, 3, 3}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zoe_store *s = case_open(c, file_of(c, rows[i].header, &l, sizeof l), ZOE_NAMES_WAN_DIT);
        expect_values(s, "l.weight", rows[i].wanted, 8);
        zoe_store_close(s);
    }

    /* [130, 3] in squares of 128: two of them, one above the other; bf16 scales */
    unsigned char data[8 + 390];
    const uint16_t scales[] = {zoe_bf16_of_f32(2.0f), zoe_bf16_of_f32(3.0f)};
    memcpy(data, scales, 4);
    memset(data + 4, 0x38, 390);
    zoe_store *s =
        case_open(c,
                  file_of(c,
                          "{" ENTRY("l.weight_scale", "BF16", "[2,1]", "0", "4") "," ENTRY(
                              "l.weight", "F8_E4M3", "[130,3]", "4", "394") "}",
                          data, 394),
                  ZOE_NAMES_WAN_DIT);
    float got[390];
    zoe_tensor_widen(got, zoe_store_tensor(s, 0), 0, 390);
    for (size_t i = 0; i < 390; i++)
        assert_true(got[i] == (i < 384 ? 2.0f : 3.0f));
    zoe_store_close(s);
}

static void names_are_translated_first(void **state)
{
    store_case *c = *state;
    const layer l = ones();
    const char *path =
        file_of(c,
                "{" ENTRY("encoder.block.3.layer.0.SelfAttention.q.scale_weight", "F32", "[8]", "0",
                          "32") "," ENTRY("encoder.block.3.layer.0.SelfAttention.q.weight",
                                          "F8_E4M3", "[8,1]", "32", "40") "}",
                &l, sizeof l);
    zoe_store *s = case_open(c, path, ZOE_NAMES_UMT5);
    expect_values(s, "blocks.3.attn.q.weight", l.scale, 8);
    zoe_store_close(s);
}

/* The layer's JSON behind 4 bytes of scale; the weight is the rest of 64 bytes. */
static const char *with_format(store_case *c, const char *json, const char *type)
{
    char header[1024];
    unsigned char data[64] = {0};
    const size_t n = strlen(json);
    memcpy(data, &(float){2.0f}, 4);
    memcpy(data + 4, json, n);
    snprintf(
        header, sizeof header,
        "{" ENTRY(
            "l.weight_scale", "F32", "[]", "0",
            "4") ","
                 "\"l.comfy_quant\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[4,%zu]},"
                 "\"l.weight\":{\"dtype\":\"%s\",\"shape\":[%zu,1],\"data_offsets\":[%zu,64]}}",
        n, 4 + n, type, 60 - n, 4 + n);
    return file_of(c, header, data, sizeof data);
}

static void refused(store_case *c, const char *path, zoe_status wanted, const char *word)
{
    zoe_store *s;
    zoe_context_clear(c->ctx);
    assert_int_equal(zoe_store_open(c->ctx, &s, path, ZOE_NAMES_WAN_DIT), wanted);
    if (!strstr(zoe_context_message(c->ctx), word))
        fail_msg("\"%s\" is not in: %s", word, zoe_context_message(c->ctx));
}

static void formats_are_checked(void **state)
{
    store_case *c = *state;
    zoe_store_close(case_open(c, with_format(c, "{\"format\":\"float8_e4m3fn\"}", "F8_E4M3"),
                              ZOE_NAMES_WAN_DIT));
    zoe_store_close(
        case_open(c, with_format(c, "{\"format\":\"float8_e5m2\"}", "F8_E5M2"), ZOE_NAMES_WAN_DIT));
    refused(c, with_format(c, "{\"format\":\"float8_e5m2\"}", "F8_E4M3"), ZOE_UNSUPPORTED,
            "format \"float8_e5m2\" for a weight of f8_e4m3");
    refused(c, with_format(c, "{\"format\":\"nvfp4\"}", "U8"), ZOE_UNSUPPORTED, "nvfp4");
    refused(c, with_format(c, "{\"format\":\"mxfp8\"}", "F8_E4M3"), ZOE_UNSUPPORTED, "mxfp8");
    refused(c, with_format(c, "{\"form\":1}", "F8_E4M3"), ZOE_UNSUPPORTED, "l.comfy_quant");
    refused(c, with_format(c, "{\"format", "F8_E4M3"), ZOE_FORMAT, "l.comfy_quant");
}

static void scales_that_do_not_fit(void **state)
{
    store_case *c = *state;
    static const struct {
        const char *header;
        zoe_status status;
        const char *word;
    } rows[] = {
        {"{" ENTRY("l.scale_weight", "F32", "[8]", "0", "32") "," ENTRY("m.weight", "F8_E4M3",
                                                                        "[8]", "32", "40") "}",
         ZOE_FORMAT, "has l.scale_weight, but no tensor l.weight"},
        {"{" ENTRY("l.scale_weight", "F32", "[8]", "0", "32") "," ENTRY("l.weight", "F8_E4M3",
                                                                        "[2,4]", "32", "40") "}",
         ZOE_FORMAT, "l.weight: is f8_e4m3 [2, 4], its scale l.scale_weight is f32 [8]"},
        {"{" ENTRY("l.scale_weight", "F32", "[2,4]", "0", "32") "," ENTRY("l.weight", "F8_E4M3",
                                                                          "[8]", "32", "40") "}",
         ZOE_FORMAT, "neither one element"},
        {"{" ENTRY("l.scale_weight", "F32", "[1]", "0", "4") "," ENTRY(
             "l.weight_scale", "F32", "[7]", "4",
             "32") "," ENTRY("l.weight", "F8_E4M3", "[7]", "32",
                             "39") "," ENTRY("rest", "U8", "[1]", "39", "40") "}",
         ZOE_FORMAT, "two scales"},
        {"{" ENTRY("l.weight_scale", "F32", "[8]", "0", "32") "," ENTRY("l.weight", "I8", "[8]",
                                                                        "32", "40") "}",
         ZOE_UNSUPPORTED, "l.weight: is i8"},
        {"{" ENTRY("l.weight_scale", "F8_E4M3", "[32]", "0", "32") "," ENTRY("l.weight", "F8_E4M3",
                                                                             "[8]", "32", "40") "}",
         ZOE_UNSUPPORTED, "its scale l.weight_scale is f8_e4m3"},
        {"{" ENTRY("l.weight_scale", "F32", "[0]", "0",
                   "0") "," ENTRY("rest", "F32", "[8]", "0", "32") "," ENTRY("l.weight", "F8_E4M3",
                                                                             "[8]", "32", "40") "}",
         ZOE_FORMAT, "l.weight_scale"},
    };
    layer l = ones();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(c, file_of(c, rows[i].header, &l, sizeof l), rows[i].status, rows[i].word);
    static const char per_row[] = "{" ENTRY("l.scale_weight", "F32", "[8]", "0", "32") "," ENTRY(
        "l.weight", "F8_E4M3", "[8]", "32", "40") "}";
    l.scale[5] = NAN;
    refused(c, file_of(c, per_row, &l, sizeof l), ZOE_NONFINITE, "l.scale_weight: element 5");
    l.scale[5] = INFINITY;
    refused(c, file_of(c, per_row, &l, sizeof l), ZOE_NONFINITE, "l.scale_weight: element 5");
}

static void scales_are_part_of_the_fingerprint(void **state)
{
    store_case *c = *state;
    static const char header[] = "{" ENTRY("l.scale_weight", "F32", "[8]", "0", "32") "," ENTRY(
        "l.weight", "F8_E4M3", "[8]", "32", "40") "}";
    char texts[3][65];
    layer l = ones();
    for (size_t i = 0; i < 3; i++) {
        l.scale[7] = i == 1 ? 20.0f : 19.0f;
        zoe_store *s = case_open(c, file_of(c, header, &l, sizeof l), ZOE_NAMES_WAN_DIT);
        assert_int_equal(zoe_store_fingerprint(c->ctx, s, texts[i]), ZOE_OK);
        zoe_store_close(s);
    }
    assert_string_not_equal(texts[0], texts[1]);
    assert_string_equal(texts[0], texts[2]);
}

static void no_memory(void **state)
{
    store_case *c = *state;
    case_without_memory(c, with_format(c, "{\"format\":\"float8_e4m3fn\"}", "F8_E4M3"),
                        ZOE_NAMES_WAN_DIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_spelling_multiplies, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(one_for_each_row_or_square, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(names_are_translated_first, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(formats_are_checked, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(scales_that_do_not_fit, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(scales_are_part_of_the_fingerprint, case_setup,
                                        case_teardown),
        cmocka_unit_test_setup_teardown(no_memory, case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
