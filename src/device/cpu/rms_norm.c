/* Norms by the root of a mean square on the cpu: rows in fixed blocks over the threads. A row is read
 * from memory once, for its statistic; the second look at it finds it in the caches. Plain norms take rows
 * in pairs and fetch the next pair while one is written. */
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"
#include "device/cpu/walk.h"

/* Elements that fused operators handle at once, as f32 on the stack. */
enum { PIECE = 1024 };
/* Elements of a block of rows: what makes a task worth a thread; and of one of many, which the fetches
 * that its first rows lack do not slow down. */
enum { BLOCK = 32768, LARGE_BLOCK = 262144, MANY = 64 };

/* Places in the walk; an operator uses those that it has. */
enum { X, Y, SECOND, SUM, STATISTIC, COS, SIN };

/* One run over rows. */
typedef struct rms_job {
    const zoe_context *ctx;
    const zoe_kernels *k;
    zoe_walk walk;
    size_t D, block;
    float eps;
    zoe_dtype x, y;
    zoe_rms_form form; /* from the values of x, or of the sum, to y or to f32 */
    bool stream, unrounded;
    const void *gamma, *beta;
    zoe_dtype gamma_type, beta_type;
    zoe_tensor smooth, scale, offset;
    bool multiply;
    /* rotation */
    size_t width;
    bool half;
    /* L2 form */
    float clamp, root;
    bool silu;
    zoe_dtype round;
    bool pixel; /* for rows of a product */
    void (*row)(const struct rms_job *job, const zoe_walker *at);
    /* instead of row, if there is one: two rows, while those of `next` are fetched */
    void (*pair)(const struct rms_job *job, const zoe_walker at[2], const zoe_walker next[2]);
} rms_job;

static void next_pair(zoe_walker *at, zoe_walker pair[2])
{
    for (int r = 0; r < 2; r++, zoe_walker_next(at))
        pair[r] = *at;
}

static void rms_task(void *arg, size_t i, size_t worker)
{
    const rms_job *job = arg;
    const zoe_walk *walk = &job->walk;
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    const size_t end = zoe_min(walk->rows, (i + 1) * job->block);
    size_t m = i * job->block;
    zoe_walker at = zoe_walk_at(walk, m);
    if (job->pair && end - m >= 2) {
        zoe_walker pairs[2][2];
        next_pair(&at, pairs[0]);
        for (int now = 0; m + 2 <= end; m += 2, now ^= 1) {
            const bool more = m + 4 <= end;
            if (more)
                next_pair(&at, pairs[now ^ 1]);
            job->pair(job, pairs[now], pairs[more ? now ^ 1 : now]);
        }
    }
    for (; m < end; m++, zoe_walker_next(&at))
        job->row(job, &at);
    if (job->stream)
        zoe_stream_end();
}

static zoe_status run(zoe_context *ctx, rms_job *job)
{
    zoe_walk_merge(&job->walk);
    job->ctx = ctx;
    const size_t large = zoe_min(LARGE_BLOCK / zoe_min(job->D, LARGE_BLOCK), job->walk.rows / MANY);
    job->block = job->D < BLOCK ? BLOCK / job->D : 1;
    job->block = job->block < large ? large : job->block;
    zoe_parallel_for(ctx, zoe_ceil_div(job->walk.rows, job->block), rms_task, job);
    return zoe_check_cancel(ctx);
}

/* What all jobs begin with: rows of D elements, the axes of x before them. */
static rms_job job_of(zoe_tensor y, zoe_tensor x, int axes, float eps)
{
    rms_job job = {.k = zoe_kernels_get(), .D = 1, .eps = eps, .x = x.dtype, .y = y.dtype};
    for (int i = x.rank - axes; i < x.rank; i++)
        job.D *= x.shape[i];
    job.walk = zoe_walk_over(x, x.rank - axes);
    job.stream = zoe_streams(zoe_tensor_bytes(y));
    zoe_walk_add(&job.walk, x);
    zoe_walk_add(&job.walk, y);
    return job;
}

/* ---- statistics ---- */

static double squares(const zoe_kernels *k, const void *x, zoe_dtype type, size_t n)
{
    switch (type) {
    case ZOE_F16: return k->squares_f16(x, n);
    case ZOE_BF16: return k->squares_bf16(x, n);
    default: return k->squares_f32(x, n);
    }
}

