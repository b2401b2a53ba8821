/* int8: quantisation of rows, packed weights, products. */
#include "op_case.h"

static zoe_context *ctx;

static int start(void **unused)
{
    (void)unused;
    ctx = zoe_context_new(2);
    return ctx ? 0 : -1;
}

static int stop(void **unused)
{
    (void)unused;
    zoe_context_free(ctx);
    return 0;
}

/* ---- quantisation ---- */

/* [M, K] of int8, any values, rows `gap` bytes apart. */
static zoe_tensor bytes_new(size_t M, size_t K, size_t gap)
{
    zoe_tensor t = tensor_new(ZOE_I8, M, K, gap);
    for (size_t m = 0; m < M; m++)
        for (size_t i = 0; i < K; i++)
            ((int8_t *)t.data)[m * (K + gap) + i] = (int8_t)pick(256);
    return t;
}

static int8_t byte_at(zoe_tensor t, size_t m, size_t i)
{
    return ((const int8_t *)t.data)[m * (size_t)t.stride[0] + i];
}

static void quantise(zoe_dynamic_quant_args a)
{
    const zoe_workspace work = workspace_new(zoe_dynamic_quant_workspace(ctx, &a));
    assert_int_equal(zoe_dynamic_quant(ctx, &a, work), ZOE_OK);
    assert_workspace_kept(work);
    free(work.data);
}

/* By the words of the header. */
static void check_run(const float *w, size_t n, float scale, zoe_tensor q, size_t m, size_t from)
{
    float peak = 0.0f;
    for (size_t i = 0; i < n; i++)
        peak = fmaxf(peak, fabsf(w[i]));
    assert_true(scale == peak / 127.0f);
    const float factor = 127.0f / peak;
    for (size_t i = 0; i < n; i++) {
        const int want = peak > 0.0f ? (int)rintf(w[i] * factor) : 0;
        assert_int_equal(byte_at(q, m, from + i), want);
    }
}

static void rows_as_defined(void **unused)
{
    (void)unused;
    const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16};
    const size_t widths[] = {1, 7, 64, 128, 129, 300};
    for (size_t round = 0; round < 72; round++) {
        const size_t M = 1 + round % 19, K = widths[round % 6];
        const size_t group = round / 6 % 3 * 100, step = group ? group : K;
        const size_t groups = (K + step - 1) / step;
        zoe_tensor x = tensor_new(types[round % 3], M, K, round % 4), smooth = vector_new(K);
        zoe_tensor q = bytes_new(M, K, 3), scale = tensor_new(ZOE_F32, M, groups, 1);
        const bool smoothed = round % 2;
        zoe_dynamic_quant_args a = {.q = q, .scale = scale, .x = x, .group = group};
        if (smoothed)
            a.smooth = smooth;
        if (!group) {
            a.scale.rank = 1;
            a.scale.stride[0] = scale.stride[0] = 1;
        }
        quantise(a);
        float *w = malloc(K * sizeof *w);
        assert_non_null(w);
        for (size_t m = 0; m < M; m++) {
            for (size_t i = 0; i < K; i++)
                w[i] = smoothed ? value_at(x, m, i) * value_at(smooth, 0, i) : value_at(x, m, i);
            for (size_t g = 0; g < groups; g++) {
                const size_t left = K - g * step;
                check_run(w + g * step, left < step ? left : step, value_at(scale, m, g), q, m,
                          g * step);
            }
        }
        free(w);
        tensor_free(x);
        tensor_free(smooth);
        tensor_free(q);
        tensor_free(scale);
    }
}

static void axes_with_strides(void **unused)
{
    (void)unused;
    enum { A = 2, B = 3, K = 5 };
    float x[B][A][K], scale[A][B];
    int8_t q[A][B][K];
    for (size_t i = 0; i < A * B * K; i++)
        (&x[0][0][0])[i] = noise();
    zoe_dynamic_quant_args a = {.q = zoe_tensor_3d(q, ZOE_I8, A, B, K),
                                .scale = zoe_tensor_2d(scale, ZOE_F32, A, B),
                                .x = zoe_tensor_3d(x, ZOE_F32, A, B, K)};
    a.x.stride[0] = K; /* x[b][a] */
    a.x.stride[1] = A * K;
    quantise(a);
    for (size_t i = 0; i < A; i++)
        for (size_t j = 0; j < B; j++)
            check_run(x[j][i], K, scale[i][j], zoe_tensor_2d(q[i][j], ZOE_I8, 1, K), 0, 0);
}

