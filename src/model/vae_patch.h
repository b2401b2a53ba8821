/* Inside the Wan VAE: frames shared between ranks, of which each has one patch. */
#ifndef ZOE_VAE_PATCH_H
#define ZOE_VAE_PATCH_H

#include "model/model.h"

/* Who has what. Bounds lie at multiples of two latent positions, so that at every level of the
 * networks a patch begins and ends on the grid of 2 x 2 outputs that Winograd's convolution makes
 * together, strided convolutions begin on even rows and columns, and every value is that of the
 * whole frame. One rank is a grid of 1 x 1. */
typedef struct vae_patch {
    zoe_comm *comm; /* NULL: one rank, or a plan without the ranks */
    size_t ranks;   /* of comm */
    size_t rank;    /* this one; behind the grid's: it has no patch */
    zoe_vae_grid grid;
    size_t h, w; /* of the latent's frames */
} vae_patch;

/* Are there several patches? Has this rank one? */
bool zoe_vae_patch_shared(const vae_patch *p);
bool zoe_vae_patch_works(const vae_patch *p);

/* A part of frames. */
typedef struct vae_area {
    size_t top, left, rows, columns;
} vae_area;
/* The patch of a rank in frames that are `scale` times as large as the latent's; no rows and columns
 * if it has none. */
vae_area zoe_vae_patch_area(const vae_patch *p, size_t rank, size_t scale);
/* That part of t [T, H, W, C]. */
zoe_tensor zoe_vae_window(zoe_tensor t, vae_area area);
/* y = x, [T, rows, columns, C] at any strides of all but the channels. */
void zoe_vae_copy(const zoe_context *ctx, zoe_tensor y, zoe_tensor x);

/* ---- what goes between the ranks of a run ---- */

/* The same code plans and runs: while planning, room and traffic are found and nothing is sent. */
typedef struct vae_post {
    size_t planned;            /* 0: it is real; else so many chunks of the clip are alike */
    float *data;               /* messages are put together here */
    size_t room;               /* floats that this takes at most */
    zoe_traffic traffic, keys; /* keys: that part of it that is keys and values */
} vae_post;

/* How far a tensor goes beyond the patch: 1 on sides where another rank goes on. */
typedef struct vae_margin {
    size_t up, down, left, right;
} vae_margin;
/* What a 3 x 3 kernel sees beyond its patch; in steps of two, `after`, only below and to the right. */
vae_margin zoe_vae_patch_margin(const vae_patch *p, bool after);
/* t without its margin. */
zoe_tensor zoe_vae_inside(zoe_tensor t, vae_margin margin);
/* Fills the margin of t [T, rows, columns, C], of the patch's size and zoe_vae_patch_margin(p,
 * after) more, with what the neighbours have inside theirs. All eight are written to at once: as many
 * bytes as rows first and then longer columns would be, in one round instead of two.
 * Errors: those of exchanges. */
zoe_status zoe_vae_patch_edges(zoe_context *ctx, const vae_patch *p, vae_post *post, zoe_tensor t,
                               bool after);

/* Who gets the whole: the first rank, those that have a patch, or every one. */
typedef enum vae_receivers { VAE_TO_FIRST, VAE_TO_PATCHES, VAE_TO_ALL } vae_receivers;

/* Patches [T, rows, columns, C] on their way to those who want the whole. */
typedef struct vae_gather {
    vae_receivers to;
    size_t T, C, scale; /* frames are scale h x scale w */
    float *data;        /* zoe_vae_gather_room floats */
    zoe_exchange exchange;
} vae_gather;

/* Floats that it takes on this rank: all patches in the order of ranks, or its own. */
size_t zoe_vae_gather_room(const vae_patch *p, const vae_gather *g);
/* Adds what it sends and receives `times` times. */
void zoe_vae_gather_count(const vae_patch *p, const vae_gather *g, size_t times,
                          zoe_traffic *traffic);
/* Sends `mine`, which is copied, and returns; the data are not to be touched until wait. */
zoe_status zoe_vae_gather_start(zoe_context *ctx, const vae_patch *p, vae_gather *g,
                                zoe_tensor mine, const char *what);
zoe_status zoe_vae_gather_wait(zoe_context *ctx, const vae_patch *p, vae_gather *g);
/* The patch of a rank, [T, rows, columns, C] dense; on those who get the whole. */
zoe_tensor zoe_vae_gathered(const vae_patch *p, const vae_gather *g, size_t rank);
/* Puts all patches at their place in whole [T, H, W, C]. */
void zoe_vae_gather_place(const zoe_context *ctx, const vae_patch *p, const vae_gather *g,
                          zoe_tensor whole);

#endif
