/* Norms by the root of a mean square: each order of rounding step by step, statistics against double,
 * the adversarial rows, and what must not change a byte. */
#define _GNU_SOURCE
#include "op_case.h"

#include <sys/mman.h>
#include <unistd.h>

/* The distance of got from want in units in the last place of f32. */
static double units(float got, double want)
{
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1.0, exponent - 24 > -149 ? exponent - 24 : -149);
}

/* rstd within so many ulp of the value in double. */
static void check_rstd(float got, double mean, float eps, double ulp)
{
    const double want = 1.0 / sqrt(mean + (double)eps);
    if (!(units(got, want) <= ulp))
        fail_msg("rstd %.9g, wanted %.9g: %g ulp", (double)got, want, units(got, want));
}

/* What the order says, given rstd. */
static float ordered(float x, zoe_dtype Tx, float rstd, zoe_tensor gamma, size_t d,
                     zoe_rms_order order, bool round_gamma, zoe_dtype Ty)
{
    if (gamma.dtype == ZOE_NONE)
        return rounded_to(Ty, order == ZOE_RMS_CAST_THEN_MUL ? rounded_to(Tx, x * rstd) : x * rstd);
    const zoe_dtype Tg = round_gamma ? Tx : gamma.dtype;
    const float g = rounded_to(Tg, value_at(gamma, 0, d));
    float v = x * rstd;
    switch (order) {
    case ZOE_RMS_CAST_THEN_MUL:
        v = rounded_to(Tx, v) * g;
        return rounded_to(Ty, Tg == Tx ? rounded_to(Tx, v) : v);
    case ZOE_RMS_ONE_PLUS_GAMMA: return rounded_to(Ty, v * (1.0f + g));
    case ZOE_RMS_T5: return rounded_to(Ty, rounded_to(Tg, rounded_to(Tg, v) * g));
    default: return rounded_to(Ty, v * g);
    }
}

/* Every width up to 67 and those of models: rstd against double, y to the bit given rstd. */
static void every_order_rounds_as_it_says(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t w = 1; w <= 71; w++)
        for (int round = 0; round < 12; round++) {
            static const size_t wide[] = {511, 1025, 1536, 5120};
            const size_t D = w <= 67 ? w : wide[w - 68], M = pick(4);
            const zoe_dtype from = float_types[pick(3)], to = float_types[pick(3)];
            zoe_tensor x = tensor_new(from, M, D, pick(4)), y = tensor_new(to, M, D, pick(4));
            zoe_tensor gamma = pick(4) ? typed_vector(float_types[pick(3)], D) : zoe_tensor_none();
            zoe_tensor rstd = vector_new(M);
            const zoe_rms_norm_args a = {.y = y,
                                         .rstd = rstd,
                                         .x = x,
                                         .gamma = gamma,
                                         .eps = 1e-6f,
                                         .order = (zoe_rms_order)pick(4),
                                         .round_gamma = pick(2)};
            succeeded(ctx, zoe_rms_norm(ctx, &a));
            for (size_t m = 0; m < M; m++) {
                const float s = value_at(rstd, 0, m);
                check_rstd(s, mean_square(x, m), a.eps, 2.0);
                for (size_t d = 0; d < D; d++)
                    same_bits(
                        value_at(y, m, d),
                        ordered(value_at(x, m, d), from, s, gamma, d, a.order, a.round_gamma, to),
                        "rms_norm", D, d);
            }
            assert_gaps_untouched(y);
            tensor_free(x);
            tensor_free(y);
            tensor_free(gamma);
            tensor_free(rstd);
        }
    zoe_context_free(ctx);
}

/* One rounding: 3 ulp in f32, and in short types nearly always the value rounded once. */
static void results_against_double(void **state)
{
    static const size_t widths[] = {64, 67, 1536, 5120, 16384, 65537, 262144};
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (int t = 0; t < 3; t++) {
        size_t seen = 0, tipped = 0;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            const size_t D = widths[w], M = D < 16384 ? 60 : 4;
            zoe_tensor x = tensor_new(float_types[t], M, D, 0),
                       y = tensor_new(float_types[t], M, D, 0);
            zoe_tensor gamma = typed_vector(float_types[t], D);
            succeeded(ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){
                                                 .y = y, .x = x, .gamma = gamma, .eps = 1e-6f}));
            for (size_t m = 0; m < M; m++) {
                const double root = sqrt(mean_square(x, m) + (double)1e-6f);
                for (size_t d = 0; d < D; d++) {
                    const double want =
                        (double)value_at(x, m, d) / root * (double)value_at(gamma, 0, d);
                    const double got = (double)value_at(y, m, d);
                    if (t == 0)
                        assert_true(units((float)got, want) <= 3.0);
                    else
                        tipped += got != (double)rounded_to(float_types[t], (float)want);
                    seen++;
                    d += D / 1500; /* some of them will do */
                }
            }
            tensor_free(x);
            tensor_free(y);
            tensor_free(gamma);
        }
        assert_true(tipped * 1000 <= seen);
    }
    zoe_context_free(ctx);
}

