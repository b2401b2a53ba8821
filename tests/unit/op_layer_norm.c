/* LayerNorm, modulation and gated residuals against their formulas in double, at the bounds that
 * docs/NUMERICS.md names, and the equalities and extreme rows that they promise. */
#include "op_case.h"

static zoe_dtype any_type(void)
{
    return float_types[pick(3)];
}

static zoe_tensor vector(size_t D, zoe_dtype dtype)
{
    const zoe_tensor t = tensor_new(dtype, 1, D, 0);
    return zoe_tensor_1d(t.data, dtype, D);
}

/* The distance from |v| to the next value of the type. */
static double ulp(zoe_dtype dtype, double v)
{
    const int digits = dtype == ZOE_F32 ? 24 : dtype == ZOE_F16 ? 11 : 8;
    const int least = dtype == ZOE_F16 ? -24 : -149;
    int exponent;
    frexp(fabs(v), &exponent);
    return ldexp(1.0, exponent - digits > least ? exponent - digits : least);
}

static float rounded(zoe_dtype dtype, float v)
{
    uint16_t h;
    if (dtype == ZOE_F32 || dtype == ZOE_NONE)
        return v;
    zoe_store_f32(&h, dtype, 0, v);
    return zoe_load_f32(&h, dtype, 0);
}

typedef struct moments {
    double mean, rstd, size; /* size: the mean of |x| */
} moments;

static moments moments_of(zoe_tensor x, size_t m, float eps, zoe_norm_kind kind)
{
    const size_t D = x.shape[1];
    moments r = {0};
    double square = 0.0;
    for (size_t d = 0; d < D; d++) {
        r.mean += (double)value_at(x, m, d) / (double)D;
        r.size += fabs((double)value_at(x, m, d)) / (double)D;
    }
    r.mean = kind == ZOE_NORM_RMS ? 0.0 : r.mean;
    for (size_t d = 0; d < D; d++) {
        const double e = (double)value_at(x, m, d) - r.mean;
        square += e * e / (double)D;
    }
    r.rstd = 1.0 / sqrt(square + (double)eps);
    return r;
}

/* got is want = n * factor + shift up to 4 units of f32, or half of one of a half type and 8 of f32, of the
 * largest of the value, the shift and a thousandth of the factor. The factor is a value of f32: its own
 * rounding would be half a unit of a product that may be twice as large as the sum. Values of half types, of
 * which more are added in f32, may be 6 units off in f32, of the product where that is larger. */
static void assert_bound(zoe_dtype from, zoe_dtype dtype, double got, double n, double factor,
                         double shift)
{
    const double want = n * factor + shift;
    const bool mixed = from != ZOE_F32 && dtype == ZOE_F32;
    const double size = fmax(fmax(fmax(fabs(want), fabs(shift)), fabs(factor) * 0x1p-10),
                             mixed ? fabs(n * factor) : 0.0);
    const double most = dtype == ZOE_F32 ? (mixed ? 6.0 : 4.0) * ulp(ZOE_F32, size)
                                         : 0.5 * ulp(dtype, size) + 8.0 * ulp(ZOE_F32, size);
    if (!(fabs(got - want) <= most))
        fail_msg("%s: got %.9g, wanted %.9g: %g units", zoe_dtype_name(dtype), got, want,
                 fabs(got - want) / ulp(dtype, size));
}

static double at_or(zoe_tensor t, size_t d, double other)
{
    return t.dtype == ZOE_NONE ? other : (double)zoe_load_f32(t.data, t.dtype, d);
}

/* ---- layer_norm ---- */

static void layer_norm_case(zoe_context *ctx, size_t M, size_t D, float offset)
{
    zoe_layer_norm_args a = {.x = tensor_new(any_type(), M, D, pick(3)),
                             .y = tensor_new(any_type(), M, D, pick(3)),
                             .gamma = pick(3) ? vector(D, any_type()) : zoe_tensor_none(),
                             .beta = pick(3) ? vector(D, any_type()) : zoe_tensor_none(),
                             .mean = vector_new(M),
                             .rstd = vector_new(M),
                             .eps = 1e-6f};
    for (size_t m = 0; m < M; m++)
        for (size_t d = 0; d < D; d++)
            put(a.x, m, d, value_at(a.x, m, d) + offset);
    succeeded(ctx, zoe_layer_norm(ctx, &a));
    for (size_t m = 0; m < M; m++) {
        const moments s = moments_of(a.x, m, a.eps, ZOE_NORM_LAYER);
        assert_true(fabs((double)value_at(a.mean, 0, m) - s.mean) <= 8.0 * 0x1p-24 * s.size);
        assert_true(fabs((double)value_at(a.rstd, 0, m) - s.rstd) <= 4.0 * ulp(ZOE_F32, s.rstd));
        for (size_t d = 0; d < D; d++) {
            const double g = at_or(a.gamma, d, 1.0), b = at_or(a.beta, d, 0.0);
            const double n = ((double)value_at(a.x, m, d) - s.mean) * s.rstd;
            assert_bound(a.x.dtype, a.y.dtype, (double)value_at(a.y, m, d), n, g, b);
        }
    }
    assert_gaps_untouched(a.y);
    const zoe_tensor all[] = {a.x, a.y, a.gamma, a.beta, a.mean, a.rstd};
    for (size_t i = 0; i < 6; i++)
        tensor_free(all[i]);
}

