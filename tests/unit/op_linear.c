/* zoe_linear against a plain loop in double, and the equalities that it promises. */
#include "op_case.h"

typedef struct config {
    size_t M, N, K, gap;
    zoe_dtype x, w, y;
    bool bias, gate, residual, round_weights;
    zoe_activation activation;
    int threads;
} config;

static zoe_linear_args args_new(const config *c)
{
    zoe_linear_args a = {.activation = c->activation, .round_weights = c->round_weights};
    a.x = tensor_new(c->x, c->M, c->K, c->gap);
    a.w = tensor_new(c->w, c->N, c->K, c->gap);
    a.y = tensor_new(c->y, c->M, c->N, c->gap);
    a.bias = c->bias ? vector_new(c->N) : zoe_tensor_none();
    a.gate = c->gate ? vector_new(c->N) : zoe_tensor_none();
    a.residual = c->residual ? tensor_new(c->y, c->M, c->N, c->gap + 1) : zoe_tensor_none();
    return a;
}

static void args_free(zoe_linear_args a)
{
    tensor_free(a.x);
    tensor_free(a.w);
    tensor_free(a.y);
    tensor_free(a.bias);
    tensor_free(a.gate);
    if (a.residual.data != a.y.data)
        tensor_free(a.residual);
}

static void run(const zoe_linear_args *a, int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    zoe_workspace work = workspace_new(zoe_linear_workspace(ctx, a));
    const zoe_status status = zoe_linear(ctx, a, work);
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_workspace_kept(work);
    free(work.data);
    zoe_context_free(ctx);
}

static double activated(zoe_activation activation, double v)
{
    switch (activation) {
    case ZOE_ACT_SILU: return v / (1.0 + exp(-v));
    case ZOE_ACT_GELU_TANH:
        return 0.5 * v * (1.0 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
    case ZOE_ACT_GELU_ERF: return 0.5 * v * (1.0 + erf(v * 0.70710678118654752));
    case ZOE_ACT_GELU_SIGMOID: return v / (1.0 + exp(-1.702 * v));
    case ZOE_ACT_NONE: break;
    }
    return v;
}

static void check_result(const zoe_linear_args *a)
{
    const bool bf16 = a->x.dtype == ZOE_BF16, round_w = bf16 || a->round_weights;
    for (size_t m = 0; m < a->y.shape[0]; m++)
        for (size_t n = 0; n < a->y.shape[1]; n++) {
            double v = 0.0, scale = 0.0;
            for (size_t k = 0; k < a->x.shape[1]; k++) {
                const double term =
                    (double)value_at(a->x, m, k) * bf16_if(round_w, (double)value_at(a->w, n, k));
                v += term;
                scale += fabs(term);
            }
            for (size_t i = 0; i < a->n_terms; i++)
                for (size_t k = 0; k < a->terms[i].x.shape[1]; k++) {
                    const double term = (double)value_at(a->terms[i].x, m, k) *
                                        (double)a->terms[i].scale *
                                        (double)value_at(a->terms[i].w, n, k);
                    v += term;
                    scale += fabs(term);
                }
            if (a->bias.dtype != ZOE_NONE)
                v += bf16_if(bf16, (double)value_at(a->bias, 0, n));
            scale += fabs(v) + 0.1;
            v = bf16_if(bf16, activated(a->activation, bf16_if(bf16, v)));
            if (a->gate.dtype != ZOE_NONE)
                v *= (double)value_at(a->gate, 0, n);
            if (a->residual.dtype != ZOE_NONE) {
                v += (double)value_at(a->residual, m, n);
                scale += 1.0;
            }
            assert_near(bf16 ? ZOE_BF16 : a->y.dtype, (double)value_at(a->y, m, n), v, scale, 2e-6);
        }
}

static void check_config(const config *c)
{
    zoe_linear_args a = args_new(c);
    run(&a, c->threads);
    check_result(&a);
    assert_gaps_untouched(a.y);
    args_free(a);
}

static void every_option_over_odd_sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 3, 5, 6, 7, 8, 15, 16, 17, 31, 33, 65};
    static const zoe_dtype weights[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_F8_E4M3, ZOE_F8_E5M2};
    static const zoe_dtype rows[] = {ZOE_F32, ZOE_BF16};
    (void)state;
    for (int round = 0; round < 600; round++) {
        const config c = {.M = sizes[pick(14)],
                          .N = sizes[pick(14)],
                          .K = sizes[pick(14)],
                          .gap = pick(3),
                          .x = rows[pick(2)],
                          .w = weights[pick(5)],
                          .y = rows[pick(2)],
                          .bias = pick(2),
                          .gate = pick(2),
                          .residual = pick(2),
                          .round_weights = pick(2),
                          .activation = (zoe_activation)pick(ZOE_ACT_LAST + 1),
                          .threads = 1 + (int)pick(3)};
        check_config(&c);
    }
}

