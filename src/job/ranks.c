/* Ranks of a job: numbers, groups, and what is told from one to the others. */
#include "job/ranks.h"

#include <stdio.h>
#include <unistd.h>

#include "job/step_cache.h"

bool zoe_ranks_first(const zoe_job *job)
{
    return job->ranks.rank == 0;
}

/* ---- numbers ---- */

static bool is_guided(const zoe_job_params *p)
{
    return p->guide_high != 1.0 || p->guide_low != 1.0;
}

/* cfg x ulysses x ring */
typedef struct split {
    size_t cfg, ulysses, ring;
} split;

/* The next one that makes n, in falling order of its factors; false after the last one. Begin with
 * zeroes. */
static bool next_split(split *s, size_t n, bool guided)
{
    if (s->cfg == 0)
        *s = (split){.cfg = guided ? 2 : 1, .ulysses = n + 1};
    for (; s->cfg > 0; s->cfg--, s->ulysses = n + 1)
        while (--s->ulysses > 0)
            if (n % (s->cfg * s->ulysses) == 0) {
                s->ring = n / (s->cfg * s->ulysses);
                return true;
            }
    return false;
}

static bool suits(const split *s, const zoe_job_params *p)
{
    return (!p->cfg_ranks || p->cfg_ranks == s->cfg) && (!p->ulysses || p->ulysses == s->ulysses) &&
           (!p->ring || p->ring == s->ring);
}

static zoe_status refuse_numbers(zoe_context *ctx, const zoe_job_params *p, size_t n)
{
    const size_t given[] = {p->cfg_ranks, p->ulysses, p->ring};
    char asked[3][32], list[400] = "";
    size_t used = 0;
    split s = {0};
    for (size_t i = 0; i < 3; i++)
        snprintf(asked[i], sizeof asked[i], given[i] ? "%zu" : "any", given[i]);
    while (next_split(&s, n, is_guided(p)) && used + 60 < sizeof list)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%zu x %zu x %zu",
                                 used > 0 ? ", " : "", s.cfg, s.ulysses, s.ring);
    return zoe_fail(
        ctx, ZOE_INVALID,
        "ranks: CFG %s x Ulysses %s x ring %s cannot be made of the %zu rank%s that the "
        "run has; possible %s %s",
        asked[0], asked[1], asked[2], n, n == 1 ? "" : "s", strchr(list, ',') ? "are" : "is", list);
}

zoe_status zoe_ranks_check(zoe_context *ctx, const zoe_job_params *p)
{
    const size_t n = zoe_comm_size(p->comm);
    split s = {0};
    if (p->cfg_ranks > 2)
        return zoe_fail(ctx, ZOE_INVALID,
                        "CFG ranks: %zu; there are two branches, and 1 or 2 is wanted",
                        p->cfg_ranks);
    if (p->cfg_ranks == 2 && !is_guided(p))
        return zoe_fail(ctx, ZOE_INVALID,
                        "CFG ranks: 2, but without guidance (scale 1) there is one branch; give "
                        "these ranks to Ulysses or ring");
    if (p->vae_ranks > n)
        return zoe_fail(ctx, ZOE_INVALID, "VAE ranks: %zu; the run has %zu", p->vae_ranks, n);
    if (p->changed && n > 1)
        return zoe_fail(ctx, ZOE_INVALID,
                        "what changes from step to step is measured by one rank, and the run has "
                        "%zu",
                        n);
    while (next_split(&s, n, is_guided(p)))
        if (suits(&s, p))
            return ZOE_OK;
    return refuse_numbers(ctx, p, n);
}

/* Reference rules go by passes of both branches on one rank. */
static bool splits_branches(const zoe_job *job)
{
    return !zoe_step_cache_is_on(job) || job->cache_params.rule == ZOE_CACHE_ZOETROPE;
}

/* CFG first: it halves the time at one message a step. Then Ulysses, as long as every rank has a head:
 * the result has the bytes of one rank, and less is sent than by a ring, which gets the rest. */
static split choose(const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    const size_t heads = zoe_wan_dims_of(job->wan[ZOE_HIGH_NOISE])->heads;
    const bool guided = is_guided(p) && (p->cfg_ranks == 2 || splits_branches(job));
    split s = {0}, last = {0};
    while (next_split(&s, job->ranks.count, guided)) {
        if (!suits(&s, p))
            continue;
        if (last.cfg > 0 && s.cfg != last.cfg)
            break; /* the rest has less of CFG */
        last = s;
        if (p->ulysses || p->ring || s.ulysses <= heads)
            break;
    }
    return last;
}

/* ---- groups ---- */

