/* Records of how something was made: what is written is read back as it was, and what is read is
 * not trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "job/record.h"

static const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/* A job as far as a record needs it. */
static zoe_job a_job(void)
{
    zoe_job job = {0};
    zoe_job_params_init(&job.params);
    job.params.model = "/home/somebody/models/Wan 2.2/";
    job.params.image = "/home/somebody/cat \"x\".png";
    job.params.prompt = "A cat \"jumps\"\\.\nIt lands \xe2\x80\x94 \xf0\x9f\x90\x88.";
    job.params.negative_prompt = "blurry";
    job.params.keep_orientation = true;
    job.params.width = 832;
    job.params.height = 480;
    job.params.frames = 17;
    job.params.steps = 7;
    job.params.solver = ZOE_SOLVER_DPMPP;
    job.params.shift = 1.0 / 3.0;
    job.params.guide_low = 0.1 + 0.2;
    job.params.guide_high = 1.0;
    job.params.boundary = 0.875;
    job.params.bf16 = true;
    job.params.fps_num = 24000;
    job.params.fps_den = 1001;
    job.params.out = "v.mp4";
    job.params.frames_out = "/somewhere/with\xff\xfe"
                            "bytes";
    job.params.no_metadata = true;
    job.params.memory = (size_t)1 << 40;
    job.plan.seed = INT64_MAX;
    job.plan.width = 640;
    job.plan.height = 608;
    memcpy(job.sources.image, digest, sizeof digest);
    for (size_t i = 0; i < ZOE_WEIGHTS_COUNT; i++)
        memcpy(job.sources.weights[i], digest, sizeof digest);
    return job;
}

static char *record_of(zoe_context *ctx, const zoe_job *job, const char *letters)
{
    char *text;
    assert_int_equal(zoe_record_make(ctx, &text, job, letters), ZOE_OK);
    return text;
}

static void assert_same_settings(const zoe_job_params *a, const zoe_job *job)
{
    const zoe_job_params *b = &job->params;
    assert_string_equal(a->prompt, b->prompt);
    assert_string_equal(a->negative_prompt, b->negative_prompt);
    assert_int_equal(a->keep_orientation, b->keep_orientation);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->frames, b->frames);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->solver, b->solver);
    assert_true(a->shift == b->shift);
    assert_true(a->guide_low == b->guide_low);
    assert_true(a->guide_high == b->guide_high);
    assert_true(a->boundary == b->boundary);
    assert_int_equal(a->bf16, b->bf16);
    assert_int_equal(a->fps_num, b->fps_num);
    assert_int_equal(a->fps_den, b->fps_den);
    assert_true(a->seed == job->plan.seed);
}

static void test_metadata(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    zoe_record *record;
    (void)state;
    char *text = record_of(ctx, &job, NULL);
    assert_null(strstr(text, "somebody"));
    assert_null(strstr(text, "/home"));
    assert_int_equal(zoe_record_parse(ctx, &record, text, strlen(text), "v.mp4", false), ZOE_OK);
    const zoe_job_params *p = zoe_record_params(record);
    assert_same_settings(p, &job);
    assert_string_equal(p->model, "Wan 2.2");
    assert_string_equal(p->image, "cat \"x\".png");
    assert_null(p->out);
    assert_null(p->frames_out);
    assert_string_equal(zoe_record_json(record), text);
    assert_string_equal(zoe_record_image_digest(record), digest);
    assert_string_equal(record->sources.weights[ZOE_WEIGHTS_TEXT], digest);
    zoe_record_free(record);
    zoe_free(text);
    zoe_context_free(ctx);
}

