/* The gauge against numbers made by hand: a network of one block, two tokens and two features, whose
 * modulated input, residual and velocity are given for each pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sample/gauge.h"

enum { TOKENS = 2, WIDTH = 2, N = TOKENS * WIDTH, BLOCKS = 3, LATENT = 3 };

static zoe_cache_shape shape(void)
{
    return (zoe_cache_shape){
        .steps = 12, .tokens = TOKENS, .width = WIDTH, .blocks = BLOCKS, .latent = LATENT};
}

typedef struct play {
    float scale, shift; /* of all features */
    float residual[N];  /* that all blocks add together */
    float embedding;    /* of all features; the projection is twice that */
    float velocity[LATENT];
} play;

/* The input is (1, -1) for each token, so that its norm is the same, but for eps. */
static zoe_cache_change pass(zoe_context *ctx, zoe_gauge *g, size_t step, zoe_expert expert,
                             size_t branch, const play *p)
{
    float hidden[N] = {1, -1, 1, -1}, e[WIDTH], e0[6 * WIDTH], shift[WIDTH], scale[WIDTH];
    zoe_cache_change change;
    for (size_t i = 0; i < 6 * WIDTH; i++) {
        e[i % WIDTH] = p->embedding;
        e0[i] = 2.0f * p->embedding;
        shift[i % WIDTH] = p->shift;
        scale[i % WIDTH] = p->scale;
    }
    zoe_cache_point point = {
        .hidden = hidden, .embedding = e, .projection = e0, .shift = shift, .scale = scale};
    zoe_gauge_begin(g, step, expert, branch);
    for (; point.block <= BLOCKS; point.block++) {
        assert_int_equal(zoe_gauge_at(ctx, g, &point), ZOE_OK);
        for (size_t i = 0; i < N && point.block == 1; i++)
            hidden[i] += p->residual[i];
    }
    assert_int_equal(zoe_gauge_end(ctx, g, p->velocity, &change), ZOE_OK);
    return change;
}

static void near(double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-6 * fabs(wanted)))
        fail_msg("%.9g, wanted %.9g", found, wanted);
}

static void no_l1(const zoe_cache_change *c)
{
    assert_true(isnan(c->modulated) && isnan(c->embedding) && isnan(c->projection) &&
                isnan(c->residual) && isnan(c->output));
}

/* LN gives (1, -1); modulated a: (2, -2), b: (3 + 1, -3 + 1) = (4, -2). */
static const play a = {
    .scale = 1, .residual = {3, 4, 1, 0}, .embedding = 2, .velocity = {1, -2, 3}};
static const play b = {
    .scale = 2, .shift = 1, .residual = {6, 8, 0, 2}, .embedding = 3, .velocity = {1, -2, 4.5f}};

static void changes_are_those_made_by_hand(void **state)
{
    zoe_gauge *g;
    const zoe_cache_shape s = shape();
    assert_int_equal(zoe_gauge_new(*state, &g, &s), ZOE_OK);
    zoe_cache_change c = pass(*state, g, 0, ZOE_HIGH_NOISE, 0, &a);
    no_l1(&c);
    assert_true(isnan(c.magnitude));
    c = pass(*state, g, 1, ZOE_HIGH_NOISE, 0, &b);
    near(c.modulated, 2.0 / 4.0); /* (2 + 0) of a token's (2 + 2) */
    near(c.embedding, 0.5);
    near(c.projection, 0.5);
    near(c.residual, (3.0 + 4.0 + 1.0 + 2.0) / 8.0);
    near(c.output, 1.5 / 6.0);
    near(c.magnitude, (10.0 / 5.0 + 2.0 / 1.0) / 2.0);
    c = pass(*state, g, 2, ZOE_HIGH_NOISE, 0, &a);
    near(c.modulated, 2.0 / 6.0);
    near(c.output, 1.5 / 7.5);
    near(c.magnitude, 0.5);
    c = pass(*state, g, 3, ZOE_HIGH_NOISE, 0, &a);
    assert_true(c.modulated == 0.0 && c.residual == 0.0 && c.output == 0.0);
    near(c.magnitude, 1.0);
    zoe_gauge_free(g);
}

static void branches_are_apart(void **state)
{
    zoe_gauge *g;
    const zoe_cache_shape s = shape();
    assert_int_equal(zoe_gauge_new(*state, &g, &s), ZOE_OK);
    pass(*state, g, 0, ZOE_HIGH_NOISE, 0, &a);
    zoe_cache_change c = pass(*state, g, 0, ZOE_HIGH_NOISE, 1, &b);
    no_l1(&c);
    c = pass(*state, g, 1, ZOE_HIGH_NOISE, 0, &b);
    near(c.residual, 10.0 / 8.0);
    c = pass(*state, g, 1, ZOE_HIGH_NOISE, 1, &a);
    near(c.residual, 10.0 / 16.0);
    near(c.magnitude, 0.5);
    zoe_gauge_free(g);
}

