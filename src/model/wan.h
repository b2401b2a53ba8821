/* Inside the Wan DiT; for the wan_*.c files only. */
#ifndef ZOE_WAN_H
#define ZOE_WAN_H

#include "model/weights.h"

/* What a LoRA adds to a layer: scale * up (down x), or scale * up x if there is no down. */
typedef struct wan_pair {
    struct wan_pair *next; /* NULL: the last one */
    zoe_tensor down, up;   /* [R, in], [out, R]; stored form */
    float scale;
} wan_pair;

/* The pairs that one LoRA gave to a network. */
typedef struct wan_adapter {
    struct wan_adapter *next;
    size_t used;
    wan_pair pairs[];
} wan_adapter;

typedef struct wan_linear {
    zoe_tensor w; /* [out, in], stored form */
    float *bias;  /* [out] */
    wan_pair *pairs;
    zoe_int8_weights *int8; /* of zoe_wan_quantise, with the pairs: takes the place of both */
} wan_linear;

typedef struct wan_attention {
    wan_linear q, k, v, o;
    float *norm_q, *norm_k;  /* [dim] */
    wan_linear k_img, v_img; /* of a cross-attention with an image branch */
    float *norm_k_img;       /* [dim] */
} wan_attention;

typedef struct wan_block {
    float *modulation; /* [6, dim]: shift, scale, gate of self-attention; shift, scale, gate of the
                          FFN */
    wan_attention self, cross;
    float *norm3_weight, *norm3_bias; /* [dim] */
    wan_linear ffn0, ffn2;
} wan_block;

struct zoe_wan {
    zoe_wan_dims dims;
    bool bf16;
    wan_linear patch, text0, text2, time0, time2, time_projection, head;
    float *head_modulation; /* [2, dim] */
    struct {
        float *positions;    /* [dims.image_positions, image_dim] */
        float *norm_in[2];   /* gamma, beta [image_dim] */
        wan_linear up, down; /* [image_dim, image_dim], [dim, image_dim] */
        float *norm_out[2];  /* [dim] */
    } image;                 /* if dims.image_dim > 0 */
    wan_block *blocks;
    zoe_vectors vectors;
    wan_adapter *adapters;
    size_t adapter_bytes;
    struct wan_streams *streams; /* NULL: all weights are in memory, or the system sees to it */
};

struct zoe_wan_text {
    size_t rows;       /* keys: real context rows and, if any are padded, one for all of those */
    size_t last_count; /* what the last row stands for */
    size_t layers, dim;
    zoe_dtype dtype;
    void *data; /* [layers, 2 (k, v), rows, dim] */
    size_t image_rows;
    void *image; /* [layers, 2 (k, v), image_rows, dim], NULL if there are none */
};

/* k (which 0) or v (1) of a layer, of the text or of the image. */
static inline zoe_tensor wan_slot(const zoe_wan_text *t, bool image, size_t layer, size_t which)
{
    const size_t rows = image ? t->image_rows : t->rows;
    const size_t bytes = rows * t->dim * zoe_dtype_bytes(t->dtype);
    return zoe_tensor_2d((unsigned char *)(image ? t->image : t->data) +
                             (2 * layer + which) * bytes,
                         t->dtype, rows, t->dim);
}

struct zoe_wan_work {
    zoe_wan_dims dims;
    bool bf16;
    size_t f, h, w;               /* latent grid */
    size_t rows, columns;         /* h/2, w/2 */
    const zoe_sequence *sequence; /* NULL: one rank */
    size_t tokens, first;         /* of all ranks, and which of them is the first of this one */
    size_t L, chunk; /* its tokens, and how many of them one pass of a row-wise part takes */
    size_t still;    /* the first of them, whose timestep is 0 */
    zoe_arena arena;
    zoe_tensor cos, sin;   /* [L, head width / 2] f32 */
    zoe_tensor x;          /* [L, dim] f32: the residual stream */
    zoe_tensor q, k, v, o; /* [L, dim] */
    zoe_tensor a, b;       /* [chunk, dim] */
    zoe_tensor c;          /* [chunk, dim], with an image branch */
    zoe_tensor hidden;     /* [chunk, ffn_dim] */
    zoe_tensor patches;    /* [chunk, 4 in_dim] */
    zoe_tensor head;       /* [chunk, 4 out_dim] f32; with several ranks, of all tokens */
    size_t *head_bytes;    /* with several ranks: what each of them has of it */
    zoe_tensor headin;     /* [chunk, dim] f32 */
    zoe_tensor low;        /* [chunk, adapter_rank] f32 */
    float *sinusoid;       /* [WAN_TIMES, freq_dim] */
    float *e, *e_silu;     /* [WAN_TIMES, dim] */
    float *e0;             /* [WAN_TIMES, 6, dim] */
    float *modulation;     /* [WAN_TIMES, 6, dim] */
    zoe_workspace work;
    zoe_wan_route route; /* NULL: every block runs */
    void *route_user;
    void *second; /* of zoe_wan_work_pair: the residual stream of the other pass, as large as x */
};

/* Timesteps of one pass: 0 of the still tokens, and that of the others. */
enum { WAN_STILL, WAN_MOVING, WAN_TIMES };

/* A run of tokens of one timestep. */
typedef struct wan_chunk {
    size_t first, count;
    size_t time;
} wan_chunk;

