/* Room 11, job: one generation from request to frames. params: what may be asked; locate: which
 * file is which part of a checkpoint; open: what the run will be; run: the order of the work;
 * output: where frames go. */
#ifndef ZOE_JOB_INTERNAL_H
#define ZOE_JOB_INTERNAL_H

#include "base/file.h"
#include "base/random.h"
#include "media/media.h"
#include "model/model.h"
#include "sample/sample.h"
#include "text/text.h"
#include "zoetrope/job.h"

enum {
    ZOE_EXPERTS = 2,      /* indexed by zoe_expert */
    ZOE_MASK_CHANNELS = 4 /* of the condition, before the picture's latent */
};

typedef enum zoe_branch { ZOE_COND, ZOE_UNCOND, ZOE_BRANCHES } zoe_branch;

/* Paths of the parts of a checkpoint; free with zoe_parts_free. */
typedef struct zoe_parts {
    char *expert[ZOE_EXPERTS];
    char *expert_config[ZOE_EXPERTS]; /* config.json beside it, or NULL */
    char *vae, *text_encoder, *tokenizer;
} zoe_parts;

struct zoe_job {
    zoe_job_params params;
    zoe_plan plan;
    zoe_parts parts;
    zoe_schedule schedule;

    zoe_store *text_store, *vae_store, *expert_store[ZOE_EXPERTS];
    zoe_umt5 *umt5;
    zoe_wan *wan[ZOE_EXPERTS];

    char *comment, *json; /* how the video is made, for its metadata; NULL: not wanted */
    int32_t *ids[ZOE_BRANCHES];
    size_t id_count[ZOE_BRANCHES];
    float *context[ZOE_BRANCHES]; /* [id_count, text width] */
    float *picture;               /* [height, width, 3] in about [-1, 1]: the first frame */
    float *condition;             /* y: [4 mask + z, f, h, w] */
    size_t latent_count;          /* z f h w */
    float *latent, *velocity[ZOE_BRANCHES];
};

/* Finds the parts: explicit paths first, the rest from the model folder in the official or the
 * diffusers layout. */
zoe_status zoe_parts_locate(zoe_context *ctx, zoe_parts *parts, const zoe_job_params *params);
void zoe_parts_free(zoe_parts *parts);

/* The negative prompt of the official configuration. */
extern const char zoe_default_negative_prompt[];

/* Where frames go: any of a video, a folder of PNG files. The PNG files are written into a hidden
 * folder in that folder and moved up when the clip is whole. */
typedef struct zoe_output_frames {
    const zoe_job *job;
    zoe_context *ctx;
    zoe_video *video;
    uint8_t *rgb;               /* one frame */
    bool made_folder;           /* frames_out was not there before */
    char *part;                 /* the hidden folder; NULL: no PNG files, or all moved up */
    size_t pngs;                /* written to it so far */
    const char *metadata[2][2]; /* key, value */
    size_t n_meta;
} zoe_output_frames;

/* Makes job->comment and job->json. ZOE_INVALID for a prompt that is no UTF-8. */
zoe_status zoe_job_describe(zoe_context *ctx, zoe_job *job);

/* The number in the name of a PNG file of a clip, "frame_00012.png"; SIZE_MAX for other names. */
size_t zoe_frame_number(const char *name);
/* Checks that no two outputs and no output and input are the same file, however they are spelled.
 * ZOE_INVALID if they are. */
zoe_status zoe_places_check(zoe_context *ctx, const zoe_job_params *params);
/* Checks that the outputs asked for can be written. */
zoe_status zoe_outputs_probe(zoe_context *ctx, const zoe_job_params *params, size_t width,
                             size_t height);
zoe_status zoe_output_frames_open(zoe_context *ctx, zoe_output_frames *out, const zoe_job *job);
/* `count` frames [count, H, W, 3] from number `index` on, clamped and cut to 8 bits as the official
 * code does. NaN and inf are ZOE_NONFINITE. */
zoe_status zoe_output_frames_write(zoe_output_frames *out, const float *frames, size_t index,
                                   size_t count);
/* Completes the files. After it or after an error, zoe_output_frames_free. */
zoe_status zoe_output_frames_close(zoe_output_frames *out);
void zoe_output_frames_free(zoe_output_frames *out);

zoe_status zoe_latents_write(zoe_context *ctx, const zoe_job *job);

void zoe_job_progress(const zoe_job *job, zoe_phase phase, size_t done, size_t total);
void zoe_job_observe(const zoe_job *job, const char *name, size_t step, zoe_tensor value);

#endif
