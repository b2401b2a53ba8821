/* What is known of the video before the steps: pictures to a condition, a first latent frame or CLIP
 * features. */
#include "job/ranks.h"

size_t zoe_still_frames(const zoe_job *job)
{
    return job->family->still && job->params.image ? 1 : 0;
}

bool zoe_job_has_condition(const zoe_job *job)
{
    return job->family->masked || zoe_still_frames(job) > 0;
}

zoe_tensor zoe_condition_tensor(const zoe_job *job)
{
    const zoe_plan *p = &job->plan;
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const bool masked = job->family->masked;
    return zoe_tensor_4d(job->condition, ZOE_F32, masked ? d->in_dim - d->out_dim : d->out_dim,
                         masked ? p->latent_frames : zoe_still_frames(job), p->latent_height,
                         p->latent_width);
}

static bool all_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static zoe_status take_floats(zoe_context *ctx, float **values, size_t count, const char *what)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, count, sizeof(float), what));
    *values = p;
    return ZOE_OK;
}

/* ---- CLIP ---- */

static zoe_status encode_features(zoe_context *ctx, zoe_job *job)
{
    const size_t rows = zoe_clip_tokens(job->clip), dim = zoe_clip_dim(job->clip);
    TRY(zoe_store_check(ctx, job->clip_store));
    TRY(take_floats(ctx, &job->features, job->feature_rows * dim, "picture features"));
    float *out = job->features;
    for (size_t end = 0; end < ZOE_ENDS; end++) {
        if (!job->clip_picture[end])
            continue;
        TRY(zoe_clip_encode(ctx, job->clip, out, job->clip_picture[end]));
        out += rows * dim;
    }
    if (!all_finite(job->features, job->feature_rows * dim))
        return zoe_fail(ctx, ZOE_NONFINITE, "the CLIP tower gave NaN or inf for the picture (%s)",
                        zoe_store_path(job->clip_store));
    zoe_store_drop(job->clip_store);
    return ZOE_OK;
}

/* ---- VAE ---- */

/* Frames that are not known are grey. */
static zoe_status read_frame(void *user, float *frame, size_t index)
{
    const zoe_job *job = user;
    const size_t count = 3 * job->plan.height * job->plan.width;
    const float *picture = index == 0                      ? job->picture[ZOE_FIRST]
                           : index + 1 == job->plan.frames ? job->picture[ZOE_LAST]
                                                           : NULL;
    if (picture)
        memcpy(frame, picture, count * sizeof *frame);
    else
        memset(frame, 0, count * sizeof *frame);
    return ZOE_OK;
}

static void encode_progress(void *user, size_t done, size_t total)
{
    zoe_job_progress(user, ZOE_PHASE_ENCODE, done, total);
}

/* Channel c is the mask of frame 4 t + c - 3 of the video: the first latent frame stands for the
 * first frame alone, four times; the last one's last channel for the last frame. */
static void fill_mask(const zoe_job *job)
{
    const zoe_plan *p = &job->plan;
    const size_t plane = p->latent_height * p->latent_width, cells = p->latent_frames * plane;
    for (size_t c = 0; c < ZOE_MASK_CHANNELS; c++)
        for (size_t i = 0; i < cells; i++)
            job->condition[c * cells + i] = i < plane ? 1.0f : 0.0f;
    if (job->picture[ZOE_LAST])
        for (size_t i = 0; i < plane; i++)
            job->condition[ZOE_MASK_CHANNELS * cells - plane + i] = 1.0f;
}

static zoe_status encode_clip(zoe_context *ctx, zoe_job *job, zoe_vae *vae)
{
    const zoe_plan *p = &job->plan;
    const size_t cells = p->latent_frames * p->latent_height * p->latent_width;
    const size_t masks = job->family->masked ? ZOE_MASK_CHANNELS : 0;
    const size_t frames = job->family->masked ? p->frames : 1;
    const size_t count = zoe_tensor_count(zoe_condition_tensor(job));
    TRY(take_floats(ctx, &job->condition, count, "condition"));
    if (masks)
        fill_mask(job);
    TRY(zoe_vae_set_ranks(ctx, vae, job->ranks.all, job->ranks.vae));
    TRY(zoe_vae_encode(ctx, vae, job->condition + masks * cells, frames, p->height, p->width,
                       read_frame, job, encode_progress, NULL));
    if (!all_finite(job->condition, count))
        return zoe_fail(ctx, ZOE_NONFINITE, "the VAE encoder gave NaN or inf for the picture (%s)",
                        zoe_store_path(job->vae_store));
    return ZOE_OK;
}

/* The first rank alone makes the features. */
static zoe_status encode(zoe_context *ctx, zoe_job *job)
{
    zoe_vae *vae;
    zoe_job_progress(job, ZOE_PHASE_ENCODE, 0, job->family->masked ? job->plan.latent_frames : 1);
    if (job->clip && zoe_ranks_first(job))
        TRY(encode_features(ctx, job));
    TRY(zoe_store_check(ctx, job->vae_store));
    TRY(zoe_vae_open(ctx, &vae, job->vae_store));
    zoe_store_drop(job->vae_store);
    const zoe_status status = encode_clip(ctx, job, vae);
    zoe_vae_close(vae);
    return status;
}

zoe_status zoe_job_encode(zoe_context *ctx, zoe_job *job)
{
    if (!job->kept_condition)
        TRY(zoe_ranks_meet(ctx, job, encode(ctx, job)));
    if (job->clip)
        TRY(zoe_ranks_share_floats(ctx, job, &job->features,
                                   job->feature_rows * zoe_clip_dim(job->clip), 0,
                                   "picture features"));
    if (!job->kept_condition)
        return ZOE_OK;
    return zoe_ranks_share_floats(ctx, job, &job->condition,
                                  zoe_tensor_count(zoe_condition_tensor(job)), 0, "condition");
}
