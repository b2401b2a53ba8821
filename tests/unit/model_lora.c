/* A LoRA beside the weights of the Wan transformer against the same weights with the LoRA merged into
 * them: every layer and vector of a small network with an image branch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "model/model.h"

enum { IMAGE_DIM = 32, IMAGE_ROWS = 5, CONTEXT_ROWS = 7, MOST = 256, LAYERS = 2 };
#define DATA ZOE_TEST_DATA "/dit/i2v_a14b/"

typedef struct lora_case {
    zoe_context *ctx;
    char folder[40];
    zoe_store *base;
    zoe_config *config;
    char path[64]; /* of the last file written */
} lora_case;

static uint64_t seed = 7;

static float noise(float scale)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return scale * ((float)(seed >> 40) / (float)(1u << 23) - 1.0f);
}

static void must(const lora_case *c, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(c->ctx));
}

/* ---- files ---- */

typedef struct tensors {
    zoe_named_tensor items[MOST];
    char names[MOST][96];
    size_t n;
} tensors;

/* A tensor to be filled; its type is f32 first and may be changed by narrow(). */
static float *add(tensors *t, const char *name, const char *end, int rank, const size_t *shape)
{
    assert_in_range(t->n, 0, MOST - 1);
    const zoe_tensor none = zoe_tensor_of(NULL, ZOE_F32, rank, shape);
    float *values = malloc(zoe_tensor_bytes(none) + 4);
    assert_non_null(values);
    snprintf(t->names[t->n], sizeof t->names[0], "%s%s", name, end);
    t->items[t->n].name = t->names[t->n];
    t->items[t->n++].tensor = zoe_tensor_of(values, ZOE_F32, rank, shape);
    return values;
}

static void add_noise(tensors *t, const char *name, const char *end, int rank, const size_t *shape,
                      float middle, float scale)
{
    float *values = add(t, name, end, rank, shape);
    for (size_t i = 0; i < zoe_tensor_count(t->items[t->n - 1].tensor); i++)
        values[i] = middle + noise(scale);
}

static void narrow(tensors *t, zoe_dtype dtype)
{
    for (size_t i = 0; i < t->n; i++) {
        zoe_tensor *p = &t->items[i].tensor;
        zoe_narrow(p->data, dtype, p->data, zoe_tensor_count(*p));
        *p = zoe_tensor_of(p->data, dtype, p->rank, p->shape);
    }
}

static const char *write_file(lora_case *c, const char *name, tensors *t)
{
    snprintf(c->path, sizeof c->path, "%s/%s", c->folder, name);
    must(c, zoe_safetensors_write(c->ctx, c->path, t->items, t->n, NULL, 0));
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i].tensor.data);
    free(t);
    return c->path;
}

static tensors *tensors_new(void)
{
    tensors *t = calloc(1, sizeof *t);
    assert_non_null(t);
    return t;
}

/* The network of the test data and an image branch. */
static const char *base_file(lora_case *c)
{
    zoe_store *store;
    tensors *t = tensors_new();
    must(c, zoe_store_open(c->ctx, &store, DATA "diffusion_pytorch_model.safetensors",
                           ZOE_NAMES_WAN_DIT));
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const zoe_tensor w = zoe_store_tensor(store, i);
        zoe_tensor_widen(add(t, zoe_store_name(store, i), "", w.rank, w.shape), w, 0,
                         zoe_tensor_count(w));
    }
    zoe_tensor patch;
    assert_true(zoe_store_find(store, "patch_embedding.weight", &patch));
    const size_t D = patch.shape[0], I = IMAGE_DIM;
    add_noise(t, "img_emb.proj.0", ".weight", 1, (size_t[]){I}, 1.0f, 0.1f);
    add_noise(t, "img_emb.proj.0", ".bias", 1, (size_t[]){I}, 0.0f, 0.1f);
    add_noise(t, "img_emb.proj.1", ".weight", 2, (size_t[]){I, I}, 0.0f, 0.3f);
    add_noise(t, "img_emb.proj.1", ".bias", 1, (size_t[]){I}, 0.0f, 0.1f);
    add_noise(t, "img_emb.proj.3", ".weight", 2, (size_t[]){D, I}, 0.0f, 0.3f);
    add_noise(t, "img_emb.proj.3", ".bias", 1, (size_t[]){D}, 0.0f, 0.1f);
    add_noise(t, "img_emb.proj.4", ".weight", 1, (size_t[]){D}, 1.0f, 0.1f);
    add_noise(t, "img_emb.proj.4", ".bias", 1, (size_t[]){D}, 0.0f, 0.1f);
    for (size_t i = 0; i < LAYERS; i++) {
        static const char *const names[] = {"k_img", "v_img"};
        char name[64];
        for (size_t k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "blocks.%zu.cross_attn.%s", i, names[k]);
            add_noise(t, name, ".weight", 2, (size_t[]){D, D}, 0.0f, 0.15f);
            add_noise(t, name, ".bias", 1, (size_t[]){D}, 0.0f, 0.1f);
        }
        snprintf(name, sizeof name, "blocks.%zu.cross_attn.norm_k_img", i);
        add_noise(t, name, ".weight", 1, (size_t[]){D}, 1.0f, 0.1f);
    }
    zoe_store_close(store);
    return write_file(c, "base.safetensors", t);
}

