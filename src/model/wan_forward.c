/* Wan DiT: from latent and timestep to velocity. Patches in, blocks, head, patches out.
 * Source: Wan2.2 wan/modules/model.py, class WanModel. */
#include "model/wan.h"

enum {
    CHUNK = 1024
}; /* tokens of one pass of a row-wise part at most: enough to make packing the weights cheap */

/* Of so many tokens. */
static size_t head_bytes(const zoe_wan_dims *dims, size_t tokens)
{
    return tokens * 4 * dims->out_dim * sizeof(float);
}

static zoe_linear_args shape_of(zoe_tensor y, zoe_tensor x, size_t out, size_t in, zoe_dtype weight)
{
    return (zoe_linear_args){.y = y, .x = x, .w = zoe_tensor_2d(NULL, weight, out, in)};
}

/* The most keys of cross-attention: those of the text, or of two pictures, of which a CLIP tower makes
 * 257 tokens each unless position embeddings tell another number. */
static size_t most_keys(const zoe_wan_dims *d)
{
    enum { TWO_PICTURES = 514 };
    const size_t image = d->image_dim > 0 ? zoe_max(d->image_positions, TWO_PICTURES) : 0;
    return zoe_max(d->text_len, image);
}

/* The widest workspace of any operator, for weights of any type. */
static size_t operator_bytes(const zoe_context *ctx, const zoe_wan_work *w, const zoe_place *place)
{
    const zoe_wan_dims *d = &w->dims;
    const zoe_tensor row = zoe_tensor_2d(NULL, ZOE_F32, 1, d->dim);
    const zoe_tensor keys = zoe_tensor_2d(NULL, wan_type(w->bf16), most_keys(d), d->dim);
    const zoe_sequence_attention_args self = wan_self_attention(w);
    const zoe_attention_args cross = {.o = wan_heads(w->a, d->heads),
                                      .q = wan_heads(w->b, d->heads),
                                      .k = wan_heads(keys, d->heads),
                                      .v = wan_heads(keys, d->heads),
                                      .last_count = 2};
    size_t bytes = zoe_max(zoe_sequence_attention_workspace(ctx, place, &self),
                           zoe_attention_workspace(ctx, &cross));
    const zoe_dtype types[] = {ZOE_F32, ZOE_BF16, ZOE_F8_E4M3};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const zoe_linear_args linears[] = {
            wan_low_args(w->low, w->a),
            shape_of(w->x, w->o, d->dim, d->dim, types[i]),
            shape_of(w->b, w->a, d->dim, d->dim, types[i]),
            shape_of(w->hidden, w->a, d->ffn_dim, d->dim, types[i]),
            shape_of(w->b, w->hidden, d->dim, d->ffn_dim, types[i]),
            shape_of(wan_rows(w->x, 0, w->patches.shape[0]), w->patches, d->dim, 4 * d->in_dim,
                     types[i]),
            shape_of(w->head, w->headin, 4 * d->out_dim, d->dim, types[i]),
            shape_of(row, zoe_tensor_2d(NULL, ZOE_F32, 1, d->freq_dim), d->dim, d->freq_dim,
                     types[i]),
            shape_of(zoe_tensor_2d(NULL, ZOE_F32, 1, 6 * d->dim), row, 6 * d->dim, d->dim,
                     types[i]),
        };
        for (size_t j = 0; j < sizeof linears / sizeof *linears; j++)
            bytes = zoe_max(bytes, zoe_linear_workspace(ctx, &linears[j]));
        const zoe_linear_args square = linears[2], inputs[] = {square, square, square};
        bytes = zoe_max(bytes, zoe_linear_parts_workspace(ctx, inputs, 3));
    }
    return d->int8 ? zoe_max(bytes, zoe_wan_int8_work_bytes(ctx, d, w->bf16, w->L)) : bytes;
}

