/* .pth files: ones that torch.save made, ones with one thing wrong, and every cut and every flipped
 * byte of a real one. */
#include "store_case.h"

static const char *data_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/store/%s", ZOE_TEST_DATA, name);
    return path;
}

/* ---- real files ---- */

static zoe_tensor get(const zoe_store *s, const char *name, zoe_dtype dtype, int rank)
{
    zoe_tensor t;
    if (!zoe_store_find(s, name, &t))
        fail_msg("%s is not there", name);
    assert_int_equal(t.dtype, dtype);
    assert_int_equal(t.rank, rank);
    assert_true(zoe_tensor_dense(t));
    assert_int_equal((uintptr_t)t.data % zoe_dtype_bytes(dtype), 0);
    return t;
}

static void reads_what_torch_saved(void **state)
{
    store_case *c = *state;
    zoe_store *s = case_open(c, data_path("state.pth"), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 11);
    zoe_tensor t = get(s, "base", ZOE_F32, 2);
    for (int i = 0; i < 12; i++)
        assert_true(((const float *)t.data)[i] == (float)i);
    const zoe_tensor row = get(s, "row", ZOE_F32, 1); /* a view of base */
    assert_true((const float *)row.data == (const float *)t.data + 4);
    t = get(s, "transposed", ZOE_F32, 2);
    assert_int_equal(t.shape[0], 4);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            assert_true(((const float *)t.data)[3 * i + j] == (float)(4 * j + i));
    t = get(s, "half", ZOE_F16, 1);
    assert_true(zoe_load_f32(t.data, t.dtype, 2) == 65504.0f);
    t = get(s, "brain", ZOE_BF16, 2);
    assert_true(zoe_load_f32(t.data, t.dtype, 1) == -3.0f);
    t = get(s, "scalar", ZOE_I64, 0);
    assert_int_equal(*(const int64_t *)t.data, 7);
    t = get(s, "flags", ZOE_BOOL, 1);
    assert_int_equal(((const uint8_t *)t.data)[2], 1);
    t = get(s, "parameter", ZOE_F32, 1);
    assert_true(*(const float *)t.data == 2.5f);
    assert_int_equal(zoe_tensor_count(get(s, "empty", ZOE_F32, 2)), 0);
    get(s, "weight", ZOE_F32, 2);
    zoe_store_close(s);
}

static void descends_into_a_wrapper(void **state)
{
    store_case *c = *state;
    zoe_store *s = case_open(c, data_path("wrapped.pth"), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 1);
    assert_true(((const float *)get(s, "a", ZOE_F32, 1).data)[1] == 2.0f);
    zoe_store_close(s);
}

static void refuses_other_kinds_of_pth(void **state)
{
    store_case *c = *state;
    REFUSED(c, data_path("evil.pth"), ZOE_UNSUPPORTED, "evil.pth", "posix.system", "not executed");
    REFUSED(c, data_path("legacy.pth"), ZOE_UNSUPPORTED, "before PyTorch 1.6");
    REFUSED(c, data_path("script.pth"), ZOE_UNSUPPORTED, "TorchScript");
    REFUSED(c, data_path("rank6.pth"), ZOE_UNSUPPORTED, "tensor a", "6 dimensions");
    REFUSED(c, data_path("expanded.pth"), ZOE_FORMAT, "tensor a", "more than it holds");
}

static void B19_truncated(void **state)
{
    store_case *c = *state;
    size_t n;
    unsigned char *bytes = case_read(data_path("state.pth"), &n);
    const size_t cuts[] = {0, 3, 4, 8, n / 4, n / 2, n - 22, n - 1};
    char found[32];
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        snprintf(found, sizeof found, "has %zu bytes", cuts[i]);
        REFUSED(c, case_write(c, "cut.pth", bytes, cuts[i]), ZOE_FORMAT, "cut.pth", found,
                "cut short");
    }
    for (size_t cut = 0; cut < n; cut++) {
        zoe_store *s;
        zoe_context_clear(c->ctx);
        assert_int_equal(zoe_store_open_memory(c->ctx, &s, bytes, cut, "cut", ZOE_NAMES_AS_STORED),
                         ZOE_FORMAT);
        assert_non_null(strstr(zoe_context_message(c->ctx), "cut short"));
    }
    free(bytes);
}

