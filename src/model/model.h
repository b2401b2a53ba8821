/* Room 9, model: the networks as lists of operators. umT5 (tokens to context), the Wan DiT (latent
 * to velocity), the Wan VAE (frames to latent and back), and the sizes that belong to them. Weights
 * come from the store, results go to the job; nothing here knows files, schedules or prompts. */
#ifndef ZOE_MODEL_H
#define ZOE_MODEL_H

#include "base/base.h"
#include "comm/comm.h"
#include "store/store.h"
#include "zoetrope/op.h"

/* Sees named intermediates, for tests and tools; the tensor is valid during the call. Values are
 * those that the fused operators use, taken apart where they are fused. Row-wise parts of the
 * transformer come run of tokens by run of tokens, each under the same name. */
typedef struct zoe_probe {
    void (*see)(void *user, const char *name, zoe_tensor value);
    void *user;
} zoe_probe;

/* Bytes that a thing takes, for the plan. */
typedef struct zoe_bytes {
    size_t weights; /* copies made at load beside the mapped file */
    size_t work;    /* activations, caches and operator workspaces */
} zoe_bytes;

/* ---- weights that memory cannot hold whole ---- */

/* How the layers of a network are streamed: a thread reads the next one from the mapped file while this
 * one computes, and each is let go after it ran, so that no more than two of them are in memory beside
 * those that stay. docs/MEMORY.md has it whole. */
typedef struct zoe_stream_plan {
    size_t resident; /* the first layers, which stay once they are there */
    bool forget;     /* what is let go need not stay in the system's page cache either */
} zoe_stream_plan;

/* ---- what a store has too little or too much of ---- */

typedef enum zoe_network { ZOE_NETWORK_WAN, ZOE_NETWORK_VAE, ZOE_NETWORK_UMT5 } zoe_network;

/* Calls see(user, name, missing) for every tensor that the network needs and that the store, which
 * has official names, lacks, and for every one that it has and the network does not know, by the
 * tables of the loaders. How many blocks there are is told by the highest number in the names; one
 * of which nothing is there counts as a single name that ends with ".*". The name is valid during
 * the call. Shapes and types are not looked at: opening the network does that. */
typedef void (*zoe_gap_fn)(void *user, const char *name, bool missing);
void zoe_network_gaps(const zoe_store *store, zoe_network network, zoe_gap_fn see, void *user);
/* One more than the highest N of the names "PREFIX<N>.". */
size_t zoe_network_blocks(const zoe_store *store, const char *prefix);

/* ---- umT5 encoder ---- */

typedef struct zoe_umt5 zoe_umt5;

/* dims come from the tensors' shapes. bf16: weights and activations are rounded as PyTorch does
 * with a bf16 model. */
zoe_status zoe_umt5_open(zoe_context *ctx, zoe_umt5 **umt5, const zoe_store *store, bool bf16);
void zoe_umt5_close(zoe_umt5 *umt5);
size_t zoe_umt5_dim(const zoe_umt5 *umt5);
size_t zoe_umt5_vocab(const zoe_umt5 *umt5);
size_t zoe_umt5_work_bytes(const zoe_context *ctx, const zoe_umt5 *umt5, size_t tokens);

/* Encodes `count` tokens of which the first `valid` >= 1 are real; the others are padding, which no
 * token attends to (for real rows count = valid gives the same numbers for less work). out [count,
 * dim] f32. Errors: ZOE_INVALID (an id outside the vocabulary), ZOE_NOMEM, ZOE_CANCELLED. */
zoe_status zoe_umt5_encode(zoe_context *ctx, const zoe_umt5 *umt5, float *out, const int32_t *ids,
                           size_t count, size_t valid, const zoe_probe *probe);