static void layer_norm_over_all_widths(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (size_t D = 1; D <= 67; D++)
        for (int round = 0; round < 12; round++)
            layer_norm_case(ctx, 1 + pick(4), D, 0.0f);
    for (int round = 0; round < 9; round++) {
        layer_norm_case(ctx, 3, 1536, 0.0f);
        layer_norm_case(ctx, 3, 5120, 0.0f);
        layer_norm_case(ctx, 3, 7001, 0.0f);
    }
    for (int round = 0; round < 2; round++)
        layer_norm_case(ctx, 3, 262144, 0.0f);
    zoe_context_free(ctx);
}

/* The rows' first elements are far from the others, or all are far from 0. */
static void large_means_cost_no_digits(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    enum { D = 999 };
    zoe_tensor x = tensor_new(ZOE_F32, 3, D, 0), y = tensor_new(ZOE_F32, 3, D, 0);
    zoe_tensor rstd = vector_new(3);
    for (size_t d = 0; d < D; d++) {
        put(x, 0, d, 1e4f + value_at(x, 0, d));
        put(x, 1, d, 300.0f + value_at(x, 1, d));
    }
    put(x, 1, 0, -1e6f);
    put(x, 2, 0, 1e3f);
    succeeded(ctx, zoe_layer_norm(
                       ctx, &(zoe_layer_norm_args){.y = y, .rstd = rstd, .x = x, .eps = 1e-6f}));
    for (size_t m = 0; m < 3; m++) {
        const moments s = moments_of(x, m, 1e-6f, ZOE_NORM_LAYER);
        assert_true(fabs((double)value_at(rstd, 0, m) - s.rstd) <= 4.0 * ulp(ZOE_F32, s.rstd));
        for (size_t d = 0; d < D; d++)
            assert_bound(ZOE_F32, ZOE_F32, (double)value_at(y, m, d),
                         ((double)value_at(x, m, d) - s.mean) * s.rstd, 1.0, 0.0);
    }
    tensor_free(x);
    tensor_free(y);
    tensor_free(rstd);
    zoe_context_free(ctx);
}

static void equal_values_give_exactly_beta(void **state)
{
    static const float values[] = {0.1f, -3e4f, 1e-30f, 3e38f, 16777217.0f, 0.0f};
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    for (size_t i = 0; i < 6 * 3; i++) {
        const size_t D = i < 12 ? 1 + pick(3000) : 1;
        const zoe_dtype type = i % 3 ? ZOE_F32 : ZOE_BF16;
        zoe_tensor x = tensor_new(type, 1, D, 0), y = tensor_new(ZOE_F32, 1, D, 0);
        zoe_tensor gamma = vector_new(D), beta = vector_new(D);
        fill(x, values[i % 6]);
        zoe_layer_norm_args a = {.y = y, .x = x, .gamma = gamma, .beta = beta, .eps = 1e-6f};
        succeeded(ctx, zoe_layer_norm(ctx, &a));
        for (size_t d = 0; d < D; d++)
            assert_true(value_at(y, 0, d) == value_at(beta, 0, d));
        a.beta = zoe_tensor_none();
        succeeded(ctx, zoe_layer_norm(ctx, &a));
        for (size_t d = 0; d < D; d++)
            assert_true(value_at(y, 0, d) == 0.0f);
        tensor_free(x);
        tensor_free(y);
        tensor_free(gamma);
        tensor_free(beta);
    }
    zoe_context_free(ctx);
}

