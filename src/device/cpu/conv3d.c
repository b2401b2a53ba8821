/* How a convolution is cut for the cpu.
 *
 * It is a product whose left rows are never stored: row r of tap (a, p, q) is the channel vector of
 * one input pixel, reached through a table of pointers (Dukhan 2019, arXiv 1907.02129). Pixels in
 * the padding point to a vector of zeros, an enlarged frame points to each pixel four times, and
 * temporal taps that lie wholly before the timeline are left out.
 *
 * A task is a block of output pixels of one frame times some panels of 16 output channels. Within
 * it the taps are cut into slices, so that a slice of a panel stays in the cache while all tiles of
 * the block use it; sums of a panel wait in scratch memory between slices. Each output value is
 * summed in an order that depends on Cin, the kernel and the number of taps within the timeline
 * only, so neither threads nor tasks show in the result. */
#include "device/cpu/conv.h"
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

enum {
    ROWS = ZOE_CONV_ROWS,
    BLOCK_TILES = 32,           /* tiles of a pixel block */
    BLOCK = BLOCK_TILES * ROWS, /* pixels of a block */
    BLOCK_ROWS = 12,
    SLICE_STEPS = 2560, /* products per output value and slice: 160 KiB of weights */
    ENOUGH_TASKS = 128  /* with fewer pixel blocks than this the panels are split too */
};

typedef struct scratch {
    const float **table; /* [BLOCK_TILES][taps][ROWS] */
    float *sums;         /* [BLOCK_TILES][ROWS][panel width] */
} scratch;

typedef struct plan {
    zoe_context *ctx;
    const zoe_conv3d_args *args;
    const zoe_conv_weights *weights;
    const conv_packed *packed;
    const zoe_kernels *kernels;
    unsigned char *work;
    size_t work_bytes; /* of one worker */
    size_t past;       /* frames before x */
    size_t block_rows, block_columns;
    size_t blocks_in_column, blocks_in_row; /* of an output frame */
    size_t panels, panels_per_task, groups;
} plan;

static size_t tap_count(const zoe_conv_weights *weights)
{
    return weights->kt * weights->kh * weights->kw;
}

static size_t worker_bytes(const zoe_conv_weights *weights)
{
    /* The packed weights hold more bytes than taps, so the product cannot overflow where they
     * exist. */
    const size_t table = zoe_arena_bytes(tap_count(weights) * BLOCK, sizeof(const float *));
    return table + zoe_arena_bytes(BLOCK * CONV_PANEL, sizeof(float));
}

size_t zoe_cpu_conv_direct_bytes(const zoe_context *ctx, const zoe_conv_weights *weights)
{
    size_t bytes;
    if (!zoe_size_mul(&bytes, worker_bytes(weights), (size_t)zoe_context_threads(ctx)))
        return SIZE_MAX;
    return bytes;
}

static scratch scratch_of(const plan *p, size_t worker)
{
    unsigned char *base = p->work + worker * p->work_bytes;
    const size_t table = zoe_arena_bytes(tap_count(p->weights) * BLOCK, sizeof(const float *));
    return (scratch){.table = (const float **)(void *)base,
                     .sums = (float *)(void *)(base + table)};
}

/* Frame `index` of the timeline (past, x). */
static const float *frame_of(const plan *p, size_t index)
{
    const bool old = index < p->past;
    const zoe_tensor *source = old ? &p->args->past : &p->args->x;
    return (const float *)source->data +
           (ptrdiff_t)(old ? index : index - p->past) * source->stride[0];
}

/* The pixels that one task computes, part of one frame, in row-major order. */
typedef struct block {
    size_t t;                     /* output frame */
    size_t row, column;           /* of the first pixel */
    size_t rows, columns, pixels; /* extents and their product */
    size_t tiles;
    size_t skipped; /* temporal taps before the timeline */
    size_t taps;    /* the others, of all kinds */
} block;

