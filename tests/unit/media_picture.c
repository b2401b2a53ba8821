/* Reading pictures: every kind against what Pillow gives (data/picture, made by make_pictures.py
 * there), orientation, damage, hostile sizes and paths. */
#define _GNU_SOURCE /* mkdtemp */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "media/media.h"

#define FOLDER ZOE_TEST_DATA "/picture/"

static zoe_context *ctx;

static int begin(void **state)
{
    (void)state;
    ctx = zoe_context_new(2);
    return ctx ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    zoe_context_free(ctx);
    return 0;
}

static bool ends_with(const char *name, const char *suffix)
{
    const size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* The reference beside a picture: a P6 file with 255 as its maximum. */
static zoe_picture reference_of(const char *name)
{
    char path[512];
    zoe_picture p = {0};
    snprintf(path, sizeof path, FOLDER "%s.ppm", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "P6 %zu %zu 255", &p.width, &p.height), 2);
    fgetc(f);
    p.rgb = malloc(3 * p.width * p.height);
    assert_non_null(p.rgb);
    assert_int_equal(fread(p.rgb, 3, p.width * p.height, f), p.width * p.height);
    fclose(f);
    return p;
}

/* JPEG decoders may differ in rounding: everything within 3, nearly everything within 1. CMYK has
 * one product more. */
static bool close_enough(const char *name, const zoe_picture *got, const zoe_picture *want)
{
    const bool lossy = ends_with(name, ".jpg");
    const size_t n = 3 * got->width * got->height;
    size_t over_1 = 0;
    for (size_t i = 0; i < n; i++) {
        const int d = abs(got->rgb[i] - want->rgb[i]);
        if (d > (lossy ? 3 : 0))
            return false;
        over_1 += d > 1;
    }
    return over_1 * 20 <= n;
}

static void every_kind_equals_pillow(void **state)
{
    (void)state;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    size_t compared = 0;
    for (struct dirent *e; (e = readdir(folder));) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s.ppm", e->d_name);
        if (!zoe_file_exists(path))
            continue;
        snprintf(path, sizeof path, FOLDER "%s", e->d_name);
        zoe_picture got, want = reference_of(e->d_name);
        zoe_context_clear(ctx);
        if (zoe_picture_read(ctx, &got, path, false) != ZOE_OK)
            fail_msg("%s", zoe_context_message(ctx));
        if (got.width != want.width || got.height != want.height)
            fail_msg("%s: %zux%zu", e->d_name, got.width, got.height);
        if (!close_enough(e->d_name, &got, &want))
            fail_msg("%s: values differ", e->d_name);
        zoe_picture_free(&got);
        free(want.rgb);
        compared++;
    }
    closedir(folder);
    assert_true(compared >= 60);
}

