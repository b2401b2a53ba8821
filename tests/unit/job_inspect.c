/* What is found out about checkpoints: kinds by names and shapes, what is missing, what is too much,
 * what does not fit, and NaN. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/digest.h"
#include "store/store.h"
#include "zoetrope/inspect.h"

#define CKPT ZOE_TEST_DATA "/e2e_i2v/ckpt"
#define DIT CKPT "/low_noise_model/diffusion_pytorch_model.safetensors"
#define VAE CKPT "/Wan2.1_VAE.pth"
#define TEXT CKPT "/models_t5_umt5-xxl-enc-bf16.pth"

typedef struct fixture {
    zoe_context *ctx;
    char folder[32];
} fixture;

static int setup(void **state)
{
    static fixture f;
    f = (fixture){.folder = "/tmp/zoe-inspect-XXXXXX", .ctx = zoe_context_new(2)};
    *state = &f;
    if (!f.ctx || !mkdtemp(f.folder))
        return -1;
    /* heads of 16 elements are told by the configuration only */
    char command[256];
    snprintf(command, sizeof command, "cp '" CKPT "/low_noise_model/config.json' %s", f.folder);
    return system(command);
}

static int teardown(void **state)
{
    fixture *f = *state;
    char command[64];
    zoe_context_free(f->ctx);
    snprintf(command, sizeof command, "rm -r %s", f->folder);
    return system(command);
}

static const char *path_in(const fixture *f, const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", f->folder, name);
    return p;
}

/* ---- files that are another one with some tensors changed ---- */

typedef struct change {
    const char *name, *to; /* to NULL: left out */
} change;

/* Copies a file under official names as safetensors; names that end with '*' stand for all that
 * begin so. `extra` is one more tensor, or NULL. */
static const char *changed(fixture *f, const char *from, zoe_names names, const char *to,
                           const change *changes, size_t n, const char *extra)
{
    zoe_store *store;
    static zoe_named_tensor list[4096];
    static float one[4] = {1, 1, 1, 1};
    size_t count = 0;
    assert_int_equal(zoe_store_open(f->ctx, &store, from, names), ZOE_OK);
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const char *name = zoe_store_name(store, i);
        for (size_t k = 0; k < n && name; k++) {
            const size_t length = strlen(changes[k].name);
            const bool any = changes[k].name[length - 1] == '*';
            if (any ? strncmp(name, changes[k].name, length - 1) == 0
                    : strcmp(name, changes[k].name) == 0)
                name = changes[k].to;
        }
        if (name)
            list[count++] = (zoe_named_tensor){name, zoe_store_tensor(store, i)};
    }
    if (extra)
        list[count++] = (zoe_named_tensor){extra, zoe_tensor_2d(one, ZOE_F32, 2, 2)};
    const char *path = path_in(f, to);
    assert_int_equal(zoe_safetensors_write(f->ctx, path, list, count, NULL, 0), ZOE_OK);
    zoe_store_close(store);
    return path;
}

#define CHANGED(f, from, names, to, extra, ...)                                                    \
    changed(f, from, names, to, (const change[]){__VA_ARGS__},                                     \
            sizeof((const change[]){__VA_ARGS__}) / sizeof(change), extra)

static zoe_inspection *inspect(fixture *f, const char *path)
{
    zoe_inspection *in;
    zoe_context_clear(f->ctx);
    if (zoe_inspect(f->ctx, &in, path) != ZOE_OK)
        print_error("%s\n", zoe_context_message(f->ctx));
    assert_non_null(in);
    return in;
}

static void has_text(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" is not in: %s", part, text ? text : "(none)");
}

static bool listed(const zoe_texts *texts, const char *text)
{
    for (size_t i = 0; i < texts->n; i++)
        if (strcmp(texts->text[i], text) == 0)
            return true;
    return false;
}

static size_t dim(const zoe_part_info *part, const char *name)
{
    for (size_t i = 0; i < part->n_dims; i++)
        if (strcmp(part->dims[i].name, name) == 0)
            return part->dims[i].value;
    return 0;
}

/* ---- whole ones ---- */

