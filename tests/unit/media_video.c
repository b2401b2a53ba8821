/* Writing videos: counts, rates, colours and metadata as read back by FFmpeg, equal bytes, odd
 * sizes, and every way in which writing can fail. */
#define _GNU_SOURCE /* mkdtemp */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

#include "base/file.h"
#include "media/media.h"

static zoe_context *ctx;
static char folder[64];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/zoe-video-XXXXXX");
    ctx = zoe_context_new(2);
    return ctx && mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    zoe_context_free(ctx);
    return chdir("/") == 0 ? rmdir(folder) : -1; /* fails when a test left a file */
}

static size_t files_here(void)
{
    size_t n = 0;
    DIR *d = opendir(".");
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* A moving gradient with a bright square; smooth, so that 4:2:0 and the encoder lose little. */
static void draw(uint8_t *rgb, size_t w, size_t h, size_t t)
{
    for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++) {
            uint8_t *p = rgb + 3 * (y * w + x);
            p[0] = (uint8_t)(40 + 150 * x / w + 2 * t);
            p[1] = (uint8_t)(60 + 120 * y / h);
            p[2] = (uint8_t)(200 - 100 * x / w);
        }
}

static const char *const texts[][2] = {
    {"comment", "A cat.\nSteps: 40, Seed: 7"},
    {"zoetrope", "{\"prompt\": \"кот 猫\", \"seed\": 7}"},
};

static zoe_video_options options_of(size_t w, size_t h, int num, int den)
{
    return (zoe_video_options){
        .width = w, .height = h, .fps_num = num, .fps_den = den, .metadata = texts, .n_meta = 2};
}

static zoe_status write_video(const char *path, const zoe_video_options *o, size_t frames)
{
    zoe_video *video;
    uint8_t *rgb = malloc(3 * o->width * o->height);
    assert_non_null(rgb);
    zoe_context_clear(ctx);
    zoe_status status = zoe_video_open(ctx, &video, path, o);
    if (status == ZOE_OK) {
        for (size_t t = 0; t < frames && status == ZOE_OK; t++) {
            draw(rgb, o->width, o->height, t);
            status = zoe_video_frame(ctx, video, rgb);
        }
        const zoe_status closed = zoe_video_close(ctx, video);
        status = status == ZOE_OK ? closed : status;
    }
    free(rgb);
    return status;
}

static void must_write(const char *path, const zoe_video_options *o, size_t frames)
{
    if (write_video(path, o, frames) != ZOE_OK)
        fail_msg("%s: %s", path, zoe_context_message(ctx));
}

/* What a reader sees. */
typedef struct seen {
    size_t packets, frames;
    int64_t nb_frames;
    AVRational rate;
    int width, height, range, space, format;
    int64_t last_pts;  /* in frames */
    double worst_luma; /* PSNR of luma against the drawing, limited range */
} seen;

static double luma_psnr(const AVFrame *frame, size_t w, size_t h, size_t t)
{
    uint8_t *rgb = malloc(3 * w * h);
    double squares = 0.0;
    draw(rgb, w, h, t);
    for (size_t i = 0; i < w * h; i++) {
        const uint8_t *p = rgb + 3 * i;
        const double want = 16.0 + (0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2]) * 219.0 / 255.0;
        const double d = frame->data[0][i / w * (size_t)frame->linesize[0] + i % w] - want;
        squares += d * d;
    }
    free(rgb);
    return 10.0 * log10(255.0 * 255.0 * (double)(w * h) / squares);
}

static void take_frames(AVCodecContext *codec, AVPacket *packet, seen *s, size_t w, size_t h)
{
    AVFrame *frame = av_frame_alloc();
    assert_int_equal(avcodec_send_packet(codec, packet), 0);
    while (avcodec_receive_frame(codec, frame) == 0) {
        const double psnr = luma_psnr(frame, w, h, s->frames);
        s->worst_luma = psnr < s->worst_luma ? psnr : s->worst_luma;
        s->range = (int)frame->color_range;
        s->space = (int)frame->colorspace;
        s->format = frame->format;
        s->frames++;
        av_frame_unref(frame);
    }
    av_frame_free(&frame);
}

