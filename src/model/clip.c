/* The image tower of CLIP (ViT-H/14 of open-clip's XLM-RoBERTa model): a picture to the features that
 * the image branch of Wan 2.1 takes. Computed in f32.
 * Source: Wan2.1 wan/modules/clip.py, class VisionTransformer. */
#include <stdio.h>

#include "model/weights.h"

enum { HEAD_WIDTH = 80 }; /* of ViT-H */

typedef struct clip_linear {
    zoe_tensor w; /* [out, in], stored form */
    float *bias;  /* [out] */
} clip_linear;

typedef struct clip_norm {
    float *gamma, *beta; /* [dim] */
} clip_norm;

typedef struct clip_block {
    clip_norm norm1, norm2;
    clip_linear q, k, v, o, up, down;
} clip_block;

struct zoe_clip {
    size_t dim, heads, hidden, layers, patch, side; /* side: patches a side */
    size_t tokens;                                  /* 1 + side^2 */
    float *class_token;                             /* [dim] */
    float *positions;                               /* [tokens, dim] */
    zoe_tensor patches;                             /* [dim, 3 patch^2] */
    clip_norm pre_norm;
    clip_block *blocks;
    zoe_vectors vectors;
};

/* ---- load ---- */

typedef struct loader {
    zoe_context *ctx;
    zoe_clip *m;
    const zoe_store *store;
} loader;

static const char blocks_prefix[] = "visual.transformer.";

static zoe_status load_vector(const loader *l, float **values, const char *prefix, const char *name,
                              size_t n)
{
    return zoe_vector(l->ctx, &l->m->vectors, l->store, values, prefix, name, n);
}

static zoe_status load_norm(const loader *l, clip_norm *norm, const char *prefix, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    TRY(load_vector(l, &norm->gamma, full, ".weight", l->m->dim));
    return load_vector(l, &norm->beta, full, ".bias", l->m->dim);
}

static zoe_status load_linear(const loader *l, clip_linear *linear, const char *prefix,
                              const char *name, size_t out, size_t in)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    TRY(zoe_matrix(l->ctx, l->store, &linear->w, full, ".weight", out, in));
    return load_vector(l, &linear->bias, full, ".bias", out);
}

/* q, k and v one by one, or as the rows of one matrix. */
static zoe_status load_qkv(const loader *l, clip_block *b, const char *prefix)
{
    const size_t D = l->m->dim;
    clip_linear *const parts[3] = {&b->q, &b->k, &b->v};
    static const char *const names[3] = {"attn.q", "attn.k", "attn.v"};
    clip_linear all;
    char merged[96];
    zoe_tensor t;
    snprintf(merged, sizeof merged, "%sattn.to_qkv.weight", prefix);
    const bool one = zoe_store_find(l->store, merged, &t);
    if (one)
        TRY(load_linear(l, &all, prefix, "attn.to_qkv", 3 * D, D));
    if (one && all.w.scaling)
        return zoe_fail(l->ctx, ZOE_UNSUPPORTED, "%s: tensor %s has scales, which is not supported",
                        zoe_store_path(l->store), merged);
    for (size_t i = 0; i < 3; i++) {
        if (!one) {
            TRY(load_linear(l, parts[i], prefix, names[i], D, D));
            continue;
        }
        unsigned char *rows = (unsigned char *)all.w.data + zoe_run_bytes(all.w.dtype, i * D * D);
        *parts[i] = (clip_linear){zoe_tensor_2d(rows, all.w.dtype, D, D), all.bias + i * D};
    }
    return ZOE_OK;
}

static zoe_status load_block(const loader *l, clip_block *b, size_t i)
{
    const size_t D = l->m->dim;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%zu.", blocks_prefix, i);
    TRY(load_norm(l, &b->norm1, prefix, "norm1"));
    TRY(load_qkv(l, b, prefix));
    TRY(load_linear(l, &b->o, prefix, "attn.proj", D, D));
    TRY(load_norm(l, &b->norm2, prefix, "norm2"));
    TRY(load_linear(l, &b->up, prefix, "mlp.0", l->m->hidden, D));
    return load_linear(l, &b->down, prefix, "mlp.2", D, l->m->hidden);
}

