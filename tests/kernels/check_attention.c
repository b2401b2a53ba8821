/* Attention: products, packing, the steps of a softmax, and the merging of parts. */
#include "check.h"

/* The power of a softmax, element by element, against double: with the maximum at 0, a step turns
 * x <= 0 into 2^x. */
static void power_within_two_ulps(zoe_kernel_softmax_step *g)
{
    enum { N = 16, STEPS = 40000 };
    for (size_t step = 0; step < STEPS; step++) {
        float x[N], y[N], max = 0.0f, sum = 0.0f, factor = 0.0f;
        for (size_t i = 0; i < N; i++)
            x[i] = y[i] = (float)((double)(step * N + i) * (-125.9 / (N * STEPS)));
        g(y, N, 1, N, &max, &sum, &factor);
        for (size_t i = 0; i < N; i++)
            close_to_double("power", N, i, (double)y[i], exp2((double)x[i]), 0.0, 2.0 * 0x1p-23);
    }
}

/* Numbers of rows around the eight or sixteen whose maxima are treated together. */
static size_t rows_of(int round)
{
    static const size_t rows[] = {0, 1, 2, 7, 8, 9, 17};
    return rows[round % 7];
}

void check_softmax_step(const char *name, zoe_kernel_softmax_step *c, zoe_kernel_softmax_step *g,
                        double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 14; round++) {
            const size_t n = widths[w], rows = rows_of(round), stride = n + 3;
            guarded max[2], sum[2], factor[2];
            max[0] = guarded_new(rows * 4);
            sum[0] = guarded_new(rows * 4);
            for (size_t r = 0; r < rows; r++) {
                ((float *)max[0].data)[r] = -INFINITY;
                ((float *)sum[0].data)[r] = 0.0f;
            }
            max[1] = guarded_copy(max[0], rows * 4);
            sum[1] = guarded_copy(sum[0], rows * 4);
            for (int step = 0; step < 3; step++) {
                const size_t count = rows > 0 ? (rows - 1) * stride + n : 0;
                guarded want = values(count, round >= 7);
                float *p = want.data;
                for (size_t i = 0; i < n && rows > 0 && step == 0; i++)
                    p[(rows - 1) * stride + i] = -INFINITY;
                guarded got = guarded_copy(want, count * 4);
                factor[0] = guarded_new(rows * 4);
                factor[1] = guarded_new(rows * 4);
                c(p, stride, rows, n, max[0].data, sum[0].data, factor[0].data);
                g(got.data, stride, rows, n, max[1].data, sum[1].data, factor[1].data);
                all_close(name, count, got.data, p, 1e-30, tolerance);
                all_close("factor", rows, factor[1].data, factor[0].data, 1e-30, tolerance);
                /* the definition adds one after the other, up to half a unit off each time */
                all_close("sum", rows, sum[1].data, sum[0].data, 1e-30,
                          2.0 * tolerance + 3.0 * (double)n * 0x1p-24);
                for (size_t r = 0; r < rows; r++) /* 0 is -0 */
                    close_to_double("max", n, r, (double)((float *)max[1].data)[r],
                                    (double)((float *)max[0].data)[r], 0.0, 0.0);
                guarded_free(want);
                guarded_free(got);
                guarded_free(factor[0]);
                guarded_free(factor[1]);
            }
            for (int i = 0; i < 2; i++) {
                guarded_free(max[i]);
                guarded_free(sum[i]);
            }
        }
    power_within_two_ulps(g);
    enum { N = 256, ROWS = 96 };
    float max[ROWS], sum[ROWS] = {0}, factor[ROWS];
    for (size_t r = 0; r < ROWS; r++)
        max[r] = 40.0f;
    guarded s = values((size_t)N * ROWS, false);
    BENCH((size_t)N * ROWS, c, g, s.data, N, ROWS, N, max, sum, factor);
    guarded_free(s);
}

static void attend_once(const char *name, zoe_kernel_attend *c, zoe_kernel_attend *g, size_t rows,
                        size_t k, bool factors, double tolerance)
{
    const size_t a_stride = k + 3, c_stride = ZOE_PANEL + 2;
    const size_t count = rows > 0 ? (rows - 1) * c_stride + ZOE_PANEL : 0;
    guarded a = values(rows > 0 ? (rows - 1) * a_stride + k : 0, false);
    guarded panel = values(k * ZOE_PANEL, false), f = values(rows, false);
    guarded want = values(count, false), got = guarded_copy(want, count * 4);
    const float *use = factors ? f.data : NULL;
    if (!factors && count > 0) /* what is not read may be anything */
        *(float *)want.data = *(float *)got.data = NAN;
    c(want.data, c_stride, use, a.data, a_stride, panel.data, rows, k);
    g(got.data, c_stride, use, a.data, a_stride, panel.data, rows, k);
    all_close(name, count, got.data, want.data, 4.0 * (double)(k + 1), tolerance);
    guarded_free(a);
    guarded_free(panel);
    guarded_free(f);
    guarded_free(want);
    guarded_free(got);
}

