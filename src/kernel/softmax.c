/* Softmax over rows of scores: the definitions. */
#include "kernel/kernel.h"

static void softmax_step_c(float *s, size_t stride, size_t rows, size_t n, float *max, float *sum,
                           float *factor)
{
    for (size_t r = 0; r < rows; r++, s += stride) {
        float top = max[r];
        for (size_t i = 0; i < n; i++)
            top = s[i] > top ? s[i] : top; /* passes over NaN, which then shows in the sum */
        /* With nothing above -inf yet, weights must be 2^-inf = 0 and not 2^(-inf + inf). */
        const float origin = top == -INFINITY ? 0.0f : top;
        double part = 0.0;
        for (size_t i = 0; i < n; i++) {
            s[i] = exp2f(s[i] - origin);
            part += (double)s[i];
        }
        factor[r] = exp2f(max[r] - origin);
        sum[r] = sum[r] * factor[r] + (float)part;
        max[r] = top;
    }
}

static void softmax_bf16_c(float *s, size_t n, float scale, const float *bias, float extra)
{
    float m = -INFINITY, sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        s[i] = zoe_bf16_round(s[i] * scale);
        if (bias)
            s[i] = zoe_bf16_round(s[i] + bias[i]);
        if (i == n - 1)
            s[i] += extra;
        m = s[i] > m ? s[i] : m;
    }
    for (size_t i = 0; i < n; i++) {
        s[i] = expf(s[i] - m);
        sum += s[i];
    }
    for (size_t i = 0; i < n; i++)
        s[i] = zoe_bf16_round(s[i] / sum);
}

static void scale_c(float *y, float factor, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= factor;
}

void zoe_kernels_fill_softmax_c(zoe_kernels *k)
{
    k->softmax_step = softmax_step_c;
    k->softmax_bf16 = softmax_bf16_c;
    k->scale = scale_c;
}