static seen look_at(const char *path, size_t w, size_t h)
{
    seen s = {.worst_luma = 1e9, .last_pts = -1};
    AVFormatContext *f = NULL;
    assert_int_equal(avformat_open_input(&f, path, NULL, NULL), 0);
    assert_true(avformat_find_stream_info(f, NULL) >= 0);
    assert_int_equal(f->nb_streams, 1);
    const AVStream *stream = f->streams[0];
    AVCodecContext *codec =
        avcodec_alloc_context3(avcodec_find_decoder(stream->codecpar->codec_id));
    assert_int_equal(avcodec_parameters_to_context(codec, stream->codecpar), 0);
    assert_int_equal(avcodec_open2(codec, codec->codec, NULL), 0);
    AVPacket *packet = av_packet_alloc();
    while (av_read_frame(f, packet) == 0) {
        const int64_t pts =
            av_rescale_q(packet->pts, stream->time_base, av_inv_q(stream->avg_frame_rate));
        s.last_pts = pts > s.last_pts ? pts : s.last_pts;
        s.packets++;
        take_frames(codec, packet, &s, w, h);
        av_packet_unref(packet);
    }
    take_frames(codec, NULL, &s, w, h);
    s.nb_frames = stream->nb_frames;
    s.rate = stream->avg_frame_rate;
    s.width = codec->width;
    s.height = codec->height;
    av_packet_free(&packet);
    avcodec_free_context(&codec);
    avformat_close_input(&f);
    return s;
}

static void no_frame_is_lost_or_added(void **state)
{
    (void)state;
    static const struct {
        size_t frames, w, h;
        int num, den;
    } rows[] = {{1, 64, 48, 16, 1},
                {5, 64, 48, 25, 1},
                {9, 64, 48, 24000, 1001},
                {17, 48, 64, 24, 1},
                {50, 80, 48, 30000, 1001}};
    static const char *const paths[] = {"a.mp4", "a.webm"};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const size_t row = i / 2;
        const char *path = paths[i % 2];
        const zoe_video_options o =
            options_of(rows[row].w, rows[row].h, rows[row].num, rows[row].den);
        must_write(path, &o, rows[row].frames);
        assert_int_equal(files_here(), 1);
        const seen s = look_at(path, o.width, o.height);
        assert_int_equal(s.packets, rows[row].frames);
        assert_int_equal(s.frames, rows[row].frames);
        assert_int_equal(s.last_pts, rows[row].frames - 1);
        if (i % 2 == 0)
            assert_int_equal(s.nb_frames, rows[row].frames);
        if (rows[row].frames > 1) { /* WebM tells the rate by the distance of frames */
            assert_int_equal(s.rate.num, rows[row].num);
            assert_int_equal(s.rate.den, rows[row].den);
        }
        assert_int_equal(s.width, o.width);
        assert_int_equal(s.height, o.height);
        assert_int_equal(s.range, AVCOL_RANGE_MPEG);
        assert_int_equal(s.space, AVCOL_SPC_BT709);
        assert_int_equal(s.format, AV_PIX_FMT_YUV420P);
        if (s.worst_luma < 42.0)
            fail_msg("%s: luma PSNR %.1f dB", path, s.worst_luma);
        unlink(path);
    }
}

static void metadata_come_back(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.mp4", "a.webm", "a.png"};
    const zoe_video_options o = options_of(32, 32, 16, 1);
    for (size_t i = 0; i < 3; i++) {
        must_write(paths[i], &o, 1);
        for (size_t k = 0; k < 2; k++) {
            char *value;
            if (zoe_media_metadata_read(ctx, paths[i], texts[k][0], &value) != ZOE_OK)
                fail_msg("%s", zoe_context_message(ctx));
            assert_string_equal(value, texts[k][1]);
            zoe_free(value);
            zoe_context_clear(ctx);
            assert_int_equal(zoe_media_metadata_read(ctx, paths[i], "absent", &value), ZOE_MISSING);
        }
        unlink(paths[i]);
    }
}

