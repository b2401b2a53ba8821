/* B39: ranks with uneven shards and a threshold next to the measured value decide as one rank does.
 */
#include <pthread.h>

#include "sample_cache_case.h"

enum { RANKS_MOST = 4 };

/* Collectives among threads: each adds its part, and the last one wakes all. Results are formed in
 * the order of the ranks, so that all get the same bits. */
typedef struct meeting {
    pthread_barrier_t barrier;
    size_t ranks;
    double part[RANKS_MOST][8];
} meeting;

typedef struct rank {
    meeting *m;
    size_t index, calls;
    net w;
    const char *text;
    double threshold;
    bool grouped, audit;
    zoe_status status;
    result r;
} rank;

static zoe_status meet(rank *r, double *values, size_t n, bool max)
{
    meeting *m = r->m;
    memcpy(m->part[r->index], values, n * sizeof *values);
    pthread_barrier_wait(&m->barrier);
    for (size_t k = 0; k < n; k++) {
        values[k] = m->part[0][k];
        for (size_t i = 1; i < m->ranks; i++)
            values[k] = !max ? values[k] + m->part[i][k]
                             : (m->part[i][k] > values[k] ? m->part[i][k] : values[k]);
    }
    pthread_barrier_wait(&m->barrier);
    r->calls++;
    return ZOE_OK;
}

static zoe_status meet_sum(void *user, double *values, size_t n)
{
    return meet(user, values, n, false);
}

static zoe_status meet_max(void *user, double *values, size_t n)
{
    return meet(user, values, n, true);
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    zoe_context *ctx = zoe_context_new(1);
    zoe_cache_params p;
    zoe_cache *c = NULL;
    const zoe_cache_shape shape = shape_of(&r->w);
    const bool split = r->w.one_branch;
    r->status = zoe_cache_params_parse(ctx, &p, r->text);
    p.threshold = r->threshold;
    if (r->status == ZOE_OK)
        r->status = zoe_cache_new(ctx, &c, &p, &shape);
    if (r->status == ZOE_OK && r->grouped)
        zoe_cache_set_group(c, &(zoe_cache_group){.user = r,
                                                  .sum = split ? NULL : meet_sum,
                                                  .max = split ? meet_max : NULL,
                                                  .audit = r->audit});
    if (r->status == ZOE_OK)
        r->status = run_steps(ctx, c, &r->w, 0, STEPS, &r->r);
    zoe_cache_free(c);
    zoe_context_free(ctx);
    return NULL;
}

static void run_ranks(rank *ranks, size_t n)
{
    meeting m = {.ranks = n};
    pthread_t threads[RANKS_MOST];
    assert_int_equal(pthread_barrier_init(&m.barrier, NULL, (unsigned)n), 0);
    for (size_t i = 0; i < n; i++) {
        ranks[i].m = &m;
        ranks[i].index = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&m.barrier);
}

/* Hardly more than the larger distance that the whole sequence measures at step 1. */
static double near_threshold(zoe_context *ctx, const char *text)
{
    const net w = usual();
    result r = {0};
    zoe_cache *c = cache_new(ctx, &w, text);
    float most = 0.0f;
    assert_int_equal(run_steps(ctx, c, &w, 0, 2, &r), ZOE_OK);
    for (size_t b = 0; b < 2; b++) {
        const zoe_cache_trace *t = zoe_cache_trace_at(c, 1, b);
        assert_true(t->measured && t->distance > 0.0f);
        most = t->distance > most ? t->distance : most;
    }
    result_free(&r);
    zoe_cache_free(c);
    return (double)nextafterf(most, INFINITY);
}

static void shard(rank *ranks, size_t n)
{
    static const size_t first[RANKS_MOST + 1][RANKS_MOST + 1] = {
        {0}, {0}, {0, 1, 6}, {0, 1, 1, 6}, {0, 3, 4, 4, 6}}; /* some ranks own nothing */
    for (size_t i = 0; i < n; i++) {
        ranks[i].w = usual();
        ranks[i].w.first_token = first[n][i];
        ranks[i].w.tokens = first[n][i + 1] - first[n][i];
    }
}

