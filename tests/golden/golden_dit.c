/* golden_dit DIR: the Wan transformer against reference runs. DIR holds a checkpoint (config.json
 * and a store) and case files with the inputs in.x, in.y, in.context, in.t and any intermediates
 * under the names that the model's probes use. DIR/diffusers may hold the same checkpoint as
 * diffusers writes it: it must give the same. */
#include "golden.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "model/model.h"

enum { PIECES = 64 };

typedef struct run {
    golden *g;
    const char *name; /* of the case */
    const zoe_store *store;
    double limit;
    size_t seen;
    zoe_wan_dims dims;
    struct {
        char name[64];
        float *values;
        size_t count;
    } pieces[PIECES]; /* of intermediates that come run of tokens by run of tokens */
} run;

/* What the engine computes once may stand several times in the reference: e for the first and the
 * last token, one key for all padded context rows. Repeats the rows of got to fill want's; false if
 * that does not go. */
static bool expand(run *r, float **got, size_t n, size_t wanted, const char *name)
{
    void *p;
    const bool per_token =
        strcmp(name, "time_sinusoid") == 0 || strcmp(name, "e") == 0 || strcmp(name, "e0") == 0;
    const size_t row = per_token ? n : r->dims.dim;
    if (n == wanted)
        return true;
    if (wanted % row || n % row || n > wanted)
        return false;
    golden_must(r->g, zoe_alloc(r->g->ctx, &p, wanted, sizeof(float), name), name);
    float *full = p;
    memcpy(full, *got, n * sizeof(float));
    for (size_t i = n; i < wanted; i++)
        full[i] = full[i - row];
    zoe_free(*got);
    *got = full;
    return true;
}

static bool is_once_computed(const char *name)
{
    const char *last = strrchr(name, '.');
    return !last || strcmp(last, ".ca_k") == 0;
}

static void compare(run *r, const char *name, float *got, size_t n)
{
    char label[160];
    size_t wanted;
    float *want = golden_load(r->g, r->store, name, &wanted);
    snprintf(label, sizeof label, "%s %s", r->name, name);
    if (expand(r, &got, n, wanted, name))
        golden_compare(r->g, label, got, want, wanted, r->limit);
    else
        golden_check(r->g, label, false, "%zu values for %zu", n, wanted);
    zoe_free(got);
    zoe_free(want);
    r->seen++;
}

/* Where the pieces of this name are, or are to be collected. */
static size_t piece_slot(run *r, const char *name, size_t wanted)
{
    size_t empty = PIECES;
    for (size_t i = 0; i < PIECES; i++) {
        if (r->pieces[i].values && strcmp(r->pieces[i].name, name) == 0)
            return i;
        if (!r->pieces[i].values && empty == PIECES)
            empty = i;
    }
    void *p = NULL;
    golden_must(r->g, empty < PIECES ? ZOE_OK : ZOE_INTERNAL, "too many intermediates in pieces");
    golden_must(r->g, zoe_alloc(r->g->ctx, &p, wanted, sizeof(float), name), name);
    snprintf(r->pieces[empty].name, sizeof r->pieces[empty].name, "%s", name);
    r->pieces[empty].values = p;
    r->pieces[empty].count = 0;
    return empty;
}

/* Puts a piece behind those that came before. True when the whole is there: *got is it then. */
static bool collect(run *r, const char *name, float **got, size_t *n, size_t wanted)
{
    const size_t slot = piece_slot(r, name, wanted);
    float *values = r->pieces[slot].values;
    const size_t count = r->pieces[slot].count, room = wanted - count;
    memcpy(values + count, *got, (*n < room ? *n : room) * sizeof(float));
    zoe_free(*got);
    r->pieces[slot].count = *n < room ? count + *n : wanted;
    *got = values;
    *n = wanted;
    if (r->pieces[slot].count == wanted)
        r->pieces[slot].values = NULL;
    return r->pieces[slot].count == wanted;
}