/* Several texts in one walk over the weights, at most ZOE_UMT5_TEXTS. */
typedef struct zoe_umt5_text {
    float *out;
    const int32_t *ids;
    size_t count, valid;
} zoe_umt5_text;
enum { ZOE_UMT5_TEXTS = 2 };
zoe_status zoe_umt5_encode_all(zoe_context *ctx, const zoe_umt5 *umt5, const zoe_umt5_text *texts,
                               size_t n, const zoe_probe *probe);
/* Its work memory for so many tokens each. */
size_t zoe_umt5_work_bytes_all(const zoe_context *ctx, const zoe_umt5 *umt5, const size_t *counts,
                               size_t n);

/* As zoe_wan_stream and its companions. */
zoe_status zoe_umt5_stream(zoe_context *ctx, zoe_umt5 *umt5, const zoe_store *store,
                           zoe_stream_plan plan);
size_t zoe_umt5_streamed_bytes(const zoe_umt5 *umt5, const zoe_store *store, size_t resident);
size_t zoe_umt5_layers(const zoe_umt5 *umt5);

/* Bucket 0..buckets-1 of the relative position key - query. Source: Raffel et al. 2020 (arXiv
 * 1910.10683), the bidirectional form, thresholds exact in integers for 32 buckets and maximal
 * distance 128. */
size_t zoe_umt5_bucket(ptrdiff_t distance);

/* ---- CLIP image tower ---- */

typedef struct zoe_clip zoe_clip;

/* Opens the tower in a store that has the names of open-clip (tensors "visual.*"; others are left
 * alone). Errors: ZOE_MISSING, ZOE_FORMAT, ZOE_UNSUPPORTED. */
zoe_status zoe_clip_open(zoe_context *ctx, zoe_clip **clip, const zoe_store *store);
void zoe_clip_close(zoe_clip *clip);
size_t zoe_clip_dim(const zoe_clip *clip);    /* width of the features */
size_t zoe_clip_tokens(const zoe_clip *clip); /* their number */
size_t zoe_clip_side(const zoe_clip *clip);   /* pixels a side of the picture that it takes */
zoe_bytes zoe_clip_bytes(const zoe_context *ctx, const zoe_clip *clip);
/* out [tokens, dim]: the last but one hidden state of the picture [3, side, side], f32 in [-1, 1]. */
zoe_status zoe_clip_encode(zoe_context *ctx, const zoe_clip *clip, float *out,
                           const float *picture);

/* ---- Wan DiT ---- */

typedef struct zoe_wan_dims {
    size_t dim, ffn_dim, heads, layers, in_dim, out_dim, freq_dim, text_len, text_dim;
    size_t image_dim;       /* width of the CLIP features of the picture; 0: no image branch */
    size_t image_positions; /* rows of their position embedding (first and last frame); 0: none */
    size_t adapter_rank; /* ranks of all LoRAs of one layer together, at most; work spaces for more
                               serve as well */
    bool int8; /* large layers are in int8 (zoe_wan_quantise); work spaces for that serve the
                  others as well */
    float eps;
} zoe_wan_dims;

typedef struct zoe_wan zoe_wan;

/* Opens the network in a store that has official names. config may be NULL: what it does not say
 * comes from the shapes, and head width 128, text length 512 (spec: the official files leave most
 * fields out). Errors: ZOE_MISSING, ZOE_FORMAT (shapes or config contradict), ZOE_UNSUPPORTED (a
 * Wan relative that needs other inputs: VACE, S2V, Animate, camera control; named by the tensor that
 * tells it). */
zoe_status zoe_wan_open(zoe_context *ctx, zoe_wan **wan, const zoe_store *store,
                        const zoe_config *config, bool bf16);
void zoe_wan_close(zoe_wan *wan);
const zoe_wan_dims *zoe_wan_dims_of(const zoe_wan *wan);
/* The relative of Wan that the store holds, such as "VACE", and the tensor that tells it; NULL if it
 * is none. */
const char *zoe_wan_relative(const zoe_store *store, const char **sign);
/* Bytes of the weights that zoe_wan_open copies beside the store. */
size_t zoe_wan_weight_bytes(const zoe_wan *wan);

