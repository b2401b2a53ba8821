/* The LayerNorm family on the cpu. Rows go in blocks that stay in the second cache: first their
 * residuals, then their statistics, then piece by piece of their columns the results, so that a row is
 * read once from memory and a piece of the vectors is prepared once a block. Meanwhile the next block
 * is fetched. A block is a pair of rows, for which there are kernels, unless results take several steps. */
#include "device/cpu/cpu.h"
#include "device/cpu/layer.h"
#include "device/cpu/walk.h"

/* Columns whose vectors are prepared at once, columns of a step that stays in the first cache, rows and
 * bytes of a block, and elements of a row that is a block alone, since it stays in the first cache. */
enum { PIECE = 6144, PART = 1024, MOST_ROWS = 16, BLOCK_BYTES = 160 << 10, SHORT = 2048 };
/* Rows of a block that are turned into results by one kernel. */
enum { PAIR = 2 };
/* Elements of a row that are summed at once. */
enum { STRIP = 512 };
/* Rows of one task are about so many bytes. */
enum { TASK_BYTES = 512 << 10 };

/* The tensors of a walk. */
enum { X, H, SUM, Y, Y_SCALE, MEAN, RSTD, REST, OFFSET, SCALE, SHIFT, GATE, GROUP, TENSORS };
_Static_assert((int)TENSORS <= (int)ZOE_WALK_MOST, "a walk follows all of them");

typedef struct layer_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    zoe_kernel_layer_sums *sums;   /* of what is normalised */
    zoe_kernel_layer_apply *apply; /* from that to y, or to f32 where y is i8 */
    zoe_tensor t[TENSORS];
    zoe_walk walk;
    size_t D, block, task; /* elements of a row, rows of a block and of a task */
    bool residual, norm, stream;
    bool direct;          /* results take one kernel */
    zoe_dtype gate_maths; /* NONE: f32 */
    /* the norm */
    zoe_norm_kind kind;
    zoe_tensor gamma, beta;
    float eps;
    bool affine, modulated, composed;
    zoe_dtype round_norm, maths;
    zoe_dtype filled; /* the type of rows of a product */
} layer_job;

/* A row of a block: its addresses, and what the norm found. */
typedef struct layer_row {
    unsigned char *at[TENSORS];
    zoe_norm_numbers n;
    float peak; /* of an i8 result: the largest of its sizes */
} layer_row;

/* Vectors of the columns of a piece, and the rows that they came from. */
typedef struct layer_piece {
    size_t d, n;
    size_t affine_at, modulation_at, gate_at; /* d of what stands there now */
    const unsigned char *scale_of, *shift_of, *gate_of;
    float gamma[PIECE], beta[PIECE], scale[PIECE], shift[PIECE], gate[PIECE];
    float v[PART], other[PART];
} layer_piece;

static bool is_half(zoe_dtype dtype)
{
    return dtype == ZOE_F16 || dtype == ZOE_BF16;
}

/* Rounds values to dtype, if that is f16 or bf16. */
static void round_to(const zoe_kernels *k, float *v, zoe_dtype dtype, size_t n)
{
    uint16_t half[PART];
    if (dtype == ZOE_BF16)
        k->round_bf16(v, v, n);
    for (size_t i = 0; dtype == ZOE_F16 && i < n; i += PART) {
        k->narrow_f16(half, v + i, zoe_min(PART, n - i));
        k->widen_f16(v + i, half, zoe_min(PART, n - i));
    }
}

/* ---- vectors ---- */

static void fill(float *v, float value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = value;
}

/* Elements of the piece of the vector at `row`, plus `add`; without a vector, `add` alone is not
 * enough: `none`. */
static void prepare(const zoe_kernels *k, float *v, const void *row, zoe_dtype dtype, float add,
                    float none, const layer_piece *p)
{
    if (dtype == ZOE_NONE) {
        fill(v, none, p->n);
        return;
    }
    const void *from = (const unsigned char *)row + p->d * zoe_dtype_bytes(dtype);
    k->layer_weight(v, zoe_row_read(k, from, dtype, p->n, v), add, p->n);
}

