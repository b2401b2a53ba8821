/* What a run is made from, by content, and how two runs differ in it. */
#include "job/lora.h"

#include <stdarg.h>
#include <stdio.h>

static const char *weights_name(const zoe_job *job, size_t i)
{
    static const char *const names[ZOE_WEIGHTS_COUNT] = {
        [ZOE_WEIGHTS_HIGH] = "high-noise transformer",
        [ZOE_WEIGHTS_LOW] = "low-noise transformer",
        [ZOE_WEIGHTS_VAE] = "VAE",
        [ZOE_WEIGHTS_TEXT] = "text encoder",
        [ZOE_WEIGHTS_CLIP] = "CLIP image tower"};
    return i == ZOE_WEIGHTS_HIGH && job->parts.transformers == 1 ? "transformer" : names[i];
}

/* ---- digests ---- */

/* NULL: the model has none. */
static const zoe_store *store_of(const zoe_job *job, zoe_weights i)
{
    switch (i) {
    case ZOE_WEIGHTS_HIGH: return job->expert_store[ZOE_HIGH_NOISE];
    case ZOE_WEIGHTS_LOW: return job->expert_store[ZOE_LOW_NOISE];
    case ZOE_WEIGHTS_VAE: return job->vae_store;
    case ZOE_WEIGHTS_TEXT: return job->text_store;
    case ZOE_WEIGHTS_CLIP: return job->clip_store;
    case ZOE_WEIGHTS_COUNT: break;
    }
    return NULL;
}

/* What a config.json says and no tensor shows. */
static void note_settings(zoe_job *job)
{
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (job->wan[e]) {
            const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[e]);
            snprintf(job->sources.settings[e], ZOE_SETTINGS_TEXT,
                     "num_heads %zu, text_len %zu, eps %.9g", d->heads, d->text_len,
                     (double)d->eps);
        }
}

zoe_status zoe_sources_weights(zoe_context *ctx, zoe_job *job)
{
    note_settings(job);
    for (zoe_weights i = 0; i < ZOE_WEIGHTS_COUNT; i++) {
        const zoe_store *store = store_of(job, i);
        if (job->sources.weights[i][0] || !store)
            continue;
        TRY(zoe_store_fingerprint(ctx, store, job->sources.weights[i]));
        zoe_store_drop(store);
    }
    return zoe_loras_fingerprint(ctx, job);
}

zoe_status zoe_sources_digests(zoe_context *ctx, zoe_job *job, const zoe_sources *old)
{
    for (zoe_weights i = 0; i < ZOE_WEIGHTS_COUNT; i++) {
        const zoe_store *store = store_of(job, i);
        char *digest = job->sources.digests[i], *stamp = job->sources.stamps[i];
        if (digest[0] || !store)
            continue;
        TRY(zoe_store_stamp(ctx, store, stamp));
        if (old && old->digests[i][0] && strcmp(old->stamps[i], stamp) == 0) {
            memcpy(digest, old->digests[i], ZOE_DIGEST_TEXT);
            continue;
        }
        zoe_log(ctx, ZOE_INFO, "%s: reading all of it once (%zu MiB), for the checkpoint",
                zoe_store_path(store), zoe_store_bytes(store) >> 20);
        TRY(zoe_store_digest(ctx, store, digest));
        zoe_store_drop(store);
    }
    return ZOE_OK;
}

zoe_status zoe_sources_tokens(zoe_context *ctx, zoe_job *job)
{
    zoe_digest *digest;
    TRY(zoe_digest_new(ctx, &digest));
    for (size_t b = 0; b < ZOE_BRANCHES; b++) {
        const uint64_t count = job->id_count[b];
        zoe_digest_add(digest, &count, sizeof count);
        zoe_digest_add(digest, job->ids[b], job->id_count[b] * sizeof *job->ids[b]);
    }
    const zoe_status status = zoe_digest_end(ctx, digest, job->sources.tokens);
    zoe_digest_free(digest);
    return status;
}

static void add_step_list(zoe_digest *digest, const zoe_job_params *p)
{
    char number[60];
    for (size_t i = 0; i < p->step_list_count; i++) {
        snprintf(number, sizeof number, "step %zu %.17g", i, p->step_list[i]);
        zoe_digest_add_text(digest, number);
    }
    snprintf(number, sizeof number, "boundary step %zu", p->boundary_step);
    if (p->boundary_step != ZOE_NO_BOUNDARY_STEP)
        zoe_digest_add_text(digest, number);
}

/* What came after the first checkpoints, whose identity must stay: nothing is added for a run that
 * has none of it. */