/* Rows of the adversarial cases: what comes out is named here and not computed. */
static void special_rows(void **unused)
{
    (void)unused;
    const float x[][4] = {{0.0f, -0.0f, 0.0f, 0.0f},         {1.0f, NAN, 2.0f, 3.0f},
                          {1.0f, INFINITY, 2.0f, 3.0f},      {1e30f, 1.0f, -1e30f, 5e29f},
                          {127.0f, 0.5f, 1.5f, -2.5f},       {127.0f, -126.5f, 125.5f, -0.5f},
                          {1.27e-38f, 1e-40f, 0.0f, 5e-39f}, {-INFINITY, NAN, 0.0f, 0.0f}};
    const int want[][4] = {{0, 0, 0, 0},       {0, 0, 0, 0},    {0, 0, 0, 0},
                           {127, 0, -127, 64}, {127, 0, 2, -2}, {127, -126, 126, 0},
                           {127, 1, 0, 50},    {0, 0, 0, 0}};
    enum { M = sizeof x / sizeof *x };
    int8_t q[M][4];
    float scale[M];
    quantise((zoe_dynamic_quant_args){.q = zoe_tensor_2d(q, ZOE_I8, M, 4),
                                      .scale = zoe_tensor_1d(scale, ZOE_F32, M),
                                      .x = zoe_tensor_2d((void *)(uintptr_t)x, ZOE_F32, M, 4)});
    for (size_t m = 0; m < M; m++)
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(q[m][i], want[m][i]);
    assert_true(scale[0] == 0.0f && !signbit(scale[0]));
    assert_true(isnan(scale[1]) && scale[2] == INFINITY && isnan(scale[7]));
    assert_true(scale[3] == 1e30f / 127.0f && scale[4] == 1.0f && scale[6] == 1.27e-38f / 127.0f);
}

/* ---- products ---- */

/* Exact sums of x and w, both int8. */
static int64_t sum_of(zoe_tensor x, zoe_tensor w, size_t m, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < x.shape[1]; i++)
        sum += byte_at(x, m, i) * byte_at(w, n, i);
    return sum;
}

static zoe_int8_weights *pack(zoe_tensor w, size_t group)
{
    zoe_int8_weights *packed;
    assert_int_equal(zoe_int8_weights_new(ctx, &packed, w, group), ZOE_OK);
    return packed;
}

static zoe_status run(zoe_linear_int8_args a)
{
    const zoe_workspace work = workspace_new(zoe_linear_int8_workspace(ctx, &a));
    const zoe_status status = zoe_linear_int8(ctx, &a, work);
    assert_workspace_kept(work);
    free(work.data);
    return status;
}

static void sums_are_exact(void **unused)
{
    (void)unused;
    const size_t widths[] = {1, 3, 4, 63, 130, 257, 2047, 2049, 4100};
    for (size_t round = 0; round < 27; round++) {
        const size_t M = 1 + round * 7 % 31, N = 1 + round * 11 % 50, K = widths[round % 9];
        zoe_tensor x = bytes_new(M, K, round % 3), w = bytes_new(N, K, round % 2);
        zoe_tensor y = zoe_tensor_2d(calloc(M * N, 4), ZOE_I32, M, N);
        zoe_int8_weights *packed = pack(w, 0);
        assert_int_equal(run((zoe_linear_int8_args){.y = y, .x = x, .weights = packed}), ZOE_OK);
        for (size_t m = 0; m < M; m++)
            for (size_t n = 0; n < N; n++)
                assert_int_equal(((int32_t *)y.data)[m * N + n], sum_of(x, w, m, n));
        zoe_int8_weights_free(packed);
        tensor_free(x);
        tensor_free(w);
        free(y.data);
    }
}

