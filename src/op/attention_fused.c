/* The contract of attention over a batch: layouts, lengths, bands and masks become the one form
 * that devices know. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

#define TYPES (ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16))

typedef zoe_fused_infer_attention_score_args fused_args;

static const char op[] = "fused_infer_attention_score";

/* Extent of the mask that stands for a causal pattern. */
enum { COMPRESSED = 2048 };

/* Which axis is which; NO_AXIS: there is none, or heads lie within the last axis. */
enum { NO_AXIS = -1 };
typedef struct axes {
    int rank, b, n, s;
} axes;

static const axes BSH = {3, 0, NO_AXIS, 1}, BSND = {4, 0, 2, 1}, BNSD = {4, 0, 1, 2},
                  NBSD = {4, 1, 0, 2}, TND = {3, NO_AXIS, 1, 0}, NTD = {3, NO_AXIS, 0, 1};

static const struct {
    const axes *in, *out;
} layouts[] = {
    [ZOE_LAYOUT_BSH] = {&BSH, &BSH},         [ZOE_LAYOUT_BSND] = {&BSND, &BSND},
    [ZOE_LAYOUT_BNSD] = {&BNSD, &BNSD},      [ZOE_LAYOUT_BNSD_BSND] = {&BNSD, &BSND},
    [ZOE_LAYOUT_BSH_NBSD] = {&BSH, &NBSD},   [ZOE_LAYOUT_BSND_NBSD] = {&BSND, &NBSD},
    [ZOE_LAYOUT_BNSD_NBSD] = {&BNSD, &NBSD}, [ZOE_LAYOUT_TND] = {&TND, &TND},
    [ZOE_LAYOUT_TND_NTD] = {&TND, &NTD},     [ZOE_LAYOUT_NTD_TND] = {&NTD, &TND},
};

/* What the shapes say. */
typedef struct extents {
    const axes *in, *out;
    size_t B, N, kv_N, S, kv_S, D, Dv;
} extents;

static size_t extent(zoe_tensor t, int axis, size_t otherwise)
{
    return axis == NO_AXIS ? otherwise : t.shape[axis];
}

/* The width of a head, of which there are n. */
static size_t width_of(zoe_tensor t, const axes *a, size_t n)
{
    const size_t last = t.shape[a->rank - 1];
    return a->n == NO_AXIS ? (n > 0 ? last / n : 0) : last;
}

static extents extents_of(const fused_args *a)
{
    extents e = {.in = layouts[a->layout].in, .out = layouts[a->layout].out};
    e.B = extent(a->q, e.in->b, 1);
    e.N = extent(a->q, e.in->n, a->heads);
    e.kv_N = a->kv_heads > 0 ? a->kv_heads : e.N;
    e.S = a->q.shape[e.in->s];
    e.kv_S = a->k.shape[e.in->s];
    e.D = width_of(a->q, e.in, e.N);
    e.Dv = width_of(a->v, e.in, e.kv_N);
    return e;
}

/* t as [B, N, S, D] */
static zoe_tensor view_of(zoe_tensor t, const axes *a, size_t n)
{
    zoe_tensor v = {.data = t.data, .dtype = t.dtype, .rank = 4};
    const int places[3] = {a->b, a->n, a->s};
    v.shape[3] = width_of(t, a, n);
    v.stride[3] = 1;
    for (int i = 0; i < 3; i++) {
        v.shape[i] = extent(t, places[i], i == 1 ? n : 1);
        v.stride[i] =
            places[i] == NO_AXIS ? (i == 1 ? (ptrdiff_t)v.shape[3] : 0) : t.stride[places[i]];
    }
    return v;
}

/* ---- checks ---- */

/* Is t of one of these types and of the extents that `a` puts into order? */
static zoe_status check_operand(zoe_context *ctx, const char *name, zoe_tensor t, unsigned types,
                                const axes *a, size_t B, size_t N, size_t S, size_t D)
{
    size_t shape[ZOE_MAX_RANK] = {0};
    shape[a->rank - 1] = D;
    if (a->b != NO_AXIS)
        shape[a->b] = B;
    if (a->n != NO_AXIS)
        shape[a->n] = N;
    else if (D != ZOE_ANY && !zoe_size_mul(&shape[a->rank - 1], N, D))
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu heads of width %zu are too many", op, N, D);
    shape[a->s] = S;
    return zoe_check_tensor(ctx, op, name, t, types, a->rank, shape);
}

