/* What may be asked: defaults, and what can be told from the request alone. */
#define _GNU_SOURCE
#include "job/lora.h"
#include "job/ranks.h"
#include "job/step_cache.h"

#include <sys/random.h>

const char zoe_default_negative_prompt[] =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，"
    "低质量，JPEG压缩残留，丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容"
    "的，"
    "形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，三条腿，背景人很多，倒着走";

void zoe_job_params_init(zoe_job_params *params)
{
    *params = (zoe_job_params){
        .width = 1280,
        .height = 720,
        .frames = 81,
        .steps = 40,
        .solver = ZOE_SOLVER_UNIPC,
        .shift = 5.0,
        .guide_low = 3.5,
        .guide_high = 3.5,
        .boundary = 0.9,
        .boundary_step = ZOE_NO_BOUNDARY_STEP,
        .seed = -1,
        .fps_num = 16,
        .fps_den = 1,
    };
}

const char *zoe_phase_name(zoe_phase phase)
{
    static const char *const names[ZOE_PHASE_COUNT] = {"text", "encode", "steps", "decode"};
    return (unsigned)phase < ZOE_PHASE_COUNT ? names[phase] : "unknown";
}

/* How many steps, and whose. */
static zoe_status check_steps(zoe_context *ctx, const zoe_job_params *p)
{
    const size_t n = p->step_list_count, steps = n > 0 ? n : p->steps;
    if (n > ZOE_JOB_STEP_LIST)
        return zoe_fail(ctx, ZOE_INVALID, "step list: %zu steps; up to %d are wanted", n,
                        (int)ZOE_JOB_STEP_LIST);
    if (n > 0)
        TRY(zoe_step_list_check(ctx, p->step_list, n));
    if (n > 0 && p->solver != ZOE_SOLVER_EULER)
        return zoe_fail(ctx, ZOE_INVALID,
                        "solver: a step list goes with Euler alone, as its models do");
    if (steps == 0 || steps > 10000)
        return zoe_fail(ctx, ZOE_INVALID, "steps: %zu; 1 to 10000 are wanted", steps);
    if (p->boundary_step != ZOE_NO_BOUNDARY_STEP && p->boundary_step > steps)
        return zoe_fail(ctx, ZOE_INVALID,
                        "boundary step: %zu; 0 to %zu, the number of steps, is wanted",
                        p->boundary_step, steps);
    return ZOE_OK;
}

zoe_status zoe_params_check_numbers(zoe_context *ctx, const zoe_job_params *p)
{
    const size_t side = ZOE_MAX_SIDE;
    if (p->frames == 0 || p->frames % 4 != 1 || p->frames > 100001)
        return zoe_fail(
            ctx, ZOE_INVALID,
            "frames: %zu; 4 n + 1 is wanted, up to 100001 (the nearest are %zu and %zu)", p->frames,
            p->frames > 100001 ? 99997
            : p->frames < 5    ? 1
                               : (p->frames - 1) / 4 * 4 + 1,
            p->frames > 100001 ? 100001
            : p->frames < 5    ? 5
                               : (p->frames - 1) / 4 * 4 + 5);
    if (p->width < 16 || p->height < 16 || p->width > side || p->height > side)
        return zoe_fail(ctx, ZOE_INVALID, "size: %zux%zu; sides of 16 to %zu are wanted", p->width,
                        p->height, side);
    TRY(check_steps(ctx, p));
    if (!(p->shift > 0.0 && p->shift <= 1000.0))
        return zoe_fail(ctx, ZOE_INVALID, "shift: %g; above 0 and up to 1000 is wanted", p->shift);
    if (!isfinite(p->guide_low) || !isfinite(p->guide_high) || p->guide_low < 0.0 ||
        p->guide_high < 0.0)
        return zoe_fail(ctx, ZOE_INVALID, "guidance scale: %g, %g; numbers from 0 up are wanted",
                        p->guide_low, p->guide_high);
    if (!(p->boundary >= 0.0 && p->boundary <= 1.001))
        return zoe_fail(ctx, ZOE_INVALID, "boundary: %g; 0 to 1 is wanted", p->boundary);
    if (p->last_image && p->frames < 5)
        return zoe_fail(ctx, ZOE_INVALID,
                        "frames: %zu; with a picture to end with at least 5 are wanted", p->frames);
    if (p->fps_num <= 0 || p->fps_den <= 0)
        return zoe_fail(ctx, ZOE_INVALID, "frame rate: %d/%d; a positive fraction is wanted",
                        p->fps_num, p->fps_den);
    return ZOE_OK;
}

static zoe_status check_texts(zoe_context *ctx, const zoe_job_params *p)
{
    TRY(zoe_params_check_model(ctx, p));
    if (!p->prompt)
        return zoe_fail(ctx, ZOE_INVALID,
                        "no prompt: what shall happen in the video (\"\" for none)");
    if (!p->out && !p->frames_out && !p->latents_out && !p->frame && !p->changed)
        return zoe_fail(ctx, ZOE_INVALID,
                        "no output: a video file, a folder for frames or a file for latents is "
                        "wanted");
    return ZOE_OK;
}

