/* The Wan transformer and umT5 with streamed weights, both branches in one walk, and weights that lie on
 * several ranks: the same bytes as from memory, in passes with and without blocks left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "model/model.h"
#include "ranks.h"

enum {
    DIM = 128,
    FFN = 192,
    LAYERS = 4,
    CHANNELS = 16,
    FREQ = 32,
    TEXT = 24,
    MOST = 256,
    F = 2,
    H = 6,
    W = 2,
    LATENT = CHANNELS * F * H * W,
    ROWS_COND = 7,
    ROWS_UNCOND = 3,
    RANKS = 4
};

static const char *path(void)
{
    static char text[64];
    snprintf(text, sizeof text, "/tmp/zoe-stream-%ld.safetensors", (long)getpid());
    return text;
}

static void must(zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
}

static float noise(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) / (float)(1u << 23) - 1.0f;
}

/* ---- a network ---- */

typedef struct tensors {
    zoe_named_tensor items[MOST];
    char names[MOST][64];
    size_t n;
    uint64_t seed;
} tensors;

static void add(tensors *t, const char *prefix, const char *name, int rank, const size_t *shape)
{
    zoe_tensor w = zoe_tensor_of(NULL, ZOE_BF16, rank, shape);
    const float middle = strstr(name, "norm") && strstr(name, "weight") ? 1.0f : 0.0f;
    assert_in_range(t->n, 0, MOST - 1);
    w.data = malloc(zoe_tensor_bytes(w));
    assert_non_null(w.data);
    for (size_t i = 0; i < zoe_tensor_count(w); i++)
        zoe_store_f32(w.data, ZOE_BF16, i, middle + 0.08f * noise(&t->seed));
    snprintf(t->names[t->n], sizeof t->names[0], "%s%s", prefix, name);
    t->items[t->n] = (zoe_named_tensor){t->names[t->n], w};
    t->n++;
}

static void add_vector(tensors *t, const char *prefix, const char *name, size_t n)
{
    add(t, prefix, name, 1, (size_t[]){n});
}

static void add_linear(tensors *t, const char *prefix, const char *name, size_t out, size_t in)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    add(t, prefix, full, 2, (size_t[]){out, in});
    snprintf(full, sizeof full, "%s.bias", name);
    add_vector(t, prefix, full, out);
}

static void add_block(tensors *t, size_t i)
{
    static const char *const parts[] = {"self_attn", "cross_attn"};
    static const char *const linears[] = {"q", "k", "v", "o"};
    char prefix[40], name[40];
    snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
    add(t, prefix, "modulation", 3, (size_t[]){1, 6, DIM});
    for (size_t p = 0; p < 2; p++) {
        for (size_t j = 0; j < 4; j++) {
            snprintf(name, sizeof name, "%s.%s", parts[p], linears[j]);
            add_linear(t, prefix, name, DIM, DIM);
        }
        snprintf(name, sizeof name, "%s.norm_q.weight", parts[p]);
        add_vector(t, prefix, name, DIM);
        snprintf(name, sizeof name, "%s.norm_k.weight", parts[p]);
        add_vector(t, prefix, name, DIM);
    }
    add_vector(t, prefix, "norm3.weight", DIM);
    add_vector(t, prefix, "norm3.bias", DIM);
    add_linear(t, prefix, "ffn.0", FFN, DIM);
    add_linear(t, prefix, "ffn.2", DIM, FFN);
}

static void write_network(zoe_context *ctx)
{
    tensors *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (size_t i = 0; i < LAYERS; i++)
        add_block(t, i);
    add(t, "", "patch_embedding.weight", 5, (size_t[]){DIM, CHANNELS, 1, 2, 2});
    add_vector(t, "", "patch_embedding.bias", DIM);
    add_linear(t, "", "text_embedding.0", DIM, TEXT);
    add_linear(t, "", "text_embedding.2", DIM, DIM);
    add_linear(t, "", "time_embedding.0", DIM, FREQ);
    add_linear(t, "", "time_embedding.2", DIM, DIM);
    add_linear(t, "", "time_projection.1", 6 * DIM, DIM);
    add_linear(t, "", "head.head", 4 * CHANNELS, DIM);
    add(t, "", "head.modulation", 3, (size_t[]){1, 2, DIM});
    must(ctx, zoe_safetensors_write(ctx, path(), t->items, t->n, NULL, 0));
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i].tensor.data);
    free(t);
}

