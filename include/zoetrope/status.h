/* Status codes, the context, and what the library tells its host.
 *
 * Every function that can fail returns a zoe_status and, when it is not ZOE_OK, leaves one sentence
 * in the context that says what was wrong, where, what was found and what was wanted. The library
 * never prints, exits or aborts. A context may be used by one thread at a time; zoe_cancel is the
 * exception. */
#ifndef ZOETROPE_STATUS_H
#define ZOETROPE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum zoe_status {
    ZOE_OK = 0,
    ZOE_INVALID = -1,     /* an argument or option is not legal */
    ZOE_NOMEM = -2,       /* memory could not be had, or a plan does not fit */
    ZOE_IO = -3,          /* the operating system refused a file operation */
    ZOE_FORMAT = -4,      /* a file's content is broken */
    ZOE_MISSING = -5,     /* a file or tensor that is needed is not there */
    ZOE_UNSUPPORTED = -6, /* well formed, but not something that this version does */
    ZOE_NONFINITE = -7,   /* NaN or inf in a result */
    ZOE_CANCELLED = -8,   /* zoe_cancel was called */
    ZOE_PEER = -9,        /* another rank failed */
    ZOE_DEVICE = -10,     /* an accelerator failed */
    ZOE_INTERNAL = -11    /* a fault of the library itself */
} zoe_status;

/* The code's name, such as "MISSING". */
const char *zoe_status_name(zoe_status status);

typedef enum zoe_level { ZOE_DEBUG, ZOE_INFO, ZOE_WARNING } zoe_level;

/* Receives every notice of the library, without a final newline. Must not call the library. */
typedef void (*zoe_log_fn)(void *user, zoe_level level, const char *text);

/* Whom the library works for: threads, error sentence, log, cancel flag. */
typedef struct zoe_context zoe_context;

/* A new context, or NULL without memory. threads 0 means: as many as affinity and cgroup quota
 * allow. */
zoe_context *zoe_context_new(int threads);
void zoe_context_free(zoe_context *ctx);

void zoe_context_set_log(zoe_context *ctx, zoe_log_fn log, void *user);

/* Number of threads that a parallel loop of this context uses. */
int zoe_context_threads(const zoe_context *ctx);

/* For hosts with threads of their own: `run` calls task(arg, member) once for each member = 0 .. team-1,
 * on as many threads as it likes and in any order, and comes back when all are done. Members may run one
 * after the other. Parallel loops of the context then use it instead of OpenMP, with teams of up to
 * zoe_context_threads members; run NULL takes that back. Results do not depend on it. */
typedef void (*zoe_team_task)(void *arg, size_t member);
typedef void (*zoe_team_fn)(void *user, size_t team, zoe_team_task task, void *arg);
void zoe_context_set_team(zoe_context *ctx, zoe_team_fn run, void *user);

/* The sentence of the first failure since the last zoe_context_clear; "" if there was none. */
const char *zoe_context_message(const zoe_context *ctx);
/* Forgets the sentence and that the context was cancelled: it is as new, for the next call. */
void zoe_context_clear(zoe_context *ctx);

/* Asks the running call, and those that follow until zoe_context_clear, to end with ZOE_CANCELLED
 * soon. Async-signal-safe, any thread. */
void zoe_cancel(zoe_context *ctx);
bool zoe_cancelled(const zoe_context *ctx);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
