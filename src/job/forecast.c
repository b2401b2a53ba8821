/* See forecast.h. Sizes come from the same functions as those of a run; here it is only said which of
 * them a run calls, how often, and with which rank. */
#include "job/forecast.h"

#include <stdio.h>

#include "job/lora.h"
#include "job/ranks.h"
#include "job/step_cache.h"

struct zoe_forecast {
    zoe_context *ctx;
    const zoe_job *job;
    zoe_vae *vae;
    zoe_pass_sizes pass;
    size_t guided, plain, experts; /* steps with guidance and without; networks that are at work */
    size_t passes[ZOE_EXPERTS][2]; /* steps of each, without guidance and with it */
    size_t pictures;               /* frames that the VAE encodes; 0: none */
    double text_elements, clip_elements;
    double encode_work, decode_work;
};

size_t zoe_layout_ranks(const zoe_layout *l)
{
    return l->cfg * l->ulysses * l->ring;
}

/* The job as a rank of such ranks would have it. */
static zoe_job stand_in(const zoe_forecast *f, const zoe_layout *l, size_t rank)
{
    const size_t tokens = l->ulysses * l->ring;
    zoe_job job = *f->job;
    job.ranks = (zoe_ranks){.count = zoe_layout_ranks(l),
                            .rank = rank,
                            .cfg = l->cfg,
                            .ulysses = l->ulysses,
                            .ring = l->ring,
                            .vae = l->vae,
                            .branch = rank / tokens,
                            .token = rank % tokens};
    return job;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- what there is to do ---- */

/* Elements of all matrices that rows are multiplied with: a table of embeddings is none. */
static double count_elements(const zoe_store *store)
{
    double n = 0.0;
    for (size_t i = 0; store && i < zoe_store_count(store); i++) {
        const zoe_tensor t = zoe_store_tensor(store, i);
        if (t.rank >= 2 && !strstr(zoe_store_name(store, i), "embedding"))
            n += (double)zoe_tensor_count(t);
    }
    return n;
}

static bool is_guided(const zoe_job *job, size_t step)
{
    const bool high = zoe_job_expert(job, step) == ZOE_HIGH_NOISE;
    return (high ? job->params.guide_high : job->params.guide_low) != 1.0;
}

static void fill(zoe_forecast *f)
{
    const zoe_job *job = f->job;
    const zoe_plan *p = &job->plan;
    const zoe_wan_dims *d = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]);
    const size_t keys = larger(p->prompt_tokens, p->negative_tokens);
    f->pass = (zoe_pass_sizes){.tokens = p->tokens,
                               .dim = d->dim,
                               .ffn_dim = d->ffn_dim,
                               .heads = d->heads,
                               .layers = d->layers,
                               .in = 4 * d->in_dim,
                               .out = 4 * d->out_dim,
                               .keys = keys + job->feature_rows,
                               .element = job->params.bf16 ? 2 : sizeof(float)};
    for (size_t i = 0; i < job->schedule.steps; i++)
        f->passes[zoe_job_expert(job, i)][is_guided(job, i)]++;
    f->guided = f->passes[ZOE_HIGH_NOISE][1] + f->passes[ZOE_LOW_NOISE][1];
    f->plain = job->schedule.steps - f->guided;
    f->experts = (size_t)(p->high_steps > 0) + (size_t)(p->low_steps > 0);
    f->text_elements = count_elements(job->text_store);
    f->clip_elements = count_elements(job->clip_store);
    if (zoe_job_has_condition(job)) {
        f->pictures = job->family->masked ? p->frames : 1;
        f->encode_work = zoe_vae_work(f->vae, true, f->pictures, p->height, p->width);
    }
    f->decode_work = zoe_vae_work(f->vae, false, p->frames, p->height, p->width);
}

