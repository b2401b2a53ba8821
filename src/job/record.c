/* The record of how something was made: its JSON form, written and read. */
#define _GNU_SOURCE
#include "job/record.h"
#include "job/lora.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef ZOE_VERSION
#define ZOE_VERSION "unknown"
#endif

static const char program[] = ZOE_RECORD_KEY;

static const char *const solver_names[] = {
    [ZOE_SOLVER_UNIPC] = "unipc", [ZOE_SOLVER_DPMPP] = "dpm++", [ZOE_SOLVER_EULER] = "euler"};
enum { SOLVERS = sizeof solver_names / sizeof solver_names[0] };

static const char *const weight_keys[ZOE_WEIGHTS_COUNT] = {[ZOE_WEIGHTS_HIGH] = "high_noise",
                                                           [ZOE_WEIGHTS_LOW] = "low_noise",
                                                           [ZOE_WEIGHTS_VAE] = "vae",
                                                           [ZOE_WEIGHTS_TEXT] = "text_encoder",
                                                           [ZOE_WEIGHTS_CLIP] = "clip"};
/* In the place of high_noise, of a model without experts. */
static const char single_key[] = "transformer";

/* Paths of a request. */
static const struct {
    const char *key;
    size_t at;
} path_rows[ZOE_RECORD_PATHS] = {
    {"model", offsetof(zoe_job_params, model)},
    {"high_noise", offsetof(zoe_job_params, high_noise)},
    {"low_noise", offsetof(zoe_job_params, low_noise)},
    {"transformer", offsetof(zoe_job_params, transformer)},
    {"vae", offsetof(zoe_job_params, vae)},
    {"text_encoder", offsetof(zoe_job_params, text_encoder)},
    {"tokenizer", offsetof(zoe_job_params, tokenizer)},
    {"clip", offsetof(zoe_job_params, clip)},
    {"image", offsetof(zoe_job_params, image)},
    {"last_image", offsetof(zoe_job_params, last_image)},
    {"preview_factors", offsetof(zoe_job_params, preview_factors)},
    {"preview", offsetof(zoe_job_params, preview)},
    {"out", offsetof(zoe_job_params, out)},
    {"frames_out", offsetof(zoe_job_params, frames_out)},
    {"latents_out", offsetof(zoe_job_params, latents_out)},
    {"report", offsetof(zoe_job_params, report)},
};

static const char *get_path(const zoe_job_params *p, size_t row)
{
    const char *path;
    memcpy(&path, (const char *)p + path_rows[row].at, sizeof path);
    return path;
}

static void set_path(zoe_job_params *p, size_t row, const char *path)
{
    memcpy((char *)p + path_rows[row].at, &path, sizeof path);
}

/* ---- writing ---- */

