/* Which file of a checkpoint folder is which part. Two layouts are known, each for models with one
 * transformer and with two; explicit paths come first. */
#include "job/job.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct layout {
    const char *name;
    const char *marks[5]; /* any of these is there in this layout only */
    size_t transformers;
    const char *role[ZOE_ROLES][3]; /* in order of preference */
} layout;

enum { OFFICIAL, DIFFUSERS, DIFFUSERS_ONE, OFFICIAL_ONE, LAYOUTS };

#define OFFICIAL_TEXT                                                                              \
    [ZOE_ROLE_TEXT] = {"models_t5_umt5-xxl-enc-bf16.pth",                                          \
                       "models_t5_umt5-xxl-enc-bf16.safetensors"},                                 \
    [ZOE_ROLE_TOKENIZER] = {"google/umt5-xxl"}
#define DIFFUSERS_REST                                                                             \
    [ZOE_ROLE_VAE] = {"vae"}, [ZOE_ROLE_TEXT] = {"text_encoder"},                                  \
    [ZOE_ROLE_TOKENIZER] = {"tokenizer"}, [ZOE_ROLE_CLIP] = {"image_encoder"}

/* In the order in which they are looked for. */
static const layout layouts[LAYOUTS] = {
    [OFFICIAL] = {.name = "official",
                  .marks = {"high_noise_model", "low_noise_model"},
                  .transformers = 2,
                  .role = {[ZOE_ROLE_HIGH] = {"high_noise_model"},
                           [ZOE_ROLE_LOW] = {"low_noise_model"},
                           [ZOE_ROLE_VAE] = {"Wan2.1_VAE.pth", "Wan2.1_VAE.safetensors"},
                           OFFICIAL_TEXT}},
    [DIFFUSERS] = {.name = "diffusers",
                   .marks = {"model_index.json"},
                   .transformers = 2,
                   .role = {[ZOE_ROLE_HIGH] = {"transformer"},
                            [ZOE_ROLE_LOW] = {"transformer_2"},
                            DIFFUSERS_REST}},
    [DIFFUSERS_ONE] = {.name = "diffusers",
                       .transformers = 1,
                       .role = {[ZOE_ROLE_TRANSFORMER] = {"transformer"}, DIFFUSERS_REST}},
    [OFFICIAL_ONE] =
        {.name = "official",
         .marks = {"Wan2.2_VAE.pth", "Wan2.1_VAE.pth", "models_t5_umt5-xxl-enc-bf16.pth"},
         .transformers = 1,
         .role =
             {[ZOE_ROLE_TRANSFORMER] = {"diffusion_pytorch_model.safetensors.index.json",
                                        "diffusion_pytorch_model.safetensors"},
              [ZOE_ROLE_VAE] = {"Wan2.2_VAE.pth", "Wan2.1_VAE.pth"},
              [ZOE_ROLE_CLIP] = {"models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth",
                                 "models_clip_open-clip-xlm-roberta-large-vit-huge-14.safetensors"},
              OFFICIAL_TEXT}},
};

static bool path_exists(const char *path)
{
    return zoe_file_exists(path) || zoe_folder_exists(path);
}

/* Is there something called name in the folder? */
static zoe_status holds(zoe_context *ctx, bool *found, const char *folder, const char *name)
{
    char *path;
    TRY(zoe_path_join(ctx, &path, folder, name));
    *found = path_exists(path);
    zoe_free(path);
    return ZOE_OK;
}

/* The object of a file; NULL with the reason in *error if it is none. */
static zoe_status read_json(zoe_context *ctx, json_t **root, json_error_t *error, const char *path)
{
    zoe_map map;
    *root = NULL;
    TRY(zoe_map_open(ctx, &map, path));
    const char *text = map.data ? (const char *)map.data : "";
    *root = json_loadb(text, map.size, JSON_REJECT_DUPLICATES, error);
    zoe_map_close(&map);
    return ZOE_OK;
}

