/* One generation, from request to frames.
 *
 *     zoe_job_params p;
 *     zoe_job_params_init(&p);
 *     p.model = "Wan2.2-I2V-A14B";
 *     p.image = "cat.png";
 *     p.prompt = "A cat jumps.";
 *     p.out = "cat.mp4";
 *     zoe_job *job = NULL;
 *     status = zoe_job_new(ctx, &job, &p);
 *     if (status == ZOE_OK)
 *         status = zoe_job_open(ctx, job);
 *     if (status == ZOE_OK)
 *         status = zoe_job_run(ctx, job);
 *     zoe_job_free(job);
 *
 * zoe_job_new checks the options and loads nothing; zoe_job_open looks at headers and picture and
 * makes the plan; zoe_job_run does the work, once. Files appear under their names when complete.
 */
#ifndef ZOETROPE_JOB_H
#define ZOETROPE_JOB_H

#include <stdint.h>

#include "zoetrope/cache.h"
#include "zoetrope/comm.h"
#include "zoetrope/solver.h"
#include "zoetrope/status.h"
#include "zoetrope/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Where a run is. */
typedef enum zoe_phase {
    ZOE_PHASE_TEXT,   /* text encoder */
    ZOE_PHASE_ENCODE, /* VAE, picture to latent */
    ZOE_PHASE_STEPS,  /* denoising */
    ZOE_PHASE_DECODE, /* VAE, latent to frames, and writing them */
    ZOE_PHASE_COUNT
} zoe_phase;

/* "text", "encode", "steps", "decode". */
const char *zoe_phase_name(zoe_phase phase);

/* Called by the thread that runs the job: at the start of a phase (done 0), and after each unit of
 * it: a prompt, a chunk of frames, a step. */
typedef void (*zoe_progress_fn)(void *user, zoe_phase phase, size_t done, size_t total);

/* Sees named intermediates of a run, for tests and tools: "noise", "y", "context", "context_null",
 * and, once a step, "latents", "v_cond", "v_uncond"; then "latent_final". f32, dense. */
typedef void (*zoe_observe_fn)(void *user, const char *name, size_t step, zoe_tensor value);

/* A look at the run after a step: what the latent would become if the network were right now, as a
 * small RGB picture, [height, width, 3] bytes, valid during the call. */
typedef void (*zoe_preview_fn)(void *user, size_t step, const unsigned char *rgb, size_t width,
                               size_t height);

/* Sees each frame of the video as it is written, RGB, [height, width, 3] bytes, valid during the
 * call. If no output is asked for, the clip is decoded for it alone. */
typedef void (*zoe_frame_fn)(void *user, size_t frame, const unsigned char *rgb, size_t width,
                             size_t height);

/* What a step was. */
typedef struct zoe_job_step {
    size_t step;
    bool low_noise; /* the low-noise expert's; false without experts */
    double noise;   /* level at its beginning, 1 to 0 */
    double seconds;
    struct zoe_job_pass {
        bool ran;        /* there is such a branch: both with guidance */
        bool computed;   /* not left out by the step cache */
        double distance; /* what the cache measured; NAN: nothing */
    } branch[2];         /* conditional, unconditional */
} zoe_job_step;
/* Called after each step, before its progress is. */
typedef void (*zoe_step_fn)(void *user, const zoe_job_step *step);

/* Called after each pass of the network: what changed in it. branch: 0 conditional, 1 unconditional.
 * Such a run computes every pass, so it has no step cache and no checkpoint; without an output it
 * ends with the steps. It holds five hidden states more. */
typedef void (*zoe_change_fn)(void *user, size_t step, bool low_noise, size_t branch,
                              const zoe_cache_change *change);

typedef struct zoe_job zoe_job;

/* A file of differences to the weights of the transformers. */
typedef struct zoe_job_lora {
    const char *path;
    double high, low; /* strength with each expert; 0: it is not used there. NAN: 1, but 0 with the
                         expert that the file is not made for by its name. A model without experts
                         goes by `high` */
} zoe_job_lora;
enum {
    ZOE_JOB_LORAS = 8,
    ZOE_JOB_STEP_LIST = 64 /* the most steps of a list */
};
/* zoe_job_params.boundary_step: experts change by the noise level, not by the number of the step. */
#define ZOE_NO_BOUNDARY_STEP SIZE_MAX

