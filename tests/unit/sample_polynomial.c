/* Least squares: polynomials that are known come back, as near as f64 has them; points that tell none are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample/polynomial.h"

enum { POINTS = 60 };

static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

/* Values, not coefficients: those of a narrow range are only known together. */
static void known_polynomials_come_back(void **state)
{
    static const struct {
        double low, high;
        size_t terms;
        double coefficients[ZOE_POLYNOMIAL_TERMS];
    } rows[] = {
        {0.0, 1.0, 1, {3.0}},
        {0.0, 1.0, 2, {-2.0, 0.5}},
        {-1.0, 1.0, 5, {1.0, -2.0, 3.0, -4.0, 5.0}},
        {0.01, 0.4, 5, {733.226126, -401.131952, 67.5869174, -3.149879, 0.0961237896}},
        {0.001, 0.02, 5, {257151.496, -35422.9917, 1402.86849, -13.5890334, 0.132517977}},
        {0.2, 0.203, 5, {-302.33167, 223.948934, -52.546397, 5.8734844, -0.201973289}},
        {100.0, 200.0, 4, {1e-3, -0.2, 3.0, 7.0}},
        {0.0, 2.0, 8, {1.0, 0.0, -1.0, 2.0, 0.0, 0.5, -3.0, 1.0}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double x[POINTS], y[POINTS], found[ZOE_POLYNOMIAL_TERMS], largest = 0.0;
        uint64_t seed = r + 1;
        zoe_polynomial_fit fit;
        for (size_t i = 0; i < POINTS; i++) {
            x[i] = rows[r].low + (rows[r].high - rows[r].low) * noise(&seed);
            y[i] = zoe_polynomial_at(rows[r].coefficients, rows[r].terms, x[i]);
            largest = fmax(largest, fabs(y[i]));
        }
        assert_int_equal(
            zoe_polynomial_by_squares(*state, found, rows[r].terms, x, y, POINTS, "x", &fit),
            ZOE_OK);
        for (size_t i = 0; i < POINTS; i++)
            assert_true(fabs(zoe_polynomial_at(found, rows[r].terms, x[i]) - y[i]) <=
                        1e-6 * largest);
        assert_true(fit.rmse <= 1e-6 * largest);
        assert_true(rows[r].terms == 1 || fit.r2 > 0.999);
        assert_int_equal(fit.n, POINTS);
        assert_true(fit.low >= rows[r].low && fit.high <= rows[r].high && fit.low < fit.high);
    }
}

static void coefficients_of_a_wide_range_are_exact(void **state)
{
    static const double wanted[] = {1.0, -2.0, 3.0, -4.0, 5.0};
    double x[11], y[11], found[5];
    zoe_polynomial_fit fit;
    for (size_t i = 0; i < 11; i++) {
        x[i] = (double)i / 5.0 - 1.0;
        y[i] = zoe_polynomial_at(wanted, 5, x[i]);
    }
    assert_int_equal(zoe_polynomial_by_squares(*state, found, 5, x, y, 11, "x", &fit), ZOE_OK);
    for (size_t i = 0; i < 5; i++)
        assert_true(fabs(found[i] - wanted[i]) < 1e-12);
}

/* By hand: the line through (0, 0), (1, 1), (2, 1), (3, 2) is y = 0.6 x + 0.1, its squared errors sum up
 * to 0.2, those of the mean to 2. */
static void points_off_the_line_are_met_in_the_mean(void **state)
{
    const double x[] = {0, 1, 2, 3}, y[] = {0, 1, 1, 2};
    double found[2];
    zoe_polynomial_fit fit;
    assert_int_equal(zoe_polynomial_by_squares(*state, found, 2, x, y, 4, "x", &fit), ZOE_OK);
    assert_true(fabs(found[0] - 0.6) < 1e-14);
    assert_true(fabs(found[1] - 0.1) < 1e-14);
    assert_true(fabs(fit.rmse - sqrt(0.05)) < 1e-14);
    assert_true(fabs(fit.r2 - 0.9) < 1e-14);
    assert_true(fit.low == 0.0 && fit.high == 3.0);
}

/* No other coefficients near the solution have a smaller sum of squares. */
static void the_sum_of_squares_is_the_least(void **state)
{
    double x[POINTS], y[POINTS], found[5];
    uint64_t seed = 7;
    zoe_polynomial_fit fit;
    for (size_t i = 0; i < POINTS; i++) {
        x[i] = noise(&seed);
        y[i] = noise(&seed);
    }
    assert_int_equal(zoe_polynomial_by_squares(*state, found, 5, x, y, POINTS, "x", &fit), ZOE_OK);
    assert_true(fit.r2 > 0.0 && fit.r2 < 0.5);
    for (size_t k = 0; k < 5; k++) { /* the errors are orthogonal to every power */
        double product = 0.0;
        for (size_t i = 0; i < POINTS; i++)
            product += (zoe_polynomial_at(found, 5, x[i]) - y[i]) * pow(x[i], (double)k);
        assert_true(fabs(product) < 1e-10);
    }
}

static void refused(zoe_context *ctx, size_t terms, const double *x, const double *y, size_t n,
                    const char *text)
{
    double found[ZOE_POLYNOMIAL_TERMS];
    zoe_polynomial_fit fit;
    zoe_context_clear(ctx);
    assert_int_equal(zoe_polynomial_by_squares(ctx, found, terms, x, y, n, "the judge", &fit),
                     ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "the judge"));
    assert_non_null(strstr(zoe_context_message(ctx), text));
}

static void points_that_tell_nothing_are_refused(void **state)
{
    double x[20], y[20], flat[20], few[20], narrow[20], broken[20];
    for (size_t i = 0; i < 20; i++) {
        x[i] = 0.1 * (double)i;
        y[i] = x[i] * x[i];
        flat[i] = 0.3;
        few[i] = (double)(i % 4) + 1e-9 * (double)i;
        narrow[i] = 1.0 + 1e-4 * (double)i;
        broken[i] = i == 7 ? (double)NAN : x[i];
    }
    refused(*state, 5, x, y, 0, "only 0 different values");
    refused(*state, 5, x, y, 4, "only 4 different values");
    refused(*state, 5, flat, y, 20, "only 1 different values");
    refused(*state, 5, few, y, 20, "only 4 different values");
    refused(*state, 5, narrow, y, 20, "too nearly constant");
    refused(*state, 5, broken, y, 20, "not finite");
    refused(*state, 5, x, broken, 20, "point 8 of 20");
    refused(*state, 0, x, y, 20, "0 terms");
    refused(*state, ZOE_POLYNOMIAL_TERMS + 1, x, y, 20, "9 terms");
}

static int begin(void **state)
{
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static int end(void **state)
{
    zoe_context_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_polynomials_come_back),
        cmocka_unit_test(coefficients_of_a_wide_range_are_exact),
        cmocka_unit_test(points_off_the_line_are_met_in_the_mean),
        cmocka_unit_test(the_sum_of_squares_is_the_least),
        cmocka_unit_test(points_that_tell_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
