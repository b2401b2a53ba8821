/* Sharded checkpoints and folders. */
#include "store_case.h"

#include <sys/stat.h>

#define TENSOR(name, from, to)                                                                     \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" #from "," #to "]}"

static const char *make_folder(store_case *c, const char *name)
{
    const char *path = case_path(c, name);
    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

static const char *write_text(store_case *c, const char *name, const char *text)
{
    return case_write(c, name, text, strlen(text));
}

/* Two shards: a, b in the first, c in the second, with an index and a config. */
static void make_sharded(store_case *c, const char *name)
{
    char path[128];
    make_folder(c, name);
    snprintf(path, sizeof path, "%s/m-00001-of-00002.safetensors", name);
    case_safetensors(c, path, "{" TENSOR("a", 0, 1) "," TENSOR("b", 1, 2) "}", 2);
    snprintf(path, sizeof path, "%s/m-00002-of-00002.safetensors", name);
    case_safetensors(c, path, "{" TENSOR("c", 0, 1) "}", 1);
    snprintf(path, sizeof path, "%s/m.safetensors.index.json", name);
    write_text(
        c, path,
        "{\"metadata\":{\"total_size\":3},\"weight_map\":{\"a\":\"m-00001-of-00002.safetensors\","
        "\"b\":\"m-00001-of-00002.safetensors\",\"c\":\"m-00002-of-00002.safetensors\"}}");
    snprintf(path, sizeof path, "%s/config.json", name);
    write_text(c, path, "{}");
}

static void reads_all_shards(void **state)
{
    store_case *c = *state;
    make_sharded(c, "whole");
    for (int i = 0; i < 3; i++) {
        static const char *const paths[] = {"whole", "whole/", "whole/m.safetensors.index.json"};
        zoe_store *s = case_open(c, case_path(c, paths[i]), ZOE_NAMES_AS_STORED);
        assert_int_equal(zoe_store_count(s), 3);
        assert_string_equal(zoe_path_name(zoe_store_file(s, 0)), "m-00001-of-00002.safetensors");
        assert_string_equal(zoe_path_name(zoe_store_file(s, 2)), "m-00002-of-00002.safetensors");
        assert_string_equal(zoe_store_path(s), case_path(c, paths[i]));
        assert_int_equal(zoe_store_check(c->ctx, s), ZOE_OK);
        zoe_store_close(s);
    }
    assert_string_equal(c->warning, "");
    case_without_memory(c, case_path(c, "whole"), ZOE_NAMES_AS_STORED);
}

static void a_missing_shard(void **state)
{
    store_case *c = *state;
    make_sharded(c, "gap");
    assert_int_equal(unlink(case_path(c, "gap/m-00001-of-00002.safetensors")), 0);
    REFUSED(c, case_path(c, "gap"), ZOE_MISSING,
            "gap/m.safetensors.index.json names m-00001-of-00002.safetensors, which is not there. "
            "2 of 3 tensors would "
            "be missing.");
    assert_int_equal(unlink(case_path(c, "gap/m-00002-of-00002.safetensors")), 0);
    REFUSED(c, case_path(c, "gap"), ZOE_MISSING, "nor is 1 other. 3 of 3");
}

static void index_and_shards_disagree(void **state)
{
    store_case *c = *state;
    make_sharded(c, "odd");
    case_safetensors(c, "odd/m-00002-of-00002.safetensors",
                     "{" TENSOR("c", 0, 1) "," TENSOR("d", 1, 2) "}", 2);
    zoe_store *s = case_open(c, case_path(c, "odd"), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 3);
    assert_non_null(strstr(c->warning, "1 tensors of m-00002-of-00002.safetensors are not listed"));
    zoe_store_close(s);
    /* a tensor that a second shard repeats comes from where the index has it */
    case_safetensors(c, "odd/m-00002-of-00002.safetensors",
                     "{" TENSOR("b", 0, 1) "," TENSOR("c", 1, 2) "}", 2);
    s = case_open(c, case_path(c, "odd"), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 3);
    assert_string_equal(zoe_path_name(zoe_store_file(s, 1)), "m-00001-of-00002.safetensors");
    zoe_store_close(s);
    case_safetensors(c, "odd/m-00002-of-00002.safetensors", "{" TENSOR("d", 0, 1) "}", 1);
    REFUSED(c, case_path(c, "odd"), ZOE_MISSING, "puts tensor c into m-00002-of-00002.safetensors",
            "1 of 3");
}

static void B19_truncated_shard(void **state)
{
    store_case *c = *state;
    make_sharded(c, "cut");
    assert_int_equal(truncate(case_path(c, "cut/m-00002-of-00002.safetensors"), 20), 0);
    REFUSED(c, case_path(c, "cut"), ZOE_FORMAT, "cut/m-00002-of-00002.safetensors: has 20 bytes",
            "cut short");
}

static void refuses_bad_indexes(void **state)
{
    static const struct {
        const char *text, *word;
    } rows[] = {
        {"{}", "weight_map"},
        {"{\"weight_map\":{}}", "weight_map"},
        {"{\"weight_map\":[]}", "weight_map"},
        {"{\"weight_map\":{\"a\":1}}", "no file name"},
        {"{\"weight_map\":{\"a\":\"\"}}", "no file name"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "no file name"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "no file name"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "no file name"},
        {"{\"weight_map\":{\"a\":\"x\",\"a\":\"y\"}}", "duplicate"},
        {"{\"weight_map\":{\"a\":\"x\"}", "JSON"},
    };
    store_case *c = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REFUSED(c, write_text(c, "bad.index.json", rows[i].text), ZOE_FORMAT, "bad.index.json",
                rows[i].word);
}

static void which_file_of_a_folder(void **state)
{
    store_case *c = *state;
    make_folder(c, "empty");
    write_text(c, "empty/config.json", "{}");
    REFUSED(c, case_path(c, "empty"), ZOE_MISSING, "holds no .safetensors");
    case_safetensors(c, "empty/one.safetensors", "{}", 0);
    case_safetensors(c, "empty/.hidden.safetensors", "{}", 0);
    write_text(c, "empty/other.pth", "");
    zoe_store_close(case_open(c, case_path(c, "empty"), ZOE_NAMES_AS_STORED));
    case_safetensors(c, "empty/two.safetensors", "{}", 0);
    REFUSED(c, case_path(c, "empty"), ZOE_FORMAT, "one.safetensors, two.safetensors");
    /* an index wins over files that it does not name */
    write_text(c, "empty/m.safetensors.index.json", "{\"weight_map\":{\"a\":\"two.safetensors\"}}");
    case_safetensors(c, "empty/two.safetensors", "{" TENSOR("a", 0, 1) "}", 1);
    zoe_store *s = case_open(c, case_path(c, "empty"), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 1);
    zoe_store_close(s);
    write_text(c, "empty/n.safetensors.index.json", "{}");
    REFUSED(c, case_path(c, "empty"), ZOE_FORMAT, "2 files", "m.safetensors.index.json");
}

static void odd_paths(void **state)
{
    store_case *c = *state;
    make_sharded(c, "模型 猫 'a' \"b\" -c");
    zoe_store *s = case_open(c, case_path(c, "模型 猫 'a' \"b\" -c"), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 3);
    zoe_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_shards),
        cmocka_unit_test(a_missing_shard),
        cmocka_unit_test(index_and_shards_disagree),
        cmocka_unit_test(B19_truncated_shard),
        cmocka_unit_test(refuses_bad_indexes),
        cmocka_unit_test(which_file_of_a_folder),
        cmocka_unit_test(odd_paths),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