static block block_of(const plan *p, size_t index)
{
    const zoe_conv3d_args *args = p->args;
    const zoe_conv_weights *weights = p->weights;
    const size_t in_row = index % p->blocks_in_row, in_column = index / p->blocks_in_row;
    block b = {
        .t = in_column / p->blocks_in_column,
        .row = in_column % p->blocks_in_column * p->block_rows,
        .column = in_row * p->block_columns,
    };
    b.rows = zoe_min(args->y.shape[1] - b.row, p->block_rows);
    b.columns = zoe_min(args->y.shape[2] - b.column, p->block_columns);
    b.pixels = b.rows * b.columns;
    b.tiles = zoe_ceil_div(b.pixels, ROWS);
    const size_t start = b.t * args->stride_t; /* in the padded timeline */
    if (start < args->pad_front)
        b.skipped = zoe_min(args->pad_front - start, weights->kt);
    b.taps = (weights->kt - b.skipped) * weights->kh * weights->kw;
    return b;
}

/* Where one tap of a frame lies, for all pixels of a block: `down` and `right` are the tap's place
 * in the kernel, slots[n] is the place of pixel n in the table. */
static void point_tap(const plan *p, const float **table, const size_t *slots, const block *b,
                      const zoe_tensor *source, const float *frame, size_t down, size_t right)
{
    const zoe_conv3d_args *args = p->args;
    const float *const zeros = p->packed->zeros;
    const unsigned half = args->upsample;
    const size_t rows = source->shape[1], columns = source->shape[2];
    const ptrdiff_t step = source->stride[2];
    /* Places above and left of the frame wrap around to huge numbers. */
    size_t v = b->row * args->stride_h + down - args->pad_top;
    for (size_t i = 0; i < b->rows; i++, v += args->stride_h, slots += b->columns) {
        const bool inside = (v >> half) < rows;
        const float *row = frame + (inside ? (ptrdiff_t)(v >> half) * source->stride[1] : 0);
        const size_t limit = inside ? columns : 0;
        size_t h = b->column * args->stride_w + right - args->pad_left;
        for (size_t j = 0; j < b->columns; j++, h += args->stride_w) {
            const bool hit = (h >> half) < limit;
            table[slots[j]] = hit ? row + (ptrdiff_t)(h >> half) * step : zeros;
        }
    }
}

/* Fills the table: [tiles][taps][ROWS]. The last tile is filled up with zeros. */
static void point_block(const plan *p, const float **table, const block *b)
{
    const zoe_conv_weights *weights = p->weights;
    size_t slots[BLOCK];
    for (size_t n = 0; n < b->tiles * ROWS; n++)
        slots[n] = n / ROWS * b->taps * ROWS + n % ROWS;
    const float **to = table;
    for (size_t a = b->skipped; a < weights->kt; a++) {
        const size_t index = b->t * p->args->stride_t + a - p->args->pad_front;
        const zoe_tensor *source = index < p->past ? &p->args->past : &p->args->x;
        for (size_t down = 0; down < weights->kh; down++)
            for (size_t right = 0; right < weights->kw; right++, to += ROWS) {
                point_tap(p, to, slots, b, source, frame_of(p, index), down, right);
                for (size_t n = b->pixels; n < b->tiles * ROWS; n++)
                    to[slots[n]] = p->packed->zeros;
            }
    }
}

/* Sums of one panel for all tiles of a block: [tiles][ROWS][width]. */
static void sum_panel(const plan *p, const scratch *s, const block *b, size_t panel)
{
    const zoe_conv_weights *weights = p->weights;
    const size_t Cin = weights->Cin, width = conv_panel_width(weights->Cout, panel);
    const size_t slices = b->taps * Cin / SLICE_STEPS + 1;
    const size_t slice = zoe_ceil_div(b->taps, slices); /* taps */
    const float *w =
        conv_panel(p->packed, panel) + b->skipped * weights->kh * weights->kw * Cin * width;
    for (size_t n = 0; n < b->tiles * ROWS; n++)
        memcpy(s->sums + n * width, p->packed->bias + panel * CONV_PANEL, width * sizeof(float));
    for (size_t from = 0; from < b->taps; from += slice) {
        const size_t taps = zoe_min(b->taps - from, slice);
        for (size_t tile = 0; tile < b->tiles; tile++)
            p->kernels->conv(s->sums + tile * ROWS * width,
                             s->table + (tile * b->taps + from) * ROWS, w + from * Cin * width,
                             taps, Cin, width);
    }
}

