/* The linear layer of int8 on the cpu. x is quantised first if it is not int8. Then the output is cut
 * into blocks of rows and columns; a block is one task and is computed wholly by one thread, over
 * slabs of K in ascending order: the slab of up to ZOE_INT8_PANELS panels of weights stays in the
 * second cache while the rows of the block pass by. */
#include "device/cpu/int8.h"

/* Rows and columns of a block. */
enum { BLOCK_M = 240, BLOCK_N = ZOE_INT8_PANELS * ZOE_PANEL, UNIT_M = 12 };
/* Rows that are quantised as one task. */
enum { ROWS = 16 };
_Static_assert(ZOE_INT8_DEPTH % ZOE_INT8_GROUP == 0, "a slab is a whole number of groups");

typedef struct linear_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_linear_int8_args *args;
    const int8_packed *w;
    size_t M, N, K, group, groups;
    size_t rows, blocks_m;
    size_t columns, blocks_n;
    zoe_dtype x_type;
    zoe_tensor x;         /* i8 [M, K] */
    const float *x_scale; /* [M, groups], NULL: 1 */
    size_t x_scale_stride;
    int8_t *quantised; /* [M, K], if x has to be quantised */
    float *quantised_scale;
    size_t quantised_bytes;
    unsigned char *work;
    size_t worker_bytes;
} linear_job;

/* One thread's scratch. */
typedef struct linear_scratch {
    float *sums;  /* [rows][columns], of int32 without groups */
    float *scale; /* [columns] */
    float *bias;  /* [columns], widened */
    float *row;   /* [columns], a residual widened */
} linear_scratch;

/* M, N, K, group and x_type are set. */
static void plan_blocks(linear_job *job)
{
    job->groups = int8_groups(job->K, job->group);
    job->rows = zoe_even_block(job->M, BLOCK_M, UNIT_M);
    job->columns = zoe_even_block(job->N, BLOCK_N, ZOE_PANEL);
    job->blocks_m = zoe_ceil_div(job->M, job->rows);
    job->blocks_n = zoe_ceil_div(job->N, job->columns);
    const size_t rows = zoe_block_room(job->M, BLOCK_M, UNIT_M);
    const size_t columns = zoe_block_room(job->N, BLOCK_N, ZOE_PANEL);
    job->worker_bytes = zoe_arena_bytes(rows * columns, sizeof(float)) +
                        3 * zoe_arena_bytes(columns, sizeof(float));
    if (job->x_type != ZOE_I8) {
        job->worker_bytes = zoe_arena_bytes(job->K, sizeof(float)) + job->worker_bytes;
        job->quantised_bytes = zoe_arena_bytes(job->M * job->K, 1) +
                               zoe_arena_bytes(job->M * job->groups, sizeof(float));
    }
}

static linear_scratch scratch_of(const linear_job *job, size_t worker)
{
    const size_t vector = zoe_arena_bytes(job->columns, sizeof(float)) / sizeof(float);
    linear_scratch s;
    s.sums = (float *)(job->work + worker * job->worker_bytes);
    s.scale = s.sums + zoe_arena_bytes(job->rows * job->columns, sizeof(float)) / sizeof(float);
    s.bias = s.scale + vector;
    s.row = s.bias + vector;
    return s;
}

/* ---- x ---- */

static void quantise_task(void *arg, size_t i, size_t worker)
{
    const linear_job *job = arg;
    const zoe_tensor x = job->args->x;
    float *buffer = (float *)(job->work + worker * job->worker_bytes);
    if (zoe_cancelled(job->ctx))
        return;
    for (size_t m = i * ROWS; m < zoe_min((i + 1) * ROWS, job->M); m++)
        zoe_cpu_int8_quantise_row(job->k, job->quantised + m * job->K,
                                  job->quantised_scale + m * job->groups,
                                  zoe_row_read(job->k, zoe_row(x, m, 0), x.dtype, job->K, buffer),
                                  job->K, job->group, buffer);
}