/* ---- a run ---- */

typedef struct setting {
    bool bf16, int8, skip, pair;
    bool streamed;
    size_t resident;
} setting;

typedef struct result {
    float velocity[2][LATENT];
} result;

/* Blocks 1 and 2 are left out. */
static zoe_status route(zoe_context *ctx, void *user, const zoe_wan_point *point, size_t *next)
{
    (void)ctx;
    (void)user;
    *next = point->block == 1 ? 3 : point->block;
    return ZOE_OK;
}

static void fill(float *values, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        values[i] = noise(&seed);
}

typedef struct parts {
    zoe_store *store;
    zoe_wan *wan;
    zoe_wan_work *work;
    zoe_wan_text *text[2];
} parts;

static void close_parts(parts *p)
{
    zoe_wan_text_free(p->text[0]);
    zoe_wan_text_free(p->text[1]);
    zoe_wan_work_free(p->work);
    zoe_wan_close(p->wan);
    zoe_store_close(p->store);
}

static zoe_status passes(zoe_context *ctx, const parts *p, const setting *s, result *r)
{
    float latent[LATENT];
    float *velocity[2] = {r->velocity[0], r->velocity[1]};
    const zoe_wan_text *const text[2] = {p->text[0], p->text[1]};
    for (size_t step = 0; step < 2; step++) { /* what the first one leaves behind must not matter */
        const double t = 900.0 - 300.0 * (double)step;
        fill(latent, LATENT, 11 + step);
        if (s->pair)
            TRY(zoe_wan_forward_pair(ctx, p->wan, p->work, velocity, latent, NULL, text, t, 1));
        for (size_t b = 0; b < 2 && !s->pair; b++)
            TRY(zoe_wan_forward_still(ctx, p->wan, p->work, velocity[b], latent, NULL, text[b], t,
                                      1, NULL));
    }
    return ZOE_OK;
}

static zoe_status run_parts(zoe_context *ctx, parts *p, const setting *s, zoe_comm *comm, result *r)
{
    float context[2][ROWS_COND * TEXT];
    const float *const contexts[2] = {context[0], context[1]};
    const size_t rows[2] = {ROWS_COND, ROWS_UNCOND};
    fill(context[0], ROWS_COND * TEXT, 5);
    fill(context[1], ROWS_UNCOND * TEXT, 6);
    TRY(zoe_store_open(ctx, &p->store, path(), ZOE_NAMES_WAN_DIT));
    TRY(zoe_wan_open(ctx, &p->wan, p->store, NULL, s->bf16));
    if (s->streamed)
        TRY(zoe_wan_stream(ctx, p->wan, p->store,
                           (zoe_stream_plan){.resident = s->resident, .forget = s->resident == 1}));
    TRY(zoe_wan_shard(ctx, p->wan, p->store, comm));
    if (s->int8)
        TRY(zoe_wan_quantise(ctx, p->wan, p->store));
    TRY(zoe_wan_work_new(ctx, &p->work, zoe_wan_dims_of(p->wan), s->bf16, F, H, W));
    if (s->skip)
        zoe_wan_work_route(p->work, route, NULL);
    if (s->pair)
        TRY(zoe_wan_work_pair(ctx, p->work));
    if (s->pair)
        TRY(zoe_wan_texts_new(ctx, p->text, p->wan, 2, contexts, rows, NULL, 0));
    for (size_t b = 0; b < 2 && !s->pair; b++)
        TRY(zoe_wan_text_new(ctx, &p->text[b], p->wan, contexts[b], rows[b], NULL));
    return passes(ctx, p, s, r);
}