/* ---- adversarial rows ---- */

/* One row of equal values; element 99 of its result. */
static float of_equal(zoe_dtype type, float v, float eps)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(type, 1, 1000, 0), y = tensor_new(ZOE_F32, 1, 1000, 0);
    fill(x, v);
    succeeded(ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){.y = y, .x = x, .eps = eps}));
    const float result = value_at(y, 0, 99);
    tensor_free(x);
    tensor_free(y);
    zoe_context_free(ctx);
    return result;
}

static void extreme_rows(void **state)
{
    (void)state;
    assert_true(fabsf(of_equal(ZOE_F16, 300.0f, 1e-6f) - 1.0f) < 4e-7f);
    assert_true(fabsf(of_equal(ZOE_F16, 65504.0f, 1e-6f) - 1.0f) < 4e-7f);
    assert_true(fabsf(of_equal(ZOE_BF16, 1e19f, 1e-6f) - 1.0f) < 4e-7f);
    assert_true(of_equal(ZOE_F32, 3e38f, 1e-6f) == 0.0f);
    assert_true(of_equal(ZOE_BF16, 3e38f, 1e-6f) == 0.0f);
    assert_true(of_equal(ZOE_F32, 1e-30f, 0.0f) == INFINITY);
    assert_true(of_equal(ZOE_F32, -1e-30f, 0.0f) == -INFINITY);
    assert_true(fabsf(of_equal(ZOE_F32, 1e-30f, 1e-6f) - 1e-27f) < 1e-33f);
    assert_true(of_equal(ZOE_F32, 1e-40f, 1e-6f) > 9.99e-38f); /* subnormals count */
    assert_true(of_equal(ZOE_F32, 1e-40f, 1e-6f) < 1.001e-37f);
    assert_true(of_equal(ZOE_F32, 0.0f, 1e-6f) == 0.0f);
    assert_true(!signbit(of_equal(ZOE_F32, 0.0f, 1e-6f)));
    assert_true(signbit(of_equal(ZOE_F32, -0.0f, 1e-6f)));
    assert_true(isnan(of_equal(ZOE_F32, 0.0f, 0.0f)));
    for (float v = 1.0f; v < 2.0f; v += 0.013f) /* roundings of equal values all go one way */
        assert_true(fabsf(of_equal(ZOE_F32, v, 0.0f) - 1.0f) <= 3.0f * 0x1p-23f);
}

/* One large element: its square is beyond f32, the mean is not. */
static void a_finite_mean_of_squares_beyond_f32(void **state)
{
    enum { D = 4096 };
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 1, D, 0);
    put(x, 0, 77, 1e20f);
    succeeded(ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){.y = x, .x = x, .eps = 1e-6f}));
    assert_true(fabsf(value_at(x, 0, 77) - 64.0f) <= 3.0f * 0x1p-17f);
    tensor_free(x);
    zoe_context_free(ctx);
}

static void special_values_stay_in_their_row(void **state)
{
    enum { D = 600 };
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (int t = 0; t < 3; t++) {
        zoe_tensor x = tensor_new(float_types[t], 3, D, 0), y = tensor_new(float_types[t], 3, D, 0);
        zoe_tensor gamma = vector_new(D);
        put(x, 0, 5, NAN);
        put(x, 2, 5, INFINITY);
        zoe_rms_norm_args a = {.y = y, .x = x, .eps = 1e-6f};
        succeeded(ctx, zoe_rms_norm(ctx, &a));
        for (size_t d = 0; d < D; d++) {
            assert_true(isnan(value_at(y, 0, d)) && isfinite(value_at(y, 1, d)));
            assert_true(d == 5 ? isnan(value_at(y, 2, d)) : value_at(y, 2, d) == 0.0f);
        }
        ((float *)gamma.data)[3] = INFINITY;
        ((float *)gamma.data)[4] = zoe_f32_from_bits(0x7fffffffu); /* all of a NaN's bits */
        a.gamma = gamma;
        succeeded(ctx, zoe_rms_norm(ctx, &a));
        for (size_t d = 0; d < D; d++)
            assert_true(d == 3   ? isinf(value_at(y, 1, d))
                        : d == 4 ? isnan(value_at(y, 1, d))
                                 : isfinite(value_at(y, 1, d)));
        tensor_free(x);
        tensor_free(y);
        tensor_free(gamma);
    }
    zoe_context_free(ctx);
}

