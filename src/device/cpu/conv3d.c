/* How a convolution is cut for the cpu.
 *
 * It is a product whose left rows are never stored: row r of tap (a, p, q) is the channel vector of
 * one input pixel, reached through a table of pointers (Dukhan 2019, arXiv 1907.02129). Pixels in
 * the padding point to a vector of zeros, an enlarged frame points to each pixel four times, and
 * temporal taps that lie wholly before the timeline are left out. Input of 16 bits is widened first,
 * just the part under a block.
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
    ENOUGH_TASKS = 128, /* with fewer pixel blocks than this the panels are split too */
    FEW_CHANNELS = 4    /* with so few a pixel's taps are copied side by side */
};

/* What one worker needs. */
typedef struct scratch {
    const float **table; /* [BLOCK_TILES][taps][ROWS] */
    float *sums;         /* [BLOCK_TILES][ROWS][panel width] */
    float *tiles;        /* [kt][rows][columns][Cin]: widened input under a block */
} scratch;

/* Its sizes. */
typedef struct extents {
    size_t block_rows, block_columns; /* pixels of a block */
    size_t tile;                      /* floats of a widened frame; 0: f32 needs none */
    size_t table_bytes, sums_bytes, tiles_bytes, worker_bytes;
} extents;

typedef struct plan {
    zoe_context *ctx;
    const zoe_conv3d_args *args;
    const zoe_conv_weights *weights;
    const conv_packed *packed;
    const zoe_kernels *kernels;
    extents size;
    unsigned char *work;
    size_t blocks_in_column, blocks_in_row; /* of an output frame */
    size_t panels, panels_per_task, groups;
} plan;

static size_t tap_count(const zoe_conv_weights *weights)
{
    return weights->kt * weights->kh * weights->kw;
}

/* How output frames are cut into blocks: nearly square ones, which share most of the input that
 * their kernels cover, but a full number of pixels where the frame is narrow or flat. */
static void cut_frames(extents *e, size_t rows, size_t columns)
{
    e->block_rows = zoe_min(rows ? rows : 1, BLOCK_ROWS);
    e->block_columns = zoe_min(columns ? columns : 1, BLOCK / e->block_rows);
    e->block_rows = zoe_min(rows ? rows : 1, BLOCK / e->block_columns);
}

/* Input rows (or columns) under `outputs` of them, at most. SIZE_MAX: more than can be addressed. */
static size_t covered(size_t outputs, size_t stride, size_t taps, size_t dilation, size_t limit)
{
    size_t steps, reach;
    if (!zoe_size_mul(&steps, outputs - 1, stride) || !zoe_size_mul(&reach, taps - 1, dilation) ||
        !zoe_size_add(&steps, steps, reach) || !zoe_size_add(&steps, steps, 1))
        return limit;
    return zoe_min(steps, limit);
}

/* Sizes for these arguments; false: more than can be addressed. */
static bool measure(extents *e, const zoe_conv3d_args *args)
{
    const zoe_conv_weights *w = args->weights;
    const zoe_tensor x = args->x;
    const size_t taps = tap_count(w);
    *e = (extents){0};
    cut_frames(e, args->y.shape[1], args->y.shape[2]);
    /* The packed weights hold more bytes than taps, so the product cannot overflow where they
     * exist. */
    e->table_bytes = zoe_arena_bytes(taps * BLOCK, sizeof(const float *));
    e->sums_bytes = zoe_arena_bytes(BLOCK * CONV_PANEL, sizeof(float));
    if (x.dtype != ZOE_F32) {
        const size_t rows =
            covered(e->block_rows, args->stride_h, w->kh, args->dilation_h, x.shape[1]);
        const size_t columns =
            covered(e->block_columns, args->stride_w, w->kw, args->dilation_w, x.shape[2]);
        size_t floats;
        if (!zoe_size_product(&e->tile, (size_t[]){rows, columns, w->Cin}, 3) ||
            !zoe_size_mul(&floats, e->tile, w->kt) ||
            floats > (SIZE_MAX / 4 - 4096) / sizeof(float))
            return false;
        e->tiles_bytes = zoe_arena_bytes(floats, sizeof(float));
    }
    return zoe_size_add(&e->worker_bytes, e->table_bytes, e->sums_bytes) &&
           zoe_size_add(&e->worker_bytes, e->worker_bytes, e->tiles_bytes);
}

size_t zoe_cpu_conv_direct_bytes(const zoe_context *ctx, const zoe_conv3d_args *args)
{
    extents e;
    size_t bytes;
    if (!measure(&e, args) ||
        !zoe_size_mul(&bytes, e.worker_bytes, (size_t)zoe_context_threads(ctx)))
        return SIZE_MAX;
    return bytes;
}

