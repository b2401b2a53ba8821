/* The convolutions' element types, forms and errors: 16-bit input and output have the rounded bytes
 * of f32, zoe_conv2d and zoe_causal_conv3d those of zoe_conv3d, weights of any type those of their
 * widened values, bands of rows those of the whole; and each way keeps the error that conv.h states.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/base.h"
#include "zoetrope/op.h"

static uint64_t state = 7;

static float noise(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(state >> 40) / (float)(1u << 23) - 1.0f;
}

static float *noises(size_t n)
{
    float *p = malloc((n ? n : 1) * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = noise();
    return p;
}

/* n values of `dtype`, and in *wide what they widen to. */
static void *stored(zoe_dtype dtype, size_t n, float **wide)
{
    void *p = malloc(n * sizeof(float) + 1);
    assert_non_null(p);
    *wide = noises(n);
    zoe_narrow(p, dtype, *wide, n);
    zoe_widen(*wide, p, dtype, n);
    return p;
}

static void run(zoe_context *ctx, const zoe_conv3d_args *args)
{
    zoe_workspace work = {.bytes = zoe_conv3d_workspace(ctx, args)};
    assert_int_equal(zoe_alloc(ctx, &work.data, work.bytes, 1, "workspace"), ZOE_OK);
    if (zoe_conv3d(ctx, args, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    zoe_free(work.data);
}

static zoe_conv_weights *weights_of(zoe_context *ctx, float *w, float *bias, size_t Cout,
                                    size_t Cin, size_t kt, size_t k)
{
    zoe_conv_weights *packed;
    const size_t shape[] = {Cout, Cin, kt, k, k};
    assert_int_equal(
        zoe_conv_weights_new(ctx, &packed, zoe_tensor_of(w, ZOE_F32, 5, shape),
                             bias ? zoe_tensor_1d(bias, ZOE_F32, Cout) : zoe_tensor_none()),
        ZOE_OK);
    return packed;
}

/* A way of computing: direct, with strides, enlarged, Winograd's. */
typedef struct form {
    size_t H, W, Cin, Cout, kernel, stride, dilation;
    bool upsample;
} form;

static const form forms[] = {{5, 7, 3, 19, 3, 1, 1, false},    {9, 14, 8, 16, 3, 2, 1, false},
                             {40, 33, 5, 3, 3, 1, 2, false},   {5, 6, 4, 17, 3, 1, 1, true},
                             {5, 6, 4, 17, 3, 2, 1, true},     {17, 30, 16, 24, 3, 1, 1, false},
                             {3, 200, 24, 33, 3, 1, 1, false}, {3, 100, 5, 8, 3, 1, 1, true},
                             {100, 3, 5, 8, 3, 1, 1, true},    {3, 100, 5, 8, 3, 2, 1, true}};

/* x, past, residual and y of these types against f32 of the same values. */
static void check_types(const form *f, zoe_dtype in, zoe_dtype added, zoe_dtype out)
{
    enum { T = 2, PAST = 1 };
    zoe_context *ctx = zoe_context_new(2);
    assert_non_null(ctx);
    const size_t scale = f->upsample ? 2 : 1, span = 2 * f->dilation + 1;
    const size_t H = (scale * f->H + 2 - span) / f->stride + 1;
    const size_t W = (scale * f->W + 2 - span) / f->stride + 1;
    /* A gap behind each row of the input, so that its pixels are no dense run. */
    const size_t C = f->Cin, columns = f->W + 1, frame = f->H * columns * C;
    const size_t outputs = T * H * W * f->Cout;
    float *x, *past, *residual, *w = noises(f->Cout * C * 27), *bias = noises(f->Cout);
    void *x16 = stored(in, T * frame, &x), *past16 = stored(in, PAST * frame, &past);
    void *residual16 = stored(added, outputs, &residual);
    float *y = noises(outputs);
    unsigned char *got = malloc(outputs * 4), *wanted = malloc(outputs * 4);
    assert_true(got && wanted);
    zoe_conv_weights *packed = weights_of(ctx, w, bias, f->Cout, C, 3, 3);
    zoe_conv3d_args args = {.y = zoe_tensor_4d(y, ZOE_F32, T, H, W, f->Cout),
                            .x = zoe_tensor_4d(x, ZOE_F32, T, f->H, f->W, C),
                            .past = zoe_tensor_4d(past, ZOE_F32, PAST, f->H, f->W, C),
                            .residual = zoe_tensor_4d(residual, ZOE_F32, T, H, W, f->Cout),
                            .weights = packed,
                            .pad_front = 1,
                            .pad_top = 1,
                            .pad_bottom = 1,
                            .pad_left = 1,
                            .pad_right = 1,
                            .stride_t = 1,
                            .stride_h = f->stride,
                            .stride_w = f->stride,
                            .dilation_h = f->dilation,
                            .dilation_w = f->dilation,
                            .upsample = f->upsample};
    args.x.stride[0] = args.past.stride[0] = (ptrdiff_t)frame;
    args.x.stride[1] = args.past.stride[1] = (ptrdiff_t)(columns * C);
    run(ctx, &args);
    zoe_narrow(wanted, out, y, outputs);
    args.x.dtype = args.past.dtype = in;
    args.x.data = x16;
    args.past.data = past16;
    args.residual.dtype = added;
    args.residual.data = residual16;
    args.y.dtype = out;
    args.y.data = got;
    run(ctx, &args);
    assert_memory_equal(got, wanted, outputs * zoe_dtype_bytes(out));
    zoe_conv_weights_free(packed);
    zoe_context_free(ctx);
    free(x), free(past), free(residual), free(w), free(bias), free(x16), free(past16);
    free(residual16), free(y), free(got), free(wanted);
}

static void test_types(void **unused)
{
    static const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16};
    (void)unused;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        for (size_t in = 0; in < 3; in++)
            for (size_t out = 0; out < 3; out++)
                check_types(&forms[i], types[in], types[(in + out) % 3], types[out]);
}

/* zoe_causal_conv3d in chunks, and zoe_conv2d, against zoe_conv3d. */
static void test_named_forms(void **unused)
{
    enum { T = 4, H = 6, W = 5, CIN = 7, COUT = 9, IN = H * W * CIN, OUT = H * W * COUT };
    zoe_context *ctx = zoe_context_new(1);
    float *x = noises(T * IN), *w = noises(COUT * CIN * 27), *y = noises(T * OUT);
    float *other = noises(T * OUT);
    (void)unused;
    assert_non_null(ctx);
    for (size_t step = 1; step <= 2; step++) {
        zoe_conv_weights *packed = weights_of(ctx, w, NULL, COUT, CIN, 3, 3);
        run(ctx, &(zoe_conv3d_args){.y = zoe_tensor_4d(y, ZOE_F32, T, H, W, COUT),
                                    .x = zoe_tensor_4d(x, ZOE_F32, T, H, W, CIN),
                                    .weights = packed,
                                    .pad_front = 2 * step,
                                    .pad_top = 1,
                                    .pad_bottom = 1,
                                    .pad_left = 1,
                                    .pad_right = 1,
                                    .stride_t = 1,
                                    .stride_h = 1,
                                    .stride_w = 1,
                                    .dilation_t = step});
        for (size_t done = 0, T0 = 1; done < T; done += T0, T0 = T - done) {
            const size_t past = done < 2 * step ? done : 2 * step;
            zoe_causal_conv3d_args args = {
                .y = zoe_tensor_4d(other + done * OUT, ZOE_F32, T0, H, W, COUT),
                .x = zoe_tensor_4d(x + done * IN, ZOE_F32, T0, H, W, CIN),
                .weights = packed,
                .pad_top = 1,
                .pad_bottom = 1,
                .pad_left = 1,
                .pad_right = 1,
                .stride_t = 1,
                .stride_h = 1,
                .stride_w = 1,
                .dilation_t = step};
            if (past)
                args.past = zoe_tensor_4d(x + (done - past) * IN, ZOE_F32, past, H, W, CIN);
            zoe_workspace work = {.bytes = zoe_causal_conv3d_workspace(ctx, &args)};
            assert_int_equal(zoe_alloc(ctx, &work.data, work.bytes, 1, "workspace"), ZOE_OK);
            assert_int_equal(zoe_causal_conv3d(ctx, &args, work), ZOE_OK);
            zoe_free(work.data);
        }
        assert_memory_equal(y, other, T * OUT * sizeof *y);
        zoe_conv_weights_free(packed);
    }
    zoe_conv_weights *flat = weights_of(ctx, w, NULL, COUT, CIN, 1, 3);
    zoe_conv2d_args args = {.y = zoe_tensor_4d(y, ZOE_F32, T, H - 2, W - 2, COUT),
                            .x = zoe_tensor_4d(x, ZOE_F32, T, H, W, CIN),
                            .weights = flat,
                            .stride_h = 1,
                            .stride_w = 1};
    zoe_workspace work = {.bytes = zoe_conv2d_workspace(ctx, &args)};
    assert_int_equal(zoe_alloc(ctx, &work.data, work.bytes, 1, "workspace"), ZOE_OK);
    assert_int_equal(zoe_conv2d(ctx, &args, work), ZOE_OK);
    zoe_free(work.data);
    run(ctx, &(zoe_conv3d_args){.y = zoe_tensor_4d(other, ZOE_F32, T, H - 2, W - 2, COUT),
                                .x = args.x,
                                .weights = flat,
                                .stride_t = 1,
                                .stride_h = 1,
                                .stride_w = 1});
    assert_memory_equal(y, other, T * (H - 2) * (W - 2) * COUT * sizeof *y);
    zoe_conv_weights_free(flat);
    flat = weights_of(ctx, w, NULL, COUT, CIN, 3, 3);
    args.weights = flat;
    assert_int_equal(zoe_conv2d(ctx, &args, work), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "3 taps in time, wanted 1"));
    zoe_conv_weights_free(flat);
    zoe_context_free(ctx);
    free(x), free(w), free(y), free(other);
}

