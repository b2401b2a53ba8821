/* Activations, GEGLU and casts. */
#include "op_case.h"

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

/* Half a unit in the last place of v in this type, and a little for what is computed in f32. */
static double half_unit(zoe_dtype dtype, double v)
{
    const double size = fmax(fabs(v), dtype == ZOE_F16 ? 0x1p-14 : 0x1p-126);
    return dtype == ZOE_F16 ? size * 0x1.01p-11 : dtype == ZOE_BF16 ? size * 0x1.01p-8 : 0.0;
}

/* Every activation, pair of types and layout: [2, M, D] with gaps behind the rows of each. */
static void activations(void **state)
{
    static const size_t widths[] = {1, 7, 100, 1025, 20000};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 90; round++) {
        const zoe_activation activation = (zoe_activation)(round % (ZOE_ACT_LAST + 1));
        const size_t D = widths[round % 5 == 4 ? 4 : pick(4)], M = pick(4) * 2;
        const size_t gap = pick(2) * 3;
        zoe_tensor x = tensor_new(float_types[round % 3], M, D, gap);
        zoe_tensor y = tensor_new(float_types[round / 3 % 3], M, D, pick(2));
        for (size_t m = 0; m < M; m++)
            for (size_t j = 0; j < D; j++)
                put(x, m, j, noise() * 12.0f);
        zoe_tensor x3 = x, y3 = y; /* the same rows, as two samples */
        x3.rank = y3.rank = 3;
        x3.shape[0] = y3.shape[0] = 2;
        x3.shape[1] = y3.shape[1] = M / 2;
        x3.shape[2] = y3.shape[2] = D;
        x3.stride[0] = x.stride[0] * (ptrdiff_t)(M / 2);
        y3.stride[0] = y.stride[0] * (ptrdiff_t)(M / 2);
        x3.stride[1] = x.stride[0];
        y3.stride[1] = y.stride[0];
        x3.stride[2] = y3.stride[2] = 1;
        succeeded(ctx, zoe_activate(ctx, y3, x3, activation));
        for (size_t m = 0; m < M; m++)
            for (size_t j = 0; j < D; j++) {
                const double want = activated(activation, (double)value_at(x, m, j));
                const double error = fabs((double)value_at(y, m, j) - want);
                const double most = fmax(fabs(want) * 5e-7, 1e-7) + half_unit(y.dtype, want);
                if (!(error <= most))
                    fail_msg("activation %d of %g: got %.9g, wanted %.9g", (int)activation,
                             (double)value_at(x, m, j), (double)value_at(y, m, j), want);
            }
        assert_gaps_untouched(y);
        if (x.dtype == y.dtype && M > 0) {
            succeeded(ctx, zoe_activate(ctx, x3, x3, activation));
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
    for (int a = ZOE_ACT_SILU; a <= ZOE_ACT_LAST; a++) {
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
        zoe_glu_args args = {.y = y,
                             .gate = gate,
                             .up = up,
                             .activation = ZOE_ACT_GELU_TANH,
                             .round_steps = dtype == ZOE_BF16};
        succeeded(ctx, zoe_glu(ctx, &args));
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
        args.y = up; /* in place */
        succeeded(ctx, zoe_glu(ctx, &args));
        assert_same_bytes(up, y);
        tensor_free(gate);
        tensor_free(up);
        tensor_free(y);
    }
    assert_true(tipped * 1000 <= all); /* by the last bit of tanh only */
    zoe_context_free(ctx);
}

/* SwiGLU as people have it: both halves in one tensor, any types, the result in place of the gate. */
static void gated_halves(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 27; round++) {
        const size_t M = 1 + pick(4), D = 1 + pick(round % 2 ? 40 : 3000);
        const zoe_activation activation = (zoe_activation)(round % (ZOE_ACT_LAST + 1));
        zoe_tensor x = tensor_new(float_types[round % 3], M, 2 * D, pick(2));
        zoe_tensor y = tensor_new(float_types[round / 3 % 3], M, D, 1);
        zoe_glu_args args = {.y = y, .gate = x, .up = x, .activation = activation};
        args.gate.shape[1] = args.up.shape[1] = D;
        args.up.data = (char *)x.data + D * zoe_dtype_bytes(x.dtype);
        succeeded(ctx, zoe_glu(ctx, &args));
        for (size_t m = 0; m < M; m++)
            for (size_t d = 0; d < D; d++) {
                const double want = activated(activation, (double)value_at(x, m, d)) *
                                    (double)value_at(x, m, D + d);
                const double most = fmax(fabs(want) * 6e-7, 1.2e-7) + half_unit(y.dtype, want);
                if (!(fabs((double)value_at(y, m, d) - want) <= most))
                    fail_msg("got %.9g, wanted %.9g", (double)value_at(y, m, d), want);
            }
        assert_gaps_untouched(y);
        if (x.dtype == y.dtype) {
            args.y = args.gate;
            succeeded(ctx, zoe_glu(ctx, &args));
            zoe_tensor half = x;
            half.shape[1] = D;
            assert_same_bytes(half, y);
        }
        tensor_free(x);
        tensor_free(y);
    }
    zoe_context_free(ctx);
}

