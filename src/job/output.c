/* Where frames and latents go. */
#include "job/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static zoe_video_options video_options(const zoe_job_params *p, size_t width, size_t height)
{
    return (zoe_video_options){
        .width = width, .height = height, .fps_num = p->fps_num, .fps_den = p->fps_den};
}

/* ---- names of frames ---- */

typedef struct frame_name {
    char text[40];
} frame_name;

static frame_name name_frame(size_t index)
{
    frame_name name;
    snprintf(name.text, sizeof name.text, "frame_%05zu.png", index);
    return name;
}

size_t zoe_frame_number(const char *name)
{
    size_t number;
    if (sscanf(name, "frame_%8zu.png", &number) != 1)
        return SIZE_MAX;
    return strcmp(name, name_frame(number).text) == 0 ? number : SIZE_MAX;
}

/* Frames of an earlier, longer run would look like a part of this clip. */
static void warn_of_old_frames(zoe_context *ctx, const char *folder, size_t frames)
{
    DIR *d = opendir(folder);
    size_t old = 0;
    for (const struct dirent *e; d && (e = readdir(d));) {
        const size_t number = zoe_frame_number(e->d_name);
        old += number != SIZE_MAX && number >= frames;
    }
    if (d)
        closedir(d);
    if (old > 0)
        zoe_log(ctx, ZOE_WARNING,
                "%s: %zu frame%s of an earlier, longer clip %s still there, from number %zu on",
                folder, old, old == 1 ? "" : "s", old == 1 ? "is" : "are", frames);
}

/* ---- checks before the work ---- */

/* A frame replaces a file or a link, nothing else. */
static zoe_status check_frame_places(zoe_context *ctx, const char *folder, size_t frames)
{
    DIR *d = opendir(folder);
    if (!d)
        return zoe_fail(ctx, ZOE_IO, "%s: cannot read this folder: %s", folder, strerror(errno));
    zoe_status status = ZOE_OK;
    for (const struct dirent *e; status == ZOE_OK && (e = readdir(d));) {
        struct stat st;
        const size_t number = zoe_frame_number(e->d_name);
        if (number != SIZE_MAX && number < frames &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode) &&
            !S_ISLNK(st.st_mode))
            status = zoe_fail(ctx, ZOE_IO, "%s/%s: is %s, this is the place of a frame", folder,
                              e->d_name, S_ISDIR(st.st_mode) ? "a folder" : "a device or pipe");
    }
    closedir(d);
    return status;
}

static zoe_status probe_folder(zoe_context *ctx, const char *folder, size_t frames)
{
    const bool made = !zoe_folder_exists(folder);
    char *part = NULL;
    TRY(zoe_folder_make(ctx, folder));
    zoe_status status = zoe_folder_make_part(ctx, &part, folder);
    if (status == ZOE_OK) {
        rmdir(part);
        zoe_folder_forget(part);
    }
    zoe_free(part);
    if (status == ZOE_OK)
        status = check_frame_places(ctx, folder, frames);
    if (made)
        rmdir(folder);
    return status;
}

static zoe_status probe_preview(zoe_context *ctx, const char *path)
{
    if (zoe_video_kind_of(path) != ZOE_VIDEO_PNG)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: the preview is a PNG picture; a name that ends in .png is wanted",
                        path);
    return zoe_output_probe(ctx, path);
}

zoe_status zoe_outputs_probe(zoe_context *ctx, const zoe_job_params *params, size_t width,
                             size_t height)
{
    TRY(zoe_places_check(ctx, params));
    if (params->out) {
        const zoe_video_options options = video_options(params, width, height);
        if (params->frames > 1 && zoe_video_kind_of(params->out) == ZOE_VIDEO_PNG)
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s: a PNG file holds one frame, %zu are asked for; name a folder for "
                            "frames, or a video file",
                            params->out, params->frames);
        TRY(zoe_video_probe(ctx, params->out, &options));
    }
    if (params->preview)
        TRY(probe_preview(ctx, params->preview));
    if (params->frames_out)
        TRY(probe_folder(ctx, params->frames_out, params->frames));
    if (params->latents_out)
        TRY(zoe_output_probe(ctx, params->latents_out));
    if (params->report)
        TRY(zoe_output_probe(ctx, params->report));
    if (params->trace)
        TRY(zoe_output_probe(ctx, params->trace));
    return ZOE_OK;
}

/* ---- frames ---- */

zoe_status zoe_output_frames_open(zoe_context *ctx, zoe_output_frames *out, const zoe_job *job)
{
    const zoe_plan *plan = &job->plan;
    void *p;
    zoe_status status;
    *out = (zoe_output_frames){.job = job, .ctx = ctx};
    if (job->json) {
        out->metadata[0][0] = "comment";
        out->metadata[0][1] = job->comment;
        out->metadata[1][0] = "zoetrope";
        out->metadata[1][1] = job->json;
        out->n_meta = 2;
    }
    TRY_GOTO(zoe_alloc(ctx, &p, plan->width * plan->height, 3, "frame"));
    out->rgb = p;
    if (job->params.frames_out) {
        const bool there = zoe_folder_exists(job->params.frames_out);
        if (!there)
            zoe_folder_remember(job->params.frames_out, false);
        TRY_GOTO(zoe_folder_make(ctx, job->params.frames_out));
        out->made_folder = !there;
        TRY_GOTO(zoe_folder_make_part(ctx, &out->part, job->params.frames_out));
    }
    if (job->params.out) {
        zoe_video_options options = video_options(&job->params, plan->width, plan->height);
        options.metadata = (const char *const(*)[2])out->metadata;
        options.n_meta = out->n_meta;
        TRY_GOTO(zoe_video_open(ctx, &out->video, job->params.out, &options));
    }
done:
    if (status != ZOE_OK)
        zoe_output_frames_free(out);
    return status;
}