static zoe_picture must_read(const char *name, bool keep_orientation)
{
    char path[512];
    zoe_picture p;
    snprintf(path, sizeof path, FOLDER "%s", name);
    zoe_context_clear(ctx);
    if (zoe_picture_read(ctx, &p, path, keep_orientation) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    return p;
}

static void alpha_is_dropped_and_told(void **state)
{
    (void)state;
    zoe_picture p = must_read("two_clear.png", false);
    static const uint8_t want[6] = {255, 0, 0, 0, 255, 0};
    assert_int_equal(p.width, 2);
    assert_memory_equal(p.rgb, want, sizeof want);
    assert_true(p.had_alpha);
    zoe_picture_free(&p);
    static const struct {
        const char *name;
        bool had_alpha;
    } rows[] = {{"rgb.png", false},      {"rgba.png", true},         {"grey_alpha.png", true},
                {"palette.png", false},  {"palette_trns.png", true}, {"palette2.png", true},
                {"lossless.webp", true}, {"lossy.webp", false},      {"lossy_alpha.webp", true},
                {"rgba.tif", true},      {"jpeg_420.jpg", false},    {"palette.gif", false},
                {"opaque.png", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        p = must_read(rows[i].name, false);
        if (p.had_alpha != rows[i].had_alpha)
            fail_msg("%s: alpha %d", rows[i].name, p.had_alpha);
        zoe_picture_free(&p);
    }
}

static zoe_picture must_lay_over(const char *name, const uint8_t *background)
{
    char path[512], *data;
    size_t size;
    zoe_picture p;
    snprintf(path, sizeof path, FOLDER "%s", name);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_file_read(ctx, &data, &size, path, 1 << 24), ZOE_OK);
    if (zoe_picture_decode_on(ctx, &p, data, size, false, background) != ZOE_OK)
        fail_msg("%s: %s", name, zoe_context_message(ctx));
    zoe_free(data);
    return p;
}

/* On black a value is v * alpha, on white 255 - alpha more. */
static void pictures_lie_over_a_colour(void **state)
{
    (void)state;
    static const uint8_t black[3] = {0, 0, 0}, white[3] = {255, 255, 255}, red[3] = {200, 10, 30};
    static const uint8_t want[6] = {200, 10, 30, 100, 133, 15};
    zoe_picture p = must_lay_over("two_clear.png", red);
    assert_memory_equal(p.rgb, want, sizeof want);
    assert_true(p.had_alpha);
    zoe_picture_free(&p);
    static const char *const names[] = {"rgba.png",      "rgba16.png", "grey_alpha.png",
                                        "palette2.png",  "rgba.tif",   "palette_trns.png",
                                        "lossless.webp", "rgb.png",    "lossy_alpha.webp",
                                        "grey.gif",      "grey16.png", "jpeg_420.jpg"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        zoe_picture v = must_read(names[i], false), b = must_lay_over(names[i], black),
                    w = must_lay_over(names[i], white);
        bool clear = false;
        for (size_t k = 0; k < 3 * v.width * v.height; k++) {
            const int alpha = 255 - (w.rgb[k] - b.rgb[k]);
            clear |= alpha < 250;
            if (alpha < 0 || alpha > 255 || abs(b.rgb[k] - v.rgb[k] * alpha / 255) > 1)
                fail_msg("%s, value %zu: %d, %d on black, %d on white", names[i], k, v.rgb[k],
                         b.rgb[k], w.rgb[k]);
        }
        assert_int_equal(clear, v.had_alpha);
        zoe_picture_free(&v);
        zoe_picture_free(&b);
        zoe_picture_free(&w);
    }
}

static void orientation_can_be_kept(void **state)
{
    (void)state;
    zoe_picture stored = must_read("turn6_le.jpg", true), shown = must_read("turn6_le.jpg", false);
    assert_int_equal(stored.width, 6);
    assert_int_equal(stored.height, 4);
    assert_int_equal(shown.width, 4);
    assert_int_equal(shown.height, 6);
    /* Turned clockwise: the lower left corner comes to the upper left. */
    assert_memory_equal(shown.rgb, stored.rgb + 3 * 6 * 3, 3);
    zoe_picture_free(&stored);
    zoe_picture_free(&shown);
}

/* Cut anywhere, no file may give a picture or a crash. The last byte or two may be padding or a
 * final mark. */
static void cut_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t idle; /* bytes at the end that the first picture does not need */
    } rows[] = {{"rgb.png", 0},
                {"palette4.png", 0},
                {"rgb_interlaced.png", 0},
                {"jpeg_420.jpg", 0},
                {"jpeg_progressive.jpg", 0},
                {"jpeg_grey.jpg", 0},
                {"lossy.webp", 0},
                {"lossless.webp", 0},
                {"rgb.bmp", 0},
                {"palette.bmp", 0},
                {"one.bmp", 0},
                {"grey.gif", 1},
                {"rgb.ppm", 0},
                {"one.pbm", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[512], *data;
        size_t size;
        snprintf(path, sizeof path, FOLDER "%s", rows[i].name);
        assert_int_equal(zoe_file_read(ctx, &data, &size, path, 1 << 20), ZOE_OK);
        for (size_t n = 0; n < size - rows[i].idle; n++) {
            zoe_picture p;
            zoe_context_clear(ctx);
            const zoe_status status = zoe_picture_decode(ctx, &p, data, n, false);
            if (status != ZOE_FORMAT && status != ZOE_UNSUPPORTED)
                fail_msg("%s cut at %zu of %zu: %s", rows[i].name, n, size,
                         zoe_status_name(status));
            assert_null(p.rgb);
            assert_true(zoe_context_message(ctx)[0] != '\0');
        }
        zoe_free(data);
    }
}