/* [2, 3, 4, 5] over one, two and all axes is the same as the flattened rows. */
static void several_axes(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    zoe_tensor flat = tensor_new(ZOE_F32, 1, 120, 0), out = tensor_new(ZOE_F32, 1, 120, 0);
    zoe_tensor want = tensor_new(ZOE_F32, 1, 120, 0), gamma = vector_new(120);
    float mean[120];
    for (int axes = 1; axes <= 4; axes++) {
        static const size_t widths[] = {0, 5, 20, 60, 120}, shape[] = {2, 3, 4, 5};
        const size_t D = widths[axes];
        zoe_layer_norm_args a = {.y = zoe_tensor_of(out.data, ZOE_F32, 4, shape),
                                 .mean = zoe_tensor_of(mean, ZOE_F32, 4 - axes, shape),
                                 .x = zoe_tensor_of(flat.data, ZOE_F32, 4, shape),
                                 .gamma =
                                     zoe_tensor_of(gamma.data, ZOE_F32, axes, shape + 4 - axes),
                                 .eps = 1e-5f,
                                 .axes = axes};
        succeeded(ctx, zoe_layer_norm(ctx, &a));
        a.y = zoe_tensor_2d(want.data, ZOE_F32, 120 / D, D);
        a.x = zoe_tensor_2d(flat.data, ZOE_F32, 120 / D, D);
        a.gamma = zoe_tensor_1d(gamma.data, ZOE_F32, D);
        a.mean = zoe_tensor_none();
        a.axes = 0;
        succeeded(ctx, zoe_layer_norm(ctx, &a));
        assert_same_bytes(out, want);
    }
    tensor_free(flat);
    tensor_free(out);
    tensor_free(want);
    tensor_free(gamma);
    zoe_context_free(ctx);
}

/* ---- modulation ---- */

/* Where scale, shift and gate lie: one for all, one a sample, one a token, or one a group. */
typedef enum form { FOR_ALL, A_SAMPLE, A_SAMPLE_1, A_TOKEN, A_GROUP, FORMS } form;

typedef struct placed {
    zoe_tensor scale, shift, gate, group; /* as given */
    zoe_tensor rows[3];                   /* [rows, D], what they view */
    int32_t *names;
} placed;

static zoe_tensor as_form(zoe_tensor t, form f, size_t B, size_t L)
{
    const size_t D = t.shape[1];
    switch (f) {
    case FOR_ALL: return zoe_tensor_1d(t.data, t.dtype, D);
    case A_SAMPLE_1: return zoe_tensor_3d(t.data, t.dtype, B, 1, D);
    case A_TOKEN: return zoe_tensor_3d(t.data, t.dtype, B, L, D);
    default: return t;
    }
}

static placed place(form f, size_t B, size_t L, size_t D, bool f32)
{
    const size_t counts[] = {1, B, B, B * L, 3};
    placed p = {.group = zoe_tensor_none()};
    zoe_tensor *views[] = {&p.scale, &p.shift, &p.gate};
    for (int i = 0; i < 3; i++) {
        p.rows[i] = tensor_new(f32 ? ZOE_F32 : any_type(), counts[f], D, 0);
        *views[i] = as_form(p.rows[i], f, B, L);
    }
    p.names = malloc(B * L * sizeof *p.names + 1);
    assert_non_null(p.names);
    for (size_t i = 0; i < B * L; i++)
        p.names[i] = (int32_t)pick(3);
    if (f == A_GROUP)
        p.group = zoe_tensor_2d(p.names, ZOE_I32, B, L);
    return p;
}

static void placed_free(placed *p)
{
    for (int i = 0; i < 3; i++)
        tensor_free(p->rows[i]);
    free(p->names);
}

/* The row of vectors for row m of B * L. */
static size_t vector_row(const placed *p, form f, size_t L, size_t m)
{
    return f == FOR_ALL ? 0 : f == A_TOKEN ? m : f == A_GROUP ? (size_t)p->names[m] : m / L;
}

static void modulation_case(zoe_context *ctx, form f, zoe_norm_kind kind, size_t D)
{
    const size_t B = 2, L = 1 + pick(6), M = B * L;
    placed p = place(f, B, L, D, false);
    zoe_tensor x = tensor_new(any_type(), M, D, 0), y = tensor_new(any_type(), M, D, 0);
    zoe_layer_norm_modulate_args a = {.y = zoe_tensor_3d(y.data, y.dtype, B, L, D),
                                      .x = zoe_tensor_3d(x.data, x.dtype, B, L, D),
                                      .scale = p.scale,
                                      .shift = pick(4) ? p.shift : zoe_tensor_none(),
                                      .group = p.group,
                                      .eps = 1e-6f,
                                      .kind = kind};
    succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
    for (size_t m = 0; m < M; m++) {
        const moments s = moments_of(x, m, a.eps, kind);
        const size_t v = vector_row(&p, f, L, m);
        for (size_t d = 0; d < D; d++) {
            const double factor = (double)(1.0f + value_at(p.rows[0], v, d));
            const double shift = a.shift.dtype ? (double)value_at(p.rows[1], v, d) : 0.0;
            const double n = ((double)value_at(x, m, d) - s.mean) * s.rstd;
            assert_bound(x.dtype, y.dtype, (double)value_at(y, m, d), n, factor, shift);
        }
    }
    placed_free(&p);
    tensor_free(x);
    tensor_free(y);
}

