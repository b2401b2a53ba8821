/* The ranks of a job: how they are grouped, and what they tell each other beside the work of the
 * models. Every rank runs the whole job; with one alone none of these does anything. The first rank
 * reads and writes checkpoints and outputs for all. */
#ifndef ZOE_JOB_RANKS_H
#define ZOE_JOB_RANKS_H

#include "job/job.h"

bool zoe_ranks_first(const zoe_job *job);

/* Do the numbers of the request make the ranks at hand? ZOE_INVALID, with those that would. */
zoe_status zoe_ranks_check(zoe_context *ctx, const zoe_job_params *params);
/* Fills in those that were not given and makes the groups; the transformer is open, the cache's
 * parameters are known. ZOE_INVALID, ZOE_NOMEM. */
zoe_status zoe_ranks_group(zoe_context *ctx, zoe_job *job);
void zoe_ranks_free(zoe_ranks *ranks);

/* Where this rank stands among those that share the tokens of a branch. */
zoe_place zoe_ranks_place(const zoe_job *job);

/* Bit b: this rank computes zoe_branch b in a step with such a guidance scale. */
unsigned zoe_ranks_branches(const zoe_job *job, double scale);
/* Does it in any step of the run? */
bool zoe_ranks_computes(const zoe_job *job, zoe_branch branch);
/* Those that run the same blocks in the same passes, so that they can share weights; NULL: none. */
zoe_comm *zoe_ranks_of_weights(const zoe_job *job);
/* How many those are, and which of them this one is; for plans too, without the ranks. */
typedef struct zoe_standing {
    size_t count, rank;
} zoe_standing;
zoe_standing zoe_ranks_weights_standing(const zoe_job *job);
/* The rank that encodes the prompt of a branch. */
size_t zoe_ranks_of_text(const zoe_job *job, size_t branch);

/* Ends a stage in which ranks did different work: ZOE_OK only if it is that on all. */
zoe_status zoe_ranks_meet(zoe_context *ctx, const zoe_job *job, zoe_status mine);
/* After the last thing that the job did with its status, if it failed: the others are told. Returns the
 * status. */
zoe_status zoe_ranks_tell(zoe_context *ctx, zoe_comm *comm, zoe_status status);

/* From rank `root` to all. */
zoe_status zoe_ranks_share(zoe_context *ctx, const zoe_job *job, void *data, size_t bytes,
                           size_t root, const char *what);
/* The same of floats that are there, and not NULL, on the root alone. */
zoe_status zoe_ranks_share_floats(zoe_context *ctx, const zoe_job *job, float **values,
                                  size_t count, size_t root, const char *what);
/* Before the first work in common: do all have the same request, model, pictures and instruction set?
 * ZOE_INVALID, with what the first rank that differs has. */
zoe_status zoe_ranks_compare(zoe_context *ctx, zoe_job *job);
/* What each rank holds at once in each phase, to all: fills in job->ranks.host. shards: its part of
 * weights that are shared out, 0 if they are not. */
zoe_status zoe_ranks_share_host(zoe_context *ctx, zoe_job *job, const size_t bytes[ZOE_PHASE_COUNT],
                                size_t shards);
/* What the first rank's checkpoint has, to all: contexts and condition as pointers that are no more than
 * flags until zoe_ranks_share_floats, steps done, and the seed. */
zoe_status zoe_ranks_share_kept(zoe_context *ctx, zoe_job *job);

/* Both branches at once only if all ranks have them so: the order of exchanges depends on it. */
zoe_status zoe_ranks_share_pairs(zoe_context *ctx, zoe_job *job);

/* After the passes of a guided step: both velocities to all ranks, and what the cache did. */
zoe_status zoe_ranks_exchange_branches(zoe_context *ctx, const zoe_job *job, size_t step);

#endif
