/* Gradients of norms. */
#include <math.h>

#include "check.h"

void check_grad_sums(const char *name, zoe_kernel_grad_sums *c, zoe_kernel_grad_sums *g,
                     double tolerance)
{
    for (size_t s = 0; s < WIDTHS; s++)
        for (int round = 0; round < 2; round++) {
            const size_t n = widths[s];
            guarded dy = values(n, round == 1), x = values(n, false), w = values(n, false);
            const float *d = dy.data, *p = x.data, *q = w.data;
            double want[2] = {0.5, 0.25}, got[2] = {0.5, 0.25}, scale = 1.0;
            for (size_t i = 0; i < n; i++)
                scale += fabs((double)(d[i] * q[i])) * (1.0 + fabs((double)p[i] * 1.7));
            c(want, d, p, q, 0.3f, 1.7f, n);
            g(got, d, p, q, 0.3f, 1.7f, n);
            for (size_t i = 0; i < 2; i++)
                if (isfinite(want[i]) && isfinite(scale))
                    close_to_double(name, n, i, got[i], want[i], scale, tolerance);
                else if (isfinite(got[i]) != isfinite(want[i]))
                    close_to_double(name, n, i, got[i], want[i], 0.0, tolerance);
            guarded_free(dy);
            guarded_free(x);
            guarded_free(w);
        }
    enum { N = 5120 };
    guarded x = values(N, false), w = values(N, false);
    double sums[2] = {0.0, 0.0};
    BENCH(N, c, g, sums, x.data, x.data, w.data, 0.3f, 1.7f, N);
    guarded_free(x);
    guarded_free(w);
}

void check_grad_apply(const char *name, zoe_kernel_grad_apply *c, zoe_kernel_grad_apply *g,
                      double tolerance)
{
    for (size_t s = 0; s < WIDTHS; s++)
        for (int round = 0; round < 4; round++) {
            const size_t n = widths[s], bytes = n * sizeof(float);
            guarded dy = values(n, round & 1), x = values(n, round & 1), w = values(n, false);
            guarded sums[4] = {values(n, false), values(n, false)};
            sums[2] = guarded_copy(sums[0], bytes);
            sums[3] = guarded_copy(sums[1], bytes);
            guarded want = guarded_new(bytes), got = guarded_copy(dy, bytes);
            zoe_grad_form f = {.mean = 0.3f, .rstd = 1.7f, .plain = -0.2f, .along = 0.6f};
            zoe_grad_form h = f;
            if (round & 2) {
                f.dyv = sums[0].data, f.dys = sums[1].data;
                h.dyv = sums[2].data, h.dys = sums[3].data;
            }
            c(want.data, dy.data, x.data, w.data, &f, n);
            g(got.data, got.data, x.data, w.data, &h, n); /* dx is dy */
            all_close(name, n, got.data, want.data, 0.0, tolerance);
            all_close(name, n, sums[2].data, sums[0].data, 0.0, tolerance);
            all_close(name, n, sums[3].data, sums[1].data, 0.0, tolerance);
            for (size_t i = 0; i < 4; i++)
                guarded_free(sums[i]);
            guarded_free(dy);
            guarded_free(x);
            guarded_free(w);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 5120 };
    guarded x = values(N, false), w = values(N, false), y = guarded_new(N * 4);
    guarded a = values(N, false), b = values(N, false);
    const zoe_grad_form f = {0.3f, 1.7f, -0.2f, 0.6f, a.data, b.data};
    BENCH(N, c, g, y.data, x.data, x.data, w.data, &f, N);
    guarded_free(x);
    guarded_free(w);
    guarded_free(y);
    guarded_free(a);
    guarded_free(b);
}
