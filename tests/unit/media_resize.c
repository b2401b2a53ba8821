/* Size rules and resampling, beyond what the golden data hold: the rounding trap, absurd shapes,
 * equal sizes, threads. */
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
    ctx = zoe_context_new(3);
    return ctx ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    zoe_context_free(ctx);
    return 0;
}

/* Width and height of the picture, area, width and height of the video. */
static void i2v_sizes_round_as_the_reference(void **state)
{
    (void)state;
    static const size_t rows[][5] = {
        {832, 480, 480 * 832, 832, 464},  {480, 832, 480 * 832, 480, 832},
        {640, 360, 640 * 360, 640, 352},  {1280, 720, 720 * 1280, 1280, 720},
        {640, 640, 480 * 832, 624, 624},  {640, 640, 720 * 1280, 960, 960},
        {1216, 832, 480 * 832, 752, 512}, {800, 600, 720 * 1280, 1104, 816},
        {1280, 704, 480 * 832, 848, 464}, {1000, 3, 480 * 832, 11536, 32},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t H = 0, W = 0;
        assert_int_equal(zoe_size_i2v(ctx, &H, &W, rows[i][1], rows[i][0], rows[i][2]), ZOE_OK);
        assert_int_equal(W, rows[i][3]);
        assert_int_equal(H, rows[i][4]);
    }
}

static void ti2v_sizes_round_as_the_reference(void **state)
{
    (void)state;
    static const size_t rows[][5] = {
        {1280, 720, 704 * 1280, 1248, 704}, {720, 1280, 704 * 1280, 704, 1248},
        {1280, 704, 704 * 1280, 1280, 704}, {1024, 1024, 704 * 1280, 960, 928},
        {1216, 832, 704 * 1280, 1152, 768}, {800, 600, 704 * 1280, 1088, 800},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t H = 0, W = 0;
        assert_int_equal(zoe_size_ti2v(ctx, &H, &W, rows[i][1], rows[i][0], rows[i][2]), ZOE_OK);
        assert_int_equal(W, rows[i][3]);
        assert_int_equal(H, rows[i][4]);
    }
}