/* A row alone, among others, and by other numbers of threads: the same bytes; and the values. */
static void softmax_rows(void **state)
{
    static const size_t widths[] = {1, 2, 9, 64, 1000, 1024, 1025, 5000, 40000};
    (void)state;
    zoe_context *one = zoe_context_new(1), *three = zoe_context_new(3);
    for (int round = 0; round < 54; round++) {
        const size_t M = 1 + pick(5), D = widths[round % 9];
        const zoe_dtype dtype = float_types[round / 9 % 3];
        zoe_tensor x = tensor_new(dtype, M, D, pick(3)),
                   y = tensor_new(float_types[round % 3], M, D, 1);
        zoe_tensor other = tensor_new(y.dtype, M, D, 0);
        for (size_t m = 0; m < M; m++)
            for (size_t d = 0; d < D; d++)
                put(x, m, d, m == 1 && d % 3 == 1 ? -INFINITY : noise() * 20.0f);
        succeeded(three, zoe_softmax(three, y, x));
        succeeded(one, zoe_softmax(one, other, x));
        assert_same_bytes(y, other);
        for (size_t m = 0; m < M; m++) {
            double top = -INFINITY, sum = 0.0;
            for (size_t d = 0; d < D; d++)
                top = fmax(top, (double)value_at(x, m, d));
            for (size_t d = 0; d < D; d++)
                sum += exp((double)value_at(x, m, d) - top);
            for (size_t d = 0; d < D; d++) {
                const double below = top - (double)value_at(x, m, d); /* rounded to f32 */
                const double want = exp(-below) / sum;
                const double subnormal = y.dtype == ZOE_F16 ? 0x1p-25 : 1e-38;
                const double rounding = isfinite(below) ? 6e-8 * below : 0.0;
                const double most = want * (5e-7 + rounding) + half_unit(y.dtype, want) + subnormal;
                if (!(fabs((double)value_at(y, m, d) - want) <= most))
                    fail_msg("D %zu: got %.9g, wanted %.9g", D, (double)value_at(y, m, d), want);
            }
        }
        assert_gaps_untouched(y);
        if (x.dtype == y.dtype) {
            succeeded(three, zoe_softmax(three, x, x));
            assert_same_bytes(x, y);
        }
        tensor_free(x);
        tensor_free(y);
        tensor_free(other);
    }
    zoe_context_free(one);
    zoe_context_free(three);
}

static void softmax_of_no_numbers(void **state)
{
    float x[5][3] = {{1.0f, NAN, 2.0f},
                     {INFINITY, 0.0f, 1.0f},
                     {-INFINITY, -INFINITY, -INFINITY},
                     {3e38f, -3e38f, 3e38f},
                     {0.0f, -100.0f, -110.0f}};
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    const zoe_tensor t = zoe_tensor_2d(x, ZOE_F32, 5, 3);
    succeeded(ctx, zoe_softmax(ctx, t, t));
    for (size_t m = 0; m < 3; m++)
        for (size_t d = 0; d < 3; d++)
            assert_true(isnan(x[m][d]));
    assert_true(x[4][0] == 1.0f && x[4][2] == 0.0f);
    assert_true(fabs((double)x[4][1] - exp(-100.0)) <= 0x1p-149); /* a subnormal number */
    assert_true(x[3][0] == 0.5f && x[3][1] == 0.0f && x[3][2] == 0.5f);
    succeeded(ctx, zoe_softmax(ctx, zoe_tensor_2d(NULL, ZOE_F32, 0, 3),
                               zoe_tensor_2d(NULL, ZOE_F32, 0, 3)));
    zoe_context_free(ctx);
}

