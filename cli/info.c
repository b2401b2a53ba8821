/* zoe info: what a checkpoint, a video, a picture, latents or a checkpoint folder of a run is. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "base/base.h"
#include "base/file.h"
#include "commands.h"
#include "inspection.h"
#include "media/media.h"
#include "message.h"
#include "session.h"
#include "zoetrope/job.h"

typedef struct request {
    const char *path;
    size_t threads;
    bool json, tensors, verify, help;
} info_request;

#define AT(member) .at = offsetof(info_request, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_FLAG, "verify", AT(verify),
     .help = "read everything: NaN and inf in weights by name, SHA-256 of\n"
             "every file, a fingerprint of each part; frames of a video"},
    {ZOE_OPTION_FLAG, "tensors", AT(tensors), .help = "list every tensor"},
    {ZOE_OPTION_FLAG, "json", AT(json), .help = "print one JSON object"},
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "number of threads [as many as the process may use]"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0] };

/* ---- how something was made ---- */

static void print_value(const char *key, const json_t *value)
{
    char label[64];
    snprintf(label, sizeof label, "%-22.60s", key);
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        zoe_answer_row(label, "%s", *text ? text : "-");
        return;
    }
    char *text = json_is_object(value)
                     ? NULL
                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12));
    zoe_answer_row(label, "%s", text ? text : "");
    free(text);
}

static json_t *record_json(const zoe_record *record)
{
    return record ? json_loads(zoe_record_json(record), 0, NULL) : json_null();
}

static void print_record(const zoe_record *record)
{
    const char *key;
    json_t *value, *root = record_json(record);
    json_object_foreach(root, key, value)
    {
        const char *inner;
        json_t *of;
        print_value(key, value);
        json_object_foreach(value, inner, of)
        {
            char label[64];
            snprintf(label, sizeof label, "  %.60s", inner);
            print_value(label, of);
        }
    }
    json_decref(root);
}

/* The record, or NULL if nothing is noted; what is noted but cannot be read is an error. */
static zoe_status read_record(zoe_context *ctx, zoe_record **record, const char *path)
{
    const zoe_status status = zoe_record_read(ctx, record, path);
    if (status != ZOE_MISSING)
        return status;
    zoe_context_clear(ctx);
    *record = NULL;
    return ZOE_OK;
}

/* The picture of ours in a folder that comes first by name; NULL if there is none. */
static zoe_status first_frame(zoe_context *ctx, char **path, const char *folder)
{
    char first[256] = "";
    const struct dirent *entry;
    DIR *d = opendir(folder);
    *path = NULL;
    while (d && (entry = readdir(d))) {
        const size_t n = strlen(entry->d_name);
        if (n > 10 && n < sizeof first && strncmp(entry->d_name, "frame_", 6) == 0 &&
            strcmp(entry->d_name + n - 4, ".png") == 0 &&
            (!*first || strcmp(entry->d_name, first) < 0))
            memcpy(first, entry->d_name, n + 1);
    }
    if (d)
        closedir(d);
    return *first ? zoe_path_join(ctx, path, folder, first) : ZOE_OK;
}

/* The record of a video or picture, or of the pictures in a folder. Most kinds of files have no
 * place for one. */
static zoe_status read_media_record(zoe_context *ctx, zoe_record **record, const char *path)
{
    char *frame = NULL, *note = NULL;
    *record = NULL;
    if (zoe_folder_exists(path)) {
        TRY(first_frame(ctx, &frame, path));
        if (!frame)
            return ZOE_OK;
        path = frame;
    }
    zoe_status status = zoe_media_metadata_read(ctx, path, "zoetrope", &note);
    zoe_free(note);
    if (status == ZOE_OK) {
        status = zoe_record_read(ctx, record, path);
    } else if (status == ZOE_MISSING || status == ZOE_UNSUPPORTED) {
        zoe_context_clear(ctx);
        status = ZOE_OK;
    }
    zoe_free(frame);
    return status;
}

/* ---- videos and pictures ---- */

typedef struct media {
    const info_request *request;
    zoe_video_info info;
    zoe_record *record;
    size_t counted;    /* frames that could be decoded; 0: not looked */
    zoe_status status; /* of that */
} media;

static void rate_of(char *text, size_t room, const zoe_video_info *info)
{
    if (info->fps_den == 1)
        snprintf(text, room, "%d", info->fps_num);
    else
        snprintf(text, room, "%d/%d", info->fps_num, info->fps_den);
}

