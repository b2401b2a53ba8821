/* What a run will be: headers, picture, tokens and sizes are looked at, nothing heavy is loaded. */
#define _GNU_SOURCE
#include "job/job.h"

#include <sys/random.h>

enum {
    PROGRAM_BYTES = 64 << 20 /* the program itself with its libraries, and small things */
};

static zoe_status open_expert(zoe_context *ctx, zoe_job *job, zoe_expert expert)
{
    zoe_config *config = NULL;
    zoe_status status;
    TRY(zoe_store_open(ctx, &job->expert_store[expert], job->parts.expert[expert],
                       ZOE_NAMES_WAN_DIT));
    if (job->parts.expert_config[expert])
        TRY_GOTO(zoe_config_open(ctx, &config, job->parts.expert_config[expert]));
    TRY_GOTO(
        zoe_wan_open(ctx, &job->wan[expert], job->expert_store[expert], config, job->params.bf16));
done:
    zoe_config_close(config);
    return status;
}

static zoe_status check_expert(zoe_context *ctx, const zoe_job *job, zoe_expert expert)
{
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[expert]);
    const zoe_wan_dims *other = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const char *path = zoe_store_path(job->expert_store[expert]);
    if (d->in_dim != 2 * d->out_dim + ZOE_MASK_CHANNELS)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: takes %zu channels and gives %zu; image-to-video of the Wan 2.2 A14B "
                        "kind takes 2 x %zu + %d%s",
                        path, d->in_dim, d->out_dim, d->out_dim, (int)ZOE_MASK_CHANNELS,
                        d->in_dim == d->out_dim ? ": this is a text-to-video model" : "");
    if (d->text_dim != zoe_umt5_dim(job->umt5))
        return zoe_fail(
            ctx, ZOE_FORMAT, "%s: takes a text context of width %zu, the text encoder %s gives %zu",
            path, d->text_dim, zoe_store_path(job->text_store), zoe_umt5_dim(job->umt5));
    if (d->text_len != other->text_len || d->dim != other->dim || d->layers != other->layers ||
        d->heads != other->heads || d->ffn_dim != other->ffn_dim || d->out_dim != other->out_dim)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s and %s differ in size: the two experts of one model are wanted", path,
                        zoe_store_path(job->expert_store[ZOE_HIGH_NOISE]));
    return ZOE_OK;
}

/* Cleans and tokenizes one prompt; given: it came with the request. */
static zoe_status tokenize(zoe_context *ctx, zoe_job *job, const zoe_tokenizer *tokenizer,
                           zoe_branch branch, const char *text, bool given)
{
    const size_t limit = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->text_len;
    const char *what = branch == ZOE_COND ? "prompt" : "negative prompt";
    char *clean = NULL;
    bool suspect = false;
    size_t full = 0;
    void *p;
    zoe_status status;
    TRY(zoe_alloc(ctx, &p, limit, sizeof *job->ids[branch], what));
    job->ids[branch] = p;
    TRY_GOTO(zoe_text_clean(ctx, &clean, &suspect, text, strlen(text)));
    if (suspect)
        zoe_log(ctx, ZOE_WARNING,
                "the %s looks like text that was decoded with the wrong encoding; it is used as it "
                "stands",
                what);
    TRY_GOTO(zoe_tokenizer_encode(ctx, tokenizer, job->ids[branch], &job->id_count[branch], &full,
                                  limit, clean));
    if (full > limit)
        zoe_log(ctx, given ? ZOE_WARNING : ZOE_INFO,
                "the %s has %zu tokens; the model takes %zu, the rest is left out", what, full,
                limit);
    for (size_t i = 0; i < job->id_count[branch]; i++)
        if (job->ids[branch][i] < 0 || (size_t)job->ids[branch][i] >= zoe_umt5_vocab(job->umt5)) {
            status = zoe_fail(ctx, ZOE_FORMAT,
                              "%s: gives token %d, the text encoder %s knows only %zu: they do not "
                              "belong together",
                              job->parts.tokenizer, (int)job->ids[branch][i],
                              zoe_store_path(job->text_store), zoe_umt5_vocab(job->umt5));
            goto done;
        }
done:
    zoe_free(clean);
    return status;
}