static float rstd_of(const rms_job *job, double sum)
{
    return (float)zoe_rms_rstd(sum / (double)job->D, job->eps);
}

static void *element(const void *p, zoe_dtype type, size_t i)
{
    return (unsigned char *)(uintptr_t)p + i * zoe_dtype_bytes(type);
}

static const void *gamma_at(const rms_job *job, size_t d)
{
    return job->gamma ? element(job->gamma, job->gamma_type, d) : NULL;
}

/* n values of the row from d on and their type: x itself, or the sums, in `room`. */
static const void *values(const rms_job *job, const zoe_walker *at, size_t d, size_t n, float *room,
                          zoe_dtype *type)
{
    const void *x = element(at->at[X], job->x, d);
    *type = job->x;
    if (!at->at[SECOND])
        return x;
    *type = ZOE_F32;
    job->k->add_rows(room, x, element(at->at[SECOND], job->x, d), job->x, !job->unrounded, n);
    return room;
}

/* The sums, rounded, to where they are wanted. */
static void put_sum(const rms_job *job, const zoe_walker *at, size_t d, size_t n, const float *sum)
{
    const zoe_rms_form form = {.x = ZOE_F32, .y = job->x, .stream = job->stream};
    if (at->at[SUM])
        job->k->rms_apply(element(at->at[SUM], job->x, d), sum, NULL, 1.0f, &form, n);
}

static double row_squares(const rms_job *job, const zoe_walker *at)
{
    if (!at->at[SECOND])
        return squares(job->k, at->at[X], job->x, job->D);
    float room[PIECE];
    zoe_dtype type;
    double sum = 0.0;
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        const void *x = values(job, at, d, n, room, &type);
        sum += squares(job->k, x, type, n);
    }
    return sum;
}

/* 1 / sqrt(mean + eps) of the row, also stored if wanted. */
static float statistic(const rms_job *job, const zoe_walker *at)
{
    const float rstd = rstd_of(job, row_squares(job, at));
    if (at->at[STATISTIC])
        *(float *)(void *)at->at[STATISTIC] = rstd;
    return rstd;
}

/* ---- rms_norm ---- */

static zoe_dtype short_type(zoe_dtype type)
{
    return type == ZOE_F32 ? ZOE_NONE : type;
}

/* Where an order rounds, for values of type x. What the store does anyway is not asked for. */
static zoe_rms_form form_of(zoe_dtype x, zoe_dtype y, zoe_dtype gamma, zoe_rms_order order,
                            bool round_gamma)
{
    zoe_rms_form f = {.x = x, .y = y, .gamma = gamma};
    const zoe_dtype counts_as = round_gamma ? x : gamma;
    if (order == ZOE_RMS_CAST_THEN_MUL)
        f.cast = short_type(x);
    else if (order == ZOE_RMS_T5 && gamma != ZOE_NONE)
        f.cast = short_type(counts_as);
    if (gamma == ZOE_NONE)
        return f;
    if (round_gamma && gamma != x)
        f.weight = short_type(x);
    if (f.cast != ZOE_NONE && counts_as == f.cast && y != f.cast)
        f.product = f.cast;
    f.one_plus = order == ZOE_RMS_ONE_PLUS_GAMMA;
    return f;
}

static void set_gamma(rms_job *job, zoe_tensor gamma)
{
    job->gamma_type = gamma.dtype;
    job->gamma = gamma.dtype == ZOE_NONE ? NULL : gamma.data;
}

static void norm_row(const rms_job *job, const zoe_walker *at)
{
    const float rstd = statistic(job, at);
    job->k->rms_apply(at->at[Y], at->at[X], job->gamma, rstd, &job->form, job->D);
}

static void norm_pair(const rms_job *job, const zoe_walker at[2], const zoe_walker next[2])
{
    const float rstd = statistic(job, &at[0]);
    const zoe_rms_row other = {at[1].at[Y], at[1].at[X], statistic(job, &at[1])};
    zoe_rms_form form = job->form;
    form.other = &other;
    form.ahead[0] = next[0].at[X];
    form.ahead[1] = next[1].at[X];
    job->k->rms_apply(at[0].at[Y], at[0].at[X], job->gamma, rstd, &form, job->D);
}

