/* The fingerprint of a store: what it depends on, and what it does not. */
#include "store_case.h"

#include <time.h>

#include "base/digest.h"

static void fingerprint_of(store_case *c, const char *path, zoe_names names, char text[65])
{
    zoe_store *s = case_open(c, path, names);
    assert_int_equal(zoe_store_fingerprint(c->ctx, s, text), ZOE_OK);
    assert_int_equal(strlen(text), 64);
    zoe_store_close(s);
}

#define TWO(NAME_A, TYPE, SHAPE)                                                                   \
    "{\"" NAME_A "\":{\"dtype\":\"" TYPE "\",\"shape\":" SHAPE ",\"data_offsets\":[0,8]},"         \
    "\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}"

/* The definition, written out by hand for one small tensor. */
static void is_what_the_header_says(void **state)
{
    store_case *c = *state;
    char text[65], data[ZOE_DIGEST_TEXT], wanted[ZOE_DIGEST_TEXT];
    unsigned char bytes[8 + 1 + 8 + 3 + 8 + 2 * 8 + 8 + 64] = {0};
    unsigned char *p = bytes;
    *p = 1; /* the length of the name, in 8 bytes, and the name */
    p[8] = 'a';
    p += 9;
    *p = 3; /* the type */
    memcpy(p + 8, "f32", 3);
    p += 11;
    *p = 2; /* rank and extents */
    p[8] = 1;
    p[16] = 2;
    p += 24;
    *p = 64; /* the digest of the bytes */
    assert_int_equal(zoe_digest_of(c->ctx, data, "\0\1\2\3\4\5\6\7", 8), ZOE_OK);
    memcpy(p + 8, data, 64);
    assert_int_equal(zoe_digest_of(c->ctx, wanted, bytes, sizeof bytes), ZOE_OK);
    fingerprint_of(c,
                   case_safetensors(c, "one.safetensors",
                                    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":"
                                    "[0,8]}}",
                                    8),
                   ZOE_NAMES_AS_STORED, text);
    assert_string_equal(text, wanted);
}

static void depends_on_name_type_shape_and_bytes(void **state)
{
    store_case *c = *state;
    static const char *const headers[] = {TWO("a", "F32", "[2]"), TWO("b", "F32", "[2]"),
                                          TWO("a", "I32", "[2]"), TWO("a", "F32", "[2,1]"),
                                          TWO("a", "F32", "[1,2]")};
    enum { COUNT = sizeof headers / sizeof headers[0] };
    char texts[COUNT + 1][65];
    for (size_t i = 0; i < COUNT; i++)
        fingerprint_of(c, case_safetensors(c, "x.safetensors", headers[i], 11), ZOE_NAMES_AS_STORED,
                       texts[i]);
    size_t n;
    unsigned char *bytes = case_read(case_safetensors(c, "x.safetensors", headers[0], 11), &n);
    bytes[n - 1] ^= 1;
    fingerprint_of(c, case_write(c, "y.safetensors", bytes, n), ZOE_NAMES_AS_STORED, texts[COUNT]);
    free(bytes);
    for (size_t i = 0; i <= COUNT; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(texts[i], texts[j]);
}

/* The order in the file, spare blanks in its header, shards and the file's own names do not count. */
static void does_not_depend_on_the_file(void **state)
{
    store_case *c = *state;
    static const char plain[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                                "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}";
    static const char turned[] =
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},   "
        "\"model.diffusion_model.a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    char one[65], other[65];
    fingerprint_of(c, case_safetensors(c, "one.safetensors", plain, 8), ZOE_NAMES_WAN_DIT, one);
    fingerprint_of(c, case_safetensors(c, "other.safetensors", turned, 8), ZOE_NAMES_WAN_DIT,
                   other);
    assert_string_equal(one, other);
    static const char index[] = "{\"metadata\":{\"total_size\":8},\"weight_map\":"
                                "{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}}";
    case_safetensors(c, "s1.safetensors",
                     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
    size_t n;
    unsigned char *bytes = case_read(
        case_safetensors(c, "s2.safetensors",
                         "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4),
        &n);
    for (size_t i = 0; i < 4; i++)
        bytes[n - 4 + i] = (unsigned char)(4 + i);
    case_write(c, "s2.safetensors", bytes, n);
    free(bytes);
    fingerprint_of(c, case_write(c, "m.safetensors.index.json", index, sizeof index - 1),
                   ZOE_NAMES_WAN_DIT, other);
    assert_string_equal(one, other);
}

/* A tensor over 1 MiB: the ends show always, and so does any change of all of it. */
static void large_tensors_by_blocks(void **state)
{
    store_case *c = *state;
    enum { SIZE = (1 << 20) + 12345 };
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1060921],\"data_offsets\":"
                                 "[0,1060921]}}";
    static unsigned char bytes[8 + sizeof header - 1 + SIZE];
    unsigned char *data = bytes + 8 + sizeof header - 1;
    char first[65], other[65];
    memset(bytes, 0, sizeof bytes);
    bytes[0] = sizeof header - 1;
    memcpy(bytes + 8, header, sizeof header - 1);
    fingerprint_of(c, case_write(c, "l.safetensors", bytes, sizeof bytes), ZOE_NAMES_AS_STORED,
                   first);
    static const size_t seen[] = {0, 16383, SIZE - 1, SIZE - 16384};
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        data[seen[i]] = 1;
        fingerprint_of(c, case_write(c, "l.safetensors", bytes, sizeof bytes), ZOE_NAMES_AS_STORED,
                       other);
        assert_string_not_equal(first, other);
        data[seen[i]] = 0;
    }
    data[16384] = 1; /* between blocks */
    fingerprint_of(c, case_write(c, "l.safetensors", bytes, sizeof bytes), ZOE_NAMES_AS_STORED,
                   other);
    assert_string_equal(first, other);
}

/* The digest sees every byte of a large tensor; the stamp sees that the file was written to. */
static void digest_and_stamp(void **state)
{
    store_case *c = *state;
    enum { SIZE = (1 << 20) + 12345 };
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1060921],\"data_offsets\":"
                                 "[0,1060921]}}";
    static unsigned char bytes[8 + sizeof header - 1 + SIZE];
    char digests[2][65], stamps[3][65];
    memset(bytes, 0, sizeof bytes);
    bytes[0] = sizeof header - 1;
    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t i = 0; i < 2; i++) {
        const char *path = case_write(c, "l.safetensors", bytes, sizeof bytes);
        zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
        assert_int_equal(zoe_store_digest(c->ctx, s, digests[i]), ZOE_OK);
        assert_int_equal(zoe_store_stamp(c->ctx, s, stamps[i]), ZOE_OK);
        assert_int_equal(zoe_store_stamp(c->ctx, s, stamps[2]), ZOE_OK);
        assert_string_equal(stamps[i], stamps[2]);
        zoe_store_close(s);
        bytes[8 + sizeof header - 1 + 16384] = 1; /* between the blocks of the fingerprint */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* clocks of file systems tick */
    }
    assert_string_not_equal(digests[0], digests[1]);
    assert_string_not_equal(stamps[0], stamps[1]);
}

