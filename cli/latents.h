/* What `zoe compare` knows of latents. */
#ifndef ZOE_LATENTS_H
#define ZOE_LATENTS_H

#include <stdbool.h>

#include "base/base.h"

/* Is this a safetensors file, by its name or by its first bytes? Regular files only. */
bool zoe_latents_are_at(const char *path);

typedef struct zoe_latents_request {
    const char *path[2];
    size_t frames; /* 0 for all */
    bool json;
} zoe_latents_request;

/* Compares the tensors "latents" [C, F, H, W] (a leading 1 is left out; of another rank, all is one
 * frame) of two safetensors files and prints the figures. The first is the one that the others are
 * measured by: *psnr has the range of its values as the peak.
 *
 * Errors: those of zoe_store_open and zoe_store_get; ZOE_INVALID (the shapes differ), ZOE_NONFINITE
 * (the file and the place are named), ZOE_NOMEM, ZOE_CANCELLED. */
zoe_status zoe_latents_compare(zoe_context *ctx, double *psnr, const zoe_latents_request *request);

#endif
