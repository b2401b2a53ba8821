/* Wan VAE: frames to latent and back, in chunks.
 * Source: Wan2.1 wan/modules/vae.py and Wan2.2 wan/modules/vae2_2.py, classes WanVAE_. */
#include "model/vae.h"

static const float mean21[16] = {-0.7571f, -0.7089f, -0.9113f, 0.1075f,  -0.1745f, 0.9653f,
                                 -0.1517f, 1.5508f,  0.4134f,  -0.0715f, 0.5517f,  -0.3632f,
                                 -0.1922f, -0.9497f, 0.2503f,  -0.2921f};
static const float std21[16] = {2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f,
                                2.6052f, 2.0743f, 3.2687f, 2.1526f, 2.8652f, 1.5579f,
                                1.6382f, 1.1253f, 2.8251f, 1.9160f};
static const float mean22[VAE_Z_MAX] = {
    -0.2289f, -0.0052f, -0.1323f, -0.2339f, -0.2799f, 0.0174f,  0.1838f,  0.1557f,
    -0.1382f, 0.0542f,  0.2813f,  0.0891f,  0.1570f,  -0.0098f, 0.0375f,  -0.1825f,
    -0.2246f, -0.1207f, -0.0698f, 0.5109f,  0.2665f,  -0.2108f, -0.2158f, 0.2502f,
    -0.2055f, -0.0322f, 0.1109f,  0.1567f,  -0.0729f, 0.0899f,  -0.2799f, -0.1230f,
    -0.0313f, -0.1649f, 0.0117f,  0.0723f,  -0.2839f, -0.2083f, -0.0520f, 0.3748f,
    0.0152f,  0.1957f,  0.1433f,  -0.2944f, 0.3573f,  -0.0548f, -0.1681f, -0.0667f};
static const float std22[VAE_Z_MAX] = {
    0.4765f, 1.0364f, 0.4514f, 1.1677f, 0.5313f, 0.4990f, 0.4818f, 0.5013f, 0.8158f, 1.0344f,
    0.5894f, 1.0901f, 0.6885f, 0.6165f, 0.8454f, 0.4978f, 0.5759f, 0.3523f, 0.7135f, 0.6804f,
    0.5833f, 1.4146f, 0.8986f, 0.5659f, 0.7069f, 0.5338f, 0.4889f, 0.4917f, 0.4069f, 0.4999f,
    0.6866f, 0.4093f, 0.5709f, 0.6065f, 0.6415f, 0.4944f, 0.5726f, 1.2042f, 0.5458f, 1.6887f,
    0.3971f, 1.0600f, 0.3943f, 0.5537f, 0.5444f, 0.4089f, 0.7468f, 0.7744f};

const vae_form zoe_vae_forms[2] = {
    {"Wan 2.1", 16, 1, 8, mean21, std21},
    {"Wan 2.2", VAE_Z_MAX, 2, 16, mean22, std22},
};

enum { FRAME_STRIDE = 4 /* frames to a latent frame, but for the first */ };

/* Bytes of a buffer that holds `frames` frames apart from the network's own. */
static size_t frames_bytes(size_t frames, size_t H, size_t W)
{
    return zoe_arena_bytes(frames * H * W * 3, sizeof(float));
}

size_t zoe_vae_encode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t H, size_t W)
{
    const size_t patch = vae->form->patch;
    const size_t one = patch > 1 ? frames_bytes(1, H, W) : 0;
    return one + frames_bytes(FRAME_STRIDE, H, W) +
           zoe_vae_run_bytes(ctx, &vae->encoder, FRAME_STRIDE, H / patch, W / patch);
}

size_t zoe_vae_decode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t h, size_t w)
{
    const size_t stride = vae->form->stride;
    const size_t frames =
        vae->form->patch > 1 ? frames_bytes(FRAME_STRIDE, stride * h, stride * w) : 0;
    return frames + zoe_arena_bytes(h * w * vae->z, sizeof(float)) +
           zoe_vae_run_bytes(ctx, &vae->decoder, 1, h, w);
}

/* Patches of a frame [H, W, 3] become channels: (colour, column in the patch, row in the patch), the
 * row fastest. In reverse if `back`. */
