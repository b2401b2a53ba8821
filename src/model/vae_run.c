/* Wan VAE: a chunk of a band of frames through a line of layers, with the frames and rows that
 * convolutions remember.
 *
 * The same walk serves planning: in a dry run nothing is computed, only sizes are noted. With a
 * single band, which has every row, nothing is kept between bands and no row is copied.
 * Source: Wan2.1 wan/modules/vae.py; spec of the caches in docs/NUMERICS.md. */
#include "model/vae_walk.h"

#include <stdio.h>

/* What the layers of one chunk share. */
typedef struct walk {
    zoe_context *ctx;
    vae_run *run;
    bool dry;
    size_t i;          /* layer */
    size_t at;         /* buffer that holds x, or one that may be used if none does */
    zoe_tensor x;      /* [T, rows, W, C]: rows before[i] .. ends[i] - 1 */
    zoe_tensor kept;   /* input of the level at work */
    size_t kept_first; /* its first row */
    const char *prefix;
    const zoe_probe *probe;
} walk;

static const vae_layer *layer_of(const walk *s)
{
    return &s->run->part.net->layers[s->i];
}

static vae_slot *slot_of(const walk *s, size_t slot)
{
    return &s->run->slots[s->i][slot];
}

/* Rows of whole frames of the layer's input and output, and the rows of output in this band. */
static size_t height_in(const walk *s)
{
    return s->run->heights[s->i];
}

static size_t height_out(const walk *s)
{
    return s->run->heights[s->i + 1];
}

static vae_rows rows_out(const walk *s)
{
    return (vae_rows){s->run->before[s->i + 1], s->run->ends[s->i + 1]};
}

/* Will later bands have more rows of output? */
static bool more_rows(const walk *s)
{
    return s->run->ends[s->i + 1] < s->run->heights[s->i + 1];
}

static bool last_chunk(const walk *s)
{
    return s->run->chunk + 1 >= s->run->part.chunks;
}

/* ---- tensors ---- */

/* A tensor in the n-th buffer (1 or 2) after the one that holds x. */
static zoe_tensor buffer(const walk *s, size_t n, size_t T, size_t rows, size_t W, size_t C)
{
    const size_t which = (s->at + n) % 3;
    const zoe_tensor t = zoe_tensor_4d(s->run->buffers[which], ZOE_F32, T, rows, W, C);
    if (s->dry)
        s->run->room = zoe_max(s->run->room, zoe_tensor_count(t));
    return t;
}

static void move_to(walk *s, size_t n, zoe_tensor y)
{
    s->at = (s->at + n) % 3;
    s->x = y;
}

/* Rows first .. first + rows - 1 of t. */
static zoe_tensor rows_of(zoe_tensor t, size_t first, size_t rows)
{
    float *data = t.data;
    if (data)
        t.data = data + (ptrdiff_t)first * t.stride[1];
    t.shape[1] = rows;
    return t;
}

/* Frames first, first + step, ... of t. */
static zoe_tensor frames_of(zoe_tensor t, size_t first, size_t count, size_t step)
{
    float *data = t.data;
    if (data)
        t.data = data + (ptrdiff_t)first * t.stride[0];
    t.shape[0] = count;
    t.stride[0] *= (ptrdiff_t)step;
    return t;
}

/* Frame t of [T, rows, W, C] as [rows W, C]. */
static zoe_tensor frame_rows(zoe_tensor x, size_t t)
{
    const zoe_tensor frame = frames_of(x, t, 1, 1);
    return zoe_tensor_2d(frame.data, ZOE_F32, x.shape[1] * x.shape[2], x.shape[3]);
}

/* y = x; rows are dense in both, frames at any stride. */
static void copy(zoe_tensor y, zoe_tensor x)
{
    const size_t frame = x.shape[1] * x.shape[2] * x.shape[3];
    for (size_t t = 0; t < x.shape[0]; t++)
        memcpy((float *)y.data + (ptrdiff_t)t * y.stride[0],
               (const float *)x.data + (ptrdiff_t)t * x.stride[0], frame * sizeof(float));
}

/* ---- rows of the bands before ---- */

