/* Room 9, model: the networks as lists of operators. umT5 (tokens to context), the Wan DiT (latent
 * to velocity), the Wan VAE (frames to latent and back), and the sizes that belong to them. Weights
 * come from the store, results go to the job; nothing here knows files, schedules or prompts. */
#ifndef ZOE_MODEL_H
#define ZOE_MODEL_H

#include "base/base.h"
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
 * Wan relative that needs other inputs: VACE, S2V, Animate, camera control, CLIP branch; named by
 * the tensor that tells it). */
zoe_status zoe_wan_open(zoe_context *ctx, zoe_wan **wan, const zoe_store *store,
                        const zoe_config *config, bool bf16);
void zoe_wan_close(zoe_wan *wan);
const zoe_wan_dims *zoe_wan_dims_of(const zoe_wan *wan);
/* The relative of Wan that the store holds, such as "VACE", and the tensor that tells it; NULL if it
 * is none. */
const char *zoe_wan_relative(const zoe_store *store, const char **sign);
/* Bytes of the weights that zoe_wan_open copies beside the store. */
size_t zoe_wan_weight_bytes(const zoe_wan *wan);

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

/* Where a pass is: before a block, or after the last one. The vectors are those of the tokens that are
 * made, and there at block 0 only. */
typedef struct zoe_wan_point {
    size_t block;
    float *hidden;              /* [tokens, dim] */
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

/* ---- Wan VAE, 2.1 (16 channels) and 2.2 (48) ---- */

typedef struct zoe_vae zoe_vae;

/* The store must stay open. */
zoe_status zoe_vae_open(zoe_context *ctx, zoe_vae **vae, const zoe_store *store);
void zoe_vae_close(zoe_vae *vae);
size_t zoe_vae_channels(const zoe_vae *vae);     /* z */
size_t zoe_vae_stride(const zoe_vae *vae);       /* pixels a side to a latent position: 8 or 16 */
size_t zoe_vae_weight_bytes(const zoe_vae *vae); /* packed copies of the encoder or the decoder */
/* Buffers of zoe_vae_encode and zoe_vae_decode with these arguments. */
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
