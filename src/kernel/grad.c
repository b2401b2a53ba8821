/* Gradients of norms: the definitions. */
#include "kernel/kernel.h"

static void grad_sums_c(double sums[2], const float *dy, const float *x, const float *w, float mean,
                        float rstd, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float g = dy[i] * w[i], v = (x[i] - mean) * rstd;
        sums[0] += (double)g;
        sums[1] += (double)(g * v);
    }
}

static void grad_apply_c(float *dx, const float *dy, const float *x, const float *w,
                         const zoe_grad_form *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float d = dy[i], v = (x[i] - f->mean) * f->rstd;
        dx[i] = f->rstd * ((d * w[i] - f->plain) - v * f->along);
        if (f->dyv) {
            f->dyv[i] += d * v;
            f->dys[i] += d;
        }
    }
}

void zoe_kernels_fill_grad_c(zoe_kernels *k)
{
    k->grad_sums = grad_sums_c;
    k->grad_apply = grad_apply_c;
}
