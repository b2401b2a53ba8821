/* Step caches: what of the network a step computes, and what is put in for the rest.
 *
 * One step of a run, and one pass of the network in it (docs/CACHES.md has it whole):
 *
 *     TRY(zoe_cache_step(ctx, cache, step, expert, branches));
 *     for (size_t branch; zoe_cache_next(cache, &branch);) {
 *         bool made;
 *         TRY(zoe_cache_begin(ctx, cache, latent, velocity[branch], &made));
 *         if (!made)
 *             the network, with zoe_cache_at before each block and after the last one
 *         TRY(zoe_cache_end(ctx, cache, latent, velocity[branch]));
 *     }
 *
 * State belongs to one run, expert and branch. All memory is taken in zoe_cache_new. Decisions and
 * bytes do not depend on the number of threads. */
#ifndef ZOE_SAMPLE_CACHE_H
#define ZOE_SAMPLE_CACHE_H

#include "sample/sample.h"
#include "zoetrope/cache.h"

typedef struct zoe_cache zoe_cache;

enum {
    ZOE_CACHE_BRANCHES = 2, /* 0 conditional, 1 unconditional */
    ZOE_CACHE_EXPERTS = 2,  /* indexed by zoe_expert */
    ZOE_CACHE_FEWEST = 10   /* steps of a run for which a cache can pay */
};

/* What the run is like. Tokens and latent are those of this rank. */
typedef struct zoe_cache_shape {
    size_t steps;      /* of the whole run */
    size_t high_steps; /* of them, the first ones, of the high-noise expert */
    size_t tokens, width, blocks;
    size_t latent;  /* values */
    bool distilled; /* a model or LoRA made for few steps */
} zoe_cache_shape;

/* Do params suit the run? Errors: ZOE_INVALID, with what would. */
zoe_status zoe_cache_check(zoe_context *ctx, const zoe_cache_params *params,
                           const zoe_cache_shape *shape);
/* Bytes that zoe_cache_new takes, less the few of the handle, for params that zoe_cache_check
 * accepts. SIZE_MAX on overflow. */
size_t zoe_cache_bytes(const zoe_cache_params *params, const zoe_cache_shape *shape);
/* Errors: those of zoe_cache_check; ZOE_NOMEM. */
zoe_status zoe_cache_new(zoe_context *ctx, zoe_cache **cache, const zoe_cache_params *params,
                         const zoe_cache_shape *shape);
void zoe_cache_free(zoe_cache *cache); /* NULL is fine */

/* Which steps a guided run will compute, told before it: for the methods that measure nothing.
 * *known is false for the others, and for MagCache and TaylorSeer computed[steps] is filled.
 * Errors: those of zoe_cache_new. */
zoe_status zoe_cache_foretell(zoe_context *ctx, const zoe_cache_params *params,
                              const zoe_cache_shape *shape, bool *known, bool *computed);

/* Ranks that must decide alike. Each function works in place on n values of every rank of its group
 * and gives all of them the same bits; NULL: there is only this one. They are called in the same
 * passes by all ranks, whatever they measured.
 *
 * sum   over the ranks that share the tokens of a branch
 * max   over those and the ranks that have the other branch; used if params.joint
 * audit has sum agree on every decision: a difference is ZOE_INTERNAL instead of a hang later */
typedef struct zoe_cache_group {
    void *user;
    zoe_status (*sum)(void *user, double *values, size_t n);
    zoe_status (*max)(void *user, double *values, size_t n);
    bool audit;
} zoe_cache_group;
void zoe_cache_set_group(zoe_cache *cache, const zoe_cache_group *group);

/* Begins step `step` of the run by an expert. branches: bit 0 the conditional one, bit 1 the
 * unconditional one; those that this rank computes. Another expert, other branches or a step that
 * is not a later one mean a fresh state. Errors: ZOE_INVALID (no such step, no branch). */
zoe_status zoe_cache_step(zoe_context *ctx, zoe_cache *cache, size_t step, zoe_expert expert,
                          unsigned branches);
/* The branch whose pass is due; false when the step is done. A branch that was left out comes once
 * more when the other one turns out to need computing: its velocity is then overwritten. */
bool zoe_cache_next(zoe_cache *cache, size_t *branch);

/* Before the pass. *made: the velocity was made from the latent [latent values], and the network is
 * not needed. Errors: those of the group's functions; ZOE_INTERNAL (no pass is due). */
zoe_status zoe_cache_begin(zoe_context *ctx, zoe_cache *cache, const float *latent, float *velocity,
                           bool *made);