static void print_media(const media *m)
{
    const zoe_video_info *i = &m->info;
    char rate[32];
    zoe_answer_line("%s: %s", m->request->path,
                    !i->fps_num && i->frames == 1 ? "a picture"
                    : i->fps_num                  ? "a video"
                                                  : "pictures");
    zoe_answer_row("size", "%zux%zu", i->width, i->height);
    const size_t frames = m->counted ? m->counted : i->frames;
    if (frames == 0)
        zoe_answer_row("frames", "the file does not say; --verify counts them");
    else
        zoe_answer_row("frames", "%zu", frames);
    if (i->fps_num) {
        rate_of(rate, sizeof rate, i);
        zoe_answer_row("a second", "%s", rate);
        if (frames)
            zoe_answer_row("seconds", "%.3f", (double)frames * i->fps_den / i->fps_num);
    }
    zoe_answer_row("made by zoe", "%s", m->record ? "yes" : "nothing of the kind is noted in it");
    if (m->record)
        print_record(m->record);
}

static json_t *media_json(const media *m)
{
    const zoe_video_info *i = &m->info;
    char rate[32];
    rate_of(rate, sizeof rate, i);
    return json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:b, s:o, s:b}", "kind",
                     !i->fps_num && i->frames == 1 ? "picture"
                     : i->fps_num                  ? "video"
                                                   : "pictures",
                     "path", zoe_answer_text(m->request->path), "width", (json_int_t)i->width,
                     "height", (json_int_t)i->height, "frames",
                     m->counted || i->frames ? zoe_answer_size(m->counted ? m->counted : i->frames)
                                             : json_null(),
                     "fps", i->fps_num ? json_string(rate) : json_null(), "verified",
                     m->counted > 0, "record", record_json(m->record), "sound",
                     m->status == ZOE_OK);
}

/* Decodes every frame. */
static zoe_status count_frames(zoe_context *ctx, media *m, zoe_video_reader *reader)
{
    void *rgb;
    bool got = true;
    zoe_status status;
    TRY(zoe_alloc(ctx, &rgb, m->info.width * m->info.height, 3, "a frame"));
    do {
        status = zoe_video_read_frame(ctx, reader, rgb, &got);
        m->counted += status == ZOE_OK && got;
    } while (status == ZOE_OK && got);
    zoe_free(rgb);
    if (status == ZOE_OK && m->info.frames && m->info.frames != m->counted)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: says that it has %zu frames, %zu can be decoded",
                        m->request->path, m->info.frames, m->counted);
    return status;
}

static zoe_status show_media(zoe_context *ctx, const info_request *request)
{
    media m = {.request = request};
    zoe_video_reader *reader;
    zoe_status status;
    int code = ZOE_EXIT_DONE;
    TRY(zoe_video_read_open(ctx, &reader, request->path));
    m.info = *zoe_video_read_info(reader);
    TRY_GOTO(read_media_record(ctx, &m.record, request->path));
    if (request->verify)
        m.status = count_frames(ctx, &m, reader);
    if (request->json)
        code = zoe_answer_json(media_json(&m));
    else
        print_media(&m);
    status = code == ZOE_EXIT_DONE ? m.status : ZOE_NOMEM;
done:
    zoe_record_free(m.record);
    zoe_video_read_close(reader);
    return status;
}

/* ---- the checkpoint folder of a run ---- */

static zoe_status show_record(const info_request *request, const zoe_record *record)
{
    if (request->json) {
        json_t *root =
            json_pack("{s:s, s:o, s:o, s:b}", "kind", "run", "path", zoe_answer_text(request->path),
                      "record", record_json(record), "sound", 1);
        return zoe_answer_json(root) == ZOE_EXIT_DONE ? ZOE_OK : ZOE_NOMEM;
    }
    zoe_answer_line("%s: the checkpoint folder of a run; zoe generate --resume %s goes on",
                    request->path, request->path);
    print_record(record);
    return ZOE_OK;
}

/* ---- models ---- */

static void on_reading(void *user, const char *what, const char *path, size_t done, size_t total)
{
    char line[512];
    (void)user;
    const char *name = zoe_path_name(path);
    if (total)
        snprintf(line, sizeof line, "%s of %.200s: %s of %s", what, name, zoe_amount_of(done).text,
                 zoe_amount_of(total).text);
    else
        snprintf(line, sizeof line, "%s of %.200s", what, name);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            *c = '?';
    zoe_live_line(line);
}

static bool is_latents(const zoe_inspection *in)
{
    return zoe_inspection_parts(in) == 1 &&
           zoe_inspection_part(in, 0)->content == ZOE_CONTENT_LATENTS;
}

static zoe_status show_findings(const info_request *request, const zoe_inspection *in,
                                const zoe_record *record)
{
    const zoe_inspection_view view = {.path = request->path, .tensors = request->tensors};
    if (request->json) {
        json_t *root = zoe_inspection_json(in, &view);
        if (root && is_latents(in))
            json_object_set_new(root, "record", record_json(record));
        return zoe_answer_json(root) == ZOE_EXIT_DONE ? ZOE_OK : ZOE_NOMEM;
    }
    zoe_inspection_print(in, &view);
    if (is_latents(in))
        zoe_answer_row("made by zoe", "%s", record ? "yes" : "nothing of the kind is noted in it");
    if (record)
        print_record(record);
    return ZOE_OK;
}

