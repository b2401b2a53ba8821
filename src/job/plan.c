/* What a run will take: steps, passes and bytes, known before anything heavy is loaded; and whether
 * memory suffices for it. */
#include "job/lora.h"
#include "job/step_cache.h"

#include <stdio.h>

enum {
    PROGRAM_BYTES = 64 << 20, /* the program itself with its libraries, and small things */
    MIB = 1 << 20
};

zoe_expert zoe_job_expert(const zoe_job *job, size_t step)
{
    return job->parts.transformers == 1
               ? ZOE_HIGH_NOISE
               : zoe_expert_of(job->schedule.timestep[step], job->params.boundary);
}

void zoe_plan_steps(zoe_job *job)
{
    zoe_plan *plan = &job->plan;
    for (size_t i = 0; i < job->schedule.steps; i++) {
        const bool high = zoe_job_expert(job, i) == ZOE_HIGH_NOISE;
        const double scale = high ? job->params.guide_high : job->params.guide_low;
        plan->high_steps += high;
        plan->low_steps += !high;
        plan->passes += scale == 1.0 ? 1 : 2;
    }
}

/* ---- bytes of each phase ---- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t sum(size_t a, size_t b)
{
    size_t r;
    return zoe_size_add(&r, a, b) ? r : SIZE_MAX;
}

/* What can be chosen so that a run takes less. */
typedef struct extent {
    size_t frames, height, width;
} extent;

/* Bytes held at once in each phase: mapped weights, which the system may drop and read again, and
 * everything else. */
typedef struct need {
    size_t weights[ZOE_PHASE_COUNT], work[ZOE_PHASE_COUNT];
} need;

/* Everything that is counted: the job with all its headers open, and its VAE. */
typedef struct counter {
    const zoe_context *ctx;
    const zoe_job *job;
    const zoe_vae *vae;
} counter;

/* A part that a model need not have. */
static size_t store_bytes(const zoe_store *store)
{
    return store ? zoe_store_bytes(store) : 0;
}

static bool makes_frames(const zoe_job *job)
{
    return job->params.out || job->params.frames_out || !job->params.latents_out;
}

/* What lives in every phase. */
static size_t count_fixed(const zoe_job *job, size_t f, size_t plane, size_t pixels)
{
    const size_t cells = f * plane;
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const size_t still = zoe_still_frames(job) * plane * d->out_dim;
    const size_t condition = cells * (d->in_dim - d->out_dim), latents = 4 * cells * d->out_dim;
    const size_t contexts = (job->plan.prompt_tokens + job->plan.negative_tokens) * d->text_dim;
    const size_t features = job->feature_rows * d->image_dim;
    const size_t ends = (job->params.image ? 1u : 0u) + (job->params.last_image ? 1u : 0u);
    const size_t side = job->clip ? zoe_clip_side(job->clip) : 0;
    size_t bytes = PROGRAM_BYTES + (condition + still + latents + contexts + features +
                                    3 * ends * (pixels + side * side)) *
                                       sizeof(float);
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (job->wan[e])
            bytes = sum(bytes, zoe_wan_weight_bytes(job->wan[e]));
    return bytes;
}

/* Work memory of the steps for a latent [f, h, w]. */
static size_t count_steps(const counter *c, size_t f, size_t h, size_t w)
{
    const zoe_job *job = c->job;
    const zoe_wan_dims dims = zoe_loras_dims(job), *d = &dims;
    const size_t rows[ZOE_BRANCHES] = {job->plan.prompt_tokens, job->plan.negative_tokens};
    size_t texts = 0, making = 0;
    for (size_t b = 0; b < ZOE_BRANCHES; b++) {
        const zoe_bytes bytes = zoe_wan_text_bytes(d, job->params.bf16, rows[b], job->feature_rows);
        texts = sum(texts, bytes.weights);
        making = larger(making, bytes.work);
    }
    const size_t work = zoe_wan_work_bytes(c->ctx, d, job->params.bf16, f, h, w);
    const size_t solver = zoe_solver_bytes(job->params.solver, f * h * w * d->out_dim);
    const size_t cache = zoe_step_cache_bytes(job, f, h, w);
    return sum(sum(sum(texts, making), sum(work, solver)), cache);
}

/* A stage that a checkpoint kept takes nothing, nor does one that there is not. */
static void leave_out_kept(need *n, const zoe_job *job)
{
    const bool kept[ZOE_PHASE_COUNT] = {
        [ZOE_PHASE_TEXT] = job->context[ZOE_COND] != NULL,
        [ZOE_PHASE_ENCODE] = job->condition || !zoe_job_has_condition(job),
        [ZOE_PHASE_STEPS] = job->plan.steps_done == job->schedule.steps,
    };
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        if (kept[i])
            n->weights[i] = n->work[i] = 0;
}

