/* Speeds of this machine's kernels at the shapes of a job. */
#include "bench.h"
#include "plan.h"
#include "zoetrope/op.h"

/* Of products, in few and in many rows, so that the time to go through a weight can be told from that
 * of the rows; queries and keys of attention; frames of a convolution. */
enum {
    FEW = 8,
    MANY = 128,
    MANY_OF_SMALL = 512,
    SMALL = 2048,
    QUERIES = 256,
    KEYS = 4096,
    HEADS = 4
};
enum { FRAMES = 4, ROWS = 32, COLUMNS = 64, KERNEL = 3, BUFFERS = 9 };

/* Operands of the operators; everything is freed at the end. */
typedef struct trial {
    zoe_context *ctx;
    void *buffers[BUFFERS];
    size_t n;
    zoe_workspace work;
    zoe_linear_args few, many;
    zoe_linear_int8_args few_int8, many_int8;
    zoe_int8_weights *int8;
    zoe_attention_args attention;
    zoe_conv3d_args conv;
    zoe_conv_weights *conv_weights;
} trial;

static zoe_status run_few(zoe_context *ctx, void *self)
{
    trial *t = self;
    return t->int8 ? zoe_linear_int8(ctx, &t->few_int8, t->work)
                   : zoe_linear(ctx, &t->few, t->work);
}

static zoe_status run_many(zoe_context *ctx, void *self)
{
    trial *t = self;
    return t->int8 ? zoe_linear_int8(ctx, &t->many_int8, t->work)
                   : zoe_linear(ctx, &t->many, t->work);
}

static zoe_status run_attention(zoe_context *ctx, void *self)
{
    trial *t = self;
    return zoe_attention(ctx, &t->attention, t->work);
}

static zoe_status run_conv(zoe_context *ctx, void *self)
{
    trial *t = self;
    return zoe_conv3d(ctx, &t->conv, t->work);
}

static zoe_status take(trial *t, zoe_tensor *tensor, zoe_dtype dtype, int rank, const size_t *shape)
{
    size_t n;
    if (t->n == BUFFERS || !zoe_size_product(&n, shape, (size_t)rank))
        return zoe_fail(t->ctx, ZOE_INTERNAL, "trial of the kernels: too many operands");
    TRY(zoe_bench_fill(t->ctx, &t->buffers[t->n], dtype, n));
    *tensor = zoe_tensor_of(t->buffers[t->n++], dtype, rank, shape);
    return ZOE_OK;
}

