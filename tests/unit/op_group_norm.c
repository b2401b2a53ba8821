/* GroupNorm against its formula in double, in both layouts, and the equalities that it promises. */
#include "op_case.h"

static zoe_status run(zoe_context *ctx, const zoe_group_norm_args *a)
{
    const zoe_workspace work = workspace_new(zoe_group_norm_silu_workspace(ctx, a));
    const zoe_status status = zoe_group_norm_silu(ctx, a, work);
    assert_workspace_kept(work);
    free(work.data);
    return status;
}

typedef struct extents {
    size_t N, C, S, groups;
    bool last, silu;
} extents;

static size_t place_of(const extents *e, size_t n, size_t c, size_t s)
{
    return e->last ? (n * e->S + s) * e->C + c : (n * e->C + c) * e->S + s;
}

static double value_of(zoe_tensor t, size_t i)
{
    return (double)zoe_load_f32(t.data, t.dtype, i);
}

static void check_group(const zoe_group_norm_args *a, const extents *e, size_t n, size_t g)
{
    const size_t per = e->C / e->groups;
    const double count = (double)(per * e->S);
    double mean = 0.0, variance = 0.0;
    for (size_t c = g * per; c < (g + 1) * per; c++)
        for (size_t s = 0; s < e->S; s++)
            mean += value_of(a->x, place_of(e, n, c, s)) / count;
    for (size_t c = g * per; c < (g + 1) * per; c++)
        for (size_t s = 0; s < e->S; s++)
            variance += pow(value_of(a->x, place_of(e, n, c, s)) - mean, 2.0) / count;
    const double rstd = 1.0 / sqrt(variance + (double)a->eps);
    const double unit = a->mean.dtype == ZOE_F32   ? 0x1p-22
                        : a->mean.dtype == ZOE_F16 ? 0x1p-11
                                                   : 0x1p-8;
    const double got_mean = value_of(a->mean, n * e->groups + g);
    assert_true(fabs(got_mean - mean) <= unit * fmax(fabs(mean), 1e-6));
    assert_true(fabs(value_of(a->rstd, n * e->groups + g) - rstd) <= unit * rstd);
    for (size_t c = g * per; c < (g + 1) * per; c++)
        for (size_t s = 0; s < e->S; s++) {
            const size_t i = place_of(e, n, c, s);
            const double w = a->weight.dtype ? value_of(a->weight, c) : 1.0;
            const double b = a->bias.dtype ? value_of(a->bias, c) : 0.0;
            const double z = (value_of(a->x, i) - mean) * rstd * w, v = z + b;
            const double want = e->silu ? v / (1.0 + exp(-v)) : v;
            const double half = a->y.dtype == ZOE_F32   ? 0.0
                                : a->y.dtype == ZOE_F16 ? 0x1.01p-11
                                                        : 0x1.01p-8;
            const double most = 8e-7 * fmax(fmax(fabs(z), fabs(b)), 1e-3) + half * fabs(want) +
                                (a->y.dtype == ZOE_F16 ? 0x1p-24 : 0.0);
            const double got = value_of(a->y, i);
            if (!(fabs(got - want) <= most))
                fail_msg("got %.9g, wanted %.9g", got, want);
        }
}

static void group_case(zoe_context *ctx, extents e, float offset)
{
    const size_t all = e.N * e.C * e.S;
    const zoe_tensor x = tensor_new(float_types[pick(3)], 1, all, 0),
                     y = tensor_new(float_types[pick(3)], 1, all, 0);
    const zoe_tensor mean = tensor_new(float_types[pick(3)], e.N, e.groups, 0);
    const zoe_tensor rstd = tensor_new(mean.dtype, e.N, e.groups, 0);
    const zoe_tensor weight = pick(3) ? vector_new(e.C) : zoe_tensor_none();
    const zoe_tensor bias = pick(3) ? vector_new(e.C) : zoe_tensor_none();
    for (size_t i = 0; i < all; i++)
        put(x, 0, i, value_at(x, 0, i) + offset);
    zoe_group_norm_args a = {
        .y = zoe_tensor_3d(y.data, y.dtype, e.N, e.last ? e.S : e.C, e.last ? e.C : e.S),
        .mean = mean,
        .rstd = rstd,
        .x = zoe_tensor_3d(x.data, x.dtype, e.N, e.last ? e.S : e.C, e.last ? e.C : e.S),
        .weight = weight,
        .bias = bias,
        .groups = e.groups,
        .eps = 1e-5f,
        .silu = e.silu,
        .channels_last = e.last};
    succeeded(ctx, run(ctx, &a));
    for (size_t n = 0; n < e.N; n++)
        for (size_t g = 0; g < e.groups; g++)
            check_group(&a, &e, n, g);
    const zoe_tensor tensors[] = {x, y, mean, rstd, weight, bias};
    for (size_t i = 0; i < 6; i++)
        tensor_free(tensors[i]);
}

static void both_layouts(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 80; round++) {
        const size_t groups = 1 + pick(4);
        const extents e = {1 + pick(2), groups * (1 + pick(7)), 1 + pick(200), groups, round & 1,
                           round & 2};
        group_case(ctx, e, 0.0f);
    }
    group_case(ctx, (extents){1, 6, 30000, 2, false, true}, 0.5f); /* several chunks */
    group_case(ctx, (extents){1, 6, 30000, 2, true, true}, 0.5f);
    zoe_context_free(ctx);
}

