/* The Wan transformer on several ranks that share the tokens, against one rank. */
#include "rank_case.h"

#include "model/model.h"

#define DATA ZOE_TEST_DATA "/dit/i2v_a14b/"

enum { CONTEXT_ROWS = 7 };
static const double TIME = 700.0;

typedef struct size {
    size_t f, h, w, still;
} size;

/* A network with its inputs, and what the ranks made of them. */
typedef struct ranks_case {
    zoe_context *ctx;
    zoe_store *store;
    zoe_wan *wan;
    zoe_wan_text *text[2];
    zoe_wan_dims dims;
    bool bf16, pair, stepwise;
    size s;
    size_t tokens, n; /* n: elements of a velocity */
    float *latent, *condition, *hidden;
    size_t U, R;
    float *velocity[MOST_RANKS][2];
} ranks_case;

static void must(const ranks_case *c, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(c->ctx));
}

static float *noise(size_t n)
{
    static uint64_t seed = 5;
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)(seed >> 40) / (float)(1u << 23) - 1.0f;
    }
    return values;
}

static void case_open(ranks_case *c, bool bf16, size s)
{
    zoe_config *config;
    *c = (ranks_case){.bf16 = bf16, .s = s};
    c->ctx = zoe_context_new(1);
    assert_non_null(c->ctx);
    must(c, zoe_store_open(c->ctx, &c->store, DATA "diffusion_pytorch_model.safetensors",
                           ZOE_NAMES_WAN_DIT));
    must(c, zoe_config_open(c->ctx, &config, DATA "config.json"));
    must(c, zoe_wan_open(c->ctx, &c->wan, c->store, config, bf16));
    zoe_config_close(config);
    c->dims = *zoe_wan_dims_of(c->wan);
    for (size_t i = 0; i < 2; i++) {
        float *context = noise(CONTEXT_ROWS * c->dims.text_dim);
        must(c, zoe_wan_text_new(c->ctx, &c->text[i], c->wan, context, CONTEXT_ROWS, NULL));
        free(context);
    }
    const size_t plane = s.f * s.h * s.w;
    c->tokens = plane / 4;
    c->n = c->dims.out_dim * plane;
    c->latent = noise(c->n);
    c->condition = noise((c->dims.in_dim - c->dims.out_dim) * plane);
    c->hidden = noise(c->tokens * c->dims.dim);
    for (size_t i = 0; i < MOST_RANKS; i++)
        for (size_t b = 0; b < 2; b++)
            c->velocity[i][b] = noise(c->n);
}

static void case_close(ranks_case *c)
{
    for (size_t i = 0; i < MOST_RANKS; i++)
        for (size_t b = 0; b < 2; b++)
            free(c->velocity[i][b]);
    free(c->latent);
    free(c->condition);
    free(c->hidden);
    for (size_t i = 0; i < 2; i++)
        zoe_wan_text_free(c->text[i]);
    zoe_wan_close(c->wan);
    zoe_store_close(c->store);
    zoe_context_free(c->ctx);
}

/* Notes the first block's input of the own tokens. */
typedef struct watch {
    ranks_case *c;
    const zoe_wan_work *work;
} watch;

static zoe_status see(zoe_context *ctx, void *user, const zoe_wan_point *point, size_t *next)
{
    const watch *w = user;
    const zoe_span own = zoe_wan_work_tokens(w->work);
    const size_t D = w->c->dims.dim;
    (void)ctx;
    if (point->block == 0)
        memcpy(w->c->hidden + own.first * D, point->hidden, own.count * D * sizeof(float));
    *next = point->block;
    return ZOE_OK;
}

/* One or both passes of a rank. */
static zoe_status forward(ranks_case *c, zoe_context *ctx, zoe_wan_work *work, size_t rank)
{
    float *const *v = c->velocity[rank];
    const zoe_wan_text *const text[] = {c->text[0], c->text[1]};
    watch w = {c, work};
    if (c->pair) {
        TRY(zoe_wan_work_pair(ctx, work));
        return zoe_wan_forward_pair(ctx, c->wan, work, v, c->latent, c->condition, text, TIME,
                                    c->s.still);
    }
    zoe_wan_work_route(work, see, &w);
    for (size_t b = 0; b < 2; b++)
        TRY(zoe_wan_forward_still(ctx, c->wan, work, v[b], c->latent, c->condition, text[b], TIME,
                                  c->s.still, NULL));
    return ZOE_OK;
}

static zoe_status rank_passes(void *user, zoe_context *ctx, zoe_comm *comm)
{
    ranks_case *c = user;
    zoe_sequence sequence;
    zoe_wan_work *work = NULL;
    zoe_status status;
    TRY(zoe_sequence_new(ctx, &sequence, comm, c->U, c->R, c->stepwise));
    const zoe_place place = zoe_place_of(&sequence);
    TRY_GOTO(zoe_wan_work_new_on(ctx, &work, &c->dims, c->bf16, c->s.f, c->s.h, c->s.w, &sequence));
    const uint64_t before = zoe_comm_traffic(comm).sent;
    TRY_GOTO(forward(c, ctx, work, place.rank));
    const uint64_t sent = zoe_comm_traffic(comm).sent - before;
    const uint64_t planned = 2 * zoe_wan_sent(&c->dims, c->bf16, c->s.f, c->s.h, c->s.w, &place);
    if (sent != planned)
        status = zoe_fail(ctx, ZOE_INTERNAL, "%zu bytes sent, planned %zu", (size_t)sent,
                          (size_t)planned);
done:
    zoe_wan_work_free(work);
    zoe_sequence_free(&sequence);
    return status;
}

