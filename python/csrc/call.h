/* One call of an operator by torch: reads arguments, makes results, reports errors.
 *
 * An operator here is a row (its schema) and a function of a zoe_call. Whatever goes wrong ends that function
 * at once: everything that belongs to the call is given back, and the sentence becomes a RuntimeError. So an
 * operator's function must own nothing itself. */
#ifndef ZOE_TORCH_CALL_H
#define ZOE_TORCH_CALL_H

#include "torch_stable.h"
#include "zoetrope/op.h"

typedef struct zoe_call zoe_call;

typedef struct zoe_torch_op {
    const char *name; /* for sentences */
    const char *schema;
    void (*run)(zoe_call *call);
    zoe_torch_kernel kernel;
} zoe_torch_op;

/* Makes the kernels and the table of a list OPS(OP) of rows OP(function, schema). Torch's kernels have no
 * argument that says which operator is meant, so each has a function of its own. */
#define ZOE_TORCH_OPS(OPS, table)                                                                  \
    OPS(ZOE_TORCH_KERNEL) const zoe_torch_op *const table[] = {OPS(ZOE_TORCH_POINTER) NULL};
#define ZOE_TORCH_KERNEL(function, schema)                                                         \
    static void function##_kernel(uint64_t *stack, uint64_t arguments, uint64_t results);          \
    static const zoe_torch_op function##_op = {#function, schema, function, function##_kernel};    \
    static void function##_kernel(uint64_t *stack, uint64_t arguments, uint64_t results)           \
    {                                                                                              \
        zoe_call_enter(&function##_op, stack, arguments, results);                                 \
    }
#define ZOE_TORCH_POINTER(function, schema) &function##_op,

/* One a file of operators; each ends with NULL. */
extern const zoe_torch_op *const zoe_torch_rms[],
    *const zoe_torch_layer[], *const zoe_torch_attention[], *const zoe_torch_rest[];

/* An operator's kernel: a function without arguments of its own, so that each has one. */
void zoe_call_enter(const zoe_torch_op *op, uint64_t *stack, uint64_t arguments, uint64_t results);

/* Ends the call with a sentence. */
void zoe_call_fail(zoe_call *call, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* Argument `index`. A tensor is copied where the operators could not take its strides (expanded axes, a last
 * axis that is not dense); none if it is optional and was not given. */
zoe_tensor zoe_call_tensor(zoe_call *call, size_t index);
/* One that is written to: never a copy. */
zoe_tensor zoe_call_target(zoe_call *call, size_t index);
float zoe_call_float(const zoe_call *call, size_t index);
int64_t zoe_call_int(const zoe_call *call, size_t index);
bool zoe_call_flag(const zoe_call *call, size_t index);
/* A number that is not negative. */
size_t zoe_call_count(zoe_call *call, size_t index);
/* A number from 0 to last: one of an enumeration. */
int zoe_call_choice(zoe_call *call, size_t index, int last);
/* A type of floating numbers; `otherwise` if it was not given. */
zoe_dtype zoe_call_dtype(zoe_call *call, size_t index, zoe_dtype otherwise);
/* Any type that a tensor here may have. */
zoe_dtype zoe_call_any_dtype(zoe_call *call, size_t index, zoe_dtype otherwise);

/* The next result: a new dense tensor. */
zoe_tensor zoe_call_new(zoe_call *call, zoe_dtype dtype, int rank, const size_t *shape);
/* The same, shaped like x; or like x without its last `axes`; or with no elements, where a result is not
 * wanted, in which case the tensor for the operator is none. */
zoe_tensor zoe_call_new_like(zoe_call *call, zoe_dtype dtype, zoe_tensor x);
zoe_tensor zoe_call_new_rows(zoe_call *call, zoe_dtype dtype, zoe_tensor x, int axes);
zoe_tensor zoe_call_new_unwanted(zoe_call *call, zoe_dtype dtype);

/* Where the operator works: in torch's threads. */
zoe_context *zoe_call_context(zoe_call *call);
zoe_workspace zoe_call_workspace(zoe_call *call, size_t bytes);
/* Ends the call unless the operator's status is ZOE_OK. */
void zoe_call_done(zoe_call *call, zoe_status status);

/* Looks up what newer versions of torch have. */
void zoe_call_setup(void);

#endif
