/* Inside the Wan DiT; for the wan_*.c files only. */
#ifndef ZOE_WAN_H
#define ZOE_WAN_H

#include "model/weights.h"

typedef struct wan_linear {
    zoe_tensor w; /* [out, in], stored form */
    float *bias;  /* [out] */
} wan_linear;

typedef struct wan_attention {
    wan_linear q, k, v, o;
    float *norm_q, *norm_k; /* [dim] */
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
    wan_block *blocks;
    zoe_vectors vectors;
};

struct zoe_wan_text {
    size_t rows;       /* keys: real context rows and, if any are padded, one for all of those */
    size_t last_count; /* what the last row stands for */
    size_t layers, dim;
    zoe_dtype dtype;
    void *data; /* [layers, 2 (k, v), rows, dim] */
};

struct zoe_wan_work {
    zoe_wan_dims dims;
    bool bf16;
    size_t f, h, w;       /* latent grid */
    size_t rows, columns; /* h/2, w/2 */
    size_t L, chunk;      /* tokens, and how many of them one pass of a row-wise part takes */
    zoe_arena arena;
    zoe_tensor cos, sin;   /* [L, head width / 2] f32 */
    zoe_tensor x;          /* [L, dim] f32: the residual stream */
    zoe_tensor q, k, v, o; /* [L, dim] */
    zoe_tensor a, b;       /* [chunk, dim] */
    zoe_tensor hidden;     /* [chunk, ffn_dim] */
    zoe_tensor patches;    /* [chunk, 4 in_dim] */
    zoe_tensor head;       /* [chunk, 4 out_dim] f32 */
    zoe_tensor headin;     /* [chunk, dim] f32 */
    float *sinusoid;       /* [freq_dim] */
    float *e, *e_silu;     /* [dim] */
    float *e0;             /* [6, dim] */
    float *modulation;     /* [6, dim] */
    zoe_workspace work;
};

/* The types of activations. */
static inline zoe_dtype wan_type(bool bf16)
{
    return bf16 ? ZOE_BF16 : ZOE_F32;
}

/* Rows first..first+count-1 of a [rows, n] tensor. */
static inline zoe_tensor wan_rows(zoe_tensor t, size_t first, size_t count)
{
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

zoe_status zoe_wan_blocks(zoe_context *ctx, const zoe_wan *m, zoe_wan_work *w,
                          const zoe_wan_text *text, const zoe_probe *probe);

#endif
