/* golden_e2e DIR: whole image-to-video runs against the official pipeline. DIR holds ckpt/ in the
 * official layout, input.png, params.json, and reference runs f32, f32_dpmpp and bf16
 * (.safetensors). Every intermediate that a reference has is compared, then the frames, which are
 * read back from the PNG files that the job writes.
 *
 * Where ckpt/ holds a transformer alone, the VAE is ckpt_safetensors/vae.safetensors, and what else
 * is lacking (picture, prompts, text encoder, tokenizer) is that of ../e2e_i2v. */
#include "golden.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "job/job.h"

typedef struct reference {
    const char *file;              /* without .safetensors */
    const char *solver;            /* NULL: the one in params.json */
    enum { F32, BF16, INT8 } kind; /* INT8: f32 with the large layers in int8, against f32 */
} reference;

/* Limits. f32: the engine's error against f64 is some 1e-6; a wrong formula is far above 1e-4.
 * bf16: two right programs differ by rounding, amplified over the steps. int8: so do they, by more. */
static const struct {
    double rel_l2, frames_psnr;
} limits[3] = {{1e-4, 100.0}, {5e-2, 45.0}, {5e-2, 35.0}};

typedef struct run {
    golden *g;
    const zoe_store *store;
    const reference *ref;
    size_t seen;
} run;

static const char *note(const reference *ref)
{
    return ref->kind == INT8 ? " in int8" : "";
}

static void compare(run *r, const char *name, const char *label, const float *got, size_t offset,
                    size_t n)
{
    zoe_tensor t;
    size_t wanted;
    if (!zoe_store_find(r->store, name, &t))
        return;
    float *want = golden_load(r->g, r->store, name, &wanted);
    char full[160];
    snprintf(full, sizeof full, "%s%s %s", r->ref->file, note(r->ref), label);
    golden_compare(r->g, full, got, want + offset, offset + n <= wanted ? n : 0,
                   limits[r->ref->kind].rel_l2);
    zoe_free(want);
    r->seen++;
}

/* Frames [count, H, W, 3], not clamped, against the clamped video [3, T, H, W]. */
static void compare_frames(run *r, size_t first, zoe_tensor frames)
{
    const size_t count = frames.shape[0], H = frames.shape[1], W = frames.shape[2];
    const float *got = frames.data;
    zoe_tensor t;
    size_t wanted;
    double error = 0.0;
    if (!zoe_store_find(r->store, "video", &t))
        return;
    if (t.rank != 4 || t.shape[0] != 3 || first + count > t.shape[1] || t.shape[2] != H ||
        t.shape[3] != W) {
        golden_check(r->g, "video", false, "another size");
        return;
    }
    float *want = golden_load(r->g, r->store, "video", &wanted);
    for (size_t i = 0; i < count * H * W; i++)
        for (size_t c = 0; c < 3; c++) {
            const double v = fmin(fmax((double)got[3 * i + c], -1.0), 1.0);
            const double d = v - (double)want[(c * t.shape[1] + first) * H * W + i];
            error += d * d;
        }
    zoe_free(want);
    const double psnr = zoe_psnr_of(error, (double)(3 * count * H * W), 2.0);
    char label[64];
    snprintf(label, sizeof label, "%s%s video from frame %zu", r->ref->file, note(r->ref), first);
    golden_check(r->g, label, psnr >= limits[r->ref->kind].frames_psnr, "%.1f dB", psnr);
    r->seen++;
}

static void observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    run *r = user;
    const size_t n = zoe_tensor_count(value);
    const bool per_step = strcmp(name, "latents") == 0 || strncmp(name, "v_", 2) == 0;
    char label[64];
    if (strcmp(name, "frames") == 0) {
        compare_frames(r, step, value);
        return;
    }
    snprintf(label, sizeof label, per_step ? "%s, step %zu" : "%s", name, step + 1);
    compare(r, name, label, value.data, per_step ? step * n : 0, n);
}

static double number(golden *g, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v)) {
        printf("params.json has no number %s FAIL\n", key);
        exit(1);
    }
    (void)g;
    return json_number_value(v);
}

/* Any two factors of the area near its root: only the product counts. */
static void factor(size_t area, size_t *a, size_t *b)
{
    *a = (size_t)sqrt((double)area);
    while (area % *a)
        (*a)--;
    *b = area / *a;
}

