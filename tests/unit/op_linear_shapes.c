/* zoe_linear and zoe_linear_parts on views of more than two axes, with several matrices of weights,
 * several outputs of one x and gates of groups: the same bytes as one plain product for each. */
#include "op_case.h"

static const zoe_dtype rows[] = {ZOE_F32, ZOE_F16, ZOE_BF16};

/* A view [A, B, M, D] whose axes lie apart. */
static zoe_tensor view_new(zoe_dtype dtype, size_t A, size_t B, size_t M, size_t D)
{
    const size_t gap = pick(3), rows_between = pick(2), blocks_between = pick(2);
    const size_t row = D + gap, block = (M + rows_between) * row;
    const size_t outer = (B + blocks_between) * block;
    zoe_tensor t = tensor_new(dtype, 1, A * outer + 1, 0);
    t.rank = 4;
    t.shape[0] = A;
    t.shape[1] = B;
    t.shape[2] = M;
    t.shape[3] = D;
    t.stride[0] = (ptrdiff_t)outer;
    t.stride[1] = (ptrdiff_t)block;
    t.stride[2] = (ptrdiff_t)row;
    t.stride[3] = 1;
    return t;
}

static zoe_tensor matrix_of(zoe_tensor t, size_t a, size_t b)
{
    zoe_tensor m =
        zoe_tensor_2d((char *)t.data + zoe_dtype_bytes(t.dtype) *
                                           (a * (size_t)t.stride[0] + b * (size_t)t.stride[1]),
                      t.dtype, t.shape[2], t.shape[3]);
    m.stride[0] = t.stride[2];
    return m;
}

static void run_parts(const zoe_linear_args *parts, size_t n, int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    zoe_workspace work = workspace_new(zoe_linear_parts_workspace(ctx, parts, n));
    if (zoe_linear_parts(ctx, parts, n, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_workspace_kept(work);
    free(work.data);
    zoe_context_free(ctx);
}

static void check_matrices(bool many)
{
    static const size_t sizes[] = {1, 2, 5, 9, 17};
    const size_t A = 1 + pick(3), B = 1 + pick(3), M = sizes[pick(5)], N = sizes[pick(5)],
                 K = sizes[pick(5)] * 20;
    const size_t matrices = A * B;
    const size_t groups = pick(2) ? matrices * (pick(2) ? 1 : M) : A;
    zoe_linear_args a = {.x = view_new(rows[pick(3)], A, B, M, K),
                         .y = view_new(rows[pick(3)], A, B, M, N),
                         .residual = view_new(rows[pick(3)], A, B, M, N),
                         .w = many ? view_new(ZOE_BF16, A, B, N, K) : tensor_new(ZOE_F32, N, K, 1),
                         .bias = vector_new(N),
                         .gate = tensor_new(ZOE_F32, groups, N, 2),
                         .activation = (zoe_activation)pick(ZOE_ACT_LAST + 1)};
    run_parts(&a, 1, 1 + (int)pick(3));
    const size_t each = matrices * M / groups; /* rows of a group */
    for (size_t i = 0; i < matrices; i++)
        for (size_t m = 0; m < M; m++) {
            const zoe_tensor y = matrix_of(a.y, i / B, i % B);
            zoe_linear_args one = a;
            one.x = matrix_of(a.x, i / B, i % B);
            one.residual = matrix_of(a.residual, i / B, i % B);
            one.w = many ? matrix_of(a.w, i / B, i % B) : a.w;
            one.x.data =
                (char *)one.x.data + m * (size_t)one.x.stride[0] * zoe_dtype_bytes(one.x.dtype);
            one.residual.data = (char *)one.residual.data + m * (size_t)one.residual.stride[0] *
                                                                zoe_dtype_bytes(one.residual.dtype);
            one.x.shape[0] = one.residual.shape[0] = 1;
            one.gate = zoe_tensor_1d(
                (float *)a.gate.data + (i * M + m) / each * (size_t)a.gate.stride[0], ZOE_F32, N);
            one.y = tensor_new(a.y.dtype, 1, N, 0);
            run_parts(&one, 1, 1);
            assert_memory_equal(one.y.data,
                                (char *)y.data + m * (size_t)y.stride[0] * zoe_dtype_bytes(y.dtype),
                                N * zoe_dtype_bytes(y.dtype));
            tensor_free(one.y);
        }
    tensor_free(a.x);
    tensor_free(a.y);
    tensor_free(a.residual);
    tensor_free(a.w);
    tensor_free(a.bias);
    tensor_free(a.gate);
}

static void views_of_four_axes(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++)
        check_matrices(false);
}

static void a_matrix_of_weights_for_each_of_x(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++)
        check_matrices(true);
}

