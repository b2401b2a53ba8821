/* NaN and inf in weights: found wherever they are, in every type, and nowhere else. */
#include "store_case.h"

typedef struct seen {
    size_t calls, tensor, nans, infs;
    size_t bytes, total; /* of the last report of progress */
    bool back;           /* progress went backwards */
} seen;

static void note_tensor(void *user, size_t tensor, size_t nans, size_t infs)
{
    seen *s = user;
    s->calls++;
    s->tensor = tensor;
    s->nans = nans;
    s->infs = infs;
}

static void note_progress(void *user, size_t bytes, size_t total)
{
    seen *s = user;
    s->back |= bytes < s->bytes;
    s->bytes = bytes;
    s->total = total;
}

typedef struct bits {
    zoe_dtype dtype;
    const char *name;                       /* in safetensors */
    uint64_t largest, inf, nan, lowest_nan; /* inf 0: there is none */
} bits;

static const bits types[] = {
    {ZOE_F32, "F32", 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x7f800001},
    {ZOE_F16, "F16", 0x7bff, 0x7c00, 0x7e00, 0x7c01},
    {ZOE_BF16, "BF16", 0x7f7f, 0x7f80, 0x7fc0, 0x7f81},
    {ZOE_F64, "F64", 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000,
     0x7ff0000000000001},
    {ZOE_F8_E4M3, "F8_E4M3", 0x7e, 0, 0x7f, 0x7f},
    {ZOE_F8_E5M2, "F8_E5M2", 0x7b, 0x7c, 0x7f, 0x7d},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* Three elements, then `count` of the type. */
typedef struct made {
    unsigned char *bytes, *data;
    size_t size, element;
} made;

static made make(const bits *type, size_t count)
{
    char header[256];
    made m = {.element = zoe_dtype_bytes(type->dtype)};
    const size_t n = count * m.element;
    const size_t length =
        (size_t)snprintf(header, sizeof header,
                         "{\"a\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]},"
                         "\"w\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[16,%zu]}}",
                         type->name, count, 16 + n);
    m.size = 8 + length + 16 + n;
    m.bytes = calloc(1, m.size);
    assert_non_null(m.bytes);
    m.bytes[0] = (unsigned char)length;
    memcpy(m.bytes + 8, header, length);
    memset(m.bytes + 8 + length, 0xff, 16); /* integers cannot be NaN */
    m.data = m.bytes + 8 + length + 16;
    return m;
}

static void put(const made *m, size_t i, uint64_t pattern, bool negative)
{
    if (negative)
        pattern |= (uint64_t)1 << (8 * m->element - 1);
    for (size_t b = 0; b < m->element; b++)
        m->data[i * m->element + b] = (unsigned char)(pattern >> 8 * b);
}

static zoe_status verify(store_case *c, const made *m, seen *s, zoe_context *ctx)
{
    zoe_store *store =
        case_open(c, case_write(c, "v.safetensors", m->bytes, m->size), ZOE_NAMES_AS_STORED);
    *s = (seen){0};
    zoe_context_clear(ctx);
    const zoe_status status = zoe_store_verify(ctx, store, note_tensor, note_progress, s);
    assert_int_equal(s->bytes, zoe_store_bytes(store));
    assert_int_equal(s->total, zoe_store_bytes(store));
    assert_false(s->back);
    zoe_store_close(store);
    return status;
}

/* Places in whole blocks, at their borders and in the rest behind the last. */
static void B22_found_in_every_type_and_place(void **state)
{
    store_case *c = *state;
    enum { COUNT = 2 * 1024 + 5 };
    static const size_t places[] = {0, 1, 511, 1023, 1024, 2047, 2048, COUNT - 1};
    seen s;
    for (size_t t = 0; t < TYPES; t++) {
        made m = make(&types[t], COUNT);
        for (size_t i = 0; i < COUNT; i++)
            put(&m, i, types[t].largest, i % 2);
        assert_int_equal(verify(c, &m, &s, c->ctx), ZOE_OK);
        assert_int_equal(s.calls, 0);
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++)
            for (int kind = 0; kind < 6; kind++) {
                const bool inf = kind >= 4;
                if (inf && types[t].inf == 0)
                    continue;
                put(&m, places[p],
                    inf        ? types[t].inf
                    : kind < 2 ? types[t].nan
                               : types[t].lowest_nan,
                    kind % 2);
                assert_int_equal(verify(c, &m, &s, c->ctx), ZOE_NONFINITE);
                assert_int_equal(s.calls, 1);
                assert_int_equal(s.tensor, 1);
                assert_int_equal(s.nans, inf ? 0 : 1);
                assert_int_equal(s.infs, inf ? 1 : 0);
                put(&m, places[p], types[t].largest, false);
            }
        free(m.bytes);
    }
}

