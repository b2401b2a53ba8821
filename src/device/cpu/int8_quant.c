/* Quantisation of rows to int8. */
#include "device/cpu/int8.h"

/* Rows of one task. */
enum { ROWS = 16 };

float zoe_cpu_int8_quantise(const zoe_kernels *k, int8_t *q, const float *x, size_t n, float *spare)
{
    const float peak = k->int8_peak(x, n);
    if (!(peak < INFINITY) || peak == 0.0f) {
        memset(q, 0, n);
        return peak;
    }
    if (peak < 0x1p-120f) { /* 127 / peak may be too large */
        for (size_t i = 0; i < n; i++)
            spare[i] = x[i] * 0x1p64f;
        k->int8_round(q, spare, 127.0f / (peak * 0x1p64f), n);
    } else {
        k->int8_round(q, x, 127.0f / peak, n);
    }
    return peak / 127.0f;
}

void zoe_cpu_int8_quantise_row(const zoe_kernels *k, int8_t *q, float *scale, const float *x,
                               size_t K, size_t group, float *spare)
{
    const size_t groups = int8_groups(K, group), step = group ? group : K;
    for (size_t g = 0; g < groups; g++) {
        const size_t from = g * step;
        scale[g] =
            zoe_cpu_int8_quantise(k, q + from, x + from, zoe_min(step, K - from), spare + from);
    }
}

typedef struct quant_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_dynamic_quant_args *args;
    size_t rows, K;
    unsigned char *work;
    size_t worker_bytes;
} quant_job;

static size_t columns_of(zoe_tensor x)
{
    return x.shape[x.rank - 1];
}

static size_t worker_bytes(const zoe_dynamic_quant_args *args)
{
    return zoe_arena_bytes(columns_of(args->x), sizeof(float));
}

static void quant_task(void *arg, size_t i, size_t worker)
{
    const quant_job *job = arg;
    const zoe_dynamic_quant_args *a = job->args;
    const zoe_kernels *k = job->k;
    float *buffer = (float *)(job->work + worker * job->worker_bytes);
    if (zoe_cancelled(job->ctx))
        return;
    for (size_t m = i * ROWS; m < zoe_min((i + 1) * ROWS, job->rows); m++) {
        const float *x = zoe_row_read(k, zoe_row_at(a->x, m, 0), a->x.dtype, job->K, buffer);
        if (a->smooth.dtype != ZOE_NONE) {
            k->multiply(buffer, x, a->smooth.data, job->K);
            x = buffer;
        }
        /* Without groups, scale has no axis of its own for them. */
        zoe_tensor scale = a->scale;
        if (!a->group) {
            scale.shape[scale.rank] = 1;
            scale.stride[scale.rank++] = 1;
        }
        zoe_cpu_int8_quantise_row(k, zoe_row_at(a->q, m, 0), zoe_row_at(scale, m, 0), x, job->K,
                                  a->group, buffer);
    }
}

size_t zoe_cpu_dynamic_quant_workspace(const zoe_context *ctx, const zoe_dynamic_quant_args *args)
{
    return worker_bytes(args) * (size_t)zoe_context_threads(ctx);
}

zoe_status zoe_cpu_dynamic_quant(zoe_context *ctx, const zoe_dynamic_quant_args *args,
                                 zoe_workspace work)
{
    const size_t K = columns_of(args->x);
    quant_job job = {.ctx = ctx,
                     .k = zoe_kernels_get(),
                     .args = args,
                     .rows = zoe_tensor_count(args->x) / K,
                     .K = K,
                     .work = work.data,
                     .worker_bytes = worker_bytes(args)};
    zoe_parallel_for(ctx, zoe_ceil_div(job.rows, ROWS), quant_task, &job);
    return zoe_check_cancel(ctx);
}
