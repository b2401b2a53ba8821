/* A made-up network, and a run of it with a step cache; for the tests of step caches. */
#ifndef SAMPLE_CACHE_CASE_H
#define SAMPLE_CACHE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sample/cache.h"

enum { STEPS = 24, HIGH = 9, TOKENS = 6, WIDTH = 8, BLOCKS = 5 };

/* A network: block k adds residual(...) to the hidden state, which starts as latent(...) and is the
 * velocity. Judges and residuals drift from step to step and jump from expert to expert. */
typedef struct net {
    size_t first_token, tokens, width; /* the share of this rank */
    size_t bump_step, bump_branch;     /* there the residual of block 0 is .. */
    float bump;                        /* .. this */
    int flat; /* 1: residuals depend on expert and branch alone; 2: but for those of block 0 */
    bool alone[STEPS]; /* steps without guidance */
    bool one_branch;   /* of two ranks, each with its own branch */
    size_t branch;
} net;

static inline net usual(void)
{
    return (net){.tokens = TOKENS, .width = WIDTH, .bump_step = SIZE_MAX};
}

static inline zoe_expert expert_of(size_t step)
{
    return step < HIGH ? ZOE_HIGH_NOISE : ZOE_LOW_NOISE;
}

/* Multiples of 1/1024, so that sums are exact in any order. */
static inline float grid(double x)
{
    return (float)(floor(x * 1024.0) / 1024.0);
}

static inline float latent_value(size_t step, size_t token, size_t i)
{
    return grid(cos(0.3 * (double)i + (double)token + 0.03 * (double)step));
}

static inline float residual(const net *w, size_t block, size_t step, size_t branch, size_t token,
                             size_t i)
{
    const double expert = expert_of(step) == ZOE_HIGH_NOISE ? 3.0 : 1.0;
    if (block == 0 && step == w->bump_step && branch == w->bump_branch)
        return w->bump;
    if (w->flat == 1 || (w->flat == 2 && block > 0))
        return (float)(expert + 0.25 * (double)branch + (double)block);
    const double drift = 0.02 * (double)step * (1.0 + 0.3 * (double)branch);
    return grid(expert * sin(0.7 * (double)i + (double)(token + block) + drift));
}

/* What a run gave. */
typedef struct result {
    size_t n; /* values of an output */
    float *out;
    bool computed[STEPS][2];
    size_t ran[STEPS][2]; /* blocks of the last pass */
    size_t passes;
} result;

static inline void result_free(result *r)
{
    free(r->out);
}

static inline float *output(const result *r, size_t step, size_t branch)
{
    return r->out + (2 * step + branch) * r->n;
}

static inline zoe_status pass(zoe_context *ctx, zoe_cache *c, const net *w, size_t step,
                              size_t branch, float *hidden, float *latent, float *out, size_t *ran)
{
    const size_t n = w->tokens * w->width;
    float e[WIDTH], e0[6 * WIDTH];
    bool made;
    *ran = 0;
    for (size_t i = 0; i < 6 * WIDTH; i++)
        e0[i] = e[i % WIDTH] = (float)sin((double)i + 0.05 * (double)step);
    for (size_t i = 0; i < n; i++)
        latent[i] = latent_value(step, w->first_token + i / w->width, i % w->width);
    TRY(zoe_cache_begin(ctx, c, latent, out, &made));
    if (!made) {
        zoe_cache_point p = {.hidden = hidden,
                             .embedding = e,
                             .projection = e0,
                             .shift = e,
                             .scale = e0,
                             .eps = 1e-6f};
        memcpy(hidden, latent, n * sizeof *hidden);
        for (p.block = 0;; p.block++) {
            TRY(zoe_cache_at(ctx, c, &p, &p.block));
            if (p.block == BLOCKS)
                break;
            for (size_t i = 0; i < n; i++)
                hidden[i] +=
                    residual(w, p.block, step, branch, w->first_token + i / w->width, i % w->width);
            ++*ran;
        }
        memcpy(out, hidden, n * sizeof *out);
    }
    return zoe_cache_end(ctx, c, latent, out);
}

static inline unsigned branches_of(const net *w, size_t step)
{
    if (w->one_branch)
        return 1u << w->branch;
    return w->alone[step] ? 1u : 3u;
}

static inline zoe_status run_steps(zoe_context *ctx, zoe_cache *c, const net *w, size_t first,
                                   size_t end, result *r)
{
    const size_t n = w->tokens * w->width;
    float *hidden = malloc((n + 1) * sizeof *hidden), *latent = malloc((n + 1) * sizeof *latent);
    zoe_status status = ZOE_OK;
    assert_non_null(hidden);
    assert_non_null(latent);
    if (!r->out)
        r->out = calloc((n + 1) * 2 * STEPS, sizeof *r->out);
    assert_non_null(r->out);
    r->n = n;
    for (size_t step = first; step < end && status == ZOE_OK; step++) {
        status = zoe_cache_step(ctx, c, step, expert_of(step), branches_of(w, step));
        for (size_t b; status == ZOE_OK && zoe_cache_next(c, &b);) {
            status = pass(ctx, c, w, step, b, hidden, latent, output(r, step, b), &r->ran[step][b]);
            r->computed[step][b] = zoe_cache_trace_at(c, step, b)->computed;
            r->passes++;
        }
    }
    free(hidden);
    free(latent);
    return status;
}

static inline zoe_cache_shape shape_of(const net *w)
{
    return (zoe_cache_shape){.steps = STEPS,
                             .high_steps = HIGH,
                             .tokens = w->tokens,
                             .width = w->width,
                             .blocks = BLOCKS,
                             .latent = w->tokens * w->width};
}

static inline zoe_cache *cache_new(zoe_context *ctx, const net *w, const char *text)
{
    zoe_cache_params p;
    zoe_cache *c = NULL;
    const zoe_cache_shape shape = shape_of(w);
    if (zoe_cache_params_parse(ctx, &p, text) != ZOE_OK ||
        zoe_cache_new(ctx, &c, &p, &shape) != ZOE_OK)
        fail_msg("%s: %s", text, zoe_context_message(ctx));
    return c;
}

static inline result run(zoe_context *ctx, const net *w, const char *text)
{
    result r = {0};
    zoe_cache *c = cache_new(ctx, w, text);
    assert_int_equal(run_steps(ctx, c, w, 0, STEPS, &r), ZOE_OK);
    zoe_cache_free(c);
    return r;
}

static inline size_t skipped(const result *r)
{
    size_t count = 0;
    for (size_t step = 0; step < STEPS; step++)
        count += !r->computed[step][0];
    return count;
}

static inline void assert_same(const result *a, const result *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->out, b->out, 2 * STEPS * a->n * sizeof *a->out);
    assert_memory_equal(a->computed, b->computed, sizeof a->computed);
}

static inline int set_up(void **state)
{
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static inline int tear_down(void **state)
{
    zoe_context_free(*state);
    return 0;
}

#endif