static void long_rows(void **state)
{
    enum { D = 262144 };
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    zoe_tensor x = tensor_new(ZOE_F32, 3, D, 1), rstd = vector_new(3);
    double mean[3];
    for (size_t d = 0; d < D; d++)
        put(x, 1, d, 1.1f);
    for (size_t m = 0; m < 3; m++)
        mean[m] = mean_square(x, m);
    succeeded(ctx,
              zoe_rms_norm(ctx, &(zoe_rms_norm_args){.y = x, .rstd = rstd, .x = x, .eps = 1e-6f}));
    for (size_t m = 0; m < 3; m++)
        check_rstd(value_at(rstd, 0, m), mean[m], 1e-6f, 2.0);
    assert_true(fabsf(value_at(x, 1, D - 1) - 1.0f) < 2e-6f);
    assert_gaps_untouched(x);
    tensor_free(x);
    tensor_free(rstd);
    zoe_context_free(ctx);
}

/* PixelNorm: five roundings. */
static void pixelnorm_step_by_step(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (int round = 0; round < 30; round++) {
        const zoe_dtype T = float_types[round % 3];
        const size_t D = 1 + pick(700);
        zoe_tensor x = tensor_new(T, 2, D, 1), y = tensor_new(T, 2, D, 0);
        const float eps = 1e-6f;
        succeeded(ctx,
                  zoe_rms_norm(ctx, &(zoe_rms_norm_args){
                                        .y = y, .x = x, .eps = eps, .order = ZOE_RMS_PIXELNORM}));
        for (size_t m = 0; m < 2; m++) {
            double sum = 0.0;
            for (size_t d = 0; d < D; d++)
                sum += (double)rounded_to(T, value_at(x, m, d) * value_at(x, m, d));
            const float mean = rounded_to(T, (float)(sum / (double)D));
            const float root = rounded_to(T, sqrtf(rounded_to(T, mean + eps)));
            for (size_t d = 0; d < D; d++) {
                const float want = rounded_to(T, value_at(x, m, d) / root);
                if (T == ZOE_F32) /* the mean's last bit may differ with the order of the sum */
                    assert_true(fabsf(value_at(y, m, d) - want) <= 2.5e-7f * fabsf(want));
                else
                    same_bits(value_at(y, m, d), want, "pixelnorm", D, d);
            }
        }
        tensor_free(x);
        tensor_free(y);
    }
    zoe_context_free(ctx);
}

/* ---- with a residual ---- */

static void sums_are_normalised(void **state)
{
    static const size_t widths[] = {1, 15, 67, 1024, 1300};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 120; round++) {
        const size_t D = widths[round % 5], M = 3;
        const zoe_dtype T = float_types[round % 3], to = float_types[round / 3 % 3];
        zoe_tensor x = tensor_new(T, M, D, pick(3)), r = tensor_new(T, M, D, pick(3));
        zoe_tensor y = tensor_new(to, M, D, pick(3)), sum = tensor_new(T, M, D, pick(3));
        zoe_tensor gamma = pick(2) ? typed_vector(T, D) : zoe_tensor_none(), rstd = vector_new(M);
        zoe_add_rms_norm_args a = {.y = y,
                                   .sum = sum,
                                   .rstd = rstd,
                                   .x = x,
                                   .residual = r,
                                   .gamma = gamma,
                                   .eps = 1e-6f,
                                   .order = (zoe_rms_order)pick(3),
                                   .unrounded = pick(2)};
        succeeded(ctx, zoe_add_rms_norm(ctx, &a));
        for (size_t m = 0; m < M; m++) {
            double mean = 0.0;
            for (size_t d = 0; d < D; d++) {
                const float exact = value_at(x, m, d) + value_at(r, m, d);
                const double v = (double)(a.unrounded ? exact : rounded_to(T, exact));
                mean += v * v / (double)D;
                same_bits(value_at(sum, m, d), rounded_to(T, exact), "sum", D, d);
            }
            check_rstd(value_at(rstd, 0, m), mean, a.eps, 2.0);
            for (size_t d = 0; d < D; d++) {
                const float exact = value_at(x, m, d) + value_at(r, m, d);
                same_bits(value_at(y, m, d),
                          ordered(a.unrounded ? exact : rounded_to(T, exact), T,
                                  value_at(rstd, 0, m), gamma, d, a.order, false, to),
                          "add_rms_norm", D, d);
            }
        }
        assert_gaps_untouched(sum);
        if (to == T) { /* y over x and the sum over the residual, or the other way round */
            const bool swap = pick(2);
            a.y = swap ? r : x;
            a.sum = swap ? x : r;
            succeeded(ctx, zoe_add_rms_norm(ctx, &a));
            assert_same_bytes(a.y, y);
            assert_same_bytes(a.sum, sum);
        }
        tensor_free(x);
        tensor_free(r);
        tensor_free(y);
        tensor_free(sum);
        tensor_free(gamma);
        tensor_free(rstd);
    }
    zoe_context_free(ctx);
}

