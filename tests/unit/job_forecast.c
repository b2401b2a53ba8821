/* What a plan for several ranks says, against runs on such ranks: bytes sent, to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job/forecast.h"
#include "job_family_case.h"
#include "job_ranks_case.h"

enum { STEPS_MOST = 8 };

/* What a rank had sent when a phase began, and after each step. */
typedef struct meter {
    zoe_comm *comm;
    uint64_t begun[ZOE_PHASE_COUNT], step[STEPS_MOST + 1];
    bool seen[ZOE_PHASE_COUNT];
} meter;
static meter meters[RANKS_MOST];

static void read_meter(void *user, zoe_phase phase, size_t done, size_t total)
{
    meter *m = user;
    const uint64_t sent = zoe_comm_traffic(m->comm).sent;
    (void)total;
    if (done == 0) {
        m->begun[phase] = sent;
        m->seen[phase] = true;
    }
    if (phase == ZOE_PHASE_STEPS && done <= STEPS_MOST)
        m->step[done] = sent;
}

static void pass_over(void *user, size_t frame, const unsigned char *rgb, size_t width,
                      size_t height)
{
    (void)user, (void)frame, (void)rgb, (void)width, (void)height;
}

static zoe_status attach_meter(zoe_context *ctx, zoe_job *job, size_t rank)
{
    (void)ctx;
    meters[rank] = (meter){.comm = job->ranks.all};
    job->params.progress = read_meter;
    job->params.frame = pass_over;
    job->params.observe = NULL;
    job->params.user = &meters[rank];
    return ZOE_OK;
}

/* The job of one rank that a forecast is made from. */
static zoe_forecast *foresee(zoe_context *ctx, zoe_job **job, const case_job *j)
{
    zoe_job_params p = j->params;
    zoe_forecast *forecast = NULL;
    p.cfg_ranks = p.ulysses = p.ring = p.vae_ranks = 0;
    p.memory = ZOE_JOB_ENDLESS;
    p.frame = pass_over;
    if (zoe_job_new(ctx, job, &p) != ZOE_OK || zoe_job_open(ctx, *job) != ZOE_OK ||
        zoe_forecast_new(ctx, &forecast, *job) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    return forecast;
}

static void expect_bytes(const char *what, size_t rank, const char *stage, uint64_t measured,
                         uint64_t planned)
{
    if (measured != planned)
        fail_msg("%s: rank %zu sent %llu bytes in %s, the plan has %llu", what, rank,
                 (unsigned long long)measured, stage, (unsigned long long)planned);
}

/* The first phase that was begun after this one, or the end. */
static uint64_t end_of(const case_job *j, size_t rank, size_t phase)
{
    while (++phase < ZOE_PHASE_COUNT)
        if (meters[rank].seen[phase])
            return meters[rank].begun[phase];
    return j->sent[rank];
}

static bool step_is_guided(const case_job *j, const zoe_job *job, size_t step)
{
    const bool high = zoe_job_expert(job, step) == ZOE_HIGH_NOISE;
    return (high ? j->params.guide_high : j->params.guide_low) != 1.0;
}

static void compare(const case_job *j, const char *what)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_job *job;
    zoe_forecast *forecast = foresee(ctx, &job, j);
    const zoe_layout layout = {j->params.cfg_ranks, j->params.ulysses, j->params.ring,
                               j->params.vae_ranks ? j->params.vae_ranks : j->ranks};
    for (size_t r = 0; r < j->ranks; r++) {
        zoe_rank_sent s;
        zoe_forecast_sent(forecast, &layout, r, &s);
        for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
            if (meters[r].seen[i])
                expect_bytes(what, r, zoe_phase_name((zoe_phase)i),
                             end_of(j, r, i) - meters[r].begun[i], s.phase[i]);
            else
                expect_bytes(what, r, "a phase that there is not", 0, s.phase[i]);
        for (size_t i = 0; i < j->params.steps; i++)
            expect_bytes(what, r, "a step", meters[r].step[i + 1] - meters[r].step[i],
                         step_is_guided(j, job, i) ? s.guided_step : s.plain_step);
    }
    zoe_forecast_free(forecast);
    zoe_job_free(job);
    zoe_context_free(ctx);
}

