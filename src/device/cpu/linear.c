/* The linear layer on the cpu. The output is cut into blocks of rows and columns; a block is one
 * task and is computed wholly by one thread, over slices of K in ascending order:
 *
 *   the slice of x becomes f32 rows that stay in the second cache;
 *   for each 16 rows of w, the slice becomes a packed f32 panel that stays in the first cache,
 *   and every row of x is multiplied with it into the block's sums.
 *
 * Weights are thus widened once for each block of rows of x, and never exist in f32 beyond one
 * panel. */
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Block sizes (rows of x, rows of w, slice of K), and the distance of rows of the x slice: not a
 * multiple of 4 KiB, at which rows would fight for the same cache sets. */
enum { BLOCK_M = 240, BLOCK_N = 384, SLICE = 256, SLICE_STRIDE = SLICE + 16 };
/* Bytes of x that may hope to stay in the last cache. */
enum { GROUP_BYTES = 8 << 20 };

typedef struct linear_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_linear_args *args;
    size_t M, N, K;
    size_t rows, blocks_m;    /* rows of a block, blocks over M */
    size_t columns, blocks_n; /* the same for N; columns is a multiple of ZOE_PANEL */
    size_t group;             /* blocks over M that pass through all of w together */
    bool round_weights, round_results;
    zoe_kernel_pack *pack;
    unsigned char *work;
    size_t worker_bytes;
} linear_job;

/* One thread's scratch. */
typedef struct linear_scratch {
    float *x;     /* [rows][SLICE_STRIDE] */
    float *panel; /* [SLICE][ZOE_PANEL] */
    float *sums;  /* [rows][columns] */
    float *bias;  /* [columns], rounded */
    float *row;   /* [columns], a residual widened */
} linear_scratch;

static void plan_blocks(linear_job *job, const zoe_linear_args *args)
{
    job->M = args->x.shape[0];
    job->K = args->x.shape[1];
    job->N = args->w.shape[0];
    job->rows = zoe_even_block(job->M, BLOCK_M, 6);
    job->columns = zoe_even_block(job->N, BLOCK_N, ZOE_PANEL);
    job->blocks_m = zoe_ceil_div(job->M, job->rows);
    job->blocks_n = zoe_ceil_div(job->N, job->columns);
    const size_t block_bytes = job->rows * job->K * zoe_dtype_bytes(args->x.dtype);
    job->group = block_bytes > 0 && block_bytes < GROUP_BYTES ? GROUP_BYTES / block_bytes : 1;
    const size_t rows = zoe_block_room(job->M, BLOCK_M, 6);
    const size_t columns = zoe_block_room(job->N, BLOCK_N, ZOE_PANEL);
    job->worker_bytes = zoe_arena_bytes(rows * SLICE_STRIDE, sizeof(float)) +
                        zoe_arena_bytes(SLICE * ZOE_PANEL, sizeof(float)) +
                        zoe_arena_bytes(rows * columns, sizeof(float)) +
                        2 * zoe_arena_bytes(columns, sizeof(float));
}

static linear_scratch scratch_of(const linear_job *job, size_t worker)
{
    linear_scratch s;
    s.x = (float *)(job->work + worker * job->worker_bytes);
    s.panel = s.x + zoe_arena_bytes(job->rows * SLICE_STRIDE, sizeof(float)) / sizeof(float);
    s.sums = s.panel + SLICE * ZOE_PANEL;
    s.bias = s.sums + zoe_arena_bytes(job->rows * job->columns, sizeof(float)) / sizeof(float);
    s.row = s.bias + zoe_arena_bytes(job->columns, sizeof(float)) / sizeof(float);
    return s;
}

/* Adds the product over elements from .. from + n of K to the block's sums. */
static void add_slice(const linear_job *job, linear_scratch s, size_t m0, size_t rows, size_t n0,
                      size_t columns, size_t from, size_t n)
{
    const zoe_linear_args *args = job->args;
    const zoe_kernels *k = job->k;
    for (size_t m = 0; m < rows; m++)
        zoe_row_widen(k, s.x + m * SLICE_STRIDE, zoe_row(args->x, m0 + m, from), args->x.dtype, n);
    for (size_t j = 0; j < columns; j += ZOE_PANEL) {
        job->pack(s.panel, zoe_row(args->w, n0 + j, from), args->w.stride[0],
                  zoe_min(ZOE_PANEL, columns - j), n);
        if (job->round_weights)
            k->round_bf16(s.panel, s.panel, n * ZOE_PANEL);
        k->gemm(s.sums + j, job->columns, s.x, SLICE_STRIDE, s.panel, rows, n, from > 0);
    }
}