/* The slot's rows for the frames of this chunk, `rows` of them, shaped like x otherwise. */
static zoe_tensor kept_rows(const vae_slot *slot, zoe_tensor x, size_t rows)
{
    zoe_tensor t = zoe_tensor_4d(slot->rows, ZOE_F32, x.shape[0], rows, x.shape[2], x.shape[3]);
    t.stride[0] = (ptrdiff_t)(slot->row_room * slot->row_size);
    t.data = slot->rows + (ptrdiff_t)slot->seen * t.stride[0];
    return t;
}

/* Fills the first rows of t with `rows` that were kept. */
static void recall(const walk *s, size_t slot, zoe_tensor t, size_t rows)
{
    if (!s->dry && rows)
        copy(rows_of(t, 0, rows), kept_rows(slot_of(s, slot), t, rows));
}

/* Keeps rows from `from` on of t, whose own first is `first`, for the next band, if one is to come
 * (more), and counts its frames. */
static void keep(const walk *s, size_t slot_number, zoe_tensor t, size_t first, size_t from,
                 bool more)
{
    vae_slot *slot = slot_of(s, slot_number);
    const size_t count = more ? first + t.shape[1] - from : 0;
    if (s->dry) {
        slot->row_room = zoe_max(slot->row_room, count);
        slot->row_size = t.shape[2] * t.shape[3];
        if (s->run->before[s->run->part.from] == 0)
            slot->frames += t.shape[0] * (s->run->chunk ? s->run->part.chunks - 1 : 1);
        return;
    }
    if (count)
        copy(kept_rows(slot, t, count), rows_of(t, from - first, count));
    slot->seen += t.shape[0];
}

/* Puts the rows from `first` on, kept by the bands before, above x, in another buffer if there are
 * any. */
static void gather(walk *s, size_t first)
{
    const size_t above = s->run->before[s->i] - first;
    const zoe_tensor x = s->x;
    if (above == 0)
        return;
    const zoe_tensor whole = buffer(s, 1, x.shape[0], above + x.shape[1], x.shape[2], x.shape[3]);
    recall(s, VAE_SLOT_IN, whole, above);
    if (!s->dry)
        copy(rows_of(whole, above, x.shape[1]), x);
    move_to(s, 1, whole);
}

/* ---- frames before the chunk ---- */

/* The remembered frames of a convolution whose input is like x. */
static zoe_tensor past_of(const walk *s, size_t slot_number, zoe_tensor x)
{
    const vae_slot *slot = slot_of(s, slot_number);
    if (s->dry) /* what matters for workspaces are shapes: two frames in the steady state */
        return s->run->chunk ? zoe_tensor_4d(NULL, ZOE_F32, 2, x.shape[1], x.shape[2], x.shape[3])
                             : zoe_tensor_none();
    if (slot->count == 0)
        return zoe_tensor_none();
    return zoe_tensor_4d(slot->past, ZOE_F32, slot->count, x.shape[1], x.shape[2], x.shape[3]);
}

/* Remembers the last `most` frames of (remembered frames, x), unless nothing comes after them. */
static void remember(const walk *s, size_t slot_number, zoe_tensor x, size_t most)
{
    vae_slot *slot = slot_of(s, slot_number);
    const size_t frame = x.shape[1] * x.shape[2] * x.shape[3], T = x.shape[0];
    if (last_chunk(s))
        return;
    const size_t fresh = T < most ? T : most;
    if (s->dry) {
        const size_t frames = s->run->part.chunks > 2 ? most : fresh;
        slot->past_room = zoe_max(slot->past_room, frame);
        slot->past_frames = zoe_max(slot->past_frames, frames);
        return;
    }
    const size_t old = slot->count < most - fresh ? slot->count : most - fresh;
    if (old)
        memmove(slot->past, slot->past + (slot->count - old) * frame, old * frame * sizeof(float));
    copy(
        zoe_tensor_4d(slot->past + old * frame, ZOE_F32, fresh, x.shape[1], x.shape[2], x.shape[3]),
        frames_of(x, T - fresh, fresh, 1));
    slot->count = old + fresh;
}

/* ---- operators ---- */

