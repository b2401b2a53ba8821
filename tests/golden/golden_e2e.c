/* golden_e2e DIR: whole image-to-video runs against the official pipeline. DIR holds ckpt/ in the
 * official layout, input.png, params.json, and reference runs f32, f32_dpmpp and bf16
 * (.safetensors). Every intermediate that a reference has is compared, then the frames, which are
 * read back from the PNG files that the job writes. */
#include "golden.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "job/job.h"

typedef struct reference {
    const char *file;   /* without .safetensors */
    const char *solver; /* NULL: the one in params.json */
    bool bf16;
} reference;

/* Limits. f32: the engine's error against f64 is some 1e-6; a wrong formula is far above 1e-4.
 * bf16: two right programs differ by rounding, amplified over the steps. */
static const struct {
    double rel_l2, frames_psnr;
} limits[2] = {{1e-4, 100.0}, {5e-2, 45.0}};

typedef struct run {
    golden *g;
    const zoe_store *store;
    const reference *ref;
    size_t seen;
} run;

static void compare(run *r, const char *name, const char *label, const float *got, size_t offset,
                    size_t n)
{
    zoe_tensor t;
    size_t wanted;
    if (!zoe_store_find(r->store, name, &t))
        return;
    float *want = golden_load(r->g, r->store, name, &wanted);
    char full[160];
    snprintf(full, sizeof full, "%s %s", r->ref->file, label);
    golden_compare(r->g, full, got, want + offset, offset + n <= wanted ? n : 0,
                   limits[r->ref->bf16].rel_l2);
    zoe_free(want);
    r->seen++;
}

static void observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    run *r = user;
    const size_t n = zoe_tensor_count(value);
    const bool per_step = strcmp(name, "latents") == 0 || strncmp(name, "v_", 2) == 0;
    char label[64];
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
    snprintf(label, sizeof label, "%s frames", r->ref->file);
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
    const bool ok = r->ref->bf16 ? psnr >= limits[1].frames_psnr
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
            const float got = k == 0
                                  ? job->schedule.timestep[i]
                                  : (float)(zoe_expert_of(job->schedule.timestep[i],
                                                          job->params.boundary) == ZOE_HIGH_NOISE);
            wrong += got < want[i] || got > want[i];
        }
        snprintf(label, sizeof label, "%s %s", r->ref->file, names[k]);
        golden_check(r->g, label, wrong == 0 && n == job->schedule.steps, "%zu of %zu differ",
                     wrong, n);
        zoe_free(want);
        r->seen++;
    }
}

static void run_reference(golden *g, const char *dir, const json_t *params, const reference *ref)
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
    const json_t *tokens = json_object_get(params, "tokens");
    const json_t *prompt = json_object_get(json_object_get(tokens, "prompt"), "text");
    const json_t *negative = json_object_get(json_object_get(tokens, "negative"), "text");
    const char *solver =
        ref->solver ? ref->solver : json_string_value(json_object_get(params, "solver"));
    const json_t *scale = json_object_get(params, "guide_scale_low_high");
    char ckpt[4096], image[4096];
    snprintf(ckpt, sizeof ckpt, "%s/ckpt", dir);
    snprintf(image, sizeof image, "%s/input.png", dir);
    zoe_job_params p;
    zoe_job_params_init(&p);
    p.model = ckpt;
    p.image = image;
    p.prompt = json_string_value(prompt);
    p.negative_prompt = json_string_value(negative);
    factor((size_t)number(g, params, "max_area"), &p.height, &p.width);
    p.frames = (size_t)number(g, params, "frame_num");
    p.steps = (size_t)number(g, params, "steps");
    p.shift = number(g, params, "shift");
    p.boundary = number(g, params, "boundary");
    p.seed = (int64_t)number(g, params, "seed");
    p.guide_low = json_number_value(json_array_get(scale, 0));
    p.guide_high = json_number_value(json_array_get(scale, 1));
    p.solver = solver && strcmp(solver, "dpm++") == 0 ? ZOE_SOLVER_DPMPP : ZOE_SOLVER_UNIPC;
    p.bf16 = ref->bf16;
    p.frames_out = folder;
    p.observe = observe;
    p.user = &r;
    zoe_job *job;
    golden_must(g, zoe_job_new(g->ctx, &job, &p), ref->file);
    golden_must(g, zoe_job_open(g->ctx, job), ref->file);
    check_schedule(&r, job);
    golden_must(g, zoe_job_run(g->ctx, job), ref->file);
    check_frames(&r, folder, zoe_job_plan(job));
    golden_check(g, ref->file, r.seen > 5, "%zu comparisons", r.seen);
    zoe_job_free(job);
    rmdir(folder);
    zoe_store_close(store);
}

int main(int argc, char **argv)
{
    static const reference references[] = {{"f32", NULL, false},
                                           {"f32_dpmpp", "dpm++", false},
                                           {"f32_unipc", "unipc", false},
                                           {"bf16", NULL, true}};
    const char *dir = golden_folder(argc, argv);
    golden g = golden_begin();
    json_error_t error;
    json_t *params = json_load_file(golden_path(dir, "params.json"), 0, &error);
    if (!params) {
        printf("params.json: %s FAIL\n", error.text);
        return 1;
    }
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        run_reference(&g, dir, params, &references[i]);
    json_decref(params);
    return golden_end(&g);
}
