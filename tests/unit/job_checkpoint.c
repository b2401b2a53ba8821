/* A run that is broken off anywhere goes on to the same bytes; a checkpoint that was damaged, or is
 * another's, is refused. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/job.h"

static const char model[] = ZOE_TEST_DATA "/e2e_i2v/ckpt",
                  image[] = ZOE_TEST_DATA "/e2e_i2v/input.png";
static const char *const stage_files[] = {"context.safetensors", "condition.safetensors",
                                          "step.safetensors"};

/* One test's folder, run and what was said and seen in it. */
typedef struct scene {
    zoe_context *ctx;
    char folder[32], checkpoint[64], latents[64];
    zoe_job_params params;
    zoe_phase stop_phase; /* cancel when this much is done */
    size_t stop_done;
    size_t full_at; /* after this step no file can grow until the next one; 0: never */
    char seen[2000], warnings[8000];
    size_t first_latents; /* the first step that was observed */
} scene;

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void on_progress(void *user, zoe_phase phase, size_t done, size_t total)
{
    scene *s = user;
    (void)total;
    if (phase == s->stop_phase && done == s->stop_done)
        zoe_cancel(s->ctx);
    if (s->full_at > 0 && phase == ZOE_PHASE_STEPS)
        limit_files(done == s->full_at ? 100 : RLIM_INFINITY);
}

static void on_observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    scene *s = user;
    (void)value;
    if (strcmp(name, "latents") == 0 && s->first_latents == SIZE_MAX)
        s->first_latents = step;
    if (!strstr(s->seen, name)) {
        strncat(s->seen, name, sizeof s->seen - strlen(s->seen) - 2);
        strcat(s->seen, " ");
    }
}

static void on_log(void *user, zoe_level level, const char *text)
{
    scene *s = user;
    if (level == ZOE_WARNING)
        strncat(s->warnings, text, sizeof s->warnings - strlen(s->warnings) - 1);
}

static scene *new_scene(void)
{
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    strcpy(s->folder, "/tmp/zoe-checkpoint-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    snprintf(s->checkpoint, sizeof s->checkpoint, "%s/ck", s->folder);
    snprintf(s->latents, sizeof s->latents, "%s/l.safetensors", s->folder);
    s->ctx = zoe_context_new(1);
    zoe_context_set_log(s->ctx, on_log, s);
    zoe_job_params_init(&s->params);
    s->params.model = model;
    s->params.image = image;
    s->params.prompt = "A white cat sits.";
    s->params.negative_prompt = "blurry";
    s->params.width = s->params.height = 64;
    s->params.frames = 5;
    s->params.steps = 4;
    s->params.seed = 1;
    s->params.latents_out = s->latents;
    s->params.checkpoint = s->checkpoint;
    s->params.progress = on_progress;
    s->params.observe = on_observe;
    s->params.user = s;
    s->stop_phase = ZOE_PHASE_COUNT;
    return s;
}

static void end_scene(scene *s)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", s->folder);
    assert_int_equal(system(command), 0);
    zoe_context_free(s->ctx);
    free(s);
}

typedef enum depth { ONLY_NEW, ONLY_OPEN, WHOLE } depth;

/* What became of a run; seed: where to put the one used. */
static zoe_status run(scene *s, depth how_far, int64_t *seed)
{
    zoe_job *job;
    zoe_context_clear(s->ctx);
    s->seen[0] = s->warnings[0] = '\0';
    s->first_latents = SIZE_MAX;
    zoe_status status = zoe_job_new(s->ctx, &job, &s->params);
    if (status == ZOE_OK && how_far > ONLY_NEW)
        status = zoe_job_open(s->ctx, job);
    if (status == ZOE_OK && seed)
        *seed = zoe_job_plan(job)->seed;
    if (status == ZOE_OK && how_far == WHOLE)
        status = zoe_job_run(s->ctx, job);
    zoe_job_free(job);
    return status;
}

static void expect_run(scene *s, depth how_far, zoe_status wanted, const char *says)
{
    const zoe_status found = run(s, how_far, NULL);
    if (found != wanted || !strstr(zoe_context_message(s->ctx), says))
        fail_msg("%s, wanted %s: %s", zoe_status_name(found), zoe_status_name(wanted),
                 zoe_context_message(s->ctx));
}