static zoe_status conv(const walk *s, zoe_conv3d_args args)
{
    if (!args.stride_t)
        args.stride_t = 1;
    if (!args.stride_h)
        args.stride_h = args.stride_w = 1;
    zoe_conv3d_args whole = args; /* a band is computed as the whole would be */
    whole.y.shape[1] = height_out(s);
    args.method = zoe_conv3d_method(&whole);
    if (s->dry) {
        s->run->work.bytes = zoe_max(s->run->work.bytes, zoe_conv3d_workspace(s->ctx, &args));
        return ZOE_OK;
    }
    return zoe_conv3d(s->ctx, &args, s->run->work);
}

static zoe_status linear(const walk *s, const zoe_linear_args *args)
{
    if (s->dry) {
        s->run->work.bytes = zoe_max(s->run->work.bytes, zoe_linear_workspace(s->ctx, args));
        return ZOE_OK;
    }
    return zoe_linear(s->ctx, args, s->run->work);
}

static zoe_status norm(const walk *s, zoe_tensor y, zoe_tensor x, const float *gamma, bool silu)
{
    if (s->dry)
        return ZOE_OK;
    const zoe_tensor g = zoe_tensor_1d((void *)(uintptr_t)gamma, ZOE_F32, x.shape[3]);
    for (size_t t = 0; t < x.shape[0]; t++)
        TRY(zoe_l2_norm(
            s->ctx, &(zoe_l2_norm_args){
                        .y = frame_rows(y, t), .x = frame_rows(x, t), .gamma = g, .silu = silu}));
    return ZOE_OK;
}

/* y, rows `rows` of the whole, = 3x3x3 causal convolution of x (+ residual), where x has just the
 * rows under these; then x is remembered. */
static zoe_status causal(const walk *s, zoe_tensor y, vae_rows rows, size_t height, zoe_tensor x,
                         const zoe_conv_weights *weights, size_t slot, zoe_tensor residual)
{
    const zoe_tensor past = past_of(s, slot, x);
    const size_t seen = past.dtype == ZOE_NONE ? 0 : past.shape[0];
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = x,
                                  .past = past,
                                  .residual = residual,
                                  .weights = weights,
                                  .pad_front = 2 - seen,
                                  .pad_top = rows.first == 0,
                                  .pad_bottom = rows.end == height,
                                  .pad_left = 1,
                                  .pad_right = 1}));
    remember(s, slot, x, 2);
    return ZOE_OK;
}

/* ---- layers ---- */

/* Rows under a 3x3 kernel at `rows`. */
static vae_rows under(vae_rows rows, size_t height)
{
    return (vae_rows){rows.first ? rows.first - 1 : 0,
                      rows.end + 1 < height ? rows.end + 1 : height};
}

static zoe_tensor cut(zoe_tensor t, size_t t_first, vae_rows rows)
{
    return rows_of(t, rows.first - t_first, rows.end - rows.first);
}

static size_t first_row(const walk *s, size_t end)
{
    return zoe_vae_first_row(s->run, s->i, end);
}

static zoe_status run_conv(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t height = height_in(s);
    const vae_rows out = rows_out(s), in = under(out, height);
    gather(s, in.first);
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, x.shape[0], out.end - out.first, x.shape[2], l->out);
    TRY(causal(s, y, out, height, cut(x, in.first, in), l->conv1, VAE_SLOT_CONV1,
               zoe_tensor_none()));
    keep(s, VAE_SLOT_IN, x, in.first, first_row(s, out.end), more_rows(s));
    move_to(s, 1, y);
    return ZOE_OK;
}

/* Rows of the block's x, of its middle (between the two convolutions), and of its output: x begins
 * with the output, the middle with what the second convolution sees. */