static void test_checkpoint(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    char folder[1024], path[1100];
    zoe_record *record;
    (void)state;
    assert_non_null(getcwd(folder, sizeof folder));
    snprintf(path, sizeof path, "%s/v.mp4", folder);
    char *text = record_of(ctx, &job, "abcdefgh");
    assert_int_equal(zoe_record_parse(ctx, &record, text, strlen(text), "ck", true), ZOE_OK);
    const zoe_job_params *p = zoe_record_params(record);
    assert_same_settings(p, &job);
    assert_string_equal(p->model, job.params.model);
    assert_string_equal(p->image, job.params.image);
    assert_string_equal(p->out, path);
    assert_string_equal(p->frames_out, job.params.frames_out);
    assert_null(p->latents_out);
    assert_null(p->vae);
    assert_true(p->no_metadata);
    assert_true(p->memory == job.params.memory);
    assert_string_equal(record->letters, "abcdefgh");
    zoe_record_free(record);
    zoe_free(text);
    zoe_context_free(ctx);
}

/* Names that JSON cannot hold, folders that do not say their name. */
static void test_names(void **state)
{
    static const struct {
        const char *path, *name;
    } rows[] = {
        {"a/b\xff"
         "c.png",
         "b\xef\xbf\xbd"
         "c.png"},
        {"models/demo///", "demo"},
        {"demo", "demo"},
        {"/", ""},
        {"\xe7\x8c\xab.png", "\xe7\x8c\xab.png"},
    };
    zoe_context *ctx = zoe_context_new(1);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        zoe_job job = a_job();
        zoe_record *record;
        job.params.image = rows[i].path;
        char *text = record_of(ctx, &job, NULL);
        assert_int_equal(zoe_record_parse(ctx, &record, text, strlen(text), "x", false), ZOE_OK);
        assert_string_equal(zoe_record_params(record)->image, rows[i].name);
        zoe_record_free(record);
        zoe_free(text);
    }
    zoe_context_free(ctx);
}

static void test_prompt_must_be_text(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_job job = a_job();
    char *text;
    (void)state;
    job.params.prompt = "caf\xe9";
    assert_int_equal(zoe_record_make(ctx, &text, &job, NULL), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "UTF-8"));
    assert_null(text);
    zoe_context_free(ctx);
}

/* The record of a_job with a piece replaced must give this status and say this. */
typedef struct hostile {
    const char *piece, *instead;
    zoe_status status;
    const char *says;
} hostile;