/* A request. zoe_job_params_init gives the defaults of one model, zoe_job_params_suit those of any; NULL and 0 in optional fields mean
 * "not given". Strings belong to the caller and must live as long as the job. */
typedef struct zoe_job_params {
    /* The checkpoint: a folder in the official or the diffusers layout, and/or its parts one by
     * one. */
    const char *model;
    const char *high_noise, *low_noise; /* transformer of each expert: file or folder */
    const char *transformer;            /* the only one, of a model without experts */
    const char *vae, *text_encoder, *tokenizer;
    const char *clip; /* image tower, of a model that takes its features */

    const char *image;      /* the picture that the video begins with */
    const char *last_image; /* the one that it ends with */
    const char *prompt;
    const char *negative_prompt; /* NULL or "": the official one */
    bool keep_orientation; /* ignore the picture's EXIF orientation, as the official code does */

    size_t width,
        height; /* their product is the area of the frames, the ratio follows the picture; without
                      a picture, their sides */
    size_t frames; /* 4 n + 1 */
    size_t steps;
    /* The steps of a model distilled to few, of 1000 and before the shift, strictly falling: 1000, 750,
     * 500, 250. Their number stands in the place of `steps`; the solver must be Euler. 0 of them: evenly
     * spaced ones. */
    double step_list[ZOE_JOB_STEP_LIST];
    size_t step_list_count;
    zoe_solver_kind solver;
    double shift;
    double guide_low,
        guide_high;  /* guidance scale of each expert; 1 turns guidance off. Equal for a
                                     model without experts */
    double boundary; /* of timestep/1000: from there up the high-noise expert works.
                                     Without experts it changes nothing */
    /* The first so many steps, 0 to all, are the high-noise expert's, in the place of `boundary`: for
     * models with experts. ZOE_NO_BOUNDARY_STEP: they go by `boundary`. */
    size_t boundary_step;
    int64_t seed; /* negative: random */
    bool bf16;    /* round as the official code does with a bf16 model; else f32 */
    bool int8;    /* the transformers' large layers in int8: faster, less memory, and not the
                     same video to the bit. See docs/NUMERICS.md */
    int fps_num, fps_den;

    zoe_job_lora loras[ZOE_JOB_LORAS]; /* they add up: docs/LORA.md */
    size_t lora_count;
    const char *cache; /* step cache, as zoe_cache_params_parse reads it; NULL: none */

    const char *out;         /* video: .mp4, .webm, .y4m, or "-" (Y4M to standard output) */
    const char *frames_out;  /* folder for frame_00000.png ... */
    const char *latents_out; /* safetensors with the final latent as tensor "latents" */
    bool no_metadata;

    /* A folder that keeps the state of the run after every finished stage and step, so that a run
     * that was killed can go on: NULL for none. With resume the run goes on from what lies there,
     * and begins anew, with a warning, if nothing does; what shapes the result must be as it was, a
     * negative seed takes the one of before. Without resume the folder must hold no checkpoint. The
     * request is still to be given whole: zoe_record_read has that of a folder. See
     * docs/RESUME.md. */
    const char *checkpoint;
    bool resume;

    /* Ranks that share the run. Each of them calls zoe_job_new, zoe_job_open and zoe_job_run with the
     * same request on its own end of the comm; the first one alone reads and writes checkpoint and
     * outputs, and sees frames. A failure of one ends the calls of all, those of the others with
     * ZOE_PEER and "rank N: ..."; after that the comm is of no more use. The comm must outlive the job.
     * See docs/PARALLEL.md. */
    zoe_comm *comm;       /* NULL: one rank */
    size_t cfg_ranks;     /* 2: each branch of guidance has half of the ranks; 1 */
    size_t ulysses, ring; /* ranks that share the tokens of a branch. cfg_ranks ulysses ring is the
                              number of ranks; 0s are chosen */
    size_t vae_ranks;     /* the first so many share the frames of the VAE; 0: all */
    bool ring_steps;    /* keys and values go round step by step, in less memory, instead of all at
                              once */
    bool shard_weights; /* each rank keeps a share of every block of the transformers, and gets the
                              rest from the others just before it is used */
    const char *trace;  /* file for what happened when on all ranks, in Chrome's trace format */

    size_t
        memory; /* bytes that the run may hold at once; 0: what is free. Weights that do not fit are
                      streamed; what does not fit even so is ZOE_NOMEM, with what would fit */

    const char *report;  /* a file that the caller writes after the run: checked like the outputs
                            and noted in a checkpoint, no more */
    const char *preview; /* PNG file, written anew after every step */
    const char
        *preview_factors; /* JSON made by `zoe preview-fit`; NULL: preview.json beside the VAE,
                                    else fitted to the picture of this run */

    zoe_progress_fn progress;
    zoe_observe_fn observe;
    zoe_preview_fn show_preview;
    zoe_frame_fn frame;
    zoe_step_fn step_done;
    zoe_change_fn changed;
    void *user; /* of all of them */
} zoe_job_params;