static zoe_status run_residual(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t height = height_in(s);
    const vae_rows out = rows_out(s), seen = under(out, height);
    const vae_rows middle = {zoe_vae_middle(s->run, s->i, out.first),
                             zoe_vae_middle(s->run, s->i, out.end)};
    const vae_rows in = under(middle, height);
    gather(s, out.first);
    const zoe_tensor x = s->x;
    const size_t T = x.shape[0], W = x.shape[2];
    const zoe_tensor a = buffer(s, 1, T, in.end - in.first, W, l->in);
    const zoe_tensor h = buffer(s, 2, T, middle.end - seen.first, W, l->out);
    const zoe_tensor fresh = cut(h, seen.first, middle), kept = cut(x, out.first, out);
    recall(s, VAE_SLOT_CONV2, h, middle.first - seen.first);
    if (fresh.shape[1]) {
        TRY(norm(s, a, cut(x, out.first, in), l->norm1, true));
        TRY(causal(s, fresh, middle, height, a, l->conv1, VAE_SLOT_CONV1, zoe_tensor_none()));
        TRY(norm(s, fresh, fresh, l->norm2, true));
    }
    keep(s, VAE_SLOT_IN, x, out.first, first_row(s, out.end), more_rows(s));
    zoe_tensor y = kept;
    if (l->shortcut) {
        y = buffer(s, 1, T, out.end - out.first, W, l->out);
        TRY(conv(s, (zoe_conv3d_args){.y = y, .x = kept, .weights = l->shortcut}));
    }
    TRY(causal(s, y, out, height, cut(h, seen.first, seen), l->conv2, VAE_SLOT_CONV2, y));
    keep(s, VAE_SLOT_CONV2, h, seen.first, out.end - 1, more_rows(s));
    move_to(s, l->shortcut ? 1 : 0, y);
    return ZOE_OK;
}

/* A third of [P, 3 C] as [P, 1 head, C]. */
static zoe_tensor third(zoe_tensor qkv, size_t which)
{
    const size_t C = qkv.shape[1] / 3;
    float *data = qkv.data;
    zoe_tensor t = zoe_tensor_3d(data ? data + which * C : NULL, ZOE_F32, qkv.shape[0], 1, C);
    t.stride[0] = (ptrdiff_t)(3 * C);
    return t;
}

static zoe_status run_attention(const walk *s)
{
    const vae_layer *l = layer_of(s);
    const zoe_tensor x = s->x;
    const size_t H = x.shape[1], W = x.shape[2], C = l->in;
    const zoe_tensor a4 = buffer(s, 1, 1, H, W, C);
    const zoe_tensor a = frame_rows(a4, 0);
    const zoe_tensor qkv = frame_rows(buffer(s, 2, 1, H, W, 3 * C), 0);
    const zoe_attention_args attention = {.o = zoe_tensor_3d(a.data, ZOE_F32, H * W, 1, C),
                                          .q = third(qkv, 0),
                                          .k = third(qkv, 1),
                                          .v = third(qkv, 2),
                                          .scale = 1.0f / sqrtf((float)C),
                                          .last_count = 1};
    if (s->dry)
        s->run->work.bytes =
            zoe_max(s->run->work.bytes, zoe_attention_workspace(s->ctx, &attention));
    for (size_t t = 0; t < x.shape[0]; t++) {
        const zoe_tensor frame = frame_rows(x, t);
        const zoe_tensor frame4 = zoe_tensor_4d(frame.data, ZOE_F32, 1, H, W, C);
        TRY(norm(s, a4, frame4, l->norm1, false));
        TRY(linear(s, &(zoe_linear_args){.y = qkv,
                                         .x = a,
                                         .w = l->qkv,
                                         .bias = zoe_tensor_1d(l->qkv_bias, ZOE_F32, 3 * C)}));
        if (!s->dry)
            TRY(zoe_attention(s->ctx, &attention, s->run->work));
        TRY(linear(s, &(zoe_linear_args){.y = frame,
                                         .x = a,
                                         .w = l->proj,
                                         .bias = zoe_tensor_1d(l->proj_bias, ZOE_F32, C),
                                         .residual = frame}));
    }
    return ZOE_OK;
}

/* The first chunk is one frame that stays one. */
static zoe_status halve_frames(walk *s)
{
    const vae_layer *l = layer_of(s);
    const zoe_tensor y = s->x;
    zoe_tensor past = past_of(s, VAE_SLOT_TIME, y);
    if (s->run->chunk > 0) {
        past.shape[0] = 1;
        const zoe_tensor z = buffer(s, 1, y.shape[0] / 2, y.shape[1], y.shape[2], l->out);
        TRY(conv(
            s, (zoe_conv3d_args){.y = z, .x = y, .past = past, .weights = l->time, .stride_t = 2}));
        move_to(s, 1, z);
    }
    remember(s, VAE_SLOT_TIME, y, 1);
    return ZOE_OK;
}