/* rank = token + tokens * branch */
static zoe_status make_groups(zoe_context *ctx, zoe_job *job)
{
    zoe_ranks *r = &job->ranks;
    const size_t tokens = r->ulysses * r->ring;
    r->branch = r->rank / tokens;
    r->token = r->rank % tokens;
    TRY(zoe_comm_group_every(ctx, &r->cfg_group, r->all, tokens, r->cfg));
    TRY(zoe_comm_group_every(ctx, &r->token_group, r->all, 1, tokens));
    TRY(zoe_sequence_new(ctx, &r->sequence, r->token_group, r->ulysses, r->ring,
                         job->params.ring_steps));
    return ZOE_OK;
}

zoe_status zoe_ranks_group(zoe_context *ctx, zoe_job *job)
{
    zoe_ranks *r = &job->ranks;
    const split s = choose(job);
    zoe_plan *plan = &job->plan;
    if (s.cfg == 0)
        return refuse_numbers(ctx, &job->params, r->count);
    if (s.cfg == 2 && !splits_branches(job))
        return zoe_fail(
            ctx, ZOE_INVALID,
            "CFG ranks: 2, but step cache %s goes by both branches on one rank; take 1, "
            "or rule=zoetrope",
            job->params.cache);
    r->cfg = plan->cfg_ranks = s.cfg;
    r->ulysses = plan->ulysses = s.ulysses;
    r->ring = plan->ring = s.ring;
    r->vae = plan->vae_ranks = job->params.vae_ranks ? job->params.vae_ranks : r->count;
    plan->ranks = r->count;
    if (r->count == 1)
        return ZOE_OK;
    if (zoe_ranks_first(job))
        zoe_log(ctx, ZOE_INFO, "%zu ranks: CFG %zu x Ulysses %zu x ring %zu, VAE on %zu", r->count,
                r->cfg, r->ulysses, r->ring, r->vae);
    return make_groups(ctx, job);
}

void zoe_ranks_free(zoe_ranks *r)
{
    zoe_sequence_free(&r->sequence);
    zoe_comm_group_free(r->cfg_group);
    zoe_comm_group_free(r->token_group);
}

/* ---- who does what ---- */

zoe_place zoe_ranks_place(const zoe_job *job)
{
    const zoe_ranks *r = &job->ranks;
    return (zoe_place){.ulysses = r->ulysses,
                       .ring = r->ring,
                       .rank = r->token,
                       .stepwise = job->params.ring_steps};
}

unsigned zoe_ranks_branches(const zoe_job *job, double scale)
{
    if (scale == 1.0)
        return 1u << ZOE_COND; /* with CFG ranks, both groups do the same */
    return job->ranks.cfg == 2 ? 1u << job->ranks.branch : 1u << ZOE_COND | 1u << ZOE_UNCOND;
}

bool zoe_ranks_computes(const zoe_job *job, zoe_branch branch)
{
    const bool pair = job->parts.transformers == 2;
    const unsigned all = zoe_ranks_branches(job, job->params.guide_high) |
                         (pair ? zoe_ranks_branches(job, job->params.guide_low) : 0);
    return all & 1u << branch;
}

/* Branches that decide on their own what to leave out do not run the same blocks. */
static bool shares_apart(const zoe_job *job)
{
    return job->ranks.cfg == 2 && zoe_step_cache_is_on(job) && !job->cache_params.joint;
}

zoe_comm *zoe_ranks_of_weights(const zoe_job *job)
{
    return shares_apart(job) ? job->ranks.token_group : job->ranks.all;
}

zoe_standing zoe_ranks_weights_standing(const zoe_job *job)
{
    const zoe_ranks *r = &job->ranks;
    return shares_apart(job) ? (zoe_standing){r->ulysses * r->ring, r->token}
                             : (zoe_standing){r->count, r->rank};
}

size_t zoe_ranks_of_text(const zoe_job *job, size_t branch)
{
    return branch % job->ranks.count;
}

/* ---- what is told ---- */

zoe_status zoe_ranks_meet(zoe_context *ctx, const zoe_job *job, zoe_status mine)
{
    return zoe_comm_agree(ctx, job->ranks.all, mine);
}

zoe_status zoe_ranks_tell(zoe_context *ctx, zoe_comm *comm, zoe_status status)
{
    if (status != ZOE_OK && status != ZOE_PEER)
        zoe_comm_fail(comm, zoe_context_message(ctx));
    return status;
}

zoe_status zoe_ranks_share(zoe_context *ctx, const zoe_job *job, void *data, size_t bytes,
                           size_t root, const char *what)
{
    return zoe_comm_broadcast(ctx, job->ranks.all, data, bytes, root, what);
}