/* ---- with rotation ---- */

/* Rows of q: normed by zoe_rms_norm, then turned here, step by step. */
static void check_side(zoe_context *ctx, const zoe_qk_norm_rope_args *a,
                       const zoe_norm_rope_rows *s, zoe_tensor x)
{
    const size_t M = x.shape[0], D = x.shape[1], half = a->cos.shape[1];
    const bool cast = a->order == ZOE_RMS_CAST_THEN_MUL;
    zoe_tensor n = tensor_new(ZOE_F32, M, D, 0), rstd = vector_new(M);
    succeeded(ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){.y = n,
                                                          .rstd = rstd,
                                                          .x = x,
                                                          .gamma = s->gamma,
                                                          .eps = a->eps,
                                                          .order = a->order,
                                                          .round_gamma = a->round_gamma}));
    for (size_t m = 0; m < M; m++)
        for (size_t d = 0; d < D; d++) {
            const size_t head = d / (2 * half) * (2 * half), within = d % (2 * half);
            const bool by_half = a->pairing == ZOE_ROTARY_HALF;
            const bool second = by_half ? within >= half : within % 2;
            const size_t j = by_half ? within % half : within / 2;
            const size_t other = head + (by_half ? (within + half) % (2 * half) : within ^ 1);
            const size_t row = a->cos.shape[0] == 1 ? 0 : m;
            const float c = value_at(a->cos, row, j), t = value_at(a->sin, row, j);
            const float p = value_at(n, m, d) * c, q = value_at(n, m, other) * t;
            same_bits(value_at(s->y, m, d), rounded_to(s->y.dtype, second ? p + q : p - q),
                      cast ? "qk_norm_rope, cast" : "qk_norm_rope", D, d);
        }
    tensor_free(n);
    tensor_free(rstd);
}

static void heads_are_normed_and_turned(void **state)
{
    static const size_t halves[] = {1, 2, 3, 5, 8, 32, 64, 150, 700};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 150; round++) {
        const size_t half = halves[round % 9], M = 1 + pick(4), q_heads = 1 + pick(5);
        const size_t D = 2 * half * q_heads, E = 2 * half * (1 + pick(3));
        const zoe_dtype T = float_types[pick(3)], to = float_types[pick(3)];
        zoe_tensor c = tensor_new(ZOE_F32, pick(4) ? M : 1, half, pick(3));
        zoe_tensor s = tensor_copy(c, 0);
        for (size_t m = 0; m < c.shape[0]; m++)
            for (size_t j = 0; j < half; j++) {
                put(c, m, j, (float)cos(75599.0 * (double)m + (double)j));
                put(s, m, j, (float)sin(75599.0 * (double)m + (double)j));
            }
        zoe_qk_norm_rope_args a = {
            .q = {tensor_new(to, M, D, 1), tensor_new(T, M, D, 2),
                  typed_vector(float_types[pick(3)], D)},
            .k = {tensor_new(to, M, E, 0), tensor_new(T, M, E, 1), zoe_tensor_none()},
            .cos = c,
            .sin = s,
            .eps = 1e-6f,
            .order = pick(2) ? ZOE_RMS_CAST_THEN_MUL : ZOE_RMS_MUL_F32,
            .round_gamma = pick(2),
            .pairing = pick(2) ? ZOE_ROTARY_HALF : ZOE_ROTARY_INTERLEAVE};
        const bool alone = pick(5) == 0;
        const zoe_qk_norm_rope_args all = a;
        if (alone)
            a.k.x = zoe_tensor_none();
        succeeded(ctx, zoe_qk_norm_rope(ctx, &a));
        check_side(ctx, &a, &all.q, all.q.x);
        assert_gaps_untouched(all.q.y);
        if (!alone)
            check_side(ctx, &a, &all.k, all.k.x);
        if (to == T) { /* in place */
            a.q.y = a.q.x;
            a.k.x = zoe_tensor_none();
            succeeded(ctx, zoe_qk_norm_rope(ctx, &a));
            assert_same_bytes(all.q.x, all.q.y);
        }
        tensor_free(c);
        tensor_free(s);
        tensor_free(all.q.x);
        tensor_free(all.q.y);
        tensor_free(all.q.gamma);
        tensor_free(all.k.x);
        tensor_free(all.k.y);
    }
    zoe_context_free(ctx);
}