static void modulation_of_all_forms(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int f = 0; f < FORMS; f++)
        for (int kind = 0; kind < 2; kind++) {
            for (size_t D = 1; D <= 67; D += 1 + pick(3))
                for (int round = 0; round < 3; round++)
                    modulation_case(ctx, (form)f, (zoe_norm_kind)kind, D);
            modulation_case(ctx, (form)f, (zoe_norm_kind)kind, 1536);
            modulation_case(ctx, (form)f, (zoe_norm_kind)kind, 6145);
        }
    modulation_case(ctx, FOR_ALL, ZOE_NORM_LAYER, 262144);
    zoe_context_free(ctx);
}

/* Every rounding that was asked for, from the normalised values in f32, bit by bit. Where none was, results of
 * half types begin with values that are rounded twice, and may go to the other side of a middle. */
static void roundings_are_where_they_are_asked_for(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int round = 0; round < 72; round++) {
        enum { M = 3, D = 1301 };
        const zoe_dtype norm = round % 3 == 0 ? ZOE_NONE : float_types[round % 3];
        const zoe_dtype maths = float_types[round / 3 % 3];
        const bool affine = round / 9 % 2;
        placed p = place(FOR_ALL, 1, M, D, false);
        zoe_tensor x = tensor_new(any_type(), M, D, 0), y = tensor_new(any_type(), M, D, 1);
        zoe_tensor n = tensor_new(ZOE_F32, M, D, 0), g = vector(D, any_type());
        const bool two_steps =
            y.dtype != ZOE_F32 && norm == ZOE_NONE && maths == ZOE_F32 && !affine;
        succeeded(
            ctx, zoe_layer_norm(ctx, &(zoe_layer_norm_args){.y = n,
                                                            .x = x,
                                                            .gamma = affine ? g : zoe_tensor_none(),
                                                            .beta = affine ? g : zoe_tensor_none(),
                                                            .eps = 1e-6f}));
        succeeded(ctx, zoe_layer_norm_modulate(ctx, &(zoe_layer_norm_modulate_args){
                                                        .y = y,
                                                        .x = x,
                                                        .gamma = affine ? g : zoe_tensor_none(),
                                                        .beta = affine ? g : zoe_tensor_none(),
                                                        .scale = p.scale,
                                                        .shift = p.shift,
                                                        .eps = 1e-6f,
                                                        .round_norm = norm,
                                                        .maths = maths}));
        for (size_t m = 0; m < M; m++)
            for (size_t d = 0; d < D; d++) {
                float v = rounded(maths, rounded(norm, value_at(n, m, d)));
                v = rounded(maths, v * rounded(maths, 1.0f + value_at(p.rows[0], 0, d)));
                v = rounded(maths, v + rounded(maths, value_at(p.rows[1], 0, d)));
                const float got = value_at(y, m, d), want = rounded(y.dtype, v);
                const double near =
                    fmax(fabs((double)want), (double)fabsf(value_at(p.rows[1], 0, d)));
                if (two_steps)
                    assert_true(fabs((double)got - (double)v) <=
                                0.5 * ulp(y.dtype, (double)v) + 8.0 * ulp(ZOE_F32, near));
                else
                    assert_true(got == want);
            }
        assert_gaps_untouched(y);
        placed_free(&p);
        tensor_free(x);
        tensor_free(y);
        tensor_free(n);
        tensor_free(g);
    }
    zoe_context_free(ctx);
}

