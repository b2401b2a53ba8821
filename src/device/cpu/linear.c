/* The linear layer on the cpu. Parts (outputs that share x) lie side by side, each on a whole number of
 * panels; the result is cut into blocks of rows and of these columns. A block is one task, computed
 * wholly by one thread, over slices of K in ascending order:
 *
 *   the slice of x becomes f32 rows that stay in the second cache;
 *   for each 16 rows of w, the slice becomes a packed f32 panel that stays in the first cache (of
 *   block types by way of 16 f32 rows), and every row of x is multiplied with it into the block's
 *   sums, while the next 16 rows of w are fetched.
 *
 * Terms follow in the same way, slice by slice into the same sums, behind the last slice of K. An
 * element is the sum of its slices, each one accumulator over ascending k, whatever the blocks are: that
 * is why rows, threads and parts do not change a bit.
 *
 * Rows may come from a source in place of x, such as a norm (zoe_row_source), in both ways. Up to four
 * rows skip the panel: a kernel takes 16 rows of w as they are stored, in the same order of sums.
 *
 * Weights are thus widened once for each block of rows of x, and never exist in f32 beyond one
 * panel. */
#include "base/block.h"
#include "device/cpu/rows.h"
#include "device/cpu/cpu.h"

/* Block sizes. Rows: their slice of x takes 0.4 MB, which a second cache of 512 KiB holds, and the
 * more there are, the less packing of w costs: 0.4 cycles an element, beside 1/16 cycle for each row.
 * Columns: likewise for x; the sums, 2.4 MB, are touched once a slice and may lie in the last cache.
 * The distance of rows of the x slice is no multiple of 4 KiB, at which they would fight for the same
 * cache sets; likewise that of the sums. */
enum { BLOCK_M = 396, BLOCK_N = 1536, SLICE = 256, SLICE_STRIDE = SLICE + 16, SUM_PAD = 16 };
_Static_assert((int)SLICE <= (int)ZOE_FILL_MOST, "a slice is filled at once");
_Static_assert((int)SLICE <= (int)ZOE_FEW_DEPTH, "a slice is one product of few rows");
_Static_assert(SLICE % ZOE_BLOCK_MOST == 0, "a slice of K begins with a block");
/* With several threads: blocks for each that there should be, and columns below which a block is not
 * cut for it. */
enum { TASKS = 4, LEAST_N = 256 };
/* Bytes of x that may hope to stay in the last cache. */
enum { GROUP_BYTES = 8 << 20 };
/* Rows of x between two fetches of a part of the next panel, so that few lines are on their way at a
 * time. */
enum { STRIP = 48 };
/* So few rows take less time than reading w does: then panels go through all of K, so that every row of w
 * is read from end to end. */
enum { FEW = 8 };

/* A product of the sum: that of the layer itself, or of a term. */
typedef struct product {
    const zoe_row_source *source; /* of the rows in place of x, or NULL */
    zoe_tensor x, w;
    size_t K;
    float scale;
    bool round_weights;
    zoe_kernel_pack *pack; /* of the type of w, or of f32 behind its widening */
    zoe_kernel_few
        *few; /* likewise, or NULL: where values change on the way, or rows are too many */
} product;

typedef struct linear_job {
    zoe_context *ctx;
    const zoe_kernels *k;
    const zoe_row_source *source; /* of the parts' x, or NULL: x itself */
    const zoe_linear_args *parts;
    size_t n_parts;
    size_t M, K, width;       /* width: columns of all parts, on whole panels */
    size_t rows, blocks_m;    /* rows of a block, blocks over M */
    size_t columns, blocks_n; /* the same for width; columns is a multiple of ZOE_PANEL */
    size_t sum_stride, few_stride;
    size_t group; /* blocks over M that pass through all of w together */
    bool bf16;    /* x is: operands and results are rounded */
    unsigned char *work;
    size_t worker_bytes;
} linear_job;