static scratch scratch_of(const plan *p, size_t worker)
{
    const extents *e = &p->size;
    unsigned char *at = p->work + worker * e->worker_bytes;
    scratch s;
    s.table = (const float **)(void *)at;
    at += e->table_bytes;
    s.sums = (float *)(void *)at;
    at += e->sums_bytes;
    s.tiles = e->tiles_bytes ? (float *)(void *)at : NULL;
    return s;
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
        .row = in_column % p->blocks_in_column * p->size.block_rows,
        .column = in_row * p->size.block_columns,
    };
    b.rows = zoe_min(args->y.shape[1] - b.row, p->size.block_rows);
    b.columns = zoe_min(args->y.shape[2] - b.column, p->size.block_columns);
    b.pixels = b.rows * b.columns;
    b.tiles = zoe_ceil_div(b.pixels, ROWS);
    const size_t start = b.t * args->stride_t; /* in the padded timeline */
    if (start < args->pad_front)
        b.skipped = zoe_min(zoe_ceil_div(args->pad_front - start, args->dilation_t), weights->kt);
    b.taps = (weights->kt - b.skipped) * weights->kh * weights->kw;
    return b;
}

/* The input under a block within a frame. */
static conv_region region_of(const plan *p, const block *b)
{
    const zoe_conv3d_args *args = p->args;
    const zoe_conv_weights *w = p->weights;
    const unsigned half = args->upsample;
    conv_region r = {
        .top = b->row * args->stride_h - args->pad_top,
        .left = b->column * args->stride_w - args->pad_left,
        .rows = (b->rows - 1) * args->stride_h + (w->kh - 1) * args->dilation_h + 1,
        .columns = (b->columns - 1) * args->stride_w + (w->kw - 1) * args->dilation_w + 1,
    };
    r = zoe_conv_clip(r, args->x.shape[1] << half, args->x.shape[2] << half);
    if (half && r.rows) {
        r.rows = (r.top + r.rows - 1) / 2 - r.top / 2 + 1;
        r.top /= 2;
    }
    if (half && r.columns) {
        r.columns = (r.left + r.columns - 1) / 2 - r.left / 2 + 1;
        r.left /= 2;
    }
    return r;
}

/* Where one tap of a frame lies, for all pixels of a block: `down` and `right` are the tap's place
 * in the kernel, in pixels, slots[n] is the place of pixel n in the table. */
static void point_tap(const plan *p, const float **table, const size_t *slots, const block *b,
                      const conv_view *view, size_t down, size_t right)
{
    const zoe_conv3d_args *args = p->args;
    const float *const zeros = p->packed->zeros;
    const unsigned half = args->upsample;
    const size_t rows = args->x.shape[1], columns = args->x.shape[2];
    /* Places above and left of the frame wrap around to huge numbers. */
    size_t v = b->row * args->stride_h + down - args->pad_top;
    for (size_t i = 0; i < b->rows; i++, v += args->stride_h, slots += b->columns) {
        const size_t limit = (v >> half) < rows ? columns : 0;
        size_t h = b->column * args->stride_w + right - args->pad_left;
        for (size_t j = 0; j < b->columns; j++, h += args->stride_w)
            table[slots[j]] =
                (h >> half) < limit ? conv_view_pixel(view, v >> half, h >> half) : zeros;
    }
}

/* Fills the table: [tiles][taps][ROWS]. The last tile is filled up with zeros. */
static void point_block(const plan *p, const scratch *s, const block *b)
{
    const zoe_conv_weights *weights = p->weights;
    const zoe_conv3d_args *args = p->args;
    const conv_region region = region_of(p, b);
    size_t slots[BLOCK];
    for (size_t n = 0; n < b->tiles * ROWS; n++)
        slots[n] = n / ROWS * b->taps * ROWS + n % ROWS;
    const float **to = s->table;
    float *tile = s->tiles;
    for (size_t a = b->skipped; a < weights->kt; a++) {
        const size_t index = b->t * args->stride_t + a * args->dilation_t - args->pad_front;
        const conv_view view = zoe_conv_view_of(p->kernels, args, index, region, tile);
        tile = tile ? tile + p->size.tile : NULL;
        for (size_t down = 0; down < weights->kh; down++)
            for (size_t right = 0; right < weights->kw; right++, to += ROWS) {
                point_tap(p, to, slots, b, &view, down * args->dilation_h,
                          right * args->dilation_w);
                for (size_t n = b->pixels; n < b->tiles * ROWS; n++)
                    to[slots[n]] = p->packed->zeros;
            }
    }
}

