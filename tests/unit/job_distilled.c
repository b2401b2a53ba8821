/* Runs of a list of steps, as models distilled to few steps are made for: the latents of whole runs against
 * Euler's method written down here, one pass a step, experts by the number of the step; what does not go
 * together; what is suggested to whom. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/lora.h"

#define DATA ZOE_TEST_DATA "/"
enum { MOST_STEPS = 8 };

/* What a run shows of itself. */
typedef struct seen {
    float *noise, *y, *still, *context, *last;
    size_t count, rows, extent[4], still_count; /* of the latent, of the context */
    size_t conditional, unconditional, computed, high, steps;
} seen;

static void keep(float **copy, zoe_tensor value)
{
    const size_t bytes = zoe_tensor_count(value) * sizeof **copy;
    assert_null(*copy);
    *copy = malloc(bytes);
    assert_non_null(*copy);
    memcpy(*copy, value.data, bytes);
}

static void on_value(void *user, const char *name, size_t step, zoe_tensor value)
{
    seen *s = user;
    (void)step;
    s->conditional += strcmp(name, "v_cond") == 0;
    s->unconditional += strcmp(name, "v_uncond") == 0;
    if (strcmp(name, "noise") == 0) {
        keep(&s->noise, value);
        s->count = zoe_tensor_count(value);
        for (size_t i = 0; i < 4; i++)
            s->extent[i] = value.shape[i];
    } else if (strcmp(name, "y") == 0) {
        keep(&s->y, value);
    } else if (strcmp(name, "still") == 0) {
        keep(&s->still, value);
        s->still_count = zoe_tensor_count(value);
    } else if (strcmp(name, "context") == 0) {
        keep(&s->context, value);
        s->rows = value.shape[0];
    } else if (strcmp(name, "latent_final") == 0) {
        keep(&s->last, value);
    }
}

static void on_step(void *user, const zoe_job_step *step)
{
    seen *s = user;
    s->steps++;
    s->high += !step->low_noise;
    s->computed += step->branch[0].computed + step->branch[1].computed;
}

static void drop(seen *s)
{
    free(s->noise);
    free(s->y);
    free(s->still);
    free(s->context);
    free(s->last);
}

static void set_list(zoe_job_params *p, size_t n, const double *list)
{
    p->step_list_count = n;
    memcpy(p->step_list, list, n * sizeof *list);
    p->solver = ZOE_SOLVER_EULER;
    p->guide_low = p->guide_high = 1.0;
}

static zoe_job_params request(seen *s)
{
    zoe_job_params p;
    zoe_job_params_init(&p);
    p.prompt = "A white cat sits.";
    p.width = p.height = 64;
    p.frames = 5;
    p.seed = 1;
    p.observe = on_value;
    p.step_done = on_step;
    p.latents_out = "never.safetensors";
    p.user = s;
    return p;
}

/* The two experts of e2e_i2v, or the one of e2e_ti2v with its picture as a still frame. */
static zoe_job_params request_of(seen *s, bool pair)
{
    zoe_job_params p = request(s);
    p.image = DATA "e2e_i2v/input.png";
    if (pair) {
        p.model = DATA "e2e_i2v/ckpt";
        return p;
    }
    p.transformer = DATA "e2e_ti2v/ckpt";
    p.vae = DATA "e2e_ti2v/ckpt_safetensors/vae.safetensors";
    p.text_encoder = DATA "e2e_i2v/ckpt/models_t5_umt5-xxl-enc-bf16.pth";
    p.tokenizer = DATA "e2e_i2v/ckpt/google/umt5-xxl";
    return p;
}

static void must(zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
}

/* ---- the method, by hand ---- */

/* One network that is opened anew for each step. */
static void predict(zoe_context *ctx, const char *folder, const seen *s, float *velocity,
                    const float *latent, double t)
{
    char config[200];
    zoe_store *store;
    zoe_wan *wan;
    zoe_wan_text *text;
    zoe_wan_work *work;
    snprintf(config, sizeof config, "%s/config.json", folder);
    must(ctx, zoe_expert_open(ctx, &store, &wan, folder, config, false));
    must(ctx, zoe_wan_text_new(ctx, &text, wan, s->context, s->rows, NULL));
    must(ctx, zoe_wan_work_new(ctx, &work, zoe_wan_dims_of(wan), false, s->extent[1], s->extent[2],
                               s->extent[3]));
    must(ctx, zoe_wan_forward_still(ctx, wan, work, velocity, latent, s->y, text, t,
                                    s->still ? 1 : 0, NULL));
    zoe_wan_work_free(work);
    zoe_wan_text_free(text);
    zoe_wan_close(wan);
    zoe_store_close(store);
}

