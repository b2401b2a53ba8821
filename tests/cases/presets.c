/* The presets of cann-recipes-infer: a run with one leaves out the passes that its formulas say. The
 * formulas stand here a second time, from their description alone, and are fed with hidden states of
 * passes of our own that leave out nothing else than the blocks after the first.
 *
 *     case_presets MODEL IMAGE METHOD CACHE OUT
 *
 * METHOD FBCache or TeaCache, CACHE what --cache takes; prints the number of steps that were left out. */
#include "case.h"

enum {
    STEPS = 40,
    F = 2,
    H = 6,
    W = 8,
    CHANNELS = 16,
    VALUES = CHANNELS * F * H * W,
    TOKENS = F * H * W / 4
};

/* What was seen of the run. */
typedef struct sight {
    float latent[STEPS][VALUES];
    float *y, *context[2];
    size_t rows[2];
    zoe_job_step step[STEPS];
} sight;

static void keep(float **to, size_t *rows, zoe_tensor value)
{
    const size_t bytes = zoe_tensor_count(value) * sizeof **to;
    *rows = value.shape[0];
    *to = case_memory(1, bytes);
    memcpy(*to, value.data, bytes);
}

static void observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    sight *s = user;
    size_t unused;
    if (strcmp(name, "y") == 0)
        keep(&s->y, &unused, value);
    else if (strcmp(name, "context") == 0)
        keep(&s->context[0], &s->rows[0], value);
    else if (strcmp(name, "context_null") == 0)
        keep(&s->context[1], &s->rows[1], value);
    else if (strcmp(name, "latents") == 0 && zoe_tensor_count(value) == VALUES)
        memcpy(s->latent[step], value.data, sizeof s->latent[step]);
}

static void step_done(void *user, const zoe_job_step *step)
{
    ((sight *)user)->step[step->step] = *step;
}

/* ---- the judges ---- */

/* Of one pass: the hidden state after block 0, and the input of block 0 as TeaCache's patch makes it. */
typedef struct judges {
    size_t dim, blocks;
    float *hidden, *modulated; /* [TOKENS, dim] */
} judges;

/* (1 + s) * ((1 + s) * LN(h) + b) + b */
static void modulate(float *y, const float *h, const float *scale, const float *shift, size_t dim)
{
    double mean = 0.0, square = 0.0;
    for (size_t i = 0; i < dim; i++)
        mean += (double)h[i] / (double)dim;
    for (size_t i = 0; i < dim; i++)
        square += ((double)h[i] - mean) * ((double)h[i] - mean) / (double)dim;
    for (size_t i = 0; i < dim; i++) {
        const double norm = ((double)h[i] - mean) / sqrt(square + 1e-6), s = 1.0 + (double)scale[i];
        y[i] = (float)(s * (s * norm + (double)shift[i]) + (double)shift[i]);
    }
}

static zoe_status look(zoe_context *ctx, void *user, const zoe_wan_point *p, size_t *next)
{
    judges *j = user;
    (void)ctx;
    *next = p->block;
    if (p->block == 0)
        for (size_t t = 0; t < TOKENS; t++)
            modulate(j->modulated + t * j->dim, p->hidden + t * j->dim, p->scale, p->shift, j->dim);
    if (p->block == 1) {
        memcpy(j->hidden, p->hidden, TOKENS * j->dim * sizeof *j->hidden);
        *next = j->blocks;
    }
    return ZOE_OK;
}

/* The mean of |a - b| over that of |c|. */
static double change(const float *a, const float *b, const float *c, size_t n)
{
    double apart = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        apart += fabs((double)a[i] - (double)b[i]);
        size += fabs((double)c[i]);
    }
    return apart / (double)n / (size / (double)n + 1e-8);
}

/* ---- the formulas ---- */

typedef struct branch_state {
    bool kept;
    double sum;
    float *before; /* [TOKENS, dim] */
} branch_state;

/* Is the pass computed? measured: NAN if nothing was. */
static bool first_block(branch_state *s, const judges *j, double *measured)
{
    const size_t n = TOKENS * j->dim;
    *measured = s->kept ? change(j->hidden, s->before, j->hidden, n) : (double)NAN;
    if (*measured < 0.05)
        return false;
    memcpy(s->before, j->hidden, n * sizeof *s->before);
    return s->kept = true;
}

/* call: of the whole run, both branches counted; the count begins anew when it reaches the number of
 * steps. */
