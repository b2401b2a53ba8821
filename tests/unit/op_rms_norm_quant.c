/* Norms by the root of a mean square with a result in int8: step by step, at the ends of the range, and
 * special rows. */
#include "op_case.h"

static int quantised(float v)
{
    const float r = rintf(v);
    return isnan(r) ? 0 : r < -128.0f ? -128 : r > 127.0f ? 127 : (int)r;
}

static int8_t *bytes_of(zoe_tensor t, size_t m)
{
    return (int8_t *)t.data + m * t.shape[1];
}

static zoe_tensor bytes_new(size_t M, size_t D)
{
    zoe_tensor t = zoe_tensor_2d(malloc(M * D + 1), ZOE_I8, M, D);
    assert_non_null(t.data);
    return t;
}

static float v_of(float x, float rstd, zoe_tensor gamma, zoe_tensor beta, size_t d)
{
    float v = x * rstd;
    if (gamma.dtype != ZOE_NONE)
        v *= value_at(gamma, 0, d);
    return beta.dtype != ZOE_NONE ? v + value_at(beta, 0, d) : v;
}

static void static_quantisation(void **state)
{
    static const zoe_dtype offsets[] = {ZOE_I8, ZOE_I32, ZOE_F32, ZOE_BF16};
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (int round = 0; round < 80; round++) {
        const size_t D = 1 + pick(1500), M = 2, length = round & 1 ? 1 : D;
        const zoe_dtype T = float_types[round % 3];
        zoe_tensor x = tensor_new(T, M, D, 1),
                   r = round & 4 ? tensor_new(T, M, D, 0) : zoe_tensor_none();
        zoe_tensor gamma = pick(2) ? typed_vector(T, D) : zoe_tensor_none();
        zoe_tensor beta = pick(2) ? typed_vector(float_types[pick(3)], D) : zoe_tensor_none();
        zoe_tensor scale = typed_vector(float_types[pick(3)], length), rstd = vector_new(M);
        int32_t *raw = calloc(D, 4);
        const zoe_dtype To = offsets[pick(4)];
        zoe_tensor offset = pick(2) ? zoe_tensor_1d(raw, To, length) : zoe_tensor_none();
        for (size_t i = 0; i < length; i++) {
            zoe_store_f32(scale.data, scale.dtype, i, 0.004f + 0.02f * fabsf(noise()));
            if (To == ZOE_I8)
                ((int8_t *)raw)[i] = (int8_t)(round % 8 == 0 ? -128 : (int)pick(256) - 128);
            else if (To == ZOE_I32)
                raw[i] = (int32_t)pick(256) - 128;
            else
                zoe_store_f32(raw, To, i, (float)pick(256) - 128.0f);
        }
        zoe_tensor y = bytes_new(M, D), sum = r.dtype ? tensor_new(T, M, D, 0) : zoe_tensor_none();
        const zoe_rms_norm_quant_args a = {.y = y,
                                           .sum = sum,
                                           .rstd = rstd,
                                           .x = x,
                                           .residual = r,
                                           .gamma = gamma,
                                           .beta = beta,
                                           .scale = scale,
                                           .offset = offset,
                                           .eps = 1e-6f,
                                           .multiply = pick(2)};
        succeeded(ctx, zoe_rms_norm_quant(ctx, &a));
        for (size_t m = 0; m < M; m++)
            for (size_t d = 0; d < D; d++) {
                const float in = value_at(x, m, d) + (r.dtype ? value_at(r, m, d) : 0.0f);
                const float v = v_of(in, value_at(rstd, 0, m), gamma, beta, d);
                const size_t i = length == 1 ? 0 : d;
                const float s = zoe_load_f32(scale.data, scale.dtype, i);
                float w = a.multiply ? v * s : v / s;
                if (offset.dtype != ZOE_NONE)
                    w += To == ZOE_I8    ? (float)((int8_t *)raw)[i]
                         : To == ZOE_I32 ? (float)raw[i]
                                         : zoe_load_f32(raw, To, i);
                assert_int_equal(bytes_of(y, m)[d], quantised(w));
                if (r.dtype)
                    same_bits(value_at(sum, m, d), rounded_to(T, in), "sum", D, d);
            }
        tensor_free(x);
        tensor_free(r);
        tensor_free(gamma);
        tensor_free(beta);
        tensor_free(scale);
        tensor_free(rstd);
        tensor_free(y);
        tensor_free(sum);
        free(raw);
    }
    zoe_context_free(ctx);
}

/* Values far outside are clamped before they are converted; ties go to even. */
static void static_quantisation_at_its_ends(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    float x[] = {1.0f, -1.0f, 1.0f, -1.0f, 1.0f, -1.0f, 1.0f, -1.0f, 1.0f};
    float scale[] = {1e-30f, 1e-30f, 2.0f, 2.0f, 0.4f, 0.4f, 2.0f / 3.0f, 1.0f, 1.0f};
    float gamma[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, NAN};
    int8_t y[9];
    const int want[] = {127, -128, 0, 0, 2, -2, 2, -1, 0};
    const zoe_rms_norm_quant_args a = {.y = zoe_tensor_2d(y, ZOE_I8, 1, 9),
                                       .x = zoe_tensor_2d(x, ZOE_F32, 1, 9),
                                       .gamma = zoe_tensor_1d(gamma, ZOE_F32, 9),
                                       .scale = zoe_tensor_1d(scale, ZOE_F32, 9)};
    succeeded(ctx, zoe_rms_norm_quant(ctx, &a));
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(y[i], want[i]);
    zoe_context_free(ctx);
}

