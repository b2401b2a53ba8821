/* Times from sizes and speeds, against sums done by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/estimate.h"

static const zoe_pass_sizes sizes = {.tokens = 120,
                                     .dim = 8,
                                     .ffn_dim = 32,
                                     .heads = 4,
                                     .layers = 3,
                                     .in = 10,
                                     .out = 6,
                                     .keys = 5,
                                     .element = 4};

static void expect(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-9 * fabs(wanted) + 1e-15))
        fail_msg("%.12g, wanted %.12g", found, wanted);
}

static zoe_pass_time pass(size_t ulysses, size_t ring, bool stepwise, const zoe_speeds *s)
{
    const zoe_place place = {.ulysses = ulysses, .ring = ring, .stepwise = stepwise};
    return zoe_estimate_pass(&sizes, &place, s);
}

static void test_one_rank(void **state)
{
    (void)state;
    const zoe_speeds s = {1e3, 1e-3, 1e3, 1e3, 1e3, 1};
    const zoe_pass_time t = pass(1, 1, false, &s);
    const double elements = 3 * (6 * 64 + 2 * 8 * 32) + 8 * 16;
    expect(t.weights, elements * 1e-3);
    expect(t.products, elements * (1e-3 + 2 * 120 / 1e3));
    expect(t.attention, 3 * (4.0 * 120 * 120 * 8 + 4.0 * 120 * 5 * 8) / 1e3);
    expect(t.ulysses + t.ring + t.head + t.hidden, 0);
    expect(t.total, t.products + t.attention);
}

static void test_ulysses(void **state)
{
    (void)state;
    const zoe_speeds s = {1e3, 0, 1e3, 1e3, 1e4, 0.5};
    const zoe_pass_time t = pass(2, 1, false, &s);
    /* Half of the tokens; 2 of 4 heads with all of them. */
    expect(t.attention, 3 * (4.0 * 120 * 120 * 4 + 4.0 * 60 * 5 * 8) / 1e3);
    const double bytes = 3 * 60 * 2 * 2 * 4 + 60 * 2 * 2 * 4; /* q k v of two heads, o of two */
    expect(t.ulysses, 3 * (2 * 0.5 + bytes / 1e4));
    expect(t.head, 0.5 + 60 * 6 * 4 / 1e4);
}

/* A ring of two: one exchange, of 60 tokens, under attention to 60 keys. */
static void test_ring_overlaps(void **state)
{
    (void)state;
    const double local = 4.0 * 60 * 60 * 8 / 1e3, bytes = 60 * 2.0 * 8 * 4;
    const zoe_speeds fast = {1e3, 0, 1e3, 1e3, 10 * bytes / local, 0};
    const zoe_speeds slow = {1e3, 0, 1e3, 1e3, bytes / local / 3, 0};
    for (int stepwise = 0; stepwise < 2; stepwise++) {
        const zoe_pass_time f = pass(1, 2, stepwise, &fast), w = pass(1, 2, stepwise, &slow);
        expect(f.ring, 0);
        expect(f.hidden, 3 * local / 10);
        expect(w.ring, 3 * 2 * local);
        expect(w.hidden, 3 * local);
        expect(w.attention, 3 * (2 * local + 4.0 * 60 * 5 * 8 / 1e3));
    }
}

/* Of three, parts come one after the other: the second has both attentions before it to hide under. */
static void test_ring_of_three(void **state)
{
    (void)state;
    const double part = 4.0 * 40 * 40 * 8 / 1e3, bytes = 40 * 2.0 * 8 * 4;
    const zoe_speeds even = {1e3, 0, 1e3, 1e3, bytes / part, 0};
    const zoe_speeds half = {1e3, 0, 1e3, 1e3, bytes / part / 2, 0};
    expect(pass(1, 3, false, &even).ring, 0);
    expect(pass(1, 3, true, &even).ring, 0);
    expect(pass(1, 3, false, &half).ring, 3 * (part + part)); /* 4 at the end, instead of 2 */
    expect(pass(1, 3, true, &half).ring, 3 * 2 * part);
}

static void test_others(void **state)
{
    (void)state;
    const zoe_speeds s = {1e3, 1e-3, 1e3, 1e3, 1e3, 0.25};
    expect(zoe_estimate_exchange(&s, 4, 500), 1.5);
    expect(zoe_estimate_broadcast(&s, 1, 500), 0);
    expect(zoe_estimate_broadcast(&s, 2, 500), 0.75);
    expect(zoe_estimate_broadcast(&s, 5, 500), 3 * 0.75);
    expect(zoe_estimate_products(&s, 0, 1000), 0);
    expect(zoe_estimate_products(&s, 10, 1000), 1 + 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),      cmocka_unit_test(test_ulysses),
        cmocka_unit_test(test_ring_overlaps), cmocka_unit_test(test_ring_of_three),
        cmocka_unit_test(test_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
