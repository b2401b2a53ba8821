/* Wan VAE: frames to latent and back, in chunks.
 * Source: Wan2.1 wan/modules/vae.py and Wan2.2 wan/modules/vae2_2.py, classes WanVAE_. */
#include "model/vae_plan.h"

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

/* A buffer for what lies between the two parts. */
static zoe_status take_between(zoe_context *ctx, const vae_pass *p, void **between)
{
    return zoe_alloc(ctx, between, zoe_vae_between_bytes(p), 1, "features of the VAE");
}

/* Rows `rows` of what lies between for chunk t: [1, rows, w, C]. */
static zoe_tensor between_rows(const vae_pass *p, void *between, size_t t, vae_rows rows)
{
    float *data = between;
    data += (t * p->h + rows.first) * p->w * p->C;
    return zoe_tensor_4d(data, ZOE_F32, 1, rows.end - rows.first, p->w, p->C);
}

/* Progress of a banded pass in chunks: told when a whole one more is reached. */
typedef struct meter {
    zoe_chunk_done done;
    void *user;
    size_t chunks, bands, passed;
} meter;

static void count_one(meter *m)
{
    const size_t before = m->passed / m->bands;
    m->passed++;
    if (m->done && m->passed / m->bands > before)
        m->done(m->user, m->passed / m->bands, m->chunks);
}

/* ---- encoder ---- */

/* Squares of patch x patch pixels of part of a frame [H, W, 3] become channels: (colour, column in the
 * square, row in the square), the row fastest. In reverse if `back`. */
static void patchify(float *patches, float *frame, vae_area area, size_t W, size_t patch, bool back)
{
    const size_t C = 3 * patch * patch;
    for (size_t y = 0; y < area.rows; y++)
        for (size_t x = 0; x < area.columns; x++) {
            float *p = patches + (y / patch * (area.columns / patch) + x / patch) * C +
                       x % patch * patch + y % patch;
            float *f = frame + ((area.top + y) * W + area.left + x) * 3;
            for (size_t c = 0; c < 3; c++)
                if (back)
                    f[c] = p[c * patch * patch];
                else
                    p[c * patch * patch] = f[c];
        }
}

/* moments [1, rows, columns, 2 z] of latent frame t: the 1x1x1 convolution's mean, normalised, into
 * its patch of latent [z, f, h, w]. Few values, so a plain loop. */
static void store_mean(const zoe_vae *m, const vae_patch *patch, float *latent, zoe_tensor moments,
                       size_t t, size_t f)
{
    const vae_area a = zoe_vae_patch_area(patch, patch->rank, 1);
    const size_t Z = m->z;
    const float *x = moments.data;
    for (size_t c = 0; c < Z; c++)
        for (size_t p = 0; p < a.rows * a.columns; p++) {
            const size_t row = a.top + p / a.columns, column = a.left + p % a.columns;
            float sum = m->quant_bias[c];
            for (size_t k = 0; k < 2 * Z; k++)
                sum +=
                    x[p * 2 * Z + k] * zoe_load_f32(m->quant.data, m->quant.dtype, c * 2 * Z + k);
            latent[((c * f + t) * patch->h + row) * patch->w + column] =
                (sum - m->form->mean[c]) * (1.0f / m->form->std[c]);
        }
}

/* What the encoder works on. */
typedef struct encoding {
    zoe_context *ctx;
    const zoe_vae *vae;
    const vae_pass *pass;
    float *latent;
    size_t f, W;
    zoe_frame_source source;
    void *user;
    zoe_chunk_done done;
    const zoe_probe *probe;
    float *input, *frame; /* frames of a chunk as the network takes them; one as it comes, if that
                             is another form or more */
} encoding;

static size_t chunk_frames(size_t t)
{
    return t == 0 ? 1 : VAE_FRAME_STRIDE;
}

static size_t chunk_first(size_t t)
{
    return t == 0 ? 0 : VAE_FRAME_STRIDE * (t - 1) + 1;
}

/* Frames of chunk t, of the pixels of this rank, in the form that the network takes. */
static zoe_status read_chunk(const encoding *e, vae_area area, size_t t)
{
    for (size_t i = 0; i < chunk_frames(t); i++) {
        float *place = e->input + i * area.rows * area.columns * 3;
        TRY(e->source(e->user, e->frame ? e->frame : place, chunk_first(t) + i));
        if (e->frame)
            patchify(place, e->frame, area, e->W, e->vae->form->patch, false);
    }
    return ZOE_OK;
}

