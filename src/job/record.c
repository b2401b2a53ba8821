/* The record of how something was made: its JSON form, written. record_read.c reads it. */
#define _GNU_SOURCE
#include "job/lora.h"
#include "job/record_keys.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef ZOE_VERSION
#define ZOE_VERSION "unknown"
#endif

/* The last part of a path that says something, never a folder of the user's machine. */
static zoe_status bare_name(zoe_context *ctx, char **name, const char *path)
{
    size_t n;
    const char *last = zoe_path_last(path, &n);
    if (n == 0 || (n <= 2 && strspn(last, ".") >= n)) { /* "", ".", ".." */
        char *real = realpath(path, NULL);
        const zoe_status status = zoe_strdup(ctx, name, real ? zoe_path_name(real) : "");
        free(real);
        return status;
    }
    return zoe_strf(ctx, name, "%.*s", (int)n, last);
}

/* Names are any bytes; those that JSON cannot hold become U+FFFD. NULL without memory. */
static json_t *name_json(zoe_context *ctx, const char *path)
{
    static const char replacement[] = "\xef\xbf\xbd";
    char *name = NULL, *mended = NULL;
    json_t *json = NULL;
    void *p;
    if (bare_name(ctx, &name, path) != ZOE_OK || (json = json_string(name)) ||
        zoe_alloc(ctx, &p, 3 * strlen(name) + 1, 1, "name") != ZOE_OK)
        goto done;
    mended = p;
    char *out = mended;
    for (const char *in = name; *in; in++)
        if ((unsigned char)*in < 0x80) {
            *out++ = *in;
        } else {
            memcpy(out, replacement, sizeof replacement - 1);
            out += sizeof replacement - 1;
        }
    *out = '\0';
    json = json_string(mended);
done:
    zoe_free(name);
    zoe_free(mended);
    return json;
}

/* A complete path; bytes that are no UTF-8 as {"bytes": hexadecimal digits}. */
static json_t *path_json(zoe_context *ctx, const char *path, bool is_stream)
{
    char folder[PATH_MAX], *whole = NULL, *digits;
    json_t *json = NULL;
    void *p;
    zoe_status status;
    if (path[0] == '/' || is_stream || !getcwd(folder, sizeof folder))
        status = zoe_strdup(ctx, &whole, path);
    else
        status = zoe_path_join(ctx, &whole, folder, path);
    if (status != ZOE_OK || (json = json_string(whole)))
        goto done;
    const size_t n = strlen(whole);
    if (zoe_alloc(ctx, &p, 2 * n + 1, 1, "path") != ZOE_OK)
        goto done;
    digits = p;
    for (size_t i = 0; i < n; i++)
        snprintf(digits + 2 * i, 3, "%02x", (unsigned)(unsigned char)whole[i]);
    json = json_pack("{s:s}", "bytes", digits);
    zoe_free(digits);
done:
    zoe_free(whole);
    return json;
}

static json_t *lora_json(zoe_context *ctx, const zoe_job *job, size_t i)
{
    const zoe_job_lora *l = &job->params.loras[i];
    const zoe_lora *high = job->lora[ZOE_HIGH_NOISE][i], *low = job->lora[ZOE_LOW_NOISE][i];
    const char *digest = job->sources.loras[i];
    return json_pack("{s:o, s:f, s:f, s:s*, s:o*, s:o*}", "name", name_json(ctx, l->path), "high",
                     l->high, "low", l->low, "sha256", *digest ? digest : NULL, "high_parts",
                     high ? json_integer((json_int_t)zoe_lora_count(high)) : NULL, "low_parts",
                     low ? json_integer((json_int_t)zoe_lora_count(low)) : NULL);
}

/* A step list and a boundary by step, if there are any. Not 0: it failed. */
static int add_steps(json_t *object, const zoe_job_params *p)
{
    int failed = 0;
    json_t *list = p->step_list_count > 0 ? json_array() : NULL;
    for (size_t i = 0; i < p->step_list_count; i++)
        failed |= json_array_append_new(list, json_real(p->step_list[i]));
    if (p->step_list_count > 0)
        failed |= json_object_set_new(object, "step_list", list);
    if (p->boundary_step != ZOE_NO_BOUNDARY_STEP)
        failed |= json_object_set_new(object, "boundary_step",
                                      json_integer((json_int_t)p->boundary_step));
    return failed;
}

/* LoRAs, step cache and int8, if there are any; whole: paths of the LoRAs. Not 0: it failed. */
static int add_extras(zoe_context *ctx, json_t *object, const zoe_job *job, bool whole)
{
    const zoe_job_params *p = &job->params;
    int failed = 0;
    json_t *list = p->lora_count > 0 ? json_array() : NULL;
    for (size_t i = 0; i < p->lora_count; i++)
        failed |= json_array_append_new(list, whole ? path_json(ctx, p->loras[i].path, false)
                                                    : lora_json(ctx, job, i));
    if (p->lora_count > 0)
        failed |= json_object_set_new(object, "loras", list);
    if (p->cache && !whole)
        failed |= json_object_set_new(object, "cache", json_string(p->cache));
    if (p->int8 && !whole)
        failed |= json_object_set_new(object, "compute", json_string("int8"));
    return failed;
}