static void see(void *user, const char *name, zoe_tensor value)
{
    run *r = user;
    zoe_tensor t;
    if (!zoe_store_find(r->store, name, &t))
        return;
    void *p;
    size_t n = zoe_tensor_count(value);
    const size_t wanted = zoe_tensor_count(t);
    golden_must(r->g, zoe_alloc(r->g->ctx, &p, n, sizeof(float), name), name);
    float *got = p;
    zoe_widen(got, value.data, value.dtype, n);
    if (n < wanted && (!is_once_computed(name) || strcmp(name, "head") == 0) &&
        !collect(r, name, &got, &n, wanted))
        return;
    compare(r, name, got, n);
}

/* diffusers computes the sinusoid of t in f32; its outputs for the same inputs stand in a file of
 * their own. */
static void compare_with_diffusers(const run *r, const char *dir, const float *out, size_t n)
{
    zoe_store *other;
    zoe_tensor t;
    char name[160], label[200];
    const char *path = golden_path(dir, "diffusers_out.safetensors");
    FILE *f = fopen(path, "rb");
    if (!f)
        return;
    fclose(f);
    golden_must(r->g, zoe_store_open(r->g->ctx, &other, path, ZOE_NAMES_AS_STORED), path);
    snprintf(name, sizeof name, "%s.out", r->name);
    if (zoe_store_find(other, name, &t)) {
        size_t wanted;
        float *want = golden_load(r->g, other, name, &wanted);
        snprintf(label, sizeof label, "%s out (diffusers)", r->name);
        golden_compare(r->g, label, out, want, wanted == n ? n : 0, 5e-5);
        zoe_free(want);
    }
    zoe_store_close(other);
}

/* One timestep for all, or one for every token (padding last): the first frames may be at 0, all
 * others are at *at. How many are at 0. */
static size_t still_frames(golden *g, const char *name, double *at, const float *when, size_t n,
                           const size_t shape[4])
{
    const size_t frame = shape[2] / 2 * (shape[3] / 2), tokens = shape[1] * frame;
    size_t zeros = 0;
    *at = (double)when[0];
    if (n == 1)
        return 0;
    golden_check(g, name, n >= tokens, "%zu timesteps for %zu tokens", n, tokens);
    *at = (double)when[tokens - 1];
    while (zeros < tokens && when[zeros] == 0.0f && *at != 0.0)
        zeros++;
    for (size_t i = zeros; i < tokens; i++)
        if (when[i] != when[tokens - 1] || zeros % frame != 0)
            golden_check(g, name, false, "timesteps that are not constant in time frames");
    return zeros / frame;
}

static void run_case(golden *g, const char *dir, const char *file, const zoe_store *weights,
                     const zoe_config *config)
{
    const bool bf16 = golden_ends_with(file, "_bf16.safetensors");
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".safetensors")), file);
    zoe_store *store;
    golden_must(g, zoe_store_open(g->ctx, &store, golden_path(dir, file), ZOE_NAMES_AS_STORED),
                file);
    zoe_tensor x, c, t;
    if (!zoe_store_find(store, "in.x", &x) || !zoe_store_find(store, "in.context", &c) ||
        !zoe_store_find(store, "in.t", &t)) {
        zoe_store_close(store);
        return;
    }
    const zoe_tensor times = t;
    zoe_wan *wan;
    zoe_wan_text *text;
    zoe_wan_work *work;
    void *p;
    golden_must(g, zoe_wan_open(g->ctx, &wan, weights, config, bf16), name);
    zoe_tensor clip;
    const bool has_clip = zoe_store_find(store, "in.clip", &clip);
    run r = {.g = g,
             .name = name,
             .store = store,
             /* References with an image branch are of diffusers, whose sinusoid of t is f32. */
             .limit = bf16       ? 1e-2
                      : has_clip ? 5e-5
                                 : 5e-6,
             .dims = *zoe_wan_dims_of(wan)};
    const zoe_probe probe = {see, &r};
    float *latent = golden_load(g, store, "in.x", NULL),
          *when = golden_load(g, store, "in.t", NULL);
    float *context = golden_load(g, store, "in.context", NULL);
    float *image = has_clip ? golden_load(g, store, "in.clip", NULL) : NULL;
    float *condition =
        zoe_store_find(store, "in.y", &t) ? golden_load(g, store, "in.y", NULL) : NULL;
    const size_t n = r.dims.out_dim * x.shape[1] * x.shape[2] * x.shape[3];
    golden_must(g, zoe_alloc(g->ctx, &p, n, sizeof(float), name), name);
    float *out = p;
    golden_must(g,
                zoe_wan_text_new_with_image(g->ctx, &text, wan, context, c.shape[0], image,
                                            has_clip ? clip.shape[0] : 0, &probe),
                name);
    golden_must(g,
                zoe_wan_work_new(g->ctx, &work, &r.dims, bf16, x.shape[1], x.shape[2], x.shape[3]),
                name);
    double at;
    const size_t still = still_frames(g, name, &at, when, zoe_tensor_count(times), x.shape);
    golden_must(
        g,
        zoe_wan_forward_still(g->ctx, wan, work, out, latent, condition, text, at, still, &probe),
        name);
    see(&r, "out", zoe_tensor_1d(out, ZOE_F32, n));
    if (!bf16)
        compare_with_diffusers(&r, dir, out, n);

    const size_t references = golden_outputs(store);
    golden_check(g, name, r.seen == references, "%zu of %zu tensors", r.seen, references);
    zoe_wan_work_free(work);
    zoe_wan_text_free(text);
    zoe_wan_close(wan);
    zoe_free(out);
    zoe_free(latent);
    zoe_free(when);
    zoe_free(context);
    zoe_free(image);
    zoe_free(condition);
    zoe_store_close(store);
}