static bool ends(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* A LoRA for everything that the base has: products for matrices, besides full differences of a few
 * of them, and differences of vectors. */
static const char *lora_file(lora_case *c, const char *name, size_t R, zoe_dtype dtype)
{
    tensors *t = tensors_new();
    for (size_t i = 0; i < zoe_store_count(c->base); i++) {
        const zoe_tensor w = zoe_store_tensor(c->base, i);
        const char *full = zoe_store_name(c->base, i);
        const char *dot = strrchr(full, '.');
        char layer[96];
        snprintf(layer, sizeof layer, "diffusion_model.%.*s", (int)(dot - full), full);
        if (!ends(full, ".weight") || w.rank < 2) {
            add_noise(t, layer,
                      ends(full, ".bias")     ? ".diff_b"
                      : ends(full, ".weight") ? ".diff"
                                              : ".diff_m",
                      w.rank, w.shape, 0.0f, 0.05f);
            continue;
        }
        const size_t N = w.shape[0], K = zoe_tensor_count(w) / N;
        add_noise(t, layer, ".lora_down.weight", 2, (size_t[]){R, K}, 0.0f, 1.0f / sqrtf((float)K));
        add_noise(t, layer, ".lora_up.weight", 2, (size_t[]){N, R}, 0.0f, 0.2f / sqrtf((float)R));
        if (i % 2)
            *add(t, layer, ".alpha", 0, NULL) = 0.5f * (float)R;
        if (strstr(full, "head.head") || strstr(full, "patch") || strstr(full, ".ffn.2"))
            add_noise(t, layer, ".diff", w.rank, w.shape, 0.0f, 0.02f);
    }
    narrow(t, dtype);
    return write_file(c, name, t);
}

static zoe_lora *lora_open(lora_case *c, const char *name, size_t R, zoe_dtype dtype)
{
    zoe_lora *lora;
    must(c, zoe_lora_open(c->ctx, &lora, lora_file(c, name, R, dtype), c->base));
    return lora;
}

static void merge_part(float *w, size_t count, const zoe_lora_part *p, double strength)
{
    if (p->down.dtype == ZOE_NONE) {
        for (size_t i = 0; i < count; i++)
            w[i] += (float)strength * zoe_load_f32(p->up.data, p->up.dtype, i);
        return;
    }
    const size_t N = p->up.shape[0], R = p->up.shape[1], K = p->down.shape[1];
    for (size_t n = 0; n < N; n++)
        for (size_t k = 0; k < K; k++) {
            double sum = 0.0;
            for (size_t r = 0; r < R; r++)
                sum += (double)zoe_load_f32(p->up.data, p->up.dtype, n * R + r) *
                       (double)zoe_load_f32(p->down.data, p->down.dtype, r * K + k);
            w[n * K + k] += (float)(strength * (double)p->factor * sum);
        }
}

typedef struct adapter {
    const zoe_lora *lora;
    float strength;
} adapter;

/* The base with these LoRAs in its weights. */
static zoe_store *merged_store(lora_case *c, const adapter *adapters, size_t n)
{
    zoe_store *store;
    tensors *t = tensors_new();
    for (size_t i = 0; i < zoe_store_count(c->base); i++) {
        const zoe_tensor w = zoe_store_tensor(c->base, i);
        const char *name = zoe_store_name(c->base, i);
        const size_t count = zoe_tensor_count(w);
        float *values = add(t, name, "", w.rank, w.shape);
        zoe_tensor_widen(values, w, 0, count);
        for (size_t a = 0; a < n; a++) {
            const zoe_lora *lora = adapters[a].lora;
            for (size_t k = zoe_lora_find(lora, name); k < zoe_lora_count(lora); k++) {
                const zoe_lora_part p = zoe_lora_at(lora, k);
                if (strcmp(p.name, name) == 0)
                    merge_part(values, count, &p, (double)adapters[a].strength);
            }
        }
    }
    must(c,
         zoe_store_open(c->ctx, &store, write_file(c, "merged.safetensors", t), ZOE_NAMES_WAN_DIT));
    return store;
}

/* ---- running ---- */

typedef struct size {
    size_t f, h, w;
} size;
static const size little = {2, 6, 8};
static const size chunks = {2, 46, 46}; /* 1058 tokens: more than one chunk */

typedef struct result {
    float *values;
    size_t n, adapter_rank, weight_bytes;
} result;

static float *inputs(size_t n, float scale)
{
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++)
        values[i] = noise(scale);
    return values;
}

