/* One forward pass of the Wan transformer at the real widths, with few layers and random weights:
 * bench_dit [WIDTH [LAYERS [LATENT FRAMES HEIGHT WIDTH]]]; without arguments the 1.3B and the 14B width.
 * Prints, per case: tokens, milliseconds (median of three), GFLOP/s of the products and attention counted. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "model/model.h"

typedef struct shape {
    size_t dim, ffn_dim, layers, f, h, w;
} shape;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(zoe_context *ctx, zoe_status status)
{
    if (status == ZOE_OK)
        return;
    fprintf(stderr, "bench_dit: %s\n", zoe_context_message(ctx));
    exit(1);
}

/* A file's tensors, filled with small random bf16 values. */
typedef struct bag {
    zoe_context *ctx;
    zoe_named_tensor tensors[256];
    size_t count;
    uint32_t state;
} bag;

static void add(bag *b, const char *name, int rank, const size_t *extents)
{
    size_t n;
    void *p;
    char *copy;
    if (!zoe_size_product(&n, extents, (size_t)rank) || b->count == 256)
        exit(1);
    must(b->ctx, zoe_alloc(b->ctx, &p, n, 2, name));
    must(b->ctx, zoe_strdup(b->ctx, &copy, name));
    for (size_t i = 0; i < n; i++) {
        b->state = b->state * 1664525u + 1013904223u;
        ((uint16_t *)p)[i] = zoe_bf16_of_f32(((float)(b->state >> 8) * 0x1p-24f - 0.5f) * 0.05f);
    }
    b->tensors[b->count++] = (zoe_named_tensor){copy, zoe_tensor_of(p, ZOE_BF16, rank, extents)};
}

static void add_linear(bag *b, const char *name, size_t out, size_t in)
{
    char full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    add(b, full, 2, (const size_t[]){out, in});
    snprintf(full, sizeof full, "%s.bias", name);
    add(b, full, 1, &out);
}

static void fill(bag *b, const shape *s)
{
    const size_t D = s->dim;
    add(b, "patch_embedding.weight", 5, (const size_t[]){D, 36, 1, 2, 2});
    add(b, "patch_embedding.bias", 1, &D);
    add_linear(b, "text_embedding.0", D, 4096);
    add_linear(b, "text_embedding.2", D, D);
    add_linear(b, "time_embedding.0", D, 256);
    add_linear(b, "time_embedding.2", D, D);
    add_linear(b, "time_projection.1", 6 * D, D);
    add_linear(b, "head.head", 64, D);
    add(b, "head.modulation", 3, (const size_t[]){1, 2, D});
    for (size_t i = 0; i < s->layers; i++) {
        const char *const square[] = {"self_attn.q",  "self_attn.k",  "self_attn.v",
                                      "self_attn.o",  "cross_attn.q", "cross_attn.k",
                                      "cross_attn.v", "cross_attn.o"};
        const char *const vectors[] = {"self_attn.norm_q.weight",
                                       "self_attn.norm_k.weight",
                                       "cross_attn.norm_q.weight",
                                       "cross_attn.norm_k.weight",
                                       "norm3.weight",
                                       "norm3.bias"};
        char name[96];
        for (size_t j = 0; j < sizeof square / sizeof *square; j++) {
            snprintf(name, sizeof name, "blocks.%zu.%s", i, square[j]);
            add_linear(b, name, D, D);
        }
        for (size_t j = 0; j < sizeof vectors / sizeof *vectors; j++) {
            snprintf(name, sizeof name, "blocks.%zu.%s", i, vectors[j]);
            add(b, name, 1, &D);
        }
        snprintf(name, sizeof name, "blocks.%zu.modulation", i);
        add(b, name, 3, (const size_t[]){1, 6, D});
        snprintf(name, sizeof name, "blocks.%zu.ffn.0", i);
        add_linear(b, name, s->ffn_dim, D);
        snprintf(name, sizeof name, "blocks.%zu.ffn.2", i);
        add_linear(b, name, D, s->ffn_dim);
    }
}

