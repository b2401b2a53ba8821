/* Weights that come and go while a network runs: of a model that memory cannot hold whole, a thread
 * reads the next layer while this one computes, and each is let go after it ran. For this room only.
 *
 *     zoe_feed_begin(ctx, feed);                      a pass over the layers
 *     for (i = 0; i < layers; i++) {
 *         TRY_GOTO(zoe_feed_take(ctx, feed, i));      waits until it is there
 *         run layer i
 *         zoe_feed_release(feed, i);
 *     }
 *     done: zoe_feed_end(feed);
 *
 * Weights stay where they are mapped, pointers are the same with a feed and without. Every function
 * but those that make one takes NULL for: all is in memory, nothing to do. */
#ifndef ZOE_FEED_H
#define ZOE_FEED_H

#include "model/model.h"

/* Streamed layers that are in memory at once: one that computes, one that is being read. */
enum { ZOE_FEED_AHEAD = 2 };

typedef struct zoe_feed zoe_feed;

/* For weights of this store, which must stay open. The first plan.resident layers stay once they are
 * there. Errors: ZOE_NOMEM. */
zoe_status zoe_feed_new(zoe_context *ctx, zoe_feed **feed, const zoe_store *store, size_t layers,
                        zoe_stream_plan plan);
/* Says that a layer has this tensor, one of the store; others than mapped ones change nothing. */
zoe_status zoe_feed_add(zoe_context *ctx, zoe_feed *feed, size_t layer, zoe_tensor tensor);
/* After the last one. Errors: ZOE_INTERNAL (no thread can be had). */
zoe_status zoe_feed_start(zoe_context *ctx, zoe_feed *feed);
void zoe_feed_free(zoe_feed *feed);

/* The most bytes of layers that are in memory at once when the first `resident` ones stay. */
typedef size_t (*zoe_layer_bytes_fn)(const void *user, size_t layer);
size_t zoe_feed_held(zoe_layer_bytes_fn bytes, const void *user, size_t layers, size_t resident);
/* Those of a tensor that is mapped; 0 if it lies in memory of its own. */
size_t zoe_feed_tensor_bytes(const zoe_store *store, zoe_tensor tensor);

/* The reader sets off. */
void zoe_feed_begin(zoe_context *ctx, zoe_feed *feed);
/* Layers are taken in rising order, each but once a pass, and some may be left out. Errors: ZOE_FORMAT
 * (a file has become shorter), ZOE_IO, ZOE_CANCELLED. */
zoe_status zoe_feed_take(zoe_context *ctx, zoe_feed *feed, size_t layer);
void zoe_feed_release(zoe_feed *feed, size_t layer);
/* Nothing of the streamed layers is in memory, and nobody reads, after this. */
void zoe_feed_end(zoe_feed *feed);

/* What was read so far. */
zoe_stream_count zoe_feed_count(zoe_feed *feed);

#endif