/* The longest sums of the most extreme values fit 32 bits, just. */
static void extreme_values(void **unused)
{
    (void)unused;
    enum { K = ZOE_INT8_MOST_K };
    const int pairs[][2] = {{-128, -128}, {127, -128}, {-128, 127}, {127, 127}};
    for (size_t i = 0; i < 4; i++) {
        zoe_tensor x = bytes_new(1, K, 0), w = bytes_new(1, K, 0);
        int32_t sum = 0, bias[1] = {i == 1 ? -5000000 : 5000000};
        memset(x.data, pairs[i][0], K);
        memset(w.data, pairs[i][1], K);
        zoe_int8_weights *packed = pack(w, 0);
        zoe_linear_int8_args a = {
            .y = zoe_tensor_2d(&sum, ZOE_I32, 1, 1), .x = x, .weights = packed};
        assert_int_equal(run(a), ZOE_OK);
        assert_int_equal(sum, pairs[i][0] * pairs[i][1] * (int64_t)K);
        a.bias = zoe_tensor_1d(bias, ZOE_I32, 1); /* beyond 32 bits: kept at the end */
        const int64_t whole = (int64_t)sum + bias[0];
        assert_int_equal(run(a), ZOE_OK);
        assert_int_equal(sum, whole > INT32_MAX   ? INT32_MAX
                              : whole < INT32_MIN ? INT32_MIN
                                                  : whole);
        zoe_int8_weights_free(packed);
        tensor_free(x);
        tensor_free(w);
    }
}

/* One case of the float result: every part in its order, each step rounded to f32. */
typedef struct float_case {
    size_t M, N, K;
    zoe_dtype y, bias;
    bool x_scale, residual, gate;
    size_t scales; /* 0: none */
    zoe_activation activation;
} float_case;

static double activated(zoe_activation activation, float v)
{
    const double d = (double)v;
    switch (activation) {
    case ZOE_ACT_SILU: return d / (1.0 + exp(-d));
    case ZOE_ACT_GELU_TANH:
        return 0.5 * d * (1.0 + tanh(0.79788456080286536 * (d + 0.044715 * d * d * d)));
    default: return d;
    }
}

static void check_case(const float_case *c)
{
    zoe_tensor x = bytes_new(c->M, c->K, 1), w = bytes_new(c->N, c->K, 0);
    zoe_tensor y = tensor_new(c->y, c->M, c->N, 2), residual = tensor_new(c->y, c->M, c->N, 1);
    zoe_tensor x_scale = vector_new(c->M), scale = vector_new(c->scales), gate = vector_new(c->N);
    zoe_tensor bias = tensor_new(c->bias == ZOE_I32 ? ZOE_F32 : c->bias, 1, c->N, 0);
    int32_t *whole = calloc(c->N, sizeof *whole);
    assert_non_null(whole);
    bias = zoe_tensor_1d(bias.data, bias.dtype, c->N);
    for (size_t n = 0; n < c->N; n++)
        whole[n] = (int32_t)pick(2000) - 1000;
    zoe_int8_weights *packed = pack(w, 0);
    zoe_linear_int8_args a = {.y = y, .x = x, .weights = packed, .activation = c->activation};
    if (c->x_scale)
        a.x_scale = x_scale;
    if (c->scales)
        a.scale = scale;
    if (c->bias != ZOE_NONE)
        a.bias = c->bias == ZOE_I32 ? zoe_tensor_1d(whole, ZOE_I32, c->N) : bias;
    if (c->residual)
        a.residual = residual;
    if (c->gate)
        a.gate = gate;
    assert_int_equal(run(a), ZOE_OK);
    for (size_t m = 0; m < c->M; m++)
        for (size_t n = 0; n < c->N; n++) {
            const int64_t sum = sum_of(x, w, m, n) + (c->bias == ZOE_I32 ? whole[n] : 0);
            float v = (float)sum;
            if (c->scales)
                v = v * value_at(scale, 0, c->scales > 1 ? n : 0);
            if (c->x_scale)
                v = v * value_at(x_scale, 0, m);
            if (c->bias != ZOE_NONE && c->bias != ZOE_I32)
                v = v + value_at(bias, 0, n);
            double d = activated(c->activation, v);
            const double size = fmax(fabs(d), 1e-3);
            if (c->gate)
                d *= (double)value_at(gate, 0, n);
            if (c->residual)
                d += (double)value_at(residual, m, n);
            assert_near(c->y, (double)value_at(y, m, n), d, size, c->y == ZOE_F16 ? 0x1p-10 : 4e-7);
        }
    assert_gaps_untouched(y);
    zoe_int8_weights_free(packed);
    free(whole);
    tensor_free(x);
    tensor_free(w);
    tensor_free(y);
    tensor_free(residual);
    tensor_free(x_scale);
    tensor_free(scale);
    tensor_free(gate);
    tensor_free(bias);
}