/* One thread's scratch. */
typedef struct linear_scratch {
    float *x;     /* [rows][SLICE_STRIDE] */
    float *panel; /* [SLICE][ZOE_PANEL] */
    float *lines; /* [ZOE_PANEL][SLICE], rows of a w of block type, widened */
    float *sums;  /* [rows][sum_stride] */
    float *bias;  /* [columns], rounded */
    float *row;   /* [columns], a residual widened */
    float *few;   /* [M][few_stride], x as f32, if M is at most FEW */
} linear_scratch;

static bool is_block(zoe_dtype dtype)
{
    return zoe_block_elements(dtype) > 1;
}

static size_t panels_width(size_t n)
{
    return zoe_ceil_div(n, ZOE_PANEL) * ZOE_PANEL;
}

/* How many blocks of columns: as few as may be, but enough for every thread to have as many tasks as
 * the others. */
static size_t column_blocks(const linear_job *job, size_t threads)
{
    const size_t few = zoe_ceil_div(job->width, BLOCK_N);
    const size_t fine = job->width / LEAST_N, most = fine > few ? fine : few;
    for (size_t n = few; threads > 1 && n <= most; n++)
        if (job->blocks_m * n >= TASKS * threads && job->blocks_m * n % threads == 0)
            return n;
    return threads > 1 ? most : few;
}

static size_t rows_of(zoe_tensor t)
{
    size_t rows = 1;
    for (int i = 0; i + 1 < t.rank; i++)
        rows *= t.shape[i];
    return rows;
}

/* The type of w plays no part: files mix types, and one workspace serves all layers of a shape. */
static void plan_blocks(linear_job *job, const zoe_context *ctx, const zoe_linear_args *parts,
                        size_t n)
{
    const zoe_tensor x = parts->x;
    job->parts = parts;
    job->n_parts = n;
    job->M = rows_of(x);
    job->K = x.shape[x.rank - 1];
    job->width = 0;
    for (size_t i = 0; i < n; i++)
        job->width += panels_width(parts[i].w.shape[0]);
    job->rows = zoe_even_block(job->M, BLOCK_M, 6);
    job->blocks_m = zoe_ceil_div(job->M, job->rows);
    job->blocks_n = column_blocks(job, (size_t)zoe_context_threads(ctx));
    job->columns = zoe_even_block(job->width, zoe_ceil_div(job->width, job->blocks_n), ZOE_PANEL);
    job->blocks_n = zoe_ceil_div(job->width, job->columns);
    job->sum_stride = job->columns + SUM_PAD;
    job->few_stride = job->K;
    const size_t block_bytes = job->rows * job->K * zoe_dtype_bytes(x.dtype);
    job->group = block_bytes > 0 && block_bytes < GROUP_BYTES ? GROUP_BYTES / block_bytes : 1;
    const size_t rows = zoe_block_room(job->M, BLOCK_M, 6);
    const size_t columns = zoe_block_room(job->width, BLOCK_N, ZOE_PANEL);
    job->worker_bytes = zoe_arena_bytes(rows * SLICE_STRIDE, sizeof(float)) +
                        2 * zoe_arena_bytes(SLICE * ZOE_PANEL, sizeof(float)) +
                        zoe_arena_bytes(rows * (columns + SUM_PAD), sizeof(float)) +
                        2 * zoe_arena_bytes(columns, sizeof(float)) +
                        zoe_arena_bytes(zoe_min(job->M, FEW) * job->few_stride, sizeof(float));
}

static linear_scratch scratch_of(const linear_job *job, size_t worker)
{
    linear_scratch s;
    s.x = (float *)(job->work + worker * job->worker_bytes);
    s.panel = s.x + zoe_arena_bytes(job->rows * SLICE_STRIDE, sizeof(float)) / sizeof(float);
    s.lines = s.panel + SLICE * ZOE_PANEL;
    s.bias = s.lines + SLICE * ZOE_PANEL;
    s.row = s.bias + zoe_arena_bytes(job->columns, sizeof(float)) / sizeof(float);
    s.sums = s.row + zoe_arena_bytes(job->columns, sizeof(float)) / sizeof(float);
    s.few = s.sums + zoe_arena_bytes(job->rows * job->sum_stride, sizeof(float)) / sizeof(float);
    return s;
}

