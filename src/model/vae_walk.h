/* Between the plan of a pass (vae_slot.c) and its walk through the layers (vae_run.c). */
#ifndef ZOE_VAE_WALK_H
#define ZOE_VAE_WALK_H

#include "model/vae.h"

/* Rows between the two convolutions of residual block i for `end` rows of output; also the input
 * rows of a single convolution. */
size_t zoe_vae_middle(const vae_run *run, size_t i, size_t end);
/* The first input row of layer i that is still wanted when `end` rows of output are made; of
 * VAE_LEVEL_END, of the input of its level. */
size_t zoe_vae_first_row(const vae_run *run, size_t i, size_t end);

/* The ends of the level in which layer i lies, and whether it makes frames larger, asked of its
 * VAE_LEVEL_END. */
size_t zoe_vae_level_begin(const vae_run *run, size_t i);
size_t zoe_vae_level_end(const vae_run *run, size_t i);
bool zoe_vae_is_up(const vae_run *run, size_t i);

/* A chunk without data: only sizes are noted. */
zoe_status zoe_vae_walk(zoe_context *ctx, vae_run *run, zoe_tensor in);

#endif
