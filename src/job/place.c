/* Which file a path means: outputs must not meet each other, nor what the run reads. */
#define _GNU_SOURCE
#include "job/job.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { OUTPUTS = 6 };

/* Where a path leads. A file that is not there yet is known by its folder and its name. */
typedef struct place {
    const char *what, *path; /* path NULL: not asked for */
    bool there, folder_there;
    struct stat file, folder;
    char name[NAME_MAX + 1];
} place;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* path: links followed if it is there, as written if not. */
static void find_folder(place *p, const char *path)
{
    char folder[PATH_MAX];
    size_t length;
    const char *last = zoe_path_last(path, &length);
    const size_t begin = (size_t)(last - path);
    if (begin + 2 > sizeof folder || length >= sizeof p->name)
        return; /* too long for the system, which will say so */
    memcpy(folder, path, begin);
    memcpy(folder + begin, ".", 2);
    memcpy(p->name, last, length);
    p->name[length] = '\0';
    p->folder_there = stat(folder, &p->folder) == 0;
}

static place place_of(const char *what, const char *path)
{
    place p = {.what = what, .path = path};
    if (!path)
        return p;
    p.there = stat(path, &p.file) == 0;
    char *real = p.there ? realpath(path, NULL) : NULL;
    find_folder(&p, real ? real : path);
    free(real);
    return p;
}

static bool same_place(const place *a, const place *b)
{
    if (!a->path || !b->path || a->there != b->there)
        return false;
    if (a->there)
        return same_file(&a->file, &b->file);
    return a->folder_there && b->folder_there && same_file(&a->folder, &b->folder) &&
           strcmp(a->name, b->name) == 0;
}

bool zoe_places_meet(const char *a, const char *b)
{
    const place first = place_of("", a), second = place_of("", b);
    return same_place(&first, &second);
}

/* Is this one of the frames that go to the folder? */
static bool is_frame_of(const place *p, const place *folder, size_t frames)
{
    if (!p->path || !folder->there || !p->folder_there || !same_file(&p->folder, &folder->file))
        return false;
    const size_t number = zoe_frame_number(p->name);
    return number != SIZE_MAX && number < frames;
}

/* ---- the files of the checkpoint ---- */

static bool is_model_file(const char *name)
{
    static const char *const suffixes[] = {".safetensors", ".pth",  ".pt",
                                           ".bin",         ".json", ".model"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcmp(dot, suffixes[i]) == 0)
            return true;
    return false;
}

/* Is the file a model file in this folder or `depth` folders further down? */
static bool is_in_folder(const struct stat *file, const char *folder, int depth)
{
    DIR *d = opendir(folder);
    bool found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));) {
        struct stat st;
        char path[PATH_MAX];
        const int length = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.' || length < 0 || (size_t)length >= sizeof path ||
            stat(path, &st) != 0)
            continue;
        found = S_ISDIR(st.st_mode) ? depth > 0 && is_in_folder(file, path, depth - 1)
                                    : is_model_file(e->d_name) && same_file(&st, file);
    }
    if (d)
        closedir(d);
    return found;
}

/* A part of the checkpoint: a file, an index beside its shards, or a folder. */
static bool is_of_part(const struct stat *file, const char *part)
{
    static const char index[] = ".index.json", config[] = "config.json";
    enum { DEPTH = 2 }; /* google/umt5-xxl/spiece.model */
    struct stat st;
    char beside[PATH_MAX];
    if (!part || stat(part, &st) != 0)
        return false;
    if (S_ISDIR(st.st_mode))
        return is_in_folder(file, part, DEPTH);
    if (same_file(&st, file))
        return true;
    const size_t n = strlen(part), suffix = sizeof index - 1;
    const size_t begin = (size_t)(zoe_path_name(part) - part);
    if (begin + sizeof config > sizeof beside)
        return false;
    memcpy(beside, part, begin);
    memcpy(beside + begin, config, sizeof config);
    if (stat(beside, &st) == 0 && same_file(&st, file))
        return true;
    if (n < suffix || strcmp(part + n - suffix, index) != 0)
        return false;
    memcpy(beside + begin, ".", 2);
    return is_in_folder(file, beside, 0);
}

static zoe_status check_model(zoe_context *ctx, const place *out, const zoe_job_params *p)
{
    const char *const parts[] = {p->model, p->high_noise,   p->low_noise, p->transformer,
                                 p->vae,   p->text_encoder, p->tokenizer, p->clip};
    if (!out->path || !out->there || !S_ISREG(out->file.st_mode))
        return ZOE_OK;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (is_of_part(&out->file, parts[i]))
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s: %s would replace a file of the checkpoint %s; another name is "
                            "wanted",
                            out->path, out->what, parts[i]);
    return ZOE_OK;
}

/* ---- all of it ---- */

static zoe_status check_pair(zoe_context *ctx, const place *a, const place *b)
{
    if (!same_place(a, b))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID, "%s %s and %s %s are the same file; two names are wanted",
                    a->what, a->path, b->what, b->path);
}

static zoe_status check_loras(zoe_context *ctx, const place *out, const zoe_job_params *params)
{
    for (size_t i = 0; i < params->lora_count; i++) {
        const place lora = place_of("the LoRA", params->loras[i].path);
        TRY(check_pair(ctx, out, &lora));
    }
    return ZOE_OK;
}

/* Outputs may lie in the checkpoint's folder, but not under the names of its files. */
static zoe_status check_state(zoe_context *ctx, const place *out, const place *state)
{
    if (!out->path || !state->there || !out->folder_there ||
        !same_file(&out->folder, &state->file) || !zoe_checkpoint_takes(out->name))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID,
                    "%s %s has the name of a file of the checkpoint in %s; another name is wanted",
                    out->what, out->path, state->path);
}

zoe_status zoe_places_check(zoe_context *ctx, const zoe_job_params *params)
{
    const bool to_file = params->out && strcmp(params->out, "-") != 0;
    const place out[OUTPUTS] = {place_of("the video", to_file ? params->out : NULL),
                                place_of("the latents", params->latents_out),
                                place_of("the folder of frames", params->frames_out),
                                place_of("the preview", params->preview),
                                place_of("the report", params->report),
                                place_of("the trace", params->trace)};
    const place picture = place_of("the picture", params->image), *frames = &out[2];
    const place factors = place_of("the file of preview factors", params->preview_factors);
    const place last = place_of("the last picture", params->last_image);
    const place *const others[] = {&out[0], &out[1], &out[3], &out[4], &out[5], &picture, &last};
    const place state = place_of("the checkpoint", params->checkpoint);
    for (size_t i = 0; i < OUTPUTS; i++) {
        for (size_t j = i + 1; j < OUTPUTS; j++)
            TRY(check_pair(ctx, &out[i], &out[j]));
        TRY(check_pair(ctx, &out[i], &picture));
        TRY(check_pair(ctx, &out[i], &last));
        TRY(check_pair(ctx, &out[i], &factors));
        TRY(check_model(ctx, &out[i], params));
        TRY(check_state(ctx, &out[i], &state));
        TRY(check_loras(ctx, &out[i], params));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (is_frame_of(others[i], frames, params->frames))
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s %s has the name of a frame in %s; another name or folder is wanted",
                            others[i]->what, others[i]->path, frames->path);
    return ZOE_OK;
}
