/* Reading frames: what was written comes back, colours follow the file's words, folders, and every
 * way in which reading can fail. */
#define _GNU_SOURCE /* mkdtemp */
#include <dirent.h>
#include <fcntl.h>
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

static zoe_context *ctx;
static char folder[64];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zoe-reader-XXXXXX");
    ctx = zoe_context_new(2);
    return ctx && mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    zoe_context_free(ctx);
    return chdir("/") == 0 ? rmdir(folder) : -1; /* fails when a test left a file */
}

enum { W = 64, H = 48, BYTES = 3 * W * H };

/* Smooth, with every hue, moving. */
static void draw(uint8_t *rgb, size_t t)
{
    for (size_t y = 0; y < H; y++)
        for (size_t x = 0; x < W; x++) {
            uint8_t *p = rgb + 3 * (y * W + x);
            p[0] = (uint8_t)(20 + 200 * x / W + 2 * t);
            p[1] = (uint8_t)(30 + 190 * y / H);
            p[2] = (uint8_t)(220 - 100 * x / W - 100 * y / H);
        }
}

static void write_video(const char *path, size_t frames)
{
    const zoe_video_options o = {.width = W, .height = H, .fps_num = 24000, .fps_den = 1001};
    zoe_video *video;
    uint8_t rgb[BYTES];
    zoe_context_clear(ctx);
    assert_int_equal(zoe_video_open(ctx, &video, path, &o), ZOE_OK);
    for (size_t t = 0; t < frames; t++) {
        draw(rgb, t);
        assert_int_equal(zoe_video_frame(ctx, video, rgb), ZOE_OK);
    }
    assert_int_equal(zoe_video_close(ctx, video), ZOE_OK);
}