static bool tea(branch_state *s, const judges *j, size_t call, double *measured)
{
    static const double c[] = {733.226126, -401.131952, 67.5869174, -3.149879, 0.0961237896};
    const size_t n = TOKENS * j->dim, at = call % STEPS;
    *measured = (double)NAN;
    if (at < 2 || at >= STEPS - 2) {
        s->sum = 0.0;
        return true;
    }
    if (s->kept) {
        const double m = change(j->modulated, s->before, s->before, n);
        s->sum += fabs((((c[0] * m + c[1]) * m + c[2]) * m + c[3]) * m + c[4]);
        *measured = m;
        if (s->sum < 0.1)
            return false;
    }
    memcpy(s->before, j->modulated, n * sizeof *s->before);
    s->sum = 0.0;
    return s->kept = true;
}

static void compare(const sight *s, size_t step, size_t b, bool computed, double measured)
{
    const struct zoe_job_pass *seen = &s->step[step].branch[b];
    case_expect(seen->ran && seen->computed == computed,
                "step %zu, branch %zu: %s, and the formula says %s", step, b,
                seen->computed ? "computed" : "left out", computed ? "computed" : "left out");
    case_expect(isnan(measured) ? isnan(seen->distance)
                                : fabs(seen->distance - measured) <= 1e-4 * measured,
                "step %zu, branch %zu: measured %.9g, and it is %.9g", step, b, seen->distance,
                measured);
}

/* All passes again. */
static void replay(zoe_context *ctx, const zoe_job *job, const char *model, const char *method,
                   const sight *s)
{
    case_network n[2];
    judges j = {.dim = 0};
    branch_state state[2] = {{0}, {0}};
    float velocity[VALUES];
    for (size_t e = 0; e < 2; e++) {
        char folder[512];
        snprintf(folder, sizeof folder, "%s/%s", model,
                 e == 0 ? "high_noise_model" : "low_noise_model");
        n[e] = case_network_open(ctx, folder, F, H, W);
        zoe_wan_work_route(n[e].work, look, &j);
    }
    j.dim = zoe_wan_dims_of(n[0].wan)->dim;
    j.blocks = zoe_wan_dims_of(n[0].wan)->layers;
    j.hidden = case_memory(4 * TOKENS, j.dim * sizeof *j.hidden);
    j.modulated = j.hidden + TOKENS * j.dim;
    for (size_t b = 0; b < 2; b++)
        state[b].before = j.hidden + (2 + b) * TOKENS * j.dim;
    for (size_t call = 0; call < 2 * STEPS; call++) {
        const size_t step = call / 2, b = call % 2;
        const case_network *e = &n[s->step[step].low_noise];
        zoe_wan_text *text;
        double measured;
        case_must(ctx, zoe_wan_text_new(ctx, &text, e->wan, s->context[b], s->rows[b], NULL),
                  "text");
        case_must(ctx,
                  zoe_wan_forward(ctx, e->wan, e->work, velocity, s->latent[step], s->y, text,
                                  (double)job->schedule.timestep[step], NULL),
                  "forward");
        zoe_wan_text_free(text);
        const bool computed = strcmp(method, "FBCache") == 0 ? first_block(&state[b], &j, &measured)
                                                             : tea(&state[b], &j, call, &measured);
        compare(s, step, b, computed, measured);
    }
    free(j.hidden);
    for (size_t e = 0; e < 2; e++)
        case_network_close(&n[e]);
}

int main(int argc, char **argv)
{
    zoe_job *job;
    size_t skipped = 0;
    if (argc != 6)
        return 2;
    zoe_context *ctx = case_context(1);
    sight *s = case_memory(1, sizeof *s);
    zoe_job_params p = case_params(argv[1], argv[2]);
    p.prompt = "Summer beach vacation style, a white cat wearing sunglasses sits on a surfboard.";
    p.negative_prompt = NULL;
    p.steps = STEPS;
    p.seed = 100;
    p.cache = argv[4];
    p.no_metadata = true;
    p.latents_out = argv[5];
    p.observe = observe;
    p.step_done = step_done;
    p.user = s;
    case_must(ctx, zoe_job_new(ctx, &job, &p), "new");
    case_must(ctx, zoe_job_open(ctx, job), "open");
    case_must(ctx, zoe_job_run(ctx, job), "run");
    replay(ctx, job, argv[1], argv[3], s);
    for (size_t i = 0; i < STEPS; i++)
        skipped += !s->step[i].branch[0].computed && !s->step[i].branch[1].computed;
    printf("%zu\n", skipped);
    zoe_job_free(job);
    free(s->y);
    free(s->context[0]);
    free(s->context[1]);
    free(s);
    zoe_context_free(ctx);
    return case_failures > 0;
}