static void prepare_affine(const layer_job *job, layer_piece *p)
{
    if (!job->affine || p->affine_at == p->d)
        return;
    prepare(job->k, p->gamma, job->gamma.data, job->gamma.dtype, -0.0f, 1.0f, p);
    prepare(job->k, p->beta, job->beta.data, job->beta.dtype, -0.0f, -0.0f, p);
    p->affine_at = p->d;
}

static void prepare_modulation(const layer_job *job, layer_piece *p, const layer_row *row)
{
    const bool moved = p->modulation_at != p->d;
    if (!job->modulated)
        return;
    if (moved || p->scale_of != row->at[SCALE]) {
        prepare(job->k, p->scale, row->at[SCALE], job->t[SCALE].dtype, 1.0f, 1.0f, p);
        round_to(job->k, p->scale, job->maths, p->n);
        p->scale_of = row->at[SCALE];
    }
    if (moved || p->shift_of != row->at[SHIFT]) {
        prepare(job->k, p->shift, row->at[SHIFT], job->t[SHIFT].dtype, -0.0f, -0.0f, p);
        round_to(job->k, p->shift, job->maths, p->n);
        p->shift_of = row->at[SHIFT];
    }
    p->modulation_at = p->d;
}

static void prepare_gate(const layer_job *job, layer_piece *p, const layer_row *row)
{
    if (p->gate_at == p->d && p->gate_of == row->at[GATE])
        return;
    prepare(job->k, p->gate, row->at[GATE], job->t[GATE].dtype, -0.0f, 1.0f, p);
    round_to(job->k, p->gate, job->gate_maths, p->n);
    p->gate_of = row->at[GATE];
    p->gate_at = p->d;
}

/* ---- residuals ---- */

static unsigned char *column(const layer_job *job, const layer_row *row, int tensor, size_t d)
{
    return row->at[tensor] + d * zoe_dtype_bytes(job->t[tensor].dtype);
}

static void add_residual(const layer_job *job, layer_piece *p, const layer_row *row, size_t o,
                         size_t n)
{
    const zoe_kernels *k = job->k;
    const zoe_dtype type = job->t[X].dtype, h_type = job->t[H].dtype;
    const void *x = column(job, row, X, p->d + o), *h = column(job, row, H, p->d + o);
    void *sum = column(job, row, SUM, p->d + o);
    if (!is_half(job->gate_maths)) {
        zoe_layer_gate(k, sum, x, type, h, h_type, p->gate + o, n);
        return;
    }
    k->multiply(p->v, zoe_row_read(k, h, h_type, n, p->v), p->gate + o, n);
    round_to(k, p->v, job->gate_maths, n);
    k->add(p->v, p->v, zoe_row_read(k, x, type, n, p->other), n);
    round_to(k, p->v, job->gate_maths, n);
    zoe_row_write(k, sum, type, p->v, n);
}

static void residual_row(const layer_job *job, layer_piece *p, const layer_row *row)
{
    const size_t step = is_half(job->gate_maths) ? PART : PIECE;
    for (p->d = 0; p->d < job->D; p->d += PIECE) {
        p->n = zoe_min(PIECE, job->D - p->d);
        prepare_gate(job, p, row);
        for (size_t o = 0; o < p->n; o += step)
            add_residual(job, p, row, o, zoe_min(step, p->n - o));
    }
}

/* ---- statistics ---- */

/* Sum of x - shift, or of its square, in double throughout: for rows at which f32 fails. */
static double slow_sum(const zoe_kernels *k, const unsigned char *x, zoe_dtype dtype, double shift,
                       bool square, size_t D)
{
    float buffer[PIECE];
    double sum = 0.0;
    for (size_t d = 0; d < D; d += PIECE) {
        const size_t n = zoe_min(PIECE, D - d);
        const float *v = zoe_row_read(k, x + d * zoe_dtype_bytes(dtype), dtype, n, buffer);
        for (size_t i = 0; i < n; i++) {
            const double e = (double)v[i] - shift;
            sum += square ? e * e : e;
        }
    }
    return sum;
}

/* Below this, squares may have lost digits to the smallest number of f32. */
static const double tiny = 1e-24;

typedef struct row_sums {
    const layer_job *job;
    const unsigned char *x, *soon; /* soon: a row like x that is read soon, or NULL */
    size_t bytes;                  /* of an element */
} row_sums;