/* Does model_index.json name a second transformer? One that cannot be read does not. */
static zoe_status names_second(zoe_context *ctx, bool *second, const char *folder)
{
    char *path;
    json_t *root;
    json_error_t error;
    TRY(zoe_path_join(ctx, &path, folder, "model_index.json"));
    (void)read_json(NULL, &root, &error, path);
    zoe_free(path);
    const json_t *entry = json_object_get(root, "transformer_2");
    *second = json_is_string(json_array_get(entry, 1));
    json_decref(root);
    return ZOE_OK;
}

/* The layout that the folder has, NULL if none. */
static zoe_status layout_of(zoe_context *ctx, const layout **found, const char *folder)
{
    bool here = false, second = false;
    *found = NULL;
    for (size_t i = 0; i < LAYOUTS && !here; i++)
        for (size_t k = 0; layouts[i].marks[k] && !here; k++) {
            TRY(holds(ctx, &here, folder, layouts[i].marks[k]));
            if (here)
                *found = &layouts[i];
        }
    if (*found != &layouts[DIFFUSERS])
        return ZOE_OK;
    TRY(holds(ctx, &here, folder, layouts[DIFFUSERS].role[ZOE_ROLE_LOW][0]));
    TRY(names_second(ctx, &second, folder));
    if (!here && !second)
        *found = &layouts[DIFFUSERS_ONE];
    return ZOE_OK;
}

/* A folder in this one that is a checkpoint; NULL if there is none. Of several, the first by name,
 * so that the sentence does not change from run to run. */
static zoe_status checkpoint_in(zoe_context *ctx, char **path, const char *folder)
{
    DIR *d = opendir(folder);
    zoe_status status = ZOE_OK;
    *path = NULL;
    for (const struct dirent *e; d && status == ZOE_OK && (e = readdir(d));) {
        const layout *l = NULL;
        char *inner;
        if (e->d_name[0] == '.')
            continue;
        status = zoe_path_join(ctx, &inner, folder, e->d_name);
        if (status != ZOE_OK)
            break;
        if (zoe_folder_exists(inner))
            status = layout_of(ctx, &l, inner);
        if (status == ZOE_OK && l && (!*path || strcmp(inner, *path) < 0)) {
            zoe_free(*path);
            *path = inner;
        } else {
            zoe_free(inner);
        }
    }
    if (d)
        closedir(d);
    return status;
}

/* Why a folder is no checkpoint, and which one might be meant. */
static zoe_status explain_folder(zoe_context *ctx, const char *model)
{
    static const char *const others[] = {"config.json",
                                         "diffusion_pytorch_model.safetensors.index.json",
                                         "diffusion_pytorch_model.safetensors"};
    const layout *l;
    char *path;
    TRY(zoe_path_join(ctx, &path, model, ".."));
    zoe_status status = layout_of(ctx, &l, path);
    zoe_free(path);
    TRY(status);
    if (l)
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s: this is a part of a checkpoint; give the folder that it is in", model);
    TRY(checkpoint_in(ctx, &path, model));
    if (path) {
        status =
            zoe_fail(ctx, ZOE_MISSING, "%s: no checkpoint, but %s is one; give that", model, path);
        zoe_free(path);
        return status;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        bool here;
        TRY(holds(ctx, &here, model, others[i]));
        if (here)
            return zoe_fail(ctx, ZOE_MISSING,
                            "%s: holds %s but neither VAE nor text encoder: a transformer alone, "
                            "which is given as such, together with the other parts; or give the "
                            "folder of a whole checkpoint",
                            model, others[i]);
    }
    return zoe_fail(
        ctx, ZOE_MISSING,
        "%s: neither a checkpoint in the official layout (folders high_noise_model and "
        "low_noise_model, or Wan2.2_VAE.pth or Wan2.1_VAE.pth) nor in that of diffusers "
        "(model_index.json); give the folder into which a model such as "
        "Wan2.2-I2V-A14B was downloaded",
        model);
}

static zoe_status find_layout(zoe_context *ctx, const layout **found, const char *model)
{
    if (zoe_file_exists(model))
        return zoe_fail(
            ctx, ZOE_MISSING,
            "%s: this is a file; give the folder of the whole checkpoint, or name the file "
            "as one of its parts",
            model);
    if (!zoe_folder_exists(model))
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s: no such folder; the folder of a checkpoint is wanted, which has "
                        "high_noise_model, model_index.json or the VAE in it",
                        model);
    TRY(layout_of(ctx, found, model));
    return *found ? ZOE_OK : explain_folder(ctx, model);
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
    if (n == 0 || !candidates[0])
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s: a model with one transformer has no %s; give both experts, or neither",
                        model, what);
    return zoe_fail(
        ctx, ZOE_MISSING,
        "%s: %s is not there: the %s of the %s layout; download it into that folder, or "
        "say where another one is",
        model, candidates[0], what, l->name);
}

