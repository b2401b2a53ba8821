/* Wan DiT: the text side, and the picture's features where the network has an image branch. Context
 * rows become the keys and values of every block's cross-attention, once per prompt. */
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
    zoe_tensor padded;           /* [keys, text_dim] */
    zoe_tensor a, c;             /* [keys, dim] */
    zoe_tensor features, hidden; /* [image rows, image_dim] */
    zoe_tensor image_a, image_c; /* [image rows, dim] */
    zoe_tensor low;              /* [keys or image rows, adapter_rank] f32 */
    zoe_workspace work;
} text_run;

static zoe_linear_args linear_args(zoe_tensor y, zoe_tensor x, const wan_linear *l)
{
    return (zoe_linear_args){
        .y = y, .x = x, .w = l->w, .bias = zoe_tensor_1d(l->bias, ZOE_F32, l->w.shape[0])};
}

static size_t operator_bytes(const zoe_context *ctx, const text_run *r, const zoe_wan *m)
{
    const bool image = r->features.shape[0] > 0;
    const zoe_linear_args shapes[] = {
        linear_args(r->a, r->padded, &m->text0),
        linear_args(r->c, r->a, &m->text2),
        linear_args(r->a, r->c, &m->blocks[0].cross.k),
        wan_low_args(r->low, wan_rows(r->padded, 0, r->low.shape[0])),
        linear_args(r->hidden, r->features, &m->image.up),
        linear_args(r->image_c, r->hidden, &m->image.down),
        linear_args(r->image_a, r->image_c, &m->blocks[0].cross.k_img),
    };
    size_t bytes = 0;
    for (size_t i = 0; i < (image ? 7 : 4); i++)
        bytes = zoe_max(bytes, zoe_linear_workspace(ctx, &shapes[i]));
    return bytes;
}

static void lay_out(text_run *r, const zoe_wan_dims *d, bool bf16, size_t keys, size_t image,
                    size_t work)
{
    const zoe_dtype type = wan_type(bf16);
    r->padded = zoe_arena_2d(&r->arena, type, keys, d->text_dim);
    r->a = zoe_arena_2d(&r->arena, type, keys, d->dim);
    r->c = zoe_arena_2d(&r->arena, type, keys, d->dim);
    r->features = zoe_arena_2d(&r->arena, ZOE_F32, image, d->image_dim);
    r->hidden = zoe_arena_2d(&r->arena, type, image, d->image_dim);
    r->image_a = zoe_arena_2d(&r->arena, type, image, d->dim);
    r->image_c = zoe_arena_2d(&r->arena, type, image, d->dim);
    r->low = zoe_arena_2d(&r->arena, ZOE_F32, zoe_max(keys, image), d->adapter_rank);
    r->work.bytes = work;
    r->work.data = zoe_arena_take(&r->arena, work, 1);
}

static zoe_status prepare(zoe_context *ctx, text_run *r, const zoe_wan *m, size_t keys,
                          size_t image)
{
    text_run dry = {.work.bytes = 0};
    lay_out(&dry, &m->dims, m->bf16, keys, image, 0);
    const size_t work = operator_bytes(ctx, &dry, m);
    lay_out(&dry, &m->dims, m->bf16, 0, 0, work);
    TRY(zoe_arena_new(ctx, &r->arena, dry.arena.used, "text context"));
    lay_out(r, &m->dims, m->bf16, keys, image, work);
    return zoe_arena_status(ctx, &r->arena, "text context");
}

static zoe_status run_linear(zoe_context *ctx, const text_run *r, zoe_tensor y, zoe_tensor x,
                             const wan_linear *l, zoe_activation activation)
{
    const zoe_linear_args args = {.y = y, .x = x, .activation = activation};
    return zoe_wan_linear_run(ctx, l, args, r->low, r->work);
}

zoe_bytes zoe_wan_text_bytes(const zoe_wan_dims *d, bool bf16, size_t rows, size_t image_rows)
{
    const size_t keys = key_rows(d, rows), type = zoe_dtype_bytes(wan_type(bf16));
    text_run dry = {.work.bytes = 0};
    lay_out(&dry, d, bf16, keys, image_rows, 0);
    return (zoe_bytes){.weights = d->layers * 2 * (keys + image_rows) * d->dim * type,
                       .work = dry.arena.used};
}