/* Of f32, whose sums take long, the row that is soon read is asked for meanwhile; of other types while
 * results are written. */
static void sums_of_row(void *arg, double sums[2], float shift)
{
    const row_sums *r = arg;
    const size_t D = r->job->D;
    for (size_t d = 0; d < D; d += STRIP) {
        const size_t n = zoe_min(STRIP, D - d);
        for (size_t o = 0; r->soon && o < n * r->bytes; o += 64)
            __builtin_prefetch(r->soon + d * r->bytes + o, 0, 2);
        r->job->sums(sums, r->x + d * r->bytes, shift, n);
    }
}

static void layer_statistics(const layer_job *job, layer_row *row, const void *x, zoe_dtype dtype,
                             const void *soon)
{
    row_sums r = {job, x, soon, zoe_dtype_bytes(dtype)};
    zoe_moments m =
        zoe_moments_of(sums_of_row, &r, zoe_near_mean(job->k, x, dtype, job->D), dtype, job->D);
    if (!isfinite(m.variance) || m.variance + (double)job->eps < tiny) {
        m.mean = slow_sum(job->k, x, dtype, 0.0, false, job->D) / (double)job->D;
        m.variance = slow_sum(job->k, x, dtype, m.mean, true, job->D) / (double)job->D;
    }
    row->n = zoe_layer_numbers(m, job->eps);
}

static void rms_statistics(const layer_job *job, layer_row *row, const void *x, zoe_dtype dtype)
{
    double sums[2] = {0.0, 0.0};
    job->sums(sums, x, 0.0f, job->D);
    double mean = sums[1] / (double)job->D;
    if (!isfinite(mean) || mean + (double)job->eps < tiny)
        mean = slow_sum(job->k, x, dtype, 0.0, true, job->D) / (double)job->D;
    row->n = zoe_rms_numbers(mean, job->eps);
}

/* ---- results ---- */

/* Some columns of a piece, from column o of it on. */
typedef struct layer_part {
    size_t o, n;
    unsigned char *y;
    zoe_dtype y_type;      /* f32, f16 or bf16 */
    const layer_row *next; /* the row in its place in the next block, which is soon read; or NULL */
} layer_part;

static void look_ahead(const layer_job *job, zoe_layer_form *f, const layer_row *next, size_t d)
{
    static const int tensors[2] = {X, H};
    for (int j = 0; next && j < 2; j++)
        if (next->at[tensors[j]]) {
            f->ahead[j] = column(job, next, tensors[j], d);
            f->ahead_bytes[j] = zoe_dtype_bytes(job->t[tensors[j]].dtype);
        }
}

/* Roundings, or two pairs of vectors: in steps by way of p->v. */
static void compose(const layer_job *job, layer_piece *p, const layer_part *part, const void *x,
                    zoe_dtype x_type, const zoe_layer_form *norm)
{
    const zoe_kernels *k = job->k;
    const size_t n = part->n;
    float *v = p->v;
    zoe_layer_apply(k, v, ZOE_F32, x, x_type, norm, n);
    round_to(k, v, job->round_norm, n);
    if (job->modulated) {
        round_to(k, v, job->maths, n);
        k->multiply(v, v, p->scale + part->o, n);
        round_to(k, v, job->maths, n);
        k->add(v, v, p->shift + part->o, n);
        round_to(k, v, job->maths, n);
    }
    zoe_layer_form f = zoe_layer_as_it_is();
    f.stream = job->stream;
    if (part->y != (unsigned char *)v)
        zoe_layer_apply(k, part->y, part->y_type, v, ZOE_F32, &f, n);
}

static void finish_part(const layer_job *job, layer_piece *p, const layer_row *row,
                        const layer_part *part)
{
    const int from = job->residual ? SUM : X;
    const size_t d = p->d + part->o;
    const void *x = column(job, row, from, d);
    zoe_layer_form f = zoe_layer_form_of(&row->n);
    if (job->affine) {
        f.weight = p->gamma + part->o;
        f.bias = p->beta + part->o;
    }
    look_ahead(job, &f, part->next, d);
    if (job->composed) {
        compose(job, p, part, x, job->t[from].dtype, &f);
        return;
    }
    if (job->modulated) {
        f.weight = p->scale + part->o;
        f.bias = p->shift + part->o;
    }
    f.stream = job->stream;
    job->apply(part->y, x, &f, part->n);
}

