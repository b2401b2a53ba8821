/* Joining of attention over parts of the keys, on the cpu: rows one by one, their weights in
 * double. */
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Rows of a task, elements that are summed at once. */
enum { ROWS = 64, CHUNK = 256 };

typedef struct merge_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_attention_merge_args *merge; /* one of them is given */
    const zoe_attention_update_args *update;
    size_t rows, D;
} merge_job;

static size_t rows_of(zoe_tensor t)
{
    t.shape[t.rank - 1] = 1;
    return zoe_tensor_count(t);
}

/* sum += weight * the elements of row m from d on; a part without weight is not read. */
static void add_part(const merge_job *job, float *sum, zoe_tensor part, size_t m, size_t d,
                     size_t n, float weight)
{
    float buffer[CHUNK];
    if (weight == 0.0f)
        return;
    const float *x = zoe_row_read(job->k, zoe_row_at(part, m, d), part.dtype, n, buffer);
    job->k->add_weighted(sum, x, weight, n);
}

static float number(zoe_tensor t, size_t m)
{
    return *(const float *)zoe_row_at(t, m, 0);
}

static void merge_row(const merge_job *job, size_t m)
{
    const zoe_attention_merge_args *a = job->merge;
    double top = -INFINITY, sum = 0.0;
    for (size_t p = 0; p < a->parts; p++) {
        const double l = (double)number(a->lses[p], m);
        top = !isinf(l) && l > top ? l : top; /* passes over NaN, which then shows in the sum */
    }
    for (size_t p = 0; p < a->parts; p++) {
        const double l = (double)number(a->lses[p], m);
        sum += isinf(l) ? 0.0 : exp(l - top);
    }
    for (size_t d = 0; d < job->D; d += CHUNK) {
        const size_t n = zoe_min(CHUNK, job->D - d);
        float values[CHUNK] = {0};
        for (size_t p = 0; p < a->parts; p++) {
            const double l = (double)number(a->lses[p], m);
            if (!isinf(l))
                add_part(job, values, a->outs[p], m, d, n, (float)(exp(l - top) / sum));
        }
        zoe_row_write(job->k, zoe_row_at(a->o, m, d), a->o.dtype, values, n);
    }
    if (a->lse.dtype != ZOE_NONE) {
        const double invalid = a->lse_invalid > 0.0f ? INFINITY : -INFINITY;
        *(float *)zoe_row_at(a->lse, m, 0) = (float)(sum == 0.0 ? invalid : top + log(sum));
    }
}

static void write_copies(zoe_tensor t, size_t m, double value)
{
    float *y = zoe_row_at(t, m, 0);
    for (size_t i = 0; i < t.shape[t.rank - 1]; i++)
        y[i] = (float)value;
}

static void update_row(const merge_job *job, size_t m)
{
    const zoe_attention_update_args *a = job->update;
    const double tops[2] = {(double)number(a->prev_max, m), (double)number(a->cur_max, m)};
    const double sums[2] = {(double)number(a->prev_sum, m), (double)number(a->cur_sum, m)};
    double top = -INFINITY, weights[2], sum = 0.0;
    for (int p = 0; p < 2; p++)
        if (!isinf(tops[p]) && sums[p] != 0.0 && !(tops[p] <= top))
            top = tops[p];
    for (int p = 0; p < 2; p++) {
        const bool counts = !isinf(tops[p]) && sums[p] != 0.0;
        sum += weights[p] = counts ? sums[p] * exp(tops[p] - top) : 0.0;
    }
    for (size_t d = 0; d < job->D; d += CHUNK) {
        const size_t n = zoe_min(CHUNK, job->D - d);
        float values[CHUNK] = {0};
        if (weights[0] != 0.0)
            add_part(job, values, a->prev_o, m, d, n, (float)(weights[0] / sum));
        if (weights[1] != 0.0)
            add_part(job, values, a->cur_o, m, d, n, (float)(weights[1] / sum));
        zoe_row_write(job->k, zoe_row_at(a->o, m, d), a->o.dtype, values, n);
    }
    write_copies(a->max, m, top);
    write_copies(a->sum, m, sum);
}

static void merge_task(void *arg, size_t i, size_t worker)
{
    const merge_job *job = arg;
    (void)worker;
    const size_t end = zoe_min(job->rows, (i + 1) * ROWS);
    for (size_t m = i * ROWS; m < end && !zoe_cancelled(job->ctx); m++)
        if (job->merge)
            merge_row(job, m);
        else
            update_row(job, m);
}

static zoe_status run(merge_job *job, zoe_tensor o)
{
    job->k = zoe_kernels_get();
    job->rows = rows_of(o);
    job->D = o.shape[o.rank - 1];
    zoe_parallel_for(job->ctx, zoe_ceil_div(job->rows, ROWS), merge_task, job);
    return zoe_check_cancel(job->ctx);
}

zoe_status zoe_cpu_attention_merge(zoe_context *ctx, const zoe_attention_merge_args *args)
{
    merge_job job = {.ctx = ctx, .merge = args};
    return run(&job, args->o);
}

zoe_status zoe_cpu_attention_update(zoe_context *ctx, const zoe_attention_update_args *args)
{
    merge_job job = {.ctx = ctx, .update = args};
    return run(&job, args->o);
}
