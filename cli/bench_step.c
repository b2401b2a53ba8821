/* zoe bench step: one pass of the Wan transformer, at the widths and token counts of real models. */
#include <stdio.h>

#include "base/random.h"
#include "bench.h"
#include "model/model.h"

enum { TEXT_LENGTH = 512, TEXT_DIM = 4096, FREQ_DIM = 256 };

/* The latent is latent_dim x f x h x w, patches are 1x2x2. */
typedef struct step_case {
    const char *name;
    size_t dim, ffn_dim, layers, in_dim, latent_dim, f, h, w;
    zoe_dtype weights; /* i8: bf16 in the file, and products in int8 (--compute int8) */
    bool bf16;         /* activations; else f32 */
    bool hidden;       /* only if a filter names it: what takes long, or is small */
    size_t measured;
    double target;
} step_case;

#define WAN_1_3B "step_1.3b", 1536, 8960, 30, 16, 16
#define WAN_5B "step_5b", 3072, 14336, 30, 48, 48
#define WAN_14B "step_14b", 5120, 13824, 40, 36, 16
#define TINY "step_tiny", 128, 256, 4, 16, 16

static const step_case cases[] = {
    {WAN_1_3B, 1, 60, 104, ZOE_F32, false, false, 3, 0},
    {WAN_1_3B, 1, 60, 104, ZOE_BF16, false, false, 3, 0},
    {WAN_1_3B, 1, 60, 104, ZOE_Q8_0, false, false, 3, 0},
    {WAN_1_3B, 1, 60, 104, ZOE_BF16, true, false, 3, 0},
    {WAN_1_3B, 1, 60, 104, ZOE_I8, false, false, 3, 0},
    {WAN_1_3B, 3, 60, 104, ZOE_BF16, false, false, 3, 0},
    {WAN_5B, 2, 44, 80, ZOE_BF16, false, false, 2, 0},
    {WAN_5B, 2, 44, 80, ZOE_Q8_0, false, true, 2, 0},
    {WAN_14B, 1, 60, 104, ZOE_BF16, false, false, 2, 0},
    {WAN_14B, 1, 60, 104, ZOE_Q8_0, false, true, 2, 0},
    {WAN_14B, 1, 60, 104, ZOE_F32, false, true, 2, 0},
    {TINY, 1, 4, 8, ZOE_F32, false, true, 2, 0},
    {TINY, 1, 4, 8, ZOE_Q8_0, false, true, 2, 0},
    {TINY, 1, 4, 8, ZOE_I8, false, true, 2, 0},
};

/* ---- the checkpoint ---- */

static zoe_status add_linear(bench_bag *bag, const char *prefix, const char *name, size_t out,
                             size_t in)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    TRY(zoe_bench_bag_add(bag, full, 2, (const size_t[]){out, in}));
    snprintf(full, sizeof full, "%s%s.bias", prefix, name);
    return zoe_bench_bag_add(bag, full, 1, &out);
}

static zoe_status add_block(bench_bag *bag, const step_case *c)
{
    static const char *const square[] = {"self_attn.q",  "self_attn.k",  "self_attn.v",
                                         "self_attn.o",  "cross_attn.q", "cross_attn.k",
                                         "cross_attn.v", "cross_attn.o"};
    static const char *const vectors[] = {"self_attn.norm_q.weight",
                                          "self_attn.norm_k.weight",
                                          "cross_attn.norm_q.weight",
                                          "cross_attn.norm_k.weight",
                                          "norm3.weight",
                                          "norm3.bias"};
    char name[96];
    for (size_t j = 0; j < sizeof square / sizeof square[0]; j++)
        TRY(add_linear(bag, "blocks.0.", square[j], c->dim, c->dim));
    for (size_t j = 0; j < sizeof vectors / sizeof vectors[0]; j++) {
        snprintf(name, sizeof name, "blocks.0.%s", vectors[j]);
        TRY(zoe_bench_bag_add(bag, name, 1, &c->dim));
    }
    TRY(zoe_bench_bag_add(bag, "blocks.0.modulation", 3, (const size_t[]){1, 6, c->dim}));
    TRY(add_linear(bag, "blocks.0.", "ffn.0", c->ffn_dim, c->dim));
    return add_linear(bag, "blocks.0.", "ffn.2", c->dim, c->ffn_dim);
}

static zoe_status fill(bench_bag *bag, const step_case *c, size_t layers)
{
    const size_t D = c->dim;
    TRY(zoe_bench_bag_add(bag, "patch_embedding.weight", 5,
                          (const size_t[]){D, c->in_dim, 1, 2, 2}));
    TRY(zoe_bench_bag_add(bag, "patch_embedding.bias", 1, &D));
    TRY(add_linear(bag, "", "text_embedding.0", D, TEXT_DIM));
    TRY(add_linear(bag, "", "text_embedding.2", D, D));
    TRY(add_linear(bag, "", "time_embedding.0", D, FREQ_DIM));
    TRY(add_linear(bag, "", "time_embedding.2", D, D));
    TRY(add_linear(bag, "", "time_projection.1", 6 * D, D));
    TRY(add_linear(bag, "", "head.head", 4 * c->latent_dim, D));
    TRY(zoe_bench_bag_add(bag, "head.modulation", 3, (const size_t[]){1, 2, D}));
    TRY(add_block(bag, c));
    return zoe_bench_bag_repeat(bag, "blocks.", layers);
}

/* ---- the pass ---- */

