/* Reading and writing of safetensors files, and the small JSON beside them. */
#include "store_case.h"

#include <math.h>

#define GOOD                                                                                       \
    "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"                          \
    "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}"

static void reads_tensors(void **state)
{
    store_case *c = *state;
    zoe_store *s =
        case_open(c, case_safetensors(c, "good.safetensors", GOOD, 19), ZOE_NAMES_AS_STORED);
    zoe_tensor t;
    assert_int_equal(zoe_store_count(s), 2);
    assert_string_equal(zoe_store_name(s, 0), "a");
    assert_string_equal(zoe_store_name(s, 1), "b");
    assert_non_null(strstr(zoe_store_file(s, 0), "good.safetensors"));
    assert_int_equal(zoe_store_bytes(s), 19);
    assert_false(zoe_store_find(s, "c", &t));
    assert_true(zoe_store_find(s, "b", &t));
    assert_int_equal(t.dtype, ZOE_F32);
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.stride[0], 2);
    assert_int_equal((uintptr_t)t.data % 4, 0);
    assert_int_equal(((const unsigned char *)t.data)[15], 15);
    zoe_store_will_need(s, t);
    zoe_store_drop(s);
    assert_int_equal(((const unsigned char *)t.data)[15], 15);
    assert_int_equal(zoe_store_check(c->ctx, s), ZOE_OK);
    zoe_store_close(s);
}

/* A header of odd length puts f32 data at odd addresses; they are copied. */
static void misaligned_data_are_copied(void **state)
{
    store_case *c = *state;
    for (int blanks = 0; blanks < 8; blanks++) {
        char header[256];
        snprintf(header, sizeof header, "%s%*s", GOOD, blanks, "");
        zoe_store *s =
            case_open(c, case_safetensors(c, "odd.safetensors", header, 19), ZOE_NAMES_AS_STORED);
        zoe_tensor t;
        assert_true(zoe_store_find(s, "b", &t));
        assert_int_equal((uintptr_t)t.data % 4, 0);
        for (int i = 0; i < 16; i++)
            assert_int_equal(((const unsigned char *)t.data)[i], i);
        zoe_store_will_need(s, t);
        zoe_store_close(s);
    }
}

static void scalars_and_empty_tensors(void **state)
{
    store_case *c = *state;
    const char *path =
        case_safetensors(c, "s.safetensors",
                         "{\"__metadata__\":{\"format\":\"pt\"},\"s\":{\"dtype\":\"F64\",\"shape\":"
                         "[],\"data_offsets\":[0,8]},"
                         "\"e\":{\"dtype\":\"BF16\",\"shape\":[3,0,4],\"data_offsets\":[8,8]}}",
                         8);
    zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
    zoe_tensor t;
    assert_int_equal(zoe_store_count(s), 2);
    assert_true(zoe_store_find(s, "s", &t));
    assert_int_equal(t.rank, 0);
    assert_int_equal(zoe_tensor_count(t), 1);
    assert_true(zoe_store_find(s, "e", &t));
    assert_int_equal(zoe_tensor_count(t), 0);
    zoe_store_close(s);
    s = case_open(c, case_safetensors(c, "none.safetensors", "{}", 0), ZOE_NAMES_WAN_DIT);
    assert_int_equal(zoe_store_count(s), 0);
    assert_false(zoe_store_find(s, "a", &t));
    zoe_store_close(s);
}

/* Every prefix of a file is refused with its name, its size and the size that is wanted. */
static void B19_truncated(void **state)
{
    store_case *c = *state;
    size_t n;
    unsigned char *bytes = case_read(case_safetensors(c, "whole.safetensors", GOOD, 19), &n);
    char found[32], wanted[32];
    for (size_t cut = 0; cut < n; cut++) {
        const size_t goal = cut < 8 ? 10 : cut < 8 + strlen(GOOD) ? 8 + strlen(GOOD) : n;
        snprintf(found, sizeof found, "%zu bytes", cut);
        snprintf(wanted, sizeof wanted, "%zu", goal);
        REFUSED(c, case_write(c, "cut.safetensors", bytes, cut), ZOE_FORMAT, "cut.safetensors",
                found, wanted, "cut short");
    }
    free(bytes);
}