/* The picture's latent is frame 0 of each channel. */
static void impose(const seen *s, float *latent)
{
    const size_t plane = s->extent[2] * s->extent[3];
    for (size_t c = 0; c < s->extent[0] && s->still; c++)
        memcpy(latent + c * s->extent[1] * plane, s->still + c * plane, plane * sizeof *latent);
}

/* x <- x - sigma v, then + sigma' v but for the last step: in this order as LightX2V has it
 * (Wan22StepDistillScheduler.step_post). */
static float *sample_by_hand(zoe_context *ctx, const seen *s, size_t n, const double *list,
                             double shift, const char *high, const char *low, size_t boundary)
{
    float *x = malloc(s->count * sizeof *x), *v = malloc(s->count * sizeof *v);
    float sigma[MOST_STEPS + 1] = {0.0f};
    assert_non_null(x);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        sigma[i] = (float)(shift * list[i] / (1000.0 + (shift - 1.0) * list[i]));
    memcpy(x, s->noise, s->count * sizeof *x);
    impose(s, x);
    for (size_t i = 0; i < n; i++) {
        predict(ctx, i < boundary ? high : low, s, v, x, (double)(1000.0f * sigma[i]));
        for (size_t k = 0; k < s->count; k++) {
            const float clean = x[k] - sigma[i] * v[k];
            x[k] = i + 1 < n ? clean + sigma[i + 1] * v[k] : clean;
        }
        impose(s, x);
    }
    free(v);
    return x;
}

static double difference(const float *a, const float *b, size_t n)
{
    double d = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(d / size);
}

/* ---- runs ---- */

typedef struct run_row {
    bool pair;
    size_t n, boundary_step, high; /* high: the steps of that expert */
    double list[MOST_STEPS], shift, boundary;
} run_row;

static const run_row run_rows[] = {
    {true, 4, 2, 2, {1000, 750, 500, 250}, 5.0, 0.9},
    {true, 4, 1, 1, {1000, 750, 500, 250}, 5.0, 0.9},
    {true, 4, 0, 0, {1000, 750, 500, 250}, 5.0, 0.0},
    {true, 4, 4, 4, {1000, 750, 500, 250}, 5.0, 1.0},
    {true, 4, ZOE_NO_BOUNDARY_STEP, 2, {1000, 750, 500, 250}, 5.0, 0.9},
    {true, 4, ZOE_NO_BOUNDARY_STEP, 3, {1000, 750, 500, 250}, 12.0, 0.9},
    {true, 4, 2, 2, {1000, 750, 500, 250}, 12.0, 0.9},
    {true, 3, 1, 1, {987.5, 600, 0.5}, 3.0, 0.9},
    {true, 1, 1, 1, {1000}, 5.0, 0.9},
    {false, 4, ZOE_NO_BOUNDARY_STEP, 4, {1000, 750, 500, 250}, 5.0, 0.9},
    {false, 8, ZOE_NO_BOUNDARY_STEP, 8, {1000, 875, 750, 625, 500, 375, 250, 125}, 16.0, 0.9},
};

static void check_run(zoe_context *ctx, const run_row *row)
{
    seen s = {.noise = NULL};
    zoe_job *job;
    zoe_job_params p = request_of(&s, row->pair);
    set_list(&p, row->n, row->list);
    p.shift = row->shift;
    p.boundary = row->boundary;
    p.boundary_step = row->boundary_step;
    must(ctx, zoe_job_new(ctx, &job, &p));
    must(ctx, zoe_job_open(ctx, job));
    assert_int_equal(zoe_job_plan(job)->passes, row->n);
    assert_int_equal(zoe_job_plan(job)->high_steps, row->high);
    must(ctx, zoe_job_run(ctx, job));
    zoe_job_free(job);
    unlink(p.latents_out);

    assert_int_equal(s.conditional, row->n);
    assert_int_equal(s.unconditional, 0);
    assert_int_equal(s.computed, row->n);
    assert_int_equal(s.steps, row->n);
    assert_int_equal(s.high, row->pair ? row->high : row->n);
    const char *high = row->pair ? DATA "e2e_i2v/ckpt/high_noise_model" : DATA "e2e_ti2v/ckpt";
    float *wanted = sample_by_hand(ctx, &s, row->n, row->list, row->shift, high,
                                   DATA "e2e_i2v/ckpt/low_noise_model", row->high);
    const double d = difference(s.last, wanted, s.count);
    if (!(d < 1e-6))
        fail_msg("shift %g, boundary step %zu: the latent differs by %g", row->shift,
                 row->boundary_step, d);
    free(wanted);
    drop(&s);
}