static void is_the_same_for_any_threads(void **state)
{
    store_case *c = *state;
    static char header[8192];
    size_t used = (size_t)snprintf(header, sizeof header, "{");
    for (size_t i = 0; i < 40; i++)
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":"
                                 "[%zu,%zu]}",
                                 i ? "," : "", i, 2 * i, 2 * i + 2);
    snprintf(header + used, sizeof header - used, "}");
    const char *path = case_safetensors(c, "many.safetensors", header, 80);
    char one[65], text[65];
    fingerprint_of(c, path, ZOE_NAMES_AS_STORED, one);
    for (int threads = 2; threads < 9; threads += 3) {
        zoe_context *ctx = zoe_context_new(threads);
        zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
        assert_int_equal(zoe_store_fingerprint(ctx, s, text), ZOE_OK);
        assert_string_equal(text, one);
        zoe_store_close(s);
        zoe_context_free(ctx);
    }
}

static void refuses_well(void **state)
{
    store_case *c = *state;
    char text[65];
    const char *path = case_safetensors(c, "r.safetensors", TWO("a", "F32", "[2]"), 11);
    zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
    zoe_status status = ZOE_NOMEM;
    size_t n;
    for (n = 1; status == ZOE_NOMEM; n++) {
        zoe_context_clear(c->ctx);
        zoe_alloc_fail_at(n);
        status = zoe_store_fingerprint(c->ctx, s, text);
        zoe_alloc_fail_at(0);
        if (status != ZOE_OK)
            assert_string_not_equal(zoe_context_message(c->ctx), "");
    }
    assert_int_equal(status, ZOE_OK);
    assert_in_range(n, 5, 100);

    zoe_cancel(c->ctx);
    assert_int_equal(zoe_store_fingerprint(c->ctx, s, text), ZOE_CANCELLED);
    zoe_context_free(c->ctx);
    c->ctx = zoe_context_new(1);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(zoe_store_fingerprint(c->ctx, s, text), ZOE_FORMAT);
    zoe_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_what_the_header_says, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(depends_on_name_type_shape_and_bytes, case_setup,
                                        case_teardown),
        cmocka_unit_test_setup_teardown(does_not_depend_on_the_file, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(large_tensors_by_blocks, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(digest_and_stamp, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(is_the_same_for_any_threads, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(refuses_well, case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