/* Larger than a piece of work: the counts of all pieces come together. */
static void counts_over_pieces(void **state)
{
    store_case *c = *state;
    enum { COUNT = 2 * (1 << 20) + 100 };
    made m = make(&types[4], COUNT);
    for (size_t i = 0; i < COUNT; i += 100000)
        put(&m, i, 0x7f, i % 200000);
    seen s;
    for (int threads = 1; threads < 8; threads += 3) {
        zoe_context *ctx = zoe_context_new(threads);
        assert_int_equal(verify(c, &m, &s, ctx), ZOE_NONFINITE);
        assert_int_equal(s.calls, 1);
        assert_int_equal(s.nans, 21);
        zoe_context_free(ctx);
    }
    free(m.bytes);
}

static void names_the_first_and_counts(void **state)
{
    store_case *c = *state;
    zoe_store *store = case_open(c,
                                 case_safetensors(c, "f.safetensors",
                                                  "{\"one\":{\"dtype\":\"F8_E4M3\",\"shape\":[128],"
                                                  "\"data_offsets\":[0,128]},"
                                                  "\"two\":{\"dtype\":\"F8_E5M2\",\"shape\":[2,64],"
                                                  "\"data_offsets\":[128,256]},"
                                                  "\"six\":{\"dtype\":\"BF16\",\"shape\":[0],"
                                                  "\"data_offsets\":[256,256]}}",
                                                  256),
                                 ZOE_NAMES_AS_STORED);
    seen s = {0};
    assert_int_equal(zoe_store_verify(c->ctx, store, note_tensor, NULL, &s), ZOE_NONFINITE);
    assert_int_equal(s.calls, 2);
    const char *message = zoe_context_message(c->ctx);
    assert_non_null(strstr(message, "f.safetensors: tensor one"));
    assert_non_null(strstr(message, "1 NaN and 0 inf"));
    assert_non_null(strstr(message, "1 other tensor "));
    assert_int_equal(zoe_store_verify(c->ctx, store, NULL, NULL, NULL), ZOE_NONFINITE);
    zoe_store_close(store);
}

static void ends_when_cancelled_or_shrunk(void **state)
{
    store_case *c = *state;
    made m = make(&types[0], 3000);
    const char *path = case_write(c, "s.safetensors", m.bytes, m.size);
    free(m.bytes);
    zoe_store *store = case_open(c, path, ZOE_NAMES_AS_STORED);
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(zoe_store_verify(c->ctx, store, NULL, NULL, NULL), ZOE_FORMAT);
    zoe_context_clear(c->ctx);
    zoe_cancel(c->ctx);
    assert_int_equal(zoe_store_verify(c->ctx, store, NULL, NULL, NULL), ZOE_CANCELLED);
    zoe_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(B22_found_in_every_type_and_place, case_setup,
                                        case_teardown),
        cmocka_unit_test_setup_teardown(counts_over_pieces, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(names_the_first_and_counts, case_setup, case_teardown),
        cmocka_unit_test_setup_teardown(ends_when_cancelled_or_shrunk, case_setup, case_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
