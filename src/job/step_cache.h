/* The step cache of a job. Without one, none of these does much: every step computes. */
#ifndef ZOE_JOB_STEP_CACHE_H
#define ZOE_JOB_STEP_CACHE_H

#include "job/job.h"

/* Reads params.cache. ZOE_INVALID. */
zoe_status zoe_step_cache_read(zoe_context *ctx, zoe_job *job);
bool zoe_step_cache_is_on(const zoe_job *job);
/* Does it suit the run? The plan has steps and tokens. ZOE_INVALID. */
zoe_status zoe_step_cache_check(zoe_context *ctx, const zoe_job *job);
/* Bytes that it takes on this rank for a latent [f, h, w]. */
size_t zoe_step_cache_bytes(const zoe_job *job, size_t f, size_t h, size_t w);
/* Bytes of its state in a checkpoint. */
size_t zoe_step_cache_kept_bytes(const zoe_job *job);

/* Takes its memory: job->cache is there until zoe_step_cache_end. */
zoe_status zoe_step_cache_begin(zoe_context *ctx, zoe_job *job);
/* Has the passes of this work space go by it. */
void zoe_step_cache_attach(const zoe_job *job, zoe_wan_work *work);
/* Around a pass, for params.changed: what it is, and that its velocity is there. */
void zoe_step_cache_expect(const zoe_job *job, zoe_expert expert, size_t branch, size_t step);
zoe_status zoe_step_cache_see(zoe_context *ctx, const zoe_job *job, size_t branch, size_t step);
/* Its state as a tensor, for a checkpoint, on the rank that keeps it; false if there is none to be
 * kept. It does not depend on the number of ranks. */
bool zoe_step_cache_state(const zoe_job *job, zoe_tensor *state);
/* Tells params.step_done, if anybody listens, what was done in the step. */
void zoe_step_cache_tell(const zoe_job *job, size_t step, double seconds);
/* Notes what it did and frees it. */
void zoe_step_cache_end(zoe_job *job);

/* ---- of a cache that lies on several ranks: step_cache_ranks.c ---- */

/* Bytes that it takes beside the cache. whole: the shape that one rank alone would have. */
size_t zoe_step_cache_spread_bytes(const zoe_job *job, const zoe_cache_shape *whole);
zoe_status zoe_step_cache_spread_begin(zoe_context *ctx, zoe_job *job, const zoe_cache_shape *whole,
                                       const zoe_cache_shape *own);
void zoe_step_cache_spread_end(zoe_job *job);
bool zoe_step_cache_spread_state(const zoe_job *job, zoe_tensor *state);
/* Between the ranks and what zoe_step_cache_state gives on the first one: before a step is kept, and
 * after one was read. All ranks call it. ZOE_FORMAT: it is no state of such a cache. */
zoe_status zoe_step_cache_gather(zoe_context *ctx, const zoe_job *job);
zoe_status zoe_step_cache_scatter(zoe_context *ctx, const zoe_job *job);

#endif
