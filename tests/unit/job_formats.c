/* Every kind of Wan model in every form of file: a job from the file as it is stored gives the bytes of
 * one from the same values written out in f32 under official names. What the values are is checked
 * elsewhere (base_block.c, store_scaled.c, tests/cli/gguf.sh). And every kind with a LoRA. The table of
 * README.md goes by this. */
#define _GNU_SOURCE
#include "job_family_case.h"
#include "store/content.h"

typedef struct form {
    const char *name, *file;
    zoe_dtype type; /* of the large matrices */
    bool foreign;   /* the names and the configuration of diffusers */
    bool exact;     /* nothing is rounded */
} form;

static const form forms[] = {
    {"diffusers", "diffusion_pytorch_model.safetensors", ZOE_F32, true, true},
    {"bf16", "model.safetensors", ZOE_BF16, false, false},
    {"f16_gguf", "model.gguf", ZOE_F16, false, false},
    {"fp8", "model.safetensors", ZOE_F8_E4M3, false, false},
    {"q8_0", "model.gguf", ZOE_Q8_0, false, false},
    {"q4_1", "model.gguf", ZOE_Q4_1, false, false},
};
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct family {
    const char *task, *type; /* as config.json says it */
    bool image, last;
    size_t transformers;
} family;

static const family families[] = {
    {"i2v-A14B", "i2v", true, false, 2},  {"t2v-A14B", "t2v", false, false, 2},
    {"t2v-1.3B", "t2v", false, false, 1}, {"ti2v-5B", "ti2v", true, false, 1},
    {"ti2v-5B", "ti2v", false, false, 1}, {"i2v-14B", "i2v", true, false, 1},
    {"flf2v-14B", "flf2v", true, true, 1}};
enum { FAMILIES = sizeof families / sizeof *families };

static bool is(const family *f, const char *task)
{
    return strcmp(f->task, task) == 0;
}

/* The folder of its transformer, of the high-noise expert or the low-noise one. */
static void transformer_of(const scene *s, const family *f, bool low, char path[256])
{
    if (is(f, "i2v-A14B"))
        snprintf(path, 256, "%s", low ? LOW : HIGH);
    else if (is(f, "t2v-A14B"))
        snprintf(path, 256, "%s/%s", s->t2v_two, low ? "low_noise_model" : "high_noise_model");
    else if (is(f, "ti2v-5B"))
        snprintf(path, 256, DATA "e2e_ti2v/ckpt");
    else
        snprintf(path, 256, "%s/diffusion_pytorch_model.safetensors",
                 is(f, "t2v-1.3B")  ? s->t2v_one
                 : is(f, "i2v-14B") ? s->i2v
                                    : s->flf);
}

/* ---- files ---- */

static void write_config(const char *folder, const family *f, bool foreign)
{
    char path[300];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (foreign)
        fprintf(file, "{\"_class_name\": \"WanTransformer3DModel\", \"attention_head_dim\": 32, "
                      "\"num_attention_heads\": 2, \"patch_size\": [1, 2, 2], \"qk_norm\": "
                      "\"rms_norm_across_heads\", \"text_len\": 32}\n");
    else
        fprintf(file, "{\"model_type\": \"%s\", \"num_heads\": 2, \"text_len\": 32}\n", f->type);
    assert_int_equal(fclose(file), 0);
}

/* The same tensors under other names: `map` is a file of these by the official ones, NULL: official
 * names. What is not in it has the same name there. */
static void rename_all(const scene *s, const char *path, const char *from, zoe_names names,
                       const char *map)
{
    zoe_store *store;
    tensors *t = calloc(1, sizeof *t);
    json_t *others = map ? json_load_file(map, 0, NULL) : json_object();
    assert_true(t && others);
    must(s, zoe_store_open(s->ctx, &store, from, names));
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const char *official = zoe_store_name(store, i);
        const char *name = json_string_value(json_object_get(others, official));
        if (!name && map && strcmp(official, "img_emb.emb_pos") == 0) /* no map has it */
            name = "condition_embedder.image_embedder.pos_embed";
        assert_in_range(t->n, 0, MOST - 1);
        snprintf(t->names[t->n], sizeof t->names[0], "%s", name ? name : official);
        t->items[t->n] = (zoe_named_tensor){t->names[t->n], zoe_store_tensor(store, i)};
        t->n++;
    }
    must(s, zoe_safetensors_write(s->ctx, path, t->items, t->n, NULL, 0));
    zoe_store_close(store);
    json_decref(others);
    free(t);
}