/* Any single changed byte gives a picture or a refusal; the sanitizers watch. */
static void changed_bytes_do_no_harm(void **state)
{
    (void)state;
    static const char *const names[] = {"rgb.png",      "jpeg_420.jpg", "jpeg_progressive.jpg",
                                        "turn5_be.jpg", "lossy.webp",   "turn7.webp",
                                        "palette.bmp",  "rgba.tif",     "turn8.tif",
                                        "palette.gif",  "rgb.ppm"};
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512], *data;
        size_t size;
        snprintf(path, sizeof path, FOLDER "%s", names[i]);
        assert_int_equal(zoe_file_read(ctx, &data, &size, path, 1 << 20), ZOE_OK);
        for (size_t n = 0; n < 400; n++) {
            random = random * 1664525u + 1013904223u;
            const size_t at = n < 100 && n < size ? n : (random >> 8) % size;
            const char before = data[at];
            zoe_picture p;
            data[at] = (char)(random >> 3);
            zoe_context_clear(ctx);
            if (zoe_picture_decode(ctx, &p, data, size, false) == ZOE_OK)
                zoe_picture_free(&p);
            data[at] = before;
        }
        zoe_free(data);
    }
}

static void refusals_name_the_reason(void **state)
{
    (void)state;
    static const struct {
        const char *content;
        size_t size;
        zoe_status status;
        const char *says;
    } rows[] = {
        {"", 0, ZOE_FORMAT, "empty"},
        {"hello, this is text", 19, ZOE_UNSUPPORTED, "no known kind"},
        {"\0\0\0\x1c"
         "ftypavif\0\0\0\0",
         16, ZOE_UNSUPPORTED, "AVIF"},
        {"\0\0\0\x1c"
         "ftypheic\0\0\0\0",
         16, ZOE_UNSUPPORTED, "HEIC"},
        {"\0\0\0\x1c"
         "ftypisom\0\0\0\0",
         16, ZOE_UNSUPPORTED, "MP4"},
        {"P6 100000 100000 255\n", 21, ZOE_UNSUPPORTED, "100000x100000"},
        /* 20000 x 20000, checksum right, and nothing else. */
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x4e\x20\0\0\x4e\x20\x08\x02\0\0\0", 29, ZOE_FORMAT,
         "PNG"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        zoe_picture p;
        zoe_context_clear(ctx);
        assert_int_equal(zoe_picture_decode(ctx, &p, rows[i].content, rows[i].size, false),
                         rows[i].status);
        if (!strstr(zoe_context_message(ctx), rows[i].says))
            fail_msg("row %zu: %s", i, zoe_context_message(ctx));
    }
    zoe_picture p;
    zoe_context_clear(ctx);
    assert_int_equal(zoe_picture_read(ctx, &p, FOLDER "avif.png", false), ZOE_UNSUPPORTED);
    assert_non_null(strstr(zoe_context_message(ctx), "AVIF"));
    zoe_context_clear(ctx);
    assert_int_equal(zoe_picture_read(ctx, &p, FOLDER "nothing.png", false), ZOE_MISSING);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_picture_read(ctx, &p, FOLDER, false), ZOE_IO);
}

/* A PNG and a BMP of 20000 x 20000 are refused before their pixels are asked for. */
static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0,    0, 0,    13,
                                  'I',  'H', 'D', 'R', 0,    0,    0x4e, 0x20, 0,    0, 0x4e, 0x20,
                                  8,    2,   0,   0,   0,    0x6c, 0x12, 0xd1, 0x6e, 0, 0,    0,
                                  0,    'I', 'D', 'A', 'T',  0x35, 0xaf, 0x06, 0x1e};
    uint8_t bmp[54] = {'B',  'M',         [10] = 54, [14] = 40, [18] = 0x20,
                       0x4e, [22] = 0x20, 0x4e,      [26] = 1,  [28] = 24};
    zoe_picture p;
    zoe_context_clear(ctx);
    assert_int_equal(zoe_picture_decode(ctx, &p, bmp, sizeof bmp, false), ZOE_UNSUPPORTED);
    assert_non_null(strstr(zoe_context_message(ctx), "20000x20000"));
    zoe_context_clear(ctx);
    const zoe_status status = zoe_picture_decode(ctx, &p, png, sizeof png, false);
    if (status != ZOE_UNSUPPORTED)
        fail_msg("%s", zoe_context_message(ctx));
    assert_non_null(strstr(zoe_context_message(ctx), "20000x20000"));
}