/* No frames: nothing is read or written. */
static void test_no_frames(void **unused)
{
    zoe_context *ctx = zoe_context_new(1);
    float *w = noises(4 * 3 * 9);
    (void)unused;
    assert_non_null(ctx);
    zoe_conv_weights *packed = weights_of(ctx, w, NULL, 4, 3, 1, 3);
    zoe_conv2d_args args = {.y = zoe_tensor_4d(NULL, ZOE_F32, 0, 3, 3, 4),
                            .x = zoe_tensor_4d(NULL, ZOE_F32, 0, 5, 5, 3),
                            .weights = packed,
                            .stride_h = 1,
                            .stride_w = 1};
    (void)zoe_conv2d_workspace(ctx, &args);
    assert_int_equal(zoe_conv2d(ctx, &args, (zoe_workspace){0}), ZOE_OK);
    zoe_conv_weights_free(packed);
    zoe_context_free(ctx);
    free(w);
}

/* Weights of every type that the store may hand over, and those without data. */
static void test_weights(void **unused)
{
    enum { COUT = 6, CIN = 32, COUNT = COUT * CIN * 9, OUT = 2 * 2 * COUT };
    static const zoe_dtype types[] = {ZOE_F16, ZOE_BF16, ZOE_F8_E4M3, ZOE_F8_E5M2, ZOE_Q8_0};
    static const size_t shape[] = {COUT, CIN, 3, 3};
    zoe_context *ctx = zoe_context_new(1);
    float *x = noises(4 * 4 * CIN), y[OUT], other[OUT], factor = 0.375f;
    const zoe_scaling scaling = {
        .values = &factor, .columns = 1, .row_step = COUT, .column_step = CIN * 9};
    (void)unused;
    assert_non_null(ctx);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t scaled = 0; scaled < 2; scaled++) {
            unsigned char bytes[COUNT * 2];
            float *wide = noises(COUNT);
            zoe_conv_weights *packed[2], *empty;
            for (size_t n = 0; n < sizeof bytes; n++)
                bytes[n] = (unsigned char)(n % 2 ? 0x38 + n % 5 : n * 29 % 0x70); /* all finite */
            zoe_tensor w = zoe_tensor_of(bytes, types[i], 4, shape);
            w.scaling = scaled ? &scaling : NULL;
            zoe_tensor_widen(wide, w, 0, COUNT);
            packed[1] = weights_of(ctx, wide, NULL, COUT, CIN, 1, 3);
            assert_int_equal(zoe_conv_weights_new(ctx, &packed[0], w, zoe_tensor_none()), ZOE_OK);
            w.data = NULL;
            assert_int_equal(zoe_conv_weights_new(ctx, &empty, w, zoe_tensor_none()), ZOE_OK);
            zoe_conv3d_args args = {.x = zoe_tensor_4d(x, ZOE_F32, 1, 4, 4, CIN),
                                    .y = zoe_tensor_4d(y, ZOE_F32, 1, 2, 2, COUT),
                                    .weights = packed[0],
                                    .stride_t = 1,
                                    .stride_h = 1,
                                    .stride_w = 1};
            const size_t wanted = zoe_conv3d_workspace(ctx, &args);
            run(ctx, &args);
            args.weights = packed[1];
            args.y.data = other;
            run(ctx, &args);
            assert_memory_equal(y, other, sizeof y);
            args.weights = empty;
            assert_int_equal(zoe_conv3d_workspace(ctx, &args), wanted);
            assert_int_equal(zoe_conv3d(ctx, &args, (zoe_workspace){0}), ZOE_INVALID);
            assert_non_null(strstr(zoe_context_message(ctx), "without data"));
            zoe_conv_weights_free(packed[0]);
            zoe_conv_weights_free(packed[1]);
            zoe_conv_weights_free(empty);
            free(wide);
        }
    zoe_context_free(ctx);
    free(x);
}