/* A file of this form in a folder of its own, and its values in f32 in another. */
static void write_form(const scene *s, const family *f, const form *to, const char *from,
                       const char *stored, const char *values)
{
    char path[300], plain[300];
    zoe_conversion made = {.type = to->type}, widened = {.type = ZOE_F32};
    must(s, zoe_folder_make(s->ctx, stored));
    must(s, zoe_folder_make(s->ctx, values));
    snprintf(path, sizeof path, "%s/%s", stored, to->file);
    snprintf(plain, sizeof plain, "%s/values.safetensors", values);
    unlink(path);
    unlink(plain);
    if (to->foreign)
        rename_all(s, path, from, ZOE_NAMES_WAN_DIT,
                   f->type[0] == 'i' || f->type[0] == 'f' ? DATA "names/dit_i2v_21_clip.json"
                                                          : DATA "names/dit_t2v.json");
    else
        must(s, zoe_checkpoint_convert(s->ctx, path, from, &made));
    if (!to->foreign)
        assert_in_range(made.converted, 10, made.tensors);
    must(s, zoe_checkpoint_convert(s->ctx, plain, to->exact ? from : path, &widened));
    write_config(stored, f, to->foreign);
    write_config(values, f, false);
}

/* ---- runs ---- */

static void name_rest(const scene *s, zoe_job_params *p, const family *f)
{
    zoe_job_params_init(p);
    p->vae = is(f, "ti2v-5B") ? DATA "e2e_ti2v/ckpt_safetensors/vae.safetensors"
                              : DATA "e2e_i2v/ckpt/Wan2.1_VAE.pth";
    p->text_encoder = DATA "e2e_i2v/ckpt/models_t5_umt5-xxl-enc-bf16.pth";
    p->tokenizer = DATA "e2e_i2v/ckpt/google/umt5-xxl";
    p->clip = is(f, "i2v-14B") || is(f, "flf2v-14B") ? DATA "clip/model.safetensors" : NULL;
    p->image = f->image ? s->first : NULL;
    p->last_image = f->last ? s->last : NULL;
    p->width = p->height = 64;
    p->prompt = "A white cat sits.";
}

/* The latents of a job; free them. */
static float *run(scene *s, const family *f, zoe_job_params p, size_t *n)
{
    zoe_job *job;
    zoe_job_model model;
    zoe_store *store;
    zoe_tensor t;
    const bool bf16 = p.bf16;
    must(s, zoe_job_params_suit(s->ctx, &p, true, &model));
    assert_string_equal(model.task, f->task);
    p.frames = 5;
    p.steps = 2;
    p.seed = 5;
    p.bf16 = bf16;
    p.latents_out = s->out;
    must(s, zoe_job_new(s->ctx, &job, &p));
    must(s, zoe_job_open(s->ctx, job));
    must(s, zoe_job_run(s->ctx, job));
    zoe_job_free(job);
    must(s, zoe_store_open(s->ctx, &store, s->out, ZOE_NAMES_AS_STORED));
    assert_int_equal(zoe_store_count(store), 1);
    t = zoe_store_tensor(store, 0);
    *n = zoe_tensor_count(t);
    float *values = malloc(*n * sizeof *values);
    assert_non_null(values);
    memcpy(values, t.data, *n * sizeof *values);
    zoe_store_close(store);
    return values;
}

/* The same with these transformers. */
static float *latents_of(scene *s, const family *f, const char *high, const char *low, bool bf16,
                         size_t *n)
{
    zoe_job_params p;
    name_rest(s, &p, f);
    p.high_noise = f->transformers == 2 ? high : NULL;
    p.low_noise = f->transformers == 2 ? low : NULL;
    p.transformer = f->transformers == 2 ? NULL : high;
    p.bf16 = bf16;
    return run(s, f, p, n);
}

