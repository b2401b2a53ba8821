/* Wan DiT: one transformer block. Row-wise parts go through the tokens in chunks, so that only the
 * residual stream, q, k, v and the attention's output are as long as the sequence. Source: Wan2.2
 * wan/modules/model.py, class WanAttentionBlock. */
#include "base/clock.h"
#include "base/trace.h"
#include "model/wan.h"

/* Rows of `modulation` [6, dim]. */
enum { SHIFT_SELF, SCALE_SELF, GATE_SELF, SHIFT_FFN, SCALE_FFN, GATE_FFN };

typedef struct block_run {
    zoe_context *ctx;
    const zoe_wan *m;
    zoe_wan_work *w;
    const zoe_wan_text *text;
    const wan_block *b;
    size_t i;
    const zoe_probe *probe;
} block_run;

static zoe_tensor vector(const float *values, size_t n)
{
    return zoe_tensor_1d((void *)(uintptr_t)values, ZOE_F32, n);
}

static zoe_tensor modulation(const block_run *r, wan_chunk c, size_t row)
{
    const size_t D = r->m->dims.dim;
    return vector(r->w->modulation + (6 * c.time + row) * D, D);
}

static zoe_status linear(const block_run *r, zoe_tensor y, zoe_tensor x, const wan_linear *l,
                         zoe_activation activation, zoe_tensor gate, zoe_tensor residual)
{
    const zoe_linear_args args = {
        .y = y, .x = x, .activation = activation, .gate = gate, .residual = residual};
    return zoe_wan_linear_run(r->ctx, l, args, r->w->low, r->w->work);
}

static zoe_status plain(const block_run *r, zoe_tensor y, zoe_tensor x, const wan_linear *l)
{
    return linear(r, y, x, l, ZOE_ACT_NONE, zoe_tensor_none(), zoe_tensor_none());
}

/* a = LN(x) (1 + scale) + shift of one chunk. In bf16 the first norm of the first block sees a bf16
 * stream and rounds. */
static zoe_status modulated_norm(const block_run *r, zoe_tensor a, wan_chunk c, size_t shift,
                                 size_t scale, bool round_norm)
{
    return zoe_layer_norm_modulate(
        r->ctx, &(zoe_layer_norm_modulate_args){.y = a,
                                                .x = wan_rows(r->w->x, c.first, c.count),
                                                .scale = modulation(r, c, scale),
                                                .shift = modulation(r, c, shift),
                                                .eps = r->m->dims.eps,
                                                .round_norm = round_norm ? ZOE_BF16 : ZOE_NONE});
}

/* Of one chunk: one product where no LoRA and no other form of the weights is in the way. */
static zoe_status queries_keys_values(const block_run *r, wan_chunk c, zoe_tensor in)
{
    const zoe_wan_work *w = r->w;
    const wan_attention *a = &r->b->self;
    const wan_linear *layers[] = {&a->q, &a->k, &a->v};
    const zoe_tensor outputs[] = {w->q, w->k, w->v};
    zoe_linear_args parts[3];
    bool one = true;
    for (size_t i = 0; i < 3; i++) {
        const wan_linear *l = layers[i];
        parts[i] = (zoe_linear_args){.y = wan_rows(outputs[i], c.first, c.count),
                                     .x = in,
                                     .w = l->w,
                                     .bias = vector(l->bias, l->w.shape[0])};
        one = one && !l->pairs && !l->int8;
    }
    if (one)
        return zoe_linear_parts(r->ctx, parts, 3, w->work);
    for (size_t i = 0; i < 3; i++)
        TRY(plain(r, parts[i].y, in, layers[i]));
    return ZOE_OK;
}

