/* zoe bench vae: the Wan 2.1 autoencoder, its time and the most memory that it takes. */
#include <stdio.h>

#include "base/random.h"
#include "bench.h"
#include "model/model.h"

enum { LEVELS = 4, Z = 16 };

/* Frames of height x width pixels. unit: channels of the widest picture, 96 in the real one. */
typedef struct vae_case {
    const char *name;
    bool encode;
    size_t frames, height, width, unit;
    bool hidden;
} vae_case;

static const vae_case cases[] = {
    {"vae_decode", false, 1, 480, 832, 96, false}, {"vae_decode", false, 5, 480, 832, 96, false},
    {"vae_encode", true, 1, 480, 832, 96, false},  {"vae_encode", true, 5, 480, 832, 96, false},
    {"vae_tiny", false, 1, 32, 32, 8, true},       {"vae_tiny_encode", true, 1, 32, 32, 8, true},
};

/* Adds layers, and counts what they have to do on frames x height x width. */
typedef struct builder {
    bench_bag *bag;
    const char *part; /* "encoder", "decoder" */
    size_t next;      /* number of the next layer of the group */
    double T, H, W;   /* of the layer's input */
    double work;      /* multiplications and additions so far */
} builder;

static zoe_status add_conv(builder *b, const char *name, size_t out, size_t in, size_t kt, size_t k)
{
    char full[128];
    const size_t shape3[] = {out, in, kt, k, k}, shape2[] = {out, in, k, k};
    snprintf(full, sizeof full, "%s.weight", name);
    TRY(zoe_bench_bag_add(b->bag, full, kt ? 5 : 4, kt ? shape3 : shape2));
    snprintf(full, sizeof full, "%s.bias", name);
    b->work += 2.0 * b->T * b->H * b->W * (double)(out * in * (kt ? kt : 1) * k * k);
    return zoe_bench_bag_add(b->bag, full, 1, &out);
}

static zoe_status add_gamma(builder *b, const char *name, size_t C, int rank)
{
    char full[128];
    const size_t shape[] = {C, 1, 1, 1};
    snprintf(full, sizeof full, "%s.gamma", name);
    return zoe_bench_bag_add(b->bag, full, rank, shape);
}

static zoe_status add_residual(builder *b, const char *prefix, size_t out, size_t in)
{
    char name[96];
    snprintf(name, sizeof name, "%s.residual.0", prefix);
    TRY(add_gamma(b, name, in, 4));
    snprintf(name, sizeof name, "%s.residual.2", prefix);
    TRY(add_conv(b, name, out, in, 3, 3));
    snprintf(name, sizeof name, "%s.residual.3", prefix);
    TRY(add_gamma(b, name, out, 4));
    snprintf(name, sizeof name, "%s.residual.6", prefix);
    TRY(add_conv(b, name, out, out, 3, 3));
    if (in == out)
        return ZOE_OK;
    snprintf(name, sizeof name, "%s.shortcut", prefix);
    return add_conv(b, name, out, in, 1, 1);
}

static zoe_status add_middle(builder *b, size_t C)
{
    char name[96];
    snprintf(name, sizeof name, "%s.middle.0", b->part);
    TRY(add_residual(b, name, C, C));
    snprintf(name, sizeof name, "%s.middle.1.norm", b->part);
    TRY(add_gamma(b, name, C, 3));
    snprintf(name, sizeof name, "%s.middle.1.to_qkv", b->part);
    TRY(add_conv(b, name, 3 * C, C, 0, 1));
    snprintf(name, sizeof name, "%s.middle.1.proj", b->part);
    TRY(add_conv(b, name, C, C, 0, 1));
    b->work += 4.0 * b->T * b->H * b->W * b->H * b->W * (double)C;
    snprintf(name, sizeof name, "%s.middle.2", b->part);
    return add_residual(b, name, C, C);
}

static zoe_status add_head(builder *b, size_t out, size_t in)
{
    char name[96];
    snprintf(name, sizeof name, "%s.head.0", b->part);
    TRY(add_gamma(b, name, in, 4));
    snprintf(name, sizeof name, "%s.head.2", b->part);
    return add_conv(b, name, out, in, 3, 3);
}

/* Half the side; then, if `time`, half the frames but for the first. */
static zoe_status add_down(builder *b, const char *prefix, size_t C, bool time)
{
    char name[96];
    b->H /= 2;
    b->W /= 2;
    snprintf(name, sizeof name, "%s.resample.1", prefix);
    TRY(add_conv(b, name, C, C, 0, 3));
    if (!time)
        return ZOE_OK;
    b->T = (b->T + 1) / 2;
    snprintf(name, sizeof name, "%s.time_conv", prefix);
    return add_conv(b, name, C, C, 3, 1);
}

/* Twice the frames but for the first, if `time`; then twice the side. */
static zoe_status add_up(builder *b, const char *prefix, size_t C, bool time)
{
    char name[96];
    if (time) {
        const double T = b->T;
        b->T = T - 1; /* the first frame goes past the convolution */
        snprintf(name, sizeof name, "%s.time_conv", prefix);
        TRY(add_conv(b, name, 2 * C, C, 3, 1));
        b->T = 2 * T - 1;
    }
    b->H *= 2;
    b->W *= 2;
    snprintf(name, sizeof name, "%s.resample.1", prefix);
    return add_conv(b, name, C / 2, C, 0, 3);
}

/* The name of the group's next layer. */
typedef struct layer_name {
    char text[64];
} layer_name;
static layer_name next_name(builder *b, const char *group)
{
    layer_name name;
    snprintf(name.text, sizeof name.text, "%s.%s.%zu", b->part, group, b->next++);
    return name;
}

