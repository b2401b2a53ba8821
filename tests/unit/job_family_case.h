/* Checkpoints of every kind of Wan model, made from that of e2e_i2v, for the tests of jobs. */
#ifndef JOB_FAMILY_CASE_H
#define JOB_FAMILY_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/job.h"
#include "zoetrope/inspect.h"

#define DATA ZOE_TEST_DATA "/"
enum { MOST = 200, LAYERS = 2, FEATURES = 160, FEATURE_ROWS = 17 };

typedef struct scene {
    zoe_context *ctx;
    char folder[32];
    char t2v_two[64], t2v_one[64], i2v[64], flf[64]; /* checkpoints */
    const char *first;
    char last[64], out[64], state[64];
    size_t stop_at; /* cancel after so many steps; 0: never */
    float *seen;    /* the condition */
    size_t seen_count;
} scene;

static inline void must(const scene *s, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(s->ctx));
}

/* ---- checkpoints ---- */

typedef struct tensors {
    zoe_named_tensor items[MOST];
    char names[MOST][96];
    size_t n;
} tensors;

static uint64_t seed;

static float noise(float scale)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return scale * ((float)(seed >> 40) / (float)(1u << 23) - 1.0f);
}

static float *add(tensors *t, const char *name, int rank, const size_t *shape)
{
    assert_in_range(t->n, 0, MOST - 1);
    const zoe_tensor none = zoe_tensor_of(NULL, ZOE_F32, rank, shape);
    float *values = malloc(zoe_tensor_bytes(none));
    assert_non_null(values);
    snprintf(t->names[t->n], sizeof t->names[0], "%s", name);
    t->items[t->n].name = t->names[t->n];
    t->items[t->n++].tensor = zoe_tensor_of(values, ZOE_F32, rank, shape);
    return values;
}

static inline void add_noise(tensors *t, const char *name, int rank, const size_t *shape,
                             float middle, float scale)
{
    float *values = add(t, name, rank, shape);
    for (size_t i = 0; i < zoe_tensor_count(t->items[t->n - 1].tensor); i++)
        values[i] = middle + noise(scale);
}

/* The expert's tensors; its patch embedding takes the first `channels`. */
static inline void add_expert(const scene *s, tensors *t, const char *expert, size_t channels)
{
    zoe_store *store;
    must(s, zoe_store_open(s->ctx, &store, expert, ZOE_NAMES_WAN_DIT));
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const zoe_tensor w = zoe_store_tensor(store, i);
        size_t shape[ZOE_MAX_RANK];
        memcpy(shape, w.shape, sizeof shape);
        const bool patch = strcmp(zoe_store_name(store, i), "patch_embedding.weight") == 0;
        if (patch)
            shape[1] = channels;
        float *values = add(t, zoe_store_name(store, i), w.rank, shape);
        for (size_t r = 0; patch && r < shape[0]; r++)
            for (size_t k = 0; k < 4 * channels; k++)
                values[4 * channels * r + k] = ((const float *)w.data)[4 * w.shape[1] * r + k];
        if (!patch)
            memcpy(values, w.data, zoe_tensor_bytes(w));
    }
    zoe_store_close(store);
}

static inline void add_image_branch(tensors *t, size_t positions)
{
    enum { D = 64, I = FEATURES };
    static const struct {
        const char *name;
        size_t out, in; /* in 0: a vector */
        float middle;
    } rows[] = {{"img_emb.proj.0.weight", I, 0, 1}, {"img_emb.proj.0.bias", I, 0, 0},
                {"img_emb.proj.1.weight", I, I, 0}, {"img_emb.proj.1.bias", I, 0, 0},
                {"img_emb.proj.3.weight", D, I, 0}, {"img_emb.proj.3.bias", D, 0, 0},
                {"img_emb.proj.4.weight", D, 0, 1}, {"img_emb.proj.4.bias", D, 0, 0}};
    seed = 7;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        add_noise(t, rows[i].name, rows[i].in ? 2 : 1, (size_t[]){rows[i].out, rows[i].in},
                  rows[i].middle, 0.1f);
    for (size_t i = 0; i < LAYERS; i++) {
        static const char *const names[] = {"k_img", "v_img"};
        char name[64];
        for (size_t k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "blocks.%zu.cross_attn.%s.weight", i, names[k]);
            add_noise(t, name, 2, (size_t[]){D, D}, 0.0f, 0.15f);
            snprintf(name, sizeof name, "blocks.%zu.cross_attn.%s.bias", i, names[k]);
            add_noise(t, name, 1, (size_t[]){D}, 0.0f, 0.1f);
        }
        snprintf(name, sizeof name, "blocks.%zu.cross_attn.norm_k_img.weight", i);
        add_noise(t, name, 1, (size_t[]){D}, 1.0f, 0.1f);
    }
    if (positions)
        add_noise(t, "img_emb.emb_pos", 3, (size_t[]){1, positions, I}, 0.0f, 0.2f);
}

