/* Every kind of Wan model through a job: against the official code, with the defaults of the official
 * configurations, to the same bytes however it is run; and what does not fit together is refused.
 *
 * The checkpoints are made by job_family_case.h. families/latents.safetensors has what the
 * official code (Wan2.2 for t2v-A14B and ti2v-5B, Wan2.1 for the others, with a token count of CLIP and
 * text that suits) makes of the same checkpoints, in f32 on the CPU. */
#define _GNU_SOURCE
#include "job_family_case.h"

/* ---- runs ---- */

static void on_observe(void *user, const char *name, size_t step, zoe_tensor value)
{
    scene *s = user;
    (void)step;
    if (strcmp(name, "y") != 0)
        return;
    free(s->seen);
    s->seen_count = zoe_tensor_count(value);
    s->seen = malloc(s->seen_count * sizeof *s->seen);
    assert_non_null(s->seen);
    memcpy(s->seen, value.data, s->seen_count * sizeof *s->seen);
}

static void on_progress(void *user, zoe_phase phase, size_t done, size_t total)
{
    scene *s = user;
    (void)total;
    if (s->stop_at > 0 && phase == ZOE_PHASE_STEPS && done == s->stop_at)
        zoe_cancel(s->ctx);
}

typedef struct family_row {
    const char *task;
    size_t width, height, frames, steps;
} family_row;

/* As the references were made. */
static const family_row family_rows[] = {{"t2v-A14B", 96, 64, 9, 7},
                                         {"t2v-1.3B", 96, 64, 9, 7},
                                         {"ti2v-5B", 96, 64, 9, 7},
                                         {"i2v-14B", 64, 64, 9, 5},
                                         {"flf2v-14B", 64, 64, 81, 3}};
enum { FAMILIES = sizeof family_rows / sizeof *family_rows };

static void name_model(const scene *s, zoe_job_params *p, const char *task)
{
    const bool both = strcmp(task, "flf2v-14B") == 0, one = strcmp(task, "i2v-14B") == 0;
    zoe_job_params_init(p);
    p->model = strcmp(task, "t2v-A14B") == 0   ? s->t2v_two
               : strcmp(task, "t2v-1.3B") == 0 ? s->t2v_one
               : one                           ? s->i2v
               : both                          ? s->flf
                                               : NULL;
    p->image = both || one ? s->first : NULL;
    p->last_image = both ? s->last : NULL;
    if (p->model)
        return;
    p->transformer = DATA "e2e_ti2v/ckpt";
    p->vae = DATA "e2e_ti2v/ckpt_safetensors/vae.safetensors";
    p->text_encoder = DATA "e2e_i2v/ckpt/models_t5_umt5-xxl-enc-bf16.pth";
    p->tokenizer = DATA "e2e_i2v/ckpt/google/umt5-xxl";
}

/* Defaults of the model, but for what the row says. */
static zoe_job_params request(scene *s, const family_row *row)
{
    zoe_job_params p;
    zoe_job_model model;
    name_model(s, &p, row->task);
    p.width = row->width;
    p.height = row->height;
    must(s, zoe_job_params_suit(s->ctx, &p, true, &model));
    assert_string_equal(model.task, row->task);
    p.prompt = "A white cat sits on the beach, the camera pans left.";
    p.frames = row->frames;
    p.steps = row->steps;
    p.seed = 5;
    p.latents_out = s->out;
    p.observe = on_observe;
    p.progress = on_progress;
    p.user = s;
    return p;
}

static zoe_status run(zoe_context *ctx, const zoe_job_params *p, bool whole, zoe_plan *plan)
{
    zoe_job *job;
    zoe_context_clear(ctx);
    zoe_status status = zoe_job_new(ctx, &job, p);
    if (status == ZOE_OK)
        status = zoe_job_open(ctx, job);
    if (status == ZOE_OK && plan)
        *plan = *zoe_job_plan(job);
    if (status == ZOE_OK && whole)
        status = zoe_job_run(ctx, job);
    zoe_job_free(job);
    return status;
}

typedef struct latents {
    float *values;
    size_t n;
} latents;

