/* B49, memory: a tiny job is run again and again, and at the n-th allocation memory is gone, for every n until the job
 * succeeds. Each run must end with ZOE_NOMEM and a sentence and leave no file behind but latents that are whole, and the
 * context must be good for another run. Then the same with a checkpoint, for some n: the run goes on, runs out of memory
 * once more, goes on again and gives the same latents. The allocations of jansson count too; those of FFmpeg and x264
 * cannot be reached. Leaks are seen by the leak sanitizer.
 *
 *     case_b49_allocations CHECKPOINT PICTURE FOLDER STRIDE LORA  every STRIDE-th n; FOLDER is empty */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "zoetrope/job.h"

enum { PATH = 4096, MOST = 1000000, SOUND_EVERY = 100, KEPT_EVERY = 43, RESUMED_EVERY = 5 };

static char out[PATH], frames[PATH], latents[PATH], tokenizer[PATH];
static char checkpoint[PATH], preview[PATH];
static char *reference; /* the bytes of the latents of a sound run */
static size_t reference_bytes;
static int failures;

static void *json_alloc(size_t size)
{
    void *p;
    (void)zoe_alloc(NULL, &p, size, 1, "JSON");
    return p;
}

/* A tokenizer of few pieces, and with a small character map, beside the outputs: the real one alone
 * has thousands of allocations. */
static bool write_tokenizer(const char *model)
{
    enum { PIECES = 24, ADDED = 4, MAP = 4 + 1024 + 1 };
    char from[PATH], map[MAP / 3 * 4 + 1] = "AAQA"; /* base64: 1024, then an empty trie and text */
    memset(map + 4, 'A', sizeof map - 5);
    snprintf(from, sizeof from, "%s/google/umt5-xxl/tokenizer.json", model);
    json_t *root = json_load_file(from, 0, NULL);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    json_t *added = json_object_get(root, "added_tokens");
    while (json_array_size(vocab) > PIECES)
        json_array_remove(vocab, json_array_size(vocab) - 1);
    while (json_array_size(added) > ADDED)
        json_array_remove(added, json_array_size(added) - 1);
    json_t *normalizer =
        json_pack("{s:s, s:s}", "type", "Precompiled", "precompiled_charsmap", map);
    json_object_set_new(root, "normalizer", normalizer);
    const bool good = json_array_size(vocab) == PIECES && json_array_size(added) == ADDED &&
                      json_dump_file(root, tokenizer, JSON_COMPACT) == 0;
    json_decref(root);
    return good;
}

static void bad(const char *what, size_t n, zoe_status status, const char *message)
{
    failures++;
    fprintf(stderr, "FAIL: n = %zu: %s: %s: %s\n", n, what, zoe_status_name(status), message);
}

static zoe_status job(zoe_context *ctx, const zoe_job_params *params)
{
    zoe_job *j = NULL;
    zoe_status status = zoe_job_new(ctx, &j, params);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, j);
    if (status == ZOE_OK)
        status = zoe_job_run(ctx, j);
    zoe_job_free(j);
    return status;
}

/* Entries of the folder that may not be there after a failure. */
static size_t count_others(const char *folder)
{
    const char *const fine[] = {".",
                                "..",
                                zoe_path_name(latents),
                                zoe_path_name(tokenizer),
                                zoe_path_name(checkpoint),
                                zoe_path_name(preview)};
    size_t n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        bool known = false;
        for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
            known |= strcmp(e->d_name, fine[i]) == 0;
        n += !known;
    }
    if (d)
        closedir(d);
    return n;
}

static bool latents_are_whole(zoe_context *ctx)
{
    char *text;
    size_t bytes;
    if (!zoe_file_exists(latents))
        return true;
    if (zoe_file_read(ctx, &text, &bytes, latents, 1u << 24) != ZOE_OK)
        return false;
    const bool same = bytes == reference_bytes && memcmp(text, reference, bytes) == 0;
    zoe_free(text);
    unlink(latents);
    return same;
}

static void remove_outputs(size_t count)
{
    char path[PATH + 32];
    unlink(out);
    unlink(latents);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/frame_%05zu.png", frames, i);
        unlink(path);
    }
    rmdir(frames);
}