/* Within one axis, heads must have the same width. */
static zoe_status check_heads(zoe_context *ctx, const char *name, zoe_tensor t, const axes *a,
                              size_t n)
{
    if (a->n != NO_AXIS)
        return ZOE_OK;
    if (n == 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: heads is 0, wanted their number, which layout BSH does "
                        "not tell",
                        op);
    if (t.shape[a->rank - 1] % n != 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the width %zu of %s is no whole number of %zu heads",
                        op, t.shape[a->rank - 1], name, n);
    return ZOE_OK;
}

static zoe_status check_operands(zoe_context *ctx, const fused_args *a)
{
    if ((unsigned)a->layout >= sizeof layouts / sizeof *layouts)
        return zoe_fail(ctx, ZOE_INVALID, "%s: layout is %d, which is none", op, (int)a->layout);
    const axes *in = layouts[a->layout].in;
    TRY(check_operand(ctx, "q", a->q, TYPES, in, ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY));
    TRY(check_heads(ctx, "q", a->q, in, a->heads));
    const extents e = extents_of(a);
    const unsigned type = ZOE_TYPE(a->q.dtype);
    if (a->heads > 0 && a->heads != e.N)
        return zoe_fail(ctx, ZOE_INVALID, "%s: heads is %zu, but q has %zu", op, a->heads, e.N);
    if (e.kv_N > 0 && e.N % e.kv_N != 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu heads cannot share %zu heads of keys evenly", op,
                        e.N, e.kv_N);
    TRY(check_operand(ctx, "k", a->k, type, in, e.B, e.kv_N, ZOE_ANY, e.D));
    TRY(check_operand(ctx, "v", a->v, type, in, e.B, e.kv_N, e.kv_S, ZOE_ANY));
    TRY(check_heads(ctx, "v", a->v, in, e.kv_N));
    if (e.D == 0 || e.Dv == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: heads have widths %zu and %zu, wanted at least 1",
                        op, e.D, e.Dv);
    return check_operand(ctx, "o", a->o, TYPES, e.out, e.B, e.N, e.S, e.Dv);
}

static zoe_status check_lse(zoe_context *ctx, const fused_args *a, const extents *e)
{
    const unsigned types = ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE;
    if (a->lse_invalid != 0.0f && !isinf(a->lse_invalid))
        return zoe_fail(ctx, ZOE_INVALID, "%s: lse_invalid is %g, wanted -inf or inf", op,
                        (double)a->lse_invalid);
    if (e->in->b == NO_AXIS)
        return ZOE_CHECK(ctx, op, "lse", a->lse, types, 3, e->S, e->N, 1);
    return ZOE_CHECK(ctx, op, "lse", a->lse, types, 4, e->B, e->N, e->S, 1);
}

/* Lengths of B sequences that have room for S tokens each. */
static zoe_status check_lengths(zoe_context *ctx, const char *name, const int64_t *lengths,
                                size_t count, size_t B, size_t S)
{
    if (!lengths)
        return ZOE_OK;
    if (count != 1 && count < B)
        return zoe_fail(ctx, ZOE_INVALID, "%s: there are %zu %s, wanted 1 or %zu", op, count, name,
                        B);
    for (size_t b = 0; b < (count == 1 ? 1 : B); b++)
        if (lengths[b] < 0 || (uint64_t)lengths[b] > S)
            return zoe_fail(ctx, ZOE_INVALID, "%s: %s[%zu] is %lld, wanted 0 to %zu", op, name, b,
                            (long long)lengths[b], S);
    return ZOE_OK;
}

/* Ends of sequences that fill T tokens. */
static zoe_status check_ends(zoe_context *ctx, const char *name, const int64_t *ends, size_t count,
                             size_t T)
{
    if (!ends || count == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s is not given, which layouts with T need", op,
                        name);
    for (size_t b = 0; b < count; b++) {
        const int64_t least = b > 0 ? ends[b - 1] : 0;
        if (ends[b] < least || (uint64_t)ends[b] > T)
            return zoe_fail(ctx, ZOE_INVALID, "%s: %s[%zu] is %lld, wanted %lld to %zu", op, name,
                            b, (long long)ends[b], (long long)least, T);
    }
    if ((uint64_t)ends[count - 1] != T)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %s ends with %lld, wanted all %zu", op, name,
                        (long long)ends[count - 1], T);
    return ZOE_OK;
}