/* Factors of the weights of a panel: its rows are the rows row .. row + count - 1 of w. */
static void scale_panel(const zoe_kernels *k, const product *p, float *panel, size_t row,
                        size_t count, size_t from, size_t n)
{
    const zoe_scaling *scaling = p->w.scaling;
    for (size_t done = 0; done < n;) {
        const size_t column = (from + done) / scaling->column_step;
        const size_t left = scaling->column_step - (from + done) % scaling->column_step;
        const size_t width = zoe_min(n - done, left);
        float factors[ZOE_PANEL] = {0.0f};
        for (size_t r = 0; r < count; r++)
            factors[r] = scaling->values[(row + r) / scaling->row_step * scaling->columns + column];
        if (p->round_weights)
            k->round_bf16(factors, factors, count);
        k->scale_panel(panel + done * ZOE_PANEL, factors, width);
        done += width;
    }
}

/* The elements from .. from + n - 1 of the rows row .. row + count - 1 of w: where they are, or, of
 * block types, widened. */
static const void *panel_lines(const zoe_kernels *k, const product *p, const linear_scratch *s,
                               size_t row, size_t count, size_t from, size_t n, ptrdiff_t *stride)
{
    const zoe_tensor w = p->w;
    *stride = w.stride[0];
    if (!is_block(w.dtype))
        return zoe_row(w, row, from);
    for (size_t r = 0; r < count; r++)
        zoe_row_widen(k, s->lines + r * SLICE, zoe_row(w, row + r, from), w.dtype, n);
    *stride = SLICE;
    return s->lines;
}

/* The same as a panel. */
static void pack_weights(const zoe_kernels *k, const product *p, const linear_scratch *s,
                         size_t row, size_t count, size_t from, size_t n)
{
    const zoe_tensor w = p->w;
    ptrdiff_t stride;
    const void *lines = panel_lines(k, p, s, row, count, from, n, &stride);
    p->pack(s->panel, lines, stride, count, n);
    if (w.scaling)
        scale_panel(k, p, s->panel, row, count, from, n);
    if (p->round_weights)
        k->round_bf16(s->panel, s->panel, n * ZOE_PANEL);
}

/* A block of the result. */
typedef struct block {
    size_t m0, rows, v0, columns; /* v: columns of all parts */
} block;

/* The columns of one part in a block. */
typedef struct segment {
    const zoe_linear_args *part;
    size_t at, n0, columns; /* place in the block, and in the part's rows */
} segment;

/* The segment that begins at column `at` of the block or behind; false if there is none. */
static bool next_segment(const linear_job *job, block b, size_t at, segment *s)
{
    size_t begin = 0;
    for (size_t i = 0; i < job->n_parts; i++) {
        const size_t N = job->parts[i].w.shape[0], end = begin + panels_width(N);
        if (b.v0 + at < end && at < b.columns) {
            s->part = &job->parts[i];
            s->at = at;
            s->n0 = b.v0 + at - begin;
            s->columns = zoe_min(N - s->n0, b.columns - at);
            return true;
        }
        begin = end;
    }
    return false;
}

/* A slice of some rows of w that is read soon. */
typedef struct fetching {
    const char *w;
    size_t rows, step, lines; /* step: bytes between rows; lines: of one row */
    size_t done;              /* lines */
} fetching;

static fetching fetching_of(zoe_tensor w, size_t row, size_t rows, size_t from, size_t n)
{
    return (fetching){.w = rows > 0 ? zoe_row(w, row, from) : NULL,
                      .rows = rows,
                      .step = zoe_run_bytes(w.dtype, (size_t)w.stride[0]),
                      .lines = zoe_ceil_div(zoe_run_bytes(w.dtype, n), 64)};
}