static zoe_status run(zoe_context *ctx, const setting *s, zoe_comm *comm, result *r)
{
    parts p = {0};
    const zoe_status status = run_parts(ctx, &p, s, comm, r);
    close_parts(&p);
    return status;
}

static void expect_same(const result *a, const result *b)
{
    float most = 0.0f;
    for (size_t i = 0; i < LATENT; i++)
        most = fabsf(a->velocity[0][i]) > most ? fabsf(a->velocity[0][i]) : most;
    assert_true(isfinite(most) && most > 0.0f);
    assert_memory_equal(a->velocity[0], b->velocity[0], sizeof a->velocity[0]);
    assert_memory_equal(a->velocity[1], b->velocity[1], sizeof a->velocity[1]);
    assert_true(memcmp(a->velocity[0], a->velocity[1], sizeof a->velocity[0]) != 0);
}

static void streamed_is_the_same(void **state)
{
    zoe_context *ctx = *state;
    for (int kind = 0; kind < 8; kind++) {
        setting s = {.bf16 = kind & 1, .int8 = kind & 2, .skip = kind & 4};
        result resident, streamed;
        must(ctx, run(ctx, &s, NULL, &resident));
        s.streamed = true;
        for (s.resident = 0; s.resident < LAYERS; s.resident++) {
            must(ctx, run(ctx, &s, NULL, &streamed));
            expect_same(&resident, &streamed);
        }
    }
}

static void a_pair_is_two_passes(void **state)
{
    zoe_context *ctx = *state;
    for (int kind = 0; kind < 8; kind++) {
        setting s = {.bf16 = kind & 1, .int8 = kind & 2, .streamed = kind & 4, .resident = 1};
        result single, pair;
        must(ctx, run(ctx, &s, NULL, &single));
        s.pair = true;
        must(ctx, run(ctx, &s, NULL, &pair));
        expect_same(&single, &pair);
    }
}

static void a_pair_needs_its_memory_and_no_route(void **state)
{
    zoe_context *ctx = *state;
    result r;
    assert_int_equal(run(ctx, &(setting){.pair = true, .skip = true}, NULL, &r), ZOE_INVALID);
    zoe_context_clear(ctx);
}

/* What is said of the bytes adds up. */
static void bytes_are_told(void **state)
{
    zoe_context *ctx = *state;
    zoe_store *store;
    zoe_wan *wan;
    size_t last = 0;
    must(ctx, zoe_store_open(ctx, &store, path(), ZOE_NAMES_WAN_DIT));
    must(ctx, zoe_wan_open(ctx, &wan, store, NULL, true));
    const size_t block = 2 * (6 * DIM * DIM + 2 * DIM * FFN);
    for (size_t resident = 0; resident + 1 < LAYERS; resident++) {
        const size_t bytes = zoe_wan_streamed_bytes(wan, store, resident);
        assert_true(resident == 0 || bytes == last + block);
        last = bytes;
    }
    assert_int_equal(zoe_wan_shard_bytes(wan), 2 * block);
    zoe_wan_close(wan);
    zoe_store_close(store);
}

/* ---- ranks ---- */

typedef struct rank_case {
    setting s;
    result r;
    uint64_t sent;
} rank_case;

static zoe_status on_rank(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    rank_case *c = arg;
    (void)rank;
    TRY(run(ctx, &c->s, comm, &c->r));
    c->sent = zoe_comm_traffic(comm).sent;
    return ZOE_OK;
}

