/* SSIM and sums of squares: closed forms, values of an independent program, threads, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "media/media.h"

static zoe_context *ctx;

static int begin(void **state)
{
    (void)state;
    ctx = zoe_context_new(4);
    return ctx ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    zoe_context_free(ctx);
    return 0;
}

enum { W = 37, H = 23, N = 3 * W * H };

/* Bytes of a generator that is easy to repeat: x = 1103515245 x + 12345 (mod 2^31), bits 16..23. */
static void fill(uint8_t *bytes, uint32_t seed)
{
    for (size_t i = 0; i < N; i++) {
        seed = (1103515245u * seed + 12345u) & 0x7fffffffu;
        bytes[i] = (uint8_t)(seed >> 16);
    }
}

static double ssim_of(const uint8_t *a, const uint8_t *b)
{
    double ssim;
    zoe_context_clear(ctx);
    assert_int_equal(zoe_ssim_u8(ctx, &ssim, a, b, W, H), ZOE_OK);
    return ssim;
}

static void equal_pictures_have_1(void **state)
{
    (void)state;
    uint8_t a[N];
    for (uint32_t seed = 1; seed < 20; seed++) {
        fill(a, seed);
        assert_true(ssim_of(a, a) == 1.0);
    }
}

/* Without variance only the first factor is left. */
static void flat_pictures_have_the_closed_form(void **state)
{
    (void)state;
    uint8_t a[N], b[N];
    const double c1 = 2.55 * 2.55;
    for (int v = 0; v < 256; v += 15) {
        memset(a, v, N);
        memset(b, 255 - v, N);
        const double x = v, y = 255 - v;
        assert_true(fabs(ssim_of(a, b) - (2 * x * y + c1) / (x * x + y * y + c1)) < 1e-9);
    }
}

/* From numpy: the same formulas in another order, each map as a whole. */
static void values_of_another_program(void **state)
{
    (void)state;
    uint8_t a[N], b[N];
    fill(a, 1);
    fill(b, 2);
    assert_true(fabs(ssim_of(a, b) - -0.014753719419505078) < 1e-13);
    for (size_t i = 0; i < N; i++)
        b[i] = (uint8_t)((a[i] + 3 * b[i]) / 4);
    assert_true(fabs(ssim_of(a, b) - 0.2903262422364035) < 1e-13);
    for (size_t i = 0; i < N; i++)
        b[i] = (uint8_t)(255 - a[i]);
    assert_true(fabs(ssim_of(a, b) - -0.9699160296058918) < 1e-13);
    assert_int_equal(zoe_squares_u8(a, b, N), 54994825);
    assert_true(fabs(zoe_psnr_u8(a, b, N) - 4.798093512630789) < 1e-12);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    uint8_t a[N], b[N];
    zoe_context *one = zoe_context_new(1);
    double x, y;
    fill(a, 5);
    fill(b, 6);
    assert_int_equal(zoe_ssim_u8(one, &x, a, b, W, H), ZOE_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(zoe_ssim_u8(ctx, &y, a, b, W, H), ZOE_OK);
        assert_memory_equal(&x, &y, sizeof x);
    }
    zoe_context_free(one);
}

static void small_pictures_have_none(void **state)
{
    (void)state;
    uint8_t a[N] = {0};
    double ssim;
    assert_int_equal(zoe_ssim_u8(ctx, &ssim, a, a, 10, 20), ZOE_OK);
    assert_true(isnan(ssim));
    assert_int_equal(zoe_ssim_u8(ctx, &ssim, a, a, 20, 10), ZOE_OK);
    assert_true(isnan(ssim));
    assert_int_equal(zoe_ssim_u8(ctx, &ssim, a, a, 11, 11), ZOE_OK);
    assert_true(ssim == 1.0);
}

static void failing_memory_is_told(void **state)
{
    (void)state;
    uint8_t a[N] = {0};
    double ssim;
    for (size_t n = 1; n <= 2; n++) {
        zoe_context_clear(ctx);
        zoe_alloc_fail_at(n);
        assert_int_equal(zoe_ssim_u8(ctx, &ssim, a, a, W, H), ZOE_NOMEM);
        zoe_alloc_fail_at(0);
        assert_true(isnan(ssim));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_pictures_have_1),
        cmocka_unit_test(flat_pictures_have_the_closed_form),
        cmocka_unit_test(values_of_another_program),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(small_pictures_have_none),
        cmocka_unit_test(failing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