/* Keys and values of one layer. */
static zoe_status fill_layer(zoe_context *ctx, zoe_wan_text *t, text_run *r, const zoe_wan *m,
                             size_t i, bool image)
{
    const wan_attention *a = &m->blocks[i].cross;
    const zoe_tensor x = image ? r->image_c : r->c, k = image ? r->image_a : r->a;
    float *norm = image ? a->norm_k_img : a->norm_k;
    TRY(zoe_check_cancel(ctx));
    TRY(run_linear(ctx, r, k, x, image ? &a->k_img : &a->k, ZOE_ACT_NONE));
    const zoe_rms_norm_args normed = {.y = wan_slot(t, image, i, 0),
                                      .x = k,
                                      .gamma = zoe_tensor_1d(norm, ZOE_F32, m->dims.dim),
                                      .eps = m->dims.eps,
                                      .order = ZOE_RMS_CAST_THEN_MUL,
                                      .round_gamma = true};
    TRY(zoe_rms_norm(ctx, &normed));
    return run_linear(ctx, r, wan_slot(t, image, i, 1), x, image ? &a->v_img : &a->v, ZOE_ACT_NONE);
}

/* r->c = what the layers make keys and values of. */
static zoe_status embed_text(zoe_context *ctx, const zoe_wan_text *t, text_run *r, const zoe_wan *m,
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
    return ZOE_OK;
}

static zoe_status norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, float *const weights[2])
{
    const size_t D = x.shape[1];
    return zoe_layer_norm(ctx,
                          &(zoe_layer_norm_args){.y = y,
                                                 .x = x,
                                                 .gamma = zoe_tensor_1d(weights[0], ZOE_F32, D),
                                                 .beta = zoe_tensor_1d(weights[1], ZOE_F32, D),
                                                 .eps = 1e-5f});
}

/* Source: Wan2.1 wan/modules/model.py, class MLPProj. */
static zoe_status embed_image(zoe_context *ctx, const zoe_wan_text *t, text_run *r,
                              const zoe_wan *m, const float *image, const zoe_probe *probe)
{
    float *x = r->features.data;
    for (size_t i = 0; i < t->image_rows * m->dims.image_dim; i++)
        x[i] = image[i] + (m->image.positions ? m->image.positions[i] : 0.0f);
    TRY(norm(ctx, r->hidden, r->features, m->image.norm_in));
    const zoe_tensor up = zoe_tensor_2d(x, r->hidden.dtype, t->image_rows, m->dims.image_dim);
    TRY(run_linear(ctx, r, up, r->hidden, &m->image.up, ZOE_ACT_GELU_ERF));
    TRY(run_linear(ctx, r, r->image_a, up, &m->image.down, ZOE_ACT_NONE));
    TRY(norm(ctx, r->image_c, r->image_a, m->image.norm_out));
    zoe_probe_see(probe, "img_context", r->image_c);
    return ZOE_OK;
}

static zoe_status check_rows(zoe_context *ctx, const zoe_wan_dims *d, size_t rows,
                             size_t image_rows)
{
    if (rows > d->text_len)
        return zoe_fail(ctx, ZOE_INVALID, "%zu context rows, the model takes at most %zu", rows,
                        d->text_len);
    if ((image_rows > 0) != (d->image_dim > 0))
        return zoe_fail(ctx, ZOE_INVALID, "the model %s features of a picture",
                        d->image_dim > 0 ? "needs" : "takes no");
    if (d->image_positions > 0 && image_rows != d->image_positions)
        return zoe_fail(ctx, ZOE_INVALID, "%zu rows of picture features, the model takes %zu",
                        image_rows, d->image_positions);
    return ZOE_OK;
}

/* Several prompts on their way through the layers, with the same picture. */
typedef struct batch {
    const zoe_wan *m;
    zoe_wan_text *text[ZOE_WAN_TEXTS];
    text_run run[ZOE_WAN_TEXTS];
    size_t n;
    const zoe_probe *probe;
} batch;

static zoe_status text_alloc(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *m, size_t rows,
                             size_t image_rows)
{
    const zoe_wan_dims *d = &m->dims;
    void *p;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **text, "text context"));
    zoe_wan_text *t = *text = p;
    *t = (zoe_wan_text){.rows = key_rows(d, rows),
                        .last_count = rows < d->text_len ? d->text_len - rows : 1,
                        .layers = d->layers,
                        .dim = d->dim,
                        .dtype = wan_type(m->bf16),
                        .image_rows = image_rows};
    const size_t layer = 2 * d->dim * zoe_dtype_bytes(t->dtype);
    TRY(zoe_alloc(ctx, &t->data, d->layers, layer * t->rows, "cross-attention keys and values"));
    return image_rows > 0 ? zoe_alloc(ctx, &t->image, d->layers, layer * image_rows,
                                      "cross-attention keys and values")
                          : ZOE_OK;
}

