/* The order of the work. Reads like the method. */
#include "base/clock.h"
#include "job/lora.h"
#include "job/ranks.h"
#include "job/step_cache.h"

static const char *expert_name(const zoe_job *job, zoe_expert expert)
{
    return job->parts.transformers == 1 ? "transformer"
           : expert == ZOE_HIGH_NOISE   ? "high-noise expert"
                                        : "low-noise expert";
}

static const char *branch_name(zoe_branch branch)
{
    return branch == ZOE_COND ? "conditional" : "unconditional";
}

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static zoe_tensor latent_tensor(const zoe_job *job, float *data, size_t channels)
{
    const zoe_plan *p = &job->plan;
    return zoe_tensor_4d(data, ZOE_F32, channels, p->latent_frames, p->latent_height,
                         p->latent_width);
}

static zoe_status take_floats(zoe_context *ctx, float **values, size_t count, const char *what)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, count, sizeof(float), what));
    *values = p;
    return ZOE_OK;
}

/* ---- text: ids to context, for both branches ---- */

/* What the plan chose for the weights of a network. */
static zoe_stream_plan stream_plan(const zoe_job *job, const zoe_residency *stay)
{
    return (zoe_stream_plan){.resident = stay->resident, .forget = job->forget};
}

static bool is_streamed(const zoe_residency *stay)
{
    return stay->resident < stay->layers;
}

/* The prompts that fall to this rank, in one walk over the weights. */
static zoe_status encode_text(zoe_context *ctx, zoe_job *job)
{
    const size_t width = zoe_umt5_dim(job->umt5);
    zoe_umt5_text texts[ZOE_BRANCHES];
    size_t mine = 0;
    zoe_job_progress(job, ZOE_PHASE_TEXT, 0, ZOE_BRANCHES);
    TRY(zoe_store_check(ctx, job->text_store));
    if (is_streamed(&job->plan.text_residency))
        TRY(zoe_umt5_stream(ctx, job->umt5, job->text_store,
                            stream_plan(job, &job->plan.text_residency)));
    for (size_t b = 0; b < ZOE_BRANCHES; b++) {
        const size_t n = job->id_count[b];
        if (zoe_ranks_of_text(job, b) != job->ranks.rank)
            continue;
        TRY(take_floats(ctx, &job->context[b], n * width, "text context"));
        texts[mine++] = (zoe_umt5_text){job->context[b], job->ids[b], n, n};
    }
    if (mine > 0)
        TRY(zoe_umt5_encode_all(ctx, job->umt5, texts, mine, NULL));
    for (size_t b = 0; b < ZOE_BRANCHES; b++) {
        if (zoe_ranks_of_text(job, b) != job->ranks.rank)
            continue;
        TRY(zoe_check_cancel(ctx));
        if (!all_finite(job->context[b], job->id_count[b] * width))
            return zoe_fail(
                ctx, ZOE_NONFINITE, "the text encoder gave NaN or inf for the %s prompt (%s)",
                b == ZOE_COND ? "positive" : "negative", zoe_store_path(job->text_store));
        if (job->ranks.count == 1)
            zoe_job_progress(job, ZOE_PHASE_TEXT, b + 1, ZOE_BRANCHES);
    }
    return ZOE_OK;
}

/* The text encoder is not needed any more. */
static void close_text(zoe_job *job)
{
    zoe_umt5_close(job->umt5);
    zoe_store_close(job->text_store);
    job->umt5 = NULL;
    job->text_store = NULL;
}

/* To all ranks, from those that have them. */
static zoe_status share_context(zoe_context *ctx, zoe_job *job, bool kept)
{
    const size_t width = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->text_dim;
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        TRY(zoe_ranks_share_floats(ctx, job, &job->context[b], job->id_count[b] * width,
                                   kept ? 0 : zoe_ranks_of_text(job, b), "text context"));
    return ZOE_OK;
}