/* ---- l2_norm ---- */

static float silu(float v)
{
    return (float)((double)v / (1.0 + exp(-(double)v)));
}

static void channels_are_normed_step_by_step(void **state)
{
    static const size_t widths[] = {1, 2, 7, 8, 65, 96, 384, 1024, 1500};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    size_t seen = 0, off = 0;
    for (int round = 0; round < 140; round++) {
        const size_t C = widths[round % 9], M = pick(5);
        const zoe_dtype T = float_types[pick(3)];
        const bool exact = T != ZOE_F32;
        zoe_tensor x = tensor_new(T, M, C, pick(3)), y = tensor_new(T, M, C, pick(3));
        zoe_tensor gamma =
            pick(5) ? typed_vector(exact && pick(2) ? T : ZOE_F32, C) : zoe_tensor_none();
        zoe_tensor bias = pick(2) ? typed_vector(float_types[pick(3)], C) : zoe_tensor_none();
        if (M > 1)
            for (size_t c = 0; c < C; c++)
                put(x, 1, c, c ? 0.0f : -0.0f);
        const zoe_l2_norm_args a = {.y = y, .x = x, .gamma = gamma, .bias = bias, .silu = pick(2)};
        succeeded(ctx, zoe_l2_norm(ctx, &a));
        for (size_t m = 0; m < M; m++) {
            float n = rounded_to(T, (float)sqrt(mean_square(x, m) * (double)C));
            n = n < 1e-12f ? 1e-12f : n;
            for (size_t c = 0; c < C; c++) {
                float v = rounded_to(T, value_at(x, m, c) / n);
                v = rounded_to(T, v * (float)sqrt((double)C));
                if (gamma.dtype)
                    v = rounded_to(T, v * value_at(gamma, 0, c));
                if (bias.dtype)
                    v = rounded_to(T, v + value_at(bias, 0, c));
                v = rounded_to(T, a.silu ? silu(v) : v);
                const float got = value_at(y, m, c);
                /* of a value near 0 the sum with the bias leaves few digits */
                const float unit = T == ZOE_F32 ? 5e-7f : T == ZOE_F16 ? 0x1p-10f : 0x1p-7f;
                if (!(fabsf(got - v) <= unit * 2.0f * fmaxf(fabsf(v), 0.5f)))
                    fail_msg("C = %zu: got %.9g, wanted %.9g", C, (double)got, (double)v);
                off += exact && got != v;
                seen += exact;
            }
        }
        assert_gaps_untouched(y);
        tensor_free(x);
        tensor_free(y);
        tensor_free(gamma);
        tensor_free(bias);
    }
    assert_true(off * 200 <= seen); /* a norm, or silu, that tips a rounding */
    zoe_context_free(ctx);
}

static void a_pixel_of_zeroes(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (int t = 0; t < 3; t++)
        for (int strict = 0; strict < 2; strict++) {
            zoe_tensor x = tensor_new(float_types[t], 1, 20, 0);
            fill(x, 0.0f);
            succeeded(
                ctx, zoe_l2_norm(ctx, &(zoe_l2_norm_args){.y = x, .x = x, .strict_torch = strict}));
            assert_true(float_types[t] == ZOE_F16 && strict ? isnan(value_at(x, 0, 7))
                                                            : value_at(x, 0, 7) == 0.0f);
            tensor_free(x);
        }
    zoe_context_free(ctx);
}

/* ---- equalities ---- */

