/* 3 x 3 convolution with 2.25 times fewer products.
 *
 * Winograd's F(2 x 2, 3 x 3): a square of 4 x 4 input pixels and a 3 x 3 kernel are each turned
 * into 16 values, whose products, turned back, are the 2 x 2 outputs under the kernel (Lavin and
 * Gray 2016, arXiv 1509.09308). The turning only adds, and halves the kernel's values, so that the
 * error stays that of f32 sums. Taps in time are summed between.
 *
 * A task is a block of squares over a few output frames. Its input is turned once, for each of the
 * 16 places a product of [squares, taps Cin] and [taps Cin, Cout] is made by the kernel of the
 * direct way, and the results are turned back. The squares lie on a fixed grid and sums have a
 * fixed order, so neither threads nor tasks show in the result. A value that is not finite may
 * spread one pixel further than the kernel reaches. */
#include "device/cpu/conv.h"
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"

enum {
    PLACES = 16, /* values of a square */
    ROWS = ZOE_CONV_ROWS,
    BLOCK_FRAMES = 4,    /* of the output, at most */
    BLOCK_INPUT = 144,   /* input squares of a block, all its frames together, at most */
    BLOCK_ROWS = 6,      /* of squares */
    ENOUGH_SQUARES = 64, /* in a frame; with fewer the direct way is as fast */
    ENOUGH_TASKS = 128,  /* with fewer blocks than this the panels are split too, but */
    FEWEST_PANELS = 4,   /* not into less than this, as each part turns the block's input again */
    PAD = 16             /* floats between places, lest they all fall on one set of the cache */
};

/* Extents of the parts of the work; counts of floats have no overflow because they are few times
 * those of the packed weights or of a tile. */
typedef struct extents {
    size_t frames, squares; /* of a block */
    size_t input;           /* floats of a place: [input frames][squares][Cin] */
    size_t sums;            /* floats of a place: [panels][frames][squares][width] */
    size_t weights;         /* floats of a place: panels of [kt][Cin][width] */
    size_t table;           /* pointers: [frames][squares][kt] */
    size_t tile;            /* floats of the widened pixels under a block; f32 needs none */
    size_t worker_bytes, weights_bytes;
} extents;

typedef struct plan {
    zoe_context *ctx;
    const zoe_conv3d_args *args;
    const conv_packed *packed;
    const zoe_kernels *kernels;
    extents size;
    float *turned; /* weights: [PLACES] panels */
    unsigned char *work;
    size_t panels, panels_per_task, groups;
    size_t block_rows, block_columns; /* in squares */
    size_t blocks_in_column, blocks_in_row;
} plan;

typedef struct scratch {
    float *input, *sums;
    const float **table;
    float *tile;
} scratch;

bool zoe_cpu_conv_can_winograd(const zoe_conv3d_args *args)
{
    const zoe_conv_weights *w = args->weights;
    return w->kh == 3 && w->kw == 3 && w->kt <= 3 && w->Cin >= 16 && w->Cin % 8 == 0 &&
           args->stride_t == 1 && args->stride_h == 1 && args->stride_w == 1 &&
           args->dilation_t == 1 && args->dilation_h == 1 && args->dilation_w == 1 &&
           !args->upsample;
}

bool zoe_cpu_conv_is_winograd(const zoe_conv3d_args *args)
{
    const size_t rows = zoe_ceil_div(args->y.shape[1], 2),
                 columns = zoe_ceil_div(args->y.shape[2], 2);
    return zoe_cpu_conv_can_winograd(args) &&
           zoe_min(rows, ENOUGH_SQUARES) * zoe_min(columns, ENOUGH_SQUARES) >= ENOUGH_SQUARES;
}

