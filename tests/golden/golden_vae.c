/* golden_vae DIR: the Wan 2.1 VAE against reference runs. DIR holds model.safetensors,
 * io.safetensors (a video, a latent and what becomes of them) and intermediates.safetensors
 * (outputs of every layer for the first two chunks, [C, T, H, W]). */
#include <stdio.h>

#include "ranks.h"

#include "model/model.h"

static double limit = 1e-5; /* of the Wan 2.1 VAE */

typedef struct run {
    golden *g;
    const zoe_store *layers;
    size_t seen;
    /* the clip that is encoded or decoded, [3, F, H, W] */
    float *video;
    size_t F, H, W;
} run;

/* [T, P, C] to [C, T, P]. */
static void to_planes(float *planes, const float *x, size_t T, size_t P, size_t C)
{
    for (size_t t = 0; t < T; t++)
        for (size_t p = 0; p < P; p++)
            for (size_t c = 0; c < C; c++)
                planes[(c * T + t) * P + p] = x[(t * P + p) * C + c];
}

static void see(void *user, const char *name, zoe_tensor x)
{
    run *r = user;
    zoe_tensor t;
    void *p;
    size_t wanted;
    if (!zoe_store_find(r->layers, name, &t))
        return;
    const size_t n = zoe_tensor_count(x);
    float *want = golden_load(r->g, r->layers, name, &wanted);
    golden_must(r->g, zoe_alloc(r->g->ctx, &p, n, sizeof(float), name), name);
    to_planes(p, x.data, x.shape[0], x.shape[1] * x.shape[2], x.shape[3]);
    golden_compare(r->g, name, p, want, n == wanted ? n : 0, limit);
    zoe_free(p);
    zoe_free(want);
    r->seen++;
}

static zoe_status read_frame(void *user, float *frame, size_t index)
{
    const run *r = user;
    const size_t P = r->H * r->W;
    for (size_t p = 0; p < P; p++)
        for (size_t c = 0; c < 3; c++)
            frame[p * 3 + c] = r->video[(c * r->F + index) * P + p];
    return ZOE_OK;
}

static zoe_status write_frames(void *user, const float *frames, size_t index, size_t count)
{
    const run *r = user;
    const size_t P = r->H * r->W;
    if (index + count > r->F)
        return ZOE_INTERNAL;
    for (size_t t = 0; t < count; t++)
        for (size_t p = 0; p < P; p++)
            for (size_t c = 0; c < 3; c++)
                r->video[(c * r->F + index + t) * P + p] = frames[(t * P + p) * 3 + c];
    return ZOE_OK;
}

static void encode(golden *g, zoe_vae *vae, const zoe_store *io, run *r, const char *reference,
                   size_t F, const zoe_probe *probe)
{
    zoe_tensor t;
    void *p;
    size_t wanted;
    if (!zoe_store_find(io, reference, &t))
        return;
    float *want = golden_load(g, io, reference, &wanted);
    golden_must(g, zoe_alloc(g->ctx, &p, wanted, sizeof(float), reference), reference);
    golden_must(g, zoe_vae_encode(g->ctx, vae, p, F, r->H, r->W, read_frame, r, NULL, probe),
                reference);
    golden_compare(g, reference, p, want, wanted, limit);
    zoe_free(p);
    zoe_free(want);
}

static void decode(golden *g, zoe_vae *vae, const zoe_store *io, const char *reference,
                   const float *latent, size_t f, size_t h, size_t w, const zoe_probe *probe,
                   run *base)
{
    zoe_tensor t;
    void *p;
    size_t wanted;
    if (!zoe_store_find(io, reference, &t))
        return;
    float *want = golden_load(g, io, reference, &wanted);
    golden_must(g, zoe_alloc(g->ctx, &p, wanted, sizeof(float), reference), reference);
    run r = {.g = g,
             .layers = base->layers,
             .video = p,
             .F = t.shape[1],
             .H = t.shape[2],
             .W = t.shape[3]};
    zoe_probe own;
    if (probe) {
        own = (zoe_probe){see, &r};
        probe = &own;
    }
    golden_must(g, zoe_vae_decode(g->ctx, vae, latent, f, h, w, write_frames, &r, NULL, probe),
                reference);
    golden_compare(g, reference, p, want, wanted, limit);
    base->seen += r.seen;
    if (zoe_store_find(io, "dec.clamped", &t) && strcmp(reference, "dec.raw") == 0) {
        float *clamped = golden_load(g, io, "dec.clamped", NULL);
        for (size_t i = 0; i < wanted; i++)
            r.video[i] = fminf(fmaxf(r.video[i], -1.0f), 1.0f);
        golden_compare(g, "dec.clamped", p, clamped, wanted, limit);
        zoe_free(clamped);
    }
    zoe_free(p);
    zoe_free(want);
}