static void add_newer_parts(zoe_digest *digest, const zoe_job *job)
{
    char sides[80];
    snprintf(sides, sizeof sides, "sides %zu %zu", job->params.width, job->params.height);
    if (!job->params.image)
        zoe_digest_add_text(digest, sides);
    if (job->sources.last_image[0]) {
        zoe_digest_add_text(digest, "last image");
        zoe_digest_add_text(digest, job->sources.last_image);
    }
    if (job->sources.weights[ZOE_WEIGHTS_CLIP][0]) {
        zoe_digest_add_text(digest, "clip");
        zoe_digest_add_text(digest, job->sources.weights[ZOE_WEIGHTS_CLIP]);
    }
    if (job->params.int8)
        zoe_digest_add_text(digest, "int8");
    add_step_list(digest, &job->params);
}

zoe_status zoe_sources_identity(zoe_context *ctx, const zoe_job *job,
                                char identity[ZOE_DIGEST_TEXT])
{
    const zoe_job_params *p = &job->params;
    zoe_digest *digest;
    char numbers[400];
    snprintf(numbers, sizeof numbers, "%d %zu %zu %zu %d %.17g %.17g %.17g %.17g %lld %d",
             p->keep_orientation, p->width * p->height, p->frames, p->steps, (int)p->solver,
             p->shift, p->guide_low, p->guide_high, p->boundary, (long long)job->plan.seed,
             p->bf16);
    TRY(zoe_digest_new(ctx, &digest));
    zoe_digest_add_text(digest, numbers);
    zoe_digest_add_text(digest, job->sources.image);
    for (size_t i = 0; i <= ZOE_WEIGHTS_TEXT; i++)
        zoe_digest_add_text(digest, job->sources.weights[i]);
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        zoe_digest_add_text(digest, job->sources.settings[e]);
    zoe_digest_add_text(digest, job->sources.tokens);
    zoe_digest_add_text(digest, zoe_isa_name(zoe_cpu_isa()));
    add_newer_parts(digest, job);
    zoe_loras_identify(job, digest);
    if (job->cache_params.method != ZOE_CACHE_NONE)
        zoe_digest_add_text(digest, p->cache);
    const zoe_status status = zoe_digest_end(ctx, digest, identity);
    zoe_digest_free(digest);
    return status;
}

/* ---- differences ---- */

static void __attribute__((format(printf, 2, 3)))
add_difference(zoe_differences *d, const char *format, ...)
{
    va_list args;
    const size_t room = sizeof d->text - d->used;
    char *at = d->text + d->used;
    const size_t joint = d->used > 0 ? 2 : 0;
    if (room <= joint)
        return;
    memcpy(at, "; ", joint);
    va_start(args, format);
    const int n = vsnprintf(at + joint, room - joint, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room - joint)
        *at = '\0';
    else
        d->used += joint + (size_t)n;
}

static void differ_size(zoe_differences *d, const char *what, size_t old, size_t asked)
{
    if (old != asked)
        add_difference(d, "%s: %zu in the checkpoint, %zu asked for", what, old, asked);
}

static void differ_real(zoe_differences *d, const char *what, double old, double asked)
{
    const bool close = fabs(old - asked) <= 1e-6 * fabs(old); /* more digits tell them apart */
    if (old != asked)
        add_difference(d, "%s: %.*g in the checkpoint, %.*g asked for", what, close ? 17 : 9, old,
                       close ? 17 : 9, asked);
}

static void differ_word(zoe_differences *d, const char *what, const char *old, const char *asked)
{
    if (strcmp(old, asked) != 0)
        add_difference(d, "%s: %s in the checkpoint, %s asked for", what, old, asked);
}

enum { BEFORE = 20, SHOWN = 60 }; /* bytes of a text around the place where it differs */