zoe_status zoe_ranks_share_floats(zoe_context *ctx, const zoe_job *job, float **values,
                                  size_t count, size_t root, const char *what)
{
    if (!*values) {
        void *p;
        TRY(zoe_alloc(ctx, &p, count, sizeof(float), what));
        *values = p;
    }
    return zoe_ranks_share(ctx, job, *values, count * sizeof(float), root, what);
}

zoe_status zoe_ranks_share_kept(zoe_context *ctx, zoe_job *job)
{
    uint64_t kept[] = {job->context[ZOE_COND] != NULL, job->condition != NULL,
                       job->plan.steps_done};
    TRY(zoe_ranks_share(ctx, job, kept, sizeof kept, 0, "state of the checkpoint"));
    job->kept_context = kept[0] != 0;
    job->kept_condition = kept[1] != 0;
    job->plan.steps_done = (size_t)kept[2];
    return ZOE_OK;
}

zoe_status zoe_ranks_share_pairs(zoe_context *ctx, zoe_job *job)
{
    double apart = job->plan.pairs ? 0.0 : 1.0;
    TRY(zoe_comm_max(ctx, job->ranks.all, &apart, 1));
    job->plan.pairs = apart == 0.0;
    return ZOE_OK;
}

/* ---- have all the same? ---- */

/* What shapes the result, or what ranks say to each other, on one rank. */
typedef struct card {
    char isa[16], ways[96];
    char weights[ZOE_WEIGHTS_COUNT][ZOE_DIGEST_TEXT];
    char pictures[ZOE_ENDS][ZOE_DIGEST_TEXT];
    char identity[ZOE_DIGEST_TEXT]; /* of all this, and of the request */
} card;

static zoe_status fill_card(zoe_context *ctx, zoe_job *job, card *c)
{
    memset(c, 0, sizeof *c);
    TRY(zoe_sources_weights(ctx, job));
    TRY(zoe_sources_tokens(ctx, job));
    TRY(zoe_sources_identity(ctx, job, c->identity));
    const zoe_job_params *p = &job->params;
    const zoe_ranks *r = &job->ranks;
    snprintf(c->isa, sizeof c->isa, "%s", zoe_isa_name(zoe_cpu_isa()));
    snprintf(c->ways, sizeof c->ways, "%zu %zu %zu %zu %d %d %d %d %d", r->cfg, r->ulysses, r->ring,
             r->vae, p->ring_steps, p->shard_weights, zoe_job_makes_frames(p),
             p->checkpoint != NULL, p->trace != NULL);
    memcpy(c->weights, job->sources.weights, sizeof c->weights);
    memcpy(c->pictures[ZOE_FIRST], job->sources.image, ZOE_DIGEST_TEXT);
    memcpy(c->pictures[ZOE_LAST], job->sources.last_image, ZOE_DIGEST_TEXT);
    return ZOE_OK;
}

static zoe_status compare_cards(zoe_context *ctx, const zoe_job *job, const card *first,
                                const card *other, size_t rank)
{
    static const char *const parts[ZOE_WEIGHTS_COUNT] = {"transformer", "low-noise transformer",
                                                         "VAE", "text encoder", "CLIP image tower"};
    if (strcmp(first->isa, other->isa) != 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "rank %zu runs on the instruction set %s, rank 0 on %s, so that their last "
                        "bits would differ; set ZOE_CPU for all to one that all have",
                        rank, other->isa, first->isa);
    for (size_t i = 0; i < ZOE_WEIGHTS_COUNT; i++)
        if (strcmp(first->weights[i], other->weights[i]) != 0)
            return zoe_fail(ctx, ZOE_INVALID,
                            "rank %zu has another %s than rank 0 (%.12s, there %.12s); the same "
                            "files are wanted on all",
                            rank,
                            i == ZOE_WEIGHTS_HIGH && job->parts.transformers == 2
                                ? "high-noise transformer"
                                : parts[i],
                            other->weights[i], first->weights[i]);
    for (size_t i = 0; i < ZOE_ENDS; i++)
        if (strcmp(first->pictures[i], other->pictures[i]) != 0)
            return zoe_fail(ctx, ZOE_INVALID,
                            "rank %zu has another picture than rank 0 (%.12s, there %.12s)", rank,
                            other->pictures[i], first->pictures[i]);
    if (strcmp(first->identity, other->identity) != 0 || strcmp(first->ways, other->ways) != 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "rank %zu was given another request than rank 0; all need the same "
                        "options, outputs, LoRAs and config.json",
                        rank);
    return ZOE_OK;
}

/* One thing of `bytes` bytes of every rank, in their order; free *all. filled: whether there is an own
 * one. */