/* What concerns this run and not the result. */
/* Of ranks, only a ring changes the result, in its last bits: outputs of any others are alike to the
 * byte. A checkpoint has all of it, for people. */
static int add_ranks(json_t *object, const zoe_job *job, bool whole)
{
    const zoe_ranks *r = &job->ranks;
    if (r->ring > 1 && !whole)
        return json_object_set_new(object, "ring", json_integer((json_int_t)r->ring));
    if (r->count == 1 || !whole || r->cfg == 0)
        return 0;
    return json_object_set_new(object, "ranks",
                               json_pack("{s:I, s:I, s:I, s:I}", "cfg", (json_int_t)r->cfg,
                                         "ulysses", (json_int_t)r->ulysses, "ring",
                                         (json_int_t)r->ring, "vae", (json_int_t)r->vae));
}

static json_t *run_json(zoe_context *ctx, const zoe_job *job, const char *letters)
{
    const zoe_job_params *p = &job->params;
    json_t *paths = json_object();
    for (size_t i = 0; i < ZOE_RECORD_PATHS; i++) {
        const char *path = zoe_record_get_path(p, i);
        const bool is_stream = path && path == p->out && strcmp(path, "-") == 0;
        if (path && json_object_set_new(paths, zoe_record_path_rows[i].key,
                                        path_json(ctx, path, is_stream))) {
            json_decref(paths);
            return NULL;
        }
    }
    if (add_extras(ctx, paths, job, true)) {
        json_decref(paths);
        return NULL;
    }
    const json_int_t memory = p->memory < INT64_MAX ? (json_int_t)p->memory : INT64_MAX;
    return json_pack("{s:s, s:b, s:I, s:o}", "letters", letters, "no_metadata", p->no_metadata,
                     "memory", memory, "paths", paths);
}

static const char *weight_key(const zoe_job *job, size_t i)
{
    return i == ZOE_WEIGHTS_HIGH && job->parts.transformers == 1 ? zoe_record_single
                                                                 : zoe_record_weights[i];
}

/* An object with a digest of each part; NULL if none is known. */
static json_t *weights_json(const zoe_job *job, const char (*digests)[ZOE_DIGEST_TEXT])
{
    if (!digests[0][0])
        return NULL;
    json_t *object = json_object();
    for (size_t i = 0; i < ZOE_WEIGHTS_COUNT; i++)
        if (digests[i][0])
            json_object_set_new(object, weight_key(job, i), json_string(digests[i]));
    return object;
}

static json_t *settings_json(const zoe_job *job)
{
    json_t *object = json_object();
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (job->sources.settings[e][0])
            json_object_set_new(object, weight_key(job, zoe_weights_of(e)),
                                json_string(job->sources.settings[e]));
    return object;
}

static const char *known(const char *text)
{
    return *text ? text : NULL;
}

static const char *negative_of(const zoe_job_params *p)
{
    return p->negative_prompt ? p->negative_prompt : "";
}

static json_t *record_json(zoe_context *ctx, const zoe_job *job, const char *letters)
{
    const zoe_job_params *p = &job->params;
    const zoe_sources *s = &job->sources;
    json_t *root = json_pack(
        "{s:i, s:s, s:s, s:s, s:s, s:o*, s:o*, s:o*, s:s*, s:s*, s:o*, s:s}", "format",
        ZOE_RECORD_FORMAT, "program", ZOE_RECORD_KEY, "version", ZOE_VERSION, "prompt", p->prompt,
        "negative_prompt", negative_of(p), "image", p->image ? name_json(ctx, p->image) : NULL,
        "last_image", p->last_image ? name_json(ctx, p->last_image) : NULL, "model",
        p->model ? name_json(ctx, p->model) : NULL, "image_sha256", known(s->image),
        "last_image_sha256", known(s->last_image), "model_sha256", weights_json(job, s->weights),
        "instruction_set", zoe_isa_name(zoe_cpu_isa()));
    json_t *how = json_pack(
        "{s:[I, I], s:b, s:I, s:I, s:s, s:f, s:[f, f], s:f, s:s, s:I, s:[i, i]}", "size",
        (json_int_t)p->width, (json_int_t)p->height, "keep_orientation", p->keep_orientation,
        "frames", (json_int_t)p->frames, "steps", (json_int_t)p->steps, "solver",
        zoe_record_solvers[p->solver], "shift", p->shift, "guide_scale_low_high", p->guide_low,
        p->guide_high, "boundary", p->boundary, "dtype", p->bf16 ? "bf16" : "f32", "seed",
        (json_int_t)job->plan.seed, "frame_rate", p->fps_num, p->fps_den);
    int failed = json_object_update(root, how);
    json_decref(how);
    if (job->plan.width > 0)
        failed |= json_object_set_new(root, "width", json_integer((json_int_t)job->plan.width)) |
                  json_object_set_new(root, "height", json_integer((json_int_t)job->plan.height));
    failed |= add_extras(ctx, root, job, false) | add_steps(root, p) |
              add_ranks(root, job, letters != NULL);
    if (letters && s->tokens[0])
        failed |= json_object_set_new(root, "tokens_sha256", json_string(s->tokens));
    if (s->settings[ZOE_HIGH_NOISE][0])
        failed |= json_object_set_new(root, "model_settings", settings_json(job));
    if (letters && s->digests[0][0])
        failed |= json_object_set_new(root, "weights_sha256", weights_json(job, s->digests)) |
                  json_object_set_new(root, "weights_stamp", weights_json(job, s->stamps));
    if (letters)
        failed |= json_object_set_new(root, "run", run_json(ctx, job, letters));
    if (!failed)
        return root;
    json_decref(root);
    return NULL;
}

