/* The normalisations against their formulas in double, the adversarial inputs, and the equalities
 * that they promise. */
#define _GNU_SOURCE
#include "op_case.h"

#include <sys/mman.h>

static const zoe_dtype row_types[] = {ZOE_F32, ZOE_BF16};

static void succeeded(zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK)
        fail_msg("%s: %s", zoe_status_name(status), zoe_context_message(ctx));
}

static zoe_tensor none(void)
{
    return zoe_tensor_none();
}

/* ---- rms_norm, with and without rotation ---- */

static double mean_square(zoe_tensor x, size_t m)
{
    double sum = 0.0;
    for (size_t d = 0; d < x.shape[1]; d++)
        sum += (double)value_at(x, m, d) * (double)value_at(x, m, d);
    return sum / (double)x.shape[1];
}

/* Element d of row m after the normalisation and gamma. */
static double rms_value(zoe_tensor x, zoe_tensor gamma, float eps, double mean, size_t m, size_t d)
{
    const bool bf16 = x.dtype == ZOE_BF16;
    const double v = bf16_if(bf16, (double)value_at(x, m, d) / sqrt(mean + (double)eps));
    return gamma.dtype == ZOE_NONE
               ? v
               : bf16_if(bf16, v * bf16_if(bf16, (double)value_at(gamma, 0, d)));
}

/* How many bf16 results there were, and how many of them were not the very value. */
static size_t seen, tipped;

static void check_rms(zoe_tensor y, zoe_tensor x, zoe_tensor gamma, float eps, zoe_tensor cos,
                      zoe_tensor sin)
{
    const bool rotated = cos.dtype != ZOE_NONE;
    for (size_t m = 0; m < x.shape[0]; m++) {
        const double mean = mean_square(x, m);
        for (size_t d = 0; d < x.shape[1]; d++) {
            double v = rms_value(x, gamma, eps, mean, m, d), scale = fabs(v);
            if (rotated) {
                const size_t j = d % (2 * cos.shape[1]) / 2;
                const double c = (double)value_at(cos, m, j), s = (double)value_at(sin, m, j);
                const double other = rms_value(x, gamma, eps, mean, m, d ^ 1);
                scale = hypot(v, other);
                v = d % 2 ? other * s + v * c : v * c - other * s;
            }
            const double got = (double)value_at(y, m, d);
            if (x.dtype == ZOE_BF16) {
                tipped += got != bf16_if(true, v);
                seen++;
            }
            /* an intermediate that lies at a tie may have been rounded the other way */
            assert_near(y.dtype, got, v, scale, x.dtype == ZOE_BF16 ? 0x1p-7 : 4e-7);
        }
    }
}

static void rms_norm_over_odd_widths(void **state)
{
    static const size_t widths[] = {1, 2, 3, 7, 8, 63, 64, 65, 1023, 1024, 1025, 5120};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t i = 0; i < 12; i++)
        for (int round = 0; round < 8; round++) {
            const size_t D = widths[i], M = pick(5);
            const zoe_dtype from = row_types[round & 1], to = row_types[round >> 1 & 1];
            zoe_tensor x = tensor_new(from, M, D, pick(4)), y = tensor_new(to, M, D, pick(4));
            zoe_tensor gamma = round & 4 ? vector_new(D) : none();
            succeeded(ctx, zoe_rms_norm(ctx, y, x, gamma, 1e-6f));
            check_rms(y, x, gamma, 1e-6f, none(), none());
            assert_gaps_untouched(y);
            tensor_free(x);
            tensor_free(y);
            tensor_free(gamma);
        }
    assert_true(tipped * 1000 <= seen);
    zoe_context_free(ctx);
}

static void rotation_of_odd_heads(void **state)
{
    static const size_t half_heads[] = {1, 2, 3, 5, 64, 150, 700}, counts[] = {1, 3, 12};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t i = 0; i < 7; i++)
        for (size_t n = 0; n < 3; n++)
            for (int round = 0; round < 4; round++) {
                const size_t half = half_heads[i], D = 2 * half * counts[n], M = 3;
                zoe_tensor x = tensor_new(row_types[round & 1], M, D, 2);
                zoe_tensor y = tensor_new(row_types[round >> 1], M, D, 1);
                zoe_tensor gamma = vector_new(D);
                zoe_tensor cosines = tensor_new(ZOE_F32, M, half, 3),
                           sines = tensor_new(ZOE_F32, M, half, 0);
                for (size_t m = 0; m < M; m++) /* positions 0, 75599, 151198 */
                    for (size_t j = 0; j < half; j++) {
                        const double angle =
                            75599.0 * (double)m * pow(10000.0, -(double)j / (double)half);
                        put(cosines, m, j, (float)cos(angle));
                        put(sines, m, j, (float)sin(angle));
                    }
                succeeded(ctx, zoe_rms_norm_rope(ctx, y, x, gamma, 1e-6f, cosines, sines));
                check_rms(y, x, gamma, 1e-6f, cosines, sines);
                assert_gaps_untouched(y);
                tensor_free(x);
                tensor_free(y);
                tensor_free(gamma);
                tensor_free(cosines);
                tensor_free(sines);
            }
    assert_true(tipped * 1000 <= seen);
    zoe_context_free(ctx);
}