static zoe_status read_prompts(zoe_context *ctx, zoe_job *job)
{
    const char *negative = job->params.negative_prompt;
    const bool given = negative && *negative;
    if (!given)
        negative = zoe_default_negative_prompt;
    zoe_tokenizer *tokenizer;
    TRY(zoe_tokenizer_open(ctx, &tokenizer, job->parts.tokenizer));
    zoe_status status;
    TRY_GOTO(tokenize(ctx, job, tokenizer, ZOE_COND, job->params.prompt, true));
    TRY_GOTO(tokenize(ctx, job, tokenizer, ZOE_UNCOND, negative, given));
    job->plan.prompt_tokens = job->id_count[ZOE_COND];
    job->plan.negative_tokens = job->id_count[ZOE_UNCOND];
done:
    zoe_tokenizer_close(tokenizer);
    return status;
}

/* The picture at the video's size, [H, W, 3]. */
static zoe_status prepare_picture(zoe_context *ctx, zoe_job *job, const zoe_picture *picture)
{
    const size_t H = job->plan.height, W = job->plan.width;
    const size_t pixels = picture->width * picture->height;
    void *p, *planes = NULL, *resized = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc(ctx, &planes, 3 * pixels, sizeof(float), "picture"));
    TRY_GOTO(zoe_alloc(ctx, &resized, 3 * H * W, sizeof(float), "picture"));
    TRY_GOTO(zoe_alloc(ctx, &p, 3 * H * W, sizeof(float), "picture"));
    job->picture = p;
    zoe_picture_to_planes(planes, picture);
    TRY_GOTO(zoe_resize_bicubic(ctx, resized, H, W, planes, 3, picture->height, picture->width));
    for (size_t i = 0; i < H * W; i++)
        for (size_t c = 0; c < 3; c++)
            job->picture[3 * i + c] = ((const float *)resized)[c * H * W + i];
done:
    zoe_free(planes);
    zoe_free(resized);
    return status;
}

static zoe_status read_picture(zoe_context *ctx, zoe_job *job)
{
    zoe_plan *plan = &job->plan;
    zoe_picture picture;
    TRY(zoe_picture_read(ctx, &picture, job->params.image, job->params.keep_orientation));
    zoe_status status;
    if (picture.had_alpha)
        zoe_log(ctx, ZOE_WARNING, "%s: transparency is ignored", job->params.image);
    plan->picture_width = picture.width;
    plan->picture_height = picture.height;
    status = zoe_size_i2v(ctx, &plan->height, &plan->width, picture.height, picture.width,
                          job->params.width * job->params.height);
    if (status != ZOE_OK) {
        zoe_fail_in(ctx, "%s", job->params.image);
        goto done;
    }
    plan->frames = job->params.frames;
    plan->latent_frames = (plan->frames - 1) / 4 + 1;
    plan->latent_height = plan->height / 8;
    plan->latent_width = plan->width / 8;
    plan->tokens = plan->latent_frames * (plan->latent_height / 2) * (plan->latent_width / 2);
    TRY_GOTO(prepare_picture(ctx, job, &picture));
done:
    zoe_picture_free(&picture);
    return status;
}