/* From now on every pass, and the making of texts and of int8 weights, streams the weights of the blocks
 * from the store, which must stay open; the first plan.resident blocks stay. Results have the same
 * bytes. Ends with zoe_wan_stream_end or zoe_wan_close. Errors: ZOE_NOMEM, ZOE_INTERNAL (no thread). */
zoe_status zoe_wan_stream(zoe_context *ctx, zoe_wan *wan, const zoe_store *store,
                          zoe_stream_plan plan);
void zoe_wan_stream_end(zoe_wan *wan);
/* The same, but each rank of comm keeps only its share of every block in memory, and a block's bytes are
 * gathered before it runs, while the one before computes. All ranks of comm run the same passes, in which
 * the same blocks run; comm must outlive it, and NULL changes nothing. Bytes sent in a pass: of each block
 * that runs, this rank's share to each of the others. Errors: ZOE_NOMEM; of the passes: also those of
 * exchanges. */
zoe_status zoe_wan_shard(zoe_context *ctx, zoe_wan *wan, const zoe_store *store, zoe_comm *comm);
size_t zoe_wan_shard_bytes(const zoe_wan *wan); /* of its buffers */
/* Bytes that one of so many ranks sends of the weights in a pass in which every block runs. */
uint64_t zoe_wan_shard_sent(const zoe_wan *wan, size_t ranks, size_t rank);
/* Mapped bytes of the store that are in memory at once after zoe_wan_stream. */
size_t zoe_wan_streamed_bytes(const zoe_wan *wan, const zoe_store *store, size_t resident);
/* What was read since zoe_wan_stream, from the disk or from the system's page cache; how long that
 * took, and how long blocks waited for it. */
typedef struct zoe_stream_count {
    size_t bytes;
    double reading, waiting; /* seconds */
} zoe_stream_count;
zoe_stream_count zoe_wan_stream_count(const zoe_wan *wan);

/* Adds a LoRA, opened for this network's store, times a strength. The weights stay as they are: its
 * products run beside theirs, from the LoRA's store, which must stay open as long as the network;
 * small vectors (biases, norms, modulations) are changed in their f32 copies. Several LoRAs add up;
 * strength 0 adds nothing. To be called before texts and work spaces are made: dims.adapter_rank
 * grows. In bf16, x down^T is rounded to bf16, everything behind it is summed in f32 with the layer's
 * own product.
 * Errors: ZOE_INVALID (a strength that is not finite, a LoRA for another network, more than
 * ZOE_WAN_LORAS), ZOE_NOMEM; then nothing has changed. */
enum { ZOE_WAN_LORAS = 8 };
zoe_status zoe_wan_adapt(zoe_context *ctx, zoe_wan *wan, const zoe_lora *lora, float strength);

/* Makes int8 of the large layers of the blocks, in memory of their own, with the LoRAs added so far;
 * from then on these are computed in int8 (docs/NUMERICS.md), and what the store has of them is not
 * needed any more: its pages are dropped block by block. Work spaces made for dims without int8 do not
 * serve any more. Errors: ZOE_NOMEM, ZOE_NONFINITE (NaN or inf in a weight), ZOE_CANCELLED; what was
 * made stays until zoe_wan_unquantise or zoe_wan_close. */
zoe_status zoe_wan_quantise(zoe_context *ctx, zoe_wan *wan, const zoe_store *store);
void zoe_wan_unquantise(zoe_wan *wan);
/* What that takes, and what it makes needless. */
typedef struct zoe_wan_int8_bytes {
    size_t made;   /* the int8 weights */
    size_t making; /* scratch while they are made */
    size_t spared; /* mapped bytes that are not needed at once any more */
} zoe_wan_int8_bytes;
zoe_wan_int8_bytes zoe_wan_int8_bytes_of(const zoe_wan *wan);

