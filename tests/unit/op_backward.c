/* Gradients: against differences of the operators' formulas in double. */
#include "op_case.h"

enum { ROWS = 6, GROUPS = 2, D = 29, THREADS = 3 };
#define EPS 0.01

/* The inputs of a modulated norm; some may be none. */
typedef struct inputs {
    zoe_tensor x, scale, shift, gamma, beta;
    bool centred, one_plus;
} inputs;

static double vector_at(zoe_tensor t, size_t row, size_t d, double otherwise)
{
    return t.dtype == ZOE_NONE ? otherwise : (double)value_at(t, row, d);
}

/* Values of x with one of them changed, in double: f32 would lose the difference. */
typedef struct change {
    const void *of; /* data of a tensor */
    size_t row, d;
    double by;
} change;

static double changed(zoe_tensor t, size_t row, size_t d, double otherwise, change c)
{
    const bool here = t.dtype != ZOE_NONE && t.data == c.of && row == c.row && d == c.d;
    return vector_at(t, row, d, otherwise) + (here ? c.by : 0.0);
}

/* sum of dy y. */
static double loss(const inputs *in, zoe_tensor dy, change c)
{
    const size_t rows = in->x.shape[0], width = in->x.shape[1];
    double sum = 0.0;
    for (size_t m = 0; m < rows; m++) {
        const size_t group = m * GROUPS / rows;
        double mean = 0.0, square = 0.0;
        for (size_t d = 0; in->centred && d < width; d++)
            mean += changed(in->x, m, d, 0.0, c) / (double)width;
        for (size_t d = 0; d < width; d++) {
            const double v = changed(in->x, m, d, 0.0, c) - mean;
            square += v * v / (double)width;
        }
        const double rstd = 1.0 / sqrt(square + EPS);
        for (size_t d = 0; d < width; d++) {
            const double gamma = changed(in->gamma, 0, d, 1.0, c) + (in->one_plus ? 1.0 : 0.0);
            const double n = (changed(in->x, m, d, 0.0, c) - mean) * rstd * gamma +
                             changed(in->beta, 0, d, 0.0, c);
            sum += (double)value_at(dy, m, d) * (n * (1.0 + changed(in->scale, group, d, 0.0, c)) +
                                                 changed(in->shift, group, d, 0.0, c));
        }
    }
    return sum;
}

/* got is the gradient of the loss by t. */
static void assert_gradient(const inputs *in, zoe_tensor dy, zoe_tensor t, zoe_tensor got)
{
    const double tolerance = got.dtype == ZOE_F32 ? 3e-6 : got.dtype == ZOE_F16 ? 1e-3 : 5e-3;
    if (got.dtype == ZOE_NONE)
        return;
    for (size_t m = 0; m < (t.rank == 2 ? t.shape[0] : 1); m++)
        for (size_t d = 0; d < t.shape[t.rank - 1]; d++) {
            const double h = 1e-5;
            const double up = loss(in, dy, (change){t.data, m, d, h});
            const double down = loss(in, dy, (change){t.data, m, d, -h});
            assert_near(ZOE_F32, (double)value_at(got, m, d), (up - down) / (2.0 * h), 1.0,
                        tolerance);
        }
}

static zoe_context *context_new(void)
{
    zoe_context *ctx = zoe_context_new(THREADS);
    assert_non_null(ctx);
    return ctx;
}

static zoe_status run_rms(zoe_context *ctx, const zoe_rms_norm_backward_args *a)
{
    const zoe_workspace work = workspace_new(zoe_rms_norm_backward_workspace(ctx, a));
    const zoe_status status = zoe_rms_norm_backward(ctx, a, work);
    assert_workspace_kept(work);
    free(work.data);
    return status;
}

static zoe_status run_modulate(zoe_context *ctx, const zoe_layer_norm_modulate_backward_args *a)
{
    const zoe_workspace work = workspace_new(zoe_layer_norm_modulate_backward_workspace(ctx, a));
    const zoe_status status = zoe_layer_norm_modulate_backward(ctx, a, work);
    assert_workspace_kept(work);
    free(work.data);
    return status;
}