static void lay_out(const zoe_context *ctx, zoe_wan_work *w, const zoe_place *place)
{
    const zoe_wan_dims *d = &w->dims;
    const size_t ranks = place->ulysses * place->ring;
    const zoe_dtype type = wan_type(w->bf16);
    zoe_arena *l = &w->arena;
    w->cos = zoe_arena_2d(l, ZOE_F32, w->L, d->dim / d->heads / 2);
    w->sin = zoe_arena_2d(l, ZOE_F32, w->L, d->dim / d->heads / 2);
    w->x = zoe_arena_2d(l, ZOE_F32, w->L, d->dim);
    w->q = zoe_arena_2d(l, type, w->L, d->dim);
    w->k = zoe_arena_2d(l, type, w->L, d->dim);
    w->v = zoe_arena_2d(l, type, w->L, d->dim);
    w->o = zoe_arena_2d(l, type, w->L, d->dim);
    w->a = zoe_arena_2d(l, type, w->chunk, d->dim);
    w->b = zoe_arena_2d(l, type, w->chunk, d->dim);
    if (d->image_dim > 0)
        w->c = zoe_arena_2d(l, type, w->chunk, d->dim);
    w->hidden = zoe_arena_2d(l, type, w->chunk, d->ffn_dim);
    w->patches = zoe_arena_2d(l, type, w->chunk, 4 * d->in_dim);
    w->headin = zoe_arena_2d(l, ZOE_F32, w->chunk, d->dim);
    w->head = zoe_arena_2d(l, ZOE_F32, ranks > 1 ? w->tokens : w->chunk, 4 * d->out_dim);
    if (ranks > 1)
        w->head_bytes = zoe_arena_take(l, ranks, sizeof *w->head_bytes);
    w->low = zoe_arena_2d(l, ZOE_F32, w->chunk, d->adapter_rank);
    w->sinusoid = zoe_arena_take(l, WAN_TIMES * d->freq_dim, sizeof(float));
    w->e = zoe_arena_take(l, WAN_TIMES * d->dim, sizeof(float));
    w->e_silu = zoe_arena_take(l, WAN_TIMES * d->dim, sizeof(float));
    w->e0 = zoe_arena_take(l, WAN_TIMES * 6 * d->dim, sizeof(float));
    w->modulation = zoe_arena_take(l, WAN_TIMES * 6 * d->dim, sizeof(float));
    w->work.bytes = operator_bytes(ctx, w, place);
    w->work.data = zoe_arena_take(l, w->work.bytes, 1);
}

static zoe_wan_work dry_work(const zoe_wan_dims *dims, bool bf16, size_t f, size_t h, size_t w,
                             const zoe_place *place)
{
    const size_t tokens = f * (h / 2) * (w / 2);
    const zoe_span own = zoe_place_tokens(place, tokens);
    const size_t passes = (own.count + CHUNK - 1) / CHUNK;
    return (zoe_wan_work){.dims = *dims,
                          .bf16 = bf16,
                          .f = f,
                          .h = h,
                          .w = w,
                          .rows = h / 2,
                          .columns = w / 2,
                          .tokens = tokens,
                          .first = own.first,
                          .L = own.count,
                          .chunk = passes > 0 ? (own.count + passes - 1) / passes : 0};
}

size_t zoe_wan_work_bytes(const zoe_context *ctx, const zoe_wan_dims *dims, bool bf16, size_t f,
                          size_t h, size_t w)
{
    const zoe_place alone = zoe_place_of(NULL);
    return zoe_wan_work_bytes_on(ctx, dims, bf16, f, h, w, &alone);
}

size_t zoe_wan_work_bytes_on(const zoe_context *ctx, const zoe_wan_dims *dims, bool bf16, size_t f,
                             size_t h, size_t w, const zoe_place *place)
{
    zoe_wan_work dry = dry_work(dims, bf16, f, h, w, place);
    lay_out(ctx, &dry, place);
    return dry.arena.used;
}

zoe_status zoe_wan_work_new(zoe_context *ctx, zoe_wan_work **work, const zoe_wan_dims *dims,
                            bool bf16, size_t f, size_t h, size_t w)
{
    return zoe_wan_work_new_on(ctx, work, dims, bf16, f, h, w, NULL);
}

