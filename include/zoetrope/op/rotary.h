/* Rotary position embedding. The rules that hold for every operator are in zoetrope/op.h. */
#ifndef ZOETROPE_OP_ROTARY_H
#define ZOETROPE_OP_ROTARY_H

#include "zoetrope/op/types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Which elements of a head of width D are turned together. */
typedef enum zoe_rotary_pairing {
    ZOE_ROTARY_HALF,       /* j and j + D/2 */
    ZOE_ROTARY_INTERLEAVE, /* 2j and 2j + 1; Wan */
    ZOE_ROTARY_QUARTER     /* j and j + D/4 of each half */
} zoe_rotary_pairing;

/* y = x * cos + rot(x) * sin, where rot turns a pair (a, b) into (-b, a):
 *
 *   y[first] = a cos[first] - b sin[first];  y[second] = b cos[second] + a sin[second]
 *
 * y, x      [..., D] of rank 1 to 5, f32, f16 or bf16; y may be x if of the same type
 * cos, sin  [..., W] f32, f16 or bf16, of one type and shape; axes before the last are those of x, or 1.
 *           So [B, N, S, D], [B, S, N, D], [S, B, N, D] and [T, N, D] are one operator
 * W is the even width R that is turned, R <= D, or with half_tables R / 2, one entry a pair; what lies
 * behind R is copied.
 * Everything in f32, two products and a sum that round one by one. trig_in_x_dtype: cos and sin are
 * first rounded to the type of x, as npu_rotary_mul does.
 * Source: Su et al. 2021, arXiv 2104.09864. */
typedef struct zoe_rotary_mul_args {
    zoe_tensor y, x, cos, sin;
    zoe_rotary_pairing pairing;
    bool half_tables, trig_in_x_dtype;
} zoe_rotary_mul_args;

zoe_status zoe_rotary_mul(zoe_context *ctx, const zoe_rotary_mul_args *args);

/* Tables for tokens on a grid of frames, rows and columns, columns fastest: the pairs of a head are
 * split over the three axes, (P - 2 (P / 3), P / 3, P / 3) of P = D / 2, and pair p of the n of an axis
 * turns by position * base^(-p / n). Angles are in f64.
 *
 * cos, sin  [L, D / 2]  f32, of the tokens first, first + 1, ..., which the grid must have
 * base      10000 in Wan
 * Source: Wan2.2 wan/modules/model.py, rope_params and rope_apply. */
typedef struct zoe_rotary_table_args {
    zoe_tensor cos, sin;
    size_t frames, rows, columns, first;
    double base;
} zoe_rotary_table_args;

zoe_status zoe_rotary_table(zoe_context *ctx, const zoe_rotary_table_args *args);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