static void check_frames(run *r, const char *folder, const zoe_plan *plan)
{
    zoe_tensor t;
    if (!zoe_store_find(r->store, "video_u8", &t))
        return;
    const size_t n = plan->width * plan->height * 3, total = n * plan->frames;
    const uint8_t *want = t.data;
    char label[160], name[40];
    size_t apart = 0, far = 0;
    double error = 0.0;
    snprintf(label, sizeof label, "%s%s frames", r->ref->file, note(r->ref));
    if (zoe_tensor_count(t) != total) {
        golden_check(r->g, label, false, "%zu values for %zu", total, zoe_tensor_count(t));
        return;
    }
    for (size_t i = 0; i < plan->frames; i++) {
        zoe_picture picture;
        snprintf(name, sizeof name, "frame_%05zu.png", i);
        const char *path = golden_path(folder, name);
        golden_must(r->g, zoe_picture_read(r->g->ctx, &picture, path, false), path);
        for (size_t j = 0; j < n; j++) {
            const int d = (int)picture.rgb[j] - (int)want[i * n + j];
            apart += d != 0;
            far += d > 1 || d < -1;
            error += (double)(d * d);
        }
        zoe_picture_free(&picture);
        unlink(path);
    }
    const double psnr =
        error > 0.0 ? 10.0 * log10(255.0 * 255.0 * (double)total / error) : INFINITY;
    const bool ok = r->ref->kind != F32 ? psnr >= limits[r->ref->kind].frames_psnr
                                        : far == 0 && (double)apart <= 0.001 * (double)total;
    golden_check(r->g, label, ok, "%.1f dB, %zu of %zu off", psnr, apart, total);
    r->seen++;
}

static void check_schedule(run *r, const zoe_job *job)
{
    zoe_tensor t;
    char label[64];
    const char *const names[2] = {"timesteps", "is_high"};
    for (size_t k = 0; k < 2; k++) {
        size_t wrong = 0, n;
        if (!zoe_store_find(r->store, names[k], &t))
            continue;
        float *want = golden_load(r->g, r->store, names[k], &n);
        for (size_t i = 0; i < n; i++) {
            const float got = k == 0 ? job->schedule.timestep[i]
                                     : (float)(zoe_job_expert(job, i) == ZOE_HIGH_NOISE);
            wrong += got < want[i] || got > want[i];
        }
        snprintf(label, sizeof label, "%s %s", r->ref->file, names[k]);
        golden_check(r->g, label, wrong == 0 && n == job->schedule.steps, "%zu of %zu differ",
                     wrong, n);
        zoe_free(want);
        r->seen++;
    }
}

/* The timestep of each token in the first step: 0 for those that are given. */
static void check_tokens(run *r, const zoe_job *job)
{
    zoe_tensor t;
    size_t n, wrong = 0;
    if (!zoe_store_find(r->store, "t_first", &t))
        return;
    float *want = golden_load(r->g, r->store, "t_first", &n);
    const size_t tokens = job->plan.tokens;
    const size_t still = zoe_still_frames(job) * tokens / job->plan.latent_frames;
    for (size_t i = 0; i < n && i < tokens; i++) {
        const float got = i < still ? 0.0f : job->schedule.timestep[0];
        wrong += got < want[i] || got > want[i];
    }
    char label[64];
    snprintf(label, sizeof label, "%s t_first", r->ref->file);
    golden_check(r->g, label, wrong == 0 && n == tokens, "%zu of %zu differ", wrong, n);
    zoe_free(want);
    r->seen++;
}

/* Paths and texts of a request. */
typedef struct inputs {
    json_t *params, *sibling; /* of DIR and of ../e2e_i2v */
    char model[4096], vae[4096], text_encoder[4096], tokenizer[4096], image[4096];
} inputs;

/* DIR/name, or the sibling's if that is not there. */
static void find(char path[4096], const char *dir, const char *name)
{
    snprintf(path, 4096, "%s/%s", dir, name);
    if (!zoe_file_exists(path) && !zoe_folder_exists(path))
        snprintf(path, 4096, "%s/../e2e_i2v/%s", dir, name);
}

static const char *text_of(const inputs *in, const char *branch)
{
    const json_t *tokens = json_object_get(in->params, "tokens");
    if (!tokens)
        tokens = json_object_get(in->sibling, "tokens");
    return json_string_value(json_object_get(json_object_get(tokens, branch), "text"));
}

