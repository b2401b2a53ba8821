/* B49: the library must not kill its host. Every refusal is a code and a sentence; nothing is printed; when an allocation
 * fails, whichever, the job ends with ZOE_NOMEM and holds nothing.
 *
 *     case_b49 CHECKPOINT PICTURE VIDEO */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "zoetrope/job.h"

static int failures;

static void expect(bool right, const char *what, size_t n, zoe_status status, const char *message)
{
    if (right)
        return;
    failures++;
    fprintf(stderr, "FAIL: %s, %zu: %s: %s\n", what, n, zoe_status_name(status), message);
}

/* new, open and, if wanted, run. */
static zoe_status job(zoe_context *ctx, const zoe_job_params *params, bool run)
{
    zoe_job *j = NULL;
    zoe_status status = zoe_job_new(ctx, &j, params);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, j);
    if (status == ZOE_OK && run)
        status = zoe_job_run(ctx, j);
    zoe_job_free(j);
    return status;
}

static void refusals(zoe_context *ctx, const zoe_job_params *good)
{
    struct {
        const char *what;
        zoe_job_params params;
        zoe_status wanted;
    } rows[] = {
        {"no model", *good, ZOE_INVALID},         {"no image", *good, ZOE_INVALID},
        {"no prompt", *good, ZOE_INVALID},        {"no output", *good, ZOE_INVALID},
        {"insane size", *good, ZOE_INVALID},      {"insane frames", *good, ZOE_INVALID},
        {"no steps", *good, ZOE_INVALID},         {"NaN for a shift", *good, ZOE_INVALID},
        {"picture for a VAE", *good, ZOE_FORMAT}, {"encoder for a transformer", *good, ZOE_MISSING},
    };
    rows[0].params.model = NULL;
    rows[1].params.image = NULL;
    rows[2].params.prompt = NULL;
    rows[3].params.out = NULL;
    rows[4].params.width = SIZE_MAX / 2;
    rows[5].params.frames = SIZE_MAX / 4 * 4 + 1;
    rows[6].params.steps = 0;
    rows[7].params.shift = NAN;
    rows[8].params.vae = good->image;
    rows[9].params.low_noise = good->text_encoder;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        zoe_context_clear(ctx);
        const zoe_status status = job(ctx, &rows[i].params, true);
        const char *message = zoe_context_message(ctx);
        expect(status == rows[i].wanted && *message, rows[i].what, i, status, message);
    }
    zoe_job_free(NULL);
}

/* The n-th allocation fails, for all n at first and then for ever fewer. True when the job got through. */
static bool starve(zoe_context *ctx, const zoe_job_params *params, bool run, size_t n)
{
    zoe_context_clear(ctx);
    zoe_alloc_fail_at(n);
    const zoe_status status = job(ctx, params, run);
    zoe_alloc_fail_at(0);
    const char *message = zoe_context_message(ctx);
    expect(status == ZOE_OK || (status == ZOE_NOMEM && *message), run ? "run" : "open", n, status,
           message);
    return status == ZOE_OK;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    zoe_context *ctx = zoe_context_new(1);
    char encoder[4096];
    zoe_job_params params;
    zoe_job_params_init(&params);
    snprintf(encoder, sizeof encoder, "%s/models_t5_umt5-xxl-enc-bf16.pth", argv[1]);
    params.model = argv[1];
    params.text_encoder = encoder;
    params.image = argv[2];
    params.out = argv[3];
    params.prompt = "A white cat sits.";
    params.width = params.height = 32;
    params.frames = 5;
    params.steps = 2;
    params.seed = 1;
    if (!ctx)
        return 1;
    refusals(ctx, &params);
    size_t n = 1;
    while (n < 1000000 && !starve(ctx, &params, false, n))
        n += 1 + n / 64;
    for (n = 1; n < 1000000 && !starve(ctx, &params, true, n);)
        n += 1 + n / 64;
    zoe_context_clear(ctx);
    const zoe_status status = job(ctx, &params, true);
    expect(status == ZOE_OK, "run after all that", n, status, zoe_context_message(ctx));
    zoe_context_free(ctx);
    return failures ? 1 : 0;
}