/* One row of equal values through rms_norm without gamma. */
static float rms_of_equal(zoe_dtype dtype, float v, float eps)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(dtype, 1, 100, 0), y = tensor_new(ZOE_F32, 1, 100, 0);
    fill(x, v);
    succeeded(ctx, zoe_rms_norm(ctx, y, x, none(), eps));
    const float result = value_at(y, 0, 99);
    tensor_free(x);
    tensor_free(y);
    zoe_context_free(ctx);
    return result;
}

static void extreme_rows(void **state)
{
    (void)state;
    assert_true(rms_of_equal(ZOE_BF16, 1e19f, 1e-6f) == 1.0f);
    assert_true(fabsf(rms_of_equal(ZOE_F32, 3e38f, 1e-6f) - 1.0f) < 1e-6f);
    assert_true(fabsf(rms_of_equal(ZOE_F32, 1e-30f, 1e-6f) - 1e-27f) < 1e-33f);
    assert_true(rms_of_equal(ZOE_F32, 1e-40f, 1e-6f) > 9.99e-38f); /* subnormals count */
    assert_true(rms_of_equal(ZOE_F32, 0.0f, 1e-6f) == 0.0f);
    assert_true(signbit(rms_of_equal(ZOE_F32, -0.0f, 1e-6f)));
    assert_true(isnan(rms_of_equal(ZOE_F32, 0.0f, 0.0f)));
}

static void special_values_stay_in_their_row(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 3, 20, 0), y = tensor_new(ZOE_F32, 3, 20, 0);
    put(x, 0, 5, NAN);
    put(x, 2, 5, INFINITY);
    const zoe_layer_norm_args layer = {.y = y, .x = x, .eps = 1e-6f};
    succeeded(ctx, zoe_rms_norm(ctx, y, x, none(), 1e-6f));
    for (size_t d = 0; d < 20; d++) {
        assert_true(isnan(value_at(y, 0, d)) && isfinite(value_at(y, 1, d)));
        assert_true(d == 5 ? isnan(value_at(y, 2, d)) : value_at(y, 2, d) == 0.0f);
    }
    succeeded(ctx, zoe_layer_norm(ctx, &layer));
    for (size_t d = 0; d < 20; d++)
        assert_true(isnan(value_at(y, 0, d)) && isfinite(value_at(y, 1, d)) &&
                    isnan(value_at(y, 2, d)));
    tensor_free(x);
    tensor_free(y);
    zoe_context_free(ctx);
}

/* ---- layer_norm ---- */

static void check_layer(const zoe_layer_norm_args *a)
{
    const double D = (double)a->x.shape[1];
    for (size_t m = 0; m < a->x.shape[0]; m++) {
        double mean = 0.0, variance = 0.0;
        for (size_t d = 0; d < a->x.shape[1]; d++)
            mean += (double)value_at(a->x, m, d) / D;
        for (size_t d = 0; d < a->x.shape[1]; d++)
            variance += pow((double)value_at(a->x, m, d) - mean, 2.0) / D;
        for (size_t d = 0; d < a->x.shape[1]; d++) {
            double v = ((double)value_at(a->x, m, d) - mean) / sqrt(variance + (double)a->eps),
                   scale = fabs(v) + 1.0;
            if (a->gamma.dtype != ZOE_NONE)
                v = v * (double)value_at(a->gamma, 0, d) + (double)value_at(a->beta, 0, d);
            v = bf16_if(a->round_norm, v);
            if (a->scale.dtype != ZOE_NONE)
                v = v * (1.0 + (double)value_at(a->scale, 0, d)) + (double)value_at(a->shift, 0, d);
            /* a rounded value may have tipped to the next bf16 before it was scaled by up to 2 */
            assert_near(a->y.dtype, (double)value_at(a->y, m, d), v, 3.0 * scale,
                        a->round_norm ? 0x1p-8 : 5e-7);
        }
    }
}