static zoe_status take_context(zoe_context *ctx, zoe_job *job)
{
    if (!job->kept_context)
        TRY(zoe_ranks_meet(ctx, job, encode_text(ctx, job)));
    TRY(share_context(ctx, job, job->kept_context));
    if (!job->kept_context && job->ranks.count > 1) /* the others' are there as well */
        zoe_job_progress(job, ZOE_PHASE_TEXT, ZOE_BRANCHES, ZOE_BRANCHES);
    if (!job->kept_context && zoe_ranks_first(job))
        TRY(zoe_checkpoint_save_context(ctx, job));
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        zoe_job_observe(
            job, b == ZOE_COND ? "context" : "context_null", 0,
            zoe_tensor_2d(job->context[b], ZOE_F32, job->id_count[b], zoe_umt5_dim(job->umt5)));
    close_text(job);
    return ZOE_OK;
}

/* ---- encode: pictures to condition ---- */

/* The image tower is not needed any more. */
static void close_clip(zoe_job *job)
{
    zoe_clip_close(job->clip);
    zoe_store_close(job->clip_store);
    job->clip = NULL;
    job->clip_store = NULL;
}

static zoe_status take_condition(zoe_context *ctx, zoe_job *job)
{
    if (!zoe_job_has_condition(job))
        return ZOE_OK;
    TRY(zoe_job_encode(ctx, job));
    if (!job->kept_condition && zoe_ranks_first(job))
        TRY(zoe_checkpoint_save_condition(ctx, job));
    zoe_job_observe(job, job->family->masked ? "y" : "still", 0, zoe_condition_tensor(job));
    close_clip(job);
    return ZOE_OK;
}

/* ---- steps: noise to latent ---- */

/* What lives while the steps run. Keys and values of the text belong to one expert and one branch.
 */
typedef struct steps {
    zoe_wan_work *work;
    zoe_solver *solver;
    bool engaged;
    zoe_expert expert;                /* whose texts are held, if it is engaged */
    zoe_wan_text *text[ZOE_BRANCHES]; /* of the branches that this rank computes */
} steps;

static void drop_texts(steps *s)
{
    for (size_t b = 0; b < ZOE_BRANCHES; b++) {
        zoe_wan_text_free(s->text[b]);
        s->text[b] = NULL;
    }
}

static double guide_scale(const zoe_job *job, zoe_expert expert)
{
    return expert == ZOE_HIGH_NOISE ? job->params.guide_high : job->params.guide_low;
}

/* Keys and values of the prompts of these branches, in one walk over the weights. */
static zoe_status make_texts(zoe_context *ctx, const zoe_job *job, steps *s, unsigned branches)
{
    const float *context[ZOE_BRANCHES];
    zoe_wan_text *texts[ZOE_BRANCHES];
    size_t rows[ZOE_BRANCHES], n = 0;
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        if (branches & 1u << b) {
            context[n] = job->context[b];
            rows[n++] = job->id_count[b];
        }
    TRY(zoe_wan_texts_new(ctx, texts, job->wan[s->expert], n, context, rows, job->features,
                          job->feature_rows));
    for (size_t b = 0, i = 0; b < ZOE_BRANCHES; b++)
        if (branches & 1u << b)
            s->text[b] = texts[i++];
    return ZOE_OK;
}

/* Makes an expert the one at work: the other's pages go. */
static zoe_status engage(zoe_context *ctx, const zoe_job *job, steps *s, zoe_expert expert)
{
    const unsigned branches = zoe_ranks_branches(job, guide_scale(job, expert));
    if (s->engaged && s->expert == expert)
        return ZOE_OK;
    if (s->engaged) {
        zoe_wan_stream_end(job->wan[s->expert]);
        zoe_wan_unquantise(job->wan[s->expert]);
        zoe_store_drop(job->expert_store[s->expert]);
        zoe_loras_drop(job, s->expert);
    }
    drop_texts(s);
    s->expert = expert;
    s->engaged = true;
    TRY(zoe_store_check(ctx, job->expert_store[expert]));
    TRY(zoe_loras_check(ctx, job, expert));
    if (job->params.shard_weights)
        TRY(zoe_wan_shard(ctx, job->wan[expert], job->expert_store[expert],
                          zoe_ranks_of_weights(job)));
    else if (is_streamed(&job->plan.steps_residency))
        TRY(zoe_wan_stream(ctx, job->wan[expert], job->expert_store[expert],
                           stream_plan(job, &job->plan.steps_residency)));
    TRY(make_texts(ctx, job, s, branches));
    if (!job->params.int8)
        return ZOE_OK;
    TRY(zoe_wan_quantise(ctx, job->wan[expert], job->expert_store[expert]));
    zoe_loras_drop(job, expert);
    return ZOE_OK;
}