static void run(case_job *j, const char *what)
{
    char text[120];
    snprintf(text, sizeof text, "%s: CFG %zu x Ulysses %zu x ring %zu, VAE %zu", what,
             j->params.cfg_ranks, j->params.ulysses, j->params.ring, j->params.vae_ranks);
    j->before = attach_meter;
    memset(meters, 0, sizeof meters);
    case_job_run(j);
    assert_true(case_job_ok(j, text));
    compare(j, text);
}

/* Every way to deal `least` to 4 ranks, with one number or another of VAE ranks. */
static void run_every(const char *what, size_t least, void (*change)(case_job *))
{
    for (size_t n = least; n <= 4; n++)
        for (size_t cfg = 1; cfg <= 2; cfg++)
            for (size_t u = 1; u <= n; u++) {
                if (n % (cfg * u) != 0)
                    continue;
                case_job *j = case_job_new(ZOE_TEST_DATA);
                case_set(j, cfg, u, n / cfg / u, 1 + (u + n) % n);
                change(j);
                if (cfg == 1 || j->params.guide_low != 1.0 || j->params.guide_high != 1.0)
                    run(j, what);
                free(j);
            }
}

static void as_it_is(case_job *j)
{
    j->params.steps = 2;
}

static void step_by_step(case_job *j)
{
    j->params.steps = 2;
    j->params.ring_steps = true;
    j->params.bf16 = true;
    j->params.vae_ranks = 0;
}

static void half_guided(case_job *j)
{
    j->params.guide_low = 1.0;
}

static void not_guided(case_job *j)
{
    j->params.steps = 2;
    j->params.guide_low = j->params.guide_high = 1.0;
}

static void with_shared_weights(case_job *j)
{
    j->params.steps = 2;
    j->params.shard_weights = true;
}

static void test_bytes_of_weights(void **state)
{
    (void)state;
    run_every("shared weights", 4, with_shared_weights);
}

static void test_bytes(void **state)
{
    (void)state;
    run_every("guided", 1, as_it_is);
}

static void test_bytes_stepwise(void **state)
{
    (void)state;
    run_every("bf16, ring by steps", 4, step_by_step);
}

static void test_bytes_without_guidance(void **state)
{
    (void)state;
    run_every("guidance of one expert", 4, half_guided);
    run_every("no guidance", 4, not_guided);
}

/* More ranks than tokens and heads are dealt evenly to, and than there can be patches. */
static void test_bytes_of_many(void **state)
{
    (void)state;
    static const size_t splits[][3] = {{1, 7, 1}, {1, 1, 7}, {2, 3, 2}};
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        case_job *j = case_job_new(ZOE_TEST_DATA);
        case_set(j, splits[i][0], splits[i][1], splits[i][2], 0);
        run(j, "many");
        free(j);
    }
}

/* CLIP features go to all; without pictures, or with one alone that stays as it is, less is encoded. */
static void test_bytes_of_families(void **state)
{
    (void)state;
    static const zoe_layout layouts[] = {{1, 3, 1, 2}, {2, 1, 2, 4}};
    scene s = {.folder = "/tmp/zoe-forecast-XXXXXX", .first = DATA "e2e_i2v/input.png"};
    s.ctx = zoe_context_new(1);
    assert_non_null(mkdtemp(s.folder));
    snprintf(s.t2v_two, sizeof s.t2v_two, "%s/two", s.folder);
    snprintf(s.t2v_one, sizeof s.t2v_one, "%s/one", s.folder);
    snprintf(s.i2v, sizeof s.i2v, "%s/i2v", s.folder);
    snprintf(s.flf, sizeof s.flf, "%s/flf", s.folder);
    write_checkpoints(&s);
    const struct {
        const char *model, *image, *last;
    } families[] = {{s.t2v_two, NULL, NULL},
                    {s.t2v_one, NULL, NULL},
                    {s.i2v, s.first, NULL},
                    {s.flf, s.first, s.first}};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
            const zoe_layout *l = &layouts[k];
            case_job *j = case_job_new(ZOE_TEST_DATA);
            case_set(j, l->cfg, l->ulysses, l->ring, l->vae);
            j->params.model = families[i].model;
            j->params.image = families[i].image;
            j->params.last_image = families[i].last;
            j->params.steps = 2;
            run(j, zoe_path_name(families[i].model));
            free(j);
        }
    zoe_context_free(s.ctx);
    char line[80];
    snprintf(line, sizeof line, "rm -rf '%s'", s.folder);
    assert_int_equal(system(line), 0);
}

