/* Attention on the cpu. One head of a sequence with a tile of queries is one task. Keys come in
 * blocks; a block's keys and values are packed once a tile and stay in the second cache while
 * stripes of queries pass over them: scores of the stripe with the block, one step of the running
 * softmax, and the weighted sum of the block's values added to the stripe's output (Dao 2023,
 * arXiv 2307.08691). Scores are in base 2: the scale and log2(e) are in the queries. What no query
 * of a stripe may see is not computed. Stripes and blocks begin at multiples of their sizes in
 * their sequence, so that bytes do not depend on tiles, of which there are as many as the threads
 * need. With rounded scores the weights need the whole row first: then the tile's scores with
 * all keys are kept. */
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Queries of a tile and of a stripe, keys of a block. */
enum { TILE = 1632, STRIPE = 96, KEYS = 256 };
/* Tiles that a thread should find at least, while stripes allow it. */
enum { TASKS = 4 };
/* Scores that are kept for a tile when whole rows are needed: fewer queries a tile when there are
 * many keys. */
enum { KEPT_SCORES = 1 << 17, KEPT_TILE = 192 };

static const double LOG2_E = 1.44269504088896340736, LN_2 = 0.69314718055994530942;

typedef struct attention_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_attention_form *form;
    size_t Lq, Lk, N, D, Dv;   /* Lq, Lk: the most that a sequence can have */
    size_t group;              /* heads that share keys */
    size_t queries, tiles;     /* of a tile, over Lq */
    size_t block;              /* most keys of one, in whole panels */
    size_t v_distance;         /* of panels of values */
    size_t q_stride, o_stride; /* distances of rows of scratch */
    size_t score_stride;
    float q_factor, extra; /* in queries; added to the last key's score */
    zoe_kernel_pack *pack;
    zoe_kernel_spread *spread;
    unsigned char *work;
    size_t worker_bytes;
} attention_job;

/* One thread's scratch. */
typedef struct attention_scratch {
    float *q;         /* [queries][q_stride] */
    float *o;         /* [queries][o_stride] */
    float *scores;    /* [a stripe's queries, or all][score_stride] */
    float *k;         /* [panels of the block][D][ZOE_PANEL] */
    float *v;         /* [panels of Dv][v_distance], each [block][ZOE_PANEL] */
    float *max, *sum; /* [queries] */
    float *factor;    /* [STRIPE] */
} attention_scratch;

/* A sequence: where its queries and keys begin, how many there are, and of how many queries
 * results are wanted. */
typedef struct span {
    size_t q0, k0, queries, keys, rows;
    int64_t before, after; /* the band, counted from the first query and key */
} span;

static size_t whole_panels(size_t n)
{
    return zoe_ceil_div(n, ZOE_PANEL) * ZOE_PANEL;
}

/* ---- the plan ---- */

static void plan_rows(attention_job *job, const zoe_attention_form *form)
{
    job->form = form;
    job->N = form->q.shape[1];
    job->Lq = form->q.shape[2];
    job->D = form->q.shape[3];
    job->Lk = form->k.shape[2];
    job->Dv = form->v.shape[3];
    job->group = form->k.shape[1] > 0 ? job->N / form->k.shape[1] : 1;
    job->block = whole_panels(zoe_min(KEYS, job->Lk));
    job->q_stride = whole_panels(job->D);
    /* Odd numbers of cache lines, so that a column of panels does not fall into few cache sets. */
    job->v_distance = (job->block + 1) * ZOE_PANEL;
    job->o_stride = whole_panels(job->Dv) + (whole_panels(job->Dv) / ZOE_PANEL % 2 ? 0 : ZOE_PANEL);
    job->score_stride = form->round_scores ? whole_panels(job->Lk) : job->block + ZOE_PANEL;
}

/* Where whole rows of scores are kept, fewer queries at a time. */
static size_t limit_queries(const attention_job *job, size_t queries)
{
    if (job->form->round_scores && queries > KEPT_SCORES / job->score_stride)
        return KEPT_SCORES / job->score_stride + 1;
    return queries;
}

