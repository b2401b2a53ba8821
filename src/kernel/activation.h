/* The activation functions on one value, for definitions that apply one among other things. */
#ifndef ZOE_ACTIVATION_H
#define ZOE_ACTIVATION_H

#include "kernel/kernel.h"

/* activation(v), computed in double and rounded once. */
float zoe_activation_value(zoe_activation activation, float v);

#endif