/* Where a pass of the network is. The vectors are needed at block 0 only, and only by judges that
 * are named after them. */
typedef struct zoe_cache_point {
    size_t block;               /* the next to run; the number of blocks: all have run */
    float *hidden;              /* [tokens, width], dense */
    const float *embedding;     /* [width]: the time embedding */
    const float *projection;    /* [6, width]: modulations from it, without a block's own */
    const float *shift, *scale; /* [width]: of the first norm of block 0, with its own */
    float eps;                  /* of that norm */
} zoe_cache_point;
/* Before each block, and after the last one. *next is the block to run now: point->block, or a
 * later one, whose input then stands in hidden; the number of blocks means none. Errors: those of
 * the group's functions; ZOE_INVALID (a vector is missing). */
zoe_status zoe_cache_at(zoe_context *ctx, zoe_cache *cache, const zoe_cache_point *point,
                        size_t *next);

/* After the pass, made or computed. Errors: ZOE_INTERNAL if the pass never came to the decision. */
zoe_status zoe_cache_end(zoe_context *ctx, zoe_cache *cache, const float *latent,
                         const float *velocity);

/* What was decided of one pass. */
typedef struct zoe_cache_trace {
    bool seen, computed;
    bool measured;      /* distance counts */
    bool bad;           /* the measure was 0, NaN or infinite */
    bool empty;         /* it was to be left out, but nothing was kept to put in */
    uint8_t expert;     /* zoe_expert */
    float distance;     /* relative change of the judge */
    double accumulated; /* of TeaCache, EasyCache, MagCache, DBCache: after the decision */
    double rate;        /* of EasyCache; NaN: not known yet */
} zoe_cache_trace;
const zoe_cache_trace *zoe_cache_trace_at(const zoe_cache *cache, size_t step, size_t branch);

/* The sum of all traces. */
typedef struct zoe_cache_report {
    size_t computed[ZOE_CACHE_EXPERTS][ZOE_CACHE_BRANCHES];
    size_t skipped[ZOE_CACHE_EXPERTS][ZOE_CACHE_BRANCHES];
    size_t repeated; /* passes that ran twice, because the branches disagreed */
    size_t bad, empty;
    size_t bytes;
    size_t measured;
    float smallest, median, largest; /* of the distances measured; NaN if there are none */
} zoe_cache_report;
void zoe_cache_report_of(const zoe_cache *cache, zoe_cache_report *report);

/* The whole state between two steps, for a checkpoint: bytes in place, without pointers. Whoever
 * writes to them calls zoe_cache_restored before the next step.
 * Errors: ZOE_FORMAT if they are no state of such a cache. */
void zoe_cache_state(zoe_cache *cache, void **data, size_t *bytes);
zoe_status zoe_cache_restored(zoe_context *ctx, zoe_cache *cache);

/* ---- the state of a cache that is spread over ranks ---- */

/* A run of the state, which begins with a head of ZOE_CACHE_HEAD bytes that is no piece. */
typedef struct zoe_cache_piece {
    size_t at, bytes; /* from the start of the state */
    size_t row;    /* bytes of a token, of which it holds all of the shape; 0: it is of no tokens */
    size_t branch; /* whose pass writes it; 0 also for what both share */
} zoe_cache_piece;
enum { ZOE_CACHE_PIECES = 24, ZOE_CACHE_HEAD = 256 };
/* The pieces of the state of such a cache, which need not exist; returns their number. *bytes: of the
 * whole state. */
size_t zoe_cache_pieces(const zoe_cache_params *params, const zoe_cache_shape *shape,
                        zoe_cache_piece pieces[ZOE_CACHE_PIECES], size_t *bytes);
/* Makes the head of a state of so many bytes, as one rank would have it, from those of a rank of the
 * conditional branch and of one of the other branch; uncond NULL: the first one had both. */
void zoe_cache_join_heads(void *whole, size_t bytes, const void *cond, const void *uncond);
/* Takes over such a head. branch: the only one that this rank computes in guided steps;
 * ZOE_CACHE_BRANCHES: it computes both. Errors: ZOE_FORMAT (it is not that of a state of so many
 * bytes); zoe_cache_restored has the rest. */
zoe_status zoe_cache_split_head(zoe_context *ctx, zoe_cache *cache, const void *whole, size_t bytes,
                                size_t branch);
/* Puts in what another rank did in a pass of a branch that this one did not compute. */
void zoe_cache_put_trace(zoe_cache *cache, size_t step, size_t branch,
                         const zoe_cache_trace *trace);

#endif
