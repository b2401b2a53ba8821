/* A small VAE of random weights, of either kind, for tests: a file in the test's folder. */
#ifndef MODEL_VAE_CASE_H
#define MODEL_VAE_CASE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"

enum { VAE_CASE_ROOM = 1 << 20 /* floats */, VAE_CASE_WIDTH = 4 /* channels of the first level */ };

typedef struct vae_case {
    char header[1 << 16];
    size_t length; /* of the header */
    float *data;
    size_t count;
    uint32_t seed;
    bool failed;
} vae_case;

static inline float vae_case_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) * (1.0f / 8388608.0f) - 1.0f;
}

/* A tensor name.suffix of this shape, values around `middle`, `spread` wide. */
static inline void vae_case_add(vae_case *c, const char *name, const char *suffix,
                                const size_t *shape, size_t rank, float middle, float spread)
{
    size_t n = 1;
    char extents[64];
    int at = 0;
    for (size_t i = 0; i < rank; i++) {
        n *= shape[i];
        at += snprintf(extents + at, sizeof extents - (size_t)at, "%s%zu", i ? "," : "", shape[i]);
    }
    if (c->count + n > VAE_CASE_ROOM || c->length + 256 > sizeof c->header) {
        c->failed = true;
        return;
    }
    c->length += (size_t)snprintf(
        c->header + c->length, sizeof c->header - c->length,
        "%s\"%s.%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
        c->count ? "," : "{", name, suffix, extents, c->count * 4, (c->count + n) * 4);
    for (size_t i = 0; i < n; i++)
        c->data[c->count + i] = middle + spread * vae_case_random(&c->seed);
    c->count += n;
}

/* A convolution of kt x k x k; kt 0: of k x k alone. */
static inline void vae_case_conv(vae_case *c, const char *name, size_t out, size_t in, size_t kt,
                                 size_t k)
{
    const size_t shape3[] = {out, in, kt, k, k}, shape2[] = {out, in, k, k};
    const size_t fan = in * (kt ? kt : 1) * k * k;
    vae_case_add(c, name, "weight", kt ? shape3 : shape2, kt ? 5 : 4, 0.0f,
                 1.7f / sqrtf((float)fan));
    vae_case_add(c, name, "bias", &out, 1, 0.0f, 0.2f);
}

/* Its name is printed. */
static inline void vae_case_part(vae_case *c, size_t out, size_t in, size_t kt, size_t k,
                                 const char *format, ...)
{
    char name[96];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    vae_case_conv(c, name, out, in, kt, k);
}

static inline void vae_case_gamma(vae_case *c, size_t n, const char *format, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, format, name);
    vae_case_add(c, full, "gamma", &n, 1, 1.0f, 0.3f);
}

static inline void vae_case_residual(vae_case *c, const char *name, size_t out, size_t in)
{
    vae_case_gamma(c, in, "%s.residual.0", name);
    vae_case_part(c, out, in, 3, 3, "%s.residual.2", name);
    vae_case_gamma(c, out, "%s.residual.3", name);
    vae_case_part(c, out, out, 3, 3, "%s.residual.6", name);
    if (in != out)
        vae_case_part(c, out, in, 1, 1, "%s.shortcut", name);
}

static inline void vae_case_middle(vae_case *c, const char *part, size_t C)
{
    char name[64];
    snprintf(name, sizeof name, "%s.middle.0", part);
    vae_case_residual(c, name, C, C);
    snprintf(name, sizeof name, "%s.middle.1", part);
    vae_case_gamma(c, C, "%s.norm", name);
    vae_case_part(c, 3 * C, C, 0, 1, "%s.to_qkv", name);
    vae_case_part(c, C, C, 0, 1, "%s.proj", name);
    snprintf(name, sizeof name, "%s.middle.2", part);
    vae_case_residual(c, name, C, C);
}

/* The four levels of a network: `blocks` residual blocks each, and what changes the size between.
 * Returns the channels after them. */
static inline size_t vae_case_levels(vae_case *c, bool wan22, bool down, size_t C)
{
    static const size_t widths[2][4] = {{4, 4, 2, 1}, {1, 2, 4, 4}};
    const char *part = down ? "encoder" : "decoder", *group = down ? "downsamples" : "upsamples";
    size_t i = 0;
    for (size_t level = 0; level < 4; level++) {
        const size_t out = VAE_CASE_WIDTH * widths[down][level], blocks = down ? 1 : 2;
        const bool time = down ? level > 0 : level < 2;
        char name[64];
        i = wan22 ? 0 : i;
        for (size_t b = 0; b < blocks + (level < 3); b++, i++) {
            if (wan22)
                snprintf(name, sizeof name, "%s.%s.%zu.%s.%zu", part, group, level, group, i);
            else
                snprintf(name, sizeof name, "%s.%s.%zu", part, group, i);
            if (b < blocks) {
                vae_case_residual(c, name, out, C);
                C = out;
                continue;
            }
            const size_t narrow = down || wan22 ? C : C / 2;
            vae_case_part(c, narrow, C, 0, 3, "%s.resample.1", name);
            if (time)
                vae_case_part(c, down ? C : 2 * C, C, 3, 1, "%s.time_conv", name);
            C = narrow;
        }
    }
    return C;
}

static inline void vae_case_fill(vae_case *c, bool wan22)
{
    const size_t z = wan22 ? 48 : 16, colours = wan22 ? 12 : 3, wide = 4 * VAE_CASE_WIDTH;
    vae_case_conv(c, "conv1", 2 * z, 2 * z, 1, 1);
    vae_case_conv(c, "conv2", z, z, 1, 1);
    vae_case_conv(c, "encoder.conv1", VAE_CASE_WIDTH, colours, 3, 3);
    vae_case_levels(c, wan22, true, VAE_CASE_WIDTH);
    vae_case_middle(c, "encoder", wide);
    vae_case_gamma(c, wide, "%s.head.0", "encoder");
    vae_case_conv(c, "encoder.head.2", 2 * z, wide, 3, 3);
    vae_case_conv(c, "decoder.conv1", wide, z, 3, 3);
    vae_case_middle(c, "decoder", wide);
    const size_t C = vae_case_levels(c, wan22, false, wide);
    vae_case_gamma(c, C, "%s.head.0", "decoder");
    vae_case_conv(c, "decoder.head.2", colours, C, 3, 3);
}

/* Writes the file; false: it did not work. */
static inline bool vae_case_write(const char *path, bool wan22)
{
    static vae_case c;
    c = (vae_case){.seed = 7, .data = malloc(VAE_CASE_ROOM * sizeof(float))};
    if (!c.data)
        return false;
    vae_case_fill(&c, wan22);
    c.header[c.length++] = '}';
    while (c.length % 8)
        c.header[c.length++] = ' ';
    unsigned char size[8];
    for (size_t i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)c.length >> 8 * i);
    FILE *f = fopen(path, "wb");
    bool good = f && !c.failed && fwrite(size, 1, 8, f) == 8 &&
                fwrite(c.header, 1, c.length, f) == c.length &&
                fwrite(c.data, sizeof(float), c.count, f) == c.count;
    good = (f && fclose(f) == 0) && good;
    free(c.data);
    return good;
}

#endif
