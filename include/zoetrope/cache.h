/* Step caches: which network passes a run may leave out, and by what rule.
 *
 *     zoe_cache_params cache;
 *     status = zoe_cache_params_parse(ctx, &cache, "FBCache,rel_l1_thresh=0.08");
 *
 * Methods, keys and what they cost in quality: docs/CACHES.md. */
#ifndef ZOETROPE_CACHE_H
#define ZOETROPE_CACHE_H

#include <stdint.h>

#include "zoetrope/status.h"
#include "zoetrope/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum zoe_cache_method {
    ZOE_CACHE_NONE,   /* NoCache */
    ZOE_CACHE_FIRST,  /* FBCache: the first block's residual tells whether the others changed */
    ZOE_CACHE_TEA,    /* TeaCache (arXiv 2411.19108): accumulated change of the modulated input */
    ZOE_CACHE_TAYLOR, /* TaylorSeer (arXiv 2503.06923): fixed schedule, extrapolated residual */
    ZOE_CACHE_EASY, /* EasyCache (arXiv 2507.02860): change of the latent, times a measured rate */
    ZOE_CACHE_DUAL, /* DBCache: first Fn blocks judge, last Bn blocks correct */
    ZOE_CACHE_MAG,  /* MagCache (arXiv 2506.09045): table of magnitudes of the residuals */
    ZOE_CACHE_METHODS
} zoe_cache_method;

/* Whose decisions. ZOETROPE is the one for use; the others repeat a published program call by call,
 * its faults included, so that its results can be had again. */
typedef enum zoe_cache_rule {
    ZOE_CACHE_ZOETROPE,
    ZOE_CACHE_RECIPE,        /* hicann/cann-recipes-infer */
    ZOE_CACHE_PARAATTENTION, /* chengzeyi/ParaAttention */
    ZOE_CACHE_DIFFUSERS,     /* huggingface/diffusers */
    ZOE_CACHE_OFFICIAL,      /* the method's own repository */
    ZOE_CACHE_CACHE_DIT,     /* vipshop/cache-dit */
    ZOE_CACHE_RULES
} zoe_cache_rule;

/* What is compared from step to step. */
typedef enum zoe_cache_judge {
    ZOE_CACHE_JUDGE_NONE,
    ZOE_CACHE_JUDGE_RESIDUAL,   /* what the first blocks added */
    ZOE_CACHE_JUDGE_HIDDEN,     /* the hidden state after them */
    ZOE_CACHE_JUDGE_MODULATED,  /* the normed and modulated input of block 0 */
    ZOE_CACHE_JUDGE_EMBEDDING,  /* the time embedding */
    ZOE_CACHE_JUDGE_PROJECTION, /* the six modulations made from it */
    ZOE_CACHE_JUDGES
} zoe_cache_judge;

/* What stands in for the residual of a step that is left out. */
typedef enum zoe_cache_forecast {
    ZOE_CACHE_LAST,   /* the last one computed */
    ZOE_CACHE_SERIES, /* a Taylor series of divided differences */
    ZOE_CACHE_FOCA,   /* FoCa (arXiv 2508.16211): predictor and corrector over the last four */
    ZOE_CACHE_FORECASTS
} zoe_cache_forecast;

/* Where MagCache's official rule may skip. */
typedef enum zoe_cache_span {
    ZOE_CACHE_SPAN_I2V,  /* only in the low-noise expert's steps, after the retention */
    ZOE_CACHE_SPAN_T2V,  /* after the retention of each expert */
    ZOE_CACHE_SPAN_TI2V, /* one expert */
    ZOE_CACHE_SPANS
} zoe_cache_span;

enum {
    ZOE_CACHE_COEFFICIENTS = 8, /* most of a polynomial */
    ZOE_CACHE_RATIOS = 512,     /* most of a table of magnitudes */
    ZOE_CACHE_MASK = 256,       /* most steps of a computation mask */
    ZOE_CACHE_ORDER = 4         /* highest of a series */
};