/* Chunk t of the clip, rows `rows` of it (in the network's own). */
static zoe_status read_rows(const encoding *e, zoe_tensor *x, size_t t, vae_rows rows)
{
    const vae_patch *part = &e->pass->large.patch;
    const vae_area area = zoe_vae_patch_area(part, part->rank, e->vae->form->stride);
    const size_t patch = e->vae->form->patch, count = chunk_frames(t);
    const size_t h = area.rows / patch, w = area.columns / patch, C = 3 * patch * patch;
    TRY(read_chunk(e, area, t));
    *x = zoe_tensor_4d(e->input + rows.first * w * C, ZOE_F32, count, h, w, C);
    x->shape[1] = rows.end - rows.first;
    return ZOE_OK;
}

static zoe_status encode_whole(const encoding *e, vae_run *run)
{
    TRY(zoe_vae_run_new(e->ctx, run, &e->pass->large));
    for (size_t t = 0; t < e->f; t++) {
        zoe_tensor x, moments;
        TRY(read_rows(e, &x, t, zoe_vae_run_takes(run)));
        TRY(zoe_vae_run_chunk(e->ctx, run, &moments, x, "enc", e->probe));
        store_mean(e->vae, &run->part.patch, e->latent, moments, t, e->f);
        if (e->done)
            e->done(e->user, t + 1, e->f);
    }
    return ZOE_OK;
}

/* The large layers, band by band. */
static zoe_status encode_bands(const encoding *e, vae_run *run, void *between)
{
    TRY(zoe_vae_run_new(e->ctx, run, &e->pass->large));
    const size_t bands = zoe_vae_run_bands(run);
    meter m = {.done = e->done, .user = e->user, .chunks = e->f, .bands = bands};
    for (size_t band = 0; band < bands; band++) {
        zoe_vae_run_band(run, band);
        for (size_t t = 0; t < e->f; t++) {
            zoe_tensor x, y;
            TRY(read_rows(e, &x, t, zoe_vae_run_takes(run)));
            TRY(zoe_vae_run_chunk(e->ctx, run, &y, x, "enc", NULL));
            const zoe_tensor to = between_rows(e->pass, between, t, zoe_vae_run_gives(run));
            memcpy(to.data, y.data, zoe_tensor_count(to) * sizeof(float));
            count_one(&m);
        }
    }
    return ZOE_OK;
}

/* The layers that see whole frames. */
static zoe_status encode_rest(const encoding *e, vae_run *run, void *between)
{
    TRY(zoe_vae_run_new(e->ctx, run, &e->pass->small));
    for (size_t t = 0; t < e->f; t++) {
        zoe_tensor moments;
        const zoe_tensor x = between_rows(e->pass, between, t, (vae_rows){0, e->pass->h});
        TRY(zoe_vae_run_chunk(e->ctx, run, &moments, x, "enc", NULL));
        store_mean(e->vae, &run->part.patch, e->latent, moments, t, e->f);
    }
    return ZOE_OK;
}

/* The patch of each rank that has one, and then all of the latent on every rank. */
static zoe_status encode_shared(const encoding *e, vae_run *run)
{
    const vae_patch *part = &e->pass->large.patch;
    vae_gather gather = e->pass->result;
    const zoe_tensor latent = zoe_tensor_4d(e->latent, ZOE_F32, gather.T, part->h, part->w, 1);
    void *room = NULL;
    zoe_status status = ZOE_OK;
    if (zoe_vae_patch_works(part))
        TRY(encode_whole(e, run));
    TRY_GOTO(zoe_alloc(e->ctx, &room, zoe_vae_gather_room(part, &gather), sizeof(float),
                       "latent of all ranks"));
    gather.data = room;
    TRY_GOTO(zoe_vae_gather_start(e->ctx, part, &gather,
                                  zoe_vae_window(latent, zoe_vae_patch_area(part, part->rank, 1)),
                                  "latent of the VAE"));
    TRY_GOTO(zoe_vae_gather_wait(e->ctx, part, &gather));
    zoe_vae_gather_place(e->ctx, part, &gather, latent);
done:
    zoe_free(room);
    return status;
}

/* The others would wait for a rank that goes no further. */
static zoe_status told(zoe_context *ctx, const zoe_vae *vae, zoe_status status)
{
    if (status != ZOE_OK && vae->comm)
        zoe_comm_fail(vae->comm, zoe_context_message(ctx));
    return status;
}

