/* Wan DiT: the large layers of its blocks in int8. Each run of GROUP elements of a row, of the weights
 * and of what they are multiplied with, has a scale of its own, so that a value far above the others
 * costs digits in its own run only. The small layers (patches, text, timestep, modulation, head) and
 * the keys and values of the text, which are made once, stay as they are. */
#include "model/wan.h"

enum {
    GROUP = 128,
    ROWS = 1024 /* rows of x that are quantised at a time */
};

/* ---- running ---- */

size_t zoe_wan_int8_work_bytes(const zoe_context *ctx, const zoe_wan_dims *d, bool bf16,
                               size_t tokens)
{
    const size_t rows = tokens < ROWS ? tokens : ROWS;
    const size_t up =
        zoe_linear_int8_workspace_of(ctx, rows, d->ffn_dim, d->dim, wan_type(bf16), GROUP);
    const size_t down =
        zoe_linear_int8_workspace_of(ctx, rows, d->dim, d->ffn_dim, wan_type(bf16), GROUP);
    const size_t square =
        zoe_linear_int8_workspace_of(ctx, rows, d->dim, d->dim, wan_type(bf16), GROUP);
    return zoe_max(zoe_max(up, down), square);
}

zoe_status zoe_wan_linear_int8(zoe_context *ctx, const wan_linear *l, const zoe_linear_args *args,
                               zoe_workspace work)
{
    const size_t M = args->x.shape[0];
    for (size_t first = 0; first < M; first += ROWS) {
        const size_t count = M - first < ROWS ? M - first : ROWS;
        zoe_linear_int8_args part = {.y = wan_rows(args->y, first, count),
                                     .x = wan_rows(args->x, first, count),
                                     .weights = l->int8,
                                     .bias = args->bias,
                                     .gate = args->gate,
                                     .residual = args->residual,
                                     .activation = args->activation};
        if (part.residual.dtype != ZOE_NONE)
            part.residual = wan_rows(part.residual, first, count);
        TRY(zoe_linear_int8(ctx, &part, work));
    }
    return ZOE_OK;
}

/* ---- making ---- */

/* Adds scale * up down to w [out, in]. */
static zoe_status add_product(zoe_context *ctx, zoe_tensor w, const wan_pair *p)
{
    const size_t out = w.shape[0], in = w.shape[1], R = p->down.shape[0];
    void *up = NULL, *turned = NULL, *work = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc(ctx, &up, out * R, sizeof(float), "LoRA"));
    TRY_GOTO(zoe_alloc(ctx, &turned, in * (R + 1), sizeof(float), "LoRA")); /* and a row of down */
    zoe_tensor_widen(up, p->up, 0, out * R);
    for (size_t i = 0; i < out * R; i++)
        ((float *)up)[i] *= p->scale;
    float *row = (float *)turned + in * R;
    for (size_t r = 0; r < R; r++) {
        zoe_tensor_widen(row, p->down, r * in, in);
        for (size_t i = 0; i < in; i++)
            ((float *)turned)[i * R + r] = row[i];
    }
    const zoe_linear_args args = {.y = w,
                                  .x = zoe_tensor_2d(up, ZOE_F32, out, R),
                                  .w = zoe_tensor_2d(turned, ZOE_F32, in, R),
                                  .residual = w};
    const size_t bytes = zoe_linear_workspace(ctx, &args);
    TRY_GOTO(zoe_alloc(ctx, &work, bytes, 1, "LoRA"));
    status = zoe_linear(ctx, &args, (zoe_workspace){work, bytes});
done:
    zoe_free(work);
    zoe_free(turned);
    zoe_free(up);
    return status;
}

/* Adds scale * up [out, in] to w. */
static zoe_status add_difference(zoe_context *ctx, zoe_tensor w, const wan_pair *p)
{
    const size_t in = w.shape[1];
    void *row;
    TRY(zoe_alloc(ctx, &row, in, sizeof(float), "LoRA"));
    for (size_t r = 0; r < w.shape[0]; r++) {
        float *to = (float *)w.data + r * in;
        zoe_tensor_widen(row, p->up, r * in, in);
        for (size_t i = 0; i < in; i++)
            to[i] += p->scale * ((const float *)row)[i];
    }
    zoe_free(row);
    return ZOE_OK;
}