/* A scale below half a unit of bf16 is not lost in 1 + scale. */
static void small_scales_count(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_BF16, 1, 64, 0), scale = vector(64, ZOE_BF16);
    zoe_tensor y = tensor_new(ZOE_F32, 1, 64, 0), n = tensor_new(ZOE_F32, 1, 64, 0);
    for (size_t d = 0; d < 64; d++)
        zoe_store_f32(scale.data, ZOE_BF16, d, 0x1p-10f);
    zoe_layer_norm_modulate_args a = {.y = n, .x = x, .eps = 1e-6f};
    succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
    a.y = y;
    a.scale = scale;
    succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
    for (size_t d = 0; d < 64; d++)
        assert_true(value_at(y, 0, d) == value_at(n, 0, d) * (1.0f + 0x1p-10f));
    tensor_free(x);
    tensor_free(y);
    tensor_free(n);
    tensor_free(scale);
    zoe_context_free(ctx);
}

/* ---- residuals ---- */

/* One after the other, and both at once, from the same values. */
static void residual_case(zoe_context *ctx, form f, size_t D, zoe_dtype maths)
{
    const size_t B = 2, L = 1 + pick(9), M = B * L;
    placed p = place(f, B, L, D, false);
    const zoe_dtype type = maths == ZOE_F32 ? any_type() : pick(2) ? maths : ZOE_F32;
    zoe_tensor x = tensor_new(type, M, D, 0), h = tensor_new(any_type(), M, D, 0);
    zoe_tensor sum = tensor_copy(x, 0), both = tensor_copy(x, 0);
    zoe_tensor y = tensor_new(any_type(), M, D, 0), y_both = tensor_copy(y, 0);
#define SHAPED(t) zoe_tensor_3d(t.data, t.dtype, B, L, D)
    const bool gated = pick(4) > 0;
    zoe_gated_residual_args r = {.y = SHAPED(sum),
                                 .x = SHAPED(sum),
                                 .h = SHAPED(h),
                                 .gate = gated ? p.gate : zoe_tensor_none(),
                                 .group = p.group,
                                 .maths = maths};
    zoe_layer_norm_modulate_args n = {.y = SHAPED(y),
                                      .x = SHAPED(sum),
                                      .scale = p.scale,
                                      .shift = p.shift,
                                      .group = p.group,
                                      .eps = 1e-6f,
                                      .kind = (zoe_norm_kind)pick(2),
                                      .maths = maths};
    succeeded(ctx, zoe_gated_residual(ctx, &r));
    for (size_t m = 0; m < M; m++)
        for (size_t d = 0; d < D; d++) {
            const float g = gated ? value_at(p.rows[2], vector_row(&p, f, L, m), d) : 1.0f;
            const float step = rounded(maths, rounded(maths, g) * value_at(h, m, d));
            const float want = rounded(maths, value_at(x, m, d) + step);
            assert_true(value_at(sum, m, d) == rounded(type, want));
        }
    succeeded(ctx, zoe_layer_norm_modulate(ctx, &n));
    r.x = r.y = SHAPED(both);
    n.x = n.group = zoe_tensor_none();
    n.y = SHAPED(y_both);
    succeeded(ctx, zoe_gated_residual_norm_modulate(
                       ctx, &(zoe_gated_residual_norm_modulate_args){.residual = r, .norm = n}));
    assert_same_bytes(both, sum);
    assert_same_bytes(y_both, y);
#undef SHAPED
    const zoe_tensor all[] = {x, h, sum, both, y, y_both};
    for (size_t i = 0; i < 6; i++)
        tensor_free(all[i]);
    placed_free(&p);
}

static void residuals_of_all_forms(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    for (int f = 0; f < FORMS; f++)
        for (int t = 0; t < 3; t++) {
            for (size_t D = 1; D <= 67; D += 1 + pick(6))
                residual_case(ctx, (form)f, D, float_types[t]);
            residual_case(ctx, (form)f, 2100, float_types[t]);
            residual_case(ctx, (form)f, 6200, float_types[t]);
        }
    zoe_context_free(ctx);
}

/* ---- int8 ---- */

