/* A call from its arguments to its blocks, without torch. */
#include "op.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef OP_AVX2
#include <cpuid.h>
#endif

extern const op_kernel op_kernels_baseline[OP_COMBINATIONS][1 << OP_FLAGS];
#ifdef OP_AVX2
extern const op_kernel op_kernels_avx2[OP_COMBINATIONS][1 << OP_FLAGS];
#endif

const op_input_row op_inputs[OP_INPUTS] = {OP_INPUT_ROWS};
static const struct {
    const char *name;
} outputs[OP_OUTPUTS] = {OP_OUTPUT_ROWS};
const op_attr_row op_attrs[OP_ATTRS + 1] = {OP_ATTR_ROWS};
static const op_type combinations[OP_COMBINATIONS][OP_INPUTS + OP_OUTPUTS] = OP_COMBINATION_ROWS;

/* ---- for the engineer ---- */

bool op_refuse(op_call *call, const char *format, ...)
{
    if (call->failed)
        return false; /* the first reason counts */
    call->failed = true;
    const int prefix = snprintf(call->message, sizeof call->message, "%s: ", OP_NAME);
    va_list args;
    va_start(args, format);
    vsnprintf(call->message + prefix, sizeof call->message - (size_t)prefix, format, args);
    va_end(args);
    return false;
}

bool op_given(const op_call *call, int input)
{
    return call->input[input].given;
}

int op_rank(const op_call *call, int input)
{
    return call->input[input].rank;
}

size_t op_size(op_call *call, int input, int axis)
{
    op_tensor *t = &call->input[input];
    const int at = axis < 0 ? t->rank + axis : axis;
    if (at < 0 || at >= t->rank) {
        op_refuse(call, "%s has rank %d, wanted an axis %d", op_inputs[input].name, t->rank, axis);
        return 0;
    }
    if (t->shape[at] == OP_UNKNOWN)
        t->shape[at] = call->ask(call, input, at);
    return t->shape[at] == OP_UNKNOWN ? 0 : (size_t)t->shape[at];
}

size_t op_elements(op_call *call, int input)
{
    size_t n = 1;
    for (int i = 0; i < op_rank(call, input); i++)
        n *= op_size(call, input, i);
    return n;
}

op_value op_attr(const op_call *call, int attr)
{
    return call->attr[attr];
}

bool op_output(op_call *call, int output, int rank, const size_t *shape)
{
    op_result *r = &call->output[output];
    if (rank < 0 || rank > OP_MOST_AXES)
        return op_refuse(call, "%s has rank %d, wanted 0 to %d", outputs[output].name, rank,
                         OP_MOST_AXES);
    r->inferred = true;
    r->like = OP_FROM_SIZES;
    r->rank = rank;
    for (int i = 0; i < rank; i++) {
        if (shape[i] > INT64_MAX)
            return op_refuse(call, "axis %d of %s is too long", i, outputs[output].name);
        r->shape[i] = (int64_t)shape[i];
    }
    return true;
}

bool op_output_like(op_call *call, int output, int input)
{
    if (!op_given(call, input))
        return op_refuse(call, "%s is to have the shape of %s, which is not given",
                         outputs[output].name, op_inputs[input].name);
    op_result *r = &call->output[output];
    r->inferred = true;
    r->like = input;
    r->rank = call->input[input].rank;
    memcpy(r->shape, call->input[input].shape, sizeof r->shape);
    return true;
}

void op_tile_rows(op_call *call, op_tiling *tiling, int input)
{
    enum { WORTH_A_THREAD = 65536 }; /* elements; some ten microseconds */
    const int rank = op_rank(call, input);
    tiling->width = rank > 0 ? op_size(call, input, -1) : 1;
    tiling->rows = 1;
    for (int axis = 0; axis < rank - 1; axis++) /* rows of width 0 are rows too */
        if (__builtin_mul_overflow(tiling->rows, op_size(call, input, axis), &tiling->rows))
            op_refuse(call, "%s has more rows than can be counted", op_inputs[input].name);
    tiling->block_rows = tiling->width > 0 ? WORTH_A_THREAD / tiling->width : WORTH_A_THREAD;
    if (tiling->block_rows == 0)
        tiling->block_rows = 1;
}

/* ---- which kernel ---- */

static const char *type_name(op_type type)
{
    static const char *const names[] = {"another type", "float16", "bfloat16", "float32"};
    return names[type];
}

static const char *type_given(const op_tensor *t)
{
    return t->type == OP_NONE && t->type_name ? t->type_name : type_name(t->type);
}

/* Appends to a text as long as there is room. */
static void append(char *text, size_t size, const char *word)
{
    const size_t length = strlen(text);
    if (length < size)
        snprintf(text + length, size - length, "%s", word);
}

/* Appends the types of the inputs that are given. */
static void append_types(const op_call *call, char *text, size_t size, const op_type *types)
{
    const char *between = "";
    for (int i = 0; i < OP_INPUTS; i++) {
        if (!op_given(call, i))
            continue;
        append(text, size, between);
        append(text, size, op_inputs[i].name);
        append(text, size, " ");
        append(text, size, types ? type_name(types[i]) : type_given(&call->input[i]));
        between = ", ";
    }
}

static bool fits(const op_call *call, const op_type *types)
{
    for (int i = 0; i < OP_INPUTS; i++)
        if (op_given(call, i) && call->input[i].type != types[i])
            return false;
    return true;
}