zoe_status zoe_wan_work_new_on(zoe_context *ctx, zoe_wan_work **work, const zoe_wan_dims *dims,
                               bool bf16, size_t f, size_t h, size_t w,
                               const zoe_sequence *sequence)
{
    const zoe_place place = zoe_place_of(sequence);
    void *p;
    *work = NULL;
    if (f == 0 || h == 0 || w == 0 || h % 2 || w % 2)
        return zoe_fail(ctx, ZOE_INVALID,
                        "latent of %zu frames, %zu x %zu: height and width must be even", f, h, w);
    TRY(zoe_alloc(ctx, &p, 1, sizeof **work, "transformer"));
    zoe_wan_work *r = p;
    *r = dry_work(dims, bf16, f, h, w, &place);
    r->sequence = sequence;
    zoe_status status;
    TRY_GOTO(zoe_arena_new(ctx, &r->arena, zoe_wan_work_bytes_on(ctx, dims, bf16, f, h, w, &place),
                           "transformer activations"));
    lay_out(ctx, r, &place);
    TRY_GOTO(zoe_arena_status(ctx, &r->arena, "transformer activations"));
    for (size_t i = 0; r->head_bytes && i < place.ulysses * place.ring; i++)
        r->head_bytes[i] =
            head_bytes(dims, zoe_share(r->tokens, place.ulysses * place.ring, i).count);
    TRY_GOTO(zoe_rotary_table(ctx, &(zoe_rotary_table_args){.cos = r->cos,
                                                            .sin = r->sin,
                                                            .frames = r->f,
                                                            .rows = r->rows,
                                                            .columns = r->columns,
                                                            .first = r->first,
                                                            .base = 10000.0}));
    *work = r;
done:
    if (status != ZOE_OK)
        zoe_wan_work_free(r);
    return status;
}

zoe_span zoe_wan_work_tokens(const zoe_wan_work *work)
{
    return (zoe_span){work->first, work->L};
}

uint64_t zoe_wan_sent(const zoe_wan_dims *dims, bool bf16, size_t f, size_t h, size_t w,
                      const zoe_place *place)
{
    const zoe_wan_work dry = dry_work(dims, bf16, f, h, w, place);
    const uint64_t others = (uint64_t)place->ulysses * place->ring - 1;
    return dims->layers * zoe_sequence_attention_sent(place, dry.tokens, dims->heads,
                                                      dims->dim / dims->heads,
                                                      zoe_dtype_bytes(wan_type(bf16))) +
           others * head_bytes(dims, dry.L);
}

void zoe_wan_work_route(zoe_wan_work *work, zoe_wan_route route, void *user)
{
    work->route = route;
    work->route_user = user;
}

void zoe_wan_work_free(zoe_wan_work *work)
{
    if (!work)
        return;
    zoe_arena_free(&work->arena);
    zoe_free(work->second);
    zoe_free(work);
}

/* y = activation(W x + b) of one row, in f32 whatever the rest is computed in. */
static zoe_status row_linear(zoe_context *ctx, const zoe_wan *m, const zoe_wan_work *w, float *y,
                             float *x, const wan_linear *l, zoe_activation activation)
{
    const zoe_linear_args args = {.y = zoe_tensor_2d(y, ZOE_F32, 1, l->w.shape[0]),
                                  .x = zoe_tensor_2d(x, ZOE_F32, 1, l->w.shape[1]),
                                  .activation = activation,
                                  .round_weights = m->bf16};
    return zoe_wan_linear_run(ctx, l, args, w->low, w->work);
}