static latents load(const scene *s, const char *path, const char *name)
{
    zoe_store *store;
    zoe_tensor t;
    latents l;
    must(s, zoe_store_open(s->ctx, &store, path, ZOE_NAMES_AS_STORED));
    assert_true(zoe_store_find(store, name, &t));
    l.n = zoe_tensor_count(t);
    l.values = malloc(l.n * sizeof *l.values);
    assert_non_null(l.values);
    memcpy(l.values, t.data, l.n * sizeof *l.values);
    zoe_store_close(store);
    return l;
}

static latents run_to_latents(scene *s, const zoe_job_params *p)
{
    must(s, run(s->ctx, p, true, NULL));
    return load(s, s->out, "latents");
}

static void the_official_code(void **state)
{
    scene *s = *state;
    for (size_t i = 0; i < FAMILIES; i++) {
        const zoe_job_params p = request(s, &family_rows[i]);
        const latents got = run_to_latents(s, &p);
        const latents want = load(s, DATA "families/latents.safetensors", family_rows[i].task);
        double error = 0.0, norm = 0.0;
        assert_int_equal(got.n, want.n);
        for (size_t k = 0; k < got.n; k++) {
            const double d = (double)got.values[k] - (double)want.values[k];
            error += d * d;
            norm += (double)want.values[k] * (double)want.values[k];
        }
        print_message("%s: rel L2 %.2e\n", family_rows[i].task, sqrt(error / norm));
        assert_true(sqrt(error / norm) < 1e-5);
        free(got.values);
        free(want.values);
    }
}

static void check_same(const latents *a, const latents *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->values, b->values, a->n * sizeof *a->values);
}

static void remove_state(const scene *s)
{
    static const char *const files[] = {"request.json", "context.safetensors",
                                        "condition.safetensors", "step.safetensors", "lock"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", s->state, files[i]);
        unlink(path);
    }
    rmdir(s->state);
}

static void same_bytes(void **state)
{
    scene *s = *state;
    for (size_t i = 0; i < FAMILIES; i++) {
        zoe_job_params p = request(s, &family_rows[i]);
        p.frames = 5;
        const latents whole = run_to_latents(s, &p);
        zoe_context *many = zoe_context_new(3), *own = s->ctx;
        assert_non_null(many);
        s->ctx = many;
        const latents threads = run_to_latents(s, &p);
        s->ctx = own;
        zoe_context_free(many);
        check_same(&whole, &threads);
        free(threads.values);

        p.checkpoint = s->state;
        s->stop_at = 2;
        assert_int_equal(run(s->ctx, &p, true, NULL), ZOE_CANCELLED);
        s->stop_at = 0;
        zoe_plan plan;
        p.resume = true;
        must(s, run(s->ctx, &p, false, &plan));
        assert_int_equal(plan.steps_done, 2);
        assert_int_equal(plan.bytes[ZOE_PHASE_ENCODE], 0);
        const latents resumed = run_to_latents(s, &p);
        check_same(&whole, &resumed);
        free(resumed.values);
        free(whole.values);
        remove_state(s);
    }
}

/* What the record of a broken-off run says is what was asked for. */
static void records(void **state)
{
    scene *s = *state;
    for (size_t i = 0; i < FAMILIES; i++) {
        zoe_job_params p = request(s, &family_rows[i]);
        zoe_record *record;
        p.frames = 5;
        p.checkpoint = s->state;
        s->stop_at = 1;
        assert_int_equal(run(s->ctx, &p, true, NULL), ZOE_CANCELLED);
        s->stop_at = 0;
        must(s, zoe_record_read(s->ctx, &record, s->state));
        const zoe_job_params *r = zoe_record_params(record);
        const char *json = zoe_record_json(record);
        assert_true(r->shift == p.shift && r->guide_high == p.guide_high);
        assert_int_equal(r->image != NULL, p.image != NULL);
        if (p.transformer)
            assert_string_equal(r->transformer, p.transformer);
        if (p.last_image)
            assert_string_equal(r->last_image, p.last_image);
        assert_int_equal(strlen(zoe_record_last_image_digest(record)), p.last_image ? 64 : 0);
        assert_int_equal(strstr(json, "\"high_noise\":") != NULL,
                         strcmp(family_rows[i].task, "t2v-A14B") == 0);
        assert_int_equal(strstr(json, "\"clip\":") != NULL, p.image != NULL);
        zoe_record_free(record);
        /* Another last picture, or other sides of the same area, make another run. */
        p.resume = true;
        if (p.last_image)
            p.last_image = s->first;
        else if (!p.image) {
            p.width = family_rows[i].height;
            p.height = family_rows[i].width;
        }
        if (p.last_image || !p.image) {
            assert_int_equal(run(s->ctx, &p, false, NULL), ZOE_INVALID);
            assert_non_null(strstr(zoe_context_message(s->ctx),
                                   p.last_image ? "the last picture is another one" : "size: "));
        }
        remove_state(s);
    }
}

