/* Which file of a checkpoint folder is which part. Two layouts are known; explicit paths come
 * first. */
#include "job/job.h"

#include <errno.h>
#include <sys/stat.h>

typedef struct layout {
    const char *name;
    const char *mark; /* is there in this layout only */
    const char *expert[ZOE_EXPERTS];
    const char *vae[3], *text_encoder[3], *tokenizer[2]; /* in order of preference */
} layout;

static const layout layouts[] = {
    {
        .name = "official",
        .mark = "high_noise_model",
        .expert = {[ZOE_LOW_NOISE] = "low_noise_model", [ZOE_HIGH_NOISE] = "high_noise_model"},
        .vae = {"Wan2.1_VAE.pth", "Wan2.1_VAE.safetensors"},
        .text_encoder = {"models_t5_umt5-xxl-enc-bf16.pth",
                         "models_t5_umt5-xxl-enc-bf16.safetensors"},
        .tokenizer = {"google/umt5-xxl"},
    },
    {
        .name = "diffusers",
        .mark = "model_index.json",
        .expert = {[ZOE_LOW_NOISE] = "transformer_2", [ZOE_HIGH_NOISE] = "transformer"},
        .vae = {"vae"},
        .text_encoder = {"text_encoder"},
        .tokenizer = {"tokenizer"},
    },
};

static bool path_exists(const char *path)
{
    return zoe_file_exists(path) || zoe_folder_exists(path);
}

static zoe_status find_layout(zoe_context *ctx, const layout **found, const char *model)
{
    if (!zoe_folder_exists(model))
        return zoe_fail(ctx, ZOE_MISSING, "%s: no such folder; a checkpoint folder is wanted",
                        model);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char *mark;
        TRY(zoe_path_join(ctx, &mark, model, layouts[i].mark));
        const bool here = path_exists(mark);
        zoe_free(mark);
        if (here) {
            *found = &layouts[i];
            return ZOE_OK;
        }
    }
    return zoe_fail(ctx, ZOE_MISSING,
                    "%s: neither a checkpoint in the official layout (folders high_noise_model and "
                    "low_noise_model) nor in that of diffusers (model_index.json)",
                    model);
}

/* Why a path cannot be used, for a sentence. */
static const char *reason(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 || errno == ENOENT || errno == ENOTDIR ? "is not there"
                                                                       : strerror(errno);
}

/* The explicit path, or the first candidate that is there. */
static zoe_status pick(zoe_context *ctx, char **path, const char *given, const char *model,
                       const layout *l, const char *const *candidates, size_t n, const char *what)
{
    if (given) {
        if (!path_exists(given))
            return zoe_fail(ctx, ZOE_MISSING, "%s (%s): %s", given, what, reason(given));
        return zoe_strdup(ctx, path, given);
    }
    for (size_t i = 0; i < n && candidates[i]; i++) {
        char *candidate;
        TRY(zoe_path_join(ctx, &candidate, model, candidates[i]));
        if (path_exists(candidate)) {
            *path = candidate;
            return ZOE_OK;
        }
        const char *why = reason(candidate);
        const bool odd = strcmp(why, "is not there") != 0;
        if (odd)
            zoe_fail(ctx, ZOE_IO, "%s (%s): %s", candidate, what, why);
        zoe_free(candidate);
        if (odd)
            return ZOE_IO;
    }
    return zoe_fail(ctx, ZOE_MISSING, "%s: %s is not there: the %s of the %s layout", model,
                    candidates[0], what, l->name);
}

/* config.json in the expert's folder, or beside its file. */
static zoe_status find_config(zoe_context *ctx, char **config, const char *expert)
{
    char *folder, *path;
    TRY(zoe_strdup(ctx, &folder, expert));
    if (!zoe_folder_exists(folder)) {
        char *name = (char *)(uintptr_t)zoe_path_name(folder);
        if (name == folder)
            *name++ = '.';
        *name = '\0';
    }
    const zoe_status status = zoe_path_join(ctx, &path, folder, "config.json");
    zoe_free(folder);
    TRY(status);
    if (zoe_file_exists(path))
        *config = path;
    else
        zoe_free(path);
    return ZOE_OK;
}

static zoe_status locate(zoe_context *ctx, zoe_parts *parts, const zoe_job_params *p)
{
    const layout *l = &layouts[0];
    const char *const given[ZOE_EXPERTS] = {
        [ZOE_LOW_NOISE] = p->low_noise, [ZOE_HIGH_NOISE] = p->high_noise};
    const char *const names[ZOE_EXPERTS] = {
        [ZOE_LOW_NOISE] = "low-noise transformer", [ZOE_HIGH_NOISE] = "high-noise transformer"};
    if (p->model)
        TRY(find_layout(ctx, &l, p->model));
    for (size_t e = 0; e < ZOE_EXPERTS; e++) {
        TRY(pick(ctx, &parts->expert[e], given[e], p->model, l, &l->expert[e], 1, names[e]));
        TRY(find_config(ctx, &parts->expert_config[e], parts->expert[e]));
    }
    TRY(pick(ctx, &parts->vae, p->vae, p->model, l, l->vae, 3, "VAE"));
    TRY(pick(ctx, &parts->text_encoder, p->text_encoder, p->model, l, l->text_encoder, 3,
             "text encoder"));
    return pick(ctx, &parts->tokenizer, p->tokenizer, p->model, l, l->tokenizer, 2, "tokenizer");
}

zoe_status zoe_parts_locate(zoe_context *ctx, zoe_parts *parts, const zoe_job_params *params)
{
    *parts = (zoe_parts){0};
    const zoe_status status = locate(ctx, parts, params);
    if (status != ZOE_OK)
        zoe_parts_free(parts);
    return status;
}

void zoe_parts_free(zoe_parts *parts)
{
    for (size_t e = 0; e < ZOE_EXPERTS; e++) {
        zoe_free(parts->expert[e]);
        zoe_free(parts->expert_config[e]);
    }
    zoe_free(parts->vae);
    zoe_free(parts->text_encoder);
    zoe_free(parts->tokenizer);
    *parts = (zoe_parts){0};
}