static zoe_status choose_seed(zoe_context *ctx, zoe_job *job)
{
    uint32_t random;
    job->plan.seed = job->params.seed;
    if (job->params.seed >= 0)
        return ZOE_OK;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return zoe_fail(ctx, ZOE_IO, "no random seed from the system: give one");
    job->plan.seed = random;
    return ZOE_OK;
}

static zoe_status make_schedule(zoe_context *ctx, zoe_job *job)
{
    zoe_job_params *p = &job->params;
    if (p->step_list_count == 0)
        return zoe_schedule_new(ctx, &job->schedule, p->solver, ZOE_SCHEDULE_WAN, p->steps,
                                p->shift);
    p->steps = p->step_list_count;
    return zoe_schedule_new_list(ctx, &job->schedule, p->step_list, p->step_list_count, p->shift);
}

static zoe_status begin(zoe_context *ctx, zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    TRY(make_schedule(ctx, job));
    TRY(choose_seed(ctx, job));
    TRY(zoe_loras_resolve(ctx, job));
    TRY(zoe_step_cache_read(ctx, job));
    TRY(zoe_job_trace_begin(ctx, job));
    if (!zoe_ranks_first(job))
        return ZOE_OK;
    TRY(zoe_checkpoint_attach(ctx, job));
    zoe_checkpoint_name_parts(ctx, job, true);
    const zoe_status status = zoe_outputs_probe(ctx, p, p->width, p->height);
    zoe_checkpoint_name_parts(ctx, job, false);
    return status;
}

/* What one rank can do by itself. */
static zoe_status make(zoe_context *ctx, zoe_job **job, const zoe_job_params *params)
{
    void *p;
    TRY(check_texts(ctx, params));
    TRY(zoe_params_check_numbers(ctx, params));
    TRY(zoe_ranks_check(ctx, params));
    TRY(zoe_loras_check_numbers(ctx, params));
    TRY(zoe_places_check(ctx, params));
    if (params->latents_out && zoe_video_kind_of(params->latents_out) != ZOE_VIDEO_UNKNOWN)
        zoe_log(ctx, ZOE_WARNING,
                "%s: latents are written as safetensors, though this is the name of a video or "
                "picture",
                params->latents_out);
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **job, "job"));
    zoe_job *j = p;
    j->params = *params;
    j->ranks.all = params->comm;
    j->ranks.count = zoe_comm_size(params->comm);
    j->ranks.rank = zoe_comm_rank(params->comm);
    *job = j;
    return begin(ctx, j);
}

zoe_status zoe_job_new(zoe_context *ctx, zoe_job **job, const zoe_job_params *params)
{
    *job = NULL;
    zoe_status status = zoe_comm_agree(ctx, params->comm, make(ctx, job, params));
    if (status == ZOE_OK) /* a random one, or that of a checkpoint */
        status = zoe_ranks_share(ctx, *job, &(*job)->plan.seed, sizeof(*job)->plan.seed, 0, "seed");
    if (status == ZOE_OK)
        return ZOE_OK;
    zoe_ranks_tell(ctx, params->comm, status);
    zoe_job_free(*job);
    *job = NULL;
    return status;
}

void zoe_job_free(zoe_job *job)
{
    if (!job)
        return;
    zoe_umt5_close(job->umt5);
    zoe_store_close(job->text_store);
    zoe_store_close(job->vae_store);
    zoe_clip_close(job->clip);
    zoe_store_close(job->clip_store);
    for (size_t e = 0; e < ZOE_EXPERTS; e++) {
        zoe_wan_close(job->wan[e]);
        zoe_loras_close(job, e);
        zoe_store_close(job->expert_store[e]);
    }
    for (size_t b = 0; b < ZOE_BRANCHES; b++) {
        zoe_free(job->ids[b]);
        zoe_free(job->context[b]);
        zoe_free(job->velocity[b]);
    }
    zoe_preview_free(job->preview);
    zoe_free(job->comment);
    zoe_free(job->json);
    for (size_t end = 0; end < ZOE_ENDS; end++) {
        zoe_free(job->picture[end]);
        zoe_free(job->clip_picture[end]);
    }
    zoe_free(job->condition);
    zoe_free(job->features);
    zoe_free(job->latent);
    zoe_schedule_free(&job->schedule);
    zoe_parts_free(&job->parts);
    zoe_checkpoint_close(job->checkpoint);
    zoe_job_trace_end(job);
    zoe_ranks_free(&job->ranks);
    zoe_free(job);
}

const zoe_plan *zoe_job_plan(const zoe_job *job)
{
    return &job->plan;
}

void zoe_job_progress(const zoe_job *job, zoe_phase phase, size_t done, size_t total)
{
    if (job->params.progress)
        job->params.progress(job->params.user, phase, done, total);
}

void zoe_job_observe(const zoe_job *job, const char *name, size_t step, zoe_tensor value)
{
    if (job->params.observe)
        job->params.observe(job->params.user, name, step, value);
}