static zoe_status run_down(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t height = height_in(s);
    const vae_rows out = rows_out(s);
    const vae_rows in = {2 * out.first, 2 * out.end + 1 < height ? 2 * out.end + 1 : height};
    gather(s, in.first);
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, x.shape[0], out.end - out.first, x.shape[2] / 2, l->out);
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = cut(x, in.first, in),
                                  .weights = l->conv1,
                                  .pad_bottom = 2 * out.end + 1 > height,
                                  .pad_right = 1,
                                  .stride_h = 2,
                                  .stride_w = 2}));
    keep(s, VAE_SLOT_IN, x, in.first, first_row(s, out.end), more_rows(s));
    move_to(s, 1, y);
    return l->kind == VAE_DOWN3D ? halve_frames(s) : ZOE_OK;
}

/* The first chunk is one frame that stays one; the sequence that time_conv sees begins with the
 * second chunk. */
static zoe_status double_frames(walk *s)
{
    const vae_layer *l = layer_of(s);
    const zoe_tensor x = s->x;
    const size_t T = x.shape[0];
    if (s->run->chunk == 0)
        return ZOE_OK;
    const zoe_tensor y = buffer(s, 1, 2 * T, x.shape[1], x.shape[2], l->in);
    const zoe_tensor past = past_of(s, VAE_SLOT_TIME, x);
    const size_t seen = past.dtype == ZOE_NONE ? 0 : past.shape[0];
    const zoe_conv_weights *const weights[2] = {l->time, l->time_odd};
    for (size_t i = 0; i < 2 && x.shape[1]; i++)
        TRY(conv(s, (zoe_conv3d_args){.y = frames_of(y, i, T, 2),
                                      .x = x,
                                      .past = past,
                                      .weights = weights[i],
                                      .pad_front = 2 - seen}));
    remember(s, VAE_SLOT_TIME, x, 2);
    move_to(s, 1, y);
    return ZOE_OK;
}

/* A row of the frame is two of the enlarged one, of which the kernel may want only one: the
 * convolution makes a row too many on either side, where the frame goes on there. */
static zoe_status run_up(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t height = height_in(s);
    if (l->kind == VAE_UP3D)
        TRY(double_frames(s));
    const vae_rows out = rows_out(s), made = under(out, 2 * height);
    const vae_rows in = {first_row(s, out.first),
                         out.end / 2 + 1 < height ? out.end / 2 + 1 : height};
    gather(s, in.first);
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, x.shape[0], made.end - made.first, 2 * x.shape[2], l->out);
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = cut(x, in.first, in),
                                  .weights = l->conv1,
                                  .pad_top = out.first == 0,
                                  .pad_bottom = out.end == 2 * height,
                                  .pad_left = 1,
                                  .pad_right = 1,
                                  .upsample = true}));
    keep(s, VAE_SLOT_IN, x, in.first, first_row(s, out.end), more_rows(s));
    move_to(s, 1, cut(y, made.first, out));
    return ZOE_OK;
}

static void see(const walk *s, const char *name, zoe_tensor value)
{
    if (!s->probe || s->dry)
        return;
    char full[96];
    snprintf(full, sizeof full, "%s.chunk%zu.%s", s->prefix, s->run->chunk, name);
    s->probe->see(s->probe->user, full, value);
}

static zoe_status run_head(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t height = height_in(s);
    const vae_rows out = rows_out(s), in = under(out, height);
    gather(s, in.first);
    const zoe_tensor x = s->x, under_y = cut(x, in.first, in);
    const size_t T = x.shape[0], W = x.shape[2];
    const zoe_tensor a = buffer(s, 1, T, in.end - in.first, W, l->in);
    const zoe_tensor y = buffer(s, 2, T, out.end - out.first, W, l->out);
    if (s->probe) {
        TRY(norm(s, a, under_y, l->norm1, false));
        see(s, "head.0", a);
    }
    TRY(norm(s, a, under_y, l->norm1, true));
    see(s, "head.1", a);
    TRY(causal(s, y, out, height, a, l->conv1, VAE_SLOT_CONV1, zoe_tensor_none()));
    see(s, "head.2", y);
    keep(s, VAE_SLOT_IN, x, in.first, first_row(s, out.end), more_rows(s));
    move_to(s, 2, y);
    return ZOE_OK;
}