/* The most queries of a tile, for any Lq up to this one. */
static size_t most_queries(const attention_job *job)
{
    return limit_queries(job, job->form->round_scores ? zoe_block_room(job->Lq, KEPT_TILE, 6)
                                                      : zoe_block_room(job->Lq, TILE, STRIPE));
}

static void plan_tiles(attention_job *job)
{
    size_t most = TILE;
    const size_t sequences = job->form->sequences * job->N;
    const size_t wanted = TASKS * (size_t)zoe_context_threads(job->ctx);
    if (job->form->round_scores) {
        job->queries = limit_queries(job, zoe_even_block(job->Lq, KEPT_TILE, 6));
    } else {
        while (most > STRIPE && sequences * zoe_ceil_div(job->Lq, most) < wanted)
            most -= STRIPE;
        job->queries = zoe_even_block(job->Lq, most, STRIPE);
    }
    job->tiles = zoe_ceil_div(job->Lq, job->queries);
}

/* Lays the scratch out from base; returns its bytes. */
static size_t lay_out(const attention_job *job, attention_scratch *s, unsigned char *base)
{
    const bool kept = job->form->round_scores;
    const size_t stripe = kept ? job->queries : zoe_min(job->queries, STRIPE);
    const struct {
        float **piece;
        size_t count;
    } pieces[] = {{&s->q, job->queries * job->q_stride},
                  {&s->o, job->queries * job->o_stride},
                  {&s->scores, stripe * job->score_stride},
                  {&s->k, job->block * job->D},
                  {&s->v, job->v_distance * (whole_panels(job->Dv) / ZOE_PANEL)},
                  {&s->max, job->queries},
                  {&s->sum, job->queries},
                  {&s->factor, STRIPE}};
    size_t used = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        if (base)
            *pieces[i].piece = (float *)(void *)(base + used);
        used += zoe_arena_bytes(pieces[i].count, sizeof(float));
    }
    return used;
}

/* ---- where things lie ---- */

/* Channel d of token l, head n, sequence b. */
static void *element(zoe_tensor t, size_t b, size_t n, size_t l, size_t d)
{
    return (unsigned char *)t.data +
           (b * (size_t)t.stride[0] + n * (size_t)t.stride[1] + l * (size_t)t.stride[2] + d) *
               zoe_dtype_bytes(t.dtype);
}

/* Element b of the lengths; cumulative: less the one before, which is where it begins. */
static size_t length_of(const int64_t *lengths, size_t step, size_t b, bool cumulative, size_t all,
                        size_t *begin)
{
    *begin = 0;
    if (!lengths)
        return all;
    if (cumulative && b > 0)
        *begin = (size_t)lengths[b - 1];
    return (size_t)lengths[b * step] - *begin;
}

static span span_of(const attention_job *job, size_t b)
{
    const zoe_attention_form *f = job->form;
    span s = {.before = f->before, .after = f->after};
    s.queries = length_of(f->q_lengths, f->q_step, b, f->cumulative, job->Lq, &s.q0);
    s.keys = length_of(f->k_lengths, f->k_step, b, f->cumulative, job->Lk, &s.k0);
    s.rows = f->cumulative ? s.queries : job->Lq;
    if (f->from_end) {
        const int64_t shift = (int64_t)s.keys - (int64_t)s.queries;
        s.before -= shift;
        s.after += shift;
    }
    return s;
}

/* The first key that query i sees, and the one behind the last; both grow with i. */
static size_t first_key(const span *s, size_t i)
{
    const int64_t key = (int64_t)i - s->before;
    return key <= 0 ? 0 : zoe_min((size_t)key, s->keys);
}

static size_t end_key(const span *s, size_t i)
{
    const int64_t key = (int64_t)i + s->after + 1;
    return key <= 0 ? 0 : zoe_min((size_t)key, s->keys);
}