static zoe_status add_encoder(builder *b, size_t unit)
{
    const size_t widths[LEVELS] = {unit, 2 * unit, 4 * unit, 4 * unit};
    size_t C = unit;
    TRY(add_conv(b, "encoder.conv1", C, 3, 3, 3));
    for (size_t i = 0; i < LEVELS; i++) {
        for (size_t j = 0; j < 2; j++) {
            TRY(add_residual(b, next_name(b, "downsamples").text, widths[i], C));
            C = widths[i];
        }
        if (i + 1 < LEVELS)
            TRY(add_down(b, next_name(b, "downsamples").text, C, i > 0));
    }
    TRY(add_middle(b, C));
    TRY(add_head(b, 2 * Z, C));
    return add_conv(b, "conv1", 2 * Z, 2 * Z, 1, 1);
}

static zoe_status add_decoder(builder *b, size_t unit)
{
    const size_t widths[LEVELS] = {4 * unit, 4 * unit, 2 * unit, unit};
    size_t C = 4 * unit;
    TRY(add_conv(b, "conv2", Z, Z, 1, 1));
    TRY(add_conv(b, "decoder.conv1", C, Z, 3, 3));
    TRY(add_middle(b, C));
    for (size_t i = 0; i < LEVELS; i++) {
        for (size_t j = 0; j < 3; j++) {
            TRY(add_residual(b, next_name(b, "upsamples").text, widths[i], C));
            C = widths[i];
        }
        if (i + 1 < LEVELS) {
            TRY(add_up(b, next_name(b, "upsamples").text, C, i < 2));
            C /= 2;
        }
    }
    return add_head(b, 3, C);
}

/* ---- runs ---- */

typedef struct coder {
    const vae_case *c;
    zoe_store *store;
    zoe_vae *vae;
    void *latent;
    double work;
} coder;

static zoe_status give_frame(void *user, float *frame, size_t index)
{
    const vae_case *c = user;
    for (size_t i = 0; i < c->height * c->width * 3; i++)
        frame[i] = (float)((i * 2654435761u + index * 40503u) % 1000u) * 2e-3f - 1.0f;
    return ZOE_OK;
}

static zoe_status take_frames(void *user, const float *frames, size_t index, size_t count)
{
    (void)user, (void)frames, (void)index, (void)count;
    return ZOE_OK;
}

static zoe_status run_coder(zoe_context *ctx, void *self)
{
    const coder *k = self;
    const vae_case *c = k->c;
    if (c->encode)
        return zoe_vae_encode(ctx, k->vae, k->latent, c->frames, c->height, c->width, give_frame,
                              (void *)(uintptr_t)c, NULL, NULL);
    return zoe_vae_decode(ctx, k->vae, k->latent, (c->frames + 3) / 4, c->height / 8, c->width / 8,
                          take_frames, NULL, NULL, NULL);
}

static zoe_status fill(bench_bag *bag, coder *k)
{
    const vae_case *c = k->c;
    builder encoder = {.bag = bag,
                       .part = "encoder",
                       .T = (double)c->frames,
                       .H = (double)c->height,
                       .W = (double)c->width};
    builder decoder = {.bag = bag,
                       .part = "decoder",
                       .T = (double)((c->frames + 3) / 4),
                       .H = (double)(c->height / 8),
                       .W = (double)(c->width / 8)};
    TRY(add_encoder(&encoder, c->unit));
    TRY(add_decoder(&decoder, c->unit));
    k->work = c->encode ? encoder.work : decoder.work;
    return ZOE_OK;
}

static zoe_status open_coder(zoe_context *ctx, coder *k)
{
    const size_t cells = (k->c->frames + 3) / 4 * (k->c->height / 8) * (k->c->width / 8);
    bench_bag bag = {.ctx = ctx, .dtype = ZOE_F32};
    zoe_random random;
    zoe_status status = fill(&bag, k);
    if (status == ZOE_OK)
        status = zoe_bench_bag_open(&bag, &k->store, ZOE_NAMES_WAN_VAE, ZOE_F32);
    zoe_bench_bag_free(&bag);
    TRY(status);
    TRY(zoe_vae_open(ctx, &k->vae, k->store));
    TRY(zoe_alloc(ctx, &k->latent, Z * cells, sizeof(float), "latent"));
    zoe_random_seed(&random, 1);
    zoe_random_normal(&random, k->latent, Z * cells);
    return ZOE_OK;
}

static zoe_status run_case(bench *b, const vae_case *c)
{
    const size_t shape[] = {c->frames, c->height, c->width, c->unit};
    bench_row row = {.name = {c->name, ZOE_F32, ZOE_F32, ZOE_F32, shape, 4}, .unit = BENCH_FLOP};
    if (!zoe_bench_wanted(b, &row.name, c->hidden))
        return ZOE_OK;
    coder k = {.c = c};
    bench_ours ours = {run_coder, &k};
    zoe_status status = open_coder(b->ctx, &k);
    zoe_bench_memory_reset();
    row.work = k.work;
    if (status == ZOE_OK)
        status = zoe_bench_row_measure(b, &row, zoe_bench_time_ours, &ours);
    row.memory = zoe_bench_memory_peak();
    zoe_vae_close(k.vae);
    zoe_store_close(k.store);
    zoe_free(k.latent);
    TRY(status);
    zoe_bench_row_print(b, &row);
    return ZOE_OK;
}

zoe_status zoe_bench_vae(bench *b)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        TRY(run_case(b, &cases[i]));
    return ZOE_OK;
}