/* ---- plans and defaults ---- */

static void plans(void **state)
{
    scene *s = *state;
    for (size_t i = 0; i < FAMILIES; i++) {
        const family_row *row = &family_rows[i];
        zoe_job_params p = request(s, row);
        zoe_plan plan;
        must(s, run(s->ctx, &p, false, &plan));
        const size_t stride = strcmp(row->task, "ti2v-5B") == 0 ? 16 : 8;
        assert_string_equal(plan.model.task, row->task);
        assert_int_equal(plan.latent_width, plan.width / stride);
        assert_int_equal(plan.latent_height, plan.height / stride);
        assert_int_equal(plan.tokens,
                         plan.latent_frames * plan.latent_width * plan.latent_height / 4);
        assert_int_equal(plan.high_steps + plan.low_steps, row->steps);
        assert_int_equal(plan.low_steps > 0, plan.model.transformers == 2);
        assert_int_equal(plan.passes, 2 * row->steps);
        assert_int_equal(plan.bytes[ZOE_PHASE_ENCODE] > 0, p.image != NULL);
        if (!p.image) {
            assert_int_equal(plan.width, row->width);
            assert_int_equal(plan.height, row->height);
        }
        p.memory = plan.peak;
        must(s, run(s->ctx, &p, false, NULL));
        p.memory = plan.peak - 1;
        assert_int_equal(run(s->ctx, &p, false, NULL), ZOE_NOMEM);
    }
}

/* A size that is suggested can be asked for, and fits. */
static void what_is_suggested_fits(void **state)
{
    scene *s = *state;
    for (size_t i = 0; i < FAMILIES; i++) {
        zoe_job_params p = request(s, &family_rows[i]);
        zoe_plan plan;
        p.width = 320;
        p.height = 192;
        p.frames = 241;
        must(s, run(s->ctx, &p, false, &plan));
        p.memory = plan.peak - (plan.peak - ((size_t)64 << 20)) / 3;
        assert_int_equal(run(s->ctx, &p, false, NULL), ZOE_NOMEM);
        const char *at = strstr(zoe_context_message(s->ctx), "size ");
        while (at && sscanf(at, "size %zux%zu", &p.width, &p.height) != 2)
            at = strstr(at + 1, "size ");
        assert_non_null(at);
        must(s, run(s->ctx, &p, false, &plan));
        assert_true(plan.peak <= p.memory);
    }
}

typedef struct defaults_row {
    const char *task;
    size_t width, height, frames, steps;
    double shift, low, high, boundary;
    int fps;
} defaults_row;

static void check_defaults(const zoe_job_params *p, const defaults_row *row)
{
    assert_int_equal(p->width, row->width);
    assert_int_equal(p->height, row->height);
    assert_int_equal(p->frames, row->frames);
    assert_int_equal(p->steps, row->steps);
    assert_true(p->shift == row->shift);
    assert_true(p->guide_low == row->low && p->guide_high == row->high);
    assert_true(p->boundary == row->boundary);
    assert_int_equal(p->fps_num, row->fps);
    assert_int_equal(p->fps_den, 1);
}