/* Embedding and modulations of one timestep, row `time` of the buffers. */
static zoe_status embed_time(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w, size_t time,
                             double t)
{
    const size_t D = m->dims.dim, half = m->dims.freq_dim / 2;
    float *sinusoid = w->sinusoid + time * 2 * half, *e = w->e + time * D;
    float *e_silu = w->e_silu + time * D;
    for (size_t k = 0; k < half; k++) {
        const double angle = t * pow(10000.0, -(double)k / (double)half);
        sinusoid[k] = (float)cos(angle);
        sinusoid[half + k] = (float)sin(angle);
    }
    TRY(row_linear(ctx, m, w, e_silu, sinusoid, &m->time0, ZOE_ACT_SILU));
    TRY(row_linear(ctx, m, w, e, e_silu, &m->time2, ZOE_ACT_NONE));
    TRY(zoe_activate(ctx, zoe_tensor_1d(e_silu, ZOE_F32, D), zoe_tensor_1d(e, ZOE_F32, D),
                     ZOE_ACT_SILU));
    return row_linear(ctx, m, w, w->e0 + time * 6 * D, e_silu, &m->time_projection, ZOE_ACT_NONE);
}

static zoe_status embed_times(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w, double t,
                              const zoe_probe *probe)
{
    const size_t D = m->dims.dim, F = m->dims.freq_dim;
    const size_t first = w->still ? WAN_STILL : WAN_MOVING, rows = WAN_TIMES - first;
    if (w->still)
        TRY(embed_time(ctx, m, w, WAN_STILL, 0.0));
    TRY(embed_time(ctx, m, w, WAN_MOVING, t));
    zoe_probe_see(probe, "time_sinusoid", zoe_tensor_2d(w->sinusoid + first * F, ZOE_F32, rows, F));
    zoe_probe_see(probe, "e", zoe_tensor_2d(w->e + first * D, ZOE_F32, rows, D));
    zoe_probe_see(probe, "e0", zoe_tensor_3d(w->e0 + first * 6 * D, ZOE_F32, rows, 6, D));
    return ZOE_OK;
}

typedef struct patch_task {
    zoe_wan_work *w;
    const float *latent, *condition;
    size_t first; /* token of row 0 of w->patches, of those of this rank */
} patch_task;

/* One token's 2x2 patch of every channel: channel slowest, then row, then column; latent channels
 * before condition. */
static void gather_patch(void *arg, size_t row, size_t worker)
{
    const patch_task *p = arg;
    const zoe_wan_work *w = p->w;
    const size_t token = w->first + p->first + row, I = w->dims.in_dim, plane = w->h * w->w;
    const size_t latent_channels = p->condition ? w->dims.out_dim : I;
    const size_t frame = token / (w->rows * w->columns);
    const size_t top = token / w->columns % w->rows * 2, left = token % w->columns * 2;
    (void)worker;
    for (size_t c = 0; c < I; c++) {
        const float *source = c < latent_channels
                                  ? p->latent + c * w->f * plane
                                  : p->condition + (c - latent_channels) * w->f * plane;
        source += frame * plane + top * w->w + left;
        const float values[4] = {source[0], source[1], source[w->w], source[w->w + 1]};
        for (size_t j = 0; j < 4; j++)
            zoe_store_f32(w->patches.data, w->patches.dtype, (row * I + c) * 4 + j, values[j]);
    }
}

static zoe_status embed_patches(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w,
                                const float *latent, const float *condition)
{
    for (size_t first = 0; first < w->L; first += w->chunk) {
        const size_t count = w->L - first < w->chunk ? w->L - first : w->chunk;
        patch_task task = {.w = w, .latent = latent, .condition = condition, .first = first};
        zoe_parallel_for(ctx, count, gather_patch, &task);
        const zoe_linear_args args = {.y = wan_rows(w->x, first, count),
                                      .x = wan_rows(w->patches, 0, count)};
        TRY(zoe_wan_linear_run(ctx, &m->patch, args, w->low, w->work));
    }
    return ZOE_OK;
}

/* Puts a head row back: feature (row, column, channel), channel fastest. The token is one of all. */
static void scatter_patch(float *velocity, const zoe_wan_work *w, size_t token, const float *head)
{
    const size_t O = w->dims.out_dim, plane = w->h * w->w;
    const size_t frame = token / (w->rows * w->columns);
    const size_t top = token / w->columns % w->rows * 2, left = token % w->columns * 2;
    float *origin = velocity + frame * plane + top * w->w + left;
    for (size_t j = 0; j < 4; j++)
        for (size_t c = 0; c < O; c++)
            origin[c * w->f * plane + j / 2 * w->w + j % 2] = head[j * O + c];
}

