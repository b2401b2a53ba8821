/* Activations, GEGLU and casts. */
#include "op_case.h"

static void succeeded(zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s: %s", zoe_status_name(status), zoe_context_message(ctx));
}

static double activated(zoe_activation activation, double v)
{
    switch (activation) {
    case ZOE_ACT_SILU: return v / (1.0 + exp(-v));
    case ZOE_ACT_GELU_TANH:
        return 0.5 * v * (1.0 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
    case ZOE_ACT_GELU_ERF: return 0.5 * v * (1.0 + erf(v * 0.70710678118654752));
    case ZOE_ACT_NONE: break;
    }
    return v;
}

static void activations(void **state)
{
    static const size_t counts[] = {0, 1, 7, 100, 1025, 20000};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t i = 0; i < 6; i++)
        for (int round = 0; round < 16; round++) {
            const zoe_activation activation = (zoe_activation)(round >> 2);
            const size_t n = counts[i];
            zoe_tensor x = tensor_new(round & 1 ? ZOE_BF16 : ZOE_F32, 1, n, 0);
            zoe_tensor y = tensor_new(round & 2 ? ZOE_BF16 : ZOE_F32, 1, n, 0);
            for (size_t j = 0; j < n; j++)
                put(x, 0, j, noise() * 12.0f);
            succeeded(ctx, zoe_activate(ctx, y, x, activation));
            for (size_t j = 0; j < n; j++)
                assert_near(y.dtype, (double)value_at(y, 0, j),
                            activated(activation, (double)value_at(x, 0, j)), 0.2, 5e-7);
            if (x.dtype == y.dtype) {
                succeeded(ctx, zoe_activate(ctx, x, x, activation));
                assert_same_bytes(x, y);
            }
            tensor_free(x);
            tensor_free(y);
        }
    zoe_context_free(ctx);
}

static void ends_of_the_range(void **state)
{
    static const float x[] = {INFINITY, -INFINITY, NAN, -1e4f, 1e4f, 0.0f};
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (int a = ZOE_ACT_SILU; a <= ZOE_ACT_GELU_ERF; a++) {
        float y[6], in[6];
        memcpy(in, x, sizeof x);
        succeeded(ctx, zoe_activate(ctx, zoe_tensor_1d(y, ZOE_F32, 6),
                                    zoe_tensor_1d(in, ZOE_F32, 6), (zoe_activation)a));
        assert_true(y[0] == INFINITY && isnan(y[1]) && isnan(y[2]));
        assert_true(y[3] == 0.0f && y[4] == 1e4f && y[5] == 0.0f);
    }
    zoe_context_free(ctx);
}

/* The steps of the umT5 code on bf16 tensors. */
static double gelu_steps(double v)
{
    const double cube = bf16_if(true, bf16_if(true, v * v) * v);
    const double inner = bf16_if(true, v + bf16_if(true, (double)0.044715f * cube));
    const double t = bf16_if(true, tanh(bf16_if(true, (double)0.7978845608028654f * inner)));
    return bf16_if(true, 0.5 * v * bf16_if(true, 1.0 + t));
}

static void geglu(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    size_t tipped = 0, all = 0;
    for (int round = 0; round < 12; round++) {
        const zoe_dtype dtype = round & 1 ? ZOE_BF16 : ZOE_F32;
        const size_t M = 1 + pick(3), D = (size_t[]){1, 31, 1500}[round % 3];
        zoe_tensor gate = tensor_new(dtype, M, D, 2), up = tensor_new(dtype, M, D, 0),
                   y = tensor_new(dtype, M, D, 1);
        for (size_t d = 0; d < D; d++)
            put(gate, 0, d, noise() * 6.0f);
        succeeded(ctx, zoe_geglu(ctx, y, gate, up));
        for (size_t m = 0; m < M; m++)
            for (size_t d = 0; d < D; d++) {
                const double g = (double)value_at(gate, m, d), u = (double)value_at(up, m, d);
                const double got = (double)value_at(y, m, d);
                if (dtype == ZOE_F32)
                    assert_near(ZOE_F32, got, activated(ZOE_ACT_GELU_TANH, g) * u, 0.2, 5e-7);
                else
                    tipped += got != bf16_if(true, gelu_steps(g) * u);
                all++;
            }
        assert_gaps_untouched(y);
        succeeded(ctx, zoe_geglu(ctx, up, gate, up)); /* in place */
        assert_same_bytes(up, y);
        tensor_free(gate);
        tensor_free(up);
        tensor_free(y);
    }
    assert_true(tipped * 1000 <= all); /* by the last bit of tanh only */
    zoe_context_free(ctx);
}

