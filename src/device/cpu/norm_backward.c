/* Gradients of norms on the cpu. Rows go in blocks of up to 32 that share a scale; a block keeps sums over its
 * rows for every column, which are added in their order afterwards. So no sum depends on the threads. */
#include "device/cpu/cpu.h"
#include "device/cpu/walk.h"

enum { BLOCK = 32, COLUMNS = 512 };
enum { X, DY, DX };
enum { WEIGHT, X_ROW, DY_ROW, DX_ROW, ROWS };
enum { DYV, DYS, SUMS };

typedef struct backward_job {
    const zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_norm_backward_form *f;
    zoe_walk walk;
    size_t group_rows, group_blocks;
    float *rows; /* of each thread: ROWS rows */
    float *sums; /* of each block: SUMS rows; or NULL */
} backward_job;

static bool sums_wanted(const zoe_norm_backward_form *f)
{
    return f->dscale.dtype != ZOE_NONE || f->dshift.dtype != ZOE_NONE ||
           f->dgamma.dtype != ZOE_NONE || f->dbeta.dtype != ZOE_NONE;
}

static size_t blocks_of(const zoe_norm_backward_form *f)
{
    return f->groups * zoe_ceil_div(f->rows / f->groups, BLOCK);
}

/* The parts of the workspace; an arena of zeroes counts. */
static void lay_out(zoe_arena *arena, const zoe_context *ctx, const zoe_norm_backward_form *f,
                    backward_job *job)
{
    size_t rows = SIZE_MAX, sums = SIZE_MAX;
    if (!zoe_size_mul(&rows, f->D, (size_t)zoe_context_threads(ctx) * ROWS))
        rows = SIZE_MAX;
    if (!zoe_size_product(&sums, (const size_t[]){f->D, blocks_of(f), SUMS}, 3))
        sums = SIZE_MAX;
    job->rows = zoe_arena_take(arena, rows, sizeof(float));
    job->sums = sums_wanted(f) ? zoe_arena_take(arena, sums, sizeof(float)) : NULL;
}

size_t zoe_cpu_norm_backward_workspace(const zoe_context *ctx, const zoe_norm_backward_form *form)
{
    zoe_arena arena = {0};
    backward_job job;
    lay_out(&arena, ctx, form, &job);
    return arena.used;
}

static float scale_at(const zoe_norm_backward_form *f, size_t group, size_t d)
{
    if (f->scale.dtype == ZOE_NONE)
        return 1.0f;
    return 1.0f + zoe_load_f32(zoe_row(f->scale, group, 0), f->scale.dtype, d);
}

/* What v is multiplied with in a group. */
static void weight_of(const backward_job *job, float *w, size_t group)
{
    const zoe_norm_backward_form *f = job->f;
    for (size_t d = 0; d < f->D; d++)
        w[d] = f->scale.dtype == ZOE_NONE ? 1.0f : scale_at(f, group, d);
    if (f->gamma.dtype == ZOE_NONE)
        return;
    for (size_t d = 0; d < f->D; d++) {
        const float gamma = zoe_load_f32(f->gamma.data, f->gamma.dtype, d);
        w[d] *= f->one_plus ? 1.0f + gamma : gamma;
    }
}

static void statistics_of(const backward_job *job, const float *x, float *mean, float *rstd)
{
    const double D = (double)job->f->D;
    double variance;
    *mean = 0.0f;
    if (job->f->centred) {
        double sums[2] = {0.0, 0.0};
        job->k->layer_sums_f32(sums, x, x[0], job->f->D);
        *mean = (float)((double)x[0] + sums[0] / D);
        sums[0] = sums[1] = 0.0;
        job->k->layer_sums_f32(sums, x, *mean, job->f->D);
        variance = sums[1] / D - sums[0] / D * (sums[0] / D);
        variance = variance < 0.0 ? 0.0 : variance;
    } else {
        variance = job->k->squares_f32(x, job->f->D) / D;
    }
    *rstd = (float)(job->f->centred ? 1.0 / sqrt(variance + (double)job->f->eps)
                                    : zoe_rms_rstd(variance, job->f->eps));
}

static void backward_row(const backward_job *job, const zoe_walker *at, float *const rows[ROWS],
                         float *sums)
{
    const zoe_norm_backward_form *f = job->f;
    const float *x = zoe_row_read(job->k, at->at[X], f->x.dtype, f->D, rows[X_ROW]);
    const float *dy = zoe_row_read(job->k, at->at[DY], f->dy.dtype, f->D, rows[DY_ROW]);
    float mean, rstd;
    double means[2] = {0.0, 0.0};
    statistics_of(job, x, &mean, &rstd);
    job->k->grad_sums(means, dy, x, rows[WEIGHT], mean, rstd, f->D);
    const zoe_grad_form form = {.mean = mean,
                                .rstd = rstd,
                                .plain = f->centred ? (float)(means[0] / (double)f->D) : 0.0f,
                                .along = (float)(means[1] / (double)f->D),
                                .dyv = sums,
                                .dys = sums ? sums + f->D : NULL};
    float *dx = f->dx.dtype == ZOE_F32 ? (float *)(void *)at->at[DX] : rows[DX_ROW];
    job->k->grad_apply(dx, dy, x, rows[WEIGHT], &form, f->D);
    if (f->dx.dtype == ZOE_F16)
        job->k->narrow_f16((uint16_t *)(void *)at->at[DX], dx, f->D);
    else if (f->dx.dtype == ZOE_BF16)
        job->k->narrow_bf16((uint16_t *)(void *)at->at[DX], dx, f->D);
}