/* ---- bands of rows have the bytes of whole frames ---- */

enum { BAND_F = 9, BAND_ROWS = 10, BAND_COLUMNS = 6 }; /* frames; of the latent */

/* Frames of any kind, the same whenever they are asked for. */
static zoe_status make_frame(void *user, float *frame, size_t index)
{
    const size_t n = *(const size_t *)user;
    for (size_t i = 0; i < n; i++)
        frame[i] = (float)((i * 2654435761u + index * 40503u) % 2003u) / 1001.0f - 1.0f;
    return ZOE_OK;
}

typedef struct collected {
    float *frames;
    size_t size, count; /* floats of a frame; frames */
} collected;

static zoe_status collect(void *user, const float *frames, size_t index, size_t count)
{
    collected *c = user;
    if (index != c->count)
        return ZOE_INTERNAL;
    memcpy(c->frames + index * c->size, frames, count * c->size * sizeof *frames);
    c->count += count;
    return ZOE_OK;
}

/* The latent and the frames of one way. */
static void run_bands(golden *g, zoe_vae *vae, float *latent, float *frames, const float *noise,
                      size_t rows)
{
    const size_t stride = zoe_vae_stride(vae), f = (BAND_F - 1) / 4 + 1;
    size_t size = 3 * stride * BAND_ROWS * stride * BAND_COLUMNS;
    collected c = {.frames = frames, .size = size};
    golden_must(g, zoe_vae_set_band(g->ctx, vae, rows), "bands");
    golden_must(g,
                zoe_vae_encode(g->ctx, vae, latent, BAND_F, stride * BAND_ROWS,
                               stride * BAND_COLUMNS, make_frame, &size, NULL, NULL),
                "bands");
    golden_must(
        g, zoe_vae_decode(g->ctx, vae, noise, f, BAND_ROWS, BAND_COLUMNS, collect, &c, NULL, NULL),
        "bands");
}

static void check_bands(golden *g, zoe_vae *vae)
{
    const size_t stride = zoe_vae_stride(vae), places = 3 * BAND_ROWS * BAND_COLUMNS;
    const size_t latents = zoe_vae_channels(vae) * places;
    const size_t pixels = BAND_F * stride * stride * places;
    float *latent[2], *frames[2], *noise;
    void *p;
    golden_must(g, zoe_alloc(g->ctx, &p, 3 * latents + 2 * pixels, sizeof(float), "bands"),
                "bands");
    latent[0] = p;
    latent[1] = latent[0] + latents;
    noise = latent[1] + latents;
    frames[0] = noise + latents;
    frames[1] = frames[0] + pixels;
    for (size_t i = 0; i < latents; i++)
        noise[i] = (float)(i * 2654435761u % 1999u) / 999.0f - 1.0f;
    run_bands(g, vae, latent[0], frames[0], noise, ZOE_VAE_WHOLE);
    for (size_t rows = 2 * stride; rows <= 8 * stride; rows *= 2) {
        run_bands(g, vae, latent[1], frames[1], noise, rows);
        golden_check(g, "bands",
                     memcmp(latent[0], latent[1], latents * sizeof(float)) == 0 &&
                         memcmp(frames[0], frames[1], pixels * sizeof(float)) == 0,
                     "of %zu rows against whole frames", rows);
    }
    golden_check(g, "bands", zoe_vae_set_band(g->ctx, vae, stride) == ZOE_INVALID,
                 "of %zu rows are refused", stride);
    zoe_context_clear(g->ctx);
    golden_must(g, zoe_vae_set_band(g->ctx, vae, 0), "bands");
    zoe_free(p);
}

/* ---- ranks that share the frames ---- */

enum { RANKS = 4 };

/* What they have in common. */
typedef struct shared {
    const char *weights;
    const run *input;
    run clip; /* takes the frames of the first */
    const float *noise;
    size_t f, h, w;
    float *latents; /* what each encodes, `n` floats */
    size_t n;
} shared;

static zoe_status run_rank(void *user, zoe_context *ctx, zoe_comm *comm)
{
    shared *s = user;
    run input = *s->input;
    float *latent = s->latents + zoe_comm_rank(comm) * s->n;
    zoe_store *store;
    zoe_vae *vae = NULL;
    zoe_status status;
    TRY(zoe_store_open(ctx, &store, s->weights, ZOE_NAMES_WAN_VAE));
    TRY_GOTO(zoe_vae_open(ctx, &vae, store));
    TRY_GOTO(zoe_vae_set_ranks(ctx, vae, comm, 0));
    TRY_GOTO(zoe_vae_encode(ctx, vae, latent, input.F, input.H, input.W, read_frame, &input, NULL,
                            NULL));
    status =
        zoe_vae_decode(ctx, vae, s->noise, s->f, s->h, s->w, write_frames, &s->clip, NULL, NULL);
done:
    zoe_vae_close(vae);
    zoe_store_close(store);
    return status;
}