/* The velocity of one branch, computed, or by the step cache. */
static zoe_status predict(zoe_context *ctx, const zoe_job *job, steps *s, zoe_branch branch,
                          size_t step)
{
    bool made;
    zoe_step_cache_expect(job, s->expert, branch, step);
    TRY(zoe_cache_begin(ctx, job->cache, job->latent, job->velocity[branch], &made));
    if (!made)
        TRY(zoe_wan_forward_still(ctx, job->wan[s->expert], s->work, job->velocity[branch],
                                  job->latent, job->family->masked ? job->condition : NULL,
                                  s->text[branch], (double)job->schedule.timestep[step],
                                  zoe_still_frames(job), NULL));
    TRY(zoe_cache_end(ctx, job->cache, job->latent, job->velocity[branch]));
    return zoe_step_cache_see(ctx, job, branch, step);
}

/* Both velocities in one walk over the weights; there is no cache that would leave out anything. */
static zoe_status predict_pair(zoe_context *ctx, const zoe_job *job, steps *s, size_t step)
{
    const zoe_wan_text *const texts[] = {s->text[ZOE_COND], s->text[ZOE_UNCOND]};
    TRY(zoe_wan_forward_pair(ctx, job->wan[s->expert], s->work, job->velocity, job->latent,
                             job->family->masked ? job->condition : NULL, texts,
                             (double)job->schedule.timestep[step], zoe_still_frames(job)));
    for (size_t branch; zoe_cache_next(job->cache, &branch);) {
        bool made;
        TRY(zoe_cache_begin(ctx, job->cache, job->latent, job->velocity[branch], &made));
        TRY(zoe_cache_end(ctx, job->cache, job->latent, job->velocity[branch]));
    }
    return ZOE_OK;
}

static zoe_status check_velocity(zoe_context *ctx, const zoe_job *job, const steps *s,
                                 zoe_branch branch, size_t step)
{
    if (all_finite(job->velocity[branch], job->latent_count))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_NONFINITE,
                    "step %zu of %zu: the %s gave NaN or inf in the %s branch (%s); `zoe info "
                    "--verify` of that tells whether its weights are sound",
                    step + 1, job->schedule.steps, expert_name(job, s->expert), branch_name(branch),
                    zoe_store_path(job->expert_store[s->expert]));
}

/* Both branches, or the conditional one alone; of several ranks, each computes its own, and all get
 * both, so that all find the same in them. With a cache a branch may come twice. */
static zoe_status predict_all(zoe_context *ctx, const zoe_job *job, steps *s, bool guided,
                              size_t step)
{
    const size_t channels = zoe_wan_dims_of(job->wan[s->expert])->out_dim;
    const unsigned branches = zoe_ranks_branches(job, guide_scale(job, s->expert));
    TRY(zoe_cache_step(ctx, job->cache, step, s->expert, branches));
    if (job->plan.pairs && branches == (1u << ZOE_COND | 1u << ZOE_UNCOND))
        TRY(predict_pair(ctx, job, s, step));
    for (size_t branch; zoe_cache_next(job->cache, &branch);)
        TRY(predict(ctx, job, s, (zoe_branch)branch, step));
    if (guided)
        TRY(zoe_ranks_exchange_branches(ctx, job, step));
    for (size_t b = 0; b < (guided ? (size_t)ZOE_BRANCHES : 1); b++)
        TRY(check_velocity(ctx, job, s, (zoe_branch)b, step));
    zoe_job_observe(job, "v_cond", step, latent_tensor(job, job->velocity[ZOE_COND], channels));
    if (guided)
        zoe_job_observe(job, "v_uncond", step,
                        latent_tensor(job, job->velocity[ZOE_UNCOND], channels));
    return ZOE_OK;
}