static zoe_status show_model(zoe_context *ctx, const info_request *request, zoe_inspection *in)
{
    zoe_record *record = NULL;
    zoe_verdict verdict;
    zoe_status status = ZOE_OK;
    if (request->verify)
        status = zoe_inspection_verify(ctx, in, on_reading, NULL);
    zoe_live_line(NULL);
    TRY_GOTO(status);
    if (is_latents(in))
        TRY_GOTO(read_record(ctx, &record, request->path));
    TRY_GOTO(show_findings(request, in, record));
    if (!zoe_inspection_sound(in)) {
        zoe_inspection_verdict(in, &verdict);
        status = zoe_fail(ctx, ZOE_FORMAT, "%s", verdict.text);
    }
done:
    zoe_record_free(record);
    return status;
}

/* ---- which of them ---- */

/* A name that says weights: what is wrong with them is of more interest than that they are no
 * picture. */
static bool named_as_weights(const char *path)
{
    static const char *const ends[] = {".safetensors", ".pth", ".pt", ".ckpt", ".gguf", ".json"};
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t m = strlen(ends[i]);
        if (n >= m && strcmp(path + n - m, ends[i]) == 0)
            return true;
    }
    return false;
}

static zoe_status show(zoe_context *ctx, const info_request *request)
{
    zoe_inspection *in;
    if (zoe_folder_exists(request->path)) {
        zoe_record *record;
        TRY(read_record(ctx, &record, request->path));
        if (record) {
            const zoe_status status = show_record(request, record);
            zoe_record_free(record);
            return status;
        }
    }
    zoe_status status = zoe_inspect(ctx, &in, request->path);
    if (status == ZOE_OK) {
        status = show_model(ctx, request, in);
        zoe_inspection_free(in);
        return status;
    }
    if (status == ZOE_NOMEM || status == ZOE_CANCELLED || named_as_weights(request->path) ||
        !(zoe_file_exists(request->path) || zoe_folder_exists(request->path)))
        return status;
    zoe_context_clear(ctx);
    status = show_media(ctx, request);
    if (status == ZOE_MISSING && zoe_folder_exists(request->path)) {
        zoe_context_clear(ctx);
        return zoe_fail(ctx, ZOE_MISSING,
                        "%s: neither weights nor frames are in this folder, and it is no "
                        "checkpoint folder of a run",
                        request->path);
    }
    return status;
}

/* ---- the command ---- */

static int run_request(const info_request *request)
{
    zoe_context *ctx = zoe_session_begin(request->threads);
    if (!ctx)
        return ZOE_EXIT_MEMORY;
    zoe_context_set_log(ctx, NULL, NULL); /* what is found is the answer */
    return zoe_session_end(ctx, show(ctx, request), false);
}

static int run(int argc, char **argv)
{
    zoe_options found;
    info_request request = {0};
    int code;
    if (!zoe_command_read(&zoe_info_command, &found, &request, &request.help, argc, argv, &code))
        return code;
    if (found.operands != 1 || !*found.operand[0])
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s",
                          found.operands > 1
                              ? "one path at a time is wanted: zoe info PATH"
                              : "a model, a video, a picture, latents or a checkpoint folder is "
                                "wanted: zoe info PATH");
    request.path = found.operand[0];
    return run_request(&request);
}

static const char text[] =
    "PATH is the folder of a model, or one part of it: a .safetensors or .pth file, a shard\n"
    "index, a folder with one. Told are what model it is, by the names and shapes of its\n"
    "tensors; what the tensors take, by type; which ones are missing, and which the network\n"
    "does not know; whether zoe generate can use it; and what does not fit together.\n"
    "\n"
    "PATH may also be a video, a picture, latents or a checkpoint folder that zoe generate\n"
    "wrote: how it was made. Of other videos and pictures, size, frames and rate.\n"
    "\n"
    "--verify takes as long as reading all files twice. The SHA-256 are those that model hubs\n"
    "list. The fingerprint of a part is that of the metadata of videos: it depends on names,\n"
    "types, shapes and values of the tensors, not on the kind of file.\n"
    "\n"
    "Code 0 says: sound, as far as was looked, also of a model that zoe generate cannot use.\n"
    "Code 3: something is missing, broken, NaN or inf, or cannot be read; the last line on\n"
    "standard error says what.\n";

static const char examples[] = "Is the download whole?\n"
                               "  zoe info --verify Wan2.2-I2V-A14B\n"
                               "What is in this file?\n"
                               "  zoe info --tensors model.safetensors\n"
                               "How was this video made?\n"
                               "  zoe info cat.mp4\n";

const zoe_command zoe_info_command = {
    .name = "info",
    .summary = "tells what a model, a video or a picture is, and whether it is sound",
    .usage = "PATH [options]",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .run = run,
};