static void dynamic_quantisation(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 60; round++) {
        const size_t D = 1 + pick(2500), M = 3;
        const zoe_dtype T = float_types[round % 3];
        zoe_tensor x = tensor_new(T, M, D, 1),
                   r = round & 1 ? tensor_new(T, M, D, 0) : zoe_tensor_none();
        zoe_tensor gamma = pick(2) ? typed_vector(T, D) : zoe_tensor_none();
        zoe_tensor beta = pick(2) ? typed_vector(T, D) : zoe_tensor_none();
        zoe_tensor smooth = pick(2) ? typed_vector(float_types[pick(3)], D) : zoe_tensor_none();
        zoe_tensor y = bytes_new(M, D), scale = vector_new(M), rstd = vector_new(M);
        zoe_tensor sum = r.dtype ? x : zoe_tensor_none();
        zoe_tensor in = tensor_new(ZOE_F32, M, D, 0), z = tensor_new(ZOE_F32, M, D, 0);
        if (D > 9)
            put(x, 1, 9, 1000.0f); /* one huge element */
        for (size_t m = 0; m < M; m++)
            for (size_t d = 0; d < D; d++)
                put(in, m, d, value_at(x, m, d) + (r.dtype ? value_at(r, m, d) : 0.0f));
        const zoe_rms_norm_dynamic_quant_args a = {.y = y,
                                                   .scale = scale,
                                                   .sum = sum,
                                                   .x = x,
                                                   .residual = r,
                                                   .gamma = gamma,
                                                   .smooth = smooth,
                                                   .beta = beta,
                                                   .eps = 1e-6f};
        succeeded(ctx, zoe_rms_norm_dynamic_quant(ctx, &a));
        for (size_t m = 0; m < M; m++) {
            const double s = 1.0 / sqrt(mean_square(in, m) + (double)1e-6f);
            double most = 0.0;
            for (size_t d = 0; d < D; d++) {
                float w = v_of(value_at(in, m, d), (float)s, gamma, beta, d);
                if (smooth.dtype != ZOE_NONE)
                    w *= value_at(smooth, 0, d);
                put(z, m, d, w);
                most = fmax(most, fabs((double)w));
            }
            const double found = (double)value_at(scale, 0, m);
            assert_true(fabs(found - most / 127.0) <= 5.0 * 0x1p-23 * most / 127.0);
            for (size_t d = 0; d < D; d++) {
                const int got = bytes_of(y, m)[d];
                const double exact = (double)value_at(z, m, d) * 127.0 / most;
                const int want = (int)rint(exact);
                /* short types make many ties, which a last bit of rstd decides */
                const bool tie = fabs(fabs(exact - trunc(exact)) - 0.5) < 1e-4;
                assert_true(tie ? abs(got - want) <= 1 && got >= -127 : got == want);
                if (r.dtype)
                    same_bits(value_at(sum, m, d), rounded_to(T, value_at(in, m, d)), "sum", D, d);
            }
        }
        tensor_free(x);
        tensor_free(r);
        tensor_free(gamma);
        tensor_free(beta);
        tensor_free(smooth);
        tensor_free(y);
        tensor_free(scale);
        tensor_free(rstd);
        tensor_free(in);
        tensor_free(z);
    }
    zoe_context_free(ctx);
}

static void dynamic_quantisation_of_special_rows(void **state)
{
    enum { D = 1100 };
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 4, D, 0), y = bytes_new(4, D), scale = vector_new(4);
    zoe_tensor gamma = vector_new(D);
    for (size_t d = 0; d < D; d++) {
        put(x, 0, d, 0.0f);
        put(x, 3, d, d % 2 ? 1.0f : 2.0f);
        ((float *)gamma.data)[d] = 1.0f;
    }
    put(x, 1, 1050, NAN);
    put(x, 2, 4, INFINITY);
    succeeded(ctx, zoe_rms_norm_dynamic_quant(
                       ctx, &(zoe_rms_norm_dynamic_quant_args){
                                .y = y, .scale = scale, .x = x, .gamma = gamma, .eps = 1e-6f}));
    for (size_t m = 0; m < 3; m++)
        for (size_t d = 0; d < D; d++)
            assert_int_equal(bytes_of(y, m)[d], 0);
    assert_true(value_at(scale, 0, 0) == 0.0f);
    assert_true(isnan(value_at(scale, 0, 1)));
    assert_true(isnan(value_at(scale, 0, 2))); /* inf * 0 */
    for (size_t d = 0; d < D;
         d++) /* 127 and a tie, 63.5, in a row of 2 and 1: to even, or just below */
        assert_in_range(bytes_of(y, 3)[d], d % 2 ? 63 : 127, d % 2 ? 64 : 127);
    ((float *)gamma.data)[7] = INFINITY; /* an inf in w itself */
    succeeded(ctx, zoe_rms_norm_dynamic_quant(
                       ctx, &(zoe_rms_norm_dynamic_quant_args){
                                .y = y, .scale = scale, .x = x, .gamma = gamma, .eps = 1e-6f}));
    assert_true(isinf(value_at(scale, 0, 3)) && bytes_of(y, 3)[0] == 0);
    tensor_free(x);
    tensor_free(y);
    tensor_free(scale);
    tensor_free(gamma);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_quantisation),
        cmocka_unit_test(static_quantisation_at_its_ends),
        cmocka_unit_test(dynamic_quantisation),
        cmocka_unit_test(dynamic_quantisation_of_special_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