static zoe_status encode(const encoding *e, vae_run *run)
{
    void *between = NULL;
    zoe_status status;
    if (zoe_vae_patch_shared(&e->pass->large.patch))
        return encode_shared(e, run);
    if (!e->pass->banded)
        return encode_whole(e, run);
    TRY_GOTO(take_between(e->ctx, e->pass, &between));
    TRY_GOTO(encode_bands(e, run, between));
    zoe_vae_run_free(run);
    status = encode_rest(e, run, between);
done:
    zoe_free(between);
    return status;
}

zoe_status zoe_vae_encode(zoe_context *ctx, zoe_vae *vae, float *latent, size_t F, size_t H,
                          size_t W, zoe_frame_source source, void *user, zoe_chunk_done done,
                          const zoe_probe *probe)
{
    const size_t stride = vae->form->stride;
    if (F % VAE_FRAME_STRIDE != 1 || H == 0 || W == 0 || H % stride || W % stride)
        return zoe_fail(ctx, ZOE_INVALID,
                        "cannot encode %zu frames of %zu x %zu: 4 n + 1 frames and sides that are "
                        "multiples of %zu are wanted",
                        F, W, H, stride);
    zoe_status status = ZOE_OK;
    vae_run run = {0};
    void *input = NULL, *frame = NULL;
    const vae_patch part = zoe_vae_patch_of(vae, H / stride, W / stride);
    const vae_area area = zoe_vae_patch_area(&part, part.rank, stride);
    const bool works = zoe_vae_patch_works(&part);
    TRY(zoe_vae_check_grid(ctx, &part));
    if (works)
        TRY_GOTO(zoe_vae_pack(ctx, vae, true));
    const vae_pass p = zoe_vae_encode_pass(ctx, vae, part, F, probe != NULL);
    encoding e = {.ctx = ctx,
                  .vae = vae,
                  .pass = &p,
                  .latent = latent,
                  .f = p.large.chunks,
                  .W = W,
                  .source = source,
                  .user = user,
                  .done = done,
                  .probe = probe};
    if (works)
        TRY_GOTO(zoe_alloc(ctx, &input,
                           zoe_vae_frames_bytes(VAE_FRAME_STRIDE, area.rows, area.columns), 1,
                           "frames"));
    if (works && (vae->form->patch > 1 || zoe_vae_patch_shared(&part)))
        TRY_GOTO(zoe_alloc(ctx, &frame, zoe_vae_frames_bytes(1, H, W), 1, "frame"));
    e.input = input;
    e.frame = frame;
    status = encode(&e, &run);
done:
    zoe_free(frame);
    zoe_free(input);
    zoe_vae_run_free(&run);
    return told(ctx, vae, status);
}

/* ---- decoder ---- */

/* The area of latent frame t of [z, f, h, w], denormalised and through the 1x1x1 convolution, as x [1,
 * rows, columns, z]. */
static void load_latent(const zoe_vae *m, const vae_patch *patch, float *x, const float *latent,
                        vae_area a, size_t t, size_t f)
{
    const size_t Z = m->z;
    float z[VAE_Z_MAX];
    for (size_t p = 0; p < a.rows * a.columns; p++) {
        const size_t row = a.top + p / a.columns, column = a.left + p % a.columns;
        for (size_t c = 0; c < Z; c++)
            z[c] = latent[((c * f + t) * patch->h + row) * patch->w + column] /
                       (1.0f / m->form->std[c]) +
                   m->form->mean[c];
        for (size_t c = 0; c < Z; c++) {
            float sum = m->post_quant_bias[c];
            for (size_t k = 0; k < Z; k++)
                sum += z[k] * zoe_load_f32(m->post_quant.data, m->post_quant.dtype, c * Z + k);
            x[p * Z + c] = sum;
        }
    }
}

/* What the decoder works on. */
typedef struct decoding {
    zoe_context *ctx;
    const zoe_vae *vae;
    const vae_pass *pass;
    const float *latent;
    size_t f, h, w;
    zoe_frame_sink sink;
    void *user;
    zoe_chunk_done done;
    const zoe_probe *probe;
    float *x;    /* a frame of the latent */
    float *clip; /* frames of a chunk, if the network gives squares or ranks give patches */
} decoding;