static void a_sound_checkpoint(void **state)
{
    fixture *f = *state;
    zoe_inspection *in = inspect(f, CKPT);
    assert_string_equal(zoe_inspection_layout(in), "official");
    assert_true(zoe_inspection_sound(in));
    assert_true(zoe_inspection_supported(in));
    assert_int_equal(zoe_inspection_parts(in), 5);
    has_text(zoe_inspection_model(in), "I2V-A14B");
    assert_int_equal(zoe_inspection_problems(in)->total, 0);
    assert_int_equal(zoe_inspection_remarks(in)->total, 0);
    static const zoe_content contents[] = {ZOE_CONTENT_WAN_DIT, ZOE_CONTENT_WAN_DIT,
                                           ZOE_CONTENT_WAN_VAE_21, ZOE_CONTENT_UMT5,
                                           ZOE_CONTENT_TOKENIZER};
    for (size_t i = 0; i < 5; i++) {
        const zoe_part_info *part = zoe_inspection_part(in, i);
        assert_int_equal(part->content, contents[i]);
        assert_true(part->sound && part->supported && !part->refusal);
        assert_true(part->n_files > 0);
        assert_int_equal(part->missing.total + part->unknown.total, 0);
    }
    const zoe_part_info *high = zoe_inspection_part(in, 0);
    assert_string_equal(high->role, "high-noise transformer");
    assert_string_equal(high->names, "official");
    assert_int_equal(high->tensors, 69);
    assert_int_equal(high->n_files, 4); /* two shards, index, configuration */
    assert_int_equal(high->n_shares, 1);
    assert_int_equal(high->shares[0].dtype, ZOE_F32);
    assert_int_equal(high->shares[0].tensors, 69);
    assert_int_equal(high->shares[0].bytes, high->bytes);
    assert_int_equal(dim(high, "dim"), 64);
    assert_int_equal(dim(high, "layers"), 2);
    assert_int_equal(dim(high, "in_channels"), 36);
    assert_int_equal(dim(high, "out_channels"), 16);

    assert_int_equal(zoe_inspection_verify(f->ctx, in, NULL, NULL), ZOE_OK);
    assert_true(zoe_inspection_sound(in));
    char digest[ZOE_DIGEST_TEXT];
    for (size_t i = 0; i < high->n_files; i++) {
        assert_int_equal(zoe_file_digest(f->ctx, digest, high->files[i].path), ZOE_OK);
        assert_string_equal(high->files[i].sha256, digest);
    }
    assert_int_equal(zoe_store_fingerprint(f->ctx, high->store, digest), ZOE_OK);
    assert_string_equal(high->fingerprint, digest);
    zoe_inspection_free(in);
}

static void one_part(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *path;
        zoe_content content;
    } rows[] = {
        {DIT, ZOE_CONTENT_WAN_DIT},
        {CKPT "/high_noise_model", ZOE_CONTENT_WAN_DIT},
        {CKPT "/high_noise_model/diffusion_pytorch_model.safetensors.index.json",
         ZOE_CONTENT_WAN_DIT},
        {VAE, ZOE_CONTENT_WAN_VAE_21},
        {TEXT, ZOE_CONTENT_UMT5},
        {CKPT "/google/umt5-xxl", ZOE_CONTENT_TOKENIZER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        zoe_inspection *in = inspect(f, rows[i].path);
        assert_string_equal(zoe_inspection_layout(in), "single");
        assert_int_equal(zoe_inspection_part(in, 0)->content, rows[i].content);
        assert_true(zoe_inspection_sound(in));
        assert_true(zoe_inspection_supported(in));
        zoe_inspection_free(in);
    }
}

/* ---- whose names ---- */

static void names_of_others(void **state)
{
    fixture *f = *state;
    static const change prefixed[] = {{"head.modulation", "model.diffusion_model.head.modulation"}};
    zoe_inspection *in =
        inspect(f, changed(f, DIT, ZOE_NAMES_WAN_DIT, "prefix.safetensors", prefixed, 1, NULL));
    assert_string_equal(zoe_inspection_part(in, 0)->names, "official");
    assert_true(zoe_inspection_sound(in));
    zoe_inspection_free(in);
    /* only what the sign needs has to be there to tell */
    in = inspect(f, CHANGED(f, DIT, ZOE_NAMES_WAN_DIT, "sign.safetensors", NULL, {"b*", NULL},
                            {"p*", NULL}, {"t*", NULL}, {"head.head*", NULL},
                            {"head.modulation", "model.diffusion_model.head.modulation"}));
    has_text(zoe_inspection_part(in, 0)->names, "\"model.diffusion_model.\"");
    assert_int_equal(zoe_inspection_part(in, 0)->content, ZOE_CONTENT_WAN_DIT);
    assert_false(zoe_inspection_sound(in));
    zoe_inspection_free(in);
}

/* ---- what is missing or too much ---- */