static const hostile hostiles[] = {
    {"\"format\": 1", "\"format\": 2", ZOE_UNSUPPORTED, "does not know"},
    {"\"format\": 1", "\"format\": 99999999999", ZOE_UNSUPPORTED, "does not know"},
    {"\"format\": 1", "\"format\": 0", ZOE_FORMAT, "format"},
    {"\"format\": 1", "\"format\": \"1\"", ZOE_FORMAT, "format"},
    {"\"format\": 1", "\"f\": 1", ZOE_FORMAT, "nothing for format"},
    {"\"program\": \"zoetrope\"", "\"program\": \"other\"", ZOE_FORMAT, "no record of zoetrope"},
    {"\"program\": \"zoetrope\"", "\"program\": null", ZOE_FORMAT, "no record of zoetrope"},
    {"\"program\": \"zoetrope\"", "\"program\": \"zoetrope\", \"program\": \"zoetrope\"",
     ZOE_FORMAT, "duplicate"},
    {"\"frames\": 17", "\"frames\": 16", ZOE_FORMAT, "frames: 16"},
    {"\"frames\": 17", "\"frames\": -17", ZOE_FORMAT, "-17 for frames"},
    {"\"frames\": 17", "\"frames\": 17.0", ZOE_FORMAT, "17.0 for frames"},
    {"\"frames\": 17", "\"frames\": 99999999999999999999", ZOE_FORMAT, "integer"},
    {"\"steps\": 7", "\"steps\": 0", ZOE_FORMAT, "steps: 0"},
    {"\"steps\": 7", "\"steps\": [7]", ZOE_FORMAT, "[7] for steps"},
    {"\"solver\": \"dpm++\"", "\"solver\": \"dpm+++\"", ZOE_FORMAT, "for solver"},
    {"\"dtype\": \"bf16\"", "\"dtype\": \"f8\"", ZOE_FORMAT, "for dtype"},
    {"\"boundary\": 0.875", "\"boundary\": 1e308", ZOE_FORMAT, "boundary"},
    {"\"boundary\": 0.875", "\"boundary\": 1e999", ZOE_FORMAT, "overflow"},
    {"\"boundary\": 0.875", "\"boundary\": \"0.875\"", ZOE_FORMAT, "for boundary"},
    {"\"seed\": 9223372036854775807", "\"seed\": -1", ZOE_FORMAT, "for seed"},
    {"24000", "-24000", ZOE_FORMAT, "for frame_rate"},
    {"24000", "2147483648", ZOE_FORMAT, "for frame_rate"},
    {"24000", "1, 24000", ZOE_FORMAT, "for frame_rate"},
    {"832", "832832", ZOE_FORMAT, "size"},
    {"832", "4294967296", ZOE_FORMAT, "size"},
    {"\"keep_orientation\": true", "\"keep_orientation\": 1", ZOE_FORMAT, "for keep_orientation"},
    {"\"blurry\"", "7", ZOE_FORMAT, "for negative_prompt"},
    {"\"blurry\"", "\"a\\u0000b\"", ZOE_FORMAT, "\\u0000"},
    {"\"vae\": \"01", "\"vae\": \"X1", ZOE_FORMAT, "for vae"},
    {"\"vae\": \"01", "\"vae\": \"1", ZOE_FORMAT, "for vae"},
    {"\"image_sha256\": \"", "\"image_sha256\": \"0", ZOE_FORMAT, "for image_sha256"},
    {"\"letters\": \"abcdefgh\"", "\"letters\": \"../../ab\"", ZOE_FORMAT, "for letters"},
    {"\"letters\": \"abcdefgh\"", "\"letters\": \"abc\"", ZOE_FORMAT, "for letters"},
    {"\"memory\": 1099511627776", "\"memory\": -5", ZOE_FORMAT, "for memory"},
    {"\"no_metadata\": true", "\"no_metadata\": {}", ZOE_FORMAT, "for no_metadata"},
    {"\"paths\": {", "\"paths\": 3, \"x\": {", ZOE_FORMAT, "for paths"},
    {"\"run\": {", "\"run\": \"\", \"x\": {", ZOE_FORMAT, "for run"},
    {"\"model\": \"/home/somebody/models/Wan 2.2/\"", "\"model\": \"\"", ZOE_FORMAT, "for model"},
    {"{\n        \"bytes\": \"2f", "{\n        \"bytes\": \"00", ZOE_FORMAT, "for frames_out"},
    {"{\n        \"bytes\": \"2f", "{\n        \"bytes\": \"2", ZOE_FORMAT, "for frames_out"},
    {"{\n        \"bytes\": \"2f", "{\n        \"bytes\": \"2F", ZOE_FORMAT, "for frames_out"},
    {"{\n        \"bytes\": \"2f", "{\n        \"octets\": \"2f", ZOE_FORMAT, "for frames_out"},
};

static char *replaced(const char *text, const hostile *h)
{
    const char *at = strstr(text, h->piece);
    if (!at)
        fail_msg("%s is not in %s", h->piece, text);
    const size_t before = (size_t)(at - text), size = strlen(text) + strlen(h->instead) + 1;
    char *made = malloc(size);
    assert_non_null(made);
    snprintf(made, size, "%.*s%s%s", (int)before, text, h->instead, at + strlen(h->piece));
    return made;
}

static void test_hostile(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    (void)state;
    char *text = record_of(ctx, &job, "abcdefgh");
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        const hostile *h = &hostiles[i];
        zoe_record *record = NULL;
        char *made = replaced(text, h);
        zoe_context_clear(ctx);
        const zoe_status status =
            zoe_record_parse(ctx, &record, made, strlen(made), "ck/request.json", true);
        if (status != h->status || !strstr(zoe_context_message(ctx), h->says) || record)
            fail_msg("%s: %s, %s", h->instead, zoe_status_name(status), zoe_context_message(ctx));
        if (!strstr(zoe_context_message(ctx), "ck/request.json"))
            fail_msg("no place is named: %s", zoe_context_message(ctx));
        free(made);
    }
    zoe_free(text);
    zoe_context_free(ctx);
}

