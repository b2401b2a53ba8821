/* GroupNorm on the cpu: the elements of a group, in the order of memory, in chunks over the threads;
 * sums of chunks are added in that order. Pieces of runs too short for a kernel are gathered first. */
#include "device/cpu/cpu.h"
#include "device/cpu/layer.h"
#include "device/cpu/walk.h"

/* Elements of one task, and of one piece of it. */
enum { CHUNK = 65536, PIECE = 1024 };

typedef struct group_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_group_norm_args *a;
    size_t per, S;        /* channels of a group, places of a plane */
    size_t count, chunks; /* elements and chunks of a group */
    bool stream;
    zoe_norm_numbers *forms; /* [N * groups] */
    double (*partial)[2];    /* [chunks] */
    size_t group;            /* whose chunks are summed */
    float shift;
} group_job;

/* ---- where elements lie ---- */

/* Strides of sample, channel and place. */
typedef struct spacing {
    size_t n, c, s;
} spacing;

static spacing spacing_of(zoe_tensor t, bool last)
{
    const int place = last ? t.rank - 2 : t.rank - 1;
    const ptrdiff_t c = last ? 1 : t.stride[1];
    return (spacing){(size_t)t.stride[0], (size_t)c, t.rank > 2 ? (size_t)t.stride[place] : 1};
}

/* The address of element e of a group, and how many lie dense from there on. */
static unsigned char *run_at(const group_job *job, zoe_tensor t, size_t group, size_t e,
                             size_t *dense)
{
    const bool last = job->a->channels_last;
    const spacing p = spacing_of(t, last);
    const size_t n = group / job->a->groups, first = group % job->a->groups * job->per;
    const size_t c = last ? e % job->per : e / job->S, s = last ? e / job->per : e % job->S;
    *dense = last ? job->per - c : job->S - s;
    return (unsigned char *)t.data +
           (n * p.n + (first + c) * p.c + s * p.s) * zoe_dtype_bytes(t.dtype);
}

/* Elements e .. e + n of a group: where they lie if dense, with their type, else gathered in the buffer
 * as f32. */
static const void *gather(const group_job *job, size_t group, size_t e, size_t n, float *buffer,
                          zoe_dtype *dtype)
{
    const zoe_tensor x = job->a->x;
    size_t dense;
    const void *at = run_at(job, x, group, e, &dense);
    *dtype = x.dtype;
    if (dense >= n)
        return at;
    *dtype = ZOE_F32;
    for (size_t i = 0, m; i < n; i += m) {
        at = run_at(job, x, group, e + i, &dense);
        m = zoe_min(dense, n - i);
        zoe_row_widen(job->k, buffer + i, at, x.dtype, m);
    }
    return buffer;
}

/* v to where elements e .. e + n of the result lie. */
static void scatter(const group_job *job, size_t group, size_t e, size_t n, const float *v)
{
    const zoe_tensor y = job->a->y;
    zoe_layer_form f = zoe_layer_as_it_is();
    f.stream = job->stream;
    for (size_t i = 0, m; i < n; i += m) {
        size_t dense;
        void *at = run_at(job, y, group, e + i, &dense);
        m = zoe_min(dense, n - i);
        zoe_layer_apply(job->k, at, y.dtype, v + i, ZOE_F32, &f, m);
    }
}

/* ---- statistics ---- */

static void sum_chunk(void *arg, size_t i, size_t worker)
{
    const group_job *job = arg;
    float buffer[PIECE];
    double *sums = job->partial[i];
    (void)worker;
    sums[0] = sums[1] = 0.0;
    if (zoe_cancelled(job->ctx))
        return;
    const size_t end = zoe_min(job->count, (i + 1) * CHUNK);
    for (size_t e = i * CHUNK; e < end; e += PIECE) {
        const size_t n = zoe_min(PIECE, end - e);
        zoe_dtype dtype;
        const void *x = gather(job, job->group, e, n, buffer, &dtype);
        zoe_layer_sums_of(job->k, dtype)(sums, x, job->shift, n);
    }
}

static void sums_of_group(void *arg, double sums[2], float shift)
{
    group_job *job = arg;
    job->shift = shift;
    zoe_parallel_for(job->ctx, job->chunks, sum_chunk, job);
    for (size_t i = 0; i < job->chunks; i++) {
        sums[0] += job->partial[i][0];
        sums[1] += job->partial[i][1];
    }
}

static void store_statistic(const group_job *job, zoe_tensor t, size_t group, float v)
{
    if (t.dtype == ZOE_NONE)
        return;
    const size_t n = group / job->a->groups, g = group % job->a->groups;
    zoe_store_f32(t.data, t.dtype, n * (size_t)t.stride[0] + g * (size_t)t.stride[1], v);
}