zoe_status zoe_forecast_new(zoe_context *ctx, zoe_forecast **forecast, const zoe_job *job)
{
    void *p;
    *forecast = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **forecast, "forecast"));
    zoe_forecast *f = p;
    f->ctx = ctx;
    f->job = job;
    const zoe_status status = zoe_vae_open(ctx, &f->vae, job->vae_store);
    if (status != ZOE_OK) {
        zoe_free(f);
        return status;
    }
    fill(f);
    *forecast = f;
    return ZOE_OK;
}

void zoe_forecast_free(zoe_forecast *f)
{
    if (!f)
        return;
    zoe_vae_close(f->vae);
    zoe_free(f);
}

const zoe_pass_sizes *zoe_forecast_pass(const zoe_forecast *f)
{
    return &f->pass;
}

/* ---- bytes that are held ---- */

void zoe_forecast_bytes(const zoe_forecast *f, const zoe_layout *l, size_t rank,
                        zoe_rank_bytes *bytes)
{
    const zoe_job job = stand_in(f, l, rank);
    zoe_plan_count(f->ctx, &job, f->vae, bytes);
}

static size_t plus(size_t a, size_t b)
{
    size_t n;
    return zoe_size_add(&n, a, b) ? n : SIZE_MAX;
}

zoe_peaks_of_rank zoe_rank_peaks(const zoe_rank_bytes *b)
{
    zoe_peaks_of_rank most = {0, 0};
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        const size_t all = plus(b->weights[i], b->work[i]);
        const size_t streamed = plus(b->least[i], b->streaming[i]);
        most.resident = larger(most.resident, all);
        most.streamed = larger(most.streamed, streamed < all ? streamed : all);
    }
    return most;
}

/* ---- bytes that are sent ---- */

static zoe_vae_need encode_need(const zoe_forecast *f, const zoe_layout *l, size_t rank)
{
    const zoe_plan *p = &f->job->plan;
    return f->pictures ? zoe_vae_encode_need(f->ctx, f->vae, f->pictures, p->height, p->width,
                                             zoe_layout_ranks(l), l->vae, rank)
                       : (zoe_vae_need){0};
}

static zoe_vae_need decode_need(const zoe_forecast *f, const zoe_layout *l, size_t rank)
{
    const zoe_plan *p = &f->job->plan;
    return zoe_vae_decode_need(f->ctx, f->vae, p->latent_frames, p->latent_height, p->latent_width,
                               zoe_layout_ranks(l), l->vae, rank);
}

static uint64_t edge_bytes(const zoe_vae_need *need)
{
    return need->traffic.sent - need->ends.sent - need->keys.sent;
}

static size_t context_bytes(const zoe_forecast *f, size_t branch)
{
    const zoe_plan *p = &f->job->plan;
    const size_t rows = branch == ZOE_COND ? p->prompt_tokens : p->negative_tokens;
    return rows * zoe_wan_dims_of(f->job->wan[ZOE_HIGH_NOISE])->text_dim * sizeof(float);
}

static size_t feature_bytes(const zoe_forecast *f)
{
    const zoe_job *job = f->job;
    return job->clip ? job->feature_rows * zoe_clip_dim(job->clip) * sizeof(float) : 0;
}

/* Bytes of what one rank of a pair of branches sends the other. */
static size_t branch_bytes(const zoe_forecast *f)
{
    const zoe_plan *p = &f->job->plan;
    const size_t cells = p->latent_frames * p->latent_height * p->latent_width;
    const size_t trace = zoe_step_cache_is_on(f->job) ? sizeof(zoe_cache_trace) : 0;
    return cells * zoe_wan_dims_of(f->job->wan[ZOE_HIGH_NOISE])->out_dim * sizeof(float) + trace;
}

/* Weights that the rank sends in a pass of an expert. */
static uint64_t weight_bytes(const zoe_job *job, size_t expert)
{
    const zoe_standing s = zoe_ranks_weights_standing(job);
    const bool shared = job->params.shard_weights && !job->params.int8 && job->wan[expert];
    return shared ? zoe_wan_shard_sent(job->wan[expert], s.count, s.rank) : 0;
}