static bool choose(op_call *call)
{
    call->flags = 0;
    for (int i = 0; i < OP_INPUTS; i++)
        call->flags |= op_given(call, i) ? op_inputs[i].flag : 0;
    for (int i = 0; i < OP_ATTRS; i++)
        call->flags |= op_attrs[i].kind == OP_BOOL && call->attr[i].b ? op_attrs[i].flag : 0;
    for (call->combination = 0; call->combination < OP_COMBINATIONS; call->combination++)
        if (fits(call, combinations[call->combination]))
            return true;
    char found[400] = "", wanted[500] = "";
    append_types(call, found, sizeof found, NULL);
    for (int i = 0; i < OP_COMBINATIONS; i++) {
        append(wanted, sizeof wanted, i ? " or (" : "(");
        append_types(call, wanted, sizeof wanted, combinations[i]);
        append(wanted, sizeof wanted, ")");
    }
    return op_refuse(call, "the types are (%s), wanted %s", found, wanted);
}

bool op_prepare(op_call *call)
{
    if (!choose(call))
        return false;
    if (!op_infer(call) || call->failed)
        return call->failed ? false : op_refuse(call, "op_infer refuses without a reason");
    for (int i = 0; i < OP_OUTPUTS; i++) {
        if (!call->output[i].inferred)
            return op_refuse(call, "op_infer gives no shape of %s", outputs[i].name);
        call->output[i].type = combinations[call->combination][OP_INPUTS + i];
    }
    return true;
}

/* ---- blocks ---- */

static size_t scratch_bytes(const op_tiling *t)
{
    return (t->scratch * sizeof(float) + 63) / 64 * 64;
}

int op_output_to_fill(const op_call *call)
{
    int output = 0;
    for (; output < OP_OUTPUTS; output++) {
        const op_result *r = &call->output[output];
        bool empty = false;
        for (int axis = 0; axis < r->rank; axis++)
            empty = empty || r->shape[axis] == 0;
        if (!empty)
            break;
    }
    return output;
}

bool op_plan(op_call *call, size_t threads, size_t *bytes)
{
    op_tiling *t = &call->tiling;
    memset(t, 0, sizeof *t);
    if (!op_tile(call, t) || call->failed)
        return call->failed ? false : op_refuse(call, "op_tile refuses without a reason");
    if (t->block_rows == 0)
        return op_refuse(call, "op_tile puts 0 rows to a block, wanted at least 1");
    if (t->rows == 0)
        return op_refuse(call, "op_tile gives 0 rows, but %s is not empty: nothing would write it",
                         outputs[op_output_to_fill(call)].name);
    const size_t blocks = t->rows / t->block_rows + (t->rows % t->block_rows != 0);
    call->members = blocks < threads ? blocks : threads;
    if (t->scratch > (SIZE_MAX - 63) / sizeof(float) ||
        (call->members > 0 && scratch_bytes(t) > (size_t)INT64_MAX / call->members))
        return op_refuse(call, "op_tile wants %zu floats of scratch memory, more than there can be",
                         t->scratch);
    *bytes = scratch_bytes(t) * call->members;
    return true;
}

typedef struct team {
    op_call *call;
    op_kernel kernel;
    const void *input[OP_INPUTS];
    void *output[OP_OUTPUTS];
    char *scratch;
} team;

/* Each member has its share of the blocks, one after the other, and its own scratch memory. */
static void run_member(void *arg, size_t member)
{
    const team *t = arg;
    const op_tiling *tiling = &t->call->tiling;
    const size_t blocks =
        tiling->rows / tiling->block_rows + (tiling->rows % tiling->block_rows != 0);
    const size_t each = blocks / t->call->members, more = blocks % t->call->members;
    const size_t begin = member * each + (member < more ? member : more),
                 end = begin + each + (member < more);
    op_block block = {
        .input = t->input, .output = t->output, .attr = t->call->attr, .tiling = tiling};
    block.scratch =
        t->scratch ? (float *)(void *)(t->scratch + member * scratch_bytes(tiling)) : NULL;
    for (size_t b = begin; b < end; b++) {
        block.first = b * tiling->block_rows;
        block.rows = tiling->rows - block.first < tiling->block_rows ? tiling->rows - block.first
                                                                     : tiling->block_rows;
        t->kernel(&block);
    }
}

/* OP_CPU=baseline in the environment leaves the newer instructions alone; tests compare the two. */
static op_kernel kernel_for(const op_call *call)
{
#ifdef OP_AVX2
    static _Atomic int known = -1;
    int has_avx2 = known;
    if (has_avx2 < 0) {
        unsigned a, b, c = 0, d;
        const char *wish = getenv("OP_CPU");
        has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0 &&
                   !(wish && strcmp(wish, "baseline") == 0);
        known = has_avx2;
    }
    if (has_avx2)
        return op_kernels_avx2[call->combination][call->flags];
#endif
    return op_kernels_baseline[call->combination][call->flags];
}

void op_run(op_call *call, void *scratch, op_parallel parallel)
{
    team t = {.call = call, .kernel = kernel_for(call), .scratch = scratch};
    for (int i = 0; i < OP_INPUTS; i++)
        t.input[i] = op_given(call, i) ? call->input[i].data : NULL;
    for (int i = 0; i < OP_OUTPUTS; i++)
        t.output[i] = call->output[i].data;
    if (call->members > 0)
        parallel(call->members, run_member, &t);
}
