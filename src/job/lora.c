/* LoRAs of a job: strengths, files, and what a plan and an identity need to know of them. */
#include "job/lora.h"
#include "job/step_cache.h"

#include <stdio.h>

static const char *const expert_names[ZOE_EXPERTS] = {
    [ZOE_HIGH_NOISE] = "high-noise", [ZOE_LOW_NOISE] = "low-noise"};

static double strength_of(const zoe_job_params *p, size_t i, size_t expert)
{
    return expert == ZOE_HIGH_NOISE ? p->loras[i].high : p->loras[i].low;
}

/* ---- what is asked for ---- */

zoe_status zoe_loras_check_numbers(zoe_context *ctx, const zoe_job_params *p)
{
    const double most = 1000.0;
    if (p->lora_count > ZOE_JOB_LORAS)
        return zoe_fail(ctx, ZOE_INVALID, "%zu LoRAs; up to %d can be used at once", p->lora_count,
                        (int)ZOE_JOB_LORAS);
    for (size_t i = 0; i < p->lora_count; i++) {
        const char *path = p->loras[i].path;
        if (!path || !*path)
            return zoe_fail(ctx, ZOE_INVALID, "LoRA %zu: the path is empty", i + 1);
        for (size_t e = 0; e < ZOE_EXPERTS; e++) {
            const double strength = strength_of(p, i, e);
            if (fabs(strength) > most)
                return zoe_fail(ctx, ZOE_INVALID,
                                "%s: strength %g with the %s expert; -%g to %g is wanted", path,
                                strength, expert_names[e], most, most);
        }
    }
    return ZOE_OK;
}

zoe_status zoe_loras_resolve(zoe_context *ctx, zoe_job *job)
{
    for (size_t i = 0; i < job->params.lora_count; i++) {
        zoe_job_lora *l = &job->params.loras[i];
        zoe_lora_hint *hint = &job->lora_hint[i];
        TRY(zoe_lora_hint_of(ctx, hint, l->path));
        const bool one = hint->high != hint->low, asked = !isnan(l->high) && !isnan(l->low);
        if (isnan(l->high))
            l->high = one && hint->low ? 0.0 : 1.0;
        if (isnan(l->low))
            l->low = one && hint->high ? 0.0 : 1.0;
        if (asked && one && (hint->high ? l->low : l->high) != 0.0)
            zoe_log(ctx, ZOE_WARNING,
                    "%s: by its name made for the %s expert; it is used with the other one too, "
                    "as asked for",
                    l->path, expert_names[hint->high ? ZOE_HIGH_NOISE : ZOE_LOW_NOISE]);
    }
    return ZOE_OK;
}

/* ---- files ---- */

static bool is_used(const zoe_job *job, size_t i)
{
    bool used = false;
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        used = used || job->lora[e][i];
    return used;
}

static zoe_status open_one(zoe_context *ctx, zoe_job *job, size_t i, size_t expert)
{
    const zoe_job_lora *l = &job->params.loras[i];
    double strength = strength_of(&job->params, i, expert);
    /* The experts of a pair are none of this model's: whichever strength is given counts. */
    if (job->parts.transformers == 1 && strength == 0.0)
        strength = l->low;
    else if (job->parts.transformers == 1 && l->low != 0.0 && l->low != l->high)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: strengths %g and %g; the model has one transformer, and one number is "
                        "wanted",
                        l->path, l->high, l->low);
    if (strength == 0.0)
        return ZOE_OK;
    TRY(zoe_lora_open(ctx, &job->lora[expert][i], l->path, job->expert_store[expert]));
    TRY(zoe_wan_adapt(ctx, job->wan[expert], job->lora[expert][i], (float)strength));
    const zoe_lora_summary s = zoe_lora_summary_of(job->lora[expert][i]);
    zoe_log(ctx, ZOE_INFO,
            "%s: %zu products of rank up to %zu and %zu differences for the %s, strength %g",
            l->path, s.products, s.rank, s.differences,
            !job->wan[ZOE_LOW_NOISE]   ? "transformer"
            : expert == ZOE_HIGH_NOISE ? "high-noise expert"
                                       : "low-noise expert",
            strength);
    return ZOE_OK;
}

static bool is_distilled(const zoe_job *job, size_t i)
{
    return is_used(job, i) && job->lora_hint[i].steps > 0;
}

/* ---- made for few steps, and run so? ---- */

enum { HINT_STEPS = 16, FEW_STEPS = 8 };

/* The names of the transformers and of the model's folder: the first one that tells of few steps. */
static zoe_status read_model_hint(zoe_context *ctx, zoe_job *job)
{
    const char *const paths[] = {job->parts.expert[ZOE_HIGH_NOISE],
                                 job->parts.expert[ZOE_LOW_NOISE], job->params.model};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && job->model_hint.steps == 0; i++)
        if (paths[i])
            TRY(zoe_lora_hint_of(ctx, &job->model_hint, paths[i]));
    return ZOE_OK;
}