/* An expert and its LoRAs. In int8, what was quantised is not needed at once any more. */
static size_t count_expert(const zoe_job *job, zoe_expert expert)
{
    const size_t stored = store_bytes(job->expert_store[expert]);
    const size_t spared =
        job->params.int8 && job->wan[expert] ? zoe_wan_int8_bytes_of(job->wan[expert]).spared : 0;
    return sum(stored - (spared < stored ? spared : stored), zoe_loras_bytes(job, expert));
}

/* The int8 weights of the larger expert: the other one's are made when it is their turn. */
static size_t count_int8(const zoe_job *job)
{
    size_t bytes = 0;
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (job->params.int8 && job->wan[e]) {
            const zoe_wan_int8_bytes b = zoe_wan_int8_bytes_of(job->wan[e]);
            bytes = larger(bytes, sum(b.made, b.making));
        }
    return bytes;
}

static need count(const counter *c, extent e)
{
    const zoe_job *job = c->job;
    const size_t f = (e.frames - 1) / 4 + 1, h = e.height / job->stride, w = e.width / job->stride;
    const size_t pixels = e.height * e.width, frame = 6 * pixels; /* RGB, and planes of Y4M */
    const size_t tokens = larger(job->plan.prompt_tokens, job->plan.negative_tokens);
    const size_t fixed = count_fixed(job, f, h * w, pixels);
    const size_t packed = zoe_vae_weight_bytes(c->vae), vae = zoe_store_bytes(job->vae_store);
    need n = {.weights = {[ZOE_PHASE_TEXT] = zoe_store_bytes(job->text_store),
                          [ZOE_PHASE_ENCODE] = larger(vae, store_bytes(job->clip_store)),
                          [ZOE_PHASE_STEPS] = larger(count_expert(job, ZOE_HIGH_NOISE),
                                                     count_expert(job, ZOE_LOW_NOISE))}};
    const zoe_bytes clip = job->clip ? zoe_clip_bytes(c->ctx, job->clip) : (zoe_bytes){0, 0};
    n.work[ZOE_PHASE_TEXT] =
        sum(fixed, sum(clip.weights, zoe_umt5_work_bytes(c->ctx, job->umt5, tokens)));
    const size_t pictures = job->family->masked ? e.frames : 1; /* as zoe_job_encode has them */
    const size_t encoding =
        sum(packed, zoe_vae_encode_bytes(c->ctx, c->vae, pictures, e.height, e.width));
    n.work[ZOE_PHASE_ENCODE] = sum(fixed, sum(clip.weights, larger(encoding, clip.work)));
    n.work[ZOE_PHASE_STEPS] = sum(sum(fixed, count_int8(job)), count_steps(c, f, h, w));
    leave_out_kept(&n, job);
    if (!makes_frames(job))
        return n;
    n.weights[ZOE_PHASE_DECODE] = vae;
    n.work[ZOE_PHASE_DECODE] =
        sum(fixed, sum(packed, zoe_vae_decode_bytes(c->ctx, c->vae, f, h, w)));
    const size_t encoder = zoe_video_bytes(job->params.out, e.width, e.height, e.frames);
    n.work[ZOE_PHASE_DECODE] = sum(n.work[ZOE_PHASE_DECODE], sum(frame, encoder));
    return n;
}

/* ---- does it fit? ---- */

/* Against what a plan is held. Of a limit that was asked for, weights are a part; the machine may
 * drop weights and read them again. */
typedef struct limit {
    size_t bytes;
    bool weights;
} limit;

static limit find_limit(const zoe_job *job)
{
    return job->params.memory ? (limit){job->params.memory, true}
                              : (limit){zoe_memory_bytes(), false};
}

/* The phase that takes most of what the limit counts. */
static size_t most(const need *n, limit l, zoe_phase *phase)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        const size_t here = sum(n->work[i], l.weights ? n->weights[i] : 0);
        if (here > bytes) {
            bytes = here;
            *phase = (zoe_phase)i;
        }
    }
    return bytes;
}

static bool fits(const counter *c, limit l, extent e)
{
    zoe_phase phase;
    const need n = count(c, e);
    return most(&n, l, &phase) <= l.bytes;
}

/* The size of a video of about this area; false if the picture cannot have it. The context is for
 * the sentence that nobody needs. */
static bool size_of(zoe_context *aside, const zoe_job *job, size_t area, extent *e)
{
    return zoe_job_size(aside, job, area, &e->height, &e->width) == ZOE_OK;
}

/* The most frames up to the wanted ones that fit at this size; 0 for none. */
static size_t most_frames(const counter *c, limit l, extent e)
{
    size_t good = 0, bad = (e.frames - 1) / 4 + 1; /* latent frames; `bad` is too much */
    while (bad - good > 1) {
        const size_t middle = good + (bad - good) / 2;
        e.frames = 4 * middle - 3;
        *(fits(c, l, e) ? &good : &bad) = middle;
    }
    return good ? 4 * good - 3 : 0;
}