/* The frames that are given stay as they are. */
static void impose_still(const zoe_job *job)
{
    const zoe_plan *p = &job->plan;
    const size_t plane = p->latent_height * p->latent_width, given = zoe_still_frames(job) * plane;
    const size_t cells = p->latent_frames * plane;
    for (size_t c = 0; c < job->latent_count / cells && given > 0; c++)
        memcpy(job->latent + c * cells, job->condition + c * given, given * sizeof *job->latent);
}

static zoe_status run_step(zoe_context *ctx, const zoe_job *job, steps *s, size_t step)
{
    const zoe_expert expert = zoe_job_expert(job, step);
    const double scale = guide_scale(job, expert);
    TRY(engage(ctx, job, s, expert));
    TRY(predict_all(ctx, job, s, scale != 1.0, step));
    if (scale != 1.0)
        zoe_guide(job->velocity[ZOE_COND], job->velocity[ZOE_UNCOND], (float)scale,
                  job->latent_count);
    zoe_preview_step(ctx, job, step);
    TRY(zoe_solver_step(ctx, s->solver, job->latent, job->velocity[ZOE_COND], step));
    impose_still(job);
    if (!all_finite(job->latent, job->latent_count))
        return zoe_fail(ctx, ZOE_NONFINITE,
                        "step %zu of %zu: NaN or inf in the latent after the solver", step + 1,
                        job->schedule.steps);
    return ZOE_OK;
}

static zoe_status draw_noise(zoe_context *ctx, zoe_job *job)
{
    zoe_random random;
    const size_t z = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->out_dim;
    job->latent_count =
        z * job->plan.latent_frames * job->plan.latent_height * job->plan.latent_width;
    TRY(take_floats(ctx, &job->latent, job->latent_count, "latent"));
    zoe_random_seed(&random, (uint64_t)job->plan.seed);
    zoe_random_normal(&random, job->latent, job->latent_count);
    zoe_job_observe(job, "noise", 0, latent_tensor(job, job->latent, z));
    return ZOE_OK;
}

static zoe_status denoise(zoe_context *ctx, zoe_job *job)
{
    const zoe_plan *p = &job->plan;
    const zoe_wan_dims dims = zoe_loras_dims(job);
    const size_t count = job->schedule.steps;
    size_t first = 0;
    steps s = {.work = NULL};
    zoe_status status;
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        TRY(take_floats(ctx, &job->velocity[b], job->latent_count, "velocity"));
    TRY_GOTO(zoe_solver_new(ctx, &s.solver, &job->schedule, job->latent_count));
    impose_still(job);
    if (p->steps_done < count)
        TRY_GOTO(zoe_step_cache_begin(ctx, job));
    TRY_GOTO(zoe_checkpoint_load_step(ctx, job, s.solver, &first));
    if (first < count) {
        zoe_job_progress(job, ZOE_PHASE_STEPS, first, count);
        TRY_GOTO(zoe_wan_work_new_on(ctx, &s.work, &dims, job->params.bf16, p->latent_frames,
                                     p->latent_height, p->latent_width, &job->ranks.sequence));
        if (p->pairs)
            TRY_GOTO(zoe_wan_work_pair(ctx, s.work));
        zoe_step_cache_attach(job, s.work);
    }
    for (size_t step = first; step < count; step++) {
        zoe_job_observe(job, "latents", step, latent_tensor(job, job->latent, dims.out_dim));
        const double begun = zoe_now();
        TRY_GOTO(run_step(ctx, job, &s, step));
        zoe_trace_add(ctx, ZOE_TRACK_COMPUTE, "step", step, begun);
        zoe_step_cache_tell(job, step, zoe_now() - begun);
        TRY_GOTO(zoe_checkpoint_save_step(ctx, job, s.solver, step + 1));
        zoe_job_progress(job, ZOE_PHASE_STEPS, step + 1, count);
    }
    zoe_job_observe(job, "latent_final", 0, latent_tensor(job, job->latent, dims.out_dim));
done:
    drop_texts(&s);
    zoe_step_cache_end(job);
    zoe_wan_work_free(s.work);
    zoe_solver_free(s.solver);
    return status;
}

/* The transformers are not needed any more. */
static void close_experts(zoe_job *job)
{
    for (size_t e = 0; e < ZOE_EXPERTS; e++) {
        zoe_wan_close(job->wan[e]);
        zoe_loras_close(job, e);
        zoe_store_close(job->expert_store[e]);
        job->wan[e] = NULL;
        job->expert_store[e] = NULL;
    }
}