/* Writes the block: bias, activation, gate, residual, type. */
static void finish_block(const linear_job *job, linear_scratch s, size_t m0, size_t rows, size_t n0,
                         size_t columns)
{
    const zoe_linear_args *args = job->args;
    const zoe_kernels *k = job->k;
    zoe_finishing f = {.activation = args->activation, .round = job->round_results};
    if (args->bias.dtype != ZOE_NONE) {
        f.bias = zoe_row(args->bias, 0, n0);
        if (job->round_results) {
            k->round_bf16(s.bias, f.bias, columns);
            f.bias = s.bias;
        }
    }
    if (args->gate.dtype != ZOE_NONE)
        f.gate = zoe_row(args->gate, 0, n0);
    for (size_t m = 0; m < rows; m++) {
        float *sums = s.sums + m * job->columns;
        if (args->residual.dtype != ZOE_NONE)
            f.residual = zoe_row_read(k, zoe_row(args->residual, m0 + m, n0), args->residual.dtype,
                                      columns, s.row);
        void *y = zoe_row(args->y, m0 + m, n0);
        float *v = zoe_row_target(y, args->y.dtype, sums);
        k->finish(v, sums, &f, columns);
        zoe_row_write(k, y, args->y.dtype, v, columns);
    }
}

static void linear_task(void *arg, size_t i, size_t worker)
{
    const linear_job *job = arg;
    if (zoe_cancelled(job->ctx))
        return;
    const linear_scratch s = scratch_of(job, worker);
    const size_t group = i / (job->group * job->blocks_n),
                 within = i % (job->group * job->blocks_n);
    const size_t blocks = zoe_min(job->group, job->blocks_m - group * job->group);
    const size_t m0 = (group * job->group + within % blocks) * job->rows;
    const size_t n0 = within / blocks * job->columns;
    const size_t rows = zoe_min(job->rows, job->M - m0);
    const size_t columns = zoe_min(job->columns, job->N - n0);
    size_t from = 0;
    do { /* also for K = 0, which sets the sums to 0 */
        const size_t n = zoe_min(SLICE, job->K - from);
        add_slice(job, s, m0, rows, n0, columns, from, n);
        from += n;
    } while (from < job->K);
    finish_block(job, s, m0, rows, n0, columns);
}

static zoe_kernel_pack *packer(const zoe_kernels *k, zoe_dtype dtype)
{
    switch (dtype) {
    case ZOE_F16: return k->pack_f16;
    case ZOE_BF16: return k->pack_bf16;
    case ZOE_F8_E4M3: return k->pack_f8_e4m3;
    case ZOE_F8_E5M2: return k->pack_f8_e5m2;
    default: return k->pack_f32;
    }
}

size_t zoe_cpu_linear_workspace(const zoe_context *ctx, const zoe_linear_args *args)
{
    linear_job job;
    plan_blocks(&job, args);
    return job.worker_bytes * (size_t)zoe_context_threads(ctx);
}

zoe_status zoe_cpu_linear(zoe_context *ctx, const zoe_linear_args *args, zoe_workspace work)
{
    const bool bf16 = args->x.dtype == ZOE_BF16;
    /* Values of bf16 and of both f8 types are bf16 values already. */
    const bool inexact = args->w.dtype == ZOE_F32 || args->w.dtype == ZOE_F16;
    linear_job job = {.ctx = ctx,
                      .k = zoe_kernels_get(),
                      .args = args,
                      .round_weights = (bf16 || args->round_weights) && inexact,
                      .round_results = bf16,
                      .work = work.data};
    plan_blocks(&job, args);
    job.pack = packer(job.k, args->w.dtype);
    zoe_parallel_for(ctx, job.blocks_m * job.blocks_n, linear_task, &job);
    return zoe_check_cancel(ctx);
}
