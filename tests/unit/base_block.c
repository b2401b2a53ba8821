/* Block-quantised types against values that the gguf package gave (tests/data/blocks); another
 * folder of such files may be named as argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/block.h"

static const char *folder = ZOE_TEST_DATA "/blocks";

static const zoe_dtype types[] = {ZOE_Q4_0, ZOE_Q4_1, ZOE_Q5_0, ZOE_Q5_1, ZOE_Q8_0,
                                  ZOE_Q2_K, ZOE_Q3_K, ZOE_Q4_K, ZOE_Q5_K, ZOE_Q6_K};
enum { TYPES = sizeof types / sizeof *types };

typedef struct golden {
    zoe_dtype dtype;
    size_t blocks, count;
    unsigned char *bytes;
    float *values;
} golden;

static golden golden_open(zoe_dtype dtype)
{
    golden g = {.dtype = dtype};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, zoe_dtype_name(dtype));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    const size_t size = (size_t)ftell(f);
    const size_t each = zoe_block_bytes(dtype) + 4 * zoe_block_elements(dtype);
    assert_true(size > 0 && size % each == 0);
    g.blocks = size / each;
    g.count = g.blocks * zoe_block_elements(dtype);
    g.bytes = malloc(zoe_run_bytes(dtype, g.count));
    g.values = malloc(g.count * sizeof *g.values);
    assert_true(g.bytes && g.values);
    rewind(f);
    assert_int_equal(fread(g.bytes, zoe_block_bytes(dtype), g.blocks, f), g.blocks);
    assert_int_equal(fread(g.values, sizeof *g.values, g.count, f), g.count);
    fclose(f);
    return g;
}

static void golden_close(golden g)
{
    free(g.bytes);
    free(g.values);
}

static void assert_same(zoe_dtype dtype, size_t i, float got, float want)
{
    if (zoe_bits_of_f32(got) != zoe_bits_of_f32(want) && !(isnan(got) && isnan(want)))
        fail_msg("%s: element %zu is %.9g, wanted %.9g", zoe_dtype_name(dtype), i, (double)got,
                 (double)want);
}

static void values_are_those_of_the_package(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        const golden g = golden_open(types[t]);
        size_t odd = 0;
        float *got = malloc(g.count * sizeof *got);
        assert_non_null(got);
        zoe_block_widen(got, g.bytes, g.dtype, g.blocks);
        for (size_t i = 0; i < g.count; i++) {
            assert_same(g.dtype, i, got[i], g.values[i]);
            odd += isfinite(got[i]) ? 0 : 1;
        }
        assert_in_range(odd, 1, g.count - 1); /* the data have both kinds */
        free(got);
        golden_close(g);
    }
}

/* Any run of elements, whatever blocks it begins and ends in. */
static void parts_are_parts_of_the_whole(void **state)
{
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        const golden g = golden_open(types[t]);
        const zoe_tensor tensor = zoe_tensor_1d(g.bytes, g.dtype, g.count);
        float got[700];
        for (size_t first = 0; first < g.count && first < 1280; first += 1 + first % 61)
            for (size_t n = 0; n <= g.count - first && n < 700; n += 1 + n % 83) {
                got[n] = 4711.0f;
                zoe_tensor_widen(got, tensor, first, n);
                assert_true(got[n] == 4711.0f); /* nothing is written behind */
                for (size_t i = 0; i < n; i++)
                    assert_same(g.dtype, first + i, got[i], g.values[first + i]);
            }
        for (size_t n = 0; n < g.count && n < 700; n += 31) {
            zoe_widen(got, g.bytes, g.dtype, n);
            for (size_t i = 0; i < n; i++)
                assert_same(g.dtype, i, got[i], g.values[i]);
            assert_same(g.dtype, n, zoe_load_f32(g.bytes, g.dtype, n), g.values[n]);
        }
        golden_close(g);
    }
}

static void sizes_are_those_of_the_format(void **state)
{
    (void)state;
    static const struct {
        zoe_dtype dtype;
        const char *name;
        size_t elements, bytes;
    } rows[] = {
        {ZOE_Q4_0, "q4_0", 32, 18},   {ZOE_Q4_1, "q4_1", 32, 20},   {ZOE_Q5_0, "q5_0", 32, 22},
        {ZOE_Q5_1, "q5_1", 32, 24},   {ZOE_Q8_0, "q8_0", 32, 34},   {ZOE_Q2_K, "q2_k", 256, 84},
        {ZOE_Q3_K, "q3_k", 256, 110}, {ZOE_Q4_K, "q4_k", 256, 144}, {ZOE_Q5_K, "q5_k", 256, 176},
        {ZOE_Q6_K, "q6_k", 256, 210}, {ZOE_F32, "f32", 1, 4},       {ZOE_F8_E4M3, "f8_e4m3", 1, 1},
        {ZOE_NONE, "none", 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const zoe_dtype dtype = rows[i].dtype;
        assert_string_equal(zoe_dtype_name(dtype), rows[i].name);
        assert_int_equal(zoe_block_elements(dtype), rows[i].elements);
        assert_int_equal(zoe_block_bytes(dtype), rows[i].bytes);
        assert_int_equal(zoe_run_bytes(dtype, 4 * rows[i].elements), 4 * rows[i].bytes);
        assert_int_equal(zoe_dtype_bytes(dtype), rows[i].elements > 1 ? 0 : rows[i].bytes);
        assert_true(zoe_dtype_is_float(dtype) == (dtype != ZOE_NONE));
    }
    assert_int_equal(zoe_tensor_bytes(zoe_tensor_2d(NULL, ZOE_Q6_K, 3, 512)), 3 * 2 * 210);
    assert_int_equal(zoe_tensor_bytes(zoe_tensor_none()), 0);
}

/* A factor for the whole, for each row, and for squares that the sides cut. */
static void factors_follow_their_steps(void **state)
{
    (void)state;
    enum { ROWS = 5, COLUMNS = 7 };
    float x[ROWS * COLUMNS], got[ROWS * COLUMNS];
    static const float factors[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    const zoe_scaling scalings[] = {
        {factors, SIZE_MAX, SIZE_MAX, 1}, {factors, 1, SIZE_MAX, 1}, {factors, 2, 2, 4}};
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)i - 9.0f;
    for (size_t s = 0; s < 3; s++) {
        /* trailing axes count as columns */
        zoe_tensor t = zoe_tensor_4d(x, ZOE_F32, ROWS, 1, COLUMNS, 1);
        t.scaling = &scalings[s];
        for (size_t first = 0; first < ROWS * COLUMNS; first++) {
            const size_t n = ROWS * COLUMNS - first;
            zoe_tensor_widen(got, t, first, n);
            for (size_t i = 0; i < n; i++) {
                const size_t r = (first + i) / COLUMNS, c = (first + i) % COLUMNS;
                const float factor = factors[s == 0 ? 0 : s == 1 ? r : r / 2 * 4 + c / 2];
                assert_true(got[i] == x[first + i] * factor);
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_package),
        cmocka_unit_test(parts_are_parts_of_the_whole),
        cmocka_unit_test(sizes_are_those_of_the_format),
        cmocka_unit_test(factors_follow_their_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