/* whole: the latents of what the files are made from. */
static void same_as_values(scene *s, const family *f, const form *to, const float *whole)
{
    char stored[2][256], values[2][256], original[256];
    size_t n, m;
    for (size_t e = 0; e < f->transformers; e++) {
        transformer_of(s, f, e, original);
        snprintf(stored[e], sizeof stored[e], "%s/stored_%s_%zu", s->folder, to->name, e);
        snprintf(values[e], sizeof values[e], "%s/values_%zu", s->folder, e);
        write_form(s, f, to, original, stored[e], values[e]);
    }
    /* Once more in bf16 with blocks; a scale of fp8 is rounded there before it multiplies, which values
     * in f32 cannot show. */
    for (int bf16 = 0; bf16 < (to->type == ZOE_Q8_0 ? 2 : 1); bf16++) {
        float *got = latents_of(s, f, stored[0], stored[1], bf16, &n);
        float *want = latents_of(s, f, values[0], values[1], bf16, &m);
        assert_int_equal(n, m);
        if (memcmp(got, want, n * sizeof *got) != 0)
            fail_msg("%s, %s: other latents than from its values", f->task, to->name);
        if (!bf16 && (memcmp(got, whole, n * sizeof *got) == 0) != to->exact)
            fail_msg("%s, %s: %s", f->task, to->name,
                     to->exact ? "not those of the checkpoint" : "nothing was rounded");
        free(got);
        free(want);
    }
}

static void every_model_in_every_form(void **state)
{
    scene *s = *state;
    for (size_t i = 0; i < FAMILIES; i++) {
        const family *f = &families[i];
        char original[2][256];
        size_t n;
        for (size_t e = 0; e < f->transformers; e++)
            transformer_of(s, f, e, original[e]);
        float *whole = latents_of(s, f, original[0], original[1], false, &n);
        for (size_t k = 0; k < FORMS; k++)
            same_as_values(s, f, &forms[k], whole);
        free(whole);
    }
}

/* ---- LoRAs ---- */

enum { RANK = 4 };

static bool takes_lora(const char *name, zoe_tensor w)
{
    const size_t n = strlen(name);
    return strncmp(name, "blocks.", 7) == 0 && w.rank == 2 && n > 7 &&
           strcmp(name + n - 7, ".weight") == 0;
}

/* Two narrow matrices for each of the blocks' matrices, and the same added to their weights. */
static void write_lora(const scene *s, const char *from, const char *lora, const char *merged)
{
    zoe_store *store;
    tensors *t = calloc(1, sizeof *t), *m = calloc(1, sizeof *m);
    assert_true(t && m);
    seed = 11;
    must(s, zoe_store_open(s->ctx, &store, from, ZOE_NAMES_WAN_DIT));
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const zoe_tensor w = zoe_store_tensor(store, i);
        const char *name = zoe_store_name(store, i);
        const size_t K = w.shape[1], N = w.shape[0];
        char layer[48], part[96];
        float *values = add(m, name, w.rank, w.shape);
        zoe_tensor_widen(values, w, 0, zoe_tensor_count(w));
        if (!takes_lora(name, w))
            continue;
        snprintf(layer, sizeof layer, "%.*s", (int)strlen(name) - 7, name);
        snprintf(part, sizeof part, "diffusion_model.%s.lora_down.weight", layer);
        add_noise(t, part, 2, (size_t[]){RANK, K}, 0.0f, 0.2f);
        const float *down = t->items[t->n - 1].tensor.data;
        snprintf(part, sizeof part, "diffusion_model.%s.lora_up.weight", layer);
        add_noise(t, part, 2, (size_t[]){N, RANK}, 0.0f, 0.2f);
        const float *up = t->items[t->n - 1].tensor.data;
        for (size_t k = 0; k < N * K; k++) {
            double sum = 0.0;
            for (size_t r = 0; r < RANK; r++)
                sum += (double)up[k / K * RANK + r] * (double)down[r * K + k % K];
            values[k] += (float)(0.5 * sum);
        }
    }
    must(s, zoe_safetensors_write(s->ctx, lora, t->items, t->n, NULL, 0));
    must(s, zoe_safetensors_write(s->ctx, merged, m->items, m->n, NULL, 0));
    zoe_store_close(store);
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i].tensor.data);
    for (size_t i = 0; i < m->n; i++)
        free(m->items[i].tensor.data);
    free(t);
    free(m);
}

static double distance(const float *a, const float *b, size_t n)
{
    double error = 0.0, power = 0.0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        power += (double)b[i] * (double)b[i];
    }
    return sqrt(error / power);
}

/* Beside the weights it is what it is inside them. Both experts take the same file, each with its own
 * weights behind. */
