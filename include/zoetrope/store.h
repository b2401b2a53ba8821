/* The store: read-only tensors of checkpoint files, memory-mapped, under their official names.
 *
 * Files are untrusted: every size is checked before use, nothing is ever executed. Tensors are
 * dense, aligned to their elements and live until the store is closed; they point into the map,
 * which cannot be written, but for those that lie misaligned or strided in the file, which are
 * copied. After opening, any number of threads may read a store. */
#ifndef ZOETROPE_STORE_H
#define ZOETROPE_STORE_H

#include "zoetrope/status.h"
#include "zoetrope/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zoe_store zoe_store;

/* Whose names a file's tensors may have besides the official ones. Known prefixes
 * ("model.diffusion_model." and the like) are stripped, diffusers or transformers names are
 * translated to the official ones; a name that the tables do not know stays as it is. Two stored
 * tensors that come to one name must be equal, such as tied embeddings, and are then one. */
typedef enum zoe_names {
    ZOE_NAMES_AS_STORED,
    ZOE_NAMES_WAN_DIT,
    ZOE_NAMES_WAN_VAE,
    ZOE_NAMES_UMT5
} zoe_names;

/* Opens a .safetensors file, a .pth file (zip with a pickle of a state dict), a
 * .safetensors.index.json, or a folder. The kind of a file is told by the content, not by the
 * suffix. In a folder an index goes before a single .safetensors file, and that before a single
 * .pth file; several of the first kind that is there are refused by name.
 *
 * A file must be used up exactly: bytes behind the end, holes and overlaps are refused (in a .pth,
 * the padding between entries is no hole), and so are names given twice and tensors of more than
 * ZOE_MAX_RANK dimensions. Of a sharded checkpoint, a tensor that the index names but its shard
 * does not hold is an error; one that the index does not name is left out with a warning.
 *
 * Errors: ZOE_INVALID (no path), ZOE_MISSING (file, or a shard that the index names), ZOE_FORMAT
 * (truncated or broken), ZOE_UNSUPPORTED (pickle operations or classes that a state dict does not
 * use, old .pth, TorchScript, GGUF), ZOE_IO, ZOE_NOMEM. */
zoe_status zoe_store_open(zoe_context *ctx, zoe_store **store, const char *path, zoe_names names);
void zoe_store_close(zoe_store *store); /* NULL is fine */

/* The path given to zoe_store_open. */
const char *zoe_store_path(const zoe_store *store);

size_t zoe_store_count(const zoe_store *store);
/* Tensor i < count in byte-wise order of names. */
const char *zoe_store_name(const zoe_store *store, size_t i);
zoe_tensor zoe_store_tensor(const zoe_store *store, size_t i);
/* The file that holds tensor i (a shard's path for sharded checkpoints). */
const char *zoe_store_file(const zoe_store *store, size_t i);

/* Looks a tensor up; false if it is not there. */
bool zoe_store_find(const zoe_store *store, const char *name, zoe_tensor *tensor);

/* Looks a tensor up that must be there, be of a floating type, and have this shape; an extent of 0
 * in `shape` fits any. Errors: ZOE_MISSING, ZOE_FORMAT; the sentence names file, tensor, wanted and
 * found. */
zoe_status zoe_store_get(zoe_context *ctx, const zoe_store *store, zoe_tensor *tensor,
                         const char *name, int rank, const size_t *shape);

/* The whole list of what a model wants is checked at once, so that one sentence tells all: like
 * zoe_store_get for each of the n wants, but on failure counts the missing ones and names the first
 * few. A NULL tensor means: only check. */
typedef struct zoe_want {
    const char *name;
    int rank;
    size_t shape[ZOE_MAX_RANK];
    zoe_tensor *tensor;
} zoe_want;
zoe_status zoe_store_get_all(zoe_context *ctx, const zoe_store *store, const zoe_want *wants,
                             size_t n);

/* What the weights are, in 64 hexadecimal digits and the end: SHA-256 over every tensor's name, type
 * and shape and its bytes; of tensors over 1 MiB only 16 evenly spread blocks of 16 KiB are read, so
 * that a checkpoint of any size takes a second. Training or conversion always shows; a flipped bit
 * in the middle of a large tensor need not: zoe_store_verify reads all. Does not depend on file
 * format, shards or the order of tensors; names are the official ones.
 * Errors: ZOE_NOMEM, ZOE_FORMAT (a file shrank), ZOE_CANCELLED. */
zoe_status zoe_store_fingerprint(zoe_context *ctx, const zoe_store *store, char text[65]);

/* Reads every element. Calls found(user, i, nans, infs) for each tensor i that holds NaN or inf,
 * and done(user, bytes, total) now and then; either may be NULL. Errors: ZOE_NONFINITE (names the
 * first such tensor and its file, and how many there are), ZOE_FORMAT (a file shrank),
 * ZOE_CANCELLED. */
typedef void (*zoe_verify_fn)(void *user, size_t tensor, size_t nans, size_t infs);
zoe_status zoe_store_verify(zoe_context *ctx, const zoe_store *store, zoe_verify_fn found,
                            void (*done)(void *user, size_t bytes, size_t total), void *user);

/* Bytes of all tensors. */
size_t zoe_store_bytes(const zoe_store *store);
/* Tells the operating system that these pages will be read soon / are not needed now. Advice only. */
void zoe_store_will_need(const zoe_store *store, zoe_tensor tensor);
void zoe_store_drop(const zoe_store *store);
/* The files still have the sizes they were opened with (a shrunken file would end in SIGBUS). */
zoe_status zoe_store_check(zoe_context *ctx, const zoe_store *store);

#ifdef __cplusplus
}
#endif
#endif