static void defaults(void **state)
{
    static const defaults_row rows[] = {
        {"t2v-A14B", 1280, 720, 81, 40, 12, 3, 4, 0.875, 16},
        {"ti2v-5B", 1280, 704, 121, 50, 5, 5, 5, 0, 24},
        {"t2v-1.3B", 832, 480, 81, 50, 5, 5, 5, 0, 16},
        {"i2v-14B", 1280, 720, 81, 40, 5, 5, 5, 0, 16},
        {"flf2v-14B", 1280, 720, 81, 50, 16, 5, 5, 0, 16},
    };
    scene *s = *state;
    zoe_job_params p, init;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zoe_job_model model;
        name_model(s, &p, rows[i].task);
        must(s, zoe_job_params_suit(s->ctx, &p, false, &model));
        assert_string_equal(model.task, rows[i].task);
        check_defaults(&p, &rows[i]);
    }
    /* Those of init are A14B's. */
    zoe_job_params_init(&p);
    init = p;
    p.model = DATA "e2e_i2v/ckpt";
    p.steps = 3;
    p.shift = 9.0;
    must(s, zoe_job_params_suit(s->ctx, &p, false, NULL));
    init.model = p.model;
    assert_memory_equal(&p, &init, sizeof p);
    /* Wan 2.1 I2V has a shift of its own at 832x480, whichever side is which. */
    name_model(s, &p, "i2v-14B");
    p.width = 480;
    p.height = 832;
    must(s, zoe_job_params_suit(s->ctx, &p, true, NULL));
    assert_true(p.shift == 3.0 && p.width == 480);
    /* What fails changes nothing. */
    zoe_job_params_init(&p);
    p.model = "/nothing/there";
    init = p;
    assert_int_equal(zoe_job_params_suit(s->ctx, &p, false, NULL), ZOE_MISSING);
    assert_memory_equal(&p, &init, sizeof p);
    p.model = NULL;
    assert_int_equal(zoe_job_params_suit(s->ctx, &p, false, NULL), ZOE_INVALID);
    zoe_context_clear(s->ctx);
}

static void told_by_shapes(void **state)
{
    static const struct {
        size_t dim, in, out, image, positions, transformers;
        const char *task; /* NULL: none */
    } rows[] = {
        {5120, 36, 16, 0, 0, 2, "i2v-A14B"},
        {5120, 16, 16, 0, 0, 2, "t2v-A14B"},
        {3072, 48, 48, 0, 0, 1, "ti2v-5B"},
        {1536, 16, 16, 0, 0, 1, "t2v-1.3B"},
        {5120, 16, 16, 0, 0, 1, "t2v-14B"},
        {5120, 36, 16, 1280, 0, 1, "i2v-14B"},
        {5120, 36, 16, 1280, 514, 1, "flf2v-14B"},
        {5120, 36, 16, 0, 0, 1, NULL},
        {3072, 48, 48, 0, 0, 2, NULL},
        {5120, 36, 16, 1280, 0, 2, NULL},
        {5120, 32, 16, 0, 0, 1, NULL},
        {5120, 16, 16, 1280, 0, 1, NULL},
    };
    scene *s = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const zoe_wan_dims dims = {.dim = rows[i].dim,
                                   .in_dim = rows[i].in,
                                   .out_dim = rows[i].out,
                                   .image_dim = rows[i].image,
                                   .image_positions = rows[i].positions};
        const zoe_family *family;
        zoe_context_clear(s->ctx);
        const zoe_status status =
            zoe_family_find(s->ctx, &family, &dims, rows[i].transformers, "x");
        assert_int_equal(status, rows[i].task ? ZOE_OK : ZOE_UNSUPPORTED);
        if (rows[i].task)
            assert_string_equal(family->model.task, rows[i].task);
    }
    zoe_context_clear(s->ctx);
}

/* ---- the condition ---- */

/* Every frame of the video has its mask in one channel: y of Wan 2.2 with a last picture is that of
 * FLF2V. */
static void last_image(void **state)
{
    scene *s = *state;
    const family_row row = {"flf2v-14B", 64, 64, 9, 2};
    zoe_job_params p = request(s, &row);
    zoe_plan plan;
    must(s, run(s->ctx, &p, true, &plan));
    const size_t plane = plan.latent_width * plan.latent_height, f = plan.latent_frames;
    const size_t count = s->seen_count;
    float *first = s->seen;
    s->seen = NULL;
    for (size_t c = 0; c < 4; c++)
        for (size_t t = 0; t < f; t++)
            for (size_t i = 0; i < plane; i++) {
                const bool known = t == 0 || (t == f - 1 && c == 3);
                assert_true(first[(c * f + t) * plane + i] == (known ? 1.0f : 0.0f));
            }
    zoe_job_params q;
    zoe_job_params_init(&q);
    q = p;
    q.model = DATA "e2e_i2v/ckpt";
    q.guide_low = 3.0;
    must(s, run(s->ctx, &q, true, NULL));
    assert_int_equal(s->seen_count, count);
    assert_memory_equal(s->seen, first, count * sizeof *first);
    /* Without it, the last frames are another matter. */
    q.last_image = NULL;
    must(s, run(s->ctx, &q, true, NULL));
    assert_int_equal(s->seen_count, count);
    assert_memory_not_equal(s->seen + 3 * f * plane, first + 3 * f * plane,
                            f * plane * sizeof *first);
    assert_memory_not_equal(s->seen + 4 * f * plane, first + 4 * f * plane,
                            16 * f * plane * sizeof *first);
    free(first);
}

