/* Attention on the cpu. One head with a tile of queries is one task. Keys come in blocks: scores of
 * the tile with the block, one step of the running softmax for each query, and the weighted sum of
 * the block's values added to the tile's output (Dao 2023, arXiv 2307.08691). With rounded scores
 * the weights need the whole row first: then the tile's scores with all keys are kept. */
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Queries of a tile, keys of a block. */
enum { TILE = 192, KEYS = 128 };
/* Scores that are kept for a tile when whole rows are needed: fewer queries a tile when there are
 * many keys. */
enum { KEPT_SCORES = 1 << 17 };

typedef struct attention_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_attention_args *args;
    size_t Lq, Lk, N, D;
    size_t queries, tiles;     /* of a tile, over Lq */
    size_t q_stride, o_stride; /* D, D rounded up to whole panels: distances of rows of scratch */
    size_t score_stride;       /* keys whose scores are kept at once, in whole panels */
    float extra;               /* ln(last_count) */
    zoe_kernel_pack *pack;
    zoe_kernel_slice *slice;
    unsigned char *work;
    size_t worker_bytes;
} attention_job;

/* One thread's scratch. */
typedef struct attention_scratch {
    float *q;         /* [queries][q_stride] */
    float *o;         /* [queries][o_stride] */
    float *scores;    /* [queries][score_stride] */
    float *panel;     /* [max(D, KEYS)][ZOE_PANEL] */
    float *bias;      /* [KEYS] */
    float *max, *sum; /* [queries] */
} attention_scratch;

static size_t whole_panels(size_t n)
{
    return zoe_ceil_div(n, ZOE_PANEL) * ZOE_PANEL;
}

/* Where whole rows of scores are kept, fewer queries at a time. */
static size_t limit_queries(const attention_job *job, size_t queries)
{
    if (job->args->round_scores && queries > KEPT_SCORES / job->score_stride)
        return KEPT_SCORES / job->score_stride + 1;
    return queries;
}

static void plan_tiles(attention_job *job, const zoe_attention_args *args)
{
    job->args = args;
    job->Lq = args->q.shape[0];
    job->N = args->q.shape[1];
    job->D = args->q.shape[2];
    job->Lk = args->k.shape[0];
    job->score_stride = whole_panels(args->round_scores ? job->Lk : zoe_min(KEYS, job->Lk));
    job->queries = limit_queries(job, zoe_even_block(job->Lq, TILE, 6));
    job->tiles = zoe_ceil_div(job->Lq, job->queries);
    job->q_stride = whole_panels(job->D);
    job->o_stride = job->q_stride;
}

/* Lays the scratch out from base; returns its bytes. */
static size_t lay_out(const attention_job *job, attention_scratch *s, unsigned char *base)
{
    const struct {
        float **piece;
        size_t count;
    } pieces[] = {{&s->q, job->queries * job->q_stride},
                  {&s->o, job->queries * job->o_stride},
                  {&s->scores, job->queries * job->score_stride},
                  {&s->panel, (job->D > KEYS ? job->D : KEYS) * ZOE_PANEL},
                  {&s->bias, KEYS},
                  {&s->max, job->queries},
                  {&s->sum, job->queries}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (base)
            *pieces[i].piece = (float *)(void *)(base + used);
        used += zoe_arena_bytes(pieces[i].count, sizeof(float));
    }
    return used;
}

/* The address of token l, head n, channel d. */
static void *element(zoe_tensor t, size_t l, size_t n, size_t d)
{
    return (unsigned char *)t.data +
           (l * (size_t)t.stride[0] + n * (size_t)t.stride[1] + d) * zoe_dtype_bytes(t.dtype);
}

/* scores[i][j] = q[i] . k[first + j] for the tile's queries and `keys` keys. */
static void score(const attention_job *job, attention_scratch s, float *scores, size_t queries,
                  size_t head, size_t first, size_t keys)
{
    const zoe_tensor t = job->args->k;
    for (size_t j = 0; j < keys; j += ZOE_PANEL) {
        job->pack(s.panel, element(t, first + j, head, 0), t.stride[0],
                  zoe_min(ZOE_PANEL, keys - j), job->D);
        job->k->gemm(scores + j, job->score_stride, s.q, job->q_stride, s.panel, queries, job->D,
                     false);
    }
}

/* o[i] (+)= sum over j of weights[i][j] v[first + j] */
static void add_values(const attention_job *job, attention_scratch s, const float *weights,
                       size_t queries, size_t head, size_t first, size_t keys)
{
    const zoe_tensor t = job->args->v;
    for (size_t d = 0; d < job->D; d += ZOE_PANEL) {
        job->slice(s.panel, element(t, first, head, d), t.stride[0], zoe_min(ZOE_PANEL, job->D - d),
                   keys);
        job->k->gemm(s.o + d, job->o_stride, weights, job->score_stride, s.panel, queries, keys,
                     first > 0);
    }
}

