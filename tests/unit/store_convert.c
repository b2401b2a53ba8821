/* zoe_checkpoint_convert without memory, cancelled, and with weights that cannot become anything: no
 * file, no part of one, and a reason. What it writes is tested by tests/cli/convert.sh. */
#include "store_case.h"

/* A transformer for the converter: one matrix, one vector. */
static const char *source(store_case *c)
{
    static char header[512];
    snprintf(header, sizeof header,
             "{\"blocks.0.self_attn.q.weight\":{\"dtype\":\"F16\",\"shape\":[4,64],"
             "\"data_offsets\":[0,512]},\"blocks.0.self_attn.q.bias\":{\"dtype\":\"F16\","
             "\"shape\":[4],\"data_offsets\":[512,520]}}");
    unsigned char data[8 + 512 + 520];
    const size_t n = strlen(header);
    memset(data, 0, sizeof data);
    data[0] = (unsigned char)n;
    data[1] = (unsigned char)(n >> 8);
    memcpy(data + 8, header, n);
    for (size_t i = 0; i < 520; i++)
        data[8 + n + i] = (unsigned char)(i * 5 % 60);
    return case_write(c, "in.safetensors", data, 8 + n + 520);
}

static void expect_nothing(const char *path)
{
    char command[600];
    snprintf(command, sizeof command, "! ls '%s'* >/dev/null 2>&1", path);
    assert_int_equal(system(command), 0);
}

static void without_memory(void **state)
{
    store_case *c = *state;
    static const struct {
        const char *name;
        zoe_dtype type;
    } rows[] = {{"out.gguf", ZOE_Q8_0}, {"out.safetensors", ZOE_F8_E4M3}};
    for (size_t r = 0; r < 2; r++) {
        char path[64], from[64];
        snprintf(path, sizeof path, "%s/%s", c->folder, rows[r].name);
        snprintf(from, sizeof from, "%s", source(c));
        zoe_status status = ZOE_NOMEM;
        size_t n;
        for (n = 1; status == ZOE_NOMEM && n < 1000; n++) {
            zoe_conversion conversion = {.type = rows[r].type};
            zoe_context_clear(c->ctx);
            zoe_alloc_fail_at(n);
            status = zoe_checkpoint_convert(c->ctx, path, from, &conversion);
            zoe_alloc_fail_at(0);
            if (status == ZOE_NOMEM) {
                assert_true(zoe_context_message(c->ctx)[0] != '\0');
                expect_nothing(path);
            }
        }
        if (status != ZOE_OK)
            fail_msg("%s", zoe_context_message(c->ctx));
        assert_in_range(n, 10, 1000);
        zoe_store *s = case_open(c, path, ZOE_NAMES_WAN_DIT);
        assert_int_equal(zoe_store_count(s), 2);
        zoe_tensor t;
        assert_true(zoe_store_find(s, "blocks.0.self_attn.q.weight", &t));
        assert_int_equal(t.dtype, rows[r].type);
        assert_true((t.scaling != NULL) == (rows[r].type == ZOE_F8_E4M3));
        assert_true(zoe_store_find(s, "blocks.0.self_attn.q.bias", &t));
        assert_int_equal(t.dtype, ZOE_F32);
        zoe_store_close(s);
    }
}

static void cancelled(void **state)
{
    store_case *c = *state;
    char path[64], from[64];
    zoe_conversion conversion = {.type = ZOE_Q8_0};
    snprintf(path, sizeof path, "%s/out.gguf", c->folder);
    snprintf(from, sizeof from, "%s", source(c));
    zoe_context_clear(c->ctx);
    zoe_cancel(c->ctx);
    assert_int_equal(zoe_checkpoint_convert(c->ctx, path, from, &conversion), ZOE_CANCELLED);
    expect_nothing(path);
}

/* A transformer of one matrix [2, 32] of a type that safetensors has. */
static void write_matrix(store_case *c, const char *path, zoe_dtype dtype, void *data)
{
    const zoe_named_tensor list[] = {
        {"blocks.0.self_attn.q.weight", zoe_tensor_of(data, dtype, 2, (size_t[]){2, 32})}};
    assert_int_equal(zoe_safetensors_write(c->ctx, path, list, 1, NULL, 0), ZOE_OK);
}

static zoe_status convert(store_case *c, const char *to, const char *from, zoe_dtype type)
{
    zoe_conversion conversion = {.type = type};
    zoe_context_clear(c->ctx);
    return zoe_checkpoint_convert(c->ctx, to, from, &conversion);
}

/* Also where the type stays and the bytes are copied. */
static void weights_that_are_not_numbers(void **state)
{
    store_case *c = *state;
    unsigned char bytes[64] = {0};
    const char *from = case_path(c, "in.safetensors"), *to = case_path(c, "out.safetensors");
    bytes[63] = 0x7f;
    write_matrix(c, from, ZOE_F8_E4M3, bytes);
    assert_int_equal(convert(c, to, from, ZOE_F8_E4M3), ZOE_NONFINITE);
    assert_non_null(strstr(zoe_context_message(c->ctx), "blocks.0.self_attn.q.weight: holds NaN"));
    expect_nothing(to);

    float ones[64];
    size_t n;
    for (size_t i = 0; i < 64; i++)
        ones[i] = 1.0f;
    const char *once = case_path(c, "once.gguf"), *twice = case_path(c, "twice.gguf");
    write_matrix(c, from, ZOE_F32, ones);
    assert_int_equal(convert(c, once, from, ZOE_Q8_0), ZOE_OK);
    assert_int_equal(convert(c, twice, once, ZOE_Q8_0), ZOE_OK);
    unsigned char *first = case_read(once, &n), *second = case_read(twice, &n);
    assert_memory_equal(first, second, n);
    free(second);
    assert_int_equal(remove(twice), 0);
    first[n - 96 + 1] = 0x7c; /* the data is 68 bytes in 96: the first block's scale becomes inf */
    case_write(c, "once.gguf", first, n);
    free(first);
    assert_int_equal(convert(c, twice, once, ZOE_Q8_0), ZOE_NONFINITE);
    expect_nothing(twice);
    write_matrix(c, from, ZOE_I8, bytes);
    assert_int_equal(convert(c, to, from, ZOE_BF16), ZOE_UNSUPPORTED);
    assert_non_null(strstr(zoe_context_message(c->ctx), "is i8; a float type is wanted"));
    expect_nothing(to);
}

/* Values whose scale has no inverse in f32 are numbers all the same. */
static void weights_that_are_very_small(void **state)
{
    store_case *c = *state;
    static const float sizes[] = {0x1p-149f, 0x1p-127f, 0x1p-118f, 0x1p-100f};
    const char *from = case_path(c, "in.safetensors"), *to = case_path(c, "out.safetensors");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float x[64] = {0}, y[1];
        zoe_tensor t;
        x[5] = sizes[i];
        write_matrix(c, from, ZOE_F32, x);
        assert_int_equal(convert(c, to, from, ZOE_F8_E4M3), ZOE_OK);
        zoe_store *s = case_open(c, to, ZOE_NAMES_WAN_DIT);
        assert_true(zoe_store_find(s, "blocks.0.self_attn.q.weight", &t));
        zoe_tensor_widen(y, t, 5, 1);
        assert_true(fabsf(y[0] - x[5]) <= 0x1p-136f + 0x1p-4f * x[5]);
        zoe_store_close(s);
        assert_int_equal(remove(to), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_memory, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(cancelled, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(weights_that_are_not_numbers, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(weights_that_are_very_small, case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