/* ---- refusals ---- */

static void refusals(void **state)
{
    scene *s = *state;
    const family_row t2v = family_rows[1], ti2v = family_rows[2], i2v = family_rows[3],
                     flf = family_rows[4];
    struct {
        zoe_job_params p;
        zoe_status status;
        const char *says;
    } rows[] = {
        {request(s, &t2v), ZOE_INVALID, "Wan 2.1 T2V-1.3B takes no such picture"},
        {request(s, &t2v), ZOE_INVALID, "wants multiples of 16: the nearest is 96x80"},
        {request(s, &ti2v), ZOE_INVALID, "wants multiples of 32: the nearest is 96x64"},
        {request(s, &t2v), ZOE_INVALID, "has one transformer, and one number is wanted"},
        {request(s, &t2v), ZOE_INVALID, "takes no CLIP image tower"},
        {request(s, &t2v), ZOE_FORMAT, "48 latent channels"},
        {request(s, &i2v), ZOE_INVALID, "no image: Wan 2.1 I2V-14B wants"},
        {request(s, &i2v), ZOE_INVALID, "last image"},
        {request(s, &flf), ZOE_INVALID, "no last image: Wan 2.1 FLF2V-14B wants"},
        {request(s, &flf), ZOE_INVALID, "at least 5 are wanted"},
        {request(s, &t2v), ZOE_UNSUPPORTED, "one of the two transformers of Wan 2.2 I2V-A14B"},
        {request(s, &t2v), ZOE_UNSUPPORTED, "which has only one; give it alone"},
        {request(s, &t2v), ZOE_INVALID, "a model has either one, or these two"},
        {request(s, &ti2v), ZOE_INVALID, "last image"},
        {request(s, &i2v), ZOE_MISSING, "no/such"},
    };
    rows[0].p.image = s->first;
    rows[1].p.height = 73;
    rows[2].p.height = 48 + 8;
    rows[3].p.guide_low = 3.0;
    rows[4].p.clip = DATA "clip/model.safetensors";
    rows[5].p.vae = DATA "e2e_ti2v/ckpt_safetensors/vae.safetensors";
    rows[6].p.image = NULL;
    rows[7].p.last_image = s->last;
    rows[8].p.last_image = NULL;
    rows[9].p.frames = 1;
    rows[10].p.transformer = HIGH;
    rows[11].p.high_noise = rows[11].p.low_noise = DATA "e2e_ti2v/ckpt";
    rows[12].p.transformer = rows[12].p.low_noise = HIGH;
    rows[13].p.last_image = s->last;
    rows[14].p.clip = "no/such";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const zoe_status status = run(s->ctx, &rows[i].p, false, NULL);
        const char *message = zoe_context_message(s->ctx);
        if (status != rows[i].status || !strstr(message, rows[i].says))
            fail_msg("row %zu: %s: %s", i, zoe_status_name(status), message);
    }
}

/* ---- memory that runs out ---- */

/* Every so many-th allocation fails once: ZOE_NOMEM with a sentence, or the job gets through. */
static void starved(void **state)
{
    scene *s = *state;
    for (size_t i = 2; i < FAMILIES; i += 2) {
        zoe_job_params p = request(s, &family_rows[i]);
        p.frames = 5;
        p.steps = 1;
        zoe_status status = ZOE_NOMEM;
        for (size_t n = 1; status != ZOE_OK; n += 1 + n / 4) {
            zoe_alloc_fail_at(n);
            status = run(s->ctx, &p, true, NULL);
            zoe_alloc_fail_at(0);
            if (status != ZOE_OK && (status != ZOE_NOMEM || !*zoe_context_message(s->ctx)))
                fail_msg("%zu: %s", n, zoe_context_message(s->ctx));
        }
    }
}

