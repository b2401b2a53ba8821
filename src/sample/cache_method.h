/* Inside the step caches; for the cache*.c files only. */
#ifndef ZOE_SAMPLE_CACHE_METHOD_H
#define ZOE_SAMPLE_CACHE_METHOD_H

#include "sample/cache.h"

typedef enum cache_verdict { CACHE_COMPUTE, CACHE_SKIP, CACHE_MEASURE } cache_verdict;

/* State of one branch of the expert at work. No pointers: it is part of a checkpoint. */
typedef struct cache_branch {
    uint64_t judged; /* is a judge kept? */
    uint64_t points; /* values that the series was made from */
    uint64_t values; /* FoCa: those and the forecast ones */
    uint64_t last;   /* when the last of them was computed, in steps since the state was fresh */
    uint64_t streak; /* passes left out since then */
    uint64_t skipped;
    double accumulated;
    double product, error; /* MagCache */
    uint64_t run;
    uint64_t outputs; /* EasyCache: outputs computed so far */
    double rate;      /* NaN: not known */
} cache_branch;

/* What outlives a step, besides the buffers. */
typedef struct cache_memory {
    uint64_t magic, bytes;
    uint64_t begun, step, since, calls, expert, mask;
    cache_branch branch[ZOE_CACHE_BRANCHES];
} cache_memory;

enum { CACHE_FACTORS = ZOE_CACHE_ORDER + 1, FOCA_FACTORS = 4 };

typedef struct cache_buffers {
    void *judge;
    void *factor[CACHE_FACTORS]; /* of the residual's series; of FoCa, see cache_taylor.c */
    float *delta;                /* EasyCache: output less input */
} cache_buffers;

typedef struct cache_method cache_method;

struct zoe_cache {
    zoe_cache_params params;
    zoe_cache_shape shape;
    const cache_method *method;
    zoe_cache_group group;
    size_t from, to; /* blocks from .. to - 1 may be left out */
    size_t judge_rows, judge_width, factors;
    zoe_dtype judge_type;
    zoe_arena arena;
    zoe_cache_piece pieces[ZOE_CACHE_PIECES]; /* of the state */
    size_t n_pieces;
    size_t state_bytes; /* of the arena, from its start: what a checkpoint has to keep */
    cache_memory *memory;
    cache_buffers buffers[ZOE_CACHE_BRANCHES];
    float *easy[3]; /* EasyCache: x_prev, o_prev, x of the last computed step */
    float *scratch; /* [tokens, width] */
    double *partial;
    zoe_cache_trace *traces; /* [steps, branches] */
    size_t repeated;

    /* the step at work */
    unsigned due;  /* branches still to run */
    unsigned done; /* branches that ran */
    unsigned left; /* of them, those left out */
    bool any_computed;
    bool mag_skip; /* MagCache: the step is left out */
    /* the pass at work */
    size_t branch;
    bool again;   /* it was left out, and must be computed after all */
    bool open;    /* begun, not ended */
    bool settled; /* the decision fell */
    bool skip;
};

struct cache_method {
    const char *name;
    unsigned rules;   /* bit r: it has zoe_cache_rule r */
    unsigned carries; /* bit r: under that rule state outlives run and expert */
    bool clears;      /* computing sets what was accumulated to 0 */
    void (*defaults)(zoe_cache_params *p);
    zoe_status (*check)(zoe_context *ctx, const zoe_cache_params *p, const zoe_cache_shape *shape);
    /* What is known before anything is measured. */
    cache_verdict (*foresee)(zoe_cache *c, cache_branch *s, zoe_cache_trace *trace);
    /* The number to hold against the threshold, from the relative change of the judge. */
    double (*weigh)(zoe_cache *c, cache_branch *s, float ratio);
};

extern const cache_method zoe_cache_none, zoe_cache_first, zoe_cache_tea, zoe_cache_taylor,
    zoe_cache_easy, zoe_cache_dual, zoe_cache_mag;