/* y = sums + residual, for the channels of one panel. */
static void write_panel(const plan *p, const float *sums, const block *b, size_t panel)
{
    const size_t width = conv_panel_width(p->weights->Cout, panel), channel = panel * CONV_PANEL;
    const size_t count = zoe_min(p->weights->Cout - channel, width);
    for (size_t i = b->row; i < b->row + b->rows; i++)
        for (size_t j = b->column; j < b->column + b->columns; j++, sums += width)
            conv_write(p->args, b->t, i, j, channel, sums, count);
}

static void run_task(void *arg, size_t task, size_t worker)
{
    const plan *p = arg;
    const scratch s = scratch_of(p, worker);
    const block b = block_of(p, task / p->groups);
    const size_t first = task % p->groups * p->panels_per_task;
    if (zoe_cancelled(p->ctx))
        return;
    point_block(p, s.table, &b);
    for (size_t i = first; i < p->panels && i < first + p->panels_per_task; i++) {
        sum_panel(p, &s, &b, i);
        write_panel(p, s.sums, &b, i);
    }
}

/* How output frames are cut into blocks: nearly square ones, which share most of the input that
 * their kernels cover, but a full number of pixels where the frame is narrow or flat. */
static void cut_frames(plan *p)
{
    const size_t rows = p->args->y.shape[1], columns = p->args->y.shape[2];
    p->block_rows = zoe_min(rows, BLOCK_ROWS);
    p->block_columns = zoe_min(columns, BLOCK / p->block_rows);
    p->block_rows = zoe_min(rows, BLOCK / p->block_columns);
    p->blocks_in_column = zoe_ceil_div(rows, p->block_rows);
    p->blocks_in_row = zoe_ceil_div(columns, p->block_columns);
}

zoe_status zoe_cpu_conv_direct(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work)
{
    plan p = {
        .ctx = ctx,
        .args = args,
        .weights = args->weights,
        .packed = (const conv_packed *)args->weights,
        .kernels = zoe_kernels_get(),
        .work = work.data,
        .work_bytes = worker_bytes(args->weights),
        .past = args->past.dtype == ZOE_NONE ? 0 : args->past.shape[0],
        .panels = conv_panels(args->weights->Cout),
    };
    cut_frames(&p);
    const size_t blocks = args->y.shape[0] * p.blocks_in_column * p.blocks_in_row;
    const size_t splits = ENOUGH_TASKS / blocks + 1;
    p.panels_per_task = zoe_ceil_div(p.panels, splits);
    p.groups = zoe_ceil_div(p.panels, p.panels_per_task);
    zoe_parallel_for(ctx, blocks * p.groups, run_task, &p);
    return zoe_check_cancel(ctx);
}

size_t zoe_cpu_conv3d_workspace(const zoe_context *ctx, const zoe_conv3d_args *args)
{
    if (zoe_cpu_conv_is_winograd(args))
        return zoe_cpu_conv_winograd_bytes(ctx, args);
    size_t bytes = zoe_cpu_conv_direct_bytes(ctx, args->weights), merged = 0;
    if (zoe_cpu_conv_is_enlarged(args))
        merged = zoe_arena_bytes(zoe_cpu_conv_enlarged_floats(args->weights), sizeof(float));
    return zoe_size_add(&bytes, bytes, merged) ? bytes : SIZE_MAX;
}

zoe_status zoe_cpu_conv3d(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work)
{
    if (zoe_cpu_conv_is_winograd(args))
        return zoe_cpu_conv_winograd(ctx, args, work);
    if (!zoe_cpu_conv_is_enlarged(args))
        return zoe_cpu_conv_direct(ctx, args, work);
    unsigned char *behind = work.data;
    behind += zoe_cpu_conv_direct_bytes(ctx, args->weights);
    return zoe_cpu_conv_enlarged(ctx, args, work, (float *)(void *)behind);
}