static void several_blocks(void **state)
{
    (void)state;
    const config f32 = {295,  270,  530,  3,     ZOE_F32,           ZOE_BF16, ZOE_F32,
                        true, true, true, false, ZOE_ACT_GELU_TANH, 2};
    const config bf16 = {295,  270,   257,   0,     ZOE_BF16,     ZOE_F32, ZOE_BF16,
                         true, false, false, false, ZOE_ACT_SILU, 2};
    check_config(&f32);
    check_config(&bf16);
}

static void any_number_of_threads_gives_the_same_bytes(void **state)
{
    (void)state;
    const config c = {300,  530,  300,  0,     ZOE_F32,      ZOE_F16, ZOE_F32,
                      true, true, true, false, ZOE_ACT_SILU, 1};
    zoe_linear_args a = args_new(&c);
    const zoe_tensor first = a.y;
    run(&a, 1);
    for (int threads = 2; threads <= 3; threads++) {
        a.y = tensor_new(ZOE_F32, c.M, c.N, 0);
        run(&a, threads);
        assert_same_bytes(a.y, first);
        tensor_free(a.y);
    }
    a.y = first;
    args_free(a);
}

static void a_row_is_the_same_alone_and_among_others(void **state)
{
    (void)state;
    const config c = {300,  70,    600,   0,     ZOE_F32,           ZOE_BF16, ZOE_F32,
                      true, false, false, false, ZOE_ACT_GELU_TANH, 2};
    zoe_linear_args a = args_new(&c), one = a;
    run(&a, 2);
    one.y = tensor_new(ZOE_F32, 1, c.N, 0);
    for (size_t m = 0; m < c.M; m += 41) {
        one.x.shape[0] = 1;
        one.x.data = (float *)a.x.data + m * c.K;
        run(&one, 1);
        assert_memory_equal(one.y.data, (float *)a.y.data + m * c.N, c.N * sizeof(float));
    }
    tensor_free(one.y);
    args_free(a);
}

static void strided_rows_and_residual_in_place_give_the_same_bytes(void **state)
{
    (void)state;
    const config c = {37,   45,   50,   0,     ZOE_BF16,         ZOE_F16, ZOE_BF16,
                      true, true, true, false, ZOE_ACT_GELU_ERF, 2};
    zoe_linear_args a = args_new(&c), b = a;
    run(&a, 1);
    b.x = tensor_copy(a.x, 11);
    b.w = tensor_copy(a.w, 5);
    b.y = tensor_copy(a.residual, 3);
    b.residual = b.y;
    run(&b, 1);
    assert_same_bytes(a.y, b.y);
    assert_gaps_untouched(b.y);
    tensor_free(b.x);
    tensor_free(b.w);
    tensor_free(b.y);
    args_free(a);
}

enum { TERMS = 3 };

/* Up to TERMS of random ranks and types; the first may read the layer's own x. */
static void terms_new(zoe_linear_args *a, zoe_linear_term *terms, size_t n)
{
    static const size_t ranks[] = {0, 1, 3, 16, 17, 64, 300};
    static const zoe_dtype weights[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_F8_E4M3, ZOE_F8_E5M2};
    static const zoe_dtype rows[] = {ZOE_F32, ZOE_BF16};
    const bool own = pick(2);
    for (size_t i = 0; i < n; i++) {
        const size_t R = i == 0 && own ? a->x.shape[1] : ranks[pick(7)];
        terms[i].x = i == 0 && own ? a->x : tensor_new(rows[pick(2)], a->x.shape[0], R, pick(3));
        terms[i].w = tensor_new(weights[pick(5)], a->w.shape[0], R, pick(3));
        terms[i].scale = pick(3) ? noise() : 1.0f;
    }
    a->terms = terms;
    a->n_terms = n;
}