/* The defaults of Wan2.2-I2V-A14B: 81 frames, 40 UniPC steps, shift 5, guidance 3.5 and 3.5,
 * boundary 0.9, 1280x720, 16 frames a second, random seed, f32. */
void zoe_job_params_init(zoe_job_params *params);

typedef enum zoe_picture_use {
    ZOE_PICTURE_NONE, /* the model takes none */
    ZOE_PICTURE_OPTIONAL,
    ZOE_PICTURE_NEEDED
} zoe_picture_use;

/* What a model is and takes. */
typedef struct zoe_job_model {
    const char *task; /* as the official program calls it: "i2v-A14B" */
    const char *name; /* "Wan 2.2 I2V-A14B" */
    zoe_picture_use image, last_image;
    size_t transformers; /* 2: experts for high and low noise */
} zoe_job_model;

/* Looks at the headers of the model that params name, and gives params the defaults of that model
 * as the official program has them: steps, shift, guidance, boundary, frames, frame rate, and
 * the size, unless keep_size says that the size is asked for (the shift of Wan 2.1 I2V depends on
 * it), and boundary, where model_index.json of the folder has a boundary_ratio. The other members stay.
 * model may be NULL; its texts live forever.
 *
 *   task        steps  shift       guidance  boundary  frames, a second  size
 *   i2v-A14B    40     5           3.5, 3.5  0.9       81, 16            1280x720
 *   t2v-A14B    40     12          3, 4      0.875     81, 16            1280x720
 *   ti2v-5B     50     5           5                   121, 24           1280x704
 *   t2v-1.3B    50     5           5                   81, 16            832x480
 *   t2v-14B     50     5           5                   81, 16            1280x720
 *   i2v-14B     40     5, 3 at     5                   81, 16            1280x720
 *                      832x480
 *   flf2v-14B   50     16          5                   81, 16            1280x720
 *
 * Errors: ZOE_INVALID (params name no whole model), and those of zoe_job_open that come from the
 * model's files; params are then as before. */
zoe_status zoe_job_params_suit(zoe_context *ctx, zoe_job_params *params, bool keep_size,
                               zoe_job_model *model);

/* How something was made: a request as it was noted in a video, a PNG, a file of latents or a
 * checkpoint folder. Strings of the request live as long as the record. */
typedef struct zoe_record zoe_record;

/* Reads the record of a file of ours (.mp4, .webm, .png, latents) or of a checkpoint folder.
 * Errors: ZOE_MISSING (no such file, or nothing noted in it), ZOE_FORMAT, ZOE_UNSUPPORTED (made by
 * a version whose notes this one does not know), ZOE_IO, ZOE_NOMEM. */
zoe_status zoe_record_read(zoe_context *ctx, zoe_record **record, const char *path);
void zoe_record_free(zoe_record *record); /* NULL is fine */
/* The request. Of a video, paths are bare names (of the picture and of the model's folder, without
 * a '/'; NULL if they were not noted) and outputs are not given; of a checkpoint folder, paths are
 * complete and outputs are those of the run. The seed is the one used; checkpoint and resume are
 * not set. Numbers are within the ranges that zoe_job_new accepts. */
const zoe_job_params *zoe_record_params(const zoe_record *record);
/* The whole note as JSON text, as it was found. */
const char *zoe_record_json(const zoe_record *record);
/* SHA-256 of the picture's file; "" if it was not noted. */
const char *zoe_record_image_digest(const zoe_record *record);
/* The same of the last picture. */
const char *zoe_record_last_image_digest(const zoe_record *record);

/* Compares the job's picture and model with a record's: one ZOE_WARNING to the log for each that is
 * another one. Between zoe_job_open and zoe_job_run. Errors: ZOE_NOMEM, ZOE_FORMAT (a file of the
 * model shrank), ZOE_CANCELLED. */