/* Sums of one panel for all tiles of a block: [tiles][ROWS][width]. */
static void sum_panel(const plan *p, const scratch *s, const block *b, size_t panel)
{
    const zoe_conv_weights *weights = p->weights;
    const size_t width = conv_panel_width(weights->Cout, panel);
    const size_t taps = b->taps, Cin = weights->Cin;
    const size_t slices = taps * Cin / SLICE_STEPS + 1;
    const size_t slice = zoe_ceil_div(taps, slices); /* taps */
    const float *bias = p->packed->bias + panel * CONV_PANEL;
    const float *w =
        conv_panel(p->packed, panel) + b->skipped * weights->kh * weights->kw * Cin * width;
    if (width == CONV_PANEL)
        for (size_t n = 0; n < b->tiles * ROWS; n++)
            memcpy(s->sums + n * CONV_PANEL, bias, CONV_PANEL * sizeof *bias);
    else
        for (size_t n = 0; n < b->tiles * ROWS; n++)
            memcpy(s->sums + n * width, bias, CONV_PANEL / 2 * sizeof *bias);
    for (size_t from = 0; from < taps; from += slice) {
        const size_t some = zoe_min(taps - from, slice);
        for (size_t tile = 0; tile < b->tiles; tile++)
            p->kernels->conv(s->sums + tile * ROWS * width, s->table + (tile * taps + from) * ROWS,
                             w + from * Cin * width, some, Cin, width);
    }
}

/* y = sums + residual, for the channels of one panel. */
static void write_panel(const plan *p, const float *sums, const block *b, size_t panel)
{
    const size_t width = conv_panel_width(p->weights->Cout, panel), channel = panel * CONV_PANEL;
    const size_t count = zoe_min(p->weights->Cout - channel, width);
    for (size_t i = b->row; i < b->row + b->rows; i++)
        for (size_t j = b->column; j < b->column + b->columns; j++, sums += width)
            conv_write(p->kernels, p->args, b->t, i, j, channel, sums, count);
}

static void run_task(void *arg, size_t task, size_t worker)
{
    const plan *p = arg;
    const scratch s = scratch_of(p, worker);
    const block b = block_of(p, task / p->groups);
    const size_t first = task % p->groups * p->panels_per_task;
    if (zoe_cancelled(p->ctx))
        return;
    point_block(p, &s, &b);
    for (size_t i = first; i < p->panels && i < first + p->panels_per_task; i++) {
        sum_panel(p, &s, &b, i);
        write_panel(p, s.sums, &b, i);
    }
}

zoe_status zoe_cpu_conv_direct(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work)
{
    const zoe_tensor y = args->y;
    plan p = {
        .ctx = ctx,
        .args = args,
        .weights = args->weights,
        .packed = (const conv_packed *)args->weights,
        .kernels = zoe_kernels_get(),
        .work = work.data,
        .panels = conv_panels(args->weights->Cout),
    };
    measure(&p.size, args); /* holds, as the workspace could be told */
    p.blocks_in_column = zoe_ceil_div(y.shape[1], p.size.block_rows);
    p.blocks_in_row = zoe_ceil_div(y.shape[2], p.size.block_columns);
    const size_t blocks = y.shape[0] * p.blocks_in_column * p.blocks_in_row;
    const size_t splits = ENOUGH_TASKS / blocks + 1;
    p.panels_per_task = zoe_ceil_div(p.panels, splits);
    p.groups = zoe_ceil_div(p.panels, p.panels_per_task);
    zoe_parallel_for(ctx, blocks * p.groups, run_task, &p);
    return zoe_check_cancel(ctx);
}

zoe_conv_method zoe_cpu_conv3d_method(const zoe_conv3d_args *args)
{
    const bool winograd = args->method == ZOE_CONV_AUTO ? zoe_cpu_conv_is_winograd(args)
                                                        : args->method == ZOE_CONV_WINOGRAD &&
                                                              zoe_cpu_conv_can_winograd(args);
    return winograd ? ZOE_CONV_WINOGRAD : ZOE_CONV_DIRECT;
}

static bool is_winograd(const zoe_conv3d_args *args)
{
    return zoe_cpu_conv3d_method(args) == ZOE_CONV_WINOGRAD;
}

size_t zoe_cpu_conv3d_workspace(const zoe_context *ctx, const zoe_conv3d_args *args)
{
    if (is_winograd(args))
        return zoe_cpu_conv_winograd_bytes(ctx, args);
    if (zoe_cpu_conv_is_enlarged(args))
        return zoe_cpu_conv_enlarged_bytes(ctx, args);
    return zoe_cpu_conv_direct_bytes(ctx, args);
}

zoe_status zoe_cpu_conv3d(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work)
{
    if (is_winograd(args))
        return zoe_cpu_conv_winograd(ctx, args, work);
    if (zoe_cpu_conv_is_enlarged(args))
        return zoe_cpu_conv_enlarged(ctx, args, work);
    return zoe_cpu_conv_direct(ctx, args, work);
}