static zoe_status check_all_lengths(zoe_context *ctx, const fused_args *a, const extents *e)
{
    if (e->in->b != NO_AXIS) {
        TRY(check_lengths(ctx, "q_lengths", a->q_lengths, a->q_length_count, e->B, e->S));
        return check_lengths(ctx, "kv_lengths", a->kv_lengths, a->kv_length_count, e->B, e->kv_S);
    }
    TRY(check_ends(ctx, "q_lengths", a->q_lengths, a->q_length_count, e->S));
    TRY(check_ends(ctx, "kv_lengths", a->kv_lengths, a->kv_length_count, e->kv_S));
    if (a->q_length_count != a->kv_length_count)
        return zoe_fail(ctx, ZOE_INVALID, "%s: there are %zu q_lengths and %zu kv_lengths", op,
                        a->q_length_count, a->kv_length_count);
    return ZOE_OK;
}

static size_t longest(const int64_t *ends, size_t count)
{
    size_t most = 0;
    for (size_t b = 0; b < count; b++) {
        const size_t n = (size_t)(ends[b] - (b > 0 ? ends[b - 1] : 0));
        most = n > most ? n : most;
    }
    return most;
}

/* A mask of rank 2 to 4 whose last two extents are rows and columns (at_least: or more), the first
 * 1 or `batch`, and between them 1. */
static zoe_status check_mask_shape(zoe_context *ctx, zoe_tensor mask, size_t batch, size_t rows,
                                   size_t columns, bool at_least)
{
    const unsigned types = ZOE_TYPE(ZOE_BOOL) | ZOE_TYPE(ZOE_U8) | ZOE_TYPE(ZOE_I8);
    const int rank = mask.rank < 2 ? 2 : mask.rank > 4 ? 4 : mask.rank;
    size_t shape[ZOE_MAX_RANK] = {1, 1, 1};
    if (rank > 2)
        shape[0] = mask.shape[0] == 1 ? 1 : batch;
    shape[rank - 2] = at_least && mask.shape[rank - 2] > rows ? mask.shape[rank - 2] : rows;
    shape[rank - 1] = at_least && mask.shape[rank - 1] > columns ? mask.shape[rank - 1] : columns;
    return zoe_check_tensor(ctx, op, "mask", mask, types, rank, shape);
}

static bool consults_mask(const fused_args *a)
{
    return a->mask.dtype != ZOE_NONE &&
           (a->sparse_mode == ZOE_SPARSE_BAND || a->sparse_mode == ZOE_SPARSE_MASK);
}

static bool has_band(const fused_args *a)
{
    return a->sparse_mode == ZOE_SPARSE_BAND_END ||
           (a->sparse_mode == ZOE_SPARSE_BAND && a->mask.dtype != ZOE_NONE);
}

static zoe_status check_sparse(zoe_context *ctx, const fused_args *a, const extents *e)
{
    if ((unsigned)a->sparse_mode > ZOE_SPARSE_BAND_END)
        return zoe_fail(ctx, ZOE_INVALID, "%s: sparse_mode is %d, wanted 0 to 4", op,
                        (int)a->sparse_mode);
    if (has_band(a)) {
        const int64_t pre = a->pre_tokens, next = a->next_tokens;
        if ((pre < 0 && next < 0) || ((pre < 0 || next < 0) && pre + next < 0))
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s: the band of pre_tokens %lld and next_tokens %lld "
                            "is empty",
                            op, (long long)pre, (long long)next);
    }
    if (a->mask.dtype == ZOE_NONE && a->sparse_mode != ZOE_SPARSE_MASK)
        return ZOE_OK;
    if (!consults_mask(a) && a->mask.dtype != ZOE_NONE)
        return check_mask_shape(ctx, a->mask, 1, COMPRESSED, COMPRESSED, false);
    if (e->in->b != NO_AXIS)
        return check_mask_shape(ctx, a->mask, e->B, e->S, e->kv_S, false);
    return check_mask_shape(ctx, a->mask, 1, longest(a->q_lengths, a->q_length_count),
                            longest(a->kv_lengths, a->kv_length_count), true);
}

static zoe_status check_apart(zoe_context *ctx, const fused_args *a)
{
    const struct {
        const char *name;
        zoe_tensor t;
    } inputs[] = {{"q", a->q}, {"k", a->k}, {"v", a->v}, {"mask", a->mask}};
    TRY(zoe_check_apart(ctx, op, "o", a->o, "lse", a->lse, false));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        TRY(zoe_check_apart(ctx, op, "o", a->o, inputs[i].name, inputs[i].t, false));
        TRY(zoe_check_apart(ctx, op, "lse", a->lse, inputs[i].name, inputs[i].t, false));
    }
    return ZOE_OK;
}