/* Those of all steps. */
static uint64_t steps_weight_bytes(const zoe_forecast *f, const zoe_job *job)
{
    const size_t passes = job->ranks.cfg == 2 ? 1 : 2; /* of a step with guidance */
    uint64_t bytes = 0;
    for (size_t e = 0; e < ZOE_EXPERTS; e++)
        bytes += weight_bytes(job, e) * (f->passes[e][0] + passes * f->passes[e][1]);
    return bytes;
}

/* Those of a pass, apart. */
static void count_pass(const zoe_forecast *f, const zoe_job *job, zoe_rank_sent *s)
{
    const zoe_pass_sizes *z = &f->pass;
    const zoe_plan *p = &job->plan;
    const zoe_place place = zoe_ranks_place(job);
    const uint64_t all = zoe_wan_sent(zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE]), job->params.bf16,
                                      p->latent_frames, p->latent_height, p->latent_width, &place);
    const size_t width = z->dim / z->heads;
    const uint64_t attention =
        z->layers * zoe_sequence_attention_sent(&place, z->tokens, z->heads, width, z->element);
    s->ulysses =
        z->layers * zoe_sequence_ulysses_sent(&place, z->tokens, z->heads, width, z->element);
    s->ring = attention - s->ulysses;
    s->head = all - attention;
    for (size_t e = 0; e < ZOE_EXPERTS; e++) {
        const uint64_t weights = weight_bytes(job, e);
        s->weights = weights > s->weights ? weights : s->weights;
    }
}

void zoe_forecast_sent(const zoe_forecast *f, const zoe_layout *l, size_t rank, zoe_rank_sent *sent)
{
    const zoe_job job = stand_in(f, l, rank);
    const size_t n = zoe_layout_ranks(l);
    const zoe_vae_need encode = encode_need(f, l, rank), decode = decode_need(f, l, rank);
    zoe_rank_sent s = {.encode_edges = edge_bytes(&encode),
                       .encode_keys = encode.keys.sent,
                       .latent = encode.ends.sent,
                       .decode_edges = edge_bytes(&decode),
                       .decode_keys = decode.keys.sent,
                       .frames = decode.ends.sent,
                       .branches = l->cfg == 2 ? branch_bytes(f) : 0};
    const uint64_t words = sizeof(double) * (uint64_t)(n - 1); /* of an agreement */
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        s.contexts +=
            zoe_comm_broadcast_copies(n, rank, zoe_ranks_of_text(&job, b)) * context_bytes(f, b);
    s.features = zoe_comm_broadcast_copies(n, rank, 0) * feature_bytes(f);
    count_pass(f, &job, &s);
    const uint64_t pass = s.ulysses + s.ring + s.head;
    const unsigned passes = l->cfg == 2 ? 1 : 2;
    s.plain_step = pass + s.weights;
    s.guided_step = passes * s.plain_step + s.branches;
    s.phase[ZOE_PHASE_TEXT] = s.contexts + words;
    s.phase[ZOE_PHASE_ENCODE] = f->pictures ? encode.traffic.sent + s.features + words : 0;
    s.phase[ZOE_PHASE_STEPS] =
        f->guided * (passes * pass + s.branches) + f->plain * pass + steps_weight_bytes(f, &job);
    s.phase[ZOE_PHASE_DECODE] = decode.traffic.sent + words;
    *sent = s;
}

/* ---- time ---- */

static double text_time(const zoe_forecast *f, const zoe_layout *l, const zoe_speeds *s)
{
    const size_t n = zoe_layout_ranks(l);
    const double rows[ZOE_BRANCHES] = {(double)f->job->plan.prompt_tokens,
                                       (double)f->job->plan.negative_tokens};
    const double most = n == 1              ? rows[0] + rows[1] /* in one walk over the weights */
                        : rows[0] > rows[1] ? rows[0]
                                            : rows[1];
    double t = zoe_estimate_products(s, most, f->text_elements);
    for (size_t b = 0; b < ZOE_BRANCHES; b++)
        t += zoe_estimate_broadcast(s, n, (double)context_bytes(f, b));
    return t;
}