/* The same bytes again, whatever the number of threads of the context. */
static void bytes_are_reproducible(void **state)
{
    (void)state;
    static const char *const paths[][2] = {
        {"a.mp4", "b.mp4"}, {"a.webm", "b.webm"}, {"a.y4m", "b.y4m"}};
    const zoe_video_options o = options_of(208, 128, 16, 1);
    zoe_context *two = ctx, *one = zoe_context_new(1);
    for (size_t i = 0; i < 3; i++) {
        char *a, *b;
        size_t na, nb;
        must_write(paths[i][0], &o, 20);
        ctx = one;
        must_write(paths[i][1], &o, 20);
        ctx = two;
        assert_int_equal(zoe_file_read(ctx, &a, &na, paths[i][0], 1 << 24), ZOE_OK);
        assert_int_equal(zoe_file_read(ctx, &b, &nb, paths[i][1], 1 << 24), ZOE_OK);
        assert_int_equal(na, nb);
        assert_memory_equal(a, b, na);
        zoe_free(a);
        zoe_free(b);
        unlink(paths[i][0]);
        unlink(paths[i][1]);
    }
    zoe_context_free(one);
}

static void mp4_has_its_index_first(void **state)
{
    (void)state;
    const zoe_video_options o = options_of(64, 48, 16, 1);
    char *data;
    size_t size;
    must_write("a.mp4", &o, 5);
    assert_int_equal(zoe_file_read(ctx, &data, &size, "a.mp4", 1 << 24), ZOE_OK);
    const char *index = memmem(data, size, "moov", 4), *frames = memmem(data, size, "mdat", 4);
    assert_non_null(index);
    assert_non_null(frames);
    assert_true(index < frames);
    zoe_free(data);
    unlink("a.mp4");
}

static void odd_sizes_are_padded(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{33, 17}, {1, 1}, {34, 15}, {31, 2}};
    static const char *const paths[] = {"a.mp4", "a.webm"};
    for (size_t i = 0; i < 8; i++) {
        const size_t w = sizes[i / 2][0], h = sizes[i / 2][1];
        const zoe_video_options o = options_of(w, h, 16, 1);
        must_write(paths[i % 2], &o, 3);
        const seen s = look_at(paths[i % 2], w, h);
        assert_int_equal(s.frames, 3);
        assert_int_equal(s.width, w + w % 2);
        assert_int_equal(s.height, h + h % 2);
        if (s.worst_luma < 38.0)
            fail_msg("%zux%zu: luma PSNR %.1f dB", w, h, s.worst_luma);
        unlink(paths[i % 2]);
    }
}

static void y4m_is_exact(void **state)
{
    (void)state;
    const zoe_video_options o = options_of(33, 17, 24000, 1001);
    const size_t plane = 33 * 17;
    static const char header[] =
        "YUV4MPEG2 W33 H17 F24000:1001 Ip A1:1 C444 XYSCSS=444 XCOLORRANGE=FULL\n";
    char *data;
    size_t size;
    uint8_t rgb[3 * 33 * 17];
    must_write("a.y4m", &o, 4);
    assert_int_equal(zoe_file_read(ctx, &data, &size, "a.y4m", 1 << 24), ZOE_OK);
    assert_int_equal(size, strlen(header) + 4 * (6 + 3 * plane));
    assert_memory_equal(data, header, strlen(header));
    for (size_t t = 0; t < 4; t++) {
        const char *frame = data + strlen(header) + t * (6 + 3 * plane);
        assert_memory_equal(frame, "FRAME\n", 6);
        const uint8_t *y = (const uint8_t *)frame + 6;
        draw(rgb, 33, 17, t);
        for (size_t i = 0; i < plane; i++) {
            const double u = y[plane + i] - 128.0, v = y[2 * plane + i] - 128.0;
            assert_true(fabs(y[i] + 1.402 * v - rgb[3 * i]) < 1.5);
            assert_true(fabs(y[i] - 0.344136 * u - 0.714136 * v - rgb[3 * i + 1]) < 1.5);
            assert_true(fabs(y[i] + 1.772 * u - rgb[3 * i + 2]) < 1.5);
        }
    }
    zoe_free(data);
    unlink("a.y4m");
}