static zoe_status check(zoe_context *ctx, const fused_args *a)
{
    TRY(check_operands(ctx, a));
    const extents e = extents_of(a);
    TRY(check_lse(ctx, a, &e));
    TRY(check_all_lengths(ctx, a, &e));
    TRY(check_sparse(ctx, a, &e));
    return check_apart(ctx, a);
}

/* ---- the form ---- */

static int64_t within_reach(int64_t tokens)
{
    return tokens > ZOE_ATTENTION_FAR    ? ZOE_ATTENTION_FAR
           : tokens < -ZOE_ATTENTION_FAR ? -ZOE_ATTENTION_FAR
                                         : tokens;
}

/* lse [B, N, S, 1] as it is, [T, N, 1] as [1, N, T] */
static zoe_tensor view_of_lse(zoe_tensor t)
{
    zoe_tensor v = t;
    if (t.dtype == ZOE_NONE || t.rank == 4)
        return v;
    v.rank = 4;
    v.shape[0] = 1;
    v.stride[0] = 0;
    v.shape[2] = t.shape[0];
    v.stride[2] = t.stride[0];
    v.shape[3] = 1;
    v.stride[3] = 1;
    return v;
}

/* [rows, columns], with a batch before or without, as [B, rows, columns] */
static zoe_tensor view_of_mask(zoe_tensor t)
{
    zoe_tensor v = {.data = t.data, .dtype = t.dtype, .rank = 3};
    v.shape[0] = t.rank > 2 ? t.shape[0] : 1;
    v.stride[0] = t.rank > 2 && t.shape[0] > 1 ? t.stride[0] : 0;
    for (int i = 1; i < 3; i++) {
        v.shape[i] = t.shape[t.rank - 3 + i];
        v.stride[i] = t.stride[t.rank - 3 + i];
    }
    return v;
}

static zoe_attention_form form_of(const fused_args *a)
{
    const extents e = extents_of(a);
    const bool cumulative = e.in->b == NO_AXIS;
    zoe_attention_form f = {.o = view_of(a->o, e.out, e.N),
                            .lse = view_of_lse(a->lse),
                            .q = view_of(a->q, e.in, e.N),
                            .k = view_of(a->k, e.in, e.kv_N),
                            .v = view_of(a->v, e.in, e.kv_N),
                            .bias = zoe_tensor_none(),
                            .mask = zoe_tensor_none(),
                            .q_lengths = a->q_lengths,
                            .k_lengths = a->kv_lengths,
                            .q_step = a->q_length_count == 1 ? 0 : 1,
                            .k_step = a->kv_length_count == 1 ? 0 : 1,
                            .cumulative = cumulative,
                            .sequences = cumulative ? a->q_length_count : e.B,
                            .before = ZOE_ATTENTION_FAR,
                            .after = ZOE_ATTENTION_FAR,
                            .scale = a->scale,
                            .invalid = a->lse_invalid > 0.0f ? INFINITY : -INFINITY,
                            .last_count = 1};
    if (consults_mask(a))
        f.mask = view_of_mask(a->mask);
    if (a->sparse_mode == ZOE_SPARSE_CAUSAL || a->sparse_mode == ZOE_SPARSE_CAUSAL_END)
        f.after = 0;
    if (has_band(a)) {
        f.before = within_reach(a->pre_tokens);
        f.after = within_reach(a->next_tokens);
    }
    f.from_end = a->sparse_mode == ZOE_SPARSE_CAUSAL_END || a->sparse_mode == ZOE_SPARSE_BAND_END;
    return f;
}

size_t zoe_fused_infer_attention_score_workspace(const zoe_context *ctx, const fused_args *args)
{
    if ((unsigned)args->layout >= sizeof layouts / sizeof *layouts ||
        zoe_tensor_count(args->o) == 0)
        return 0;
    fused_args a = *args;
    a.mask = zoe_tensor_none(); /* of it, and of lengths, nothing depends */
    const zoe_attention_form form = form_of(&a);
    return zoe_device_of(ctx)->attention_workspace(ctx, &form);
}

zoe_status zoe_fused_infer_attention_score(zoe_context *ctx, const fused_args *args,
                                           zoe_workspace work)
{
    TRY(check(ctx, args));
    if (zoe_tensor_count(args->o) == 0)
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, op, work, zoe_fused_infer_attention_score_workspace(ctx, args)));
    const zoe_attention_form form = form_of(args);
    return ZOE_RUN(ATTENTION, attention(ctx, &form, work));
}