static zoe_status self_attention_inputs(const block_run *r)
{
    const zoe_wan_work *w = r->w;
    wan_chunk c;
    for (size_t first = 0; first < w->L; first += c.count) {
        c = wan_chunk_at(w, first, w->chunk);
        const zoe_tensor in = wan_rows(w->a, 0, c.count);
        TRY(modulated_norm(r, in, c, SHIFT_SELF, SCALE_SELF, r->m->bf16 && r->i == 0));
        TRY(queries_keys_values(r, c, in));
        TRY(zoe_check_cancel(r->ctx));
    }
    return ZOE_OK;
}

/* Norm of queries or keys over all heads, as WanRMSNorm rounds it. */
static zoe_status normed(const block_run *r, zoe_tensor y, zoe_tensor x, const float *gamma)
{
    return zoe_rms_norm(r->ctx, &(zoe_rms_norm_args){.y = y,
                                                     .x = x,
                                                     .gamma = vector(gamma, r->m->dims.dim),
                                                     .eps = r->m->dims.eps,
                                                     .order = ZOE_RMS_CAST_THEN_MUL,
                                                     .round_gamma = true});
}

/* The parts of self-attention's inputs that the fused operators never store. For sequences of one
 * chunk. */
static zoe_status probe_inputs(const block_run *r)
{
    const zoe_wan_work *w = r->w;
    const wan_attention *a = &r->b->self;
    if (!r->probe || w->L > w->chunk)
        return ZOE_OK;
    const zoe_tensor b = wan_rows(w->b, 0, w->L), in = wan_rows(w->a, 0, w->L);
    TRY(zoe_layer_norm(r->ctx, &(zoe_layer_norm_args){.y = b, .x = w->x, .eps = r->m->dims.eps}));
    zoe_probe_block(r->probe, r->i, "norm1", b);
    wan_chunk c;
    for (size_t first = 0; first < w->L; first += c.count) {
        c = wan_chunk_at(w, first, w->L);
        TRY(modulated_norm(r, wan_rows(in, first, c.count), c, SHIFT_SELF, SCALE_SELF,
                           r->m->bf16 && r->i == 0));
    }
    zoe_probe_block(r->probe, r->i, "sa_in", in);
    zoe_probe_block(r->probe, r->i, "sa_q_linear", w->q);
    zoe_probe_block(r->probe, r->i, "sa_k_linear", w->k);
    zoe_probe_block(r->probe, r->i, "sa_v_linear", w->v);
    TRY(normed(r, b, w->q, a->norm_q));
    zoe_probe_block(r->probe, r->i, "sa_norm_q", b);
    TRY(normed(r, b, w->k, a->norm_k));
    zoe_probe_block(r->probe, r->i, "sa_norm_k", b);
    return ZOE_OK;
}

static zoe_status self_attention(const block_run *r)
{
    const zoe_wan_work *w = r->w;
    const zoe_wan_dims *d = &r->m->dims;
    const wan_attention *a = &r->b->self;
    TRY(self_attention_inputs(r));
    TRY(probe_inputs(r));
    const zoe_qk_norm_rope_args rotated = {.q = {w->q, w->q, vector(a->norm_q, d->dim)},
                                           .k = {w->k, w->k, vector(a->norm_k, d->dim)},
                                           .cos = w->cos,
                                           .sin = w->sin,
                                           .eps = d->eps,
                                           .order = ZOE_RMS_CAST_THEN_MUL,
                                           .round_gamma = true,
                                           .pairing = ZOE_ROTARY_INTERLEAVE};
    TRY(zoe_qk_norm_rope(r->ctx, &rotated));
    zoe_probe_block(r->probe, r->i, "sa_q_rope", w->q);
    zoe_probe_block(r->probe, r->i, "sa_k_rope", w->k);
    const zoe_sequence_attention_args attention = wan_self_attention(w);
    TRY(zoe_sequence_attention(r->ctx, w->sequence, &attention, w->work));
    zoe_probe_block(r->probe, r->i, "sa_attn", w->o);
    if (r->probe) {
        TRY(plain(r, w->q, w->o, &a->o));
        zoe_probe_block(r->probe, r->i, "sa_out", w->q);
    }
    wan_chunk c;
    for (size_t first = 0; first < w->L; first += c.count) {
        c = wan_chunk_at(w, first, w->L);
        const zoe_tensor x = wan_rows(w->x, c.first, c.count);
        TRY(linear(r, x, wan_rows(w->o, c.first, c.count), &a->o, ZOE_ACT_NONE,
                   modulation(r, c, GATE_SELF), x));
    }
    return ZOE_OK;
}