/* A record in a video leads to no folder. */
static void test_hostile_names(void **state)
{
    static const hostile rows[] = {
        {"\"image\":\"cat", "\"image\":\"../../cat", ZOE_FORMAT, "without a folder"},
        {"\"model\":\"Wan", "\"model\":\"/etc/Wan", ZOE_FORMAT, "without a folder"},
        {"\"model\":\"Wan 2.2\"", "\"model\":7", ZOE_FORMAT, "without a folder"},
    };
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    (void)state;
    char *text = record_of(ctx, &job, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        zoe_record *record;
        char *made = replaced(text, &rows[i]);
        zoe_context_clear(ctx);
        assert_int_equal(zoe_record_parse(ctx, &record, made, strlen(made), "v.mp4", false),
                         rows[i].status);
        assert_non_null(strstr(zoe_context_message(ctx), rows[i].says));
        free(made);
    }
    zoe_free(text);
    zoe_context_free(ctx);
}

/* Cut anywhere it is refused; with any bit flipped it is refused or read, and nothing worse. */
static void test_damage(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    (void)state;
    char *text = record_of(ctx, &job, "abcdefgh");
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        zoe_record *record;
        char *copy = malloc(i); /* of the exact size, so that a sanitizer sees reads behind it */
        memcpy(copy, text, i);
        assert_int_not_equal(zoe_record_parse(ctx, &record, copy, i, "x", true), ZOE_OK);
        assert_null(record);
        free(copy);
        text[i] = (char)(text[i] ^ (1 << i % 8));
        zoe_context_clear(ctx);
        if (zoe_record_parse(ctx, &record, text, n, "x", true) == ZOE_OK)
            zoe_record_free(record);
        else
            assert_true(zoe_context_message(ctx)[0] != '\0');
        text[i] = (char)(text[i] ^ (1 << i % 8));
    }
    zoe_free(text);
    zoe_context_free(ctx);
}

/* Members of later versions are passed over. */
static void test_later(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    const zoe_job job = a_job();
    const hostile more = {"{", "{\"lora\":[{\"name\":\"x\"}],", ZOE_OK, ""};
    zoe_record *record;
    (void)state;
    char *text = record_of(ctx, &job, NULL), *made = replaced(text, &more);
    assert_int_equal(zoe_record_parse(ctx, &record, made, strlen(made), "x", false), ZOE_OK);
    zoe_record_free(record);
    free(made);
    zoe_free(text);
    zoe_context_free(ctx);
}

/* ---- from files ---- */

