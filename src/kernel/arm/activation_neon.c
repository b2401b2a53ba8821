/* Activations: guests for NEON. */
#include "kernel/arm/vector_neon.h"

typedef float32x4_t one_fn(float32x4_t v);
typedef float32x4_t two_fn(float32x4_t a, float32x4_t b);

/* f of each element; two chains of operations run side by side. */
INLINE void map(float *y, const float *x, size_t n, one_fn *f)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const v8 v = load8(x + i, ZOE_F32);
        store8(y + i, (v8){f(v.a), f(v.b)}, ZOE_F32);
    }
    for (; i < n; i += 4)
        store_part(y + i, f(load_part(x + i, n - i)), n - i);
}

INLINE void map_pairs(float *y, const float *a, const float *b, size_t n, two_fn *f)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const v8 v = load8(a + i, ZOE_F32), w = load8(b + i, ZOE_F32);
        store8(y + i, (v8){f(v.a, w.a), f(v.b, w.b)}, ZOE_F32);
    }
    for (; i < n; i += 4)
        store_part(y + i, f(load_part(a + i, n - i), load_part(b + i, n - i)), n - i);
}

static void silu_neon(float *y, const float *x, size_t n)
{
    map(y, x, n, silu_v);
}

static void gelu_tanh_neon(float *y, const float *x, size_t n)
{
    map(y, x, n, gelu_tanh_v);
}

static void gelu_erf_neon(float *y, const float *x, size_t n)
{
    map(y, x, n, gelu_erf_v);
}

static void gelu_sigmoid_neon(float *y, const float *x, size_t n)
{
    map(y, x, n, gelu_sigmoid_v);
}

INLINE float32x4_t product(float32x4_t a, float32x4_t b)
{
    return vmulq_f32(a, b);
}

INLINE float32x4_t sum(float32x4_t a, float32x4_t b)
{
    return vaddq_f32(a, b);
}

static void multiply_neon(float *y, const float *a, const float *b, size_t n)
{
    map_pairs(y, a, b, n, product);
}

static void add_neon(float *y, const float *a, const float *b, size_t n)
{
    map_pairs(y, a, b, n, sum);
}

static float largest_neon(const float *x, float top, size_t n)
{
    float32x4_t high = vdupq_n_f32(top), other = high;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const v8 v = load8(x + i, ZOE_F32);
        high = larger(v.a, high);
        other = larger(v.b, other);
    }
    for (; i < n; i += 4)
        high = larger(load_part_or(x + i, n - i, -INFINITY), high);
    return vmaxvq_f32(larger(other, high));
}

static double exponentials_neon(float *y, const float *x, float top, size_t n)
{
    const float32x4_t t = vdupq_n_f32(top);
    float64x2_t low = vdupq_n_f64(0.0), high = low;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const v8 v = load8(x + i, ZOE_F32);
        const v8 e = {exp_v(vsubq_f32(v.a, t)), exp_v(vsubq_f32(v.b, t))};
        store8(y + i, e, ZOE_F32);
        low = vaddq_f64(low, widened_sum(e.a));
        high = vaddq_f64(high, widened_sum(e.b));
    }
    double total = vaddvq_f64(vaddq_f64(low, high));
    for (; i < n; i++) {
        const float e = vgetq_lane_f32(exp_v(vdupq_n_f32(x[i] - top)), 0);
        y[i] = e;
        total += (double)e;
    }
    return total;
}

INLINE float32x4_t geglu_bf16_v(float32x4_t v, float32x4_t up)
{
    const float32x4_t square = round_to_bf16(vmulq_f32(v, v));
    const float32x4_t cube = round_to_bf16(vmulq_f32(square, v));
    const float32x4_t part = round_to_bf16(vmulq_n_f32(cube, 0.044715f));
    const float32x4_t inner = round_to_bf16(vaddq_f32(v, part));
    const float32x4_t angle = round_to_bf16(vmulq_n_f32(inner, 0.797884560802865f));
    const float32x4_t t = round_to_bf16(tanh_v(angle));
    const float32x4_t weight = round_to_bf16(vaddq_f32(vdupq_n_f32(1.0f), t));
    const float32x4_t half = round_to_bf16(vmulq_n_f32(v, 0.5f));
    return round_to_bf16(vmulq_f32(round_to_bf16(vmulq_f32(half, weight)), up));
}

static void geglu_bf16_neon(float *y, const float *gate, const float *up, size_t n)
{
    map_pairs(y, gate, up, n, geglu_bf16_v);
}

void zoe_kernels_fill_activation_neon(zoe_kernels *k)
{
    k->silu = silu_neon;
    k->gelu_tanh = gelu_tanh_neon;
    k->gelu_erf = gelu_erf_neon;
    k->gelu_sigmoid = gelu_sigmoid_neon;
    k->geglu_bf16 = geglu_bf16_neon;
    k->multiply = multiply_neon;
    k->add = add_neon;
    k->largest = largest_neon;
    k->exponentials = exponentials_neon;
}
