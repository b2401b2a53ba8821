/* The linear layer's contract. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned row_types = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);

/* ---- shapes ---- */

/* The product of the axes before the last `last` ones. */
static size_t leading(zoe_tensor t, int last)
{
    size_t n = 1;
    for (int i = 0; i + last < t.rank; i++)
        n *= t.shape[i];
    return n;
}

static size_t columns(zoe_tensor t)
{
    return t.rank > 0 ? t.shape[t.rank - 1] : 0;
}

static size_t outputs(const zoe_linear_args *a)
{
    return a->w.rank > 1 ? a->w.shape[a->w.rank - 2] : 0;
}

/* Sizes that workspaces may be counted from; what is not of these is refused later, with a reason. */
static bool countable(zoe_tensor t)
{
    size_t bytes;
    return t.rank >= 2 && t.rank <= ZOE_MAX_RANK &&
           zoe_size_product(&bytes, t.shape, (size_t)t.rank) && zoe_size_mul(&bytes, bytes, 1024);
}

static bool many_matrices(const zoe_linear_args *a)
{
    return a->w.rank > 2;
}

/* Matrix b of a tensor, counted over the axes before its last two; a tensor of none or of a vector as it
 * is. */
static zoe_tensor matrix(zoe_tensor t, size_t b)
{
    if (t.rank < 3)
        return t;
    size_t at = 0;
    for (int i = t.rank - 3; i >= 0; i--) {
        at += b % t.shape[i] * (size_t)t.stride[i];
        b /= t.shape[i];
    }
    zoe_tensor m = zoe_tensor_2d((unsigned char *)t.data + zoe_run_bytes(t.dtype, at), t.dtype,
                                 t.shape[t.rank - 2], t.shape[t.rank - 1]);
    m.stride[0] = t.stride[t.rank - 2];
    return m;
}

/* The gates of matrix b of n. */
static zoe_tensor matrix_gate(zoe_tensor gate, size_t b, size_t n)
{
    if (gate.rank < 2)
        return gate;
    const size_t G = gate.shape[0], count = G > n ? G / n : 1,
                 first = G > n ? b * count : b / (n / G);
    gate.data = (float *)gate.data + first * (size_t)gate.stride[0];
    gate.shape[0] = count;
    return gate;
}

/* ---- checks ---- */

static zoe_status check_term(zoe_context *ctx, const char *op, const zoe_linear_args *a,
                             const zoe_linear_term *t)
{
    if (a->x.rank > 2)
        return zoe_fail(ctx, ZOE_INVALID, "%s: terms with an x of rank %d, wanted 2", op,
                        a->x.rank);
    TRY(ZOE_CHECK(ctx, op, "x of a term", t->x, row_types, 2, a->x.shape[0], ZOE_ANY));
    return ZOE_CHECK(ctx, op, "w of a term", t->w, ZOE_TYPES_WEIGHT, 2, a->w.shape[0],
                     t->x.shape[1]);
}

static zoe_status check_x(zoe_context *ctx, const char *op, zoe_tensor x)
{
    size_t shape[ZOE_MAX_RANK] = {ZOE_ANY, ZOE_ANY};
    const bool ranked = x.rank >= 2 && x.rank <= ZOE_MAX_RANK;
    for (int i = 0; ranked && i < x.rank; i++)
        shape[i] = x.rank > 2 ? x.shape[i] : ZOE_ANY;
    return zoe_check_tensor(ctx, op, "x", x, row_types, ranked ? x.rank : 2, shape);
}

static zoe_status check_w(zoe_context *ctx, const char *op, const zoe_linear_args *a)
{
    size_t shape[ZOE_MAX_RANK];
    memcpy(shape, a->x.shape, sizeof shape);
    shape[a->x.rank - 2] = ZOE_ANY;
    if (a->w.rank != a->x.rank || a->x.rank == 2)
        return ZOE_CHECK(ctx, op, "w", a->w, ZOE_TYPES_WEIGHT, 2, ZOE_ANY, columns(a->x));
    return zoe_check_tensor(ctx, op, "w", a->w, ZOE_TYPES_WEIGHT & ~ZOE_TYPES_SCALED, a->x.rank,
                            shape);
}

