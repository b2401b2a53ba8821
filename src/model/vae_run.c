/* Wan VAE: a chunk of frames through a line of layers, with the frames that causal convolutions
 * remember.
 *
 * The same walk serves planning: in a dry run nothing is computed, only sizes are noted.
 * Source: Wan2.1 wan/modules/vae.py; spec of the caches in docs/NUMERICS.md. */
#include "model/vae.h"

#include <stdio.h>

enum { SLOT_CONV1, SLOT_CONV2, SLOT_TIME };

/* What the layers of one chunk share. */
typedef struct walk {
    zoe_context *ctx;
    vae_run *run;
    bool dry;
    size_t i;          /* layer */
    size_t at;         /* buffer that holds x; 3: none does (the chunk's input) */
    zoe_tensor x;      /* [T, H, W, C] */
    zoe_tensor kept;   /* input of the level at work */
    size_t *past_room; /* dry: [count * VAE_SLOTS], elements of one frame */
    const char *prefix;
    const zoe_probe *probe;
} walk;

static const vae_layer *layer_of(const walk *s)
{
    return &s->run->net->layers[s->i];
}

/* A tensor in the n-th buffer (1 or 2) after the one that holds x. */
static zoe_tensor buffer(const walk *s, size_t n, size_t T, size_t H, size_t W, size_t C)
{
    const size_t which = (s->at + n) % 3;
    const zoe_tensor t = zoe_tensor_4d(s->run->buffers[which], ZOE_F32, T, H, W, C);
    if (s->dry)
        s->run->room = zoe_max(s->run->room, zoe_tensor_count(t));
    return t;
}

static void move_to(walk *s, size_t n, zoe_tensor y)
{
    s->at = (s->at + n) % 3;
    s->x = y;
}

static zoe_status conv(const walk *s, zoe_conv3d_args args)
{
    if (!args.stride_t)
        args.stride_t = 1;
    if (!args.stride_h)
        args.stride_h = args.stride_w = 1;
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

static zoe_tensor as_rows(zoe_tensor t)
{
    return zoe_tensor_2d(t.data, t.dtype, zoe_tensor_count(t) / t.shape[3], t.shape[3]);
}

static zoe_status norm(const walk *s, zoe_tensor y, zoe_tensor x, const float *gamma, bool silu)
{
    if (s->dry)
        return ZOE_OK;
    const zoe_tensor g = zoe_tensor_1d((void *)(uintptr_t)gamma, ZOE_F32, x.shape[3]);
    return zoe_l2_norm(s->ctx, as_rows(y), as_rows(x), g, silu);
}

/* The remembered frames of a convolution whose input is like x. */
static zoe_tensor past_of(const walk *s, size_t slot, zoe_tensor x)
{
    if (s->dry) {
        size_t *room = &s->past_room[s->i * VAE_SLOTS + slot];
        *room = zoe_max(*room, x.shape[1] * x.shape[2] * x.shape[3]);
        /* What matters for workspaces are shapes: two frames in the steady state. */
        return s->run->chunk ? zoe_tensor_4d(NULL, ZOE_F32, 2, x.shape[1], x.shape[2], x.shape[3])
                             : zoe_tensor_none();
    }
    const vae_past *past = &s->run->past[s->i][slot];
    if (past->count == 0)
        return zoe_tensor_none();
    return zoe_tensor_4d(past->frames, ZOE_F32, past->count, x.shape[1], x.shape[2], x.shape[3]);
}

/* Keeps the last `keep` frames of (remembered frames, x). */
static void remember(const walk *s, size_t slot, zoe_tensor x, size_t keep)
{
    if (s->dry)
        return;
    vae_past *past = &s->run->past[s->i][slot];
    const size_t frame = x.shape[1] * x.shape[2] * x.shape[3], T = x.shape[0];
    const size_t fresh = T < keep ? T : keep;
    const size_t old = past->count < keep - fresh ? past->count : keep - fresh;
    if (old)
        memmove(past->frames, past->frames + (past->count - old) * frame,
                old * frame * sizeof(float));
    memcpy(past->frames + old * frame, (const float *)x.data + (T - fresh) * frame,
           fresh * frame * sizeof(float));
    past->count = old + fresh;
}

/* y = 3x3x3 causal convolution of x (+ residual), then x is remembered. */
static zoe_status causal(const walk *s, zoe_tensor y, zoe_tensor x, const zoe_conv_weights *weights,
                         size_t slot, zoe_tensor residual)
{
    const zoe_tensor past = past_of(s, slot, x);
    const size_t seen = past.dtype == ZOE_NONE ? 0 : past.shape[0];
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = x,
                                  .past = past,
                                  .residual = residual,
                                  .weights = weights,
                                  .pad_front = 2 - seen,
                                  .pad_top = 1,
                                  .pad_bottom = 1,
                                  .pad_left = 1,
                                  .pad_right = 1}));
    remember(s, slot, x, 2);
    return ZOE_OK;
}

