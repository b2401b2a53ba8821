/* What a run will take: steps, passes and bytes, known before anything heavy is loaded; and whether
 * memory suffices for it. */
#include "job/lora.h"
#include "job/ranks.h"
#include "job/step_cache.h"

#include <stdio.h>

enum {
    PROGRAM_BYTES = 64 << 20, /* the program itself with its libraries, and small things */
    MIB = 1 << 20
};

zoe_expert zoe_job_expert(const zoe_job *job, size_t step)
{
    if (job->parts.transformers == 1)
        return ZOE_HIGH_NOISE;
    if (job->params.boundary_step != ZOE_NO_BOUNDARY_STEP)
        return step < job->params.boundary_step ? ZOE_HIGH_NOISE : ZOE_LOW_NOISE;
    return zoe_expert_of(job->schedule.timestep[step], job->params.boundary);
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
 * everything else. A phase whose weights can be streamed has a second pair of numbers for that, with no
 * layer that stays; of the others it is the same as the first. */
typedef struct need {
    size_t weights[ZOE_PHASE_COUNT], work[ZOE_PHASE_COUNT];
    size_t least[ZOE_PHASE_COUNT], streaming[ZOE_PHASE_COUNT];
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

bool zoe_job_makes_frames(const zoe_job_params *p)
{
    return p->out || p->frames_out || !(p->latents_out || p->changed);
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
        if (!zoe_ranks_computes(job, (zoe_branch)b))
            continue;
        texts = sum(texts, bytes.weights);
        making = sum(making, bytes.work);
    }
    const zoe_place place = zoe_ranks_place(job);
    const size_t work = zoe_wan_work_bytes_on(c->ctx, d, job->params.bf16, f, h, w, &place);
    const size_t solver = zoe_solver_bytes(job->params.solver, f * h * w * d->out_dim);
    const size_t cache = zoe_step_cache_bytes(job, f, h, w);
    return sum(sum(sum(texts, making), sum(work, solver)), cache);
}

/* A stage that a checkpoint kept takes nothing, nor does one that there is not. */
static void leave_out_kept(need *n, const zoe_job *job)
{
    const bool kept[ZOE_PHASE_COUNT] = {
        [ZOE_PHASE_TEXT] = job->kept_context,
        [ZOE_PHASE_ENCODE] = job->kept_condition || !zoe_job_has_condition(job),
        [ZOE_PHASE_STEPS] = job->plan.steps_done == job->schedule.steps,
    };
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        if (kept[i])
            n->weights[i] = n->work[i] = n->least[i] = n->streaming[i] = 0;
}

/* Of weights that ranks share: its part, and what is there whole, at once. */
static size_t count_shard(const zoe_job *job, zoe_expert expert, size_t stored)
{
    const size_t ranks = zoe_ranks_weights_standing(job).count;
    const size_t whole = zoe_wan_streamed_bytes(job->wan[expert], job->expert_store[expert], 0);
    const size_t shared = sum(stored / ranks, whole);
    return shared < stored ? shared : stored;
}

/* An expert and its LoRAs. In int8, what was quantised is not needed at once any more. */
static size_t count_expert(const zoe_job *job, zoe_expert expert)
{
    size_t stored = store_bytes(job->expert_store[expert]);
    if (job->params.shard_weights && job->ranks.count > 1 && job->wan[expert])
        stored = count_shard(job, expert, stored);
    const size_t spared =
        job->params.int8 && job->wan[expert] ? zoe_wan_int8_bytes_of(job->wan[expert]).spared : 0;
    return sum(stored - (spared < stored ? spared : stored), zoe_loras_bytes(job, expert));
}

/* The same, streamed, for the larger of the experts. */
static size_t count_streamed(const zoe_job *job, size_t resident)
{
    size_t bytes = 0;
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (job->wan[e])
            bytes = larger(bytes,
                           sum(zoe_wan_streamed_bytes(job->wan[e], job->expert_store[e], resident),
                               zoe_loras_bytes(job, e)));
    return bytes;
}

static size_t count_streamed_text(const zoe_job *job, size_t resident)
{
    return zoe_umt5_streamed_bytes(job->umt5, job->text_store, resident);
}

/* Streamed weights are read once for both branches, where this rank computes both and nobody asks in
 * between what to leave out. */
static bool runs_pairs(const zoe_job *job)
{
    return zoe_ranks_computes(job, ZOE_COND) && zoe_ranks_computes(job, ZOE_UNCOND) &&
           !zoe_step_cache_is_on(job) && !job->params.changed && !job->params.int8;
}

/* Fills in what streaming takes. */
static void count_streaming(const zoe_job *job, need *n, size_t f, size_t h, size_t w)
{
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const size_t pair = runs_pairs(job) ? zoe_wan_pair_bytes(d, f, h, w) : 0;
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        n->least[i] = n->weights[i];
        n->streaming[i] = n->work[i];
    }
    if (n->weights[ZOE_PHASE_TEXT] > 0)
        n->least[ZOE_PHASE_TEXT] = count_streamed_text(job, 0);
    n->least[ZOE_PHASE_STEPS] = count_streamed(job, 0);
    n->streaming[ZOE_PHASE_STEPS] = sum(n->work[ZOE_PHASE_STEPS], pair);
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

/* The tokens of the prompts that this rank encodes; how many these are. */
static size_t own_texts(const zoe_job *job, size_t tokens[ZOE_BRANCHES])
{
    const size_t all[ZOE_BRANCHES] = {job->plan.prompt_tokens, job->plan.negative_tokens};
    size_t n = 0;
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        if (zoe_ranks_of_text(job, b) == job->ranks.rank)
            tokens[n++] = all[b];
    return n;
}

static need count(const counter *c, extent e)
{
    const zoe_job *job = c->job;
    const size_t f = (e.frames - 1) / 4 + 1, h = e.height / job->stride, w = e.width / job->stride;
    const size_t pixels = e.height * e.width, frame = 6 * pixels; /* RGB, and planes of Y4M */
    size_t tokens[ZOE_BRANCHES];
    const size_t texts = own_texts(job, tokens);
    const zoe_ranks *r = &job->ranks;
    const bool towers = job->clip && zoe_ranks_first(job);
    const size_t fixed = count_fixed(job, f, h * w, pixels);
    const size_t packed = zoe_vae_weight_bytes(c->vae), vae = zoe_store_bytes(job->vae_store);
    const size_t pictures = job->family->masked ? e.frames : 1; /* as zoe_job_encode has them */
    const zoe_vae_need encode =
        zoe_vae_encode_need(c->ctx, c->vae, pictures, e.height, e.width, r->count, r->vae, r->rank);
    const zoe_vae_need decode =
        zoe_vae_decode_need(c->ctx, c->vae, f, h, w, r->count, r->vae, r->rank);
    need n = {.weights = {[ZOE_PHASE_TEXT] = texts ? zoe_store_bytes(job->text_store) : 0,
                          [ZOE_PHASE_ENCODE] = larger(encode.weights ? vae : 0,
                                                      towers ? store_bytes(job->clip_store) : 0),
                          [ZOE_PHASE_STEPS] = larger(count_expert(job, ZOE_HIGH_NOISE),
                                                     count_expert(job, ZOE_LOW_NOISE))}};
    const zoe_bytes clip = job->clip ? zoe_clip_bytes(c->ctx, job->clip) : (zoe_bytes){0, 0};
    const size_t writing = texts ? zoe_umt5_work_bytes_all(c->ctx, job->umt5, tokens, texts) : 0;
    n.work[ZOE_PHASE_TEXT] = sum(fixed, sum(clip.weights, writing));
    const size_t encoding = sum(encode.weights ? packed : 0, encode.bytes);
    n.work[ZOE_PHASE_ENCODE] =
        sum(fixed, sum(clip.weights, larger(encoding, towers ? clip.work : 0)));
    n.work[ZOE_PHASE_STEPS] = sum(sum(fixed, count_int8(job)), count_steps(c, f, h, w));
    if (!zoe_job_makes_frames(&job->params)) {
        count_streaming(job, &n, f, h, w);
        leave_out_kept(&n, job);
        return n;
    }
    n.weights[ZOE_PHASE_DECODE] = decode.weights ? vae : 0;
    n.work[ZOE_PHASE_DECODE] = sum(fixed, sum(decode.weights ? packed : 0, decode.bytes));
    const size_t encoder = zoe_video_bytes(job->params.out, e.width, e.height, e.frames);
    if (zoe_ranks_first(job))
        n.work[ZOE_PHASE_DECODE] = sum(n.work[ZOE_PHASE_DECODE], sum(frame, encoder));
    count_streaming(job, &n, f, h, w);
    leave_out_kept(&n, job);
    return n;
}

void zoe_plan_count(zoe_context *ctx, const zoe_job *job, const zoe_vae *vae, zoe_rank_bytes *bytes)
{
    const zoe_plan *p = &job->plan;
    const counter c = {.ctx = ctx, .job = job, .vae = vae};
    const need n = count(&c, (extent){p->frames, p->height, p->width});
    const size_t f = p->latent_frames, h = p->latent_height, w = p->latent_width;
    const zoe_wan_dims dims = zoe_loras_dims(job);
    const size_t rows[ZOE_BRANCHES] = {p->prompt_tokens, p->negative_tokens};
    *bytes = (zoe_rank_bytes){.fixed = count_fixed(job, f, h * w, p->height * p->width),
                              .cache = zoe_step_cache_bytes(job, f, h, w)};
    memcpy(bytes->weights, n.weights, sizeof n.weights);
    memcpy(bytes->work, n.work, sizeof n.work);
    memcpy(bytes->least, n.least, sizeof n.least);
    memcpy(bytes->streaming, n.streaming, sizeof n.streaming);
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        if (zoe_ranks_computes(job, (zoe_branch)b))
            bytes->texts = sum(
                bytes->texts,
                zoe_wan_text_bytes(&dims, job->params.bf16, rows[b], job->feature_rows).weights);
}

/* ---- does it fit? ---- */

/* Against what a plan is held. Of a limit that was asked for, weights are a part; the machine may
 * drop weights and read them again. */
typedef struct limit {
    size_t bytes;
    bool weights;
    zoe_host host; /* what other ranks take of it; without weights alone */
} limit;

static limit find_limit(const zoe_job *job)
{
    return job->params.memory ? (limit){.bytes = job->params.memory, .weights = true}
                              : (limit){.bytes = zoe_memory_bytes(), .host = job->ranks.host};
}

/* Does the phase take less if what can be streamed is? For small networks it does not. */
static bool streaming_is_less(const need *n, size_t phase)
{
    return sum(n->streaming[phase], n->least[phase]) < sum(n->work[phase], n->weights[phase]);
}

/* The least that the limit counts of a phase; *weights: that part of it. */
static size_t least_of(const need *n, limit l, size_t phase, size_t *weights)
{
    const bool streamed = streaming_is_less(n, phase);
    *weights = !l.weights ? 0 : streamed ? n->least[phase] : n->weights[phase];
    return sum(sum(l.weights && streamed ? n->streaming[phase] : n->work[phase], *weights),
               l.host.others[phase]);
}

/* The phase that takes most of what the limit counts. */
static size_t most(const need *n, limit l, zoe_phase *phase)
{
    size_t bytes = 0, weights;
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        const size_t here = least_of(n, l, i, &weights);
        if (here > bytes) {
            bytes = here;
            *phase = (zoe_phase)i;
        }
    }
    return bytes;
}