/* a = attention of the queries b to the keys and values of the text, or of the image. */
static zoe_status attend(const block_run *r, zoe_tensor a, zoe_tensor b, bool image)
{
    const zoe_wan_dims *d = &r->m->dims;
    const zoe_wan_text *t = r->text;
    const zoe_attention_args args = {.o = wan_heads(a, d->heads),
                                     .q = wan_heads(b, d->heads),
                                     .k = wan_heads(wan_slot(t, image, r->i, 0), d->heads),
                                     .v = wan_heads(wan_slot(t, image, r->i, 1), d->heads),
                                     .scale = 1.0f / sqrtf((float)(d->dim / d->heads)),
                                     .last_count = image ? 1 : t->last_count};
    return zoe_attention(r->ctx, &args, r->w->work);
}

static zoe_status cross_attention(const block_run *r, wan_chunk c)
{
    const zoe_wan_work *w = r->w;
    const zoe_wan_dims *d = &r->m->dims;
    const wan_attention *p = &r->b->cross;
    const zoe_tensor x = wan_rows(w->x, c.first, c.count);
    const zoe_tensor a = wan_rows(w->a, 0, c.count), b = wan_rows(w->b, 0, c.count);

    TRY(zoe_layer_norm(r->ctx, &(zoe_layer_norm_args){.y = a,
                                                      .x = x,
                                                      .gamma = vector(r->b->norm3_weight, d->dim),
                                                      .beta = vector(r->b->norm3_bias, d->dim),
                                                      .eps = d->eps}));
    zoe_probe_block(r->probe, r->i, "norm3", a);
    TRY(plain(r, b, a, &p->q));
    TRY(normed(r, b, b, p->norm_q));
    zoe_probe_block(r->probe, r->i, "ca_q", b);
    TRY(attend(r, a, b, false));
    if (r->text->image) {
        const zoe_tensor other = wan_rows(w->c, 0, c.count);
        TRY(attend(r, other, b, true));
        TRY(zoe_add(r->ctx, a, a, other));
    }
    zoe_probe_block(r->probe, r->i, "ca_attn", a);
    if (r->probe) {
        TRY(plain(r, b, a, &p->o));
        zoe_probe_block(r->probe, r->i, "ca_out", b);
    }
    return linear(r, x, a, &p->o, ZOE_ACT_NONE, zoe_tensor_none(), x);
}

static zoe_status feed_forward(const block_run *r, wan_chunk c)
{
    const zoe_wan_work *w = r->w;
    const zoe_tensor x = wan_rows(w->x, c.first, c.count), a = wan_rows(w->a, 0, c.count);
    const zoe_tensor hidden = wan_rows(w->hidden, 0, c.count), none = zoe_tensor_none();
    TRY(modulated_norm(r, a, c, SHIFT_FFN, SCALE_FFN, false));
    zoe_probe_block(r->probe, r->i, "ffn_in", a);
    TRY(linear(r, hidden, a, &r->b->ffn0, ZOE_ACT_GELU_TANH, none, none));
    if (r->probe) {
        TRY(plain(r, a, hidden, &r->b->ffn2));
        zoe_probe_block(r->probe, r->i, "ffn_out", a);
    }
    return linear(r, x, hidden, &r->b->ffn2, ZOE_ACT_NONE, modulation(r, c, GATE_FFN), x);
}