static void runs_are_eulers_method(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    (void)state;
    for (size_t i = 0; i < sizeof run_rows / sizeof *run_rows; i++)
        check_run(ctx, &run_rows[i]);
    zoe_context_free(ctx);
}

/* ---- what does not go together ---- */

static void refuse(zoe_context *ctx, const zoe_job_params *p, const char *word)
{
    zoe_job *job;
    zoe_context_clear(ctx);
    zoe_status status = zoe_job_new(ctx, &job, p);
    if (status == ZOE_OK) {
        status = zoe_job_open(ctx, job);
        zoe_job_free(job);
    }
    assert_int_equal(status, ZOE_INVALID);
    if (!strstr(zoe_context_message(ctx), word))
        fail_msg("\"%s\" lacks \"%s\"", zoe_context_message(ctx), word);
}

static void impossible_lists_are_refused(void **state)
{
    static const double list[] = {1000, 750, 500, 250};
    zoe_context *ctx = zoe_context_new(1);
    zoe_job_params p;
    (void)state;
#define REFUSE(change, word)                                                                       \
    p = request_of(NULL, true);                                                                    \
    set_list(&p, 4, list);                                                                         \
    change;                                                                                        \
    refuse(ctx, &p, word)
    REFUSE(p.solver = ZOE_SOLVER_UNIPC, "goes with Euler");
    REFUSE(p.solver = ZOE_SOLVER_DPMPP, "goes with Euler");
    REFUSE(p.step_list[0] = 1000.5, "step 1 is 1000.5");
    REFUSE(p.step_list[3] = 0, "step 4 is 0");
    REFUSE(p.step_list[3] = -1, "step 4 is -1");
    REFUSE(p.step_list[2] = (double)NAN, "step 3 is");
    REFUSE(p.step_list[2] = 750, "750 stands after 750");
    REFUSE(p.step_list[1] = 400, "500 stands after 400");
    REFUSE(p.step_list_count = ZOE_JOB_STEP_LIST + 1, "65 steps; up to 64");
    REFUSE(p.boundary_step = 5, "boundary step: 5; 0 to 4");
    p = request_of(NULL, true);
    p.steps = 7;
    p.boundary_step = 8;
    refuse(ctx, &p, "boundary step: 8; 0 to 7");
    p = request_of(NULL, false);
    p.boundary_step = 2;
    refuse(ctx, &p, "one transformer for all steps");
    zoe_context_free(ctx);
}

/* By number also without a list. */
static void even_steps_have_a_boundary_step(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    (void)state;
    for (size_t n = 0; n <= 6; n += 3) {
        zoe_job *job;
        zoe_job_params p = request_of(NULL, true);
        p.steps = 6;
        p.guide_high = 1.0;
        p.boundary_step = n;
        must(ctx, zoe_job_new(ctx, &job, &p));
        must(ctx, zoe_job_open(ctx, job));
        assert_int_equal(zoe_job_plan(job)->high_steps, n);
        assert_int_equal(zoe_job_plan(job)->low_steps, 6 - n);
        assert_int_equal(zoe_job_plan(job)->passes, n + 2 * (6 - n));
        zoe_job_free(job);
    }
    zoe_context_free(ctx);
}

/* ---- records ---- */

