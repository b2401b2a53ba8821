/* The contracts of gradients. */
#include "device/device.h"
#include "op/check.h"
#include "op/clock.h"

static const unsigned any_float = ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16);
static const unsigned maybe =
    ZOE_TYPE(ZOE_F32) | ZOE_TYPE(ZOE_F16) | ZOE_TYPE(ZOE_BF16) | ZOE_TYPES_OR_NONE;
static const size_t any[ZOE_MAX_RANK] = {ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY, ZOE_ANY};

/* The form of rows; 0 elements or rows where the arguments are not in order, which the run refuses. */
static zoe_norm_backward_form form_of(zoe_tensor dx, zoe_tensor dy, zoe_tensor x, int axes)
{
    zoe_norm_backward_form f = {
        .dx = dx, .dy = dy, .x = x, .rows = 1, .D = 1, .groups = 1, .axes = axes};
    if (x.rank < 1 || x.rank > ZOE_MAX_RANK || axes < 1 || axes > x.rank) {
        f.rows = f.D = 0;
        return f;
    }
    for (int i = 0; i < x.rank; i++) {
        size_t *count = i < x.rank - axes ? &f.rows : &f.D;
        if (!zoe_size_mul(count, *count, x.shape[i]))
            *count = 0;
    }
    return f;
}

static zoe_status check_rows(zoe_context *ctx, const char *op, const zoe_norm_backward_form *f,
                             float eps)
{
    if (f->x.rank < 1 || f->x.rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_INVALID, "%s: x has rank %d, wanted 1 to %d", op, f->x.rank,
                        ZOE_MAX_RANK);
    if (f->axes < 1 || f->axes > f->x.rank)
        return zoe_fail(ctx, ZOE_INVALID, "%s: gamma has rank %d, wanted 1 to %d", op, f->axes,
                        f->x.rank);
    TRY(zoe_check_tensor(ctx, op, "x", f->x, any_float, f->x.rank, any));
    TRY(zoe_check_tensor(ctx, op, "dy", f->dy, any_float, f->x.rank, f->x.shape));
    TRY(zoe_check_tensor(ctx, op, "dx", f->dx, any_float, f->x.rank, f->x.shape));
    if (f->rows > 0 && f->D == 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: rows of x have no elements", op);
    TRY(zoe_check_apart(ctx, op, "dx", f->dx, "x", f->x, true));
    TRY(zoe_check_apart(ctx, op, "dx", f->dx, "dy", f->dy, true));
    return zoe_check_eps(ctx, op, eps);
}

/* Sums must share memory with nothing else. */
static zoe_status check_sum(zoe_context *ctx, const char *op, const char *name, zoe_tensor sum,
                            const zoe_norm_backward_form *f)
{
    const struct {
        const char *name;
        zoe_tensor t;
    } others[] = {{"dx", f->dx},         {"dy", f->dy},         {"x", f->x},
                  {"scale", f->scale},   {"gamma", f->gamma},   {"beta", f->beta},
                  {"dscale", f->dscale}, {"dshift", f->dshift}, {"dgamma", f->dgamma},
                  {"dbeta", f->dbeta}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, name) != 0)
            TRY(zoe_check_apart(ctx, op, name, sum, others[i].name, others[i].t, false));
    return ZOE_OK;
}

static zoe_status check_dense(zoe_context *ctx, const char *op, const char *name, zoe_tensor t,
                              int axes)
{
    zoe_tensor last = t;
    for (int i = 0; i < axes; i++) {
        last.shape[i] = t.shape[t.rank - axes + i];
        last.stride[i] = t.stride[t.rank - axes + i];
    }
    last.rank = axes;
    if (zoe_tensor_dense(last))
        return ZOE_OK;
    return zoe_fail(ctx, ZOE_INVALID, "%s: the normalised axes of %s are not dense", op, name);
}

/* ---- rms_norm ---- */

static zoe_norm_backward_form rms_form(const zoe_rms_norm_backward_args *a)
{
    const bool plain = a->gamma.dtype == ZOE_NONE;
    zoe_norm_backward_form f = form_of(a->dx, a->dy, a->x, plain ? 1 : a->gamma.rank);
    f.gamma = a->gamma;
    f.dgamma = a->dgamma;
    f.eps = a->eps;
    f.one_plus = a->order == ZOE_RMS_ONE_PLUS_GAMMA;
    return f;
}

size_t zoe_rms_norm_backward_workspace(const zoe_context *ctx,
                                       const zoe_rms_norm_backward_args *args)
{
    const zoe_norm_backward_form f = rms_form(args);
    return f.rows && f.D ? zoe_device_of(ctx)->norm_backward_workspace(ctx, &f) : 0;
}