/* The size to ask for so that the largest video of the picture's ratio with so many frames fits;
 * false if none does. */
static bool largest_size(zoe_context *aside, const counter *c, limit l, extent *e)
{
    size_t good = 0, bad = c->job->params.width * c->job->params.height;
    extent again = *e;
    while (bad - good > 1) {
        const size_t middle = good + (bad - good) / 2;
        const bool fit = size_of(aside, c->job, middle, e) && fits(c, l, *e);
        *(fit ? &good : &bad) = middle;
    }
    /* What is asked for is an area, cut to whole steps of both sides: what it gives is tried. */
    return good && size_of(aside, c->job, good, e) &&
           size_of(aside, c->job, e->width * e->height, &again) && fits(c, l, again);
}

typedef struct text {
    char text[200];
} text;

/* What to ask for instead, as the end of a sentence. */
static text suggest(zoe_context *aside, const counter *c, limit l)
{
    text t;
    const zoe_plan *p = &c->job->plan;
    const extent wanted = {p->frames, p->height, p->width};
    const size_t frames = most_frames(c, l, wanted);
    extent e = wanted;
    const bool size = largest_size(aside, c, l, &e);
    if (frames && size)
        snprintf(t.text, sizeof t.text,
                 "%zu frame%s at this size would fit, or %zu at size %zux%zu", frames,
                 frames == 1 ? "" : "s", p->frames, e.width, e.height);
    else if (frames)
        snprintf(t.text, sizeof t.text, "%zu frame%s at this size would fit", frames,
                 frames == 1 ? "" : "s");
    else if (size)
        snprintf(t.text, sizeof t.text, "size %zux%zu would fit", e.width, e.height);
    else {
        e = (extent){.frames = 1};
        if (largest_size(aside, c, l, &e))
            snprintf(t.text, sizeof t.text, "1 frame at size %zux%zu would fit", e.width, e.height);
        else
            snprintf(t.text, sizeof t.text,
                     "no number of frames and no size would fit, this model needs more");
    }
    return t;
}

static zoe_status refuse(zoe_context *ctx, const counter *c, limit l, const need *n)
{
    static const char *const phases[ZOE_PHASE_COUNT] = {
        "to encode the text", "to encode the picture", "for the steps", "to decode the video"};
    zoe_phase phase = ZOE_PHASE_TEXT;
    const size_t bytes = most(n, l, &phase), weights = n->weights[phase];
    zoe_context *aside = zoe_context_new(1);
    if (!aside)
        return zoe_fail(ctx, ZOE_NOMEM, "no memory for the plan of the run");
    const text t = suggest(aside, c, l);
    zoe_context_free(aside);
    if (l.weights)
        return zoe_fail(ctx, ZOE_NOMEM,
                        "memory: the run takes %zu MiB %s (%zu MiB of it weights), %zu MiB are "
                        "allowed; %s",
                        bytes / MIB + 1, phases[phase], weights / MIB, l.bytes / MIB, t.text);
    return zoe_fail(
        ctx, ZOE_NOMEM,
        "memory: the run takes %zu MiB %s, besides the weights, this machine or its cgroup has %zu "
        "MiB; %s; to try all the same, with swap, set a memory limit above the plan's "
        "%zu MiB",
        bytes / MIB + 1, phases[phase], l.bytes / MIB, t.text, c->job->plan.peak / MIB + 1);
}

static zoe_status check_memory(zoe_context *ctx, const counter *c, const need *n)
{
    zoe_phase phase;
    const limit l = find_limit(c->job);
    const size_t machine = zoe_memory_bytes(), peak = c->job->plan.peak;
    if (most(n, l, &phase) > l.bytes)
        return refuse(ctx, c, l, n);
    if (peak > machine)
        zoe_log(ctx, ZOE_WARNING,
                "the run takes %zu MiB at its peak, this machine or its cgroup has %zu MiB: "
                "weights will be read "
                "from the disk again and again",
                peak / MIB, machine / MIB);
    return ZOE_OK;
}

zoe_status zoe_plan_bytes(zoe_context *ctx, zoe_job *job, const zoe_vae *vae)
{
    zoe_plan *plan = &job->plan;
    const counter c = {.ctx = ctx, .job = job, .vae = vae};
    const need n = count(&c, (extent){plan->frames, plan->height, plan->width});
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        plan->bytes[i] = sum(n.weights[i], n.work[i]);
        plan->peak = larger(plan->peak, plan->bytes[i]);
    }
    return check_memory(ctx, &c, &n);
}