static void int8_rows(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(2);
    enum { M = 19, D = 6150 };
    placed p = place(FOR_ALL, 1, M, D, false);
    zoe_tensor x = tensor_new(ZOE_F32, M, D, 0), v = tensor_new(ZOE_F32, M, D, 0);
    zoe_tensor scale = vector_new(M);
    int8_t *q = malloc(M * D);
    assert_non_null(q);
    for (size_t d = 0; d < D; d++)
        put(x, 3, d, 0.0f);
    put(x, 5, 7, NAN);
    put(x, 6, 7, 1e6f);
    zoe_layer_norm_modulate_args a = {
        .y = v, .x = x, .scale = p.scale, .eps = 1e-6f, .kind = ZOE_NORM_RMS};
    succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
    a.y = zoe_tensor_2d(q, ZOE_I8, M, D);
    assert_refused(ctx, zoe_layer_norm_modulate(ctx, &a), ZOE_INVALID, "y_scale is");
    a.y_scale = scale;
    succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
    for (size_t m = 0; m < M; m++) {
        float peak = 0.0f;
        for (size_t d = 0; d < D; d++) {
            const float size = fabsf(value_at(v, m, d));
            peak = size > peak || isnan(size) ? size : peak;
        }
        assert_true(value_at(scale, 0, m) == peak / 127.0f || isnan(peak));
        assert_true(isnan(value_at(scale, 0, m)) == isnan(peak));
        for (size_t d = 0; d < D; d++) {
            const float w = value_at(v, m, d) * (127.0f / peak);
            assert_int_equal(q[m * D + d], isnan(w) ? 0 : (int)nearbyintf(w));
        }
    }
    placed_free(&p);
    tensor_free(x);
    tensor_free(v);
    tensor_free(scale);
    free(q);
    zoe_context_free(ctx);
}

/* ---- extreme rows ---- */

/* The last of 100 equal values behind an RMS norm without vectors. */
static float rms_of_equal(zoe_dtype dtype, float v, float eps)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(dtype, 1, 100, 0), y = tensor_new(ZOE_F32, 1, 100, 0);
    fill(x, v);
    succeeded(ctx,
              zoe_layer_norm_modulate(ctx, &(zoe_layer_norm_modulate_args){
                                               .y = y, .x = x, .eps = eps, .kind = ZOE_NORM_RMS}));
    const float result = value_at(y, 0, 99);
    tensor_free(x);
    tensor_free(y);
    zoe_context_free(ctx);
    return result;
}

static void extreme_rows_of_rms(void **state)
{
    (void)state;
    assert_true(fabsf(rms_of_equal(ZOE_F16, 300.0f, 1e-6f) - 1.0f) < 1e-6f);
    assert_true(fabsf(rms_of_equal(ZOE_F16, 65504.0f, 1e-6f) - 1.0f) < 1e-6f);
    assert_true(rms_of_equal(ZOE_F32, 3e38f, 1e-6f) == 0.0f);
    assert_true(rms_of_equal(ZOE_BF16, 3e38f, 1e-6f) == 0.0f);
    assert_true(isinf(rms_of_equal(ZOE_F32, 1e-30f, 0.0f)));
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
    for (int t = 0; t < 9; t++)
        for (int kind = 0; kind < 2; kind++) {
            zoe_tensor x = tensor_new(float_types[t % 3], 3, 40, 0),
                       y = tensor_new(float_types[t / 3], 3, 40, 0);
            zoe_tensor scale = vector_new(40);
            ((float *)scale.data)[3] = NAN;
            ((float *)scale.data)[4] = INFINITY;
            put(x, 0, 5, NAN);
            put(x, 2, 5, INFINITY);
            if (float_types[t % 3] == ZOE_F32) /* all bits set: rounding must not carry it away */
                memset((float *)x.data + 5, 0x7f, sizeof(float)),
                    ((uint32_t *)x.data)[5] = 0x7fffffffu;
            succeeded(ctx, zoe_layer_norm_modulate(
                               ctx, &(zoe_layer_norm_modulate_args){.y = y,
                                                                    .x = x,
                                                                    .scale = scale,
                                                                    .eps = 1e-6f,
                                                                    .kind = (zoe_norm_kind)kind}));
            for (size_t d = 0; d < 40; d++) {
                assert_true(isnan(value_at(y, 0, d)));
                assert_true(isfinite(value_at(y, 1, d)) || d == 3 || d == 4);
                assert_true(kind == ZOE_NORM_RMS && d != 5 && d != 3 && d != 4
                                ? value_at(y, 2, d) == 0.0f
                                : isnan(value_at(y, 2, d)));
            }
            assert_true(isnan(value_at(y, 1, 3)) && isinf(value_at(y, 1, 4)));
            tensor_free(x);
            tensor_free(y);
            tensor_free(scale);
        }
    zoe_context_free(ctx);
}

/* ---- equalities ---- */

/* [B, H, L, D] seen through strides, with any number of threads, in place, beside the alignment, and
 * with so many rows that results go past the caches: the same bytes. */
