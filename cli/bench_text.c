/* zoe bench text: the umT5 encoder at its own widths. */
#include <stdio.h>

#include "bench.h"
#include "model/model.h"

enum { VOCABULARY = 1024, BUCKETS = 32 };

typedef struct text_case {
    const char *name;
    size_t dim, ffn_dim, heads, layers, tokens;
    zoe_dtype weights;
    bool bf16, hidden;
} text_case;

#define UMT5_XXL "text_umt5_xxl", 4096, 10240, 64, 24

static const text_case cases[] = {
    {UMT5_XXL, 512, ZOE_BF16, false, false},
    {UMT5_XXL, 64, ZOE_BF16, false, false},
    {UMT5_XXL, 64, ZOE_BF16, true, false},
    {UMT5_XXL, 64, ZOE_Q8_0, false, false},
    {"text_tiny", 64, 128, 4, 4, 8, ZOE_F32, false, true},
};

static zoe_status fill(bench_bag *bag, const text_case *c, size_t layers)
{
    const struct {
        const char *name;
        size_t rows, columns;
    } matrices[] = {
        {"attn.q", c->dim, c->dim},         {"attn.k", c->dim, c->dim},
        {"attn.v", c->dim, c->dim},         {"attn.o", c->dim, c->dim},
        {"ffn.gate.0", c->ffn_dim, c->dim}, {"ffn.fc1", c->ffn_dim, c->dim},
        {"ffn.fc2", c->dim, c->ffn_dim},    {"pos_embedding.embedding", BUCKETS, c->heads},
    };
    char name[96];
    TRY(zoe_bench_bag_add(bag, "token_embedding.weight", 2, (const size_t[]){VOCABULARY, c->dim}));
    TRY(zoe_bench_bag_add(bag, "norm.weight", 1, &c->dim));
    TRY(zoe_bench_bag_add(bag, "blocks.0.norm1.weight", 1, &c->dim));
    TRY(zoe_bench_bag_add(bag, "blocks.0.norm2.weight", 1, &c->dim));
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
        snprintf(name, sizeof name, "blocks.0.%s.weight", matrices[i].name);
        TRY(zoe_bench_bag_add(bag, name, 2,
                              (const size_t[]){matrices[i].rows, matrices[i].columns}));
    }
    return zoe_bench_bag_repeat(bag, "blocks.", layers);
}

typedef struct encoder {
    const text_case *c;
    size_t layers;
    zoe_store *stores[2]; /* of all layers that are measured, and of one */
    zoe_umt5 *nets[2];
    void *ids, *out;
} encoder;

static zoe_status run_encoder(zoe_context *ctx, void *self, size_t blocks)
{
    const encoder *e = self;
    const zoe_umt5 *net = e->nets[blocks == e->layers ? 0 : 1];
    return zoe_umt5_encode(ctx, net, e->out, e->ids, e->c->tokens, e->c->tokens, NULL);
}

static zoe_status open_net(zoe_context *ctx, encoder *e, size_t i, size_t layers)
{
    const zoe_dtype weights = e->c->weights;
    const bool plain = weights == ZOE_F32 || weights == ZOE_BF16 || weights == ZOE_F16;
    bench_bag bag = {.ctx = ctx, .dtype = plain ? weights : ZOE_BF16};
    zoe_status status = fill(&bag, e->c, layers);
    if (status == ZOE_OK)
        status = zoe_bench_bag_open(&bag, &e->stores[i], ZOE_NAMES_UMT5, weights);
    zoe_bench_bag_free(&bag);
    TRY(status);
    return zoe_umt5_open(ctx, &e->nets[i], e->stores[i], e->c->bf16);
}

static zoe_status open_encoder(zoe_context *ctx, encoder *e)
{
    TRY(open_net(ctx, e, 0, e->layers));
    if (e->layers < e->c->layers)
        TRY(open_net(ctx, e, 1, 1));
    TRY(zoe_alloc(ctx, &e->ids, e->c->tokens, sizeof(int32_t), "tokens"));
    for (size_t i = 0; i < e->c->tokens; i++)
        ((int32_t *)e->ids)[i] = (int32_t)(i * 37 % VOCABULARY);
    return zoe_alloc(ctx, &e->out, e->c->tokens * e->c->dim, sizeof(float), "context");
}

static void close_encoder(encoder *e)
{
    for (size_t i = 0; i < 2; i++) {
        zoe_umt5_close(e->nets[i]);
        zoe_store_close(e->stores[i]);
    }
    zoe_free(e->ids);
    zoe_free(e->out);
}

static double operations(const text_case *c)
{
    const double D = (double)c->dim, F = (double)c->ffn_dim, T = (double)c->tokens;
    return (double)c->layers * (2.0 * T * (4.0 * D * D + 3.0 * D * F) + 4.0 * T * T * D);
}

static zoe_status run_case(bench *b, const text_case *c)
{
    enum { MEASURED = 3 };
    const size_t shape[] = {c->dim, c->ffn_dim, c->heads, c->layers, c->tokens};
    const zoe_dtype x = c->bf16 ? ZOE_BF16 : ZOE_F32;
    bench_row row = {.name = {c->name, x, c->weights, x, shape, sizeof shape / sizeof shape[0]},
                     .unit = BENCH_FLOP,
                     .work = operations(c),
                     .blocks = c->layers};
    if (!zoe_bench_wanted(b, &row.name, c->hidden))
        return ZOE_OK;
    encoder e = {.c = c, .layers = b->request->full ? c->layers : MEASURED};
    bench_model model = {run_encoder, &e, c->layers, e.layers, {0}, 0};
    row.measured = e.layers;
    zoe_status status = open_encoder(b->ctx, &e);
    if (status == ZOE_OK)
        row.buffers = zoe_umt5_work_bytes(b->ctx, e.nets[0], c->tokens);
    if (status == ZOE_OK)
        status = zoe_bench_row_measure(b, &row, zoe_bench_time_model, &model);
    close_encoder(&e);
    TRY(status);
    row.block = zoe_bench_model_block(&model);
    zoe_bench_row_print(b, &row);
    return ZOE_OK;
}

zoe_status zoe_bench_text(bench *b)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        TRY(run_case(b, &cases[i]));
    return ZOE_OK;
}
