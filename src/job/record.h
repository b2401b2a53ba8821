/* How something was made, as one JSON object: written into videos, pictures and latents, and with
 * paths and outputs into a checkpoint folder; read back from there. For this room only.
 *
 *   format, program, version            format: 1; larger numbers are refused
 *   prompt, negative_prompt             "" for the official negative prompt
 *   image, last_image, model            bare names; those that were given
 *   image_sha256, last_image_sha256     of the pictures' files
 *   model_sha256                        object: zoe_store_fingerprint of each part that the model
 *                                       has: high_noise and low_noise or transformer, vae,
 *                                       text_encoder, clip
 *   model_settings                      object: what the config.json of each transformer says that
 *                                       no tensor shows
 *   instruction_set                     of the kernels
 *   size, width, height                 what was asked for, [w, h]; what the video has
 *   keep_orientation, frames, steps, solver, shift, guide_scale_low_high, boundary, dtype, seed
 *   step_list                           if there is one: [1000, 750, ...], as many as steps
 *   boundary_step                       if experts change by it
 *   frame_rate                          [numerator, denominator]
 *   loras                               if there are any: [{name, high, low, sha256, high_parts,
 *                                       low_parts}]; the last three once they are known
 *   cache                               if there is one: METHOD,key=value,...
 *   ring                                ranks of the ring, if there was one: only it changes last bits
 *   ranks                               in a checkpoint folder, of a run on several: {cfg, ulysses,
 *                                       ring, vae}
 *   tokens_sha256, weights_sha256, weights_stamp, run
 *                                       in a checkpoint folder only
 *
 * A member that is not known is passed over, so that later versions may add some. */
#ifndef ZOE_RECORD_H
#define ZOE_RECORD_H

#include <jansson.h>

#include "job/job.h"

/* The file of a checkpoint folder, and the key of metadata, that hold a record. */
#define ZOE_REQUEST_FILE "request.json"
#define ZOE_RECORD_KEY "zoetrope"

enum {
    ZOE_RECORD_FORMAT = 1,
    ZOE_RECORD_BYTES = 1 << 24, /* no record is longer */
    ZOE_RECORD_PATHS = 17       /* of a request */
};

struct zoe_record {
    char *json;
    json_t *root; /* most strings of params live in it */
    zoe_job_params params;
    zoe_sources sources;
    const char *version, *isa;
    char letters[ZOE_PART_LETTERS]; /* of the parts of the run's outputs; "" in a video */
    char *paths[ZOE_RECORD_PATHS];  /* those that are no UTF-8 */
    char *loras[ZOE_JOB_LORAS];     /* the same of LoRAs */
};

/* Free *text with zoe_free. letters NULL: for the outputs; else for the checkpoint folder, with
 * paths made complete and the letters of the parts. ZOE_INVALID for a prompt that is no UTF-8. */
zoe_status zoe_record_make(zoe_context *ctx, char **text, const zoe_job *job, const char *letters);
/* where: begins the sentence of a refusal. whole: of a checkpoint folder. */
zoe_status zoe_record_parse(zoe_context *ctx, zoe_record **record, const char *text, size_t size,
                            const char *where, bool whole);

/* A list of differences for one sentence, "steps: 20 in the checkpoint, 10 asked for; ...". What
 * does not fit is left out. */
typedef struct zoe_differences {
    char text[6000];
    size_t used;
} zoe_differences;
/* What shapes the result and is not as it was. A negative seed fits any. */
void zoe_request_differences(zoe_differences *d, const zoe_job_params *old,
                             const zoe_job_params *asked);
/* The same for picture, weights, tokens and instruction set; what is not known on one side
 * fits. */
void zoe_source_differences(zoe_differences *d, const zoe_record *old, const zoe_job *job);

#endif