zoe_status zoe_config_locate(zoe_context *ctx, char **config, const char *expert)
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

/* Does the name of the file, or of the folder that it is in, hold this word of ASCII letters? */
static bool name_holds(const char *path, const char *word)
{
    const char *from = path + strlen(path);
    for (int slashes = 0; from > path && (slashes += from[-1] == '/') < 2;)
        from--;
    for (const size_t n = strlen(word); *from; from++)
        if (strncasecmp(from, word, n) == 0)
            return true;
    return false;
}

/* Nothing inside the files of a checkpoint says which expert they are: swapped ones give a worse
 * video, and no error. The names may tell. */
static void note_experts(zoe_context *ctx, const zoe_parts *parts)
{
    const char *high = parts->expert[ZOE_HIGH_NOISE], *low = parts->expert[ZOE_LOW_NOISE];
    if (strcmp(high, low) == 0)
        zoe_log(ctx, ZOE_WARNING, "%s is given for both experts; they are two files", high);
    else if (name_holds(high, "low") && !name_holds(high, "high") && name_holds(low, "high") &&
             !name_holds(low, "low"))
        zoe_log(ctx, ZOE_WARNING,
                "the experts seem to be swapped: by their names, %s, taken for the high-noise one, "
                "is the low-noise one, and %s the other",
                high, low);
    else
        zoe_log(ctx, ZOE_INFO,
                "the high-noise expert is %s, the low-noise expert %s; nothing in such files says "
                "which is which, so it is taken as given",
                high, low);
}

/* An expert of T2V-A14B has the shapes of Wan 2.1 T2V-14B. */
static void note_single(zoe_context *ctx, const zoe_parts *parts)
{
    const char *path = parts->expert[ZOE_HIGH_NOISE];
    if (name_holds(path, "high_noise") || name_holds(path, "low_noise"))
        zoe_log(ctx, ZOE_WARNING,
                "%s is taken for the only transformer of its model; by its name it is one of two "
                "experts",
                path);
}

static const char *const role_names[ZOE_ROLES] = {
    [ZOE_ROLE_HIGH] = "high-noise transformer", [ZOE_ROLE_LOW] = "low-noise transformer",
    [ZOE_ROLE_TRANSFORMER] = "transformer",     [ZOE_ROLE_VAE] = "VAE",
    [ZOE_ROLE_TEXT] = "text encoder",           [ZOE_ROLE_TOKENIZER] = "tokenizer",
    [ZOE_ROLE_CLIP] = "CLIP image tower"};

static zoe_status pick_role(zoe_context *ctx, char **path, const char *given, const char *model,
                            const layout *l, zoe_role role)
{
    const size_t most = sizeof l->role[role] / sizeof l->role[role][0];
    bool here = given != NULL;
    /* Whether a CLIP tower is needed is known only later. */
    for (size_t i = 0; role == ZOE_ROLE_CLIP && !here; i++) {
        if (i == most || !model || !l->role[role][i])
            return ZOE_OK;
        TRY(holds(ctx, &here, model, l->role[role][i]));
    }
    return pick(ctx, path, given, model, l, l->role[role], most, role_names[role]);
}

zoe_status zoe_params_check_model(zoe_context *ctx, const zoe_job_params *p)
{
    const bool experts = p->high_noise && p->low_noise;
    if (p->transformer && (p->high_noise || p->low_noise))
        return zoe_fail(
            ctx, ZOE_INVALID,
            "a transformer and a high-noise or low-noise one: a model has either one, or "
            "these two");
    if (!p->model && !((p->transformer || experts) && p->vae && p->text_encoder && p->tokenizer))
        return zoe_fail(ctx, ZOE_INVALID,
                        "no model: a checkpoint folder is wanted, or all of its parts (one "
                        "transformer, or a high-noise and a low-noise one; VAE, text encoder, "
                        "tokenizer)");
    return ZOE_OK;
}

