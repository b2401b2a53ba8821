/* The umT5 encoder: T5 v1.1 blocks with a table of relative positions in every block and unscaled
 * attention. Source: Chung et al. 2023 (arXiv 2304.09151); Wan2.2 wan/modules/t5.py. */
#include "model/feed.h"
#include "model/weights.h"

#include <stdio.h>

enum { BUCKETS = 32 };

typedef struct umt5_block {
    float *norm1, *norm2; /* [dim] */
    zoe_tensor q, k, v, o, gate, up, down;
    float *positions; /* [BUCKETS, heads] */
} umt5_block;

struct zoe_umt5 {
    bool bf16;
    size_t vocab, dim, inner, ffn, heads, layers;
    zoe_tensor embedding; /* [vocab, dim] */
    umt5_block *blocks;
    float *norm; /* [dim] */
    zoe_vectors vectors;
    const zoe_store *store;
    zoe_feed *feed; /* NULL: all weights are in memory, or the system sees to it */
};

/* A text on its way, and buffers, of which all but x are scratch that texts share. */
typedef struct umt5_run {
    const zoe_umt5 *m;
    size_t L, keys; /* rows computed; the first `keys` of them are real tokens */
    zoe_tensor x, h, q, k, v, o, gate, up;
    float *bias; /* [heads, bias_span] */
    zoe_workspace work;
    const zoe_probe *probe;
} umt5_run;

/* Every tensor of the encoder. ComfyUI's files carry the tokenizer as one more, the last. */
static const char *const top_names[] = {"token_embedding.weight", "norm.weight", "spiece_model"};
static const char *const block_names[] = {"norm1.weight",      "attn.q.weight",
                                          "attn.k.weight",     "attn.v.weight",
                                          "attn.o.weight",     "norm2.weight",
                                          "ffn.gate.0.weight", "ffn.fc1.weight",
                                          "ffn.fc2.weight",    "pos_embedding.embedding.weight"};
const zoe_names_known zoe_umt5_names = {top_names, sizeof top_names / sizeof *top_names,
                                        block_names, sizeof block_names / sizeof *block_names, 1};

size_t zoe_umt5_bucket(ptrdiff_t distance)
{
    static const ptrdiff_t thresholds[] = {12, 16, 23, 32,
                                           46, 64, 91}; /* first distance of bucket 9, 10, ... 15 */
    const size_t base = distance > 0 ? BUCKETS / 2 : 0;
    const ptrdiff_t n = distance < 0 ? -distance : distance;
    if (n < 8)
        return base + (size_t)n;
    size_t bucket = 8;
    while (bucket < 15 && n >= thresholds[bucket - 8])
        bucket++;
    return base + bucket;
}

static zoe_status open_block(zoe_context *ctx, zoe_umt5 *m, const zoe_store *store, size_t i)
{
    umt5_block *b = &m->blocks[i];
    const size_t D = m->dim, I = m->inner, N = m->ffn;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
    TRY(zoe_vector(ctx, &m->vectors, store, &b->norm1, prefix, "norm1.weight", D));
    TRY(zoe_vector(ctx, &m->vectors, store, &b->norm2, prefix, "norm2.weight", D));
    TRY(zoe_matrix(ctx, store, &b->q, prefix, "attn.q.weight", I, D));
    TRY(zoe_matrix(ctx, store, &b->k, prefix, "attn.k.weight", I, D));
    TRY(zoe_matrix(ctx, store, &b->v, prefix, "attn.v.weight", I, D));
    TRY(zoe_matrix(ctx, store, &b->o, prefix, "attn.o.weight", D, I));
    TRY(zoe_matrix(ctx, store, &b->gate, prefix, "ffn.gate.0.weight", N, D));
    TRY(zoe_matrix(ctx, store, &b->up, prefix, "ffn.fc1.weight", N, D));
    TRY(zoe_matrix(ctx, store, &b->down, prefix, "ffn.fc2.weight", D, N));
    zoe_tensor t;
    TRY(zoe_matrix(ctx, store, &t, prefix, "pos_embedding.embedding.weight", BUCKETS, m->heads));
    return zoe_vector(ctx, &m->vectors, store, &b->positions, prefix,
                      "pos_embedding.embedding.weight", BUCKETS * m->heads);
}

