/* vae_roundtrip VAE FRAME.png...: the frames (4 n + 1 of one size, sides multiples of 8) through the encoder and the decoder,
 * and how far the result is from them. Prints the PSNR of the clip, then that of every frame, in dB. */
#include <stdio.h>
#include <stdlib.h>

#include "media/media.h"
#include "model/model.h"

typedef struct clip {
    size_t count, width, height;
    float *frames; /* [count, height, width, 3] */
    double *psnr;  /* [count] */
    double error;  /* sum of squares over all */
} clip;

static size_t frame_size(const clip *c)
{
    return 3 * c->width * c->height;
}

static zoe_status read_frame(void *user, float *frame, size_t index)
{
    const clip *c = user;
    memcpy(frame, c->frames + index * frame_size(c), frame_size(c) * sizeof *frame);
    return ZOE_OK;
}

static zoe_status compare_frames(void *user, const float *frames, size_t index, size_t count)
{
    clip *c = user;
    const size_t n = frame_size(c);
    for (size_t i = 0; i < count; i++) {
        double error = 0.0;
        for (size_t j = 0; j < n; j++) {
            const float v = fminf(fmaxf(frames[i * n + j], -1.0f), 1.0f);
            const double d = (double)v - (double)c->frames[(index + i) * n + j];
            error += d * d;
        }
        c->psnr[index + i] = 10.0 * log10(4.0 * (double)n / error);
        c->error += error;
    }
    return ZOE_OK;
}

/* [3, H, W] planes of one picture into frame `index`. */
static zoe_status load_frame(zoe_context *ctx, clip *c, const char *path, size_t index)
{
    zoe_picture picture;
    void *planes;
    TRY(zoe_picture_read(ctx, &picture, path, false));
    if (picture.width != c->width || picture.height != c->height) {
        zoe_picture_free(&picture);
        return zoe_fail(ctx, ZOE_INVALID, "%s: another size than the first frame", path);
    }
    const zoe_status status = zoe_alloc(ctx, &planes, frame_size(c), sizeof(float), path);
    if (status == ZOE_OK) {
        const size_t pixels = c->width * c->height;
        zoe_picture_to_planes(planes, &picture);
        for (size_t i = 0; i < pixels; i++)
            for (size_t j = 0; j < 3; j++)
                c->frames[index * frame_size(c) + 3 * i + j] =
                    ((const float *)planes)[j * pixels + i];
        zoe_free(planes);
    }
    zoe_picture_free(&picture);
    return status;
}

static zoe_status load_clip(zoe_context *ctx, clip *c, char **paths, size_t count)
{
    zoe_picture first;
    void *frames, *psnr;
    TRY(zoe_picture_read(ctx, &first, paths[0], false));
    *c = (clip){.count = count, .width = first.width, .height = first.height};
    zoe_picture_free(&first);
    TRY(zoe_alloc(ctx, &frames, count * frame_size(c), sizeof(float), "frames"));
    c->frames = frames;
    TRY(zoe_alloc(ctx, &psnr, count, sizeof(double), "frames"));
    c->psnr = psnr;
    for (size_t i = 0; i < count; i++)
        TRY(load_frame(ctx, c, paths[i], i));
    return ZOE_OK;
}

static zoe_status round_trip(zoe_context *ctx, clip *c, const char *path)
{
    zoe_store *store = NULL;
    zoe_vae *vae = NULL;
    void *latent = NULL;
    zoe_status status;
    const size_t f = (c->count - 1) / 4 + 1, h = c->height / 8, w = c->width / 8;
    TRY_GOTO(zoe_store_open(ctx, &store, path, ZOE_NAMES_WAN_VAE));
    TRY_GOTO(zoe_vae_open(ctx, &vae, store));
    TRY_GOTO(zoe_alloc(ctx, &latent, zoe_vae_channels(vae) * f * h * w, sizeof(float), "latent"));
    TRY_GOTO(
        zoe_vae_encode(ctx, vae, latent, c->count, c->height, c->width, read_frame, c, NULL, NULL));
    TRY_GOTO(zoe_vae_decode(ctx, vae, latent, f, h, w, compare_frames, c, NULL, NULL));
done:
    zoe_free(latent);
    zoe_vae_close(vae);
    zoe_store_close(store);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: vae_roundtrip VAE FRAME.png...\n");
        return 2;
    }
    zoe_context *ctx = zoe_context_new(0);
    clip c = {.count = 0};
    zoe_status status = ctx ? load_clip(ctx, &c, argv + 2, (size_t)(argc - 2)) : ZOE_NOMEM;
    if (status == ZOE_OK)
        status = round_trip(ctx, &c, argv[1]);
    if (status == ZOE_OK) {
        printf("%.2f", 10.0 * log10(4.0 * (double)(c.count * frame_size(&c)) / c.error));
        for (size_t i = 0; i < c.count; i++)
            printf(" %.2f", c.psnr[i]);
        printf("\n");
    } else
        fprintf(stderr, "vae_roundtrip: %s\n", ctx ? zoe_context_message(ctx) : "no memory");
    zoe_free(c.frames);
    zoe_free(c.psnr);
    zoe_context_free(ctx);
    return status == ZOE_OK ? 0 : 1;
}