/* The first patch is the largest; one in the middle sends most; the first rank gets the result. */
static double vae_time(const zoe_forecast *f, const zoe_layout *l, const zoe_speeds *s, bool encode)
{
    const size_t h = f->job->plan.latent_height, w = f->job->plan.latent_width;
    const zoe_vae_grid grid = zoe_vae_grid_choose(l->vae, h, w);
    const double area = (double)zoe_vae_grid_share(h, grid.rows, 0).count *
                        (double)zoe_vae_grid_share(w, grid.columns, 0).count;
    const size_t middle = grid.rows / 2 * grid.columns + grid.columns / 2;
    const zoe_vae_need most = encode ? encode_need(f, l, middle) : decode_need(f, l, middle);
    const zoe_vae_need first = encode ? encode_need(f, l, 0) : decode_need(f, l, 0);
    const double work = encode ? f->encode_work : f->decode_work;
    const uint64_t bytes =
        most.traffic.sent > first.traffic.received ? most.traffic.sent : first.traffic.received;
    return work * area / ((double)h * (double)w) / s->convolution +
           zoe_estimate_exchange(s, (double)most.traffic.exchanges, (double)bytes);
}

static double encode_time(const zoe_forecast *f, const zoe_layout *l, const zoe_speeds *s)
{
    if (!f->pictures)
        return 0.0;
    return zoe_estimate_products(s, (double)f->job->feature_rows, f->clip_elements) +
           zoe_estimate_broadcast(s, zoe_layout_ranks(l), (double)feature_bytes(f)) +
           vae_time(f, l, s, true);
}

/* Keys and values of the prompts, anew for each expert. */
static double texts_time(const zoe_forecast *f, const zoe_layout *l, const zoe_speeds *s)
{
    const zoe_wan_dims *d = zoe_wan_dims_of(f->job->wan[ZOE_HIGH_NOISE]);
    const double D = (double)d->dim, rows = (double)f->pass.keys;
    const double elements = 2.0 * (double)d->layers * D * D + (D + (double)d->text_dim) * D;
    const double both = f->guided > 0 && l->cfg == 1 ? 2.0 : 1.0;
    return (double)f->experts * zoe_estimate_products(s, both * rows, elements);
}

void zoe_forecast_time(const zoe_forecast *f, const zoe_layout *l, const zoe_speeds *s,
                       zoe_run_time *time)
{
    const zoe_job job = stand_in(f, l, 0);
    const zoe_place place = zoe_ranks_place(&job);
    zoe_run_time t = {.pass = zoe_estimate_pass(&f->pass, &place, s)};
    const double layers = (double)f->pass.layers, block = t.pass.total / layers;
    const double sent =
        (double)larger(weight_bytes(&job, ZOE_HIGH_NOISE), weight_bytes(&job, ZOE_LOW_NOISE));
    const double others = (double)zoe_ranks_weights_standing(&job).count - 1;
    const double comes = sent > 0 ? zoe_estimate_exchange(s, others, sent / layers) : 0.0;
    if (comes > block) { /* the next block's come while one computes */
        t.weights = layers * (comes - block);
        t.pass.total += t.weights;
    }
    if (l->cfg == 2)
        t.branches = zoe_estimate_exchange(s, 1, (double)branch_bytes(f));
    const double guided = (l->cfg == 2 ? 1.0 : 2.0) * t.pass.total + t.branches;
    t.step = f->guided >= f->plain ? guided : t.pass.total;
    t.phase[ZOE_PHASE_TEXT] = text_time(f, l, s);
    t.phase[ZOE_PHASE_ENCODE] = encode_time(f, l, s);
    t.phase[ZOE_PHASE_STEPS] =
        texts_time(f, l, s) + (double)f->guided * guided + (double)f->plain * t.pass.total;
    t.phase[ZOE_PHASE_DECODE] = vae_time(f, l, s, false);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        t.total += t.phase[i];
    *time = t;
}