static void sums(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 27; round++) {
        const size_t M = 1 + pick(3), D = 1 + pick(2000);
        zoe_tensor a = tensor_new(float_types[round % 3], M, D, pick(2)),
                   b = tensor_new(float_types[round / 3 % 3], M, D, pick(2)),
                   y = tensor_new(float_types[round / 9], M, D, 1);
        succeeded(ctx, zoe_add(ctx, y, a, b));
        for (size_t m = 0; m < M; m++)
            for (size_t d = 0; d < D; d++) {
                float want;
                zoe_store_f32(&want, y.dtype, 0, value_at(a, m, d) + value_at(b, m, d));
                assert_true(value_at(y, m, d) == zoe_load_f32(&want, y.dtype, 0));
            }
        assert_gaps_untouched(y);
        tensor_free(a);
        tensor_free(b);
        tensor_free(y);
    }
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

static void cast_of_rows_with_gaps(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    zoe_tensor x = tensor_new(ZOE_F16, 5, 70, 3), y = tensor_new(ZOE_BF16, 5, 70, 1);
    succeeded(ctx, zoe_cast(ctx, y, x));
    for (size_t m = 0; m < 5; m++)
        for (size_t d = 0; d < 70; d++)
            assert_true(value_at(y, m, d) == zoe_bf16_round(value_at(x, m, d)));
    assert_gaps_untouched(y);
    tensor_free(x);
    tensor_free(y);
    zoe_context_free(ctx);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 3, 4, 0), y = tensor_new(ZOE_F32, 3, 4, 0), t;
    assert_refused(ctx, zoe_activate(ctx, y, (t = x, t.stride[1] = 2, t), ZOE_ACT_SILU),
                   ZOE_INVALID, "x has stride 2 on axis 1");
    assert_refused(ctx, zoe_activate(ctx, y, x, (zoe_activation)-1), ZOE_INVALID, "activation -1");
    assert_refused(ctx, zoe_activate(ctx, y, (t = x, t.rank = 99, t), ZOE_ACT_SILU), ZOE_INVALID,
                   "rank 99");
    assert_refused(ctx, zoe_cast(ctx, y, (t = x, t.rank = 99, t)), ZOE_INVALID, "rank 99");
    assert_refused(ctx, zoe_add(ctx, y, x, (t = x, t.stride[0] = PTRDIFF_MAX / 4, t)), ZOE_INVALID,
                   "more than memory can address");
    assert_refused(ctx, zoe_activate(ctx, y, (t = x, t.shape[0] = 2, t), ZOE_ACT_SILU), ZOE_INVALID,
                   "x is f32 [2, 4]");
    zoe_glu_args g = {.y = y, .gate = x, .up = x, .activation = ZOE_ACT_SILU};
    g.round_steps = true;
    assert_refused(ctx, zoe_glu(ctx, &g), ZOE_INVALID, "y is f32 [3, 4], wanted bf16");
    g.round_steps = false;
    g.y.data = (float *)x.data + 1;
    assert_refused(ctx, zoe_glu(ctx, &g), ZOE_INVALID, "overlaps");
    t = x;
    t.rank = 0;
    assert_refused(ctx, zoe_softmax(ctx, t, t), ZOE_INVALID, "rank 0");
    assert_refused(ctx, zoe_cast(ctx, y, (t = x, t.dtype = ZOE_I32, t)), ZOE_INVALID,
                   "x is i32 [12]");
    assert_refused(ctx, zoe_cast(ctx, (t = y, t.dtype = ZOE_F8_E4M3, t), x), ZOE_INVALID,
                   "y is f8_e4m3");
    assert_refused(ctx, zoe_cast(ctx, (t = y, t.shape[0] = 2, t), x), ZOE_INVALID,
                   "x is f32 [12], wanted");
    tensor_free(x);
    tensor_free(y);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations),
        cmocka_unit_test(ends_of_the_range),
        cmocka_unit_test(geglu),
        cmocka_unit_test(gated_halves),
        cmocka_unit_test(softmax_rows),
        cmocka_unit_test(softmax_of_no_numbers),
        cmocka_unit_test(sums),
        cmocka_unit_test(casts),
        cmocka_unit_test(cast_of_rows_with_gaps),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
