/* Checks of arguments that operators share. */
#include "op/check.h"

#include <stdio.h>

/* Appends to a text of limited size. */
typedef struct text {
    char *at;
    size_t room;
} text;

static void append(text *t, const char *word)
{
    const int n = snprintf(t->at, t->room, "%s", word);
    const size_t used = n < 0 ? 0 : (size_t)n < t->room ? (size_t)n : t->room - 1;
    t->at += used;
    t->room -= used;
}

/* "f32 or bf16 [any, 5120]" */
static void describe_wanted(char *buffer, size_t size, unsigned types, int rank,
                            const size_t *shape)
{
    text t = {buffer, size};
    const char *between = "";
    const unsigned known = types & ~ZOE_TYPES_SCALED;
    for (unsigned dtype = ZOE_NONE + 1; dtype < ZOE_DTYPES; dtype++)
        if (types & ZOE_TYPE(dtype)) {
            append(&t, between);
            append(&t, zoe_dtype_name((zoe_dtype)dtype));
            const unsigned rest = known >> (dtype + 1);
            between = rest & (rest - 1) ? ", " : " or ";
        }
    append(&t, " [");
    for (int i = 0; i < rank; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", shape[i]);
        append(&t, i ? ", " : "");
        append(&t, shape[i] == ZOE_ANY ? "any" : number);
    }
    append(&t, types & ZOE_TYPES_OR_NONE ? "] or none" : "]");
}

static bool shape_fits(zoe_tensor t, int rank, const size_t *shape)
{
    if (t.rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (shape[i] != ZOE_ANY && t.shape[i] != shape[i])
            return false;
    return true;
}

/* Rows must begin and end with a block. */
static zoe_status check_blocks(zoe_context *ctx, const char *op, const char *name, zoe_tensor t)
{
    const size_t elements = zoe_block_elements(t.dtype);
    bool whole = t.rank > 0 ? t.shape[t.rank - 1] % elements == 0 : elements == 1;
    for (int i = 0; i + 1 < t.rank; i++)
        whole = whole && (t.shape[i] < 2 || (size_t)t.stride[i] % elements == 0);
    if (whole)
        return ZOE_OK;
    char found[128];
    return zoe_fail(ctx, ZOE_INVALID, "%s: %s is %s, whose rows are no whole blocks of %zu", op,
                    name, zoe_tensor_describe(found, sizeof found, t), elements);
}

zoe_status zoe_check_tensor(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                            unsigned types, int rank, const size_t *shape)
{
    if (t.dtype == ZOE_NONE && types & ZOE_TYPES_OR_NONE)
        return ZOE_OK;
    char found[128], wanted[256];
    if (t.rank < 0 || t.rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s has rank %d, wanted 0 to %d", op, name, t.rank,
                        ZOE_MAX_RANK);
    if ((unsigned)t.dtype >= ZOE_DTYPES || !(types & ZOE_TYPE(t.dtype)) ||
        !shape_fits(t, rank, shape)) {
        zoe_tensor_describe(found, sizeof found, t);
        describe_wanted(wanted, sizeof wanted, types, rank, shape);
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s is %s, wanted %s", op, name, found, wanted);
    }
    if (t.scaling && !(types & ZOE_TYPES_SCALED))
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s has factors beside it, which only weights may",
                        op, name);
    if (t.scaling && (!t.scaling->values || !t.scaling->row_step || !t.scaling->column_step))
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: the factors of %s have no values, or a step of 0, wanted at least 1",
                        op, name);
    for (int i = 0; i < rank; i++)
        if (t.shape[i] == 0)
            return ZOE_OK; /* nothing is read or written, whatever strides and pointer are */
    TRY(check_blocks(ctx, op, name, t));
    size_t elements = 1, span = zoe_block_bytes(t.dtype);
    for (int i = 0; i < rank; i++) {
        if (t.shape[i] > 1 && (i == rank - 1 ? t.stride[i] != 1 : t.stride[i] < 1))
            return zoe_fail(ctx, ZOE_INVALID, "%s: %s has stride %td on axis %d, wanted %s", op,
                            name, t.stride[i], i, i == rank - 1 ? "1" : "at least 1");
        size_t reach = 0;
        if (!zoe_size_mul(&elements, elements, t.shape[i]) ||
            (t.shape[i] > 1 && (!zoe_size_mul(&reach, t.shape[i] - 1, (size_t)t.stride[i]) ||
                                !zoe_size_mul(&reach, reach, zoe_block_bytes(t.dtype)) ||
                                !zoe_size_add(&span, span, reach))))
            return zoe_fail(ctx, ZOE_INVALID, "%s: %s is %s, more than memory can address", op,
                            name, zoe_tensor_describe(found, sizeof found, t));
    }
    if (span > PTRDIFF_MAX)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: %s is %s, whose strides reach %zu bytes, more than memory can address",
                        op, name, zoe_tensor_describe(found, sizeof found, t), span);
    if (!t.data)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s has no data", op, name);
    return ZOE_OK;
}