static void absurd_shapes_are_refused(void **state)
{
    (void)state;
    static const size_t rows[][3] = {
        {1000, 1, 480 * 832}, {1, 1000, 480 * 832}, {0, 5, 480 * 832},        {5, 0, 480 * 832},
        {100, 100, 0},        {100, 100, 100},      {1, SIZE_MAX, 480 * 832}, {10, 10, SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t H, W;
        zoe_context_clear(ctx);
        assert_int_equal(zoe_size_i2v(ctx, &H, &W, rows[i][1], rows[i][0], rows[i][2]),
                         ZOE_INVALID);
        assert_true(zoe_context_message(ctx)[0] != '\0');
        assert_int_equal(zoe_size_ti2v(ctx, &H, &W, rows[i][1], rows[i][0], rows[i][2]),
                         ZOE_INVALID);
    }
}

static zoe_picture drawing(size_t w, size_t h)
{
    zoe_picture p = {w, h, malloc(3 * w * h), true};
    uint32_t random = 5;
    assert_non_null(p.rgb);
    for (size_t i = 0; i < 3 * w * h; i++) {
        random = random * 1664525u + 1013904223u;
        p.rgb[i] = (uint8_t)(random >> 24);
    }
    return p;
}

static void equal_sizes_change_nothing(void **state)
{
    (void)state;
    zoe_picture in = drawing(17, 9), out;
    float planes[3 * 17 * 9], again[3 * 17 * 9];
    assert_int_equal(zoe_resize_lanczos(ctx, &out, 17, 9, &in), ZOE_OK);
    assert_memory_equal(out.rgb, in.rgb, 3 * 17 * 9);
    assert_true(out.had_alpha);
    zoe_picture_free(&out);
    zoe_picture_to_planes(planes, &in);
    assert_true(planes[0] == ((float)in.rgb[0] / 255.0f - 0.5f) / 0.5f);
    assert_true(planes[17 * 9 + 1] == ((float)in.rgb[4] / 255.0f - 0.5f) / 0.5f);
    assert_int_equal(zoe_resize_bicubic(ctx, again, 9, 17, planes, 3, 9, 17), ZOE_OK);
    assert_memory_equal(again, planes, sizeof planes);
    free(in.rgb);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    zoe_context *alone = zoe_context_new(1);
    zoe_picture in = drawing(61, 47), a, b;
    assert_int_equal(zoe_picture_cover(ctx, &a, 96, 32, &in), ZOE_OK);
    assert_int_equal(zoe_picture_cover(alone, &b, 96, 32, &in), ZOE_OK);
    assert_int_equal(a.width, 96);
    assert_int_equal(a.height, 32);
    assert_memory_equal(a.rgb, b.rgb, 3 * 96 * 32);
    zoe_picture_free(&a);
    zoe_picture_free(&b);
    free(in.rgb);
    zoe_context_free(alone);
}

/* A white picture stays white in every rule: the weights of each place sum to one. */
static void flat_pictures_stay_flat(void **state)
{
    (void)state;
    zoe_picture in = drawing(31, 23), out;
    float planes[3 * 31 * 23], big[3 * 50 * 40];
    memset(in.rgb, 255, 3 * 31 * 23);
    assert_int_equal(zoe_resize_lanczos(ctx, &out, 50, 5, &in), ZOE_OK);
    for (size_t i = 0; i < 3 * 50 * 5; i++)
        assert_int_equal(out.rgb[i], 255);
    zoe_picture_to_planes(planes, &in);
    assert_int_equal(zoe_resize_bicubic(ctx, big, 40, 50, planes, 3, 23, 31), ZOE_OK);
    for (size_t i = 0; i < 3 * 50 * 40; i++)
        assert_true(fabsf(big[i] - 1.0f) < 1e-6f);
    zoe_picture_free(&out);
    free(in.rgb);
}

static void single_pixels_can_grow(void **state)
{
    (void)state;
    zoe_picture in = drawing(1, 1), out;
    const float one = 0.25f;
    float many[12];
    assert_int_equal(zoe_resize_lanczos(ctx, &out, 4, 3, &in), ZOE_OK);
    for (size_t i = 0; i < 36; i++)
        assert_int_equal(out.rgb[i], in.rgb[i % 3]);
    zoe_picture_free(&out);
    assert_int_equal(zoe_resize_bicubic(ctx, many, 4, 3, &one, 1, 1, 1), ZOE_OK);
    for (size_t i = 0; i < 12; i++)
        assert_true(fabsf(many[i] - one) < 1e-7f);
    free(in.rgb);
}

static void failing_memory_is_told(void **state)
{
    (void)state;
    zoe_picture in = drawing(61, 47), out;
    for (size_t n = 1;; n++) {
        zoe_context_clear(ctx);
        zoe_alloc_fail_at(n);
        const zoe_status status = zoe_picture_cover(ctx, &out, 96, 32, &in);
        zoe_alloc_fail_at(0);
        if (status == ZOE_OK)
            break;
        assert_int_equal(status, ZOE_NOMEM);
        assert_null(out.rgb);
    }
    zoe_picture_free(&out);
    free(in.rgb);
}

static void psnr_of_known_errors(void **state)
{
    (void)state;
    const uint8_t a[4] = {0, 10, 20, 255}, b[4] = {1, 9, 21, 254};
    const float x[2] = {1.0f, -1.0f}, y[2] = {0.5f, -0.5f}, bad[2] = {NAN, 0.0f};
    assert_true(fabs(zoe_psnr_u8(a, b, 4) - 20.0 * log10(255.0)) < 1e-12);
    assert_true(isinf(zoe_psnr_u8(a, a, 4)));
    assert_true(fabs(zoe_psnr(x, y, 2, 2.0) - 20.0 * log10(4.0)) < 1e-12);
    assert_true(isinf(zoe_psnr(x, x, 2, 2.0)));
    assert_true(isnan(zoe_psnr(x, bad, 2, 2.0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(i2v_sizes_round_as_the_reference),
        cmocka_unit_test(ti2v_sizes_round_as_the_reference),
        cmocka_unit_test(absurd_shapes_are_refused),
        cmocka_unit_test(equal_sizes_change_nothing),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(flat_pictures_stay_flat),
        cmocka_unit_test(single_pixels_can_grow),
        cmocka_unit_test(failing_memory_is_told),
        cmocka_unit_test(psnr_of_known_errors),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