static float rounded(float v, zoe_dtype type)
{
    float r;
    uint16_t half;
    if (type == ZOE_F32)
        return v;
    zoe_narrow(&half, type, &v, 1);
    zoe_widen(&r, &half, type, 1);
    return r;
}

static float pixel_root(const rms_job *job, const zoe_walker *at)
{
    const double sum = job->k->squares_rounded(at->at[X], job->x, job->D);
    const float mean = rounded((float)(sum / (double)job->D), job->x);
    return rounded(sqrtf(rounded(mean + job->eps, job->x)), job->x);
}

static void pixel_apply(const rms_job *job, void *y, const void *x, float root, size_t n)
{
    const zoe_l2_form form = {.x = job->x,
                              .y = job->y,
                              .round = short_type(job->x),
                              .norm = root,
                              .root = 1.0f,
                              .stream = job->stream};
    job->k->l2_apply(y, x, NULL, NULL, &form, n);
}

static void pixel_row(const rms_job *job, const zoe_walker *at)
{
    pixel_apply(job, at->at[Y], at->at[X], pixel_root(job, at), job->D);
}

zoe_status zoe_cpu_rms_norm(zoe_context *ctx, const zoe_rms_norm_args *args)
{
    const int axes = args->gamma.dtype == ZOE_NONE ? 1 : args->gamma.rank;
    rms_job job = job_of(args->y, args->x, axes, args->eps);
    zoe_walk_add(&job.walk, zoe_tensor_none());
    zoe_walk_add(&job.walk, zoe_tensor_none());
    zoe_walk_add(&job.walk, args->rstd);
    set_gamma(&job, args->gamma);
    job.form = form_of(job.x, job.y, args->gamma.dtype, args->order, args->round_gamma);
    job.form.stream = job.stream;
    job.row = args->order == ZOE_RMS_PIXELNORM ? pixel_row : norm_row;
    job.pair = args->order == ZOE_RMS_PIXELNORM ? NULL : norm_pair;
    return run(ctx, &job);
}

/* ---- rows of a product ---- */

/* What the row is multiplied with, or, in PixelNorm's order, divided by. */
static void factor_row(const rms_job *job, const zoe_walker *at)
{
    *(float *)(void *)at->at[STATISTIC] =
        job->pixel ? pixel_root(job, at) : rstd_of(job, row_squares(job, at));
}

static void fill_rows(const void *arg, float *y, size_t y_stride, size_t m, size_t rows,
                      size_t from, size_t n)
{
    enum { AHEAD = 3 };
    const rms_job *job = arg;
    uint16_t half[ZOE_FILL_MOST];
    zoe_walker at = zoe_walk_at(&job->walk, m), ahead = at;
    for (size_t i = 0; i < AHEAD && i < rows; i++)
        zoe_walker_next(&ahead);
    for (size_t i = 0; i < rows; i++, y += y_stride, zoe_walker_next(&at)) {
        const void *x = element(at.at[X], job->x, from);
        void *to = job->y == ZOE_F32 ? (void *)y : half;
        const float factor = *(const float *)(const void *)at.at[STATISTIC];
        if (i + AHEAD < rows) {
            zoe_fetch(element(ahead.at[X], job->x, from), n * zoe_dtype_bytes(job->x));
            zoe_walker_next(&ahead);
        }
        if (job->pixel)
            pixel_apply(job, to, x, factor, n);
        else
            job->k->rms_apply(to, x, gamma_at(job, from), factor, &job->form, n);
        if (to != (void *)y)
            zoe_row_widen(job->k, y, half, job->y, n);
    }
}

size_t zoe_cpu_rms_norm_linear_workspace(const zoe_context *ctx,
                                         const zoe_rms_norm_linear_args *args)
{
    return zoe_row_numbers_bytes(args->norm.x) +
           zoe_cpu_linear_workspace(ctx, args->parts, args->n_parts);
}

