/* Room 11, job: one generation from request to frames. params: what may be asked; family: which
 * models there are; locate: which file is which part of a checkpoint; open: what the run will be;
 * picture: what the video begins and ends with; encode: pictures to what the steps go by; run: the
 * order of the work;
 * ranks: who does what of it;
 * output: where frames go; checkpoint: how a broken-off run goes on; record: how something was made,
 * as JSON; source: what a run is made from, by content; lora, step_cache: LoRAs and the step cache of a
 * run. */
#ifndef ZOE_JOB_INTERNAL_H
#define ZOE_JOB_INTERNAL_H

#include "base/digest.h"
#include "base/file.h"
#include "base/random.h"
#include "base/trace.h"
#include "comm/comm.h"
#include "media/media.h"
#include "model/model.h"
#include "sample/cache.h"
#include "sample/gauge.h"
#include "sample/sample.h"
#include "text/text.h"
#include "zoetrope/job.h"

enum {
    ZOE_EXPERTS = 2,      /* indexed by zoe_expert */
    ZOE_MASK_CHANNELS = 4 /* of the condition, before the picture's latent */
};

typedef enum zoe_branch { ZOE_COND, ZOE_UNCOND, ZOE_BRANCHES } zoe_branch;

/* Paths of the parts of a checkpoint; free with zoe_parts_free. The transformer of a model that has
 * only one lies in the place of the high-noise expert, here and in zoe_job. */
typedef struct zoe_parts {
    size_t transformers;
    char *expert[ZOE_EXPERTS];
    char *expert_config[ZOE_EXPERTS]; /* config.json beside it, or NULL */
    char *vae, *text_encoder, *tokenizer;
    char *clip;      /* NULL: none was given, and none is there */
    double boundary; /* that the folder says; 0: it says none */
} zoe_parts;

/* ---- families ---- */

typedef enum zoe_size_rule {
    ZOE_SIZE_I2V,    /* zoe_size_i2v, and bicubic */
    ZOE_SIZE_TI2V,   /* zoe_size_ti2v, and zoe_picture_cover */
    ZOE_SIZE_LITERAL /* what is asked for: always without a picture */
} zoe_size_rule;

/* A kind of model, with what the official code has for it. */
typedef struct zoe_family {
    zoe_job_model model;
    bool masked; /* takes a condition: mask and latent of the clip that is known */
    bool still;  /* a picture is the first latent frame, which the steps leave as it is */
    bool clip;   /* takes CLIP features of the pictures */
    bool narrow; /* the smaller one of two that differ in nothing but size */
    zoe_size_rule rule;
    size_t width, height, frames, steps;
    double shift, guide_low, guide_high, boundary;
    double shift_832x480; /* at this area */
    int fps;
    const char *negative; /* stands before zoe_default_negative_prompt */
} zoe_family;

/* The family of a network of these sizes, of which the model has so many. ZOE_UNSUPPORTED. */
zoe_status zoe_family_find(zoe_context *ctx, const zoe_family **family, const zoe_wan_dims *dims,
                           size_t transformers, const char *path);

/* Whose weights: the order of everything that lists them. */
typedef enum zoe_weights {
    ZOE_WEIGHTS_HIGH, /* or the only transformer */
    ZOE_WEIGHTS_LOW,
    ZOE_WEIGHTS_VAE,
    ZOE_WEIGHTS_TEXT,
    ZOE_WEIGHTS_CLIP,
    ZOE_WEIGHTS_COUNT
} zoe_weights;

/* Those of an expert. */
static inline zoe_weights zoe_weights_of(size_t expert)
{
    return expert == ZOE_HIGH_NOISE ? ZOE_WEIGHTS_HIGH : ZOE_WEIGHTS_LOW;
}

enum { ZOE_SETTINGS_TEXT = 96 };

/* What a run is made from, by content; "" until it is known, and of what it has not. */
typedef struct zoe_sources {
    char image[ZOE_DIGEST_TEXT], last_image[ZOE_DIGEST_TEXT]; /* the pictures' files */
    char weights[ZOE_WEIGHTS_COUNT][ZOE_DIGEST_TEXT];         /* zoe_store_fingerprint */
    char digests[ZOE_WEIGHTS_COUNT][ZOE_DIGEST_TEXT]; /* zoe_store_digest, for checkpoints */
    char stamps[ZOE_WEIGHTS_COUNT][ZOE_DIGEST_TEXT];  /* zoe_store_stamp, likewise */
    char settings[ZOE_EXPERTS][ZOE_SETTINGS_TEXT];    /* what no tensor tells, for people */
    char tokens[ZOE_DIGEST_TEXT];                     /* ids of both prompts */
    char loras[ZOE_JOB_LORAS][ZOE_DIGEST_TEXT];       /* zoe_store_fingerprint */
} zoe_sources;