static char *read_file(const char *path, size_t *size)
{
    zoe_context *ctx = zoe_context_new(1);
    char *text;
    if (zoe_file_read(ctx, &text, size, path, 1 << 24) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    zoe_context_free(ctx);
    return text;
}

static void write_file(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The final latent of an undisturbed run of these parameters. */
static char *undisturbed(const scene *like, size_t *size)
{
    scene *s = new_scene();
    const char *latents = s->latents;
    const zoe_job_params own = s->params;
    s->params = like->params;
    s->params.latents_out = latents;
    s->params.checkpoint = NULL;
    s->params.resume = false;
    s->params.user = own.user;
    expect_run(s, WHOLE, ZOE_OK, "");
    char *data = read_file(latents, size);
    end_scene(s);
    return data;
}

static void expect_latents(const scene *s, const char *wanted, size_t size)
{
    size_t found_size;
    char *found = read_file(s->latents, &found_size);
    assert_int_equal(found_size, size);
    assert_memory_equal(found, wanted, size);
    zoe_free(found);
}

static void expect_there(const scene *s, const char *name, bool there)
{
    char path[128];
    snprintf(path, sizeof path, "%s%s%s", s->checkpoint, *name ? "/" : "", name);
    assert_int_equal(access(path, F_OK) == 0, there);
}

/* ---- going on ---- */

static const struct {
    zoe_phase phase;
    size_t done, first; /* the first step of the run that goes on */
    const char *seen;
} stops[] = {
    {ZOE_PHASE_TEXT, 0, 0, "noise context context_null y latents v_cond v_uncond latent_final "},
    {ZOE_PHASE_TEXT, 1, 0, "noise context context_null y latents v_cond v_uncond latent_final "},
    {ZOE_PHASE_ENCODE, 0, 0, "noise context context_null y latents v_cond v_uncond latent_final "},
    {ZOE_PHASE_ENCODE, 1, 0, "noise context context_null y latents v_cond v_uncond latent_final "},
    {ZOE_PHASE_STEPS, 0, 0, "noise context context_null y latents v_cond v_uncond latent_final "},
    {ZOE_PHASE_STEPS, 1, 1, "noise context context_null y latents v_cond v_uncond latent_final "},
    {ZOE_PHASE_STEPS, 2, 2, "noise context context_null y latents v_cond v_uncond latent_final "},
    {ZOE_PHASE_STEPS, 3, 3, "noise context context_null y latents v_cond v_uncond latent_final "},
};

static void stop_and_go_on(zoe_solver_kind solver, size_t i, const char *wanted, size_t size)
{
    scene *s = new_scene();
    s->params.solver = solver;
    s->stop_phase = stops[i].phase;
    s->stop_done = stops[i].done;
    expect_run(s, WHOLE, ZOE_CANCELLED, "");
    assert_int_not_equal(access(s->latents, F_OK), 0);
    s->stop_phase = ZOE_PHASE_COUNT;
    s->params.resume = true;
    expect_run(s, WHOLE, ZOE_OK, "");
    assert_int_equal(s->first_latents, stops[i].first);
    assert_string_equal(s->seen, stops[i].seen);
    assert_string_equal(s->warnings, "");
    expect_latents(s, wanted, size);
    end_scene(s);
}

static void test_every_stop(void **state)
{
    enum { STOPS = sizeof stops / sizeof stops[0], FEW = 2 };
    (void)state;
    for (zoe_solver_kind solver = ZOE_SOLVER_UNIPC; solver <= ZOE_SOLVER_EULER; solver++) {
        scene *s = new_scene();
        size_t size;
        s->params.solver = solver;
        char *wanted = undisturbed(s, &size);
        for (size_t i = solver == ZOE_SOLVER_UNIPC ? 0 : STOPS - FEW; i < STOPS; i++)
            stop_and_go_on(solver, i, wanted, size);
        zoe_free(wanted);
        end_scene(s);
    }
}

/* A run of many pieces, one step each; then the finished one again: nothing is worked out anew. */
static void test_step_by_step(void **state)
{
    scene *s = new_scene();
    size_t size;
    (void)state;
    char *wanted = undisturbed(s, &size);
    s->stop_phase = ZOE_PHASE_STEPS;
    for (s->stop_done = 1; s->stop_done <= 3; s->stop_done++) {
        expect_run(s, WHOLE, ZOE_CANCELLED, "");
        s->params.resume = true;
    }
    s->stop_phase = ZOE_PHASE_COUNT;
    expect_run(s, WHOLE, ZOE_OK, "");
    assert_int_equal(s->first_latents, 3);
    expect_latents(s, wanted, size);
    unlink(s->latents);
    expect_run(s, WHOLE, ZOE_OK, "");
    assert_string_equal(s->seen, "noise context context_null y latent_final ");
    expect_latents(s, wanted, size);
    zoe_free(wanted);
    end_scene(s);
}

/* A supervisor uses the same command line from the first start on. */
static void test_nothing_there(void **state)
{
    scene *s = new_scene();
    (void)state;
    s->params.resume = true;
    expect_run(s, WHOLE, ZOE_OK, "");
    assert_non_null(strstr(s->warnings, "begins anew"));
    expect_there(s, "step.safetensors", true);
    expect_run(s, WHOLE, ZOE_OK, "");
    assert_string_equal(s->warnings, "");
    s->params.checkpoint = NULL;
    expect_run(s, ONLY_NEW, ZOE_INVALID, "which checkpoint folder");
    s->params.checkpoint = "";
    expect_run(s, ONLY_NEW, ZOE_INVALID, "empty");
    end_scene(s);
}

static void test_random_seed_is_kept(void **state)
{
    scene *s = new_scene();
    int64_t first, second;
    (void)state;
    s->params.seed = -1;
    s->stop_phase = ZOE_PHASE_STEPS;
    s->stop_done = 2;
    assert_int_equal(run(s, WHOLE, &first), ZOE_CANCELLED);
    s->params.resume = true;
    s->stop_phase = ZOE_PHASE_COUNT;
    assert_int_equal(run(s, WHOLE, &second), ZOE_OK);
    assert_true(first == second);
    end_scene(s);
}

/* A job that never ran, or could not be opened, leaves nothing; one that holds only a request does
 * not stand in the way. */
static void test_no_traces(void **state)
{
    scene *s = new_scene();
    (void)state;
    expect_run(s, ONLY_NEW, ZOE_OK, "");
    expect_there(s, "", false);
    expect_run(s, ONLY_OPEN, ZOE_OK, "");
    expect_there(s, "", false);
    s->params.image = "/nowhere.png";
    expect_run(s, ONLY_OPEN, ZOE_MISSING, "nowhere");
    expect_there(s, "", false);
    s->params.image = image;
    s->params.latents_out = "/nowhere/l.safetensors";
    expect_run(s, ONLY_NEW, ZOE_IO, "nowhere");
    expect_there(s, "", false);
    s->params.latents_out = s->latents;
    assert_int_equal(mkdir(s->checkpoint, 0777), 0);
    expect_run(s, ONLY_OPEN, ZOE_OK, "");
    expect_there(s, "request.json", false);
    s->stop_phase = ZOE_PHASE_TEXT;
    expect_run(s, WHOLE, ZOE_CANCELLED, "");
    expect_there(s, "request.json", true);
    s->params.steps = 2;
    s->stop_phase = ZOE_PHASE_COUNT;
    expect_run(s, WHOLE, ZOE_OK, "");
    end_scene(s);
}

/* ---- refusals ---- */

/* A finished run to go on from. */
static scene *finished(void)
{
    scene *s = new_scene();
    expect_run(s, WHOLE, ZOE_OK, "");
    return s;
}

static void test_another_request(void **state)
{
    scene *s = finished();
    const zoe_job_params same = s->params;
    (void)state;
    expect_run(s, ONLY_NEW, ZOE_INVALID, "holds a checkpoint; --resume ");
    s->params.resume = true;
    expect_run(s, ONLY_OPEN, ZOE_OK, "");

#define REFUSED(member, value, says)                                                               \
    do {                                                                                           \
        s->params = same;                                                                          \
        s->params.resume = true;                                                                   \
        s->params.member = (value);                                                                \
        expect_run(s, ONLY_NEW, ZOE_INVALID, says);                                                \
    } while (0)
    REFUSED(prompt, "A black cat sits.",
            "prompt: \"A white cat sits.\" in the checkpoint, \"A black");
    REFUSED(negative_prompt, NULL, "negative prompt: \"blurry\" in the checkpoint");
    REFUSED(keep_orientation, true, "EXIF orientation of the picture: followed in the checkpoint");
    REFUSED(width, 80, "size: 64x64 in the checkpoint, 80x64 asked for");
    REFUSED(frames, 9, "frames: 5 in the checkpoint, 9 asked for");
    REFUSED(steps, 5, "steps: 4 in the checkpoint, 5 asked for");
    REFUSED(solver, ZOE_SOLVER_EULER, "solver: UniPC in the checkpoint, Euler asked for");
    REFUSED(shift, 3.0, "shift: 5 in the checkpoint, 3 asked for");
    REFUSED(guide_low, 1.0, "guidance scale of the low-noise expert: 3.5 in the checkpoint");
    REFUSED(guide_high, 1.0, "guidance scale of the high-noise expert: 3.5 in the checkpoint");
    REFUSED(boundary, 0.5, "boundary: 0.9 in the checkpoint, 0.5 asked for");
    REFUSED(seed, 2, "seed: 1 in the checkpoint, 2 asked for");
    REFUSED(bf16, true, "type: f32 in the checkpoint, bf16 asked for");

#define ACCEPTED(member, value)                                                                    \
    do {                                                                                           \
        s->params = same;                                                                          \
        s->params.resume = true;                                                                   \
        s->params.member = (value);                                                                \
        expect_run(s, ONLY_OPEN, ZOE_OK, "");                                                      \
    } while (0)
    ACCEPTED(seed, -1);
    ACCEPTED(fps_num, 30);
    ACCEPTED(no_metadata, true);
    ACCEPTED(memory, (size_t)1 << 40);
    end_scene(s);
}

static void run_shell(const char *format, const char *a, const char *b)
{
    char command[512];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

/* Equal content under other names is accepted, other content under the same name is not. */
static void test_another_picture(void **state)
{
    scene *s = finished();
    char path[64];
    (void)state;
    snprintf(path, sizeof path, "%s/copy.png", s->folder);
    run_shell("cp %s %s", image, path);
    s->params.resume = true;
    s->params.image = path;
    expect_run(s, ONLY_OPEN, ZOE_OK, "");
    run_shell("printf x >>%s%s", path, "");
    expect_run(s, ONLY_OPEN, ZOE_INVALID, "the picture is another one (SHA-256 ");
    end_scene(s);
}

static void test_another_model(void **state)
{
    static const char *const names[] = {"low-noise transformer", "high-noise transformer"};
    static const char *const folders[] = {"low_noise_model", "high_noise_model"};
    scene *s = finished();
    char copy[64], weights[128];
    (void)state;
    snprintf(copy, sizeof copy, "%s/model", s->folder);
    run_shell("cp -r %s %s", model, copy);
    s->params.resume = true;
    s->params.model = copy;
    expect_run(s, ONLY_OPEN, ZOE_OK, "");
    for (size_t i = 0; i < 2; i++) {
        snprintf(weights, sizeof weights, "%s/model/%s", s->folder, folders[i]);
        /* The last byte of a safetensors file is one of a weight. */
        run_shell("for f in %s/*.safetensors; do cp $f $f.old; printf '\\001' | dd of=$f bs=1 "
                  "conv=notrunc status=none seek=$(($(wc -c <$f) - 1)); done%s",
                  weights, "");
        expect_run(s, ONLY_OPEN, ZOE_INVALID, names[i]);
        assert_non_null(strstr(zoe_context_message(s->ctx), "has other weights"));
        run_shell("for f in %s/*.safetensors; do mv $f.old $f; done%s", weights, "");
    }
    expect_run(s, ONLY_OPEN, ZOE_OK, "");
    end_scene(s);
}

static void test_two_at_once(void **state)
{
    scene *s = new_scene(), *other = new_scene();
    zoe_job *job;
    (void)state;
    assert_int_equal(zoe_job_new(s->ctx, &job, &s->params), ZOE_OK);
    other->params.checkpoint = s->checkpoint;
    expect_run(other, ONLY_NEW, ZOE_IO, "another run is at work");
    expect_there(s, "lock", true);
    zoe_job_free(job);
    expect_run(other, ONLY_OPEN, ZOE_OK, "");
    end_scene(other);
    end_scene(s);
}

static void test_instruction_set(void **state)
{
    (void)state;
    if (zoe_cpu_isa() == ZOE_ISA_C)
        skip();
    scene *s = finished();
    char wanted[80];
    snprintf(wanted, sizeof wanted, "instruction set %s, this run uses c",
             zoe_isa_name(zoe_cpu_isa()));
    const char *set = getenv("ZOE_CPU");
    char *kept = set ? strdup(set) : NULL;
    s->params.resume = true;
    setenv("ZOE_CPU", "c", 1);
    expect_run(s, ONLY_OPEN, ZOE_INVALID, wanted);
    if (kept)
        setenv("ZOE_CPU", kept, 1);
    else
        unsetenv("ZOE_CPU");
    free(kept);
    end_scene(s);
}

static void test_another_version(void **state)
{
    scene *s = finished();
    char path[128];
    size_t size;
    (void)state;
    snprintf(path, sizeof path, "%s/request.json", s->checkpoint);
    char *text = read_file(path, &size), *at = strstr(text, "\"version\": \"");
    assert_non_null(at);
    at[strlen("\"version\": \"")] = '9';
    write_file(path, text, size);
    s->params.resume = true;
    expect_run(s, ONLY_OPEN, ZOE_OK, "");
    assert_non_null(strstr(s->warnings, "begun by zoetrope 9"));
    zoe_free(text);
    end_scene(s);
}

/* ---- damage ---- */

/* Cut short or with a bit flipped, a file is refused when the job is opened, or says the same. */
static void damage(scene *s, const char *name, const char *wanted, size_t wanted_size)
{
    enum { CUTS = 5, FLIPS = 24 };
    char path[128];
    size_t size, refused = 0;
    snprintf(path, sizeof path, "%s/%s", s->checkpoint, name);
    char *data = read_file(path, &size);
    for (size_t i = 0; i < CUTS; i++) {
        write_file(path, data, size * i / CUTS);
        expect_run(s, ONLY_OPEN, ZOE_FORMAT, "");
        assert_non_null(strstr(zoe_context_message(s->ctx), name));
    }
    for (size_t i = 0; i < FLIPS; i++) {
        /* Half of them where the headers are. */
        const size_t at = i % 2 ? size * i / FLIPS : (i * 7919) % (size < 900 ? size : 900);
        data[at] = (char)(data[at] ^ (1 << i % 8));
        write_file(path, data, size);
        data[at] = (char)(data[at] ^ (1 << i % 8));
        if (run(s, ONLY_OPEN, NULL) != ZOE_OK) {
            refused++;
            continue;
        }
        expect_run(s, WHOLE, ZOE_OK, "");
        expect_latents(s, wanted, wanted_size);
    }
    assert_true(refused > FLIPS / 2);
    write_file(path, data, size);
    zoe_free(data);
}

static void test_damage(void **state)
{
    scene *s = finished();
    size_t size;
    (void)state;
    char *wanted = undisturbed(s, &size);
    s->params.resume = true;
    for (size_t i = 0; i < 3; i++)
        damage(s, stage_files[i], wanted, size);
    zoe_free(wanted);
    end_scene(s);
}

/* What the message advises helps. */
static void test_advice(void **state)
{
    scene *s = finished();
    char path[128];
    size_t size;
    (void)state;
    char *wanted = undisturbed(s, &size);
    s->params.resume = true;
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", s->checkpoint, stage_files[i]);
        write_file(path, "x", 1);
        expect_run(s, ONLY_OPEN, ZOE_FORMAT, "the checkpoint is broken; if you remove ");
        unlink(path);
        expect_run(s, WHOLE, ZOE_OK, "");
        expect_latents(s, wanted, size);
    }
    snprintf(path, sizeof path, "%s/request.json", s->checkpoint);
    write_file(path, "{}", 2);
    expect_run(s, ONLY_NEW, ZOE_FORMAT, "request.json: is no record of zoetrope");
    unlink(path);
    expect_run(s, ONLY_NEW, ZOE_FORMAT, "request.json, which says what the run was, is not there");
    zoe_free(wanted);
    end_scene(s);
}

/* A file of another run of the same shapes, or under a wrong name. */
static void test_mixed_up(void **state)
{
    scene *s = finished(), *other = new_scene();
    char from[128], to[128];
    (void)state;
    other->params.seed = 2;
    expect_run(other, WHOLE, ZOE_OK, "");
    s->params.resume = true;
    snprintf(from, sizeof from, "%s/step.safetensors", other->checkpoint);
    snprintf(to, sizeof to, "%s/step.safetensors", s->checkpoint);
    run_shell("cp %s %s", from, to);
    expect_run(s, ONLY_OPEN, ZOE_FORMAT, "belongs to another run");
    snprintf(from, sizeof from, "%s/context.safetensors", s->checkpoint);
    run_shell("cp %s %s", from, to);
    expect_run(s, ONLY_OPEN, ZOE_FORMAT, "does not hold what its name says");
    run_shell("cp %s %s", s->latents, to);
    expect_run(s, ONLY_OPEN, ZOE_FORMAT, "has no metadata");
    end_scene(other);
    end_scene(s);
}

/* ---- disks and leftovers ---- */

/* After 30 hours a full disk must not end the run; the last state written stays good. */
static void test_full_disk(void **state)
{
    scene *s = new_scene();
    size_t size;
    (void)state;
    char *wanted = undisturbed(s, &size);
    signal(SIGXFSZ, SIG_IGN);
    s->full_at = 1; /* step 2 cannot be written */
    s->stop_phase = ZOE_PHASE_STEPS;
    s->stop_done = 2;
    expect_run(s, WHOLE, ZOE_CANCELLED, "");
    limit_files(RLIM_INFINITY);
    assert_non_null(strstr(s->warnings, "stays as it was; the run goes on"));
    s->full_at = 0;
    s->stop_phase = ZOE_PHASE_COUNT;
    s->params.resume = true;
    expect_run(s, WHOLE, ZOE_OK, "");
    assert_int_equal(s->first_latents, 1);
    expect_latents(s, wanted, size);
    zoe_free(wanted);
    end_scene(s);
}

/* Whichever allocation fails, the run ends with ZOE_NOMEM, and goes on to the same bytes. */
static void test_no_memory(void **state)
{
    scene *s = new_scene();
    size_t size;
    (void)state;
    char *wanted = undisturbed(s, &size);
    zoe_status status = ZOE_NOMEM;
    for (size_t n = 1; status != ZOE_OK; n += 1 + n / 4) {
        s->params.resume = false;
        zoe_alloc_fail_at(n);
        status = run(s, WHOLE, NULL);
        zoe_alloc_fail_at(0);
        if (status != ZOE_OK && (status != ZOE_NOMEM || !*zoe_context_message(s->ctx)))
            fail_msg("allocation %zu: %s, %s", n, zoe_status_name(status),
                     zoe_context_message(s->ctx));
        s->params.resume = true;
        zoe_alloc_fail_at(n);
        const zoe_status again = run(s, WHOLE, NULL);
        zoe_alloc_fail_at(0);
        assert_true(again == ZOE_OK || again == ZOE_NOMEM);
        expect_run(s, WHOLE, ZOE_OK, "");
        expect_latents(s, wanted, size);
        run_shell("rm -r %s%s", s->checkpoint, "");
    }
    zoe_free(wanted);
    end_scene(s);
}

/* Parts of a killed run go, and nothing else does. */
static void test_leftovers(void **state)
{
    static const char *const gone[] = {"ck/step.safetensors.abcdefgh.part",
                                       "ck/request.json.00000000.part"};
    static const char *const kept[] = {"ck/step.safetensors.abcdefg6.part", "ck/x.abcdefgh.part",
                                       "ck/step.safetensors.part", "l.safetensors.abcdefgh.part",
                                       "l.safetensors"};
    scene *s = finished();
    char path[128], *at;
    size_t size;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", s->folder, gone[i]);
        write_file(path, "x", 1);
    }
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", s->folder, kept[i]);
        write_file(path, "x", 1);
    }
    snprintf(path, sizeof path, "%s/request.json", s->checkpoint);
    char *text = read_file(path, &size);
    at = strstr(text, "\"letters\": \"");
    assert_non_null(at);
    at[strlen("\"letters\": \"12345678")] = '\0';
    snprintf(path, sizeof path, "%s.%s.part", s->latents, at + strlen("\"letters\": \""));
    write_file(path, "x", 1);
    s->params.resume = true;
    expect_run(s, ONLY_OPEN, ZOE_OK, "");
    assert_int_not_equal(access(path, F_OK), 0);
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", s->folder, gone[i]);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    for (size_t i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/%s", s->folder, kept[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
    zoe_free(text);
    end_scene(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_stop),      cmocka_unit_test(test_step_by_step),
        cmocka_unit_test(test_nothing_there),   cmocka_unit_test(test_random_seed_is_kept),
        cmocka_unit_test(test_no_traces),       cmocka_unit_test(test_another_request),
        cmocka_unit_test(test_another_picture), cmocka_unit_test(test_another_model),
        cmocka_unit_test(test_two_at_once),     cmocka_unit_test(test_instruction_set),
        cmocka_unit_test(test_another_version), cmocka_unit_test(test_damage),
        cmocka_unit_test(test_advice),          cmocka_unit_test(test_mixed_up),
        cmocka_unit_test(test_full_disk),       cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