const cache_method *zoe_cache_method_of(zoe_cache_method method);

static inline unsigned cache_bit(zoe_cache_rule rule)
{
    return 1u << (unsigned)rule;
}

static inline size_t cache_state_of(const zoe_cache *c, size_t branch)
{
    return c->params.separate ? branch : 0;
}

/* The first and last steps, by the plan of the run. */
cache_verdict zoe_cache_foresee_ends(const zoe_cache *c);

/* ---- cache_measure.c ---- */

typedef enum cache_sum { SUM_CHANGE, SUM_BEFORE, SUM_NOW, SUM_COUNT, CACHE_SUMS } cache_sum;

/* Sums over now [rows, width] and before (of type `type`), of every stride-th feature: |now -
 * before|, |before|, |now|, and how many. The order of adding is fixed. partial: scratch, CACHE_SUMS
 * values a part. */
void zoe_cache_measure(const zoe_context *ctx, double *partial, double sums[CACHE_SUMS],
                       const float *now, const void *before, zoe_dtype type, size_t rows,
                       size_t width, size_t stride);
/* Room for the parts of the sums of any measure of such a shape. */
size_t zoe_cache_measure_parts(size_t rows, size_t width);
/* What the two means are to each other, in f32 as the references have it. */
float zoe_cache_ratio(const double sums[CACHE_SUMS], cache_sum divisor, float eps);

/* y = x - y */
void zoe_cache_subtract(const zoe_context *ctx, float *y, const float *x, size_t n);
/* kept = x, rounded to the type */
void zoe_cache_keep(const zoe_context *ctx, void *kept, zoe_dtype type, const float *x, size_t n);
/* y [rows, width] = (1 + scale) LN(x) + shift, `times` times */
void zoe_cache_modulate(const zoe_context *ctx, float *y, const zoe_cache_point *point, size_t rows,
                        size_t width, size_t times);

/* ---- cache_taylor.c: the residual from step to step ---- */

size_t zoe_cache_series_factors(const zoe_cache_params *p);
/* Takes in the residual hidden - base, computed now. */
void zoe_cache_series_update(const zoe_context *ctx, zoe_cache *c, cache_branch *s,
                             const cache_buffers *b, const float *hidden, const float *base);
/* hidden += forecast for now. */
void zoe_cache_series_add(const zoe_context *ctx, const zoe_cache *c, cache_branch *s,
                          const cache_buffers *b, float *hidden);

/* ---- cache_easy.c ---- */

void zoe_cache_easy_buffers(zoe_cache *c);
zoe_status zoe_cache_easy_begin(zoe_context *ctx, zoe_cache *c, const float *latent,
                                float *velocity);
void zoe_cache_easy_end(zoe_context *ctx, zoe_cache *c, const float *latent, const float *velocity);

/* ---- cache_mag.c ---- */

/* Decides a step for all branches; rule zoetrope. */
void zoe_cache_mag_step(zoe_cache *c);

/* ---- cache_run.c: for cache_easy.c ---- */

/* count values of so many bytes of the state; the fields of the piece that are known: row, branch. */
void *zoe_cache_take(zoe_cache *c, size_t count, size_t size, size_t row, size_t branch);

/* The ranks' common verdict from this rank's number, and the cap on skips in a row. */
zoe_status zoe_cache_agree(zoe_cache *c, const cache_branch *s, double value,
                           cache_verdict *verdict);
zoe_status zoe_cache_audit(zoe_context *ctx, const zoe_cache *c, cache_verdict verdict);
/* Notes the verdict in the state and the trace. */
void zoe_cache_note(zoe_cache *c, cache_branch *s, cache_verdict verdict);
static inline zoe_cache_trace *cache_trace(const zoe_cache *c)
{
    return &c->traces[c->memory->step * ZOE_CACHE_BRANCHES + c->branch];
}

#endif