/* How a model or LoRA for n steps is run by those who made it (LightX2V, configs/wan22): the half of
 * the steps is the high-noise expert's. */
typedef struct manner {
    const char *path; /* what tells that there is such a manner; NULL: nothing does */
    const char *word;
    size_t n, boundary_step;
    double list[HINT_STEPS], shift;
} manner;

static manner find_manner(const zoe_job *job)
{
    /* Between two pictures they shift as the official FLF2V does. */
    manner m = {.shift = job->params.last_image ? 16.0 : 5.0};
    const zoe_lora_hint *hint = NULL;
    for (size_t i = 0; i < job->params.lora_count && !hint; i++)
        if (is_distilled(job, i)) {
            hint = &job->lora_hint[i];
            m.path = job->params.loras[i].path;
        }
    if (!hint && job->model_hint.steps > 0) {
        hint = &job->model_hint;
        m.path = job->params.model ? job->params.model : job->parts.expert[ZOE_HIGH_NOISE];
    }
    if (!hint)
        return m;
    m.word = hint->word;
    m.n = hint->steps < HINT_STEPS ? hint->steps : HINT_STEPS;
    m.boundary_step = (m.n + 1) / 2;
    for (size_t i = 0; i < m.n; i++)
        m.list[i] = round(1000.0 * (double)(m.n - i) / (double)m.n);
    return m;
}

static bool is_guided(const zoe_job_params *p)
{
    return p->guide_high != 1.0 || p->guide_low != 1.0;
}

/* Does the run come to that: the same noise levels, solver and experts, one pass each? */
static zoe_status compare_manner(zoe_context *ctx, bool *same, const zoe_job *job, const manner *m)
{
    const double close = 1e-4;
    zoe_schedule wanted;
    TRY(zoe_schedule_new_list(ctx, &wanted, m->list, m->n, m->shift));
    *same = job->schedule.steps == m->n && job->params.solver == ZOE_SOLVER_EULER &&
            !is_guided(&job->params) && !zoe_step_cache_is_on(job);
    for (size_t i = 0; i < m->n && *same; i++) {
        const zoe_expert expert = i < m->boundary_step ? ZOE_HIGH_NOISE : ZOE_LOW_NOISE;
        *same = fabs((double)job->schedule.sigma[i] - (double)wanted.sigma[i]) < close &&
                (job->parts.transformers == 1 || zoe_job_expert(job, i) == expert);
    }
    zoe_schedule_free(&wanted);
    return ZOE_OK;
}