static extents extents_of(const zoe_conv3d_args *args)
{
    const zoe_conv_weights *w = args->weights;
    const size_t columns = conv_columns(w->Cout);
    extents e = {.frames = zoe_min(args->y.shape[0] ? args->y.shape[0] : 1, BLOCK_FRAMES)};
    const size_t input_frames = e.frames + w->kt - 1;
    e.squares = BLOCK_INPUT / zoe_min(input_frames, BLOCK_INPUT) / ROWS * ROWS;
    e.input = input_frames * e.squares * w->Cin + PAD;
    e.sums = columns * e.frames * e.squares + PAD;
    e.weights = columns * w->kt * w->Cin + PAD;
    e.table = e.frames * e.squares * w->kt;
    /* (2 r + 2) (2 c + 2) pixels for r c <= squares: r + c is the largest with r or c = 1. */
    e.tile = args->x.dtype == ZOE_F32 ? 0 : 8 * (e.squares + 1) * w->Cin;
    e.worker_bytes = zoe_arena_bytes(PLACES * e.input, sizeof(float)) +
                     zoe_arena_bytes(PLACES * e.sums, sizeof(float)) +
                     zoe_arena_bytes(e.table, sizeof(const float *)) +
                     zoe_arena_bytes(e.tile, sizeof(float));
    e.weights_bytes = zoe_arena_bytes(PLACES * e.weights, sizeof(float));
    return e;
}

size_t zoe_cpu_conv_winograd_bytes(const zoe_context *ctx, const zoe_conv3d_args *args)
{
    const extents e = extents_of(args);
    size_t bytes;
    if (!zoe_size_mul(&bytes, e.worker_bytes, (size_t)zoe_context_threads(ctx)) ||
        !zoe_size_add(&bytes, bytes, e.weights_bytes))
        return SIZE_MAX;
    return bytes;
}

static scratch scratch_of(const plan *p, size_t worker)
{
    unsigned char *at = p->work + worker * p->size.worker_bytes;
    scratch s;
    s.input = (float *)(void *)at;
    at += zoe_arena_bytes(PLACES * p->size.input, sizeof(float));
    s.sums = (float *)(void *)at;
    at += zoe_arena_bytes(PLACES * p->size.sums, sizeof(float));
    s.table = (const float **)(void *)at;
    at += zoe_arena_bytes(p->size.table, sizeof(const float *));
    s.tile = p->size.tile ? (float *)(void *)at : NULL;
    return s;
}

/* Panel i of the turned weights for a place: [kt][Cin][width]. */
static float *turned_panel(const plan *p, size_t place, size_t i)
{
    const zoe_conv_weights *w = &p->packed->head;
    return p->turned + place * p->size.weights + i * CONV_PANEL * w->kt * w->Cin;
}

/* Temporal taps of output frame t that lie before the timeline. */
static size_t skipped_taps(const plan *p, size_t t)
{
    const size_t front = p->args->pad_front;
    return t < front ? zoe_min(front - t, p->packed->head.kt) : 0;
}

static void turn_weights(void *arg, size_t i, size_t worker)
{
    const plan *p = arg;
    const zoe_conv_weights *w = &p->packed->head;
    const size_t tap = conv_panel_width(w->Cout, i) * w->Cin; /* floats */
    (void)worker;
    /* Taps that even the last frame leaves out are not wanted. */
    for (size_t a = skipped_taps(p, p->args->y.shape[0] - 1); a < w->kt; a++)
        p->kernels->winograd_weights(turned_panel(p, 0, i) + a * tap, p->size.weights,
                                     conv_panel(p->packed, i) + 9 * a * tap, tap, tap);
}

/* The squares that one task computes. */
typedef struct block {
    size_t t, frames;   /* output frames */
    size_t row, column; /* of the first square, in squares */
    size_t rows, columns, squares, tiles;
} block;

static block block_of(const plan *p, size_t index)
{
    const zoe_tensor y = p->args->y;
    const size_t in_row = index % p->blocks_in_row, in_column = index / p->blocks_in_row;
    block b = {
        .t = in_column / p->blocks_in_column * p->size.frames,
        .row = in_column % p->blocks_in_column * p->block_rows,
        .column = in_row * p->block_columns,
    };
    b.frames = zoe_min(y.shape[0] - b.t, p->size.frames);
    b.rows = zoe_min(zoe_ceil_div(y.shape[1], 2) - b.row, p->block_rows);
    b.columns = zoe_min(zoe_ceil_div(y.shape[2], 2) - b.column, p->block_columns);
    b.squares = b.rows * b.columns;
    b.tiles = zoe_ceil_div(b.squares, ROWS);
    return b;
}

