/* What happened when, as a file for chrome://tracing or Perfetto (Chrome trace format, JSON). A
 * context without a trace records nothing, at the cost of one test. */
#ifndef ZOE_TRACE_H
#define ZOE_TRACE_H

#include "base/base.h"

typedef struct zoe_trace zoe_trace;

/* Lines of a rank's picture. */
typedef enum zoe_track { ZOE_TRACK_COMPUTE, ZOE_TRACK_EXCHANGE, ZOE_TRACK_READ } zoe_track;

zoe_status zoe_trace_new(zoe_context *ctx, zoe_trace **trace);
void zoe_trace_free(zoe_trace *trace); /* NULL is fine */
/* From now on what this context does is recorded; NULL ends that. */
void zoe_context_set_trace(zoe_context *ctx, zoe_trace *trace);

/* Records that `name`, a literal, was under way from `begun` to now, times of zoe_now. Any thread.
 * number: an index that tells alike things apart, such as that of a block; SIZE_MAX: none. Without
 * memory for more, events are counted as lost. */
void zoe_trace_add(zoe_context *ctx, zoe_track track, const char *name, size_t number,
                   double begun);
/* The same, but it was over at `ended`. */
void zoe_trace_add_ended(zoe_context *ctx, zoe_track track, const char *name, size_t number,
                         double begun, double ended);

/* All events as bytes that another process can add to its own file, and back; the clock of the
 * other may be `offset` seconds ahead. */
zoe_status zoe_trace_pack(zoe_context *ctx, const zoe_trace *trace, void **data, size_t *bytes);
zoe_status zoe_trace_unpack(zoe_context *ctx, zoe_trace *trace, const void *data, size_t bytes,
                            size_t rank, double offset);
/* Writes the file, ranks as processes, tracks as threads. */
zoe_status zoe_trace_write(zoe_context *ctx, const zoe_trace *trace, const char *path);

#endif