static void layer_norm_over_odd_widths(void **state)
{
    static const size_t widths[] = {1, 2, 3, 7, 8, 63, 64, 65, 1023, 1024, 1025, 5120};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t i = 0; i < 12; i++)
        for (int round = 0; round < 16; round++) {
            const size_t D = widths[i], M = pick(4);
            zoe_layer_norm_args a = {.x = tensor_new(row_types[round & 1], M, D, pick(3)),
                                     .y = tensor_new(row_types[round >> 1 & 1], M, D, pick(3)),
                                     .eps = 1e-6f,
                                     .round_norm = pick(2)};
            const bool affine = round & 4, modulated = round & 8;
            a.gamma = affine ? vector_new(D) : none();
            a.beta = affine ? vector_new(D) : none();
            a.scale = modulated ? vector_new(D) : none();
            a.shift = modulated ? vector_new(D) : none();
            succeeded(ctx, zoe_layer_norm(ctx, &a));
            check_layer(&a);
            assert_gaps_untouched(a.y);
            tensor_free(a.x);
            tensor_free(a.y);
            tensor_free(a.gamma);
            tensor_free(a.beta);
            tensor_free(a.scale);
            tensor_free(a.shift);
        }
    zoe_context_free(ctx);
}

static void large_means_cost_no_digits(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_layer_norm_args a = {
        .x = tensor_new(ZOE_F32, 2, 999, 0), .y = tensor_new(ZOE_F32, 2, 999, 0), .eps = 1e-6f};
    for (size_t d = 0; d < 999; d++) {
        put(a.x, 0, d, 1e4f + noise());
        put(a.x, 1, d, 0.1f); /* constant: exactly 0 */
    }
    succeeded(ctx, zoe_layer_norm(ctx, &a));
    check_layer(&a);
    for (size_t d = 0; d < 999; d++)
        assert_true(value_at(a.y, 1, d) == 0.0f);
    tensor_free(a.x);
    tensor_free(a.y);
    zoe_context_free(ctx);
}

/* ---- l2_norm ---- */

static void l2_norm_over_odd_widths(void **state)
{
    static const size_t widths[] = {1, 2, 3, 8, 63, 96, 192, 384, 1025};
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t i = 0; i < 9; i++)
        for (int silu = 0; silu < 2; silu++) {
            const size_t C = widths[i], M = 1 + pick(5);
            zoe_tensor x = tensor_new(ZOE_F32, M, C, pick(3)),
                       y = tensor_new(ZOE_F32, M, C, pick(3));
            zoe_tensor gamma = vector_new(C);
            for (size_t c = 0; c < C; c++)
                put(x, 0, c, 0.0f); /* a pixel of zeros stays zero */
            succeeded(ctx, zoe_l2_norm(ctx, y, x, gamma, silu));
            for (size_t m = 0; m < M; m++) {
                const double length = fmax(sqrt(mean_square(x, m) * (double)C), 1e-12);
                for (size_t c = 0; c < C; c++) {
                    const double v = (double)value_at(x, m, c) / length * sqrt((double)C) *
                                     (double)value_at(gamma, 0, c);
                    assert_near(ZOE_F32, (double)value_at(y, m, c), silu ? v / (1.0 + exp(-v)) : v,
                                0.0, 8e-7);
                }
            }
            assert_gaps_untouched(y);
            tensor_free(x);
            tensor_free(y);
            tensor_free(gamma);
        }
    zoe_context_free(ctx);
}

/* ---- equalities ---- */

static void threads_strides_and_place_do_not_change_a_byte(void **state)
{
    (void)state;
    enum { M = 70, D = 1300, HALF = 65 };
    for (int t = 0; t < 2; t++) {
        const zoe_dtype type = row_types[t];
        zoe_tensor x = tensor_new(type, M, D, 0), gamma = vector_new(D), beta = vector_new(D);
        zoe_tensor cosines = tensor_new(ZOE_F32, M, HALF, 0),
                   sines = tensor_new(ZOE_F32, M, HALF, 0);
        zoe_tensor first[2] = {tensor_new(type, M, D, 0), tensor_new(type, M, D, 0)};
        for (int threads = 1; threads <= 3; threads++) {
            zoe_context *ctx = zoe_context_new(threads);
            zoe_tensor rotated = tensor_copy(x, (size_t)threads - 1),
                       normed = tensor_copy(x, (size_t)threads);
            succeeded(ctx, zoe_rms_norm_rope(ctx, rotated, rotated, gamma, 1e-6f, cosines, sines));
            const zoe_layer_norm_args layer = {
                .y = normed, .x = normed, .gamma = gamma, .beta = beta, .eps = 1e-6f};
            succeeded(ctx, zoe_layer_norm(ctx, &layer));
            if (threads == 1) {
                succeeded(ctx, zoe_rms_norm_rope(ctx, first[0], x, gamma, 1e-6f, cosines, sines));
                zoe_layer_norm_args apart = layer;
                apart.x = x;
                apart.y = first[1];
                succeeded(ctx, zoe_layer_norm(ctx, &apart));
            }
            assert_same_bytes(rotated, first[0]);
            assert_same_bytes(normed, first[1]);
            tensor_free(rotated);
            tensor_free(normed);
            zoe_context_free(ctx);
        }
        tensor_free(x);
        tensor_free(gamma);
        tensor_free(beta);
        tensor_free(cosines);
        tensor_free(sines);
        tensor_free(first[0]);
        tensor_free(first[1]);
    }
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
    succeeded(ctx, zoe_rms_norm(ctx, x, x, none(), 0.0f));
    assert_true(p[2 * stride] == 1.0f && p[2 * stride + 7] == 1.0f);
    munmap(p, bytes);
    zoe_context_free(ctx);
}

