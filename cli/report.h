/* What a run will be, and what it was, for people and for programs. */
#ifndef ZOE_REPORT_H
#define ZOE_REPORT_H

#include "progress.h"
#include "zoetrope/job.h"

/* The log gets both in any case; the plan is said if `say` is set. */
void zoe_report_plan(const zoe_job_params *params, const zoe_plan *plan, int threads, bool say);
void zoe_report_done(const zoe_job_params *params, const zoe_plan *plan,
                     const zoe_progress *progress, double seconds, const zoe_cache_outcome *cache);
/* For programs alone: so many steps are kept; the preview file is new. */
void zoe_report_checkpoint(const zoe_job_params *params, size_t steps);
void zoe_report_preview(const zoe_job_params *params, size_t step, size_t width, size_t height);

#endif