zoe_status zoe_record_compare(zoe_context *ctx, const zoe_record *record, zoe_job *job);

/* Checks what can be told from the request alone, and takes the checkpoint folder, which no other
 * job can have at the same time. Errors: ZOE_INVALID (also: the checkpoint is that of another
 * request), ZOE_UNSUPPORTED (output suffix), ZOE_IO (output or checkpoint cannot be written there,
 * or the folder is taken), ZOE_FORMAT (the checkpoint is broken), ZOE_NOMEM. */
zoe_status zoe_job_new(zoe_context *ctx, zoe_job **job, const zoe_job_params *params);

/* The layers of a network, and how many of them stay in memory once they are there: if that is not all,
 * the others are streamed, read ahead of use and let go afterwards (docs/MEMORY.md). */
typedef struct zoe_residency {
    size_t layers, resident;
} zoe_residency;

/* What a run will be and take. Bytes of a phase are those held at once in it: mapped weights and
 * work memory. */
typedef struct zoe_plan {
    zoe_job_model model;
    size_t width, height, frames;         /* of the video */
    size_t picture_width, picture_height; /* of the picture given; 0 without one */
    size_t latent_frames, latent_height, latent_width;
    size_t tokens; /* of the transformer */
    size_t prompt_tokens, negative_tokens;
    size_t high_steps, low_steps; /* steps of each expert; all are high without experts */
    size_t passes;                /* transformer passes of the whole run */
    size_t steps_done;            /* steps that the checkpoint has already */
    size_t bytes[ZOE_PHASE_COUNT];
    /* Of the text encoder, and of the transformer at work. */
    zoe_residency text_residency, steps_residency;
    /* Each layer runs for both branches before the next, so that it is read once a step. */
    bool pairs;
    size_t peak;  /* the most of all phases, with what lives through all of them */
    int64_t seed; /* the one used */
    size_t ranks, cfg_ranks, ulysses, ring, vae_ranks; /* bytes are those of this rank */
    size_t host_ranks, host_peak; /* ranks on its host, and the most that these hold together */
} zoe_plan;

/* Opens the checkpoint's headers, the tokenizer and the picture; checks that everything that is
 * needed is there and fits together. Errors: ZOE_MISSING, ZOE_FORMAT, ZOE_UNSUPPORTED, ZOE_IO: a
 * file is at fault; ZOE_INVALID: the options do not suit model or picture. */
zoe_status zoe_job_open(zoe_context *ctx, zoe_job *job);
/* After zoe_job_open. */
const zoe_plan *zoe_job_plan(const zoe_job *job);

/* The record that is written into the outputs, as JSON text: valid while the job is. NULL with
 * no_metadata. After zoe_job_open. */
const char *zoe_job_record(const zoe_job *job);

/* A part of the model, and what it is read from. */
typedef struct zoe_job_part {
    const char *role, *path; /* "high-noise transformer"; path NULL: the model has no such part */
    size_t bytes;            /* mapped; 0 unknown */
    const char *fingerprint; /* SHA-256 of names, shapes and samples of the tensors; "" unknown */
} zoe_job_part;
enum { ZOE_JOB_PARTS = 6 };
/* Between zoe_job_open and zoe_job_run; texts live as long as the job. */
void zoe_job_list_parts(const zoe_job *job, zoe_job_part parts[ZOE_JOB_PARTS]);

/* Runs it. Errors also: ZOE_NONFINITE (stage, step, expert and branch are named; no file is
 * written), ZOE_CANCELLED. */
zoe_status zoe_job_run(zoe_context *ctx, zoe_job *job);
void zoe_job_free(zoe_job *job); /* NULL is fine */

/* What the step cache did in the steps of this process: those of an earlier run of the checkpoint are
 * not counted. A step is skipped if no branch of it was computed. */
typedef struct zoe_cache_outcome {
    bool used; /* there was one, and steps ran */
    size_t high_computed, high_skipped, low_computed, low_skipped;
    size_t bad;                      /* passes whose measure was 0, NaN or infinite */
    float smallest, median, largest; /* of the distances measured; NAN without any */
} zoe_cache_outcome;
/* After zoe_job_run. */
const zoe_cache_outcome *zoe_job_cache_outcome(const zoe_job *job);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