/* The largest value of a row's part of an i8 result. */
static void look_for_peak(const layer_job *job, layer_piece *p, layer_row *row, size_t o, size_t n)
{
    const layer_part part = {.o = o, .n = n, .y = (unsigned char *)p->v, .y_type = ZOE_F32};
    finish_part(job, p, row, &part);
    const float here = job->k->int8_peak(p->v, n);
    row->peak = here > row->peak || isnan(here) ? here : row->peak;
}

static void write_part(const layer_job *job, layer_piece *p, const layer_row *row,
                       const layer_row *next, size_t o, size_t n)
{
    const zoe_dtype type = job->t[Y].dtype;
    unsigned char *y = column(job, row, Y, p->d + o);
    layer_part part = {.o = o, .n = n, .y = y, .y_type = type, .next = next};
    if (type != ZOE_I8) {
        finish_part(job, p, row, &part);
        return;
    }
    part.y = (unsigned char *)p->v;
    part.y_type = ZOE_F32;
    finish_part(job, p, row, &part);
    job->k->int8_round((int8_t *)y, p->v, 127.0f / row->peak, n);
}

/* Both rows of a pair, a whole piece at once. */
static void write_pair(const layer_job *job, layer_piece *p, const layer_row *rows,
                       const layer_row *next)
{
    const int from = job->residual ? SUM : X;
    const layer_row *a = &rows[0], *b = &rows[1];
    zoe_layer_form f = zoe_layer_form_of(&a->n);
    zoe_layer_form g = {.rstd = 1.0f};
    if (job->affine || job->modulated) {
        f.weight = job->affine ? p->gamma : p->scale;
        f.bias = job->affine ? p->beta : p->shift;
    }
    look_ahead(job, &f, next ? &next[0] : NULL, p->d);
    look_ahead(job, &g, next ? &next[1] : NULL, p->d);
    const zoe_layer_row other = {.y = column(job, b, Y, p->d),
                                 .x = column(job, b, from, p->d),
                                 .mean = b->n.mean,
                                 .rstd = b->n.rstd,
                                 .rest = b->n.rest,
                                 .offset = b->n.offset,
                                 .ahead = {g.ahead[0], g.ahead[1]}};
    f.other = &other;
    f.stream = job->stream;
    job->apply(column(job, a, Y, p->d), column(job, a, from, p->d), &f, p->n);
}

static bool same_vectors(const layer_row *rows, size_t count)
{
    for (size_t r = 1; r < count; r++)
        if (rows[r].at[SCALE] != rows[0].at[SCALE] || rows[r].at[SHIFT] != rows[0].at[SHIFT])
            return false;
    return true;
}

/* Goes over the parts of all rows of a block: those below each other, which share their vectors, or row
 * by row if each row has its own. First for the peaks of an i8 result, then for the results. */
static void result_block(const layer_job *job, layer_piece *p, layer_row *rows, size_t count,
                         const layer_row *next, size_t next_count, bool peaks)
{
    const size_t together = same_vectors(rows, count) ? count : 1;
    for (p->d = 0; p->d < job->D; p->d += PIECE) {
        p->n = zoe_min(PIECE, job->D - p->d);
        prepare_affine(job, p);
        for (size_t first = 0; first < count; first += together) {
            prepare_modulation(job, p, &rows[first]);
            if (job->direct && together == PAIR) {
                write_pair(job, p, rows, next_count == PAIR ? next : NULL);
                continue;
            }
            for (size_t o = 0; o < p->n; o += PART)
                for (size_t r = first; r < first + together; r++) {
                    const size_t n = zoe_min(PART, p->n - o);
                    if (peaks)
                        look_for_peak(job, p, &rows[r], o, n);
                    else
                        write_part(job, p, &rows[r], r < next_count ? &next[r] : NULL, o, n);
                }
        }
    }
}