/* ---- what zoe info says of them ---- */

static void inspections(void **state)
{
    scene *s = *state;
    const struct {
        const char *path, *kind;
    } rows[] = {{s->t2v_two, "Wan 2.2 T2V-A14B"},
                {s->t2v_one, "Wan 2.1 T2V-1.3B"},
                {s->i2v, "Wan 2.1 I2V-14B"},
                {s->flf, "Wan 2.1 FLF2V-14B"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zoe_inspection *in;
        must(s, zoe_inspect(s->ctx, &in, rows[i].path));
        assert_string_equal(zoe_inspection_layout(in), "official");
        if (!strstr(zoe_inspection_model(in), rows[i].kind))
            fail_msg("%s: %s", rows[i].path, zoe_inspection_model(in));
        assert_true(zoe_inspection_sound(in));
        assert_true(zoe_inspection_supported(in));
        assert_int_equal(zoe_inspection_problems(in)->total, 0);
        assert_int_equal(zoe_inspection_parts(in), i == 1 ? 4 : 5);
        if (i > 1) {
            const zoe_part_info *clip = zoe_inspection_part(in, 4);
            assert_int_equal(clip->content, ZOE_CONTENT_CLIP);
            assert_true(clip->supported && clip->sound);
        }
        zoe_inspection_free(in);
    }
    char clip[128], aside[128];
    snprintf(clip, sizeof clip,
             "%s/models_clip_open-clip-xlm-roberta-large-vit-huge-14.safetensors", s->i2v);
    snprintf(aside, sizeof aside, "%s/aside", s->i2v);
    assert_int_equal(rename(clip, aside), 0);
    zoe_inspection *in;
    must(s, zoe_inspect(s->ctx, &in, s->i2v));
    assert_false(zoe_inspection_supported(in));
    assert_non_null(strstr(zoe_inspection_problems(in)->text[0], "CLIP image tower"));
    zoe_inspection_free(in);
    zoe_job_params p;
    name_model(s, &p, "i2v-14B");
    p.prompt = "";
    p.latents_out = s->out;
    assert_int_equal(run(s->ctx, &p, false, NULL), ZOE_MISSING);
    assert_int_equal(rename(aside, clip), 0);
    zoe_context_clear(s->ctx);
}

/* ---- the whole ---- */

static int begin(void **state)
{
    static scene scene_of_all = {.folder = "/tmp/zoe-family-XXXXXX",
                                 .first = DATA "e2e_i2v/input.png"};
    scene *s = &scene_of_all;
    s->ctx = zoe_context_new(1);
    if (!s->ctx || !mkdtemp(s->folder))
        return -1;
    const struct {
        char *path;
        const char *name;
    } paths[] = {{s->t2v_two, "t2v_two"}, {s->t2v_one, "t2v_one"}, {s->i2v, "i2v"},
                 {s->flf, "flf"},         {s->last, "last.png"},   {s->out, "out.safetensors"},
                 {s->state, "state"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        snprintf(paths[i].path, sizeof s->out, "%.31s/%.30s", s->folder, paths[i].name);
    *state = s;
    return 0;
}

static int make_all(void **state)
{
    if (begin(state) != 0)
        return -1;
    scene *s = *state;
    write_checkpoints(s);
    write_last(s);
    return 0;
}

static int end(void **state)
{
    scene *s = *state;
    char command[80];
    free(s->seen);
    zoe_context_free(s->ctx);
    snprintf(command, sizeof command, "rm -r %s", s->folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(told_by_shapes),
                                       cmocka_unit_test(defaults),
                                       cmocka_unit_test(the_official_code),
                                       cmocka_unit_test(same_bytes),
                                       cmocka_unit_test(records),
                                       cmocka_unit_test(plans),
                                       cmocka_unit_test(what_is_suggested_fits),
                                       cmocka_unit_test(last_image),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(starved),
                                       cmocka_unit_test(inspections)};
    return cmocka_run_group_tests(tests, make_all, end);
}
