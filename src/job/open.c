/* What a run will be: headers, picture, tokens and sizes are looked at, nothing heavy is loaded. */
#include "job/lora.h"
#include "job/ranks.h"
#include "job/step_cache.h"
#include "zoetrope/inspect.h"

zoe_status zoe_expert_open(zoe_context *ctx, zoe_store **store, zoe_wan **wan, const char *path,
                           const char *config_path, bool bf16)
{
    zoe_config *config = NULL;
    zoe_status status;
    TRY(zoe_store_open(ctx, store, path, ZOE_NAMES_WAN_DIT));
    if (config_path)
        TRY_GOTO(zoe_config_open(ctx, &config, config_path));
    TRY_GOTO(zoe_wan_open(ctx, wan, *store, config, bf16));
done:
    zoe_config_close(config);
    return status;
}

static zoe_status check_expert(zoe_context *ctx, const zoe_job *job, zoe_expert expert)
{
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[expert]);
    const zoe_wan_dims *other = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const char *path = zoe_store_path(job->expert_store[expert]);
    const zoe_family *family;
    TRY(zoe_family_find(ctx, &family, d, job->parts.transformers, path));
    if (d->text_dim != zoe_umt5_dim(job->umt5))
        return zoe_fail(
            ctx, ZOE_FORMAT, "%s: takes a text context of width %zu, the text encoder %s gives %zu",
            path, d->text_dim, zoe_store_path(job->text_store), zoe_umt5_dim(job->umt5));
    if (d->text_len != other->text_len || d->dim != other->dim || d->layers != other->layers ||
        d->heads != other->heads || d->ffn_dim != other->ffn_dim || d->out_dim != other->out_dim ||
        d->in_dim != other->in_dim)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s and %s differ in size: the two experts of one model are wanted", path,
                        zoe_store_path(job->expert_store[ZOE_HIGH_NOISE]));
    return ZOE_OK;
}

static zoe_status open_transformers(zoe_context *ctx, zoe_job *job)
{
    static const zoe_expert order[ZOE_EXPERTS] = {ZOE_HIGH_NOISE, ZOE_LOW_NOISE};
    const size_t n = job->parts.transformers;
    for (size_t i = 0; i < n; i++)
        TRY(zoe_part_blame(ctx,
                           zoe_expert_open(ctx, &job->expert_store[order[i]], &job->wan[order[i]],
                                           job->parts.expert[order[i]],
                                           job->parts.expert_config[order[i]], job->params.bf16),
                           job->parts.expert[order[i]], "transformer", ZOE_CONTENT_WAN_DIT));
    for (size_t i = 0; i < n; i++)
        TRY(check_expert(ctx, job, order[i]));
    TRY(zoe_family_find(ctx, &job->family, zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]), n,
                        zoe_store_path(job->expert_store[ZOE_HIGH_NOISE])));
    job->plan.model = job->family->model;
    if (n == 1 && job->params.guide_low != job->params.guide_high)
        return zoe_fail(ctx, ZOE_INVALID,
                        "guidance scale: %g and %g; %s has one transformer, and one number is "
                        "wanted",
                        job->params.guide_low, job->params.guide_high, job->family->model.name);
    if (n == 1 && job->params.boundary_step != ZOE_NO_BOUNDARY_STEP)
        return zoe_fail(ctx, ZOE_INVALID,
                        "boundary step: %zu; %s has one transformer for all steps: leave it out",
                        job->params.boundary_step, job->family->model.name);
    return ZOE_OK;
}