static void terms_free(const zoe_linear_args *a)
{
    for (size_t i = 0; i < a->n_terms; i++) {
        if (a->terms[i].x.data != a->x.data)
            tensor_free(a->terms[i].x);
        tensor_free(a->terms[i].w);
    }
}

static void terms_are_part_of_the_sum(void **state)
{
    static const size_t sizes[] = {0, 1, 3, 7, 16, 17, 65, 260};
    (void)state;
    for (int round = 0; round < 120; round++) {
        const config c = {.M = sizes[pick(7)],
                          .N = sizes[pick(8)],
                          .K = sizes[pick(8)],
                          .gap = pick(3),
                          .x = pick(2) ? ZOE_F32 : ZOE_BF16,
                          .w = pick(2) ? ZOE_F32 : ZOE_F16,
                          .y = pick(2) ? ZOE_F32 : ZOE_BF16,
                          .bias = pick(2),
                          .gate = pick(2),
                          .residual = pick(2),
                          .round_weights = pick(2),
                          .activation = (zoe_activation)pick(ZOE_ACT_LAST + 1)};
        zoe_linear_term terms[TERMS];
        zoe_linear_args a = args_new(&c);
        terms_new(&a, terms, 1 + pick(TERMS));
        run(&a, 1 + (int)pick(3));
        check_result(&a);
        assert_gaps_untouched(a.y);
        terms_free(&a);
        args_free(a);
    }
}

/* Terms of no columns, or times 0, change no bit; rows stay independent of one another, and threads
 * play no part. */
static void terms_keep_the_promises(void **state)
{
    (void)state;
    const config c = {300,  530,  300,  0,     ZOE_F32,      ZOE_F16, ZOE_F32,
                      true, true, true, false, ZOE_ACT_SILU, 1};
    zoe_linear_args a = args_new(&c), b = a, one;
    zoe_linear_term terms[2] = {
        {tensor_new(ZOE_F32, c.M, 0, 1), tensor_new(ZOE_F32, c.N, 0, 1), 1.0f},
        {tensor_new(ZOE_F32, c.M, 70, 0), tensor_new(ZOE_BF16, c.N, 70, 0), 0.0f}};
    run(&a, 1);
    b.y = tensor_new(ZOE_F32, c.M, c.N, 0);
    b.terms = terms;
    b.n_terms = 2;
    run(&b, 2);
    assert_same_bytes(a.y, b.y);
    terms[1].scale = 0.75f;
    run(&b, 1);
    assert_memory_not_equal(a.y.data, b.y.data, c.M * c.N * sizeof(float));
    run(&b, 3);
    one = b;
    one.y = tensor_new(ZOE_F32, 1, c.N, 0);
    one.terms = (const zoe_linear_term[]){terms[1]};
    one.n_terms = 1;
    run(&b, 2);
    for (size_t m = 0; m < c.M; m += 41) {
        zoe_linear_term row = terms[1];
        row.x.data = (float *)terms[1].x.data + m * 70;
        row.x.shape[0] = one.x.shape[0] = one.residual.shape[0] = 1;
        one.x.data = (float *)b.x.data + m * c.K;
        one.residual.data = (float *)b.residual.data + m * (size_t)b.residual.stride[0];
        one.terms = &row;
        run(&one, 1);
        assert_memory_equal(one.y.data, (float *)b.y.data + m * c.N, c.N * sizeof(float));
    }
    tensor_free(one.y);
    tensor_free(b.y);
    for (size_t i = 0; i < 2; i++) {
        tensor_free(terms[i].x);
        tensor_free(terms[i].w);
    }
    args_free(a);
}