static result velocity(lora_case *c, const zoe_store *store, const adapter *adapters, size_t n,
                       size s, bool bf16)
{
    zoe_wan *wan;
    zoe_wan_text *text;
    zoe_wan_work *work;
    must(c, zoe_wan_open(c->ctx, &wan, store, c->config, bf16));
    for (size_t i = 0; i < n; i++)
        must(c, zoe_wan_adapt(c->ctx, wan, adapters[i].lora, adapters[i].strength));
    const zoe_wan_dims *d = zoe_wan_dims_of(wan);
    const size_t plane = s.f * s.h * s.w;
    seed = 99;
    float *latent = inputs(d->out_dim * plane, 1.0f);
    float *condition = inputs((d->in_dim - d->out_dim) * plane, 1.0f);
    float *context = inputs(CONTEXT_ROWS * d->text_dim, 1.0f);
    float *image = inputs(IMAGE_ROWS * IMAGE_DIM, 1.0f);
    result r = {.n = d->out_dim * plane,
                .adapter_rank = d->adapter_rank,
                .weight_bytes = zoe_wan_weight_bytes(wan)};
    r.values = malloc(r.n * sizeof *r.values);
    assert_non_null(r.values);
    must(c, zoe_wan_text_new_with_image(c->ctx, &text, wan, context, CONTEXT_ROWS, image,
                                        IMAGE_ROWS, NULL));
    must(c, zoe_wan_work_new(c->ctx, &work, d, bf16, s.f, s.h, s.w));
    must(c, zoe_wan_forward_still(c->ctx, wan, work, r.values, latent, condition, text, 700.0, 1,
                                  NULL));
    zoe_wan_work_free(work);
    zoe_wan_text_free(text);
    zoe_wan_close(wan);
    free(latent);
    free(condition);
    free(context);
    free(image);
    return r;
}

static double distance(result got, result want)
{
    double error = 0.0, norm = 0.0;
    assert_int_equal(got.n, want.n);
    for (size_t i = 0; i < got.n; i++) {
        const double e = (double)got.values[i] - (double)want.values[i];
        error += e * e;
        norm += (double)want.values[i] * (double)want.values[i];
    }
    return sqrt(error / norm);
}

static void assert_within(const char *what, double got, double most)
{
    print_message("%s: rel L2 %.3g\n", what, got);
    if (!(got <= most))
        fail_msg("%s: rel L2 %g, at most %g is wanted", what, got, most);
}

static bool same_bytes(result a, result b)
{
    return a.n == b.n && memcmp(a.values, b.values, a.n * sizeof *a.values) == 0;
}

/* ---- the tests ---- */

static void beside_the_weights_is_as_in_them(void **state)
{
    lora_case *c = *state;
    static const struct {
        size_t R;
        zoe_dtype dtype;
        float strength;
        const size *s;
    } rows[] = {{4, ZOE_F32, 1.0f, &little},
                {5, ZOE_BF16, 0.7f, &little},
                {64, ZOE_F16, -1.5f, &little},
                {17, ZOE_F32, 1.0f, &chunks}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zoe_lora *lora = lora_open(c, "lora.safetensors", rows[i].R, rows[i].dtype);
        const adapter a = {lora, rows[i].strength};
        assert_int_equal(zoe_lora_summary_of(lora).unmatched, 0);
        zoe_store *merged = merged_store(c, &a, 1);
        const result plain = velocity(c, c->base, NULL, 0, *rows[i].s, false);
        const result got = velocity(c, c->base, &a, 1, *rows[i].s, false);
        const result want = velocity(c, merged, NULL, 0, *rows[i].s, false);
        assert_int_equal(got.adapter_rank, rows[i].R);
        assert_in_range(got.weight_bytes - plain.weight_bytes, 1, 40000); /* no copy of weights */
        assert_within("f32", distance(got, want), 1e-5);
        assert_true(distance(plain, want) > 0.05);
        free(plain.values);
        free(got.values);
        free(want.values);
        zoe_store_close(merged);
        zoe_lora_close(lora);
    }
}