/* The pixels of one input square, those outside the frame as zeros. */
static void point_square(const plan *p, const float *pixels[PLACES], const conv_view *view,
                         size_t row, size_t column)
{
    const zoe_tensor x = p->args->x;
    /* Rows above and columns left of the frame wrap around to huge numbers. */
    const size_t top = 2 * row - p->args->pad_top, left = 2 * column - p->args->pad_left;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++)
            pixels[4 * i + j] = top + i < x.shape[1] && left + j < x.shape[2]
                                    ? conv_view_pixel(view, top + i, left + j)
                                    : p->packed->zeros;
}

/* Turns the input under a block. Frames before the timeline are left as they are: nothing reads
 * them. */
static void turn_input(const plan *p, const scratch *s, const block *b)
{
    const zoe_conv_weights *w = &p->packed->head;
    const zoe_conv3d_args *args = p->args;
    const conv_region region = zoe_conv_clip((conv_region){.top = 2 * b->row - args->pad_top,
                                                           .left = 2 * b->column - args->pad_left,
                                                           .rows = 2 * b->rows + 2,
                                                           .columns = 2 * b->columns + 2},
                                             args->x.shape[1], args->x.shape[2]);
    for (size_t f = 0; f < b->frames + w->kt - 1; f++) {
        if (b->t + f < args->pad_front)
            continue;
        const conv_view view =
            zoe_conv_view_of(p->kernels, args, b->t + f - args->pad_front, region, s->tile);
        float *to = s->input + f * p->size.squares * w->Cin;
        for (size_t n = 0; n < b->squares; n++, to += w->Cin) {
            const float *pixels[PLACES];
            point_square(p, pixels, &view, b->row + n / b->columns, b->column + n % b->columns);
            p->kernels->winograd_input(to, p->size.input, pixels, w->Cin);
        }
    }
}

/* Where panel i of a place has its sums for output frame f of the block: [squares][width]. */
static float *sums_of(const plan *p, const scratch *s, size_t place, size_t i, size_t f)
{
    const size_t squares = p->size.squares, width = conv_panel_width(p->packed->head.Cout, i);
    return s->sums + place * p->size.sums + i * CONV_PANEL * p->size.frames * squares +
           f * squares * width;
}

/* The rows of one place's products: for each output frame [tiles][its taps][ROWS] pointers. */
static const float **table_of(const plan *p, const scratch *s, size_t f)
{
    return s->table + f * p->size.squares * p->packed->head.kt;
}

static void point_rows(const plan *p, const scratch *s, const block *b, size_t place)
{
    const zoe_conv_weights *w = &p->packed->head;
    for (size_t f = 0; f < b->frames; f++) {
        const size_t skipped = skipped_taps(p, b->t + f), taps = w->kt - skipped;
        const float *input =
            s->input + place * p->size.input + (f + skipped) * p->size.squares * w->Cin;
        const float **table = table_of(p, s, f);
        for (size_t tile = 0; tile < b->tiles; tile++)
            for (size_t a = 0; a < taps; a++)
                for (size_t r = 0; r < ROWS; r++) {
                    const size_t n = tile * ROWS + r;
                    *table++ = n < b->squares ? input + (a * p->size.squares + n) * w->Cin
                                              : p->packed->zeros;
                }
    }
}

/* The products of one place, for panels first to end. */
static void multiply(const plan *p, const scratch *s, const block *b, size_t place, size_t first,
                     size_t end)
{
    const zoe_conv_weights *w = &p->packed->head;
    point_rows(p, s, b, place);
    for (size_t i = first; i < end; i++) {
        const size_t width = conv_panel_width(w->Cout, i);
        for (size_t f = 0; f < b->frames; f++) {
            const size_t skipped = skipped_taps(p, b->t + f), taps = w->kt - skipped;
            const float *panel = turned_panel(p, place, i) + skipped * w->Cin * width;
            float *sums = sums_of(p, s, place, i, f);
            memset(sums, 0, b->tiles * ROWS * width * sizeof *sums);
            for (size_t tile = 0; tile < b->tiles; tile++)
                p->kernels->conv(sums + tile * ROWS * width, table_of(p, s, f) + tile * taps * ROWS,
                                 panel, taps, w->Cin, width);
        }
    }
}