/* The chunks of a group over the threads, or, where each group is one chunk, the groups. */
static void statistics(void *arg, size_t group, size_t worker)
{
    group_job job = *(const group_job *)arg;
    double own[1][2];
    float buffer[ZOE_NEAR];
    zoe_dtype dtype;
    (void)worker;
    if (job.chunks == 1)
        job.partial = own;
    job.group = group;
    const void *first = gather(&job, group, 0, zoe_min(ZOE_NEAR, job.count), buffer, &dtype);
    const float near = zoe_rounded(zoe_near_mean(job.k, first, dtype, job.count), job.a->x.dtype);
    const zoe_moments m = zoe_moments_of(sums_of_group, &job, near, job.a->x.dtype, job.count);
    const zoe_norm_numbers f = zoe_layer_numbers(m, job.a->eps);
    job.forms[group] = f;
    store_statistic(&job, job.a->mean, group, f.mean);
    store_statistic(&job, job.a->rstd, group, f.rstd + f.rest);
}

/* ---- results ---- */

/* The value of channel c, with NaN as kernels want it. */
static float channel_value(zoe_tensor t, size_t c, float none)
{
    const float v = t.dtype == ZOE_NONE ? none : zoe_load_f32(t.data, t.dtype, c);
    return isnan(v) ? zoe_f32_from_bits(0x7fc00000u) : v;
}

/* Weight and bias of elements e .. e + n of a group. */
static void fill_vectors(const group_job *job, size_t group, size_t e, size_t n, float *weight,
                         float *bias)
{
    const zoe_group_norm_args *a = job->a;
    const size_t first = group % a->groups * job->per;
    for (size_t i = 0, m; i < n; i += m) {
        const size_t c = a->channels_last ? (e + i) % job->per : (e + i) / job->S;
        const float w = channel_value(a->weight, first + c, 1.0f);
        const float b = channel_value(a->bias, first + c, -0.0f);
        m = a->channels_last ? 1 : zoe_min(n - i, job->S - (e + i) % job->S);
        for (size_t j = 0; j < m; j++) {
            weight[i + j] = w;
            bias[i + j] = b;
        }
        if (a->channels_last && i + 1 == job->per) { /* from here on it repeats */
            for (size_t j = job->per; j < n; j++) {
                weight[j] = weight[j - job->per];
                bias[j] = bias[j - job->per];
            }
            return;
        }
    }
}

/* Are weight and bias of elements e .. e + n those of the piece before, which was no shorter? */
static bool same_vectors(const group_job *job, size_t begin, size_t e, size_t n)
{
    if (e == begin)
        return false;
    if (job->a->channels_last)
        return PIECE % job->per == 0; /* every piece begins with the first channel */
    return (e - PIECE) / job->S == (e + n - 1) / job->S;
}

static void result_task(void *arg, size_t i, size_t worker)
{
    const group_job *job = arg;
    const size_t group = i / job->chunks, begin = i % job->chunks * CHUNK;
    const size_t end = zoe_min(job->count, begin + CHUNK);
    float in[PIECE], weight[PIECE], bias[PIECE], v[PIECE];
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    zoe_layer_form f = zoe_layer_form_of(&job->forms[group]);
    f.weight = weight;
    f.bias = bias;
    for (size_t e = begin; e < end; e += PIECE) {
        const size_t n = zoe_min(PIECE, end - e);
        zoe_dtype dtype;
        const void *x = gather(job, group, e, n, in, &dtype);
        if (!same_vectors(job, begin, e, n)) /* else what is there serves again */
            fill_vectors(job, group, e, n, weight, bias);
        zoe_layer_apply(job->k, v, ZOE_F32, x, dtype, &f, n);
        if (job->a->silu)
            job->k->silu(v, v, n);
        scatter(job, group, e, n, v);
    }
    if (job->stream)
        zoe_stream_end();
}

static group_job job_of(zoe_context *ctx, const zoe_group_norm_args *a)
{
    const zoe_tensor x = a->x;
    const size_t C = a->channels_last ? x.shape[x.rank - 1] : x.shape[1];
    group_job job = {.ctx = ctx, .a = a, .per = C / a->groups};
    job.S = zoe_tensor_count(x) / x.shape[0] / C;
    job.count = job.per * job.S;
    job.chunks = zoe_ceil_div(job.count, CHUNK);
    return job;
}

static size_t forms_bytes(const zoe_group_norm_args *a)
{
    return zoe_ceil_div(a->x.shape[0] * a->groups * sizeof(zoe_norm_numbers), 64) * 64;
}

size_t zoe_cpu_group_norm_workspace(const zoe_context *ctx, const zoe_group_norm_args *a)
{
    (void)ctx;
    const group_job job = job_of(NULL, a);
    return forms_bytes(a) + job.chunks * sizeof *job.partial;
}

zoe_status zoe_cpu_group_norm(zoe_context *ctx, const zoe_group_norm_args *a, zoe_workspace work)
{
    group_job job = job_of(ctx, a);
    const size_t groups = a->x.shape[0] * a->groups;
    job.k = zoe_kernels_get();
    job.forms = work.data;
    job.partial = (void *)((unsigned char *)work.data + forms_bytes(a));
    job.stream = a->y.data != a->x.data && zoe_streams(zoe_tensor_bytes(a->y));
    if (job.chunks == 1)
        zoe_parallel_for(ctx, groups, statistics, &job);
    else
        for (size_t i = 0; i < groups && !zoe_cancelled(ctx); i++)
            statistics(&job, i, 0);
    TRY(zoe_check_cancel(ctx));
    zoe_parallel_for(ctx, groups * job.chunks, result_task, &job);
    return zoe_check_cancel(ctx);
}
