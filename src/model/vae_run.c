/* Wan VAE: a chunk of a band of frames through a line of layers, with the frames and rows that
 * convolutions remember.
 *
 * The same walk serves planning: in a dry run nothing is computed, only sizes are noted. With a
 * single band, which has every row, nothing is kept between bands and no row is copied. A patch of
 * frames that ranks share is one band; what a 3 x 3 kernel sees beyond it comes from other ranks
 * into a margin, which is remembered in time with the rest.
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

/* Rows of the layer's input, of all bands; columns of its output; the rows of output in this band. */
static size_t height_in(const walk *s)
{
    return s->run->heights[s->i];
}

static size_t width_out(const walk *s)
{
    return s->run->widths[s->i + 1];
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

static vae_margin margin_of(const walk *s, bool after)
{
    return zoe_vae_patch_margin(&s->run->part.patch, after);
}

/* The same with a margin around its rows x W pixels. */
static zoe_tensor buffer_around(const walk *s, size_t n, vae_margin m, size_t T, size_t rows,
                                size_t W, size_t C)
{
    return buffer(s, n, T, m.up + rows + m.down, m.left + W + m.right, C);
}

/* Frame t of [T, rows, W, C] as [rows W, C]. */
static zoe_tensor frame_rows(zoe_tensor x, size_t t)
{
    const zoe_tensor frame = frames_of(x, t, 1, 1);
    return zoe_tensor_2d(frame.data, ZOE_F32, x.shape[1] * x.shape[2], x.shape[3]);
}

static void copy(const walk *s, zoe_tensor y, zoe_tensor x)
{
    if (!s->dry)
        zoe_vae_copy(s->ctx, y, x);
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
        copy(s, rows_of(t, 0, rows), kept_rows(slot_of(s, slot), t, rows));
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
        copy(s, kept_rows(slot, t, count), rows_of(t, from - first, count));
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
    copy(s, rows_of(whole, above, x.shape[1]), x);
    move_to(s, 1, whole);
}

/* ---- pixels that other ranks have ---- */

static zoe_status fill_margin(const walk *s, zoe_tensor t, bool after)
{
    return zoe_vae_patch_edges(s->ctx, &s->run->part.patch, &s->run->post, t, after);
}

/* Gives x its margin, in another buffer, if it is to have one. */
static zoe_status widen(walk *s, bool after)
{
    const vae_margin m = margin_of(s, after);
    const zoe_tensor x = s->x;
    if (m.up + m.down + m.left + m.right > 0) {
        const zoe_tensor wide =
            buffer_around(s, 1, m, x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
        copy(s, zoe_vae_inside(wide, m), x);
        move_to(s, 1, wide);
    }
    return fill_margin(s, s->x, after);
}

/* Leaves the margin of x out. Pixels of rows that had one come to lie end to end again, in another
 * buffer. */
static void narrow(walk *s, vae_margin m)
{
    const zoe_tensor x = zoe_vae_inside(s->x, m);
    s->x = x;
    if (m.left + m.right == 0)
        return;
    const zoe_tensor dense = buffer(s, 1, x.shape[0], x.shape[1], x.shape[2], x.shape[3]);
    copy(s, dense, x);
    move_to(s, 1, dense);
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
        s,
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
    const size_t scale = s->run->scales[s->i + 1];
    zoe_conv3d_args whole = args; /* bands and patches are computed as the whole would be */
    whole.y.shape[1] = scale * s->run->part.patch.h;
    whole.y.shape[2] = scale * s->run->part.patch.w;
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
    return zoe_l2_norm(s->ctx, &(zoe_l2_norm_args){.y = y, .x = x, .gamma = g, .silu = silu});
}

/* y, rows `rows` of `height`, = 3x3x3 causal convolution of x (+ residual), where x has just the
 * pixels under these; then x is remembered. */
static zoe_status causal(const walk *s, zoe_tensor y, vae_rows rows, size_t height, zoe_tensor x,
                         const zoe_conv_weights *weights, size_t slot, zoe_tensor residual)
{
    const zoe_tensor past = past_of(s, slot, x);
    const size_t seen = past.dtype == ZOE_NONE ? 0 : past.shape[0];
    const vae_margin m = margin_of(s, false);
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = x,
                                  .past = past,
                                  .residual = residual,
                                  .weights = weights,
                                  .pad_front = 2 - seen,
                                  .pad_top = rows.first == 0 && !m.up,
                                  .pad_bottom = rows.end == height && !m.down,
                                  .pad_left = !m.left,
                                  .pad_right = !m.right}));
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