/* Of a layer with LoRAs, what is quantised is the sum in f32. */
static zoe_status quantise_sum(zoe_context *ctx, wan_linear *l)
{
    const size_t out = l->w.shape[0], in = l->w.shape[1];
    void *sum;
    zoe_status status = ZOE_OK;
    TRY(zoe_alloc(ctx, &sum, out * in, sizeof(float), "weights with LoRAs"));
    const zoe_tensor w = zoe_tensor_2d(sum, ZOE_F32, out, in);
    zoe_tensor_widen(sum, l->w, 0, out * in);
    for (const wan_pair *p = l->pairs; p && status == ZOE_OK; p = p->next)
        status = p->down.dtype == ZOE_NONE ? add_difference(ctx, w, p) : add_product(ctx, w, p);
    if (status == ZOE_OK)
        status = zoe_int8_weights_new(ctx, &l->int8, w, GROUP);
    zoe_free(sum);
    return status;
}

static zoe_status quantise_block(zoe_context *ctx, wan_block *b)
{
    wan_linear *layers[WAN_LARGE];
    wan_large_layers(layers, b);
    for (size_t j = 0; j < WAN_LARGE; j++) {
        wan_linear *l = layers[j];
        if (!l->int8)
            TRY(l->pairs ? quantise_sum(ctx, l) : zoe_int8_weights_new(ctx, &l->int8, l->w, GROUP));
    }
    return ZOE_OK;
}

zoe_status zoe_wan_quantise(zoe_context *ctx, zoe_wan *m, const zoe_store *store)
{
    zoe_status status = ZOE_OK;
    zoe_wan_walk_begin(ctx, m);
    for (size_t i = 0; i < m->dims.layers; i++) {
        wan_block there;
        TRY_GOTO(zoe_wan_walk_take(ctx, m, i, &there));
        status = quantise_block(ctx, &m->blocks[i]);
        zoe_wan_walk_release(m, i);
        if (status != ZOE_OK) {
            zoe_fail_in(ctx, "%s: block %zu", zoe_store_path(store), i);
            goto done;
        }
        TRY_GOTO(zoe_check_cancel(ctx));
        if (!m->streams)
            zoe_store_drop(store);
    }
    m->dims.int8 = true;
done:
    zoe_wan_walk_end(m);
    return status;
}

void zoe_wan_unquantise(zoe_wan *m)
{
    for (size_t i = 0; m->blocks && i < m->dims.layers; i++) {
        wan_linear *layers[WAN_LARGE];
        wan_large_layers(layers, &m->blocks[i]);
        for (size_t j = 0; j < WAN_LARGE; j++) {
            zoe_int8_weights_free(layers[j]->int8);
            layers[j]->int8 = NULL;
        }
    }
    m->dims.int8 = false;
}

/* Floats that a layer's sum with its LoRAs takes while it is made. */
static size_t scratch_floats(const wan_linear *l)
{
    const size_t out = l->w.shape[0], in = l->w.shape[1];
    size_t rank = 1;
    for (const wan_pair *p = l->pairs; p; p = p->next)
        if (p->down.dtype != ZOE_NONE)
            rank = zoe_max(rank, p->down.shape[0]);
    return l->pairs ? out * in + (out + in) * rank + in : 0;
}

zoe_wan_int8_bytes zoe_wan_int8_bytes_of(const zoe_wan *m)
{
    zoe_wan_int8_bytes bytes = {0};
    size_t floats = 0;
    for (size_t i = 0; i < m->dims.layers; i++) {
        wan_linear *layers[WAN_LARGE];
        size_t stored = 0;
        wan_large_layers(layers, &m->blocks[i]);
        for (size_t j = 0; j < WAN_LARGE; j++) {
            bytes.made += zoe_int8_weights_bytes(layers[j]->w, GROUP);
            stored += zoe_tensor_bytes(layers[j]->w);
            floats = zoe_max(floats, scratch_floats(layers[j]));
        }
        bytes.spared += i > 0 ? stored : 0; /* one block is there while it is read */
    }
    bytes.making = floats * sizeof(float);
    return bytes;
}
