/* B38: what a step cache keeps belongs to one run, one expert and one branch.
 *
 *     case_B38_branches DATA */
#include "case.h"

enum { STEPS = 30, VALUES = 16 * 2 * 6 * 8 };

static const char *const methods[] = {
    "FBCache,threshold=10",
    "TeaCache,threshold=10",
    "TaylorSeer",
    "EasyCache,threshold=10",
    "MagCache,threshold=10,mag_ratios=i2v_A14B",
    "DBCache,threshold=10,Fn_compute_blocks=1",
};
enum { METHODS = sizeof methods / sizeof methods[0] };

/* Rules of other programs; there, some keep their state from run to run. */
static const char *const references[] = {
    "FBCache,rule=recipe,threshold=10",
    "FBCache,rule=paraattention,threshold=10",
    "FBCache,rule=diffusers,threshold=10",
    "TeaCache,rule=recipe,threshold=10",
    "TeaCache,rule=official,threshold=10,coefficients=wan2.1-i2v-720p",
    "TaylorSeer,rule=recipe",
    "EasyCache,rule=official,threshold=10",
    "MagCache,rule=official,threshold=10,mag_ratios=i2v_A14B,mode=t2v",
    "DBCache,rule=cache-dit,threshold=0.9,Fn_compute_blocks=1",
};
enum { REFERENCES = sizeof references / sizeof references[0] };

/* What is seen of a run. */
typedef struct sight {
    zoe_context *cancel_in; /* in step 20 */
    float cond[STEPS][VALUES], uncond[STEPS][VALUES], latent[VALUES];
} sight;

static void observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    sight *s = user;
    float *to = strcmp(name, "v_cond") == 0         ? s->cond[step]
                : strcmp(name, "v_uncond") == 0     ? s->uncond[step]
                : strcmp(name, "latent_final") == 0 ? s->latent
                                                    : NULL;
    if (!to)
        return;
    if (!case_expect(zoe_tensor_count(value) == VALUES, "%s is of another size", name))
        exit(1);
    memcpy(to, value.data, VALUES * sizeof *to);
    if (s->cancel_in && step == 20)
        zoe_cancel(s->cancel_in);
}

static zoe_status run(zoe_context *ctx, zoe_job_params params, sight *s, zoe_cache_outcome *outcome)
{
    zoe_job *job;
    params.observe = observe;
    params.user = s;
    zoe_status status = zoe_job_new(ctx, &job, &params);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, job);
    if (status == ZOE_OK)
        status = zoe_job_run(ctx, job);
    if (status == ZOE_OK)
        *outcome = *zoe_job_cache_outcome(job);
    zoe_job_free(job);
    return status;
}

/* A run after others in the same process, one of them broken off, is as the first. */
static void runs(zoe_context *ctx, zoe_job_params params, sight *s, sight *again)
{
    zoe_cache_outcome first, second;
    case_must(ctx, run(ctx, params, s, &first), params.cache);
    again->cancel_in = ctx;
    case_expect(run(ctx, params, again, &second) == ZOE_CANCELLED, "%s: not cancelled",
                params.cache);
    again->cancel_in = NULL;
    zoe_context_clear(ctx);
    params.seed++;
    case_must(ctx, run(ctx, params, again, &second), params.cache);
    case_expect(memcmp(s->latent, again->latent, sizeof s->latent) != 0, "%s: the seed is nothing",
                params.cache);
    params.seed--;
    case_must(ctx, run(ctx, params, again, &second), params.cache);
    case_expect(memcmp(s->latent, again->latent, sizeof s->latent) == 0,
                "%s: a second run is another one", params.cache);
    case_expect(first.high_skipped + first.low_skipped > 5 &&
                    first.high_skipped == second.high_skipped &&
                    first.low_skipped == second.low_skipped,
                "%s: %zu and %zu steps skipped, then %zu and %zu", params.cache, first.high_skipped,
                first.low_skipped, second.high_skipped, second.low_skipped);
}