/* The six modulations of a block, for each timestep of the pass. */
static void fill_modulation(zoe_wan_work *w, const wan_block *b)
{
    const size_t D = w->dims.dim;
    for (size_t time = w->still ? WAN_STILL : WAN_MOVING; time < WAN_TIMES; time++)
        for (size_t j = 0; j < 6 * D; j++)
            w->modulation[6 * D * time + j] = b->modulation[j] + w->e0[6 * D * time + j];
}

static zoe_status run_block(const block_run *r)
{
    zoe_wan_work *w = r->w;
    const double begun = zoe_now();
    fill_modulation(w, r->b);
    TRY(self_attention(r));
    wan_chunk c;
    for (size_t first = 0; first < w->L; first += c.count) {
        c = wan_chunk_at(w, first, w->chunk);
        TRY(zoe_check_cancel(r->ctx));
        TRY(cross_attention(r, c));
        TRY(feed_forward(r, c));
    }
    zoe_probe_block(r->probe, r->i, "out", w->x);
    zoe_trace_add(r->ctx, ZOE_TRACK_COMPUTE, "block", r->i, begun);
    return ZOE_OK;
}

/* Which block runs instead of block i, if somebody wants to say so. */
static zoe_status choose(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w, size_t *i)
{
    const size_t D = m->dims.dim;
    const float *modulation = w->modulation + 6 * D * WAN_MOVING;
    if (!w->route)
        return ZOE_OK;
    zoe_wan_point point = {.block = *i, .hidden = w->x.data};
    if (*i == 0) {
        fill_modulation(w, &m->blocks[0]);
        point.embedding = w->e + D * WAN_MOVING;
        point.projection = w->e0 + 6 * D * WAN_MOVING;
        point.shift = modulation + D * SHIFT_SELF;
        point.scale = modulation + D * SCALE_SELF;
        point.eps = m->dims.eps;
    }
    return w->route(ctx, w->route_user, &point, i);
}

static zoe_status walk(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w,
                       const zoe_wan_text *text, const zoe_probe *probe)
{
    for (size_t i = 0;; i++) {
        wan_block b;
        TRY(zoe_check_cancel(ctx));
        TRY(choose(ctx, m, w, &i));
        if (i >= m->dims.layers)
            return ZOE_OK;
        TRY(zoe_wan_walk_take(ctx, m, i, &b));
        TRY(run_block(&(block_run){
            .ctx = ctx, .m = m, .w = w, .text = text, .b = &b, .i = i, .probe = probe}));
        zoe_wan_walk_release(m, i);
    }
}

zoe_status zoe_wan_blocks(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w,
                          const zoe_wan_text *text, const zoe_probe *probe)
{
    const zoe_status status = walk(ctx, m, w, text, probe);
    zoe_wan_walk_end(m);
    return status;
}

/* One block for both residual streams; which of them w->x is changes on the way. */
static zoe_status run_both(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w, zoe_tensor second,
                           const zoe_wan_text *const text[2], const wan_block *b, size_t i)
{
    const zoe_tensor first = w->x;
    zoe_status status =
        run_block(&(block_run){.ctx = ctx, .m = m, .w = w, .text = text[0], .b = b, .i = i});
    w->x = second;
    if (status == ZOE_OK)
        status =
            run_block(&(block_run){.ctx = ctx, .m = m, .w = w, .text = text[1], .b = b, .i = i});
    w->x = first;
    return status;
}

zoe_status zoe_wan_blocks_pair(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w,
                               zoe_tensor second, const zoe_wan_text *const text[2])
{
    zoe_status status = ZOE_OK;
    for (size_t i = 0; i < m->dims.layers; i++) {
        wan_block b;
        TRY_GOTO(zoe_check_cancel(ctx));
        TRY_GOTO(zoe_wan_walk_take(ctx, m, i, &b));
        TRY_GOTO(run_both(ctx, m, w, second, text, &b, i));
        zoe_wan_walk_release(m, i);
    }
done:
    zoe_wan_walk_end(m);
    return status;
}