typedef struct pass {
    const step_case *c;
    zoe_store *store;
    zoe_wan *wan;
    zoe_wan_text *text;
    zoe_wan_work *work;
    zoe_sequence sequence;
    void *latent, *condition, *velocity, *context;
    size_t layers, run; /* of the network, and how many of them the pass goes through */
} pass;

static zoe_status route(zoe_context *ctx, void *user, const zoe_wan_point *point, size_t *next)
{
    const pass *p = user;
    (void)ctx;
    *next = point->block < p->run ? point->block : p->layers;
    return ZOE_OK;
}

static zoe_status run_pass(zoe_context *ctx, void *self, size_t blocks)
{
    pass *p = self;
    p->run = blocks;
    return zoe_wan_forward(ctx, p->wan, p->work, p->velocity, p->latent, p->condition, p->text,
                           900.0, NULL);
}

static zoe_status open_network(zoe_context *ctx, pass *p)
{
    const bool int8 = p->c->weights == ZOE_I8;
    const zoe_dtype weights = int8 ? ZOE_BF16 : p->c->weights;
    const bool plain = weights == ZOE_F32 || weights == ZOE_BF16 || weights == ZOE_F16;
    bench_bag bag = {.ctx = ctx, .dtype = plain ? weights : ZOE_BF16};
    zoe_status status = fill(&bag, p->c, p->layers);
    if (status == ZOE_OK)
        status = zoe_bench_bag_open(&bag, &p->store, ZOE_NAMES_WAN_DIT, weights);
    zoe_bench_bag_free(&bag);
    TRY(status);
    TRY(zoe_wan_open(ctx, &p->wan, p->store, NULL, p->c->bf16));
    return int8 ? zoe_wan_quantise(ctx, p->wan, p->store) : ZOE_OK;
}

static zoe_status open_pass(zoe_context *ctx, zoe_comm *comm, pass *p)
{
    const step_case *c = p->c;
    const size_t cells = c->f * c->h * c->w;
    zoe_random random;
    TRY(open_network(ctx, p));
    TRY(zoe_alloc(ctx, &p->latent, c->latent_dim * cells, sizeof(float), "latent"));
    TRY(zoe_alloc(ctx, &p->velocity, c->latent_dim * cells, sizeof(float), "velocity"));
    TRY(zoe_alloc(ctx, &p->context, TEXT_LENGTH * TEXT_DIM, sizeof(float), "context"));
    if (c->in_dim > c->latent_dim)
        TRY(zoe_alloc_zero(ctx, &p->condition, (c->in_dim - c->latent_dim) * cells, sizeof(float),
                           "condition"));
    zoe_random_seed(&random, 1);
    zoe_random_normal(&random, p->latent, c->latent_dim * cells);
    zoe_random_normal(&random, p->context, TEXT_LENGTH * TEXT_DIM);
    TRY(zoe_wan_text_new(ctx, &p->text, p->wan, p->context, TEXT_LENGTH, NULL));
    TRY(zoe_sequence_new(ctx, &p->sequence, comm, zoe_comm_size(comm), 1, false));
    TRY(zoe_wan_work_new_on(ctx, &p->work, zoe_wan_dims_of(p->wan), c->bf16, c->f, c->h, c->w,
                            &p->sequence));
    zoe_wan_work_route(p->work, route, p);
    return ZOE_OK;
}

static void close_pass(pass *p)
{
    zoe_wan_work_free(p->work);
    zoe_sequence_free(&p->sequence);
    zoe_wan_text_free(p->text);
    zoe_wan_close(p->wan);
    zoe_store_close(p->store);
    zoe_free(p->latent);
    zoe_free(p->condition);
    zoe_free(p->velocity);
    zoe_free(p->context);
}

/* Multiplications and additions of products and attention; keys and values of the text are made once
 * for all steps and not counted. */
static double operations(const step_case *c)
{
    const double D = (double)c->dim, L = (double)(c->f * c->h * c->w / 4);
    const double products = 6.0 * D * D + 2.0 * D * (double)c->ffn_dim;
    const double attention = 2.0 * D * (L + TEXT_LENGTH);
    return 2.0 * L * (double)c->layers * (products + attention);
}

static zoe_status run_case(bench *b, const step_case *c)
{
    const size_t shape[] = {c->dim,        c->ffn_dim, c->layers, c->in_dim,
                            c->latent_dim, c->f,       c->h,      c->w};
    const zoe_dtype x = c->bf16 ? ZOE_BF16 : ZOE_F32;
    bench_row row = {.name = {c->name, x, c->weights, x, shape, sizeof shape / sizeof shape[0]},
                     .unit = BENCH_FLOP,
                     .work = operations(c),
                     .target = c->target,
                     .blocks = c->layers};
    if (!zoe_bench_wanted(b, &row.name, c->hidden))
        return ZOE_OK;
    pass p = {.c = c, .layers = b->request->full ? c->layers : c->measured};
    bench_model model = {run_pass, &p, c->layers, p.layers, {0}, 0};
    row.measured = p.layers;
    zoe_status status = open_pass(b->ctx, b->comm, &p);
    if (status == ZOE_OK)
        row.buffers = zoe_wan_work_bytes(b->ctx, zoe_wan_dims_of(p.wan), c->bf16, c->f, c->h, c->w);
    if (status == ZOE_OK)
        status = zoe_bench_row_measure(b, &row, zoe_bench_time_model, &model);
    close_pass(&p);
    TRY(status);
    row.block = zoe_bench_model_block(&model);
    zoe_bench_row_print(b, &row);
    return ZOE_OK;
}

zoe_status zoe_bench_step(bench *b)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        TRY(run_case(b, &cases[i]));
    return ZOE_OK;
}
