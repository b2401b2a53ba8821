/* A small job on ranks that are threads, and what each of them saw of it. */
#ifndef TEST_JOB_RANKS_CASE_H
#define TEST_JOB_RANKS_CASE_H

#include <stdatomic.h>
#include <unistd.h>

#include "job/job.h"
#include "ranks.h"

enum { CASE_LATENT = 16 * 2 * 6 * 8 };

typedef struct case_rank case_rank;

/* One job. */
typedef struct case_job {
    zoe_job_params params;
    size_t ranks;
    zoe_fault fault;
    bool audit;       /* decisions of step caches are compared */
    size_t stop_rank; /* which cancels after this step; SIZE_MAX: none */
    size_t stop_step;
    /* Between the calls of a rank, and for what they show; or NULL. */
    zoe_status (*before)(zoe_context *ctx, zoe_job *job, size_t rank); /* open */
    zoe_status (*after)(zoe_context *ctx, zoe_job *job, size_t rank);  /* open, before run */
    void (*observe)(void *user, size_t rank, const char *name, size_t step, zoe_tensor value);
    void *observer;
    /* what came of it */
    ranks_result results[RANKS_MOST];
    size_t values; /* of the final latent */
    float latent[RANKS_MOST][CASE_LATENT];
    size_t frames;        /* that the first rank saw, */
    uint64_t frame_sum;   /* and a digest of their bytes */
    atomic_size_t strays; /* frames that another rank saw */
    zoe_cache_outcome outcome[RANKS_MOST];
    zoe_culprit culprit[RANKS_MOST]; /* as the rank knows it at its end */
    uint64_t exchanges[RANKS_MOST], sent[RANKS_MOST];
    double begun;
} case_job;

struct case_rank {
    case_job *job;
    zoe_context *ctx;
    size_t rank;
};

static void case_observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    const case_rank *r = user;
    const size_t n = zoe_tensor_count(value);
    if (r->job->observe)
        r->job->observe(r->job->observer, r->rank, name, step, value);
    if (strcmp(name, "latent_final") != 0)
        return;
    ranks_must(n <= CASE_LATENT, "the latent is larger than was thought");
    if (r->rank == 0)
        r->job->values = n;
    memcpy(r->job->latent[r->rank], value.data, n * sizeof(float));
}

static void case_frame(void *user, size_t frame, const unsigned char *rgb, size_t width,
                       size_t height)
{
    const case_rank *r = user;
    case_job *j = r->job;
    (void)frame;
    if (r->rank > 0) {
        j->strays++;
        return;
    }
    j->frames++;
    for (size_t i = 0; i < 3 * width * height; i++)
        j->frame_sum = (j->frame_sum ^ rgb[i]) * 0x100000001b3u; /* FNV-1a */
}

static void case_progress(void *user, zoe_phase phase, size_t done, size_t total)
{
    const case_rank *r = user;
    (void)total;
    if (r->rank == r->job->stop_rank && phase == ZOE_PHASE_STEPS && done == r->job->stop_step)
        zoe_cancel(r->ctx);
}

static zoe_status case_on_rank(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    case_job *j = arg;
    case_rank r = {j, ctx, rank};
    zoe_job_params p = j->params;
    zoe_job *job = NULL;
    p.comm = comm;
    p.observe = case_observe;
    p.frame = case_frame;
    p.progress = case_progress;
    p.user = &r;
    zoe_status status = zoe_job_new(ctx, &job, &p);
    if (status == ZOE_OK) {
        job->ranks.audit = j->audit;
        if (j->before)
            status = j->before(ctx, job, rank);
    }
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, job);
    if (status == ZOE_OK && j->after)
        status = j->after(ctx, job, rank);
    if (status == ZOE_OK)
        status = zoe_job_run(ctx, job);
    if (status == ZOE_OK)
        j->outcome[rank] = *zoe_job_cache_outcome(job);
    j->exchanges[rank] = zoe_comm_traffic(comm).exchanges;
    j->sent[rank] = zoe_comm_traffic(comm).sent;
    j->culprit[rank] = zoe_comm_culprit(comm);
    zoe_job_free(job);
    return status;
}

/* Folders of the test data. */
static inline case_job *case_job_new(const char *data)
{
    static char model[512], image[512];
    case_job *j = calloc(1, sizeof *j);
    ranks_must(j != NULL, "no memory");
    snprintf(model, sizeof model, "%s/e2e_i2v/ckpt", data);
    snprintf(image, sizeof image, "%s/e2e_i2v/input.png", data);
    zoe_job_params_init(&j->params);
    j->params.model = model;
    j->params.image = image;
    j->params.prompt = "A white cat sits.";
    j->params.negative_prompt = "blurry";
    j->params.width = j->params.height = 64;
    j->params.frames = 5;
    j->params.steps = 2; /* one of each expert */
    j->params.seed = 1;
    j->ranks = 1;
    j->stop_rank = SIZE_MAX;
    return j;
}

/* Runs it on its ranks, anew. */
static inline void case_job_run(case_job *j)
{
    const ranks_plan plan = {.size = j->ranks, .fault = j->fault, .fn = case_on_rank, .arg = j};
    j->frames = 0;
    j->frame_sum = 0xcbf29ce484222325u;
    j->strays = 0;
    memset(j->latent, 0, sizeof j->latent);
    j->begun = zoe_now();
    ranks_run(&plan, j->results);
}

/* Did all go well? Says what did not. */
static inline bool case_job_ok(const case_job *j, const char *what)
{
    bool ok = true;
    for (size_t i = 0; i < j->ranks; i++)
        if (j->results[i].status != ZOE_OK) {
            fprintf(stderr, "%s: rank %zu of %zu: %s: %s\n", what, i, j->ranks,
                    zoe_status_name(j->results[i].status), j->results[i].message);
            ok = false;
        }
    return ok;
}

/* Largest of the ranks: |x - wanted| / |wanted|; 0 only for the same bytes. */
static inline double case_job_error(const case_job *j, const float *wanted)
{
    double most = 0.0;
    for (size_t r = 0; r < j->ranks; r++) {
        double error = 0.0, size = 0.0;
        for (size_t i = 0; i < j->values; i++) {
            const double d = (double)j->latent[r][i] - (double)wanted[i];
            error += d * d;
            size += (double)wanted[i] * (double)wanted[i];
        }
        error = sqrt(error / size);
        if (memcmp(j->latent[r], wanted, j->values * sizeof(float)) != 0 && !(error > 0.0))
            error = 1e-300;
        most = error > most || isnan(error) ? error : most;
    }
    return most;
}

/* Do all ranks have the same latent? */
static inline bool case_job_alike(const case_job *j)
{
    for (size_t r = 1; r < j->ranks; r++)
        if (memcmp(j->latent[r], j->latent[0], j->values * sizeof(float)) != 0)
            return false;
    return true;
}

static inline void case_set(case_job *j, size_t cfg, size_t ulysses, size_t ring, size_t vae)
{
    j->ranks = cfg * ulysses * ring;
    j->params.cfg_ranks = cfg;
    j->params.ulysses = ulysses;
    j->params.ring = ring;
    j->params.vae_ranks = vae;
}

#endif