/* Keys and values of every cross-attention for one prompt, expert and branch. They do not change
 * over the steps. Padded context rows are all alike and stand as one row with its multiplicity. */
typedef struct zoe_wan_text zoe_wan_text;
zoe_status zoe_wan_text_new(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan,
                            const float *context, size_t rows, const zoe_probe *probe);
/* The same for a network with an image branch: image [image_rows, image_dim] are the CLIP features
 * of the picture, or of the first and the last one together. */
zoe_status zoe_wan_text_new_with_image(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan,
                                       const float *context, size_t rows, const float *image,
                                       size_t image_rows, const zoe_probe *probe);
/* Those of several prompts, in one walk over the weights. text[n]; after an error all are NULL. */
enum { ZOE_WAN_TEXTS = 2 };
zoe_status zoe_wan_texts_new(zoe_context *ctx, zoe_wan_text **text, const zoe_wan *wan, size_t n,
                             const float *const *context, const size_t *rows, const float *image,
                             size_t image_rows);
void zoe_wan_text_free(zoe_wan_text *text);
/* Bytes of one zoe_wan_text for so many context and image rows, and of the scratch while it is made. */
zoe_bytes zoe_wan_text_bytes(const zoe_wan_dims *dims, bool bf16, size_t rows, size_t image_rows);

/* Rotary tables and activations for one latent size; serves every expert and branch of the same
 * dims. */
typedef struct zoe_wan_work zoe_wan_work;
zoe_status zoe_wan_work_new(zoe_context *ctx, zoe_wan_work **work, const zoe_wan_dims *dims,
                            bool bf16, size_t f, size_t h, size_t w);
void zoe_wan_work_free(zoe_wan_work *work);
size_t zoe_wan_work_bytes(const zoe_context *ctx, const zoe_wan_dims *dims, bool bf16, size_t f,
                          size_t h, size_t w);
/* The same for one of several ranks that share the tokens, each of which runs every pass, also if it has
 * no tokens; the sequence must outlive it. All ranks get the whole velocity, with the same bytes. With
 * Ulysses alone they are those of a single rank. Errors of a pass: also those of exchanges. */
zoe_status zoe_wan_work_new_on(zoe_context *ctx, zoe_wan_work **work, const zoe_wan_dims *dims,
                               bool bf16, size_t f, size_t h, size_t w,
                               const zoe_sequence *sequence);
size_t zoe_wan_work_bytes_on(const zoe_context *ctx, const zoe_wan_dims *dims, bool bf16, size_t f,
                             size_t h, size_t w, const zoe_place *place);
/* The tokens of this rank. */
zoe_span zoe_wan_work_tokens(const zoe_wan_work *work);
/* Bytes that the rank sends in one pass in which every block runs. */
uint64_t zoe_wan_sent(const zoe_wan_dims *dims, bool bf16, size_t f, size_t h, size_t w,
                      const zoe_place *place);

/* Where a pass is: before a block, or after the last one. The vectors are those of the tokens that are
 * made, and there at block 0 only. */
typedef struct zoe_wan_point {
    size_t block;
    float *hidden;              /* [tokens of zoe_wan_work_tokens, dim] */
    const float *embedding;     /* [dim]: of the timestep */
    const float *projection;    /* [6, dim]: modulations made from it */
    const float *shift, *scale; /* [dim]: of the first norm of block 0 */
    float eps;                  /* of that norm */
} zoe_wan_point;
/* Says which block runs next: point->block, or a later one, whose input it then put into hidden; the
 * number of blocks means none. Called before each block and after the last one. NULL: all run. */
typedef zoe_status (*zoe_wan_route)(zoe_context *ctx, void *user, const zoe_wan_point *point,
                                    size_t *next);
void zoe_wan_work_route(zoe_wan_work *work, zoe_wan_route route, void *user);

