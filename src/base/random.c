/* MT19937 and the normals that torch's CPU generator makes of it.
 *
 * From 16 values on, torch takes logarithm, sine and cosine from single-precision polynomials
 * (Moshier's Cephes library, in AVX2 form). Every operation here is the one that form does for each
 * lane, fused where it fuses, so the bits agree on any cpu. Torch without AVX2 takes them from libm
 * instead and differs in the last bits of about two values in five. */
#include "base/random.h"

enum { WORDS = 624, MIDDLE = 397, BLOCK = 16, HALF = BLOCK / 2 };

static const double PI = 3.14159265358979323846;

void zoe_random_seed(zoe_random *r, uint64_t seed)
{
    r->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        const uint32_t before = r->state[i - 1];
        r->state[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    r->next = WORDS;
    r->kept = 0.0;
    r->has_kept = false;
}

static uint32_t twist(uint32_t high, uint32_t low, uint32_t far)
{
    const uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ (mixed >> 1) ^ (low & 1u ? 0x9908b0dfu : 0u);
}

static void renew(zoe_random *r)
{
    uint32_t *s = r->state;
    for (size_t i = 0; i < WORDS - MIDDLE; i++)
        s[i] = twist(s[i], s[i + 1], s[i + MIDDLE]);
    for (size_t i = WORDS - MIDDLE; i < WORDS - 1; i++)
        s[i] = twist(s[i], s[i + 1], s[i + MIDDLE - WORDS]);
    s[WORDS - 1] = twist(s[WORDS - 1], s[0], s[MIDDLE - 1]);
    r->next = 0;
}

uint32_t zoe_random_word(zoe_random *r)
{
    if (r->next >= WORDS)
        renew(r);
    uint32_t w = r->state[r->next++];
    w ^= w >> 11;
    w ^= (w << 7) & 0x9d2c5680u;
    w ^= (w << 15) & 0xefc60000u;
    return w ^ (w >> 18);
}

/* 24 bits in [0, 1). */
static float uniform_f32(zoe_random *r)
{
    return (float)(zoe_random_word(r) & 0xffffffu) * 0x1p-24f;
}

/* 53 bits in [0, 1); the first word is the high one. */
static double uniform_f64(zoe_random *r)
{
    const uint64_t high = zoe_random_word(r);
    const uint64_t both = (high << 32) | zoe_random_word(r);
    return (double)(both & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* ln x for a normal x > 0. */
static float log_f32(float x)
{
    const uint32_t bits = zoe_bits_of_f32(x);
    float e = (float)((int)(bits >> 23) - 126);
    float m =
        zoe_f32_from_bits((bits & 0x007fffffu) | 0x3f000000u); /* x = m * 2^e, m in [0.5, 1) */
    if (m < 0.707106781186547524f) {
        e -= 1.0f;
        m = (m - 1.0f) + m;
    } else {
        m = m - 1.0f;
    }
    const float z = m * m;
    float y = 7.0376836292e-2f;
    y = fmaf(y, m, -1.1514610310e-1f);
    y = fmaf(y, m, 1.1676998740e-1f);
    y = fmaf(y, m, -1.2420140846e-1f);
    y = fmaf(y, m, 1.4249322787e-1f);
    y = fmaf(y, m, -1.6668057665e-1f);
    y = fmaf(y, m, 2.0000714765e-1f);
    y = fmaf(y, m, -2.4999993993e-1f);
    y = fmaf(y, m, 3.3333331174e-1f);
    y = y * m;
    y = fmaf(y, z, e * -2.12194440e-4f); /* ln 2 comes in two parts, the small one first */
    y = fmaf(-z, 0.5f, y);
    return fmaf(e, 0.693359375f, m + y);
}

/* Sine and cosine of x in [0, 2 pi]. */
static void sincos_f32(float *sine, float *cosine, float x)
{
    const int j = ((int)(x * 1.27323954473516f) + 1) & ~1; /* the octant, made even */
    const float y = (float)j;
    x = fmaf(y, -0.78515625f, x); /* x - j * pi/4 in three parts */
    x = fmaf(y, -2.4187564849853515625e-4f, x);
    x = fmaf(y, -3.77489497744594108e-8f, x);
    const float z = x * x;

    float c = 2.443315711809948e-5f;
    c = fmaf(c, z, -1.388731625493765e-3f);
    c = fmaf(c, z, 4.166664568298827e-2f);
    c = c * z;
    c = fmaf(c, z, -(z * 0.5f));
    c = c + 1.0f;

    float s = -1.9515295891e-4f;
    s = fmaf(s, z, 8.3321608736e-3f);
    s = fmaf(s, z, -1.6666654611e-1f);
    s = s * z;
    s = fmaf(s, x, x);

    const bool swapped = j & 2;
    *sine = swapped ? c : s;
    *cosine = swapped ? s : c;
    if (j & 4)
        *sine = -*sine;
    if (((j - 2) & 4) == 0)
        *cosine = -*cosine;
}

/* Box-Muller on sixteen uniforms in place; the pairs are (i, i + 8). */
static void transform_block(float *block)
{
    const float two_pi = (float)(2.0 * PI);
    for (size_t i = 0; i < HALF; i++) {
        const float radius = sqrtf(-2.0f * log_f32(1.0f - block[i])); /* 1 - u >= 2^-24 */
        float sine, cosine;
        sincos_f32(&sine, &cosine, two_pi * block[i + HALF]);
        /* Torch multiplies by a deviation of 1 and adds a mean of 0, which makes -0 a +0. */
        block[i] = radius * cosine + 0.0f;
        block[i + HALF] = radius * sine + 0.0f;
    }
}

/* One value in double precision; every second one is the kept half of a pair. */
static float normal_single(zoe_random *r)
{
    if (r->has_kept) {
        r->has_kept = false;
        return (float)(r->kept + 0.0);
    }
    const double u1 = uniform_f64(r), u2 = uniform_f64(r);
    const double radius = sqrt(-2.0 * log1p(-u2)), theta = 2.0 * PI * u1;
    r->kept = radius * sin(theta);
    r->has_kept = true;
    return (float)(radius * cos(theta) + 0.0);
}

void zoe_random_normal(zoe_random *r, float *values, size_t n)
{
    if (n < BLOCK) {
        for (size_t i = 0; i < n; i++)
            values[i] = normal_single(r);
        return;
    }
    for (size_t i = 0; i < n; i++)
        values[i] = uniform_f32(r);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK)
        transform_block(values + i);
    if (n % BLOCK != 0) { /* the last sixteen are drawn anew, over values that were ready */
        float *tail = values + (n - BLOCK);
        for (size_t i = 0; i < BLOCK; i++)
            tail[i] = uniform_f32(r);
        transform_block(tail);
    }
}