/* x and its scales in int8. */
static void take_x(linear_job *job, unsigned char *work)
{
    const zoe_tensor x = job->args->x, scale = job->args->x_scale;
    if (x.dtype == ZOE_I8) {
        job->x = x;
        if (scale.dtype != ZOE_NONE) {
            job->x_scale = scale.data;
            job->x_scale_stride = (size_t)scale.stride[0];
        }
        return;
    }
    job->quantised = (int8_t *)work;
    job->quantised_scale = (float *)(work + zoe_arena_bytes(job->M * job->K, 1));
    job->x = zoe_tensor_2d(job->quantised, ZOE_I8, job->M, job->K);
    job->x_scale = job->quantised_scale;
    job->x_scale_stride = job->groups;
    if (job->K > 0)
        zoe_parallel_for(job->ctx, zoe_ceil_div(job->M, ROWS), quantise_task, job);
}

/* ---- a block ---- */

typedef struct block {
    size_t m0, rows, n0, columns;
} block;

/* The slab of x and of the weights that begins at element `from`. */
static zoe_int8_product product_of(const linear_job *job, block b, size_t from)
{
    static const float ones[ZOE_INT8_DEPTH / (ZOE_INT8_GROUP / 2)] = {
        1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f,
        1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f}; /* for each group of a slab */
    _Static_assert(sizeof ones == 16 * sizeof *ones, "each of them is written out");
    const int8_packed *w = job->w;
    const size_t panel = b.n0 / ZOE_PANEL, g = job->group ? from / job->group : 0;
    zoe_int8_product p = {.a = zoe_row(job->x, b.m0, from),
                          .a_stride = (size_t)job->x.stride[0],
                          .w = w->panels + panel * w->panel_bytes + from * ZOE_PANEL,
                          .w_distance = w->panel_bytes,
                          .panels = zoe_ceil_div(b.columns, ZOE_PANEL),
                          .rows = b.rows,
                          .k = zoe_min(ZOE_INT8_DEPTH, job->K - from),
                          .group = job->group,
                          .w_scale = w->scales + panel * w->panel_scales + g * ZOE_PANEL,
                          .w_scale_distance = w->panel_scales,
                          .a_scale = ones};
    if (job->x_scale) {
        p.a_scale = job->x_scale + b.m0 * job->x_scale_stride + g;
        p.a_scale_stride = job->x_scale_stride;
    }
    return p;
}

static void sum_block(const linear_job *job, linear_scratch s, block b)
{
    if (job->K == 0)
        memset(s.sums, 0, b.rows * job->columns * sizeof *s.sums);
    for (size_t from = 0; from < job->K; from += ZOE_INT8_DEPTH) {
        const zoe_int8_product p = product_of(job, b, from);
        if (job->group)
            job->k->int8_gemm_scaled(s.sums, job->columns, &p, from > 0);
        else
            job->k->int8_gemm((int32_t *)(void *)s.sums, job->columns, &p, from > 0);
    }
}

/* The bias of column n as it is added to the sum in 64 bits. */
static int64_t whole_bias(const linear_job *job, size_t n)
{
    const zoe_tensor bias = job->args->bias;
    return bias.dtype == ZOE_I32 ? ((const int32_t *)bias.data)[n] : 0;
}

static int32_t sum_at(const float *sums, size_t i)
{
    int32_t v;
    memcpy(&v, sums + i, sizeof v);
    return v;
}

/* y of i32. */
static void write_sums(const linear_job *job, const float *sums, block b, size_t m)
{
    int32_t *y = zoe_row(job->args->y, b.m0 + m, b.n0);
    for (size_t i = 0; i < b.columns; i++) {
        const int64_t v = sum_at(sums, i) + whole_bias(job, b.n0 + i);
        y[i] = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
    }
}

/* Sums of int32 become values, in their place. */
static void scale_sums(const linear_job *job, linear_scratch s, float *sums, block b, size_t m)
{
    const float factor = job->x_scale ? job->x_scale[(b.m0 + m) * job->x_scale_stride] : 1.0f;
    if (job->args->bias.dtype != ZOE_I32) {
        job->k->int8_scale(sums, (const int32_t *)(const void *)sums, s.scale, factor, b.columns);
        return;
    }
    for (size_t i = 0; i < b.columns; i++)
        sums[i] = (float)(sum_at(sums, i) + whole_bias(job, b.n0 + i)) * s.scale[i] * factor;
}

/* y of i8. */
static void write_bytes(const linear_job *job, const float *v, block b, size_t m)
{
    const zoe_tensor offset = job->args->offset;
    int8_t *y = zoe_row(job->args->y, b.m0 + m, b.n0);
    for (size_t i = 0; i < b.columns; i++) {
        float q = v[i];
        if (offset.dtype != ZOE_NONE)
            q += ((const float *)offset.data)[offset.shape[0] > 1 ? b.n0 + i : 0];
        y[i] = isnan(q) ? 0 : (int8_t)rintf(fminf(fmaxf(q, -128.0f), 127.0f));
    }
}