/* The image tower, if the model goes by it. */
static zoe_status open_clip(zoe_context *ctx, zoe_job *job)
{
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const char *name = job->family->model.name;
    if (!job->family->clip)
        return job->params.clip
                   ? zoe_fail(ctx, ZOE_INVALID, "%s: %s takes no CLIP image tower; leave it out",
                              job->params.clip, name)
                   : ZOE_OK;
    if (!job->parts.clip)
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s wants a CLIP image tower, and none is there "
                        "(models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth in the official "
                        "layout, image_encoder in that of diffusers); download it into the model's "
                        "folder, or say where another one is",
                        name);
    TRY(zoe_store_open(ctx, &job->clip_store, job->parts.clip, ZOE_NAMES_CLIP));
    TRY(zoe_clip_open(ctx, &job->clip, job->clip_store));
    job->feature_rows = zoe_clip_tokens(job->clip) * (job->params.last_image ? 2 : 1);
    if (zoe_clip_dim(job->clip) != d->image_dim)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: gives features of width %zu, the transformer %s takes %zu",
                        job->parts.clip, zoe_clip_dim(job->clip),
                        zoe_store_path(job->expert_store[ZOE_HIGH_NOISE]), d->image_dim);
    if (d->image_positions > 0 && d->image_positions != 2 * zoe_clip_tokens(job->clip))
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: gives %zu features of a picture, the transformer %s takes %zu of two",
                        job->parts.clip, zoe_clip_tokens(job->clip),
                        zoe_store_path(job->expert_store[ZOE_HIGH_NOISE]), d->image_positions);
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
        zoe_log(
            ctx, given ? ZOE_WARNING : ZOE_INFO,
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
    zoe_tokenizer *tokenizer = NULL;
    char *official = NULL;
    zoe_status status;
    TRY_GOTO(zoe_strf(ctx, &official, "%s%s", job->family->negative, zoe_default_negative_prompt));
    if (!given)
        negative = official;
    TRY_GOTO(zoe_tokenizer_open(ctx, &tokenizer, job->parts.tokenizer));
    TRY_GOTO(tokenize(ctx, job, tokenizer, ZOE_COND, job->params.prompt, true));
    TRY_GOTO(tokenize(ctx, job, tokenizer, ZOE_UNCOND, negative, given));
    job->plan.prompt_tokens = job->id_count[ZOE_COND];
    job->plan.negative_tokens = job->id_count[ZOE_UNCOND];
done:
    zoe_tokenizer_close(tokenizer);
    zoe_free(official);
    return status;
}

static zoe_status probe_outputs(zoe_context *ctx, const zoe_job *job)
{
    if (!zoe_ranks_first(job))
        return ZOE_OK;
    zoe_checkpoint_name_parts(ctx, job, true);
    const zoe_status status =
        zoe_outputs_probe(ctx, &job->params, job->plan.width, job->plan.height);
    zoe_checkpoint_name_parts(ctx, job, false);
    return status;
}

static zoe_status open_networks(zoe_context *ctx, zoe_job *job)
{
    TRY(zoe_parts_locate(ctx, &job->parts, &job->params));
    TRY(zoe_store_open(ctx, &job->text_store, job->parts.text_encoder, ZOE_NAMES_UMT5));
    TRY(zoe_part_blame(ctx, zoe_umt5_open(ctx, &job->umt5, job->text_store, job->params.bf16),
                       job->parts.text_encoder, "text encoder", ZOE_CONTENT_UMT5));
    TRY(zoe_store_open(ctx, &job->vae_store, job->parts.vae, ZOE_NAMES_WAN_VAE));
    TRY(open_transformers(ctx, job));
    TRY(zoe_loras_open(ctx, job));
    return open_clip(ctx, job);
}

static zoe_status check_vae(zoe_context *ctx, const zoe_job *job, const zoe_vae *vae)
{
    const size_t channels = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->out_dim;
    if (zoe_vae_channels(vae) == channels)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_FORMAT, "%s: %zu latent channels, the transformer %s makes %zu",
                    zoe_store_path(job->vae_store), zoe_vae_channels(vae),
                    zoe_store_path(job->expert_store[ZOE_HIGH_NOISE]), channels);
}

