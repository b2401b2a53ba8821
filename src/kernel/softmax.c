/* Softmax over rows of scores: the definitions. */
#include "kernel/kernel.h"

static float softmax_step_c(float *s, size_t n, float scale, const float *bias, float *max,
                            float *sum)
{
    float m = *max;
    for (size_t i = 0; i < n; i++) {
        s[i] = bias ? s[i] * scale + bias[i] : s[i] * scale;
        m = s[i] > m ? s[i] : m; /* passes over NaN, which then shows in the sum */
    }
    /* With nothing above -inf yet, weights must be exp(-inf) = 0 and not exp(-inf + inf). */
    const float origin = m == -INFINITY ? 0.0f : m;
    const float factor = *max == origin ? 1.0f : expf(*max - origin);
    float part = 0.0f;
    for (size_t i = 0; i < n; i++) {
        s[i] = expf(s[i] - origin);
        part += s[i];
    }
    *sum = *sum * factor + part;
    *max = m;
    return factor;
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