/* With merged weights in bf16, the differences are rounded once more, so the two only come as near
 * as bf16 itself comes to f32. */
static void in_bf16_the_error_is_that_of_bf16(void **state)
{
    lora_case *c = *state;
    zoe_lora *lora = lora_open(c, "lora.safetensors", 16, ZOE_BF16);
    const adapter a = {lora, 1.0f};
    zoe_store *merged = merged_store(c, &a, 1);
    const result exact = velocity(c, merged, NULL, 0, little, false);
    const result want = velocity(c, merged, NULL, 0, little, true);
    const result got = velocity(c, c->base, &a, 1, little, true);
    const double usual = distance(want, exact);
    assert_within("bf16 merged to f32", usual, 3e-2);
    assert_within("bf16 adapted to f32", distance(got, exact), 1.25 * usual);
    assert_within("bf16 adapted to merged", distance(got, want), 2.0 * usual);
    free(exact.values);
    free(want.values);
    free(got.values);
    zoe_store_close(merged);
    zoe_lora_close(lora);
}

static void several_add_up(void **state)
{
    lora_case *c = *state;
    zoe_lora *first = lora_open(c, "first.safetensors", 3, ZOE_F32);
    zoe_lora *second = lora_open(c, "second.safetensors", 8, ZOE_BF16);
    const adapter both[] = {{first, 0.8f}, {second, -0.5f}};
    const adapter halves[] = {{first, 0.4f}, {second, -0.5f}, {first, 0.4f}};
    zoe_store *merged = merged_store(c, both, 2);
    const result want = velocity(c, merged, NULL, 0, little, false);
    const result got = velocity(c, c->base, both, 2, little, false);
    const result split = velocity(c, c->base, halves, 3, little, false);
    assert_int_equal(got.adapter_rank, 11);
    assert_int_equal(split.adapter_rank, 14);
    assert_within("two", distance(got, want), 1e-5);
    assert_within("three", distance(split, want), 1e-5);
    free(want.values);
    free(got.values);
    free(split.values);
    zoe_store_close(merged);
    zoe_lora_close(first);
    zoe_lora_close(second);
}

static void strength_0_is_none(void **state)
{
    lora_case *c = *state;
    zoe_lora *lora = lora_open(c, "lora.safetensors", 4, ZOE_F32);
    const adapter a = {lora, 0.0f};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const result none = velocity(c, c->base, NULL, 0, little, bf16);
        const result zero = velocity(c, c->base, &a, 1, little, bf16);
        assert_true(same_bytes(none, zero));
        assert_int_equal(zero.adapter_rank, 0);
        assert_int_equal(zero.weight_bytes, none.weight_bytes);
        free(none.values);
        free(zero.values);
    }
    zoe_lora_close(lora);
}

static void threads_change_no_bit(void **state)
{
    lora_case *c = *state;
    zoe_lora *lora = lora_open(c, "lora.safetensors", 20, ZOE_BF16);
    const adapter a = {lora, 1.0f};
    const result one = velocity(c, c->base, &a, 1, chunks, false);
    zoe_context *ctx = c->ctx;
    c->ctx = zoe_context_new(3);
    assert_non_null(c->ctx);
    const result three = velocity(c, c->base, &a, 1, chunks, false);
    zoe_context_free(c->ctx);
    c->ctx = ctx;
    assert_true(same_bytes(one, three));
    free(one.values);
    free(three.values);
    zoe_lora_close(lora);
}

static void assert_refused(lora_case *c, zoe_status got, zoe_status wanted, const char *word)
{
    if (got != wanted || !strstr(zoe_context_message(c->ctx), word))
        fail_msg("%s: %s", zoe_status_name(got), zoe_context_message(c->ctx));
    zoe_context_clear(c->ctx);
}