/* ---- choosing ---- */

static bool suits(const zoe_layout *wanted, const zoe_layout *l)
{
    return (!wanted->cfg || wanted->cfg == l->cfg) &&
           (!wanted->ulysses || wanted->ulysses == l->ulysses) &&
           (!wanted->ring || wanted->ring == l->ring);
}

/* What a layout is judged by. */
typedef struct merit {
    bool fits;
    double step;
    uint64_t sent; /* in a step */
} merit;

static merit merit_of(const zoe_forecast *f, const zoe_layout *l, const zoe_speeds *s,
                      size_t memory)
{
    zoe_run_time time;
    zoe_rank_bytes bytes;
    zoe_rank_sent sent;
    zoe_forecast_time(f, l, s, &time);
    zoe_forecast_bytes(f, l, 0, &bytes);
    zoe_forecast_sent(f, l, 0, &sent);
    return (merit){!memory || zoe_rank_peaks(&bytes).streamed <= memory, time.step,
                   sent.guided_step};
}

/* Times are estimates: of those that differ by a few percent, the one that sends less. */
static bool is_better(merit a, merit b)
{
    static const double alike = 1.03;
    if (a.fits != b.fits)
        return a.fits;
    if (a.step > alike * b.step || b.step > alike * a.step)
        return a.step < b.step;
    return a.sent < b.sent;
}

/* Of those with so many CFG ranks, most Ulysses ranks first; false if there is none. */
static bool choose_tokens(const zoe_forecast *f, size_t ranks, size_t cfg, const zoe_layout *wanted,
                          const zoe_speeds *s, size_t memory, zoe_layout *best)
{
    const size_t vae = wanted->vae ? wanted->vae : ranks;
    bool found = false;
    merit most = {0};
    if (ranks % cfg != 0)
        return false;
    for (size_t u = ranks / cfg; u > 0; u--) {
        const zoe_layout l = {cfg, u, ranks / cfg / u, vae};
        if (zoe_layout_ranks(&l) != ranks || !suits(wanted, &l))
            continue;
        const merit m = merit_of(f, &l, s, memory);
        if (!found || is_better(m, most)) {
            most = m;
            *best = l;
        }
        found = true;
    }
    return found;
}

zoe_status zoe_forecast_choose(zoe_context *ctx, const zoe_forecast *f, size_t ranks,
                               const zoe_layout *wanted, const zoe_speeds *speeds, size_t memory,
                               zoe_layout *layout)
{
    const zoe_job *job = f->job;
    const bool apart = !zoe_step_cache_is_on(job) || job->cache_params.rule == ZOE_CACHE_ZOETROPE;
    const bool pair = f->guided > 0 && apart;
    if (wanted->cfg == 2 && !pair)
        return zoe_fail(ctx, ZOE_INVALID, "CFG ranks: 2, but %s",
                        f->guided > 0 ? "the step cache goes by both branches on one rank"
                                      : "without guidance there is one branch");
    if (wanted->vae > ranks)
        return zoe_fail(ctx, ZOE_INVALID, "VAE ranks: %zu of %zu ranks", wanted->vae, ranks);
    for (size_t cfg = pair ? 2 : 1; cfg > 0; cfg--)
        if (choose_tokens(f, ranks, cfg, wanted, speeds, memory, layout))
            return ZOE_OK;
    const size_t numbers[] = {wanted->cfg, wanted->ulysses, wanted->ring};
    char asked[3][32];
    for (size_t i = 0; i < 3; i++)
        snprintf(asked[i], sizeof asked[i], numbers[i] ? "%zu" : "any", numbers[i]);
    return zoe_fail(ctx, ZOE_INVALID, "%zu rank%s cannot be made of CFG %s x Ulysses %s x ring %s",
                    ranks, ranks == 1 ? "" : "s", asked[0], asked[1], asked[2]);
}