static void wrong_terms_are_refused(void **state)
{
    (void)state;
    const config c = {4,     6,     5,     0,     ZOE_F32,      ZOE_F32, ZOE_F32,
                      false, false, false, false, ZOE_ACT_NONE, 1};
    zoe_linear_args a = args_new(&c);
    zoe_context *ctx = zoe_context_new(1);
    zoe_workspace work = workspace_new(zoe_linear_workspace(ctx, &a));
    zoe_linear_term t;
    const zoe_linear_term good = {tensor_new(ZOE_F32, 4, 3, 0), tensor_new(ZOE_BF16, 6, 3, 0),
                                  1.0f};
    a.terms = &t;
    a.n_terms = 1;
#define REFUSED(change, word)                                                                      \
    t = good;                                                                                      \
    change;                                                                                        \
    assert_refused(ctx, zoe_linear(ctx, &a, work), ZOE_INVALID, word)
    REFUSED(t.x.shape[0] = 3, "x of a term is f32 [3, 3], wanted f32, f16 or bf16 [4, any]");
    REFUSED(t.w.shape[0] = 5, "w of a term is bf16 [5, 3]");
    REFUSED(t.w.shape[1] = 2, "w of a term is bf16 [6, 2]");
    REFUSED(t.x.dtype = ZOE_F64, "x of a term is f64");
    REFUSED(t.x = zoe_tensor_none(), "x of a term is none");
    REFUSED((t.x.data = a.y.data, t.x.stride[0] = 6), "y overlaps x of a term");
    REFUSED((t.w.data = a.y.data, t.w.dtype = ZOE_F32), "y overlaps w of a term");
#undef REFUSED
    tensor_free(good.x);
    tensor_free(good.w);
    free(work.data);
    zoe_context_free(ctx);
    args_free(a);
}

static void nan_stays_in_its_row(void **state)
{
    (void)state;
    const config c = {9,     20,    30,    0,     ZOE_F32,      ZOE_F32, ZOE_F32,
                      false, false, false, false, ZOE_ACT_NONE, 1};
    zoe_linear_args a = args_new(&c);
    put(a.x, 4, 29, NAN);
    put(a.x, 6, 0, INFINITY);
    run(&a, 1);
    for (size_t m = 0; m < c.M; m++)
        for (size_t n = 0; n < c.N; n++) {
            const float v = value_at(a.y, m, n);
            assert_true(m == 4 ? isnan(v) : m == 6 ? isinf(v) : isfinite(v));
        }
    args_free(a);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    const config c = {4,    6,    5,    0,     ZOE_F32,      ZOE_F32, ZOE_F32,
                      true, true, true, false, ZOE_ACT_NONE, 1};
    const zoe_linear_args good = args_new(&c);
    zoe_context *ctx = zoe_context_new(1);
    zoe_workspace work = workspace_new(zoe_linear_workspace(ctx, &good));
    zoe_linear_args a;
#define REFUSED(change, status, word)                                                              \
    a = good;                                                                                      \
    change;                                                                                        \
    assert_refused(ctx, zoe_linear(ctx, &a, work), status, word)
    REFUSED(a.x.dtype = ZOE_F64, ZOE_INVALID,
            "x is f64 [4, 5], wanted f32, f16 or bf16 [any, any]");
    REFUSED(a.x.dtype = (zoe_dtype)77, ZOE_INVALID, "x is");
    REFUSED(a.x = zoe_tensor_none(), ZOE_INVALID, "x is none");
    REFUSED(a.x.rank = 3, ZOE_INVALID, "w is");
    REFUSED(a.x.rank = 9, ZOE_INVALID, "rank 9");
    REFUSED(a.x.rank = -1, ZOE_INVALID, "rank -1");
    REFUSED(a.x.stride[0] = -5, ZOE_INVALID, "x has stride -5");
    REFUSED(a.x.stride[1] = 2, ZOE_INVALID, "x has stride 2 on axis 1");
    REFUSED(a.x.data = NULL, ZOE_INVALID, "x has no data");
    REFUSED((a.x.shape[0] = SIZE_MAX / 2, a.y.shape[0] = SIZE_MAX / 2), ZOE_INVALID,
            "more than memory");
    REFUSED(a.w.shape[1] = 6, ZOE_INVALID, "w is f32 [6, 6]");
    REFUSED(a.y.shape[1] = 7, ZOE_INVALID, "y is f32 [4, 7], wanted f32, f16 or bf16 [4, 6]");
    REFUSED(a.y.dtype = ZOE_F64, ZOE_INVALID, "y is f64");
    REFUSED(a.bias.shape[0] = 5, ZOE_INVALID, "bias is f32 [5], wanted f32 [6] or none");
    REFUSED(a.gate.dtype = ZOE_BF16, ZOE_INVALID, "gate is bf16");
    REFUSED(a.residual.shape[0] = 3, ZOE_INVALID, "residual is");
    REFUSED(a.activation = (zoe_activation)9, ZOE_INVALID, "activation 9");
    REFUSED((a.y.data = a.x.data, a.y.stride[0] = 6), ZOE_INVALID, "y overlaps x");
    REFUSED((a.residual = a.y, a.residual.shape[0] = 4, a.residual.data = (float *)a.y.data + 1),
            ZOE_INVALID, "y overlaps residual");
    work.bytes -= 1;
    REFUSED((void)0, ZOE_NOMEM, "workspace");
    work.bytes += 1;
    zoe_cancel(ctx);
    REFUSED((void)0, ZOE_CANCELLED, "interrupted");
#undef REFUSED
    free(work.data);
    zoe_context_free(ctx);
    args_free(good);
}