static void grey_stays_grey(void **state)
{
    (void)state;
    zoe_video *video;
    uint8_t rgb[3 * 256];
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i / 3);
    const zoe_video_options o = options_of(256, 1, 1, 1);
    char *data;
    size_t size;
    assert_int_equal(zoe_video_open(ctx, &video, "g.y4m", &o), ZOE_OK);
    assert_int_equal(zoe_video_frame(ctx, video, rgb), ZOE_OK);
    assert_int_equal(zoe_video_close(ctx, video), ZOE_OK);
    assert_int_equal(zoe_file_read(ctx, &data, &size, "g.y4m", 1 << 24), ZOE_OK);
    const uint8_t *y = (const uint8_t *)data + size - 3 * 256;
    for (size_t i = 0; i < 256; i++) {
        assert_int_equal(y[i], i);
        assert_int_equal(y[256 + i], 128);
        assert_int_equal(y[512 + i], 128);
    }
    zoe_free(data);
    unlink("g.y4m");
}

static void nothing_stands_before_the_end(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.mp4", "a.webm", "a.y4m", "a.png"};
    const zoe_video_options o = options_of(64, 48, 16, 1);
    uint8_t rgb[3 * 64 * 48];
    draw(rgb, 64, 48, 0);
    for (size_t i = 0; i < 4; i++) {
        zoe_video *video;
        assert_int_equal(zoe_video_open(ctx, &video, paths[i], &o), ZOE_OK);
        assert_int_equal(zoe_video_frame(ctx, video, rgb), ZOE_OK);
        assert_false(zoe_file_exists(paths[i]));
        zoe_video_abort(video);
        assert_int_equal(files_here(), 0);
    }
    zoe_video_abort(NULL);
}

static void what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        zoe_video_options options;
        zoe_status status;
    } rows[] = {
        {"a.avi", {.width = 16, .height = 16, .fps_num = 16, .fps_den = 1}, ZOE_INVALID},
        {"mp4", {.width = 16, .height = 16, .fps_num = 16, .fps_den = 1}, ZOE_INVALID},
        {".mp4", {.width = 16, .height = 16, .fps_num = 16, .fps_den = 1}, ZOE_INVALID},
        {"a.mp4", {.width = 0, .height = 16, .fps_num = 16, .fps_den = 1}, ZOE_INVALID},
        {"a.mp4", {.width = 16, .height = 20000, .fps_num = 16, .fps_den = 1}, ZOE_INVALID},
        {"a.mp4", {.width = 16, .height = 16, .fps_num = 16, .fps_den = 0}, ZOE_INVALID},
        {"a.mp4", {.width = 16, .height = 16, .fps_num = -16, .fps_den = 1}, ZOE_INVALID},
        {"a.mp4",
         {.width = 16, .height = 16, .fps_num = 16, .fps_den = 1, .quality = 60},
         ZOE_INVALID},
        {"no/such/a.mp4", {.width = 16, .height = 16, .fps_num = 16, .fps_den = 1}, ZOE_IO},
        {"no/such/a.png", {.width = 16, .height = 16, .fps_num = 16, .fps_den = 1}, ZOE_IO},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        zoe_video *video;
        zoe_context_clear(ctx);
        assert_int_equal(zoe_video_probe(ctx, rows[i].path, &rows[i].options), rows[i].status);
        assert_non_null(strstr(zoe_context_message(ctx), rows[i].path));
        assert_int_equal(zoe_video_open(ctx, &video, rows[i].path, &rows[i].options),
                         rows[i].status);
        assert_null(video);
    }
    const zoe_video_options o = options_of(16, 16, 16, 1);
    assert_int_equal(zoe_video_probe(ctx, "a.MP4", &o), ZOE_OK);
    assert_int_equal(zoe_video_probe(ctx, "-", &o), ZOE_OK);
    assert_int_equal(write_video("a.png", &o, 2), ZOE_INVALID);
    assert_int_equal(write_video("a.mp4", &o, 0), ZOE_INVALID);
    assert_int_equal(files_here(), 0);
}

