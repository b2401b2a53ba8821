/* The context: error sentence, log, cancel flag. */
#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *zoe_status_name(zoe_status status)
{
    switch (status) {
    case ZOE_OK: return "OK";
    case ZOE_INVALID: return "INVALID";
    case ZOE_NOMEM: return "NOMEM";
    case ZOE_IO: return "IO";
    case ZOE_FORMAT: return "FORMAT";
    case ZOE_MISSING: return "MISSING";
    case ZOE_UNSUPPORTED: return "UNSUPPORTED";
    case ZOE_NONFINITE: return "NONFINITE";
    case ZOE_CANCELLED: return "CANCELLED";
    case ZOE_PEER: return "PEER";
    case ZOE_DEVICE: return "DEVICE";
    case ZOE_INTERNAL: return "INTERNAL";
    }
    return "UNKNOWN";
}

zoe_context *zoe_context_new(int threads)
{
    zoe_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return NULL;
    ctx->threads = threads > 0 ? threads : zoe_cpu_threads();
    atomic_init(&ctx->cancelled, false);
    return ctx;
}

void zoe_context_free(zoe_context *ctx)
{
    free(ctx);
}

void zoe_context_set_log(zoe_context *ctx, zoe_log_fn log, void *user)
{
    ctx->log = log;
    ctx->log_user = user;
}

void zoe_context_set_team(zoe_context *ctx, zoe_team_fn run, void *user)
{
    ctx->team = run;
    ctx->team_user = user;
}

int zoe_context_threads(const zoe_context *ctx)
{
    return ctx->threads;
}

const char *zoe_context_message(const zoe_context *ctx)
{
    return ctx->message;
}

void zoe_context_clear(zoe_context *ctx)
{
    ctx->message[0] = '\0';
    atomic_store(&ctx->cancelled, false);
}

void zoe_cancel(zoe_context *ctx)
{
    atomic_store(&ctx->cancelled, true);
}

bool zoe_cancelled(const zoe_context *ctx)
{
    return atomic_load(&ctx->cancelled);
}

zoe_status zoe_check_cancel(zoe_context *ctx)
{
    return zoe_cancelled(ctx) ? zoe_fail(ctx, ZOE_CANCELLED, "interrupted") : ZOE_OK;
}

void zoe_note_failure(zoe_context *ctx, const char *format, ...)
{
    if (!ctx || ctx->message[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(ctx->message, sizeof ctx->message, format, args);
    va_end(args);
    /* Names from hostile files must not reach a terminal as commands. */
    for (char *p = ctx->message; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

void zoe_fail_in(zoe_context *ctx, const char *format, ...)
{
    char prefix[1024], old[sizeof ctx->message];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    memcpy(old, ctx->message, sizeof old);
    const size_t head = strlen(prefix) + 2;
    const size_t room = sizeof ctx->message - head;
    snprintf(ctx->message, head + 1, "%s: ", prefix);
    strncat(ctx->message, old, room - 1);
}

void zoe_log(zoe_context *ctx, zoe_level level, const char *format, ...)
{
    if (!ctx->log)
        return;
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ctx->log(ctx->log_user, level, text);
}