static void layout_threads_and_place_do_not_change_a_byte(void **state)
{
    (void)state;
    enum { B = 3, H = 2, L = 5, D = 770 };
    for (int t = 0; t < 3; t++) {
        zoe_tensor dense = tensor_new(float_types[t], B * H * L, D, 0),
                   scale = vector(D, float_types[t]);
        zoe_tensor want = tensor_new(float_types[t], B * H * L, D, 0);
        zoe_layer_norm_modulate_args a = {
            .y = want, .x = dense, .scale = scale, .shift = scale, .eps = 1e-6f};
        zoe_context *one = zoe_context_new(1);
        succeeded(one, zoe_layer_norm_modulate(one, &a));
        for (int threads = 1; threads <= 3; threads++) {
            zoe_context *ctx = zoe_context_new(threads);
            zoe_tensor wide = tensor_copy(dense, (size_t)threads);
            zoe_tensor view = zoe_tensor_4d(wide.data, float_types[t], B, H, L, D);
            for (int i = 2; i >= 0; i--)
                view.stride[i] = i == 2 ? wide.stride[0] : view.stride[i + 1] * (i == 1 ? L : H);
            a.x = a.y = view;
            succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
            assert_same_bytes(wide, want);
            assert_gaps_untouched(wide);
            /* axes exchanged: [L, H, B, D] */
            zoe_tensor other = tensor_copy(dense, 0);
            zoe_tensor turned = view;
            turned.data = other.data;
            for (int i = 0; i < 3; i++)
                turned.shape[i] = (size_t[]){L, H, B}[i];
            turned.stride[0] = D;
            turned.stride[1] = L * D;
            turned.stride[2] = H * L * D;
            a.x = a.y = turned;
            succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
            assert_same_bytes(other, want);
            tensor_free(wide);
            tensor_free(other);
            zoe_context_free(ctx);
        }
        zoe_context_free(one);
        tensor_free(dense);
        tensor_free(want);
        tensor_free(scale);
    }
}

static void results_past_the_caches_are_the_same(void **state)
{
    (void)state;
    enum { M = 2100, D = 1024, FEW = 7 }; /* above 8 MiB */
    zoe_context *ctx = zoe_context_new(2);
    for (int t = 0; t < 3; t++) {
        const size_t rows = float_types[t] == ZOE_F32 ? M : 2 * M;
        zoe_tensor x = tensor_new(float_types[t], rows, D, 0), scale = vector(D, ZOE_F32);
        zoe_tensor few = tensor_new(float_types[t], FEW, D, 0), view = x;
        zoe_workspace room = workspace_new(rows * D * zoe_dtype_bytes(float_types[t]));
        zoe_tensor y = zoe_tensor_2d(room.data, float_types[t], rows, D);
        zoe_layer_norm_modulate_args a = {
            .y = y, .x = x, .scale = scale, .shift = scale, .eps = 1e-6f};
        succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
        for (size_t m = 0; m + FEW <= rows; m += 500) {
            view.shape[0] = FEW;
            view.data = (char *)x.data + m * D * zoe_dtype_bytes(float_types[t]);
            a.x = view;
            a.y = few;
            succeeded(ctx, zoe_layer_norm_modulate(ctx, &a));
            assert_memory_equal(few.data, (char *)y.data + m * D * zoe_dtype_bytes(float_types[t]),
                                FEW * D * zoe_dtype_bytes(float_types[t]));
        }
        tensor_free(x);
        tensor_free(few);
        tensor_free(scale);
        free(room.data);
    }
    zoe_context_free(ctx);
}

/* ---- refusals ---- */