/* many: some part has several matrices, which are computed one after the other. */
static zoe_status check_gate(zoe_context *ctx, const char *op, const zoe_linear_args *a, bool many)
{
    const unsigned f32_or_none = ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE;
    if (a->gate.dtype == ZOE_NONE || a->gate.rank != 2)
        return ZOE_CHECK(ctx, op, "gate", a->gate, f32_or_none, 1, outputs(a));
    TRY(ZOE_CHECK(ctx, op, "gate", a->gate, f32_or_none, 2, ZOE_ANY, outputs(a)));
    const size_t G = a->gate.shape[0], rows = leading(a->x, 1), matrices = leading(a->x, 2);
    if (rows > 0 && (G == 0 || rows % G != 0))
        return zoe_fail(ctx, ZOE_INVALID, "%s: gate has %zu groups for %zu rows", op, G, rows);
    if (rows > 0 && many && G % matrices != 0 && matrices % G != 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: gate has %zu groups for %zu matrices", op, G,
                        matrices);
    return ZOE_OK;
}

static zoe_status check_shapes(zoe_context *ctx, const char *op, const zoe_linear_args *a,
                               bool many)
{
    const unsigned f32_or_none = ZOE_TYPE(ZOE_F32) | ZOE_TYPES_OR_NONE;
    size_t shape[ZOE_MAX_RANK];
    TRY(check_x(ctx, op, a->x));
    TRY(check_w(ctx, op, a));
    memcpy(shape, a->x.shape, sizeof shape);
    shape[a->x.rank - 1] = outputs(a);
    TRY(zoe_check_tensor(ctx, op, "y", a->y, row_types, a->x.rank, shape));
    TRY(ZOE_CHECK(ctx, op, "bias", a->bias, f32_or_none, 1, outputs(a)));
    TRY(check_gate(ctx, op, a, many));
    TRY(zoe_check_tensor(ctx, op, "residual", a->residual, row_types | ZOE_TYPES_OR_NONE, a->x.rank,
                         shape));
    if ((unsigned)a->activation > ZOE_ACT_LAST)
        return zoe_fail(ctx, ZOE_INVALID, "%s: activation %d is not known", op, (int)a->activation);
    if (a->n_terms > 0 && !a->terms)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu terms, and none is given", op, a->n_terms);
    for (size_t i = 0; i < a->n_terms; i++)
        TRY(check_term(ctx, op, a, &a->terms[i]));
    return ZOE_OK;
}

/* The y of one part against what another reads; `own`: they are the same part. */
static zoe_status check_apart(zoe_context *ctx, const char *op, zoe_tensor y,
                              const zoe_linear_args *b, bool own)
{
    TRY(zoe_check_apart(ctx, op, "y", y, "x", b->x, false));
    TRY(zoe_check_apart(ctx, op, "y", y, "w", b->w, false));
    TRY(zoe_check_apart(ctx, op, "y", y, "bias", b->bias, false));
    TRY(zoe_check_apart(ctx, op, "y", y, "gate", b->gate, false));
    for (size_t i = 0; i < b->n_terms; i++) {
        TRY(zoe_check_apart(ctx, op, "y", y, "x of a term", b->terms[i].x, false));
        TRY(zoe_check_apart(ctx, op, "y", y, "w of a term", b->terms[i].w, false));
    }
    TRY(zoe_check_apart(ctx, op, "y", y, "residual", b->residual, own));
    return own ? ZOE_OK : zoe_check_apart(ctx, op, "y", y, "y of another part", b->y, false);
}

static bool same_x(zoe_tensor a, zoe_tensor b)
{
    if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank)
        return false;
    for (int i = 0; i < a.rank; i++)
        if (a.shape[i] != b.shape[i] || a.stride[i] != b.stride[i])
            return false;
    return true;
}

static zoe_status check_count(zoe_context *ctx, const char *op, const zoe_linear_args *parts,
                              size_t n)
{
    if (n == 0 || n > ZOE_LINEAR_PARTS)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu parts, wanted 1 to %d", op, n, ZOE_LINEAR_PARTS);
    if (!parts)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu parts, and none is given", op, n);
    return ZOE_OK;
}