typedef struct zoe_checkpoint zoe_checkpoint;

/* The pictures of a run. */
typedef enum zoe_end { ZOE_FIRST, ZOE_LAST, ZOE_ENDS } zoe_end;

/* The ranks on this rank's host, and what the others of them hold at once in each phase. Weights that
 * all map are there once, and are no part of it. */
typedef struct zoe_host {
    size_t ranks;
    size_t others[ZOE_PHASE_COUNT];
    /* Parts of weights that only the others have; they may be dropped and read again. */
    size_t shards;
} zoe_host;

/* The ranks of a run; see job/ranks.h. NULL groups: this rank is alone in it. */
typedef struct zoe_ranks {
    zoe_comm *all;
    size_t count, rank;
    size_t cfg, ulysses, ring, vae; /* as in zoe_job_params, none of them 0 */
    size_t branch, token;           /* place in cfg_group and in token_group */
    zoe_comm *cfg_group, *token_group;
    zoe_sequence sequence; /* of token_group */
    zoe_host host;
    bool audit; /* for tests: decisions of step caches are compared */
} zoe_ranks;

struct zoe_job {
    zoe_job_params params;
    zoe_ranks ranks;
    zoe_plan plan;
    bool forget; /* weights that are streamed need not stay in the system's page cache */
    zoe_parts parts;
    const zoe_family *family; /* from zoe_job_open on */
    zoe_schedule schedule;

    zoe_store *text_store, *vae_store, *clip_store, *expert_store[ZOE_EXPERTS];
    zoe_umt5 *umt5;
    zoe_clip *clip;
    zoe_wan *wan[ZOE_EXPERTS];

    char *comment, *json; /* how the video is made, for its metadata; NULL: not wanted */
    int32_t *ids[ZOE_BRANCHES];
    size_t id_count[ZOE_BRANCHES];
    float *context[ZOE_BRANCHES];  /* [id_count, text width] */
    size_t stride;                 /* pixels a side to a latent position */
    float *picture[ZOE_ENDS];      /* [height, width, 3] in about [-1, 1]; NULL: not given */
    float *clip_picture[ZOE_ENDS]; /* [3, side, side]: what the CLIP tower sees */
    float *condition; /* y: [4 mask + z, f, h, w]; of a still first frame [z, 1, h, w] */
    float *features;  /* [feature_rows, image_dim] of CLIP */
    size_t feature_rows;
    size_t latent_count; /* z f h w */
    float *latent, *velocity[ZOE_BRANCHES];
    struct zoe_preview *preview; /* NULL: nobody looks */
    zoe_sources sources;
    zoe_checkpoint *checkpoint;                 /* NULL: none is kept, or by the first rank */
    bool kept_context, kept_condition;          /* by an old checkpoint; on all ranks */
    zoe_lora *lora[ZOE_EXPERTS][ZOE_JOB_LORAS]; /* NULL: not used there */
    zoe_lora_hint lora_hint[ZOE_JOB_LORAS];
    zoe_lora_hint model_hint; /* of the transformers' names; from zoe_job_open on */
    zoe_cache_params cache_params;
    zoe_cache *cache;                /* while the steps run */
    struct zoe_cache_spread *spread; /* the same, of a cache that lies on several ranks */
    zoe_gauge *gauge;                /* the same; NULL: nobody listens to params.changed */
    zoe_cache_outcome cache_outcome;
    zoe_trace *trace;    /* NULL: none is wanted */
    zoe_context *traced; /* what it is set in */
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
    ZOE_ROLE_TRANSFORMER, /* the only one */
    ZOE_ROLE_VAE,
    ZOE_ROLE_TEXT,
    ZOE_ROLE_TOKENIZER,
    ZOE_ROLE_CLIP,
    ZOE_ROLES
} zoe_role;
/* The name of the folder's layout, "official" or "diffusers"; NULL if it has none of these. */
zoe_status zoe_layout_find(zoe_context *ctx, const char **name, const char *folder);
/* Where that part lies in a folder of such a layout; NULL if the layout has no such part, or, for
 * CLIP, if it is not there. Errors: those of zoe_parts_locate. */
zoe_status zoe_role_locate(zoe_context *ctx, char **path, const char *folder, zoe_role role);
/* Is it a transformer of a kind that a job can run, alone or with another one? ZOE_UNSUPPORTED if
 * not. */
zoe_status zoe_expert_check(zoe_context *ctx, const zoe_wan_dims *dims, const char *path);
/* Does the request name a whole model, and no part twice? ZOE_INVALID. */
zoe_status zoe_params_check_model(zoe_context *ctx, const zoe_job_params *params);
/* Opens a transformer's store and network. */
zoe_status zoe_expert_open(zoe_context *ctx, zoe_store **store, zoe_wan **wan, const char *path,
                           const char *config, bool bf16);