static void int8_scales(const layer_job *job, layer_piece *p, layer_row *rows, size_t count)
{
    for (size_t r = 0; r < count; r++)
        rows[r].peak = 0.0f;
    result_block(job, p, rows, count, NULL, 0, true);
    for (size_t r = 0; r < count; r++) {
        const float scale = rows[r].peak / 127.0f;
        memcpy(rows[r].at[Y_SCALE], &scale, sizeof scale);
    }
}

/* To where they are wanted: rstd rounded to the nearest, unless what it lacks has a place, too. */
static void put_numbers(const layer_row *row)
{
    const float rstd = row->at[REST] ? row->n.rstd : row->n.rstd + row->n.rest;
    if (row->at[MEAN])
        memcpy(row->at[MEAN], &row->n.mean, sizeof row->n.mean);
    if (row->at[RSTD])
        memcpy(row->at[RSTD], &rstd, sizeof rstd);
    if (row->at[REST])
        memcpy(row->at[REST], &row->n.rest, sizeof row->n.rest);
    if (row->at[OFFSET])
        memcpy(row->at[OFFSET], &row->n.offset, sizeof row->n.offset);
}

static void norm_block(const layer_job *job, layer_piece *p, layer_row *rows, size_t count,
                       const layer_row *next, size_t next_count)
{
    const int from = job->residual ? SUM : X;
    for (size_t r = 0; r < count; r++) {
        layer_row *row = &rows[r];
        const void *x = row->at[from];
        if (job->kind == ZOE_NORM_RMS)
            rms_statistics(job, row, x, job->t[from].dtype);
        else
            layer_statistics(job, row, x, job->t[from].dtype,
                             r < next_count && job->direct && job->t[from].dtype == ZOE_F32
                                 ? next[r].at[X]
                                 : NULL);
        put_numbers(row);
    }
    if (job->t[Y].dtype == ZOE_NONE)
        return;
    if (job->t[Y].dtype == ZOE_I8)
        int8_scales(job, p, rows, count);
    result_block(job, p, rows, count, next, next_count, false);
}

/* ---- walking ---- */

static unsigned char *group_row(zoe_tensor t, int32_t group)
{
    return (unsigned char *)t.data + (size_t)group * (size_t)t.stride[0] * zoe_dtype_bytes(t.dtype);
}

/* The next `count` rows. */
static void take_rows(const layer_job *job, zoe_walker *walker, layer_row *rows, size_t count)
{
    static const int vectors[] = {SCALE, SHIFT, GATE};
    for (size_t r = 0; r < count; r++, zoe_walker_next(walker)) {
        memcpy(rows[r].at, walker->at, sizeof rows[r].at);
        if (!rows[r].at[GROUP])
            continue;
        int32_t group;
        memcpy(&group, rows[r].at[GROUP], sizeof group);
        for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
            if (job->t[vectors[i]].dtype != ZOE_NONE)
                rows[r].at[vectors[i]] = group_row(job->t[vectors[i]], group);
    }
}

static void layer_task(void *arg, size_t i, size_t worker)
{
    const layer_job *job = arg;
    layer_row rows[2][MOST_ROWS];
    layer_piece piece;
    (void)worker;
    if (zoe_cancelled(job->ctx))
        return;
    piece.affine_at = piece.modulation_at = piece.gate_at = SIZE_MAX;
    size_t m = i * job->task;
    const size_t end = zoe_min(job->walk.rows, m + job->task);
    zoe_walker walker = zoe_walk_at(&job->walk, m);
    size_t count = zoe_min(job->block, end - m);
    take_rows(job, &walker, rows[0], count);
    for (int now = 0; count > 0; now ^= 1) {
        const size_t next = zoe_min(job->block, end - m - count);
        take_rows(job, &walker, rows[now ^ 1], next);
        if (job->residual)
            for (size_t r = 0; r < count; r++)
                residual_row(job, &piece, &rows[now][r]);
        if (job->norm)
            norm_block(job, &piece, rows[now], count, rows[now ^ 1], next);
        m += count;
        count = next;
    }
    if (job->stream)
        zoe_stream_end();
}

/* Without its last `axes` axes. */
static zoe_tensor leading(zoe_tensor t, int axes)
{
    t.rank -= t.dtype == ZOE_NONE ? 0 : axes;
    return t;
}