static void missing_and_unknown_tensors(void **state)
{
    fixture *f = *state;
    zoe_inspection *in =
        inspect(f, CHANGED(f, DIT, ZOE_NAMES_WAN_DIT, "dit.safetensors", "blocks.1.surprise",
                           {"blocks.1.ffn.2.bias", NULL}, {"text_embedding.2.weight", NULL}));
    const zoe_part_info *part = zoe_inspection_part(in, 0);
    assert_false(part->sound);
    assert_false(part->supported);
    assert_int_equal(part->missing.total, 2);
    assert_true(listed(&part->missing, "blocks.1.ffn.2.bias"));
    assert_true(listed(&part->missing, "text_embedding.2.weight"));
    assert_int_equal(part->unknown.total, 1);
    assert_true(listed(&part->unknown, "blocks.1.surprise"));
    zoe_inspection_free(in);

    in = inspect(f,
                 CHANGED(f, DIT, ZOE_NAMES_WAN_DIT, "gap.safetensors", NULL, {"blocks.0.*", NULL}));
    part = zoe_inspection_part(in, 0);
    assert_int_equal(part->missing.total, 1);
    assert_true(listed(&part->missing, "blocks.0.*"));
    zoe_inspection_free(in);

    in = inspect(f, CHANGED(f, TEXT, ZOE_NAMES_UMT5, "text.safetensors", "spiece_model",
                            {"blocks.1.attn.k.weight", NULL}));
    part = zoe_inspection_part(in, 0);
    assert_int_equal(part->missing.total, 1);
    assert_true(listed(&part->missing, "blocks.1.attn.k.weight"));
    assert_int_equal(part->unknown.total, 0); /* some programs put the tokenizer there */
    zoe_inspection_free(in);
}

static void missing_tensors_of_the_vae(void **state)
{
    fixture *f = *state;
    zoe_inspection *in = inspect(
        f, CHANGED(f, VAE, ZOE_NAMES_WAN_VAE, "vae.safetensors", "decoder.upsamples.0.extra",
                   {"decoder.upsamples.3.time_conv.bias", NULL}, {"encoder.middle.1.*", NULL},
                   {"encoder.head.0.gamma", NULL}, {"conv2.bias", NULL}));
    const zoe_part_info *part = zoe_inspection_part(in, 0);
    assert_int_equal(part->content, ZOE_CONTENT_WAN_VAE_21);
    assert_false(part->sound);
    assert_int_equal(part->missing.total, 4);
    assert_true(listed(&part->missing, "decoder.upsamples.3.time_conv.bias"));
    assert_true(listed(&part->missing, "encoder.middle.1.*"));
    assert_true(listed(&part->missing, "encoder.head.0.gamma"));
    assert_true(listed(&part->missing, "conv2.bias"));
    assert_int_equal(part->unknown.total, 1);
    assert_true(listed(&part->unknown, "decoder.upsamples.0.extra"));
    zoe_inspection_free(in);
}

/* ---- relatives and strangers ---- */

static void relatives_by_name(void **state)
{
    fixture *f = *state;
    zoe_inspection *in = inspect(f, CHANGED(f, DIT, ZOE_NAMES_WAN_DIT, "vace.safetensors",
                                            "vace_blocks.0.before_proj.weight", {"none", NULL}));
    const zoe_part_info *part = zoe_inspection_part(in, 0);
    has_text(part->what, "VACE");
    has_text(part->refusal, "VACE");
    assert_true(part->sound);
    assert_false(zoe_inspection_supported(in));
    assert_int_equal(part->unknown.total, 0); /* a model of its own, not a spoilt one */
    zoe_inspection_free(in);

    /* one that has the CLIP branch as well */
    in = inspect(f, CHANGED(f, DIT, ZOE_NAMES_WAN_DIT, "animate.safetensors",
                            "face_adapter.fuser_blocks.0.linear1_kv.weight",
                            {"text_embedding.2.weight", "img_emb.proj.1.weight"}));
    part = zoe_inspection_part(in, 0);
    has_text(part->what, "Wan relative: Animate");
    has_text(part->refusal, "Animate");
    zoe_inspection_free(in);

    in = inspect(f, CHANGED(f, DIT, ZOE_NAMES_WAN_DIT, "lora.safetensors",
                            "blocks.0.ffn.0.lora_A.weight", {"*", NULL}));
    assert_int_equal(zoe_inspection_part(in, 0)->content, ZOE_CONTENT_LORA);
    assert_true(zoe_inspection_supported(in));
    zoe_inspection_free(in);

    in = inspect(
        f, CHANGED(f, DIT, ZOE_NAMES_WAN_DIT, "dora.safetensors", "blocks.0.ffn.0.dora_scale",
                   {"blocks.0.ffn.2.weight", "blocks.0.ffn.0.lora_A.weight"},
                   {"blocks.0.ffn.0.weight", "blocks.0.ffn.0.lora_B.weight"}, {"blocks.0.s*", NULL},
                   {"blocks.1*", NULL}, {"h*", NULL}, {"p*", NULL}, {"t*", NULL}));
    part = zoe_inspection_part(in, 0);
    assert_int_equal(part->content, ZOE_CONTENT_LORA);
    has_text(part->refusal, "is a DoRA");
    assert_false(zoe_inspection_supported(in));
    zoe_inspection_free(in);

    in = inspect(f, CHANGED(f, TEXT, ZOE_NAMES_UMT5, "t5.safetensors", NULL,
                            {"blocks.1.pos_embedding.embedding.weight", NULL}));
    has_text(zoe_inspection_part(in, 0)->what, "no umT5");
    assert_false(zoe_inspection_supported(in));
    zoe_inspection_free(in);

    in = inspect(f, ZOE_TEST_DATA "/noise/noise.safetensors");
    assert_int_equal(zoe_inspection_part(in, 0)->content, ZOE_CONTENT_UNKNOWN);
    assert_true(zoe_inspection_sound(in));
    assert_false(zoe_inspection_supported(in));
    zoe_inspection_free(in);
}