/* Frames as the network gives them, of part of the picture, to their place in the clip. */
static void place_frames(const decoding *d, const float *frames, vae_area area, size_t count)
{
    const size_t stride = d->vae->form->stride, H = d->h * stride, W = d->w * stride;
    for (size_t i = 0; i < count; i++)
        patchify((float *)(uintptr_t)frames + i * area.rows * area.columns * 3,
                 d->clip + i * H * W * 3, area, W, d->vae->form->patch, true);
}

/* Frames of chunk t as the network gives them go to the sink. */
static zoe_status give(const decoding *d, const float *frames, size_t t)
{
    const size_t stride = d->vae->form->stride, count = chunk_frames(t);
    if (d->clip)
        place_frames(d, frames, (vae_area){0, 0, d->h * stride, d->w * stride}, count);
    return d->sink(d->user, d->clip ? d->clip : frames, chunk_first(t), count);
}

static zoe_tensor take_latent(const decoding *d, size_t t)
{
    const vae_patch *part = &d->pass->large.patch;
    const vae_area area = zoe_vae_patch_area(part, part->rank, 1);
    load_latent(d->vae, part, d->x, d->latent, area, t, d->f);
    return zoe_tensor_4d(d->x, ZOE_F32, 1, area.rows, area.columns, d->vae->z);
}

static zoe_status decode_whole(const decoding *d, vae_run *run)
{
    TRY(zoe_vae_run_new(d->ctx, run, &d->pass->large));
    for (size_t t = 0; t < d->f; t++) {
        zoe_tensor frames;
        TRY(zoe_vae_run_chunk(d->ctx, run, &frames, take_latent(d, t), "dec", d->probe));
        TRY(give(d, frames.data, t));
        if (d->done)
            d->done(d->user, t + 1, d->f);
    }
    return ZOE_OK;
}

/* Patches of chunk t have come together on the first rank; there they go to the sink. */
static zoe_status give_gathered(const decoding *d, vae_gather *gather, size_t t)
{
    const vae_patch *part = &d->pass->large.patch;
    TRY(zoe_vae_gather_wait(d->ctx, part, gather));
    if (part->rank > 0)
        return ZOE_OK;
    for (size_t r = 0; r < part->grid.rows * part->grid.columns; r++)
        place_frames(d, zoe_vae_gathered(part, gather, r).data,
                     zoe_vae_patch_area(part, r, d->vae->form->stride), gather->T);
    return d->sink(d->user, d->clip, chunk_first(t), gather->T);
}

/* Each rank its patch. While a chunk is computed, the one before it travels. */
static zoe_status decode_patches(const decoding *d, vae_run *run, vae_gather *gather)
{
    TRY(zoe_vae_run_new(d->ctx, run, &d->pass->large));
    for (size_t t = 0; t < d->f; t++) {
        zoe_tensor frames;
        TRY(zoe_vae_run_chunk(d->ctx, run, &frames, take_latent(d, t), "dec", d->probe));
        if (t > 0)
            TRY(give_gathered(d, gather, t - 1));
        gather->T = chunk_frames(t);
        TRY(zoe_vae_gather_start(d->ctx, &run->part.patch, gather, frames, "frames of the VAE"));
        if (d->done)
            d->done(d->user, t + 1, d->f);
    }
    return give_gathered(d, gather, d->f - 1);
}

static zoe_status decode_shared(const decoding *d, vae_run *run)
{
    const vae_patch *part = &d->pass->large.patch;
    vae_gather gather = d->pass->result;
    void *room = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc(d->ctx, &room, zoe_vae_gather_room(part, &gather), sizeof(float),
                       "frames of all ranks"));
    gather.data = room;
    status = decode_patches(d, run, &gather);
    if (told(d->ctx, d->vae, status) != ZOE_OK)
        zoe_vae_gather_wait(d->ctx, part, &gather); /* ends at once, and its memory is free */
done:
    zoe_free(room);
    return status;
}

/* The layers that see whole frames. */
static zoe_status decode_start(const decoding *d, vae_run *run, void *between)
{
    TRY(zoe_vae_run_new(d->ctx, run, &d->pass->small));
    for (size_t t = 0; t < d->f; t++) {
        zoe_tensor y;
        TRY(zoe_vae_run_chunk(d->ctx, run, &y, take_latent(d, t), "dec", NULL));
        const zoe_tensor to = between_rows(d->pass, between, t, (vae_rows){0, d->pass->h});
        memcpy(to.data, y.data, zoe_tensor_count(to) * sizeof(float));
    }
    return ZOE_OK;
}

