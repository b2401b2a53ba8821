/* The LoRAs of a job: which there are, beside which weights, and what is noted of them. */
#ifndef ZOE_JOB_LORA_H
#define ZOE_JOB_LORA_H

#include "job/record.h"

/* Are the strengths numbers, and is there a path to each? NAN is none. ZOE_INVALID. */
zoe_status zoe_loras_check_numbers(zoe_context *ctx, const zoe_job_params *params);
/* Looks at the names and titles of the files and gives the strengths that were not given. */
zoe_status zoe_loras_resolve(zoe_context *ctx, zoe_job *job);
/* Opens the files and applies them to the open transformers. Says how one that is made for few steps,
 * or such a model, is run by those who made it, if the run is another one; and warns of few steps of a
 * model that no name tells to be made for them. Errors: those of zoe_lora_open and zoe_wan_adapt. */
zoe_status zoe_loras_open(zoe_context *ctx, zoe_job *job);
/* Closes those of an expert, whose network is closed already. */
void zoe_loras_close(zoe_job *job, size_t expert);

/* Those of an expert have not shrunk. */
zoe_status zoe_loras_check(zoe_context *ctx, const zoe_job *job, zoe_expert expert);
/* They are not needed now. */
void zoe_loras_drop(const zoe_job *job, zoe_expert expert);
/* Bytes of the files of an expert. */
size_t zoe_loras_bytes(const zoe_job *job, size_t expert);
/* The transformers' sizes, with the rank for which texts and work memory must serve. */
zoe_wan_dims zoe_loras_dims(const zoe_job *job);
/* Is one of those in use, or the model, made for few steps? */
bool zoe_loras_distilled(const zoe_job *job);

zoe_status zoe_loras_fingerprint(zoe_context *ctx, zoe_job *job);
/* Adds strengths and contents, if there are any. */
void zoe_loras_identify(const zoe_job *job, zoe_digest *digest);
/* ", LoRA: NAME (high 1, low 0.8)" for each; free *text. */
zoe_status zoe_loras_describe(zoe_context *ctx, char **text, const zoe_job *job);

#endif