/* ---- folders ---- */

static void copy_checkpoint(const fixture *f)
{
    char command[256];
    snprintf(command, sizeof command, "cp -r '" CKPT "' %s/ckpt && chmod -R u+w %s/ckpt", f->folder,
             f->folder);
    assert_int_equal(system(command), 0);
}

static void shell(const fixture *f, const char *what)
{
    char command[512];
    snprintf(command, sizeof command, "cd %s/ckpt && %s", f->folder, what);
    assert_int_equal(system(command), 0);
}

static void folders_with_faults(void **state)
{
    fixture *f = *state;
    copy_checkpoint(f);
    shell(f, "mv Wan2.1_VAE.pth ..");
    zoe_inspection *in = inspect(f, path_in(f, "ckpt"));
    assert_false(zoe_inspection_sound(in));
    assert_false(zoe_inspection_supported(in));
    assert_int_equal(zoe_inspection_parts(in), 4);
    assert_int_equal(zoe_inspection_problems(in)->total, 1);
    has_text(zoe_inspection_problems(in)->text[0], "Wan2.1_VAE.pth is not there");
    zoe_inspection_free(in);

    /* the text encoder in the place of the VAE */
    shell(f, "cp models_t5_umt5-xxl-enc-bf16.pth Wan2.1_VAE.pth");
    in = inspect(f, path_in(f, "ckpt"));
    assert_false(zoe_inspection_sound(in));
    has_text(zoe_inspection_problems(in)->text[0], "in the place of the VAE");
    zoe_inspection_free(in);

    shell(f, "mv ../Wan2.1_VAE.pth . && rm high_noise_model/*-00002-of-00002.safetensors");
    in = inspect(f, path_in(f, "ckpt"));
    assert_false(zoe_inspection_sound(in));
    has_text(zoe_inspection_part(in, 0)->refusal, "34 of 69 tensors would be missing");
    zoe_inspection_free(in);

    shell(f, "rm -r high_noise_model && cp -r low_noise_model high_noise_model");
    in = inspect(f, path_in(f, "ckpt"));
    assert_true(zoe_inspection_sound(in));
    assert_int_equal(zoe_inspection_remarks(in)->total, 1);
    has_text(zoe_inspection_remarks(in)->text[0], "same weights");
    zoe_inspection_free(in);
}

static void other_folders(void **state)
{
    fixture *f = *state;
    copy_checkpoint(f);
    shell(f, "mv high_noise_model/* . && rm -r high_noise_model low_noise_model");
    zoe_inspection *in = inspect(f, path_in(f, "ckpt"));
    assert_string_equal(zoe_inspection_layout(in), "official");
    assert_false(zoe_inspection_supported(in));
    has_text(zoe_inspection_problems(in)->text[0], "one of the two transformers");
    zoe_inspection_free(in);

    shell(f, "mv Wan2.1_VAE.pth vae.pth && mv models_t5_*.pth t5.pth");
    in = inspect(f, path_in(f, "ckpt"));
    assert_string_equal(zoe_inspection_layout(in), "other");
    assert_int_equal(zoe_inspection_parts(in), 4); /* shards stand under their index */
    assert_true(zoe_inspection_sound(in));
    assert_false(zoe_inspection_supported(in));
    has_text(zoe_inspection_model(in), "image-to-video");
    zoe_inspection_free(in);

    assert_int_equal(zoe_inspect(f->ctx, &in, path_in(f, "nothing")), ZOE_MISSING);
    assert_null(in);
    shell(f, "rm -r ./*");
    zoe_context_clear(f->ctx);
    assert_int_equal(zoe_inspect(f->ctx, &in, path_in(f, "ckpt")), ZOE_MISSING);
    has_text(zoe_context_message(f->ctx), "no weights");
    zoe_context_clear(f->ctx);
    assert_int_equal(zoe_inspect(f->ctx, &in, ZOE_TEST_DATA "/e2e_i2v/input.png"), ZOE_FORMAT);
    has_text(zoe_context_message(f->ctx), "no checkpoint");
}