/* velocity [out_dim, f, h, w] for latent [latent channels, f, h, w] and condition [in_dim - latent
 * channels, f, h, w] (NULL if there are none) at timestep t, all f32 and dense. h and w are even.
 */
zoe_status zoe_wan_forward(zoe_context *ctx, const zoe_wan *wan, zoe_wan_work *work,
                           float *velocity, const float *latent, const float *condition,
                           const zoe_wan_text *text, double t, const zoe_probe *probe);
/* The same, but the tokens of the first still_frames latent frames are at timestep 0: they are given,
 * not made (TI2V-5B with a picture: 1). */
zoe_status zoe_wan_forward_still(zoe_context *ctx, const zoe_wan *wan, zoe_wan_work *work,
                                 float *velocity, const float *latent, const float *condition,
                                 const zoe_wan_text *text, double t, size_t still_frames,
                                 const zoe_probe *probe);

/* Two passes over the same latent, for two prompts, in one walk over the blocks, so that each weight is
 * read once. The bytes are those of two passes. The work space needs zoe_wan_work_pair and has no
 * route (ZOE_INVALID). */
zoe_status zoe_wan_forward_pair(zoe_context *ctx, const zoe_wan *wan, zoe_wan_work *work,
                                float *const velocity[2], const float *latent,
                                const float *condition, const zoe_wan_text *const text[2], double t,
                                size_t still_frames);
/* Takes memory for the second pass: zoe_wan_pair_bytes. */
zoe_status zoe_wan_work_pair(zoe_context *ctx, zoe_wan_work *work);
size_t zoe_wan_pair_bytes(const zoe_wan_dims *dims, size_t f, size_t h, size_t w);

/* ---- Wan VAE, 2.1 (16 channels) and 2.2 (48) ---- */

typedef struct zoe_vae zoe_vae;

/* The store must stay open. */
zoe_status zoe_vae_open(zoe_context *ctx, zoe_vae **vae, const zoe_store *store);
void zoe_vae_close(zoe_vae *vae);
size_t zoe_vae_channels(const zoe_vae *vae);     /* z */
size_t zoe_vae_stride(const zoe_vae *vae);       /* pixels a side to a latent position: 8 or 16 */
size_t zoe_vae_weight_bytes(const zoe_vae *vae); /* packed copies of the encoder or the decoder */
/* Buffers of zoe_vae_encode and zoe_vae_decode with these arguments, on this rank. */
size_t zoe_vae_encode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t F, size_t H,
                            size_t W);
size_t zoe_vae_decode_bytes(const zoe_context *ctx, const zoe_vae *vae, size_t f, size_t h,
                            size_t w);

/* The large layers can run in bands of rows, each for the whole clip before the next, with the bytes
 * of whole frames. Bands of so many rows of pixels, a multiple of twice the stride (else
 * ZOE_INVALID); 0, as at first: of about a tenth of the frame, where whole frames would take more than
 * 512 MiB and bands less than that, as they do unless the clip is long; ZOE_VAE_WHOLE: never. */
#define ZOE_VAE_WHOLE SIZE_MAX
zoe_status zoe_vae_set_band(zoe_context *ctx, zoe_vae *vae, size_t rows);

/* How frames are shared between ranks: rows x columns of patches, of which rank r has the one in row r
 * / columns and column r mod columns. */
typedef struct zoe_vae_grid {
    size_t rows, columns;
} zoe_vae_grid;

/* The grid for latent frames of h x w, all at least 1, and at most so many ranks: the one with the
 * smallest largest patch, among these that with the least border between patches, then that with more
 * rows. Any number of ranks will do; what is more than there can be patches has none. */
zoe_vae_grid zoe_vae_grid_choose(size_t ranks, size_t h, size_t w);
/* The latent rows (columns) of part i, of n that are cut into so many parts: in pairs, as evenly as can
 * be, the first parts the larger ones; an odd one is the last. */
zoe_span zoe_vae_grid_share(size_t n, size_t parts, size_t i);