static zoe_status run_conv(walk *s)
{
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, x.shape[0], x.shape[1], x.shape[2], layer_of(s)->out);
    TRY(causal(s, y, x, layer_of(s)->conv1, SLOT_CONV1, zoe_tensor_none()));
    move_to(s, 1, y);
    return ZOE_OK;
}

static zoe_status run_residual(walk *s)
{
    const vae_layer *l = layer_of(s);
    const zoe_tensor x = s->x;
    const size_t T = x.shape[0], H = x.shape[1], W = x.shape[2];
    const zoe_tensor a = buffer(s, 1, T, H, W, l->in), h = buffer(s, 2, T, H, W, l->out);
    TRY(norm(s, a, x, l->norm1, true));
    TRY(causal(s, h, a, l->conv1, SLOT_CONV1, zoe_tensor_none()));
    TRY(norm(s, h, h, l->norm2, true));
    if (!l->shortcut)
        return causal(s, x, h, l->conv2, SLOT_CONV2, x);
    const zoe_tensor y = buffer(s, 1, T, H, W, l->out);
    TRY(conv(s, (zoe_conv3d_args){.y = y, .x = x, .weights = l->shortcut}));
    TRY(causal(s, y, h, l->conv2, SLOT_CONV2, y));
    move_to(s, 1, y);
    return ZOE_OK;
}

/* Frame t of [T, H, W, C] as [H W, C]. */
static zoe_tensor frame_rows(zoe_tensor x, size_t t)
{
    const size_t positions = x.shape[1] * x.shape[2], C = x.shape[3];
    float *data = x.data;
    return zoe_tensor_2d(data ? data + t * positions * C : NULL, ZOE_F32, positions, C);
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
    const zoe_tensor qkv = as_rows(buffer(s, 2, 1, H, W, 3 * C));
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

static zoe_status run_down(walk *s)
{
    const vae_layer *l = layer_of(s);
    const size_t T = s->x.shape[0], H = s->x.shape[1] / 2, W = s->x.shape[2] / 2, C = l->out;
    const zoe_tensor y = buffer(s, 1, T, H, W, C);
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = s->x,
                                  .weights = l->conv1,
                                  .pad_bottom = 1,
                                  .pad_right = 1,
                                  .stride_h = 2,
                                  .stride_w = 2}));
    move_to(s, 1, y);
    if (l->kind == VAE_DOWN2D)
        return ZOE_OK;
    zoe_tensor past = past_of(s, SLOT_TIME, y);
    if (s->run->chunk > 0) {
        past.shape[0] = 1;
        const zoe_tensor z = buffer(s, 1, T / 2, H, W, C);
        TRY(conv(
            s, (zoe_conv3d_args){.y = z, .x = y, .past = past, .weights = l->time, .stride_t = 2}));
        move_to(s, 1, z);
    }
    remember(s, SLOT_TIME, y, 1);
    return ZOE_OK;
}

/* Every other frame of y, from `first` on. */
static zoe_tensor alternate(zoe_tensor y, size_t first)
{
    float *data = y.data;
    if (data)
        y.data = data + (ptrdiff_t)first * y.stride[0];
    y.shape[0] /= 2;
    y.stride[0] *= 2;
    return y;
}

/* The first chunk is one frame that stays one; the sequence that time_conv sees begins with the
 * second chunk. */
static zoe_status double_frames(walk *s)
{
    const vae_layer *l = layer_of(s);
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, 2 * x.shape[0], x.shape[1], x.shape[2], l->in);
    zoe_tensor past = past_of(s, SLOT_TIME, x);
    if (s->run->chunk == 0)
        return ZOE_OK;
    const size_t seen = past.dtype == ZOE_NONE ? 0 : past.shape[0];
    const zoe_conv_weights *const weights[2] = {l->time, l->time_odd};
    for (size_t i = 0; i < 2; i++)
        TRY(conv(s, (zoe_conv3d_args){.y = alternate(y, i),
                                      .x = x,
                                      .past = past,
                                      .weights = weights[i],
                                      .pad_front = 2 - seen}));
    remember(s, SLOT_TIME, x, 2);
    move_to(s, 1, y);
    return ZOE_OK;
}