static void B20_trailing_bytes(void **state)
{
    store_case *c = *state;
    size_t n;
    unsigned char *bytes = case_read(data_path("state.pth"), &n);
    bytes[n] = 0;
    REFUSED(c, case_write(c, "more.pth", bytes, n + 1), ZOE_FORMAT, "more.pth", "something behind");
    /* and in front: every offset is off by one */
    memmove(bytes + 1, bytes, n);
    memcpy(bytes, "PK\3\4", 4);
    REFUSED(c, case_write(c, "front.pth", bytes, n + 1), ZOE_FORMAT, "front.pth");
    free(bytes);
}

/* No flip may crash; most are refused, those inside numbers of the data are not seen. */
static void survives_every_flipped_byte(void **state)
{
    store_case *c = *state;
    size_t n, refused = 0;
    unsigned char *bytes = case_read(data_path("state.pth"), &n);
    for (size_t i = 0; i < n; i++)
        for (unsigned flip = 1; flip < 256; flip = flip * 2 + (flip == 8)) {
            zoe_store *s;
            unsigned char *copy =
                malloc(n); /* exactly as long: an address sanitizer sees any reading beyond */
            assert_non_null(copy);
            memcpy(copy, bytes, n);
            copy[i] ^= (unsigned char)flip;
            zoe_context_clear(c->ctx);
            const zoe_status status =
                zoe_store_open_memory(c->ctx, &s, copy, n, "flipped", ZOE_NAMES_AS_STORED);
            refused += status != ZOE_OK;
            for (size_t k = 0; s && k < zoe_store_count(s); k++) {
                const zoe_tensor t = zoe_store_tensor(s, k);
                const size_t size = zoe_tensor_count(t) * zoe_dtype_bytes(t.dtype);
                unsigned char sum = 0;
                for (size_t j = 0; j < size; j++)
                    sum ^= ((const unsigned char *)t.data)[j];
                assert_in_range(sum, 0, 255);
            }
            zoe_store_close(s);
            free(copy);
        }
    assert_in_range(refused, n, 9 * n);
    free(bytes);
}

static void without_memory(void **state)
{
    case_without_memory(*state, data_path("state.pth"), ZOE_NAMES_UMT5);
}

/* ---- made files ---- */

typedef struct zip {
    unsigned char bytes[8192], directory[2048];
    size_t n, directory_n, entries;
    bool wide; /* ZIP64: sizes and offsets of entries in extra fields, an end record of 64-bit
                  values */
} zip;