static void scatter_rows(float *velocity, const zoe_wan_work *w, size_t first, zoe_tensor head)
{
    for (size_t i = 0; i < head.shape[0]; i++)
        scatter_patch(velocity, w, first + i, (const float *)head.data + i * head.shape[1]);
}

/* Every rank gets the rows of all. */
static zoe_status gather_head(zoe_context *ctx, const zoe_wan_work *w, float *velocity)
{
    const zoe_tensor mine = wan_rows(w->head, w->first, w->L);
    TRY(zoe_comm_gather(ctx, w->sequence->ranks, w->head.data, mine.data, w->head_bytes, "head"));
    scatter_rows(velocity, w, 0, w->head);
    return ZOE_OK;
}

static zoe_status run_head(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w, float *velocity,
                           const zoe_probe *probe)
{
    const size_t D = m->dims.dim;
    for (size_t time = w->still ? WAN_STILL : WAN_MOVING; time < WAN_TIMES; time++)
        for (size_t j = 0; j < 2 * D; j++)
            w->modulation[2 * D * time + j] = m->head_modulation[j] + w->e[D * time + j % D];
    wan_chunk c;
    for (size_t first = 0; first < w->L; first += c.count) {
        c = wan_chunk_at(w, first, w->chunk);
        const zoe_tensor in = wan_rows(w->headin, 0, c.count);
        const zoe_tensor out = wan_rows(w->head, w->head_bytes ? w->first + first : 0, c.count);
        float *modulation = w->modulation + 2 * D * c.time;
        const zoe_layer_norm_modulate_args norm = {.y = in,
                                                   .x = wan_rows(w->x, first, c.count),
                                                   .shift = zoe_tensor_1d(modulation, ZOE_F32, D),
                                                   .scale =
                                                       zoe_tensor_1d(modulation + D, ZOE_F32, D),
                                                   .eps = m->dims.eps};
        TRY(zoe_layer_norm_modulate(ctx, &norm));
        const zoe_linear_args args = {.y = out, .x = in, .round_weights = m->bf16};
        TRY(zoe_wan_linear_run(ctx, &m->head, args, w->low, w->work));
        zoe_probe_see(probe, "head", out);
        if (!w->head_bytes)
            scatter_rows(velocity, w, first, out);
    }
    return w->head_bytes ? gather_head(ctx, w, velocity) : ZOE_OK;
}

static bool same_dims(const zoe_wan_dims *a, const zoe_wan_dims *b)
{
    return a->dim == b->dim && a->ffn_dim == b->ffn_dim && a->heads == b->heads &&
           a->layers == b->layers && a->in_dim == b->in_dim && a->out_dim == b->out_dim &&
           a->freq_dim == b->freq_dim && a->text_len == b->text_len && a->text_dim == b->text_dim &&
           a->image_dim == b->image_dim;
}

/* Does all of it fit together? */
static zoe_status check_pass(zoe_context *ctx, const zoe_wan *wan, const zoe_wan_work *work,
                             const float *condition, const zoe_wan_text *text, size_t still_frames)
{
    const size_t latent_channels = condition ? wan->dims.out_dim : wan->dims.in_dim;
    if (!condition && wan->dims.in_dim != wan->dims.out_dim)
        return zoe_fail(ctx, ZOE_INVALID,
                        "the model takes %zu channels of which %zu are a condition; none was given",
                        wan->dims.in_dim, wan->dims.in_dim - wan->dims.out_dim);
    if (condition && latent_channels >= wan->dims.in_dim)
        return zoe_fail(ctx, ZOE_INVALID, "the model takes %zu channels and no condition",
                        wan->dims.in_dim);
    if (text->dim != wan->dims.dim || text->layers != wan->dims.layers ||
        !same_dims(&work->dims, &wan->dims) || work->bf16 != wan->bf16 ||
        work->dims.adapter_rank < wan->dims.adapter_rank || work->dims.int8 < wan->dims.int8)
        return zoe_fail(ctx, ZOE_INVALID, "model, text context and work space do not fit together");
    if (still_frames > work->f)
        return zoe_fail(ctx, ZOE_INVALID, "%zu still frames, the latent has %zu", still_frames,
                        work->f);
    if ((text->image != NULL) != (wan->dims.image_dim > 0))
        return zoe_fail(ctx, ZOE_INVALID, "the model %s an image context",
                        text->image ? "takes no" : "needs");
    return ZOE_OK;
}

