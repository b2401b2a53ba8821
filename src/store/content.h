/* What is inside a store, and the readers that fill it; for this room only. */
#ifndef ZOE_STORE_CONTENT_H
#define ZOE_STORE_CONTENT_H

#include <jansson.h>

#include "base/base.h"
#include "base/file.h"
#include "store/store.h"

typedef struct zoe_entry {
    char *stored;     /* the name in the file */
    char *official;   /* the name that the tables give, or NULL */
    const char *name; /* the one of these to go by */
    zoe_tensor tensor;
    void *copy;    /* the data, if they could not stay in the map */
    void *scaling; /* what tensor.scaling points to, if anything */
    size_t file;   /* index into files */
} zoe_entry;

struct zoe_store {
    char *path;
    zoe_map *files;
    size_t n_files;
    bool borrowed; /* the bytes belong to the caller: nothing to unmap, to check or to advise about
                    */
    zoe_entry *entries;
    size_t n, room;
    size_t copied; /* bytes of all copies */
};

/* Frees what an entry owns. */
void zoe_entry_free(zoe_entry *entry);
/* The entry that goes by this name, or NULL. The store is sorted: zoe_names_apply is done. */
zoe_entry *zoe_store_entry(const zoe_store *store, const char *name);

/* No JSON that belongs to a checkpoint is longer; the official safetensors reader has the same
 * limit. */
enum { ZOE_JSON_LIMIT = 100000000 };

/* Reads `size` bytes of JSON whose top level is an object without a key given twice. `what` begins
 * the refusal. Free with json_decref. */
zoe_status zoe_json_parse(zoe_context *ctx, json_t **root, const char *text, size_t size,
                          const char *what);
/* The same for a file of at most ZOE_JSON_LIMIT bytes. */
zoe_status zoe_json_read(zoe_context *ctx, json_t **root, const char *path);

/* Notes the tensor `name`, whose elements lie in files[file] at tensor.data. Elements that are no
 * dense row-major run, or not aligned to their size, are copied; all copies together may not be
 * larger than the files, so that a small file cannot ask for much memory by listing one piece again
 * and again. The extents were checked by zoe_extents_check. */
zoe_status zoe_store_add(zoe_context *ctx, zoe_store *store, size_t file, const char *name,
                         size_t name_length, zoe_tensor tensor);
/* Room for n files, none open yet. */
zoe_status zoe_store_files(zoe_context *ctx, zoe_store *store, size_t n);

/* Elements of these extents, refusing what no tensor can have: the product of the extents that are
 * not 0, in bytes, must fit ptrdiff_t, so that strides do too. */
bool zoe_extents_check(size_t *count, const size_t *shape, int rank, size_t element_bytes);

/* Writers for tensors that are not all in memory: `tensors` have no data, `write` writes the bytes
 * of one. GGUF: architecture may be NULL. */
typedef zoe_status (*zoe_tensor_writer)(void *user, zoe_output *out, size_t i);
zoe_status zoe_safetensors_stream(zoe_context *ctx, const char *path,
                                  const zoe_named_tensor *tensors, size_t n,
                                  const char *const (*metadata)[2], size_t n_meta,
                                  zoe_tensor_writer write, void *user);
zoe_status zoe_gguf_stream(zoe_context *ctx, const char *path, const zoe_named_tensor *tensors,
                           size_t n, const char *architecture, zoe_tensor_writer write, void *user);

/* The readers: add the tensors of files[file] to the store. */
zoe_status zoe_safetensors_read(zoe_context *ctx, zoe_store *store, size_t file);
zoe_status zoe_pth_read(zoe_context *ctx, zoe_store *store, size_t file);
zoe_status zoe_gguf_read(zoe_context *ctx, zoe_store *store, size_t file);

/* A checkpoint of several files: opens the shards that the index names, which lie beside it, and
 * reads them. */
zoe_status zoe_shards_open(zoe_context *ctx, zoe_store *store, const char *index_path);
/* Picks the index or the one checkpoint file of a folder; free *path. */
zoe_status zoe_folder_pick(zoe_context *ctx, char **path, bool *is_index, const char *folder);

/* Gives every entry its official name. */
zoe_status zoe_names_apply(zoe_context *ctx, zoe_store *store, zoe_names names);
/* Gives weights of three-dimensional convolutions their shape back that lie in the file as
 * [outputs * inputs, time, height, width], as stable-diffusion.cpp writes them, or, of
 * patch_embedding, as [outputs, inputs, height, width]; the bias beside them tells the outputs. For
 * names of transformers and VAEs, once they are settled. */
void zoe_convolutions_unfold(zoe_store *store);
/* Makes scales part of the weights that they belong to, and takes them and what else describes them
 * off the list. */
zoe_status zoe_scales_apply(zoe_context *ctx, zoe_store *store);

/* A store of one file that lies in memory, which must outlive the store. `path` is for messages. */
zoe_status zoe_store_open_memory(zoe_context *ctx, zoe_store **store, const void *data, size_t size,
                                 const char *path, zoe_names names);

#endif