static void columns_of_one_buffer_do_not_overlap(void **state)
{
    (void)state;
    const config c = {5,     8,     7,     0,     ZOE_F32,      ZOE_F32, ZOE_F32,
                      false, false, false, false, ZOE_ACT_NONE, 1};
    zoe_linear_args a = args_new(&c);
    zoe_tensor both = tensor_new(ZOE_F32, c.M, c.K + c.N, 0);
    tensor_free(a.x);
    tensor_free(a.y);
    a.x = both;
    a.x.shape[1] = c.K;
    a.y = both;
    a.y.shape[1] = c.N;
    a.y.data = (float *)both.data + c.K;
    run(&a, 1);
    check_result(&a);
    tensor_free(both);
    tensor_free(a.w);
}

/* A caller who plans for a chunk of rows runs shorter ones too. */
static void workspaces_grow_with_their_shapes(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    size_t linear = 0, attention = 0;
    assert_non_null(ctx);
    for (size_t n = 1; n < 1100; n++) {
        const zoe_linear_args l = {.y = zoe_tensor_2d(NULL, ZOE_F32, n, 500),
                                   .x = zoe_tensor_2d(NULL, ZOE_F32, n, 96),
                                   .w = zoe_tensor_2d(NULL, ZOE_BF16, 500, 96)};
        const zoe_attention_args a = {.o = zoe_tensor_3d(NULL, ZOE_F32, n, 2, 32),
                                      .q = zoe_tensor_3d(NULL, ZOE_F32, n, 2, 32),
                                      .k = zoe_tensor_3d(NULL, ZOE_F32, n, 2, 32),
                                      .v = zoe_tensor_3d(NULL, ZOE_F32, n, 2, 32),
                                      .scale = 1.0f,
                                      .last_count = 1};
        assert_true(zoe_linear_workspace(ctx, &l) >= linear);
        assert_true(zoe_attention_workspace(ctx, &a) >= attention);
        linear = zoe_linear_workspace(ctx, &l);
        attention = zoe_attention_workspace(ctx, &a);
    }
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_over_odd_sizes),
        cmocka_unit_test(several_blocks),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bytes),
        cmocka_unit_test(a_row_is_the_same_alone_and_among_others),
        cmocka_unit_test(strided_rows_and_residual_in_place_give_the_same_bytes),
        cmocka_unit_test(terms_are_part_of_the_sum),
        cmocka_unit_test(terms_keep_the_promises),
        cmocka_unit_test(wrong_terms_are_refused),
        cmocka_unit_test(nan_stays_in_its_row),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(columns_of_one_buffer_do_not_overlap),
        cmocka_unit_test(workspaces_grow_with_their_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