static void block_task(void *arg, size_t i, size_t worker)
{
    const backward_job *job = arg;
    const size_t D = job->f->D, group = i / job->group_blocks;
    const size_t first = i % job->group_blocks * BLOCK;
    const size_t n = zoe_min(BLOCK, job->group_rows - first);
    float *rows[ROWS], *sums = job->sums ? job->sums + i * SUMS * D : NULL;
    if (zoe_cancelled(job->ctx))
        return;
    for (size_t r = 0; r < ROWS; r++)
        rows[r] = job->rows + (worker * ROWS + r) * D;
    weight_of(job, rows[WEIGHT], group);
    if (sums)
        memset(sums, 0, SUMS * D * sizeof *sums);
    zoe_walker at = zoe_walk_at(&job->walk, group * job->group_rows + first);
    for (size_t m = 0; m < n; m++, zoe_walker_next(&at))
        backward_row(job, &at, rows, sums);
}

static void store_column(zoe_tensor t, size_t row, size_t d, double value)
{
    if (t.dtype != ZOE_NONE)
        zoe_store_f32(t.rank == 2 ? zoe_row(t, row, 0) : t.data, t.dtype, d, (float)value);
}

/* Adds up the blocks of some columns, group by group. */
static void column_task(void *arg, size_t i, size_t worker)
{
    const backward_job *job = arg;
    const zoe_norm_backward_form *f = job->f;
    const size_t D = f->D, first = i * COLUMNS, n = zoe_min(COLUMNS, D - first);
    double all[SUMS][COLUMNS] = {{0.0}};
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    for (size_t group = 0; group < f->groups; group++) {
        double part[SUMS][COLUMNS] = {{0.0}};
        for (size_t b = 0; b < job->group_blocks; b++)
            for (size_t s = 0; s < SUMS; s++) {
                const float *sums =
                    job->sums + ((group * job->group_blocks + b) * SUMS + s) * D + first;
                for (size_t d = 0; d < n; d++)
                    part[s][d] += (double)sums[d];
            }
        for (size_t d = 0; d < n; d++) {
            const size_t c = first + d;
            const double gamma = f->gamma.dtype == ZOE_NONE
                                     ? 1.0
                                     : (double)zoe_load_f32(f->gamma.data, f->gamma.dtype, c);
            const double beta = f->beta.dtype == ZOE_NONE
                                    ? 0.0
                                    : (double)zoe_load_f32(f->beta.data, f->beta.dtype, c);
            const double scale = (double)scale_at(f, group, c);
            store_column(f->dshift, group, c, part[DYS][d]);
            store_column(f->dscale, group, c, part[DYV][d] * gamma + part[DYS][d] * beta);
            all[DYV][d] += part[DYV][d] * scale;
            all[DYS][d] += part[DYS][d] * scale;
        }
    }
    for (size_t d = 0; d < n; d++) {
        store_column(f->dgamma, 0, first + d, all[DYV][d]);
        store_column(f->dbeta, 0, first + d, all[DYS][d]);
    }
}

zoe_status zoe_cpu_norm_backward(zoe_context *ctx, const zoe_norm_backward_form *form,
                                 zoe_workspace work)
{
    backward_job job = {.ctx = ctx,
                        .k = zoe_kernels_get(),
                        .f = form,
                        .walk = zoe_walk_over(form->x, form->x.rank - form->axes),
                        .group_rows = form->rows / form->groups};
    zoe_arena arena = {.base = work.data, .size = work.bytes};
    job.group_blocks = zoe_ceil_div(job.group_rows, BLOCK);
    lay_out(&arena, ctx, form, &job);
    TRY(zoe_arena_status(ctx, &arena, "gradients of a norm"));
    zoe_walk_add(&job.walk, form->x);
    zoe_walk_add(&job.walk, form->dy);
    zoe_walk_add(&job.walk, form->dx);
    zoe_walk_merge(&job.walk);
    zoe_parallel_for(ctx, blocks_of(form), block_task, &job);
    if (job.sums)
        zoe_parallel_for(ctx, zoe_ceil_div(form->D, COLUMNS), column_task, &job);
    return zoe_check_cancel(ctx);
}