zoe_status zoe_cpu_rms_norm_linear(zoe_context *ctx, const zoe_rms_norm_linear_args *args,
                                   zoe_workspace work)
{
    const zoe_rms_norm_args *norm = &args->norm;
    rms_job job = job_of(zoe_tensor_none(), norm->x, 1, norm->eps);
    const size_t bytes = zoe_row_numbers_bytes(norm->x);
    zoe_walk_add(&job.walk, zoe_tensor_none());
    zoe_walk_add(&job.walk, zoe_tensor_none());
    zoe_walk_add(&job.walk, zoe_row_numbers(norm->x, work.data));
    set_gamma(&job, norm->gamma);
    job.y = args->type;
    job.form = form_of(job.x, job.y, norm->gamma.dtype, norm->order, norm->round_gamma);
    job.pixel = norm->order == ZOE_RMS_PIXELNORM;
    job.row = factor_row;
    TRY(run(ctx, &job));
    work.data = (unsigned char *)work.data + bytes;
    work.bytes -= bytes;
    return zoe_cpu_linear_of(ctx, &(zoe_row_source){fill_rows, &job}, args->parts, args->n_parts,
                             work);
}

/* ---- add_rms_norm ---- */

static void add_row(const rms_job *job, const zoe_walker *at)
{
    const float rstd = statistic(job, at);
    float room[PIECE];
    zoe_dtype type;
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        const float *both = values(job, at, d, n, room, &type);
        put_sum(job, at, d, n, both);
        job->k->rms_apply(element(at->at[Y], job->y, d), both, gamma_at(job, d), rstd, &job->form,
                          n);
    }
}

zoe_status zoe_cpu_add_rms_norm(zoe_context *ctx, const zoe_add_rms_norm_args *args)
{
    rms_job job = job_of(args->y, args->x, 1, args->eps);
    zoe_walk_add(&job.walk, args->residual);
    zoe_walk_add(&job.walk, args->sum);
    zoe_walk_add(&job.walk, args->rstd);
    set_gamma(&job, args->gamma);
    job.form = form_of(job.x, job.y, args->gamma.dtype, args->order, args->round_gamma);
    job.form.x = ZOE_F32;
    job.form.stream = job.stream;
    job.unrounded = args->unrounded;
    job.row = add_row;
    return run(ctx, &job);
}

/* ---- int8 ---- */

/* n values from element d on as f32, in place or in `room`; of one value, so many times that. NULL for
 * none. */
static const float *vector_at(const rms_job *job, zoe_tensor t, size_t d, size_t n, float *room)
{
    if (t.dtype == ZOE_NONE)
        return NULL;
    const bool one = t.shape[0] == 1;
    const size_t count = one ? 1 : n;
    const void *p = element(t.data, t.dtype, one ? 0 : d);
    if (t.dtype == ZOE_I8)
        for (size_t i = 0; i < count; i++)
            room[i] = (float)((const int8_t *)p)[i];
    else if (t.dtype == ZOE_I32)
        for (size_t i = 0; i < count; i++)
            room[i] = (float)((const int32_t *)p)[i];
    else if (!one)
        return zoe_row_read(job->k, p, t.dtype, n, room);
    else
        room[0] = zoe_load_f32(p, t.dtype, 0);
    for (size_t i = count; i < n; i++)
        room[i] = room[0];
    return room;
}

/* What is to be quantised of elements d .. d + n, in v; `sum` puts the sums where they are wanted. */
static void quant_values(const rms_job *job, const zoe_walker *at, float rstd, size_t d, size_t n,
                         float *v, bool sum)
{
    float room[PIECE], shift[PIECE], scale[PIECE];
    zoe_rms_form form = {.y = ZOE_F32, .gamma = job->gamma_type};
    const void *x = values(job, at, d, n, room, &form.x);
    job->k->rms_apply(v, x, gamma_at(job, d), rstd, &form, n);
    if (sum && at->at[SECOND])
        put_sum(job, at, d, n, room);
    const zoe_tensor beta = {.data = (void *)(uintptr_t)job->beta,
                             .dtype = job->beta_type,
                             .rank = 1,
                             .shape = {job->D}};
    const float *add = vector_at(job, beta, d, n, shift);
    const float *times = vector_at(job, job->smooth, d, n, scale);
    if (add || times)
        job->k->shift_scale(v, v, add, times, n);
}