static void B19_shrinks_while_mapped(void **state)
{
    store_case *c = *state;
    const char *path = case_safetensors(c, "shrinks.safetensors", GOOD, 19);
    zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
    assert_int_equal(truncate(path, 60), 0);
    assert_int_equal(zoe_store_check(c->ctx, s), ZOE_FORMAT);
    assert_non_null(strstr(zoe_context_message(c->ctx), "shrinks.safetensors: shrank from"));
    zoe_store_close(s);
}

/* What is mapped counts, not what has its name by now. */
static void another_file_takes_the_place(void **state)
{
    store_case *c = *state;
    const char *path = case_safetensors(c, "kept.safetensors", GOOD, 19);
    zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
    zoe_tensor t;
    assert_true(zoe_store_find(s, "b", &t));
    assert_string_equal(zoe_map_path_at(s->files[0].data + 5), path);
    assert_null(zoe_map_path_at(s->files[0].data + s->files[0].size));
    assert_int_equal(rename(case_write(c, "short", "x", 1), path), 0);
    assert_int_equal(zoe_store_check(c->ctx, s), ZOE_OK);
    assert_int_equal(((const unsigned char *)t.data)[15], 15);
    const unsigned char *data = s->files[0].data;
    zoe_store_close(s);
    assert_null(zoe_map_path_at(data));
}

/* The rule of the official reader: the ranges fill the data exactly. */
static void B20_trailing_bytes_holes_overlaps(void **state)
{
    store_case *c = *state;
    REFUSED(c, case_safetensors(c, "more.safetensors", GOOD, 20), ZOE_FORMAT, "more.safetensors",
            "behind the last");
    REFUSED(c,
            case_safetensors(c, "hole.safetensors",
                             "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                             "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
                             5),
            ZOE_FORMAT, "tensor y", "begins at byte 3");
    REFUSED(c,
            case_safetensors(c, "late.safetensors",
                             "{\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3),
            ZOE_FORMAT, "tensor y", "begins at byte 1");
    REFUSED(c,
            case_safetensors(c, "lap.safetensors",
                             "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                             "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
                             3),
            ZOE_FORMAT, "tensor y", "inside tensor x");
    REFUSED(c,
            case_safetensors(c, "same.safetensors",
                             "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                             "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                             2),
            ZOE_FORMAT, "inside tensor");
}

/* One tensor whose entry is wrong in one way. */
static void refuses_bad_entries(void **state)
{
    static const struct {
        const char *entry;
        zoe_status status;
        const char *word;
    } rows[] = {
        {"{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4294967296],\"data_offsets\":[0,4]}",
         ZOE_FORMAT, "memory"},
        {"{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296,4294967296],\"data_offsets\":[0,0]"
         "}",
         ZOE_FORMAT, "memory"},
        {"{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}", ZOE_FORMAT,
         "memory"},
        {"{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}", ZOE_FORMAT, "extent 0"},
        {"{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}", ZOE_FORMAT, "extent 0"},
        {"{\"dtype\":\"F32\",\"shape\":[1,99999999999999999999],\"data_offsets\":[0,4]}",
         ZOE_FORMAT, "JSON"},
        {"{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}", ZOE_FORMAT, "shape"},
        {"{\"dtype\":\"F32\",\"data_offsets\":[0,4]}", ZOE_FORMAT, "shape"},
        {"{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1],\"data_offsets\":[0,4]}", ZOE_UNSUPPORTED,
         "6 dimensions"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,5]}", ZOE_FORMAT, "needs 4 bytes"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}", ZOE_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}", ZOE_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0.0,4.0]}", ZOE_FORMAT,
         "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}", ZOE_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1]}", ZOE_FORMAT, "data_offsets"},
        {"{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775800,"
         "9223372036854775804]}",
         ZOE_FORMAT, "begins at byte"},
        {"{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}", ZOE_UNSUPPORTED,
         "dtype \"f32\""},
        {"{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[0,4]}", ZOE_UNSUPPORTED,
         "dtype \"F4\""},
        {"{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}", ZOE_FORMAT, "dtype"},
        {"{\"shape\":[1],\"data_offsets\":[0,4]}", ZOE_FORMAT, "dtype"},
        {"[]", ZOE_FORMAT, "dtype"},
    };
    store_case *c = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char header[512];
        snprintf(header, sizeof header, "{\"odd one\":%s}", rows[i].entry);
        const char *name = strcmp(rows[i].word, "JSON") == 0 ? "bad.safetensors" : "tensor odd one";
        REFUSED(c, case_safetensors(c, "bad.safetensors", header, 4), rows[i].status,
                "bad.safetensors", name, rows[i].word);
    }
}