/* Threads, gaps between rows, place in memory, y over x, rows alone or among others. */
static void nothing_but_the_row_changes_a_byte(void **state)
{
    enum { M = 70, D = 1301 };
    (void)state;
    for (int t = 0; t < 3; t++) {
        const zoe_dtype T = float_types[t];
        zoe_tensor x = tensor_new(T, M, D, 0), gamma = vector_new(D), want = tensor_new(T, M, D, 0);
        zoe_context *one = zoe_context_new(1);
        const zoe_rms_norm_args a = {
            .y = want, .x = x, .gamma = gamma, .eps = 1e-6f, .order = ZOE_RMS_CAST_THEN_MUL};
        succeeded(one, zoe_rms_norm(one, &a));
        for (int threads = 1; threads <= 3; threads++) {
            zoe_context *ctx = zoe_context_new(threads);
            zoe_rms_norm_args b = a;
            b.x = b.y = tensor_copy(x, (size_t)threads);
            succeeded(ctx, zoe_rms_norm(ctx, &b));
            assert_same_bytes(b.y, want);
            tensor_free(b.x);
            zoe_context_free(ctx);
        }
        for (size_t m = 0; m < M; m += 23) {
            zoe_rms_norm_args b = a;
            zoe_tensor row = tensor_new(T, 1, D, 0);
            b.y = row;
            b.x = zoe_tensor_2d((char *)x.data + m * D * zoe_dtype_bytes(T), T, 1, D);
            succeeded(one, zoe_rms_norm(one, &b));
            b.y.data = (char *)want.data + m * D * zoe_dtype_bytes(T);
            assert_same_bytes(row, b.y);
            tensor_free(row);
        }
        tensor_free(x);
        tensor_free(gamma);
        tensor_free(want);
        zoe_context_free(one);
    }
}

/* Results that go past the caches have the bytes of those that do not, at any place. */
static void streamed_results_are_the_same(void **state)
{
    enum { M = 1700, D = 1284, HALF = 6 };
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int t = 0; t < 3; t++) {
        const zoe_dtype T = float_types[t];
        const size_t bytes = zoe_dtype_bytes(T), rows = t ? 2 * M : M, few = 500;
        assert_true(rows * D * bytes >= (size_t)8 << 20 && few * D * bytes < (size_t)8 << 20);
        zoe_tensor x = tensor_new(T, rows, D, 0), gamma = vector_new(D);
        zoe_tensor big = tensor_new(T, rows, D, 3), part = tensor_new(T, few, D, 0);
        zoe_tensor cosines = tensor_new(ZOE_F32, 1, HALF, 0);
        big.data = (char *)big.data + bytes; /* not a multiple of anything; there are gaps */
        zoe_tensor head = x, top = big;
        head.shape[0] = top.shape[0] = few;
        for (int op = 0; op < 3; op++) {
            for (int whole = 0; whole < 2; whole++) {
                zoe_tensor y = whole ? big : part, in = whole ? x : head;
                if (op == 0)
                    succeeded(
                        ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){
                                                   .y = y, .x = in, .gamma = gamma, .eps = 1e-6f}));
                else if (op == 1)
                    succeeded(ctx, zoe_l2_norm(
                                       ctx, &(zoe_l2_norm_args){.y = y, .x = in, .gamma = gamma}));
                else
                    succeeded(ctx,
                              zoe_qk_norm_rope(ctx, &(zoe_qk_norm_rope_args){.q = {y, in, gamma},
                                                                             .cos = cosines,
                                                                             .sin = cosines,
                                                                             .eps = 1e-6f}));
            }
            assert_same_bytes(part, top);
        }
        big.data = (char *)big.data - bytes;
        tensor_free(x);
        tensor_free(gamma);
        tensor_free(big);
        tensor_free(part);
        tensor_free(cosines);
    }
    zoe_context_free(ctx);
}

