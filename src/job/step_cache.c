/* Between a job and the step cache of the room sample. */
#include "job/step_cache.h"

#include "job/lora.h"

zoe_status zoe_step_cache_read(zoe_context *ctx, zoe_job *job)
{
    if (job->params.cache)
        TRY(zoe_cache_params_parse(ctx, &job->cache_params, job->params.cache));
    else
        zoe_cache_params_init(&job->cache_params, ZOE_CACHE_NONE, ZOE_CACHE_ZOETROPE);
    if (job->params.changed && zoe_step_cache_is_on(job))
        return zoe_fail(ctx, ZOE_INVALID,
                        "step cache %s: what changes from step to step is measured in a run that "
                        "computes all of them; take NoCache",
                        job->params.cache);
    if (job->params.changed && job->params.checkpoint)
        return zoe_fail(ctx, ZOE_INVALID,
                        "checkpoint %s: what changes from step to step is measured in one run, and "
                        "is not kept; leave it out",
                        job->params.checkpoint);
    /* The first branch decides for both in any case: on ranks of their own, by the same agreement. */
    if (job->cache_params.method == ZOE_CACHE_EASY && job->cache_params.rule == ZOE_CACHE_ZOETROPE)
        job->cache_params.joint = true;
    return ZOE_OK;
}

bool zoe_step_cache_is_on(const zoe_job *job)
{
    return job->cache_params.method != ZOE_CACHE_NONE;
}

static zoe_cache_shape shape_of(const zoe_job *job, size_t f, size_t h, size_t w)
{
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    return (zoe_cache_shape){.steps = job->schedule.steps,
                             .high_steps = job->plan.high_steps,
                             .tokens = f * (h / 2) * (w / 2),
                             .width = d->dim,
                             .blocks = d->layers,
                             .latent = f * h * w * d->out_dim,
                             .distilled = zoe_loras_distilled(job)};
}

static zoe_cache_shape planned_shape(const zoe_job *job)
{
    const zoe_plan *p = &job->plan;
    return shape_of(job, p->latent_frames, p->latent_height, p->latent_width);
}

/* With this rank's tokens. */
static zoe_cache_shape own_shape(const zoe_job *job, zoe_cache_shape whole)
{
    const zoe_ranks *r = &job->ranks;
    whole.tokens = zoe_share(whole.tokens, r->ulysses * r->ring, r->token).count;
    return whole;
}

zoe_status zoe_step_cache_check(zoe_context *ctx, const zoe_job *job)
{
    const zoe_cache_shape shape = planned_shape(job);
    return zoe_cache_check(ctx, &job->cache_params, &shape);
}

size_t zoe_step_cache_bytes(const zoe_job *job, size_t f, size_t h, size_t w)
{
    const zoe_cache_shape whole = shape_of(job, f, h, w), own = own_shape(job, whole);
    size_t bytes =
        job->params.changed ? zoe_gauge_bytes(&own) : zoe_cache_bytes(&job->cache_params, &own);
    return zoe_size_add(&bytes, bytes, zoe_step_cache_spread_bytes(job, &whole)) ? bytes : SIZE_MAX;
}

size_t zoe_step_cache_kept_bytes(const zoe_job *job)
{
    const zoe_cache_shape shape = planned_shape(job);
    zoe_cache_piece pieces[ZOE_CACHE_PIECES];
    size_t bytes = 0;
    if (zoe_step_cache_is_on(job))
        zoe_cache_pieces(&job->cache_params, &shape, pieces, &bytes);
    return bytes;
}

/* ---- while the steps run ---- */

zoe_status zoe_step_cache_begin(zoe_context *ctx, zoe_job *job)
{
    const zoe_cache_shape whole = planned_shape(job), own = own_shape(job, whole);
    TRY(zoe_cache_new(ctx, &job->cache, &job->cache_params, &own));
    TRY(zoe_step_cache_spread_begin(ctx, job, &whole, &own));
    return job->params.changed ? zoe_gauge_new(ctx, &job->gauge, &own) : ZOE_OK;
}

static zoe_cache_point point_of(const zoe_wan_point *p)
{
    return (zoe_cache_point){.block = p->block,
                             .hidden = p->hidden,
                             .embedding = p->embedding,
                             .projection = p->projection,
                             .shift = p->shift,
                             .scale = p->scale,
                             .eps = p->eps};
}

