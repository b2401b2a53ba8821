/* Memory: the plan, the limit on it, and what is suggested when it does not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "zoetrope/job.h"

static zoe_job_params request(void)
{
    zoe_job_params p;
    zoe_job_params_init(&p);
    p.model = ZOE_TEST_DATA "/e2e_i2v/ckpt";
    p.image = ZOE_TEST_DATA "/e2e_i2v/input.png";
    p.prompt = "A white cat sits.";
    p.width = p.height = 128;
    p.frames = 41;
    p.steps = 2;
    p.seed = 1;
    p.latents_out = "/tmp/zoe-plan-is-never-written.safetensors";
    p.out = "/tmp/zoe-plan-is-never-written.y4m";
    return p;
}

/* Opens the request; *plan may be NULL. */
static zoe_status open_job(zoe_context *ctx, const zoe_job_params *p, zoe_plan *plan)
{
    zoe_job *job;
    zoe_context_clear(ctx);
    zoe_status status = zoe_job_new(ctx, &job, p);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, job);
    if (status == ZOE_OK && plan)
        *plan = *zoe_job_plan(job);
    zoe_job_free(job);
    return status;
}

static zoe_plan plan_of(zoe_context *ctx, const zoe_job_params *p)
{
    zoe_plan plan = {0};
    const zoe_status status = open_job(ctx, p, &plan);
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    return plan;
}

static void a_limit_is_exact(void **state)
{
    zoe_context *ctx = *state;
    zoe_job_params p = request();
    const size_t peak = plan_of(ctx, &p).peak;
    p.memory = peak;
    assert_int_equal(plan_of(ctx, &p).peak, peak);
    p.memory = peak - 1;
    assert_int_equal(open_job(ctx, &p, NULL), ZOE_NOMEM);
}

/* A suggestion is taken by its word: it fits, and the next larger one does not. */
static void frames_that_fit(zoe_context *ctx, zoe_job_params p, const char *message)
{
    const char *at = strstr(message, "allowed; ");
    size_t frames = 0;
    assert_non_null(at);
    assert_int_equal(sscanf(at, "allowed; %zu frame", &frames), 1);
    assert_in_range(frames, 1, p.frames - 4);
    assert_int_equal(frames % 4, 1);
    p.frames = frames;
    assert_true(plan_of(ctx, &p).peak <= p.memory);
    p.frames = frames + 4;
    assert_int_equal(open_job(ctx, &p, NULL), ZOE_NOMEM);
}

static bool size_that_fits(zoe_context *ctx, zoe_job_params p, const char *message)
{
    const char *at = strstr(message, "size ");
    while (at && sscanf(at, "size %zux%zu", &p.width, &p.height) != 2)
        at = strstr(at + 1, "size ");
    if (!at)
        return false;
    const zoe_plan plan = plan_of(ctx, &p);
    assert_true(plan.peak <= p.memory);
    assert_in_range(plan.width, p.width - 16, p.width);
    assert_in_range(plan.height, p.height - 16, p.height);
    p.width += 32; /* sides come in steps of 16, and the first may go down by one */
    p.height += 32;
    assert_int_equal(open_job(ctx, &p, NULL), ZOE_NOMEM);
    return true;
}

static void what_is_suggested_fits(void **state)
{
    zoe_context *ctx = *state;
    zoe_job_params p = request();
    size_t by_frames = 0, by_size = 0, by_nothing = 0;
    p.frames = 601;
    p.out = NULL; /* with the decoder, the number of frames hardly matters */
    const size_t peak = plan_of(ctx, &p).peak;
    for (size_t i = 1; i <= 24; i++) {
        p.memory = peak - i * peak / 25;
        assert_int_equal(open_job(ctx, &p, NULL), ZOE_NOMEM);
        char message[1024];
        snprintf(message, sizeof message, "%s", zoe_context_message(ctx));
        const bool nothing = strstr(message, "no number of frames and no size would fit") != NULL;
        by_nothing += nothing;
        if (strstr(message, "at this size")) {
            frames_that_fit(ctx, p, message);
            by_frames++;
        }
        by_size += size_that_fits(ctx, p, message);
        assert_true(nothing || strstr(message, "would fit"));
    }
    assert_true(by_frames > 0);
    assert_true(by_size > 0);
    assert_true(by_nothing > 0);
}

static void the_largest_run_does_not_wrap_around(void **state)
{
    zoe_context *ctx = *state;
    zoe_job_params p = request();
    p.width = p.height = 2048;
    p.out = "-"; /* no disk has room for it */
    p.latents_out = NULL;
    p.frames = 100001;
    p.memory = SIZE_MAX;
    const zoe_plan plan = plan_of(ctx, &p);
    assert_true(plan.peak > (size_t)1 << 38);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        assert_true(plan.bytes[i] > 0 && plan.bytes[i] <= plan.peak);
}

/* Without a limit, what cannot be dropped must fit into the machine. */
static void the_machine_is_a_limit_too(void **state)
{
    zoe_context *ctx = *state;
    zoe_job_params p = request();
    p.width = p.height = 2048;
    p.out = "-"; /* no disk has room for it */
    p.latents_out = NULL;
    p.frames = 100001;
    assert_int_equal(open_job(ctx, &p, NULL), ZOE_NOMEM);
    assert_non_null(
        strstr(zoe_context_message(ctx), "besides the weights, this machine or its cgroup has"));
}

static void without_frames_nothing_is_decoded(void **state)
{
    zoe_context *ctx = *state;
    zoe_job_params p = request();
    assert_true(plan_of(ctx, &p).bytes[ZOE_PHASE_DECODE] > 0);
    p.out = NULL;
    assert_int_equal(plan_of(ctx, &p).bytes[ZOE_PHASE_DECODE], 0);
}

static int set_up(void **state)
{
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    zoe_context_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_exact),
        cmocka_unit_test(what_is_suggested_fits),
        cmocka_unit_test(the_largest_run_does_not_wrap_around),
        cmocka_unit_test(the_machine_is_a_limit_too),
        cmocka_unit_test(without_frames_nothing_is_decoded),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