/* What leaves out nothing gives the bytes of no cache, under every rule. */
static void nothing(zoe_context *ctx, zoe_job_params params, sight *s, sight *again)
{
    static const char *const thresholds[] = {"threshold=10", "threshold=0.9"};
    const char *method = params.cache;
    char text[200];
    zoe_cache_outcome outcome;
    snprintf(text, sizeof text, "%.120s,skip_interval_steps=1", method);
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(method, thresholds[i]);
        if (at)
            snprintf(text, sizeof text, "%.*sthreshold=0%.120s", (int)(at - method), method,
                     at + strlen(thresholds[i]));
    }
    params.cache = NULL;
    case_must(ctx, run(ctx, params, s, &outcome), "no cache");
    params.cache = text;
    case_must(ctx, run(ctx, params, again, &outcome), text);
    case_expect(outcome.high_skipped + outcome.low_skipped == 0, "%s leaves out something", text);
    case_expect(memcmp(s->latent, again->latent, sizeof s->latent) == 0, "%s is not as no cache",
                text);
}

/* With the same text in both branches they say the same in every step: neither reads nor moves what
 * the other one keeps. */
static void branches(zoe_context *ctx, zoe_job_params params, sight *s)
{
    zoe_cache_outcome outcome;
    params.negative_prompt = params.prompt;
    case_must(ctx, run(ctx, params, s, &outcome), params.cache);
    for (size_t i = 0; i < STEPS; i++)
        if (!case_expect(memcmp(s->cond[i], s->uncond[i], sizeof s->cond[i]) == 0,
                         "%s: the branches differ in step %zu", params.cache, i + 1))
            break;
}

/* Each expert computes first and leaves out later. Guidance that goes off with the switch is no other
 * schedule. */
static void experts(zoe_context *ctx, zoe_job_params params, sight *s)
{
    static const double scales[][2] = {{3.5, 3.5}, {1.0, 3.5}, {3.5, 1.0}, {1.0, 1.0}};
    zoe_cache_params cache;
    zoe_cache_shape shape = {.steps = STEPS, .high_steps = 11, .blocks = 2};
    bool known, computed[STEPS];
    size_t high = 0, low = 0;
    case_must(ctx, zoe_cache_params_parse(ctx, &cache, params.cache), params.cache);
    case_must(ctx, zoe_cache_foretell(ctx, &cache, &shape, &known, computed), params.cache);
    for (size_t i = 0; i < STEPS && known; i++)
        *(i < shape.high_steps ? &high : &low) += computed[i];
    case_expect(!known || computed[shape.high_steps], "%s: the switch is left out", params.cache);
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        zoe_cache_outcome o;
        params.guide_low = scales[i][0];
        params.guide_high = scales[i][1];
        case_must(ctx, run(ctx, params, s, &o), params.cache);
        case_expect(o.high_computed + o.high_skipped == 11 && o.low_computed + o.low_skipped == 19,
                    "%s: not every step is counted once", params.cache);
        case_expect(!known || (o.high_computed == high && o.low_computed == low),
                    "%s, guidance %g,%g: computed %zu and %zu, foretold %zu and %zu", params.cache,
                    params.guide_low, params.guide_high, o.high_computed, o.low_computed, high,
                    low);
        case_expect(o.high_computed > 0 && o.low_computed > 0 && o.high_skipped > 0 &&
                        o.low_skipped > 0,
                    "%s: an expert computes nothing or leaves nothing out", params.cache);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    zoe_context *ctx = case_context(1);
    sight *a = case_memory(2, sizeof *a), *b = a + 1;
    zoe_job_params params =
        case_params(case_path(argv[1], "e2e_i2v/ckpt"), case_path(argv[1], "e2e_i2v/input.png"));
    params.steps = STEPS;
    char folder[] = "/tmp/zoe-case-XXXXXX", out[64];
    if (!mkdtemp(folder))
        return 2;
    snprintf(out, sizeof out, "%s/l.safetensors", folder);
    params.latents_out = out;
    for (size_t i = 0; i < METHODS; i++) {
        params.cache = methods[i];
        runs(ctx, params, a, b);
        nothing(ctx, params, a, b);
        branches(ctx, params, a);
        experts(ctx, params, a);
    }
    for (size_t i = 0; i < REFERENCES; i++) {
        params.cache = references[i];
        runs(ctx, params, a, b);
        /* The official TeaCache's sum falls below 0, which is less than a threshold of 0. */
        if (strncmp(params.cache, "TeaCache,rule=official", 22) != 0)
            nothing(ctx, params, a, b);
    }
    remove(out);
    remove(folder);
    free(a);
    zoe_context_free(ctx);
    return case_failures > 0;
}
