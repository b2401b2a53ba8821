/* Y4M out, to a file or to standard output: uncompressed 4:4:4, so that nothing but rounding is
 * lost. */
#define _GNU_SOURCE
#include "media/media.h"
#include "media/parts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

typedef struct y4m_writer {
    zoe_output output; /* unless to_stdout */
    bool to_stdout, started;
    size_t width, height;
    char header[128];
    uint8_t *planes;
} y4m_writer;

static zoe_status write_all(zoe_context *ctx, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = write(STDOUT_FILENO, data, bytes);
        if (n < 0 && errno == EINTR) {
            TRY(zoe_check_cancel(ctx));
            continue;
        }
        if (n < 0)
            return zoe_fail(ctx, ZOE_IO, "cannot write to standard output: %s", strerror(errno));
        data += n;
        bytes -= (size_t)n;
    }
    return ZOE_OK;
}

/* A reader that went away must be an error, not a SIGPIPE that ends the host. The signal comes to
 * the thread that writes: it is held back there and taken out of the queue. */
static zoe_status write_stdout(zoe_context *ctx, const void *data, size_t bytes)
{
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    const zoe_status status = write_all(ctx, data, bytes);
    if (status != ZOE_OK && !was_pending) {
        const struct timespec at_once = {0};
        while (sigtimedwait(&pipe_signal, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static zoe_status put(zoe_context *ctx, y4m_writer *w, const void *data, size_t bytes)
{
    return w->to_stdout ? write_stdout(ctx, data, bytes)
                        : zoe_output_write(ctx, &w->output, data, bytes);
}

static zoe_status y4m_frame(zoe_context *ctx, void *self, const uint8_t *rgb)
{
    y4m_writer *w = self;
    zoe_rgb_to_yuv444(w->planes, rgb, w->width, w->height);
    if (!w->started)
        TRY(put(ctx, w, w->header, strlen(w->header)));
    w->started = true;
    TRY(put(ctx, w, "FRAME\n", 6));
    return put(ctx, w, w->planes, 3 * w->width * w->height);
}

static zoe_status y4m_close(zoe_context *ctx, void *self)
{
    y4m_writer *w = self;
    return w->to_stdout ? ZOE_OK : zoe_output_commit(ctx, &w->output);
}

static void y4m_abort(void *self)
{
    y4m_writer *w = self;
    if (!w->to_stdout)
        zoe_output_abort(&w->output);
    zoe_free(w->planes);
    zoe_free(w);
}

zoe_status zoe_y4m_open(zoe_context *ctx, zoe_writer *writer, const char *path,
                        const zoe_video_options *o)
{
    void *p;
    zoe_status status;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(y4m_writer), "a Y4M writer"));
    y4m_writer *w = p;
    w->width = o->width;
    w->height = o->height;
    w->to_stdout = strcmp(path, "-") == 0;
    snprintf(w->header, sizeof w->header,
             "YUV4MPEG2 W%zu H%zu F%d:%d Ip A1:1 C444 XYSCSS=444 XCOLORRANGE=FULL\n", o->width,
             o->height, o->fps_num, o->fps_den);
    TRY_GOTO(zoe_alloc(ctx, &p, o->width * o->height, 3, "a frame"));
    w->planes = p;
    if (!w->to_stdout)
        TRY_GOTO(zoe_output_open(ctx, &w->output, path));
    *writer = (zoe_writer){w, y4m_frame, y4m_close, y4m_abort};
done:
    if (status != ZOE_OK)
        y4m_abort(w);
    return status;
}