/* Threads, distances of samples and channels, and y in place of x: the same bytes. */
static void layout_and_threads_do_not_change_a_byte(void **state)
{
    (void)state;
    enum { N = 2, C = 4, S = 40000, GAP = 13 };
    zoe_tensor x = tensor_new(ZOE_F32, N * C, S, 0), want = tensor_new(ZOE_F32, N * C, S, 0);
    zoe_context *one = zoe_context_new(1);
    zoe_group_norm_args a = {.y = zoe_tensor_4d(want.data, ZOE_F32, N, C, S / 8, 8),
                             .x = zoe_tensor_4d(x.data, ZOE_F32, N, C, S / 8, 8),
                             .groups = 2,
                             .eps = 1e-5f,
                             .silu = true};
    succeeded(one, run(one, &a));
    for (int threads = 1; threads <= 3; threads++) {
        zoe_context *ctx = zoe_context_new(threads);
        zoe_tensor wide = tensor_copy(x, GAP), view = a.x;
        view.data = wide.data;
        view.stride[1] = S + GAP;
        view.stride[0] = C * (S + GAP);
        zoe_group_norm_args b = a;
        b.x = b.y = view;
        succeeded(ctx, run(ctx, &b));
        assert_same_bytes(wide, want);
        assert_gaps_untouched(wide);
        tensor_free(wide);
        zoe_context_free(ctx);
    }
    zoe_context_free(one);
    tensor_free(x);
    tensor_free(want);
}

/* 4 million elements about 1000: sums in f32 would be off by far more. */
static void large_groups_with_large_means(void **state)
{
    (void)state;
    enum { COUNT = 1 << 22 };
    zoe_context *ctx = zoe_context_new(2);
    zoe_tensor x = tensor_new(ZOE_F32, 1, COUNT, 0);
    float mean, rstd;
    double sum = 0.0, square = 0.0;
    for (size_t i = 0; i < COUNT; i++) {
        ((float *)x.data)[i] += 1000.0f;
        sum += (double)((float *)x.data)[i];
    }
    for (size_t i = 0; i < COUNT; i++)
        square += pow((double)((float *)x.data)[i] - sum / COUNT, 2.0);
    const zoe_tensor t = zoe_tensor_3d(x.data, ZOE_F32, 1, 1, COUNT);
    const zoe_group_norm_args a = {.y = t,
                                   .mean = zoe_tensor_2d(&mean, ZOE_F32, 1, 1),
                                   .rstd = zoe_tensor_2d(&rstd, ZOE_F32, 1, 1),
                                   .x = t,
                                   .groups = 1,
                                   .eps = 1e-6f};
    succeeded(ctx, run(ctx, &a));
    assert_true(fabs((double)mean - sum / COUNT) <= 4e-5);
    assert_true(fabs((double)rstd * sqrt(square / COUNT + 1e-6) - 1.0) <= 0x1p-23);
    tensor_free(x);
    zoe_context_free(ctx);
}

static void equal_values_and_special_ones(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 4, 50, 0), bias = vector_new(4);
    fill(x, 0.1f);
    put(x, 2, 7, NAN);
    const zoe_tensor t = zoe_tensor_3d(x.data, ZOE_F32, 1, 4, 50);
    const zoe_group_norm_args a = {.y = t, .x = t, .bias = bias, .groups = 4, .eps = 1e-6f};
    succeeded(ctx, run(ctx, &a));
    for (size_t c = 0; c < 4; c++)
        for (size_t s = 0; s < 50; s++)
            assert_true(c == 2 ? isnan(value_at(x, c, s))
                               : value_at(x, c, s) == value_at(bias, 0, c));
    tensor_free(x);
    tensor_free(bias);
    zoe_context_free(ctx);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 6, 50, 0);
    const zoe_tensor t = zoe_tensor_3d(x.data, ZOE_F32, 1, 6, 50);
    zoe_group_norm_args a = {.y = t, .x = t, .groups = 4, .eps = 1e-6f};
    assert_refused(ctx, run(ctx, &a), ZOE_INVALID, "6 channels in 4 groups");
    a.groups = 0;
    assert_refused(ctx, run(ctx, &a), ZOE_INVALID, "in 0 groups");
    a.groups = 2;
    a.eps = 0.0f;
    assert_refused(ctx, run(ctx, &a), ZOE_INVALID, "eps is 0");
    a.eps = 1e-6f;
    a.weight = zoe_tensor_1d(x.data, ZOE_F32, 5);
    assert_refused(ctx, run(ctx, &a), ZOE_INVALID, "weight is f32 [5], wanted");
    a.weight = zoe_tensor_none();
    a.x = a.y = zoe_tensor_4d(x.data, ZOE_F32, 1, 6, 5, 5);
    a.x.stride[2] = a.y.stride[2] = 10;
    assert_refused(ctx, run(ctx, &a), ZOE_INVALID, "planes are evenly spaced");
    zoe_tensor single = zoe_tensor_4d(t.data, ZOE_F32, 1, 6, 50, 1); /* a stride never taken */
    single.stride[3] = 77;
    a.x = a.y = single;
    succeeded(ctx, run(ctx, &a));
    a.x = a.y = t;
    assert_refused(ctx, zoe_group_norm_silu(ctx, &a, (zoe_workspace){0}), ZOE_NOMEM, "workspace");
    a.x = a.y = zoe_tensor_3d(NULL, ZOE_F32, 0, 6, 50);
    succeeded(ctx, zoe_group_norm_silu(ctx, &a, (zoe_workspace){0}));
    tensor_free(x);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_layouts),
        cmocka_unit_test(layout_and_threads_do_not_change_a_byte),
        cmocka_unit_test(large_groups_with_large_means),
        cmocka_unit_test(equal_values_and_special_ones),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
