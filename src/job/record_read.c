/* Reads the JSON form of a record. Nothing in the text is trusted. */
#define _GNU_SOURCE
#include "job/lora.h"
#include "job/record_keys.h"

#include <limits.h>
#include <stdlib.h>

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
        TRY(take_digest(&inner, zoe_record_weights[i], digests[i]));
    if (!digests[ZOE_WEIGHTS_HIGH][0])
        TRY(take_digest(&inner, zoe_record_single, digests[ZOE_WEIGHTS_HIGH]));
    return ZOE_OK;
}

static zoe_status take_settings(const reader *r, zoe_sources *sources)
{
    static const char key[] = "model_settings";
    const json_t *object = json_object_get(r->object, key);
    if (object && !json_is_object(object))
        return wrong(r, key, "an object");
    for (size_t e = 0; e < ZOE_EXPERTS; e++) {
        const json_t *found = json_object_get(object, zoe_record_weights[zoe_weights_of(e)]);
        if (!found && e == ZOE_HIGH_NOISE)
            found = json_object_get(object, zoe_record_single);
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

/* Both are absent of most runs. */
static zoe_status take_steps(const reader *r, zoe_job_params *p)
{
    const json_t *list = json_object_get(r->object, "step_list");
    const json_t *boundary = json_object_get(r->object, "boundary_step");
    const size_t n = json_array_size(list);
    if (list && (n == 0 || n != p->steps || n > ZOE_JOB_STEP_LIST))
        return wrong(r, "step_list", "a list of all steps");
    for (size_t i = 0; i < n; i++) {
        const json_t *step = json_array_get(list, i);
        if (!json_is_number(step))
            return wrong(r, "step_list", "a list of numbers");
        p->step_list[i] = json_number_value(step);
    }
    p->step_list_count = n;
    if (boundary && !is_within(boundary, 0, 10000))
        return wrong(r, "boundary_step", "a number of steps");
    if (boundary)
        p->boundary_step = (size_t)json_integer_value(boundary);
    return ZOE_OK;
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
    TRY(take_word(r, "solver", zoe_record_solvers, ZOE_RECORD_SOLVERS, &word));
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
    TRY(take_steps(r, p));
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
        const json_t *path = json_object_get(paths.object, zoe_record_path_rows[i].key);
        if (path && !json_is_string(path))
            TRY(take_bytes(&paths, zoe_record_path_rows[i].key, &record->paths[i]));
        if (json_is_string(path) && !*json_string_value(path))
            return wrong(&paths, zoe_record_path_rows[i].key, "a path");
        zoe_record_set_path(p, i, record->paths[i] ? record->paths[i] : json_string_value(path));
    }
    return take_lora_paths(&paths, record);
}

static zoe_status take_format(const reader *r, const zoe_record *record)
{
    const json_t *format = json_object_get(r->object, "format");
    const char *found = json_string_value(json_object_get(r->object, "program"));
    if (!found || strcmp(found, ZOE_RECORD_KEY) != 0)
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
