/* What a checkpoint is: which parts it has, what each holds, what it lacks, and whether this
 * library can use it.
 *
 *     zoe_inspection *inspection = NULL;
 *     status = zoe_inspect(ctx, &inspection, "Wan2.2-I2V-A14B");
 *     if (status == ZOE_OK)
 *         status = zoe_inspection_verify(ctx, inspection, NULL, NULL);
 *     ... zoe_inspection_sound(inspection), zoe_inspection_part(inspection, i) ...
 *     zoe_inspection_free(inspection);
 *
 * What is at fault in a file is no error of these functions but a finding, kept as a sentence. */
#ifndef ZOETROPE_INSPECT_H
#define ZOETROPE_INSPECT_H

#include "zoetrope/status.h"
#include "zoetrope/store.h"
#include "zoetrope/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum zoe_content {
    ZOE_CONTENT_UNKNOWN, /* tensors of something else, or a file that cannot be read */
    ZOE_CONTENT_WAN_DIT,
    ZOE_CONTENT_WAN_VAE_21,
    ZOE_CONTENT_WAN_VAE_22,
    ZOE_CONTENT_UMT5,
    ZOE_CONTENT_CLIP,
    ZOE_CONTENT_LORA,
    ZOE_CONTENT_LATENTS,
    ZOE_CONTENT_TOKENIZER
} zoe_content;

/* "wan-dit", "wan-vae-2.1", "wan-vae-2.2", "umt5", "clip", "lora", "latents", "tokenizer",
 * "unknown". */
const char *zoe_content_name(zoe_content content);

/* A list of texts; `total` may be more than are kept. */
typedef struct zoe_texts {
    char **text;
    size_t n, total;
} zoe_texts;

typedef struct zoe_type_share {
    zoe_dtype dtype;
    size_t tensors, bytes;
} zoe_type_share;

typedef struct zoe_dimension {
    const char *name; /* "dim", "layers", ... */
    size_t value;
} zoe_dimension;

typedef struct zoe_nonfinite {
    const char *name; /* official */
    const char *file;
    size_t nans, infs;
} zoe_nonfinite;

typedef struct zoe_file_info {
    char *path;
    size_t bytes;
    char sha256[65]; /* "" if it was not asked for, or the file cannot be read */
} zoe_file_info;

enum { ZOE_TYPE_SHARES = 16, ZOE_DIMENSIONS = 10 };

/* One part of a checkpoint: a file, a shard index or a folder with such. */
typedef struct zoe_part_info {
    const char *role; /* by its place in a known layout, such as "high-noise transformer"; NULL */
    char *path;
    zoe_content content;
    char *what;       /* in words: "Wan 2.2 I2V-A14B transformer (one of its two experts)" */
    char *names;      /* whose names the tensors have: "official", "diffusers", ...; NULL */
    zoe_store *store; /* under official names; NULL if there is none or it cannot be opened */
    size_t tensors, bytes;
    zoe_type_share shares[ZOE_TYPE_SHARES];
    size_t n_shares;
    zoe_dimension dims[ZOE_DIMENSIONS];
    size_t n_dims;
    bool supported;    /* zoe_job can use it */
    char *refusal;     /* why it cannot; NULL */
    zoe_texts missing; /* tensors that the network lacks, ".*" for a whole block */
    zoe_texts unknown; /* tensors that it does not know */
    bool sound;        /* whole, as far as was looked */
    zoe_file_info *files;
    size_t n_files;
    /* after zoe_inspection_verify */
    bool verified;
    char fingerprint[65]; /* zoe_store_fingerprint; "" without a store */
    zoe_nonfinite *nonfinite;
    size_t n_nonfinite;
} zoe_part_info;

typedef struct zoe_inspection zoe_inspection;

/* Looks at a file of weights, a shard index, a folder with one, or the folder of a checkpoint.
 * Headers and small vectors are read, no large weights. The folder of a checkpoint in a layout that
 * zoe_job knows has the parts of that layout; of another, the files of weights in it and in its
 * folders.
 * Errors: ZOE_MISSING (nothing there, or a folder without any part), the errors of zoe_store_open
 * for a single file that cannot be read as weights, ZOE_NOMEM. */
zoe_status zoe_inspect(zoe_context *ctx, zoe_inspection **inspection, const char *path);
void zoe_inspection_free(zoe_inspection *inspection); /* NULL is fine */

/* Reads everything: NaN and inf in each tensor, fingerprints, SHA-256 of every file. progress may
 * be NULL; it is told what is being read, and how many bytes of it are done (total 0: not known).
 * Errors: ZOE_NOMEM, ZOE_CANCELLED; what is found in the files is kept as findings. */
typedef void (*zoe_inspect_progress_fn)(void *user, const char *what, const char *path, size_t done,
                                        size_t total);
zoe_status zoe_inspection_verify(zoe_context *ctx, zoe_inspection *inspection,
                                 zoe_inspect_progress_fn progress, void *user);

/* The model in words: "Wan 2.2 I2V-A14B"; of a single part what that is. */
const char *zoe_inspection_model(const zoe_inspection *inspection);
/* "official", "diffusers", "single" for one part, "other" for a folder of some parts. */
const char *zoe_inspection_layout(const zoe_inspection *inspection);
/* Can zoe_job use it: as a whole, or, of a single part, as that part? */
bool zoe_inspection_supported(const zoe_inspection *inspection);
/* Nothing missing, broken, not finite or contradictory, as far as was looked. */
bool zoe_inspection_sound(const zoe_inspection *inspection);
size_t zoe_inspection_parts(const zoe_inspection *inspection);
const zoe_part_info *zoe_inspection_part(const zoe_inspection *inspection, size_t i);
/* What is wrong with the whole, beside the findings of its parts; and what is odd but not wrong. */
const zoe_texts *zoe_inspection_problems(const zoe_inspection *inspection);
const zoe_texts *zoe_inspection_remarks(const zoe_inspection *inspection);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