/* Rows of a frame computed apart, by the way told, have the bytes of the whole. */
static void test_bands(void **unused)
{
    enum { T = 2, H = 22, W = 20, C = 16, ROW = W * C };
    static const size_t ends[] = {2, 12, 16, 22};
    zoe_context *ctx = zoe_context_new(1);
    float *x = noises(T * H * ROW), *w = noises(C * C * 27), *y = noises(T * H * ROW);
    float *pieces = noises(T * H * ROW);
    (void)unused;
    assert_non_null(ctx);
    zoe_conv_weights *packed = weights_of(ctx, w, NULL, C, C, 3, 3);
    for (int method = ZOE_CONV_DIRECT; method <= ZOE_CONV_WINOGRAD; method++) {
        zoe_conv3d_args args = {.y = zoe_tensor_4d(y, ZOE_F32, T, H, W, C),
                                .x = zoe_tensor_4d(x, ZOE_F32, T, H, W, C),
                                .weights = packed,
                                .pad_front = 2,
                                .pad_top = 1,
                                .pad_bottom = 1,
                                .pad_left = 1,
                                .pad_right = 1,
                                .stride_t = 1,
                                .stride_h = 1,
                                .stride_w = 1,
                                .method = (zoe_conv_method)method};
        run(ctx, &args);
        for (size_t i = 0, row = 0; i < sizeof ends / sizeof *ends; row = ends[i++]) {
            zoe_conv3d_args band = args;
            const size_t from = row ? row - 1 : 0, end = ends[i] < H ? ends[i] + 1 : H;
            band.pad_top = row == 0;
            band.pad_bottom = ends[i] == H;
            band.x.data = x + from * ROW;
            band.x.shape[1] = end - from;
            band.y.data = pieces + row * ROW;
            band.y.shape[1] = ends[i] - row;
            band.y.stride[0] = args.y.stride[0];
            run(ctx, &band);
        }
        assert_memory_equal(y, pieces, T * H * ROW * sizeof *y);
    }
    zoe_conv_weights_free(packed);
    zoe_context_free(ctx);
    free(x), free(w), free(y), free(pieces);
}