/* Frames are shared between the first `ranks` of comm (0, or more than there are: all). Every rank of
 * comm then calls zoe_vae_encode and zoe_vae_decode, with the same sizes and with a probe or without
 * one; the results have the bytes of one rank. All have the picture and the latent and all get the
 * latent; frames go to the sink of rank 0, whose probe alone is called, with whole frames. If one fails,
 * comm does (zoe_comm_fail). comm NULL, as at first: one rank. It must stay while vae does.
 * Errors: ZOE_INVALID (several ranks and bands of rows that were asked for). */
zoe_status zoe_vae_set_ranks(zoe_context *ctx, zoe_vae *vae, zoe_comm *comm, size_t ranks);
/* The frames are then cut into this grid, of no more patches than ranks, rather than the best one. A grid
 * with more rows or columns than pairs of latent ones ends encoding and decoding with ZOE_INVALID. */
zoe_status zoe_vae_set_grid(zoe_context *ctx, zoe_vae *vae, zoe_vae_grid grid);

/* What one rank of so many, of which the first `workers` share the frames, needs and sends in
 * zoe_vae_encode and zoe_vae_decode without a probe, for plans; no ranks need be there. */
typedef struct zoe_vae_need {
    size_t bytes; /* of buffers; SIZE_MAX: they cannot be told */
    zoe_traffic traffic;
    zoe_traffic ends; /* of it: the latent to all, or frames to the first rank */
    zoe_traffic keys; /* of it: keys and values of attention; the rest are edges of patches */
    bool weights;     /* does it have a patch, and so need the packed weights? */
} zoe_vae_need;
zoe_vae_need zoe_vae_encode_need(const zoe_context *ctx, const zoe_vae *vae, size_t F, size_t H,
                                 size_t W, size_t ranks, size_t workers, size_t rank);
zoe_vae_need zoe_vae_decode_need(const zoe_context *ctx, const zoe_vae *vae, size_t f, size_t h,
                                 size_t w, size_t ranks, size_t workers, size_t rank);

/* Multiplications and additions that a clip of F = 4 n + 1 frames of H x W takes, each way; of
 * convolutions, as the textbook does them. */
double zoe_vae_work(const zoe_vae *vae, bool encode, size_t F, size_t H, size_t W);

/* Fills frame `index`, [H, W, 3] f32 in [-1, 1] (channels last). */
typedef zoe_status (*zoe_frame_source)(void *user, float *frame, size_t index);
/* Takes `count` frames from number `index` on, [count, H, W, 3] f32, not clamped. */
typedef zoe_status (*zoe_frame_sink)(void *user, const float *frames, size_t index, size_t count);
typedef void (*zoe_chunk_done)(void *user, size_t done, size_t total);

/* Encodes F = 4 n + 1 frames of H x W (multiples of the stride s) to latent [z, n + 1, H/s, W/s], the
 * normalised mean. Whole frames stream in chunks of 1, 4, 4 ... and memory does not grow with F; in
 * bands, the source is asked for all frames in each band. The first call packs the weights of the
 * encoder, and frees the decoder's. done may be NULL. */
zoe_status zoe_vae_encode(zoe_context *ctx, zoe_vae *vae, float *latent, size_t F, size_t H,
                          size_t W, zoe_frame_source source, void *user, zoe_chunk_done done,
                          const zoe_probe *probe);

/* Decodes latent [z, f, h, w] to 4 f - 3 frames of s h x s w, which go to the sink in order: as they
 * come, or in bands all at the end. Packs the decoder's weights like the above. A probe sees whole
 * frames, so with one there are no bands. */
zoe_status zoe_vae_decode(zoe_context *ctx, zoe_vae *vae, const float *latent, size_t f, size_t h,
                          size_t w, zoe_frame_sink sink, void *user, zoe_chunk_done done,
                          const zoe_probe *probe);

#endif
