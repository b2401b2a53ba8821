/* Activations: the definitions. */
#include "kernel/activation.h"

static const double sqrt_2_over_pi = 0.79788456080286535588;
static const double sqrt_half = 0.70710678118654752440;

/* -inf gives NaN in all, +inf itself, as PyTorch has it. */
float zoe_activation_value(zoe_activation activation, float v)
{
    const double d = (double)v;
    switch (activation) {
    case ZOE_ACT_SILU: return (float)(d / (1.0 + exp(-d)));
    case ZOE_ACT_GELU_TANH:
        return (float)(0.5 * d * (1.0 + tanh(sqrt_2_over_pi * (d + 0.044715 * d * d * d))));
    case ZOE_ACT_GELU_ERF: return (float)(0.5 * d * (1.0 + erf(d * sqrt_half)));
    case ZOE_ACT_GELU_SIGMOID: return (float)(d / (1.0 + exp(-1.702 * d)));
    case ZOE_ACT_NONE: break;
    }
    return v;
}

static void silu_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = zoe_activation_value(ZOE_ACT_SILU, x[i]);
}

static void gelu_tanh_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = zoe_activation_value(ZOE_ACT_GELU_TANH, x[i]);
}

static void gelu_erf_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = zoe_activation_value(ZOE_ACT_GELU_ERF, x[i]);
}

static void gelu_sigmoid_c(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = zoe_activation_value(ZOE_ACT_GELU_SIGMOID, x[i]);
}

static void multiply_c(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void add_c(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static float largest_c(const float *x, float top, size_t n)
{
    for (size_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}

static double exponentials_c(float *y, const float *x, float top, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)exp((double)(x[i] - top));
        sum += (double)y[i];
    }
    return sum;
}

/* GELU of one bf16 value with every elementary step rounded to bf16, in the order of the umT5 code.
 */
static float gelu_bf16_steps(float v)
{
    const float square = zoe_bf16_round(v * v);
    const float cube = zoe_bf16_round(square * v);
    const float inner = zoe_bf16_round(v + zoe_bf16_round(0.044715f * cube));
    const float angle = zoe_bf16_round((float)sqrt_2_over_pi * inner);
    const float t = zoe_bf16_round((float)tanh((double)angle));
    return zoe_bf16_round(zoe_bf16_round(0.5f * v) * zoe_bf16_round(1.0f + t));
}

static void geglu_bf16_c(float *y, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = zoe_bf16_round(gelu_bf16_steps(gate[i]) * up[i]);
}

void zoe_kernels_fill_activation_c(zoe_kernels *k)
{
    k->silu = silu_c;
    k->gelu_tanh = gelu_tanh_c;
    k->gelu_erf = gelu_erf_c;
    k->gelu_sigmoid = gelu_sigmoid_c;
    k->geglu_bf16 = geglu_bf16_c;
    k->multiply = multiply_c;
    k->add = add_c;
    k->largest = largest_c;
    k->exponentials = exponentials_c;
}