/* Where the biases of query i with key `first` and later ones begin; NULL without. */
static const float *bias_row(const attention_job *job, size_t head, size_t i, size_t first)
{
    const zoe_tensor t = job->form->bias;
    return t.dtype == ZOE_NONE ? NULL : zoe_row(t, head, job->Lq - 1 - i + first);
}

/* ---- pieces of the work; keys are counted within their sequence ---- */

static void read_queries(const attention_job *job, const attention_scratch *s, size_t b, size_t n,
                         size_t l, size_t queries)
{
    const zoe_tensor t = job->form->q;
    for (size_t m = 0; m < queries; m++) {
        float *q = s->q + m * job->q_stride;
        zoe_row_widen(job->k, q, element(t, b, n, l + m, 0), t.dtype, job->D);
        if (job->q_factor != 1.0f)
            job->k->scale(q, job->q_factor, job->D);
    }
}

/* Packs `keys` keys that begin with token l, and their values. */
static void pack_keys(const attention_job *job, const attention_scratch *s, size_t b, size_t head,
                      size_t l, size_t keys)
{
    const zoe_tensor t = job->form->k;
    for (size_t j = 0; j < keys; j += ZOE_PANEL)
        job->pack(s->k + j * job->D, element(t, b, head, l + j, 0), t.stride[2],
                  zoe_min(ZOE_PANEL, keys - j), job->D);
}

static void pack_values(const attention_job *job, const attention_scratch *s, size_t b, size_t head,
                        size_t l, size_t keys)
{
    const zoe_tensor t = job->form->v;
    job->spread(s->v, job->v_distance, element(t, b, head, l, 0), t.stride[2], job->Dv, keys);
}

/* Adds biases and the weight of the last key to scores with keys `first` to `end`, in base 2. */
static void add_biases(const attention_job *job, float *scores, size_t head, size_t i, size_t first,
                       size_t end)
{
    const float *bias = bias_row(job, head, i, first);
    for (size_t j = 0; bias && j < end - first; j++)
        scores[j] += bias[j] * (float)LOG2_E;
    if (end == job->Lk)
        scores[end - first - 1] += job->extra;
}

/* Hides what query i of sequence b does not see of the keys `first` to `end`. */
static void hide(const attention_job *job, float *scores, const span *p, size_t b, size_t i,
                 size_t first, size_t end)
{
    const zoe_tensor mask = job->form->mask;
    const size_t low = first_key(p, i), high = end_key(p, i);
    for (size_t j = first; j < end && j < low; j++)
        scores[j - first] = -INFINITY;
    for (size_t j = high > first ? high : first; j < end; j++)
        scores[j - first] = -INFINITY;
    if (mask.dtype == ZOE_NONE)
        return;
    const unsigned char *hidden = (const unsigned char *)mask.data + b * (size_t)mask.stride[0] +
                                  i * (size_t)mask.stride[1] + first;
    for (size_t j = 0; j < end - first; j++)
        scores[j] = hidden[j] ? -INFINITY : scores[j];
}

/* One stripe of queries i, i + 1, ... of the sequence, rows m, m + 1, ... of the tile, with the
 * keys `first` to `end`, the first of which is key `begin` of the packed block. */