static zoe_status run_up(walk *s)
{
    const vae_layer *l = layer_of(s);
    if (l->kind == VAE_UP3D)
        TRY(double_frames(s));
    const zoe_tensor x = s->x;
    const zoe_tensor y = buffer(s, 1, x.shape[0], 2 * x.shape[1], 2 * x.shape[2], l->out);
    TRY(conv(s, (zoe_conv3d_args){.y = y,
                                  .x = x,
                                  .weights = l->conv1,
                                  .pad_top = 1,
                                  .pad_bottom = 1,
                                  .pad_left = 1,
                                  .pad_right = 1,
                                  .upsample = true}));
    move_to(s, 1, y);
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
    const zoe_tensor x = s->x;
    const size_t T = x.shape[0], H = x.shape[1], W = x.shape[2];
    const zoe_tensor a = buffer(s, 1, T, H, W, l->in), y = buffer(s, 2, T, H, W, l->out);
    if (s->probe) {
        TRY(norm(s, a, x, l->norm1, false));
        see(s, "head.0", a);
    }
    TRY(norm(s, a, x, l->norm1, true));
    see(s, "head.1", a);
    TRY(causal(s, y, a, l->conv1, SLOT_CONV1, zoe_tensor_none()));
    see(s, "head.2", y);
    move_to(s, 2, y);
    return ZOE_OK;
}

static void begin_level(walk *s)
{
    const size_t n = zoe_tensor_count(s->x);
    s->kept = s->x;
    s->kept.data = s->run->kept;
    if (s->dry)
        s->run->kept_room = zoe_max(s->run->kept_room, n);
    else
        memcpy(s->run->kept, s->x.data, n * sizeof(float));
}

/* y += kept, brought to y's form. */
typedef struct shortcut {
    zoe_tensor y, kept;
    size_t frames, side; /* factors */
    size_t skip;         /* averaging: zero frames before the first; repeating: frames left out */
} shortcut;

/* The kept channels c, frame offsets a, row offsets i and column offsets j of each position are one list,
 * in this order; its consecutive groups of `group` are averaged into one channel. */
static void add_average(void *arg, size_t row, size_t worker)
{
    const shortcut *a = arg;
    const size_t *in = a->kept.shape, *out = a->y.shape, C = in[3], side = a->side;
    const size_t t = row / out[1], y = row % out[1];
    const size_t group = C * a->frames * side * side / out[3];
    const float *kept = a->kept.data;
    float *to = (float *)a->y.data + row * out[2] * out[3];
    (void)worker;
    for (size_t x = 0; x < out[2]; x++)
        for (size_t o = 0; o < out[3]; o++) {
            float sum = 0.0f;
            for (size_t v = o * group; v < (o + 1) * group; v++) {
                const size_t frame = t * a->frames + v / (side * side) % a->frames;
                const size_t c = v / (a->frames * side * side);
                if (frame < a->skip)
                    continue;
                const size_t at = ((frame - a->skip) * in[1] + y * side + v / side % side) * in[2] +
                                  x * side + v % side;
                sum += kept[at * C + c];
            }
            to[x * out[3] + o] += sum / (float)group;
        }
}

/* The mirror image: each kept channel is repeated over a group of (channel, frame, row, column)
 * offsets. */
static void add_repeated(void *arg, size_t row, size_t worker)
{
    const shortcut *a = arg;
    const size_t *in = a->kept.shape, *out = a->y.shape, side = a->side;
    const size_t t = row / out[1] + a->skip, y = row % out[1];
    const size_t group = out[3] * a->frames * side * side / in[3];
    const float *kept =
        (const float *)a->kept.data + (t / a->frames * in[1] + y / side) * in[2] * in[3];
    float *to = (float *)a->y.data + row * out[2] * out[3];
    (void)worker;
    for (size_t x = 0; x < out[2]; x++)
        for (size_t o = 0; o < out[3]; o++) {
            const size_t v = ((o * a->frames + t % a->frames) * side + y % side) * side + x % side;
            to[x * out[3] + o] += kept[x / side * in[3] + v / group];
        }
}