/* Before each block of a pass. */
static zoe_status route(zoe_context *ctx, void *user, const zoe_wan_point *p, size_t *next)
{
    const zoe_cache_point point = point_of(p);
    return zoe_cache_at(ctx, user, &point, next);
}

/* The same, when every block runs. */
static zoe_status look(zoe_context *ctx, void *user, const zoe_wan_point *p, size_t *next)
{
    const zoe_cache_point point = point_of(p);
    *next = p->block;
    return zoe_gauge_at(ctx, user, &point);
}

void zoe_step_cache_attach(const zoe_job *job, zoe_wan_work *work)
{
    if (zoe_step_cache_is_on(job))
        zoe_wan_work_route(work, route, job->cache);
    else if (job->gauge)
        zoe_wan_work_route(work, look, job->gauge);
}

void zoe_step_cache_expect(const zoe_job *job, zoe_expert expert, size_t branch, size_t step)
{
    if (job->gauge)
        zoe_gauge_begin(job->gauge, step, expert, branch);
}

zoe_status zoe_step_cache_see(zoe_context *ctx, const zoe_job *job, size_t branch, size_t step)
{
    zoe_cache_change change;
    if (!job->gauge)
        return ZOE_OK;
    TRY(zoe_gauge_end(ctx, job->gauge, job->velocity[branch], &change));
    job->params.changed(job->params.user, step, zoe_job_expert(job, step) == ZOE_LOW_NOISE, branch,
                        &change);
    return ZOE_OK;
}

bool zoe_step_cache_state(const zoe_job *job, zoe_tensor *state)
{
    void *data;
    size_t bytes;
    if (!job->cache || !zoe_step_cache_is_on(job))
        return false;
    if (job->ranks.count > 1)
        return zoe_step_cache_spread_state(job, state);
    zoe_cache_state(job->cache, &data, &bytes);
    *state = zoe_tensor_1d(data, ZOE_U8, bytes);
    return true;
}

void zoe_step_cache_tell(const zoe_job *job, size_t step, double seconds)
{
    _Static_assert(ZOE_CACHE_BRANCHES ==
                       sizeof((zoe_job_step *)0)->branch / sizeof((zoe_job_step *)0)->branch[0],
                   "a step tells of every branch");
    zoe_job_step s = {.step = step,
                      .low_noise = zoe_job_expert(job, step) == ZOE_LOW_NOISE,
                      .noise = (double)job->schedule.sigma[step],
                      .seconds = seconds};
    if (!job->params.step_done)
        return;
    for (size_t b = 0; b < ZOE_CACHE_BRANCHES; b++) {
        const zoe_cache_trace *t = zoe_cache_trace_at(job->cache, step, b);
        s.branch[b].ran = t->seen;
        s.branch[b].computed = t->seen && t->computed;
        s.branch[b].distance = t->measured ? (double)t->distance : (double)NAN;
    }
    job->params.step_done(job->params.user, &s);
}

static void count_step(zoe_cache_outcome *o, const zoe_cache *cache, size_t step)
{
    bool seen = false, computed = false, high = false;
    for (size_t b = 0; b < ZOE_CACHE_BRANCHES; b++) {
        const zoe_cache_trace *t = zoe_cache_trace_at(cache, step, b);
        if (!t->seen)
            continue;
        seen = true;
        computed = computed || t->computed;
        high = t->expert == ZOE_HIGH_NOISE;
    }
    if (seen)
        ++*(high ? (computed ? &o->high_computed : &o->high_skipped)
                 : (computed ? &o->low_computed : &o->low_skipped));
}

void zoe_step_cache_end(zoe_job *job)
{
    zoe_cache_outcome *o = &job->cache_outcome;
    if (job->cache && zoe_step_cache_is_on(job)) {
        zoe_cache_report report;
        zoe_cache_report_of(job->cache, &report);
        *o = (zoe_cache_outcome){.used = true,
                                 .bad = report.bad,
                                 .smallest = report.smallest,
                                 .median = report.median,
                                 .largest = report.largest};
        for (size_t step = 0; step < job->schedule.steps; step++)
            count_step(o, job->cache, step);
    }
    zoe_step_cache_spread_end(job);
    zoe_cache_free(job->cache);
    zoe_gauge_free(job->gauge);
    job->cache = NULL;
    job->gauge = NULL;
}

const zoe_cache_outcome *zoe_job_cache_outcome(const zoe_job *job)
{
    return &job->cache_outcome;
}