static zoe_status check(zoe_context *ctx, const char *op, const zoe_linear_args *parts, size_t n)
{
    bool many = false;
    TRY(check_count(ctx, op, parts, n));
    for (size_t i = 0; i < n; i++)
        many = many || many_matrices(&parts[i]);
    for (size_t i = 0; i < n; i++) {
        TRY(check_shapes(ctx, op, &parts[i], many));
        if (!same_x(parts[i].x, parts[0].x))
            return zoe_fail(ctx, ZOE_INVALID, "%s: part %zu has another x than part 0", op, i);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            TRY(check_apart(ctx, op, parts[i].y, &parts[j], i == j));
    return ZOE_OK;
}

/* ---- running ---- */

/* The parts that have a result; how many. */
static size_t real_parts(zoe_linear_args real[ZOE_LINEAR_PARTS], const zoe_linear_args *parts,
                         size_t n)
{
    size_t count = 0;
    for (size_t i = 0; parts && i < n && i < ZOE_LINEAR_PARTS; i++)
        if (countable(parts[i].x) && countable(parts[i].w) && leading(parts[i].x, 1) > 0 &&
            outputs(&parts[i]) > 0)
            real[count++] = parts[i];
    return count;
}

static zoe_status run_matrix(zoe_context *ctx, const zoe_linear_args *parts, size_t n, size_t b,
                             zoe_workspace work)
{
    zoe_linear_args one[ZOE_LINEAR_PARTS];
    const size_t matrices = leading(parts->x, 2);
    for (size_t i = 0; i < n; i++) {
        one[i] = parts[i];
        one[i].x = matrix(parts[i].x, b);
        one[i].y = matrix(parts[i].y, b);
        one[i].w = matrix(parts[i].w, b);
        one[i].residual = matrix(parts[i].residual, b);
        one[i].gate = matrix_gate(parts[i].gate, b, matrices);
    }
    return ZOE_RUN(LINEAR, linear(ctx, one, n, work));
}

size_t zoe_linear_parts_workspace(const zoe_context *ctx, const zoe_linear_args *parts, size_t n)
{
    zoe_linear_args real[ZOE_LINEAR_PARTS];
    n = real_parts(real, parts, n);
    for (size_t i = 0; i < n; i++) /* the device sees one matrix */
        if (many_matrices(&real[i]))
            real[i].w = matrix(real[i].w, 0);
    return n > 0 ? zoe_device_of(ctx)->linear_workspace(ctx, real, n) : 0;
}

zoe_status zoe_linear_parts(zoe_context *ctx, const zoe_linear_args *parts, size_t n,
                            zoe_workspace work)
{
    zoe_linear_args real[ZOE_LINEAR_PARTS];
    bool many = false;
    static const char op[] = "linear";
    TRY(check(ctx, op, parts, n));
    const size_t wanted = zoe_linear_parts_workspace(ctx, parts, n);
    n = real_parts(real, parts, n);
    if (n == 0)
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, op, work, wanted));
    for (size_t i = 0; i < n; i++)
        many = many || many_matrices(&real[i]);
    for (size_t b = 0; many && b < leading(real->x, 2); b++)
        TRY(run_matrix(ctx, real, n, b, work));
    return many ? ZOE_OK : ZOE_RUN(LINEAR, linear(ctx, real, n, work));
}

size_t zoe_linear_workspace(const zoe_context *ctx, const zoe_linear_args *args)
{
    return zoe_linear_parts_workspace(ctx, args, 1);
}

zoe_status zoe_linear(zoe_context *ctx, const zoe_linear_args *args, zoe_workspace work)
{
    return zoe_linear_parts(ctx, args, 1, work);
}

/* ---- behind a norm ---- */

/* What a product of normalised rows reads in place of its x, and what stands for that x where only its
 * shape and type count. */
typedef struct normed_rows {
    zoe_tensor x, vectors[5], as_x;
} normed_rows;

static zoe_status check_type(zoe_context *ctx, const char *op, zoe_tensor y, zoe_dtype type)
{
    if (y.dtype != ZOE_NONE)
        return zoe_fail(ctx, ZOE_INVALID, "%s: y of the norm is given, wanted none", op);
    if ((unsigned)type >= ZOE_DTYPES || !(row_types & ZOE_TYPE(type)))
        return zoe_fail(ctx, ZOE_INVALID, "%s: the norm's type is %s, wanted f32, f16 or bf16", op,
                        zoe_dtype_name(type));
    return ZOE_OK;
}

static zoe_tensor stand_in(zoe_tensor x, zoe_dtype type)
{
    x.dtype = type;
    return x;
}

static zoe_status check_normed_apart(zoe_context *ctx, const char *op, const zoe_linear_args *part,
                                     const normed_rows *rows)
{
    TRY(zoe_check_apart(ctx, op, "y", part->y, "x of the norm", rows->x, false));
    for (size_t i = 0; i < sizeof rows->vectors / sizeof *rows->vectors; i++)
        TRY(zoe_check_apart(ctx, op, "y", part->y, "a vector of the norm", rows->vectors[i],
                            false));
    return ZOE_OK;
}

static zoe_status check_normed(zoe_context *ctx, const char *op, const normed_rows *rows,
                               const zoe_linear_args *parts, size_t n)
{
    TRY(check_count(ctx, op, parts, n));
    for (size_t i = 0; i < n; i++) {
        zoe_linear_args part = parts[i];
        if (part.x.dtype != ZOE_NONE)
            return zoe_fail(ctx, ZOE_INVALID, "%s: x of part %zu is given, wanted none", op, i);
        if (part.w.rank != 2)
            return zoe_fail(ctx, ZOE_INVALID, "%s: w of part %zu has rank %d, wanted 2", op, i,
                            part.w.rank);
        part.x = rows->as_x;
        TRY(check_shapes(ctx, op, &part, false));
    }
    for (size_t i = 0; i < n; i++) {
        TRY(check_normed_apart(ctx, op, &parts[i], rows));
        for (size_t j = 0; j < n; j++)
            TRY(check_apart(ctx, op, parts[i].y, &parts[j], i == j));
    }
    return ZOE_OK;
}

