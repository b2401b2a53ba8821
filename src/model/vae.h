/* Inside the Wan VAE; for the vae_*.c files only.
 *
 * Both directions are a line of layers over tensors [T, H, W, C] (channels last). A run goes
 * through the clip in chunks; every causal convolution keeps the last frames it saw, so that chunks
 * give what the whole clip would. */
#ifndef ZOE_VAE_H
#define ZOE_VAE_H

#include "model/vae_patch.h"
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
    /* Attention sees whole frames. Layers from `split` on (decoder) or before it (encoder) have none,
     * and are the large ones; they may run in bands of rows. */
    size_t split;
    bool packed; /* are the convolutions' weights there? */
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
    const zoe_store *store;
    size_t z;
    vae_net encoder, decoder;
    zoe_tensor quant, post_quant; /* [2 z, 2 z], [z, z]: 1x1x1 convolutions on the latent */
    float *quant_bias, *post_quant_bias;
    zoe_vectors vectors;
    size_t band;       /* rows of pixels; see zoe_vae_set_band */
    zoe_comm *comm;    /* see zoe_vae_set_ranks */
    size_t workers;    /* so many of its ranks have patches, at most */
    zoe_vae_grid grid; /* of them; no rows: chosen for the frames */
};

/* Makes the weights of one net ready, and frees those of the other. */
zoe_status zoe_vae_pack(zoe_context *ctx, zoe_vae *vae, bool encoder);

/* What one convolution of a layer keeps between calls. Each has its own frames before the chunk; a
 * layer that looks down has rows above the band besides, for every frame of the clip. */
typedef struct vae_slot {
    float *past;  /* [past_frames][rows][W][C]: frames seen last, rows of the present band */
    size_t count; /* how many are there */
    float *rows;  /* [frames][row_room][W][C]: rows of the bands before, as many as are wanted */
    size_t seen;  /* frames of this band that have passed */
    /* rooms, found by measuring: frames, elements of a frame; frames of the clip, rows, elements of
     * a row */
    size_t past_frames, past_room, frames, row_room, row_size;
} vae_slot;

/* Input; conv1 and conv2; in time. */
enum { VAE_SLOT_IN, VAE_SLOT_CONV1, VAE_SLOT_CONV2, VAE_SLOT_TIME, VAE_SLOTS };

/* Some layers of a net, how the clip is cut for them in time (chunks) and in space (bands). */
typedef struct vae_part {
    const vae_net *net;
    size_t from, to;                     /* layers from .. to - 1 */
    size_t chunks, first_frames, frames; /* of the first chunk and of each other, at the input */
    vae_patch patch;                     /* what of each frame is run */
    size_t scale;                        /* frames of the input are so many times the latent's */
    size_t band;                         /* rows of the output, even; 0: whole patches */
} vae_part;

/* One pass over a clip: for each band, each chunk. Arrays by layer have net->count + 1 elements, for
 * what lies between the layers too. */
typedef struct vae_run {
    vae_part part;
    vae_slot (*slots)[VAE_SLOTS];
    size_t *scales;    /* of frames before each layer */
    size_t *heights;   /* rows of the patch before each layer */
    size_t *widths;    /* and columns */
    size_t *before;    /* rows before each layer that earlier bands had */
    size_t *ends;      /* and with those of this band */
    float *buffers[3]; /* activations in turn */
    size_t room;       /* elements of each buffer */
    float *kept;       /* input of the level at work */
    size_t kept_room;
    vae_post post;
    zoe_workspace work;
    zoe_arena arena;
    void *arrays;
    size_t chunk; /* how many chunks of this band were run */
} vae_run;

/* Bytes of the buffers; SIZE_MAX: they cannot be told. Adds what the whole clip sends to traffic, and
 * what of it is keys and values to keys; both may be NULL. */
size_t zoe_vae_run_bytes(const zoe_context *ctx, const vae_part *part, zoe_traffic *traffic,
                         zoe_traffic *keys);
zoe_status zoe_vae_run_new(zoe_context *ctx, vae_run *run, const vae_part *part);
void zoe_vae_run_free(vae_run *run);
/* Bands of this run, 1 without. Begins number `band`; they come in order. */
size_t zoe_vae_run_bands(const vae_run *run);
void zoe_vae_run_band(vae_run *run, size_t band);
/* Rows of the input that the present band adds, and of the output that it makes. */
typedef struct vae_rows {
    size_t first, end;
} vae_rows;
vae_rows zoe_vae_run_takes(const vae_run *run);
vae_rows zoe_vae_run_gives(const vae_run *run);
/* Sends a chunk of the present band through the layers. in [T, rows, columns, C] of the patch, frames
 * at any stride; it may be written to. The result lies in a buffer of the run (or is `in`) until the next chunk. */
zoe_status zoe_vae_run_chunk(zoe_context *ctx, vae_run *run, zoe_tensor *out, zoe_tensor in,
                             const char *prefix, const zoe_probe *probe);

/* What a layer does to the height, and to the width, of frames. */
size_t zoe_vae_height(const vae_layer *layer, size_t H);

/* y += kept, brought to y's form, for the rows of y: y[:, 0] is row y_first of the whole, kept[:, 0]
 * is kept_first. Wan 2.2; up: kept is the smaller; chunk 0 is the first frame. */
void zoe_vae_add_kept(const zoe_context *ctx, const vae_layer *level, zoe_tensor y, size_t y_first,
                      zoe_tensor kept, size_t kept_first, bool up, bool first_chunk);

#endif
