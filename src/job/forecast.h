/* What a run of a job would be on other ranks than it has: who holds what, who sends what, how long it
 * takes. The job is open, of one rank, with memory ZOE_JOB_ENDLESS and without a checkpoint; none of the
 * ranks need be there. */
#ifndef ZOE_FORECAST_H
#define ZOE_FORECAST_H

#include "job/estimate.h"
#include "job/job.h"

/* How cfg ulysses ring ranks share a run; the first vae of them share the frames. 0: not said. */
typedef struct zoe_layout {
    size_t cfg, ulysses, ring, vae;
} zoe_layout;
size_t zoe_layout_ranks(const zoe_layout *layout);

/* Payload in bytes that one rank sends, as zoe_comm_traffic counts it, of a run whose step cache leaves
 * nothing out; what ranks tell each other for the cache is not in it. */
typedef struct zoe_rank_sent {
    uint64_t contexts, features; /* of the prompts, and CLIP's of the pictures */
    uint64_t encode_edges, encode_keys,
        latent;                   /* of the VAE: edges of patches, keys and values of its
                                                   attention; latent: from those with a patch to all */
    uint64_t ulysses, ring, head; /* of one pass */
    uint64_t weights;             /* of one pass, where ranks share weights; of the larger expert */
    uint64_t branches;            /* of a step with guidance: the velocity, to the other branch */
    uint64_t guided_step, plain_step;           /* all of a step with guidance, and without it */
    uint64_t decode_edges, decode_keys, frames; /* frames: to the first rank */
    uint64_t phase[ZOE_PHASE_COUNT];            /* all of it, with the words by which ranks agree */
} zoe_rank_sent;

/* Seconds, with weights that are in memory already. */
typedef struct zoe_run_time {
    double phase[ZOE_PHASE_COUNT], total;
    zoe_pass_time pass;
    double weights;  /* in a pass: until shared weights are there, in the open */
    double branches; /* in a step with guidance: until the other velocity is there */
    double step;     /* of most steps */
} zoe_run_time;

typedef struct zoe_forecast zoe_forecast;
/* Errors: those of opening the VAE, ZOE_NOMEM. The job must outlive it. */
zoe_status zoe_forecast_new(zoe_context *ctx, zoe_forecast **forecast, const zoe_job *job);
void zoe_forecast_free(zoe_forecast *forecast); /* NULL is fine */

/* The layout of so many ranks that is quickest of those that `wanted` leaves, with CFG ranks if there
 * are two branches and an even number; of those that fit `memory` bytes a rank (0: any), if any does.
 * Errors: ZOE_INVALID (no layout has these numbers). */
zoe_status zoe_forecast_choose(zoe_context *ctx, const zoe_forecast *forecast, size_t ranks,
                               const zoe_layout *wanted, const zoe_speeds *speeds, size_t memory,
                               zoe_layout *layout);
void zoe_forecast_bytes(const zoe_forecast *forecast, const zoe_layout *layout, size_t rank,
                        zoe_rank_bytes *bytes);
void zoe_forecast_sent(const zoe_forecast *forecast, const zoe_layout *layout, size_t rank,
                       zoe_rank_sent *sent);
void zoe_forecast_time(const zoe_forecast *forecast, const zoe_layout *layout,
                       const zoe_speeds *speeds, zoe_run_time *time);
const zoe_pass_sizes *zoe_forecast_pass(const zoe_forecast *forecast);

/* The most that is held at once: with everything in memory, and with streamed weights. */
typedef struct zoe_peaks_of_rank {
    size_t resident, streamed;
} zoe_peaks_of_rank;
zoe_peaks_of_rank zoe_rank_peaks(const zoe_rank_bytes *bytes);

#endif
