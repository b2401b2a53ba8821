/* The projection of latents to colours: fitting, applying, its file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "model/preview.h"

enum { Z = 16 };

/* Colours that follow from the latents by a known map. */
static float truth(size_t k, size_t c)
{
    return 0.02f * (float)((7 * c + 5 * k) % 11) - 0.1f;
}

/* latent [Z, cells] of variance 1; rgb [cells, 3] by the map, and noise of this size. */
static void make_cells(float *latent, float *rgb, size_t cells, float noise, uint64_t seed)
{
    zoe_random random;
    float extra[3];
    zoe_random_seed(&random, seed);
    zoe_random_normal(&random, latent, Z * cells);
    for (size_t i = 0; i < cells; i++) {
        for (size_t k = 0; k < 3; k++) {
            zoe_random_normal(&random, &extra[k], 1);
            rgb[3 * i + k] = 0.4f + noise * extra[k];
            for (size_t c = 0; c < Z; c++)
                rgb[3 * i + k] += truth(k, c) * latent[c * cells + i];
        }
    }
}

static double error_on(const zoe_projection *p, const float *latent, const float *rgb, size_t cells)
{
    double sum = 0.0;
    float *got = malloc(3 * cells * sizeof *got);
    assert_non_null(got);
    zoe_projection_apply(p, got, latent, cells, cells);
    for (size_t i = 0; i < 3 * cells; i++)
        sum += ((double)got[i] - (double)rgb[i]) * ((double)got[i] - (double)rgb[i]);
    free(got);
    return sqrt(sum / (3.0 * (double)cells));
}

static zoe_projection fit_cells(zoe_context *ctx, const float *latent, const float *rgb,
                                size_t cells, double *error)
{
    zoe_projection p;
    zoe_projection_fit *fit;
    assert_int_equal(zoe_projection_fit_new(ctx, &fit, Z), ZOE_OK);
    /* in two parts, as pictures come */
    const size_t half = cells / 2;
    zoe_projection_fit_add(fit, latent, cells, rgb, half);
    zoe_projection_fit_add(fit, latent + half, cells, rgb + 3 * half, cells - half);
    assert_int_equal(zoe_projection_fit_cells(fit), cells);
    assert_int_equal(zoe_projection_fit_solve(ctx, fit, &p, error), ZOE_OK);
    zoe_projection_fit_free(fit);
    return p;
}

static void a_linear_map_is_found(void **state)
{
    zoe_context *ctx = *state;
    enum { CELLS = 4000 };
    static float latent[Z * CELLS], rgb[3 * CELLS];
    double error;
    make_cells(latent, rgb, CELLS, 0.0f, 1);
    const zoe_projection p = fit_cells(ctx, latent, rgb, CELLS, &error);
    for (size_t k = 0; k < 3; k++) {
        assert_float_equal(p.bias[k], 0.4f, 1e-4f);
        for (size_t c = 0; c < Z; c++)
            assert_float_equal(p.weight[k][c], truth(k, c), 1e-4f);
    }
    assert_true(error < 1e-4);
}

/* The error that is told is the one that there is. */
static void the_error_is_told(void **state)
{
    zoe_context *ctx = *state;
    enum { CELLS = 3000 };
    static float latent[Z * CELLS], rgb[3 * CELLS];
    double error;
    make_cells(latent, rgb, CELLS, 0.05f, 2);
    const zoe_projection p = fit_cells(ctx, latent, rgb, CELLS, &error);
    assert_float_equal(error, 0.05, 0.002);
    assert_float_equal(error, error_on(&p, latent, rgb, CELLS), 1e-5);
}

/* The picture of a tiny run, 64 cells of 16 channels with noise: still good on other cells. With
 * less cells than channels there is no unique map, but a sane one. */
static void few_cells_do_not_run_wild(void **state)
{
    zoe_context *ctx = *state;
    enum { MANY = 2000 };
    static float other[Z * MANY], wanted[3 * MANY], latent[Z * 64], rgb[3 * 64];
    make_cells(other, wanted, MANY, 0.05f, 3);
    for (size_t cells = 1; cells <= 64; cells *= 4) {
        make_cells(latent, rgb, cells, 0.05f, 4 + cells);
        const zoe_projection p = fit_cells(ctx, latent, rgb, cells, NULL);
        for (size_t k = 0; k < 3; k++)
            for (size_t c = 0; c < Z; c++)
                assert_true(fabsf(p.weight[k][c]) < 1.0f);
        if (cells == 64)
            assert_true(error_on(&p, other, wanted, MANY) < 0.08);
    }
}

/* One colour everywhere: the map is constant. */
static void a_plain_picture_is_plain(void **state)
{
    zoe_context *ctx = *state;
    static float latent[Z * 64], rgb[3 * 64];
    make_cells(latent, rgb, 64, 0.0f, 9);
    for (size_t i = 0; i < 64; i++)
        memcpy(rgb + 3 * i, (const float[]){0.9f, 0.1f, 0.2f}, 3 * sizeof(float));
    const zoe_projection p = fit_cells(ctx, latent, rgb, 64, NULL);
    assert_float_equal(p.bias[0], 0.9f, 1e-6f);
    assert_float_equal(p.bias[2], 0.2f, 1e-6f);
    for (size_t c = 0; c < Z; c++)
        assert_float_equal(p.weight[1][c], 0.0f, 1e-6f);
}