/* The same of a tensor with a margin: rows are kept for bands, or there is a margin, not both. */
static zoe_tensor cut_around(zoe_tensor t, size_t t_first, vae_rows rows, vae_margin m)
{
    return rows_of(t, rows.first - t_first, m.up + rows.end - rows.first + m.down);
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
    TRY(widen(s, false));
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, x.shape[0], out.end - out.first, width_out(s), l->out);
    TRY(causal(s, y, out, height, cut_around(x, in.first, in, margin_of(s, false)), l->conv1,
               VAE_SLOT_CONV1, zoe_tensor_none()));
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
    const vae_margin m = margin_of(s, false);
    const zoe_tensor a = buffer_around(s, 1, m, T, in.end - in.first, W, l->in);
    const zoe_tensor h = buffer_around(s, 2, m, T, middle.end - seen.first, W, l->out);
    const zoe_tensor fresh = cut(zoe_vae_inside(h, m), seen.first, middle);
    const zoe_tensor kept = cut(x, out.first, out);
    recall(s, VAE_SLOT_CONV2, h, middle.first - seen.first);
    if (fresh.shape[1]) {
        TRY(norm(s, zoe_vae_inside(a, m), cut(x, out.first, in), l->norm1, true));
        TRY(fill_margin(s, a, false));
        TRY(causal(s, fresh, middle, height, a, l->conv1, VAE_SLOT_CONV1, zoe_tensor_none()));
        TRY(norm(s, fresh, fresh, l->norm2, true));
        TRY(fill_margin(s, h, false));
    }
    keep(s, VAE_SLOT_IN, x, out.first, first_row(s, out.end), more_rows(s));
    zoe_tensor y = kept;
    if (l->shortcut) {
        y = buffer(s, 1, T, out.end - out.first, W, l->out);
        TRY(conv(s, (zoe_conv3d_args){.y = y, .x = kept, .weights = l->shortcut}));
    }
    TRY(causal(s, y, out, height, cut_around(h, seen.first, seen, m), l->conv2, VAE_SLOT_CONV2, y));
    keep(s, VAE_SLOT_CONV2, h, seen.first, out.end - 1, more_rows(s));
    move_to(s, l->shortcut ? 1 : 0, y);
    return ZOE_OK;
}

/* Channels first .. first + count - 1. */
static zoe_tensor channels_of(zoe_tensor t, size_t first, size_t count)
{
    float *data = t.data;
    t.data = data ? data + first : NULL;
    t.shape[3] = count;
    return t;
}

/* The same of a dense frame as one head, [P, 1, count]. */
static zoe_tensor head_of(zoe_tensor frame, size_t first, size_t count)
{
    const zoe_tensor part = channels_of(frame, first, count);
    zoe_tensor t = zoe_tensor_3d(part.data, ZOE_F32, frame.shape[1] * frame.shape[2], 1, count);
    t.stride[0] = (ptrdiff_t)frame.shape[3];
    return t;
}

/* Fills kv [1, H, W, 2 C] with the keys and values of whole frames, in the order that one rank has
 * them in, from those of all patches, this one's being `mine`. */
