/* What the C programs of the cases share: expectations that are counted, files of the test data, a
 * small job. */
#ifndef CASE_H
#define CASE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "job/job.h"

static int case_failures;

/* Says what is wrong and goes on. */
__attribute__((format(printf, 2, 3))) static inline bool case_expect(bool right, const char *format,
                                                                     ...)
{
    if (right)
        return true;
    va_list args;
    va_start(args, format);
    fputs("FAIL: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    case_failures++;
    return false;
}

/* Without this the rest makes no sense. */
static inline void case_must(zoe_context *ctx, zoe_status status, const char *what)
{
    if (status == ZOE_OK)
        return;
    fprintf(stderr, "FAIL: %s: %s: %s\n", what, zoe_status_name(status), zoe_context_message(ctx));
    exit(1);
}

/* Clears the context, and ends the program if there is none. */
static inline zoe_context *case_context(int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    if (!ctx)
        exit(1);
    return ctx;
}

static inline void *case_memory(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        exit(1);
    return p;
}

/* "FOLDER/NAME", good until the eighth call after. */
static inline const char *case_path(const char *folder, const char *name)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* The tiny model's defaults; DATA is the folder tests/data. Paths must outlive the params. */
static inline zoe_job_params case_params(const char *checkpoint, const char *picture)
{
    zoe_job_params p;
    zoe_job_params_init(&p);
    p.model = checkpoint;
    p.image = picture;
    p.prompt = "A white cat sits.";
    p.negative_prompt = "blurry";
    p.width = p.height = 64;
    p.frames = 5;
    p.steps = 2;
    p.seed = 1;
    return p;
}

/* new, open, run, free. */
static inline zoe_status case_run(zoe_context *ctx, const zoe_job_params *params)
{
    zoe_job *job = NULL;
    zoe_status status = zoe_job_new(ctx, &job, params);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, job);
    if (status == ZOE_OK)
        status = zoe_job_run(ctx, job);
    zoe_job_free(job);
    return status;
}

/* ---- a transformer of the tiny model by itself ---- */

typedef struct case_network {
    zoe_context *ctx;
    zoe_store *store;
    zoe_wan *wan;
    zoe_wan_work *work;
    float *latent, *condition; /* a pattern; zeros */
    size_t count;              /* of a latent, of a velocity */
} case_network;

/* The expert in this folder for latents of f x h x w. */
static inline case_network case_network_open(zoe_context *ctx, const char *folder, size_t f,
                                             size_t h, size_t w)
{
    case_network n = {.ctx = ctx};
    zoe_config *config;
    case_must(ctx, zoe_store_open(ctx, &n.store, folder, ZOE_NAMES_WAN_DIT), folder);
    case_must(ctx, zoe_config_open(ctx, &config, case_path(folder, "config.json")), folder);
    case_must(ctx, zoe_wan_open(ctx, &n.wan, n.store, config, false), folder);
    zoe_config_close(config);
    const zoe_wan_dims *d = zoe_wan_dims_of(n.wan);
    case_must(ctx, zoe_wan_work_new(ctx, &n.work, d, false, f, h, w), folder);
    n.count = d->out_dim * f * h * w;
    n.latent = case_memory(n.count, sizeof(float));
    n.condition = case_memory((d->in_dim - d->out_dim) * f * h * w, sizeof(float));
    for (size_t i = 0; i < n.count; i++)
        n.latent[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    return n;
}

static inline void case_network_close(case_network *n)
{
    zoe_wan_work_free(n->work);
    zoe_wan_close(n->wan);
    zoe_store_close(n->store);
    free(n->latent);
    free(n->condition);
}

#endif