/* Hints at the next `lines` lines of every row. Row after row of one line: rows lie on pages of their
 * own, and so the cpu looks for several of them at once; line after line of one row, it waited for
 * each, which took 4 % of a product. */
static void fetch_lines(fetching *f, size_t lines)
{
    for (size_t stop = zoe_min(f->done + lines, f->lines); f->done < stop; f->done++)
        for (size_t r = 0; r < f->rows; r++)
            __builtin_prefetch(f->w + r * f->step + f->done * 64, 0, 2);
}

/* One panel against the block's rows of x, while w of the next panel is fetched. */
static void multiply_panel(const linear_job *job, const linear_scratch *s, block b, float *sums,
                           fetching next, size_t n, bool add)
{
    const size_t each = zoe_ceil_div(next.lines, zoe_ceil_div(b.rows, STRIP));
    for (size_t m = 0; m < b.rows; m += STRIP) {
        fetch_lines(&next, each);
        job->k->gemm(sums + m * job->sum_stride, job->sum_stride, s->x + m * SLICE_STRIDE,
                     SLICE_STRIDE, s->panel, zoe_min(STRIP, b.rows - m), n, add);
    }
}

/* Adds the product over elements from .. from + n of K, of the slice of x that lies ready, to the
 * segment's sums. */
static void add_segment(const linear_job *job, const product *p, const linear_scratch *s, block b,
                        segment g, size_t from, size_t n, bool add)
{
    const size_t end = g.n0 + g.columns;
    for (size_t j = 0; j < g.columns; j += ZOE_PANEL) {
        const size_t row = g.n0 + j, next = zoe_min(row + ZOE_PANEL, end);
        pack_weights(job->k, p, s, row, next - row, from, n);
        multiply_panel(job, s, b, s->sums + g.at + j,
                       fetching_of(p->w, next, zoe_min(ZOE_PANEL, end - next), from, n), n, add);
    }
}

/* Elements from .. from + n of the block's rows of x as f32. */
static void pack_rows(const linear_job *job, const product *p, float *x, size_t stride, block b,
                      size_t from, size_t n)
{
    enum { AHEAD = 3 };
    const size_t bytes = n * zoe_dtype_bytes(p->x.dtype);
    if (p->source) {
        p->source->fill(p->source->arg, x, stride, b.m0, b.rows, from, n);
        return;
    }
    for (size_t m = 0; m < b.rows; m++, x += stride) {
        if (m + AHEAD < b.rows)
            zoe_fetch(zoe_row_at(p->x, b.m0 + m + AHEAD, from), bytes);
        zoe_row_widen(job->k, x, zoe_row_at(p->x, b.m0 + m, from), p->x.dtype, n);
        if (p->scale != 1.0f)
            job->k->scale(x, p->scale, n);
    }
}

static zoe_kernel_pack *packer(const zoe_kernels *k, zoe_dtype dtype)
{
    switch (dtype) {
    case ZOE_F16: return k->pack_f16;
    case ZOE_BF16: return k->pack_bf16;
    case ZOE_F8_E4M3: return k->pack_f8_e4m3;
    case ZOE_F8_E5M2: return k->pack_f8_e5m2;
    default: return k->pack_f32;
    }
}

static zoe_kernel_few *few_of(const linear_job *job, const product *p)
{
    const zoe_kernels *k = job->k;
    if (job->M > ZOE_FEW_ROWS || p->round_weights || p->w.scaling)
        return NULL;
    switch (p->w.dtype) {
    case ZOE_F16: return k->few_f16;
    case ZOE_BF16: return k->few_bf16;
    case ZOE_F8_E4M3:
    case ZOE_F8_E5M2: return NULL;
    default: return k->few_f32;
    }
}