static bool is_inside(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Part of a text in quotes, whole characters. */
static const char *excerpt(char *room, size_t size, const char *text, size_t at)
{
    size_t begin = at > BEFORE ? at - BEFORE : 0, end = begin;
    while (begin > 0 && is_inside(text[begin]))
        begin--;
    while (text[end] && (end < begin + SHOWN || is_inside(text[end])))
        end++;
    snprintf(room, size, "\"%s%.*s%s\"", begin > 0 ? "..." : "", (int)(end - begin), text + begin,
             text[end] ? "..." : "");
    return room;
}

static void differ_text(zoe_differences *d, const char *what, const char *old, const char *asked)
{
    char a[SHOWN + 16], b[SHOWN + 16];
    size_t at = 0;
    while (old[at] && old[at] == asked[at])
        at++;
    if (old[at] || asked[at])
        add_difference(d, "%s: %s in the checkpoint, %s asked for", what,
                       excerpt(a, sizeof a, old, at), excerpt(b, sizeof b, asked, at));
}

static const char *solver_word(zoe_solver_kind kind)
{
    return kind == ZOE_SOLVER_UNIPC ? "UniPC" : kind == ZOE_SOLVER_DPMPP ? "DPM++" : "Euler";
}

static const char *negative_of(const zoe_job_params *p)
{
    return p->negative_prompt && *p->negative_prompt ? p->negative_prompt
                                                     : zoe_default_negative_prompt;
}

static void differ_given(zoe_differences *d, const char *what, const char *old, const char *asked)
{
    if (!old != !asked)
        add_difference(d, "%s: %s in the checkpoint, %s now", what, old ? "given" : "none",
                       asked ? "given" : "none");
}

/* With a picture only the area counts. */
static bool sizes_differ(const zoe_job_params *old, const zoe_job_params *asked)
{
    return old->width * old->height != asked->width * asked->height ||
           (!old->image && !asked->image && old->width != asked->width);
}

static const char *cache_of(const zoe_job_params *p)
{
    return p->cache ? p->cache : zoe_cache_method_name(ZOE_CACHE_NONE);
}

/* "1000, 750", or "none". */
static const char *list_text(char *room, size_t size, const zoe_job_params *p)
{
    size_t used = 0;
    snprintf(room, size, "none");
    for (size_t i = 0; i < p->step_list_count && used < size; i++)
        used += (size_t)snprintf(room + used, size - used, "%s%.9g", i > 0 ? ", " : "",
                                 p->step_list[i]);
    return room;
}

static void differ_step_list(zoe_differences *d, const zoe_job_params *old,
                             const zoe_job_params *asked)
{
    char a[16 * ZOE_JOB_STEP_LIST], b[16 * ZOE_JOB_STEP_LIST];
    const size_t n = old->step_list_count;
    if (n != asked->step_list_count ||
        memcmp(old->step_list, asked->step_list, n * sizeof *old->step_list) != 0)
        add_difference(d, "step list: %s in the checkpoint, %s asked for",
                       list_text(a, sizeof a, old), list_text(b, sizeof b, asked));
}

static void differ_boundary_step(zoe_differences *d, size_t old, size_t asked)
{
    char a[24], b[24];
    snprintf(a, sizeof a, old == ZOE_NO_BOUNDARY_STEP ? "none" : "%zu", old);
    snprintf(b, sizeof b, asked == ZOE_NO_BOUNDARY_STEP ? "none" : "%zu", asked);
    differ_word(d, "boundary step", a, b);
}

static void differ_loras(zoe_differences *d, const zoe_job_params *old, const zoe_job_params *asked)
{
    differ_size(d, "LoRAs", old->lora_count, asked->lora_count);
    for (size_t i = 0; i < old->lora_count && i < asked->lora_count; i++) {
        const zoe_job_lora *a = &old->loras[i], *b = &asked->loras[i];
        if (a->high != b->high || a->low != b->low)
            add_difference(d,
                           "strength of LoRA %zu: high=%.9g,low=%.9g in the checkpoint, "
                           "high=%.9g,low=%.9g asked for",
                           i + 1, a->high, a->low, b->high, b->low);
    }
}

void zoe_request_differences(zoe_differences *d, const zoe_job_params *old,
                             const zoe_job_params *asked)
{
    differ_text(d, "prompt", old->prompt, asked->prompt);
    differ_text(d, "negative prompt", negative_of(old), negative_of(asked));
    differ_given(d, "picture", old->image, asked->image);
    differ_given(d, "last picture", old->last_image, asked->last_image);
    if (sizes_differ(old, asked))
        add_difference(d, "size: %zux%zu in the checkpoint, %zux%zu asked for", old->width,
                       old->height, asked->width, asked->height);
    differ_word(d, "EXIF orientation of the picture",
                old->keep_orientation ? "ignored" : "followed",
                asked->keep_orientation ? "ignored" : "followed");
    differ_size(d, "frames", old->frames, asked->frames);
    differ_size(d, "steps", old->steps, asked->steps);
    differ_step_list(d, old, asked);
    differ_word(d, "solver", solver_word(old->solver), solver_word(asked->solver));
    differ_real(d, "shift", old->shift, asked->shift);
    differ_real(d, "guidance scale of the low-noise expert", old->guide_low, asked->guide_low);
    differ_real(d, "guidance scale of the high-noise expert", old->guide_high, asked->guide_high);
    differ_real(d, "boundary", old->boundary, asked->boundary);
    differ_boundary_step(d, old->boundary_step, asked->boundary_step);
    if (asked->seed >= 0 && old->seed != asked->seed)
        add_difference(d, "seed: %lld in the checkpoint, %lld asked for", (long long)old->seed,
                       (long long)asked->seed);
    differ_word(d, "type", old->bf16 ? "bf16" : "f32", asked->bf16 ? "bf16" : "f32");
    differ_word(d, "products", old->int8 ? "int8" : "float", asked->int8 ? "int8" : "float");
    differ_loras(d, old, asked);
    differ_text(d, "step cache", cache_of(old), cache_of(asked));
}

static bool differ(const char *old, const char *now)
{
    return *old && *now && strcmp(old, now) != 0;
}

void zoe_source_differences(zoe_differences *d, const zoe_record *old, const zoe_job *job)
{
    const zoe_sources *was = &old->sources, *is = &job->sources;
    const char *isa = zoe_isa_name(zoe_cpu_isa());
    if (differ(was->image, is->image))
        add_difference(d, "the picture is another one (SHA-256 %.12s in the checkpoint, %.12s %s)",
                       was->image, is->image, job->params.image);
    if (differ(was->last_image, is->last_image))
        add_difference(d,
                       "the last picture is another one (SHA-256 %.12s in the checkpoint, %.12s "
                       "%s)",
                       was->last_image, is->last_image, job->params.last_image);
    for (size_t i = 0; i < ZOE_WEIGHTS_COUNT; i++)
        if (differ(was->weights[i], is->weights[i]) || differ(was->digests[i], is->digests[i]))
            add_difference(
                d, "the %s has other weights (%.12s in the checkpoint, %.12s found)",
                weights_name(job, i),
                differ(was->digests[i], is->digests[i]) ? was->digests[i] : was->weights[i],
                differ(was->digests[i], is->digests[i]) ? is->digests[i] : is->weights[i]);
    const bool two = was->weights[ZOE_WEIGHTS_LOW][0], two_now = is->weights[ZOE_WEIGHTS_LOW][0];
    if (was->weights[ZOE_WEIGHTS_HIGH][0] && is->weights[ZOE_WEIGHTS_HIGH][0] && two != two_now)
        add_difference(d, "the checkpoint was made with %d transformer%s, now there %s",
                       two ? 2 : 1, two ? "s" : "", two_now ? "are 2" : "is 1");
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (differ(was->settings[e], is->settings[e]))
            add_difference(
                d,
                "the config.json of the %s says something else: %s in the checkpoint, %s "
                "found",
                weights_name(job, zoe_weights_of(e)), was->settings[e], is->settings[e]);
    for (size_t i = 0; i < job->params.lora_count; i++)
        if (differ(was->loras[i], is->loras[i]))
            add_difference(d, "LoRA %zu is another one (%.12s in the checkpoint, %.12s in %s)",
                           i + 1, was->loras[i], is->loras[i], job->params.loras[i].path);
    if (differ(was->tokens, is->tokens))
        add_difference(d, "the tokenizer gives other tokens for the same prompts");
    if (strcmp(old->isa, isa) != 0)
        add_difference(d,
                       "the checkpoint was made with the instruction set %s, this run uses %s, so "
                       "that last bits would differ (%s)",
                       old->isa, isa,
                       strcmp(old->isa, zoe_isa_name(ZOE_ISA_C)) == 0
                           ? "set ZOE_CPU=c"
                           : "leave ZOE_CPU unset, on a processor that has it");
}

zoe_status zoe_record_compare(zoe_context *ctx, const zoe_record *record, zoe_job *job)
{
    const zoe_sources *was = &record->sources, *is = &job->sources;
    TRY(zoe_sources_weights(ctx, job));
    if (differ(was->image, is->image))
        zoe_log(ctx, ZOE_WARNING,
                "%s: another picture than the one of the record (SHA-256 %.12s, there %.12s)",
                job->params.image, is->image, was->image);
    if (differ(was->last_image, is->last_image))
        zoe_log(ctx, ZOE_WARNING,
                "%s: another last picture than the one of the record (SHA-256 %.12s, there %.12s)",
                job->params.last_image, is->last_image, was->last_image);
    for (size_t i = 0; i < ZOE_WEIGHTS_COUNT; i++)
        if (differ(was->weights[i], is->weights[i]))
            zoe_log(ctx, ZOE_WARNING,
                    "the %s has other weights than that of the record (%.12s, there %.12s)",
                    weights_name(job, i), is->weights[i], was->weights[i]);
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        if (differ(was->settings[e], is->settings[e]))
            zoe_log(ctx, ZOE_WARNING,
                    "the config.json of the %s says something else than that of the record: %s, "
                    "there %s",
                    weights_name(job, zoe_weights_of(e)), is->settings[e], was->settings[e]);
    for (size_t i = 0; i < job->params.lora_count; i++)
        if (differ(was->loras[i], is->loras[i]))
            zoe_log(ctx, ZOE_WARNING,
                    "%s: another LoRA than that of the record (%.12s, there %.12s)",
                    job->params.loras[i].path, is->loras[i], was->loras[i]);
    return ZOE_OK;
}