/* The parts that have a result, with something in place of x; how many. */
static size_t normed_parts(zoe_linear_args real[ZOE_LINEAR_PARTS], zoe_tensor as_x,
                           const zoe_linear_args *parts, size_t n)
{
    zoe_linear_args all[ZOE_LINEAR_PARTS];
    n = !parts || !countable(as_x) ? 0 : n < ZOE_LINEAR_PARTS ? n : ZOE_LINEAR_PARTS;
    for (size_t i = 0; i < n; i++) {
        all[i] = parts[i];
        all[i].x = as_x;
    }
    return real_parts(real, all, n);
}

size_t zoe_rms_norm_linear_workspace(const zoe_context *ctx, const zoe_rms_norm_linear_args *args)
{
    zoe_linear_args real[ZOE_LINEAR_PARTS];
    zoe_rms_norm_linear_args a = *args;
    a.n_parts = normed_parts(real, stand_in(a.norm.x, a.type), a.parts, a.n_parts);
    a.parts = real;
    return a.n_parts > 0 ? zoe_device_of(ctx)->rms_norm_linear_workspace(ctx, &a) : 0;
}

zoe_status zoe_rms_norm_linear(zoe_context *ctx, const zoe_rms_norm_linear_args *args,
                               zoe_workspace work)
{
    static const char op[] = "rms_norm_linear";
    zoe_linear_args real[ZOE_LINEAR_PARTS];
    zoe_rms_norm_linear_args a = *args;
    const normed_rows rows = {
        .x = a.norm.x, .vectors = {a.norm.gamma}, .as_x = stand_in(a.norm.x, a.type)};
    TRY(check_type(ctx, op, a.norm.y, a.type));
    if (a.norm.rstd.dtype != ZOE_NONE || a.norm.gamma.rank > 1)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the norm has rstd, or a gamma of rank %d", op,
                        a.norm.gamma.rank);
    a.norm.y = rows.as_x;
    TRY(zoe_check_rms_norm(ctx, op, &a.norm));
    TRY(check_normed(ctx, op, &rows, a.parts, a.n_parts));
    a.n_parts = normed_parts(real, rows.as_x, a.parts, a.n_parts);
    a.parts = real;
    if (a.n_parts == 0)
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, op, work, zoe_rms_norm_linear_workspace(ctx, args)));
    a.norm.y = zoe_tensor_none();
    return ZOE_RUN(LINEAR, rms_norm_linear(ctx, &a, work));
}

size_t zoe_layer_norm_linear_workspace(const zoe_context *ctx,
                                       const zoe_layer_norm_linear_args *args)
{
    zoe_linear_args real[ZOE_LINEAR_PARTS];
    zoe_layer_norm_linear_args a = *args;
    a.n_parts = normed_parts(real, stand_in(a.norm.x, a.type), a.parts, a.n_parts);
    a.parts = real;
    return a.n_parts > 0 ? zoe_device_of(ctx)->layer_norm_linear_workspace(ctx, &a) : 0;
}

zoe_status zoe_layer_norm_linear(zoe_context *ctx, const zoe_layer_norm_linear_args *args,
                                 zoe_workspace work)
{
    static const char op[] = "layer_norm_linear";
    zoe_linear_args real[ZOE_LINEAR_PARTS];
    zoe_layer_norm_linear_args a = *args;
    const zoe_layer_norm_modulate_args *m = &args->norm;
    const normed_rows rows = {.x = m->x,
                              .vectors = {m->gamma, m->beta, m->scale, m->shift, m->group},
                              .as_x = stand_in(m->x, a.type)};
    TRY(check_type(ctx, op, m->y, a.type));
    a.norm.y = rows.as_x;
    TRY(zoe_check_layer_norm_modulate(ctx, op, &a.norm));
    TRY(check_normed(ctx, op, &rows, a.parts, a.n_parts));
    a.n_parts = normed_parts(real, rows.as_x, a.parts, a.n_parts);
    a.parts = real;
    if (a.n_parts == 0)
        return ZOE_OK;
    TRY(zoe_check_workspace(ctx, op, work, zoe_layer_norm_linear_workspace(ctx, args)));
    a.norm.y = zoe_tensor_none();
    return ZOE_RUN(LINEAR, layer_norm_linear(ctx, &a, work));
}
