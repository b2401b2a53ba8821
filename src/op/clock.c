/* Names of the kinds of operators. */
#include "op/clock.h"

const char *zoe_op_kind_name(zoe_op_kind kind)
{
    switch (kind) {
    case ZOE_KIND_LINEAR: return "linear";
    case ZOE_KIND_ATTENTION: return "attention";
    case ZOE_KIND_CONV: return "convolution";
    case ZOE_KIND_NORM: return "norm";
    case ZOE_KIND_ROTARY: return "rotary";
    case ZOE_KIND_ELEMENT: return "elementwise";
    case ZOE_KIND_PACK: return "packing";
    case ZOE_KINDS: break;
    }
    return "?";
}