/* The chunk that begins at token `first`, of at most `most` tokens. */
static inline wan_chunk wan_chunk_at(const zoe_wan_work *w, size_t first, size_t most)
{
    const bool still = first < w->still;
    const size_t left = (still ? w->still : w->L) - first;
    return (wan_chunk){first, left < most ? left : most, still ? WAN_STILL : WAN_MOVING};
}

/* The types of activations. */
static inline zoe_dtype wan_type(bool bf16)
{
    return bf16 ? ZOE_BF16 : ZOE_F32;
}

/* Rows first..first+count-1 of a [rows, n] tensor. */
static inline zoe_tensor wan_rows(zoe_tensor t, size_t first, size_t count)
{
    if (t.data) /* none while sizes are measured */
        t.data = (unsigned char *)t.data + first * (size_t)t.stride[0] * zoe_dtype_bytes(t.dtype);
    t.shape[0] = count;
    return t;
}

/* [rows, dim] seen as [rows, heads, head width]. */
static inline zoe_tensor wan_heads(zoe_tensor t, size_t heads)
{
    zoe_tensor r = zoe_tensor_3d(t.data, t.dtype, t.shape[0], heads, t.shape[1] / heads);
    r.stride[0] = t.stride[0];
    return r;
}

/* The self-attention of every block. */
static inline zoe_sequence_attention_args wan_self_attention(const zoe_wan_work *w)
{
    const size_t heads = w->dims.heads;
    return (zoe_sequence_attention_args){.o = wan_heads(w->o, heads),
                                         .q = wan_heads(w->q, heads),
                                         .k = wan_heads(w->k, heads),
                                         .v = wan_heads(w->v, heads),
                                         .tokens = w->tokens,
                                         .scale = 1.0f / sqrtf((float)(w->dims.dim / heads))};
}

/* Runs a layer: args have everything but w and bias. `low` [rows, adapter_rank] f32 is for the products
 * of LoRAs, which go through x in runs of its rows. */
zoe_status zoe_wan_linear_run(zoe_context *ctx, const wan_linear *l, zoe_linear_args args,
                              zoe_tensor low, zoe_workspace work);
/* The same where l->int8 is there; args have the bias as well. */
zoe_status zoe_wan_linear_int8(zoe_context *ctx, const wan_linear *l, const zoe_linear_args *args,
                               zoe_workspace work);
/* Its workspace in a pass of so many tokens. */
size_t zoe_wan_int8_work_bytes(const zoe_context *ctx, const zoe_wan_dims *dims, bool bf16,
                               size_t tokens);
/* The first product of a LoRA, for plans. */
static inline zoe_linear_args wan_low_args(zoe_tensor low, zoe_tensor x)
{
    return (zoe_linear_args){
        .y = low, .x = x, .w = zoe_tensor_2d(NULL, ZOE_F32, low.shape[1], x.shape[1])};
}

/* Every layer and vector of the network, by official name; stops at the first failure. */
typedef struct wan_visitor {
    zoe_status (*linear)(void *user, wan_linear *linear, const char *name, size_t out, size_t in);
    zoe_status (*vector)(void *user, float **values, const char *prefix, const char *name,
                         size_t n);
    void *user;
} wan_visitor;
zoe_status zoe_wan_visit(zoe_wan *m, const wan_visitor *visitor);
void zoe_wan_adapters_free(zoe_wan *m);

zoe_status zoe_wan_blocks(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w,
                          const zoe_wan_text *text, const zoe_probe *probe);
/* All blocks for two residual streams, w->x and `second`, each with its text. */
zoe_status zoe_wan_blocks_pair(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w,
                               zoe_tensor second, const zoe_wan_text *const text[2]);

/* ---- weights that are streamed; without streams all of this does nothing ---- */

enum { WAN_LARGE = 8 };
/* The layers of a block that a step runs through and that are worth streaming. */
static inline void wan_large_layers(wan_linear *layers[WAN_LARGE], wan_block *b)
{
    wan_linear *const all[WAN_LARGE] = {&b->self.q,  &b->self.k,  &b->self.v, &b->self.o,
                                        &b->cross.q, &b->cross.o, &b->ffn0,   &b->ffn2};
    memcpy(layers, all, sizeof all);
}

/* A walk over the blocks; *block is block i with its weights there, until it is released. Nothing is
 * read in advance for a network in int8, which has its own. */
void zoe_wan_walk_begin(zoe_context *ctx, const zoe_wan *m);
zoe_status zoe_wan_walk_take(zoe_context *ctx, const zoe_wan *m, size_t i, wan_block *block);
void zoe_wan_walk_release(const zoe_wan *m, size_t i);
void zoe_wan_walk_end(const zoe_wan *m);
/* Blocks that are gathered from the ranks of comm (wan_shard.c); NULL is fine for _free. */
struct wan_shard;
zoe_status zoe_wan_shard_new(zoe_context *ctx, struct wan_shard **shard, const zoe_wan *m,
                             zoe_comm *comm);
void zoe_wan_shard_free(struct wan_shard *shard);
zoe_status zoe_wan_shard_take(zoe_context *ctx, struct wan_shard *shard, const zoe_wan *m, size_t i,
                              wan_block *block);
void zoe_wan_shard_end(zoe_context *ctx, struct wan_shard *shard);
/* The same over what makes the keys and values of texts. */
void zoe_wan_texts_begin(zoe_context *ctx, const zoe_wan *m);
zoe_status zoe_wan_text_take(zoe_context *ctx, const zoe_wan *m, size_t i);
void zoe_wan_text_release(const zoe_wan *m, size_t i);
void zoe_wan_texts_end(const zoe_wan *m);

#endif