/* x has D elements in its last `axes` axes; other rows have their last axis, statistics none. */
static zoe_status layer_run(layer_job *job, int axes)
{
    const zoe_tensor x = job->t[X];
    const int rank = x.rank - axes;
    const zoe_dtype from = job->t[job->residual ? SUM : X].dtype;
    const zoe_dtype to = job->t[Y].dtype == ZOE_I8 ? ZOE_F32 : job->t[Y].dtype;
    job->k = zoe_kernels_get();
    job->sums = zoe_layer_sums_of(job->k, from);
    job->apply = zoe_layer_apply_of(job->k, from, to);
    job->walk = zoe_walk_over(x, rank);
    job->D = 1;
    for (int i = rank; i < x.rank; i++)
        job->D *= x.shape[i];
    for (int i = 0; i < TENSORS; i++) {
        const bool grouped = job->t[GROUP].dtype != ZOE_NONE && (i >= SCALE && i <= GATE);
        const bool row = i == X || i == H || i == SUM || i == Y;
        const bool whole = (i >= Y_SCALE && i <= OFFSET) || i == GROUP;
        zoe_walk_add(&job->walk, grouped ? zoe_tensor_none()
                                         : leading(job->t[i], row     ? axes
                                                              : whole ? 0
                                                                      : 1));
    }
    zoe_walk_merge(&job->walk);
    const size_t bytes = job->D * zoe_dtype_bytes(x.dtype);
    job->composed =
        is_half(job->round_norm) || (job->modulated && (job->affine || is_half(job->maths)));
    job->direct = !job->composed && job->t[Y].dtype != ZOE_I8;
    job->block =
        job->D <= SHORT || bytes > BLOCK_BYTES ? 1 : zoe_min(MOST_ROWS, BLOCK_BYTES / bytes);
    if (job->direct && bytes <= BLOCK_BYTES)
        job->block = PAIR;
    job->task = zoe_ceil_div(zoe_ceil_div(TASK_BYTES, bytes), job->block) * job->block;
    const zoe_tensor y = job->t[Y];
    job->stream =
        job->norm && y.dtype != ZOE_I8 && y.data != x.data && zoe_streams(zoe_tensor_bytes(y));
    zoe_parallel_for(job->ctx, zoe_ceil_div(job->walk.rows, job->task), layer_task, job);
    return zoe_check_cancel(job->ctx);
}

static layer_job job_of(zoe_context *ctx)
{
    layer_job job = {.ctx = ctx, .gamma = zoe_tensor_none(), .beta = zoe_tensor_none()};
    for (int i = 0; i < TENSORS; i++)
        job.t[i] = zoe_tensor_none();
    return job;
}

static void take_modulation(layer_job *job, const zoe_layer_norm_modulate_args *a)
{
    job->norm = true;
    job->t[Y] = a->y;
    job->t[Y_SCALE] = a->y_scale;
    job->t[SCALE] = a->scale;
    job->t[SHIFT] = a->shift;
    job->t[GROUP] = a->group;
    job->gamma = a->gamma;
    job->beta = a->beta;
    job->eps = a->eps;
    job->kind = a->kind;
    job->affine = a->gamma.dtype != ZOE_NONE || a->beta.dtype != ZOE_NONE;
    job->modulated = a->scale.dtype != ZOE_NONE || a->shift.dtype != ZOE_NONE;
    job->round_norm = a->round_norm;
    job->maths = a->maths;
}

static void take_residual(layer_job *job, const zoe_gated_residual_args *a)
{
    job->residual = true;
    job->t[X] = a->x;
    job->t[H] = a->h;
    job->t[SUM] = a->y;
    job->t[GATE] = a->gate;
    job->t[GROUP] = a->group;
    job->gate_maths = a->maths;
}

zoe_status zoe_cpu_layer_norm(zoe_context *ctx, const zoe_layer_norm_args *a)
{
    layer_job job = job_of(ctx);
    job.norm = true;
    job.t[X] = a->x;
    job.t[Y] = a->y;
    job.t[MEAN] = a->mean;
    job.t[RSTD] = a->rstd;
    job.gamma = a->gamma;
    job.beta = a->beta;
    job.eps = a->eps;
    job.affine = a->gamma.dtype != ZOE_NONE || a->beta.dtype != ZOE_NONE;
    return layer_run(&job, a->axes);
}