static void every_model_with_a_lora(void **state)
{
    scene *s = *state;
    for (size_t i = 0; i < FAMILIES; i++) {
        const family *f = &families[i];
        char original[2][256], folder[2][256], path[300], lora[256];
        size_t n;
        zoe_job_params p;
        snprintf(lora, sizeof lora, "%s/lora.safetensors", s->folder);
        for (size_t e = 0; e < f->transformers; e++) {
            transformer_of(s, f, e, original[e]);
            snprintf(folder[e], sizeof folder[e], "%s/merged_%zu", s->folder, e);
            snprintf(path, sizeof path, "%s/merged.safetensors", folder[e]);
            must(s, zoe_folder_make(s->ctx, folder[e]));
            write_lora(s, original[e], lora, path);
            write_config(folder[e], f, false);
        }
        name_rest(s, &p, f);
        p.high_noise = f->transformers == 2 ? original[0] : NULL;
        p.low_noise = f->transformers == 2 ? original[1] : NULL;
        p.transformer = f->transformers == 2 ? NULL : original[0];
        float *without = run(s, f, p, &n);
        p.loras[0] = (zoe_job_lora){lora, 0.5, 0.5};
        p.lora_count = 1;
        float *beside = run(s, f, p, &n);
        float *inside = latents_of(s, f, folder[0], folder[1], false, &n);
        const double same = distance(beside, inside, n), moved = distance(beside, without, n);
        if (!(same < 2e-5 && moved > 1e-2))
            fail_msg("%s: %g from the merged weights, %g from none", f->task, same, moved);
        free(without);
        free(beside);
        free(inside);
    }
}

/* ---- text encoders, VAEs, image towers ---- */

typedef enum part { TEXT, VAE, TOWER } part;

typedef struct part_row {
    const char *name;
    part part;
    const char *task; /* in which model */
    const char *file; /* its end is the kind */
    zoe_dtype type;   /* NONE: only the names are others */
    const char *map;  /* these; NULL: official ones */
} part_row;

/* What else can be made of a part. */
static const char OFFICIAL_CLIP[] = "official", PLAIN_F8[] = "fp8", PLAIN_GGUF[] = "gguf";

static const part_row part_rows[] = {
    {"text_transformers", TEXT, "t2v-1.3B", "t.safetensors", ZOE_NONE, DATA "names/umt5.json"},
    {"text_f16", TEXT, "t2v-1.3B", "t.safetensors", ZOE_F16, NULL},
    {"text_bf16", TEXT, "t2v-1.3B", "t.safetensors", ZOE_BF16, NULL},
    {"text_fp8", TEXT, "t2v-1.3B", "t.safetensors", ZOE_F8_E4M3, NULL},
    {"text_q8_0", TEXT, "t2v-1.3B", "t.gguf", ZOE_Q8_0, NULL},
    {"text_q5_1", TEXT, "t2v-1.3B", "t.gguf", ZOE_Q5_1, NULL},
    {"vae21_diffusers", VAE, "i2v-A14B", "v.safetensors", ZOE_NONE, DATA "names/vae21.json"},
    {"vae21_bf16", VAE, "i2v-A14B", "v.safetensors", ZOE_BF16, NULL},
    {"vae21_f16", VAE, "i2v-A14B", "v.gguf", ZOE_F16, NULL},
    {"vae22_diffusers", VAE, "ti2v-5B", "v.safetensors", ZOE_NONE, DATA "names/vae22.json"},
    {"vae22_bf16", VAE, "ti2v-5B", "v.safetensors", ZOE_BF16, NULL},
    {"vae22_f16", VAE, "ti2v-5B", "v.gguf", ZOE_F16, NULL},
    {"clip_open", TOWER, "i2v-14B", "c.safetensors", ZOE_NONE, NULL},
    {"vae21_fp8", VAE, "i2v-A14B", "v.safetensors", ZOE_NONE, PLAIN_F8},
    {"vae22_fp8", VAE, "ti2v-5B", "v.safetensors", ZOE_NONE, PLAIN_F8},
    {"clip_fp8", TOWER, "i2v-14B", "c.safetensors", ZOE_NONE, PLAIN_F8},
    {"clip_gguf", TOWER, "i2v-14B", "c.gguf", ZOE_NONE, PLAIN_GGUF},
    {"clip_official", TOWER, "i2v-14B", "c.safetensors", ZOE_NONE, OFFICIAL_CLIP},
};