static zoe_status infer_dims(zoe_context *ctx, zoe_umt5 *m, const zoe_store *store)
{
    zoe_tensor t;
    TRY(zoe_matrix(ctx, store, &m->embedding, "", "token_embedding.weight", 0, 0));
    m->vocab = m->embedding.shape[0];
    m->dim = m->embedding.shape[1];
    TRY(zoe_matrix(ctx, store, &t, "", "blocks.0.attn.q.weight", 0, m->dim));
    m->inner = t.shape[0];
    TRY(zoe_matrix(ctx, store, &t, "", "blocks.0.ffn.gate.0.weight", 0, m->dim));
    m->ffn = t.shape[0];
    TRY(zoe_matrix(ctx, store, &t, "", "blocks.0.pos_embedding.embedding.weight", BUCKETS, 0));
    m->heads = t.shape[1];
    m->layers = zoe_count_blocks(store);
    if (m->vocab == 0 || m->dim == 0 || m->heads == 0 || m->inner % m->heads != 0 || m->ffn == 0)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: no umT5 encoder: vocabulary %zu, width %zu, %zu heads over %zu",
                        zoe_store_path(store), m->vocab, m->dim, m->heads, m->inner);
    return zoe_refuse_unknown(ctx, store, &zoe_umt5_names, m->layers);
}

zoe_status zoe_umt5_open(zoe_context *ctx, zoe_umt5 **umt5, const zoe_store *store, bool bf16)
{
    void *p;
    *umt5 = NULL;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **umt5, "text encoder"));
    zoe_umt5 *m = p;
    zoe_status status;
    m->bf16 = bf16;
    m->store = store;
    m->vectors.round = bf16;
    TRY_GOTO(infer_dims(ctx, m, store));
    TRY_GOTO(zoe_alloc_zero(ctx, &p, m->layers, sizeof *m->blocks, "text encoder"));
    m->blocks = p;
    for (size_t i = 0; i < m->layers; i++)
        TRY_GOTO(open_block(ctx, m, store, i));
    TRY_GOTO(zoe_vector(ctx, &m->vectors, store, &m->norm, "", "norm.weight", m->dim));
done:
    if (status != ZOE_OK)
        zoe_umt5_close(m);
    else
        *umt5 = m;
    return status;
}

void zoe_umt5_close(zoe_umt5 *umt5)
{
    if (!umt5)
        return;
    zoe_feed_free(umt5->feed);
    zoe_vectors_free(&umt5->vectors);
    zoe_free(umt5->blocks);
    zoe_free(umt5);
}

size_t zoe_umt5_dim(const zoe_umt5 *umt5)
{
    return umt5->dim;
}

size_t zoe_umt5_vocab(const zoe_umt5 *umt5)
{
    return umt5->vocab;
}

static zoe_tensor heads_of(const umt5_run *r, zoe_tensor t, size_t rows)
{
    return zoe_tensor_3d(t.data, t.dtype, rows, r->m->heads, r->m->inner / r->m->heads);
}

/* Distances key - query that occur: from -(L - 1) to keys - 1. */
static size_t bias_span(const umt5_run *r)
{
    return r->L + r->keys - 1;
}

static zoe_attention_args attention_args(const umt5_run *r)
{
    return (zoe_attention_args){
        .o = heads_of(r, r->o, r->L),
        .q = heads_of(r, r->q, r->L),
        .k = heads_of(r, r->k, r->keys),
        .v = heads_of(r, r->v, r->keys),
        .bias = zoe_tensor_2d(r->bias, ZOE_F32, r->m->heads, bias_span(r)),
        .scale = 1.0f,
        .last_count = 1,
        .round_scores = r->m->bf16,
    };
}

/* The widest workspace of the operators of one block. Buffers need shapes only. */
static size_t operator_bytes(const zoe_context *ctx, const umt5_run *r)
{
    const umt5_block *b = &r->m->blocks[0];
    const zoe_attention_args attention = attention_args(r);
    const zoe_linear_args linears[] = {
        {.y = r->q, .x = r->h, .w = b->q},
        {.y = r->h, .x = r->o, .w = b->o},
        {.y = r->gate, .x = r->h, .w = b->gate},
        {.y = r->h, .x = r->up, .w = b->down},
    };
    size_t bytes = zoe_attention_workspace(ctx, &attention);
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        bytes = zoe_max(bytes, zoe_linear_workspace(ctx, &linears[i]));
    return bytes;
}

