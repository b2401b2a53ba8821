/* The gauge: sees every pass of a run without a step cache and tells what changed in it, for the
 * calibration of TeaCache and MagCache. One pass:
 *
 *     zoe_gauge_begin(gauge, step, expert, branch);
 *     the network, with zoe_gauge_at before each block and after the last one
 *     zoe_gauge_end(ctx, gauge, velocity, &change);
 *
 * All memory is taken in zoe_gauge_new. Sums are formed in f64 in a fixed order, whatever the number
 * of threads. */
#ifndef ZOE_SAMPLE_GAUGE_H
#define ZOE_SAMPLE_GAUGE_H

#include "sample/cache.h"

typedef struct zoe_gauge zoe_gauge;

/* Bytes that zoe_gauge_new takes, less the few of the handle; SIZE_MAX on overflow. Of the shape,
 * tokens, width, blocks and latent are looked at. */
size_t zoe_gauge_bytes(const zoe_cache_shape *shape);
/* Errors: ZOE_INVALID (sizes overflow), ZOE_NOMEM. */
zoe_status zoe_gauge_new(zoe_context *ctx, zoe_gauge **gauge, const zoe_cache_shape *shape);
void zoe_gauge_free(zoe_gauge *gauge); /* NULL is fine */

void zoe_gauge_begin(zoe_gauge *gauge, size_t step, zoe_expert expert, size_t branch);
/* Errors: ZOE_INVALID (at block 0, one of the point's vectors is missing). */
zoe_status zoe_gauge_at(zoe_context *ctx, zoe_gauge *gauge, const zoe_cache_point *point);
/* velocity [shape.latent]. Errors: ZOE_INTERNAL (the pass did not come to its last block). */
zoe_status zoe_gauge_end(zoe_context *ctx, zoe_gauge *gauge, const float *velocity,
                         zoe_cache_change *change);

#endif
