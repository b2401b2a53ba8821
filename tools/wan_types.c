/* What the type of the weights does to a Wan transformer, for bench/types.sh and the tests:
 *
 *   wan_types make OUT.safetensors [DIM [FFN [LAYERS]]]
 *       writes a transformer of I2V-A14B's form with random weights in f32, the same for everyone; DIM, a
 *       multiple of 128, and FFN are 512 and 1024, there are 4 layers
 *   wan_types compare REFERENCE OTHER [CONFIG.json]
 *       the same inputs through both: prints the relative L2 error of OTHER's velocities over five
 *       timesteps, and the same in dB (20 log10 of its inverse); 0 and equal if there is none */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "model/model.h"

static zoe_context *ctx;

static void must(zoe_status status)
{
    if (status == ZOE_OK)
        return;
    fprintf(stderr, "wan_types: %s\n", zoe_context_message(ctx));
    exit(1);
}

static float *memory(size_t n)
{
    void *p;
    must(zoe_alloc(ctx, &p, n, sizeof(float), "wan_types"));
    return p;
}

/* ---- make ---- */

enum { IN = 36, OUT = 16, FREQ = 256, TEXT = 256, MOST = 1024 };

typedef struct file {
    zoe_named_tensor list[MOST];
    char names[MOST][64];
    size_t n;
    zoe_random random;
} file;

/* Normal values of this deviation around `middle`. */
static void add(file *f, const char *prefix, const char *name, double deviation, double middle,
                int rank, const size_t *shape)
{
    if (f->n == MOST) {
        fprintf(stderr, "wan_types: too many layers\n");
        exit(2);
    }
    zoe_tensor t = zoe_tensor_of(NULL, ZOE_F32, rank, shape);
    const size_t n = zoe_tensor_count(t);
    float *x = memory(n);
    zoe_random_normal(&f->random, x, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] * deviation + middle);
    t.data = x;
    snprintf(f->names[f->n], sizeof f->names[0], "%s%s", prefix, name);
    f->list[f->n] = (zoe_named_tensor){f->names[f->n], t};
    f->n++;
}

static void add_vector(file *f, const char *prefix, const char *name, double middle, size_t n)
{
    add(f, prefix, name, 0.05, middle, 1, &n);
}

static void add_linear(file *f, const char *prefix, const char *name, size_t out, size_t in)
{
    char full[64];
    const size_t shape[] = {out, in};
    snprintf(full, sizeof full, "%s.weight", name);
    add(f, prefix, full, 1.0 / sqrt((double)in), 0.0, 2, shape);
    snprintf(full, sizeof full, "%s.bias", name);
    add_vector(f, prefix, full, 0.0, out);
}

static void add_attention(file *f, const char *block, const char *name, size_t D)
{
    static const char *const parts[] = {"q", "k", "v", "o"};
    char prefix[48];
    snprintf(prefix, sizeof prefix, "%s%s.", block, name);
    for (size_t i = 0; i < 4; i++)
        add_linear(f, prefix, parts[i], D, D);
    add_vector(f, prefix, "norm_q.weight", 1.0, D);
    add_vector(f, prefix, "norm_k.weight", 1.0, D);
}

static void make(const char *path, size_t D, size_t ffn, size_t layers)
{
    static file f;
    const size_t patch[] = {D, IN, 1, 2, 2}, six[] = {1, 6, D}, two[] = {1, 2, D};
    zoe_random_seed(&f.random, 1);
    add(&f, "", "patch_embedding.weight", 1.0 / sqrt(4.0 * IN), 0.0, 5, patch);
    add_vector(&f, "", "patch_embedding.bias", 0.0, D);
    add_linear(&f, "", "text_embedding.0", D, TEXT);
    add_linear(&f, "", "text_embedding.2", D, D);
    add_linear(&f, "", "time_embedding.0", D, FREQ);
    add_linear(&f, "", "time_embedding.2", D, D);
    add_linear(&f, "", "time_projection.1", 6 * D, D);
    add_linear(&f, "", "head.head", 4 * OUT, D);
    add(&f, "", "head.modulation", 1.0 / sqrt((double)D), 0.0, 3, two);
    for (size_t i = 0; i < layers; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
        add(&f, prefix, "modulation", 1.0 / sqrt((double)D), 0.0, 3, six);
        add_attention(&f, prefix, "self_attn", D);
        add_attention(&f, prefix, "cross_attn", D);
        add_vector(&f, prefix, "norm3.weight", 1.0, D);
        add_vector(&f, prefix, "norm3.bias", 0.0, D);
        add_linear(&f, prefix, "ffn.0", ffn, D);
        add_linear(&f, prefix, "ffn.2", D, ffn);
    }
    must(zoe_safetensors_write(ctx, path, f.list, f.n, NULL, 0));
    for (size_t i = 0; i < f.n; i++)
        zoe_free(f.list[i].tensor.data);
}

