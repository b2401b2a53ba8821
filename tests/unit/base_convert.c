/* Element types, over every value of the small ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

/* A small float by its definition: sign, exponent of `e` bits, mantissa of `m` bits, highest
 * exponent for inf and NaN. */
static double by_definition(unsigned bits, int e, int m)
{
    const int exponent = (int)(bits >> m) & ((1 << e) - 1), bias = (1 << (e - 1)) - 1;
    const double fraction = ldexp((double)(bits & ((1u << m) - 1)), -m);
    double magnitude;
    if (exponent == (1 << e) - 1)
        magnitude = fraction > 0.0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, 1 - bias);
    else
        magnitude = ldexp(1.0 + fraction, exponent - bias);
    return bits >> (e + m) & 1 ? -magnitude : magnitude;
}

static bool same(float got, double want)
{
    if (isnan(want))
        return isnan(got);
    return (double)got == want && !signbit(got) == !signbit(want);
}

static void f16_widens_and_returns(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        const float f = zoe_f32_of_f16((uint16_t)h);
        assert_true(same(f, by_definition(h, 5, 10)));
        const uint16_t back = zoe_f16_of_f32(f);
        if (isnan(f))
            assert_true((back & 0x7fff) > 0x7c00 && (back & 0x8000) == (h & 0x8000));
        else
            assert_int_equal(back, h);
    }
}

static void bf16_widens_and_returns(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        const float f = zoe_f32_of_bf16((uint16_t)h);
        assert_true(same(f, by_definition(h, 8, 7)));
        const uint16_t back = zoe_bf16_of_f32(f);
        if (isnan(f))
            assert_true((back & 0x7fff) > 0x7f80 && (back & 0x8000) == (h & 0x8000));
        else
            assert_int_equal(back, h);
        assert_true(same(zoe_bf16_round(f), (double)f));
    }
}

/* Between any two neighbours: the middle goes to the even one, anything beside it to the nearer
 * one. The value after the largest finite one counts as if the exponent went on, as IEEE 754 wants
 * for overflow. */
static void rounds_to_nearest_even(uint16_t (*narrow)(float), int e, int m)
{
    const unsigned infinity = ((1u << e) - 1) << m;
    for (unsigned h = 0; h < infinity; h++) {
        const double low = by_definition(h, e, m);
        const double high =
            h + 1 == infinity ? ldexp(2.0, (1 << (e - 1)) - 1) : by_definition(h + 1, e, m);
        const double middle = 0.5 * (low + high);
        if (middle > (double)0x1.fffffep127f || middle < 0x1p-149)
            continue; /* no f32 */
        const float f = (float)middle;
        assert_true((double)f == middle);
        for (unsigned sign = 0; sign < 2; sign++) {
            const float s = sign ? -1.0f : 1.0f;
            const unsigned bit = sign << (e + m);
            assert_int_equal(narrow(s * f), bit | (h + (h & 1)));
            assert_int_equal(narrow(s * nextafterf(f, 0.0f)), bit | h);
            assert_int_equal(narrow(s * nextafterf(f, INFINITY)), bit | (h + 1));
        }
    }
}

static uint16_t bf16_of_f32(float f)
{
    return zoe_bf16_of_f32(f);
}

static void narrowing_rounds_to_nearest_even(void **state)
{
    (void)state;
    rounds_to_nearest_even(zoe_f16_of_f32, 5, 10);
    rounds_to_nearest_even(bf16_of_f32, 8, 7);
}

static void known_values(void **state)
{
    (void)state;
    assert_true(zoe_bf16_round(1.00390625f) == 1.0f);
    assert_true(zoe_bf16_round(1.01171875f) == 1.015625f);
    assert_true(zoe_bf16_round(1.005859375f) == 1.0078125f);
    assert_int_equal(zoe_bf16_of_f32(0x1.fffffep127f), 0x7f80);
    assert_int_equal(zoe_bf16_of_f32(-INFINITY), 0xff80);
    assert_true(zoe_f32_of_f16(0x2e66) == 0.0999755859375f);
    assert_true(zoe_f32_of_f16(0x2a66) == 0.04998779296875f);
    assert_true(zoe_f32_of_f16(0x7bff) == 65504.0f);
    assert_int_equal(zoe_f16_of_f32(65519.996f), 0x7bff);
    assert_int_equal(zoe_f16_of_f32(65520.0f), 0x7c00);
    assert_int_equal(zoe_f16_of_f32(1e30f), 0x7c00);
    assert_int_equal(zoe_f16_of_f32(-0x1p-25f), 0x8000);
    assert_int_equal(zoe_f16_of_f32(0x1.000002p-25f), 0x0001);
    assert_int_equal(zoe_f16_of_f32(zoe_f32_from_bits(0x7f800001)), 0x7e00);
}

static float load8(unsigned bits, zoe_dtype dtype)
{
    const uint8_t b = (uint8_t)bits;
    return zoe_load_f32(&b, dtype, 0);
}