/* ---- decode: latent to frames, written as they come ---- */

typedef struct clip {
    const zoe_job *job;
    zoe_output_frames *out;
} clip;

static zoe_status write_frames(void *user, const float *frames, size_t index, size_t count)
{
    const clip *c = user;
    const zoe_plan *p = &c->job->plan;
    /* The tensor is only looked at. */
    zoe_job_observe(
        c->job, "frames", index,
        zoe_tensor_4d((float *)(uintptr_t)frames, ZOE_F32, count, p->height, p->width, 3));
    return zoe_output_frames_write(c->out, frames, index, count);
}

static void decode_progress(void *user, size_t done, size_t total)
{
    zoe_job_progress(((const clip *)user)->job, ZOE_PHASE_DECODE, done, total);
}

/* The first rank gets the frames, however many share the work. */
static zoe_status decode_frames(zoe_context *ctx, zoe_job *job)
{
    const zoe_plan *p = &job->plan;
    zoe_output_frames out = {.job = NULL};
    zoe_vae *vae = NULL;
    zoe_status status;
    zoe_job_progress(job, ZOE_PHASE_DECODE, 0, p->latent_frames);
    if (zoe_ranks_first(job))
        TRY(zoe_output_frames_open(ctx, &out, job));
    TRY_GOTO(zoe_store_check(ctx, job->vae_store));
    TRY_GOTO(zoe_vae_open(ctx, &vae, job->vae_store));
    zoe_store_drop(job->vae_store);
    TRY_GOTO(zoe_vae_set_ranks(ctx, vae, job->ranks.all, job->ranks.vae));
    clip sink = {.job = job, .out = &out};
    TRY_GOTO(zoe_vae_decode(ctx, vae, job->latent, p->latent_frames, p->latent_height,
                            p->latent_width, write_frames, &sink, decode_progress, NULL));
    if (zoe_ranks_first(job))
        status = zoe_output_frames_close(&out);
done:
    zoe_vae_close(vae);
    zoe_output_frames_free(&out);
    return status;
}

/* Latents come last, so that nothing stands under their name after a cancel; but if the frames fail,
 * they are what is left of the work. */
static zoe_status write_outputs(zoe_context *ctx, zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    zoe_status status = ZOE_OK;
    if (zoe_job_makes_frames(p))
        status = decode_frames(ctx, job);
    if (!job->params.latents_out || zoe_cancelled(ctx) || !zoe_ranks_first(job))
        return status;
    const zoe_status latents = zoe_latents_write(ctx, job);
    return status == ZOE_OK ? latents : status;
}

/* Does it, as a stage of the trace. */
#define STAGE(name, expr)                                                                          \
    do {                                                                                           \
        const double stage_begun = zoe_now();                                                      \
        const zoe_status stage_status = (expr);                                                    \
        zoe_trace_add(ctx, ZOE_TRACK_COMPUTE, name, SIZE_MAX, stage_begun);                        \
        if (stage_status != ZOE_OK)                                                                \
            return stage_status;                                                                   \
    } while (0)

static zoe_status run(zoe_context *ctx, zoe_job *job)
{
    TRY(draw_noise(ctx, job));
    TRY(zoe_checkpoint_begin(ctx, job));
    STAGE("text", take_context(ctx, job));
    STAGE("encode", take_condition(ctx, job));
    STAGE("steps", denoise(ctx, job));
    close_experts(job);
    STAGE("decode", write_outputs(ctx, job));
    TRY(zoe_ranks_meet(ctx, job, ZOE_OK)); /* the first one has written everything */
    return zoe_job_trace_write(ctx, job);
}

zoe_status zoe_job_run(zoe_context *ctx, zoe_job *job)
{
    zoe_checkpoint_name_parts(ctx, job, true);
    const zoe_status status = run(ctx, job);
    zoe_checkpoint_name_parts(ctx, job, false);
    zoe_ranks_tell(ctx, job->ranks.all, status);
    if (status != ZOE_OK)
        zoe_job_trace_keep(ctx, job);
    return status;
}