void check_attend(const char *name, zoe_kernel_attend *c, zoe_kernel_attend *g, double tolerance)
{
    static const size_t depths[] = {0, 1, 2, 7, 16, 65, 130};
    for (size_t rows = 0; rows < 30; rows++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (int factors = 0; factors < 2; factors++)
                attend_once(name, c, g, rows, depths[d], factors, tolerance);
    enum { ROWS = 96, K = 128 };
    guarded a = values((size_t)ROWS * K, false), panel = values((size_t)K * ZOE_PANEL, false);
    guarded o = values((size_t)ROWS * ZOE_PANEL, false);
    BENCH((size_t)ROWS * K * ZOE_PANEL, c, g, o.data, ZOE_PANEL, NULL, a.data, K, panel.data, ROWS,
          K);
    guarded_free(a);
    guarded_free(panel);
    guarded_free(o);
}

void check_spread(const char *name, zoe_kernel_spread *c, zoe_kernel_spread *g, double tolerance)
{
    const size_t bytes = zoe_dtype_bytes(dtype_in(name));
    for (size_t w = 0; w < WIDTHS; w++)
        for (size_t k = 0; k < 6; k++) {
            const size_t width = widths[w] % 140, stride = width + 3;
            const size_t panels = (width + ZOE_PANEL - 1) / ZOE_PANEL, distance = k * ZOE_PANEL + 5;
            const size_t out = panels > 0 && k > 0 ? (panels - 1) * distance + k * ZOE_PANEL : 0;
            guarded x = random_bytes(k > 0 ? ((k - 1) * stride + width) * bytes : 0);
            guarded want = guarded_new(out * 4), got = guarded_new(out * 4);
            c(want.data, distance, x.data, (ptrdiff_t)stride, width, k);
            g(got.data, distance, x.data, (ptrdiff_t)stride, width, k);
            all_close(name, out, got.data, want.data, 0.0, tolerance);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
    enum { D = 128, K = 256, STRIDE = 1536 };
    guarded x = random_bytes((size_t)K * STRIDE * bytes), y = guarded_new((size_t)K * D * 4 + 512);
    BENCH((size_t)K * D, c, g, y.data, (size_t)(K + 1) * ZOE_PANEL, x.data, STRIDE, D, K);
    guarded_free(x);
    guarded_free(y);
}

void check_add_weighted(const char *name, zoe_kernel_add_weighted *c, zoe_kernel_add_weighted *g,
                        double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++) {
        const size_t n = widths[w];
        guarded want = values(n, true), got = guarded_copy(want, n * 4), x = values(n, true);
        c(want.data, x.data, 0.3f, n);
        g(got.data, x.data, 0.3f, n);
        all_close(name, n, got.data, want.data, 0.0, tolerance);
        guarded_free(want);
        guarded_free(got);
        guarded_free(x);
    }
    enum { N = 256 };
    guarded y = values(N, false), x = values(N, false);
    BENCH(N, c, g, y.data, x.data, 0.0f, N);
    guarded_free(y);
    guarded_free(x);
}

void check_softmax_bf16(const char *name, zoe_kernel_softmax_bf16 *c, zoe_kernel_softmax_bf16 *g,
                        double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 8; round++) {
            const size_t n = widths[w];
            guarded want = values(n, round & 4), bias = bf16_values(n, false);
            guarded got = guarded_copy(want, n * 4);
            const float *b = round & 1 ? bias.data : NULL;
            const float extra = round & 2 ? 5.3f : 0.0f;
            c(want.data, n, 0.9f, b, extra);
            g(got.data, n, 0.9f, b, extra);
            all_close(name, n, got.data, want.data, 1e-30, tolerance);
            guarded_free(want);
            guarded_free(got);
            guarded_free(bias);
        }
    enum { N = 512 };
    guarded s = values(N, false);
    BENCH(N, c, g, s.data, N, 0.9f, NULL, 0.0f);
    guarded_free(s);
}

void check_scale(const char *name, zoe_kernel_scale *c, zoe_kernel_scale *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++) {
        const size_t n = widths[w];
        guarded want = values(n, true), got = guarded_copy(want, n * 4);
        c(want.data, 0.3f, n);
        g(got.data, 0.3f, n);
        all_close(name, n, got.data, want.data, 0.0, tolerance);
        guarded_free(want);
        guarded_free(got);
    }
    enum { N = 4096 };
    guarded y = values(N, false);
    BENCH(N, c, g, y.data, 1.0f, N);
    guarded_free(y);
}