/* One layer of all of them; what comes from the picture is made once. */
static zoe_status fill_layers(zoe_context *ctx, batch *b, size_t i)
{
    for (size_t k = 0; k < b->n; k++) {
        TRY(fill_layer(ctx, b->text[k], &b->run[k], b->m, i, false));
        zoe_probe_block(b->probe, i, "ca_k", wan_slot(b->text[k], false, i, 0));
    }
    if (b->text[0]->image_rows == 0)
        return ZOE_OK;
    TRY(fill_layer(ctx, b->text[0], &b->run[0], b->m, i, true));
    for (size_t k = 1; k < b->n; k++)
        for (size_t which = 0; which < 2; which++) {
            const zoe_tensor from = wan_slot(b->text[0], true, i, which);
            memcpy(wan_slot(b->text[k], true, i, which).data, from.data, zoe_tensor_bytes(from));
        }
    return ZOE_OK;
}

static zoe_status walk_layers(zoe_context *ctx, batch *b)
{
    zoe_status status = ZOE_OK;
    zoe_wan_texts_begin(ctx, b->m);
    for (size_t i = 0; i < b->m->dims.layers; i++) {
        TRY_GOTO(zoe_wan_text_take(ctx, b->m, i));
        TRY_GOTO(fill_layers(ctx, b, i));
        zoe_wan_text_release(b->m, i);
    }
done:
    zoe_wan_texts_end(b->m);
    return status;
}

static zoe_status make_texts(zoe_context *ctx, batch *b, const float *const *context,
                             const size_t *rows, const float *image, size_t image_rows)
{
    for (size_t k = 0; k < b->n; k++)
        TRY(check_rows(ctx, &b->m->dims, rows[k], image_rows));
    for (size_t k = 0; k < b->n; k++) {
        TRY(text_alloc(ctx, &b->text[k], b->m, rows[k], image_rows));
        TRY(prepare(ctx, &b->run[k], b->m, b->text[k]->rows, k == 0 ? image_rows : 0));
        TRY(embed_text(ctx, b->text[k], &b->run[k], b->m, context[k], rows[k], b->probe));
    }
    if (image_rows > 0)
        TRY(embed_image(ctx, b->text[0], &b->run[0], b->m, image, b->probe));
    return walk_layers(ctx, b);
}

static zoe_status texts_new(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan, size_t n,
                            const float *const *context, const size_t *rows, const float *image,
                            size_t image_rows, const zoe_probe *probe)
{
    batch b = {.m = wan, .n = n, .probe = probe};
    if (n > ZOE_WAN_TEXTS)
        return zoe_fail(ctx, ZOE_INVALID, "%zu prompts at once, at most %d are taken", n,
                        (int)ZOE_WAN_TEXTS);
    const zoe_status status = make_texts(ctx, &b, context, rows, image, image_rows);
    for (size_t k = 0; k < n; k++) {
        zoe_arena_free(&b.run[k].arena);
        if (status != ZOE_OK)
            zoe_wan_text_free(b.text[k]);
        text[k] = status == ZOE_OK ? b.text[k] : NULL;
    }
    return status;
}

zoe_status zoe_wan_texts_new(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan, size_t n,
                             const float *const *context, const size_t *rows, const float *image,
                             size_t image_rows)
{
    return texts_new(ctx, text, wan, n, context, rows, image, image_rows, NULL);
}

zoe_status zoe_wan_text_new_with_image(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan,
                                       const float *context, size_t rows, const float *image,
                                       size_t image_rows, const zoe_probe *probe)
{
    return texts_new(ctx, text, wan, 1, &context, &rows, image, image_rows, probe);
}

zoe_status zoe_wan_text_new(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan,
                            const float *context, size_t rows, const zoe_probe *probe)
{
    return zoe_wan_text_new_with_image(ctx, text, wan, context, rows, NULL, 0, probe);
}

void zoe_wan_text_free(zoe_wan_text *text)
{
    if (!text)
        return;
    zoe_free(text->data);
    zoe_free(text->image);
    zoe_free(text);
}
