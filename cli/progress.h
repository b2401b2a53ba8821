/* How far a run is: a line that updates on a terminal, plain lines elsewhere, JSON events, or
 * nothing; plain lines in the log whatever the style. */
#ifndef ZOE_PROGRESS_H
#define ZOE_PROGRESS_H

#include "zoetrope/job.h"

typedef enum zoe_progress_style {
    ZOE_PROGRESS_AUTO, /* a line that updates if standard error is a terminal, else plain lines */
    ZOE_PROGRESS_PLAIN,
    ZOE_PROGRESS_JSON,
    ZOE_PROGRESS_NONE
} zoe_progress_style;

typedef struct zoe_progress {
    zoe_progress_style style;
    bool running;
    zoe_phase phase;
    size_t phase_done; /* units that were done when the phase began: those of an earlier run */
    double begun, phase_begun;       /* seconds of the monotonic clock */
    double seconds[ZOE_PHASE_COUNT]; /* of the phases that ended */
} zoe_progress;

void zoe_progress_begin(zoe_progress *progress, zoe_progress_style style);
/* A zoe_progress_fn; user is the zoe_progress. */
void zoe_progress_update(void *user, zoe_phase phase, size_t done, size_t total);
/* Ends the last phase, which was finished or not, and clears the line. Returns the seconds since the
 * beginning. */
double zoe_progress_end(zoe_progress *progress, bool finished);

/* "0.42 s", "7:35", "1:02:03". */
void zoe_duration_print(char *text, size_t room, double seconds);

#endif
