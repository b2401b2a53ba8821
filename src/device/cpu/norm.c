/* Normalisations on the cpu: rows in fixed blocks over the threads, each row in pieces that stay in
 * the first cache. */
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Elements of a row that are handled at once; even, so that no rotated pair is cut. */
enum { PIECE = 1024 };
/* Elements of a block of rows: what makes a task worth a thread. */
enum { BLOCK = 16384 };

typedef struct norm_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    zoe_tensor y, x, gamma, cos, sin;
    float eps;
    bool silu;
    const zoe_layer_norm_args *layer;
    size_t M, D, rows; /* rows of a block */
    void (*row)(const struct norm_job *job, size_t m);
} norm_job;

static void norm_task(void *arg, size_t i, size_t worker)
{
    const norm_job *job = arg;
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    const size_t end = zoe_min(job->M, (i + 1) * job->rows);
    for (size_t m = i * job->rows; m < end; m++)
        job->row(job, m);
}

static zoe_status norm_run(norm_job *job)
{
    job->k = zoe_kernels_get();
    job->M = job->x.shape[0];
    job->D = job->x.shape[1];
    job->rows = job->D < BLOCK ? BLOCK / job->D : 1;
    zoe_parallel_for(job->ctx, zoe_ceil_div(job->M, job->rows), norm_task, job);
    return zoe_check_cancel(job->ctx);
}

/* Sum over row m of x - shift, or of its square. */
static double row_sum(const norm_job *job, zoe_kernel_sum *sum, double shift, size_t m)
{
    float buffer[PIECE];
    double total = 0.0;
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        total +=
            sum(zoe_row_read(job->k, zoe_row(job->x, m, d), job->x.dtype, n, buffer), shift, n);
    }
    return total;
}

static const float *piece(zoe_tensor t, size_t d)
{
    return t.dtype == ZOE_NONE ? NULL : (const float *)t.data + d;
}

/* Rotates elements d .. d + n of row m, which lie at v; heads are as wide as two rows of cosines.
 */
static void rotate(const norm_job *job, float *v, size_t m, size_t d, size_t n)
{
    const size_t width = 2 * job->cos.shape[1];
    for (size_t i = 0, part; i < n; i += part) {
        const size_t within = (d + i) % width;
        part = zoe_min(n - i, width - within);
        job->k->rope(v + i, v + i, zoe_row(job->cos, m, within / 2),
                     zoe_row(job->sin, m, within / 2), part / 2);
    }
}

static void rms_row(const norm_job *job, size_t m)
{
    const zoe_kernels *k = job->k;
    const double mean = row_sum(job, k->sum_squares, 0.0, m) / (double)job->D;
    const float rstd = (float)(1.0 / sqrt(mean + (double)job->eps));
    const bool round = job->x.dtype == ZOE_BF16;
    float in[PIECE], out[PIECE];
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        const float *x = zoe_row_read(k, zoe_row(job->x, m, d), job->x.dtype, n, in);
        void *y = zoe_row(job->y, m, d);
        float *v = zoe_row_target(y, job->y.dtype, out);
        k->rms_scale(v, x, rstd, piece(job->gamma, d), round, n);
        if (job->cos.dtype != ZOE_NONE) {
            rotate(job, v, m, d, n);
            if (round)
                k->round_bf16(v, v, n);
        }
        zoe_row_write(k, y, job->y.dtype, v, n);
    }
}

zoe_status zoe_cpu_rms_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                            float eps, zoe_tensor cos, zoe_tensor sin)
{
    norm_job job = {.ctx = ctx,
                    .y = y,
                    .x = x,
                    .gamma = gamma,
                    .cos = cos,
                    .sin = sin,
                    .eps = eps,
                    .row = rms_row};
    return norm_run(&job);
}

static void layer_row(const norm_job *job, size_t m)
{
    const zoe_kernels *k = job->k;
    const zoe_layer_norm_args *args = job->layer;
    const double D = (double)job->D;
    const double mean = row_sum(job, k->sum, 0.0, m) / D;
    const double variance = row_sum(job, k->sum_squares, mean, m) / D;
    zoe_layer_scaling s = {.mean = (float)mean,
                           .mean_rest = (float)(mean - (double)(float)mean),
                           .rstd = (float)(1.0 / sqrt(variance + (double)args->eps)),
                           .round = args->round_norm};
    float in[PIECE], out[PIECE];
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        const float *x = zoe_row_read(k, zoe_row(job->x, m, d), job->x.dtype, n, in);
        void *y = zoe_row(job->y, m, d);
        float *v = zoe_row_target(y, job->y.dtype, out);
        s.gamma = piece(args->gamma, d);
        s.beta = piece(args->beta, d);
        s.scale = piece(args->scale, d);
        s.shift = piece(args->shift, d);
        k->layer_scale(v, x, &s, n);
        zoe_row_write(k, y, job->y.dtype, v, n);
    }
}

zoe_status zoe_cpu_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *args)
{
    norm_job job = {.ctx = ctx, .y = args->y, .x = args->x, .layer = args, .row = layer_row};
    return norm_run(&job);
}

static void l2_row(const norm_job *job, size_t m)
{
    const zoe_kernels *k = job->k;
    const float length = (float)sqrt(row_sum(job, k->sum_squares, 0.0, m));
    const float norm = length < 1e-12f ? 1e-12f : length;
    k->l2_scale(zoe_row(job->y, m, 0), zoe_row(job->x, m, 0), norm, sqrtf((float)job->D),
                job->gamma.data, job->silu, job->D);
}

zoe_status zoe_cpu_l2_norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, zoe_tensor gamma,
                           bool silu)
{
    norm_job job = {.ctx = ctx, .y = y, .x = x, .gamma = gamma, .silu = silu, .row = l2_row};
    return norm_run(&job);
}