/* Every case of DIR with the checkpoint in `folder` and this configuration. */
static void run_checkpoint(golden *g, const char *dir, const char *folder, const zoe_config *config)
{
    zoe_store *weights;
    golden_must(g,
                zoe_store_open(g->ctx, &weights,
                               golden_path(folder, "diffusion_pytorch_model.safetensors"),
                               ZOE_NAMES_WAN_DIT),
                folder);
    DIR *d = opendir(dir);
    if (!d) {
        perror(dir);
        exit(1);
    }
    for (struct dirent *entry; (entry = readdir(d));)
        if (golden_ends_with(entry->d_name, ".safetensors") &&
            strcmp(entry->d_name, "diffusion_pytorch_model.safetensors") != 0 &&
            strcmp(entry->d_name, "diffusers_out.safetensors") != 0)
            run_case(g, dir, entry->d_name, weights, config);
    closedir(d);
    zoe_store_close(weights);
}

/* The configuration that diffusers wrote. It does not say how many rows of context there are, since
 * the pipeline around it always makes 512; these references have fewer, as `official` says. */
static zoe_config *diffusers_config(golden *g, const char *folder, const zoe_config *official)
{
    const char *path = golden_path(folder, "config.json");
    char made[] = "/tmp/golden-dit-XXXXXX", *text;
    size_t size, text_len = 512;
    zoe_config *config;
    golden_must(g, zoe_config_size(g->ctx, official, "text_len", 1, 4096, &text_len), folder);
    golden_must(g, zoe_file_read(g->ctx, &text, &size, path, 65536), path);
    const int fd = mkstemp(made);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    const char *begin = strchr(text, '{');
    if (!f || !begin || fprintf(f, "{\"text_len\": %zu, %s", text_len, begin + 1) < 0 ||
        fclose(f) != 0) {
        perror(made);
        exit(1);
    }
    golden_must(g, zoe_config_open(g->ctx, &config, made), path);
    remove(made);
    zoe_free(text);
    return config;
}

int main(int argc, char **argv)
{
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    zoe_config *config;
    char other[1024];
    golden_must(&g, zoe_config_open(g.ctx, &config, golden_path(dir, "config.json")), dir);
    run_checkpoint(&g, dir, dir, config);
    snprintf(other, sizeof other, "%s/diffusers", dir);
    if (zoe_folder_exists(other)) {
        printf("with the names of diffusers\n");
        zoe_config *foreign = diffusers_config(&g, other, config);
        run_checkpoint(&g, dir, other, foreign);
        zoe_config_close(foreign);
    }
    zoe_config_close(config);
    return golden_end(&g);
}
