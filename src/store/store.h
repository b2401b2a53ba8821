/* Room 3, store: read-only weights and the small JSON files beside them. Files in, tensors under
 * official names out. The public interface is in zoetrope/store.h; here are the parts that only
 * other rooms of the engine use. */
#ifndef ZOE_STORE_INTERNAL_H
#define ZOE_STORE_INTERNAL_H

#include "base/base.h"
#include "zoetrope/store.h"

/* Integers of a config.json. Reads the file's top-level object and looks `key` up: *value is
 * untouched if the key is absent; ZOE_FORMAT if it is no integer in min..max, or the file is no
 * JSON object. */
typedef struct zoe_config zoe_config;
zoe_status zoe_config_open(zoe_context *ctx, zoe_config **config, const char *path);
void zoe_config_close(zoe_config *config);
zoe_status zoe_config_size(zoe_context *ctx, const zoe_config *config, const char *key, size_t min,
                           size_t max, size_t *value);
zoe_status zoe_config_real(zoe_context *ctx, const zoe_config *config, const char *key,
                           double *value);
/* Numbers that must be there, each within a million of 0: a list of `columns` numbers if rows is 1,
 * else `rows` such lists. */
zoe_status zoe_config_reals(zoe_context *ctx, const zoe_config *config, const char *key,
                            double *values, size_t rows, size_t columns);
/* A string value, NULL if absent or no string; lives as long as the config. */
const char *zoe_config_text(const zoe_config *config, const char *key);

/* Writes tensors (dense) as one safetensors file, aside and renamed. metadata: n_meta pairs key,
 * value. */
typedef struct zoe_named_tensor {
    const char *name;
    zoe_tensor tensor;
} zoe_named_tensor;
zoe_status zoe_safetensors_write(zoe_context *ctx, const char *path,
                                 const zoe_named_tensor *tensors, size_t n,
                                 const char *const (*metadata)[2], size_t n_meta);

/* Writes a checkpoint as a new file of the kind that the ending of `path` says, .safetensors or
 * .gguf, aside and renamed, piece by piece, so that memory does not limit its size. Names become
 * the official ones, but for umT5 in GGUF, which gets those of llama.cpp. Scales beside weights are
 * multiplied into them first.
 *
 * `type` is what the large matrices become: those of the transformers' blocks and the token
 * embedding. Of a block type or f8_e4m3 the other weights of two and more dimensions stay bf16 and
 * f16 if they are, and become f16 otherwise, as do matrices whose rows are no whole blocks; with
 * f32, f16 and bf16 all weights of two and more dimensions take the type. The rest (norms, biases,
 * modulations) becomes f32. f8_e4m3 comes with a scale for each matrix in the spelling of ComfyUI
 * (scale_weight, scaled_fp8).
 *
 * Errors: ZOE_INVALID (an ending or a type that there is not, block types in safetensors or f8 in
 * GGUF), ZOE_UNSUPPORTED (a value that the type cannot hold), ZOE_NONFINITE (named), ZOE_IO, ZOE_NOMEM,
 * ZOE_CANCELLED, and those of zoe_store_open. */
typedef struct zoe_conversion {
    zoe_dtype type;
    void (*done)(void *user, size_t bytes, size_t total); /* of what is read; may be NULL */
    void *user;
    size_t tensors, converted; /* told at the end: all, and those that have the type */
    size_t in, out;            /* bytes of all tensors before and after */
} zoe_conversion;
zoe_status zoe_checkpoint_convert(zoe_context *ctx, const char *path, const char *from,
                                  zoe_conversion *conversion);

/* A text of the header's __metadata__; free with zoe_free. Errors: ZOE_MISSING (no such file or
 * key), ZOE_FORMAT, ZOE_IO, ZOE_NOMEM. */
zoe_status zoe_safetensors_metadata(zoe_context *ctx, char **value, const char *path,
                                    const char *key);

/* The kind of adapter, such as "DoRA", that a key of a LoRA file tells and that zoe_lora_open refuses;
 * NULL if it tells none. */
const char *zoe_lora_key_foreign(const char *key);

/* ---- pages: weights that are read ahead of use and let go afterwards ---- */

/* A run of bytes of a mapped file, from the beginning of a page on. */
typedef struct zoe_pages {
    const struct zoe_map *map;
    size_t begin, bytes; /* in the file; bytes 0: none */
} zoe_pages;

/* Those of a tensor; none if it lies in memory of its own. */
zoe_pages zoe_store_pages(const zoe_store *store, zoe_tensor tensor);
/* Sorts n runs and joins those that meet or nearly do; returns how many are left. */
size_t zoe_pages_merge(zoe_pages *runs, size_t n);
/* Tells the system whether they are read front to back, again and again, or as any others. */
void zoe_pages_advise(zoe_pages run, bool streamed);
/* Maps `bytes` from `offset` in the run on, read from the disk where need be; returns when they are there.
 * Where the system cannot do that (Linux before 5.14) they are brought into its page cache. Returns 0, or
 * an errno; EFAULT: the file has become shorter. No signal is raised. Any thread. */
int zoe_pages_bring(zoe_pages run, size_t offset, size_t bytes);
/* They no longer count as this process's memory; the system may keep them in its page cache. With
 * `forget` it need not: for models that its memory cannot hold, so that what is not needed soon makes
 * room. */
void zoe_pages_drop(zoe_pages run, bool forget);
void zoe_store_drop_tensor(const zoe_store *store, zoe_tensor tensor);

#endif