static product own_product(const linear_job *job, const zoe_linear_args *part)
{
    /* Values of bf16 and of both f8 types are bf16 values already. */
    const zoe_tensor w = part->w;
    const bool inexact = w.dtype == ZOE_F32 || w.dtype == ZOE_F16 || is_block(w.dtype) || w.scaling;
    product p = {.source = job->source,
                 .x = part->x,
                 .w = w,
                 .K = job->K,
                 .scale = 1.0f,
                 .round_weights = (job->bf16 || part->round_weights) && inexact,
                 .pack = packer(job->k, w.dtype)};
    p.few = few_of(job, &p);
    return p;
}

static product term_product(const linear_job *job, const zoe_linear_term *term)
{
    return (product){.x = term->x,
                     .w = term->w,
                     .K = term->x.shape[term->x.rank - 1],
                     .scale = term->scale,
                     .pack = packer(job->k, term->w.dtype)};
}

static void add_terms(const linear_job *job, const linear_scratch *s, block b, segment g)
{
    for (size_t i = 0; i < g.part->n_terms; i++) {
        const product term = term_product(job, &g.part->terms[i]);
        for (size_t from = 0; from < term.K; from += SLICE) {
            const size_t n = zoe_min(SLICE, term.K - from);
            pack_rows(job, &term, s->x, SLICE_STRIDE, b, from, n);
            add_segment(job, &term, s, b, g, from, n, true);
        }
    }
}

/* A slice of a panel against few rows. */
static void multiply_few(const linear_job *job, const product *p, const linear_scratch *s, block b,
                         float *sums, size_t row, size_t count, size_t from, size_t n)
{
    const zoe_kernels *k = job->k;
    const float *x = s->few + from;
    if (p->few && count == ZOE_PANEL) {
        ptrdiff_t stride;
        const void *w = panel_lines(k, p, s, row, count, from, n, &stride);
        p->few(sums, job->sum_stride, x, job->few_stride, w, stride, b.rows, n, from > 0);
        return;
    }
    pack_weights(k, p, s, row, count, from, n);
    k->gemm(sums, job->sum_stride, x, job->few_stride, s->panel, b.rows, n, from > 0);
}

/* A panel against few rows, over all of K, while the next slice, or the next panel's first one, is
 * fetched. */
static void sum_few_panel(const linear_job *job, const product *p, const linear_scratch *s, block b,
                          float *sums, size_t row, size_t end)
{
    const size_t next = zoe_min(row + ZOE_PANEL, end), first = zoe_min(SLICE, p->K);
    size_t from = 0;
    do {
        const size_t n = zoe_min(SLICE, p->K - from), behind = from + n;
        fetching f = behind < p->K
                         ? fetching_of(p->w, row, next - row, behind, zoe_min(SLICE, p->K - behind))
                         : fetching_of(p->w, next, zoe_min(ZOE_PANEL, end - next), 0, first);
        fetch_lines(&f, SLICE);
        multiply_few(job, p, s, b, sums, row, next - row, from, n);
        from = behind;
    } while (from < p->K);
}

/* The layer's own product of a block of few rows. */
static void sum_few(const linear_job *job, const linear_scratch *s, block b)
{
    segment g;
    const product shared = own_product(job, job->parts);
    for (size_t from = 0; from < job->K; from += SLICE)
        pack_rows(job, &shared, s->few + from, job->few_stride, b, from,
                  zoe_min(SLICE, job->K - from));
    for (size_t at = 0; next_segment(job, b, at, &g); at += panels_width(g.columns)) {
        const product own = own_product(job, g.part);
        for (size_t j = 0; j < g.columns; j += ZOE_PANEL)
            sum_few_panel(job, &own, s, b, s->sums + at + j, g.n0 + j, g.n0 + g.columns);
    }
}

/* The layer's own product of a block. */
static void sum_many(const linear_job *job, const linear_scratch *s, block b)
{
    segment g;
    size_t from = 0;
    do { /* also for K = 0, which sets the sums to 0 */
        const size_t n = zoe_min(SLICE, job->K - from);
        const product shared = own_product(job, job->parts);
        pack_rows(job, &shared, s->x, SLICE_STRIDE, b, from, n);
        for (size_t at = 0; next_segment(job, b, at, &g); at += panels_width(g.columns)) {
            const product own = own_product(job, g.part);
            add_segment(job, &own, s, b, g, from, n, from > 0);
        }
        from += n;
    } while (from < job->K);
}