static void static_row(const rms_job *job, const zoe_walker *at)
{
    const float rstd = statistic(job, at);
    float v[PIECE], scale[PIECE], offset[PIECE];
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        quant_values(job, at, rstd, d, n, v, true);
        job->k->quantise((int8_t *)at->at[Y] + d, v, vector_at(job, job->scale, d, n, scale),
                         vector_at(job, job->offset, d, n, offset), !job->multiply, n);
    }
}

static void dynamic_row(const rms_job *job, const zoe_walker *at)
{
    const float rstd = rstd_of(job, row_squares(job, at));
    float v[PIECE], most = 0.0f;
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        quant_values(job, at, rstd, d, n, v, false);
        const float peak = job->k->int8_peak(v, n);
        most = peak > most || isnan(peak) ? peak : most;
        if (isnan(most))
            break;
    }
    const float factor = most > 0.0f && most < INFINITY ? 127.0f / most : 0.0f;
    *(float *)(void *)at->at[STATISTIC] = most / 127.0f;
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        quant_values(job, at, rstd, d, n, v, true);
        job->k->int8_round((int8_t *)at->at[Y] + d, v, factor, n);
    }
}

static void set_beta(rms_job *job, zoe_tensor beta)
{
    job->beta_type = beta.dtype;
    job->beta = beta.dtype == ZOE_NONE ? NULL : beta.data;
}

zoe_status zoe_cpu_rms_norm_quant(zoe_context *ctx, const zoe_rms_norm_quant_args *args)
{
    rms_job job = job_of(args->y, args->x, 1, args->eps);
    zoe_walk_add(&job.walk, args->residual);
    zoe_walk_add(&job.walk, args->sum);
    zoe_walk_add(&job.walk, args->rstd);
    set_gamma(&job, args->gamma);
    set_beta(&job, args->beta);
    job.smooth = zoe_tensor_none();
    job.scale = args->scale;
    job.offset = args->offset;
    job.multiply = args->multiply;
    job.unrounded = true;
    job.row = static_row;
    return run(ctx, &job);
}

zoe_status zoe_cpu_rms_norm_dynamic_quant(zoe_context *ctx,
                                          const zoe_rms_norm_dynamic_quant_args *args)
{
    rms_job job = job_of(args->y, args->x, 1, args->eps);
    zoe_walk_add(&job.walk, args->residual);
    zoe_walk_add(&job.walk, args->sum);
    zoe_walk_add(&job.walk, args->scale);
    set_gamma(&job, args->gamma);
    set_beta(&job, args->beta);
    job.smooth = args->smooth;
    job.unrounded = true;
    job.row = dynamic_row;
    return run(ctx, &job);
}

/* ---- qk_norm_rope ---- */

/* Elements of the pieces that heads are rotated in; also the widest head. */
enum { ROPE_PIECE = 4096 };

/* Each entry twice, for pairs that lie side by side: once a token, not once a head. */
static const float *doubled(float *room, const float *entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        room[2 * i] = room[2 * i + 1] = entries[i];
    return room;
}

/* Asks for n elements of a row that is soon read. */
static void fetch(const void *row, zoe_dtype type, size_t d, size_t n)
{
    const char *p = element(row, type, d);
    for (size_t i = 0; i < n * zoe_dtype_bytes(type); i += 64)
        __builtin_prefetch(p + i, 0, 2);
}

static void rope_and_fetch(const rms_job *job, const zoe_walker *at, const void *soon)
{
    const float rstd = statistic(job, at);
    const zoe_rotation rotation = {.x = ZOE_F32,
                                   .y = job->y,
                                   .trig = ZOE_F32,
                                   .half = job->half,
                                   .full = !job->half,
                                   .stream = job->stream};
    float v[ROPE_PIECE], two_cos[ROPE_PIECE], two_sin[ROPE_PIECE];
    const void *cosines = at->at[COS], *sines = at->at[SIN];
    if (!job->half) {
        cosines = doubled(two_cos, cosines, job->width / 2);
        sines = doubled(two_sin, sines, job->width / 2);
    }
    const size_t piece = job->width < PIECE ? PIECE / job->width * job->width : job->width;
    for (size_t d = 0; d < job->D; d += piece) {
        const size_t n = zoe_min(piece, job->D - d);
        job->k->rms_apply(v, element(at->at[X], job->x, d), gamma_at(job, d), rstd, &job->form, n);
        for (size_t i = 0; i < n; i += job->width) {
            fetch(soon, job->x, d + i, job->width);
            job->k->rotate(element(at->at[Y], job->y, d + i), v + i, cosines, sines, &rotation,
                           job->width);
        }
    }
}

