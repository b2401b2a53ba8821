/* Operators on single elements on the cpu: pieces of fixed size over the threads, each widened into the first
 * cache, worked on there, and written in the type of the result. */
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Elements of one task, and of one piece of it. */
enum { BLOCK = 16384, PIECE = 1024 };

typedef struct map_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    zoe_tensor y, x, other; /* other: none, or the second input */
    zoe_kernel_map *map;    /* of x; NULL: only the type changes */
    zoe_kernel_pair *pair;  /* of what map gives and other, or NULL */
    size_t M, D;            /* rows and their lengths */
    size_t rows, blocks;    /* rows of a task; tasks of a row */
} map_job;

static void map_piece(const map_job *job, size_t m, size_t d, size_t n)
{
    float in[PIECE], second[PIECE], out[PIECE];
    void *y = zoe_row_at(job->y, m, d);
    const float *x = zoe_row_read(job->k, zoe_row_at(job->x, m, d), job->x.dtype, n, in);
    if (!job->map && !job->pair) {
        zoe_row_write(job->k, y, job->y.dtype, x, n);
        return;
    }
    float *v = zoe_row_target(y, job->y.dtype, out);
    if (job->pair) {
        const float *other = zoe_row_read(job->k, zoe_row_at(job->other, m, d), job->other.dtype, n,
                                          second); /* before v, which may be its memory */
        if (job->map) {
            job->map(in, x, n);
            x = in;
        }
        job->pair(v, x, other, n);
    } else {
        job->map(v, x, n);
    }
    zoe_row_write(job->k, y, job->y.dtype, v, n);
}

static void map_task(void *arg, size_t i, size_t worker)
{
    const map_job *job = arg;
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    const size_t m0 = i / job->blocks * job->rows, begin = i % job->blocks * BLOCK;
    const size_t end = zoe_min(job->D, begin + BLOCK);
    for (size_t m = m0; m < zoe_min(job->M, m0 + job->rows); m++)
        for (size_t d = begin; d < end; d += PIECE)
            map_piece(job, m, d, zoe_min(PIECE, end - d));
}

/* The shape as rows: of all operands dense together, else the last axis. */
static void cut_rows(map_job *job)
{
    const bool dense = zoe_tensor_dense(job->y) && zoe_tensor_dense(job->x) &&
                       (job->other.dtype == ZOE_NONE || zoe_tensor_dense(job->other));
    const size_t count = zoe_tensor_count(job->y);
    job->D = dense ? count : job->y.shape[job->y.rank - 1];
    job->M = count / job->D;
    if (dense) {
        job->y = zoe_tensor_2d(job->y.data, job->y.dtype, 1, count);
        job->x = zoe_tensor_2d(job->x.data, job->x.dtype, 1, count);
        if (job->other.dtype != ZOE_NONE)
            job->other = zoe_tensor_2d(job->other.data, job->other.dtype, 1, count);
    }
    job->rows = job->D < BLOCK ? BLOCK / job->D : 1;
    job->blocks = zoe_ceil_div(job->D, BLOCK);
}

static zoe_status map_run(map_job *job)
{
    cut_rows(job);
    zoe_parallel_for(job->ctx, zoe_ceil_div(job->M, job->rows) * job->blocks, map_task, job);
    return zoe_check_cancel(job->ctx);
}

static zoe_kernel_map *activation_kernel(const zoe_kernels *k, zoe_activation activation)
{
    switch (activation) {
    case ZOE_ACT_SILU: return k->silu;
    case ZOE_ACT_GELU_TANH: return k->gelu_tanh;
    case ZOE_ACT_GELU_ERF: return k->gelu_erf;
    case ZOE_ACT_GELU_SIGMOID: return k->gelu_sigmoid;
    case ZOE_ACT_NONE: break;
    }
    return NULL;
}

zoe_status zoe_cpu_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation)
{
    const zoe_kernels *k = zoe_kernels_get();
    map_job job = {.ctx = ctx, .k = k, .y = y, .x = x, .map = activation_kernel(k, activation)};
    return map_run(&job);
}

zoe_status zoe_cpu_glu(zoe_context *ctx, const zoe_glu_args *args)
{
    const zoe_kernels *k = zoe_kernels_get();
    map_job job = {.ctx = ctx,
                   .k = k,
                   .y = args->y,
                   .x = args->gate,
                   .other = args->up,
                   .map = args->round_steps ? NULL : activation_kernel(k, args->activation),
                   .pair = args->round_steps ? k->geglu_bf16 : k->multiply};
    return map_run(&job);
}

zoe_status zoe_cpu_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b)
{
    const zoe_kernels *k = zoe_kernels_get();
    map_job job = {.ctx = ctx, .k = k, .y = y, .x = a, .other = b, .pair = k->add};
    return map_run(&job);
}

zoe_status zoe_cpu_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x)
{
    map_job job = {.ctx = ctx, .k = zoe_kernels_get(), .y = y, .x = x};
    return map_run(&job);
}

/* ---- softmax ---- */

/* A row of several pieces is read three times: the largest element, the sum of exponentials, and the
 * exponentials again, so that no row of them is kept. */
static void softmax_row(const map_job *job, size_t m)
{
    const zoe_kernels *k = job->k;
    float in[PIECE], out[PIECE];
    float top = -INFINITY;
    double sum = 0.0;
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        top = k->largest(zoe_row_read(k, zoe_row_at(job->x, m, d), job->x.dtype, n, in), top, n);
    }
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        sum += k->exponentials(out, zoe_row_read(k, zoe_row_at(job->x, m, d), job->x.dtype, n, in),
                               top, n);
    }
    const float factor = (float)(1.0 / sum);
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        if (job->D > PIECE)
            k->exponentials(out, zoe_row_read(k, zoe_row_at(job->x, m, d), job->x.dtype, n, in),
                            top, n);
        k->scale(out, factor, n);
        zoe_row_write(k, zoe_row_at(job->y, m, d), job->y.dtype, out, n);
    }
}

static void softmax_task(void *arg, size_t i, size_t worker)
{
    const map_job *job = arg;
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    for (size_t m = i * job->rows; m < zoe_min(job->M, (i + 1) * job->rows); m++)
        softmax_row(job, m);
}

zoe_status zoe_cpu_softmax(zoe_context *ctx, zoe_tensor y, zoe_tensor x)
{
    map_job job = {.ctx = ctx, .k = zoe_kernels_get(), .y = y, .x = x};
    job.D = y.shape[y.rank - 1];
    job.M = zoe_tensor_count(y) / job.D;
    job.rows = job.D < BLOCK ? BLOCK / job.D : 1;
    zoe_parallel_for(ctx, zoe_ceil_div(job.M, job.rows), softmax_task, &job);
    return zoe_check_cancel(ctx);
}