enum { PARTS = 5 };

static void check_parts(size_t M, size_t K, const size_t *N, size_t n, int threads)
{
    static const zoe_dtype weights[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_F8_E4M3};
    zoe_linear_args parts[PARTS];
    zoe_linear_term terms[PARTS];
    const zoe_tensor x = tensor_new(rows[pick(3)], M, K, pick(2));
    for (size_t i = 0; i < n; i++) {
        terms[i] =
            (zoe_linear_term){tensor_new(ZOE_F32, M, 7, 0), tensor_new(ZOE_BF16, N[i], 7, 0), 0.5f};
        parts[i] = (zoe_linear_args){.x = x,
                                     .y = tensor_new(rows[pick(3)], M, N[i], 3),
                                     .w = tensor_new(weights[pick(4)], N[i], K, 0),
                                     .bias = pick(2) ? vector_new(N[i]) : zoe_tensor_none(),
                                     .round_weights = pick(2),
                                     .activation = (zoe_activation)pick(ZOE_ACT_LAST + 1),
                                     .terms = &terms[i],
                                     .n_terms = pick(2)};
        parts[i].residual = pick(2) ? tensor_copy(parts[i].y, 1) : zoe_tensor_none();
    }
    run_parts(parts, n, threads);
    for (size_t i = 0; i < n; i++) {
        zoe_linear_args one = parts[i];
        one.y = tensor_new(one.y.dtype, M, N[i], 0);
        run_parts(&one, 1, 1);
        assert_same_bytes(one.y, parts[i].y);
        assert_gaps_untouched(parts[i].y);
        tensor_free(one.y);
        tensor_free(parts[i].y);
        tensor_free(parts[i].w);
        tensor_free(parts[i].bias);
        tensor_free(parts[i].residual);
        tensor_free(terms[i].x);
        tensor_free(terms[i].w);
    }
    tensor_free(x);
}

static void parts_give_the_bytes_of_each_alone(void **state)
{
    static const size_t sizes[] = {0, 1, 3, 15, 16, 17, 33, 100};
    (void)state;
    for (int round = 0; round < 60; round++) {
        size_t N[PARTS];
        for (size_t i = 0; i < PARTS; i++)
            N[i] = sizes[pick(8)];
        check_parts(sizes[pick(8)], sizes[1 + pick(7)] * 3, N, 1 + pick(PARTS), 1 + (int)pick(3));
    }
}

/* Blocks of columns that begin in one part and end in another, and several blocks of rows. */
static void parts_across_blocks(void **state)
{
    (void)state;
    check_parts(450, 270, (const size_t[]){700, 690, 710}, 3, 3);
    check_parts(3, 520, (const size_t[]){900, 700}, 2, 2);
}

static void check_few(zoe_dtype w, size_t N, size_t K, size_t gap, bool round_weights)
{
    static const size_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 60, 397, 800};
    zoe_linear_args a = {.x = tensor_new(ZOE_F32, 800, K, 0),
                         .y = tensor_new(ZOE_F32, 800, N, 0),
                         .w = tensor_new(w, N, K, gap),
                         .round_weights = round_weights};
    run_parts(&a, 1, 2);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        zoe_linear_args some = a;
        some.x.shape[0] = counts[i];
        some.y = tensor_new(ZOE_F32, counts[i], N, 0);
        run_parts(&some, 1, 1);
        assert_memory_equal(some.y.data, a.y.data, counts[i] * N * sizeof(float));
        tensor_free(some.y);
    }
    tensor_free(a.x);
    tensor_free(a.y);
    tensor_free(a.w);
}

static void few_rows_have_the_bytes_of_many(void **state)
{
    static const zoe_dtype weights[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_F8_E4M3, ZOE_F8_E5M2};
    (void)state;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        check_few(weights[i], 37, 600, i % 2, false);
        check_few(weights[i], 33, 29, 1, true);
    }
}