static bool is_utf8(const char *text)
{
    json_t *json = json_string(text);
    json_decref(json);
    return json != NULL;
}

/* 15 digits read better than 17 and are exact for what people type. */
static size_t real_precision(const zoe_job_params *p)
{
    double reals[4 + 2 * ZOE_JOB_LORAS + ZOE_JOB_STEP_LIST] = {p->shift, p->guide_low,
                                                               p->guide_high, p->boundary};
    size_t digits = 15;
    memcpy(reals + 4 + 2 * ZOE_JOB_LORAS, p->step_list, p->step_list_count * sizeof *p->step_list);
    for (size_t i = 0; i < p->lora_count; i++) {
        reals[4 + 2 * i] = p->loras[i].high;
        reals[5 + 2 * i] = p->loras[i].low;
    }
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        char text[40];
        snprintf(text, sizeof text, "%.15g", reals[i]);
        if (strtod(text, NULL) != reals[i])
            digits = 17;
    }
    return JSON_REAL_PRECISION(digits);
}

zoe_status zoe_record_make(zoe_context *ctx, char **text, const zoe_job *job, const char *letters)
{
    *text = NULL;
    if (!is_utf8(job->params.prompt) || !is_utf8(negative_of(&job->params))) {
        TRY(zoe_alloc_probe(ctx, strlen(job->params.prompt) + 4096, "record of the run"));
        return zoe_fail(ctx, ZOE_INVALID,
                        "the prompt is no UTF-8 text: it cannot be noted in %s; mend it, or do "
                        "without",
                        letters ? "a checkpoint" : "the video");
    }
    json_t *root = record_json(ctx, job, letters);
    const size_t flags = (letters ? JSON_INDENT(2) : JSON_COMPACT) | real_precision(&job->params);
    char *dump = root ? json_dumps(root, flags) : NULL;
    json_decref(root);
    if (!dump)
        return zoe_fail(ctx, ZOE_NOMEM, "no memory for the record of the run");
    const zoe_status status =
        strlen(dump) > ZOE_RECORD_BYTES
            ? zoe_fail(ctx, ZOE_INVALID, "the prompt is too long to be noted: %zu bytes",
                       strlen(job->params.prompt))
            : zoe_strdup(ctx, text, dump);
    free(dump);
    return status;
}

/* ", Step list: 1000 750 ..., Boundary step: 2", as far as they were asked for. */
static void describe_steps(char *text, size_t room, const zoe_job_params *p)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < p->step_list_count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%.9g", i == 0 ? ", Step list: " : " ",
                                 p->step_list[i]);
    if (p->boundary_step != ZOE_NO_BOUNDARY_STEP && used < room)
        snprintf(text + used, room - used, ", Boundary step: %zu", p->boundary_step);
}

static zoe_status make_comment(zoe_context *ctx, char **text, const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    char *loras, steps[16 * ZOE_JOB_STEP_LIST + 64];
    describe_steps(steps, sizeof steps, p);
    TRY(zoe_loras_describe(ctx, &loras, job));
    const zoe_status status = zoe_strf(
        ctx, text,
        "%s\nNegative prompt: %s\nSteps: %zu, Solver: %s, Shift: %g, Guide scale: %g,%g, "
        "Boundary: %g%s, Seed: %lld, Size: %zux%zu, Frames: %zu, Type: %s%s%s%s%s, Version: "
        "zoetrope %s",
        p->prompt, *negative_of(p) ? negative_of(p) : "(official)", p->steps,
        zoe_record_solvers[p->solver], p->shift, p->guide_low, p->guide_high, p->boundary, steps,
        (long long)job->plan.seed, job->plan.width, job->plan.height, job->plan.frames,
        p->bf16 ? "bf16" : "f32", p->int8 ? ", Compute: int8" : "", loras,
        p->cache ? ", Step cache: " : "", p->cache ? p->cache : "", ZOE_VERSION);
    zoe_free(loras);
    return status;
}

zoe_status zoe_job_describe(zoe_context *ctx, zoe_job *job)
{
    if (job->params.no_metadata)
        return ZOE_OK;
    TRY(zoe_sources_weights(ctx, job));
    TRY(make_comment(ctx, &job->comment, job));
    return zoe_record_make(ctx, &job->json, job, NULL);
}
