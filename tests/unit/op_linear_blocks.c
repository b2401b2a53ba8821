/* zoe_linear with weights of block types and with factors: the same bytes as with the weights
 * expanded to f32 beforehand. */
#include "op_case.h"

static const zoe_dtype blocks[] = {ZOE_Q4_0, ZOE_Q4_1, ZOE_Q5_0, ZOE_Q5_1, ZOE_Q8_0,
                                   ZOE_Q2_K, ZOE_Q3_K, ZOE_Q4_K, ZOE_Q5_K, ZOE_Q6_K};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* Random weights whose f16 fields are moderate: bytes below 0x40 keep every exponent small. Rows
 * lie `gap` blocks apart. */
static zoe_tensor weights_new(zoe_dtype dtype, size_t rows, size_t columns, size_t gap)
{
    zoe_tensor t = zoe_tensor_2d(NULL, dtype, rows, columns);
    t.stride[0] = (ptrdiff_t)(columns + gap * zoe_block_elements(dtype));
    const size_t bytes = zoe_run_bytes(dtype, rows * (size_t)t.stride[0]);
    t.data = malloc(bytes + 1);
    assert_non_null(t.data);
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)t.data)[i] = (uint8_t)pick(dtype == ZOE_F8_E4M3 ? 0x78 : 0x40);
    return t;
}

/* The same values in f32, by the definition; factors rounded to bf16 first if `round`, as the
 * product does then. */
static zoe_tensor expanded(zoe_tensor w, bool round)
{
    const size_t N = w.shape[0], K = w.shape[1];
    zoe_tensor t = tensor_new(ZOE_F32, N, K, 0);
    for (size_t n = 0; n < N; n++) {
        float *row = (float *)t.data + n * K;
        zoe_widen(row, (char *)w.data + zoe_run_bytes(w.dtype, n * (size_t)w.stride[0]), w.dtype,
                  K);
        for (size_t k = 0; k < K && w.scaling; k++) {
            const zoe_scaling *s = w.scaling;
            const float f = s->values[n / s->row_step * s->columns + k / s->column_step];
            row[k] *= round ? zoe_bf16_round(f) : f;
        }
    }
    return t;
}