/* Turns the sums of one square of one panel back into its outputs, as many as lie within the frame.
 */
static void write_square(const plan *p, const float *sums, size_t panel, size_t t, size_t row,
                         size_t column)
{
    const zoe_tensor y = p->args->y;
    const size_t channel = panel * CONV_PANEL, Cout = p->packed->head.Cout;
    const size_t width = conv_panel_width(Cout, panel), count = zoe_min(Cout - channel, width);
    float out[4 * CONV_PANEL];
    p->kernels->winograd_output(out, sums, p->size.sums, p->packed->bias + channel, width);
    for (size_t i = 0; i < 2 && row + i < y.shape[1]; i++)
        for (size_t j = 0; j < 2 && column + j < y.shape[2]; j++)
            conv_write(p->kernels, p->args, t, row + i, column + j, channel,
                       out + (2 * i + j) * width, count);
}

static void write_block(const plan *p, const scratch *s, const block *b, size_t first, size_t end)
{
    for (size_t f = 0; f < b->frames; f++)
        for (size_t n = 0; n < b->squares; n++)
            for (size_t i = first; i < end; i++)
                write_square(
                    p, sums_of(p, s, 0, i, f) + n * conv_panel_width(p->packed->head.Cout, i), i,
                    b->t + f, 2 * (b->row + n / b->columns), 2 * (b->column + n % b->columns));
}

static void run_task(void *arg, size_t task, size_t worker)
{
    const plan *p = arg;
    const scratch s = scratch_of(p, worker);
    const block b = block_of(p, task / p->groups);
    const size_t first = task % p->groups * p->panels_per_task;
    const size_t end = zoe_min(first + p->panels_per_task, p->panels);
    if (zoe_cancelled(p->ctx))
        return;
    turn_input(p, &s, &b);
    for (size_t place = 0; place < PLACES; place++)
        multiply(p, &s, &b, place, first, end);
    write_block(p, &s, &b, first, end);
}

/* Fixes blocks and tasks from the shape of the output; returns the number of tasks. */
static size_t cut(plan *p)
{
    const zoe_tensor y = p->args->y;
    const size_t rows = zoe_ceil_div(y.shape[1], 2), columns = zoe_ceil_div(y.shape[2], 2);
    p->block_rows = zoe_min(rows, BLOCK_ROWS);
    p->block_columns = zoe_min(columns, p->size.squares / p->block_rows);
    p->block_rows = zoe_min(rows, p->size.squares / p->block_columns);
    p->blocks_in_column = zoe_ceil_div(rows, p->block_rows);
    p->blocks_in_row = zoe_ceil_div(columns, p->block_columns);
    const size_t blocks =
        zoe_ceil_div(y.shape[0], p->size.frames) * p->blocks_in_column * p->blocks_in_row;
    const size_t splits = ENOUGH_TASKS / blocks + 1, part = zoe_ceil_div(p->panels, splits);
    p->panels_per_task = part < FEWEST_PANELS ? FEWEST_PANELS : part;
    p->groups = zoe_ceil_div(p->panels, p->panels_per_task);
    return blocks * p->groups;
}

zoe_status zoe_cpu_conv_winograd(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work)
{
    const zoe_conv_weights *w = args->weights;
    plan p = {
        .ctx = ctx,
        .args = args,
        .packed = (const conv_packed *)w,
        .kernels = zoe_kernels_get(),
        .size = extents_of(args),
        .turned = work.data,
        .panels = conv_panels(w->Cout),
    };
    p.work = (unsigned char *)work.data + p.size.weights_bytes;
    const size_t tasks = cut(&p);
    zoe_parallel_for(ctx, p.panels, turn_weights, &p);
    zoe_parallel_for(ctx, tasks, run_task, &p);
    return zoe_check_cancel(ctx);
}