/* ---- refusals ---- */

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 3, 12, 0), y = tensor_new(ZOE_F32, 3, 12, 0),
               v = vector_new(12);
    zoe_tensor cosines = tensor_new(ZOE_F32, 3, 3, 0), t;
    assert_refused(ctx, zoe_rms_norm(ctx, (t = y, t.shape[1] = 11, t), x, v, 1e-6f), ZOE_INVALID,
                   "rms_norm: y is");
    assert_refused(ctx, zoe_rms_norm(ctx, y, x, (t = v, t.shape[0] = 11, t), 1e-6f), ZOE_INVALID,
                   "gamma is f32 [11]");
    assert_refused(ctx, zoe_rms_norm(ctx, y, (t = x, t.dtype = ZOE_F16, t), v, 1e-6f), ZOE_INVALID,
                   "x is f16");
    assert_refused(ctx, zoe_rms_norm(ctx, (t = x, t.data = (float *)x.data + 1, t), x, v, 1e-6f),
                   ZOE_INVALID, "y overlaps x without being the same view");
    assert_refused(ctx, zoe_rms_norm(ctx, (t = x, t.dtype = ZOE_BF16, t), x, v, 1e-6f), ZOE_INVALID,
                   "y overlaps x");
    zoe_tensor no_width = zoe_tensor_2d(x.data, ZOE_F32, 3, 0);
    assert_refused(ctx, zoe_rms_norm(ctx, no_width, no_width, none(), 1e-6f), ZOE_INVALID,
                   "no elements");
    assert_refused(ctx, zoe_rms_norm_rope(ctx, y, x, none(), 1e-6f, cosines, cosines), ZOE_INVALID,
                   "gamma is none");
    assert_refused(ctx, zoe_rms_norm_rope(ctx, y, x, v, 1e-6f, none(), cosines), ZOE_INVALID,
                   "cos is none");
    assert_refused(
        ctx, zoe_rms_norm_rope(ctx, y, x, v, 1e-6f, (t = cosines, t.shape[1] = 2, t), cosines),
        ZOE_INVALID, "sin is f32 [3, 3], wanted f32 [3, 2]");
    zoe_tensor two = tensor_new(ZOE_F32, 3, 5, 0);
    assert_refused(ctx, zoe_rms_norm_rope(ctx, y, x, v, 1e-6f, two, two), ZOE_INVALID,
                   "whole heads");
    assert_refused(ctx, zoe_l2_norm(ctx, y, x, none(), false), ZOE_INVALID, "gamma is none");
    zoe_layer_norm_args a = {.y = y, .x = x, .gamma = v};
    assert_refused(ctx, zoe_layer_norm(ctx, &a), ZOE_INVALID, "gamma is given without beta");
    a = (zoe_layer_norm_args){.y = y, .x = x, .shift = v};
    assert_refused(ctx, zoe_layer_norm(ctx, &a), ZOE_INVALID, "shift is given without scale");
    zoe_tensor no_rows = zoe_tensor_2d(NULL, ZOE_F32, 0, 12);
    succeeded(ctx, zoe_rms_norm(ctx, no_rows, no_rows, v, 1e-6f));
    zoe_cancel(ctx);
    assert_refused(ctx, zoe_rms_norm(ctx, y, x, v, 1e-6f), ZOE_CANCELLED, "interrupted");
    tensor_free(x);
    tensor_free(y);
    tensor_free(v);
    tensor_free(two);
    tensor_free(cosines);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_over_odd_widths),
        cmocka_unit_test(rotation_of_odd_heads),
        cmocka_unit_test(extreme_rows),
        cmocka_unit_test(special_values_stay_in_their_row),
        cmocka_unit_test(layer_norm_over_odd_widths),
        cmocka_unit_test(large_means_cost_no_digits),
        cmocka_unit_test(l2_norm_over_odd_widths),
        cmocka_unit_test(threads_strides_and_place_do_not_change_a_byte),
        cmocka_unit_test(rows_further_apart_than_two_to_the_31),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