static zoe_dtype type_of(const zoe_umt5 *m)
{
    return m->bf16 ? ZOE_BF16 : ZOE_F32;
}

/* Lays out the scratch of a text. */
static void lay_out_scratch(const zoe_context *ctx, umt5_run *r, zoe_arena *arena)
{
    const zoe_umt5 *m = r->m;
    const zoe_dtype type = type_of(m);
    r->h = zoe_arena_2d(arena, type, r->L, m->dim);
    r->q = zoe_arena_2d(arena, type, r->L, m->inner);
    r->k = zoe_arena_2d(arena, type, r->L, m->inner);
    r->v = zoe_arena_2d(arena, type, r->L, m->inner);
    r->o = zoe_arena_2d(arena, type, r->L, m->inner);
    r->gate = zoe_arena_2d(arena, type, r->L, m->ffn);
    r->up = zoe_arena_2d(arena, type, r->L, m->ffn);
    r->bias = zoe_arena_take(arena, m->heads * bias_span(r), sizeof *r->bias);
    r->work.bytes = operator_bytes(ctx, r);
    r->work.data = zoe_arena_take(arena, r->work.bytes, 1);
}

/* Lays out all of them: an x each, and behind these scratch for the one that takes most. With an arena
 * of zeroes, sizes are only counted. */
static void lay_out(const zoe_context *ctx, umt5_run *runs, size_t n, zoe_arena *arena)
{
    for (size_t i = 0; i < n; i++)
        runs[i].x = zoe_arena_2d(arena, type_of(runs[i].m), runs[i].L, runs[i].m->dim);
    const size_t begin = arena->used;
    size_t end = begin;
    for (size_t i = 0; i < n; i++) {
        arena->used = begin;
        lay_out_scratch(ctx, &runs[i], arena);
        end = zoe_max(end, arena->used);
    }
    arena->used = end;
}

size_t zoe_umt5_work_bytes_all(const zoe_context *ctx, const zoe_umt5 *umt5, const size_t *counts,
                               size_t n)
{
    umt5_run runs[ZOE_UMT5_TEXTS];
    zoe_arena arena = {0};
    for (size_t i = 0; i < n; i++)
        runs[i] = (umt5_run){.m = umt5, .L = counts[i], .keys = counts[i]};
    lay_out(ctx, runs, n, &arena);
    return arena.used;
}

size_t zoe_umt5_work_bytes(const zoe_context *ctx, const zoe_umt5 *umt5, size_t tokens)
{
    return zoe_umt5_work_bytes_all(ctx, umt5, &tokens, 1);
}

static void fill_bias(const umt5_run *r, const float *positions)
{
    const size_t N = r->m->heads, span = bias_span(r);
    for (size_t n = 0; n < N; n++)
        for (size_t i = 0; i < span; i++) {
            const size_t bucket = zoe_umt5_bucket((ptrdiff_t)i - (ptrdiff_t)r->L + 1);
            r->bias[n * span + i] = positions[bucket * N + n];
        }
}

static zoe_status linear(zoe_context *ctx, const umt5_run *r, zoe_tensor y, zoe_tensor x,
                         zoe_tensor w, zoe_tensor residual)
{
    return zoe_linear(ctx, &(zoe_linear_args){.y = y, .x = x, .w = w, .residual = residual},
                      r->work);
}

static zoe_status norm(zoe_context *ctx, zoe_tensor y, zoe_tensor x, float *gamma, size_t D)
{
    return zoe_rms_norm(ctx, &(zoe_rms_norm_args){.y = y,
                                                  .x = x,
                                                  .gamma = zoe_tensor_1d(gamma, ZOE_F32, D),
                                                  .eps = 1e-6f,
                                                  .order = ZOE_RMS_CAST_THEN_MUL,
                                                  .round_gamma = true});
}