static inputs find_inputs(const char *dir)
{
    inputs in = {.params = json_load_file(golden_path(dir, "params.json"), 0, NULL)};
    if (!in.params) {
        printf("%s/params.json cannot be read FAIL\n", dir);
        exit(1);
    }
    in.sibling = json_load_file(golden_path(dir, "../e2e_i2v/params.json"), 0, NULL);
    snprintf(in.model, sizeof in.model, "%s/ckpt", dir);
    snprintf(in.vae, sizeof in.vae, "%s/ckpt_safetensors/vae.safetensors", dir);
    find(in.text_encoder, dir, "ckpt/models_t5_umt5-xxl-enc-bf16.pth");
    find(in.tokenizer, dir, "ckpt/google/umt5-xxl");
    find(in.image, dir, "input.png");
    return in;
}

static void set_guidance(golden *g, zoe_job_params *p, const json_t *params)
{
    const json_t *pair = json_object_get(params, "guide_scale_low_high");
    if (pair) {
        p->guide_low = json_number_value(json_array_get(pair, 0));
        p->guide_high = json_number_value(json_array_get(pair, 1));
    } else {
        p->guide_low = p->guide_high = number(g, params, "guide_scale");
    }
    if (json_object_get(params, "boundary"))
        p->boundary = number(g, params, "boundary");
}

static zoe_job_params request_of(golden *g, const inputs *in, const reference *ref)
{
    const json_t *params = in->params;
    const char *solver =
        ref->solver ? ref->solver : json_string_value(json_object_get(params, "solver"));
    zoe_job_params p;
    zoe_job_params_init(&p);
    if (zoe_folder_exists(golden_path(in->model, "high_noise_model"))) {
        p.model = in->model;
    } else {
        p.transformer = in->model;
        p.vae = in->vae;
        p.text_encoder = in->text_encoder;
        p.tokenizer = in->tokenizer;
    }
    p.image = in->image;
    p.prompt = text_of(in, "prompt");
    p.negative_prompt = text_of(in, "negative");
    factor((size_t)number(g, params, "max_area"), &p.height, &p.width);
    p.frames = (size_t)number(g, params, "frame_num");
    p.steps = (size_t)number(g, params, "steps");
    p.shift = number(g, params, "shift");
    p.seed = (int64_t)number(g, params, "seed");
    set_guidance(g, &p, params);
    p.solver = solver && strcmp(solver, "dpm++") == 0 ? ZOE_SOLVER_DPMPP : ZOE_SOLVER_UNIPC;
    p.bf16 = ref->kind == BF16;
    p.int8 = ref->kind == INT8;
    return p;
}

static void run_reference(golden *g, const char *dir, const inputs *in, const reference *ref)
{
    char name[64], folder[] = "/tmp/golden_e2e_XXXXXX";
    snprintf(name, sizeof name, "%s.safetensors", ref->file);
    const char *path = golden_path(dir, name);
    if (!zoe_file_exists(path))
        return;
    zoe_store *store;
    golden_must(g, zoe_store_open(g->ctx, &store, path, ZOE_NAMES_AS_STORED), path);
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    run r = {.g = g, .store = store, .ref = ref};
    zoe_job_params p = request_of(g, in, ref);
    p.frames_out = folder;
    p.observe = observe;
    p.user = &r;
    zoe_job *job;
    golden_must(g, zoe_job_new(g->ctx, &job, &p), ref->file);
    golden_must(g, zoe_job_open(g->ctx, job), ref->file);
    check_schedule(&r, job);
    check_tokens(&r, job);
    golden_must(g, zoe_job_run(g->ctx, job), ref->file);
    check_frames(&r, folder, zoe_job_plan(job));
    golden_check(g, ref->file, r.seen > 5, "%zu comparisons", r.seen);
    zoe_job_free(job);
    rmdir(folder);
    zoe_store_close(store);
}

int main(int argc, char **argv)
{
    static const reference references[] = {
        {"f32", NULL, F32},          {"f32_dpmpp", "dpm++", F32}, {"f32_unipc", "unipc", F32},
        {"bf16", NULL, BF16},        {"f32", NULL, INT8},         {"f32_dpmpp", "dpm++", INT8},
        {"f32_unipc", "unipc", INT8}};
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    inputs in = find_inputs(dir);
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        run_reference(&g, dir, &in, &references[i]);
    json_decref(in.params);
    json_decref(in.sibling);
    return golden_end(&g);
}
