/* Time by kind of work, counted only where somebody asked for it. What the kinds are, and what is
 * counted, is the business of the room that does the work. */
#ifndef ZOE_CLOCK_H
#define ZOE_CLOCK_H

#include "base/base.h"

enum { ZOE_CLOCK_KINDS = 8 };

typedef struct zoe_clock {
    double seconds[ZOE_CLOCK_KINDS];
    size_t calls[ZOE_CLOCK_KINDS];
} zoe_clock;

/* Seconds of the monotonic clock. */
double zoe_now(void);

/* From now on the work of this context is counted in *clock, which belongs to the caller; NULL, as
 * in a new context: it is not counted, and no clock is read. */
void zoe_clock_use(zoe_context *ctx, zoe_clock *clock);

/* The value of call, a zoe_status, with its time counted as work of that kind. Not nested. */
#define zoe_clocked(ctx, kind, call) (zoe_clock_begin(ctx), zoe_clock_end(ctx, kind, call))
void zoe_clock_begin(zoe_context *ctx);
zoe_status zoe_clock_end(zoe_context *ctx, size_t kind, zoe_status status);

#endif