static zoe_status gather_cards(zoe_context *ctx, const zoe_job *job, void **all, const void *own,
                               size_t bytes, zoe_status filled)
{
    const size_t n = job->ranks.count;
    void *sizes = NULL;
    zoe_status status = filled;
    *all = NULL;
    if (status == ZOE_OK)
        status = zoe_alloc(ctx, all, n, bytes, "ranks");
    if (status == ZOE_OK)
        status = zoe_alloc(ctx, &sizes, n, sizeof(size_t), "ranks");
    TRY_GOTO(zoe_ranks_meet(ctx, job, status));
    for (size_t i = 0; i < n; i++)
        ((size_t *)sizes)[i] = bytes;
    status = zoe_comm_gather(ctx, job->ranks.all, *all, own, sizes, "what ranks have");
done:
    zoe_free(sizes);
    return status;
}

zoe_status zoe_ranks_compare(zoe_context *ctx, zoe_job *job)
{
    const size_t n = job->ranks.count;
    card own;
    void *cards;
    if (n == 1)
        return ZOE_OK;
    zoe_status status = gather_cards(ctx, job, &cards, &own, sizeof own, fill_card(ctx, job, &own));
    const card *all = cards;
    for (size_t i = 1; i < n && status == ZOE_OK; i++) {
        status = compare_cards(ctx, job, &all[0], &all[i], i);
        if (status != ZOE_OK)
            zoe_comm_blame(job->ranks.all, i);
    }
    zoe_free(cards);
    return status;
}

/* ---- who is on one host? ---- */

enum { HOST_TEXT = 256 };

/* What one rank says of its host, and holds there. */
typedef struct host_card {
    char host[HOST_TEXT];
    uint64_t bytes[ZOE_PHASE_COUNT], shards;
} host_card;

/* The system that was booted, and the name that it has here: machines may have one name, and containers
 * with names of their own have limits of their own as well. */
static void name_host(char host[HOST_TEXT])
{
    char name[HOST_TEXT - 64] = "", boot[40] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(boot, sizeof boot, f))
        boot[0] = '\0';
    if (f)
        fclose(f);
    if (gethostname(name, sizeof name - 1) != 0)
        name[0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    snprintf(host, HOST_TEXT, "%s %s", boot, name);
}

static size_t sum(size_t a, size_t b)
{
    size_t n;
    return zoe_size_add(&n, a, b) ? n : SIZE_MAX;
}

zoe_status zoe_ranks_share_host(zoe_context *ctx, zoe_job *job, const size_t bytes[ZOE_PHASE_COUNT],
                                size_t shards)
{
    zoe_host *host = &job->ranks.host;
    host_card own;
    void *cards;
    *host = (zoe_host){.ranks = 1};
    if (job->ranks.count == 1)
        return ZOE_OK;
    memset(&own, 0, sizeof own);
    name_host(own.host);
    own.shards = shards;
    for (size_t p = 0; p < ZOE_PHASE_COUNT; p++)
        own.bytes[p] = bytes[p];
    const zoe_status status = gather_cards(ctx, job, &cards, &own, sizeof own, ZOE_OK);
    const host_card *all = cards;
    for (size_t i = 0; i < job->ranks.count && status == ZOE_OK; i++) {
        if (i == job->ranks.rank || strcmp(all[i].host, own.host) != 0)
            continue;
        host->ranks++;
        host->shards = sum(host->shards, (size_t)all[i].shards);
        for (size_t p = 0; p < ZOE_PHASE_COUNT; p++)
            host->others[p] = sum(host->others[p], (size_t)all[i].bytes[p]);
    }
    zoe_free(cards);
    return status;
}

/* ---- in the steps ---- */

zoe_status zoe_ranks_exchange_branches(zoe_context *ctx, const zoe_job *job, size_t step)
{
    const zoe_ranks *r = &job->ranks;
    const size_t own = r->branch, other = 1 - own, bytes = job->latent_count * sizeof(float);
    if (r->cfg < 2)
        return ZOE_OK;
    zoe_cache_trace mine, theirs;
    memset(&mine, 0, sizeof mine);
    mine = *zoe_cache_trace_at(job->cache, step, own);
    theirs = mine;
    const zoe_piece sends[] = {{other, job->velocity[own], bytes}, {other, &mine, sizeof mine}};
    const zoe_piece recvs[] = {{other, job->velocity[other], bytes},
                               {other, &theirs, sizeof theirs}};
    const size_t pieces = zoe_step_cache_is_on(job) ? 2 : 1; /* else both branches ran */
    zoe_exchange exchange;
    TRY(zoe_exchange_start(ctx, r->cfg_group, &exchange, sends, pieces, recvs, pieces,
                           "velocities of the branches"));
    TRY(zoe_exchange_wait(ctx, r->cfg_group, &exchange));
    zoe_cache_put_trace(job->cache, step, other, &theirs);
    return ZOE_OK;
}
