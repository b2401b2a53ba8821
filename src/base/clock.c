/* Time by kind of work. */
#include "base/clock.h"

#include <time.h>

#include "base/context.h"

double zoe_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void zoe_clock_use(zoe_context *ctx, zoe_clock *clock)
{
    ctx->clock = clock;
}

void zoe_clock_begin(zoe_context *ctx)
{
    if (ctx->clock)
        ctx->clock_begun = zoe_now();
}

zoe_status zoe_clock_end(zoe_context *ctx, size_t kind, zoe_status status)
{
    if (ctx->clock) {
        ctx->clock->seconds[kind] += zoe_now() - ctx->clock_begun;
        ctx->clock->calls[kind]++;
    }
    return status;
}
