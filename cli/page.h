/* --report of `zoe generate`: one HTML page about a run. page.c keeps what is seen while it runs,
 * page_html.c writes the page, page_chart.c its drawings. */
#ifndef ZOE_PAGE_H
#define ZOE_PAGE_H

#include "media/media.h"
#include "op/clock.h"
#include "progress.h"
#include "zoetrope/job.h"

enum {
    ZOE_PAGE_SHEET = 12, /* frames of the contact sheet, at most */
    ZOE_PAGE_ENDS = 2    /* the first frame and the last one */
};

/* A frame, scaled down if it is large. */
typedef struct zoe_page_frame {
    size_t frame;
    zoe_picture picture; /* rgb NULL: not seen */
} zoe_page_frame;

typedef struct zoe_page {
    zoe_context *ctx; /* of its own: what fails here does not concern the run */
    zoe_context *run;
    const zoe_job_params *params;
    const zoe_job *job;
    zoe_job_part parts[ZOE_JOB_PARTS];

    bool ran[ZOE_PHASE_COUNT];        /* in this process */
    zoe_clock clock[ZOE_PHASE_COUNT]; /* time by operator */
    zoe_job_step *step;               /* [steps of the run] */
    bool *seen;                       /* the same: it ran in this process */
    size_t frames;                    /* seen */
    zoe_page_frame sheet[ZOE_PAGE_SHEET], end[ZOE_PAGE_ENDS];
} zoe_page;

/* How a run ended. */
typedef struct zoe_page_end {
    zoe_status status;
    const char *message; /* if it failed */
    double seconds;
    const zoe_progress *progress;
} zoe_page_end;

/* Between zoe_job_open and zoe_job_run. From now on the work of `run` is counted. NULL without
 * memory. */
zoe_page *zoe_page_new(zoe_context *run, const zoe_job_params *params, const zoe_job *job);
/* A phase begins; a step was done; a frame is there. */
void zoe_page_phase(zoe_page *page, zoe_phase phase);
void zoe_page_step(zoe_page *page, const zoe_job_step *step);
void zoe_page_see(zoe_page *page, size_t frame, const unsigned char *rgb, size_t width,
                  size_t height);
/* Writes the file of params->report. The job is still there. Errors, in page->ctx: those of an
 * output file, ZOE_NOMEM. */
zoe_status zoe_page_write(zoe_page *page, const zoe_page_end *end);
void zoe_page_free(zoe_page *page); /* NULL is fine */

/* ---- for this page's own files ---- */

/* Steps of the run, and those of them that ran in this process. */
size_t zoe_page_steps(const zoe_page *page);
size_t zoe_page_steps_seen(const zoe_page *page);
/* The whole page as HTML that is well-formed XML, too. */
void zoe_page_print(FILE *to, zoe_page *page, const zoe_page_end *end);
/* Drawings: each step; each stage by kind of operator. */
void zoe_page_draw_steps(FILE *to, const zoe_page *page);
void zoe_page_draw_times(FILE *to, const zoe_page *page, const zoe_progress *progress);
/* Seconds of a phase that no operator took. */
double zoe_page_rest(const zoe_page *page, const zoe_progress *progress, zoe_phase phase);

#endif