static void casts(void **state)
{
    static const zoe_dtype from[] = {ZOE_F32, ZOE_F16, ZOE_BF16, ZOE_F8_E4M3, ZOE_F8_E5M2};
    static const zoe_dtype to[] = {ZOE_F32, ZOE_F16, ZOE_BF16};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 3; j++) {
            const size_t n = (size_t[]){3, 1023, 40000}[(i + j) % 3];
            zoe_tensor x = tensor_new(from[i], 1, n, 0), y = tensor_new(to[j], 1, n, 0);
            put(x, 0, 1, NAN);
            succeeded(ctx, zoe_cast(ctx, zoe_tensor_3d(y.data, to[j], 1, n, 1),
                                    x)); /* only the count matters */
            for (size_t e = 0; e < n; e++) {
                float want;
                zoe_store_f32(&want, to[j], 0, value_at(x, 0, e));
                want = zoe_load_f32(&want, to[j], 0);
                assert_near(ZOE_F32, (double)value_at(y, 0, e), (double)want, 0.0, 0.0);
            }
            tensor_free(x);
            tensor_free(y);
        }
    zoe_context_free(ctx);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 3, 4, 0), y = tensor_new(ZOE_F32, 3, 4, 0),
               wide = tensor_new(ZOE_F32, 3, 4, 2), t;
    assert_refused(ctx, zoe_activate(ctx, y, wide, ZOE_ACT_SILU), ZOE_INVALID, "x is not dense");
    assert_refused(ctx, zoe_activate(ctx, wide, x, ZOE_ACT_SILU), ZOE_INVALID, "y is not dense");
    assert_refused(ctx, zoe_activate(ctx, y, x, (zoe_activation)-1), ZOE_INVALID, "activation -1");
    assert_refused(ctx, zoe_activate(ctx, y, (t = x, t.rank = 99, t), ZOE_ACT_SILU), ZOE_INVALID,
                   "rank 99");
    assert_refused(ctx, zoe_activate(ctx, y, (t = x, t.shape[0] = 2, t), ZOE_ACT_SILU), ZOE_INVALID,
                   "y is f32 [3, 4]");
    assert_refused(ctx, zoe_geglu(ctx, y, x, (t = y, t.dtype = ZOE_BF16, t)), ZOE_INVALID,
                   "up is bf16");
    assert_refused(ctx, zoe_geglu(ctx, (t = x, t.data = (float *)x.data + 1, t), x, y), ZOE_INVALID,
                   "overlaps");
    assert_refused(ctx, zoe_cast(ctx, y, (t = x, t.dtype = ZOE_I32, t)), ZOE_INVALID,
                   "x is i32 [12]");
    assert_refused(ctx, zoe_cast(ctx, (t = y, t.dtype = ZOE_F8_E4M3, t), x), ZOE_INVALID,
                   "y is f8_e4m3");
    assert_refused(ctx, zoe_cast(ctx, (t = y, t.shape[0] = 2, t), x), ZOE_INVALID,
                   "y is f32 [8], wanted");
    assert_refused(ctx, zoe_cast(ctx, y, wide), ZOE_INVALID, "");
    tensor_free(x);
    tensor_free(y);
    tensor_free(wide);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(ends_of_the_range),
        cmocka_unit_test(geglu),
        cmocka_unit_test(casts),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
