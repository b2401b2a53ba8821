/* What an operator is made of. The first part is for the engineer: op_host/<op>.c defines
 * op_infer and op_tile, op_kernel/<op>.c defines KERNEL. The second is between the files of this
 * folder. */
#ifndef OP_H
#define OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

typedef enum op_type { OP_NONE, OP_F16, OP_BF16, OP_F32 } op_type;
typedef enum op_kind { OP_FLOAT, OP_INT, OP_BOOL } op_kind;
typedef union op_value {
    double f;  /* OP_FLOAT */
    int64_t i; /* OP_INT */
    bool b;    /* OP_BOOL */
} op_value;

/* How the work is cut: rows, which are computed independently of one another, so many to a
 * block. Blocks run in parallel and in any order. */
typedef struct op_tiling {
    size_t rows;       /* of all blocks together; 0 only if all outputs are empty */
    size_t width;      /* elements of a row; may be 0 */
    size_t block_rows; /* at least 1; the last block has what is left */
    size_t scratch;    /* floats of scratch memory that a block needs */
    size_t size[8];    /* whatever else the kernel wants to know */
} op_tiling;

/* What a kernel is given: where the tensors begin (all dense, last axis fastest), and its rows. */
typedef struct op_block {
    const void *const *input; /* by INPUT_ number; NULL: not given */
    void *const *output;      /* by OUTPUT_ number */
    const op_value *attr;     /* by ATTR_ number */
    const op_tiling *tiling;
    size_t first, rows; /* rows first, first + 1, ... */
    float *scratch;     /* tiling->scratch floats, aligned to 64 bytes, with anything in them */
} op_block;

typedef void (*op_kernel)(const op_block *block);

/* One call of the operator. */
typedef struct op_call op_call;

/* The shapes of the outputs. Called before anything is computed, and also when torch traces or
 * compiles a model: then there is no data, and a size may be a symbol. op_size of a symbol pins
 * it to the number at hand, so ask only for what must be known, and say op_output_like where an
 * output has the shape of an input. Returns false after op_refuse. */
bool op_infer(op_call *call);

/* The tiling. Called on the CPU, when the outputs are there and one of them is not empty; when
 * all are empty, neither it nor the kernel is called. `tiling` comes zeroed. No rows would leave
 * the outputs as their memory was found: that is a RuntimeError. Returns false after op_refuse. */
bool op_tile(op_call *call, op_tiling *tiling);

bool op_given(const op_call *call, int input);
int op_rank(const op_call *call, int input);

/* Axis -1 is the last. The axis must be there. */
size_t op_size(op_call *call, int input, int axis);

/* The product of all sizes. */
size_t op_elements(op_call *call, int input);
op_value op_attr(const op_call *call, int attr);

/* Each output needs one of these in op_infer. They return true. */
bool op_output(op_call *call, int output, int rank, const size_t *shape);
bool op_output_like(op_call *call, int output, int input);

/* Ends the call with a RuntimeError: "<op>: " and one sentence. Returns false. */
bool op_refuse(op_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A tiling along the last axis of an input: its rows, so many to a block that a block is worth a
 * thread. rows is the product of the axes before the last, also where width is 0: a kernel that
 * reduces rows must write the sum of nothing. rows is 0 only if one of those axes is 0. An input
 * without axes is one row of one element. */
void op_tile_rows(op_call *call, op_tiling *tiling, int input);

/* Tiles are lengthened to multiples of so many floats. */
enum { TILE_LANES = 32 };

/* n floats, rounded up so that another tile may follow: also for tiling->scratch. */
static inline size_t tile_round(size_t n)
{
    return (n + TILE_LANES - 1) / TILE_LANES * TILE_LANES;
}

/* ---- between op.c, torch.c and variants.c ---- */

enum { OP_MOST_AXES = 16, OP_UNKNOWN = -1, OP_FROM_SIZES = -1 };

typedef struct op_tensor {
    bool given;
    op_type type;
    const char *type_name; /* of a type that is OP_NONE, as torch calls it; NULL: unknown */
    int rank;
    int64_t shape[OP_MOST_AXES]; /* OP_UNKNOWN: to be asked for */
    void *data;
} op_tensor;

typedef struct op_result {
    bool inferred;
    int like; /* an input, or OP_FROM_SIZES */
    int rank;
    int64_t shape[OP_MOST_AXES];
    op_type type;
    void *data;
} op_result;

struct op_call {
    op_tensor input[OP_INPUTS];
    op_result output[OP_OUTPUTS];
    op_value attr[OP_ATTRS + 1];
    int combination;
    unsigned flags;
    op_tiling tiling;
    size_t members; /* blocks are dealt to so many */
    int64_t (*ask)(op_call *call, int input,
                   int axis); /* for a size that is unknown; OP_UNKNOWN: refused */
    bool failed;
    char message[1024];
};

typedef struct op_input_row {
    const char *name;
    bool optional;
    unsigned flag;
} op_input_row;
typedef struct op_attr_row {
    const char *name;
    op_kind kind;
    unsigned flag;
    double value; /* unless given */
} op_attr_row;

extern const op_input_row op_inputs[OP_INPUTS];
extern const op_attr_row op_attrs[OP_ATTRS + 1];

/* Chooses the combination of types and the variant by what is given; then shapes and types of
 * the outputs. */
bool op_prepare(op_call *call);

/* The first output that has elements; OP_OUTPUTS if there is none, and so nothing to compute. */
int op_output_to_fill(const op_call *call);

/* Before op_run: the tiling for at most so many threads. *bytes: of scratch memory, aligned to
 * 64. */
bool op_plan(op_call *call, size_t threads, size_t *bytes);

/* Runs task(arg, i) for each i from 0 to n - 1, in any order and at once if it likes. */
typedef void (*op_task)(void *arg, size_t i);
typedef void (*op_parallel)(size_t n, op_task task, void *arg);
void op_run(op_call *call, void *scratch, op_parallel parallel);

/* Defined by op_kernel/variants.c, which is compiled once for each set of instructions. */
extern const op_kernel op_kernels[OP_COMBINATIONS][1 << OP_FLAGS];

#endif
