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

#endif
