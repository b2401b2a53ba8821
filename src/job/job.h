/* Room 11, job: one generation from request to frames. params: what may be asked; locate: which
 * file is which part of a checkpoint; open: what the run will be; run: the order of the work;
 * output: where frames go; checkpoint: how a broken-off run goes on; record: how something was made,
 * as JSON; source: what a run is made from, by content. */
#ifndef ZOE_JOB_INTERNAL_H
#define ZOE_JOB_INTERNAL_H

#include "base/digest.h"
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

/* Whose weights: the order of everything that lists them. */
typedef enum zoe_weights {
    ZOE_WEIGHTS_HIGH,
    ZOE_WEIGHTS_LOW,
    ZOE_WEIGHTS_VAE,
    ZOE_WEIGHTS_TEXT,
    ZOE_WEIGHTS_COUNT
} zoe_weights;

/* What a run is made from, by content; "" until it is known. */
typedef struct zoe_sources {
    char image[ZOE_DIGEST_TEXT];                      /* the picture's file */
    char weights[ZOE_WEIGHTS_COUNT][ZOE_DIGEST_TEXT]; /* zoe_store_fingerprint */
    char tokens[ZOE_DIGEST_TEXT];                     /* ids of both prompts */
} zoe_sources;

typedef struct zoe_checkpoint zoe_checkpoint;

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
    struct zoe_preview *preview; /* NULL: nobody looks */
    zoe_sources sources;
    zoe_checkpoint *checkpoint; /* NULL: none is kept */
};

/* What can be told from the numbers of a request alone. ZOE_INVALID. */
zoe_status zoe_params_check_numbers(zoe_context *ctx, const zoe_job_params *params);

/* Finds the parts: explicit paths first, the rest from the model folder in the official or the
 * diffusers layout. */
zoe_status zoe_parts_locate(zoe_context *ctx, zoe_parts *parts, const zoe_job_params *params);
void zoe_parts_free(zoe_parts *parts);

/* The same one by one. */
typedef enum zoe_role {
    ZOE_ROLE_HIGH, /* the transformer of the noisy steps */
    ZOE_ROLE_LOW,
    ZOE_ROLE_VAE,
    ZOE_ROLE_TEXT,
    ZOE_ROLE_TOKENIZER,
    ZOE_ROLES
} zoe_role;
/* The name of the folder's layout, "official" or "diffusers"; NULL if it has none of these. */
zoe_status zoe_layout_find(zoe_context *ctx, const char **name, const char *folder);
/* Where that part lies in a folder of such a layout. Errors: those of zoe_parts_locate. */
zoe_status zoe_role_locate(zoe_context *ctx, char **path, const char *folder, zoe_role role);
/* Is it a transformer of a kind that a job can run? ZOE_UNSUPPORTED if not. */
zoe_status zoe_expert_check(zoe_context *ctx, const zoe_wan_dims *dims, const char *path);
/* config.json in the folder of a transformer, or beside its file; *config stays if there is none. */
zoe_status zoe_config_locate(zoe_context *ctx, char **config, const char *expert);

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

/* Makes job->comment and job->json, unless no metadata are wanted. ZOE_INVALID for a prompt that is
 * no UTF-8. */
zoe_status zoe_job_describe(zoe_context *ctx, zoe_job *job);

/* Digests of the open weights, where they are not known yet: about a second for a large model. */
zoe_status zoe_sources_weights(zoe_context *ctx, zoe_job *job);
zoe_status zoe_sources_tokens(zoe_context *ctx, zoe_job *job);
/* Of everything that shapes the result but the version of the program. */
zoe_status zoe_sources_identity(zoe_context *ctx, const zoe_job *job,
                                char identity[ZOE_DIGEST_TEXT]);

/* The checkpoint of a job; without one, none of these does anything. In their order:
 *
 * attach      opens and locks the folder; an old request must be that of this job, and gives the
 *             seed if the job has none. Removes what a killed run left half written
 * load        once the model, picture and tokens are known: they must be those of before. Fills in
 *             job->context and job->condition if they are kept, and job->plan.steps_done
 * begin       from now on the folder is this run's
 * name_parts  outputs that are opened while it is on are found again after a kill
 * save_...    a disk that is full, or fails, is a warning
 * load_step   latent and history after the last step that is kept; *done is 0 if none is
 * close       lets go; a run that never began leaves nothing behind */
zoe_status zoe_checkpoint_attach(zoe_context *ctx, zoe_job *job);
zoe_status zoe_checkpoint_load(zoe_context *ctx, zoe_job *job);
zoe_status zoe_checkpoint_begin(zoe_context *ctx, zoe_job *job);
void zoe_checkpoint_name_parts(zoe_context *ctx, const zoe_job *job, bool on);
zoe_status zoe_checkpoint_save_context(zoe_context *ctx, const zoe_job *job);
zoe_status zoe_checkpoint_save_condition(zoe_context *ctx, const zoe_job *job);
zoe_status zoe_checkpoint_save_step(zoe_context *ctx, const zoe_job *job, zoe_solver *solver,
                                    size_t done);
zoe_status zoe_checkpoint_load_step(zoe_context *ctx, zoe_job *job, zoe_solver *solver,
                                    size_t *done);
/* Is it the name of a file in such a folder? */
bool zoe_checkpoint_takes(const char *name);
void zoe_checkpoint_close(zoe_checkpoint *checkpoint); /* NULL is fine */

/* The picture, scaled to a frame [H, W, 3] in about [-1, 1]; free *frame. */
zoe_status zoe_picture_to_frame(zoe_context *ctx, float **frame, size_t H, size_t W,
                                const zoe_picture *picture);

/* Counts the steps of each expert and the passes of the run into job->plan. */
void zoe_plan_steps(zoe_job *job);
/* Fills in the bytes that are held at once in each phase, and holds them against params.memory or,
 * without it, against the machine. Errors: ZOE_FORMAT if VAE and transformer differ in latent
 * channels; ZOE_NOMEM if memory does not suffice, with what would fit. */
zoe_status zoe_plan_bytes(zoe_context *ctx, zoe_job *job);

/* Gets ready to show the run, if that is asked for: factors are read, memory is taken. Errors: those
 * of a file of factors that is named or found, ZOE_NOMEM. */
zoe_status zoe_preview_open(zoe_context *ctx, zoe_job *job);
/* Shows what step `step` (0, 1, ...) leads to; after guidance, before the solver. What goes wrong is
 * a warning, once. */
void zoe_preview_step(zoe_context *ctx, const zoe_job *job, size_t step);
void zoe_preview_free(struct zoe_preview *preview); /* NULL is fine */

/* The number in the name of a PNG file of a clip, "frame_00012.png"; SIZE_MAX for other names. */
size_t zoe_frame_number(const char *name);
/* Checks that no two outputs and no output and input are the same file, however they are spelled.
 * ZOE_INVALID if they are. */
zoe_status zoe_places_check(zoe_context *ctx, const zoe_job_params *params);
/* Checks that the outputs asked for can be written. */
zoe_status zoe_outputs_probe(zoe_context *ctx, const zoe_job_params *params, size_t width,
                             size_t height);
/* Is there room on the disks for them? ZOE_INVALID if there is surely not; a warning if there is
 * probably not. */
zoe_status zoe_space_check(zoe_context *ctx, const zoe_job *job);
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