static zoe_status check_gamma(zoe_context *ctx, const char *op, const zoe_norm_backward_form *f)
{
    const size_t *last = f->x.shape + f->x.rank - f->axes;
    if (f->gamma.dtype == ZOE_NONE && f->dgamma.dtype != ZOE_NONE)
        return zoe_fail(ctx, ZOE_INVALID, "%s: dgamma is given without gamma", op);
    if (f->gamma.dtype == ZOE_NONE)
        return ZOE_OK;
    TRY(zoe_check_tensor(ctx, op, "gamma", f->gamma, any_float, f->axes, last));
    TRY(zoe_check_tensor(ctx, op, "dgamma", f->dgamma, maybe, f->axes, last));
    TRY(check_dense(ctx, op, "x", f->x, f->axes));
    TRY(check_dense(ctx, op, "dy", f->dy, f->axes));
    TRY(check_dense(ctx, op, "dx", f->dx, f->axes));
    TRY(check_dense(ctx, op, "gamma", f->gamma, f->axes));
    if (f->dgamma.dtype != ZOE_NONE)
        TRY(check_dense(ctx, op, "dgamma", f->dgamma, f->axes));
    TRY(zoe_check_apart(ctx, op, "dx", f->dx, "gamma", f->gamma, false));
    return check_sum(ctx, op, "dgamma", f->dgamma, f);
}

/* Sums over no rows are 0. */
static void clear(zoe_tensor t)
{
    for (size_t row = 0; t.dtype != ZOE_NONE && row < (t.rank > 1 ? t.shape[0] : 1); row++)
        for (size_t i = 0; i < zoe_tensor_count(t) / (t.rank > 1 ? t.shape[0] : 1); i++)
            zoe_store_f32((char *)t.data + (t.rank > 1 ? row * (size_t)t.stride[0] : 0) *
                                               zoe_dtype_bytes(t.dtype),
                          t.dtype, i, 0.0f);
}

zoe_status zoe_rms_norm_backward(zoe_context *ctx, const zoe_rms_norm_backward_args *args,
                                 zoe_workspace work)
{
    static const char op[] = "rms_norm_backward";
    const zoe_norm_backward_form f = rms_form(args);
    TRY(check_rows(ctx, op, &f, args->eps));
    TRY(check_gamma(ctx, op, &f));
    if ((unsigned)args->order > ZOE_RMS_T5)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the order %d is none that this operator has", op,
                        (int)args->order);
    TRY(zoe_check_workspace(ctx, op, work, zoe_rms_norm_backward_workspace(ctx, args)));
    if (f.rows && f.D)
        return ZOE_RUN(NORM, norm_backward(ctx, &f, work));
    clear(f.dgamma);
    return ZOE_OK;
}

/* ---- layer_norm_modulate ---- */

static zoe_norm_backward_form modulate_form(const zoe_layer_norm_modulate_backward_args *a)
{
    zoe_norm_backward_form f = form_of(a->dx, a->dy, a->x, 1);
    const zoe_tensor vectors[] = {a->scale, a->dscale, a->dshift};
    for (size_t i = 3; i-- > 0;)
        if (vectors[i].dtype != ZOE_NONE)
            f.groups = vectors[i].shape[0];
    f.scale = a->scale;
    f.gamma = a->gamma;
    f.beta = a->beta;
    f.dscale = a->dscale;
    f.dshift = a->dshift;
    f.dgamma = a->dgamma;
    f.dbeta = a->dbeta;
    f.eps = a->eps;
    f.centred = a->kind == ZOE_NORM_LAYER;
    return f;
}

static bool grouped(const zoe_norm_backward_form *f)
{
    return f->rows > 0 && f->D > 0 && f->groups > 0 && f->rows % f->groups == 0;
}

size_t zoe_layer_norm_modulate_backward_workspace(const zoe_context *ctx,
                                                  const zoe_layer_norm_modulate_backward_args *args)
{
    const zoe_norm_backward_form f = modulate_form(args);
    return grouped(&f) ? zoe_device_of(ctx)->norm_backward_workspace(ctx, &f) : 0;
}

static zoe_status check_vectors(zoe_context *ctx, const char *op, const zoe_norm_backward_form *f)
{
    const size_t D = f->x.shape[f->x.rank - 1];
    const struct {
        const char *name;
        zoe_tensor t;
        bool each, output; /* one a group; a sum */
    } all[] = {{"scale", f->scale, true, false},  {"gamma", f->gamma, false, false},
               {"beta", f->beta, false, false},   {"dscale", f->dscale, true, true},
               {"dshift", f->dshift, true, true}, {"dgamma", f->dgamma, false, true},
               {"dbeta", f->dbeta, false, true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].each)
            TRY(ZOE_CHECK(ctx, op, all[i].name, all[i].t, maybe, 2, f->groups, D));
        else
            TRY(ZOE_CHECK(ctx, op, all[i].name, all[i].t, maybe, 1, D));
        if (all[i].output)
            TRY(check_sum(ctx, op, all[i].name, all[i].t, f));
        else
            TRY(zoe_check_apart(ctx, op, "dx", f->dx, all[i].name, all[i].t, false));
    }
    return ZOE_OK;
}

