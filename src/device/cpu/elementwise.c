/* Operators on single elements on the cpu: pieces of fixed size over the threads. */
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Elements of one task, and of one piece of it. */
enum { BLOCK = 16384, PIECE = 1024 };

typedef struct map_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    zoe_tensor y, x, up;   /* up: none, or the factors of geglu, or what is added */
    zoe_kernel_map *map;   /* NULL: only the type changes */
    zoe_kernel_geglu *glu; /* of x and up */
    size_t M, D;           /* rows and their lengths; the last axis is dense */
    size_t blocks;         /* of a row */
} map_job;

static void map_piece(const map_job *job, size_t m, size_t d, size_t n)
{
    float in[PIECE], other[PIECE], out[PIECE];
    void *y = zoe_row(job->y, m, d);
    const float *x = zoe_row_read(job->k, zoe_row(job->x, m, d), job->x.dtype, n, in);
    if (!job->map && !job->glu) {
        zoe_row_write(job->k, y, job->y.dtype, x, n);
        return;
    }
    float *v = zoe_row_target(y, job->y.dtype, out);
    if (job->glu)
        job->glu(v, x, zoe_row_read(job->k, zoe_row(job->up, m, d), job->up.dtype, n, other), n);
    else
        job->map(v, x, n);
    zoe_row_write(job->k, y, job->y.dtype, v, n);
}

static void map_task(void *arg, size_t i, size_t worker)
{
    const map_job *job = arg;
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    const size_t m = i / job->blocks, begin = i % job->blocks * BLOCK;
    const size_t end = zoe_min(job->D, begin + BLOCK);
    for (size_t d = begin; d < end; d += PIECE)
        map_piece(job, m, d, zoe_min(PIECE, end - d));
}

static zoe_status map_run(map_job *job)
{
    job->k = zoe_kernels_get();
    job->blocks = zoe_ceil_div(job->D, BLOCK);
    zoe_parallel_for(job->ctx, job->M * job->blocks, map_task, job);
    return zoe_check_cancel(job->ctx);
}

/* A dense tensor as one row. */
static zoe_tensor flat(zoe_tensor t)
{
    return zoe_tensor_2d(t.data, t.dtype, 1, zoe_tensor_count(t));
}

zoe_status zoe_cpu_activate(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_activation activation)
{
    const zoe_kernels *k = zoe_kernels_get();
    zoe_kernel_map *const maps[] = {[ZOE_ACT_NONE] = NULL,
                                    [ZOE_ACT_SILU] = k->silu,
                                    [ZOE_ACT_GELU_TANH] = k->gelu_tanh,
                                    [ZOE_ACT_GELU_ERF] = k->gelu_erf};
    map_job job = {.ctx = ctx,
                   .y = flat(y),
                   .x = flat(x),
                   .map = maps[activation],
                   .M = 1,
                   .D = zoe_tensor_count(x)};
    return map_run(&job);
}

zoe_status zoe_cpu_geglu(zoe_context *ctx, zoe_tensor y, zoe_tensor gate, zoe_tensor up)
{
    const zoe_kernels *k = zoe_kernels_get();
    map_job job = {.ctx = ctx,
                   .y = y,
                   .x = gate,
                   .up = up,
                   .glu = gate.dtype == ZOE_BF16 ? k->geglu_bf16 : k->geglu,
                   .M = y.shape[0],
                   .D = y.shape[1]};
    return map_run(&job);
}

static void add_run(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

zoe_status zoe_cpu_add(zoe_context *ctx, zoe_tensor y, zoe_tensor a, zoe_tensor b)
{
    map_job job = {.ctx = ctx,
                   .y = flat(y),
                   .x = flat(a),
                   .up = flat(b),
                   .glu = add_run,
                   .M = 1,
                   .D = zoe_tensor_count(a)};
    return map_run(&job);
}

zoe_status zoe_cpu_cast(zoe_context *ctx, zoe_tensor y, zoe_tensor x)
{
    map_job job = {.ctx = ctx, .y = flat(y), .x = flat(x), .M = 1, .D = zoe_tensor_count(x)};
    return map_run(&job);
}