/* What one rank finds by itself: the files, and whether they fit together. */
static zoe_status look(zoe_context *ctx, zoe_job *job, zoe_vae **vae)
{
    TRY(open_networks(ctx, job));
    TRY(zoe_part_blame(ctx, zoe_vae_open(ctx, vae, job->vae_store), job->parts.vae, "VAE",
                       ZOE_CONTENT_WAN_VAE_21));
    TRY(check_vae(ctx, job, *vae));
    job->stride = zoe_vae_stride(*vae);
    TRY(zoe_pictures_read(ctx, job));
    TRY(probe_outputs(ctx, job));
    TRY(read_prompts(ctx, job));
    zoe_plan_steps(job);
    TRY(zoe_ranks_group(ctx, job));
    TRY(zoe_step_cache_check(ctx, job));
    return zoe_checkpoint_load(ctx, job);
}

/* What is known of the run before it is known what it takes. */
static zoe_status describe(zoe_context *ctx, zoe_job *job, zoe_vae *vae)
{
    if (zoe_ranks_first(job))
        TRY(zoe_job_describe(ctx, job));
    return zoe_vae_set_ranks(ctx, vae, job->ranks.all, job->ranks.vae);
}

/* What the run takes of this rank's machine. */
static zoe_status plan(zoe_context *ctx, zoe_job *job, const zoe_vae *vae)
{
    TRY(zoe_plan_bytes(ctx, job, vae));
    if (!zoe_ranks_first(job))
        return ZOE_OK;
    TRY(zoe_preview_open(ctx, job));
    return zoe_space_check(ctx, job);
}

static zoe_status open_job(zoe_context *ctx, zoe_job *job, zoe_vae **vae)
{
    TRY(zoe_ranks_meet(ctx, job, look(ctx, job, vae)));
    TRY(zoe_ranks_compare(ctx, job));
    TRY(zoe_ranks_share_kept(ctx, job));
    TRY(zoe_ranks_meet(ctx, job, describe(ctx, job, *vae)));
    TRY(zoe_plan_share(ctx, job, *vae));
    TRY(zoe_ranks_meet(ctx, job, plan(ctx, job, *vae)));
    return zoe_ranks_share_pairs(ctx, job);
}

zoe_status zoe_job_open(zoe_context *ctx, zoe_job *job)
{
    zoe_vae *vae = NULL;
    const zoe_status status = open_job(ctx, job, &vae);
    zoe_vae_close(vae);
    if (job->vae_store)
        zoe_store_drop(job->vae_store);
    return zoe_ranks_tell(ctx, job->ranks.all, status);
}

const char *zoe_job_record(const zoe_job *job)
{
    return job->json;
}

void zoe_job_list_parts(const zoe_job *job, zoe_job_part parts[ZOE_JOB_PARTS])
{
    const bool pair = job->parts.transformers == 2;
    const zoe_store *const stores[] = {job->expert_store[ZOE_HIGH_NOISE],
                                       job->expert_store[ZOE_LOW_NOISE], job->vae_store,
                                       job->text_store, job->clip_store};
    const char *const roles[ZOE_JOB_PARTS] = {pair ? "high-noise transformer" : "transformer",
                                              "low-noise transformer",
                                              "VAE",
                                              "text encoder",
                                              "image tower",
                                              "tokenizer"};
    const char *const paths[ZOE_JOB_PARTS] = {job->parts.expert[ZOE_HIGH_NOISE],
                                              job->parts.expert[ZOE_LOW_NOISE],
                                              job->parts.vae,
                                              job->parts.text_encoder,
                                              job->parts.clip,
                                              job->parts.tokenizer};
    const zoe_weights order[] = {ZOE_WEIGHTS_HIGH, ZOE_WEIGHTS_LOW, ZOE_WEIGHTS_VAE,
                                 ZOE_WEIGHTS_TEXT, ZOE_WEIGHTS_CLIP};
    for (size_t i = 0; i < ZOE_JOB_PARTS; i++)
        parts[i] = (zoe_job_part){.role = roles[i], .path = paths[i], .fingerprint = ""};
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
        if (stores[i]) {
            parts[i].bytes = zoe_store_bytes(stores[i]);
            parts[i].fingerprint = job->sources.weights[order[i]];
        }
}