/* What model_index.json, if it is there, says of the noise level at which the experts change. */
static zoe_status read_boundary(zoe_context *ctx, double *boundary, const char *folder)
{
    char *path;
    json_error_t error;
    json_t *root = NULL;
    zoe_status status = ZOE_OK;
    TRY(zoe_path_join(ctx, &path, folder, "model_index.json"));
    if (!zoe_file_exists(path))
        goto done;
    TRY_GOTO(read_json(ctx, &root, &error, path));
    const json_t *ratio = json_object_get(root, "boundary_ratio");
    if (!json_is_object(root))
        status = zoe_fail(ctx, ZOE_FORMAT, "%s: %s", path, root ? "is no object" : error.text);
    else if (ratio && !json_is_null(ratio)) {
        *boundary = json_number_value(ratio);
        if (!json_is_number(ratio) || !(*boundary > 0.0 && *boundary < 1.0))
            status = zoe_fail(ctx, ZOE_FORMAT,
                              "%s: boundary_ratio is wanted as a number between 0 and 1", path);
    }
done:
    json_decref(root);
    zoe_free(path);
    return status;
}

static zoe_status locate(zoe_context *ctx, zoe_parts *parts, const zoe_job_params *p)
{
    const layout *l = &layouts[OFFICIAL];
    const struct {
        char **path;
        const char *given;
    } rows[ZOE_ROLES] = {
        [ZOE_ROLE_HIGH] = {&parts->expert[ZOE_HIGH_NOISE], p->high_noise},
        [ZOE_ROLE_LOW] = {&parts->expert[ZOE_LOW_NOISE], p->low_noise},
        [ZOE_ROLE_TRANSFORMER] = {&parts->expert[ZOE_HIGH_NOISE], p->transformer},
        [ZOE_ROLE_VAE] = {&parts->vae, p->vae},
        [ZOE_ROLE_TEXT] = {&parts->text_encoder, p->text_encoder},
        [ZOE_ROLE_TOKENIZER] = {&parts->tokenizer, p->tokenizer},
        [ZOE_ROLE_CLIP] = {&parts->clip, p->clip},
    };
    if (p->model)
        TRY(find_layout(ctx, &l, p->model));
    if (p->model && l != &layouts[OFFICIAL])
        TRY(read_boundary(ctx, &parts->boundary, p->model));
    parts->transformers = p->transformer ? 1 : p->high_noise || p->low_noise ? 2 : l->transformers;
    for (zoe_role role = 0; role < ZOE_ROLES; role++) {
        const bool expert = role == ZOE_ROLE_HIGH || role == ZOE_ROLE_LOW;
        if (parts->transformers == 1 ? expert : role == ZOE_ROLE_TRANSFORMER)
            continue;
        TRY(pick_role(ctx, rows[role].path, rows[role].given, p->model, l, role));
    }
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (parts->expert[e])
            TRY(zoe_config_locate(ctx, &parts->expert_config[e], parts->expert[e]));
    return ZOE_OK;
}

zoe_status zoe_layout_find(zoe_context *ctx, const char **name, const char *folder)
{
    const layout *l;
    TRY(layout_of(ctx, &l, folder));
    *name = l ? l->name : NULL;
    return ZOE_OK;
}

zoe_status zoe_role_locate(zoe_context *ctx, char **path, const char *folder, zoe_role role)
{
    const layout *l;
    *path = NULL;
    TRY(find_layout(ctx, &l, folder));
    return l->role[role][0] ? pick_role(ctx, path, NULL, folder, l, role) : ZOE_OK;
}

zoe_status zoe_parts_locate(zoe_context *ctx, zoe_parts *parts, const zoe_job_params *params)
{
    *parts = (zoe_parts){0};
    const zoe_status status = locate(ctx, parts, params);
    if (status != ZOE_OK)
        zoe_parts_free(parts);
    else if (parts->transformers == 1)
        note_single(ctx, parts);
    else
        note_experts(ctx, parts);
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
    zoe_free(parts->clip);
    *parts = (zoe_parts){0};
}
