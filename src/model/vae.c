/* Wan VAE 2.1: frames to latent and back, in chunks.
 * Source: Wan2.1 wan/modules/vae.py, class WanVAE_. */
#include "model/vae.h"

const float zoe_vae_mean[16] = {-0.7571f, -0.7089f, -0.9113f, 0.1075f,  -0.1745f, 0.9653f,
                                -0.1517f, 1.5508f,  0.4134f,  -0.0715f, 0.5517f,  -0.3632f,
                                -0.1922f, -0.9497f, 0.2503f,  -0.2921f};
const float zoe_vae_std[16] = {2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f,
                               2.6052f, 2.0743f, 3.2687f, 2.1526f, 2.8652f, 1.5579f,
                               1.6382f, 1.1253f, 2.8251f, 1.9160f};

enum {
    STRIDE = 8,      /* pixels to a latent position */
    FRAME_STRIDE = 4 /* frames to a latent frame, but for the first */
};

size_t zoe_vae_encode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t H, size_t W)
{
    const size_t input = zoe_arena_bytes(FRAME_STRIDE * H * W * 3, sizeof(float));
    return input + zoe_vae_run_bytes(ctx, &vae->encoder, FRAME_STRIDE, H, W);
}

size_t zoe_vae_decode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t h, size_t w)
{
    return zoe_arena_bytes(h * w * vae->z, sizeof(float)) +
           zoe_vae_run_bytes(ctx, &vae->decoder, 1, h, w);
}

/* moments [1, h, w, 2 z] of latent frame t: the 1x1x1 convolution's mean, normalised, into latent
 * [z, f, h, w]. Few values, so a plain loop. */
static void store_mean(const zoe_vae *m, float *latent, zoe_tensor moments, size_t t, size_t f)
{
    const size_t positions = moments.shape[1] * moments.shape[2], Z = m->z;
    const float *x = moments.data;
    for (size_t c = 0; c < Z; c++)
        for (size_t p = 0; p < positions; p++) {
            float sum = m->quant_bias[c];
            for (size_t k = 0; k < 2 * Z; k++)
                sum +=
                    x[p * 2 * Z + k] * zoe_load_f32(m->quant.data, m->quant.dtype, c * 2 * Z + k);
            latent[(c * f + t) * positions + p] = (sum - zoe_vae_mean[c]) * (1.0f / zoe_vae_std[c]);
        }
}

zoe_status zoe_vae_encode(zoe_context *ctx, const zoe_vae *vae, float *latent, size_t F, size_t H,
                          size_t W, zoe_frame_source source, void *user, zoe_chunk_done done,
                          const zoe_probe *probe)
{
    const size_t f = (F + FRAME_STRIDE - 1) / FRAME_STRIDE, frame = H * W * 3;
    if (F % FRAME_STRIDE != 1 || H == 0 || W == 0 || H % STRIDE || W % STRIDE)
        return zoe_fail(ctx, ZOE_INVALID,
                        "cannot encode %zu frames of %zu x %zu: 4 n + 1 frames and sides that are "
                        "multiples of 8 are wanted",
                        F, W, H);
    zoe_status status;
    vae_run run;
    void *input = NULL;
    TRY(zoe_vae_run_new(ctx, &run, &vae->encoder, FRAME_STRIDE, H, W));
    TRY_GOTO(zoe_alloc(ctx, &input, FRAME_STRIDE * frame, sizeof(float), "frames"));
    for (size_t t = 0, first = 0; t < f; t++) {
        const size_t count = t == 0 ? 1 : FRAME_STRIDE;
        zoe_tensor moments;
        for (size_t i = 0; i < count; i++)
            TRY_GOTO(source(user, (float *)input + i * frame, first + i));
        TRY_GOTO(zoe_vae_run_chunk(ctx, &run, &moments,
                                   zoe_tensor_4d(input, ZOE_F32, count, H, W, 3), "enc", probe));
        store_mean(vae, latent, moments, t, f);
        first += count;
        if (done)
            done(user, t + 1, f);
    }
done:
    zoe_free(input);
    zoe_vae_run_free(&run);
    return status;
}

/* Latent frame t of [z, f, h, w], denormalised and through the 1x1x1 convolution, as x [1, h, w,
 * z]. */
static void load_latent(const zoe_vae *m, float *x, const float *latent, size_t t, size_t f,
                        size_t positions)
{
    const size_t Z = m->z;
    float z[sizeof zoe_vae_mean / sizeof *zoe_vae_mean];
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < Z; c++)
            z[c] = latent[(c * f + t) * positions + p] / (1.0f / zoe_vae_std[c]) + zoe_vae_mean[c];
        for (size_t c = 0; c < Z; c++) {
            float sum = m->post_quant_bias[c];
            for (size_t k = 0; k < Z; k++)
                sum += z[k] * zoe_load_f32(m->post_quant.data, m->post_quant.dtype, c * Z + k);
            x[p * Z + c] = sum;
        }
    }
}

zoe_status zoe_vae_decode(zoe_context *ctx, const zoe_vae *vae, const float *latent, size_t f,
                          size_t h, size_t w, zoe_frame_sink sink, void *user, zoe_chunk_done done,
                          const zoe_probe *probe)
{
    if (f == 0 || h == 0 || w == 0)
        return zoe_fail(ctx, ZOE_INVALID, "cannot decode a latent of %zu x %zu x %zu", f, h, w);
    zoe_status status;
    vae_run run;
    void *x = NULL;
    TRY(zoe_vae_run_new(ctx, &run, &vae->decoder, 1, h, w));
    TRY_GOTO(zoe_alloc(ctx, &x, h * w * vae->z, sizeof(float), "latent frame"));
    for (size_t t = 0, first = 0; t < f; t++) {
        zoe_tensor frames;
        load_latent(vae, x, latent, t, f, h * w);
        TRY_GOTO(zoe_vae_run_chunk(ctx, &run, &frames, zoe_tensor_4d(x, ZOE_F32, 1, h, w, vae->z),
                                   "dec", probe));
        TRY_GOTO(sink(user, frames.data, first, frames.shape[0]));
        first += frames.shape[0];
        if (done)
            done(user, t + 1, f);
    }
done:
    zoe_free(x);
    zoe_vae_run_free(&run);
    return status;
}