static void rope_row(const rms_job *job, const zoe_walker *at)
{
    rope_and_fetch(job, at, at->at[X]);
}

static void rope_pair(const rms_job *job, const zoe_walker at[2], const zoe_walker next[2])
{
    for (int r = 0; r < 2; r++)
        rope_and_fetch(job, &at[r], next[r].at[X]);
}

static zoe_status rope_rows(zoe_context *ctx, const zoe_qk_norm_rope_args *args,
                            const zoe_norm_rope_rows *r)
{
    rms_job job = job_of(r->y, r->x, 1, args->eps);
    zoe_walk_add(&job.walk, zoe_tensor_none());
    zoe_walk_add(&job.walk, zoe_tensor_none());
    zoe_walk_add(&job.walk, zoe_tensor_none());
    zoe_walk_add(&job.walk, args->cos);
    zoe_walk_add(&job.walk, args->sin);
    set_gamma(&job, r->gamma);
    job.form = form_of(job.x, ZOE_F32, r->gamma.dtype, args->order, args->round_gamma);
    job.width = 2 * args->cos.shape[args->cos.rank - 1];
    job.half = args->pairing == ZOE_ROTARY_HALF;
    job.row = rope_row;
    job.pair = rope_pair;
    return run(ctx, &job);
}

zoe_status zoe_cpu_qk_norm_rope(zoe_context *ctx, const zoe_qk_norm_rope_args *args)
{
    if (zoe_tensor_count(args->q.x) > 0)
        TRY(rope_rows(ctx, args, &args->q));
    return zoe_tensor_count(args->k.x) > 0 ? rope_rows(ctx, args, &args->k) : ZOE_OK;
}

/* ---- l2_norm ---- */

static void l2_row(const rms_job *job, const zoe_walker *at)
{
    const double sum = squares(job->k, at->at[X], job->x, job->D);
    const float length = rounded((float)sqrt(sum), job->x);
    zoe_l2_form form = {.x = job->x,
                        .y = job->y,
                        .round = job->round,
                        .norm = length < job->clamp ? job->clamp : length,
                        .root = job->root,
                        .silu = job->silu,
                        .stream = job->stream};
    const bool wide = job->gamma_type != ZOE_F32 && job->gamma_type != ZOE_NONE;
    const bool wide_beta = job->beta_type != ZOE_F32 && job->beta_type != ZOE_NONE;
    if (!wide && !wide_beta) {
        job->k->l2_apply(at->at[Y], at->at[X], job->gamma, job->beta, &form, job->D);
        return;
    }
    float gamma[PIECE], beta[PIECE];
    for (size_t d = 0; d < job->D; d += PIECE) {
        const size_t n = zoe_min(PIECE, job->D - d);
        const float *g =
            job->gamma ? zoe_row_read(job->k, gamma_at(job, d), job->gamma_type, n, gamma) : NULL;
        const float *b = job->beta ? zoe_row_read(job->k, element(job->beta, job->beta_type, d),
                                                  job->beta_type, n, beta)
                                   : NULL;
        job->k->l2_apply(element(at->at[Y], job->y, d), element(at->at[X], job->x, d), g, b, &form,
                         n);
    }
}

zoe_status zoe_cpu_l2_norm(zoe_context *ctx, const zoe_l2_norm_args *args)
{
    rms_job job = job_of(args->y, args->x, 1, 0.0f);
    const float clamp = args->clamp == 0.0f ? 1e-12f : args->clamp;
    set_gamma(&job, args->gamma);
    set_beta(&job, args->bias);
    job.clamp = args->strict_torch ? rounded(clamp, job.x) : clamp;
    job.root = (float)sqrt((double)job.D);
    job.round = short_type(job.x);
    job.silu = args->silu;
    job.row = l2_row;
    return run(ctx, &job);
}