/* If one part has a matrix for each of x, the gates of all are cut by matrices. */
static void gates_beside_several_matrices(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    float x[3 * 2 * 4] = {0}, many[3 * 5 * 4] = {0}, w[5 * 4] = {0}, gate[6 * 5] = {0};
    float y[2][3 * 2 * 5];
    zoe_linear_args a[2] = {{.x = zoe_tensor_3d(x, ZOE_F32, 3, 2, 4),
                             .w = zoe_tensor_3d(many, ZOE_F32, 3, 5, 4),
                             .y = zoe_tensor_3d(y[0], ZOE_F32, 3, 2, 5)},
                            {.x = zoe_tensor_3d(x, ZOE_F32, 3, 2, 4),
                             .w = zoe_tensor_2d(w, ZOE_F32, 5, 4),
                             .gate = zoe_tensor_2d(gate, ZOE_F32, 2, 5),
                             .y = zoe_tensor_3d(y[1], ZOE_F32, 3, 2, 5)}};
    zoe_workspace work = workspace_new(zoe_linear_parts_workspace(ctx, a, 2));
    assert_refused(ctx, zoe_linear_parts(ctx, a, 2, work), ZOE_INVALID,
                   "gate has 2 groups for 3 matrices");
    for (size_t G = 1; G <= 6; G += G == 1 ? 2 : 3) { /* 1, 3, 6: a group of rows each */
        float bias[5] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
        a[1].bias = zoe_tensor_1d(bias, ZOE_F32, 5);
        a[1].gate = zoe_tensor_2d(gate, ZOE_F32, G, 5);
        for (size_t i = 0; i < G * 5; i++)
            gate[i] = (float)(i / 5 + 1);
        assert_int_equal(zoe_linear_parts(ctx, a, 2, work), ZOE_OK);
        for (size_t row = 0; row < 6; row++)
            for (size_t n = 0; n < 5; n++)
                assert_true(y[1][row * 5 + n] == (float)(row / (6 / G) + 1));
    }
    free(work.data);
    zoe_context_free(ctx);
}

static void wrong_parts_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    const zoe_tensor x = tensor_new(ZOE_F32, 6, 5, 0);
    zoe_linear_args good[2], a[2];
    for (size_t i = 0; i < 2; i++)
        good[i] = (zoe_linear_args){.x = x,
                                    .y = tensor_new(ZOE_F32, 6, 4, 0),
                                    .w = tensor_new(ZOE_F32, 4, 5, 0),
                                    .gate = tensor_new(ZOE_F32, 3, 4, 0)};
    zoe_workspace work = workspace_new(zoe_linear_parts_workspace(ctx, good, 2));
    assert_int_equal(zoe_linear_parts(ctx, good, 2, work), ZOE_OK);
#define REFUSED(change, word)                                                                      \
    memcpy(a, good, sizeof a);                                                                     \
    change;                                                                                        \
    assert_refused(ctx, zoe_linear_parts(ctx, a, 2, work), ZOE_INVALID, word)
    REFUSED((a[1].x.shape[0] = 3, a[1].y.shape[0] = 3), "part 1 has another x than part 0");
    REFUSED(a[1].y = a[0].y, "y overlaps y of another part");
    REFUSED(a[1].w.data = a[0].y.data, "y overlaps w");
    REFUSED(a[1].gate.shape[0] = 4, "gate has 4 groups for 6 rows");
    REFUSED(a[1].residual = a[0].y, "y overlaps residual");
    REFUSED(a[1].w.rank = 3, "w is");
    REFUSED(a[1].n_terms = 2, "2 terms, and none is given");
    REFUSED(a[1].w.rank = 100, "w has rank 100");
    REFUSED(a[1].x.rank = -1, "x has rank -1");
#undef REFUSED
    assert_refused(ctx, zoe_linear_parts(ctx, good, 0, work), ZOE_INVALID, "0 parts");
    assert_refused(ctx, zoe_linear_parts(ctx, good, 9, work), ZOE_INVALID, "9 parts");
    assert_refused(ctx, zoe_linear_parts(ctx, NULL, 2, work), ZOE_INVALID, "none is given");
    /* Workspaces are asked for first: whatever the arguments, there is an answer. */
    static const int ranks[] = {-1, 0, 1, 6, 100};
    for (size_t i = 0; i < 5; i++) {
        memcpy(a, good, sizeof a);
        a[0].x.rank = a[1].w.rank = ranks[i];
        assert_int_equal(zoe_linear_parts_workspace(ctx, a, 2), 0);
    }
    memcpy(a, good, sizeof a);
    a[0].w.shape[0] = SIZE_MAX;
    assert_int_equal(zoe_linear_parts_workspace(ctx, a, 1), 0);
    assert_int_equal(zoe_linear_parts_workspace(ctx, NULL, 2), 0);
    for (size_t i = 0; i < 2; i++) {
        tensor_free(good[i].y);
        tensor_free(good[i].w);
        tensor_free(good[i].gate);
    }
    tensor_free(x);
    free(work.data);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_of_four_axes),
        cmocka_unit_test(a_matrix_of_weights_for_each_of_x),
        cmocka_unit_test(parts_give_the_bytes_of_each_alone),
        cmocka_unit_test(parts_across_blocks),
        cmocka_unit_test(few_rows_have_the_bytes_of_many),
        cmocka_unit_test(gates_beside_several_matrices),
        cmocka_unit_test(wrong_parts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