/* As the official file has them: q, k and v as one, and the tower for text beside. */
static void write_official_clip(const scene *s, const char *path, const char *from)
{
    static const char q[] = ".attn.q.", *const parts[] = {"q", "k", "v"};
    zoe_store *store;
    zoe_tensor text[2] = {zoe_tensor_2d(calloc(6, 4), ZOE_F32, 2, 3),
                          zoe_tensor_of(calloc(1, 4), ZOE_F32, 0, NULL)};
    tensors *t = calloc(1, sizeof *t);
    assert_true(t && text[0].data && text[1].data);
    must(s, zoe_store_open(s->ctx, &store, from, ZOE_NAMES_CLIP));
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const char *name = zoe_store_name(store, i), *at = strstr(name, q);
        zoe_tensor w = zoe_store_tensor(store, i);
        if (strstr(name, ".attn.k.") || strstr(name, ".attn.v."))
            continue;
        snprintf(t->names[t->n], sizeof t->names[0], "%s", name);
        if (at) {
            const size_t bytes = zoe_tensor_bytes(w);
            unsigned char *all = malloc(3 * bytes);
            assert_non_null(all);
            for (size_t k = 0; k < 3; k++) {
                char other[96];
                zoe_tensor one;
                snprintf(other, sizeof other, "%.*s.attn.%s.%s", (int)(at - name), name, parts[k],
                         at + strlen(q));
                assert_true(zoe_store_find(store, other, &one));
                memcpy(all + k * bytes, one.data, bytes);
            }
            w.data = all;
            w.shape[0] *= 3;
            snprintf(t->names[t->n], sizeof t->names[0], "%.*s.attn.to_qkv.%s", (int)(at - name),
                     name, at + strlen(q));
        }
        t->items[t->n] = (zoe_named_tensor){t->names[t->n], w};
        t->n++;
    }
    t->items[t->n++] = (zoe_named_tensor){"textual.token_embedding.weight", text[0]};
    t->items[t->n++] = (zoe_named_tensor){"log_scale", text[1]};
    must(s, zoe_safetensors_write(s->ctx, path, t->items, t->n, NULL, 0));
    for (size_t i = 0; i < t->n; i++)
        if (strstr(t->names[i], ".to_qkv."))
            free(t->items[i].tensor.data);
    free(text[0].data);
    free(text[1].data);
    zoe_store_close(store);
    free(t);
}

/* All weights of two and more dimensions as fp8 without scales, and their values in f32: the upper half
 * of an f16 is an e5m2. */
static void write_f8(const scene *s, const char *path, const char *values, const char *from,
                     zoe_names names)
{
    zoe_store *store;
    tensors *t = calloc(1, sizeof *t), *v = calloc(1, sizeof *v);
    assert_true(t && v);
    must(s, zoe_store_open(s->ctx, &store, from, names));
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const zoe_tensor w = zoe_store_tensor(store, i);
        const size_t n = zoe_tensor_count(w);
        float *plain = add(v, zoe_store_name(store, i), w.rank, w.shape);
        zoe_tensor_widen(plain, w, 0, n);
        unsigned char *bytes = (unsigned char *)add(t, zoe_store_name(store, i), w.rank, w.shape);
        memcpy(bytes, plain, 4 * n);
        if (w.rank < 2)
            continue;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (unsigned char)(zoe_f16_of_f32(plain[k]) >> 8);
        t->items[t->n - 1].tensor = zoe_tensor_of(bytes, ZOE_F8_E5M2, w.rank, w.shape);
        zoe_widen(plain, bytes, ZOE_F8_E5M2, n);
    }
    must(s, zoe_safetensors_write(s->ctx, path, t->items, t->n, NULL, 0));
    must(s, zoe_safetensors_write(s->ctx, values, v->items, v->n, NULL, 0));
    zoe_store_close(store);
    for (size_t i = 0; i < t->n; i++) {
        free(t->items[i].tensor.data);
        free(v->items[i].tensor.data);
    }
    free(t);
    free(v);
}

typedef struct source {
    zoe_context *ctx;
    zoe_store *store;
} source;

static zoe_status put_tensor(void *user, zoe_output *out, size_t i)
{
    const source *from = user;
    const zoe_tensor w = zoe_store_tensor(from->store, i);
    return zoe_output_write(from->ctx, out, w.data, zoe_tensor_bytes(w));
}

static void write_gguf(const scene *s, const char *path, const char *from, zoe_names names)
{
    zoe_store *store;
    must(s, zoe_store_open(s->ctx, &store, from, names));
    const size_t n = zoe_store_count(store);
    zoe_named_tensor *list = calloc(n, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < n; i++)
        list[i] = (zoe_named_tensor){zoe_store_name(store, i), zoe_store_tensor(store, i)};
    must(s, zoe_gguf_stream(s->ctx, path, list, n, NULL, put_tensor, &(source){s->ctx, store}));
    free(list);
    zoe_store_close(store);
}