/* What is the same for all rows of a block. */
static zoe_finishing finishing_of(const linear_job *job, linear_scratch s, block b)
{
    const zoe_linear_int8_args *a = job->args;
    zoe_finishing f = {.activation = a->activation};
    if (a->bias.dtype != ZOE_NONE && a->bias.dtype != ZOE_I32)
        f.bias = zoe_row_read(job->k, zoe_row(a->bias, 0, b.n0), a->bias.dtype, b.columns, s.bias);
    if (a->gate.dtype != ZOE_NONE)
        f.gate = zoe_row(a->gate, 0, b.n0);
    if (job->group)
        return f;
    const float *own = job->w->scales + b.n0 / ZOE_PANEL * job->w->panel_scales;
    const float *given = a->scale.data;
    for (size_t i = 0; i < b.columns; i++)
        s.scale[i] = a->scale.dtype == ZOE_NONE ? own[i]
                     : a->scale.shape[0] > 1    ? own[i] * given[b.n0 + i]
                                                : own[i] * given[0];
    return f;
}

static void finish_block(const linear_job *job, linear_scratch s, block b)
{
    const zoe_linear_int8_args *a = job->args;
    const zoe_kernels *k = job->k;
    zoe_finishing f = finishing_of(job, s, b);
    for (size_t m = 0; m < b.rows; m++) {
        float *sums = s.sums + m * job->columns;
        if (a->y.dtype == ZOE_I32) {
            write_sums(job, sums, b, m);
            continue;
        }
        if (!job->group)
            scale_sums(job, s, sums, b, m);
        if (a->residual.dtype != ZOE_NONE)
            f.residual = zoe_row_read(k, zoe_row(a->residual, b.m0 + m, b.n0), a->residual.dtype,
                                      b.columns, s.row);
        if (a->y.dtype == ZOE_I8) {
            k->finish(sums, sums, &f, b.columns);
            write_bytes(job, sums, b, m);
            continue;
        }
        void *y = zoe_row(a->y, b.m0 + m, b.n0);
        float *v = zoe_row_target(y, a->y.dtype, sums);
        k->finish(v, sums, &f, b.columns);
        zoe_row_write(k, y, a->y.dtype, v, b.columns);
    }
}

static void linear_task(void *arg, size_t i, size_t worker)
{
    const linear_job *job = arg;
    if (zoe_cancelled(job->ctx))
        return;
    const linear_scratch s = scratch_of(job, worker);
    block b = {.m0 = i % job->blocks_m * job->rows, .n0 = i / job->blocks_m * job->columns};
    b.rows = zoe_min(job->rows, job->M - b.m0);
    b.columns = zoe_min(job->columns, job->N - b.n0);
    sum_block(job, s, b);
    finish_block(job, s, b);
}

size_t zoe_cpu_linear_int8_workspace(const zoe_context *ctx, size_t M, size_t N, size_t K,
                                     zoe_dtype x, size_t group)
{
    linear_job job = {.M = M, .N = N, .K = K, .group = group, .x_type = x};
    size_t room; /* twice what any part of the sum below takes */
    if (!zoe_size_mul(&room, M, K + 1) || !zoe_size_mul(&room, room, 4 * sizeof(float)))
        return SIZE_MAX;
    plan_blocks(&job);
    return job.quantised_bytes + job.worker_bytes * (size_t)zoe_context_threads(ctx);
}

zoe_status zoe_cpu_linear_int8(zoe_context *ctx, const zoe_linear_int8_args *args,
                               zoe_workspace work)
{
    const int8_packed *w = (const int8_packed *)args->weights;
    linear_job job = {.ctx = ctx,
                      .k = zoe_kernels_get(),
                      .args = args,
                      .w = w,
                      .M = args->x.shape[0],
                      .N = w->head.N,
                      .K = w->head.K,
                      .group = w->head.group,
                      .x_type = args->x.dtype};
    plan_blocks(&job);
    job.work = (unsigned char *)work.data + job.quantised_bytes;
    take_x(&job, work.data);
    zoe_parallel_for(ctx, job.blocks_m * job.blocks_n, linear_task, &job);
    return zoe_check_cancel(ctx);
}