static void nothing_to_do(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    const zoe_tensor empty = zoe_tensor_3d(NULL, ZOE_F32, 4, 0, 8),
                     v = zoe_tensor_1d(NULL, ZOE_F32, 8);
    (void)v;
    succeeded(ctx, zoe_layer_norm(ctx, &(zoe_layer_norm_args){.y = empty, .x = empty}));
    succeeded(
        ctx, zoe_layer_norm_modulate(ctx, &(zoe_layer_norm_modulate_args){.y = empty, .x = empty}));
    succeeded(ctx, zoe_gated_residual(
                       ctx, &(zoe_gated_residual_args){.y = empty, .x = empty, .h = empty}));
    zoe_context_free(ctx);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_tensor x = tensor_new(ZOE_F32, 6, 12, 0), y = tensor_new(ZOE_F32, 6, 12, 0), t;
    zoe_tensor v = vector_new(12), two = tensor_new(ZOE_F32, 2, 12, 0);
    int32_t names[6] = {0, 1, 0, 1, 2, 0};
    const zoe_tensor group = zoe_tensor_1d(names, ZOE_I32, 6);
#define NORM(...) zoe_layer_norm(ctx, &(zoe_layer_norm_args){.y = y, .x = x, __VA_ARGS__})
    assert_refused(ctx, NORM(.gamma = (t = v, t.shape[0] = 11, t)), ZOE_INVALID,
                   "gamma is f32 [11]");
    assert_refused(ctx, NORM(.eps = -1e-6f), ZOE_INVALID, "eps is -1e-06");
    assert_refused(ctx, NORM(.eps = NAN), ZOE_INVALID, "eps is nan");
    assert_refused(ctx, NORM(.axes = 3), ZOE_INVALID, "the last 3 axes of 2");
    assert_refused(ctx, NORM(.axes = 2, .gamma = v), ZOE_INVALID, "gamma is");
    assert_refused(ctx, NORM(.mean = v), ZOE_INVALID, "mean is f32 [12], wanted f32 [6]");
    t = x;
    t.data = (float *)x.data + 1;
    assert_refused(ctx, zoe_layer_norm(ctx, &(zoe_layer_norm_args){.y = t, .x = x}), ZOE_INVALID,
                   "y overlaps x without being the same view");
    t = zoe_tensor_2d(x.data, ZOE_F32, 3, 0);
    assert_refused(ctx, zoe_layer_norm(ctx, &(zoe_layer_norm_args){.y = t, .x = t}), ZOE_INVALID,
                   "no elements");
#define MODULATE(...)                                                                              \
    zoe_layer_norm_modulate(ctx, &(zoe_layer_norm_modulate_args){.y = y, .x = x, __VA_ARGS__})
    assert_refused(ctx, MODULATE(.scale = two), ZOE_INVALID, "scale is f32 [2, 12], wanted");
    assert_refused(ctx, MODULATE(.scale = two, .group = group), ZOE_INVALID,
                   "a row is of group 2, and there are 2");
    names[4] = -1;
    assert_refused(ctx, MODULATE(.scale = two, .group = group), ZOE_INVALID, "group -1");
    names[4] = 1;
    succeeded(ctx, MODULATE(.scale = two, .group = group));
    assert_refused(ctx, MODULATE(.maths = ZOE_I8), ZOE_INVALID, "maths is i8");
    assert_refused(ctx, MODULATE(.kind = (zoe_norm_kind)2), ZOE_INVALID, "norm kind 2");
    assert_refused(ctx, MODULATE(.y_scale = v), ZOE_INVALID, "y is no i8");
    assert_refused(ctx, MODULATE(.scale = (t = y, t.shape[0] = 6, t)), ZOE_INVALID,
                   "y overlaps scale");
    const zoe_gated_residual_args r = {.y = x, .x = x, .h = y, .maths = ZOE_BF16};
    succeeded(ctx, zoe_gated_residual(ctx, &r));
    t = tensor_new(ZOE_F16, 6, 12, 0);
    assert_refused(ctx,
                   zoe_gated_residual(
                       ctx, &(zoe_gated_residual_args){.y = t, .x = t, .h = y, .maths = ZOE_BF16}),
                   ZOE_INVALID, "maths in bf16 for x in f16");
    zoe_gated_residual_norm_modulate_args both = {.residual = r, .norm = {.y = y, .x = x}};
    assert_refused(ctx, zoe_gated_residual_norm_modulate(ctx, &both), ZOE_INVALID, "are not none");
    both.norm.x = zoe_tensor_none();
    assert_refused(ctx, zoe_gated_residual_norm_modulate(ctx, &both), ZOE_INVALID,
                   "norm.y overlaps h");
    zoe_cancel(ctx);
    assert_refused(ctx, MODULATE(.scale = v), ZOE_CANCELLED, "interrupted");
    tensor_free(x);
    tensor_free(y);
    tensor_free(v);
    tensor_free(two);
    tensor_free(t);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm_over_all_widths),
        cmocka_unit_test(large_means_cost_no_digits),
        cmocka_unit_test(equal_values_give_exactly_beta),
        cmocka_unit_test(several_axes),
        cmocka_unit_test(modulation_of_all_forms),
        cmocka_unit_test(roundings_are_where_they_are_asked_for),
        cmocka_unit_test(small_scales_count),
        cmocka_unit_test(residuals_of_all_forms),
        cmocka_unit_test(int8_rows),
        cmocka_unit_test(extreme_rows_of_rms),
        cmocka_unit_test(special_values_stay_in_their_row),
        cmocka_unit_test(layout_threads_and_place_do_not_change_a_byte),
        cmocka_unit_test(results_past_the_caches_are_the_same),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