/* Counts are in steps. SIZE_MAX in a limit: none. */
typedef struct zoe_cache_params {
    zoe_cache_method method;
    zoe_cache_rule rule;
    bool separate;   /* enable_separate_cfg: one state for each branch */
    bool joint;      /* a step is left out in both branches or in none */
    bool force;      /* also with so few steps that it cannot pay */
    zoe_dtype store; /* of what is kept from step to step: F32, or BF16 for half the memory */

    double threshold; /* 0: nothing is left out */
    size_t warmup;    /* first steps of a run, or of an expert, that compute */
    size_t cooldown;  /* last steps of the run that compute; TaylorSeer with rule diffusers: the
                         step from which on all do */
    size_t max_skips; /* in a row */
    zoe_cache_judge judge;
    size_t downsample; /* of the judge's features every so-manieth is compared */
    zoe_cache_forecast forecast;
    size_t order; /* of the series */

    double coefficients[ZOE_CACHE_COEFFICIENTS]; /* TeaCache's polynomial, highest power first */
    size_t coefficient_count;

    size_t interval; /* TaylorSeer: steps from one computed step to the next */

    size_t first_blocks, last_blocks; /* DBCache: Fn, Bn */
    size_t warmup_interval, max_cached;
    double max_accumulated;       /* 0: no limit */
    bool reuse_distance;          /* the second branch goes by the first one's distance */
    uint8_t mask[ZOE_CACHE_MASK]; /* 1: that step computes */
    size_t mask_count;
    bool mask_static; /* its zeros are left out without looking */

    double retention; /* MagCache: part of an expert's steps that compute first */
    double ratios[ZOE_CACHE_RATIOS];
    size_t ratio_count; /* conditional, unconditional, conditional ... but one a step with rule
                           diffusers; resampled to the steps of the run */
    zoe_cache_span span;
} zoe_cache_params;

/* "FBCache" */
const char *zoe_cache_method_name(zoe_cache_method method);
/* "zoetrope", "recipe", "cache-dit" */
const char *zoe_cache_rule_name(zoe_cache_rule rule);

/* The defaults of a method under a rule. */
void zoe_cache_params_init(zoe_cache_params *params, zoe_cache_method method, zoe_cache_rule rule);

/* The keys that a method has, one by one; NULL from their number on. */
const char *zoe_cache_key(zoe_cache_method method, size_t index);

/* Key and value as they stand in a file. */
typedef struct zoe_cache_setting {
    const char *key, *value;
    const char *where; /* what messages begin with, such as "run.yaml:12:5"; NULL for nothing */
} zoe_cache_setting;

/* Defaults and then n settings in any order. Keys are the references' own (docs/CACHES.md); lists
 * are "[1, 2.5]". Errors: ZOE_INVALID (method or key unknown, or not one of this method; value out
 * of range; a rule that the method does not have). */
zoe_status zoe_cache_params_set(zoe_context *ctx, zoe_cache_params *params, const char *method,
                                const zoe_cache_setting *settings, size_t n);
/* "METHOD,key=value,key=[1,2],..." Errors: as above. */
zoe_status zoe_cache_params_parse(zoe_context *ctx, zoe_cache_params *params, const char *text);

/* What a pass of the network changed compared with the pass of the same branch one step before, in
 * f64: what methods with figures of a model are calibrated by. NAN: there is nothing to compare
 * with. The first five are mean |now - before| / mean |before| and stay within an expert; the last
 * one is MagCache's and, as there, goes on over the switch of experts. */
typedef struct zoe_cache_change {
    double modulated, embedding, projection; /* TeaCache's judges of these names */
    double residual;                         /* what all blocks added */
    double output;                           /* the velocity */
    double magnitude; /* mean over the tokens of |r| / |r before|, r the residual of a token */
} zoe_cache_change;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
