/* LoRAs and the step cache of a request: noted and read back, and not trusted when read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "job/lora.h"
#include "job/step_cache.h"

static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static zoe_job a_job(void)
{
    zoe_job job = {0};
    zoe_job_params_init(&job.params);
    job.params.image = "cat.png";
    job.params.prompt = "A cat.";
    job.params.loras[0] = (zoe_job_lora){"/home/somebody/a.safetensors", 1.0 / 3.0, 0.0};
    job.params.loras[1] = (zoe_job_lora){"/home/somebody/b\xff.safetensors", -0.25, 1.0};
    job.params.lora_count = 2;
    job.params.cache = "DBCache,Fn_compute_blocks=1";
    memcpy(job.sources.loras[0], digest, sizeof digest);
    return job;
}

static void assert_same(const zoe_job_params *p, const zoe_job *job)
{
    assert_int_equal(p->lora_count, job->params.lora_count);
    for (size_t i = 0; i < p->lora_count; i++) {
        assert_true(p->loras[i].high == job->params.loras[i].high);
        assert_true(p->loras[i].low == job->params.loras[i].low);
    }
    assert_string_equal(p->cache, job->params.cache);
}

static void test_record(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    static const char *const letters[] = {NULL, "abcdefgh"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        zoe_record *record;
        char *text;
        assert_int_equal(zoe_record_make(ctx, &text, &job, letters[i]), ZOE_OK);
        assert_int_equal(zoe_record_parse(ctx, &record, text, strlen(text), "r", i == 1), ZOE_OK);
        const zoe_job_params *p = zoe_record_params(record);
        assert_same(p, &job);
        assert_string_equal(record->sources.loras[0], digest);
        assert_string_equal(record->sources.loras[1], "");
        if (i == 0) {
            assert_null(strstr(text, "somebody"));
            assert_string_equal(p->loras[0].path, "a.safetensors");
            assert_string_equal(p->loras[1].path, "b\xef\xbf\xbd.safetensors");
        } else {
            assert_string_equal(p->loras[0].path, job.params.loras[0].path);
            assert_string_equal(p->loras[1].path, job.params.loras[1].path);
        }
        zoe_record_free(record);
        zoe_free(text);
    }
    zoe_context_free(ctx);
}

/* A member of a sound record of a checkpoint is replaced. */
static void test_hostile(void **state)
{
    static const struct {
        const char *in, *key, *value; /* in: NULL, "run" or "paths" */
    } rows[] = {
        {NULL, "loras", "{}"},
        {NULL, "loras", "[1, 2]"},
        {NULL, "loras", "[{\"name\": \"a\", \"high\": 1}, {}]"},
        {NULL, "loras", "[{\"name\": \"../a\", \"high\": 1, \"low\": 1}]"},
        {NULL, "loras", "[{\"name\": \"a\", \"high\": 1, \"low\": 1e9}]"},
        {NULL, "loras", "[{\"name\": \"a\", \"high\": 1, \"low\": 1, \"sha256\": \"x\"}]"},
        {NULL, "loras", "[{\"name\": \"a\", \"high\": 1, \"low\": 1}]"}, /* two paths */
        {NULL, "loras", "[0, 0, 0, 0, 0, 0, 0, 0, 0]"},
        {NULL, "cache", "1"},
        {NULL, "cache", "\"\""},
        {NULL, "cache", "\"FBCache,threshold=x\""},
        {"paths", "loras", "[\"a\"]"},
        {"paths", "loras", "[\"a\", \"\"]"},
        {"paths", "loras", "[\"a\", {\"bytes\": \"6\"}]"},
        {"paths", "loras", "[\"a\", null]"},
    };
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    char *sound;
    (void)state;
    assert_int_equal(zoe_record_make(ctx, &sound, &job, "abcdefgh"), ZOE_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = json_loads(sound, 0, NULL), *at = root;
        zoe_record *record;
        if (rows[i].in)
            at = json_object_get(json_object_get(root, "run"), "paths");
        assert_int_equal(
            json_object_set_new(at, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL)),
            0);
        char *text = json_dumps(root, 0);
        zoe_context_clear(ctx);
        if (zoe_record_parse(ctx, &record, text, strlen(text), "r", true) != ZOE_FORMAT)
            fail_msg("row %zu: %s", i, zoe_context_message(ctx));
        assert_null(record);
        free(text);
        json_decref(root);
    }
    zoe_free(sound);
    zoe_context_free(ctx);
}