static void any_path_bytes_work(void **state)
{
    (void)state;
    static const char *const names[] = {"http:a.png", "-x %d.png", "pipe:0", "a\xff\"'\n.jpg",
                                        "\xd0\xba\xd0\xbe\xd1\x82 \xe7\x8c\xab.png"};
    char folder[] = "/tmp/zoe-picture-XXXXXX";
    assert_non_null(mkdtemp(folder));
    zoe_picture p = must_read("rgb.png", false), again;
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        zoe_context_clear(ctx);
        if (zoe_picture_write_png(ctx, names[i], &p, NULL, 0) != ZOE_OK ||
            zoe_picture_read(ctx, &again, names[i], false) != ZOE_OK)
            fail_msg("%s", zoe_context_message(ctx));
        assert_memory_equal(again.rgb, p.rgb, 3 * p.width * p.height);
        zoe_picture_free(&again);
        assert_int_equal(unlink(names[i]), 0);
    }
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left */
    zoe_picture_free(&p);
}

static void failing_memory_is_told(void **state)
{
    (void)state;
    static const char *const names[] = {"rgba.png", "grey16.png", "turn6_le.jpg", "rgba.tif",
                                        "lossy.webp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s", names[i]);
        for (size_t n = 1;; n++) {
            zoe_picture p;
            zoe_context_clear(ctx);
            zoe_alloc_fail_at(n);
            const zoe_status status = zoe_picture_read(ctx, &p, path, false);
            zoe_alloc_fail_at(0);
            if (status == ZOE_OK) {
                assert_true(n > 2);
                zoe_picture_free(&p);
                break;
            }
            if (status != ZOE_NOMEM || p.rgb)
                fail_msg("%s, allocation %zu: %s", names[i], n, zoe_context_message(ctx));
        }
    }
}

static void png_keeps_text(void **state)
{
    (void)state;
    char path[] = "/tmp/zoe-text-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    zoe_picture p = must_read("rgb.png", false), again;
    static const char *const texts[][2] = {
        {"comment", "a plain text\nof two lines"},
        {"zoetrope", "{\"prompt\": \"кот 猫\"}"},
    };
    char *value;
    zoe_context_clear(ctx);
    assert_int_equal(zoe_picture_write_png(ctx, path, &p, texts, 2), ZOE_OK);
    assert_int_equal(zoe_picture_read(ctx, &again, path, false), ZOE_OK);
    assert_memory_equal(again.rgb, p.rgb, 3 * p.width * p.height);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(zoe_media_metadata_read(ctx, path, texts[i][0], &value), ZOE_OK);
        assert_string_equal(value, texts[i][1]);
        zoe_free(value);
    }
    assert_int_equal(zoe_media_metadata_read(ctx, path, "absent", &value), ZOE_MISSING);
    assert_null(value);
    zoe_context_clear(ctx);
    static const char *const bad[][2] = {{" blank first", "x"}};
    assert_int_equal(zoe_picture_write_png(ctx, path, &p, bad, 1), ZOE_INVALID);
    zoe_picture_free(&p);
    zoe_picture_free(&again);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_equals_pillow), cmocka_unit_test(alpha_is_dropped_and_told),
        cmocka_unit_test(orientation_can_be_kept),  cmocka_unit_test(pictures_lie_over_a_colour),
        cmocka_unit_test(cut_files_are_refused),    cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(refusals_name_the_reason), cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(any_path_bytes_work),      cmocka_unit_test(failing_memory_is_told),
        cmocka_unit_test(png_keeps_text),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