static zoe_status run_block(zoe_context *ctx, umt5_run *r, size_t i)
{
    const umt5_block *b = &r->m->blocks[i];
    const size_t D = r->m->dim;
    const zoe_tensor none = zoe_tensor_none();

    fill_bias(r, b->positions);
    TRY(norm(ctx, r->h, r->x, b->norm1, D));
    TRY(linear(ctx, r, r->q, r->h, b->q, none));
    TRY(linear(ctx, r, r->k, r->h, b->k, none));
    TRY(linear(ctx, r, r->v, r->h, b->v, none));
    const zoe_attention_args attention = attention_args(r);
    TRY(zoe_attention(ctx, &attention, r->work));
    if (r->probe) {
        TRY(linear(ctx, r, r->h, r->o, b->o, none));
        zoe_probe_block(r->probe, i, "attn", r->h);
    }
    TRY(linear(ctx, r, r->x, r->o, b->o, r->x));

    TRY(norm(ctx, r->h, r->x, b->norm2, D));
    TRY(linear(ctx, r, r->gate, r->h, b->gate, none));
    TRY(linear(ctx, r, r->up, r->h, b->up, none));
    TRY(zoe_glu(ctx, &(zoe_glu_args){.y = r->up,
                                     .gate = r->gate,
                                     .up = r->up,
                                     .activation = ZOE_ACT_GELU_TANH,
                                     .round_steps = r->up.dtype == ZOE_BF16}));
    if (r->probe) {
        TRY(linear(ctx, r, r->h, r->up, b->down, none));
        zoe_probe_block(r->probe, i, "ffn", r->h);
    }
    TRY(linear(ctx, r, r->x, r->up, b->down, r->x));
    zoe_probe_block(r->probe, i, "out", r->x);
    return ZOE_OK;
}

/* Row `id` of the embedding becomes row i of x. */
static void embed_row(const umt5_run *r, size_t i, size_t id)
{
    const size_t D = r->m->dim;
    float values[256];
    for (size_t j = 0, n; j < D; j += n) {
        n = D - j < sizeof values / sizeof *values ? D - j : sizeof values / sizeof *values;
        zoe_tensor_widen(values, r->m->embedding, id * D + j, n);
        zoe_narrow((char *)r->x.data + zoe_run_bytes(r->x.dtype, i * D + j), r->x.dtype, values, n);
    }
}

static zoe_status embed(zoe_context *ctx, const umt5_run *r, const int32_t *ids)
{
    const zoe_umt5 *m = r->m;
    enum { ROWS = 16 };
    for (size_t i = 0; i < r->L; i++) {
        if (m->feed && i % ROWS == 0) /* the system may map 2 MiB around every row */
            zoe_store_drop_tensor(m->store, m->embedding);
        if (ids[i] < 0 || (size_t)ids[i] >= m->vocab)
            return zoe_fail(ctx, ZOE_INVALID,
                            "token %zu has id %d, the text encoder knows 0 to %zu: tokenizer and "
                            "text encoder do not belong together",
                            i, (int)ids[i], m->vocab - 1);
        embed_row(r, i, (size_t)ids[i]);
    }
    if (m->feed)
        zoe_store_drop_tensor(m->store, m->embedding);
    return ZOE_OK;
}

static zoe_status run_blocks(zoe_context *ctx, umt5_run *runs, size_t n)
{
    const zoe_umt5 *m = runs[0].m;
    zoe_status status = ZOE_OK;
    for (size_t i = 0; i < m->layers; i++) {
        TRY_GOTO(zoe_feed_take(ctx, m->feed, i));
        for (size_t k = 0; k < n; k++) {
            TRY_GOTO(zoe_check_cancel(ctx));
            TRY_GOTO(run_block(ctx, &runs[k], i));
        }
        zoe_feed_release(m->feed, i);
    }
done:
    zoe_feed_end(m->feed);
    return status;
}

static zoe_status finish(zoe_context *ctx, const umt5_run *r, float *out)
{
    TRY(norm(ctx, r->h, r->x, r->m->norm, r->m->dim));
    zoe_probe_see(r->probe, "out", r->h);
    zoe_widen(out, r->h.data, r->h.dtype, r->L * r->m->dim);
    return ZOE_OK;
}

