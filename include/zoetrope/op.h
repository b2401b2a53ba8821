/* Operators on tensor views. Usable without the rest of the engine.
 *
 * Every operator checks its arguments (shapes, types, strides, workspace) and then runs on the
 * threads of the context. Outputs come first. Results have the same bytes for any number of
 * threads. NaN and inf propagate.
 *
 * Types. Inputs are widened exactly, sums are kept in f32 or wider, and outputs are rounded to their own
 * type at the end; where a model's code rounds in between, a flag or the type of x says so, and the
 * operator's comment (zoe_linear with x in bf16, the orders of zoe_rms_norm). See docs/NUMERICS.md.
 *
 * Unless said otherwise the last axis is dense and other axes may have any positive stride; that of an axis
 * of extent 1 is never looked at. Elements of one output must not share memory; that an output overlaps
 * itself is not noticed. eps is a number from 0 on.
 * Errors of all: ZOE_INVALID (shape, type, stride, overlap, numbers that make no sense), ZOE_NOMEM
 * (workspace too small), ZOE_CANCELLED. */
#ifndef ZOETROPE_OP_H
#define ZOETROPE_OP_H

#include "zoetrope/op/attention.h"
#include "zoetrope/op/backward.h"
#include "zoetrope/op/conv.h"
#include "zoetrope/op/elementwise.h"
#include "zoetrope/op/int8.h"
#include "zoetrope/op/layer_norm.h"
#include "zoetrope/op/linear.h"
#include "zoetrope/op/rms_norm.h"
#include "zoetrope/op/rotary.h"
#include "zoetrope/op/types.h"

#endif