/* What one rank makes of it: velocity of rank MOST_RANKS - 1. */
static void alone(ranks_case *c)
{
    zoe_wan_work *work;
    must(c, zoe_wan_work_new(c->ctx, &work, &c->dims, c->bf16, c->s.f, c->s.h, c->s.w));
    must(c, forward(c, c->ctx, work, MOST_RANKS - 1));
    zoe_wan_work_free(work);
}

static double distance(const float *got, const float *want, size_t n)
{
    double error = 0.0, norm = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double e = (double)got[i] - (double)want[i];
        error += e * e;
        norm += (double)want[i] * (double)want[i];
    }
    return sqrt(error / norm);
}

/* On U x R ranks, the velocities of one, which stand there already. */
static void on(ranks_case *c, size_t U, size_t R, double limit)
{
    c->U = U;
    c->R = R;
    run_ranks(U * R, NULL, rank_passes, c, NULL);
    for (size_t b = 0; b < 2; b++) {
        const float *want = c->velocity[MOST_RANKS - 1][b], *got = c->velocity[0][b];
        for (size_t i = 1; i < U * R; i++)
            assert_memory_equal(c->velocity[i][b], got, c->n * sizeof *got);
        if (R == 1) {
            assert_memory_equal(got, want, c->n * sizeof *got);
            continue;
        }
        const double error = distance(got, want, c->n);
        if (!(error <= limit))
            fail_msg("%zu x %zu ranks, %zu tokens: rel L2 %.3g, at most %g is wanted", U, R,
                     c->tokens, error, limit);
    }
}

static const size some = {3, 6, 10, 1}, three = {1, 2, 6, 0}, seven = {1, 2, 14, 1};
static const size many = {2, 46, 46, 1}; /* 1058 tokens: one rank alone takes them in two chunks */

static void every_grid_gives_the_velocity_of_one_rank(void **state)
{
    static const size_t Us[] = {1, 2, 4};
    const size sizes[] = {some, three, seven};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        ranks_case c;
        case_open(&c, false, sizes[i]);
        alone(&c);
        for (size_t u = 0; u < 3; u++)
            for (size_t R = 1; R <= 3; R++) {
                c.stepwise = (u + R + i) % 2;
                on(&c, Us[u], R, 1e-5);
            }
        case_close(&c);
    }
}

static void seven_tokens_on_eight_ranks(void **state)
{
    ranks_case c;
    (void)state;
    case_open(&c, false, seven);
    alone(&c);
    on(&c, 8, 1, 0.0);
    on(&c, 1, 8, 1e-5);
    on(&c, 4, 2, 1e-5);
    case_close(&c);
}

/* In bf16 a difference of one rounding is as large as the format's unit. */
static void bf16_too(void **state)
{
    ranks_case c;
    (void)state;
    case_open(&c, true, some);
    alone(&c);
    on(&c, 3, 1, 0.0);
    on(&c, 4, 1, 0.0);
    on(&c, 2, 2, 1e-2);
    case_close(&c);
}

static void chunks_of_tokens_change_no_bit(void **state)
{
    ranks_case c;
    (void)state;
    case_open(&c, false, many);
    alone(&c);
    on(&c, 2, 1, 0.0);
    case_close(&c);
}

static void the_first_block_sees_the_tokens_of_one_rank(void **state)
{
    ranks_case c;
    (void)state;
    case_open(&c, false, some);
    alone(&c);
    const size_t n = c.tokens * c.dims.dim;
    float *want = noise(n);
    memcpy(want, c.hidden, n * sizeof *want);
    memset(c.hidden, 0xff, n * sizeof *want);
    on(&c, 2, 3, 1e-5);
    assert_memory_equal(c.hidden, want, n * sizeof *want);
    free(want);
    case_close(&c);
}

static void two_passes_in_one_walk(void **state)
{
    ranks_case c;
    (void)state;
    case_open(&c, false, some);
    c.U = 2;
    c.R = 2;
    run_ranks(4, NULL, rank_passes, &c, NULL);
    for (size_t b = 0; b < 2; b++)
        memcpy(c.velocity[MOST_RANKS - 1][b], c.velocity[0][b], c.n * sizeof(float));
    c.pair = true;
    on(&c, 2, 2, 0.0);
    alone(&c);
    on(&c, 2, 1, 0.0);
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_grid_gives_the_velocity_of_one_rank),
        cmocka_unit_test(seven_tokens_on_eight_ranks),
        cmocka_unit_test(bf16_too),
        cmocka_unit_test(chunks_of_tokens_change_no_bit),
        cmocka_unit_test(the_first_block_sees_the_tokens_of_one_rank),
        cmocka_unit_test(two_passes_in_one_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