/* Rank 5 with axes in another order, and gamma over the last two of them. */
static void leading_axes_in_any_order(void **state)
{
    enum { A = 2, B = 3, C = 4, E = 5, D = 6 };
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor flat = tensor_new(ZOE_F32, A * B * C, E * D, 0), gamma = vector_new(E * D);
    zoe_tensor want = tensor_new(ZOE_F32, A * B * C, E * D, 0), rstd = vector_new(A * B * C);
    zoe_tensor y = tensor_new(ZOE_F32, A * B * C, E * D, 0);
    succeeded(ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){
                                         .y = want, .rstd = rstd, .x = flat, .gamma = gamma}));
    const size_t shape[] = {A, B, C, E, D};
    zoe_tensor x5 = zoe_tensor_of(flat.data, ZOE_F32, 5, shape);
    const size_t turned[] = {A, C, B, E, D};
    zoe_tensor y5 =
        zoe_tensor_of(y.data, ZOE_F32, 5, turned); /* [A, C, B] in memory, seen as x is */
    y5.shape[1] = B;
    y5.shape[2] = C;
    const ptrdiff_t swap = y5.stride[1];
    y5.stride[1] = y5.stride[2];
    y5.stride[2] = swap;
    float statistics[C][A][B];
    const size_t order[] = {C, A, B};
    zoe_tensor s = zoe_tensor_of(statistics, ZOE_F32, 3, order);
    s = (zoe_tensor){.data = s.data,
                     .dtype = ZOE_F32,
                     .rank = 3,
                     .shape = {A, B, C},
                     .stride = {s.stride[1], s.stride[2], s.stride[0]}};
    const zoe_rms_norm_args a = {
        .y = y5, .rstd = s, .x = x5, .gamma = zoe_tensor_2d(gamma.data, ZOE_F32, E, D)};
    succeeded(ctx, zoe_rms_norm(ctx, &a));
    for (size_t i = 0; i < A * B * C; i++) {
        const size_t p = i / (B * C), q = i / C % B, r = i % C;
        assert_memory_equal((float *)y.data + ((p * C + r) * B + q) * E * D,
                            (float *)want.data + i * E * D, E * D * 4);
        assert_true(statistics[r][p][q] == value_at(rstd, 0, i));
    }
    zoe_rms_norm_args bad = a;
    bad.x.stride[3]++;
    assert_refused(ctx, zoe_rms_norm(ctx, &bad), ZOE_INVALID, "the normalised axes are dense");
    tensor_free(flat);
    tensor_free(gamma);
    tensor_free(want);
    tensor_free(rstd);
    tensor_free(y);
    zoe_context_free(ctx);
}

/* Rows whose ends touch a page that faults. */
static void nothing_behind_a_row_is_touched(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    zoe_context *ctx = zoe_context_new(1);
    unsigned char *map =
        mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_NONE), 0);
    assert_int_equal(mprotect(map + 3 * page, page, PROT_NONE), 0);
    for (int t = 0; t < 3; t++)
        for (size_t D = 1; D <= 67; D++) {
            const size_t bytes = D * zoe_dtype_bytes(float_types[t]);
            zoe_tensor x = zoe_tensor_2d(map + page - bytes, float_types[t], 1, D);
            zoe_tensor y = zoe_tensor_2d(map + 3 * page - bytes, float_types[t], 1, D);
            fill(x, 1.5f);
            succeeded(ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){.y = y, .x = x}));
            assert_true(fabsf(value_at(y, 0, D - 1) - 1.0f) < 4e-7f);
            succeeded(ctx, zoe_l2_norm(ctx, &(zoe_l2_norm_args){.y = y, .x = x, .silu = true}));
        }
    munmap(map, 4 * page);
    zoe_context_free(ctx);
}

static void rows_further_apart_than_two_to_the_31(void **state)
{
    (void)state;
    const size_t stride = ((size_t)1 << 31) + 64, bytes = (2 * stride + 8) * sizeof(float);
    float *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        skip();
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = zoe_tensor_2d(p, ZOE_F32, 3, 8);
    x.stride[0] = (ptrdiff_t)stride;
    for (size_t d = 0; d < 8; d++)
        p[2 * stride + d] = 3.0f;
    succeeded(ctx, zoe_rms_norm(ctx, &(zoe_rms_norm_args){.y = x, .x = x}));
    assert_true(p[2 * stride] == 1.0f && p[2 * stride + 7] == 1.0f);
    munmap(p, bytes);
    zoe_context_free(ctx);
}