static void remove_checkpoint(void)
{
    char path[PATH + 256];
    DIR *d = opendir(checkpoint);
    for (const struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%.255s", checkpoint, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(checkpoint);
    unlink(preview);
}

static void run_sound(zoe_context *ctx, const zoe_job_params *params, size_t n)
{
    zoe_context_clear(ctx);
    const zoe_status status = job(ctx, params);
    if (status != ZOE_OK)
        bad("a run after it", n, status, zoe_context_message(ctx));
    else if (!reference && zoe_file_read(ctx, &reference, &reference_bytes, latents, 1u << 24))
        bad("no latents", n, status, zoe_context_message(ctx));
    else if (!zoe_file_exists(out) || !zoe_file_exists(latents) || !latents_are_whole(ctx))
        bad("a run after it gave other outputs", n, status, "");
    remove_outputs(params->frames);
}

/* True when the job got through. */
static bool starve(zoe_context *ctx, const zoe_job_params *params, const char *folder, size_t n)
{
    zoe_context_clear(ctx);
    zoe_alloc_fail_at(n);
    const zoe_status status = job(ctx, params);
    zoe_alloc_fail_at(0);
    if (status == ZOE_OK) {
        remove_outputs(params->frames);
        return true;
    }
    const char *message = zoe_context_message(ctx);
    if (status != ZOE_NOMEM || !*message)
        bad("ZOE_NOMEM and a sentence are wanted", n, status, message);
    if (zoe_file_exists(out)) /* whole frames: the latents, which come last, lacked memory */
        remove_outputs(params->frames);
    if (count_others(folder) > 0)
        bad("a file was left", n, status, message);
    if (!latents_are_whole(ctx))
        bad("the latents are not whole", n, status, message);
    remove_outputs(params->frames);
    return false;
}

/* Out of memory at n, then, going on, at half of that; then memory is there. */
static void starve_twice(zoe_context *ctx, const zoe_job_params *params, const char *folder,
                         size_t n)
{
    zoe_job_params kept = *params;
    kept.checkpoint = checkpoint;
    kept.preview = preview;
    if (!starve(ctx, &kept, folder, n)) {
        kept.resume = true;
        starve(ctx, &kept, folder, n / 2 + 1);
        run_sound(ctx, &kept, n);
    }
    remove_checkpoint();
}

/* A run whose steps are all done already goes on. */
static void starve_resumed(zoe_context *ctx, const zoe_job_params *params, const char *folder,
                           size_t stride)
{
    zoe_job_params kept = *params;
    kept.checkpoint = checkpoint;
    run_sound(ctx, &kept, 0);
    kept.resume = true;
    for (size_t n = 1; n < MOST && failures < 20 && !starve(ctx, &kept, folder, n);)
        n += RESUMED_EVERY * stride;
    remove_checkpoint();
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    const char *folder = argv[3];
    const size_t stride = strtoul(argv[4], NULL, 10);
    zoe_context *ctx = zoe_context_new(1);
    zoe_job_params params;
    if (!ctx || stride == 0)
        return 1;
    json_set_alloc_funcs(json_alloc, zoe_free);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", folder);
    snprintf(out, sizeof out, "%s/v.mp4", folder);
    snprintf(frames, sizeof frames, "%s/frames", folder);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", folder);
    snprintf(preview, sizeof preview, "%s/preview.png", folder);
    snprintf(latents, sizeof latents, "%s/latents.safetensors", folder);
    if (!write_tokenizer(argv[1])) {
        fputs("FAIL: no tokenizer could be made\n", stderr);
        return 1;
    }
    zoe_job_params_init(&params);
    params.model = argv[1];
    params.tokenizer = tokenizer;
    params.image = argv[2];
    params.out = out;
    params.frames_out = frames;
    params.latents_out = latents;
    params.prompt = "A cat &amp; a dog.";
    params.negative_prompt = "blurry";
    params.width = params.height = 32;
    params.frames = 5;
    params.steps = 2;
    params.seed = 1;
    params.cache = "FBCache,force=true";
    params.loras[0] = (zoe_job_lora){argv[5], NAN, NAN};
    params.lora_count = 1;
    run_sound(ctx, &params, 0);
    size_t n = 1, runs = 0;
    for (; n < MOST && failures < 20 && !starve(ctx, &params, folder, n); n += stride)
        if (++runs % SOUND_EVERY == 0)
            run_sound(ctx, &params, n);
    run_sound(ctx, &params, n);
    const size_t all = n - 1;
    for (n = 1; n <= all && failures < 20; n += KEPT_EVERY * stride)
        starve_twice(ctx, &params, folder, n);
    starve_resumed(ctx, &params, folder, stride);
    printf("%zu allocations, %zu of them failed in turn\n", all, runs);
    if (all < 100 || all >= MOST)
        bad("so many allocations cannot be", all, ZOE_OK, "");
    zoe_free(reference);
    zoe_context_free(ctx);
    return failures ? 1 : 0;
}