static void records_keep_lists(void **state)
{
    static const double list[] = {1000, 1000.0 / 3.0, 0.1};
    zoe_context *ctx = zoe_context_new(1);
    zoe_job job = {0};
    zoe_record *record;
    char *text;
    (void)state;
    zoe_job_params_init(&job.params);
    job.params.prompt = "A cat.";
    must(ctx, zoe_record_make(ctx, &text, &job, NULL));
    assert_null(strstr(text, "step_list"));
    assert_null(strstr(text, "boundary_step"));
    must(ctx, zoe_record_parse(ctx, &record, text, strlen(text), "r", false));
    assert_int_equal(zoe_record_params(record)->step_list_count, 0);
    assert_true(zoe_record_params(record)->boundary_step == ZOE_NO_BOUNDARY_STEP);
    zoe_record_free(record);
    zoe_free(text);

    set_list(&job.params, 3, list);
    job.params.steps = 3;
    job.params.boundary_step = 0;
    must(ctx, zoe_record_make(ctx, &text, &job, NULL));
    must(ctx, zoe_record_parse(ctx, &record, text, strlen(text), "r", false));
    const zoe_job_params *p = zoe_record_params(record);
    assert_int_equal(p->step_list_count, 3);
    assert_memory_equal(p->step_list, list, sizeof list);
    assert_int_equal(p->boundary_step, 0);
    assert_int_equal(p->solver, ZOE_SOLVER_EULER);

    zoe_differences d = {.used = 0};
    zoe_request_differences(&d, p, &job.params);
    assert_string_equal(d.text, "");
    job.params.step_list[2] = 0.2;
    job.params.boundary_step = 2;
    zoe_request_differences(&d, p, &job.params);
    assert_string_equal(d.text,
                        "step list: 1000, 333.333333, 0.1 in the checkpoint, 1000, 333.333333, 0.2 "
                        "asked for; boundary step: 0 in the checkpoint, 2 asked for");
    zoe_record_free(record);
    zoe_free(text);
    zoe_context_free(ctx);
}

/* A member of a sound record is replaced. */
static void records_are_not_trusted(void **state)
{
    static const struct {
        const char *key, *value;
    } rows[] = {
        {"step_list", "[]"},
        {"step_list", "{}"},
        {"step_list", "\"1000\""},
        {"step_list", "[1000, 750]"}, /* of four steps */
        {"step_list", "[1000, 750, 500, \"250\"]"},
        {"step_list", "[1000, 750, 500, 500]"},
        {"step_list", "[1001, 750, 500, 250]"},
        {"step_list", "[1000, 750, 500, -1e308]"},
        {"steps", "100"},
        {"solver", "\"unipc\""},
        {"boundary_step", "5"},
        {"boundary_step", "-1"},
        {"boundary_step", "2.0"},
        {"boundary_step", "9223372036854775807"},
    };
    static const double list[] = {1000, 750, 500, 250};
    zoe_context *ctx = zoe_context_new(1);
    zoe_job job = {0};
    char *sound;
    (void)state;
    zoe_job_params_init(&job.params);
    job.params.prompt = "A cat.";
    job.params.steps = 4;
    job.params.boundary_step = 2;
    set_list(&job.params, 4, list);
    must(ctx, zoe_record_make(ctx, &sound, &job, NULL));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = json_loads(sound, 0, NULL);
        zoe_record *record;
        assert_int_equal(json_object_set_new(root, rows[i].key,
                                             json_loads(rows[i].value, JSON_DECODE_ANY, NULL)),
                         0);
        char *text = json_dumps(root, 0);
        zoe_context_clear(ctx);
        if (zoe_record_parse(ctx, &record, text, strlen(text), "r", false) != ZOE_FORMAT)
            fail_msg("%s %s: %s", rows[i].key, rows[i].value, zoe_context_message(ctx));
        assert_null(record);
        free(text);
        json_decref(root);
    }
    zoe_free(sound);
    zoe_context_free(ctx);
}

/* Lists that differ in a bit are two runs. */
static void identities_differ(void **state)
{
    static const double list[] = {1000, 500};
    zoe_context *ctx = zoe_context_new(1);
    zoe_job job = {0};
    char digests[4][ZOE_DIGEST_TEXT];
    (void)state;
    zoe_job_params_init(&job.params);
    job.params.prompt = "A cat.";
    must(ctx, zoe_sources_identity(ctx, &job, digests[0]));
    set_list(&job.params, 2, list);
    must(ctx, zoe_sources_identity(ctx, &job, digests[1]));
    job.params.step_list[1] = nextafter(500.0, 0.0);
    must(ctx, zoe_sources_identity(ctx, &job, digests[2]));
    job.params.boundary_step = 0;
    must(ctx, zoe_sources_identity(ctx, &job, digests[3]));
    for (size_t a = 0; a < 4; a++)
        for (size_t b = 0; b < a; b++)
            assert_string_not_equal(digests[a], digests[b]);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_eulers_method),
        cmocka_unit_test(impossible_lists_are_refused),
        cmocka_unit_test(even_steps_have_a_boundary_step),
        cmocka_unit_test(records_keep_lists),
        cmocka_unit_test(records_are_not_trusted),
        cmocka_unit_test(identities_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