static zoe_status infer_dims(const loader *l)
{
    zoe_clip *m = l->m;
    zoe_tensor t;
    if (!zoe_store_find(l->store, "visual.patch_embedding.weight", &t) || t.rank != 4 ||
        t.shape[1] != 3 || t.shape[2] != t.shape[3] || t.shape[2] == 0)
        return zoe_fail(l->ctx, ZOE_FORMAT,
                        "%s: no CLIP image tower: a tensor visual.patch_embedding.weight [dim, 3, "
                        "patch, patch] is wanted",
                        zoe_store_path(l->store));
    m->dim = t.shape[0];
    m->patch = t.shape[2];
    TRY(zoe_matrix(l->ctx, l->store, &m->patches, "", "visual.patch_embedding.weight", m->dim, 0));
    TRY(zoe_matrix(l->ctx, l->store, &t, blocks_prefix, "0.mlp.0.weight", 0, m->dim));
    m->hidden = t.shape[0];
    if (!zoe_store_find(l->store, "visual.pos_embedding", &t) || m->dim == 0)
        return zoe_fail(l->ctx, ZOE_MISSING, "%s: tensor visual.pos_embedding is not there",
                        zoe_store_path(l->store));
    m->tokens = zoe_tensor_count(t) / m->dim;
    while ((m->side + 1) * (m->side + 1) < m->tokens)
        m->side++;
    m->layers = zoe_network_blocks(l->store, blocks_prefix);
    m->heads = m->dim % HEAD_WIDTH ? 0 : m->dim / HEAD_WIDTH;
    if (m->tokens != 1 + m->side * m->side || m->side == 0 || m->layers < 2 || m->heads == 0)
        return zoe_fail(l->ctx, ZOE_UNSUPPORTED,
                        "%s: a CLIP image tower of width %zu (a multiple of %d is wanted), %zu "
                        "positions (one more than a square) and %zu layers (2 at least)",
                        zoe_store_path(l->store), m->dim, (int)HEAD_WIDTH, m->tokens, m->layers);
    return ZOE_OK;
}

static zoe_status load(const loader *l)
{
    zoe_clip *m = l->m;
    void *p;
    TRY(infer_dims(l));
    /* The features are those before the last block. */
    m->layers--;
    TRY(zoe_alloc_zero(l->ctx, &p, m->layers, sizeof *m->blocks, "CLIP"));
    m->blocks = p;
    TRY(load_vector(l, &m->class_token, "", "visual.cls_embedding", m->dim));
    TRY(load_vector(l, &m->positions, "", "visual.pos_embedding", m->tokens * m->dim));
    TRY(load_norm(l, &m->pre_norm, "visual.", "pre_norm"));
    for (size_t i = 0; i < m->layers; i++)
        TRY(load_block(l, &m->blocks[i], i));
    return ZOE_OK;
}

zoe_status zoe_clip_open(zoe_context *ctx, zoe_clip **clip, const zoe_store *store)
{
    void *p;
    *clip = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **clip, "CLIP"));
    const zoe_status status = load(&(loader){.ctx = ctx, .m = p, .store = store});
    if (status != ZOE_OK)
        zoe_clip_close(p);
    else
        *clip = p;
    return status;
}

void zoe_clip_close(zoe_clip *clip)
{
    if (!clip)
        return;
    zoe_vectors_free(&clip->vectors);
    zoe_free(clip->blocks);
    zoe_free(clip);
}

size_t zoe_clip_dim(const zoe_clip *clip)
{
    return clip->dim;
}

size_t zoe_clip_tokens(const zoe_clip *clip)
{
    return clip->tokens;
}

size_t zoe_clip_side(const zoe_clip *clip)
{
    return clip->side * clip->patch;
}