static void expect(zoe_context *ctx, const char *path, zoe_status status, const char *says)
{
    zoe_record *record;
    zoe_context_clear(ctx);
    const zoe_status found = zoe_record_read(ctx, &record, path);
    if (found != status || !strstr(zoe_context_message(ctx), says))
        fail_msg("%s: %s, %s", path, zoe_status_name(found), zoe_context_message(ctx));
    if (found != ZOE_OK) {
        assert_null(record);
        return;
    }
    assert_int_equal(zoe_record_params(record)->frames, 17);
    zoe_record_free(record);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_files(void **state)
{
    zoe_context *ctx = zoe_context_new(1);
    char folder[] = "/tmp/zoe-record-XXXXXX", path[64], request[64];
    const zoe_job job = a_job();
    float value = 1.0f;
    uint8_t rgb[3] = {1, 2, 3};
    (void)state;
    assert_non_null(mkdtemp(folder));
    char *text = record_of(ctx, &job, NULL), *whole = record_of(ctx, &job, "abcdefgh");
    const char *const metadata[1][2] = {{"zoetrope", text}};

    snprintf(path, sizeof path, "%s/l.safetensors", folder);
    const zoe_named_tensor tensor = {"latents", zoe_tensor_1d(&value, ZOE_F32, 1)};
    assert_int_equal(zoe_safetensors_write(ctx, path, &tensor, 1, metadata, 1), ZOE_OK);
    expect(ctx, path, ZOE_OK, "");
    assert_int_equal(zoe_safetensors_write(ctx, path, &tensor, 1, NULL, 0), ZOE_OK);
    expect(ctx, path, ZOE_MISSING, "zoetrope");
    unlink(path);

    snprintf(path, sizeof path, "%s/p.png", folder);
    const zoe_picture picture = {.width = 1, .height = 1, .rgb = rgb};
    assert_int_equal(zoe_picture_write_png(ctx, path, &picture, metadata, 1), ZOE_OK);
    expect(ctx, path, ZOE_OK, "");
    assert_int_equal(zoe_picture_write_png(ctx, path, &picture, NULL, 0), ZOE_OK);
    expect(ctx, path, ZOE_MISSING, "zoetrope");
    unlink(path);

    expect(ctx, path, ZOE_MISSING, "no such file");
    write_file(path, "YUV4MPEG2 W64 H48\n");
    expect(ctx, path, ZOE_MISSING, "nothing is noted");
    unlink(path);

    expect(ctx, folder, ZOE_MISSING, "no checkpoint");
    snprintf(request, sizeof request, "%s/request.json", folder);
    write_file(request, whole);
    expect(ctx, folder, ZOE_OK, "");
    write_file(request, text); /* that of a video */
    expect(ctx, folder, ZOE_FORMAT, "for run");
    write_file(request, "");
    expect(ctx, folder, ZOE_FORMAT, "no JSON object");
    unlink(request);
    assert_int_equal(rmdir(folder), 0);
    zoe_free(text);
    zoe_free(whole);
    zoe_context_free(ctx);
}

/* ---- differences ---- */

static void expect_differences(const zoe_job_params *old, const zoe_job_params *asked,
                               const char *wanted)
{
    zoe_differences d = {.used = 0};
    zoe_request_differences(&d, old, asked);
    assert_string_equal(d.text, wanted);
}

static void test_differences(void **state)
{
    const zoe_job job = a_job();
    const zoe_job_params old = job.params;
    zoe_job_params p = old;
    (void)state;
    expect_differences(&old, &p, "");
    p.steps = 9;
    p.boundary = 0.9;
    expect_differences(&old, &p,
                       "steps: 7 in the checkpoint, 9 asked for; boundary: 0.875 in the "
                       "checkpoint, 0.9 asked for");
    p = old;
    p.width = old.height;
    p.height = old.width; /* the same area */
    p.seed = -1;
    p.fps_num = 30;
    p.out = "other.mp4";
    p.memory = 0;
    expect_differences(&old, &p, "");
    p.width = 64;
    expect_differences(&old, &p, "size: 832x480 in the checkpoint, 64x832 asked for");
    p = old;
    p.negative_prompt = NULL;
    zoe_job_params official = old;
    official.negative_prompt = "";
    expect_differences(&official, &p, "");
    p.negative_prompt = zoe_default_negative_prompt;
    expect_differences(&official, &p, "");
    p = old;
    p.prompt = "A dog.";
    expect_differences(&old, &p,
                       "prompt: \"A cat \"jumps\"\\.\nIt lands \xe2\x80\x94 \xf0\x9f\x90\x88.\" in "
                       "the checkpoint, \"A dog.\" asked for");
}

/* Long texts are shown where they differ, whole characters only. */
static void test_long_texts(void **state)
{
    char a[3001], b[3001];
    zoe_job_params old = a_job().params, asked = old;
    zoe_differences d = {.used = 0};
    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        memcpy(a + 3 * i, "\xe7\x8c\xab", 4);
        memcpy(b + 3 * i, i == 500 ? "\xe7\x8c\xac" : "\xe7\x8c\xab", 4);
    }
    old.prompt = a;
    asked.prompt = b;
    zoe_request_differences(&d, &old, &asked);
    assert_non_null(strstr(d.text, "\xe7\x8c\xac"));
    assert_true(d.used < 300);
    json_t *text = json_string(d.text); /* checks UTF-8 */
    assert_non_null(text);
    json_decref(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),   cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_prompt_must_be_text),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_damage),     cmocka_unit_test(test_later),
        cmocka_unit_test(test_files),      cmocka_unit_test(test_differences),
        cmocka_unit_test(test_long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
