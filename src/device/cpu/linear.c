/* The linear layer on the cpu. The output is cut into blocks of rows and columns; a block is one
 * task and is computed wholly by one thread, over slices of K in ascending order:
 *
 *   the slice of x becomes f32 rows that stay in the second cache;
 *   for each 16 rows of w, the slice becomes a packed f32 panel that stays in the first cache (of
 *   block types by way of 16 f32 rows), and every row of x is multiplied with it into the block's
 *   sums.
 *
 * Terms follow in the same way, slice by slice into the same sums, behind the last slice of K.
 *
 * Weights are thus widened once for each block of rows of x, and never exist in f32 beyond one
 * panel. */
#include "base/block.h"
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Block sizes (rows of x, rows of w, slice of K), and the distance of rows of the x slice: not a
 * multiple of 4 KiB, at which rows would fight for the same cache sets. */
enum { BLOCK_M = 240, BLOCK_N = 384, SLICE = 256, SLICE_STRIDE = SLICE + 16 };
_Static_assert(SLICE % ZOE_BLOCK_MOST == 0, "a slice of K begins with a block");
/* Bytes of x that may hope to stay in the last cache. */
enum { GROUP_BYTES = 8 << 20 };

/* A product of the sum: that of the layer itself, or of a term. */
typedef struct product {
    zoe_tensor x, w;
    size_t K;
    float scale;
    bool round_weights;
    zoe_kernel_pack *pack; /* of the type of w, or of f32 behind its widening */
} product;

typedef struct linear_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_linear_args *args;
    size_t M, N, K;
    size_t rows, blocks_m;    /* rows of a block, blocks over M */
    size_t columns, blocks_n; /* the same for N; columns is a multiple of ZOE_PANEL */
    size_t group;             /* blocks over M that pass through all of w together */
    bool round_weights, round_results;
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
    float *lines; /* [ZOE_PANEL][SLICE], rows of a w of block type, widened */
} linear_scratch;

static bool is_block(zoe_dtype dtype)
{
    return zoe_block_elements(dtype) > 1;
}

/* The type of w plays no part: files mix types, and one workspace serves all layers of a shape. */
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
                        2 * zoe_arena_bytes(columns, sizeof(float)) +
                        zoe_arena_bytes(ZOE_PANEL * SLICE, sizeof(float));
}

static linear_scratch scratch_of(const linear_job *job, size_t worker)
{
    linear_scratch s;
    s.x = (float *)(job->work + worker * job->worker_bytes);
    s.panel = s.x + zoe_arena_bytes(job->rows * SLICE_STRIDE, sizeof(float)) / sizeof(float);
    s.sums = s.panel + SLICE * ZOE_PANEL;
    s.bias = s.sums + zoe_arena_bytes(job->rows * job->columns, sizeof(float)) / sizeof(float);
    s.row = s.bias + zoe_arena_bytes(job->columns, sizeof(float)) / sizeof(float);
    s.lines = s.row + zoe_arena_bytes(job->columns, sizeof(float)) / sizeof(float);
    return s;
}

/* Factors of the weights of a panel: its rows are the rows row .. row + count - 1 of w. */
static void scale_panel(const zoe_kernels *k, const product *p, float *panel, size_t row,
                        size_t count, size_t from, size_t n)
{
    const zoe_scaling *scaling = p->w.scaling;
    for (size_t done = 0; done < n;) {
        const size_t column = (from + done) / scaling->column_step;
        const size_t left = scaling->column_step - (from + done) % scaling->column_step;
        const size_t width = zoe_min(n - done, left);
        float factors[ZOE_PANEL] = {0.0f};
        for (size_t r = 0; r < count; r++)
            factors[r] = scaling->values[(row + r) / scaling->row_step * scaling->columns + column];
        if (p->round_weights)
            k->round_bf16(factors, factors, count);
        k->scale_panel(panel + done * ZOE_PANEL, factors, width);
        done += width;
    }
}

