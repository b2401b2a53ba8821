/* Operators on tensor views. Usable without the rest of the engine.
 *
 * Every operator checks its arguments (shapes, types, strides, workspace) and then runs on the
 * threads of the context. Outputs come first. Results have the same bytes for any number of
 * threads. NaN and inf propagate.
 *
 * Types. x in f32: everything is computed in f32 from widened weights. x in bf16: the operands
 * (weights and bias too) are rounded to bf16, sums are kept in f32, and each named intermediate is
 * rounded to bf16 once, as PyTorch does with bf16 tensors; see docs/NUMERICS.md. Outputs are
 * rounded to their own type at the end.
 *
 * Unless said otherwise the last axis is dense and other axes may have any positive stride.
 * Errors of all: ZOE_INVALID (shape, type, stride, overlap), ZOE_NOMEM (workspace too small),
 * ZOE_CANCELLED. */
#ifndef ZOETROPE_OP_H
#define ZOETROPE_OP_H

#include "zoetrope/op/attention.h"
#include "zoetrope/op/conv.h"
#include "zoetrope/op/elementwise.h"
#include "zoetrope/op/linear.h"
#include "zoetrope/op/norm.h"
#include "zoetrope/op/types.h"

#endif