/* [-1, 1] to 0..255, cut and not rounded, as the official writer does. False for NaN and inf. */
static bool to_bytes(uint8_t *rgb, const float *frame, size_t n)
{
    bool sound = true;
    for (size_t i = 0; i < n; i++) {
        const float v = frame[i] < -1.0f ? -1.0f : frame[i] > 1.0f ? 1.0f : frame[i];
        sound = sound && isfinite(frame[i]);
        rgb[i] = isnan(v) ? 0 : (uint8_t)((v + 1.0f) / 2.0f * 255.0f);
    }
    return sound;
}

static zoe_status write_png(zoe_output_frames *out, size_t index)
{
    const zoe_picture picture = {
        .width = out->job->plan.width, .height = out->job->plan.height, .rgb = out->rgb};
    char *path;
    TRY(zoe_path_join(out->ctx, &path, out->part, name_frame(index).text));
    out->pngs = index + 1;
    const zoe_status status = zoe_picture_write_png(
        out->ctx, path, &picture, (const char *const(*)[2])out->metadata, out->n_meta);
    zoe_free(path);
    return status;
}

zoe_status zoe_output_frames_write(zoe_output_frames *out, const float *frames, size_t index,
                                   size_t count)
{
    const size_t n = 3 * out->job->plan.width * out->job->plan.height;
    for (size_t i = 0; i < count; i++) {
        if (!to_bytes(out->rgb, frames + i * n, n))
            return zoe_fail(out->ctx, ZOE_NONFINITE,
                            "the VAE decoder gave NaN or inf in frame %zu (%s)", index + i,
                            out->job->parts.vae);
        if (out->part)
            TRY(write_png(out, index + i));
        if (out->video)
            TRY(zoe_video_frame(out->ctx, out->video, out->rgb));
        if (out->job->params.frame)
            out->job->params.frame(out->job->params.user, index + i, out->rgb, out->job->plan.width,
                                   out->job->plan.height);
    }
    return ZOE_OK;
}

/* The folder, for calls that take names in it: these need no memory, which may be out when files are
 * moved or removed. */
static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static zoe_status rename_pngs(zoe_output_frames *out)
{
    zoe_status status = ZOE_OK;
    const char *to_path = out->job->params.frames_out;
    const int from = open_folder(out->part), to = open_folder(to_path);
    for (size_t i = 0; i < out->pngs && status == ZOE_OK; i++) {
        const frame_name name = name_frame(i);
        if (renameat(from, name.text, to, name.text) != 0)
            status = zoe_fail(out->ctx, ZOE_IO,
                              "%s/%s: cannot rename to %s/%s: %s; the clip is whole: what could "
                              "not be moved stays in %s",
                              out->part, name.text, to_path, name.text, strerror(errno), out->part);
    }
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return status;
}

/* From here on nothing is taken back: frames that were moved have replaced older ones. */
static zoe_status move_pngs(zoe_output_frames *out)
{
    zoe_folder_forget(out->part);
    const zoe_status status = rename_pngs(out);
    rmdir(out->part); /* if it is empty */
    zoe_free(out->part);
    out->part = NULL;
    out->made_folder = false;
    if (status == ZOE_OK)
        warn_of_old_frames(out->ctx, out->job->params.frames_out, out->pngs);
    return status;
}

zoe_status zoe_output_frames_close(zoe_output_frames *out)
{
    zoe_video *video = out->video;
    out->video = NULL;
    if (video)
        TRY(zoe_video_close(out->ctx, video));
    return out->part ? move_pngs(out) : ZOE_OK;
}

/* What was written of a clip that did not become whole. */
static void remove_pngs(const zoe_output_frames *out)
{
    const int folder = open_folder(out->part);
    for (size_t i = 0; i < out->pngs && folder >= 0; i++)
        unlinkat(folder, name_frame(i).text, 0);
    if (folder >= 0)
        close(folder);
    rmdir(out->part);
}

void zoe_output_frames_free(zoe_output_frames *out)
{
    zoe_video_abort(out->video);
    if (out->part) {
        remove_pngs(out);
        zoe_folder_forget(out->part);
        zoe_free(out->part);
    }
    if (out->made_folder)
        rmdir(out->job->params.frames_out); /* if it is empty: the clip did not become whole */
    if (out->job && out->job->params.frames_out)
        zoe_folder_forget(out->job->params.frames_out);
    zoe_free(out->rgb);
    *out = (zoe_output_frames){0};
}

zoe_status zoe_latents_write(zoe_context *ctx, const zoe_job *job)
{
    const zoe_plan *p = &job->plan;
    const size_t cells = p->latent_frames * p->latent_height * p->latent_width;
    const zoe_named_tensor latents = {
        "latents", zoe_tensor_4d(job->latent, ZOE_F32, job->latent_count / cells, p->latent_frames,
                                 p->latent_height, p->latent_width)};
    const char *const metadata[1][2] = {{"zoetrope", job->json}};
    return zoe_safetensors_write(ctx, job->params.latents_out, &latents, 1, metadata,
                                 job->json ? 1 : 0);
}