/* The largest |x| that an output's kernel covers, and with Winograd's way all pixels of its square.
 */
static double largest(const float *x, size_t H, size_t W, size_t C, size_t i, size_t j, bool square)
{
    double most = 0.0;
    const size_t top = square ? i / 2 * 2 : i, left = square ? j / 2 * 2 : j;
    for (size_t r = top; r < top + (square ? 4 : 3); r++)
        for (size_t s = left; s < left + (square ? 4 : 3); s++)
            for (size_t c = 0; c < C && r >= 1 && r <= H && s >= 1 && s <= W; c++)
                most = fmax(most, fabs((double)x[((r - 1) * W + s - 1) * C + c]));
    return most;
}

/* Smooth values, noise, and noise with single values a million times larger. */
static void test_errors(void **unused)
{
    enum { H = 18, W = 20, C = 64, COUT = 16 };
    zoe_context *ctx = zoe_context_new(1);
    float *x = noises(H * W * C), *w = noises(COUT * C * 9), *y = noises(H * W * COUT);
    double seen[3] = {0};
    (void)unused;
    assert_non_null(ctx);
    zoe_conv_weights *packed = weights_of(ctx, w, NULL, COUT, C, 1, 3);
    for (int kind = 0; kind < 3; kind++)
        for (int method = ZOE_CONV_DIRECT; method <= ZOE_CONV_WINOGRAD; method++) {
            for (size_t n = 0; n < H * W * C; n++)
                x[n] = kind == 0 ? 1.0f + 0.01f * noise()
                                 : noise() * (kind == 2 && n % 997 == 0 ? 1e6f : 1.0f);
            run(ctx, &(zoe_conv3d_args){.y = zoe_tensor_4d(y, ZOE_F32, 1, H, W, COUT),
                                        .x = zoe_tensor_4d(x, ZOE_F32, 1, H, W, C),
                                        .weights = packed,
                                        .pad_top = 1,
                                        .pad_bottom = 1,
                                        .pad_left = 1,
                                        .pad_right = 1,
                                        .stride_t = 1,
                                        .stride_h = 1,
                                        .stride_w = 1,
                                        .method = (zoe_conv_method)method});
            for (size_t n = 0; n < H * W * COUT; n++) {
                const size_t o = n % COUT, j = n / COUT % W, i = n / COUT / W;
                double sum = 0.0, weight = 0.0;
                for (size_t c = 0; c < C; c++)
                    for (size_t tap = 0; tap < 9; tap++) {
                        const size_t r = i + tap / 3, s = j + tap % 3;
                        const double v = (double)w[(o * C + c) * 9 + tap];
                        weight += fabs(v);
                        if (r >= 1 && r <= H && s >= 1 && s <= W)
                            sum += v * (double)x[((r - 1) * W + s - 1) * C + c];
                    }
                const double limit =
                    largest(x, H, W, C, i, j, method == ZOE_CONV_WINOGRAD) * weight * 0x1p-20 +
                    fabs(sum) * 0x1p-24;
                const double share = fabs((double)y[n] - sum) / limit;
                seen[method] = fmax(seen[method], share);
                if (!(share <= 1.0))
                    fail_msg("method %d, kind %d, value %zu: %g, wanted %g", method, kind, n,
                             (double)y[n], sum);
            }
        }
    print_message("largest errors, as shares of the bound: direct %.3f, Winograd %.3f\n",
                  seen[ZOE_CONV_DIRECT], seen[ZOE_CONV_WINOGRAD]);
    zoe_conv_weights_free(packed);
    zoe_context_free(ctx);
    free(x), free(w), free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),     cmocka_unit_test(test_named_forms),
        cmocka_unit_test(test_no_frames), cmocka_unit_test(test_weights),
        cmocka_unit_test(test_bands),     cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
