/* Rotary position embedding on the cpu: heads in fixed blocks over the threads. */
#include "device/cpu/cpu.h"
#include "device/cpu/walk.h"

/* Elements of a block of heads. */
enum { BLOCK = 32768 };
enum { X, Y, COS, SIN };

typedef struct rotary_job {
    const zoe_context *ctx;
    const zoe_kernels *k;
    zoe_walk walk;
    zoe_rotation rotation;
    size_t D, block;
    size_t parts, width; /* turned one by one: the halves of a quarter rotation, else all of it */

} rotary_job;

static void rotate_head(const rotary_job *job, const zoe_walker *at)
{
    const zoe_rotation *r = &job->rotation;
    const size_t x_bytes = zoe_dtype_bytes(r->x), y_bytes = zoe_dtype_bytes(r->y);
    const size_t entries = r->full ? job->width : job->width / 2;
    for (size_t i = 0; i < job->parts; i++) {
        const size_t first = i * job->width, trig = i * entries * zoe_dtype_bytes(r->trig);
        job->k->rotate(at->at[Y] + first * y_bytes, at->at[X] + first * x_bytes, at->at[COS] + trig,
                       at->at[SIN] + trig, r, job->width);
    }
    const size_t turned = job->parts * job->width, rest = job->D - turned;
    const zoe_rms_form form = {.x = r->x, .y = r->y};
    if (rest > 0 && at->at[X] != at->at[Y])
        job->k->rms_apply(at->at[Y] + turned * y_bytes, at->at[X] + turned * x_bytes, NULL, 1.0f,
                          &form, rest);
}

static void rotary_task(void *arg, size_t i, size_t worker)
{
    const rotary_job *job = arg;
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    const size_t end = zoe_min(job->walk.rows, (i + 1) * job->block);
    zoe_walker at = zoe_walk_at(&job->walk, i * job->block);
    for (size_t m = i * job->block; m < end; m++, zoe_walker_next(&at))
        rotate_head(job, &at);
    if (job->rotation.stream)
        zoe_stream_end();
}

zoe_status zoe_cpu_rotary_mul(zoe_context *ctx, const zoe_rotary_mul_args *args)
{
    const zoe_tensor x = args->x, y = args->y;
    const size_t entries = args->cos.shape[args->cos.rank - 1];
    const size_t turned = args->half_tables ? 2 * entries : entries;
    rotary_job job = {.ctx = ctx,
                      .k = zoe_kernels_get(),
                      .walk = zoe_walk_over(x, x.rank - 1),
                      .D = x.shape[x.rank - 1],
                      .parts = args->pairing == ZOE_ROTARY_QUARTER ? 2 : 1};
    job.rotation = (zoe_rotation){.x = x.dtype,
                                  .y = y.dtype,
                                  .trig = args->cos.dtype,
                                  .half = args->pairing != ZOE_ROTARY_INTERLEAVE,
                                  .full = !args->half_tables,
                                  .stream = zoe_streams(zoe_tensor_bytes(y))};
    if (args->trig_in_x_dtype && x.dtype != ZOE_F32)
        job.rotation.cast = x.dtype;
    job.width = turned / job.parts;
    job.block = job.D < BLOCK ? BLOCK / job.D : 1;
    zoe_walk_add(&job.walk, x);
    zoe_walk_add(&job.walk, y);
    zoe_walk_add(&job.walk, args->cos);
    zoe_walk_add(&job.walk, args->sin);
    zoe_walk_merge(&job.walk);
    zoe_parallel_for(ctx, zoe_ceil_div(job.walk.rows, job.block), rotary_task, &job);
    return zoe_check_cancel(ctx);
}

typedef struct table_job {
    const zoe_context *ctx;
    const zoe_rotary_table_args *args;
    size_t pairs;
} table_job;

/* Those of the tokens that lie on one row of the grid. */
static void table_task(void *arg, size_t i, size_t worker)
{
    const table_job *job = arg;
    const zoe_rotary_table_args *a = job->args;
    const size_t side = job->pairs / 3;
    const size_t per_axis[3] = {job->pairs - 2 * side, side, side};
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    i += a->first / a->columns;
    const size_t begin = i * a->columns > a->first ? i * a->columns : a->first;
    const size_t end = zoe_min((i + 1) * a->columns, a->first + a->cos.shape[0]);
    for (size_t token = begin; token < end; token++) {
        const size_t position[3] = {i / a->rows, i % a->rows, token % a->columns};
        float *cosines = zoe_row(a->cos, token - a->first, 0);
        float *sines = zoe_row(a->sin, token - a->first, 0);
        size_t j = 0;
        for (size_t axis = 0; axis < 3; axis++)
            for (size_t p = 0; p < per_axis[axis]; p++, j++) {
                const double exponent = (double)(2 * p) / (double)(2 * per_axis[axis]);
                const double angle = (double)position[axis] * (1.0 / pow(a->base, exponent));
                cosines[j] = (float)cos(angle);
                sines[j] = (float)sin(angle);
            }
    }
}

zoe_status zoe_cpu_rotary_table(zoe_context *ctx, const zoe_rotary_table_args *args)
{
    table_job job = {.ctx = ctx, .args = args, .pairs = args->cos.shape[1]};
    const size_t end = zoe_ceil_div(args->first + args->cos.shape[0], args->columns);
    zoe_parallel_for(ctx, end - args->first / args->columns, table_task, &job);
    return zoe_check_cancel(ctx);
}