static void put(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static zoe_video_reader *must_open(const char *path)
{
    zoe_video_reader *r;
    zoe_context_clear(ctx);
    if (zoe_video_read_open(ctx, &r, path) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    return r;
}

/* All frames, into `frames` of them with room for `most`; the first failure's status. */
static zoe_status read_all(const char *path, uint8_t *frames, size_t most, size_t *count)
{
    zoe_video_reader *r;
    bool got = true;
    *count = 0;
    zoe_context_clear(ctx);
    zoe_status status = zoe_video_read_open(ctx, &r, path);
    if (status != ZOE_OK)
        return status;
    const zoe_video_info info = *zoe_video_read_info(r);
    const size_t bytes = 3 * info.width * info.height;
    uint8_t *rgb = malloc(bytes);
    while (status == ZOE_OK && got) {
        status = zoe_video_read_frame(ctx, r, rgb, &got);
        if (!got || status != ZOE_OK)
            break;
        if (frames && *count < most)
            memcpy(frames + *count * bytes, rgb, bytes);
        ++*count;
    }
    free(rgb);
    zoe_video_read_close(r);
    return status;
}

static int worst_of(const uint8_t *a, const uint8_t *b, size_t n)
{
    int worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = abs(a[i] - b[i]) > worst ? abs(a[i] - b[i]) : worst;
    return worst;
}

/* ---- what was written comes back ---- */

static void written_videos_come_back(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        size_t told; /* frames known at the start */
        double psnr;
    } rows[] = {
        {"a.mp4", 9, 44.0}, {"a.webm", 0, 44.0}, {"a.y4m", 0, 50.0}, {"- a:%d\xff.mp4", 9, 44.0}};
    uint8_t *frames = malloc(9 * BYTES), want[BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t count;
        write_video(rows[i].path, 9);
        zoe_video_reader *r = must_open(rows[i].path);
        const zoe_video_info info = *zoe_video_read_info(r);
        zoe_video_read_close(r);
        assert_int_equal(info.width, W);
        assert_int_equal(info.height, H);
        assert_int_equal(info.fps_num, 24000);
        assert_int_equal(info.fps_den, 1001);
        assert_int_equal(info.frames, rows[i].told);
        assert_int_equal(read_all(rows[i].path, frames, 9, &count), ZOE_OK);
        assert_int_equal(count, 9);
        for (size_t t = 0; t < 9; t++) {
            draw(want, t);
            const double psnr = zoe_psnr_u8(want, frames + t * BYTES, BYTES);
            if (psnr < rows[i].psnr)
                fail_msg("%s, frame %zu: PSNR %.2f dB", rows[i].path, t, psnr);
        }
        unlink(rows[i].path);
    }
    free(frames);
}

static void y4m_comes_back_within_1(void **state)
{
    (void)state;
    uint8_t want[BYTES], found[BYTES];
    size_t count;
    write_video("a.y4m", 1);
    draw(want, 0);
    assert_int_equal(read_all("a.y4m", found, 1, &count), ZOE_OK);
    assert_true(worst_of(want, found, BYTES) <= 1);
    unlink("a.y4m");
}

/* Flat frames of full colours: a wrong matrix or range would be off by 10 and more. */
static void full_colours_come_back(void **state)
{
    (void)state;
    static const uint8_t colours[][3] = {{255, 0, 0},   {0, 255, 0}, {0, 0, 255},    {255, 255, 0},
                                         {0, 255, 255}, {0, 0, 0},   {255, 255, 255}};
    static const char *const paths[] = {"a.mp4", "a.webm", "a.y4m"};
    const zoe_video_options o = {.width = W, .height = H, .fps_num = 16, .fps_den = 1};
    uint8_t want[BYTES], found[BYTES];
    for (size_t i = 0; i < 3 * sizeof colours / sizeof colours[0]; i++) {
        zoe_video *video;
        size_t count;
        for (size_t k = 0; k < BYTES; k++)
            want[k] = colours[i / 3][k % 3];
        assert_int_equal(zoe_video_open(ctx, &video, paths[i % 3], &o), ZOE_OK);
        assert_int_equal(zoe_video_frame(ctx, video, want), ZOE_OK);
        assert_int_equal(zoe_video_close(ctx, video), ZOE_OK);
        assert_int_equal(read_all(paths[i % 3], found, 1, &count), ZOE_OK);
        const int worst = worst_of(want, found, BYTES);
        if (worst > 3)
            fail_msg("%s, colour %zu: off by %d", paths[i % 3], i / 3, worst);
        unlink(paths[i % 3]);
    }
}

/* ---- colours by the file's words ---- */

static void colours_follow_the_words(void **state)
{
    (void)state;
#define LIMITED "XCOLORRANGE=LIMITED"
#define FULL "XCOLORRANGE=FULL"
#define GREY2 "\x80\x80"
    static const struct {
        const char *name, *words, *planes;
        size_t width, height, bytes;
        uint8_t rgb[12];
    } rows[] = {
        {"limited black and white",
         "C444 " LIMITED,
         "\x10\xeb" GREY2 GREY2,
         2,
         1,
         6,
         {0, 0, 0, 255, 255, 255}},
        {"full black and white",
         "C444 " FULL,
         "\x00\xff" GREY2 GREY2,
         2,
         1,
         6,
         {0, 0, 0, 255, 255, 255}},
        {"no word: limited", "C444", "\x10\xeb" GREY2 GREY2, 2, 1, 6, {0, 0, 0, 255, 255, 255}},
        {"beyond the range",
         "C444 " LIMITED,
         "\x00\xff" GREY2 GREY2,
         2,
         1,
         6,
         {0, 0, 0, 255, 255, 255}},
        /* BT.601: red has Y 81.48, U 90.20, V 240 */
        {"red", "C444 " LIMITED, "\x51\x5a\xf0", 1, 1, 3, {254, 0, 0}},
        {"grey only", "Cmono", "\x00\x80", 2, 1, 2, {0, 0, 0, 128, 128, 128}},
        /* U is 64, 192; blue = 128 + 1.772 (U - 128), green = 128 - 0.344136 (U - 128) */
        {"chroma amid its pixels",
         "C420jpeg " FULL,
         "\x80\x80\x80\x80\x40\xc0" GREY2,
         4,
         1,
         8,
         {128, 150, 15, 128, 139, 71, 128, 117, 185, 128, 106, 241}},
        {"chroma to the left",
         "C420mpeg2 " FULL,
         "\x80\x80\x80\x80\x40\xc0" GREY2,
         4,
         1,
         8,
         {128, 150, 15, 128, 128, 128, 128, 106, 241, 128, 106, 241}},
        {"chroma between rows",
         "C420jpeg " FULL,
         "\x80\x80\x80\x80\x40\xc0" GREY2,
         1,
         4,
         8,
         {128, 150, 15, 128, 139, 71, 128, 117, 185, 128, 106, 241}},
        {"chroma on top",
         "C420paldv " FULL,
         "\x80\x80\x80\x80\x40\xc0" GREY2,
         1,
         4,
         8,
         {128, 150, 15, 128, 128, 128, 128, 106, 241, 128, 106, 241}},
        {"ten bits",
         "C444p10 " LIMITED,
         "\x40\x00\xac\x03\x00\x02\x00\x02\x00\x02\x00\x02",
         2,
         1,
         12,
         {0, 0, 0, 255, 255, 255}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t file[256], rgb[12];
        size_t count;
        const int n =
            snprintf((char *)file, sizeof file, "YUV4MPEG2 W%zu H%zu F1:1 Ip A1:1 %s\nFRAME\n",
                     rows[i].width, rows[i].height, rows[i].words);
        memcpy(file + n, rows[i].planes, rows[i].bytes);
        put("c.y4m", file, (size_t)n + rows[i].bytes);
        if (read_all("c.y4m", rgb, 1, &count) != ZOE_OK)
            fail_msg("%s: %s", rows[i].name, zoe_context_message(ctx));
        assert_int_equal(count, 1);
        for (size_t k = 0; k < 3 * rows[i].width * rows[i].height; k++)
            if (rgb[k] != rows[i].rgb[k])
                fail_msg("%s: value %zu is %d, wanted %d", rows[i].name, k, rgb[k], rows[i].rgb[k]);
    }
    unlink("c.y4m");
}

/* ---- other sources ---- */

static void gif_has_all_its_frames(void **state)
{
    (void)state;
    zoe_picture p;
    size_t count;
    assert_int_equal(zoe_picture_read(ctx, &p, ZOE_TEST_DATA "/picture/palette.gif", false),
                     ZOE_OK);
    uint8_t *frames = malloc(6 * p.width * p.height);
    assert_int_equal(read_all(ZOE_TEST_DATA "/picture/palette.gif", frames, 2, &count), ZOE_OK);
    assert_int_equal(count, 2);
    assert_memory_equal(frames, p.rgb, 3 * p.width * p.height);
    assert_memory_not_equal(frames + 3 * p.width * p.height, p.rgb, 3 * p.width * p.height);
    free(frames);
    zoe_picture_free(&p);
}

static void one_picture_is_one_frame(void **state)
{
    (void)state;
    zoe_picture p;
    uint8_t rgb[3 * 4 * 6];
    size_t count;
    assert_int_equal(zoe_picture_read(ctx, &p, ZOE_TEST_DATA "/picture/turn6.png", false), ZOE_OK);
    zoe_video_reader *r = must_open(ZOE_TEST_DATA "/picture/turn6.png");
    assert_int_equal(zoe_video_read_info(r)->width, 4);
    assert_int_equal(zoe_video_read_info(r)->height, 6);
    assert_int_equal(zoe_video_read_info(r)->frames, 1);
    assert_int_equal(zoe_video_read_info(r)->fps_num, 0);
    zoe_video_read_close(r);
    assert_int_equal(read_all(ZOE_TEST_DATA "/picture/turn6.png", rgb, 1, &count), ZOE_OK);
    assert_int_equal(count, 1);
    assert_memory_equal(rgb, p.rgb, sizeof rgb);
    zoe_picture_free(&p);
}

static void put_dot(const char *path, size_t width, uint8_t value)
{
    uint8_t rgb[6];
    memset(rgb, value, sizeof rgb);
    const zoe_picture p = {width, 1, rgb, false};
    zoe_context_clear(ctx);
    assert_int_equal(zoe_picture_write_png(ctx, path, &p, NULL, 0), ZOE_OK);
}

/* The value of each frame of folder "d", which holds dots. */
static void expect_dots(const uint8_t *values, size_t n)
{
    uint8_t rgb[30];
    size_t count;
    if (read_all("d", rgb, 10, &count) != ZOE_OK)
        fail_msg("%s", zoe_context_message(ctx));
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(rgb[3 * i], values[i]);
}

static void expect_refusal(const char *path, zoe_status status, const char *text)
{
    size_t count;
    const zoe_status found = read_all(path, NULL, 0, &count);
    if (found != status || !strstr(zoe_context_message(ctx), text))
        fail_msg("%s: %s: %s", path, zoe_status_name(found), zoe_context_message(ctx));
}

static void folders_are_read_in_order(void **state)
{
    (void)state;
    assert_int_equal(mkdir("d", 0777), 0);
    put("d/notes.txt", "x", 1);
    expect_refusal("d", ZOE_MISSING, "d: there is no .png, .jpg or .jpeg");
    put_dot("d/b.png", 1, 30);
    put_dot("d/a10.PNG", 1, 20);
    put_dot("d/Z.jpeg", 1, 10);
    put_dot("d/.png", 1, 99);
    expect_dots((const uint8_t[]){10, 20, 30}, 3);
    put_dot("d/frame_00009.png", 1, 1);
    put_dot("d/frame_00010.png", 1, 2);
    put_dot("d/frame_1.png", 1, 99);
    expect_dots((const uint8_t[]){1, 2}, 2);
    put_dot("d/frame_00012.png", 1, 4);
    expect_refusal("d", ZOE_MISSING, "d: frame_00011.png is missing after frame_00010.png");
    put_dot("d/frame_00011.png", 2, 3);
    expect_refusal("d", ZOE_FORMAT, "d/frame_00011.png: the picture is 2x1, those before are 1x1");
    put_dot("d/frame_00011.png", 1, 3);
    expect_dots((const uint8_t[]){1, 2, 3, 4}, 4);
    put_dot("d/frame_000011.png", 1, 3);
    expect_refusal("d", ZOE_FORMAT, "same number");
    static const char *const names[] = {
        "notes.txt",       "b.png",           "a10.PNG",     "Z.jpeg",          ".png",
        "frame_00009.png", "frame_00010.png", "frame_1.png", "frame_00012.png", "frame_00011.png",
        "frame_000011.png"};
    assert_int_equal(chdir("d"), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(names[i]);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(rmdir("d"), 0);
}

/* A pipe can bring Y4M, which shows by itself whether it is whole. */
static void pipes_bring_y4m(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.y4m", "a.webm"};
    for (size_t i = 0; i < 2; i++) {
        char *data, path[32];
        size_t size, count;
        int ends[2];
        write_video(paths[i], 2);
        assert_int_equal(zoe_file_read(ctx, &data, &size, paths[i], 1 << 24), ZOE_OK);
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(write(ends[1], data, size), size); /* fits the pipe's buffer */
        close(ends[1]);
        snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
        if (i == 0) {
            assert_int_equal(read_all(path, NULL, 0, &count), ZOE_OK);
            assert_int_equal(count, 2);
        } else {
            expect_refusal(path, ZOE_UNSUPPORTED, "only Y4M is read from a pipe");
        }
        close(ends[0]);
        zoe_free(data);
        unlink(paths[i]);
    }
}

/* ---- failures ---- */

static void refusals_name_the_reason(void **state)
{
    (void)state;
    put("empty", "", 0);
    put("text", "This is no video.", 17);
    put("head", "YUV4MPEG2 W2 H1 F1:1 C444\n", 26);
    put("huge", "YUV4MPEG2 W400000 H400000 F1:1 C444\nFRAME\n", 42);
    expect_refusal("absent.mp4", ZOE_MISSING, "absent.mp4: ");
    expect_refusal("empty", ZOE_FORMAT, "empty: the file is empty");
    expect_refusal("text", ZOE_UNSUPPORTED, "text: no known kind of picture or video");
    expect_refusal("head", ZOE_FORMAT, "head: there are no frames in this video");
    expect_refusal("huge", ZOE_FORMAT, "huge: the video is broken");
    expect_refusal(ZOE_TEST_DATA "/picture/avif.png", ZOE_UNSUPPORTED, "AVIF is not read");
    unlink("empty");
    unlink("text");
    unlink("head");
    unlink("huge");
}

/* No video that is cut off passes for a shorter one. */
static void cut_files_are_refused(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.mp4", "a.webm", "a.y4m",
                                        ZOE_TEST_DATA "/picture/palette.gif"};
    for (size_t i = 0; i < 4; i++) {
        char *data;
        size_t size, count;
        if (i < 3)
            write_video(paths[i], 3);
        assert_int_equal(zoe_file_read(ctx, &data, &size, paths[i], 1 << 24), ZOE_OK);
        const size_t step = size / 120 + 1;
        for (size_t n = 1; n < size; n = n + step < size || n == size - 1 ? n + step : size - 1) {
            put("cut", data, n);
            if (read_all("cut", NULL, 0, &count) == ZOE_OK &&
                !(i == 2 && count > 0 && (size - n) % (6 + BYTES) == 0))
                fail_msg("%s, %zu of %zu bytes: %zu frames", paths[i], n, size, count);
            assert_string_not_equal(zoe_context_message(ctx), "");
        }
        zoe_free(data);
        unlink("cut");
        if (i < 3)
            unlink(paths[i]);
    }
}

static void changed_bytes_do_no_harm(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.mp4", "a.webm", "a.y4m",
                                        ZOE_TEST_DATA "/picture/palette.gif"};
    uint32_t random = 1;
    for (size_t i = 0; i < 4; i++) {
        char *data;
        size_t size, count;
        if (i < 3)
            write_video(paths[i], 3);
        assert_int_equal(zoe_file_read(ctx, &data, &size, paths[i], 1 << 24), ZOE_OK);
        for (size_t n = 0; n < 100; n++) {
            random = 1664525u * random + 1013904223u;
            const size_t at = n < 60 ? n * 7 % 300 : random % size;
            const char before = data[at % size];
            data[at % size] = (char)(random >> 24);
            put("changed", data, size);
            if (read_all("changed", NULL, 0, &count) != ZOE_OK)
                assert_string_not_equal(zoe_context_message(ctx), "");
            data[at % size] = before;
        }
        zoe_free(data);
        unlink("changed");
        if (i < 3)
            unlink(paths[i]);
    }
}

static void failing_memory_is_told(void **state)
{
    (void)state;
    assert_int_equal(mkdir("d", 0777), 0);
    put_dot("d/frame_00000.png", 1, 1);
    put_dot("d/frame_00001.png", 1, 1);
    write_video("a.y4m", 2);
    static const char *const paths[] = {"d", "d/frame_00000.png", "a.y4m"};
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 1;; n++) {
            size_t count;
            zoe_alloc_fail_at(n);
            const zoe_status status = read_all(paths[i], NULL, 0, &count);
            zoe_alloc_fail_at(0);
            if (status == ZOE_OK) {
                assert_true(n > 3);
                break;
            }
            if (status != ZOE_NOMEM)
                fail_msg("%s, allocation %zu: %s", paths[i], n, zoe_context_message(ctx));
        }
    unlink("a.y4m");
    unlink("d/frame_00000.png");
    unlink("d/frame_00001.png");
    rmdir("d");
}