/* The level's input is kept, with the rows above that its end will ask for. */
static void begin_level(walk *s)
{
    const vae_run *run = s->run;
    const size_t end = zoe_vae_level_end(run, s->i);
    const size_t first = zoe_vae_first_row(run, end, run->before[end + 1]);
    const size_t above = run->before[s->i] - first;
    const zoe_tensor x = s->x;
    s->kept =
        zoe_tensor_4d(run->kept, ZOE_F32, x.shape[0], above + x.shape[1], x.shape[2], x.shape[3]);
    s->kept_first = first;
    recall(s, VAE_SLOT_IN, s->kept, above);
    if (s->dry)
        s->run->kept_room = zoe_max(run->kept_room, zoe_tensor_count(s->kept));
    else
        copy(rows_of(s->kept, above, x.shape[1]), x);
    keep(s, VAE_SLOT_IN, s->kept, first, zoe_vae_first_row(run, end, run->ends[end + 1]),
         run->ends[end + 1] < run->heights[end + 1]);
}

static void end_level(const walk *s)
{
    const vae_layer *l = layer_of(s);
    if (s->dry || l->side_factor == 0)
        return;
    zoe_vae_add_kept(s->ctx, l, s->x, s->run->before[s->i], s->kept, s->kept_first,
                     zoe_vae_is_up(s->run, s->i), s->run->chunk == 0);
}

/* A layer that makes no row in this band, as those before it were ahead: what is left of x is its
 * form. */
static void skip_layer(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t T = s->x.shape[0], W = zoe_vae_height(l, s->x.shape[2]);
    const bool later = s->run->chunk > 0;
    const size_t frames = later && l->kind == VAE_UP3D     ? 2 * T
                          : later && l->kind == VAE_DOWN3D ? T / 2
                                                           : T;
    s->x = zoe_tensor_4d(s->x.data, ZOE_F32, frames, 0, W, l->out);
}

static zoe_status run_layer(walk *s)
{
    const vae_rows out = rows_out(s);
    if (out.first == out.end && layer_of(s)->kind != VAE_LEVEL) {
        skip_layer(s);
        return ZOE_OK;
    }
    switch (layer_of(s)->kind) {
    case VAE_CONV: return run_conv(s);
    case VAE_RESIDUAL: return run_residual(s);
    case VAE_ATTENTION: return run_attention(s);
    case VAE_DOWN2D:
    case VAE_DOWN3D: return run_down(s);
    case VAE_UP2D:
    case VAE_UP3D: return run_up(s);
    case VAE_HEAD: return run_head(s);
    case VAE_LEVEL: begin_level(s); return ZOE_OK;
    case VAE_LEVEL_END: end_level(s); return ZOE_OK;
    }
    return ZOE_OK;
}

static zoe_status run_layers(walk *s)
{
    for (s->i = s->run->part.from; s->i < s->run->part.to; s->i++) {
        TRY(zoe_check_cancel(s->ctx));
        TRY(run_layer(s));
        if (layer_of(s)->kind != VAE_HEAD && layer_of(s)->kind != VAE_LEVEL)
            see(s, layer_of(s)->name, s->x);
    }
    s->run->chunk++;
    return ZOE_OK;
}

zoe_status zoe_vae_run_chunk(zoe_context *ctx, vae_run *run, zoe_tensor *out, zoe_tensor in,
                             const char *prefix, const zoe_probe *probe)
{
    walk s = {.ctx = ctx, .run = run, .at = 2, .x = in, .prefix = prefix, .probe = probe};
    TRY(run_layers(&s));
    *out = s.x;
    return ZOE_OK;
}

zoe_status zoe_vae_walk(zoe_context *ctx, vae_run *run, zoe_tensor in)
{
    walk s = {.ctx = ctx, .run = run, .dry = true, .at = 2, .x = in};
    return run_layers(&s);
}