static void rms_norm_is_differentiated(void **state)
{
    (void)state;
    zoe_context *ctx = context_new();
    for (size_t type = 0; type < 3; type++)
        for (int form = 0; form < 3; form++) { /* without gamma, with it, with 1 + gamma */
            const zoe_dtype dtype = float_types[type];
            zoe_tensor x = tensor_new(dtype, ROWS, D, 3), dy = tensor_new(dtype, ROWS, D, 1);
            zoe_tensor dx = tensor_new(dtype, ROWS, D, 2);
            zoe_tensor gamma = typed_vector(ZOE_F32, D), dgamma = typed_vector(ZOE_F32, D);
            zoe_rms_norm_backward_args a = {.dx = dx, .dy = dy, .x = x, .eps = (float)EPS};
            if (form > 0) {
                a.gamma = gamma;
                a.dgamma = dgamma;
            }
            a.order = form == 2 ? ZOE_RMS_ONE_PLUS_GAMMA : ZOE_RMS_CAST_THEN_MUL;
            succeeded(ctx, run_rms(ctx, &a));
            const inputs in = {.x = x, .gamma = a.gamma, .one_plus = form == 2};
            assert_gradient(&in, dy, x, dx);
            if (form > 0)
                assert_gradient(&in, dy, gamma, dgamma);
            assert_gaps_untouched(dx);
            tensor_free(x);
            tensor_free(dy);
            tensor_free(dx);
            tensor_free(gamma);
            tensor_free(dgamma);
        }
    zoe_context_free(ctx);
}

static void modulated_norms_are_differentiated(void **state)
{
    (void)state;
    zoe_context *ctx = context_new();
    for (int form = 0; form < 8; form++) {
        zoe_tensor x = tensor_new(ZOE_F32, ROWS, D, 3), dy = tensor_new(ZOE_F32, ROWS, D, 1);
        zoe_tensor dx = tensor_new(ZOE_F32, ROWS, D, 2), vectors[4], sums[4];
        for (size_t i = 0; i < 4; i++) {
            vectors[i] = i < 2 ? tensor_new(ZOE_F32, GROUPS, D, 4) : vector_new(D);
            sums[i] = i < 2 ? tensor_new(ZOE_F32, GROUPS, D, 5) : vector_new(D);
        }
        zoe_layer_norm_modulate_backward_args a = {.dx = dx,
                                                   .dy = dy,
                                                   .x = x,
                                                   .eps = (float)EPS,
                                                   .kind =
                                                       form & 1 ? ZOE_NORM_RMS : ZOE_NORM_LAYER};
        inputs in = {.x = x, .centred = a.kind == ZOE_NORM_LAYER};
        if (form & 2) {
            a.scale = in.scale = vectors[0];
            in.shift = vectors[1];
            a.dscale = sums[0];
            a.dshift = sums[1];
        }
        if (form & 4) {
            a.gamma = in.gamma = vectors[2];
            a.beta = in.beta = vectors[3];
            a.dgamma = sums[2];
            a.dbeta = sums[3];
        }
        succeeded(ctx, run_modulate(ctx, &a));
        assert_gradient(&in, dy, x, dx);
        assert_gradient(&in, dy, vectors[0], a.dscale);
        assert_gradient(&in, dy, vectors[1], a.dshift);
        assert_gradient(&in, dy, vectors[2], a.dgamma);
        assert_gradient(&in, dy, vectors[3], a.dbeta);
        for (size_t i = 0; i < 4; i++) {
            tensor_free(vectors[i]);
            tensor_free(sums[i]);
        }
        tensor_free(x);
        tensor_free(dy);
        tensor_free(dx);
    }
    zoe_context_free(ctx);
}

/* Rows of many blocks, columns of two stripes. */
static void bytes_do_not_depend_on_threads_or_place(void **state)
{
    (void)state;
    enum { MANY = 333, WIDE = 601 };
    zoe_tensor x = tensor_new(ZOE_F32, MANY, WIDE, 0), dy = tensor_new(ZOE_F32, MANY, WIDE, 0);
    zoe_tensor gamma = vector_new(WIDE), first = {0}, first_sum = {0};
    for (int threads = 1; threads <= 4; threads++) {
        zoe_context *ctx = zoe_context_new(threads);
        assert_non_null(ctx);
        /* The last one writes over dy. */
        zoe_tensor in = tensor_copy(dy, threads == 4 ? 7 : 0);
        zoe_tensor dx = threads == 4 ? in : tensor_new(ZOE_F32, MANY, WIDE, 0);
        zoe_tensor dgamma = vector_new(WIDE);
        const zoe_rms_norm_backward_args a = {
            .dx = dx, .dgamma = dgamma, .dy = in, .x = x, .gamma = gamma, .eps = 1e-6f};
        succeeded(ctx, run_rms(ctx, &a));
        if (threads == 1) {
            first = tensor_copy(dx, 0);
            first_sum = dgamma;
        } else {
            assert_same_bytes(first, dx);
            assert_memory_equal(first_sum.data, dgamma.data, WIDE * sizeof(float));
            tensor_free(dgamma);
        }
        if (dx.data != in.data)
            tensor_free(dx);
        tensor_free(in);
        zoe_context_free(ctx);
    }
    tensor_free(x);
    tensor_free(dy);
    tensor_free(gamma);
    tensor_free(first);
    tensor_free(first_sum);
}