/* What to type for it. */
static void list_options(char *text, size_t room, const zoe_job *job, const manner *m)
{
    size_t used = (size_t)snprintf(text, room, "--step-list ");
    for (size_t i = 0; i < m->n; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%g", i > 0 ? "," : "", m->list[i]);
    if (job->parts.transformers == 2)
        used +=
            (size_t)snprintf(text + used, room - used, " --boundary-step %zu", m->boundary_step);
    used += (size_t)snprintf(text + used, room - used, " --guide-scale 1 --solver euler --shift %g",
                             m->shift);
    if (zoe_step_cache_is_on(job))
        snprintf(text + used, room - used, " --cache NoCache");
}

/* A run with guidance, many steps or another shift would burn or blur the picture, which deserves a
 * warning; what is near is a matter of taste. */
static zoe_status suggest_manner(zoe_context *ctx, const zoe_job *job, const manner *m)
{
    static const char *const solvers[] = {
        [ZOE_SOLVER_UNIPC] = "UniPC", [ZOE_SOLVER_DPMPP] = "DPM++", [ZOE_SOLVER_EULER] = "Euler"};
    const zoe_job_params *p = &job->params;
    const bool far = is_guided(p) || p->steps > 2 * m->n || p->shift != m->shift;
    char options[320];
    bool same;
    TRY(compare_manner(ctx, &same, job, m));
    if (same)
        return ZOE_OK;
    list_options(options, sizeof options, job, m);
    zoe_log(
        ctx, far ? ZOE_WARNING : ZOE_INFO,
        "%s: by its name (\"%s\") made for %zu steps without guidance; the run has %zu steps of "
        "%s with shift %g and guidance %g,%g: %s would fit",
        m->path, m->word, m->n, p->steps, solvers[p->solver], p->shift, p->guide_low, p->guide_high,
        options);
    return ZOE_OK;
}

/* The other way round: a full model in few steps without guidance gives a blur. */
static void warn_of_full_model(zoe_context *ctx, const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    if (!is_guided(p) && (p->step_list_count > 0 || p->steps <= FEW_STEPS))
        zoe_log(
            ctx, ZOE_WARNING,
            "%zu step%s without guidance %s for models distilled to few steps, and no name of the "
            "model or a LoRA tells that it is one: a full model wants its own number of steps, and "
            "guidance (leave out --step-list, --steps and --guide-scale)",
            p->steps, p->steps == 1 ? "" : "s", p->steps == 1 ? "is" : "are");
}

static zoe_status compare_with_names(zoe_context *ctx, const zoe_job *job)
{
    const manner m = find_manner(job);
    if (m.path)
        return suggest_manner(ctx, job, &m);
    warn_of_full_model(ctx, job);
    return ZOE_OK;
}

/* ---- files, all of them ---- */

zoe_status zoe_loras_open(zoe_context *ctx, zoe_job *job)
{
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        for (size_t i = 0; i < job->params.lora_count && job->wan[e]; i++)
            TRY(open_one(ctx, job, i, e));
    for (size_t i = 0; i < job->params.lora_count; i++)
        if (!is_used(job, i))
            zoe_log(ctx, ZOE_WARNING, "%s: its strength is 0, it changes nothing",
                    job->params.loras[i].path);
    TRY(read_model_hint(ctx, job));
    return compare_with_names(ctx, job);
}

void zoe_loras_close(zoe_job *job, size_t expert)
{
    for (size_t i = 0; i < ZOE_JOB_LORAS; i++) {
        zoe_lora_close(job->lora[expert][i]);
        job->lora[expert][i] = NULL;
    }
}

zoe_status zoe_loras_check(zoe_context *ctx, const zoe_job *job, zoe_expert expert)
{
    for (size_t i = 0; i < job->params.lora_count; i++)
        if (job->lora[expert][i])
            TRY(zoe_store_check(ctx, zoe_lora_store(job->lora[expert][i])));
    return ZOE_OK;
}

void zoe_loras_drop(const zoe_job *job, zoe_expert expert)
{
    for (size_t i = 0; i < job->params.lora_count; i++)
        if (job->lora[expert][i])
            zoe_store_drop(zoe_lora_store(job->lora[expert][i]));
}

/* ---- the plan ---- */

size_t zoe_loras_bytes(const zoe_job *job, size_t expert)
{
    size_t bytes = 0;
    for (size_t i = 0; i < job->params.lora_count; i++)
        if (job->lora[expert][i] &&
            !zoe_size_add(&bytes, bytes, zoe_store_bytes(zoe_lora_store(job->lora[expert][i]))))
            return SIZE_MAX;
    return bytes;
}

zoe_wan_dims zoe_loras_dims(const zoe_job *job)
{
    zoe_wan_dims dims = *zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    if (job->wan[ZOE_LOW_NOISE]) {
        const size_t rank = zoe_wan_dims_of(job->wan[ZOE_LOW_NOISE])->adapter_rank;
        dims.adapter_rank = rank > dims.adapter_rank ? rank : dims.adapter_rank;
    }
    dims.int8 = job->params.int8;
    return dims;
}

bool zoe_loras_distilled(const zoe_job *job)
{
    bool distilled = job->model_hint.steps > 0;
    for (size_t i = 0; i < job->params.lora_count; i++)
        distilled = distilled || is_distilled(job, i);
    return distilled;
}

/* ---- by content ---- */

zoe_status zoe_loras_fingerprint(zoe_context *ctx, zoe_job *job)
{
    for (size_t i = 0; i < job->params.lora_count; i++)
        for (size_t e = 0; e < ZOE_EXPERTS; e++)
            if (job->lora[e][i] && !job->sources.loras[i][0])
                TRY(zoe_lora_digest(ctx, job->lora[e][i], job->sources.loras[i]));
    return ZOE_OK;
}

void zoe_loras_identify(const zoe_job *job, zoe_digest *digest)
{
    const zoe_job_params *p = &job->params;
    for (size_t i = 0; i < p->lora_count; i++) {
        char numbers[100];
        snprintf(numbers, sizeof numbers, "LoRA %zu %.17g %.17g", i, p->loras[i].high,
                 p->loras[i].low);
        zoe_digest_add_text(digest, numbers);
        zoe_digest_add_text(digest, job->sources.loras[i]);
    }
}

zoe_status zoe_loras_describe(zoe_context *ctx, char **text, const zoe_job *job)
{
    TRY(zoe_strdup(ctx, text, ""));
    for (size_t i = 0; i < job->params.lora_count; i++) {
        const zoe_job_lora *l = &job->params.loras[i];
        char *before = *text;
        const zoe_status status = zoe_strf(ctx, text, "%s, LoRA: %s (high %g, low %g)", before,
                                           zoe_path_name(l->path), l->high, l->low);
        if (status != ZOE_OK)
            *text = NULL;
        zoe_free(before);
        TRY(status);
    }
    return ZOE_OK;
}