/* ---- refusals ---- */

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 3, 12, 0), y = tensor_new(ZOE_F32, 3, 12, 0);
    zoe_tensor v = vector_new(12), c = tensor_new(ZOE_F32, 3, 3, 0), t;
    int8_t bytes[3 * 12];
    zoe_tensor q = zoe_tensor_2d(bytes, ZOE_I8, 3, 12), s = vector_new(3);
    const zoe_rms_norm_args good = {.y = y, .x = x, .gamma = v};
    zoe_rms_norm_args a = good;
    a.y = (t = y, t.shape[1] = 11, t);
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "rms_norm: y is");
    a = good;
    a.gamma = (t = v, t.shape[0] = 11, t);
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "gamma is f32 [11]");
    a = good;
    a.x = (t = x, t.dtype = ZOE_I32, t);
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "x is i32");
    a = good;
    a.y = (t = x, t.data = (float *)x.data + 1, t);
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "without being the same view");
    a.y = (t = x, t.dtype = ZOE_BF16, t);
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "y overlaps x");
    a.x = a.y = zoe_tensor_2d(x.data, ZOE_F32, 3, 0);
    a.gamma = zoe_tensor_none();
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "no elements");
    a = good;
    a.rstd = v;
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "rstd is f32 [12, 1]");
    a = good;
    a.order = ZOE_RMS_PIXELNORM;
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "neither gamma nor rstd");
    a.order = (zoe_rms_order)9;
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "order 9");
    a = good;
    a.eps = -1.0f;
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "eps is -1, wanted");
    a.eps = INFINITY;
    assert_refused(ctx, zoe_rms_norm(ctx, &a), ZOE_INVALID, "eps is inf");
    a = good;
    a.x = a.y = zoe_tensor_2d(NULL, ZOE_F32, 0, 12);
    succeeded(ctx, zoe_rms_norm(ctx, &a));
    const zoe_add_rms_norm_args add = {.y = y, .sum = y, .x = x, .residual = x};
    assert_refused(ctx, zoe_add_rms_norm(ctx, &add), ZOE_INVALID, "y overlaps sum");
    zoe_rms_norm_quant_args quant = {.y = q, .x = x, .scale = v, .sum = y};
    assert_refused(ctx, zoe_rms_norm_quant(ctx, &quant), ZOE_INVALID,
                   "sum is given without residual");
    quant.sum = zoe_tensor_none();
    quant.scale = zoe_tensor_none();
    assert_refused(ctx, zoe_rms_norm_quant(ctx, &quant), ZOE_INVALID, "scale is none");
    zoe_rms_norm_dynamic_quant_args dynamic = {.y = y, .scale = s, .x = x};
    assert_refused(ctx, zoe_rms_norm_dynamic_quant(ctx, &dynamic), ZOE_INVALID, "y is f32");
    dynamic = (zoe_rms_norm_dynamic_quant_args){.y = q, .x = x};
    assert_refused(ctx, zoe_rms_norm_dynamic_quant(ctx, &dynamic), ZOE_INVALID, "scale is none");
    const zoe_qk_norm_rope_args rope = {.q = {y, x, v}, .cos = c, .sin = c};
    succeeded(ctx, zoe_qk_norm_rope(ctx, &rope));
    zoe_qk_norm_rope_args r = rope;
    r.cos = zoe_tensor_none();
    assert_refused(ctx, zoe_qk_norm_rope(ctx, &r), ZOE_INVALID, "cos is none");
    r = rope;
    r.cos = (t = c, t.shape[1] = 2, t);
    assert_refused(ctx, zoe_qk_norm_rope(ctx, &r), ZOE_INVALID,
                   "sin is f32 [3, 3], wanted f32 [3, 2]");
    r.cos = r.sin = (t = c, t.shape[1] = 2, t.stride[0] = 2, t.shape[0] = 4, t);
    assert_refused(ctx, zoe_qk_norm_rope(ctx, &r), ZOE_INVALID, "or 1 before the last");
    zoe_tensor five = tensor_new(ZOE_F32, 3, 5, 0);
    r.cos = r.sin = five;
    assert_refused(ctx, zoe_qk_norm_rope(ctx, &r), ZOE_INVALID, "whole heads");
    r = rope;
    r.pairing = ZOE_ROTARY_QUARTER;
    assert_refused(ctx, zoe_qk_norm_rope(ctx, &r), ZOE_INVALID, "halves or interleaved");
    const zoe_l2_norm_args l2 = {.y = y, .x = x, .clamp = -1.0f};
    assert_refused(ctx, zoe_l2_norm(ctx, &l2), ZOE_INVALID, "clamp is -1");
    zoe_cancel(ctx);
    assert_refused(ctx, zoe_rms_norm(ctx, &good), ZOE_CANCELLED, "interrupted");
    tensor_free(x);
    tensor_free(y);
    tensor_free(v);
    tensor_free(c);
    tensor_free(s);
    tensor_free(five);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_rounds_as_it_says),
        cmocka_unit_test(results_against_double),
        cmocka_unit_test(extreme_rows),
        cmocka_unit_test(a_finite_mean_of_squares_beyond_f32),
        cmocka_unit_test(special_values_stay_in_their_row),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(pixelnorm_step_by_step),
        cmocka_unit_test(sums_are_normalised),
        cmocka_unit_test(heads_are_normed_and_turned),
        cmocka_unit_test(channels_are_normed_step_by_step),
        cmocka_unit_test(a_pixel_of_zeroes),
        cmocka_unit_test(nothing_but_the_row_changes_a_byte),
        cmocka_unit_test(streamed_results_are_the_same),
        cmocka_unit_test(leading_axes_in_any_order),
        cmocka_unit_test(nothing_behind_a_row_is_touched),
        cmocka_unit_test(rows_further_apart_than_two_to_the_31),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
