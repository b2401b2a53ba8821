/* LoRAs of a job: strengths, files, and what a plan and an identity need to know of them. */
#include "job/lora.h"

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

/* Many steps with guidance would burn the picture; once, for the first. */
static void warn_of_steps(zoe_context *ctx, const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    for (size_t i = 0; i < p->lora_count; i++) {
        const zoe_lora_hint *hint = &job->lora_hint[i];
        const bool guided = p->guide_high != 1.0 || p->guide_low != 1.0;
        if (!is_distilled(job, i) || (!guided && p->steps <= 2 * hint->steps))
            continue;
        zoe_log(
            ctx, ZOE_WARNING,
            "%s: by its name (\"%s\") made for %zu steps without guidance; the run has %zu steps "
            "with guidance %g,%g: --steps %zu --guide-scale 1 --solver euler --shift 5 would "
            "fit",
            p->loras[i].path, hint->word, hint->steps, p->steps, p->guide_low, p->guide_high,
            hint->steps);
        return;
    }
}

zoe_status zoe_loras_open(zoe_context *ctx, zoe_job *job)
{
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        for (size_t i = 0; i < job->params.lora_count && job->wan[e]; i++)
            TRY(open_one(ctx, job, i, e));
    for (size_t i = 0; i < job->params.lora_count; i++)
        if (!is_used(job, i))
            zoe_log(ctx, ZOE_WARNING, "%s: its strength is 0, it changes nothing",
                    job->params.loras[i].path);
    warn_of_steps(ctx, job);
    return ZOE_OK;
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
    bool distilled = false;
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