static void attend_block(const attention_job *job, const attention_scratch *s, const span *p,
                         size_t b, size_t head, size_t i, size_t m, size_t rows, size_t begin,
                         size_t first, size_t end)
{
    const zoe_attention_form *f = job->form;
    const size_t keys = end - first;
    for (size_t j = 0; j < keys; j += ZOE_PANEL)
        job->k->attend(s->scores + j, job->score_stride, NULL, s->q + m * job->q_stride,
                       job->q_stride, s->k + (begin + j) * job->D, rows, job->D);
    const bool biased = f->bias.dtype != ZOE_NONE || (job->extra != 0.0f && end == job->Lk);
    const bool hidden =
        f->mask.dtype != ZOE_NONE || first_key(p, i + rows - 1) > first || end_key(p, i) < end;
    for (size_t r = 0; r < rows && biased; r++)
        add_biases(job, s->scores + r * job->score_stride, head, i + r, first, end);
    for (size_t r = 0; r < rows && hidden; r++)
        hide(job, s->scores + r * job->score_stride, p, b, i + r, first, end);
    const bool begun = s->sum[m] >= 0.0f || isnan(s->sum[m]);
    for (size_t r = 0; r < rows && !begun; r++)
        s->sum[m + r] = 0.0f;
    job->k->softmax_step(s->scores, job->score_stride, rows, keys, s->max + m, s->sum + m,
                         s->factor);
    for (size_t d = 0; d < job->Dv; d += ZOE_PANEL)
        job->k->attend(s->o + m * job->o_stride + d, job->o_stride, begun ? s->factor : NULL,
                       s->scores, job->score_stride,
                       s->v + d / ZOE_PANEL * job->v_distance + begin * ZOE_PANEL, rows, keys);
}

/* Queries i0, i0 + 1, ... of the sequence with all that they see. */
static void attend_running(const attention_job *job, const attention_scratch *s, const span *p,
                           size_t b, size_t head, size_t i0, size_t queries)
{
    const size_t at = job->form->cumulative ? 0 : b, kv_head = head / job->group;
    for (size_t m = 0; m < queries; m++) {
        s->max[m] = -INFINITY;
        s->sum[m] = -1.0f; /* not begun: what is in o is none of ours */
    }
    const size_t low = first_key(p, i0), high = end_key(p, i0 + queries - 1);
    for (size_t block = low / KEYS * KEYS; block < high; block += KEYS) {
        const size_t keys = zoe_min(KEYS, p->keys - block);
        pack_keys(job, s, at, kv_head, p->k0 + block, keys);
        pack_values(job, s, at, kv_head, p->k0 + block, keys);
        for (size_t m = 0; m < queries; m += STRIPE) {
            const size_t rows = zoe_min(STRIPE, queries - m);
            size_t first = first_key(p, i0 + m) / ZOE_PANEL * ZOE_PANEL;
            first = first > block ? first : block;
            const size_t end = zoe_min(block + keys, end_key(p, i0 + m + rows - 1));
            if (first < end)
                attend_block(job, s, p, b, head, i0 + m, m, rows, first - block, first, end);
        }
    }
}

static void attend_rounded(const attention_job *job, const attention_scratch *s, size_t b,
                           size_t head, size_t i0, size_t queries)
{
    const size_t kv_head = head / job->group;
    for (size_t first = 0; first < job->Lk; first += KEYS) {
        const size_t keys = zoe_min(KEYS, job->Lk - first);
        pack_keys(job, s, b, kv_head, first, keys);
        for (size_t j = 0; j < keys; j += ZOE_PANEL)
            job->k->attend(s->scores + first + j, job->score_stride, NULL, s->q, job->q_stride,
                           s->k + j * job->D, queries, job->D);
    }
    for (size_t m = 0; m < queries; m++)
        job->k->softmax_bf16(s->scores + m * job->score_stride, job->Lk, job->form->scale,
                             bias_row(job, head, i0 + m, 0), job->extra);
    for (size_t first = 0; first < job->Lk; first += KEYS) {
        const size_t keys = zoe_min(KEYS, job->Lk - first);
        pack_values(job, s, b, kv_head, first, keys);
        for (size_t d = 0; d < job->Dv; d += ZOE_PANEL)
            for (size_t m = 0; m < queries; m += STRIPE)
                job->k->attend(
                    s->o + m * job->o_stride + d, job->o_stride, first > 0 ? s->factor : NULL,
                    s->scores + m * job->score_stride + first, job->score_stride,
                    s->v + d / ZOE_PANEL * job->v_distance, zoe_min(STRIPE, queries - m), keys);
    }
}