static void number(unsigned char *p, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static void zip_add(zip *z, const char *name, const void *data, size_t n, unsigned method)
{
    unsigned char *local = z->bytes + z->n, *entry = z->directory + z->directory_n;
    const size_t length = strlen(name), head = z->n, extra = z->wide ? 4 + 24 : 0;
    assert_in_range(z->n + 30 + length + 7 + n, 0, sizeof z->bytes);
    assert_in_range(z->directory_n + 46 + length + extra, 0, sizeof z->directory);
    memset(local, 0, 37 + length);
    memcpy(local, "PK\3\4", 4);
    number(local + 26, length, 2);
    number(local + 28, 7,
           2); /* an extra field that the directory does not have: odd addresses, too */
    memcpy(local + 30, name, length);
    if (n)
        memcpy(local + 37 + length, data, n);
    z->n += 37 + length + n;
    memset(entry, 0, 46);
    memcpy(entry, "PK\1\2", 4);
    number(entry + 10, method, 2);
    number(entry + 20, z->wide ? UINT32_MAX : n, 4);
    number(entry + 24, z->wide ? UINT32_MAX : n, 4);
    number(entry + 28, length, 2);
    number(entry + 30, extra, 2);
    number(entry + 42, z->wide ? UINT32_MAX : head, 4);
    memcpy(entry + 46, name, length);
    if (z->wide) {
        unsigned char *p = entry + 46 + length;
        number(p, 1, 2);
        number(p + 2, 24, 2);
        number(p + 4, n, 8);
        number(p + 12, n, 8);
        number(p + 20, head, 8);
    }
    z->directory_n += 46 + length + extra;
    z->entries++;
}

static const char *zip_write(const store_case *c, zip *z)
{
    const size_t begin = z->n;
    unsigned char end[98] = {0};
    memcpy(z->bytes + begin, z->directory, z->directory_n);
    z->n += z->directory_n;
    if (z->wide) {
        memcpy(end, "PK\6\6", 4);
        number(end + 4, 44, 8);
        number(end + 24, z->entries, 8);
        number(end + 32, z->entries, 8);
        number(end + 40, z->directory_n, 8);
        number(end + 48, begin, 8);
        memcpy(end + 56, "PK\6\7", 4);
        number(end + 64, z->n, 8);
        number(end + 72, 1, 4);
    }
    memcpy(end + 76, "PK\5\6", 4);
    number(end + 84, z->wide ? UINT16_MAX : z->entries, 2);
    number(end + 86, z->wide ? UINT16_MAX : z->entries, 2);
    number(end + 88, z->wide ? UINT32_MAX : z->directory_n, 4);
    number(end + 92, z->wide ? UINT32_MAX : begin, 4);
    const size_t skip = z->wide ? 0 : 76;
    memcpy(z->bytes + z->n, end + skip, sizeof end - skip);
    z->n += sizeof end - skip;
    return case_write(c, "made.pth", z->bytes, z->n);
}

/* Pieces of pickle. */
#define TEXT1(t) "X\1\0\0\0" t
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"
#define PID(class, numel)                                                                          \
    "(X\7\0\0\0storagectorch\n" class "\n" TEXT1("0") "X\3\0\0\0cpu" numel "tQ"
#define TENSOR(offset, size, stride)                                                               \
    REBUILD "(" PID("FloatStorage", "K\2") offset size stride "\x89}tR"
#define STATE(tensor) "\x80\2}" TEXT1("a") tensor "s."
#define GOOD_TENSOR TENSOR("K\0", "K\2\x85", "K\1\x85")

static const float two[2] = {1.5f, -2.5f};

static const char *make(const store_case *c, const char *pickle, size_t n, bool wide)
{
    zip z = {.wide = wide};
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    zip_add(&z, "any/data/0", two, sizeof two, 0);
    return zip_write(c, &z);
}

static void reads_made_files(void **state)
{
    store_case *c = *state;
    for (int wide = 0; wide < 2; wide++) {
        zoe_store *s =
            case_open(c, make(c, STATE(GOOD_TENSOR), sizeof STATE(GOOD_TENSOR) - 1, wide),
                      ZOE_NAMES_AS_STORED);
        assert_int_equal(zoe_store_count(s), 1);
        const zoe_tensor t = get(s, "a", ZOE_F32, 1);
        assert_memory_equal(t.data, two, sizeof two);
        zoe_store_close(s);
    }
}

#define ROW(pickle, status, word)                                                                  \
    {                                                                                              \
        pickle, sizeof pickle - 1, status, word                                                    \
    }

static void refuses_bad_pickles(void **state)
{
    static const struct {
        const char *pickle;
        size_t n;
        zoe_status status;
        const char *word;
    } rows[] = {
        ROW("", ZOE_FORMAT, "ends inside"),
        ROW("\x80\2", ZOE_FORMAT, "ends inside"),
        ROW("\x80\4}.", ZOE_UNSUPPORTED, "protocol"),
        ROW("\x80\2.", ZOE_FORMAT, "stack is empty"),
        ROW("\x80\2}}.", ZOE_FORMAT, "more than one value"),
        ROW("\x80\2}.", ZOE_UNSUPPORTED, "no state dict"),
        ROW("\x80\2K\1.", ZOE_UNSUPPORTED, "no state dict"),
        ROW("\x80\2\x94.", ZOE_UNSUPPORTED, "operation 0x94"),
        ROW("\x80\2(.", ZOE_FORMAT, "stack is empty"),
        ROW("\x80\2t.", ZOE_FORMAT, "no mark"),
        ROW("\x80\2\x85.", ZOE_FORMAT, "stack is empty"),
        ROW("\x80\2(K\1\x86.", ZOE_FORMAT, "stack is empty"),
        ROW("\x80\2K\1(s.", ZOE_FORMAT, "stack is empty"),
        ROW("\x80\2K\1K\1K\1s.", ZOE_FORMAT, "no dict"),
        ROW("\x80\2}K\1a.", ZOE_FORMAT, "no list"),
        ROW("\x80\2}(K\1u.", ZOE_FORMAT, "no value"),
        ROW("\x80\2(K\1u.", ZOE_FORMAT, "no dict"),
        ROW("\x80\2h\1.", ZOE_FORMAT, "memorised"),
        ROW("\x80\2}r\xff\xff\xff\xff.", ZOE_FORMAT, "memo index"),
        ROW("\x80\2q\1.", ZOE_FORMAT, "stack is empty"),
        ROW("\x80\2X\xff\xff\xff\xff"
            "a.",
            ZOE_FORMAT, "ends inside"),
        ROW("\x80\2\x8a\x09"
            "123456789.",
            ZOE_UNSUPPORTED, "64 bits"),
        ROW("\x80\2}cos\nsystem\n", ZOE_UNSUPPORTED, "os.system"),
        ROW("\x80\2cnumpy.core.multiarray\nscalar\n", ZOE_UNSUPPORTED,
            "numpy.core.multiarray.scalar"),
        ROW("\x80\2ctorch\nFloatStorage", ZOE_FORMAT, "class name"),
        ROW("\x80\2ctorch\nFloatStorage\n)R.", ZOE_UNSUPPORTED, "storage class"),
        ROW("\x80\2K\1)R.", ZOE_UNSUPPORTED, "no class"),
        ROW("\x80\2" REBUILD ")R.", ZOE_FORMAT, "without storage"),
        ROW("\x80\2K\1K\2b.", ZOE_UNSUPPORTED, "attributes"),
        ROW("\x80\2K\1Q.", ZOE_UNSUPPORTED, "no storage"),
        ROW("\x80\2(X\7\0\0\0storageK\1K\1K\1K\1tQ.", ZOE_UNSUPPORTED, "no storage"),
        ROW(STATE(REBUILD "(" PID("FloatStorage", "J\xff\xff\xff\xff")), ZOE_UNSUPPORTED,
            "no storage"),
        ROW(STATE(REBUILD "(" PID("FloatStorage", "K\3") "K\0K\2\x85K\1\x85tR"), ZOE_FORMAT,
            "3 f32 elements has 8"),
        ROW(STATE(REBUILD "(" PID("DoubleStorage", "K\2") "K\0K\2\x85K\1\x85tR"), ZOE_FORMAT,
            "2 f64 elements"),
        ROW(STATE(REBUILD
                  "(" PID("FloatStorage", "\x8a\x8\0\0\0\0\0\0\0\x40") "K\0K\2\x85K\1\x85tR"),
            ZOE_FORMAT, "elements has 8"),
        ROW(STATE(TENSOR("K\1", "K\2\x85", "K\1\x85")), ZOE_FORMAT, "beyond its storage of 2"),
        ROW(STATE(TENSOR("K\2", ")", ")")), ZOE_FORMAT, "beyond its storage"),
        ROW(STATE(TENSOR("K\0", "K\2\x85", "K\2\x85")), ZOE_FORMAT, "beyond its storage"),
        ROW(STATE(TENSOR("K\0", "K\2\x85", "\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f\x85")),
            ZOE_FORMAT, "beyond"),
        ROW(STATE(TENSOR("\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f", "K\2\x85", "K\1\x85")),
            ZOE_FORMAT, "beyond"),
        ROW(STATE(TENSOR("J\xff\xff\xff\xff", "K\2\x85", "K\1\x85")), ZOE_FORMAT, "make no tensor"),
        ROW(STATE(TENSOR("K\1", "K\2\x85", "J\xff\xff\xff\xff\x85")), ZOE_FORMAT, "make no tensor"),
        ROW(STATE(TENSOR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85")), ZOE_FORMAT, "make no tensor"),
        ROW(STATE(TENSOR("K\0", "K\2\x85", ")")), ZOE_FORMAT, "make no tensor"),
        ROW(STATE(TENSOR("K\0", "\x8a\x8\0\0\0\0\0\0\0\x40\x85", "K\0\x85")), ZOE_FORMAT,
            "make no tensor"),
        ROW(STATE(TENSOR("K\0", "\x8a\x8\0\0\0\0\1\0\0\0\x85", "K\0\x85")), ZOE_FORMAT,
            "more than it holds"),
        ROW(STATE(TENSOR("K\0", "N\x85", "K\0\x85")), ZOE_FORMAT, "without storage"),
        ROW("\x80\2}K\1" GOOD_TENSOR "s.", ZOE_FORMAT, "no text"),
        ROW("\x80\2}" TEXT1("\0") GOOD_TENSOR "s.", ZOE_FORMAT, "no text"),
        ROW("\x80\2}" TEXT1("a") GOOD_TENSOR "s" TEXT1("a") GOOD_TENSOR "s.", ZOE_FORMAT,
            "given twice"),
    };
    store_case *c = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REFUSED(c, make(c, rows[i].pickle, rows[i].n, false), rows[i].status, "made.pth",
                rows[i].word);
}

/* A list that holds itself, and itself under the wrapper's key. */
static void knots_come_undone(void **state)
{
    static const char knot[] = "\x80\2}q\0X\5\0\0\0modelh\0s" TEXT1("l") "]q\1h\1as.";
    store_case *c = *state;
    REFUSED(c, make(c, knot, sizeof knot - 1, false), ZOE_UNSUPPORTED, "no state dict");
}

static void other_values_are_left_out(void **state)
{
    static const char pickle[] =
        "\x80\2}" TEXT1("n") "NsX\2\0\0\0xxG01234567s" TEXT1("a") GOOD_TENSOR "s.";
    store_case *c = *state;
    zoe_store *s = case_open(c, make(c, pickle, sizeof pickle - 1, false), ZOE_NAMES_AS_STORED);
    assert_int_equal(zoe_store_count(s), 1);
    assert_non_null(strstr(c->warning, "2 items of the state dict are no tensors"));
    zoe_store_close(s);
}

static void refuses_bad_zips(void **state)
{
    static const char pickle[] = STATE(GOOD_TENSOR);
    const size_t n = sizeof pickle - 1;
    store_case *c = *state;
    zip z = {0};
    zip_add(&z, "any/data.pkl", pickle, n, 8);
    REFUSED(c, zip_write(c, &z), ZOE_UNSUPPORTED, "data.pkl is compressed");

    z = (zip){0};
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    REFUSED(c, zip_write(c, &z), ZOE_FORMAT, "tensor a", "data/0 is not in the zip");

    z = (zip){0};
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    zip_add(&z, "any/data/0", two, sizeof two, 8);
    REFUSED(c, zip_write(c, &z), ZOE_UNSUPPORTED, "tensor a", "compressed");

    z = (zip){0};
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    zip_add(&z, "any/data/0", two, sizeof two, 0);
    zip_add(&z, "any/data/0", two, sizeof two, 0);
    REFUSED(c, zip_write(c, &z), ZOE_FORMAT, "any/data/0", "twice");

    z = (zip){0};
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    zip_add(&z, "other/data.pkl", pickle, n, 0);
    REFUSED(c, zip_write(c, &z), ZOE_FORMAT, "more than one data.pkl");

    z = (zip){0};
    zip_add(&z, "a/b.txt", pickle, n, 0);
    REFUSED(c, zip_write(c, &z), ZOE_UNSUPPORTED, "without data.pkl");

    z = (zip){0};
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    zip_add(&z, "any/byteorder", "big", 3, 0);
    REFUSED(c, zip_write(c, &z), ZOE_UNSUPPORTED, "byte order");

    z = (zip){0}; /* both directory entries name the first local header */
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    memcpy(z.directory + z.directory_n, z.directory, z.directory_n);
    z.directory_n *= 2;
    z.entries = 2;
    REFUSED(c, zip_write(c, &z), ZOE_FORMAT, "share byte 0");

    z = (zip){0};
    zip_add(&z, "any/data.pkl", pickle, n, 0);
    z.entries = 0;
    REFUSED(c, zip_write(c, &z), ZOE_FORMAT, "behind its 0 entries");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_torch_saved),
        cmocka_unit_test(descends_into_a_wrapper),
        cmocka_unit_test(refuses_other_kinds_of_pth),
        cmocka_unit_test(B19_truncated),
        cmocka_unit_test(B20_trailing_bytes),
        cmocka_unit_test(survives_every_flipped_byte),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(reads_made_files),
        cmocka_unit_test(refuses_bad_pickles),
        cmocka_unit_test(knots_come_undone),
        cmocka_unit_test(other_values_are_left_out),
        cmocka_unit_test(refuses_bad_zips),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