static zoe_status gather_keys(const walk *s, zoe_tensor kv, zoe_tensor mine)
{
    const vae_patch *p = &s->run->part.patch;
    vae_post *post = &s->run->post;
    vae_gather g = {.to = VAE_TO_PATCHES,
                    .T = 1,
                    .C = mine.shape[3],
                    .scale = s->run->scales[s->i],
                    .data = post->data};
    if (s->dry) {
        post->room = zoe_max(post->room, zoe_vae_gather_room(p, &g));
        zoe_vae_gather_count(p, &g, post->planned, &post->traffic);
        zoe_vae_gather_count(p, &g, post->planned, &post->keys);
        return ZOE_OK;
    }
    TRY(zoe_vae_gather_start(s->ctx, p, &g, mine, "keys of the VAE"));
    TRY(zoe_vae_gather_wait(s->ctx, p, &g));
    zoe_vae_gather_place(s->ctx, p, &g, kv);
    return ZOE_OK;
}

static zoe_status run_attention(const walk *s)
{
    const vae_layer *l = layer_of(s);
    const vae_patch *p = &s->run->part.patch;
    const zoe_tensor x = s->x;
    const size_t H = x.shape[1], W = x.shape[2], C = l->in, scale = s->run->scales[s->i];
    const bool shared = zoe_vae_patch_shared(p);
    const size_t positions = shared ? scale * p->h * scale * p->w : 0;
    const zoe_tensor a4 = buffer(s, 1, 1, 1, H * W + 2 * positions, C);
    const zoe_tensor a = zoe_tensor_2d(a4.data, ZOE_F32, H * W, C);
    const zoe_tensor qkv = buffer(s, 2, 1, H, W, 3 * C);
    const zoe_tensor kv = zoe_tensor_4d(a4.data ? (float *)a4.data + H * W * C : NULL, ZOE_F32, 1,
                                        scale * p->h, scale * p->w, 2 * C);
    const zoe_attention_args attention = {.o = zoe_tensor_3d(a.data, ZOE_F32, H * W, 1, C),
                                          .q = head_of(qkv, 0, C),
                                          .k = shared ? head_of(kv, 0, C) : head_of(qkv, C, C),
                                          .v = shared ? head_of(kv, C, C) : head_of(qkv, 2 * C, C),
                                          .scale = 1.0f / sqrtf((float)C),
                                          .last_count = 1};
    if (s->dry)
        s->run->work.bytes =
            zoe_max(s->run->work.bytes, zoe_attention_workspace(s->ctx, &attention));
    for (size_t t = 0; t < x.shape[0]; t++) {
        const zoe_tensor frame4 = frames_of(x, t, 1, 1), frame = frame_rows(x, t);
        TRY(norm(s, zoe_tensor_4d(a.data, ZOE_F32, 1, H, W, C), frame4, l->norm1, false));
        TRY(linear(s, &(zoe_linear_args){.y = frame_rows(qkv, 0),
                                         .x = a,
                                         .w = l->qkv,
                                         .bias = zoe_tensor_1d(l->qkv_bias, ZOE_F32, 3 * C)}));
        if (shared)
            TRY(gather_keys(s, kv, channels_of(qkv, C, 2 * C)));
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
    const vae_margin m = margin_of(s, true);
    gather(s, in.first);
    TRY(widen(s, true));
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, x.shape[0], out.end - out.first, width_out(s), l->out);
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = cut_around(x, in.first, in, m),
                                  .weights = l->conv1,
                                  .pad_bottom = 2 * out.end + 1 > height && !m.down,
                                  .pad_right = !m.right,
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
 * convolution makes a row too many on either side, where the frame goes on there; columns alike. */
static zoe_status run_up(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t height = height_in(s);
    if (l->kind == VAE_UP3D)
        TRY(double_frames(s));
    const vae_rows out = rows_out(s), made = under(out, 2 * height);
    const vae_rows in = {first_row(s, out.first),
                         out.end / 2 + 1 < height ? out.end / 2 + 1 : height};
    const vae_margin m = margin_of(s, false);
    gather(s, in.first);
    TRY(widen(s, false));
    const zoe_tensor x = s->x;
    const zoe_tensor y =
        buffer_around(s, 1, m, x.shape[0], made.end - made.first, width_out(s), l->out);
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = cut_around(x, in.first, in, m),
                                  .weights = l->conv1,
                                  .pad_top = out.first == 0 && !m.up,
                                  .pad_bottom = out.end == 2 * height && !m.down,
                                  .pad_left = !m.left,
                                  .pad_right = !m.right,
                                  .upsample = true}));
    keep(s, VAE_SLOT_IN, x, in.first, first_row(s, out.end), more_rows(s));
    move_to(s, 1, cut_around(y, made.first, out, m));
    narrow(s, m);
    return ZOE_OK;
}