/* Where the biases of query i with key `first` and later ones begin; NULL without. */
static const float *bias_row(const attention_job *job, size_t head, size_t i, size_t first)
{
    const zoe_tensor t = job->args->bias;
    return t.dtype == ZOE_NONE ? NULL : zoe_row(t, head, job->Lq - 1 - i + first);
}

/* The biases of one row for a block that ends with the last key, which counts several times. */
static const float *with_extra(const attention_job *job, float *copy, const float *bias,
                               size_t keys)
{
    if (bias)
        memcpy(copy, bias, keys * sizeof *copy);
    else
        memset(copy, 0, keys * sizeof *copy);
    copy[keys - 1] += job->extra;
    return copy;
}

static void attend_running(const attention_job *job, attention_scratch s, size_t q0, size_t queries,
                           size_t head)
{
    const zoe_kernels *k = job->k;
    for (size_t i = 0; i < queries; i++) {
        s.max[i] = -INFINITY;
        s.sum[i] = 0.0f;
    }
    for (size_t first = 0; first < job->Lk; first += KEYS) {
        const size_t keys = zoe_min(KEYS, job->Lk - first);
        score(job, s, s.scores, queries, head, first, keys);
        const bool last = first + keys == job->Lk && job->args->last_count > 1;
        for (size_t i = 0; i < queries; i++) {
            const float *bias = bias_row(job, head, q0 + i, first);
            if (last)
                bias = with_extra(job, s.bias, bias, keys);
            const float factor = k->softmax_step(s.scores + i * job->score_stride, keys,
                                                 job->args->scale, bias, &s.max[i], &s.sum[i]);
            if (first > 0 && factor != 1.0f)
                k->scale(s.o + i * job->o_stride, factor, job->D);
        }
        add_values(job, s, s.scores, queries, head, first, keys);
    }
    for (size_t i = 0; i < queries; i++)
        k->scale(s.o + i * job->o_stride, 1.0f / s.sum[i], job->D);
}

static void attend_rounded(const attention_job *job, attention_scratch s, size_t q0, size_t queries,
                           size_t head)
{
    for (size_t first = 0; first < job->Lk; first += KEYS)
        score(job, s, s.scores + first, queries, head, first, zoe_min(KEYS, job->Lk - first));
    for (size_t i = 0; i < queries; i++)
        job->k->softmax_bf16(s.scores + i * job->score_stride, job->Lk, job->args->scale,
                             bias_row(job, head, q0 + i, 0), job->extra);
    for (size_t first = 0; first < job->Lk; first += KEYS)
        add_values(job, s, s.scores + first, queries, head, first, zoe_min(KEYS, job->Lk - first));
}

static void attention_task(void *arg, size_t i, size_t worker)
{
    const attention_job *job = arg;
    const zoe_attention_args *args = job->args;
    if (zoe_cancelled(job->ctx))
        return;
    attention_scratch s;
    lay_out(job, &s, job->work + worker * job->worker_bytes);
    const size_t head = i / job->tiles, q0 = i % job->tiles * job->queries;
    const size_t queries = zoe_min(job->queries, job->Lq - q0);
    for (size_t m = 0; m < queries; m++)
        zoe_row_widen(job->k, s.q + m * job->q_stride, element(args->q, q0 + m, head, 0),
                      args->q.dtype, job->D);
    if (args->round_scores)
        attend_rounded(job, s, q0, queries, head);
    else
        attend_running(job, s, q0, queries, head);
    for (size_t m = 0; m < queries; m++)
        zoe_row_write(job->k, element(args->o, q0 + m, head, 0), args->o.dtype,
                      s.o + m * job->o_stride, job->D);
}

size_t zoe_cpu_attention_workspace(const zoe_context *ctx, const zoe_attention_args *args)
{
    attention_job job;
    attention_scratch s;
    plan_tiles(&job, args);
    job.queries = limit_queries(&job, zoe_block_room(job.Lq, TILE, 6));
    return lay_out(&job, &s, NULL) * (size_t)zoe_context_threads(ctx);
}

zoe_status zoe_cpu_attention(zoe_context *ctx, const zoe_attention_args *args, zoe_workspace work)
{
    attention_job job = {.ctx = ctx, .k = zoe_kernels_get(), .work = work.data};
    attention_scratch s;
    plan_tiles(&job, args);
    job.extra = args->last_count > 1 ? (float)log((double)args->last_count) : 0.0f;
    job.pack = args->k.dtype == ZOE_BF16 ? job.k->pack_bf16 : job.k->pack_f32;
    job.slice = args->v.dtype == ZOE_BF16 ? job.k->slice_bf16 : job.k->slice_f32;
    job.worker_bytes = lay_out(&job, &s, NULL);
    zoe_parallel_for(ctx, job.N * job.tiles, attention_task, &job);
    return zoe_check_cancel(ctx);
}
