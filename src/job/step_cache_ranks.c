/* A step cache that lies on several ranks: one decision of all, and its state as one rank would have
 * it, which is what a checkpoint keeps. */
#include "job/ranks.h"
#include "job/step_cache.h"

struct zoe_cache_spread {
    zoe_context *ctx; /* of the run, for the functions that the cache calls */
    const zoe_job *job;
    zoe_cache_piece pieces[ZOE_CACHE_PIECES],
        own[ZOE_CACHE_PIECES]; /* of the whole, of this rank */
    size_t n_pieces, whole_bytes;
    unsigned char *whole; /* the state of one rank that would have everything; first rank only, NULL
                             without a checkpoint */
    zoe_piece *sends, *recvs;
};

/* ---- decisions ---- */

static zoe_status add_up(void *user, double *values, size_t n)
{
    const struct zoe_cache_spread *s = user;
    return zoe_comm_sum(s->ctx, s->job->ranks.token_group, values, n);
}

/* Ranks that share the tokens of a branch have the same values already. */
static zoe_status take_largest(void *user, double *values, size_t n)
{
    const struct zoe_cache_spread *s = user;
    return zoe_comm_max(s->ctx, s->job->ranks.cfg_group, values, n);
}

/* ---- memory ---- */

static size_t most_pieces(const zoe_job *job)
{
    return ZOE_CACHE_PIECES * job->ranks.count + 2;
}

/* Does any rank have something to keep? */
static bool is_kept(const zoe_job *job)
{
    return job->params.checkpoint && zoe_step_cache_is_on(job);
}

size_t zoe_step_cache_spread_bytes(const zoe_job *job, const zoe_cache_shape *whole)
{
    zoe_cache_piece pieces[ZOE_CACHE_PIECES];
    size_t bytes = 0;
    if (job->ranks.count > 1 && is_kept(job) && zoe_ranks_first(job))
        zoe_cache_pieces(&job->cache_params, whole, pieces, &bytes);
    return bytes;
}

static zoe_status take_lists(zoe_context *ctx, struct zoe_cache_spread *s)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, 2 * most_pieces(s->job), sizeof(zoe_piece), "step cache"));
    s->sends = p;
    s->recvs = s->sends + most_pieces(s->job);
    if (!zoe_ranks_first(s->job))
        return ZOE_OK;
    TRY(zoe_alloc_zero(ctx, &p, s->whole_bytes, 1, "step cache"));
    s->whole = p;
    return ZOE_OK;
}

zoe_status zoe_step_cache_spread_begin(zoe_context *ctx, zoe_job *job, const zoe_cache_shape *whole,
                                       const zoe_cache_shape *own)
{
    const zoe_ranks *r = &job->ranks;
    size_t unused;
    void *p;
    if (r->count == 1)
        return ZOE_OK;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(struct zoe_cache_spread), "step cache"));
    struct zoe_cache_spread *s = job->spread = p;
    s->ctx = ctx;
    s->job = job;
    s->n_pieces = zoe_cache_pieces(&job->cache_params, whole, s->pieces, &s->whole_bytes);
    zoe_cache_pieces(&job->cache_params, own, s->own, &unused);
    if (is_kept(job))
        TRY(take_lists(ctx, s));
    zoe_cache_set_group(job->cache, &(zoe_cache_group){.user = s,
                                                       .sum = r->token_group ? add_up : NULL,
                                                       .max = r->cfg_group ? take_largest : NULL,
                                                       .audit = r->audit});
    return ZOE_OK;
}

void zoe_step_cache_spread_end(zoe_job *job)
{
    if (!job->spread)
        return;
    zoe_free(job->spread->sends);
    zoe_free(job->spread->whole);
    zoe_free(job->spread);
    job->spread = NULL;
}

bool zoe_step_cache_spread_state(const zoe_job *job, zoe_tensor *state)
{
    if (!job->spread || !job->spread->whole)
        return false;
    *state = zoe_tensor_1d(job->spread->whole, ZOE_U8, job->spread->whole_bytes);
    return true;
}

/* ---- the state, to the first rank and back ---- */