/* Row m of the tile, divided by its sum, to token l; zeroes where nothing was seen. */
static void write_row(const attention_job *job, const attention_scratch *s, size_t b, size_t n,
                      size_t l, size_t m)
{
    const zoe_attention_form *f = job->form;
    float *o = s->o + m * job->o_stride;
    void *target = element(f->o, b, n, l, 0);
    const bool seen = !(s->sum[m] <= 0.0f);
    if (seen) {
        if (s->sum[m] != 1.0f)
            job->k->scale(o, 1.0f / s->sum[m], job->Dv);
        zoe_row_write(job->k, target, f->o.dtype, o, job->Dv);
    } else {
        memset(target, 0, job->Dv * zoe_dtype_bytes(f->o.dtype));
    }
    if (f->lse.dtype != ZOE_NONE) {
        float *lse = element(f->lse, b, n, 0, 0);
        lse[l * (size_t)f->lse.stride[2]] =
            seen ? (float)(((double)s->max[m] + log2((double)s->sum[m])) * LN_2) : f->invalid;
    }
}

static void attention_task(void *arg, size_t i, size_t worker)
{
    const attention_job *job = arg;
    const zoe_attention_form *f = job->form;
    const size_t b = i / job->tiles / job->N, n = i / job->tiles % job->N;
    const size_t i0 = i % job->tiles * job->queries;
    const span p = span_of(job, b);
    if (i0 >= p.rows || zoe_cancelled(job->ctx))
        return;
    attention_scratch s;
    lay_out(job, &s, job->work + worker * job->worker_bytes);
    const size_t rows = zoe_min(job->queries, p.rows - i0), at = f->cumulative ? 0 : b;
    const size_t queries = i0 < p.queries ? zoe_min(rows, p.queries - i0) : 0;
    if (queries > 0) {
        read_queries(job, &s, at, n, p.q0 + i0, queries);
        if (f->round_scores) {
            for (size_t m = 0; m < queries; m++)
                s.sum[m] = 1.0f;
            for (size_t m = 0; m < STRIPE; m++)
                s.factor[m] = 1.0f;
            attend_rounded(job, &s, b, n, i0, queries);
        } else {
            attend_running(job, &s, &p, b, n, i0, queries);
        }
    }
    for (size_t m = queries; m < rows; m++)
        s.sum[m] = 0.0f;
    for (size_t m = 0; m < rows; m++)
        write_row(job, &s, at, n, p.q0 + i0 + m, m);
}

size_t zoe_cpu_attention_workspace(const zoe_context *ctx, const zoe_attention_form *form)
{
    attention_job job = {.tiles = 1};
    attention_scratch s;
    plan_rows(&job, form);
    job.queries = most_queries(&job);
    return lay_out(&job, &s, NULL) * (size_t)zoe_context_threads(ctx);
}

static void choose_kernels(attention_job *job)
{
    const zoe_kernels *k = job->k;
    switch (job->form->k.dtype) {
    case ZOE_F16: job->pack = k->pack_f16; break;
    case ZOE_BF16: job->pack = k->pack_bf16; break;
    default: job->pack = k->pack_f32; break;
    }
    switch (job->form->v.dtype) {
    case ZOE_F16: job->spread = k->spread_f16; break;
    case ZOE_BF16: job->spread = k->spread_bf16; break;
    default: job->spread = k->spread_f32; break;
    }
}

zoe_status zoe_cpu_attention(zoe_context *ctx, const zoe_attention_form *form, zoe_workspace work)
{
    attention_job job = {.ctx = ctx, .k = zoe_kernels_get(), .work = work.data};
    attention_scratch s;
    const double extra = form->last_count > 1 ? log((double)form->last_count) : 0.0;
    plan_rows(&job, form);
    plan_tiles(&job);
    job.q_factor = form->round_scores ? 1.0f : (float)((double)form->scale * LOG2_E);
    job.extra = (float)(form->round_scores ? extra : extra * LOG2_E);
    choose_kernels(&job);
    job.worker_bytes = lay_out(&job, &s, NULL);
    zoe_parallel_for(ctx, form->sequences * job.N * job.tiles, attention_task, &job);
    return zoe_check_cancel(ctx);
}
