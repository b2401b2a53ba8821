/* Activations and other element-wise functions. */
#include "check.h"

void check_map(const char *name, zoe_kernel_map *c, zoe_kernel_map *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 10; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round % 2), want = guarded_new(n * 4), got = guarded_new(n * 4);
            c(want.data, x.data, n);
            g(got.data, x.data, n);
            all_close(name, n, got.data, want.data, 0.25, tolerance);
            g(x.data, x.data, n); /* in place */
            all_close(name, n, x.data, got.data, 0.0, 0.0);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
    /* a fine sweep over where the function is curved */
    enum { STEPS = 40001 };
    guarded x = guarded_new(STEPS * 4), want = guarded_new(STEPS * 4), got = guarded_new(STEPS * 4);
    for (size_t i = 0; i < STEPS; i++)
        ((float *)x.data)[i] = (float)((double)i / (STEPS - 1) * 40.0 - 20.0);
    c(want.data, x.data, STEPS);
    g(got.data, x.data, STEPS);
    all_close(name, STEPS, got.data, want.data, 0.25, tolerance);
    BENCH(STEPS / 10, c, g, got.data, x.data, STEPS / 10);
    guarded_free(x);
    guarded_free(want);
    guarded_free(got);
}

void check_pair(const char *name, zoe_kernel_pair *c, zoe_kernel_pair *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 10; round++) {
            const size_t n = widths[w];
            guarded gate = bf16_values(n, round % 2), up = bf16_values(n, false);
            guarded want = guarded_new(n * 4), got = guarded_new(n * 4);
            c(want.data, gate.data, up.data, n);
            g(got.data, gate.data, up.data, n);
            for (size_t i = 0; i < n; i++) {
                const float a = ((float *)gate.data)[i], b = ((float *)up.data)[i];
                const double scale = fabs((double)a * (double)b);
                close_to(name, n, i, ((float *)got.data)[i], ((float *)want.data)[i],
                         isfinite(scale) ? scale : 0.0, tolerance);
            }
            g(round % 2 ? gate.data : up.data, gate.data, up.data, n); /* in place */
            all_close(name, n, round % 2 ? gate.data : up.data, got.data, 0.0, 0.0);
            guarded_free(gate);
            guarded_free(up);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 4096 };
    guarded gate = bf16_values(N, false), up = bf16_values(N, false), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, gate.data, up.data, N);
    guarded_free(gate);
    guarded_free(up);
    guarded_free(y);
}

void check_largest(const char *name, zoe_kernel_largest *c, zoe_kernel_largest *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 10; round++) {
            const size_t n = widths[w];
            const float top = round % 3 ? -INFINITY : random_value();
            guarded x = values(n, round % 2);
            if (round == 5 && n > 0) /* a signalling NaN */
                ((uint32_t *)x.data)[n / 2] = 0x7f800001u;
            close_to(name, n, 0, g(x.data, top, n), c(x.data, top, n), 0.0, tolerance);
            guarded_free(x);
        }
    enum { N = 4096 };
    guarded x = values(N, false);
    BENCH(N, c, g, x.data, 0.0f, N);
    guarded_free(x);
}

void check_exponentials(const char *name, zoe_kernel_exponentials *c, zoe_kernel_exponentials *g,
                        double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 10; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round % 2), want = guarded_new(n * 4), got = guarded_new(n * 4);
            float top = -INFINITY;
            for (size_t i = 0; i < n; i++)
                top = ((float *)x.data)[i] > top ? ((float *)x.data)[i] : top;
            const double sum = c(want.data, x.data, top, n), other = g(got.data, x.data, top, n);
            all_close(name, n, got.data, want.data, 1e-37, tolerance);
            close_to("sum", n, 0, (float)other, (float)sum, 1e-30, tolerance);
            g(x.data, x.data, top, n); /* in place */
            all_close(name, n, x.data, got.data, 0.0, 0.0);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 4096 };
    guarded x = values(N, false), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, x.data, 32.0f, N);
    guarded_free(x);
    guarded_free(y);
}