static void shared_weights_are_the_same(void **state)
{
    zoe_context *ctx = *state;
    const uint64_t lines = 2 * (6 * DIM * DIM + 2 * DIM * FFN) / 64;
    for (size_t size = 2; size <= RANKS; size++)
        for (int kind = 0; kind < 4; kind++) {
            const setting s = {.bf16 = kind & 1, .pair = kind & 2, .skip = kind == 1};
            static rank_case cases[RANKS];
            ranks_result results[RANKS];
            result alone;
            must(ctx, run(ctx, &s, NULL, &alone));
            for (size_t i = 0; i < size; i++)
                cases[i].s = s;
            ranks_run(
                &(ranks_plan){
                    .size = size, .fn = on_rank, .arg = cases, .arg_step = sizeof cases[0]},
                results);
            for (size_t i = 0; i < size; i++) {
                if (results[i].status != ZOE_OK)
                    fail_msg("%s", results[i].message);
                expect_same(&alone, &cases[i].r);
                const uint64_t share = 64 * zoe_share(lines, size, i).count * (size - 1);
                const uint64_t walks = s.pair ? 2 : 4;
                if (!s.skip)
                    assert_int_equal(cases[i].sent, share * LAYERS * walks);
            }
        }
}

/* A rank that dies in the middle of a gather ends the others. */
static void a_dead_rank_ends_the_walk(void **state)
{
    static rank_case cases[2];
    ranks_result results[2];
    (void)state;
    cases[0].s = cases[1].s = (setting){.bf16 = true};
    ranks_run(&(ranks_plan){.size = 2,
                            .seconds = 20.0,
                            .fault = {.kind = ZOE_FAULT_DEATH, .rank = 1, .exchange = 4},
                            .fn = on_rank,
                            .arg = cases,
                            .arg_step = sizeof cases[0]},
              results);
    assert_int_equal(results[0].status, ZOE_PEER);
    assert_int_equal(results[1].status, ZOE_PEER);
}

/* ---- umT5 ---- */

#define UMT5 ZOE_TEST_DATA "/e2e_i2v/ckpt/models_t5_umt5-xxl-enc-bf16.pth"

static void texts_can_be_streamed(void **state)
{
    static const int32_t ids[] = {5, 17, 3, 44, 9, 1, 30, 2, 1};
    enum { LONG = 9, SHORT = 4, WIDTH = 256 };
    zoe_context *ctx = *state;
    for (int kind = 0; kind < 2; kind++) {
        float one[2][LONG * WIDTH], all[2][LONG * WIDTH];
        zoe_store *store;
        zoe_umt5 *umt5;
        must(ctx, zoe_store_open(ctx, &store, UMT5, ZOE_NAMES_UMT5));
        must(ctx, zoe_umt5_open(ctx, &umt5, store, kind));
        const size_t D = zoe_umt5_dim(umt5);
        assert_in_range(D, 1, WIDTH);
        must(ctx, zoe_umt5_encode(ctx, umt5, one[0], ids, LONG, LONG, NULL));
        must(ctx, zoe_umt5_encode(ctx, umt5, one[1], ids + 1, SHORT, SHORT, NULL));
        for (size_t resident = 0; resident < zoe_umt5_layers(umt5); resident++) {
            const zoe_umt5_text texts[] = {{all[0], ids, LONG, LONG},
                                           {all[1], ids + 1, SHORT, SHORT}};
            must(ctx, zoe_umt5_stream(ctx, umt5, store, (zoe_stream_plan){.resident = resident}));
            must(ctx, zoe_umt5_encode_all(ctx, umt5, texts, 2, NULL));
            assert_memory_equal(one[0], all[0], LONG * D * sizeof(float));
            assert_memory_equal(one[1], all[1], SHORT * D * sizeof(float));
        }
        zoe_umt5_close(umt5);
        zoe_store_close(store);
    }
}

static int set_up(void **state)
{
    zoe_context *ctx = *state = zoe_context_new(1);
    if (!ctx)
        return -1;
    write_network(ctx);
    return 0;
}

static int tear_down(void **state)
{
    zoe_context_free(*state);
    unlink(path());
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streamed_is_the_same),
        cmocka_unit_test(a_pair_is_two_passes),
        cmocka_unit_test(a_pair_needs_its_memory_and_no_route),
        cmocka_unit_test(bytes_are_told),
        cmocka_unit_test(shared_weights_are_the_same),
        cmocka_unit_test(a_dead_rank_ends_the_walk),
        cmocka_unit_test(texts_can_be_streamed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
