/* The kinds of operators by which a context counts time (base/clock.h). */
#ifndef ZOE_OP_CLOCK_H
#define ZOE_OP_CLOCK_H

#include "base/clock.h"

typedef enum zoe_op_kind {
    ZOE_KIND_LINEAR,    /* products with weights, of any type */
    ZOE_KIND_ATTENTION, /* with merging of parts */
    ZOE_KIND_CONV,
    ZOE_KIND_NORM, /* with modulation and gates */
    ZOE_KIND_ROTARY,
    ZOE_KIND_ELEMENT, /* activations, sums, conversions */
    ZOE_KIND_PACK,    /* weights brought into another form */
    ZOE_KINDS
} zoe_op_kind;
_Static_assert((int)ZOE_KINDS <= (int)ZOE_CLOCK_KINDS, "a clock has a place for each kind");

/* "linear" */
const char *zoe_op_kind_name(zoe_op_kind kind);

/* A call of a function of the context's device, counted. */
#define ZOE_RUN(kind, call) zoe_clocked(ctx, ZOE_KIND_##kind, zoe_device_of(ctx)->call)

#endif