/* ---- run ---- */

typedef struct clip_run {
    zoe_context *ctx;
    const zoe_clip *m;
    zoe_arena arena;
    zoe_tensor pixels;        /* [side^2, 3 patch^2] */
    zoe_tensor x, a, q, k, v; /* [tokens, dim] */
    zoe_tensor hidden;        /* [tokens, hidden] */
    zoe_workspace work;
} clip_run;

static zoe_linear_args linear_args(zoe_tensor y, zoe_tensor x, const clip_linear *l)
{
    return (zoe_linear_args){
        .y = y, .x = x, .w = l->w, .bias = zoe_tensor_1d(l->bias, ZOE_F32, l->w.shape[0])};
}

static zoe_attention_args attention_args(const clip_run *r)
{
    const size_t L = r->m->tokens, N = r->m->heads, D = r->m->dim / N;
    return (zoe_attention_args){.o = zoe_tensor_3d(r->a.data, ZOE_F32, L, N, D),
                                .q = zoe_tensor_3d(r->q.data, ZOE_F32, L, N, D),
                                .k = zoe_tensor_3d(r->k.data, ZOE_F32, L, N, D),
                                .v = zoe_tensor_3d(r->v.data, ZOE_F32, L, N, D),
                                .scale = 1.0f / sqrtf((float)D),
                                .last_count = 1};
}

/* Rows first..tokens-1 of a [tokens, n] tensor. */
static zoe_tensor rows_from(zoe_tensor t, size_t first)
{
    float *data = t.data;
    t.data = data ? data + first * t.shape[1] : NULL;
    t.shape[0] -= first;
    return t;
}

static zoe_linear_args patch_args(const clip_run *r)
{
    return (zoe_linear_args){.y = rows_from(r->x, 1), .x = r->pixels, .w = r->m->patches};
}

static size_t operator_bytes(const zoe_context *ctx, const clip_run *r)
{
    const clip_block *b = &r->m->blocks[0];
    const zoe_attention_args attention = attention_args(r);
    const zoe_linear_args linears[] = {
        patch_args(r),
        linear_args(r->q, r->a, &b->q),
        linear_args(r->hidden, r->a, &b->up),
        linear_args(r->x, r->hidden, &b->down),
    };
    size_t bytes = zoe_attention_workspace(ctx, &attention);
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        bytes = zoe_max(bytes, zoe_linear_workspace(ctx, &linears[i]));
    return bytes;
}

static void lay_out(const zoe_context *ctx, clip_run *r)
{
    const zoe_clip *m = r->m;
    zoe_arena *arena = &r->arena;
    r->pixels = zoe_arena_2d(arena, ZOE_F32, m->side * m->side, 3 * m->patch * m->patch);
    r->x = zoe_arena_2d(arena, ZOE_F32, m->tokens, m->dim);
    r->a = zoe_arena_2d(arena, ZOE_F32, m->tokens, m->dim);
    r->q = zoe_arena_2d(arena, ZOE_F32, m->tokens, m->dim);
    r->k = zoe_arena_2d(arena, ZOE_F32, m->tokens, m->dim);
    r->v = zoe_arena_2d(arena, ZOE_F32, m->tokens, m->dim);
    r->hidden = zoe_arena_2d(arena, ZOE_F32, m->tokens, m->hidden);
    r->work.bytes = operator_bytes(ctx, r);
    r->work.data = zoe_arena_take(arena, r->work.bytes, 1);
}

zoe_bytes zoe_clip_bytes(const zoe_context *ctx, const zoe_clip *clip)
{
    clip_run dry = {.m = clip};
    lay_out(ctx, &dry);
    return (zoe_bytes){.weights = clip->vectors.bytes, .work = dry.arena.used};
}