static void test_resolve(void **state)
{
    static const struct {
        const char *path;
        double high, low, wanted_high, wanted_low;
        size_t steps;
    } rows[] = {
        {"no/a.safetensors", NAN, NAN, 1, 1, 0},
        {"no/a_high_noise.safetensors", NAN, NAN, 1, 0, 0},
        {"no/Lightning-LOW.safetensors", NAN, NAN, 0, 1, 4},
        {"no/high-low.safetensors", NAN, NAN, 1, 1, 0},
        {"no/a_high_noise.safetensors", 0.5, 0.25, 0.5, 0.25, 0},
        {"no/slow-flow.safetensors", NAN, 0.5, 1, 0.5, 0},
    };
    zoe_context *ctx = zoe_context_new(1);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        zoe_job job = {0};
        zoe_job_params_init(&job.params);
        job.params.loras[0] = (zoe_job_lora){rows[i].path, rows[i].high, rows[i].low};
        job.params.lora_count = 1;
        assert_int_equal(zoe_loras_check_numbers(ctx, &job.params), ZOE_OK);
        assert_int_equal(zoe_loras_resolve(ctx, &job), ZOE_OK);
        assert_true(job.params.loras[0].high == rows[i].wanted_high);
        assert_true(job.params.loras[0].low == rows[i].wanted_low);
        assert_int_equal(job.lora_hint[0].steps, rows[i].steps);
    }
    zoe_context_free(ctx);
}

static void test_numbers(void **state)
{
    static const zoe_job_lora bad[] = {
        {NULL, 1, 1}, {"", 1, 1}, {"a", INFINITY, 1}, {"a", 1, -1001}};
    zoe_context *ctx = zoe_context_new(1);
    zoe_job_params p;
    (void)state;
    zoe_job_params_init(&p);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        p.loras[0] = bad[i];
        p.lora_count = 1;
        assert_int_equal(zoe_loras_check_numbers(ctx, &p), ZOE_INVALID);
    }
    p.lora_count = ZOE_JOB_LORAS + 1;
    assert_int_equal(zoe_loras_check_numbers(ctx, &p), ZOE_INVALID);
    zoe_context_free(ctx);
}

/* What shapes the result is in the identity, and nothing is if nothing is asked for. */
static void test_identity(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    char id[5][ZOE_DIGEST_TEXT];
    zoe_job job = a_job();
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        zoe_job other = job;
        if (i == 1)
            other.params.loras[1].low = 0.5;
        if (i == 2)
            other.sources.loras[0][0] = 'f';
        if (i == 3)
            other.params.cache = "FBCache";
        if (i == 4)
            other.params.lora_count = 1;
        assert_int_equal(zoe_step_cache_read(ctx, &other), ZOE_OK);
        assert_int_equal(zoe_sources_identity(ctx, &other, id[i]), ZOE_OK);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(id[i], id[k]);
    }
    job.params.lora_count = 0;
    for (size_t i = 0; i < 2; i++) {
        job.params.cache = i == 0 ? NULL : "NoCache";
        assert_int_equal(zoe_step_cache_read(ctx, &job), ZOE_OK);
        assert_int_equal(zoe_sources_identity(ctx, &job, id[i]), ZOE_OK);
    }
    assert_string_equal(id[0], id[1]);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record),   cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_resolve),  cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
