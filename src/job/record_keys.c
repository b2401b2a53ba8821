/* The words of records. */
#include "job/record_keys.h"

#include <stddef.h>

const char *const zoe_record_solvers[ZOE_RECORD_SOLVERS] = {
    [ZOE_SOLVER_UNIPC] = "unipc", [ZOE_SOLVER_DPMPP] = "dpm++", [ZOE_SOLVER_EULER] = "euler"};

const char *const zoe_record_weights[ZOE_WEIGHTS_COUNT] = {[ZOE_WEIGHTS_HIGH] = "high_noise",
                                                           [ZOE_WEIGHTS_LOW] = "low_noise",
                                                           [ZOE_WEIGHTS_VAE] = "vae",
                                                           [ZOE_WEIGHTS_TEXT] = "text_encoder",
                                                           [ZOE_WEIGHTS_CLIP] = "clip"};
const char zoe_record_single[] = "transformer";

const zoe_record_path zoe_record_path_rows[ZOE_RECORD_PATHS] = {
    {"model", offsetof(zoe_job_params, model)},
    {"high_noise", offsetof(zoe_job_params, high_noise)},
    {"low_noise", offsetof(zoe_job_params, low_noise)},
    {"transformer", offsetof(zoe_job_params, transformer)},
    {"vae", offsetof(zoe_job_params, vae)},
    {"text_encoder", offsetof(zoe_job_params, text_encoder)},
    {"tokenizer", offsetof(zoe_job_params, tokenizer)},
    {"clip", offsetof(zoe_job_params, clip)},
    {"image", offsetof(zoe_job_params, image)},
    {"last_image", offsetof(zoe_job_params, last_image)},
    {"preview_factors", offsetof(zoe_job_params, preview_factors)},
    {"preview", offsetof(zoe_job_params, preview)},
    {"out", offsetof(zoe_job_params, out)},
    {"frames_out", offsetof(zoe_job_params, frames_out)},
    {"latents_out", offsetof(zoe_job_params, latents_out)},
    {"report", offsetof(zoe_job_params, report)},
    {"trace", offsetof(zoe_job_params, trace)},
};

const char *zoe_record_get_path(const zoe_job_params *p, size_t row)
{
    const char *path;
    memcpy(&path, (const char *)p + zoe_record_path_rows[row].at, sizeof path);
    return path;
}

void zoe_record_set_path(zoe_job_params *p, size_t row, const char *path)
{
    memcpy((char *)p + zoe_record_path_rows[row].at, &path, sizeof path);
}
