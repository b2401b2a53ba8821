/* Wan DiT: the text side. Context rows become the keys and values of every block's cross-attention,
 * once per prompt. */
#include "model/wan.h"

/* The padded rows are zero before text_embedding, hence all alike behind it: one row stands for
 * them (exact: softmax over equal keys is softmax over one key whose logit grows by the log of
 * their number). */
static size_t key_rows(const zoe_wan_dims *d, size_t rows)
{
    return rows < d->text_len ? rows + 1 : d->text_len;
}

typedef struct text_run {
    zoe_arena arena;
    zoe_tensor padded; /* [keys, text_dim] */
    zoe_tensor a, c;   /* [keys, dim] */
    zoe_workspace work;
} text_run;

static zoe_linear_args linear_args(zoe_tensor y, zoe_tensor x, const wan_linear *l)
{
    return (zoe_linear_args){
        .y = y, .x = x, .w = l->w, .bias = zoe_tensor_1d(l->bias, ZOE_F32, l->w.shape[0])};
}

static size_t operator_bytes(const zoe_context *ctx, const text_run *r, const zoe_wan *m)
{
    const zoe_linear_args shapes[] = {
        linear_args(r->a, r->padded, &m->text0),
        linear_args(r->c, r->a, &m->text2),
        linear_args(r->a, r->c, &m->blocks[0].cross.k),
    };
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        bytes = zoe_max(bytes, zoe_linear_workspace(ctx, &shapes[i]));
    return bytes;
}

static void lay_out(text_run *r, const zoe_wan_dims *d, bool bf16, size_t keys, size_t work)
{
    r->padded = zoe_arena_2d(&r->arena, wan_type(bf16), keys, d->text_dim);
    r->a = zoe_arena_2d(&r->arena, wan_type(bf16), keys, d->dim);
    r->c = zoe_arena_2d(&r->arena, wan_type(bf16), keys, d->dim);
    r->work.bytes = work;
    r->work.data = zoe_arena_take(&r->arena, work, 1);
}

static zoe_status prepare(zoe_context *ctx, text_run *r, const zoe_wan *m, size_t keys)
{
    text_run dry = {.work.bytes = 0};
    lay_out(&dry, &m->dims, m->bf16, keys, 0);
    const size_t work = operator_bytes(ctx, &dry, m);
    lay_out(&dry, &m->dims, m->bf16, 0, work);
    TRY(zoe_arena_new(ctx, &r->arena, dry.arena.used, "text context"));
    lay_out(r, &m->dims, m->bf16, keys, work);
    return zoe_arena_status(ctx, &r->arena, "text context");
}

static zoe_status run_linear(zoe_context *ctx, const text_run *r, zoe_tensor y, zoe_tensor x,
                             const wan_linear *l, zoe_activation activation)
{
    zoe_linear_args args = linear_args(y, x, l);
    args.activation = activation;
    return zoe_linear(ctx, &args, r->work);
}

zoe_bytes zoe_wan_text_bytes(const zoe_wan_dims *d, bool bf16, size_t rows)
{
    const size_t keys = key_rows(d, rows), type = zoe_dtype_bytes(wan_type(bf16));
    text_run dry = {.work.bytes = 0};
    lay_out(&dry, d, bf16, keys, 0);
    return (zoe_bytes){.weights = d->layers * 2 * keys * d->dim * type, .work = dry.arena.used};
}

/* k or v of layer i. */
static zoe_tensor slot(const zoe_wan_text *t, size_t layer, size_t which)
{
    const size_t bytes = t->rows * t->dim * zoe_dtype_bytes(t->dtype);
    return zoe_tensor_2d((unsigned char *)t->data + (2 * layer + which) * bytes, t->dtype, t->rows,
                         t->dim);
}

static zoe_status fill(zoe_context *ctx, zoe_wan_text *t, text_run *r, const zoe_wan *m,
                       const float *context, size_t rows, const zoe_probe *probe)
{
    const zoe_wan_dims *d = &m->dims;
    zoe_narrow(r->padded.data, r->padded.dtype, context, rows * d->text_dim);
    if (t->rows > rows)
        memset((unsigned char *)r->padded.data +
                   rows * d->text_dim * zoe_dtype_bytes(r->padded.dtype),
               0, d->text_dim * zoe_dtype_bytes(r->padded.dtype));
    TRY(run_linear(ctx, r, r->a, r->padded, &m->text0, ZOE_ACT_GELU_TANH));
    TRY(run_linear(ctx, r, r->c, r->a, &m->text2, ZOE_ACT_NONE));
    zoe_probe_see(probe, "context", r->c);
    for (size_t i = 0; i < d->layers; i++) {
        const wan_attention *a = &m->blocks[i].cross;
        TRY(zoe_check_cancel(ctx));
        TRY(run_linear(ctx, r, r->a, r->c, &a->k, ZOE_ACT_NONE));
        TRY(zoe_rms_norm(ctx, slot(t, i, 0), r->a, zoe_tensor_1d(a->norm_k, ZOE_F32, d->dim),
                         d->eps));
        TRY(run_linear(ctx, r, slot(t, i, 1), r->c, &a->v, ZOE_ACT_NONE));
        zoe_probe_block(probe, i, "ca_k", slot(t, i, 0));
    }
    return ZOE_OK;
}

zoe_status zoe_wan_text_new(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan,
                            const float *context, size_t rows, const zoe_probe *probe)
{
    const zoe_wan_dims *d = &wan->dims;
    void *p;
    *text = NULL;
    if (rows > d->text_len)
        return zoe_fail(ctx, ZOE_INVALID, "%zu context rows, the model takes at most %zu", rows,
                        d->text_len);
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **text, "text context"));
    zoe_wan_text *t = p;
    text_run r = {.work.bytes = 0};
    zoe_status status;
    *t = (zoe_wan_text){.rows = key_rows(d, rows),
                        .last_count = rows < d->text_len ? d->text_len - rows : 1,
                        .layers = d->layers,
                        .dim = d->dim,
                        .dtype = wan_type(wan->bf16)};
    TRY_GOTO(prepare(ctx, &r, wan, t->rows));
    TRY_GOTO(zoe_alloc(ctx, &t->data, zoe_wan_text_bytes(d, wan->bf16, rows).weights, 1,
                       "cross-attention keys and values"));
    TRY_GOTO(fill(ctx, t, &r, wan, context, rows, probe));
done:
    zoe_arena_free(&r.arena);
    if (status != ZOE_OK)
        zoe_wan_text_free(t);
    else
        *text = t;
    return status;
}

void zoe_wan_text_free(zoe_wan_text *text)
{
    if (!text)
        return;
    zoe_free(text->data);
    zoe_free(text);
}
