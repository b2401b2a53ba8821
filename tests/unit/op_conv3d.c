/* zoe_conv3d against a plain loop in double precision, over many small configurations, and the
 * equalities that it promises: chunks = whole timeline, any number of threads, strided = dense,
 * residual in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/base.h"
#include "zoetrope/op.h"

enum { AXES = 4 };

/* One configuration. Extents are those of the timeline after `past` frames. */
typedef struct config {
    size_t T, H, W, Cin, Cout;
    size_t kernel[3], stride[3], dilation[3]; /* dilation 0: 1 */
    size_t past, front, top, bottom, left, right;
    bool upsample, residual, bias;
} config;

static uint64_t state = 1;

static size_t pick(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % n;
}

static float noise(void)
{
    return (float)pick(1u << 24) / (float)(1u << 23) - 1.0f;
}

static float *noises(size_t n)
{
    float *p = malloc((n ? n : 1) * sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        p[i] = noise();
    return p;
}

static size_t apart(const config *c, int axis)
{
    return c->dilation[axis] ? c->dilation[axis] : 1;
}

static size_t places(const config *c, int axis, size_t before, size_t extent, size_t behind)
{
    const size_t whole = before + extent + behind;
    const size_t span = (c->kernel[axis] - 1) * apart(c, axis) + 1;
    return whole < span ? 0 : (whole - span) / c->stride[axis] + 1;
}

static void output_shape(size_t shape[AXES], const config *c)
{
    const size_t scale = c->upsample ? 2 : 1;
    shape[0] = places(c, 0, c->front, c->past + c->T, 0);
    shape[1] = places(c, 1, c->top, scale * c->H, c->bottom);
    shape[2] = places(c, 2, c->left, scale * c->W, c->right);
    shape[3] = c->Cout;
}

/* Pixel (t, i, j) of the timeline, or NULL in the padding. Coordinates count from the padded
 * corner. */
static const float *input_at(const config *c, const float *timeline, size_t t, size_t i, size_t j)
{
    const size_t scale = c->upsample ? 2 : 1;
    if (t < c->front || i < c->top || j < c->left)
        return NULL;
    i -= c->top;
    j -= c->left;
    if (i >= scale * c->H || j >= scale * c->W)
        return NULL;
    return timeline + (((t - c->front) * c->H + i / scale) * c->W + j / scale) * c->Cin;
}

/* The definition. timeline [past + T, H, W, Cin], w [Cout, Cin, kt, kh, kw]; y and the sum of
 * absolute values. */
static void reference(double *y, double *size, const config *c, const float *timeline,
                      const float *w, const float *bias, const float *residual)
{
    size_t shape[AXES];
    output_shape(shape, c);
    for (size_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; n++) {
        const size_t o = n % c->Cout, j = n / c->Cout % shape[2];
        const size_t i = n / c->Cout / shape[2] % shape[1], t = n / c->Cout / shape[2] / shape[1];
        double sum = c->bias ? (double)bias[o] : 0.0, absolute = fabs(sum);
        for (size_t a = 0; a < c->kernel[0]; a++)
            for (size_t p = 0; p < c->kernel[1]; p++)
                for (size_t q = 0; q < c->kernel[2]; q++) {
                    const float *x = input_at(c, timeline, t * c->stride[0] + a * apart(c, 0),
                                              i * c->stride[1] + p * apart(c, 1),
                                              j * c->stride[2] + q * apart(c, 2));
                    for (size_t k = 0; x && k < c->Cin; k++) {
                        const size_t at =
                            (((o * c->Cin + k) * c->kernel[0] + a) * c->kernel[1] + p) *
                                c->kernel[2] +
                            q;
                        sum += (double)x[k] * (double)w[at];
                        absolute += fabs((double)x[k] * (double)w[at]);
                    }
                }
        y[n] = sum + (c->residual ? (double)residual[n] : 0.0);
        size[n] = absolute + (c->residual ? fabs((double)residual[n]) : 0.0);
    }
}

/* A dense copy of n elements laid out with gaps: every axis but the last gets a stride larger than
 * it needs. */
static zoe_tensor with_gaps(const float *dense, const size_t shape[AXES], float **memory)
{
    zoe_tensor t = zoe_tensor_of(NULL, ZOE_F32, AXES, shape);
    ptrdiff_t stride = (ptrdiff_t)shape[3] + 3;
    for (int axis = 2; axis >= 0; axis--) {
        t.stride[axis] = stride;
        stride = stride * (ptrdiff_t)shape[axis] + 5;
    }
    *memory = noises((size_t)stride);
    t.data = *memory;
    for (size_t n = 0; n < zoe_tensor_count(t); n++) {
        const size_t c = n % shape[3], j = n / shape[3] % shape[2];
        const size_t i = n / shape[3] / shape[2] % shape[1], f = n / shape[3] / shape[2] / shape[1];
        (*memory)[(ptrdiff_t)f * t.stride[0] + (ptrdiff_t)i * t.stride[1] +
                  (ptrdiff_t)j * t.stride[2] + (ptrdiff_t)c] = dense[n];
    }
    return t;
}

static void from_gaps(float *dense, zoe_tensor t)
{
    for (size_t n = 0; n < zoe_tensor_count(t); n++) {
        const size_t c = n % t.shape[3], j = n / t.shape[3] % t.shape[2];
        const size_t i = n / t.shape[3] / t.shape[2] % t.shape[1];
        const size_t f = n / t.shape[3] / t.shape[2] / t.shape[1];
        dense[n] = ((const float *)t.data)[(ptrdiff_t)f * t.stride[0] + (ptrdiff_t)i * t.stride[1] +
                                           (ptrdiff_t)j * t.stride[2] + (ptrdiff_t)c];
    }
}

static void run(zoe_context *ctx, const zoe_conv3d_args *args)
{
    zoe_workspace work = {.bytes = zoe_conv3d_workspace(ctx, args)};
    assert_int_equal(zoe_alloc(ctx, &work.data, work.bytes, 1, "workspace"), ZOE_OK);
    if (zoe_conv3d(ctx, args, work) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    zoe_free(work.data);
}

/* Arguments of a configuration, over dense memory. y, residual and weights are left to the caller.
 */
static zoe_conv3d_args args_of(const config *c, const float *timeline)
{
    const size_t frame = c->H * c->W * c->Cin;
    zoe_conv3d_args args = {
        .x = zoe_tensor_4d((float *)(uintptr_t)timeline + c->past * frame, ZOE_F32, c->T, c->H,
                           c->W, c->Cin),
        .pad_front = c->front,
        .pad_top = c->top,
        .pad_bottom = c->bottom,
        .pad_left = c->left,
        .pad_right = c->right,
        .stride_t = c->stride[0],
        .stride_h = c->stride[1],
        .stride_w = c->stride[2],
        .dilation_t = c->dilation[0],
        .dilation_h = c->dilation[1],
        .dilation_w = c->dilation[2],
        .upsample = c->upsample,
    };
    if (c->past)
        args.past =
            zoe_tensor_4d((float *)(uintptr_t)timeline, ZOE_F32, c->past, c->H, c->W, c->Cin);
    return args;
}

static zoe_conv_weights *weights_of(zoe_context *ctx, const config *c, float *w, float *bias)
{
    zoe_conv_weights *packed;
    const size_t shape[] = {c->Cout, c->Cin, c->kernel[0], c->kernel[1], c->kernel[2]};
    const zoe_status status =
        zoe_conv_weights_new(ctx, &packed, zoe_tensor_of(w, ZOE_F32, 5, shape),
                             c->bias ? zoe_tensor_1d(bias, ZOE_F32, c->Cout) : zoe_tensor_none());
    if (status != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    return packed;
}

static void describe(char *text, size_t size, const config *c)
{
    snprintf(text, size,
             "x %zux%zux%zux%zu, past %zu, Cout %zu, kernel %zu%zu%zu, stride %zu%zu%zu, dilation "
             "%zu%zu%zu, pad %zu %zu%zu %zu%zu%s%s%s",
             c->T, c->H, c->W, c->Cin, c->past, c->Cout, c->kernel[0], c->kernel[1], c->kernel[2],
             c->stride[0], c->stride[1], c->stride[2], c->dilation[0], c->dilation[1],
             c->dilation[2], c->front, c->top, c->bottom, c->left, c->right,
             c->upsample ? ", upsample" : "", c->residual ? ", residual" : "",
             c->bias ? ", bias" : "");
}

/* One configuration in every form: dense against the reference, then strided, with residual in
 * place, and with three threads, against the dense bytes. */
static void check(zoe_context *one, zoe_context *three, const config *c)
{
    size_t shape[AXES];
    char text[256];
    output_shape(shape, c);
    describe(text, sizeof text, c);
    const size_t inputs = (c->past + c->T) * c->H * c->W * c->Cin;
    const size_t outputs = shape[0] * shape[1] * shape[2] * shape[3];
    float *timeline = noises(inputs), *bias = noises(c->Cout), *residual = noises(outputs);
    float *w = noises(c->Cout * c->Cin * c->kernel[0] * c->kernel[1] * c->kernel[2]);
    float *y = noises(outputs), *other = noises(outputs);
    double *wanted = malloc(outputs * sizeof *wanted), *size = malloc(outputs * sizeof *size);
    assert_true(wanted && size);
    zoe_conv_weights *packed = weights_of(one, c, w, bias);

    zoe_conv3d_args args = args_of(c, timeline);
    args.weights = packed;
    args.y = zoe_tensor_of(y, ZOE_F32, AXES, shape);
    if (c->residual)
        args.residual = zoe_tensor_of(residual, ZOE_F32, AXES, shape);
    run(one, &args);
    reference(wanted, size, c, timeline, w, bias, residual);
    for (size_t n = 0; n < outputs; n++)
        if (!(fabs((double)y[n] - wanted[n]) <= 1e-6 * size[n]))
            fail_msg("%s: value %zu is %g, wanted %g", text, n, (double)y[n], wanted[n]);

    args.y.data = other;
    if (c->residual) {
        memcpy(other, residual, outputs * sizeof *other);
        args.residual = args.y;
    }
    run(three, &args);
    if (memcmp(y, other, outputs * sizeof *y) != 0)
        fail_msg("%s: three threads or the residual in place change the result", text);

    zoe_conv3d_args strided = args;
    float *memory[4] = {0};
    memset(other, 0, outputs * sizeof *other);
    strided.x = with_gaps(args.x.data, args.x.shape, &memory[0]);
    if (c->past)
        strided.past = with_gaps(args.past.data, args.past.shape, &memory[1]);
    strided.y = with_gaps(other, shape, &memory[2]);
    if (c->residual)
        strided.residual = with_gaps(residual, shape, &memory[3]);
    run(one, &strided);
    from_gaps(other, strided.y);
    if (memcmp(y, other, outputs * sizeof *y) != 0)
        fail_msg("%s: strides change the result", text);

    for (int i = 0; i < 4; i++)
        free(memory[i]);
    zoe_conv_weights_free(packed);
    free(timeline), free(bias), free(residual), free(w), free(y), free(other);
    free(wanted), free(size);
}

static void contexts(zoe_context **one, zoe_context **three)
{
    *one = zoe_context_new(1);
    *three = zoe_context_new(3);
    assert_true(*one && *three);
}

/* The uses of the Wan VAEs, each with every odd number of channels. */
static void test_uses(void **unused)
{
    static const config uses[] = {
        /* causal 3 x 3 x 3: first frame, chunk after it, later chunk */
        {.T = 1,
         .H = 5,
         .W = 7,
         .kernel = {3, 3, 3},
         .stride = {1, 1, 1},
         .front = 2,
         .top = 1,
         .bottom = 1,
         .left = 1,
         .right = 1},
        {.T = 4,
         .H = 5,
         .W = 7,
         .kernel = {3, 3, 3},
         .stride = {1, 1, 1},
         .past = 1,
         .front = 1,
         .top = 1,
         .bottom = 1,
         .left = 1,
         .right = 1,
         .residual = true},
        {.T = 2,
         .H = 5,
         .W = 7,
         .kernel = {3, 3, 3},
         .stride = {1, 1, 1},
         .past = 2,
         .top = 1,
         .bottom = 1,
         .left = 1,
         .right = 1,
         .residual = true},
        /* 1 x 1 x 1, also as a shortcut */
        {.T = 2, .H = 5, .W = 7, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .residual = true},
        /* in time only: enlarging, then shrinking */
        {.T = 2, .H = 5, .W = 7, .kernel = {3, 1, 1}, .stride = {1, 1, 1}, .past = 2},
        {.T = 1, .H = 5, .W = 7, .kernel = {3, 1, 1}, .stride = {1, 1, 1}, .front = 2},
        {.T = 4, .H = 5, .W = 7, .kernel = {3, 1, 1}, .stride = {2, 1, 1}, .past = 1},
        /* shrinking in space, odd and even extents */
        {.T = 2, .H = 5, .W = 8, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .bottom = 1, .right = 1},
        /* enlarging in space */
        {.T = 2,
         .H = 3,
         .W = 4,
         .kernel = {1, 3, 3},
         .stride = {1, 1, 1},
         .top = 1,
         .bottom = 1,
         .left = 1,
         .right = 1,
         .upsample = true},
    };
    static const size_t channels[] = {1, 3, 5, 8, 16, 17, 33, 96};
    zoe_context *one, *three;
    (void)unused;
    contexts(&one, &three);
    for (size_t u = 0; u < sizeof uses / sizeof *uses; u++)
        for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
            for (size_t o = i % 2; o < sizeof channels / sizeof *channels; o += 2) {
                config c = uses[u];
                c.Cin = channels[i];
                c.Cout = channels[o];
                c.bias = (i + o) % 3 != 0;
                check(one, three, &c);
            }
    zoe_context_free(one);
    zoe_context_free(three);
}

/* Anything at all, also more padding than kernel, one-pixel frames, and strides that step over
 * pixels. */
static void test_random(void **unused)
{
    zoe_context *one, *three;
    size_t shape[AXES];
    (void)unused;
    contexts(&one, &three);
    for (size_t round = 0; round < 600;) {
        config c = {.T = 1 + pick(4),
                    .H = 1 + pick(9),
                    .W = 1 + pick(9),
                    .Cin = 1 + pick(20),
                    .Cout = 1 + pick(40)};
        for (int axis = 0; axis < 3; axis++) {
            c.kernel[axis] = 1 + pick(4);
            c.stride[axis] = 1 + pick(3);
            c.dilation[axis] = pick(4) ? 0 : 1 + pick(3);
        }
        c.past = pick((c.kernel[0] - 1) * apart(&c, 0) + 1);
        c.front = pick(5);
        c.top = pick(4), c.bottom = pick(4), c.left = pick(4), c.right = pick(4);
        c.upsample = pick(2), c.residual = pick(2), c.bias = pick(2);
        output_shape(shape, &c);
        if (shape[0] == 0 || shape[1] == 0 || shape[2] == 0)
            continue;
        check(one, three, &c);
        round++;
    }
    zoe_context_free(one);
    zoe_context_free(three);
}

/* Blocks of many tiles, several blocks a frame, several slices of taps. */
static void test_large(void **unused)
{
    const config c = {.T = 2,
                      .H = 17,
                      .W = 23,
                      .Cin = 300,
                      .Cout = 40,
                      .kernel = {3, 3, 3},
                      .stride = {1, 1, 1},
                      .front = 2,
                      .top = 1,
                      .bottom = 1,
                      .left = 1,
                      .right = 1,
                      .bias = true,
                      .residual = true};
    const config wide = {
        .T = 1, .H = 3, .W = 5, .Cin = 3000, .Cout = 20, .kernel = {1, 2, 1}, .stride = {1, 1, 1}};
    zoe_context *one, *three;
    (void)unused;
    contexts(&one, &three);
    check(one, three, &c);
    check(one, three, &wide);
    zoe_context_free(one);
    zoe_context_free(three);
}

/* What the cpu computes with Winograd's transform: 3 x 3 in space, steps of one, many channels,
 * frames that are not tiny. Odd extents, any padding, flat and narrow frames, more frames than one
 * block takes. */
static void test_winograd(void **unused)
{
    static const size_t extents[][2] = {{16, 16}, {17, 19}, {15, 27}, {2, 130}, {129, 3}, {30, 50}};
    static const size_t inputs[] = {16, 24, 40}, outputs[] = {16, 17, 33, 72};
    zoe_context *one, *three;
    (void)unused;
    contexts(&one, &three);
    for (size_t round = 0; round < 24; round++) {
        const size_t *extent = extents[round % 6];
        config c = {.T = 1 + pick(6),
                    .H = extent[0],
                    .W = extent[1],
                    .Cin = inputs[pick(3)],
                    .Cout = outputs[pick(4)],
                    .kernel = {1 + pick(3), 3, 3},
                    .stride = {1, 1, 1},
                    .top = 1,
                    .bottom = 1 + pick(2),
                    .left = 1,
                    .right = 1 + pick(2),
                    .residual = pick(2),
                    .bias = pick(2)};
        if (round >= 12) {
            c.top = pick(4);
            c.left = pick(4);
        }
        c.past = pick(c.kernel[0]);
        c.front = c.kernel[0] - 1 - c.past + pick(2);
        check(one, three, &c);
    }
    zoe_context_free(one);
    zoe_context_free(three);
}

/* A timeline in chunks of 1, 2 and 4 frames, each with the frames before it as past, has the bytes
 * of one call. */
static void check_chunks(const config *whole)
{
    const size_t chunks[] = {1, 2, 4};
    const size_t in = whole->H * whole->W * whole->Cin, out = whole->H * whole->W * whole->Cout;
    zoe_context *ctx = zoe_context_new(2);
    float *timeline = noises(7 * in), *bias = noises(whole->Cout);
    float *w = noises(whole->Cout * whole->Cin * 27), *y = noises(7 * out),
          *pieces = noises(7 * out);
    assert_non_null(ctx);
    zoe_conv_weights *packed = weights_of(ctx, whole, w, bias);
    zoe_conv3d_args args = args_of(whole, timeline);
    args.weights = packed;
    args.y = zoe_tensor_4d(y, ZOE_F32, 7, whole->H, whole->W, whole->Cout);
    run(ctx, &args);
    for (size_t i = 0, done = 0; i < 3; done += chunks[i++]) {
        config c = *whole;
        c.T = chunks[i];
        c.past = done < 2 ? done : 2;
        c.front = 2 - c.past;
        args = args_of(&c, timeline + (done - c.past) * in);
        args.weights = packed;
        args.y = zoe_tensor_4d(pieces + done * out, ZOE_F32, c.T, c.H, c.W, c.Cout);
        run(ctx, &args);
    }
    assert_memory_equal(y, pieces, 7 * out * sizeof *y);
    zoe_conv_weights_free(packed);
    zoe_context_free(ctx);
    free(timeline), free(bias), free(w), free(y), free(pieces);
}

static void test_chunks(void **unused)
{
    config whole = {.T = 7,
                    .H = 6,
                    .W = 9,
                    .Cin = 20,
                    .Cout = 24,
                    .kernel = {3, 3, 3},
                    .stride = {1, 1, 1},
                    .front = 2,
                    .top = 1,
                    .bottom = 1,
                    .left = 1,
                    .right = 1,
                    .bias = true};
    (void)unused;
    check_chunks(&whole);
    whole.H = 17;
    whole.W = 20;
    whole.Cin = 16;
    check_chunks(&whole);
}

/* f16 and bf16 weights and biases give what their widened values give; rank 4 is kt = 1. */
static void test_stored_types(void **unused)
{
    static const zoe_dtype types[] = {ZOE_F16, ZOE_BF16};
    const config c = {.T = 1,
                      .H = 4,
                      .W = 5,
                      .Cin = 7,
                      .Cout = 19,
                      .kernel = {1, 3, 3},
                      .stride = {1, 1, 1},
                      .bias = true};
    const size_t count = c.Cout * c.Cin * 9, shape[] = {c.Cout, c.Cin, 3, 3},
                 outputs = 2 * 3 * c.Cout;
    zoe_context *ctx = zoe_context_new(1);
    float *x = noises(4 * 5 * 7), *w = noises(count), *bias = noises(c.Cout);
    float *y = noises(outputs), *other = noises(outputs);
    uint16_t *stored = malloc(count * sizeof *stored),
             *stored_bias = malloc(c.Cout * sizeof *stored);
    (void)unused;
    assert_true(ctx && stored && stored_bias);
    for (size_t i = 0; i < 2; i++) {
        zoe_conv_weights *packed[2];
        zoe_narrow(stored, types[i], w, count);
        zoe_narrow(stored_bias, types[i], bias, c.Cout);
        zoe_widen(w, stored, types[i], count);
        zoe_widen(bias, stored_bias, types[i], c.Cout);
        const zoe_tensor stored_w = zoe_tensor_of(stored, types[i], 4, shape);
        assert_int_equal(zoe_conv_weights_new(ctx, &packed[0], stored_w,
                                              zoe_tensor_1d(stored_bias, types[i], c.Cout)),
                         ZOE_OK);
        packed[1] = weights_of(ctx, &c, w, bias);
        assert_true(zoe_conv_weights_bytes(stored_w) >= (count + c.Cout) * sizeof(float));
        for (int n = 0; n < 2; n++) {
            zoe_conv3d_args args = args_of(&c, x);
            args.weights = packed[n];
            args.y = zoe_tensor_4d(n ? other : y, ZOE_F32, 1, 2, 3, c.Cout);
            run(ctx, &args);
            zoe_conv_weights_free(packed[n]);
        }
        assert_memory_equal(y, other, outputs * sizeof *y);
    }
    zoe_context_free(ctx);
    free(x), free(w), free(bias), free(y), free(other), free(stored), free(stored_bias);
}

/* A NaN or infinity in one pixel reaches the outputs whose kernel covers it; `reach` pixels further
 * all is finite. */
static void check_nonfinite(const config *c, size_t reach)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    zoe_context *ctx = zoe_context_new(1);
    const size_t inputs = c->T * c->H * c->W * c->Cin, outputs = c->T * c->H * c->W * c->Cout;
    float *x = noises(inputs), *w = noises(c->Cout * c->Cin * 27), *y = noises(outputs);
    assert_non_null(ctx);
    zoe_conv_weights *packed = weights_of(ctx, c, w, NULL);
    for (size_t i = 0; i < 3; i++) {
        zoe_conv3d_args args = args_of(c, x);
        args.weights = packed;
        args.y = zoe_tensor_4d(y, ZOE_F32, c->T, c->H, c->W, c->Cout);
        x[((1 * c->H + 2) * c->W + 0) * c->Cin + 1] = bad[i]; /* frame 1, row 2, column 0 */
        run(ctx, &args);
        for (size_t n = 0; n < outputs; n++) {
            const size_t j = n / c->Cout % c->W, row = n / c->Cout / c->W % c->H;
            const size_t t = n / c->Cout / c->W / c->H;
            const bool covered = t >= 1 && row >= 1 && row <= 3 && j <= 1;
            const bool near = t >= 1 && row + reach >= 1 && row <= 3 + reach && j <= 1 + reach;
            if ((covered && isfinite(y[n])) || (!near && !isfinite(y[n])))
                fail_msg("%g: output %zu, %zu, %zu is %g", (double)bad[i], t, row, j, (double)y[n]);
        }
    }
    zoe_conv_weights_free(packed);
    zoe_context_free(ctx);
    free(x), free(w), free(y);
}

static void test_nonfinite(void **unused)
{
    config c = {.T = 3,
                .H = 5,
                .W = 6,
                .Cin = 4,
                .Cout = 18,
                .kernel = {3, 3, 3},
                .stride = {1, 1, 1},
                .front = 2,
                .top = 1,
                .bottom = 1,
                .left = 1,
                .right = 1};
    (void)unused;
    check_nonfinite(&c, 0);
    c.H = c.W = c.Cin = 16; /* Winograd */
    check_nonfinite(&c, 1);
}

static void refused(zoe_context *ctx, const zoe_conv3d_args *args, zoe_workspace work,
                    zoe_status wanted, const char *sentence)
{
    zoe_context_clear(ctx);
    const zoe_status status = zoe_conv3d(ctx, args, work);
    if (status != wanted || !strstr(zoe_context_message(ctx), sentence))
        fail_msg("%s, \"%s\"; wanted %s, \"%s\"", zoe_status_name(status), zoe_context_message(ctx),
                 zoe_status_name(wanted), sentence);
}

static void test_refusals(void **unused)
{
    const config c = {.T = 2,
                      .H = 4,
                      .W = 4,
                      .Cin = 3,
                      .Cout = 2,
                      .kernel = {3, 3, 3},
                      .stride = {1, 1, 1},
                      .front = 2,
                      .top = 1,
                      .bottom = 1,
                      .left = 1,
                      .right = 1};
    zoe_context *ctx = zoe_context_new(2);
    float *x = noises(5 * 4 * 4 * 3), *w = noises(2 * 3 * 27), *y = noises(2 * 4 * 4 * 2);
    (void)unused;
    assert_non_null(ctx);
    zoe_conv_weights *packed = weights_of(ctx, &c, w, NULL);
    zoe_conv3d_args good = args_of(&c, x), args;
    good.weights = packed;
    good.y = zoe_tensor_4d(y, ZOE_F32, 2, 4, 4, 2);
    zoe_workspace work = {.bytes = zoe_conv3d_workspace(ctx, &good)};
    assert_int_equal(zoe_alloc(ctx, &work.data, work.bytes, 1, "workspace"), ZOE_OK);
    assert_int_equal(zoe_conv3d(ctx, &good, work), ZOE_OK);
#define REFUSED(status, sentence, ...)                                                             \
    do {                                                                                           \
        args = good;                                                                               \
        __VA_ARGS__;                                                                               \
        refused(ctx, &args, work, status, sentence);                                               \
    } while (0)
    REFUSED(ZOE_INVALID, "no weights", args.weights = NULL);
    REFUSED(ZOE_INVALID, "x is i32", args.x.dtype = ZOE_I32);
    REFUSED(ZOE_INVALID, "past is f32 [1, 4, 4, 3], wanted bf16", args.x.dtype = ZOE_BF16,
            args.past = zoe_tensor_4d(x, ZOE_F32, 1, 4, 4, 3));
    REFUSED(ZOE_INVALID, "method 2 cannot do", args.method = ZOE_CONV_WINOGRAD);
    REFUSED(ZOE_INVALID, "has no place", args.dilation_h = 100);
    REFUSED(ZOE_INVALID, "has no place", args.dilation_h = SIZE_MAX / 2);
    REFUSED(ZOE_INVALID, "wanted f32", args.x.rank = 3);
    REFUSED(ZOE_INVALID, "y is f32 [2, 4, 4, 2], wanted", args.x.shape[0] = 0);
    REFUSED(ZOE_INVALID, "axis 2 of x is empty", args.x.shape[2] = 0);
    REFUSED(ZOE_INVALID, "[any, any, any, 3]", args.x.shape[3] = 4);
    REFUSED(ZOE_INVALID, "stride 2 on axis 3, wanted 1", args.x.stride[3] = 2);
    REFUSED(ZOE_INVALID, "wanted at least 1", args.x.stride[1] = -12);
    REFUSED(ZOE_INVALID, "wanted at least 1", args.x.stride[0] = 0);
    REFUSED(ZOE_INVALID, "no data", args.x.data = NULL);
    REFUSED(ZOE_INVALID, "stride 1 x 0 x 1", args.stride_h = 0);
    REFUSED(ZOE_INVALID, "past has 3 frames, wanted at most 2",
            args.past = zoe_tensor_4d(x, ZOE_F32, 3, 4, 4, 3));
    REFUSED(ZOE_INVALID, "past is f32 [1, 4, 3, 3]",
            args.past = zoe_tensor_4d(x, ZOE_F32, 1, 4, 3, 3));
    REFUSED(ZOE_INVALID, "[1, 4, 4, 2]", args.pad_front = 1);
    REFUSED(ZOE_INVALID, "y is f32 [2, 4, 4, 2], wanted f32, f16 or bf16 [2, 8, 8, 2]",
            args.upsample = true);
    REFUSED(ZOE_INVALID, "has no place", args.pad_front = 0);
    REFUSED(ZOE_INVALID, "has no place", args.pad_top = SIZE_MAX);
    REFUSED(ZOE_INVALID, "[2, 4, 4, 2]", args.y.shape[3] = 3);
    REFUSED(ZOE_INVALID, "residual is f32 [2, 4, 4, 1]", args.residual = args.y,
            args.residual.shape[3] = 1);
    REFUSED(ZOE_INVALID, "y overlaps x", args.y.data = x);
    REFUSED(ZOE_INVALID, "y overlaps past", args.past = args.y, args.past.shape[0] = 1,
            args.past.shape[3] = 3, args.pad_front = 1);
    REFUSED(ZOE_INVALID, "without being the same view", args.residual = args.y,
            args.residual.data = y + 1);
    REFUSED(ZOE_NOMEM, "the workspace has 1 bytes", work.bytes = 1);
    work.bytes = zoe_conv3d_workspace(ctx, &good);
    zoe_context_clear(ctx); /* which would also forget the cancelling */
    zoe_cancel(ctx);
    assert_int_equal(zoe_conv3d(ctx, &good, work), ZOE_CANCELLED);
    zoe_free(work.data);
    zoe_conv_weights_free(packed);
    zoe_context_free(ctx);
    free(x), free(w), free(y);
}

/* A sentence names the operator that was called, not the one that it is made of. */
static void test_names(void **unused)
{
    zoe_context *ctx = zoe_context_new(1);
    float x[16] = {0}, y[16];
    const zoe_workspace none = {.bytes = 0};
    const zoe_tensor t = zoe_tensor_4d(x, ZOE_F32, 1, 4, 4, 1);
    zoe_conv_weights *w;
    (void)unused;
    assert_non_null(ctx);
    assert_int_equal(
        zoe_conv_weights_new(ctx, &w, zoe_tensor_4d(x, ZOE_F32, 1, 1, 1, 1), zoe_tensor_none()),
        ZOE_OK);
    zoe_conv2d_args flat = {.y = zoe_tensor_4d(y, ZOE_F32, 1, 4, 4, 1), .x = t, .weights = w};
    assert_int_equal(zoe_conv2d(ctx, &flat, none), ZOE_INVALID);
    assert_string_equal(zoe_context_message(ctx), "conv2d: stride 1 x 0 x 0, wanted at least 1");
    zoe_context_clear(ctx);
    flat.stride_h = flat.stride_w = 1;
    flat.x.dtype = ZOE_I32;
    assert_int_equal(zoe_conv2d(ctx, &flat, none), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "conv2d: x is i32"));
    zoe_context_clear(ctx);
    flat.x = flat.y;
    assert_int_equal(zoe_conv2d(ctx, &flat, none), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "conv2d: y overlaps x"));
    zoe_context_clear(ctx);
    const zoe_causal_conv3d_args causal = {.y = flat.y, .x = t, .weights = w};
    assert_int_equal(zoe_causal_conv3d(ctx, &causal, none), ZOE_INVALID);
    assert_non_null(strstr(zoe_context_message(ctx), "causal_conv3d: stride 0 x 0 x 0"));
    zoe_conv_weights_free(w);
    zoe_context_free(ctx);
}

