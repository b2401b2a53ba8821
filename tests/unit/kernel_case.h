/* What the checks of kernels share: odd sizes, memory that ends at a page which faults, values,
 * comparison. */
#ifndef KERNEL_CASE_H
#define KERNEL_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernel/kernel.h"

static const size_t widths[] = {0,  1,  2,  3,  5,  7,  8,  9,   15,  16,
                                17, 24, 31, 33, 63, 64, 65, 100, 257, 1025};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* ---- memory that ends at a page which faults ---- */

typedef struct guarded {
    unsigned char *map;
    size_t mapped;
    void *data;
} guarded;

static inline guarded guarded_new(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = (bytes + page - 1) / page * page;
    guarded g = {.mapped = inner + 2 * page};
    g.map = mmap(NULL, g.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g.map, MAP_FAILED);
    if (inner > 0)
        assert_int_equal(mprotect(g.map + page, inner, PROT_READ | PROT_WRITE), 0);
    g.data = g.map + page + inner - bytes;
    return g;
}

static inline void guarded_free(guarded g)
{
    munmap(g.map, g.mapped);
}

static inline guarded guarded_copy(guarded from, size_t bytes)
{
    guarded g = guarded_new(bytes);
    memcpy(g.data, from.data, bytes);
    return g;
}

/* ---- values ---- */

static uint32_t state = 1;

static inline uint32_t random_word(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* Most between -4 and 4, some of other sizes. */
static inline float random_value(void)
{
    const float v = ((float)(random_word() >> 8) * 0x1p-23f - 1.0f) * 4.0f;
    switch (random_word() % 16) {
    case 0: return v * 0x1p-20f;
    case 1: return v * 8.0f;
    default: return v;
    }
}

static inline float special_value(void)
{
    static const float specials[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,      3e38f,  -3e38f,
                                     1e-40f, -1e-40f, 1e-38f,   65504.0f,  65520.0f, 1e19f,  -1e19f,
                                     88.0f,  -88.0f,  104.0f,   -104.0f,   0.625f,   200.0f, 5e-8f};
    return random_word() % 4 ? random_value()
                             : specials[random_word() % (sizeof specials / sizeof *specials)];
}

static inline guarded values(size_t n, bool special)
{
    guarded g = guarded_new(n * sizeof(float));
    float *p = g.data;
    for (size_t i = 0; i < n; i++)
        p[i] = special ? special_value() : random_value();
    return g;
}

static inline guarded bf16_values(size_t n, bool special)
{
    guarded g = values(n, special);
    float *p = g.data;
    for (size_t i = 0; i < n; i++)
        p[i] = zoe_bf16_round(p[i]);
    return g;
}

static inline guarded random_bytes(size_t n)
{
    guarded g = guarded_new(n);
    unsigned char *p = g.data;
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)random_word();
    return g;
}

/* ---- comparison ---- */

static inline void close_to(const char *name, size_t n, size_t i, float got, float want,
                            double scale, double tolerance)
{
    if (isnan(want) && isnan(got))
        return;
    const bool same = zoe_bits_of_f32(got) == zoe_bits_of_f32(want);
    const double size = fabs((double)want) > scale ? fabs((double)want) : scale;
    const double error = fabs((double)got - (double)want);
    if (same || (tolerance > 0.0 && error <= tolerance * size))
        return;
    fail_msg("%s: n = %zu, element %zu: got %.9g, wanted %.9g (scale %g)", name, n, i, (double)got,
             (double)want, scale);
}

static inline void all_close(const char *name, size_t n, const float *got, const float *want,
                             double scale, double tolerance)
{
    for (size_t i = 0; i < n; i++)
        close_to(name, n, i, got[i], want[i], scale, tolerance);
}

#endif