/* A quadratic layer with weights of the model's own type. */
static zoe_status make_product(const zoe_planning *plan, trial *t, size_t *rows)
{
    const zoe_job_params *p = &plan->job->params;
    const size_t D = zoe_forecast_pass(plan->forecast)->dim;
    const zoe_dtype type = p->bf16 ? ZOE_BF16 : ZOE_F32;
    zoe_tensor model, x, y, w;
    const bool found = zoe_store_find(plan->job->expert_store[ZOE_HIGH_NOISE],
                                      "blocks.0.self_attn.q.weight", &model);
    *rows = D > SMALL ? MANY : MANY_OF_SMALL;
    TRY(take(t, &x, type, 2, (const size_t[]){*rows, D}));
    TRY(take(t, &y, type, 2, (const size_t[]){*rows, D}));
    TRY(take(t, &w, found ? model.dtype : ZOE_F32, 2, (const size_t[]){D, D}));
    t->many = (zoe_linear_args){.y = y, .x = x, .w = w};
    t->many_int8 = (zoe_linear_int8_args){.y = y, .x = x};
    y.shape[0] = x.shape[0] = FEW;
    t->few = (zoe_linear_args){.y = y, .x = x, .w = w};
    t->few_int8 = (zoe_linear_int8_args){.y = y, .x = x};
    if (!p->int8)
        return ZOE_OK;
    TRY(zoe_int8_weights_new(t->ctx, &t->int8, w, 0));
    t->few_int8.weights = t->many_int8.weights = t->int8;
    return ZOE_OK;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static zoe_status make_attention(const zoe_planning *plan, trial *t)
{
    const zoe_pass_sizes *z = zoe_forecast_pass(plan->forecast);
    const size_t keys = smaller(z->tokens, KEYS), queries = smaller(z->tokens, QUERIES);
    const size_t N = smaller(z->heads, HEADS), D = z->dim / z->heads;
    const zoe_dtype type = plan->job->params.bf16 ? ZOE_BF16 : ZOE_F32;
    zoe_attention_args *a = &t->attention;
    *a = (zoe_attention_args){.scale = 1.0f / sqrtf((float)D), .last_count = 1};
    TRY(take(t, &a->o, type, 3, (const size_t[]){queries, N, D}));
    TRY(take(t, &a->q, type, 3, (const size_t[]){queries, N, D}));
    TRY(take(t, &a->k, type, 3, (const size_t[]){keys, N, D}));
    a->v = a->k;
    return ZOE_OK;
}

/* As wide as the VAE's largest frames are. */
static zoe_status make_conv(const zoe_planning *plan, trial *t)
{
    zoe_tensor first, w, x, y;
    const bool found = zoe_store_find(plan->job->vae_store, "encoder.conv1.weight", &first);
    const size_t C = found ? first.shape[0] : 96;
    TRY(take(t, &w, ZOE_F32, 5, (const size_t[]){C, C, KERNEL, KERNEL, KERNEL}));
    TRY(take(t, &x, ZOE_F32, 4, (const size_t[]){FRAMES, ROWS, COLUMNS, C}));
    TRY(zoe_conv_weights_new(t->ctx, &t->conv_weights, w, zoe_tensor_none()));
    TRY(take(t, &y, ZOE_F32, 4, x.shape));
    t->conv = (zoe_conv3d_args){.y = y,
                                .x = x,
                                .past = zoe_tensor_none(),
                                .weights = t->conv_weights,
                                .pad_front = KERNEL - 1,
                                .pad_top = 1,
                                .pad_bottom = 1,
                                .pad_left = 1,
                                .pad_right = 1,
                                .stride_t = 1,
                                .stride_h = 1,
                                .stride_w = 1};
    return ZOE_OK;
}

static zoe_status take_workspace(trial *t)
{
    const size_t needs[] = {zoe_attention_workspace(t->ctx, &t->attention),
                            zoe_conv3d_workspace(t->ctx, &t->conv),
                            t->int8 ? zoe_linear_int8_workspace(t->ctx, &t->many_int8)
                                    : zoe_linear_workspace(t->ctx, &t->many),
                            t->int8 ? zoe_linear_int8_workspace(t->ctx, &t->few_int8)
                                    : zoe_linear_workspace(t->ctx, &t->few)};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        t->work.bytes = needs[i] > t->work.bytes ? needs[i] : t->work.bytes;
    return zoe_alloc(t->ctx, &t->work.data, t->work.bytes, 1, "trial of the kernels");
}

/* Seconds of few and of many rows to those of an element and of a row. */
static void fit_products(zoe_speeds *s, double few, double many, double elements, double rows)
{
    const double row = (many - few) / (rows - FEW);
    s->product = row > 0 ? 2.0 * elements / row : 2.0 * elements * rows / many;
    const double fixed = few - FEW * row;
    s->weight = row > 0 && fixed > 0 ? fixed / elements : 0.0;
}

static zoe_status measure(zoe_planning *plan, trial *t, size_t rows)
{
    const bench_request request = {0};
    bench b = {.request = &request,
               .ctx = plan->ctx,
               .threads = zoe_context_threads(plan->ctx),
               .cpu_time = zoe_context_threads(plan->ctx) == 1, /* whatever else is running */
               .repeats = 5};
    bench_ours ours[] = {{run_few, t}, {run_many, t}, {run_attention, t}, {run_conv, t}};
    bench_runner runners[4];
    for (size_t i = 0; i < 4; i++)
        runners[i] = (bench_runner){zoe_bench_time_ours, &ours[i], 0};
    TRY(zoe_bench_in_turn(&b, runners, 4, b.repeats));
    const double D = (double)zoe_forecast_pass(plan->forecast)->dim;
    const zoe_tensor q = t->attention.q, k = t->attention.k;
    const double pairs = (double)(q.shape[0] * k.shape[0]) * (double)(q.shape[1] * q.shape[2]);
    const double C = (double)t->conv.x.shape[3];
    fit_products(&plan->speeds, runners[0].seconds, runners[1].seconds, D * D, (double)rows);
    plan->speeds.attention = 4.0 * pairs / runners[2].seconds;
    /* All places of the kernel are counted, as zoe_vae_work does. */
    plan->speeds.convolution =
        2.0 * FRAMES * ROWS * COLUMNS * KERNEL * KERNEL * KERNEL * C * C / runners[3].seconds;
    return ZOE_OK;
}

zoe_status zoe_plan_measure(zoe_planning *plan)
{
    trial t = {.ctx = plan->ctx};
    size_t rows = 0;
    zoe_status status;
    TRY_GOTO(make_product(plan, &t, &rows));
    TRY_GOTO(make_attention(plan, &t));
    TRY_GOTO(make_conv(plan, &t));
    TRY_GOTO(take_workspace(&t));
    TRY_GOTO(measure(plan, &t, rows));
    plan->speeds.bandwidth = plan->bandwidth * 1e9;
    plan->speeds.latency = plan->latency * 1e-6;
done:
    zoe_int8_weights_free(t.int8);
    zoe_conv_weights_free(t.conv_weights);
    for (size_t i = 0; i < t.n; i++)
        zoe_free(t.buffers[i]);
    zoe_free(t.work.data);
    return status;
}