/* A transformer with its configuration in a folder. */
static inline void write_transformer(const scene *s, const char *folder, const char *type,
                                     const char *expert, size_t channels, bool branch,
                                     size_t positions)
{
    tensors *t = calloc(1, sizeof *t);
    char path[256];
    assert_non_null(t);
    add_expert(s, t, expert, channels);
    if (branch)
        add_image_branch(t, positions);
    must(s, zoe_folder_make(s->ctx, folder));
    snprintf(path, sizeof path, "%s/diffusion_pytorch_model.safetensors", folder);
    must(s, zoe_safetensors_write(s->ctx, path, t->items, t->n, NULL, 0));
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i].tensor.data);
    free(t);
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "{\"model_type\": \"%s\", \"num_heads\": 2, \"text_len\": 32}\n", type);
    fclose(file);
}

static inline void add_link(const char *folder, const char *target, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

/* VAE, text encoder and tokenizer of e2e_i2v. */
static inline void add_rest(const char *folder, bool clip)
{
    add_link(folder, DATA "e2e_i2v/ckpt/Wan2.1_VAE.pth", "Wan2.1_VAE.pth");
    add_link(folder, DATA "e2e_i2v/ckpt/models_t5_umt5-xxl-enc-bf16.pth",
             "models_t5_umt5-xxl-enc-bf16.pth");
    add_link(folder, DATA "e2e_i2v/ckpt/google", "google");
    if (clip)
        add_link(folder, DATA "clip/model.safetensors",
                 "models_clip_open-clip-xlm-roberta-large-vit-huge-14.safetensors");
}

#define HIGH DATA "e2e_i2v/ckpt/high_noise_model"
#define LOW DATA "e2e_i2v/ckpt/low_noise_model"

static inline void write_checkpoints(scene *s)
{
    char path[128];
    must(s, zoe_folder_make(s->ctx, s->t2v_two));
    snprintf(path, sizeof path, "%s/high_noise_model", s->t2v_two);
    write_transformer(s, path, "t2v", HIGH, 16, false, 0);
    snprintf(path, sizeof path, "%s/low_noise_model", s->t2v_two);
    write_transformer(s, path, "t2v", LOW, 16, false, 0);
    write_transformer(s, s->t2v_one, "t2v", HIGH, 16, false, 0);
    write_transformer(s, s->i2v, "i2v", HIGH, 36, true, 0);
    write_transformer(s, s->flf, "flf2v", HIGH, 36, true, 2 * FEATURE_ROWS);
    add_rest(s->t2v_two, false);
    add_rest(s->t2v_one, false);
    add_rest(s->i2v, true);
    add_rest(s->flf, true);
}

/* The first picture, mirrored. */
static inline void write_last(const scene *s)
{
    zoe_picture picture;
    must(s, zoe_picture_read(s->ctx, &picture, s->first, false));
    for (size_t y = 0; y < picture.height; y++)
        for (size_t x = 0; x < picture.width / 2; x++) {
            uint8_t *a = picture.rgb + 3 * (y * picture.width + x), three[3];
            uint8_t *b = picture.rgb + 3 * (y * picture.width + picture.width - 1 - x);
            memcpy(three, a, 3);
            memcpy(a, b, 3);
            memcpy(b, three, 3);
        }
    must(s, zoe_picture_write_png(s->ctx, s->last, &picture, NULL, 0));
    zoe_picture_free(&picture);
}

#endif