/* The other ranks on this host are thought to take as much as this one. */
static bool fits(const counter *c, limit l, extent e)
{
    zoe_phase phase;
    const need n = count(c, e);
    for (size_t i = 0; i < ZOE_PHASE_COUNT && l.host.ranks > 1; i++)
        if (!zoe_size_mul(&l.host.others[i], n.work[i], l.host.ranks - 1))
            l.host.others[i] = SIZE_MAX;
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

/* What of a phase is weights, within the sentence of a refusal. */
static text weights_text(const zoe_job *job, const need *n, limit l, zoe_phase phase)
{
    text t;
    size_t weights;
    least_of(n, l, phase, &weights);
    const size_t used =
        (size_t)snprintf(t.text, sizeof t.text, "%zu MiB of it weights%s", weights / MIB,
                         weights < n->weights[phase] ? ", the others are streamed" : "");
    if (phase == ZOE_PHASE_STEPS && job->params.int8)
        snprintf(t.text + used, sizeof t.text - used,
                 ", and %zu MiB weights in int8, which are never streamed", count_int8(job) / MIB);
    return t;
}

static zoe_status refuse(zoe_context *ctx, const counter *c, limit l, const need *n)
{
    static const char *const phases[ZOE_PHASE_COUNT] = {
        "to encode the text", "to encode the picture", "for the steps", "to decode the video"};
    zoe_phase phase = ZOE_PHASE_TEXT;
    const size_t bytes = most(n, l, &phase);
    zoe_context *aside = zoe_context_new(1);
    if (!aside)
        return zoe_fail(ctx, ZOE_NOMEM, "no memory for the plan of the run");
    const text t = suggest(aside, c, l);
    zoe_context_free(aside);
    if (l.weights)
        return zoe_fail(ctx, ZOE_NOMEM,
                        "memory: the run takes %zu MiB %s (%s), %zu MiB are allowed; %s",
                        bytes / MIB + 1, phases[phase], weights_text(c->job, n, l, phase).text,
                        l.bytes / MIB, t.text);
    char together[64] = "";
    if (l.host.ranks > 1)
        snprintf(together, sizeof together, " for the %zu ranks on this host", l.host.ranks);
    return zoe_fail(ctx, ZOE_NOMEM,
                    "memory: the run takes %zu MiB %s%s, besides the weights, this machine or its "
                    "cgroup has %zu "
                    "MiB; %s; to try all the same, with swap, set a memory limit above the plan's "
                    "%zu MiB",
                    bytes / MIB + 1, phases[phase], together, l.bytes / MIB, t.text,
                    c->job->plan.peak / MIB + 1);
}

static zoe_status check_memory(zoe_context *ctx, const counter *c, const need *n)
{
    zoe_phase phase;
    const limit l = find_limit(c->job);
    const size_t machine = zoe_memory_bytes(), peak = c->job->plan.host_peak;
    char whose[64] = "the run takes";
    if (most(n, l, &phase) > l.bytes)
        return refuse(ctx, c, l, n);
    if (c->job->plan.host_ranks > 1)
        snprintf(whose, sizeof whose, "the %zu ranks on this host take", c->job->plan.host_ranks);
    if (peak > machine && c->job->params.memory != ZOE_JOB_ENDLESS)
        zoe_log(ctx, ZOE_WARNING,
                "%s %zu MiB at %s peak, this machine or its cgroup has %zu MiB: weights will be "
                "read from the disk again and again",
                whose, peak / MIB, c->job->plan.host_ranks > 1 ? "their" : "its", machine / MIB);
    return ZOE_OK;
}

/* ---- what stays in memory ---- */

/* What weights and work may take together before weights are streamed: the limit that was asked for,
 * else what is free and no other rank takes. */
static size_t room_for_weights(const zoe_job *job, zoe_phase phase)
{
    const size_t machine = zoe_memory_bytes(), available = zoe_memory_available();
    const size_t here = available < machine ? available : machine;
    const size_t others = job->ranks.host.others[phase];
    return job->params.memory ? job->params.memory : here > others ? here - others : 0;
}

/* Chooses for a phase: everything stays if it fits, else as many of the layers as do, of which
 * `most_layers` are worth it. Returns the bytes of the weights that are then held at once. */
static size_t choose(const zoe_job *job, const need *n, zoe_phase phase,
                     size_t (*held)(const zoe_job *, size_t), size_t most_layers,
                     zoe_residency *stay)
{
    const size_t room = room_for_weights(job, phase), streaming = n->streaming[phase];
    stay->resident = stay->layers;
    if (sum(n->work[phase], n->weights[phase]) <= room || !streaming_is_less(n, phase) ||
        n->weights[phase] == 0)
        return n->weights[phase];
    stay->resident = 0;
    while (stay->resident < most_layers && stay->resident + 1 < stay->layers &&
           sum(streaming, held(job, stay->resident + 1)) <= room)
        stay->resident++;
    return held(job, stay->resident);
}

/* The system's page cache cannot hold what is streamed, so it need not try. */
static bool is_beyond(const need *n, zoe_phase phase)
{
    return sum(n->streaming[phase], n->weights[phase]) > zoe_memory_bytes();
}

static void tell_stay(zoe_context *ctx, const zoe_job *job, zoe_phase phase,
                      const zoe_residency *stay, const char *what)
{
    const bool pairs = phase == ZOE_PHASE_STEPS && job->plan.pairs;
    const bool twice = phase == ZOE_PHASE_STEPS && !pairs && !job->params.int8 &&
                       zoe_ranks_computes(job, ZOE_COND) && zoe_ranks_computes(job, ZOE_UNCOND);
    if (stay->resident < stay->layers)
        zoe_log(ctx, ZOE_INFO,
                "%s: %zu of %zu layers stay in memory, the others are read ahead of use and let go "
                "afterwards%s",
                what, stay->resident, stay->layers,
                pairs   ? ", once for both branches"
                : twice ? ", for each branch in turn (the step cache decides on each alone)"
                        : "");
}

zoe_status zoe_plan_share(zoe_context *ctx, zoe_job *job, const zoe_vae *vae)
{
    const counter c = {.ctx = ctx, .job = job, .vae = vae};
    const need n = count(&c, (extent){job->plan.frames, job->plan.height, job->plan.width});
    return zoe_ranks_share_host(ctx, job, n.work,
                                job->params.shard_weights ? n.weights[ZOE_PHASE_STEPS] : 0);
}

/* Of all ranks on this host: what maps the same weights has them once. */
static size_t count_host_peak(const zoe_job *job)
{
    const zoe_host *h = &job->ranks.host;
    size_t peak = 0;
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        peak = larger(
            peak, sum(sum(job->plan.bytes[i], h->others[i]), i == ZOE_PHASE_STEPS ? h->shards : 0));
    return peak;
}

zoe_status zoe_plan_bytes(zoe_context *ctx, zoe_job *job, const zoe_vae *vae)
{
    zoe_plan *plan = &job->plan;
    const counter c = {.ctx = ctx, .job = job, .vae = vae};
    need n = count(&c, (extent){plan->frames, plan->height, plan->width});
    plan->text_residency.layers = zoe_umt5_layers(job->umt5);
    plan->steps_residency.layers = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->layers;
    const size_t once = job->params.int8 ? 0 : SIZE_MAX; /* int8 weights are made in one reading */
    const size_t held[ZOE_PHASE_COUNT] = {
        [ZOE_PHASE_TEXT] =
            choose(job, &n, ZOE_PHASE_TEXT, count_streamed_text, SIZE_MAX, &plan->text_residency),
        [ZOE_PHASE_ENCODE] = n.weights[ZOE_PHASE_ENCODE],
        [ZOE_PHASE_STEPS] =
            choose(job, &n, ZOE_PHASE_STEPS, count_streamed, once, &plan->steps_residency),
        [ZOE_PHASE_DECODE] = n.weights[ZOE_PHASE_DECODE],
    };
    const bool streams = plan->steps_residency.resident < plan->steps_residency.layers;
    plan->pairs = streams && runs_pairs(job);
    job->forget = is_beyond(&n, ZOE_PHASE_TEXT) || is_beyond(&n, ZOE_PHASE_STEPS);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        const bool streamed = i == ZOE_PHASE_STEPS && streams;
        plan->bytes[i] = sum(held[i], streamed ? n.streaming[i] : n.work[i]);
        plan->peak = larger(plan->peak, plan->bytes[i]);
    }
    plan->host_ranks = job->ranks.host.ranks;
    plan->host_peak = count_host_peak(job);
    TRY(check_memory(ctx, &c, &n));
    tell_stay(ctx, job, ZOE_PHASE_TEXT, &plan->text_residency, "text encoder");
    tell_stay(ctx, job, ZOE_PHASE_STEPS, &plan->steps_residency, "transformer");
    return ZOE_OK;
}
