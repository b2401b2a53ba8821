/* Between the plan of a pass over a clip (vae_plan.c) and the pass itself (vae.c). */
#ifndef ZOE_VAE_PLAN_H
#define ZOE_VAE_PLAN_H

#include "model/vae.h"

enum { VAE_FRAME_STRIDE = 4 /* frames to a latent frame, but for the first */ };

/* A pass over a clip: the part with attention, and the large one, which may run in bands, each with
 * what lies between them kept for the whole clip; or both as one run, chunk after chunk. With several
 * ranks it is the latter, of this one's patch. */
typedef struct vae_pass {
    bool banded;
    vae_part small, large;           /* not banded: `large` is all */
    size_t h, w, C;                  /* what lies between: [chunks][h][w][C] */
    size_t bytes;                    /* of all buffers */
    zoe_traffic traffic, ends, keys; /* parts of it: the result; keys and values */
    vae_gather result;               /* of patches, if there are several ranks */
} vae_pass;

/* watched: there is a probe, which wants whole frames. */
vae_pass zoe_vae_encode_pass(const zoe_context *ctx, const zoe_vae *vae, vae_patch part, size_t F,
                             bool watched);
vae_pass zoe_vae_decode_pass(const zoe_context *ctx, const zoe_vae *vae, vae_patch part, size_t f,
                             bool watched);

/* Latent frames of h x w, cut for the ranks that the VAE works on. ZOE_INVALID if the grid was asked for
 * and does not fit. */
vae_patch zoe_vae_patch_of(const zoe_vae *vae, size_t h, size_t w);
zoe_status zoe_vae_check_grid(zoe_context *ctx, const vae_patch *p);

/* Bytes of a buffer that holds `frames` frames apart from the networks' own, and of what lies between
 * the two parts. */
size_t zoe_vae_frames_bytes(size_t frames, size_t H, size_t W);
size_t zoe_vae_between_bytes(const vae_pass *p);

#endif