/* Over the switch only magnitudes go on; after a step without the branch, nothing does. */
static void experts_and_gaps_divide(void **state)
{
    zoe_gauge *g;
    const zoe_cache_shape s = shape();
    assert_int_equal(zoe_gauge_new(*state, &g, &s), ZOE_OK);
    pass(*state, g, 0, ZOE_HIGH_NOISE, 1, &a);
    zoe_cache_change c = pass(*state, g, 1, ZOE_LOW_NOISE, 1, &b);
    no_l1(&c);
    near(c.magnitude, 2.0);
    c = pass(*state, g, 2, ZOE_LOW_NOISE, 1, &a);
    near(c.magnitude, 0.5);
    near(c.output, 0.2);
    c = pass(*state, g, 4, ZOE_LOW_NOISE, 1, &b);
    no_l1(&c);
    assert_true(isnan(c.magnitude));
    zoe_gauge_free(g);
}

/* A token that was 0 has no ratio; if all were, there is none. */
static void zero_is_no_magnitude(void **state)
{
    zoe_gauge *g;
    const zoe_cache_shape s = shape();
    play half = a, none = a;
    half.residual[2] = half.residual[3] = 0;
    memset(none.residual, 0, sizeof none.residual);
    assert_int_equal(zoe_gauge_new(*state, &g, &s), ZOE_OK);
    pass(*state, g, 0, ZOE_HIGH_NOISE, 0, &half);
    zoe_cache_change c = pass(*state, g, 1, ZOE_HIGH_NOISE, 0, &b);
    near(c.magnitude, 2.0);
    pass(*state, g, 2, ZOE_HIGH_NOISE, 0, &none);
    c = pass(*state, g, 3, ZOE_HIGH_NOISE, 0, &a);
    assert_true(isnan(c.magnitude));
    assert_true(!isfinite(c.residual));
    zoe_gauge_free(g);
}

/* Many tokens, in pieces: the same bits for any number of threads, and near a plain sum. */
static void threads_do_not_matter(void **state)
{
    enum { MANY = 3001, WIDE = 96 };
    const zoe_cache_shape s = {
        .steps = 12, .tokens = MANY, .width = WIDE, .blocks = 1, .latent = 5};
    float *hidden = malloc((size_t)MANY * WIDE * sizeof *hidden), e[6 * WIDE] = {0.5f};
    zoe_cache_change first = {0};
    double sum = 0.0;
    assert_non_null(hidden);
    (void)state;
    for (size_t t = 0; t < MANY; t++) {
        double now = 0.0, before = 0.0;
        for (size_t i = t * WIDE; i < (t + 1) * WIDE; i++) {
            now += pow((double)(i % 17) + 2.0, 2.0);
            before += pow((double)(i % 17) + 1.0, 2.0);
        }
        sum += sqrt(now / before);
    }
    for (int threads = 1; threads <= 3; threads++) {
        zoe_context *ctx = zoe_context_new(threads);
        zoe_gauge *g;
        zoe_cache_change c;
        assert_int_equal(zoe_gauge_new(ctx, &g, &s), ZOE_OK);
        for (size_t step = 0; step < 2; step++) {
            for (size_t i = 0; i < (size_t)MANY * WIDE; i++)
                hidden[i] = (float)((i * 7 + step) % 23);
            zoe_cache_point p = {.hidden = hidden,
                                 .embedding = e,
                                 .projection = e,
                                 .shift = e,
                                 .scale = e,
                                 .eps = 1e-6f};
            zoe_gauge_begin(g, step, ZOE_HIGH_NOISE, 0);
            assert_int_equal(zoe_gauge_at(ctx, g, &p), ZOE_OK);
            for (size_t i = 0; i < (size_t)MANY * WIDE; i++)
                hidden[i] += (float)(i % 17 + 1 + step);
            p.block = 1;
            assert_int_equal(zoe_gauge_at(ctx, g, &p), ZOE_OK);
            assert_int_equal(zoe_gauge_end(ctx, g, e, &c), ZOE_OK);
        }
        near(c.magnitude, sum / MANY);
        if (threads == 1)
            first = c;
        assert_memory_equal(&c, &first, sizeof c);
        zoe_gauge_free(g);
        zoe_context_free(ctx);
    }
    free(hidden);
}

static void mistakes_are_told(void **state)
{
    zoe_gauge *g;
    zoe_cache_shape s = shape();
    float hidden[N] = {0}, velocity[LATENT] = {0};
    zoe_cache_change c;
    const zoe_cache_point bare = {.hidden = hidden};
    assert_int_equal(zoe_gauge_new(*state, &g, &s), ZOE_OK);
    zoe_gauge_begin(g, 0, ZOE_HIGH_NOISE, 0);
    assert_int_equal(zoe_gauge_at(*state, g, &bare), ZOE_INVALID);
    assert_int_equal(zoe_gauge_end(*state, g, velocity, &c), ZOE_INTERNAL);
    zoe_gauge_free(g);
    s.tokens = SIZE_MAX / 4;
    assert_int_equal(zoe_gauge_bytes(&s), SIZE_MAX);
    assert_int_equal(zoe_gauge_new(*state, &g, &s), ZOE_INVALID);
    s = shape();
    zoe_alloc_fail_at(2);
    assert_int_equal(zoe_gauge_new(*state, &g, &s), ZOE_NOMEM);
    zoe_alloc_fail_at(0);
    assert_null(g);
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
        cmocka_unit_test(changes_are_those_made_by_hand), cmocka_unit_test(branches_are_apart),
        cmocka_unit_test(experts_and_gaps_divide),        cmocka_unit_test(zero_is_no_magnitude),
        cmocka_unit_test(threads_do_not_matter),          cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