/* Whole frames of what this rank has a patch of, `scale` times as large as the latent's, to the probe
 * of the first rank. */
static zoe_status see_shared(const walk *s, const char *name, zoe_tensor value, size_t scale)
{
    const vae_patch *p = &s->run->part.patch;
    vae_gather g = {.to = VAE_TO_FIRST, .T = value.shape[0], .C = value.shape[3], .scale = scale};
    const zoe_tensor whole = zoe_tensor_4d(NULL, ZOE_F32, g.T, scale * p->h, scale * p->w, g.C);
    const size_t count = zoe_tensor_count(whole);
    zoe_tensor seen = whole;
    void *room;
    zoe_status status;
    TRY(zoe_alloc(s->ctx, &room, 2 * count, sizeof(float), "what a probe sees"));
    g.data = room;
    seen.data = g.data + count;
    TRY_GOTO(zoe_vae_gather_start(s->ctx, p, &g, value, "what a probe sees"));
    TRY_GOTO(zoe_vae_gather_wait(s->ctx, p, &g));
    if (p->rank == 0) {
        zoe_vae_gather_place(s->ctx, p, &g, seen);
        s->probe->see(s->probe->user, name, seen);
    }
done:
    zoe_free(room);
    return status;
}

/* What lies before layer i, or has its form. */
static zoe_status see(const walk *s, const char *name, zoe_tensor value, size_t i)
{
    if (!s->probe || s->dry)
        return ZOE_OK;
    char full[96];
    snprintf(full, sizeof full, "%s.chunk%zu.%s", s->prefix, s->run->chunk, name);
    if (zoe_vae_patch_shared(&s->run->part.patch))
        return see_shared(s, full, value, s->run->scales[i]);
    s->probe->see(s->probe->user, full, value);
    return ZOE_OK;
}

static zoe_status run_head(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t height = height_in(s);
    const vae_rows out = rows_out(s), in = under(out, height);
    gather(s, in.first);
    const zoe_tensor x = s->x, under_y = cut(x, in.first, in);
    const size_t T = x.shape[0], W = x.shape[2];
    const vae_margin m = margin_of(s, false);
    const zoe_tensor wide = buffer_around(s, 1, m, T, in.end - in.first, W, l->in);
    const zoe_tensor a = zoe_vae_inside(wide, m);
    const zoe_tensor y = buffer(s, 2, T, out.end - out.first, W, l->out);
    if (s->probe) {
        TRY(norm(s, a, under_y, l->norm1, false));
        TRY(see(s, "head.0", a, s->i));
    }
    TRY(norm(s, a, under_y, l->norm1, true));
    TRY(see(s, "head.1", a, s->i));
    TRY(fill_margin(s, wide, false));
    TRY(causal(s, y, out, height, wide, l->conv1, VAE_SLOT_CONV1, zoe_tensor_none()));
    TRY(see(s, "head.2", y, s->i));
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
        copy(s, rows_of(s->kept, above, x.shape[1]), x);
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
            TRY(see(s, layer_of(s)->name, s->x, s->i + 1));
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
    run->post.planned = run->chunk ? run->part.chunks - 1 : 1;
    return run_layers(&s);
}