/* The workspace is asked for before anything is checked. */
static void test_workspace_of_nonsense(void **unused)
{
    static const size_t extents[] = {0, 1, 16, SIZE_MAX / 2, SIZE_MAX};
    const config c = {
        .T = 1, .H = 1, .W = 1, .Cin = 16, .Cout = 16, .kernel = {1, 3, 3}, .stride = {1, 1, 1}};
    zoe_context *ctx = zoe_context_new(2);
    float *w = noises(16 * 16 * 9);
    (void)unused;
    assert_non_null(ctx);
    zoe_conv3d_args args = args_of(&c, w);
    zoe_conv_weights *packed = weights_of(ctx, &c, w, NULL);
    args.weights = packed;
    for (size_t i = 0; i < 125; i++) {
        args.y.shape[0] = extents[i % 5];
        args.y.shape[1] = extents[i / 5 % 5];
        args.y.shape[2] = extents[i / 25];
        assert_true(zoe_conv3d_workspace(ctx, &args) > 0);
        args.upsample = i % 2;
    }
    zoe_conv_weights_free(packed);
    args.weights = NULL;
    assert_int_equal(zoe_conv3d_workspace(ctx, &args), 0);
    zoe_context_free(ctx);
    free(w);
}

static void test_weight_refusals(void **unused)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_conv_weights *packed;
    float w[2 * 3 * 9] = {0};
    const zoe_tensor good = zoe_tensor_4d(w, ZOE_F32, 2, 3, 3, 3), none = zoe_tensor_none();
    zoe_tensor bad;
    (void)unused;
    assert_non_null(ctx);