/* A limit on the size of files stands for a full disk. */
static void full_disks_are_told(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.mp4", "a.webm", "a.y4m", "a.png"};
    const zoe_video_options o = options_of(128, 128, 16, 1);
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 100, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < 4; i++) {
        setrlimit(RLIMIT_FSIZE, &small);
        const zoe_status status = write_video(paths[i], &o, i == 3 ? 1 : 20);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(status, ZOE_IO);
        if (!strstr(zoe_context_message(ctx), "File too large"))
            fail_msg("%s", zoe_context_message(ctx));
        assert_int_equal(files_here(), 0);
    }
    signal(SIGXFSZ, SIG_DFL);
}

/* Writes Y4M to a pipe that stands for standard output. The reader takes all of it, or is gone
 * before anything was written. */
static zoe_status write_to_pipe(bool read_it, size_t *got)
{
    int ends[2];
    char buffer[4096];
    const zoe_video_options o = options_of(64, 64, 16, 1);
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    if (!read_it)
        close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    const zoe_status status = write_video("-", &o, 3); /* fits the pipe's buffer */
    dup2(kept, STDOUT_FILENO);
    close(kept);
    *got = 0;
    for (ssize_t n; read_it && (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        *got += (size_t)n;
    if (read_it)
        close(ends[0]);
    return status;
}

static void standard_output_may_break(void **state)
{
    (void)state;
    size_t got;
    assert_int_equal(write_to_pipe(true, &got), ZOE_OK);
    assert_true(got > 3 * 3 * 64 * 64);
    assert_int_equal(write_to_pipe(false, &got),
                     ZOE_IO); /* and SIGPIPE does not end this program */
    assert_non_null(strstr(zoe_context_message(ctx), "Broken pipe"));
}

static void failing_memory_is_told(void **state)
{
    (void)state;
    static const char *const paths[] = {"a.mp4", "a.y4m", "a.png"};
    const zoe_video_options o = options_of(32, 32, 16, 1);
    for (size_t i = 0; i < 3; i++) {
        for (size_t n = 1;; n++) {
            zoe_alloc_fail_at(n);
            const zoe_status status = write_video(paths[i], &o, 1);
            zoe_alloc_fail_at(0);
            if (status == ZOE_OK)
                break;
            assert_int_equal(status, ZOE_NOMEM);
            assert_int_equal(files_here(), 0);
        }
        unlink(paths[i]);
    }
}

static void kinds_are_told_by_suffix(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        zoe_video_kind kind;
    } wanted[] = {
        {"a.mp4", ZOE_VIDEO_MP4},   {"a.MP4", ZOE_VIDEO_MP4},       {"x.y/a.WebM", ZOE_VIDEO_WEBM},
        {"-", ZOE_VIDEO_Y4M},       {"a.Y4m", ZOE_VIDEO_Y4M},       {"a.PNG", ZOE_VIDEO_PNG},
        {"a.b.png", ZOE_VIDEO_PNG}, {"x.mp4/a", ZOE_VIDEO_UNKNOWN}, {".mp4", ZOE_VIDEO_UNKNOWN},
        {"", ZOE_VIDEO_UNKNOWN},    {"a.mp4x", ZOE_VIDEO_UNKNOWN},  {"a.", ZOE_VIDEO_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_int_equal(zoe_video_kind_of(wanted[i].path), wanted[i].kind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_told_by_suffix),
        cmocka_unit_test(no_frame_is_lost_or_added),
        cmocka_unit_test(metadata_come_back),
        cmocka_unit_test(bytes_are_reproducible),
        cmocka_unit_test(mp4_has_its_index_first),
        cmocka_unit_test(odd_sizes_are_padded),
        cmocka_unit_test(y4m_is_exact),
        cmocka_unit_test(grey_stays_grey),
        cmocka_unit_test(nothing_stands_before_the_end),
        cmocka_unit_test(what_cannot_be_written_is_refused),
        cmocka_unit_test(full_disks_are_told),
        cmocka_unit_test(standard_output_may_break),
        cmocka_unit_test(failing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