/* The block's sums: the layer's own product, then the terms in their order. */
static void sum_block(const linear_job *job, const linear_scratch *s, block b)
{
    segment g;
    (job->M <= FEW ? sum_few : sum_many)(job, s, b);
    for (size_t at = 0; next_segment(job, b, at, &g); at += panels_width(g.columns))
        add_terms(job, s, b, g);
}

/* Writes a segment: bias, activation, gate, residual, type. */
static void finish_segment(const linear_job *job, const linear_scratch *s, block b, segment g)
{
    const zoe_linear_args *part = g.part;
    const zoe_kernels *k = job->k;
    const size_t n0 = g.n0, columns = g.columns;
    zoe_finishing f = {.activation = part->activation, .round = job->bf16};
    if (part->bias.dtype != ZOE_NONE) {
        f.bias = zoe_row(part->bias, 0, n0);
        if (job->bf16) {
            k->round_bf16(s->bias, f.bias, columns);
            f.bias = s->bias;
        }
    }
    const bool gated = part->gate.dtype != ZOE_NONE;
    const size_t gates = gated ? rows_of(part->gate) : 1, gate_rows = job->M / gates;
    for (size_t i = 0, m = b.m0; i < b.rows; i++, m++) {
        float *sums = s->sums + i * job->sum_stride + g.at;
        if (gated)
            f.gate = zoe_row_at(part->gate, m / gate_rows, n0);
        if (part->residual.dtype != ZOE_NONE)
            f.residual = zoe_row_read(k, zoe_row_at(part->residual, m, n0), part->residual.dtype,
                                      columns, s->row);
        void *y = zoe_row_at(part->y, m, n0);
        float *v = zoe_row_target(y, part->y.dtype, sums);
        k->finish(v, sums, &f, columns);
        zoe_row_write(k, y, part->y.dtype, v, columns);
    }
}

static void linear_task(void *arg, size_t i, size_t worker)
{
    const linear_job *job = arg;
    if (zoe_cancelled(job->ctx))
        return;
    const linear_scratch s = scratch_of(job, worker);
    const size_t group = i / (job->group * job->blocks_n),
                 within = i % (job->group * job->blocks_n);
    const size_t blocks = zoe_min(job->group, job->blocks_m - group * job->group);
    block b = {.m0 = (group * job->group + within % blocks) * job->rows,
               .v0 = within / blocks * job->columns};
    b.rows = zoe_min(job->rows, job->M - b.m0);
    b.columns = zoe_min(job->columns, job->width - b.v0);
    sum_block(job, &s, b);
    segment g;
    for (size_t at = 0; next_segment(job, b, at, &g); at += panels_width(g.columns))
        finish_segment(job, &s, b, g);
}

size_t zoe_cpu_linear_workspace(const zoe_context *ctx, const zoe_linear_args *parts, size_t n)
{
    linear_job job;
    plan_blocks(&job, ctx, parts, n);
    return job.worker_bytes * (size_t)zoe_context_threads(ctx);
}

zoe_status zoe_cpu_linear(zoe_context *ctx, const zoe_linear_args *parts, size_t n,
                          zoe_workspace work)
{
    return zoe_cpu_linear_of(ctx, NULL, parts, n, work);
}

zoe_status zoe_cpu_linear_of(zoe_context *ctx, const zoe_row_source *source,
                             const zoe_linear_args *parts, size_t n, zoe_workspace work)
{
    linear_job job = {.ctx = ctx,
                      .k = zoe_kernels_get(),
                      .source = source,
                      .bf16 = parts->x.dtype == ZOE_BF16,
                      .work = work.data};
    plan_blocks(&job, ctx, parts, n);
    zoe_parallel_for(ctx, job.blocks_m * job.blocks_n, linear_task, &job);
    return zoe_check_cancel(ctx);
}