/* Patches of the picture [3, S, S] in [-1, 1], brought to the statistics that CLIP was trained with. */
static void gather(const clip_run *r, const float *picture)
{
    static const float mean[3] = {0.48145466f, 0.4578275f, 0.40821073f};
    static const float deviation[3] = {0.26862954f, 0.26130258f, 0.27577711f};
    const size_t P = r->m->patch, n = r->m->side, S = P * n;
    float *out = r->pixels.data;
    for (size_t patch = 0; patch < n * n; patch++)
        for (size_t c = 0; c < 3; c++)
            for (size_t y = 0; y < P; y++)
                for (size_t x = 0; x < P; x++) {
                    const size_t row = patch / n * P + y, column = patch % n * P + x;
                    const float v = picture[(c * S + row) * S + column] * 0.5f + 0.5f;
                    *out++ = (v - mean[c]) / deviation[c];
                }
}

static zoe_status norm(const clip_run *r, zoe_tensor y, zoe_tensor x, const clip_norm *n)
{
    return zoe_layer_norm(
        r->ctx, &(zoe_layer_norm_args){.y = y,
                                       .x = x,
                                       .gamma = zoe_tensor_1d(n->gamma, ZOE_F32, r->m->dim),
                                       .beta = zoe_tensor_1d(n->beta, ZOE_F32, r->m->dim),
                                       .eps = 1e-5f});
}

static zoe_status linear(const clip_run *r, zoe_tensor y, zoe_tensor x, const clip_linear *l,
                         zoe_activation activation, zoe_tensor residual)
{
    zoe_linear_args args = linear_args(y, x, l);
    args.activation = activation;
    args.residual = residual;
    return zoe_linear(r->ctx, &args, r->work);
}

static zoe_status embed(const clip_run *r, const float *picture)
{
    const zoe_clip *m = r->m;
    float *x = r->x.data;
    gather(r, picture);
    const zoe_linear_args args = patch_args(r);
    TRY(zoe_linear(r->ctx, &args, r->work));
    memcpy(x, m->class_token, m->dim * sizeof *x);
    for (size_t i = 0; i < m->tokens * m->dim; i++)
        x[i] += m->positions[i];
    return norm(r, r->x, r->x, &m->pre_norm);
}

static zoe_status run_block(const clip_run *r, const clip_block *b)
{
    const zoe_tensor none = zoe_tensor_none();
    const zoe_attention_args attention = attention_args(r);
    TRY(zoe_check_cancel(r->ctx));
    TRY(norm(r, r->a, r->x, &b->norm1));
    TRY(linear(r, r->q, r->a, &b->q, ZOE_ACT_NONE, none));
    TRY(linear(r, r->k, r->a, &b->k, ZOE_ACT_NONE, none));
    TRY(linear(r, r->v, r->a, &b->v, ZOE_ACT_NONE, none));
    TRY(zoe_attention(r->ctx, &attention, r->work));
    TRY(linear(r, r->x, r->a, &b->o, ZOE_ACT_NONE, r->x));
    TRY(norm(r, r->a, r->x, &b->norm2));
    TRY(linear(r, r->hidden, r->a, &b->up, ZOE_ACT_GELU_ERF, none));
    return linear(r, r->x, r->hidden, &b->down, ZOE_ACT_NONE, r->x);
}

zoe_status zoe_clip_encode(zoe_context *ctx, const zoe_clip *clip, float *out, const float *picture)
{
    clip_run r = {.ctx = ctx, .m = clip};
    zoe_status status;
    TRY(zoe_arena_new(ctx, &r.arena, zoe_clip_bytes(ctx, clip).work, "CLIP activations"));
    lay_out(ctx, &r);
    TRY_GOTO(zoe_arena_status(ctx, &r.arena, "CLIP activations"));
    TRY_GOTO(embed(&r, picture));
    for (size_t i = 0; i < clip->layers; i++)
        TRY_GOTO(run_block(&r, &clip->blocks[i]));
    memcpy(out, r.x.data, clip->tokens * clip->dim * sizeof *out);
done:
    zoe_arena_free(&r.arena);
    return status;
}
