/* Inside the Wan VAE; for the vae_*.c files only.
 *
 * Both directions are a line of layers over tensors [T, H, W, C] (channels last). A run goes
 * through the clip in chunks; every causal convolution keeps the last frames it saw, so that chunks
 * give what the whole clip would. */
#ifndef ZOE_VAE_H
#define ZOE_VAE_H

#include "model/weights.h"

typedef enum vae_kind {
    VAE_CONV,      /* 3x3x3 causal convolution */
    VAE_RESIDUAL,  /* norm, SiLU, conv, norm, SiLU, conv, plus the input */
    VAE_ATTENTION, /* one head over the positions of each frame */
    VAE_DOWN2D,    /* half height and width */
    VAE_DOWN3D,    /* the same, then half the frames (the first one stays) */
    VAE_UP2D,      /* double height and width */
    VAE_UP3D,      /* double the frames (the first one stays), then height and width */
    VAE_HEAD,      /* norm, SiLU, conv */
    VAE_LEVEL,     /* Wan 2.2: a level begins, its input is kept */
    VAE_LEVEL_END  /* the kept input, brought to the output's form without weights, is added */
} vae_kind;

/* The tensors of a layer of each kind; those of a residual block that changes its width besides. */
enum { VAE_NAMES = 6 };
extern const char *const zoe_vae_names[][VAE_NAMES];
extern const char *const zoe_vae_shortcut_names[2];

typedef struct vae_layer {
    vae_kind kind;
    char name[32]; /* such as "downsamples.3" */
    size_t in, out;
    float *norm1, *norm2; /* [in], [out] */
    zoe_conv_weights *conv1, *conv2, *shortcut;
    zoe_conv_weights *time,
        *time_odd;                    /* UP3D: the two frames that one becomes; DOWN3D: time only */
    size_t frame_factor, side_factor; /* VAE_LEVEL_END: of the level; 0: nothing is added */
    zoe_tensor qkv, proj;             /* VAE_ATTENTION: [3 C, C], [C, C] */
    float *qkv_bias, *proj_bias;
} vae_layer;

typedef struct vae_net {
    vae_layer *layers;
    size_t count;
} vae_net;

/* What tells one Wan VAE from another beside its tensors. */
typedef struct vae_form {
    const char *name;
    size_t z;
    size_t patch;            /* so many pixels a side are one position of the networks' frames */
    size_t stride;           /* pixels a side to a latent position */
    const float *mean, *std; /* of the latent's channels [z] */
} vae_form;
extern const vae_form zoe_vae_forms[2]; /* Wan 2.1, Wan 2.2 */
enum { VAE_Z_MAX = 48 };

struct zoe_vae {
    const vae_form *form;
    size_t z;
    vae_net encoder, decoder;
    zoe_tensor quant, post_quant; /* [2 z, 2 z], [z, z]: 1x1x1 convolutions on the latent */
    float *quant_bias, *post_quant_bias;
    zoe_vectors vectors;
    size_t packed_bytes;
};

/* Frames that a causal convolution saw last. */
typedef struct vae_past {
    float *frames; /* room for 2 */
    size_t count;  /* 0 to 2 */
} vae_past;

enum { VAE_SLOTS = 3 }; /* convolutions of one layer that look back: conv1, conv2, time */

/* One pass over a clip. */
typedef struct vae_run {
    const vae_net *net;
    size_t H, W;                 /* of the input */
    vae_past (*past)[VAE_SLOTS]; /* [net->count] */
    float *buffers[3];           /* activations in turn */
    size_t room;                 /* elements of each buffer */
    float *kept;                 /* input of the level at work */
    size_t kept_room;
    zoe_workspace work;
    zoe_arena arena;
    size_t chunk; /* how many chunks were run */
} vae_run;

size_t zoe_vae_run_bytes(const zoe_context *ctx, const vae_net *net, size_t T, size_t H, size_t W);
/* Buffers for chunks of at most T frames of H x W. */
zoe_status zoe_vae_run_new(zoe_context *ctx, vae_run *run, const vae_net *net, size_t T, size_t H,
                           size_t W);
void zoe_vae_run_free(vae_run *run);
/* Sends a chunk through the net. in [T, H, W, C]; the result lies in a buffer of the run until the
 * next chunk. */
zoe_status zoe_vae_run_chunk(zoe_context *ctx, vae_run *run, zoe_tensor *out, zoe_tensor in,
                             const char *prefix, const zoe_probe *probe);

#endif
