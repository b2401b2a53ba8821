/* Where frames and latents go, and what is noted in them about how they were made. */
#include "job/job.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef ZOE_VERSION
#define ZOE_VERSION "unknown"
#endif

static const char *solver_name(zoe_solver_kind kind)
{
    static const char *const names[] = {
        [ZOE_SOLVER_UNIPC] = "unipc", [ZOE_SOLVER_DPMPP] = "dpm++", [ZOE_SOLVER_EULER] = "euler"};
    return names[kind];
}

/* A path's last part that says something: never a folder of the user's machine. */
static const char *bare_name(const char *path)
{
    return path ? zoe_path_name(path) : "";
}

static zoe_status make_json(zoe_context *ctx, char **text, const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    const zoe_plan *plan = &job->plan;
    json_t *o = json_pack(
        "{s:s, s:s, s:s%, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:[f, f], "
        "s:f, s:s, s:[i, i]}",
        "program", "zoetrope", "version", ZOE_VERSION, "prompt", p->prompt, strlen(p->prompt),
        "negative_prompt", p->negative_prompt && *p->negative_prompt ? p->negative_prompt : "",
        "image", bare_name(p->image), "seed", (json_int_t)plan->seed, "width",
        (json_int_t)plan->width, "height", (json_int_t)plan->height, "area",
        (json_int_t)(p->width * p->height), "frames", (json_int_t)plan->frames, "steps",
        (json_int_t)p->steps, "solver", solver_name(p->solver), "shift", p->shift,
        "guide_scale_low_high", p->guide_low, p->guide_high, "boundary", p->boundary, "dtype",
        p->bf16 ? "bf16" : "f32", "frame_rate", p->fps_num, p->fps_den);
    char *dump = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    *text = NULL;
    if (!dump) /* a prompt that is no UTF-8 cannot stand in JSON */
        return zoe_fail(ctx, ZOE_INVALID,
                        "the prompt is no UTF-8 text: it cannot be noted in the "
                        "video; mend it, or leave metadata out");
    const zoe_status status = zoe_strdup(ctx, text, dump);
    free(dump);
    return status;
}

static zoe_status make_comment(zoe_context *ctx, char **text, const zoe_job *job)
{
    const zoe_job_params *p = &job->params;
    return zoe_strf(
        ctx, text,
        "%s\nNegative prompt: %s\nSteps: %zu, Solver: %s, Shift: %g, Guide scale: %g,%g, "
        "Boundary: %g, Seed: %lld, Size: %zux%zu, Frames: %zu, Type: %s, Version: "
        "zoetrope %s",
        p->prompt, p->negative_prompt && *p->negative_prompt ? p->negative_prompt : "(official)",
        p->steps, solver_name(p->solver), p->shift, p->guide_low, p->guide_high, p->boundary,
        (long long)job->plan.seed, job->plan.width, job->plan.height, job->plan.frames,
        p->bf16 ? "bf16" : "f32", ZOE_VERSION);
}

zoe_status zoe_job_describe(zoe_context *ctx, zoe_job *job)
{
    if (job->params.no_metadata)
        return ZOE_OK;
    TRY(make_comment(ctx, &job->comment, job));
    return make_json(ctx, &job->json, job);
}

static zoe_video_options video_options(const zoe_job_params *p, size_t width, size_t height)
{
    return (zoe_video_options){
        .width = width, .height = height, .fps_num = p->fps_num, .fps_den = p->fps_den};
}

static zoe_status probe_folder(zoe_context *ctx, const char *folder)
{
    const bool made = !zoe_folder_exists(folder);
    char *file;
    TRY(zoe_folder_make(ctx, folder));
    zoe_status status = zoe_path_join(ctx, &file, folder, "frame_00000.png");
    if (status == ZOE_OK)
        status = zoe_output_probe(ctx, file);
    zoe_free(file);
    if (made)
        rmdir(folder);
    return status;
}

zoe_status zoe_outputs_probe(zoe_context *ctx, const zoe_job_params *params, size_t width,
                             size_t height)
{
    if (params->out) {
        const zoe_video_options options = video_options(params, width, height);
        const size_t n = strlen(params->out);
        if (params->frames > 1 && n >= 4 && strcmp(params->out + n - 4, ".png") == 0)
            return zoe_fail(ctx, ZOE_INVALID,
                            "%s: a PNG file holds one frame, %zu are asked for; name a folder for "
                            "frames, or a video file",
                            params->out, params->frames);
        TRY(zoe_video_probe(ctx, params->out, &options));
    }
    if (params->frames_out)
        TRY(probe_folder(ctx, params->frames_out));
    if (params->latents_out)
        TRY(zoe_output_probe(ctx, params->latents_out));
    return ZOE_OK;
}

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
    if (job->params.frames_out)
        TRY_GOTO(zoe_folder_make(ctx, job->params.frames_out));
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

/* [-1, 1] to 0..255, cut and not rounded, as the official writer does. False for NaN. */
static bool to_bytes(uint8_t *rgb, const float *frame, size_t n)
{
    bool sound = true;
    for (size_t i = 0; i < n; i++) {
        const float v = frame[i] < -1.0f ? -1.0f : frame[i] > 1.0f ? 1.0f : frame[i];
        sound = sound && !isnan(v);
        rgb[i] = isnan(v) ? 0 : (uint8_t)((v + 1.0f) / 2.0f * 255.0f);
    }
    return sound;
}

static zoe_status png_path(zoe_context *ctx, char **path, const char *folder, size_t index)
{
    char name[40];
    snprintf(name, sizeof name, "frame_%05zu.png", index);
    return zoe_path_join(ctx, path, folder, name);
}

static zoe_status write_png(zoe_output_frames *out, size_t index)
{
    const zoe_picture picture = {
        .width = out->job->plan.width, .height = out->job->plan.height, .rgb = out->rgb};
    char *path;
    TRY(png_path(out->ctx, &path, out->job->params.frames_out, index));
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
            return zoe_fail(out->ctx, ZOE_NONFINITE, "the VAE decoder gave NaN in frame %zu",
                            index + i);
        if (out->job->params.frames_out)
            TRY(write_png(out, index + i));
        if (out->video)
            TRY(zoe_video_frame(out->ctx, out->video, out->rgb));
    }
    return ZOE_OK;
}

zoe_status zoe_output_frames_close(zoe_output_frames *out)
{
    zoe_video *video = out->video;
    out->video = NULL;
    if (video)
        TRY(zoe_video_close(out->ctx, video));
    out->pngs = 0; /* they stay */
    return ZOE_OK;
}

/* What was written of a clip that did not become whole. */
static void remove_pngs(const zoe_output_frames *out)
{
    const char *folder = out->job->params.frames_out;
    for (size_t i = 0; i < out->pngs; i++) {
        char *path;
        if (png_path(out->ctx, &path, folder, i) != ZOE_OK)
            return;
        unlink(path);
        zoe_free(path);
    }
    rmdir(folder); /* unless something else is in it */
}

void zoe_output_frames_free(zoe_output_frames *out)
{
    zoe_video_abort(out->video);
    if (out->pngs)
        remove_pngs(out);
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
