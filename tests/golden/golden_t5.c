/* golden_t5 DIR: the umT5 encoder against reference runs. DIR holds model.safetensors,
 * buckets.safetensors and case files with in.ids, in.mask (1 = real token, all in front) and
 * intermediates under the names of the model's probes. */
#include "golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/model.h"

typedef struct run {
    golden *g;
    const char *name;
    const zoe_store *store;
    double limit;
    size_t seen;
} run;

static void see(void *user, const char *name, zoe_tensor value)
{
    run *r = user;
    zoe_tensor t;
    char label[160];
    if (!zoe_store_find(r->store, name, &t))
        return;
    snprintf(label, sizeof label, "%s %s", r->name, name);
    void *p;
    size_t wanted;
    const size_t n = zoe_tensor_count(value);
    golden_must(r->g, zoe_alloc(r->g->ctx, &p, n, sizeof(float), name), name);
    float *got = p, *want = golden_load(r->g, r->store, name, &wanted);
    zoe_widen(got, value.data, value.dtype, n);
    golden_compare(r->g, label, got, want, n == wanted ? n : 0, r->limit);
    zoe_free(got);
    zoe_free(want);
    r->seen++;
}

/* The bias of block 0 spread over [heads, query, key]. */
static void compare_bias(run *r, const zoe_store *weights, bool bf16, size_t L)
{
    zoe_tensor t, table;
    const char *name = "block0.pos_bias";
    if (!zoe_store_find(r->store, name, &t))
        return;
    if (!zoe_store_find(weights, "blocks.0.pos_embedding.embedding.weight", &table)) {
        golden_check(r->g, name, false, "no table in the weights");
        return;
    }
    const size_t N = table.shape[1];
    size_t wanted;
    void *p;
    float *want = golden_load(r->g, r->store, name, &wanted);
    golden_must(r->g, zoe_alloc(r->g->ctx, &p, N * L * L, sizeof(float), name), name);
    float *got = p;
    for (size_t n = 0; n < N; n++)
        for (size_t q = 0; q < L; q++)
            for (size_t k = 0; k < L; k++) {
                const size_t bucket = zoe_umt5_bucket((ptrdiff_t)k - (ptrdiff_t)q);
                const float b = zoe_load_f32(table.data, table.dtype, bucket * N + n);
                got[(n * L + q) * L + k] = bf16 ? zoe_bf16_round(b) : b;
            }
    char label[160];
    snprintf(label, sizeof label, "%s %s", r->name, name);
    /* Padded keys carry the mask in some references: compare what is no mask. */
    for (size_t i = 0; i < wanted && i < N * L * L; i++)
        if (want[i] < -1e30f)
            got[i] = want[i];
    golden_compare(r->g, label, got, want, wanted == N * L * L ? wanted : 0, r->limit);
    zoe_free(got);
    zoe_free(want);
    r->seen++;
}

static void run_case(golden *g, const char *dir, const char *file, const zoe_store *weights)
{
    const bool bf16 = golden_ends_with(file, "_bf16.safetensors");
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".safetensors")), file);
    zoe_store *store;
    zoe_tensor t;
    golden_must(g, zoe_store_open(g->ctx, &store, golden_path(dir, file), ZOE_NAMES_AS_STORED),
                file);
    if (!zoe_store_find(store, "in.ids", &t) || !zoe_store_find(store, "in.mask", &t)) {
        zoe_store_close(store);
        return;
    }
    zoe_umt5 *umt5;
    size_t L, valid = 0;
    void *p, *q;
    float *ids = golden_load(g, store, "in.ids", &L),
          *mask = golden_load(g, store, "in.mask", NULL);
    golden_must(g, zoe_alloc(g->ctx, &q, L, sizeof(int32_t), name), name);
    int32_t *tokens = q;
    for (size_t i = 0; i < L; i++) {
        tokens[i] = (int32_t)ids[i];
        valid += mask[i] > 0.0f;
    }
    run r = {.g = g, .name = name, .store = store, .limit = bf16 ? 5e-2 : 2e-5};
    const zoe_probe probe = {see, &r};
    golden_must(g, zoe_umt5_open(g->ctx, &umt5, weights, bf16), name);
    golden_must(g, zoe_alloc(g->ctx, &p, L * zoe_umt5_dim(umt5), sizeof(float), name), name);
    golden_must(g, zoe_umt5_encode(g->ctx, umt5, p, tokens, L, valid, &probe), name);
    compare_bias(&r, weights, bf16, L);

    /* The pipeline computes real rows only: the same numbers. */
    size_t n;
    float *want = golden_load(g, store, "out", &n);
    char label[160];
    snprintf(label, sizeof label, "%s out, real rows alone", name);
    golden_must(g, zoe_umt5_encode(g->ctx, umt5, p, tokens, valid, valid, NULL), name);
    golden_compare(g, label, p, want, valid * zoe_umt5_dim(umt5), r.limit);

    const size_t references = golden_outputs(store);
    golden_check(g, name, r.seen == references, "%zu of %zu tensors", r.seen, references);
    zoe_umt5_close(umt5);
    zoe_free(want);
    zoe_free(p);
    zoe_free(q);
    zoe_free(ids);
    zoe_free(mask);
    zoe_store_close(store);
}

static void check_buckets(golden *g, const char *dir)
{
    zoe_store *store;
    size_t n, wrong = 0;
    const char *path = golden_path(dir, "buckets.safetensors");
    golden_must(g, zoe_store_open(g->ctx, &store, path, ZOE_NAMES_AS_STORED), path);
    float *position = golden_load(g, store, "rel_pos", &n),
          *bucket = golden_load(g, store, "bucket", NULL);
    for (size_t i = 0; i < n; i++)
        wrong += zoe_umt5_bucket((ptrdiff_t)position[i]) != (size_t)bucket[i];
    golden_check(g, "buckets", wrong == 0, "%zu of %zu differ", wrong, n);
    zoe_free(position);
    zoe_free(bucket);
    zoe_store_close(store);
}

int main(int argc, char **argv)
{
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    zoe_store *weights;
    golden_must(
        &g, zoe_store_open(g.ctx, &weights, golden_path(dir, "model.safetensors"), ZOE_NAMES_UMT5),
        dir);
    check_buckets(&g, dir);
    DIR *d = opendir(dir);
    if (!d) {
        perror(dir);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(d));)
        if (golden_ends_with(entry->d_name, ".safetensors") &&
            strcmp(entry->d_name, "model.safetensors") != 0 &&
            strcmp(entry->d_name, "buckets.safetensors") != 0)
            run_case(&g, dir, entry->d_name, weights);
    closedir(d);
    zoe_store_close(weights);
    return golden_end(&g);
}