static void what_does_not_go_is_refused(void **state)
{
    lora_case *c = *state;
    zoe_lora *lora = lora_open(c, "lora.safetensors", 4, ZOE_F32);
    zoe_wan *wan, *other;
    zoe_store *plain;
    zoe_wan_work *work;
    must(c, zoe_wan_open(c->ctx, &wan, c->base, c->config, false));
    must(c, zoe_wan_work_new(c->ctx, &work, zoe_wan_dims_of(wan), false, 1, 4, 4));
    assert_refused(c, zoe_wan_adapt(c->ctx, wan, lora, NAN), ZOE_INVALID, "not finite");
    /* a network without the image branch, to which the LoRA has parts */
    must(c, zoe_store_open(c->ctx, &plain, DATA "diffusion_pytorch_model.safetensors",
                           ZOE_NAMES_WAN_DIT));
    must(c, zoe_wan_open(c->ctx, &other, plain, c->config, false));
    assert_refused(c, zoe_wan_adapt(c->ctx, other, lora, 1.0f), ZOE_INVALID, "another network");
    zoe_wan_close(other);
    zoe_store_close(plain);
    const size_t bytes = zoe_wan_weight_bytes(wan);
    zoe_alloc_fail_at(1);
    const zoe_status status = zoe_wan_adapt(c->ctx, wan, lora, 1.0f);
    zoe_alloc_fail_at(0);
    assert_refused(c, status, ZOE_NOMEM, "LoRA");
    assert_int_equal(zoe_wan_weight_bytes(wan), bytes);
    for (int i = 0; i < ZOE_WAN_LORAS; i++)
        must(c, zoe_wan_adapt(c->ctx, wan, lora, 0.1f));
    assert_refused(c, zoe_wan_adapt(c->ctx, wan, lora, 0.1f), ZOE_INVALID, "at most 8 LoRAs");
    /* a work space that was made before */
    zoe_wan_text *text;
    const zoe_wan_dims *d = zoe_wan_dims_of(wan);
    float *zeros = calloc(d->in_dim * 16 + CONTEXT_ROWS * d->text_dim, sizeof *zeros);
    assert_non_null(zeros);
    must(c, zoe_wan_text_new_with_image(c->ctx, &text, wan, zeros, CONTEXT_ROWS, zeros, IMAGE_ROWS,
                                        NULL));
    float *out = malloc(d->out_dim * 16 * sizeof *out);
    assert_non_null(out);
    assert_refused(c, zoe_wan_forward(c->ctx, wan, work, out, zeros, zeros, text, 1.0, NULL),
                   ZOE_INVALID, "do not fit together");
    zoe_wan_text_free(text);
    zoe_wan_work_free(work);
    zoe_wan_close(wan);
    free(zeros);
    free(out);
    zoe_lora_close(lora);
}

/* Work spaces and texts for LoRAs are larger, those without are as they were. */
static void ranks_are_planned(void **state)
{
    lora_case *c = *state;
    zoe_wan *wan;
    must(c, zoe_wan_open(c->ctx, &wan, c->base, c->config, false));
    zoe_wan_dims d = *zoe_wan_dims_of(wan);
    const size_t work = zoe_wan_work_bytes(c->ctx, &d, false, 3, 40, 38);
    const size_t text = zoe_wan_text_bytes(&d, false, 7, 5).work;
    d.adapter_rank = 64;
    assert_true(zoe_wan_work_bytes(c->ctx, &d, false, 3, 40, 38) >= work + 570 * 64 * 4);
    assert_true(zoe_wan_text_bytes(&d, false, 7, 5).work >= text + 8 * 64 * 4);
    zoe_wan_close(wan);
}

static int setup(void **state)
{
    static lora_case c;
    c = (lora_case){.folder = "/tmp/zoe-lora-XXXXXX", .ctx = zoe_context_new(1)};
    if (!c.ctx || !mkdtemp(c.folder))
        return -1;
    must(&c, zoe_store_open(c.ctx, &c.base, base_file(&c), ZOE_NAMES_WAN_DIT));
    must(&c, zoe_config_open(c.ctx, &c.config, DATA "config.json"));
    *state = &c;
    return 0;
}

static int teardown(void **state)
{
    lora_case *c = *state;
    char command[64];
    zoe_config_close(c->config);
    zoe_store_close(c->base);
    zoe_context_free(c->ctx);
    snprintf(command, sizeof command, "rm -r %s", c->folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_the_weights_is_as_in_them),
        cmocka_unit_test(in_bf16_the_error_is_that_of_bf16),
        cmocka_unit_test(several_add_up),
        cmocka_unit_test(strength_0_is_none),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(what_does_not_go_is_refused),
        cmocka_unit_test(ranks_are_planned),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