/* Bytes from the first to behind the last element; the tensor is checked and not empty. */
static size_t span_of(zoe_tensor t)
{
    size_t last = 0;
    for (int i = 0; i < t.rank; i++)
        if (t.shape[i] > 1)
            last += (t.shape[i] - 1) * (size_t)t.stride[i];
    return zoe_run_bytes(t.dtype, last + 1);
}

static bool same_view(zoe_tensor a, zoe_tensor b)
{
    if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank)
        return false;
    for (int i = 0; i < a.rank; i++)
        if (a.shape[i] != b.shape[i] || (a.shape[i] > 1 && a.stride[i] != b.stride[i]))
            return false;
    return true;
}

/* Do the views lie apart because their cells of axis `axis` do: the same distance from cell to cell in
 * both, every axis before it a multiple of that, and no cell of one reaching into those of the other? So
 * are columns of one buffer told apart, such as the parts of a fused projection. */
static bool apart_along(zoe_tensor a, zoe_tensor b, int axis)
{
    if (a.stride[axis] < 1 || b.stride[axis] < 1)
        return false;
    const size_t distance = zoe_run_bytes(a.dtype, (size_t)a.stride[axis]);
    if (zoe_run_bytes(b.dtype, (size_t)b.stride[axis]) != distance)
        return false;
    for (int i = 0; i < axis; i++)
        if ((a.shape[i] > 1 && a.stride[i] % a.stride[axis] != 0) ||
            (b.shape[i] > 1 && b.stride[i] % b.stride[axis] != 0))
            return false;
    for (int i = 0; i <= axis; i++)
        a.shape[i] = b.shape[i] = 1; /* one cell of each */
    const uintptr_t pa = (uintptr_t)a.data, pb = (uintptr_t)b.data;
    const size_t offset =
        pb >= pa ? (pb - pa) % distance : (distance - (pa - pb) % distance) % distance;
    return offset >= span_of(a) && offset + span_of(b) <= distance;
}

/* Could an element of a share a byte with one of b? Never no where it is yes; where strides differ it may be
 * yes for views that pass each other by. */
static bool may_overlap(zoe_tensor a, zoe_tensor b)
{
    const uintptr_t pa = (uintptr_t)a.data, pb = (uintptr_t)b.data;
    if (pa + span_of(a) <= pb || pb + span_of(b) <= pa)
        return false;
    for (int axis = 0; a.rank == b.rank && axis < a.rank; axis++)
        if (apart_along(a, b, axis))
            return false;
    return true;
}

zoe_status zoe_check_apart(zoe_context *ctx, const char *op, const char *y_name, zoe_tensor y,
                           const char *x_name, zoe_tensor x, bool same)
{
    if (zoe_tensor_count(y) == 0 || zoe_tensor_count(x) == 0 || (same && same_view(y, x)) ||
        !may_overlap(y, x))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID,
                    same ? "%s: %s overlaps %s without being the same view" : "%s: %s overlaps %s",
                    op, y_name, x_name);
}

zoe_status zoe_check_pair(zoe_context *ctx, const char *op, const char *a_name, zoe_tensor a,
                          const char *b_name, zoe_tensor b)
{
    if ((a.dtype == ZOE_NONE) == (b.dtype == ZOE_NONE))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID, "%s: %s is given without %s", op,
                    a.dtype == ZOE_NONE ? b_name : a_name, a.dtype == ZOE_NONE ? a_name : b_name);
}

zoe_status zoe_check_eps(zoe_context *ctx, const char *op, float eps)
{
    if (eps >= 0.0f && eps < INFINITY)
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID, "%s: eps is %g, wanted a number from 0 on", op, (double)eps);
}

zoe_status zoe_check_workspace(zoe_context *ctx, const char *op, zoe_workspace work, size_t wanted)
{
    if (work.bytes < wanted)
        return zoe_fail(ctx, ZOE_NOMEM, "%s: the workspace has %zu bytes, wanted %zu", op,
                        work.bytes, wanted);
    if (wanted > 0 && (!work.data || (uintptr_t)work.data % 64 != 0))
        return zoe_fail(ctx, ZOE_INVALID, "%s: the workspace is not 64-byte aligned", op);
    return ZOE_OK;
}