/* Multiplications and additions of products and attention in one pass. */
static double operations(const shape *s, double tokens, double keys)
{
    const double D = (double)s->dim;
    const double linears = 6.0 * D * D + 2.0 * D * (double)s->ffn_dim;
    const double attention = 2.0 * D * (tokens + keys);
    return 2.0 * tokens * (double)s->layers * (linears + attention);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(zoe_context *ctx, const shape *s, bool bf16)
{
    char path[] = "/tmp/zoe_bench_XXXXXX";
    static bag b;
    b = (bag){.ctx = ctx, .state = 1};
    fill(&b, s);
    const int fd = mkstemp(path);
    if (fd < 0)
        exit(1);
    close(fd);
    must(ctx, zoe_safetensors_write(ctx, path, b.tensors, b.count, NULL, 0));
    for (size_t i = 0; i < b.count; i++) {
        zoe_free(b.tensors[i].tensor.data);
        zoe_free((void *)(uintptr_t)b.tensors[i].name);
    }
    zoe_store *store;
    zoe_wan *wan;
    zoe_wan_text *text;
    zoe_wan_work *work;
    must(ctx, zoe_store_open(ctx, &store, path, ZOE_NAMES_WAN_DIT));
    unlink(path);
    must(ctx, zoe_wan_open(ctx, &wan, store, NULL, bf16));
    const zoe_wan_dims *d = zoe_wan_dims_of(wan);
    enum { CONTEXT = 64 };
    const size_t cells = s->f * s->h * s->w;
    void *latent, *condition, *velocity, *context;
    must(ctx, zoe_alloc(ctx, &latent, 16 * cells, sizeof(float), "latent"));
    must(ctx, zoe_alloc_zero(ctx, &condition, 20 * cells, sizeof(float), "condition"));
    must(ctx, zoe_alloc(ctx, &velocity, 16 * cells, sizeof(float), "velocity"));
    must(ctx, zoe_alloc_zero(ctx, &context, CONTEXT * d->text_dim, sizeof(float), "context"));
    zoe_random random;
    zoe_random_seed(&random, 1);
    zoe_random_normal(&random, latent, 16 * cells);
    must(ctx, zoe_wan_text_new(ctx, &text, wan, context, CONTEXT, NULL));
    must(ctx, zoe_wan_work_new(ctx, &work, d, bf16, s->f, s->h, s->w));
    double times[3];
    for (size_t i = 0; i < 3; i++) {
        const double start = seconds();
        must(ctx, zoe_wan_forward(ctx, wan, work, velocity, latent, condition, text, 900.0, NULL));
        times[i] = seconds() - start;
    }
    qsort(times, 3, sizeof *times, by_size);
    const double tokens = (double)(cells / 4);
    printf("dit  dim %5zu  layers %zu  %4s  tokens %6.0f  %9.1f ms  %7.1f GFLOP/s  %d threads\n",
           s->dim, s->layers, bf16 ? "bf16" : "f32", tokens, 1e3 * times[1],
           1e-9 * operations(s, tokens, CONTEXT + 1) / times[1], zoe_context_threads(ctx));
    fflush(stdout);
    zoe_wan_work_free(work);
    zoe_wan_text_free(text);
    zoe_wan_close(wan);
    zoe_store_close(store);
    zoe_free(latent);
    zoe_free(condition);
    zoe_free(velocity);
    zoe_free(context);
}

int main(int argc, char **argv)
{
    shape cases[] = {{1536, 8960, 2, 5, 60, 104}, {5120, 13824, 1, 2, 30, 52}};
    size_t count = sizeof cases / sizeof *cases;
    if (argc > 1) {
        size_t *const fields[] = {&cases[0].dim, &cases[0].layers, &cases[0].f, &cases[0].h,
                                  &cases[0].w};
        for (int i = 1; i < argc && i <= 5; i++)
            *fields[i - 1] = (size_t)strtoul(argv[i], NULL, 10);
        cases[0].ffn_dim = cases[0].dim == 5120   ? 13824
                           : cases[0].dim == 1536 ? 8960
                                                  : 4 * cases[0].dim;
        count = 1;
    }
    zoe_context *ctx = zoe_context_new(0);
    if (!ctx)
        return 1;
    for (size_t i = 0; i < count; i++) {
        run(ctx, &cases[i], false);
        run(ctx, &cases[i], true);
    }
    zoe_context_free(ctx);
    return 0;
}
