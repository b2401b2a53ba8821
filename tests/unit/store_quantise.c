/* zoe_quantise: what comes back is near what went in, exact where it can be, and the layout is the
 * format's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/block.h"
#include "store/quantise.h"

static uint32_t state = 1;

static float uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) * 0x1p-23f - 1.0f;
}

/* Nearly normal. */
static float normal(void)
{
    float sum = 0.0f;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return 0.5f * sum;
}

static double relative_error(zoe_dtype dtype, const float *x, size_t n)
{
    unsigned char blocks[16384];
    float y[4096];
    double error = 0.0, power = 0.0;
    assert_true(zoe_run_bytes(dtype, n) <= sizeof blocks && n <= 4096);
    zoe_quantise(blocks, dtype, x, n);
    zoe_widen(y, blocks, dtype, n);
    for (size_t i = 0; i < n; i++) {
        error += ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
        power += (double)x[i] * (double)x[i];
    }
    return power > 0.0 ? sqrt(error / power) : sqrt(error);
}

/* Errors of normal values, a little above what was measured; a slip in a layout gives near 1. */
static void errors_are_those_of_the_type(void **unused)
{
    (void)unused;
    static const struct {
        zoe_dtype dtype;
        double most;
    } rows[] = {{ZOE_Q8_0, 0.0056}, {ZOE_Q5_1, 0.036}, {ZOE_Q5_0, 0.042},    {ZOE_Q4_1, 0.073},
                {ZOE_Q4_0, 0.084},  {ZOE_Q6_K, 0.019}, {ZOE_Q5_K, 0.038},    {ZOE_Q4_K, 0.075},
                {ZOE_Q3_K, 0.152},  {ZOE_Q2_K, 0.282}, {ZOE_F8_E4M3, 0.036}, {ZOE_F16, 0.00023},
                {ZOE_BF16, 0.0018}, {ZOE_F32, 0.0}};
    float x[4096];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int scale = -4; scale <= 8; scale += 4) {
            for (size_t i = 0; i < 4096; i++)
                x[i] = ldexpf(normal(), scale) * 0.3f;
            const double error = relative_error(rows[r].dtype, x, 4096);
            if (!(error <= rows[r].most))
                fail_msg("%s: relative error %g, wanted at most %g", zoe_dtype_name(rows[r].dtype),
                         error, rows[r].most);
        }
}

static void values_of_the_type_stay(void **unused)
{
    (void)unused;
    static const struct {
        zoe_dtype dtype;
        int levels; /* all there are, in every group; both ends count */
    } rows[] = {{ZOE_Q4_0, 16}, {ZOE_Q4_1, 16}, {ZOE_Q5_0, 32}, {ZOE_Q5_1, 32}, {ZOE_Q2_K, 4},
                {ZOE_Q3_K, 8},  {ZOE_Q4_K, 16}, {ZOE_Q5_K, 32}, {ZOE_Q6_K, 16}};
    float x[256];
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int i = 0; i < 256; i++)
            x[i] = (float)(i % rows[r].levels - rows[r].levels / 2) * 0.25f;
        const double error = relative_error(rows[r].dtype, x, 256);
        if (!(error < 1e-3)) /* scales are rounded to f16 */
            fail_msg("%s: relative error %g", zoe_dtype_name(rows[r].dtype), error);
    }
    memset(x, 0, sizeof x);
    for (zoe_dtype dtype = ZOE_Q4_0; dtype < ZOE_DTYPES; dtype++)
        assert_true(relative_error(dtype, x, 256) == 0.0);
    for (size_t i = 0; i < 256; i++)
        x[i] = -3.0f;
    for (zoe_dtype dtype = ZOE_Q4_0; dtype < ZOE_DTYPES; dtype++)
        if (!(relative_error(dtype, x, 256) < 5e-3))
            fail_msg("%s: %g", zoe_dtype_name(dtype), relative_error(dtype, x, 256));
    /* one large value among small ones, and values so small that scales vanish */
    for (size_t i = 0; i < 256; i++)
        x[i] = i == 77 ? 60000.0f : 1e-6f * uniform();
    for (zoe_dtype dtype = ZOE_Q4_0; dtype < ZOE_DTYPES; dtype++)
        assert_true(relative_error(dtype, x, 256) < 0.04);
    for (size_t i = 0; i < 256; i++)
        x[i] = 1e-30f * uniform();
    for (zoe_dtype dtype = ZOE_Q4_0; dtype < ZOE_DTYPES; dtype++)
        assert_true(relative_error(dtype, x, 256) <= 1.001);
}

/* Every e4m3 value, every midpoint between two, and a little to each side of it. */
static void e4m3_rounds_to_nearest_even(void **unused)
{
    (void)unused;
    for (unsigned b = 0; b < 0x7e; b++)
        for (unsigned sign = 0; sign < 2; sign++) {
            const uint8_t low = (uint8_t)(b | sign << 7), high = (uint8_t)(low + 1);
            const float x = zoe_load_f32(&low, ZOE_F8_E4M3, 0),
                        y = zoe_load_f32(&high, ZOE_F8_E4M3, 0), middle = 0.5f * (x + y);
            const float values[] = {x, middle, nextafterf(middle, x), nextafterf(middle, y), y};
            const uint8_t wanted[] = {low, b % 2 ? high : low, low, high, high};
            uint8_t got[5];
            zoe_quantise(got, ZOE_F8_E4M3, values, 5);
            assert_memory_equal(got, wanted, 5);
        }
    uint8_t got[2];
    zoe_quantise(got, ZOE_F8_E4M3, (const float[]){1e9f, -449.0f}, 2);
    assert_memory_equal(got, "\x7e\xfe", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_those_of_the_type),
        cmocka_unit_test(values_of_the_type_stay),
        cmocka_unit_test(e4m3_rounds_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
