/* Convolution. */
#include "check.h"

void check_conv(const char *name, zoe_kernel_conv *c, zoe_kernel_conv *g, double tolerance)
{
    static const size_t channels[] = {1, 3, 4, 7, 8, 16, 33, 96};
    for (size_t i = 0; i < sizeof channels / sizeof *channels; i++)
        for (size_t taps = 1; taps <= 9; taps += 4)
            for (size_t width = 8; width <= 16; width += 8) {
                const size_t C = channels[i], rows = taps * ZOE_CONV_ROWS;
                guarded x = values(rows * C, false), w = values(taps * C * width, false);
                guarded want = values(ZOE_CONV_ROWS * width, false);
                guarded got = guarded_copy(want, ZOE_CONV_ROWS * width * 4);
                const float *pointers[9 * ZOE_CONV_ROWS];
                for (size_t r = 0; r < rows; r++)
                    pointers[r] = (const float *)x.data + (r * 7 % rows) * C;
                c(want.data, pointers, w.data, taps, C, width);
                g(got.data, pointers, w.data, taps, C, width);
                all_close(name, ZOE_CONV_ROWS * width, got.data, want.data,
                          16.0 * (double)(taps * C), tolerance);
                guarded_free(x);
                guarded_free(w);
                guarded_free(want);
                guarded_free(got);
            }
    enum { TAPS = 9, C = 96, WIDTH = 16 };
    guarded x = values((size_t)TAPS * ZOE_CONV_ROWS * C, false),
            w = values(TAPS * C * WIDTH, false);
    guarded sums = guarded_new((size_t)ZOE_CONV_ROWS * WIDTH * 4);
    const float *pointers[TAPS * ZOE_CONV_ROWS];
    for (size_t r = 0; r < TAPS * ZOE_CONV_ROWS; r++)
        pointers[r] = (const float *)x.data + r * C;
    BENCH((size_t)ZOE_CONV_ROWS * TAPS * C * WIDTH, c, g, sums.data, pointers, w.data, TAPS, C,
          WIDTH);
    guarded_free(x);
    guarded_free(w);
    guarded_free(sums);
}

/* Runs of n floats at a distance, one each place; what lies between is no one's. */
static guarded apart(size_t places, size_t distance, size_t n)
{
    return values((places - 1) * distance + n, false);
}

void check_winograd_weights(const char *name, zoe_kernel_winograd_weights *c,
                            zoe_kernel_winograd_weights *g, double tolerance)
{
    for (size_t n = 8; n <= 104; n += 8) {
        const size_t from = n + n % 3, to = n + n % 5;
        const size_t bytes = (15 * to + n) * sizeof(float);
        guarded taps = apart(9, from, n), want = apart(16, to, n), got = guarded_copy(want, bytes);
        c(want.data, to, taps.data, from, n);
        g(got.data, to, taps.data, from, n);
        all_close(name, 15 * to + n, got.data, want.data, 0.0, tolerance);
        guarded_free(taps);
        guarded_free(want);
        guarded_free(got);
    }
    enum { N = 96 };
    guarded taps = apart(9, N, N), u = apart(16, N, N);
    BENCH(16 * N, c, g, u.data, N, taps.data, N, N);
    guarded_free(taps);
    guarded_free(u);
}

void check_winograd_input(const char *name, zoe_kernel_winograd_input *c,
                          zoe_kernel_winograd_input *g, double tolerance)
{
    for (size_t C = 8; C <= 104; C += 8) {
        const size_t distance = C + C % 3 * 4, bytes = (15 * distance + C) * sizeof(float);
        guarded x = values(16 * C, false), want = apart(16, distance, C);
        guarded got = guarded_copy(want, bytes);
        const float *pixels[16];
        for (size_t i = 0; i < 16; i++)
            pixels[i] = (const float *)x.data + i * 7 % 16 * C;
        c(want.data, distance, pixels, C);
        g(got.data, distance, pixels, C);
        all_close(name, 15 * distance + C, got.data, want.data, 0.0, tolerance);
        guarded_free(x);
        guarded_free(want);
        guarded_free(got);
    }
    enum { N = 96 };
    guarded x = values(16 * N, false), v = guarded_new(16 * N * 4);
    const float *pixels[16];
    for (size_t i = 0; i < 16; i++)
        pixels[i] = (const float *)x.data + i * N;
    BENCH(16 * N, c, g, v.data, N, pixels, N);
    guarded_free(x);
    guarded_free(v);
}

void check_winograd_output(const char *name, zoe_kernel_winograd_output *c,
                           zoe_kernel_winograd_output *g, double tolerance)
{
    for (size_t width = 8; width <= 16; width += 8)
        for (size_t gap = 0; gap < 5; gap++) {
            const size_t distance = width + gap;
            guarded m = apart(16, distance, width), bias = values(width, false);
            guarded want = guarded_new(4 * width * 4), got = guarded_new(4 * width * 4);
            c(want.data, m.data, distance, bias.data, width);
            g(got.data, m.data, distance, bias.data, width);
            all_close(name, 4 * width, got.data, want.data, 0.0, tolerance);
            guarded_free(m);
            guarded_free(bias);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = ZOE_PANEL };
    guarded m = values(16 * N, false), bias = values(N, false), y = guarded_new(4 * N * 4);
    BENCH(4 * N, c, g, y.data, m.data, N, bias.data, N);
    guarded_free(m);
    guarded_free(bias);
    guarded_free(y);
}