static void cancelling_stops(void **state)
{
    (void)state;
    zoe_context *own = zoe_context_new(1);
    zoe_video_reader *r;
    uint8_t rgb[BYTES];
    bool got;
    write_video("a.y4m", 2);
    assert_int_equal(zoe_video_read_open(own, &r, "a.y4m"), ZOE_OK);
    assert_int_equal(zoe_video_read_frame(own, r, rgb, &got), ZOE_OK);
    zoe_cancel(own);
    assert_int_equal(zoe_video_read_frame(own, r, rgb, &got), ZOE_CANCELLED);
    assert_false(got);
    zoe_video_read_close(r);
    zoe_context_free(own);
    unlink("a.y4m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_videos_come_back),  cmocka_unit_test(y4m_comes_back_within_1),
        cmocka_unit_test(full_colours_come_back),    cmocka_unit_test(colours_follow_the_words),
        cmocka_unit_test(gif_has_all_its_frames),    cmocka_unit_test(one_picture_is_one_frame),
        cmocka_unit_test(folders_are_read_in_order), cmocka_unit_test(pipes_bring_y4m),
        cmocka_unit_test(refusals_name_the_reason),  cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(changed_bytes_do_no_harm),  cmocka_unit_test(failing_memory_is_told),
        cmocka_unit_test(cancelling_stops),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