static void run(zoe_tensor y, zoe_tensor x, zoe_tensor w, zoe_tensor bias, bool round, int threads)
{
    zoe_context *ctx = zoe_context_new(threads);
    const zoe_linear_args a = {
        .y = y, .x = x, .w = w, .bias = bias, .activation = ZOE_ACT_SILU, .round_weights = round};
    zoe_workspace work = workspace_new(zoe_linear_workspace(ctx, &a));
    if (zoe_linear(ctx, &a, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_workspace_kept(work);
    free(work.data);
    zoe_context_free(ctx);
}

/* Frees w. */
static void check_weights(zoe_tensor w, size_t M, zoe_dtype type, bool round, int threads)
{
    const size_t N = w.shape[0], K = w.shape[1];
    const bool rounds = round || type == ZOE_BF16;
    const zoe_tensor f32 = expanded(w, rounds), x = tensor_new(type, M, K, 1);
    const zoe_tensor got = tensor_new(type, M, N, 2), want = tensor_new(type, M, N, 0);
    const zoe_tensor bias = vector_new(N);
    run(got, x, w, bias, round, threads);
    run(want, x, f32, bias, round, 1);
    assert_same_bytes(got, want);
    assert_gaps_untouched(got);
    bool some = M * N < 20; /* few may all be large and negative, which silu makes 0 */
    for (size_t i = 0; i < M * N; i++) {
        const float v = zoe_load_f32(want.data, type, i);
        assert_true(isfinite(v));
        some = some || v != 0.0f;
    }
    assert_true(some);
    tensor_free(f32);
    tensor_free(x);
    tensor_free(got);
    tensor_free(want);
    tensor_free(bias);
    tensor_free(w);
}

static void blocks_give_the_bytes_of_expanded_weights(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 5, 7, 16, 17, 33};
    (void)state;
    for (size_t t = 0; t < BLOCKS; t++)
        for (int round = 0; round < 40; round++) {
            const size_t elements = zoe_block_elements(blocks[t]);
            const size_t K = elements * (1 + pick(elements == 32 ? 19 : 3));
            const zoe_tensor w = weights_new(blocks[t], sizes[pick(8)], K, pick(3));
            check_weights(w, sizes[pick(8)], pick(2) ? ZOE_F32 : ZOE_BF16, pick(2),
                          1 + (int)pick(3));
        }
}

static void several_tasks(void **state)
{
    (void)state;
    check_weights(weights_new(ZOE_Q8_0, 430, 288, 0), 250, ZOE_F32, false, 2);
    check_weights(weights_new(ZOE_Q4_K, 395, 512, 1), 245, ZOE_BF16, false, 3);
}

static void factors_give_the_bytes_of_multiplied_weights(void **state)
{
    (void)state;
    static const zoe_dtype types[] = {ZOE_F8_E4M3, ZOE_F8_E5M2, ZOE_F16, ZOE_F32, ZOE_Q8_0};
    float factors[512];
    for (size_t i = 0; i < 512; i++)
        factors[i] = noise() * 0.01f;
    for (size_t t = 0; t < 5; t++)
        for (int kind = 0; kind < 3; kind++)
            for (int round = 0; round < 8; round++) {
                const size_t N = 1 + pick(290), K = 32 * (1 + pick(18)), M = 1 + pick(7);
                const zoe_scaling s = {.values = factors,
                                       .row_step = kind == 0   ? SIZE_MAX
                                                   : kind == 1 ? 1
                                                               : 128,
                                       .column_step = kind == 2 ? 128 : SIZE_MAX,
                                       .columns = kind == 2 ? (K + 127) / 128 : 1};
                zoe_tensor w = types[t] == ZOE_F8_E4M3 || types[t] == ZOE_Q8_0
                                   ? weights_new(types[t], N, K, 0)
                                   : tensor_new(types[t], N, K, 0);
                w.scaling = &s;
                check_weights(w, M, pick(2) ? ZOE_F32 : ZOE_BF16, pick(2), 1 + (int)pick(2));
            }
}

/* Files mix types, and a caller plans with one layer for all of its shape. */
static void workspaces_are_the_same_for_every_type(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    zoe_linear_args a = {.y = zoe_tensor_2d(NULL, ZOE_F32, 300, 70),
                         .x = zoe_tensor_2d(NULL, ZOE_F32, 300, 512),
                         .w = zoe_tensor_2d(NULL, ZOE_F32, 70, 512)};
    const size_t bytes = zoe_linear_workspace(ctx, &a);
    for (zoe_dtype dtype = ZOE_F32; dtype < ZOE_DTYPES; dtype++) {
        a.w.dtype = dtype;
        assert_int_equal(zoe_linear_workspace(ctx, &a), bytes);
    }
    zoe_context_free(ctx);
}

static void wrong_weights_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    const float one = 1.0f;
    const zoe_scaling scaling = {&one, SIZE_MAX, SIZE_MAX, 1};
    zoe_linear_args good = {.y = tensor_new(ZOE_F32, 3, 4, 0),
                            .x = tensor_new(ZOE_F32, 3, 512, 0),
                            .w = weights_new(ZOE_Q4_K, 4, 512, 1)};
    zoe_workspace work = workspace_new(zoe_linear_workspace(ctx, &good));
    zoe_linear_args a;
    assert_int_equal(zoe_linear(ctx, &good, work), ZOE_OK);
#define REFUSED(change, word)                                                                      \
    a = good;                                                                                      \
    change;                                                                                        \
    assert_refused(ctx, zoe_linear(ctx, &a, work), ZOE_INVALID, word)
    REFUSED((a.w.shape[1] = 500, a.x.shape[1] = 500), "rows are no whole blocks of 256");
    REFUSED(a.w.stride[0] += 32, "rows are no whole blocks of 256");
    REFUSED((a.w.dtype = ZOE_Q8_0, a.w.shape[1] = 510, a.x.shape[1] = 510), "blocks of 32");
    REFUSED(a.x.dtype = ZOE_Q8_0, "x is q8_0 [3, 512], wanted f32, f16 or bf16");
    REFUSED(a.w.dtype = ZOE_I8, "q5_k or q6_k [any, 512]");
    REFUSED(a.w.dtype = (zoe_dtype)ZOE_DTYPES, "w is unknown");
    REFUSED(a.x.scaling = &scaling, "x has factors beside it");
    const zoe_scaling no_step = {&one, SIZE_MAX, 0, 1}, no_values = {NULL, SIZE_MAX, SIZE_MAX, 1};
    REFUSED(a.w.scaling = &no_step, "a step of 0");
    REFUSED(a.w.scaling = &no_values, "no values");
    REFUSED((a.w.shape[0] = SIZE_MAX / 8, a.y.shape[1] = SIZE_MAX / 8), "more than memory");
    REFUSED(a.y.data = a.w.data, "y overlaps w");
#undef REFUSED
    tensor_free(good.y);
    tensor_free(good.x);
    tensor_free(good.w);
    free(work.data);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_give_the_bytes_of_expanded_weights),
        cmocka_unit_test(several_tasks),
        cmocka_unit_test(factors_give_the_bytes_of_multiplied_weights),
        cmocka_unit_test(workspaces_are_the_same_for_every_type),
        cmocka_unit_test(wrong_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