zoe_status zoe_cpu_layer_norm_modulate(zoe_context *ctx, const zoe_layer_norm_modulate_args *a)
{
    layer_job job = job_of(ctx);
    take_modulation(&job, a);
    job.t[X] = a->x;
    return layer_run(&job, 1);
}

zoe_status zoe_cpu_gated_residual(zoe_context *ctx, const zoe_gated_residual_args *a)
{
    layer_job job = job_of(ctx);
    take_residual(&job, a);
    return layer_run(&job, 1);
}

zoe_status zoe_cpu_gated_residual_norm_modulate(zoe_context *ctx,
                                                const zoe_gated_residual_norm_modulate_args *a)
{
    layer_job job = job_of(ctx);
    take_modulation(&job, &a->norm);
    take_residual(&job, &a->residual);
    return layer_run(&job, 1);
}

/* ---- rows of a product ---- */

/* One row's part, from what the statistics' run has left. */
static void fill_row(const layer_job *job, layer_piece *p, layer_row *row, zoe_dtype type, float *y)
{
    uint16_t half[ZOE_FILL_MOST];
    const layer_part part = {
        .n = p->n, .y = type == ZOE_F32 ? (void *)y : (void *)half, .y_type = type};
    memcpy(&row->n.mean, row->at[MEAN], sizeof row->n.mean);
    memcpy(&row->n.rstd, row->at[RSTD], sizeof row->n.rstd);
    memcpy(&row->n.rest, row->at[REST], sizeof row->n.rest);
    memcpy(&row->n.offset, row->at[OFFSET], sizeof row->n.offset);
    prepare_modulation(job, p, row);
    finish_part(job, p, row, &part);
    if (type != ZOE_F32)
        zoe_row_widen(job->k, y, half, type, p->n);
}

static void fill_rows(const void *arg, float *y, size_t y_stride, size_t m, size_t count,
                      size_t from, size_t n)
{
    enum { AHEAD = 3, RING = 4 };
    const layer_job *job = arg;
    layer_row rows[RING];
    layer_piece piece;
    zoe_walker walker = zoe_walk_at(&job->walk, m);
    piece.d = from;
    piece.n = n;
    piece.affine_at = piece.modulation_at = SIZE_MAX;
    prepare_affine(job, &piece);
    take_rows(job, &walker, rows, zoe_min(AHEAD, count));
    for (size_t i = 0; i < count; i++, y += y_stride) {
        layer_row *ahead = &rows[(i + AHEAD) % RING];
        if (i + AHEAD < count) {
            take_rows(job, &walker, ahead, 1);
            zoe_fetch(column(job, ahead, X, from), n * zoe_dtype_bytes(job->t[X].dtype));
        }
        fill_row(job, &piece, &rows[i % RING], job->filled, y);
    }
}

size_t zoe_cpu_layer_norm_linear_workspace(const zoe_context *ctx,
                                           const zoe_layer_norm_linear_args *args)
{
    return (OFFSET - MEAN + 1) * zoe_row_numbers_bytes(args->norm.x) +
           zoe_cpu_linear_workspace(ctx, args->parts, args->n_parts);
}

zoe_status zoe_cpu_layer_norm_linear(zoe_context *ctx, const zoe_layer_norm_linear_args *args,
                                     zoe_workspace work)
{
    layer_job job = job_of(ctx);
    const zoe_tensor x = args->norm.x;
    const size_t bytes = zoe_row_numbers_bytes(x);
    take_modulation(&job, &args->norm);
    job.t[X] = x;
    for (int i = MEAN; i <= OFFSET; i++) {
        job.t[i] = zoe_row_numbers(x, work.data);
        work.data = (unsigned char *)work.data + bytes;
        work.bytes -= bytes;
    }
    TRY(layer_run(&job, 1));
    job.filled = args->type;
    job.apply = zoe_layer_apply_of(job.k, x.dtype, args->type);
    return zoe_cpu_linear_of(ctx, &(zoe_row_source){fill_rows, &job}, args->parts, args->n_parts,
                             work);
}