static void what_cannot_be_fitted_is_refused(void **state)
{
    zoe_context *ctx = *state;
    zoe_projection p;
    zoe_projection_fit *fit;
    float latent[Z] = {0}, rgb[3] = {0};
    assert_int_equal(zoe_projection_fit_new(ctx, &fit, 0), ZOE_UNSUPPORTED);
    assert_int_equal(zoe_projection_fit_new(ctx, &fit, ZOE_PROJECTION_CHANNELS + 1),
                     ZOE_UNSUPPORTED);
    assert_null(fit);
    assert_int_equal(zoe_projection_fit_new(ctx, &fit, Z), ZOE_OK);
    assert_int_equal(zoe_projection_fit_solve(ctx, fit, &p, NULL), ZOE_INVALID);
    latent[3] = NAN;
    zoe_projection_fit_add(fit, latent, 1, rgb, 1);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_projection_fit_solve(ctx, fit, &p, NULL), ZOE_NONFINITE);
    zoe_projection_fit_free(fit);
    for (size_t n = 1; n <= 2; n++) {
        zoe_alloc_fail_at(n);
        const zoe_status status = zoe_projection_fit_new(ctx, &fit, Z);
        zoe_alloc_fail_at(0);
        assert_int_equal(status, ZOE_NOMEM);
        assert_null(fit);
    }
}

static void cells_are_means(void **state)
{
    (void)state;
    enum { H = 4, W = 6 };
    float frame[H * W * 3], rgb[2 * 2 * 3];
    for (size_t y = 0; y < H; y++)
        for (size_t x = 0; x < W; x++)
            for (size_t k = 0; k < 3; k++)
                frame[3 * (y * W + x) + k] = k == 0 ? -1.0f : k == 1 ? 1.0f : (float)(x % 3) - 1.0f;
    frame[3 * (3 * W + 5)] = 1.0f; /* in the last cell, one of six */
    zoe_cell_colours(rgb, 2, 2, frame, H, W);
    for (size_t i = 0; i < 4; i++) {
        assert_float_equal(rgb[3 * i], i == 3 ? 1.0f / 6.0f : 0.0f, 1e-6f);
        assert_float_equal(rgb[3 * i + 1], 1.0f, 1e-6f);
        assert_float_equal(rgb[3 * i + 2], 0.5f, 1e-6f);
    }
}

/* ---- the file ---- */

static const char path[] = "preview-factors-of-the-unit-test.json";

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_file_keeps_the_map(void **state)
{
    zoe_context *ctx = *state;
    zoe_projection p = {.channels = Z}, again;
    for (size_t k = 0; k < 3; k++) {
        p.bias[k] = 0.3f + (float)k;
        for (size_t c = 0; c < Z; c++)
            p.weight[k][c] = truth(k, c) / 3.0f;
    }
    assert_int_equal(zoe_projection_write(ctx, path, &p), ZOE_OK);
    assert_int_equal(zoe_projection_read(ctx, &again, path, Z), ZOE_OK);
    for (size_t k = 0; k < 3; k++) {
        assert_float_equal(again.bias[k], p.bias[k], 1e-6f);
        for (size_t c = 0; c < Z; c++)
            assert_float_equal(again.weight[k][c], p.weight[k][c], 1e-6f);
    }
    assert_int_equal(zoe_projection_read(ctx, &again, path, 48), ZOE_FORMAT);
    assert_non_null(strstr(zoe_context_message(ctx), "16 latent channels, the VAE has 48"));
    unlink(path);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_projection_read(ctx, &again, path, Z), ZOE_MISSING);
}

static void other_files_are_refused(void **state)
{
    zoe_context *ctx = *state;
    zoe_projection p;
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"zoetrope\":\"preview factors\"}",
        "{\"zoetrope\":\"preview factors\",\"channels\":2}",
        "{\"zoetrope\":\"other\",\"channels\":2,\"weight\":[[1,2],[3,4],[5,6]],\"bias\":[1,2,3]}",
        "{\"zoetrope\":\"preview "
        "factors\",\"channels\":2,\"weight\":[[1,2],[3,4]],\"bias\":[1,2,3]}",
        "{\"zoetrope\":\"preview factors\",\"channels\":2,\"weight\":[[1,2],[3,4],[5]],"
        "\"bias\":[1,2,3]}",
        "{\"zoetrope\":\"preview factors\",\"channels\":2,\"weight\":[[1,2],[3,4],[5,6]],"
        "\"bias\":[1,2]}",
        "{\"zoetrope\":\"preview factors\",\"channels\":2,\"weight\":[[1,2],[3,4],[5,6]],"
        "\"bias\":[1,2,\"3\"]}",
        "{\"zoetrope\":\"preview factors\",\"channels\":2,\"weight\":[[1,2],[3,1e30],[5,6]],"
        "\"bias\":[1,2,3]}",
        "{\"zoetrope\":\"preview factors\",\"channels\":2,\"weight\":{},\"bias\":[1,2,3]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_text(texts[i]);
        zoe_context_clear(ctx);
        assert_int_equal(zoe_projection_read(ctx, &p, path, 2), ZOE_FORMAT);
        assert_non_null(strstr(zoe_context_message(ctx), path));
    }
    write_text("{\"zoetrope\":\"preview factors\",\"channels\":2,\"weight\":[[1,2],[3,4],[5,6]],"
               "\"bias\":[7,8,9],\"more\":1}");
    assert_int_equal(zoe_projection_read(ctx, &p, path, 2), ZOE_OK);
    assert_float_equal(p.weight[2][0], 5.0f, 0.0f);
    assert_float_equal(p.bias[2], 9.0f, 0.0f);
    unlink(path);
}

static int set_up(void **state)
{
    *state = zoe_context_new(1);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    zoe_context_free(*state);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_linear_map_is_found),
        TEST(the_error_is_told),
        TEST(few_cells_do_not_run_wild),
        TEST(a_plain_picture_is_plain),
        TEST(what_cannot_be_fitted_is_refused),
        TEST(cells_are_means),
        TEST(a_file_keeps_the_map),
        TEST(other_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