zoe_status zoe_layer_norm_modulate_backward(zoe_context *ctx,
                                            const zoe_layer_norm_modulate_backward_args *args,
                                            zoe_workspace work)
{
    static const char op[] = "layer_norm_modulate_backward";
    const zoe_norm_backward_form f = modulate_form(args);
    TRY(check_rows(ctx, op, &f, args->eps));
    TRY(check_vectors(ctx, op, &f));
    if (args->kind != ZOE_NORM_LAYER && args->kind != ZOE_NORM_RMS)
        return zoe_fail(ctx, ZOE_INVALID, "%s: the kind %d is none", op, (int)args->kind);
    if (f.groups ? f.rows % f.groups != 0 : f.rows > 0)
        return zoe_fail(ctx, ZOE_INVALID, "%s: %zu rows are not %zu groups alike", op, f.rows,
                        f.groups);
    TRY(zoe_check_workspace(ctx, op, work, zoe_layer_norm_modulate_backward_workspace(ctx, args)));
    if (grouped(&f))
        return ZOE_RUN(NORM, norm_backward(ctx, &f, work));
    const zoe_tensor sums[] = {f.dscale, f.dshift, f.dgamma, f.dbeta};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        clear(sums[i]);
    return ZOE_OK;
}

/* ---- rotary_mul ---- */

/* The rotation back is a rotation with other sines: those of the other one of each pair, negative. */
static size_t turned_back(const zoe_rotary_mul_args *a, size_t entry, size_t entries)
{
    const size_t part = a->pairing == ZOE_ROTARY_QUARTER ? entries / 2 : entries;
    if (a->half_tables || part == 0)
        return entry;
    if (a->pairing == ZOE_ROTARY_INTERLEAVE)
        return entry ^ 1;
    const size_t in = entry % part;
    return entry - in + (in < part / 2 ? in + part / 2 : in - part / 2);
}

size_t zoe_rotary_mul_backward_workspace(const zoe_context *ctx, const zoe_rotary_mul_args *args)
{
    (void)ctx;
    return zoe_tensor_bytes(args->sin);
}

/* Rows of the table that become one task. */
enum { TABLE_ROWS = 64 };

typedef struct table_job {
    const zoe_rotary_mul_args *args;
    void *table;
    size_t entries, rows;
} table_job;

static void table_task(void *arg, size_t i, size_t worker)
{
    const table_job *job = arg;
    const zoe_tensor sin = job->args->sin;
    size_t end = (i + 1) * TABLE_ROWS;
    (void)worker;
    end = end < job->rows ? end : job->rows;
    for (size_t r = i * TABLE_ROWS; r < end; r++) {
        size_t at = 0, m = r;
        for (int axis = sin.rank - 2; axis >= 0; m /= sin.shape[axis], axis--)
            at += m % sin.shape[axis] * (size_t)sin.stride[axis];
        for (size_t j = 0; j < job->entries; j++) {
            const size_t from = at + turned_back(job->args, j, job->entries);
            zoe_store_f32(job->table, sin.dtype, r * job->entries + j,
                          -zoe_load_f32(sin.data, sin.dtype, from));
        }
    }
}

zoe_status zoe_rotary_mul_backward(zoe_context *ctx, const zoe_rotary_mul_args *args,
                                   zoe_workspace work)
{
    static const char op[] = "rotary_mul_backward";
    const zoe_tensor sin = args->sin;
    TRY(zoe_check_trig(ctx, op, args->cos, sin, any_float));
    TRY(zoe_check_workspace(ctx, op, work, zoe_rotary_mul_backward_workspace(ctx, args)));
    const size_t entries = sin.shape[sin.rank - 1];
    if (entries % 2 != 0 && !args->half_tables)
        return zoe_fail(ctx, ZOE_INVALID, "%s: cos has %zu entries, wanted an even number", op,
                        entries);
    table_job job = {args, work.data, entries, zoe_tensor_count(sin) / entries};
    zoe_rotary_mul_args back = *args;
    back.sin = zoe_tensor_of(work.data, sin.dtype, sin.rank, sin.shape);
    zoe_parallel_for(ctx, (job.rows + TABLE_ROWS - 1) / TABLE_ROWS, table_task, &job);
    return zoe_rotary_mul(ctx, &back);
}