/* ---- compare ---- */

enum { FRAMES = 3, HEIGHT = 12, WIDTH = 12, WORDS = 20, STEPS = 5 };

static float *normals(uint64_t seed, size_t n)
{
    zoe_random r;
    float *x = memory(n);
    zoe_random_seed(&r, seed);
    zoe_random_normal(&r, x, n);
    return x;
}

/* The velocities of a transformer, STEPS times *count values. */
static float *velocities(const char *path, const char *config_path, size_t *count)
{
    static const double times[STEPS] = {999, 800, 600, 350, 100};
    zoe_store *store;
    zoe_config *config = NULL;
    zoe_wan *wan;
    zoe_wan_text *text;
    zoe_wan_work *work;
    must(zoe_store_open(ctx, &store, path, ZOE_NAMES_WAN_DIT));
    if (config_path)
        must(zoe_config_open(ctx, &config, config_path));
    must(zoe_wan_open(ctx, &wan, store, config, false));
    const zoe_wan_dims *d = zoe_wan_dims_of(wan);
    const size_t plane = (size_t)FRAMES * HEIGHT * WIDTH;
    *count = d->out_dim * plane;
    float *latent = normals(2, *count), *condition = normals(3, d->in_dim * plane);
    float *context = normals(4, WORDS * d->text_dim), *v = memory(STEPS * *count);
    must(zoe_wan_text_new(ctx, &text, wan, context, WORDS, NULL));
    must(zoe_wan_work_new(ctx, &work, d, false, FRAMES, HEIGHT, WIDTH));
    for (size_t i = 0; i < STEPS; i++)
        must(zoe_wan_forward(ctx, wan, work, v + i * *count, latent,
                             d->in_dim > d->out_dim ? condition : NULL, text, times[i], NULL));
    zoe_wan_work_free(work);
    zoe_wan_text_free(text);
    zoe_free(latent);
    zoe_free(condition);
    zoe_free(context);
    zoe_wan_close(wan);
    zoe_config_close(config);
    zoe_store_close(store);
    return v;
}

static void compare(const char *reference, const char *other, const char *config)
{
    size_t n, m;
    double error = 0.0, power = 0.0;
    float *want = velocities(reference, config, &n), *got = velocities(other, config, &m);
    if (n != m) {
        fprintf(stderr, "wan_types: %s and %s have different channels\n", reference, other);
        exit(1);
    }
    for (size_t i = 0; i < STEPS * n; i++) {
        const double difference = (double)got[i] - (double)want[i];
        error += difference * difference;
        power += (double)want[i] * (double)want[i];
    }
    if (error > 0.0)
        printf("%.1e %.1f\n", sqrt(error / power), 10.0 * log10(power / error));
    else
        printf("0 equal\n");
    zoe_free(want);
    zoe_free(got);
}

static size_t number(int argc, char **argv, int i, size_t otherwise)
{
    return i < argc ? (size_t)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    ctx = zoe_context_new(0);
    if (!ctx)
        return 1;
    if (strcmp(what, "make") == 0) {
        make(argv[2], number(argc, argv, 3, 512), number(argc, argv, 4, 1024),
             number(argc, argv, 5, 4));
    } else if (strcmp(what, "compare") == 0 && argc > 3) {
        compare(argv[2], argv[3], argc > 4 ? argv[4] : NULL);
    } else {
        fprintf(stderr, "usage: wan_types make OUT.safetensors [DIM [FFN [LAYERS]]]\n"
                        "       wan_types compare REFERENCE OTHER [CONFIG.json]\n");
        return 2;
    }
    zoe_context_free(ctx);
    return 0;
}