static void ranks_decide_as_one(void **state)
{
    static const char *const texts[] = {"FBCache", "DBCache,Fn_compute_blocks=2,max_warmup_steps=1",
                                        "TeaCache,judge=hidden,coefficients=[1,0],warmup=1",
                                        "FBCache,judge=hidden"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        rank single[1] = {{.text = texts[t], .w = usual()}};
        const double threshold = single[0].threshold = near_threshold(*state, texts[t]);
        run_ranks(single, 1);
        assert_int_equal(single[0].status, ZOE_OK);
        assert_false(single[0].r.computed[1][0]);
        for (size_t n = 2; n <= RANKS_MOST; n++) {
            rank ranks[RANKS_MOST] = {{.m = NULL}};
            for (size_t i = 0; i < n; i++)
                ranks[i] = (rank){
                    .text = texts[t], .threshold = threshold, .grouped = true, .audit = true};
            shard(ranks, n);
            run_ranks(ranks, n);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(ranks[i].status, ZOE_OK);
                assert_int_equal(ranks[i].calls, ranks[0].calls);
                assert_memory_equal(ranks[i].r.computed, single[0].r.computed,
                                    sizeof single[0].r.computed);
                result_free(&ranks[i].r);
            }
        }
        result_free(&single[0].r);
    }
}

/* Without a common decision they would not: the test above has something to find. */
static void ranks_alone_disagree(void **state)
{
    rank ranks[2] = {{.m = NULL}};
    for (size_t i = 0; i < 2; i++)
        ranks[i] = (rank){.text = "FBCache", .threshold = near_threshold(*state, "FBCache")};
    shard(ranks, 2);
    run_ranks(ranks, 2);
    assert_memory_not_equal(ranks[0].r.computed, ranks[1].r.computed, sizeof ranks[0].r.computed);
    result_free(&ranks[0].r);
    result_free(&ranks[1].r);
}

static void audit_finds_disagreement(void **state)
{
    (void)state;
    rank ranks[2] = {{.m = NULL}};
    for (size_t i = 0; i < 2; i++)
        ranks[i] = (rank){
            .text = "FBCache", .threshold = i == 0 ? 1e3 : 0.0, .grouped = true, .audit = true};
    shard(ranks, 2);
    run_ranks(ranks, 2);
    assert_int_equal(ranks[0].status, ZOE_INTERNAL);
    assert_int_equal(ranks[1].status, ZOE_INTERNAL);
    result_free(&ranks[0].r);
    result_free(&ranks[1].r);
}

/* Each branch on its own rank: the same decisions as one rank with both, one after the other. */
static void split_branches_decide_as_one(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double threshold;
    } cases[] = {{"FBCache", 0.03},
                 {"TeaCache,judge=hidden,coefficients=[1,0]", 0.2},
                 {"EasyCache", 0.05},
                 {"DBCache,Fn_compute_blocks=1,max_warmup_steps=1,"
                  "max_accumulated_residual_diff_threshold=0.2",
                  0.06},
                 {"MagCache,mag_ratios=i2v_A14B", 0.1}};
    for (size_t t = 0; t < sizeof cases / sizeof *cases; t++) {
        rank single[1] = {{.text = cases[t].text, .threshold = cases[t].threshold, .w = usual()}};
        rank pair[2] = {{.m = NULL}};
        run_ranks(single, 1);
        for (size_t i = 0; i < 2; i++) {
            pair[i] = (rank){.text = cases[t].text,
                             .threshold = cases[t].threshold,
                             .grouped = true,
                             .w = usual()};
            pair[i].w.one_branch = true;
            pair[i].w.branch = i;
        }
        run_ranks(pair, 2);
        assert_true(skipped(&single[0].r) > 0 && skipped(&single[0].r) < STEPS - 3);
        for (size_t step = 0; step < STEPS; step++)
            for (size_t b = 0; b < 2; b++) {
                assert_int_equal(pair[b].r.computed[step][b], single[0].r.computed[step][b]);
                assert_memory_equal(output(&pair[b].r, step, b), output(&single[0].r, step, b),
                                    single[0].r.n * sizeof(float));
            }
        assert_int_equal(pair[0].calls, pair[1].calls);
        result_free(&single[0].r);
        result_free(&pair[0].r);
        result_free(&pair[1].r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_decide_as_one),
        cmocka_unit_test(ranks_alone_disagree),
        cmocka_unit_test(audit_finds_disagreement),
        cmocka_unit_test(split_branches_decide_as_one),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
