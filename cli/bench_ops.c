/* zoe bench ops: every operator, on the shapes of real models. */
#include "bench_ops.h"

static const bench_family *const families[] = {
    &zoe_bench_linear,      &zoe_bench_attention, &zoe_bench_conv,
    &zoe_bench_elementwise, &zoe_bench_rms_norm,  &zoe_bench_layer_norm,
};

zoe_tensor zoe_bench_take(bench_op *o, zoe_dtype dtype, int rank, const size_t *shape)
{
    size_t n;
    void *data;
    if (o->status != ZOE_OK)
        return zoe_tensor_none();
    if (o->n_owned == BENCH_OPERANDS || !zoe_size_product(&n, shape, (size_t)rank)) {
        o->status = zoe_fail(o->ctx, ZOE_INTERNAL, "%s: too many operands", o->c->op);
        return zoe_tensor_none();
    }
    o->status = zoe_bench_fill(o->ctx, &data, dtype, n);
    if (o->status != ZOE_OK)
        return zoe_tensor_none();
    o->owned[o->n_owned++] = data;
    return zoe_tensor_of(data, dtype, rank, shape);
}

void zoe_bench_take_workspace(bench_op *o, size_t bytes)
{
    void *data = NULL;
    if (o->status == ZOE_OK)
        o->status = zoe_alloc_zero(o->ctx, &data, bytes, 1, "workspace");
    o->work_space = (zoe_workspace){data, bytes};
}

double zoe_bench_bytes(const zoe_tensor *tensors, size_t n)
{
    double bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += (double)zoe_tensor_bytes(tensors[i]);
    return bytes;
}

static void close_case(bench_op *o)
{
    if (o->close)
        o->close(o);
    for (size_t i = 0; i < o->n_owned; i++)
        zoe_free(o->owned[i]);
    zoe_free(o->work_space.data);
}

static zoe_status run_case(bench *b, const bench_case *c)
{
    bench_row row = {.name = {c->op, c->x, c->w, c->y, c->shape, c->rank}, .target = c->target};
    const bool table = b->request->table && !b->request->filter;
    if (!zoe_bench_wanted(b, &row.name, c->hidden) || (table && c->target == 0))
        return ZOE_OK;
    bench_op o = {.c = c, .ctx = b->ctx};
    bench_ours ours;
    c->prepare(&o);
    row.unit = o.unit;
    row.work = o.work;
    ours = (bench_ours){o.run, &o};
    if (o.status == ZOE_OK)
        o.status = zoe_bench_row_measure(b, &row, zoe_bench_time_ours, &ours);
    close_case(&o);
    TRY(o.status);
    zoe_bench_row_print(b, &row);
    return ZOE_OK;
}

zoe_status zoe_bench_ops(bench *b)
{
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (size_t i = 0; i < families[f]->count; i++)
            TRY(run_case(b, &families[f]->cases[i]));
    return ZOE_OK;
}
