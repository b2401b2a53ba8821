/* zoe_checkpoint_convert without memory, and cancelled: no file, no part of one, and a reason. What
 * it writes is tested by tests/cli/convert.sh. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_memory, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(cancelled, case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