static void plan_steps(zoe_job *job)
{
    zoe_plan *plan = &job->plan;
    for (size_t i = 0; i < job->schedule.steps; i++) {
        const bool high =
            zoe_expert_of(job->schedule.timestep[i], job->params.boundary) == ZOE_HIGH_NOISE;
        const double scale = high ? job->params.guide_high : job->params.guide_low;
        plan->high_steps += high;
        plan->low_steps += !high;
        plan->passes += scale == 1.0 ? 1 : 2;
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes held at once in each phase. */
static zoe_status plan_bytes(zoe_context *ctx, zoe_job *job)
{
    zoe_plan *plan = &job->plan;
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const size_t f = plan->latent_frames, h = plan->latent_height, w = plan->latent_width;
    const size_t cells = f * h * w, pixels = plan->height * plan->width;
    const bool bf16 = job->params.bf16;
    zoe_vae *vae;
    TRY(zoe_vae_open(ctx, &vae, job->vae_store));
    if (zoe_vae_channels(vae) != d->out_dim) {
        const zoe_status status =
            zoe_fail(ctx, ZOE_FORMAT, "%s: %zu latent channels, the transformer %s makes %zu",
                     zoe_store_path(job->vae_store), zoe_vae_channels(vae),
                     zoe_store_path(job->expert_store[ZOE_HIGH_NOISE]), d->out_dim);
        zoe_vae_close(vae);
        return status;
    }
    const size_t vae_weights = zoe_vae_weight_bytes(vae) + zoe_store_bytes(job->vae_store);
    const size_t encode = zoe_vae_encode_bytes(ctx, vae, plan->height, plan->width);
    const size_t decode = zoe_vae_decode_bytes(ctx, vae, h, w);
    zoe_vae_close(vae);
    zoe_store_drop(job->vae_store);

    const size_t condition = cells * (d->in_dim - d->out_dim) * sizeof(float);
    const size_t latents = cells * d->out_dim * sizeof(float);
    const size_t contexts =
        (plan->prompt_tokens + plan->negative_tokens) * d->text_dim * sizeof(float);
    size_t fixed = PROGRAM_BYTES + condition + 4 * latents + contexts + 3 * pixels * sizeof(float);
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        fixed += zoe_wan_weight_bytes(job->wan[e]);

    const size_t tokens = larger(plan->prompt_tokens, plan->negative_tokens);
    plan->bytes[ZOE_PHASE_TEXT] =
        zoe_store_bytes(job->text_store) + zoe_umt5_work_bytes(ctx, job->umt5, tokens);
    plan->bytes[ZOE_PHASE_ENCODE] = vae_weights + encode;
    size_t texts = 0, making = 0;
    const size_t rows[ZOE_BRANCHES] = {plan->prompt_tokens, plan->negative_tokens};
    for (size_t b = 0; b < ZOE_BRANCHES; b++) {
        const zoe_bytes bytes = zoe_wan_text_bytes(d, bf16, rows[b]);
        texts += bytes.weights;
        making = larger(making, bytes.work);
    }
    plan->bytes[ZOE_PHASE_STEPS] = larger(zoe_store_bytes(job->expert_store[ZOE_HIGH_NOISE]),
                                          zoe_store_bytes(job->expert_store[ZOE_LOW_NOISE])) +
                                   texts + making + zoe_wan_work_bytes(ctx, d, bf16, f, h, w) +
                                   zoe_solver_bytes(job->params.solver, cells * d->out_dim);
    plan->bytes[ZOE_PHASE_DECODE] = vae_weights + decode + 8 * pixels * 3;
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        plan->bytes[i] += fixed;
        plan->peak = larger(plan->peak, plan->bytes[i]);
    }
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

zoe_status zoe_job_open(zoe_context *ctx, zoe_job *job)
{
    TRY(choose_seed(ctx, job));
    TRY(zoe_parts_locate(ctx, &job->parts, &job->params));
    TRY(zoe_store_open(ctx, &job->text_store, job->parts.text_encoder, ZOE_NAMES_UMT5));
    TRY(zoe_umt5_open(ctx, &job->umt5, job->text_store, job->params.bf16));
    TRY(zoe_store_open(ctx, &job->vae_store, job->parts.vae, ZOE_NAMES_WAN_VAE));
    TRY(open_expert(ctx, job, ZOE_HIGH_NOISE));
    TRY(open_expert(ctx, job, ZOE_LOW_NOISE));
    TRY(check_expert(ctx, job, ZOE_HIGH_NOISE));
    TRY(check_expert(ctx, job, ZOE_LOW_NOISE));
    TRY(read_picture(ctx, job));
    TRY(zoe_outputs_probe(ctx, &job->params, job->plan.width, job->plan.height));
    TRY(read_prompts(ctx, job));
    plan_steps(job);
    TRY(zoe_job_describe(ctx, job));
    TRY(plan_bytes(ctx, job));
    if (job->plan.peak > zoe_memory_bytes())
        zoe_log(ctx, ZOE_WARNING,
                "the run takes %zu MiB at its peak, this machine has %zu MiB: weights will be read "
                "from the disk again and again, or memory will run out",
                job->plan.peak >> 20, zoe_memory_bytes() >> 20);
    return ZOE_OK;
}