/* The large layers band by band, into all frames [F][H][W][C] of the network's own form. */
static zoe_status decode_bands(const decoding *d, vae_run *run, void *between, float *frames)
{
    const size_t patch = d->vae->form->patch, stride = d->vae->form->stride / patch;
    const size_t row = d->w * stride * 3 * patch * patch, frame = d->h * stride * row;
    TRY(zoe_vae_run_new(d->ctx, run, &d->pass->large));
    const size_t bands = zoe_vae_run_bands(run);
    meter m = {.done = d->done, .user = d->user, .chunks = d->f, .bands = bands};
    for (size_t band = 0; band < bands; band++) {
        zoe_vae_run_band(run, band);
        const vae_rows out = zoe_vae_run_gives(run);
        for (size_t t = 0; t < d->f; t++) {
            zoe_tensor y;
            const zoe_tensor x = between_rows(d->pass, between, t, zoe_vae_run_takes(run));
            TRY(zoe_vae_run_chunk(d->ctx, run, &y, x, "dec", NULL));
            for (size_t i = 0; i < y.shape[0]; i++)
                memcpy(frames + (chunk_first(t) + i) * frame + out.first * row,
                       (const float *)y.data + (ptrdiff_t)i * y.stride[0],
                       (out.end - out.first) * row * sizeof(float));
            count_one(&m);
        }
    }
    return ZOE_OK;
}

static zoe_status decode_in_bands(const decoding *d, vae_run *run)
{
    const size_t stride = d->vae->form->stride, H = d->h * stride, W = d->w * stride;
    void *between = NULL, *frames = NULL;
    zoe_status status;
    TRY_GOTO(take_between(d->ctx, d->pass, &between));
    TRY_GOTO(decode_start(d, run, between));
    zoe_vae_run_free(run);
    TRY_GOTO(
        zoe_alloc(d->ctx, &frames, zoe_vae_frames_bytes(chunk_first(d->f), H, W), 1, "frames"));
    TRY_GOTO(decode_bands(d, run, between, frames));
    for (size_t t = 0; t < d->f; t++)
        TRY_GOTO(give(d, (const float *)frames + chunk_first(t) * H * W * 3, t));
done:
    zoe_free(frames);
    zoe_free(between);
    return status;
}

zoe_status zoe_vae_decode(zoe_context *ctx, zoe_vae *vae, const float *latent, size_t f, size_t h,
                          size_t w, zoe_frame_sink sink, void *user, zoe_chunk_done done,
                          const zoe_probe *probe)
{
    if (f == 0 || h == 0 || w == 0)
        return zoe_fail(ctx, ZOE_INVALID, "cannot decode a latent of %zu x %zu x %zu", f, h, w);
    const size_t H = h * vae->form->stride, W = w * vae->form->stride;
    const vae_patch part = zoe_vae_patch_of(vae, h, w);
    const vae_area area = zoe_vae_patch_area(&part, part.rank, 1);
    const bool shared = zoe_vae_patch_shared(&part);
    zoe_status status;
    vae_run run = {0};
    void *x = NULL, *clip = NULL;
    TRY(zoe_vae_check_grid(ctx, &part));
    if (!zoe_vae_patch_works(&part))
        return ZOE_OK;
    TRY_GOTO(zoe_vae_pack(ctx, vae, false));
    const vae_pass p = zoe_vae_decode_pass(ctx, vae, part, f, probe != NULL);
    decoding d = {.ctx = ctx,
                  .vae = vae,
                  .pass = &p,
                  .latent = latent,
                  .f = f,
                  .h = h,
                  .w = w,
                  .sink = sink,
                  .user = user,
                  .done = done,
                  .probe = probe};
    TRY_GOTO(zoe_alloc(ctx, &x, area.rows * area.columns * vae->z, sizeof(float), "latent frame"));
    if (shared ? part.rank == 0 : vae->form->patch > 1)
        TRY_GOTO(zoe_alloc(ctx, &clip, zoe_vae_frames_bytes(VAE_FRAME_STRIDE, H, W), 1, "frames"));
    d.x = x;
    d.clip = clip;
    status = shared     ? decode_shared(&d, &run)
             : p.banded ? decode_in_bands(&d, &run)
                        : decode_whole(&d, &run);
done:
    zoe_free(clip);
    zoe_free(x);
    zoe_vae_run_free(&run);
    return told(ctx, vae, status);
}