/* The elements from .. from + n - 1 of the rows row .. row + count - 1 of w as a panel. */
static void pack_weights(const zoe_kernels *k, const product *p, linear_scratch s, size_t row,
                         size_t count, size_t from, size_t n)
{
    const zoe_tensor w = p->w;
    if (is_block(w.dtype)) {
        for (size_t r = 0; r < count; r++)
            zoe_row_widen(k, s.lines + r * SLICE, zoe_row(w, row + r, from), w.dtype, n);
        p->pack(s.panel, s.lines, SLICE, count, n);
    } else {
        p->pack(s.panel, zoe_row(w, row, from), w.stride[0], count, n);
    }
    if (w.scaling)
        scale_panel(k, p, s.panel, row, count, from, n);
    if (p->round_weights)
        k->round_bf16(s.panel, s.panel, n * ZOE_PANEL);
}

/* Where a block lies in y. */
typedef struct block {
    size_t m0, rows, n0, columns;
} block;

/* Adds the product over elements from .. from + n of K to the block's sums; the first one begins
 * them. */
static void add_slice(const linear_job *job, const product *p, linear_scratch s, block b,
                      size_t from, size_t n, bool first)
{
    const zoe_kernels *k = job->k;
    for (size_t m = 0; m < b.rows; m++) {
        float *x = s.x + m * SLICE_STRIDE;
        zoe_row_widen(k, x, zoe_row(p->x, b.m0 + m, from), p->x.dtype, n);
        if (p->scale != 1.0f)
            k->scale(x, p->scale, n);
    }
    for (size_t j = 0; j < b.columns; j += ZOE_PANEL) {
        pack_weights(k, p, s, b.n0 + j, zoe_min(ZOE_PANEL, b.columns - j), from, n);
        k->gemm(s.sums + j, job->columns, s.x, SLICE_STRIDE, s.panel, b.rows, n, !first);
    }
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

static product own_product(const linear_job *job)
{
    const zoe_linear_args *args = job->args;
    return (product){.x = args->x,
                     .w = args->w,
                     .K = job->K,
                     .scale = 1.0f,
                     .round_weights = job->round_weights,
                     .pack = packer(job->k, args->w.dtype)};
}

static product term_product(const linear_job *job, const zoe_linear_term *term)
{
    return (product){.x = term->x,
                     .w = term->w,
                     .K = term->x.shape[1],
                     .scale = term->scale,
                     .pack = packer(job->k, term->w.dtype)};
}

/* The block's sums: the layer's own product, then the terms in their order. */
static void sum_block(const linear_job *job, linear_scratch s, block b)
{
    const product own = own_product(job);
    size_t from = 0;
    do { /* also for K = 0, which sets the sums to 0 */
        const size_t n = zoe_min(SLICE, job->K - from);
        add_slice(job, &own, s, b, from, n, from == 0);
        from += n;
    } while (from < job->K);
    for (size_t i = 0; i < job->args->n_terms; i++) {
        const product term = term_product(job, &job->args->terms[i]);
        for (from = 0; from < term.K; from += SLICE)
            add_slice(job, &term, s, b, from, zoe_min(SLICE, term.K - from), false);
    }
}

/* Writes the block: bias, activation, gate, residual, type. */
static void finish_block(const linear_job *job, linear_scratch s, block b)
{
    const size_t n0 = b.n0, columns = b.columns;
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
    for (size_t m = 0; m < b.rows; m++) {
        float *sums = s.sums + m * job->columns;
        if (args->residual.dtype != ZOE_NONE)
            f.residual = zoe_row_read(k, zoe_row(args->residual, b.m0 + m, n0),
                                      args->residual.dtype, columns, s.row);
        void *y = zoe_row(args->y, b.m0 + m, n0);
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
    block b = {.m0 = (group * job->group + within % blocks) * job->rows,
               .n0 = within / blocks * job->columns};
    b.rows = zoe_min(job->rows, job->M - b.m0);
    b.columns = zoe_min(job->columns, job->N - b.n0);
    sum_block(job, s, b);
    finish_block(job, s, b);
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
    const bool inexact = args->w.dtype == ZOE_F32 || args->w.dtype == ZOE_F16 ||
                         is_block(args->w.dtype) || args->w.scaling;
    linear_job job = {.ctx = ctx,
                      .k = zoe_kernels_get(),
                      .args = args,
                      .round_weights = (bf16 || args->round_weights) && inexact,
                      .round_results = bf16,
                      .work = work.data};
    plan_blocks(&job, args);
    zoe_parallel_for(ctx, job.blocks_m * job.blocks_n, linear_task, &job);
    return zoe_check_cancel(ctx);
}