/* ---- NaN ---- */

static void B22_nan_by_name(void **state)
{
    fixture *f = *state;
    static const float values[4] = {1.0f, NAN, -INFINITY, NAN};
    zoe_store *store;
    zoe_named_tensor list[128];
    size_t n;
    assert_int_equal(zoe_store_open(f->ctx, &store, DIT, ZOE_NAMES_WAN_DIT), ZOE_OK);
    for (n = 0; n < zoe_store_count(store); n++)
        list[n] = (zoe_named_tensor){zoe_store_name(store, n), zoe_store_tensor(store, n)};
    unsigned char *copy = NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, "blocks.1.self_attn.v.weight") == 0) {
            const size_t bytes = zoe_tensor_count(list[i].tensor) * sizeof(float);
            copy = malloc(bytes);
            assert_non_null(copy);
            memcpy(copy, list[i].tensor.data, bytes);
            memcpy(copy + bytes - sizeof values, values, sizeof values);
            list[i].tensor.data = copy;
        }
    assert_non_null(copy);
    const char *path = path_in(f, "nan.safetensors");
    assert_int_equal(zoe_safetensors_write(f->ctx, path, list, n, NULL, 0), ZOE_OK);
    free(copy);
    zoe_store_close(store);

    zoe_inspection *in = inspect(f, path);
    assert_true(zoe_inspection_sound(in)); /* headers do not tell */
    assert_int_equal(zoe_inspection_verify(f->ctx, in, NULL, NULL), ZOE_OK);
    assert_false(zoe_inspection_sound(in));
    const zoe_part_info *part = zoe_inspection_part(in, 0);
    assert_int_equal(part->n_nonfinite, 1);
    assert_string_equal(part->nonfinite[0].name, "blocks.1.self_attn.v.weight");
    assert_int_equal(part->nonfinite[0].nans, 2);
    assert_int_equal(part->nonfinite[0].infs, 1);
    has_text(zoe_inspection_problems(in)->text[0], "blocks.1.self_attn.v.weight");
    has_text(zoe_inspection_problems(in)->text[0], "NaN");
    zoe_inspection_free(in);
}

/* ---- memory and cancelling ---- */

static void without_memory(void **state)
{
    fixture *f = *state;
    zoe_inspection *in = NULL;
    zoe_status status = ZOE_NOMEM;
    size_t n;
    for (n = 1; status == ZOE_NOMEM; n += 1 + n / 8) {
        zoe_context_clear(f->ctx);
        zoe_alloc_fail_at(n);
        status = zoe_inspect(f->ctx, &in, CKPT);
        if (status == ZOE_OK)
            status = zoe_inspection_verify(f->ctx, in, NULL, NULL);
        zoe_alloc_fail_at(0);
        zoe_inspection_free(in);
        in = NULL;
    }
    assert_int_equal(status, ZOE_OK);
    assert_in_range(n, 100, 10000000);
}

static void ends_when_cancelled(void **state)
{
    fixture *f = *state;
    zoe_inspection *in = inspect(f, DIT), *other;
    zoe_cancel(f->ctx);
    assert_int_equal(zoe_inspection_verify(f->ctx, in, NULL, NULL), ZOE_CANCELLED);
    assert_int_equal(zoe_inspect(f->ctx, &other, DIT), ZOE_CANCELLED);
    zoe_inspection_free(in);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_sound_checkpoint),
        TEST(one_part),
        TEST(names_of_others),
        TEST(missing_and_unknown_tensors),
        TEST(missing_tensors_of_the_vae),
        TEST(relatives_by_name),
        TEST(folders_with_faults),
        TEST(other_folders),
        TEST(B22_nan_by_name),
        TEST(without_memory),
        TEST(ends_when_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
