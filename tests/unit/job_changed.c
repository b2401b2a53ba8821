/* zoe_job_params.changed: every pass is told once, in order; figures agree with the velocities that an
 * observer sees; the run ends with the steps; with a step cache or a checkpoint it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "job/job.h"

#define CKPT ZOE_TEST_DATA "/e2e_i2v/ckpt"
enum { STEPS = 6 };

typedef struct seen {
    size_t passes, order; /* order: 2 step + branch of the next */
    size_t high, decoded;
    float *before[2]; /* velocities of the last step */
    double wanted[STEPS][2];
    zoe_cache_change change[STEPS][2];
} seen;

static zoe_job_params request(seen *s)
{
    zoe_job_params p;
    zoe_job_params_init(&p);
    p.model = CKPT;
    p.image = ZOE_TEST_DATA "/e2e_i2v/input.png";
    p.prompt = "A white cat sits.";
    p.width = p.height = 64;
    p.frames = 5;
    p.steps = STEPS;
    p.seed = 1;
    p.user = s;
    return p;
}

static void on_change(void *user, size_t step, bool low_noise, size_t branch,
                      const zoe_cache_change *change)
{
    seen *s = user;
    assert_int_equal(s->order, 2 * step + branch);
    s->order++;
    s->passes++;
    s->high += !low_noise;
    s->change[step][branch] = *change;
}

/* The relative change of the output, by a plain sum. */
static void on_value(void *user, const char *name, size_t step, zoe_tensor value)
{
    seen *s = user;
    const size_t branch = strcmp(name, "v_uncond") == 0;
    if (strncmp(name, "v_", 2) != 0)
        return;
    const float *now = value.data;
    const size_t n = value.shape[0] * value.shape[1] * value.shape[2] * value.shape[3];
    double change = 0.0, size = 0.0;
    if (!s->before[branch])
        s->before[branch] = calloc(n, sizeof(float));
    float *before = s->before[branch];
    assert_non_null(before);
    for (size_t i = 0; i < n; i++) {
        change += fabs((double)now[i] - (double)before[i]);
        size += fabs((double)before[i]);
        before[i] = now[i];
    }
    s->wanted[step][branch] = change / size;
}

static void on_progress(void *user, zoe_phase phase, size_t done, size_t total)
{
    seen *s = user;
    (void)done;
    (void)total;
    s->decoded += phase == ZOE_PHASE_DECODE;
}

static void every_pass_is_told(void **state)
{
    seen s = {0};
    zoe_job_params p = request(&s);
    zoe_job *job;
    p.changed = on_change;
    p.observe = on_value;
    p.progress = on_progress;
    assert_int_equal(zoe_job_new(*state, &job, &p), ZOE_OK);
    assert_int_equal(zoe_job_open(*state, job), ZOE_OK);
    const size_t high = zoe_job_plan(job)->high_steps;
    assert_in_range(high, 1, STEPS - 1);
    assert_int_equal(zoe_job_run(*state, job), ZOE_OK);
    assert_int_equal(s.passes, 2 * STEPS);
    assert_int_equal(s.high, 2 * high);
    assert_int_equal(s.decoded, 0);
    for (size_t step = 0; step < STEPS; step++)
        for (size_t b = 0; b < 2; b++) {
            const zoe_cache_change *c = &s.change[step][b];
            const bool first = step == 0 || step == high;
            assert_true(isnan(c->output) == first && isnan(c->modulated) == first);
            assert_true(isnan(c->magnitude) == (step == 0));
            /* the sums run over f32 differences there, over f64 ones here */
            assert_true(first || fabs(c->output - s.wanted[step][b]) < 1e-6 * c->output);
            assert_true(first || (c->modulated > 0.0 && c->embedding > 0.0 && c->projection > 0.0 &&
                                  c->residual > 0.0 && c->magnitude > 0.0));
        }
    zoe_job_free(job);
    free(s.before[0]);
    free(s.before[1]);
}

static void a_run_that_leaves_out_steps_is_refused(void **state)
{
    seen s = {0};
    zoe_job_params p = request(&s);
    zoe_job *job;
    p.changed = on_change;
    p.cache = "FBCache,force=true";
    assert_int_equal(zoe_job_new(*state, &job, &p), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(*state), "take NoCache"));
    zoe_context_clear(*state);
    p.cache = "NoCache";
    p.checkpoint = "nowhere";
    assert_int_equal(zoe_job_new(*state, &job, &p), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(*state), "leave it out"));
    zoe_context_clear(*state);
    p.checkpoint = NULL;
    assert_int_equal(zoe_job_new(*state, &job, &p), ZOE_OK);
    zoe_job_free(job);
}

/* Its memory is in the plan: more than without, by five hidden states at least. */
static void the_plan_counts_it(void **state)
{
    seen s = {0};
    size_t bytes[2];
    for (size_t k = 0; k < 2; k++) {
        zoe_job_params p = request(&s);
        zoe_job *job;
        p.changed = k == 1 ? on_change : NULL;
        p.latents_out = "l.safetensors";
        assert_int_equal(zoe_job_new(*state, &job, &p), ZOE_OK);
        assert_int_equal(zoe_job_open(*state, job), ZOE_OK);
        bytes[k] = zoe_job_plan(job)->bytes[ZOE_PHASE_STEPS];
        const size_t width = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->dim;
        const size_t state_bytes = zoe_job_plan(job)->tokens * width * sizeof(float);
        assert_true(k == 0 || bytes[1] >= bytes[0] + 5 * state_bytes);
        zoe_job_free(job);
    }
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
        cmocka_unit_test(every_pass_is_told),
        cmocka_unit_test(a_run_that_leaves_out_steps_is_refused),
        cmocka_unit_test(the_plan_counts_it),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