/* The last part of a path that says something, never a folder of the user's machine. */
static zoe_status bare_name(zoe_context *ctx, char **name, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    const size_t n = end - begin;
    const char *last = path + begin;
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
static json_t *run_json(zoe_context *ctx, const zoe_job *job, const char *letters)
{
    const zoe_job_params *p = &job->params;
    json_t *paths = json_object();
    for (size_t i = 0; i < ZOE_RECORD_PATHS; i++) {
        const char *path = get_path(p, i);
        const bool is_stream = path && path == p->out && strcmp(path, "-") == 0;
        if (path && json_object_set_new(paths, path_rows[i].key, path_json(ctx, path, is_stream))) {
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
    return i == ZOE_WEIGHTS_HIGH && job->parts.transformers == 1 ? single_key : weight_keys[i];
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
        ZOE_RECORD_FORMAT, "program", program, "version", ZOE_VERSION, "prompt", p->prompt,
        "negative_prompt", negative_of(p), "image", p->image ? name_json(ctx, p->image) : NULL,
        "last_image", p->last_image ? name_json(ctx, p->last_image) : NULL, "model",
        p->model ? name_json(ctx, p->model) : NULL, "image_sha256", known(s->image),
        "last_image_sha256", known(s->last_image), "model_sha256", weights_json(job, s->weights),
        "instruction_set", zoe_isa_name(zoe_cpu_isa()));
    json_t *how = json_pack(
        "{s:[I, I], s:b, s:I, s:I, s:s, s:f, s:[f, f], s:f, s:s, s:I, s:[i, i]}", "size",
        (json_int_t)p->width, (json_int_t)p->height, "keep_orientation", p->keep_orientation,
        "frames", (json_int_t)p->frames, "steps", (json_int_t)p->steps, "solver",
        solver_names[p->solver], "shift", p->shift, "guide_scale_low_high", p->guide_low,
        p->guide_high, "boundary", p->boundary, "dtype", p->bf16 ? "bf16" : "f32", "seed",
        (json_int_t)job->plan.seed, "frame_rate", p->fps_num, p->fps_den);
    int failed = json_object_update(root, how);
    json_decref(how);
    if (job->plan.width > 0)
        failed |= json_object_set_new(root, "width", json_integer((json_int_t)job->plan.width)) |
                  json_object_set_new(root, "height", json_integer((json_int_t)job->plan.height));
    failed |= add_extras(ctx, root, job, false);
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
    double reals[4 + 2 * ZOE_JOB_LORAS] = {p->shift, p->guide_low, p->guide_high, p->boundary};
    size_t digits = 15;
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

static zoe_status make_comment(zoe_context *ctx, char **text, const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    char *loras;
    TRY(zoe_loras_describe(ctx, &loras, job));
    const zoe_status status =
        zoe_strf(ctx, text,
                 "%s\nNegative prompt: %s\nSteps: %zu, Solver: %s, Shift: %g, Guide scale: %g,%g, "
                 "Boundary: %g, Seed: %lld, Size: %zux%zu, Frames: %zu, Type: %s%s%s%s%s, Version: "
                 "zoetrope %s",
                 p->prompt, *negative_of(p) ? negative_of(p) : "(official)", p->steps,
                 solver_names[p->solver], p->shift, p->guide_low, p->guide_high, p->boundary,
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

/* ---- reading: nothing in the text is trusted ---- */

typedef struct reader {
    zoe_context *ctx;
    const json_t *object;
    const char *where;
} reader;

static zoe_status wrong(const reader *r, const char *key, const char *wanted)
{
    const json_t *found = json_object_get(r->object, key);
    char *text = found ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const zoe_status status =
        zoe_fail(r->ctx, ZOE_FORMAT, "%s: the record of the run has %s%.60s for %s; %s is wanted",
                 r->where, found ? "" : "nothing", text ? text : "", key, wanted);
    free(text);
    return status;
}

static zoe_status take_text(const reader *r, const char *key, const char **value)
{
    *value = json_string_value(json_object_get(r->object, key));
    return *value ? ZOE_OK : wrong(r, key, "a text");
}

static bool is_within(const json_t *number, json_int_t low, json_int_t high)
{
    return json_is_integer(number) && json_integer_value(number) >= low &&
           json_integer_value(number) <= high;
}

static zoe_status take_size(const reader *r, const char *key, size_t *value)
{
    const json_t *found = json_object_get(r->object, key);
    if (!is_within(found, 0, INT64_MAX))
        return wrong(r, key, "a number from 0 up");
    *value = (size_t)json_integer_value(found);
    return ZOE_OK;
}

static zoe_status take_real(const reader *r, const char *key, double *value)
{
    const json_t *found = json_object_get(r->object, key);
    if (!json_is_number(found))
        return wrong(r, key, "a number");
    *value = json_number_value(found);
    return ZOE_OK;
}

static zoe_status take_bool(const reader *r, const char *key, bool *value)
{
    const json_t *found = json_object_get(r->object, key);
    if (!json_is_boolean(found))
        return wrong(r, key, "true or false");
    *value = json_is_true(found);
    return ZOE_OK;
}

/* [a, b], both integers in low..high. */
static zoe_status take_pair(const reader *r, const char *key, json_int_t low, json_int_t high,
                            json_int_t pair[2])
{
    const json_t *found = json_object_get(r->object, key);
    for (size_t i = 0; i < 2; i++) {
        const json_t *number = json_array_get(found, i);
        if (json_array_size(found) != 2 || !is_within(number, low, high))
            return wrong(r, key, "a pair of whole numbers above 0");
        pair[i] = json_integer_value(number);
    }
    return ZOE_OK;
}

/* One of n words; *index is its number. */
static zoe_status take_word(const reader *r, const char *key, const char *const *words, size_t n,
                            size_t *index)
{
    const char *found;
    TRY(take_text(r, key, &found));
    for (*index = 0; *index < n; ++*index)
        if (strcmp(found, words[*index]) == 0)
            return ZOE_OK;
    return wrong(r, key, "a name that this version knows");
}

/* May be absent. */
static zoe_status take_digest(const reader *r, const char *key, char digest[ZOE_DIGEST_TEXT])
{
    const json_t *found = json_object_get(r->object, key);
    const char *text = json_string_value(found);
    digest[0] = '\0';
    if (!found)
        return ZOE_OK;
    if (!text || strlen(text) != ZOE_DIGEST_TEXT - 1 ||
        strspn(text, "0123456789abcdef") != ZOE_DIGEST_TEXT - 1)
        return wrong(r, key, "a SHA-256 of 64 hexadecimal digits");
    memcpy(digest, text, ZOE_DIGEST_TEXT);
    return ZOE_OK;
}

/* A bare name, "" if absent: a record in a video must not send anybody to other folders. */
static zoe_status take_name(const reader *r, const char *key, const char **value)
{
    const json_t *found = json_object_get(r->object, key);
    *value = found ? json_string_value(found) : NULL;
    if (found && (!*value || strchr(*value, '/')))
        return wrong(r, key, "a name without a folder");
    return ZOE_OK;
}

/* An object with a digest of each part of the model. */
static zoe_status take_weights(const reader *r, const char *key, char (*digests)[ZOE_DIGEST_TEXT])
{
    const json_t *weights = json_object_get(r->object, key);
    const reader inner = {r->ctx, weights, r->where};
    if (weights && !json_is_object(weights))
        return wrong(r, key, "an object");
    for (size_t i = 0; i < ZOE_WEIGHTS_COUNT; i++)
        TRY(take_digest(&inner, weight_keys[i], digests[i]));
    if (!digests[ZOE_WEIGHTS_HIGH][0])
        TRY(take_digest(&inner, single_key, digests[ZOE_WEIGHTS_HIGH]));
    return ZOE_OK;
}

static zoe_status take_settings(const reader *r, zoe_sources *sources)
{
    static const char key[] = "model_settings";
    const json_t *object = json_object_get(r->object, key);
    if (object && !json_is_object(object))
        return wrong(r, key, "an object");
    for (size_t e = 0; e < ZOE_EXPERTS; e++) {
        const json_t *found = json_object_get(object, weight_keys[zoe_weights_of(e)]);
        if (!found && e == ZOE_HIGH_NOISE)
            found = json_object_get(object, single_key);
        const char *text = json_string_value(found);
        if (found && (!text || strlen(text) >= ZOE_SETTINGS_TEXT))
            return wrong(r, key, "a short text for each transformer");
        snprintf(sources->settings[e], ZOE_SETTINGS_TEXT, "%s", text ? text : "");
    }
    return ZOE_OK;
}

static zoe_status take_sources(const reader *r, zoe_record *record)
{
    TRY(take_digest(r, "image_sha256", record->sources.image));
    TRY(take_digest(r, "last_image_sha256", record->sources.last_image));
    TRY(take_digest(r, "tokens_sha256", record->sources.tokens));
    TRY(take_weights(r, "model_sha256", record->sources.weights));
    TRY(take_weights(r, "weights_sha256", record->sources.digests));
    TRY(take_weights(r, "weights_stamp", record->sources.stamps));
    TRY(take_settings(r, &record->sources));
    return take_text(r, "instruction_set", &record->isa);
}

static zoe_status take_numbers(const reader *r, zoe_job_params *p)
{
    static const char *const dtypes[] = {"f32", "bf16"};
    const json_t *scale = json_object_get(r->object, "guide_scale_low_high");
    const json_t *seed = json_object_get(r->object, "seed");
    json_int_t pair[2];
    size_t word;
    TRY(take_pair(r, "size", 1, INT64_MAX, pair));
    p->width = (size_t)pair[0];
    p->height = (size_t)pair[1];
    TRY(take_pair(r, "frame_rate", 1, INT_MAX, pair));
    p->fps_num = (int)pair[0];
    p->fps_den = (int)pair[1];
    TRY(take_bool(r, "keep_orientation", &p->keep_orientation));
    TRY(take_size(r, "frames", &p->frames));
    TRY(take_size(r, "steps", &p->steps));
    TRY(take_word(r, "solver", solver_names, SOLVERS, &word));
    p->solver = (zoe_solver_kind)word;
    TRY(take_real(r, "shift", &p->shift));
    TRY(take_real(r, "boundary", &p->boundary));
    TRY(take_word(r, "dtype", dtypes, 2, &word));
    p->bf16 = word == 1;
    if (json_array_size(scale) != 2 || !json_is_number(json_array_get(scale, 0)) ||
        !json_is_number(json_array_get(scale, 1)))
        return wrong(r, "guide_scale_low_high", "a pair of numbers");
    p->guide_low = json_number_value(json_array_get(scale, 0));
    p->guide_high = json_number_value(json_array_get(scale, 1));
    if (!is_within(seed, 0, INT64_MAX))
        return wrong(r, "seed", "a number from 0 up");
    p->seed = json_integer_value(seed);
    const zoe_status status = zoe_params_check_numbers(r->ctx, p);
    if (status != ZOE_OK)
        zoe_fail_in(r->ctx, "%s: the record of the run cannot be right", r->where);
    return status == ZOE_OK ? ZOE_OK : ZOE_FORMAT;
}

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* {"bytes": digits} to a path in *path; not "", no zero byte. */
static zoe_status take_bytes(const reader *r, const char *key, char **path)
{
    const char *digits =
        json_string_value(json_object_get(json_object_get(r->object, key), "bytes"));
    const size_t n = digits ? strlen(digits) : 0;
    void *p;
    if (n < 2 || n % 2 != 0)
        return wrong(r, key, "a path");
    TRY(zoe_alloc(r->ctx, &p, n / 2 + 1, 1, "path"));
    *path = p;
    (*path)[n / 2] = '\0';
    for (size_t i = 0; i < n / 2; i++) {
        const int high = digit_value(digits[2 * i]), low = digit_value(digits[2 * i + 1]);
        if (high < 0 || low < 0 || high + low == 0)
            return wrong(r, key, "a path");
        (*path)[i] = (char)(unsigned char)(high * 16 + low);
    }
    return ZOE_OK;
}

static zoe_status take_lora(const reader *r, zoe_record *record, size_t i)
{
    zoe_job_lora *l = &record->params.loras[i];
    TRY(take_text(r, "name", &l->path));
    if (!*l->path || strchr(l->path, '/'))
        return wrong(r, "name", "a name without a folder");
    TRY(take_real(r, "high", &l->high));
    TRY(take_real(r, "low", &l->low));
    return take_digest(r, "sha256", record->sources.loras[i]);
}

static zoe_status take_loras(const reader *r, zoe_record *record)
{
    const json_t *list = json_object_get(r->object, "loras");
    const size_t n = json_array_size(list);
    if (list && (!json_is_array(list) || n > ZOE_JOB_LORAS))
        return wrong(r, "loras", "a list of up to 8 LoRAs");
    for (size_t i = 0; i < n; i++) {
        const reader one = {r->ctx, json_array_get(list, i), r->where};
        TRY(take_lora(&one, record, i));
    }
    record->params.lora_count = n;
    return zoe_loras_check_numbers(r->ctx, &record->params);
}

/* Their paths, in a checkpoint folder. */
static zoe_status take_lora_paths(const reader *paths, zoe_record *record)
{
    const json_t *list = json_object_get(paths->object, "loras");
    if (json_array_size(list) != record->params.lora_count)
        return wrong(paths, "loras", "a path to each LoRA");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *path = json_array_get(list, i);
        json_t *bare = json_pack("{s:O}", "path", path);
        const reader one = {paths->ctx, bare, paths->where};
        zoe_status status = ZOE_OK;
        if (json_is_string(path) && *json_string_value(path)) {
            record->params.loras[i].path = json_string_value(path);
        } else {
            status = take_bytes(&one, "path", &record->loras[i]);
            record->params.loras[i].path = record->loras[i];
        }
        json_decref(bare);
        TRY(status);
    }
    return ZOE_OK;
}

static zoe_status take_cache(const reader *r, zoe_job_params *p)
{
    const json_t *found = json_object_get(r->object, "cache");
    zoe_cache_params params;
    p->cache = json_string_value(found);
    if (found && !p->cache)
        return wrong(r, "cache", "a text");
    return found ? zoe_cache_params_parse(r->ctx, &params, p->cache) : ZOE_OK;
}

/* Absent of a run in float. */
static zoe_status take_compute(const reader *r, zoe_job_params *p)
{
    const json_t *found = json_object_get(r->object, "compute");
    const char *word = json_string_value(found);
    p->int8 = word && strcmp(word, "int8") == 0;
    return found && !p->int8 ? wrong(r, "compute", "\"int8\"") : ZOE_OK;
}

static zoe_status take_run(const reader *r, zoe_record *record)
{
    zoe_job_params *p = &record->params;
    const json_t *run = json_object_get(r->object, "run");
    const reader inner = {r->ctx, run, r->where};
    const reader paths = {r->ctx, json_object_get(run, "paths"), r->where};
    const char *letters;
    if (!json_is_object(run))
        return wrong(r, "run", "an object, as in a checkpoint folder,");
    TRY(take_text(&inner, "letters", &letters));
    if (!zoe_part_letters_check(letters))
        return wrong(&inner, "letters", "a word of 8 letters");
    memcpy(record->letters, letters, sizeof record->letters);
    TRY(take_bool(&inner, "no_metadata", &p->no_metadata));
    TRY(take_size(&inner, "memory", &p->memory));
    if (!json_is_object(paths.object))
        return wrong(&inner, "paths", "an object");
    for (size_t i = 0; i < ZOE_RECORD_PATHS; i++) {
        const json_t *path = json_object_get(paths.object, path_rows[i].key);
        if (path && !json_is_string(path))
            TRY(take_bytes(&paths, path_rows[i].key, &record->paths[i]));
        if (json_is_string(path) && !*json_string_value(path))
            return wrong(&paths, path_rows[i].key, "a path");
        set_path(p, i, record->paths[i] ? record->paths[i] : json_string_value(path));
    }
    return take_lora_paths(&paths, record);
}

static zoe_status take_format(const reader *r, const zoe_record *record)
{
    const json_t *format = json_object_get(r->object, "format");
    const char *found = json_string_value(json_object_get(r->object, "program"));
    if (!found || strcmp(found, program) != 0)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: is no record of zoetrope", r->where);
    if (!is_within(format, 1, INT64_MAX))
        return wrong(r, "format", "a number from 1 up");
    if (json_integer_value(format) > ZOE_RECORD_FORMAT)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: written by zoetrope %.40s in a form that this version does not know "
                        "(%lld, known is %d)",
                        r->where, record->version, (long long)json_integer_value(format),
                        ZOE_RECORD_FORMAT);
    return ZOE_OK;
}

/* LoRAs, step cache and int8. */
static zoe_status take_extras(const reader *r, zoe_record *record)
{
    zoe_status status = take_loras(r, record);
    if (status == ZOE_OK)
        status = take_cache(r, &record->params);
    if (status == ZOE_OK)
        status = take_compute(r, &record->params);
    if (status == ZOE_INVALID)
        zoe_fail_in(r->ctx, "%s: the record of the run cannot be right", r->where);
    return status == ZOE_INVALID ? ZOE_FORMAT : status;
}

static zoe_status take_record(const reader *r, zoe_record *record, bool whole)
{
    zoe_job_params *p = &record->params;
    const char *version = json_string_value(json_object_get(r->object, "version"));
    record->version = version ? version : "?";
    TRY(take_format(r, record));
    TRY(take_text(r, "version", &record->version));
    TRY(take_text(r, "prompt", &p->prompt));
    TRY(take_text(r, "negative_prompt", &p->negative_prompt));
    TRY(take_numbers(r, p));
    TRY(take_sources(r, record));
    TRY(take_extras(r, record));
    if (whole)
        return take_run(r, record);
    TRY(take_name(r, "image", &p->image));
    TRY(take_name(r, "last_image", &p->last_image));
    return take_name(r, "model", &p->model);
}

zoe_status zoe_record_parse(zoe_context *ctx, zoe_record **record, const char *text, size_t size,
                            const char *where, bool whole)
{
    json_error_t error;
    void *p;
    zoe_status status;
    *record = NULL;
    if (size > ZOE_RECORD_BYTES)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: a record of %zu bytes, at most %d are read", where,
                        size, ZOE_RECORD_BYTES);
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **record, "record"));
    zoe_record *made = p;
    zoe_job_params_init(&made->params);
    made->root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(made->root)) {
        /* without memory, jansson finds syntax errors where there are none */
        TRY_GOTO(zoe_alloc_probe(ctx, size, where));
        TRY_GOTO(zoe_fail(ctx, ZOE_FORMAT, "%s: the record is no JSON object%s%.100s", where,
                          made->root ? "" : ": ", made->root ? "" : error.text));
    }
    TRY_GOTO(zoe_strf(ctx, &made->json, "%.*s", (int)size, text));
    const reader r = {ctx, made->root, where};
    TRY_GOTO(take_record(&r, made, whole));
    *record = made;
    made = NULL;
done:
    zoe_record_free(made);
    return status;
}