/* <rotate(x), dy> is <x, back(dy)>, since a rotation is linear. */
static void rotations_are_turned_back(void **state)
{
    (void)state;
    zoe_context *ctx = context_new();
    enum { WIDTH = 24 };
    for (int pairing = 0; pairing < 3; pairing++)
        for (int half = 0; half < 2; half++) {
            const size_t entries = half ? 8 : 16;
            zoe_tensor x = tensor_new(ZOE_F32, ROWS, WIDTH, 1);
            zoe_tensor dy = tensor_new(ZOE_F32, ROWS, WIDTH, 2);
            zoe_tensor y = tensor_new(ZOE_F32, ROWS, WIDTH, 3);
            zoe_tensor dx = tensor_new(ZOE_F32, ROWS, WIDTH, 4);
            zoe_tensor cosines = tensor_new(ZOE_F32, ROWS, entries, 5);
            zoe_tensor sines = tensor_new(ZOE_F32, ROWS, entries, 6);
            zoe_rotary_mul_args a = {.y = y,
                                     .x = x,
                                     .cos = cosines,
                                     .sin = sines,
                                     .pairing = (zoe_rotary_pairing)pairing,
                                     .half_tables = half};
            succeeded(ctx, zoe_rotary_mul(ctx, &a));
            a.x = dy;
            a.y = dx;
            const zoe_workspace work = workspace_new(zoe_rotary_mul_backward_workspace(ctx, &a));
            succeeded(ctx, zoe_rotary_mul_backward(ctx, &a, work));
            assert_workspace_kept(work);
            for (size_t m = 0; m < ROWS; m++) {
                double there = 0.0, back = 0.0;
                for (size_t d = 0; d < WIDTH; d++) {
                    there += (double)value_at(y, m, d) * (double)value_at(dy, m, d);
                    back += (double)value_at(x, m, d) * (double)value_at(dx, m, d);
                }
                assert_near(ZOE_F32, back, there, 1.0, 1e-6);
            }
            free(work.data);
            tensor_free(x);
            tensor_free(dy);
            tensor_free(y);
            tensor_free(dx);
            tensor_free(cosines);
            tensor_free(sines);
        }
    zoe_context_free(ctx);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    zoe_context *ctx = context_new();
    zoe_tensor x = tensor_new(ZOE_F32, ROWS, D, 0), dy = tensor_new(ZOE_F32, ROWS, D, 0);
    zoe_tensor dx = tensor_new(ZOE_F32, ROWS, D, 0), gamma = vector_new(D), short_gamma = gamma;
    const zoe_rms_norm_backward_args good = {
        .dx = dx, .dy = dy, .x = x, .gamma = gamma, .eps = 1e-6f};
    zoe_rms_norm_backward_args a = good;
    a.order = ZOE_RMS_PIXELNORM;
    assert_refused(ctx, run_rms(ctx, &a), ZOE_INVALID, "order");
    a = good;
    short_gamma.shape[0]--;
    a.gamma = short_gamma;
    assert_refused(ctx, run_rms(ctx, &a), ZOE_INVALID, "gamma");
    a = good;
    a.dgamma = gamma;
    assert_refused(ctx, run_rms(ctx, &a), ZOE_INVALID, "dgamma");
    a = good;
    a.gamma = zoe_tensor_none();
    a.dgamma = gamma;
    assert_refused(ctx, run_rms(ctx, &a), ZOE_INVALID, "without gamma");
    assert_refused(ctx, zoe_rms_norm_backward(ctx, &good, (zoe_workspace){NULL, 0}), ZOE_NOMEM,
                   "workspace");
    zoe_tensor scale = tensor_new(ZOE_F32, ROWS - 1, D, 0);
    zoe_layer_norm_modulate_backward_args b = {
        .dx = dx, .dy = dy, .x = x, .scale = scale, .eps = 1e-6f};
    assert_refused(ctx, run_modulate(ctx, &b), ZOE_INVALID, "groups");
    /* No rows: sums are 0. */
    zoe_tensor none = x;
    none.shape[0] = 0;
    a = (zoe_rms_norm_backward_args){
        .dx = none, .dy = none, .x = none, .gamma = gamma, .dgamma = vector_new(D), .eps = 1e-6f};
    succeeded(ctx, run_rms(ctx, &a));
    for (size_t d = 0; d < D; d++)
        assert_true(value_at(a.dgamma, 0, d) == 0.0f);
    zoe_cancel(ctx);
    assert_refused(ctx, run_rms(ctx, &good), ZOE_CANCELLED, "interrupted");
    tensor_free(a.dgamma);
    tensor_free(scale);
    tensor_free(x);
    tensor_free(dy);
    tensor_free(dx);
    tensor_free(gamma);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rms_norm_is_differentiated),
        cmocka_unit_test(modulated_norms_are_differentiated),
        cmocka_unit_test(bytes_do_not_depend_on_threads_or_place),
        cmocka_unit_test(rotations_are_turned_back),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
