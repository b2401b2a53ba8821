/* Normalisation and rotation: the definitions. */
#include "kernel/activation.h"

static double sum_c(const float *x, double shift, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] - shift;
    return sum;
}

static double sum_squares_c(const float *x, double shift, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)x[i] - shift;
        sum += d * d;
    }
    return sum;
}

static float maybe_round(float v, bool round)
{
    return round ? zoe_bf16_round(v) : v;
}

static void rms_scale_c(float *y, const float *x, float rstd, const float *gamma, bool round,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = maybe_round(x[i] * rstd, round);
        y[i] = gamma ? maybe_round(v * maybe_round(gamma[i], round), round) : v;
    }
}

static void layer_scale_c(float *y, const float *x, const zoe_layer_scaling *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = ((x[i] - s->mean) - s->mean_rest) * s->rstd;
        if (s->gamma)
            v = v * s->gamma[i] + s->beta[i];
        v = maybe_round(v, s->round);
        if (s->scale)
            v = v * (1.0f + s->scale[i]) + s->shift[i];
        y[i] = v;
    }
}

static void l2_scale_c(float *y, const float *x, float norm, float root, const float *gamma,
                       bool silu, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float v = x[i] / norm * root * gamma[i];
        y[i] = silu ? zoe_activation_value(ZOE_ACT_SILU, v) : v;
    }
}

static void rope_c(float *y, const float *x, const float *cos, const float *sin, size_t pairs)
{
    for (size_t j = 0; j < pairs; j++) {
        const float a = x[2 * j], b = x[2 * j + 1];
        y[2 * j] = a * cos[j] - b * sin[j];
        y[2 * j + 1] = a * sin[j] + b * cos[j];
    }
}

void zoe_kernels_fill_norm_c(zoe_kernels *k)
{
    k->sum = sum_c;
    k->sum_squares = sum_squares_c;
    k->rms_scale = rms_scale_c;
    k->layer_scale = layer_scale_c;
    k->l2_scale = l2_scale_c;
    k->rope = rope_c;
}
