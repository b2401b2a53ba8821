/* What a run will be, and what it was, for people and for programs. */
#ifndef ZOE_REPORT_H
#define ZOE_REPORT_H

#include "progress.h"
#include "zoetrope/job.h"

void zoe_report_plan(const zoe_job_params *params, const zoe_plan *plan, int threads);
void zoe_report_done(const zoe_job_params *params, const zoe_plan *plan,
                     const zoe_progress *progress, double seconds);

#endif