static void f8_widens(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 256; b++) {
        assert_true(same(load8(b, ZOE_F8_E5M2), by_definition(b, 5, 2)));
        /* The "fn" kind has no infinity: the top exponent holds ordinary numbers, but for all ones.
         */
        const unsigned magnitude = b & 0x7f;
        double want = magnitude == 0x7f      ? (double)NAN
                      : magnitude >> 3 == 15 ? ldexp(1.0 + (double)(b & 7) / 8.0, 8)
                                             : by_definition(magnitude, 4, 3);
        if (b & 0x80)
            want = -want;
        assert_true(same(load8(b, ZOE_F8_E4M3), want));
    }
    assert_true(load8(0x01, ZOE_F8_E4M3) == 0.001953125f);
    assert_true(load8(0x07, ZOE_F8_E4M3) == 0.013671875f);
    assert_true(load8(0x08, ZOE_F8_E4M3) == 0.015625f);
    assert_true(load8(0x38, ZOE_F8_E4M3) == 1.0f);
    assert_true(load8(0x40, ZOE_F8_E4M3) == 2.0f);
    assert_true(load8(0xfe, ZOE_F8_E4M3) == -448.0f);
    assert_true(load8(0x01, ZOE_F8_E5M2) == 1.52587890625e-05f);
    assert_true(load8(0x3c, ZOE_F8_E5M2) == 1.0f);
    assert_true(load8(0x7b, ZOE_F8_E5M2) == 57344.0f);
    assert_true(isinf(load8(0x7c, ZOE_F8_E5M2)));
}

static void runs_agree_with_single_elements(void **state)
{
    (void)state;
    enum { N = 37 };
    float values[N], back[N];
    for (size_t i = 0; i < N; i++)
        values[i] = (i & 1 ? -1.0f : 1.0f) * ldexpf(1.0f + 0.071f * (float)i, (int)i - 18);
    const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16};
    for (size_t t = 0; t < 3; t++) {
        unsigned char run[4 * N], single[4 * N];
        const size_t bytes = N * zoe_dtype_bytes(types[t]);
        zoe_narrow(run, types[t], values, N);
        for (size_t i = 0; i < N; i++)
            zoe_store_f32(single, types[t], i, values[i]);
        assert_memory_equal(run, single, bytes);
        zoe_widen(back, run, types[t], N);
        for (size_t i = 0; i < N; i++)
            assert_true(back[i] == zoe_load_f32(run, types[t], i));
        if (types[t] == ZOE_F32)
            assert_memory_equal(back, values, sizeof values);
    }
    double d[2];
    zoe_store_f32(d, ZOE_F64, 1, 0.1f);
    assert_true(d[1] == (double)0.1f);
    d[0] = 0.1;
    zoe_widen(back, d, ZOE_F64, 2);
    assert_true(back[0] == 0.1f && back[1] == 0.1f);
    assert_true(isnan(zoe_load_f32(d, ZOE_I64, 0)));
}

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    const struct {
        zoe_dtype dtype;
        const char *name;
        size_t bytes;
        bool is_float;
    } rows[] = {{ZOE_NONE, "none", 0, false},      {ZOE_F32, "f32", 4, true},
                {ZOE_F16, "f16", 2, true},         {ZOE_BF16, "bf16", 2, true},
                {ZOE_F64, "f64", 8, true},         {ZOE_F8_E4M3, "f8_e4m3", 1, true},
                {ZOE_F8_E5M2, "f8_e5m2", 1, true}, {ZOE_I64, "i64", 8, false},
                {ZOE_I32, "i32", 4, false},        {ZOE_I16, "i16", 2, false},
                {ZOE_I8, "i8", 1, false},          {ZOE_U8, "u8", 1, false},
                {ZOE_BOOL, "bool", 1, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(zoe_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(zoe_dtype_bytes(rows[i].dtype), rows[i].bytes);
        assert_int_equal(zoe_dtype_is_float(rows[i].dtype), rows[i].is_float);
    }
}

static void tensors_know_their_layout(void **state)
{
    (void)state;
    float data[24];
    char text[64], cut[8];
    zoe_tensor t = zoe_tensor_3d(data, ZOE_F32, 2, 3, 4);
    assert_int_equal(zoe_tensor_count(t), 24);
    assert_int_equal(t.stride[0], 12);
    assert_int_equal(t.stride[2], 1);
    assert_true(zoe_tensor_dense(t));
    assert_string_equal(zoe_tensor_describe(text, sizeof text, t), "f32 [2, 3, 4]");
    assert_string_equal(zoe_tensor_describe(cut, sizeof cut, t), "f32 [2,");
    t.stride[1] = 5;
    assert_false(zoe_tensor_dense(t));
    t.shape[1] = 1;
    assert_false(zoe_tensor_dense(t)); /* rows lie 12 apart, 4 would be dense */
    assert_int_equal(zoe_tensor_count(zoe_tensor_none()), 0);
    assert_int_equal(zoe_tensor_count(zoe_tensor_of(data, ZOE_F32, 0, NULL)), 1);
    assert_string_equal(
        zoe_tensor_describe(text, sizeof text, zoe_tensor_of(data, ZOE_BF16, 0, NULL)), "bf16 []");
    assert_int_equal(zoe_tensor_count(zoe_tensor_2d(data, ZOE_F32, 0, 5)), 0);
    for (t.rank = -1; t.rank <= ZOE_MAX_RANK + 1; t.rank += ZOE_MAX_RANK + 2) {
        assert_int_equal(zoe_tensor_count(t), 0);
        assert_false(zoe_tensor_dense(t));
        zoe_tensor_describe(text, sizeof text, t);
        assert_non_null(strstr(text, "of rank"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_widens_and_returns),
        cmocka_unit_test(bf16_widens_and_returns),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(known_values),
        cmocka_unit_test(f8_widens),
        cmocka_unit_test(runs_agree_with_single_elements),
        cmocka_unit_test(types_have_names_and_sizes),
        cmocka_unit_test(tensors_know_their_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
