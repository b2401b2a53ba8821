/* What the operators share: scratch memory and activations. */
#ifndef ZOETROPE_OP_TYPES_H
#define ZOETROPE_OP_TYPES_H

#include "zoetrope/status.h"
#include "zoetrope/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch memory of one call, 64-byte aligned. Ask the operator's _workspace function for the
 * bytes; they depend on shapes and on the number of threads. */
typedef struct zoe_workspace {
    void *data;
    size_t bytes;
} zoe_workspace;

typedef enum zoe_activation {
    ZOE_ACT_NONE,
    ZOE_ACT_SILU,      /* v * sigmoid(v) */
    ZOE_ACT_GELU_TANH, /* 0.5 v (1 + tanh(sqrt(2/pi) (v + 0.044715 v^3))) */
    ZOE_ACT_GELU_ERF,  /* 0.5 v (1 + erf(v / sqrt 2)) */
    ZOE_ACT_GELU_SIGMOID /* v * sigmoid(1.702 v): "quick" or "fast" GELU, up to 0.0203 away from GELU */
} zoe_activation;

/* The last of them. */
#define ZOE_ACT_LAST ZOE_ACT_GELU_SIGMOID

#ifdef __cplusplus
}
#endif
#endif