static void refuses_bad_headers(void **state)
{
    store_case *c = *state;
    unsigned char huge[16] = {1, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{', '}'};
    REFUSED(c, case_write(c, "huge", huge, 16), ZOE_FORMAT, "huge", "100000001 bytes", "100000000");
    memset(huge, 0xff, 8);
    REFUSED(c, case_write(c, "huge", huge, 16), ZOE_FORMAT, "huge", "18446744073709551615 bytes");
    REFUSED(c, case_safetensors(c, "j", "{\"a\":", 0), ZOE_FORMAT, "JSON");
    REFUSED(c, case_safetensors(c, "j", "{}x", 0), ZOE_FORMAT, "JSON");
    REFUSED(c, case_safetensors(c, "j", "{\"__metadata__\":{\"a\":1}}", 0), ZOE_FORMAT,
            "__metadata__");
    REFUSED(c, case_safetensors(c, "j", "{\"__metadata__\":7}", 0), ZOE_FORMAT, "__metadata__");
    REFUSED(c,
            case_safetensors(c, "twice",
                             "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                             "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                             2),
            ZOE_FORMAT, "duplicate");
    char deep[3000] = "{\"a\":";
    memset(deep + 5, '[', 2900);
    REFUSED(c, case_safetensors(c, "deep", deep, 0), ZOE_FORMAT, "JSON");
}

static void tells_other_kinds_apart(void **state)
{
    store_case *c = *state;
    REFUSED(c, case_path(c, "absent"), ZOE_MISSING, "no such file");
    REFUSED(c, case_write(c, "none", "", 0), ZOE_FORMAT, "has 0 bytes");
    REFUSED(c, case_write(c, "g", "GGUF\3\0\0\0{\0\0\0\0\0\0\0", 16), ZOE_FORMAT, "GGUF");
    REFUSED(c, case_write(c, "lfs", "version https://git-lfs.github.com/spec/v1\n", 43), ZOE_FORMAT,
            "Git LFS");
    REFUSED(c, case_write(c, "html", "<!DOCTYPE html><html>", 21), ZOE_FORMAT, "is no checkpoint");
    REFUSED(c, case_write(c, "pickle", "\x80\4\x95\0\0\0\0\0\0\0\0N.", 13), ZOE_UNSUPPORTED,
            "bare pickle");
    REFUSED(c, "/dev/null", ZOE_IO, "/dev/null");
    REFUSED(c, NULL, ZOE_INVALID, "no path");
}

/* A header of 123 bytes begins with '{', as a JSON file does. */
static void a_length_that_looks_like_JSON(void **state)
{
    store_case *c = *state;
    char header[124];
    snprintf(header, sizeof header, "%-123s",
             "{\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
    zoe_store *s = case_open(c, case_safetensors(c, "brace", header, 1), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 1);
    zoe_store_close(s);
}

static void gets_what_is_wanted(void **state)
{
    store_case *c = *state;
    zoe_store *s = case_open(c, case_safetensors(c, "good", GOOD, 19), ZOE_NAMES_AS_STORED);
    zoe_tensor t = zoe_tensor_none();
    assert_int_equal(zoe_store_get(c->ctx, s, &t, "b", 2, (const size_t[]){2, 0}), ZOE_OK);
    assert_int_equal(t.shape[1], 2);
    assert_int_equal(zoe_store_get(c->ctx, s, &t, "b", 2, (const size_t[]){2, 3}), ZOE_FORMAT);
    assert_non_null(
        strstr(zoe_context_message(c->ctx), "tensor b: is f32 [2, 2], wanted float [2, 3]"));
    zoe_context_clear(c->ctx);
    assert_int_equal(zoe_store_get(c->ctx, s, &t, "a", 1, (const size_t[]){3}), ZOE_FORMAT);
    zoe_context_clear(c->ctx);
    assert_int_equal(zoe_store_get(c->ctx, s, &t, "z", 1, (const size_t[]){3}), ZOE_MISSING);
    zoe_context_clear(c->ctx);

    zoe_want wants[] = {{"b", 2, {0, 0}, &t}, {"m1", 1, {1}, &t},   {"m2", 1, {1}, &t},
                        {"m3", 1, {1}, NULL}, {"m4", 1, {1}, NULL}, {"m5", 1, {1}, &t},
                        {"b", 1, {4}, &t}};
    assert_int_equal(zoe_store_get_all(c->ctx, s, wants, 1), ZOE_OK);
    assert_int_equal(zoe_store_get_all(c->ctx, s, wants, 7), ZOE_MISSING);
    assert_non_null(strstr(zoe_context_message(c->ctx),
                           "5 of 7 tensors are missing: m1, m2, m3, m4, ...; "
                           "besides, b is f32 [2, 2], wanted float [4]"));
    zoe_context_clear(c->ctx);
    assert_int_equal(zoe_store_get_all(c->ctx, s, wants + 6, 1), ZOE_FORMAT);
    zoe_store_close(s);
}

static void writes_what_it_reads(void **state)
{
    store_case *c = *state;
    float f[6] = {1, -2, 3, NAN, INFINITY, 0};
    int64_t i[1] = {-5};
    uint8_t u[3] = {7, 8, 9};
    uint16_t b[2] = {0x3f80, 0xc000};
    const zoe_named_tensor tensors[] = {
        {"a \"quoted\" ünicode", zoe_tensor_1d(u, ZOE_U8, 3)},
        {"f", zoe_tensor_3d(f, ZOE_F32, 1, 2, 3)},
        {"b", zoe_tensor_1d(b, ZOE_BF16, 2)},
        {"i", zoe_tensor_of(i, ZOE_I64, 0, NULL)},
        {"none", zoe_tensor_2d(f, ZOE_F32, 0, 3)},
    };
    const char *const meta[][2] = {{"made by", "a test"}};
    const char *path = case_path(c, "written.safetensors");
    assert_int_equal(zoe_safetensors_write(c->ctx, path, tensors, 5, meta, 1), ZOE_OK);
    zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 5);
    for (size_t k = 0; k < 5; k++) {
        zoe_tensor t, w = tensors[k].tensor;
        assert_true(zoe_store_find(s, tensors[k].name, &t));
        assert_int_equal(t.dtype, w.dtype);
        assert_int_equal(t.rank, w.rank);
        assert_memory_equal(t.shape, w.shape, sizeof t.shape);
        assert_null(s->entries[k].copy); /* all were written aligned */
        const size_t bytes = zoe_tensor_count(w) * zoe_dtype_bytes(w.dtype);
        if (bytes)
            assert_memory_equal(t.data, w.data, bytes);
    }
    zoe_store_close(s);
}

static void refuses_to_write_nonsense(void **state)
{
    store_case *c = *state;
    float f[4] = {0};
    zoe_tensor transposed = zoe_tensor_2d(f, ZOE_F32, 2, 2);
    transposed.stride[0] = 1;
    transposed.stride[1] = 2;
    const zoe_named_tensor tensors[] = {{"t", transposed},
                                        {"x", zoe_tensor_1d(f, ZOE_F32, 4)},
                                        {"x", zoe_tensor_1d(f, ZOE_F32, 4)},
                                        {"__metadata__", zoe_tensor_1d(f, ZOE_F32, 4)},
                                        {"n", zoe_tensor_none()},
                                        {"\xff", zoe_tensor_1d(f, ZOE_F32, 4)}};
    static const size_t first[] = {0, 1, 3, 4, 5}, counts[] = {1, 2, 1, 1, 1};
    const char *path = case_path(c, "never");
    for (size_t i = 0; i < 5; i++) {
        zoe_context_clear(c->ctx);
        assert_int_equal(
            zoe_safetensors_write(c->ctx, path, tensors + first[i], counts[i], NULL, 0),
            ZOE_INVALID);
        assert_false(zoe_file_exists(path));
    }
}

static void config_values(void **state)
{
    store_case *c = *state;
    static const char text[] =
        "{\"dim\": 64, \"eps\": 1e-06, \"kind\": \"i2v\", \"half\": 2.5, \"minus\": -1}";
    zoe_config *config;
    size_t dim = 1, other = 5;
    double eps = 0.0;
    assert_int_equal(
        zoe_config_open(c->ctx, &config, case_write(c, "c.json", text, sizeof text - 1)), ZOE_OK);
    assert_int_equal(zoe_config_size(c->ctx, config, "dim", 1, 100, &dim), ZOE_OK);
    assert_int_equal(dim, 64);
    assert_int_equal(zoe_config_size(c->ctx, config, "absent", 1, 100, &other), ZOE_OK);
    assert_int_equal(other, 5);
    assert_int_equal(zoe_config_real(c->ctx, config, "eps", &eps), ZOE_OK);
    assert_true(eps == 1e-6);
    assert_int_equal(zoe_config_real(c->ctx, config, "dim", &eps), ZOE_OK);
    assert_true(eps == 64.0);
    assert_string_equal(zoe_config_text(config, "kind"), "i2v");
    assert_null(zoe_config_text(config, "dim"));
    static const char *const bad[] = {"dim", "half", "minus", "kind"};
    for (size_t i = 0; i < 4; i++) {
        zoe_context_clear(c->ctx);
        assert_int_equal(zoe_config_size(c->ctx, config, bad[i], 1, 63, &other), ZOE_FORMAT);
        assert_non_null(strstr(zoe_context_message(c->ctx), "from 1 to 63"));
    }
    assert_int_equal(zoe_config_real(c->ctx, config, "kind", &eps), ZOE_FORMAT);
    zoe_config_close(config);
    assert_int_equal(zoe_config_open(c->ctx, &config, case_write(c, "c.json", "[1]", 3)),
                     ZOE_FORMAT);
    assert_int_equal(zoe_config_open(c->ctx, &config, case_path(c, "absent")), ZOE_MISSING);
}

/* B34: more elements than 31 or 32 bits count, in a file without blocks. */
static void B34_more_than_32_bits(void **state)
{
    store_case *c = *state;
    const size_t n = ((size_t)1 << 32) + 64;
    char header[128];
    snprintf(header, sizeof header,
             "{\"x\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", n, n);
    const char *path = case_safetensors(c, "long.safetensors", header, 1);
    if (truncate(path, (off_t)(8 + strlen(header) + n)) != 0)
        skip(); /* this file system has no files of that size */
    zoe_store *s = case_open(c, path, ZOE_NAMES_AS_STORED);
    zoe_tensor t;
    assert_true(zoe_store_find(s, "x", &t));
    assert_int_equal(zoe_tensor_count(t), n);
    assert_int_equal(((const unsigned char *)t.data)[n - 1], 0);
    zoe_store_close(s);
}

static void without_memory(void **state)
{
    store_case *c = *state;
    char header[256];
    snprintf(header, sizeof header, "%s ", GOOD);
    case_without_memory(c, case_safetensors(c, "good", header, 19), ZOE_NAMES_WAN_DIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(misaligned_data_are_copied),
        cmocka_unit_test(scalars_and_empty_tensors),
        cmocka_unit_test(B19_truncated),
        cmocka_unit_test(B19_shrinks_while_mapped),
        cmocka_unit_test(another_file_takes_the_place),
        cmocka_unit_test(B20_trailing_bytes_holes_overlaps),
        cmocka_unit_test(refuses_bad_entries),
        cmocka_unit_test(refuses_bad_headers),
        cmocka_unit_test(tells_other_kinds_apart),
        cmocka_unit_test(a_length_that_looks_like_JSON),
        cmocka_unit_test(gets_what_is_wanted),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(refuses_to_write_nonsense),
        cmocka_unit_test(config_values),
        cmocka_unit_test(B34_more_than_32_bits),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