#define BAD_WEIGHT(...)                                                                            \
    do {                                                                                           \
        bad = good;                                                                                \
        __VA_ARGS__;                                                                               \
        assert_int_equal(zoe_conv_weights_new(ctx, &packed, bad, none), ZOE_INVALID);              \
        assert_null(packed);                                                                       \
    } while (0)
    BAD_WEIGHT(bad.dtype = ZOE_I32);
    BAD_WEIGHT(bad.rank = 3);
    BAD_WEIGHT(bad.rank = 99);
    BAD_WEIGHT(bad.shape[0] = 0);
    BAD_WEIGHT(bad.shape[1] = SIZE_MAX / 8);
    BAD_WEIGHT(bad.shape[0] = SIZE_MAX);
    BAD_WEIGHT(bad.stride[1] = 10);
    assert_int_equal(zoe_conv_weights_new(ctx, &packed, good, zoe_tensor_1d(w, ZOE_F32, 3)),
                     ZOE_INVALID);
    assert_int_equal(zoe_conv_weights_new(ctx, &packed, good, zoe_tensor_1d(w, ZOE_I32, 2)),
                     ZOE_INVALID);
    for (size_t n = 1; n <= 3; n++) {
        zoe_alloc_fail_at(n);
        assert_int_equal(zoe_conv_weights_new(ctx, &packed, good, none), ZOE_NOMEM);
        assert_null(packed);
    }
    zoe_alloc_fail_at(0);
    zoe_conv_weights_free(NULL);
    zoe_context_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uses),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_winograd),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_stored_types),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_weight_refusals),
        cmocka_unit_test(test_workspace_of_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
