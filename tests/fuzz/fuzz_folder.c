/* Fuzz target: the folder of a model in the layout of diffusers, some parts sound, some files hostile.
 * The first byte says which parts are there and sound, the second what is done with the folder (bit 0:
 * zoe_inspect; from 0xe0 on a job is opened too, bit 2: for text to video). Then come files: which (an index into
 * `files`), the length in two bytes, the bytes. */
#define _GNU_SOURCE
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/job.h"
#include "zoetrope/inspect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DIT "diffusion_pytorch_model.safetensors"
#define CLIP "models_clip_open-clip-xlm-roberta-large-vit-huge-14.pth"
static const char *const folders[] = {"transformer", "transformer_2", "image_encoder",
                                      "vae",         "text_encoder",  "tokenizer"};
static const char *const files[] = {"model_index.json",
                                    "transformer/config.json",
                                    "transformer/" DIT,
                                    "transformer/" DIT ".index.json",
                                    "transformer_2/config.json",
                                    "transformer_2/" DIT,
                                    "image_encoder/config.json",
                                    "image_encoder/model.safetensors",
                                    "image_encoder/model.safetensors.index.json",
                                    "vae/config.json",
                                    "vae/" DIT,
                                    "text_encoder/config.json",
                                    "text_encoder/model.safetensors",
                                    "text_encoder/model.safetensors.index.json",
                                    "tokenizer/tokenizer.json",
                                    "tokenizer/tokenizer_config.json",
                                    "tokenizer/spiece.model",
                                    "config.json",
                                    CLIP};
enum { FOLDERS = sizeof folders / sizeof *folders, FILES = sizeof files / sizeof *files };

/* The sound files: bit of the first byte, place in the folder, place in the test data. */
static const struct {
    unsigned bit;
    const char *to, *from;
} sound[] = {
    {0, "transformer/" DIT, "e2e_i2v/ckpt/low_noise_model/" DIT},
    {0, "transformer/config.json", "e2e_i2v/ckpt/low_noise_model/config.json"},
    {1, "transformer_2/" DIT, "e2e_i2v/ckpt/low_noise_model/" DIT},
    {1, "transformer_2/config.json", "e2e_i2v/ckpt/low_noise_model/config.json"},
    {2, "image_encoder/model.safetensors", "clip/model.safetensors"},
    {3, "vae/" DIT, "vae21/model.safetensors"},
    {4, "vae/" DIT, "e2e_ti2v/ckpt_safetensors/vae.safetensors"},
    {5, "transformer/" DIT, "e2e_ti2v/ckpt/" DIT},
    {5, "transformer/config.json", "e2e_ti2v/ckpt/config.json"},
    {6, "text_encoder/t5.pth", "e2e_i2v/ckpt/models_t5_umt5-xxl-enc-bf16.pth"},
    {7, "tokenizer/tokenizer.json", "e2e_i2v/ckpt/google/umt5-xxl/tokenizer.json"},
    {7, "tokenizer/tokenizer_config.json", "e2e_i2v/ckpt/google/umt5-xxl/tokenizer_config.json"},
};

static char root[64], model[96], test_data[4096];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void remove_root(void)
{
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void make_root(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(root, sizeof root, "%s/zoe-fuzz-XXXXXX", base);
    if (!mkdtemp(root) || !realpath("../data", test_data))
        abort();
    snprintf(model, sizeof model, "%s/model", root);
    atexit(remove_root);
}

static void write_file(const char *name, const uint8_t *data, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", model, name);
    unlink(path);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

/* A new folder as the input says. */
static void fill(const uint8_t *data, size_t size)
{
    static const char index[] = "{\"_class_name\": \"WanImageToVideoPipeline\"}";
    char path[256], from[8192];
    nftw(model, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    if (mkdir(model, 0700) != 0)
        abort();
    for (size_t i = 0; i < FOLDERS; i++) {
        snprintf(path, sizeof path, "%s/%s", model, folders[i]);
        if (mkdir(path, 0700) != 0)
            abort();
    }
    write_file(files[0], (const uint8_t *)index, sizeof index - 1);
    for (size_t i = 0; i < sizeof sound / sizeof *sound; i++) {
        snprintf(path, sizeof path, "%s/%s", model, sound[i].to);
        snprintf(from, sizeof from, "%s/%s", test_data, sound[i].from);
        if (data[0] >> sound[i].bit & 1 && access(path, F_OK) != 0 && symlink(from, path) != 0)
            abort();
    }
    for (size_t at = 2; at + 3 <= size;) {
        const size_t wanted = (size_t)data[at + 1] | (size_t)data[at + 2] << 8;
        const size_t n = wanted < size - at - 3 ? wanted : size - at - 3;
        write_file(files[data[at] % FILES], data + at + 3, n);
        at += 3 + n;
    }
}

static void reason(const zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK && zoe_context_message(ctx)[0] == '\0')
        abort(); /* refused without a reason */
}

static void inspect(zoe_context *ctx)
{
    zoe_inspection *in = NULL;
    reason(ctx, zoe_inspect(ctx, &in, model));
    for (size_t i = 0; in && i < zoe_inspection_parts(in); i++) {
        const zoe_part_info *part = zoe_inspection_part(in, i);
        if (part->supported == (part->refusal != NULL) && part->supported)
            abort();
    }
    zoe_inspection_free(in);
}

static void open_job(zoe_context *ctx, bool text)
{
    static char picture[4200], out[128];
    zoe_job_params p;
    zoe_job *job = NULL;
    snprintf(picture, sizeof picture, "%s/e2e_i2v/input.png", test_data);
    snprintf(out, sizeof out, "%s/latents.safetensors", root);
    zoe_job_params_init(&p);
    p.model = model;
    p.image = text ? NULL : picture;
    p.prompt = "cat";
    p.negative_prompt = "dog";
    p.width = p.height = 64;
    p.frames = 5;
    p.steps = 2;
    p.guide_low = p.guide_high = 3.0;
    p.latents_out = out;
    zoe_status status = zoe_job_params_suit(ctx, &p, true, NULL);
    if (status == ZOE_OK)
        status = zoe_job_new(ctx, &job, &p);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, job);
    reason(ctx, status);
    zoe_job_free(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!root[0])
        make_root();
    if (size < 2)
        return 0;
    fill(data, size);
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx)
        abort();
    if (data[1] & 1)
        inspect(ctx);
    zoe_context_clear(ctx);
    if (data[1] >= 0xe0)
        open_job(ctx, data[1] & 4);
    zoe_context_free(ctx);
    return 0;
}
