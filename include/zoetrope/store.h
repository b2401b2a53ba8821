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
#pragma GCC visibility push(default)

typedef struct zoe_store zoe_store;

/* Whose names a file's tensors may have besides the official ones. Known prefixes
 * ("model.diffusion_model." and the like) are stripped, diffusers or transformers names are
 * translated to the official ones; a name that the tables do not know stays as it is. Two stored
 * tensors that come to one name must be equal, such as tied embeddings, and are then one. */
typedef enum zoe_names {
    ZOE_NAMES_AS_STORED,
    ZOE_NAMES_WAN_DIT,
    ZOE_NAMES_WAN_VAE,
    ZOE_NAMES_UMT5,
    ZOE_NAMES_CLIP /* the image tower */
} zoe_names;

/* Opens a .safetensors file, a GGUF file (version 2 or 3), a .pth file (zip with a pickle of a state
 * dict), a .safetensors.index.json, or a folder. The kind of a file is told by the content, not by
 * the suffix. In a folder an index goes before a single .safetensors file, that before a single
 * .gguf file, and that before a single .pth file; several of the first kind that is there are
 * refused by name.
 *
 * Scales that lie beside weights as tensors of their own (scaled fp8) become part of the weights
 * (zoe_tensor.scaling) and are no tensors of the store; with ZOE_NAMES_AS_STORED they stay what
 * they are. GGUF: a tensor that was folded to few dimensions gets the shape that the file notes for
 * it; general.architecture plays no part.
 *
 * A file must be used up exactly: bytes behind the end, holes and overlaps are refused. The pieces
 * of which that is asked are the tensors in a safetensors file and in each shard, in a GGUF file
 * with the padding that its alignment asks for, and the entries of the zip in a .pth, where tensors
 * may be views of one storage. Refused are also names given twice and tensors of more than
 * ZOE_MAX_RANK dimensions. Of a sharded checkpoint, a tensor that the index names but its shard
 * does not hold is an error; one that the index does not name is left out with a warning.
 *
 * Errors: ZOE_INVALID (no path), ZOE_MISSING (file, or a shard that the index names), ZOE_FORMAT
 * (truncated or broken), ZOE_UNSUPPORTED (pickle operations or classes that a state dict does not
 * use, old .pth, TorchScript, GGUF types that are not read, scales of unknown kinds),
 * ZOE_NONFINITE (a scale), ZOE_IO, ZOE_NOMEM. */
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

/* The same over all bytes of all tensors, at the speed of the disk and of SHA-256. */
zoe_status zoe_store_digest(zoe_context *ctx, const zoe_store *store, char text[65]);
/* A digest of which files these are on this machine, and of their sizes and times of change: as long
 * as it stays, the weights have not been written to. Errors: ZOE_IO, ZOE_NOMEM. */
zoe_status zoe_store_stamp(zoe_context *ctx, const zoe_store *store, char text[65]);

/* Reads every element. Calls found(user, i, nans, infs) for each tensor i that holds NaN or inf,
 * and done(user, bytes, total) now and then; either may be NULL. Errors: ZOE_NONFINITE (names the
 * first such tensor and its file, and how many there are), ZOE_FORMAT (a file shrank),
 * ZOE_CANCELLED. */
typedef void (*zoe_verify_fn)(void *user, size_t tensor, size_t nans, size_t infs);
zoe_status zoe_store_verify(zoe_context *ctx, const zoe_store *store, zoe_verify_fn found,
                            void (*done)(void *user, size_t bytes, size_t total), void *user);

/* ---- LoRA ---- */

/* Differences to the tensors of one model, mostly as products of two narrow matrices. */
typedef struct zoe_lora zoe_lora;

/* What is added to one tensor W of the model, times a strength that the user chooses:
 *
 *   factor * up down   with down [R, K] and up [N, R], for W [N, K] (trailing axes of a convolution
 *                      count as columns)
 *   up                 without down: a difference of as many elements as W has */
typedef struct zoe_lora_part {
    const char *name; /* of W, the official one */
    zoe_tensor down, up;
    float factor; /* alpha / R if the file has an alpha, else 1 */
} zoe_lora_part;

/* Opens a LoRA file (of any kind that zoe_store_open reads) for the model `target`, a store with
 * official names, which need not stay open. Layers are known by their official names, by those of
 * diffusers, and with underscores for dots (kohya, musubi), behind the usual prefixes; the two
 * factors by the spellings of ComfyUI, PEFT, diffusers and kohya. Full differences of weights, biases
 * and modulations (.diff, .diff_b, .diff_m, .lora_B.bias) are parts too.
 *
 * Keys that fit nothing in the model are left out with a warning that counts them and names the
 * first, and so is patch_embedding where the LoRA is for a model of other input channels. Every value
 * is looked at.
 *
 * Errors: those of zoe_store_open; ZOE_FORMAT (no key fits: names an example of both sides; shapes
 * that do not fit; half of a pair; two keys for one thing), ZOE_UNSUPPORTED (DoRA, LoHa, LoKr and the
 * like, by name; quantised factors), ZOE_NONFINITE (names the tensor). */
zoe_status zoe_lora_open(zoe_context *ctx, zoe_lora **lora, const char *path,
                         const zoe_store *target);
void zoe_lora_close(zoe_lora *lora); /* NULL is fine */

/* The file's tensors under their own names, for zoe_store_fingerprint and the like. */
const zoe_store *zoe_lora_store(const zoe_lora *lora);
/* What the LoRA is, in 64 hexadecimal digits and the end: zoe_store_fingerprint of its tensors, and the
 * factor of each part, which may stand in the file's metadata. */
zoe_status zoe_lora_digest(zoe_context *ctx, const zoe_lora *lora, char text[65]);

/* The parts, by name; a product goes before a difference of the same tensor. */
size_t zoe_lora_count(const zoe_lora *lora);
zoe_lora_part zoe_lora_at(const zoe_lora *lora, size_t i);
/* The number of the first part for this tensor; zoe_lora_count if there is none. */
size_t zoe_lora_find(const zoe_lora *lora, const char *name);

typedef struct zoe_lora_summary {
    size_t keys;                  /* tensors of the file */
    size_t products, differences; /* parts of either kind */
    size_t unmatched, skipped; /* keys that fit nothing; of a patch_embedding that does not fit */
    size_t rank;               /* the greatest R */
} zoe_lora_summary;
zoe_lora_summary zoe_lora_summary_of(const zoe_lora *lora);
/* Key i < unmatched. */
const char *zoe_lora_unmatched(const zoe_lora *lora, size_t i);

/* What the name of a LoRA or of a model's file or folder, or the title in its metadata, lets one
 * suppose. */
typedef struct zoe_lora_hint {
    size_t steps;   /* > 0: distilled, to be run without guidance in so many steps */
    bool high, low; /* made for the expert of high or low noise */
    char word[16];  /* the word that tells of the distillation, "" if there is none */
} zoe_lora_hint;
/* Errors: ZOE_NOMEM; a file that cannot be read has no title. */
zoe_status zoe_lora_hint_of(zoe_context *ctx, zoe_lora_hint *hint, const char *path);

/* ---- pages ---- */

/* Bytes of all tensors. */
size_t zoe_store_bytes(const zoe_store *store);
/* Tells the operating system that these pages will be read soon / are not needed now. Advice only. */
void zoe_store_will_need(const zoe_store *store, zoe_tensor tensor);
void zoe_store_drop(const zoe_store *store);
/* The files still have the sizes they were opened with (a shrunken file would end in SIGBUS). */
zoe_status zoe_store_check(zoe_context *ctx, const zoe_store *store);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