static zoe_status embed(zoe_context *ctx, const zoe_wan *wan, zoe_wan_work *work,
                        const float *latent, const float *condition, double t, size_t still_frames,
                        const zoe_probe *probe)
{
    const size_t still = still_frames * work->rows * work->columns; /* of all tokens */
    work->still = still > work->first ? still - work->first : 0;
    work->still = work->still < work->L ? work->still : work->L;
    TRY(embed_times(ctx, wan, work, t, probe));
    TRY(embed_patches(ctx, wan, work, latent, condition));
    zoe_probe_see(probe, "patch_embed", work->x);
    return ZOE_OK;
}

zoe_status zoe_wan_forward_still(zoe_context *ctx, const zoe_wan *wan, zoe_wan_work *work,
                                 float *velocity, const float *latent, const float *condition,
                                 const zoe_wan_text *text, double t, size_t still_frames,
                                 const zoe_probe *probe)
{
    zoe_status status;
    TRY(check_pass(ctx, wan, work, condition, text, still_frames));
    zoe_wan_walk_begin(ctx, wan); /* the first block is read while patches are embedded */
    TRY_GOTO(embed(ctx, wan, work, latent, condition, t, still_frames, probe));
    TRY_GOTO(zoe_wan_blocks(ctx, wan, work, text, probe));
    status = run_head(ctx, wan, work, velocity, probe);
done:
    zoe_wan_walk_end(wan);
    return status;
}

/* ---- two passes in one walk ---- */

size_t zoe_wan_pair_bytes(const zoe_wan_dims *dims, size_t f, size_t h, size_t w)
{
    return zoe_arena_bytes(f * (h / 2) * (w / 2) * dims->dim, sizeof(float));
}

zoe_status zoe_wan_work_pair(zoe_context *ctx, zoe_wan_work *work)
{
    return work->second ? ZOE_OK
                        : zoe_alloc(ctx, &work->second, work->x.shape[0] * work->x.shape[1],
                                    sizeof(float), "transformer activations of the second branch");
}

zoe_status zoe_wan_forward_pair(zoe_context *ctx, const zoe_wan *wan, zoe_wan_work *work,
                                float *const velocity[2], const float *latent,
                                const float *condition, const zoe_wan_text *const text[2], double t,
                                size_t still_frames)
{
    zoe_status status;
    if (!work->second || work->route)
        return zoe_fail(
            ctx, ZOE_INVALID,
            "two passes at once need a work space of zoe_wan_work_pair without a route");
    for (size_t b = 0; b < 2; b++)
        TRY(check_pass(ctx, wan, work, condition, text[b], still_frames));
    const zoe_tensor first = work->x;
    zoe_tensor second = first;
    second.data = work->second;
    zoe_wan_walk_begin(ctx, wan);
    TRY_GOTO(embed(ctx, wan, work, latent, condition, t, still_frames, NULL));
    memcpy(second.data, first.data, zoe_tensor_bytes(first));
    TRY_GOTO(zoe_wan_blocks_pair(ctx, wan, work, second, text));
    TRY_GOTO(run_head(ctx, wan, work, velocity[0], NULL));
    work->x = second;
    status = run_head(ctx, wan, work, velocity[1], NULL);
    work->x = first;
done:
    zoe_wan_walk_end(wan);
    return status;
}

zoe_status zoe_wan_forward(zoe_context *ctx, const zoe_wan *wan, zoe_wan_work *work,
                           float *velocity, const float *latent, const float *condition,
                           const zoe_wan_text *text, double t, const zoe_probe *probe)
{
    return zoe_wan_forward_still(ctx, wan, work, velocity, latent, condition, text, t, 0, probe);
}
