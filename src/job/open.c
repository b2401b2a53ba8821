/* What a run will be: headers, picture, tokens and sizes are looked at, nothing heavy is loaded. */
#include "job/job.h"

#include <errno.h>
#include <unistd.h>

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

zoe_status zoe_expert_check(zoe_context *ctx, const zoe_wan_dims *d, const char *path)
{
    if (d->image_dim > 0)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: this is a Wan 2.1 image-to-video model with a CLIP image branch (it has "
                        "img_emb.proj.0.bias), which is not supported yet: take Wan 2.2 I2V-A14B",
                        path);
    if (d->in_dim != 2 * d->out_dim + ZOE_MASK_CHANNELS)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: takes %zu channels and gives %zu; image-to-video of the Wan 2.2 A14B "
                        "kind takes 2 x %zu + %d%s",
                        path, d->in_dim, d->out_dim, d->out_dim, (int)ZOE_MASK_CHANNELS,
                        d->in_dim == d->out_dim ? ": this is a text-to-video model" : "");
    return ZOE_OK;
}

static zoe_status check_expert(zoe_context *ctx, const zoe_job *job, zoe_expert expert)
{
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[expert]);
    const zoe_wan_dims *other = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const char *path = zoe_store_path(job->expert_store[expert]);
    TRY(zoe_expert_check(ctx, d, path));
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
                "the %s has %zu tokens; the model takes %zu, the rest is left out: say what matters "
                "first, or shorten it",
                what, full, limit);
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

zoe_status zoe_picture_to_frame(zoe_context *ctx, float **frame, size_t H, size_t W,
                                const zoe_picture *picture)
{
    const size_t pixels = picture->width * picture->height;
    void *p, *planes = NULL, *resized = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc(ctx, &planes, 3 * pixels, sizeof(float), "picture"));
    TRY_GOTO(zoe_alloc(ctx, &resized, 3 * H * W, sizeof(float), "picture"));
    TRY_GOTO(zoe_alloc(ctx, &p, 3 * H * W, sizeof(float), "picture"));
    *frame = p;
    zoe_picture_to_planes(planes, picture);
    TRY_GOTO(zoe_resize_bicubic(ctx, resized, H, W, planes, 3, picture->height, picture->width));
    for (size_t i = 0; i < H * W; i++)
        for (size_t c = 0; c < 3; c++)
            (*frame)[3 * i + c] = ((const float *)resized)[c * H * W + i];
done:
    zoe_free(planes);
    zoe_free(resized);
    return status;
}

/* Read once, for the digest too: it may come through a pipe. */
static zoe_status decode_picture(zoe_context *ctx, zoe_job *job, zoe_picture *picture)
{
    enum { PICTURE_BYTES = 1 << 30 };
    const char *path = job->params.image;
    char *file;
    size_t size;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s: no such file; a picture is wanted there: check its name and the "
                        "current folder",
                        path);
    if (zoe_folder_exists(path))
        return zoe_fail(ctx, ZOE_IO, "%s: this is a folder; give the file of one picture", path);
    TRY(zoe_file_read(ctx, &file, &size, path, PICTURE_BYTES));
    zoe_status status = zoe_digest_of(ctx, job->sources.image, file, size);
    if (status == ZOE_OK) {
        status = zoe_picture_decode(ctx, picture, file, size, job->params.keep_orientation);
        if (status != ZOE_OK)
            zoe_fail_in(ctx, "%s", path);
    }
    zoe_free(file);
    return status;
}

static zoe_status read_picture(zoe_context *ctx, zoe_job *job)
{
    zoe_plan *plan = &job->plan;
    zoe_picture picture;
    zoe_status status;
    TRY(decode_picture(ctx, job, &picture));
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
    TRY_GOTO(zoe_picture_to_frame(ctx, &job->picture, plan->height, plan->width, &picture));
done:
    zoe_picture_free(&picture);
    return status;
}

static zoe_status probe_outputs(zoe_context *ctx, const zoe_job *job)
{
    zoe_checkpoint_name_parts(ctx, job, true);
    const zoe_status status =
        zoe_outputs_probe(ctx, &job->params, job->plan.width, job->plan.height);
    zoe_checkpoint_name_parts(ctx, job, false);
    return status;
}

zoe_status zoe_job_open(zoe_context *ctx, zoe_job *job)
{
    TRY(zoe_parts_locate(ctx, &job->parts, &job->params));
    TRY(zoe_store_open(ctx, &job->text_store, job->parts.text_encoder, ZOE_NAMES_UMT5));
    TRY(zoe_umt5_open(ctx, &job->umt5, job->text_store, job->params.bf16));
    TRY(zoe_store_open(ctx, &job->vae_store, job->parts.vae, ZOE_NAMES_WAN_VAE));
    TRY(open_expert(ctx, job, ZOE_HIGH_NOISE));
    TRY(open_expert(ctx, job, ZOE_LOW_NOISE));
    TRY(check_expert(ctx, job, ZOE_HIGH_NOISE));
    TRY(check_expert(ctx, job, ZOE_LOW_NOISE));
    TRY(read_picture(ctx, job));
    TRY(probe_outputs(ctx, job));
    TRY(read_prompts(ctx, job));
    zoe_plan_steps(job);
    TRY(zoe_checkpoint_load(ctx, job));
    TRY(zoe_job_describe(ctx, job));
    TRY(zoe_plan_bytes(ctx, job));
    TRY(zoe_preview_open(ctx, job));
    return zoe_space_check(ctx, job);
}
