/* Inside `zoe bench ops`: cases of operators, by family. A new case is a row of a table; a new
 * operator besides needs a function that makes its operands. */
#ifndef ZOE_BENCH_OPS_H
#define ZOE_BENCH_OPS_H

#include "bench.h"
#include "zoetrope/op.h"

typedef struct bench_op bench_op;

/* Makes the operands (see bench_take), and sets args, run, unit and work. */
typedef void (*bench_prepare_fn)(bench_op *o);

typedef struct bench_case {
    const char *op; /* its name, also for peers */
    bench_prepare_fn prepare;
    zoe_dtype x, w, y; /* w: of weights, or ZOE_NONE */
    size_t rank, shape[BENCH_SHAPE];
    int variant;   /* for prepare: an activation, an order, a way */
    double target; /* percent of the peak that is asked for; such rows are those of --table */
    bool hidden;   /* only if a filter names it */
} bench_case;
/* The members rank and shape. */
#define BENCH_SHAPE_OF(...)                                                                        \
    .rank = sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t), .shape = {__VA_ARGS__}

typedef struct bench_family {
    const bench_case *cases;
    size_t count;
} bench_family;
extern const bench_family zoe_bench_linear, zoe_bench_attention, zoe_bench_conv,
    zoe_bench_elementwise, zoe_bench_rms_norm, zoe_bench_layer_norm;

enum { BENCH_OPERANDS = 20 };

struct bench_op {
    const bench_case *c;
    zoe_context *ctx;
    zoe_status status; /* of what was taken so far */
    void *owned[BENCH_OPERANDS];
    size_t n_owned;
    zoe_workspace work_space;
    zoe_status (*run)(zoe_context *ctx, void *op);
    void (*close)(bench_op *o); /* or NULL: frees what `packed` is */
    void *packed;
    bench_unit unit;
    double work;
    union {
        zoe_linear_args linear, linear_parts[3];
        zoe_attention_args attention;
        zoe_fused_infer_attention_score_args fused_attention;
        struct {
            zoe_attention_merge_args args;
            zoe_tensor outs[2], lses[2];
        } merge;
        zoe_conv3d_args conv3d;
        zoe_conv2d_args conv2d;
        zoe_linear_int8_args linear_int8;
        zoe_dynamic_quant_args dynamic_quant;
        zoe_glu_args glu;
        zoe_tensor tensors[4];
        zoe_rms_norm_args rms_norm;
        zoe_add_rms_norm_args add_rms_norm;
        zoe_rms_norm_quant_args rms_norm_quant;
        zoe_rms_norm_dynamic_quant_args rms_norm_dynamic_quant;
        zoe_qk_norm_rope_args qk_norm_rope;
        zoe_l2_norm_args l2_norm;
        zoe_rotary_mul_args rotary_mul;
        zoe_layer_norm_args layer_norm;
        zoe_layer_norm_modulate_args layer_norm_modulate;
        zoe_gated_residual_args gated_residual;
        zoe_gated_residual_norm_modulate_args gated_residual_norm_modulate;
        zoe_group_norm_args group_norm;
    } args;
};

/* A dense tensor of values between -1 and 1, freed with the case; none after a failure, which stays in
 * o->status. */
zoe_tensor zoe_bench_take(bench_op *o, zoe_dtype dtype, int rank, const size_t *shape);
#define bench_take(o, dtype, ...)                                                                  \
    zoe_bench_take(o, dtype, (int)(sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t)),        \
                   (const size_t[]){__VA_ARGS__})
void zoe_bench_take_workspace(bench_op *o, size_t bytes);

/* Bytes of memory that the case has to read or write: of each tensor once. */
double zoe_bench_bytes(const zoe_tensor *tensors, size_t n);
#define bench_bytes(...)                                                                           \
    zoe_bench_bytes((const zoe_tensor[]){__VA_ARGS__},                                             \
                    sizeof((const zoe_tensor[]){__VA_ARGS__}) / sizeof(zoe_tensor))

#endif
