/* zoe plan: what a run would be on many ranks. plan.c is the command, plan_speed.c measures kernels,
 * plan_table.c and plan_json.c print. */
#ifndef ZOE_PLAN_H
#define ZOE_PLAN_H

#include "job/forecast.h"
#include "options.h"
#include "request.h"

typedef struct zoe_planning {
    zoe_context *ctx;
    double ranks[ZOE_NUMBERS_MAX]; /* as given */
    size_t n_ranks;
    size_t cfg, ulysses, ring, vae, threads, memory; /* 0: not given */
    double bandwidth, latency;                       /* GB/s, microseconds */
    bool json, help;
    const char *const *request; /* the words of the request */
    size_t n_request;

    zoe_request *line;
    zoe_job *job;
    zoe_forecast *forecast;
    zoe_speeds speeds;
} zoe_planning;

/* One row of the table: the best layout of so many ranks. */
typedef struct zoe_planned {
    zoe_layout layout;
    size_t ranks;
    zoe_run_time time;
    double efficiency;    /* of a step: that of one rank, by ranks and time */
    const char *limit;    /* what keeps it from being 1, or what there is most of */
    zoe_rank_bytes bytes; /* of the rank that holds most */
    zoe_peaks_of_rank peaks;
    size_t largest;     /* that rank */
    size_t together;    /* the most that all hold, if they are on one host */
    zoe_rank_sent most; /* the most of all ranks, figure by figure */
    zoe_rank_sent sum;  /* of all ranks */
} zoe_planned;

/* Measures what this machine does with the context's threads, at the job's shapes: about a second. */
zoe_status zoe_plan_measure(zoe_planning *plan);

/* The table; all about one layout; both as JSON, which returns the exit code. */
void zoe_plan_print_table(const zoe_planning *plan, const zoe_planned *rows, size_t n);
void zoe_plan_print_one(const zoe_planning *plan, const zoe_planned *row);
int zoe_plan_print_json(const zoe_planning *plan, const zoe_planned *rows, size_t n);

#endif
