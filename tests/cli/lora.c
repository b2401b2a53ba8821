/* lora make MODEL OUT SEED [N]     a LoRA of rank 4 for every matrix, or the first N, of the network in
 *                                  MODEL (file or folder), and a difference for each bias of its blocks
 * lora merge MODEL LORA S OUT      MODEL with LoRA, times S, in its weights, as one file of f32
 *
 * For the scripts: what `zoe generate --lora` makes is held against merged weights. */
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "store/store.h"

enum { RANK = 4, MOST = 1024 };

static zoe_context *ctx;
static zoe_named_tensor list[MOST];
static char names[MOST][128];
static size_t count;

static void must(zoe_status status)
{
    if (status == ZOE_OK)
        return;
    fprintf(stderr, "lora: %s\n", zoe_context_message(ctx));
    exit(1);
}

/* Room for a tensor of f32 in the list. */
static float *add(const char *name, const char *end, int rank, const size_t *shape)
{
    void *p;
    const zoe_tensor none = zoe_tensor_of(NULL, ZOE_F32, rank, shape);
    if (count == MOST)
        exit(1);
    must(zoe_alloc(ctx, &p, zoe_tensor_count(none), sizeof(float), "lora"));
    snprintf(names[count], sizeof names[0], "%s%s", name, end);
    list[count] = (zoe_named_tensor){names[count], zoe_tensor_of(p, ZOE_F32, rank, shape)};
    count++;
    return p;
}

static void write_list(const char *path)
{
    must(zoe_safetensors_write(ctx, path, list, count, NULL, 0));
    for (size_t i = 0; i < count; i++)
        zoe_free(list[i].tensor.data);
}

static void add_noise(zoe_random *random, const char *name, const char *end, int rank,
                      const size_t *shape, float scale)
{
    float *values = add(name, end, rank, shape);
    const size_t n = zoe_tensor_count(list[count - 1].tensor);
    zoe_random_normal(random, values, n);
    for (size_t i = 0; i < n; i++)
        values[i] *= scale;
}

static void make(const zoe_store *model, const char *path, uint64_t seed, size_t matrices)
{
    static const char weight[] = ".weight", bias[] = ".bias";
    zoe_random random;
    zoe_random_seed(&random, seed);
    for (size_t i = 0; i < zoe_store_count(model); i++) {
        const zoe_tensor w = zoe_store_tensor(model, i);
        const char *name = zoe_store_name(model, i), *dot = strrchr(name, '.');
        char layer[100];
        if (!dot)
            continue;
        snprintf(layer, sizeof layer, "diffusion_model.%.*s", (int)(dot - name), name);
        if (strcmp(dot, bias) == 0 && strncmp(name, "blocks.", 7) == 0)
            add_noise(&random, layer, ".diff_b", w.rank, w.shape, 0.02f);
        if (strcmp(dot, weight) != 0 || w.rank < 2 || matrices == 0)
            continue;
        matrices--;
        const size_t N = w.shape[0], K = zoe_tensor_count(w) / N;
        add_noise(&random, layer, ".lora_down.weight", 2, (size_t[]){RANK, K},
                  1.0f / sqrtf((float)K));
        add_noise(&random, layer, ".lora_up.weight", 2, (size_t[]){N, RANK}, 0.1f);
        *add(layer, ".alpha", 0, NULL) = 2.0f;
    }
    write_list(path);
}

static void merge_part(float *w, size_t n, const zoe_lora_part *p, double strength)
{
    const zoe_tensor up = p->up, down = p->down;
    if (down.dtype == ZOE_NONE) {
        for (size_t i = 0; i < n; i++)
            w[i] += (float)strength * zoe_load_f32(up.data, up.dtype, i);
        return;
    }
    const size_t R = down.shape[0], K = down.shape[1];
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t r = 0; r < R; r++)
            sum += (double)zoe_load_f32(up.data, up.dtype, i / K * R + r) *
                   (double)zoe_load_f32(down.data, down.dtype, r * K + i % K);
        w[i] += (float)(strength * (double)p->factor * sum);
    }
}

static void merge(const zoe_store *model, const char *lora_path, double strength, const char *path)
{
    zoe_lora *lora;
    must(zoe_lora_open(ctx, &lora, lora_path, model));
    for (size_t i = 0; i < zoe_store_count(model); i++) {
        const zoe_tensor w = zoe_store_tensor(model, i);
        const char *name = zoe_store_name(model, i);
        const size_t n = zoe_tensor_count(w);
        float *values = add(name, "", w.rank, w.shape);
        zoe_tensor_widen(values, w, 0, n);
        for (size_t k = zoe_lora_find(lora, name); k < zoe_lora_count(lora); k++) {
            const zoe_lora_part part = zoe_lora_at(lora, k);
            if (strcmp(part.name, name) == 0)
                merge_part(values, n, &part, strength);
        }
    }
    zoe_lora_close(lora);
    write_list(path);
}

int main(int argc, char **argv)
{
    zoe_store *model;
    if (argc < 5 || argc > 6 || !(ctx = zoe_context_new(1)))
        return 2;
    must(zoe_store_open(ctx, &model, argv[2], ZOE_NAMES_WAN_DIT));
    if (strcmp(argv[1], "make") == 0)
        make(model, argv[3], strtoul(argv[4], NULL, 10),
             argc == 6 ? strtoul(argv[5], NULL, 10) : SIZE_MAX);
    else if (strcmp(argv[1], "merge") == 0)
        merge(model, argv[3], strtod(argv[4], NULL), argc == 6 ? argv[5] : "");
    else
        return 2;
    zoe_store_close(model);
    zoe_context_free(ctx);
    return 0;
}
