/* The step cache of a job. Without one, none of these does much: every step computes. */
#ifndef ZOE_JOB_STEP_CACHE_H
#define ZOE_JOB_STEP_CACHE_H

#include "job/job.h"

/* Reads params.cache. ZOE_INVALID. */
zoe_status zoe_step_cache_read(zoe_context *ctx, zoe_job *job);
bool zoe_step_cache_is_on(const zoe_job *job);
/* Does it suit the run? The plan has steps and tokens. ZOE_INVALID. */
zoe_status zoe_step_cache_check(zoe_context *ctx, const zoe_job *job);
/* Bytes that it takes for a latent [f, h, w]. */
size_t zoe_step_cache_bytes(const zoe_job *job, size_t f, size_t h, size_t w);

/* Takes its memory: job->cache is there until zoe_step_cache_end. */
zoe_status zoe_step_cache_begin(zoe_context *ctx, zoe_job *job);
/* Has the passes of this work space go by it. */
void zoe_step_cache_attach(const zoe_job *job, zoe_wan_work *work);
/* Around a pass, for params.changed: what it is, and that its velocity is there. */
void zoe_step_cache_expect(const zoe_job *job, zoe_expert expert, size_t branch, size_t step);
zoe_status zoe_step_cache_see(zoe_context *ctx, const zoe_job *job, size_t branch, size_t step);
/* Its state as a tensor, for a checkpoint; false if there is none to be kept. */
bool zoe_step_cache_state(const zoe_job *job, zoe_tensor *state);
/* Tells params.step_done, if anybody listens, what was done in the step. */
void zoe_step_cache_tell(const zoe_job *job, size_t step, double seconds);
/* Notes what it did and frees it. */
void zoe_step_cache_end(zoe_job *job);

#endif