static void patchify(float *patches, float *frame, size_t H, size_t W, size_t patch, bool back)
{
    const size_t C = 3 * patch * patch;
    for (size_t y = 0; y < H; y++)
        for (size_t x = 0; x < W; x++) {
            float *p =
                patches + (y / patch * (W / patch) + x / patch) * C + x % patch * patch + y % patch;
            float *f = frame + (y * W + x) * 3;
            for (size_t c = 0; c < 3; c++)
                if (back)
                    f[c] = p[c * patch * patch];
                else
                    p[c * patch * patch] = f[c];
        }
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
            latent[(c * f + t) * positions + p] =
                (sum - m->form->mean[c]) * (1.0f / m->form->std[c]);
        }
}

/* Frames of a chunk in the form that the network takes. */
static zoe_status read_chunk(const zoe_vae *m, float *input, float *frame, size_t H, size_t W,
                             zoe_frame_source source, void *user, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float *place = input + i * H * W * 3;
        if (m->form->patch == 1) {
            TRY(source(user, place, first + i));
            continue;
        }
        TRY(source(user, frame, first + i));
        patchify(place, frame, H, W, m->form->patch, false);
    }
    return ZOE_OK;
}

zoe_status zoe_vae_encode(zoe_context *ctx, const zoe_vae *vae, float *latent, size_t F, size_t H,
                          size_t W, zoe_frame_source source, void *user, zoe_chunk_done done,
                          const zoe_probe *probe)
{
    const size_t f = (F + FRAME_STRIDE - 1) / FRAME_STRIDE, stride = vae->form->stride;
    const size_t patch = vae->form->patch, h = H / patch, w = W / patch;
    if (F % FRAME_STRIDE != 1 || H == 0 || W == 0 || H % stride || W % stride)
        return zoe_fail(ctx, ZOE_INVALID,
                        "cannot encode %zu frames of %zu x %zu: 4 n + 1 frames and sides that are "
                        "multiples of %zu are wanted",
                        F, W, H, stride);
    zoe_status status;
    vae_run run;
    void *input = NULL, *frame = NULL;
    TRY(zoe_vae_run_new(ctx, &run, &vae->encoder, FRAME_STRIDE, h, w));
    TRY_GOTO(zoe_alloc(ctx, &input, FRAME_STRIDE * H * W * 3, sizeof(float), "frames"));
    if (patch > 1)
        TRY_GOTO(zoe_alloc(ctx, &frame, H * W * 3, sizeof(float), "frame"));
    for (size_t t = 0, first = 0; t < f; t++) {
        const size_t count = t == 0 ? 1 : FRAME_STRIDE;
        zoe_tensor moments;
        TRY_GOTO(read_chunk(vae, input, frame, H, W, source, user, first, count));
        TRY_GOTO(zoe_vae_run_chunk(ctx, &run, &moments,
                                   zoe_tensor_4d(input, ZOE_F32, count, h, w, 3 * patch * patch),
                                   "enc", probe));
        store_mean(vae, latent, moments, t, f);
        first += count;
        if (done)
            done(user, t + 1, f);
    }
done:
    zoe_free(frame);
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
    float z[VAE_Z_MAX];
    for (size_t p = 0; p < positions; p++) {
        for (size_t c = 0; c < Z; c++)
            z[c] =
                latent[(c * f + t) * positions + p] / (1.0f / m->form->std[c]) + m->form->mean[c];
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
    const size_t H = h * vae->form->stride, W = w * vae->form->stride, patch = vae->form->patch;
    zoe_status status;
    vae_run run;
    void *x = NULL, *clip = NULL;
    TRY(zoe_vae_run_new(ctx, &run, &vae->decoder, 1, h, w));
    TRY_GOTO(zoe_alloc(ctx, &x, h * w * vae->z, sizeof(float), "latent frame"));
    if (patch > 1)
        TRY_GOTO(zoe_alloc(ctx, &clip, FRAME_STRIDE * H * W * 3, sizeof(float), "frames"));
    for (size_t t = 0, first = 0; t < f; t++) {
        zoe_tensor frames;
        load_latent(vae, x, latent, t, f, h * w);
        TRY_GOTO(zoe_vae_run_chunk(ctx, &run, &frames, zoe_tensor_4d(x, ZOE_F32, 1, h, w, vae->z),
                                   "dec", probe));
        for (size_t i = 0; clip && i < frames.shape[0]; i++)
            patchify((float *)frames.data + i * H * W * 3, (float *)clip + i * H * W * 3, H, W,
                     patch, true);
        TRY_GOTO(sink(user, clip ? clip : frames.data, first, frames.shape[0]));
        first += frames.shape[0];
        if (done)
            done(user, t + 1, f);
    }
done:
    zoe_free(clip);
    zoe_free(x);
    zoe_vae_run_free(&run);
    return status;
}