/* config.json in the folder of a transformer, or beside its file; *config stays if there is none. */
zoe_status zoe_config_locate(zoe_context *ctx, char **config, const char *expert);

/* After a part could not be opened with that status: says in front what the file is, if it is not what
 * is wanted (a content of zoetrope/inspect.h). Returns the status. */
zoe_status zoe_part_blame(zoe_context *ctx, zoe_status status, const char *path, const char *role,
                          int wanted);

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
/* Digests of every byte of the weights: those of `old` (NULL: none) for files that were not written to
 * since, the others by reading them. */
zoe_status zoe_sources_digests(zoe_context *ctx, zoe_job *job, const zoe_sources *old);
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

/* Does the run go by a condition, CLIP features included? One of text alone does not. */
bool zoe_job_has_condition(const zoe_job *job);
/* The condition as a tensor. */
zoe_tensor zoe_condition_tensor(const zoe_job *job);
/* Pictures to job->condition and job->features of all ranks, unless a checkpoint has them. */
zoe_status zoe_job_encode(zoe_context *ctx, zoe_job *job);
/* Latent frames that are given, not made: the first ones. */
size_t zoe_still_frames(const zoe_job *job);

/* Reads the pictures and finds the sizes; job->stride and the transformer are known. */
zoe_status zoe_pictures_read(zoe_context *ctx, zoe_job *job);
/* The size of a video of about this area in the shape of the picture, or of what is asked for. */
zoe_status zoe_job_size(zoe_context *ctx, const zoe_job *job, size_t area, size_t *height,
                        size_t *width);

/* The picture, scaled to a frame [H, W, 3] in about [-1, 1]; free *frame. */
zoe_status zoe_picture_to_frame(zoe_context *ctx, float **frame, size_t H, size_t W,
                                const zoe_picture *picture);

/* Is the latent decoded? Also if no output is asked for, for zoe_job_params.frame. */
bool zoe_job_makes_frames(const zoe_job_params *params);
/* Whose step it is; ZOE_HIGH_NOISE without experts. */
zoe_expert zoe_job_expert(const zoe_job *job, size_t step);
/* Counts the steps of each expert and the passes of the run into job->plan. */
void zoe_plan_steps(zoe_job *job);
/* Before zoe_plan_bytes: finds which ranks are on one host, and what these hold together. All ranks call
 * it. */
zoe_status zoe_plan_share(zoe_context *ctx, zoe_job *job, const zoe_vae *vae);
/* Fills in the bytes that are held at once in each phase, and holds them against params.memory or,
 * without it, with those of the other ranks on this host against the machine. Errors: ZOE_NOMEM if
 * memory does not suffice, with what would fit. */
zoe_status zoe_plan_bytes(zoe_context *ctx, zoe_job *job, const zoe_vae *vae);
/* params.memory of a job that is only to be looked at: whatever it takes, it is not refused. */
#define ZOE_JOB_ENDLESS SIZE_MAX

/* What a rank holds at once in each phase, with job->ranks as they are: mapped weights, all of them or
 * what is left of them when they are streamed, and everything else, in either case. */
typedef struct zoe_rank_bytes {
    size_t weights[ZOE_PHASE_COUNT], work[ZOE_PHASE_COUNT];
    size_t least[ZOE_PHASE_COUNT], streaming[ZOE_PHASE_COUNT];
    size_t fixed; /* that part of work that is there in every phase */
    size_t texts; /* of the steps' work: keys and values of the prompts, */
    size_t cache; /* and the step cache */
} zoe_rank_bytes;
void zoe_plan_count(zoe_context *ctx, const zoe_job *job, const zoe_vae *vae,
                    zoe_rank_bytes *bytes);

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
/* Do two paths mean one file, however they are spelled? NULL meets nothing. */
bool zoe_places_meet(const char *a, const char *b);
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

/* With params.trace, from zoe_job_new on: records what this context does, and, at the end, writes what
 * all ranks recorded. */
zoe_status zoe_job_trace_begin(zoe_context *ctx, zoe_job *job);
zoe_status zoe_job_trace_write(zoe_context *ctx, zoe_job *job);
/* After a failure: writes what there is on the first rank, as the others cannot be asked any more. What
 * goes wrong is a warning. */
void zoe_job_trace_keep(zoe_context *ctx, zoe_job *job);
void zoe_job_trace_end(zoe_job *job);

zoe_status zoe_latents_write(zoe_context *ctx, const zoe_job *job);

void zoe_job_progress(const zoe_job *job, zoe_phase phase, size_t done, size_t total);
void zoe_job_observe(const zoe_job *job, const char *name, size_t step, zoe_tensor value);

#endif
