/* What is inside a zoe_context; for this room only. */
#ifndef ZOE_CONTEXT_H
#define ZOE_CONTEXT_H

#include <stdatomic.h>

#include "base/base.h"

struct zoe_context {
    int threads;
    zoe_team_fn team; /* NULL: OpenMP */
    void *team_user;
    atomic_bool cancelled;
    zoe_log_fn log;
    void *log_user;
    char message[8192];
    char part_letters[9];    /* "": random ones; see base/file.h */
    struct zoe_clock *clock; /* NULL: time is not counted; see base/clock.h */
    double clock_begun;
    struct zoe_trace *trace; /* NULL: nothing is recorded; see base/trace.h */
};

#endif