zoe_status zoe_umt5_encode_all(zoe_context *ctx, const zoe_umt5 *umt5, const zoe_umt5_text *texts,
                               size_t n, const zoe_probe *probe)
{
    umt5_run runs[ZOE_UMT5_TEXTS];
    size_t counts[ZOE_UMT5_TEXTS];
    zoe_arena arena = {0};
    zoe_status status;
    if (n == 0 || n > ZOE_UMT5_TEXTS)
        return zoe_fail(ctx, ZOE_INVALID, "text encoder: %zu texts at once, 1 to %d are taken", n,
                        (int)ZOE_UMT5_TEXTS);
    for (size_t i = 0; i < n; i++) {
        const zoe_umt5_text *t = &texts[i];
        if (t->valid == 0 || t->valid > t->count)
            return zoe_fail(ctx, ZOE_INVALID, "text encoder: %zu of %zu tokens are real", t->valid,
                            t->count);
        runs[i] = (umt5_run){.m = umt5, .L = t->count, .keys = t->valid, .probe = probe};
        counts[i] = t->count;
    }
    TRY(zoe_arena_new(ctx, &arena, zoe_umt5_work_bytes_all(ctx, umt5, counts, n), "text encoder"));
    lay_out(ctx, runs, n, &arena);
    TRY_GOTO(zoe_arena_status(ctx, &arena, "text encoder"));
    zoe_feed_begin(ctx, umt5->feed);
    for (size_t i = 0; i < n; i++) {
        TRY_GOTO(embed(ctx, &runs[i], texts[i].ids));
        zoe_probe_see(probe, "embed", runs[i].x);
    }
    TRY_GOTO(run_blocks(ctx, runs, n));
    for (size_t i = 0; i < n; i++)
        TRY_GOTO(finish(ctx, &runs[i], texts[i].out));
done:
    zoe_feed_end(umt5->feed);
    zoe_arena_free(&arena);
    return status;
}

zoe_status zoe_umt5_encode(zoe_context *ctx, const zoe_umt5 *umt5, float *out, const int32_t *ids,
                           size_t count, size_t valid, const zoe_probe *probe)
{
    const zoe_umt5_text text = {out, ids, count, valid};
    return zoe_umt5_encode_all(ctx, umt5, &text, 1, probe);
}

/* ---- streaming ---- */

enum {
    MATRICES = 7,
    EMBEDDED = 64 << 20 /* bytes of the embedding that are mapped at once, at most */
};

static void matrices(zoe_tensor list[MATRICES], const zoe_umt5 *m, size_t i)
{
    const umt5_block *b = &m->blocks[i];
    const zoe_tensor all[MATRICES] = {b->q, b->k, b->v, b->o, b->gate, b->up, b->down};
    memcpy(list, all, sizeof all);
}

static size_t block_bytes(const void *user, size_t i)
{
    const zoe_umt5 *m = user;
    zoe_tensor list[MATRICES];
    size_t sum = 0;
    matrices(list, m, i);
    for (size_t j = 0; j < MATRICES; j++)
        sum += zoe_feed_tensor_bytes(m->store, list[j]);
    return sum;
}

size_t zoe_umt5_streamed_bytes(const zoe_umt5 *umt5, const zoe_store *store, size_t resident)
{
    const size_t embedding = zoe_feed_tensor_bytes(store, umt5->embedding);
    size_t rest = zoe_store_bytes(store), streamed = embedding, sum;
    for (size_t i = 0; i < umt5->layers; i++)
        streamed += block_bytes(umt5, i);
    rest -= streamed < rest ? streamed : rest;
    rest += embedding < EMBEDDED ? embedding : EMBEDDED;
    return zoe_size_add(&sum, rest, zoe_feed_held(block_bytes, umt5, umt5->layers, resident))
               ? sum
               : SIZE_MAX;
}

size_t zoe_umt5_layers(const zoe_umt5 *umt5)
{
    return umt5->layers;
}

zoe_status zoe_umt5_stream(zoe_context *ctx, zoe_umt5 *umt5, const zoe_store *store,
                           zoe_stream_plan plan)
{
    zoe_status status;
    zoe_feed_free(umt5->feed);
    TRY(zoe_feed_new(ctx, &umt5->feed, store, umt5->layers, plan));
    for (size_t i = 0; i < umt5->layers; i++) {
        zoe_tensor list[MATRICES];
        matrices(list, umt5, i);
        for (size_t j = 0; j < MATRICES; j++)
            TRY_GOTO(zoe_feed_add(ctx, umt5->feed, i, list[j]));
    }
    status = zoe_feed_start(ctx, umt5->feed);
done:
    if (status != ZOE_OK) {
        zoe_feed_free(umt5->feed);
        umt5->feed = NULL;
    }
    return status;
}