static const family *family_of(const char *task)
{
    const family *f = families;
    while (!is(f, task))
        f++;
    return f;
}

/* The part's place in a request, and how its tensors are named. */
static const char **place_of(zoe_job_params *p, part which)
{
    return which == TEXT ? &p->text_encoder : which == VAE ? &p->vae : &p->clip;
}

static bool same_file(const char *a, const char *b)
{
    char command[600];
    snprintf(command, sizeof command, "cmp -s %s %s", a, b);
    return system(command) == 0;
}

/* The part in this form, and its values in f32, give the same latents and frames. */
static void check_part(scene *s, const part_row *row)
{
    static const zoe_names names[] = {ZOE_NAMES_UMT5, ZOE_NAMES_WAN_VAE, ZOE_NAMES_CLIP};
    const family *f = family_of(row->task);
    char stored[256], values[256], frames[2][256], original[2][256];
    float *latents[2];
    size_t n[2];
    zoe_job_params p;
    zoe_conversion made = {.type = row->type}, widened = {.type = ZOE_F32};
    for (size_t e = 0; e < f->transformers; e++)
        transformer_of(s, f, e, original[e]);
    name_rest(s, &p, f);
    p.high_noise = f->transformers == 2 ? original[0] : NULL;
    p.low_noise = f->transformers == 2 ? original[1] : NULL;
    p.transformer = f->transformers == 2 ? NULL : original[0];
    const char **place = place_of(&p, row->part), *from = *place;
    snprintf(stored, sizeof stored, "%s/%s_%s", s->folder, row->name, row->file);
    snprintf(values, sizeof values, "%s/%s_values.safetensors", s->folder, row->name);
    if (row->map == OFFICIAL_CLIP) {
        write_official_clip(s, stored, from);
        snprintf(values, sizeof values, "%s", from);
    } else if (row->map == PLAIN_GGUF) {
        write_gguf(s, stored, from, names[row->part]);
        snprintf(values, sizeof values, "%s", from);
    } else if (row->map == PLAIN_F8) {
        write_f8(s, stored, values, from, names[row->part]);
    } else if (row->type == ZOE_NONE) {
        rename_all(s, stored, from, names[row->part], row->map);
        snprintf(values, sizeof values, "%s", from);
    } else {
        must(s, zoe_checkpoint_convert(s->ctx, stored, from, &made));
        must(s, zoe_checkpoint_convert(s->ctx, values, stored, &widened));
        assert_true(made.converted > 0);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(frames[i], sizeof frames[i], "%s/frames_%zu.y4m", s->folder, i);
        *place = i ? values : stored;
        p.out = frames[i];
        latents[i] = run(s, f, p, &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    if (memcmp(latents[0], latents[1], n[0] * sizeof **latents) != 0)
        fail_msg("%s: other latents than from its values", row->name);
    if (!same_file(frames[0], frames[1]))
        fail_msg("%s: other frames than from its values", row->name);
    free(latents[0]);
    free(latents[1]);
}

static void every_part_in_every_form(void **state)
{
    for (size_t i = 0; i < sizeof part_rows / sizeof *part_rows; i++)
        check_part(*state, &part_rows[i]);
}

/* ---- the whole ---- */

static int begin(void **state)
{
    static scene scene_of_all = {.folder = "/tmp/zoe-formats-XXXXXX",
                                 .first = DATA "e2e_i2v/input.png"};
    scene *s = &scene_of_all;
    s->ctx = zoe_context_new(1);
    if (!s->ctx || !mkdtemp(s->folder))
        return -1;
    const struct {
        char *path;
        const char *name;
    } paths[] = {{s->t2v_two, "t2v_two"}, {s->t2v_one, "t2v_one"}, {s->i2v, "i2v"},
                 {s->flf, "flf"},         {s->last, "last.png"},   {s->out, "out.safetensors"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        snprintf(paths[i].path, sizeof s->out, "%.31s/%.30s", s->folder, paths[i].name);
    write_checkpoints(s);
    write_last(s);
    *state = s;
    return 0;
}

static int end(void **state)
{
    scene *s = *state;
    char command[80];
    zoe_context_free(s->ctx);
    snprintf(command, sizeof command, "rm -r %s", s->folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_in_every_form),
                                       cmocka_unit_test(every_model_with_a_lora),
                                       cmocka_unit_test(every_part_in_every_form)};
    return cmocka_run_group_tests(tests, begin, end);
}