/* Source: Wan2.2 wan/modules/vae2_2.py, classes AvgDown3D and DupUp3D. */
static void end_level(const walk *s)
{
    const vae_layer *l = layer_of(s);
    if (s->dry || l->side_factor == 0)
        return;
    const bool down = s->x.shape[1] < s->kept.shape[1] || l->side_factor == 1;
    shortcut a = {.y = s->x, .kept = s->kept, .frames = l->frame_factor, .side = l->side_factor};
    if (down)
        a.skip = (a.frames - s->kept.shape[0] % a.frames) % a.frames;
    else
        a.skip = s->run->chunk == 0 ? a.frames - 1 : 0;
    zoe_parallel_for(s->ctx, s->x.shape[0] * s->x.shape[1], down ? add_average : add_repeated, &a);
}

static zoe_status run_layer(walk *s)
{
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
    for (s->i = 0; s->i < s->run->net->count; s->i++) {
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

/* Sizes of a run: two dry chunks, the first (one frame) and one in the steady state. */
static zoe_status measure(zoe_context *ctx, vae_run *run, size_t T, size_t *past_room)
{
    run->chunk = 0;
    const size_t frames[2] = {1, T};
    for (size_t i = 0; i < 2; i++) {
        const zoe_tensor in =
            zoe_tensor_4d(NULL, ZOE_F32, frames[i], run->H, run->W, run->net->layers[0].in);
        walk s = {.ctx = ctx, .run = run, .dry = true, .at = 2, .x = in, .past_room = past_room};
        TRY(run_layers(&s));
    }
    run->chunk = 0;
    return ZOE_OK;
}

static void lay_out(vae_run *run, const size_t *past_room)
{
    zoe_arena *l = &run->arena;
    for (size_t i = 0; i < 3; i++)
        run->buffers[i] = zoe_arena_take(l, run->room, sizeof(float));
    run->kept = zoe_arena_take(l, run->kept_room, sizeof(float));
    for (size_t i = 0; i < run->net->count; i++)
        for (size_t slot = 0; slot < VAE_SLOTS; slot++) {
            float *frames = zoe_arena_take(l, 2 * past_room[i * VAE_SLOTS + slot], sizeof(float));
            if (run->past)
                run->past[i][slot].frames = frames;
        }
    run->work.data = zoe_arena_take(l, run->work.bytes, 1);
}

/* Measures the run; *past_room is new memory. */
static zoe_status plan(zoe_context *ctx, vae_run *run, size_t **past_room, size_t T)
{
    void *p;
    *past_room = NULL;
    TRY(zoe_alloc_zero(ctx, &p, run->net->count * VAE_SLOTS, sizeof **past_room, "VAE"));
    *past_room = p;
    return measure(ctx, run, T, p);
}

size_t zoe_vae_run_bytes(const zoe_context *ctx, const vae_net *net, size_t T, size_t H, size_t W)
{
    zoe_context *writable = (zoe_context *)(uintptr_t)ctx;
    vae_run run = {.net = net, .H = H, .W = W};
    size_t *past_room;
    if (plan(writable, &run, &past_room, T) == ZOE_OK)
        lay_out(&run, past_room);
    else
        run.arena.used = SIZE_MAX;
    zoe_free(past_room);
    return run.arena.used;
}

zoe_status zoe_vae_run_new(zoe_context *ctx, vae_run *run, const vae_net *net, size_t T, size_t H,
                           size_t W)
{
    size_t *past_room;
    void *p;
    zoe_status status;
    *run = (vae_run){.net = net, .H = H, .W = W};
    TRY_GOTO(plan(ctx, run, &past_room, T));
    TRY_GOTO(zoe_alloc_zero(ctx, &p, net->count, sizeof *run->past, "VAE"));
    run->past = p;
    TRY_GOTO(zoe_arena_new(ctx, &run->arena, zoe_vae_run_bytes(ctx, net, T, H, W), "VAE buffers"));
    lay_out(run, past_room);
    status = zoe_arena_status(ctx, &run->arena, "VAE buffers");
done:
    zoe_free(past_room);
    if (status != ZOE_OK)
        zoe_vae_run_free(run);
    return status;
}

void zoe_vae_run_free(vae_run *run)
{
    zoe_arena_free(&run->arena);
    zoe_free(run->past);
    *run = (vae_run){0};
}