/* ---- what is held, and what is chosen ---- */

static zoe_status note_plan(zoe_context *ctx, zoe_job *job, size_t rank)
{
    (void)ctx;
    memcpy(meters[rank].begun, job->plan.bytes, sizeof job->plan.bytes);
    return ZOE_OK;
}

/* A run's own plan of its memory is the forecast of it. */
static void test_memory(void **state)
{
    (void)state;
    static const zoe_layout layouts[] = {{1, 1, 1, 1}, {2, 2, 1, 3}, {1, 1, 3, 3}, {2, 1, 2, 1}};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const zoe_layout *l = &layouts[i];
        case_job *j = case_job_new(ZOE_TEST_DATA);
        zoe_context *ctx = zoe_context_new(1);
        zoe_job *job;
        zoe_forecast *forecast = foresee(ctx, &job, j);
        case_set(j, l->cfg, l->ulysses, l->ring, l->vae);
        j->after = note_plan;
        case_job_run(j);
        assert_true(case_job_ok(j, "memory"));
        for (size_t r = 0; r < j->ranks; r++) {
            zoe_rank_bytes b;
            zoe_forecast_bytes(forecast, l, r, &b);
            for (size_t p = 0; p < ZOE_PHASE_COUNT; p++)
                assert_int_equal(meters[r].begun[p], b.weights[p] + b.work[p]);
            assert_true(b.texts + b.cache + b.fixed <= b.work[ZOE_PHASE_STEPS]);
        }
        zoe_forecast_free(forecast);
        zoe_job_free(job);
        zoe_context_free(ctx);
        free(j);
    }
}

static const zoe_speeds fast_net = {
    .product = 1e9, .attention = 1e9, .convolution = 1e9, .bandwidth = 1e15, .latency = 0};

static void test_choice(void **state)
{
    (void)state;
    case_job *j = case_job_new(ZOE_TEST_DATA);
    zoe_context *ctx = zoe_context_new(1);
    zoe_job *job;
    zoe_forecast *forecast = foresee(ctx, &job, j);
    zoe_layout l;
    /* CFG first; then whatever is quickest: without a cost of sending, that is what shares evenly. */
    assert_int_equal(zoe_forecast_choose(ctx, forecast, 2, &(zoe_layout){0}, &fast_net, 0, &l), 0);
    assert_true(l.cfg == 2 && l.ulysses == 1 && l.ring == 1 && l.vae == 2);
    assert_int_equal(zoe_forecast_choose(ctx, forecast, 8, &(zoe_layout){0}, &fast_net, 0, &l), 0);
    assert_true(l.cfg == 2 && l.ulysses <= 2 && zoe_layout_ranks(&l) == 8);
    assert_int_equal(
        zoe_forecast_choose(ctx, forecast, 6, &(zoe_layout){.ring = 6}, &fast_net, 0, &l), 0);
    assert_true(l.cfg == 1 && l.ulysses == 1 && l.ring == 6);
    assert_int_equal(
        zoe_forecast_choose(ctx, forecast, 4, &(zoe_layout){.ulysses = 3}, &fast_net, 0, &l),
        ZOE_INVALID);
    assert_int_equal(
        zoe_forecast_choose(ctx, forecast, 3, &(zoe_layout){.cfg = 2}, &fast_net, 0, &l),
        ZOE_INVALID);
    /* Two CFG ranks halve a step when sending costs nothing. */
    zoe_run_time one, two;
    zoe_forecast_time(forecast, &(zoe_layout){1, 1, 1, 1}, &fast_net, &one);
    zoe_forecast_time(forecast, &(zoe_layout){2, 1, 1, 2}, &fast_net, &two);
    assert_true(fabs(two.step / one.step - 0.5) < 1e-6);
    assert_true(two.phase[ZOE_PHASE_DECODE] < one.phase[ZOE_PHASE_DECODE]);
    zoe_forecast_free(forecast);
    zoe_job_free(job);
    zoe_context_free(ctx);
    free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_stepwise),
        cmocka_unit_test(test_bytes_without_guidance),
        cmocka_unit_test(test_bytes_of_many),
        cmocka_unit_test(test_bytes_of_weights),
        cmocka_unit_test(test_bytes_of_families),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