static void float_results(void **unused)
{
    (void)unused;
    const float_case cases[] = {
        {5, 33, 70, ZOE_F32, ZOE_NONE, false, false, false, 0, ZOE_ACT_NONE},
        {5, 33, 70, ZOE_F32, ZOE_F32, true, true, true, 33, ZOE_ACT_GELU_TANH},
        {13, 300, 260, ZOE_F32, ZOE_BF16, true, false, true, 1, ZOE_ACT_SILU},
        {13, 300, 260, ZOE_F32, ZOE_I32, true, true, false, 300, ZOE_ACT_NONE},
        {250, 17, 40, ZOE_F32, ZOE_F16, true, false, false, 17, ZOE_ACT_NONE},
        {3, 20, 50, ZOE_BF16, ZOE_F32, true, true, true, 20, ZOE_ACT_NONE},
        {1, 1, 1, ZOE_F32, ZOE_I32, false, false, false, 1, ZOE_ACT_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(&cases[i]);
}

/* Static quantisation of the result. */
static void results_in_bytes(void **unused)
{
    (void)unused;
    enum { N = 20, K = 9 };
    zoe_tensor x = bytes_new(1, K, 0), w = bytes_new(N, K, 0);
    float scale[N], offset[N];
    int8_t y[N];
    for (size_t n = 0; n < N; n++) {
        scale[n] = n == 3 ? 1e30f : n == 4 ? NAN : n % 2 ? 0.5f : 0.01f;
        offset[n] = (float)pick(9) - 4.0f;
    }
    zoe_int8_weights *packed = pack(w, 0);
    zoe_linear_int8_args a = {.y = zoe_tensor_2d(y, ZOE_I8, 1, N),
                              .x = x,
                              .weights = packed,
                              .scale = zoe_tensor_1d(scale, ZOE_F32, N)};
    for (size_t round = 0; round < 3; round++) {
        a.offset = round ? zoe_tensor_1d(offset, ZOE_F32, round == 1 ? N : 1) : zoe_tensor_none();
        assert_int_equal(run(a), ZOE_OK);
        for (size_t n = 0; n < N; n++) {
            const float v =
                (float)sum_of(x, w, 0, n) * scale[n] + (round ? offset[round == 1 ? n : 0] : 0.0f);
            const int want = isnan(v) ? 0
                                      : (int)rintf(v > 127.0f    ? 127.0f
                                                   : v < -128.0f ? -128.0f
                                                                 : v);
            assert_int_equal(y[n], want);
        }
    }
    zoe_int8_weights_free(packed);
    tensor_free(x);
    tensor_free(w);
}

/* Weights and rows in float: the same as quantising both first; with groups, the sum of the groups. */
static void quantised_on_the_way(void **unused)
{
    (void)unused;
    const size_t groups[] = {0, 128, 256};
    const zoe_dtype types[] = {ZOE_F32, ZOE_BF16, ZOE_F16};
    for (size_t round = 0; round < 9; round++) {
        const size_t M = 1 + round * 5, N = 40, K = round == 4 ? 2300 : 300 + round;
        const size_t group = groups[round % 3], step = group ? group : K;
        const size_t G = (K + step - 1) / step;
        zoe_tensor x = tensor_new(types[round / 3], M, K, 1), w = tensor_new(ZOE_F32, N, K, 3);
        put(x, 0, 1, 300.0f); /* an outlier */
        zoe_tensor q = bytes_new(M, K, 0), qw = bytes_new(N, K, 0);
        zoe_tensor s = tensor_new(ZOE_F32, M, G, 0), sw = tensor_new(ZOE_F32, N, G, 0);
        zoe_tensor y = tensor_new(ZOE_F32, M, N, 0), again = tensor_new(ZOE_F32, M, N, 0);
        zoe_dynamic_quant_args a = {.q = q, .scale = s, .x = x, .group = step};
        quantise(a);
        a = (zoe_dynamic_quant_args){.q = qw, .scale = sw, .x = w, .group = step};
        quantise(a);
        zoe_int8_weights *packed = pack(w, group);
        assert_int_equal(run((zoe_linear_int8_args){.y = y, .x = x, .weights = packed}), ZOE_OK);
        if (!group)
            s = zoe_tensor_1d(s.data, ZOE_F32, M);
        assert_int_equal(
            run((zoe_linear_int8_args){.y = again, .x = q, .x_scale = s, .weights = packed}),
            ZOE_OK);
        assert_same_bytes(y, again);
        for (size_t m = 0; m < M; m++)
            for (size_t n = 0; n < N; n++) {
                float v = 0.0f;
                for (size_t g = 0; g < G; g++) {
                    int32_t sum = 0;
                    for (size_t i = g * step; i < K && i < (g + 1) * step; i++)
                        sum += byte_at(q, m, i) * byte_at(qw, n, i);
                    v += (float)sum * ((float *)sw.data)[n * G + g] * ((float *)s.data)[m * G + g];
                }
                assert_true(v == value_at(y, m, n));
            }
        for (size_t i = 0; i < M * G; i++)
            ((float *)s.data)[i] = 1.0f;
        assert_int_equal(
            run((zoe_linear_int8_args){.y = y, .x = q, .x_scale = s, .weights = packed}), ZOE_OK);
        zoe_tensor absent = sw; /* no scale is a scale of 1, whatever its view points to */
        absent.dtype = ZOE_NONE;
        assert_int_equal(
            run((zoe_linear_int8_args){.y = again, .x = q, .x_scale = absent, .weights = packed}),
            ZOE_OK);
        assert_same_bytes(y, again);
        zoe_int8_weights_free(packed);
        const zoe_tensor all[] = {x, w, q, qw, s, sw, y, again};
        for (size_t i = 0; i < 8; i++)
            tensor_free(all[i]);
    }
}

/* How far the product of quantised operands is from that of the originals, one row with an outlier:
 * with groups, only its own group suffers. */
static void groups_confine_outliers(void **unused)
{
    (void)unused;
    enum { N = 32, K = 1024 };
    double error[2];
    zoe_tensor x = tensor_new(ZOE_F32, 1, K, 0), w = tensor_new(ZOE_F32, N, K, 0);
    zoe_tensor y = tensor_new(ZOE_F32, 1, N, 0);
    put(x, 0, 17, 100.0f);
    for (size_t round = 0; round < 2; round++) {
        zoe_int8_weights *packed = pack(w, round ? 128 : 0);
        assert_int_equal(run((zoe_linear_int8_args){.y = y, .x = x, .weights = packed}), ZOE_OK);
        error[round] = 0.0;
        for (size_t n = 0; n < N; n++) {
            double want = 0.0;
            for (size_t i = 0; i < K; i++)
                want += (double)value_at(x, 0, i) * (double)value_at(w, n, i);
            error[round] += pow((double)value_at(y, 0, n) - want, 2.0);
        }
        zoe_int8_weights_free(packed);
    }
    assert_true(error[1] < error[0] / 4.0);
    tensor_free(x);
    tensor_free(w);
    tensor_free(y);
}

static void nonfinite_rows_stay_apart(void **unused)
{
    (void)unused;
    enum { M = 14, N = 18, K = 140 };
    zoe_tensor x = tensor_new(ZOE_F32, M, K, 0), w = tensor_new(ZOE_F32, N, K, 0);
    zoe_tensor y = tensor_new(ZOE_F32, M, N, 0);
    fill(x, 0.0f);
    put(x, 2, 139, NAN);
    put(x, 5, 0, -INFINITY);
    for (size_t group = 0; group < 256; group += 128) {
        zoe_int8_weights *packed = pack(w, group);
        assert_int_equal(run((zoe_linear_int8_args){.y = y, .x = x, .weights = packed}), ZOE_OK);
        for (size_t m = 0; m < M; m++)
            for (size_t n = 0; n < N; n++)
                assert_true(m == 2 || m == 5 ? isnan(value_at(y, m, n))
                                             : value_at(y, m, n) == 0.0f);
        zoe_int8_weights_free(packed);
    }
    put(w, 16, 3, INFINITY);
    zoe_int8_weights *packed;
    assert_refused(ctx, zoe_int8_weights_new(ctx, &packed, w, 128), ZOE_NONFINITE, "row 16");
    assert_null(packed);
    tensor_free(x);
    tensor_free(w);
    tensor_free(y);
}

/* The same bytes for one thread or three, and for a row alone. */
static void same_for_any_threads_and_rows(void **unused)
{
    (void)unused;
    enum { M = 301, N = 530, K = 2200 };
    zoe_tensor x = tensor_new(ZOE_F32, M, K, 0), w = tensor_new(ZOE_BF16, N, K, 0);
    zoe_tensor y = tensor_new(ZOE_F32, M, N, 0), other = tensor_new(ZOE_F32, M, N, 0);
    zoe_int8_weights *packed = pack(w, 256);
    zoe_context *keep = ctx;
    assert_int_equal(run((zoe_linear_int8_args){.y = y, .x = x, .weights = packed}), ZOE_OK);
    const int threads[] = {1, 3};
    for (size_t i = 0; i < 2; i++) {
        ctx = zoe_context_new(threads[i]);
        assert_non_null(ctx);
        assert_int_equal(run((zoe_linear_int8_args){.y = other, .x = x, .weights = packed}),
                         ZOE_OK);
        assert_same_bytes(y, other);
        zoe_context_free(ctx);
    }
    ctx = keep;
    zoe_tensor row = x, one = other;
    row.data = (float *)x.data + 255 * K;
    row.shape[0] = one.shape[0] = 1;
    assert_int_equal(run((zoe_linear_int8_args){.y = one, .x = row, .weights = packed}), ZOE_OK);
    assert_memory_equal(one.data, (float *)y.data + 255 * N, N * sizeof(float));
    zoe_int8_weights_free(packed);
    tensor_free(x);
    tensor_free(w);
    tensor_free(y);
    tensor_free(other);
}

static void nothing_to_do(void **unused)
{
    (void)unused;
    zoe_tensor w = bytes_new(5, 6, 0);
    zoe_int8_weights *packed = pack(w, 0);
    assert_int_equal(run((zoe_linear_int8_args){.y = zoe_tensor_2d(NULL, ZOE_F32, 0, 5),
                                                .x = zoe_tensor_2d(NULL, ZOE_I8, 0, 6),
                                                .weights = packed}),
                     ZOE_OK);
    quantise((zoe_dynamic_quant_args){.q = zoe_tensor_2d(NULL, ZOE_I8, 0, 6),
                                      .scale = zoe_tensor_1d(NULL, ZOE_F32, 0),
                                      .x = zoe_tensor_2d(NULL, ZOE_F32, 0, 6)});
    zoe_int8_weights_free(packed);
    zoe_int8_weights_free(NULL);
    tensor_free(w);
}

static void refusals(void **unused)
{
    (void)unused;
    zoe_tensor w = bytes_new(5, 6, 0), x = bytes_new(3, 6, 0), y = tensor_new(ZOE_F32, 3, 5, 0);
    zoe_tensor f = tensor_new(ZOE_F32, 3, 6, 0), v = vector_new(6);
    zoe_tensor whole = y, bytes = bytes_new(3, 5, 0), grouped = tensor_new(ZOE_F32, 5, 6, 0);
    whole.dtype = ZOE_I32;
    zoe_int8_weights *packed = pack(w, 0), *in_groups = pack(grouped, 128), *none;
    const zoe_tensor none_t = zoe_tensor_none(), three = zoe_tensor_1d(v.data, ZOE_F32, 3);
    const zoe_tensor five = zoe_tensor_1d(v.data, ZOE_F32, 5);
    const zoe_tensor long_w = zoe_tensor_2d(w.data, ZOE_I8, 1, ZOE_INT8_MOST_K + 1);
    assert_refused(ctx, zoe_int8_weights_new(ctx, &none, w, 64), ZOE_INVALID, "group 64");
    assert_refused(ctx, zoe_int8_weights_new(ctx, &none, long_w, 0), ZOE_INVALID, "131072");
    assert_refused(ctx, zoe_int8_weights_new(ctx, &none, v, 0), ZOE_INVALID, "w is f32 [6]");
    const struct {
        zoe_linear_int8_args a;
        const char *word;
    } cases[] = {
        {{.y = y, .x = x}, "no weights"},
        {{.y = bytes, .x = f, .x_scale = three, .weights = packed}, "x_scale is given"},
        {{.y = y, .x = x, .x_scale = five, .weights = packed}, "x_scale is f32 [5]"},
        {{.y = y, .x = x, .x_scale = three, .weights = in_groups}, "x_scale is f32 [3]"},
        {{.y = y, .x = x, .scale = five, .weights = in_groups}, "in groups"},
        {{.y = whole, .x = x, .weights = in_groups}, "in groups"},
        {{.y = whole, .x = x, .x_scale = three, .weights = packed}, "without other parts"},
        {{.y = whole, .x = x, .gate = five, .weights = packed}, "without other parts"},
        {{.y = y, .x = x, .offset = five, .weights = packed}, "offset is given"},
        {{.y = y, .x = x, .scale = three, .weights = packed}, "scale is f32 [3]"},
        {{.y = y, .x = y, .weights = packed}, "x is f32 [3, 5]"},
        {{.y = y, .x = x, .bias = zoe_tensor_1d(y.data, ZOE_F32, 5), .weights = packed},
         "overlaps bias"},
        {{.y = y, .x = x, .activation = (zoe_activation)99, .weights = packed}, "activation 99"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(ctx, run(cases[i].a), ZOE_INVALID, cases[i].word);
    const zoe_linear_int8_args good = {.y = y, .x = x, .weights = packed};
    assert_refused(ctx, zoe_linear_int8(ctx, &good, (zoe_workspace){0}), ZOE_NOMEM, "workspace");
    const zoe_dynamic_quant_args q = {.q = x, .scale = five, .x = f};
    assert_refused(ctx, zoe_dynamic_quant(ctx, &q, (zoe_workspace){0}), ZOE_INVALID, "scale");
    const zoe_dynamic_quant_args r = {.q = x, .scale = three, .x = none_t};
    assert_refused(ctx, zoe_dynamic_quant(ctx, &r, (zoe_workspace){0}), ZOE_INVALID, "rank 0");
    zoe_dynamic_quant_args far = {.q = x, .scale = three, .x = f};
    far.x.rank = ZOE_MAX_RANK + 1;
    assert_int_equal(zoe_dynamic_quant_workspace(ctx, &far), 0);
    assert_refused(ctx, zoe_dynamic_quant(ctx, &far, (zoe_workspace){0}), ZOE_INVALID, "rank 6");
    zoe_int8_weights_free(packed);
    zoe_int8_weights_free(in_groups);
    const zoe_tensor all[] = {w, x, y, f, v, bytes, grouped};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_as_defined),
        cmocka_unit_test(axes_with_strides),
        cmocka_unit_test(special_rows),
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(extreme_values),
        cmocka_unit_test(float_results),
        cmocka_unit_test(results_in_bytes),
        cmocka_unit_test(quantised_on_the_way),
        cmocka_unit_test(groups_confine_outliers),
        cmocka_unit_test(nonfinite_rows_stay_apart),
        cmocka_unit_test(same_for_any_threads_and_rows),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