/* The video and the latent of the reference once more, on RANKS ranks. */
static void check_ranks(golden *g, const char *weights, const zoe_store *io, const run *input,
                        const float *noise, zoe_tensor latent)
{
    size_t n_latent, n_frames;
    float *want_latent = golden_load(g, io, "enc.out", &n_latent);
    float *want_frames = golden_load(g, io, "dec.raw", &n_frames);
    zoe_tensor video;
    void *p;
    golden_must(g, zoe_alloc(g->ctx, &p, RANKS * n_latent + n_frames, sizeof(float), "ranks"),
                "ranks");
    zoe_store_find(io, "dec.raw", &video);
    shared s = {.weights = weights,
                .input = input,
                .clip = {.video = (float *)p + RANKS * n_latent,
                         .F = video.shape[1],
                         .H = video.shape[2],
                         .W = video.shape[3]},
                .noise = noise,
                .f = latent.shape[1],
                .h = latent.shape[2],
                .w = latent.shape[3],
                .latents = p,
                .n = n_latent};
    golden_run_ranks(g, RANKS, run_rank, &s);
    for (size_t i = 0; i < RANKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "enc.out, rank %zu", i);
        golden_compare(g, name, s.latents + i * n_latent, want_latent, n_latent, limit);
    }
    golden_compare(g, "dec.raw, ranks", s.clip.video, want_frames, n_frames, limit);
    zoe_free(p);
    zoe_free(want_frames);
    zoe_free(want_latent);
}

int main(int argc, char **argv)
{
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    zoe_store *weights, *io, *layers;
    zoe_vae *vae;
    zoe_tensor t, video;
    golden_must(
        &g,
        zoe_store_open(g.ctx, &weights, golden_path(dir, "model.safetensors"), ZOE_NAMES_WAN_VAE),
        dir);
    golden_must(&g,
                zoe_store_open(g.ctx, &io, golden_path(dir, "io.safetensors"), ZOE_NAMES_AS_STORED),
                dir);
    golden_must(&g,
                zoe_store_open(g.ctx, &layers, golden_path(dir, "intermediates.safetensors"),
                               ZOE_NAMES_AS_STORED),
                dir);
    golden_must(&g, zoe_vae_open(g.ctx, &vae, weights), dir);
    if (zoe_vae_stride(vae) == 16)
        limit = 2e-5;

    run r = {.g = &g, .layers = layers};
    const zoe_probe probe = {see, &r};
    r.video = golden_load(&g, io, "in.video", NULL);
    zoe_store_find(io, "in.video", &t);
    r.F = t.shape[1];
    r.H = t.shape[2];
    r.W = t.shape[3];
    encode(&g, vae, io, &r, "enc.out", r.F, &probe);
    encode(&g, vae, io, &r, "enc1.out", 1, NULL);

    float *latent = golden_load(&g, io, "in.latent", NULL), *first;
    zoe_store_find(io, "in.latent", &t);
    const size_t z = t.shape[0], f = t.shape[1], h = t.shape[2], w = t.shape[3], P = h * w;
    decode(&g, vae, io, "dec.raw", latent, f, h, w, &probe, &r);
    void *p;
    golden_must(&g, zoe_alloc(g.ctx, &p, z * P, sizeof(float), "latent"), dir);
    first = p;
    for (size_t c = 0; c < z; c++)
        memcpy(first + c * P, latent + c * f * P, P * sizeof(float));
    decode(&g, vae, io, "dec1.raw", first, 1, h, w, NULL, &r);
    golden_check(&g, "intermediates", r.seen == zoe_store_count(layers), "%zu of %zu tensors",
                 r.seen, zoe_store_count(layers));
    check_bands(&g, vae);
    if (zoe_store_find(io, "enc.out", &video) && zoe_store_find(io, "dec.raw", &video))
        check_ranks(&g, golden_path(dir, "model.safetensors"), io, &r, latent, t);
    zoe_free(first);
    zoe_free(latent);
    zoe_free(r.video);
    zoe_vae_close(vae);
    zoe_store_close(layers);
    zoe_store_close(io);
    zoe_store_close(weights);
    return golden_end(&g);
}