/* Where the tokens of a rank lie in a piece of the whole; the whole piece if it has no tokens. */
static zoe_piece part_of(const struct zoe_cache_spread *s, size_t i, size_t rank)
{
    const zoe_cache_piece *p = &s->pieces[i];
    const zoe_ranks *r = &s->job->ranks;
    const size_t tokens = r->ulysses * r->ring;
    unsigned char *at = s->whole + p->at;
    if (p->row == 0)
        return (zoe_piece){rank, at, p->bytes};
    const zoe_span span = zoe_share(p->bytes / p->row, tokens, rank % tokens);
    return (zoe_piece){rank, at + span.first * p->row, span.count * p->row};
}

static void *state_of(const zoe_job *job)
{
    void *data;
    size_t bytes;
    zoe_cache_state(job->cache, &data, &bytes);
    return data;
}

static zoe_piece own_part(const struct zoe_cache_spread *s, size_t i)
{
    return (zoe_piece){0, (unsigned char *)state_of(s->job) + s->own[i].at, s->own[i].bytes};
}

/* Does the rank give this piece? One rank of a branch gives what has no tokens. */
static bool gives(const struct zoe_cache_spread *s, size_t i, size_t rank)
{
    const zoe_ranks *r = &s->job->ranks;
    const size_t tokens = r->ulysses * r->ring;
    const size_t branch = r->cfg == 2 ? s->pieces[i].branch : 0;
    return rank / tokens == branch && (s->pieces[i].row > 0 || rank % tokens == 0);
}

/* Is it of use to the rank? The branch without guidance is computed by all. */
static bool needs(const struct zoe_cache_spread *s, size_t i, size_t rank)
{
    const zoe_ranks *r = &s->job->ranks;
    return r->cfg == 1 || s->pieces[i].branch <= rank / (r->ulysses * r->ring);
}

zoe_status zoe_step_cache_gather(zoe_context *ctx, const zoe_job *job)
{
    struct zoe_cache_spread *s = job->spread;
    const zoe_ranks *r = &job->ranks;
    if (!s || !s->sends)
        return ZOE_OK;
    const size_t other = r->ulysses * r->ring; /* first rank of the other branch */
    unsigned char heads[ZOE_CACHE_HEAD];
    size_t out = 0, in = 0;
    for (size_t i = 0; i < s->n_pieces; i++) {
        if (gives(s, i, r->rank))
            s->sends[out++] = own_part(s, i);
        for (size_t rank = 0; rank < r->count && s->whole; rank++)
            if (gives(s, i, rank))
                s->recvs[in++] = part_of(s, i, rank);
    }
    if (r->cfg == 2 && r->rank == other)
        s->sends[out++] = (zoe_piece){0, state_of(job), ZOE_CACHE_HEAD};
    if (r->cfg == 2 && s->whole)
        s->recvs[in++] = (zoe_piece){other, heads, ZOE_CACHE_HEAD};
    zoe_exchange exchange;
    TRY(zoe_exchange_start(ctx, r->all, &exchange, s->sends, out, s->recvs, in,
                           "state of the step cache"));
    TRY(zoe_exchange_wait(ctx, r->all, &exchange));
    if (s->whole)
        zoe_cache_join_heads(s->whole, s->whole_bytes, state_of(job), r->cfg == 2 ? heads : NULL);
    return ZOE_OK;
}

zoe_status zoe_step_cache_scatter(zoe_context *ctx, const zoe_job *job)
{
    struct zoe_cache_spread *s = job->spread;
    const zoe_ranks *r = &job->ranks;
    if (!s || !s->sends)
        return ZOE_OK;
    unsigned char head[ZOE_CACHE_HEAD];
    size_t out = 0, in = 0;
    for (size_t i = 0; i < s->n_pieces; i++) {
        for (size_t rank = 0; rank < r->count && s->whole; rank++)
            if (needs(s, i, rank))
                s->sends[out++] = part_of(s, i, rank);
        if (needs(s, i, r->rank))
            s->recvs[in++] = own_part(s, i);
    }
    zoe_exchange exchange;
    TRY(zoe_exchange_start(ctx, r->all, &exchange, s->sends, out, s->recvs, in,
                           "state of the step cache"));
    TRY(zoe_exchange_wait(ctx, r->all, &exchange));
    if (s->whole)
        memcpy(head, s->whole, sizeof head);
    TRY(zoe_ranks_share(ctx, job, head, sizeof head, 0, "state of the step cache"));
    TRY(zoe_cache_split_head(ctx, job->cache, head, s->whole_bytes,
                             r->cfg == 2 ? r->branch : ZOE_CACHE_BRANCHES));
    return zoe_cache_restored(ctx, job->cache);
}
