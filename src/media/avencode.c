/* MP4 with H.264 and WebM with VP9, on libavformat and libavcodec. Everything goes through our own
 * output functions, so any path bytes work, errors keep their reason, and the muxer never opens a
 * file by itself. */
#include "media/media.h"
#include "media/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"

#define IO_BUFFER 65536

/* Encoders divide the work among this many threads on every machine: x264's output depends on the
 * number. */
#define ENCODER_THREADS 4

typedef struct container_kind {
    const char *muxer, *encoder, *what, *alternatives;
    double quality;
    const char *options[8][2]; /* of the encoder; ends with NULL */
    const char *flags;         /* movflags */
} container_kind;

static const container_kind containers[] = {
    [ZOE_MP4] = {.muxer = "mp4",
                 .encoder = "libx264",
                 .what = "H.264 for .mp4",
                 .alternatives = ".webm, .y4m or .png",
                 .quality = 10.0,
                 /* Its code for AVX-512 gives other bytes for some addresses of its buffers. */
                 .options = {{"preset", "medium"}, {"x264-params", "cpu-independent=1"}},
                 .flags = "+faststart+use_metadata_tags"},
    [ZOE_WEBM] = {.muxer = "webm",
                  .encoder = "libvpx-vp9",
                  .what = "VP9 for .webm",
                  .alternatives = ".mp4, .y4m or .png",
                  .quality = 15.0,
                  .options = {{"deadline", "good"},
                              {"cpu-used", "2"},
                              {"row-mt", "0"},
                              {"tile-columns", "2"},
                              {"auto-alt-ref", "1"},
                              {"lag-in-frames", "25"}}},
};

const char *zoe_video_encoder(zoe_video_kind kind)
{
    return kind == ZOE_VIDEO_MP4    ? containers[ZOE_MP4].encoder
           : kind == ZOE_VIDEO_WEBM ? containers[ZOE_WEBM].encoder
                                    : NULL;
}

typedef struct av_writer {
    zoe_context *ctx;  /* of the call that runs */
    zoe_status status; /* of the first failed write, which FFmpeg may report late or not at all */
    zoe_output output;
    const container_kind *kind;
    AVFormatContext *format;
    AVCodecContext *codec;
    AVStream *stream;
    AVFrame *frame;
    AVPacket *packet;
    size_t width, height; /* of the pictures, before padding */
} av_writer;

/* ---- input and output for the muxer ---- */

static int write_bytes(void *self, uint8_t *data, int bytes)
{
    av_writer *w = self;
    if (w->status == ZOE_OK)
        w->status = zoe_output_write(w->ctx, &w->output, data, (size_t)bytes);
    return w->status == ZOE_OK ? bytes : AVERROR(EIO);
}

static int64_t seek_in(int fd, int64_t offset, int whence)
{
    if (whence == AVSEEK_SIZE) {
        const off_t here = lseek(fd, 0, SEEK_CUR), end = lseek(fd, 0, SEEK_END);
        return here < 0 || end < 0 || lseek(fd, here, SEEK_SET) < 0 ? AVERROR(errno) : end;
    }
    const off_t at = lseek(fd, offset, whence & ~AVSEEK_FORCE);
    return at < 0 ? AVERROR(errno) : at;
}

static int64_t seek_output(void *self, int64_t offset, int whence)
{
    av_writer *w = self;
    return seek_in(w->output.fd, offset, whence);
}

/* The mp4 muxer reads its own file again to move the index to the front. */
static int read_again(void *self, uint8_t *data, int bytes)
{
    const int fd = (int)(intptr_t)self;
    ssize_t n;
    do
        n = read(fd, data, (size_t)bytes);
    while (n < 0 && errno == EINTR);
    return n < 0 ? AVERROR(errno) : n == 0 ? AVERROR_EOF : (int)n;
}

static int64_t seek_again(void *self, int64_t offset, int whence)
{
    return seek_in((int)(intptr_t)self, offset, whence);
}

static int open_again(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                      AVDictionary **options)
{
    av_writer *w = format->opaque;
    (void)url;
    (void)options;
    if (flags & AVIO_FLAG_WRITE)
        return AVERROR(EPERM);
    const int fd = open(w->output.part, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return AVERROR(errno);
    uint8_t *buffer = av_malloc(IO_BUFFER);
    *io = buffer ? avio_alloc_context(buffer, IO_BUFFER, 0, (void *)(intptr_t)fd, read_again, NULL,
                                      seek_again)
                 : NULL;
    if (*io)
        return 0;
    av_free(buffer);
    close(fd);
    return AVERROR(ENOMEM);
}

static void free_io(AVIOContext **io)
{
    if (*io)
        av_freep(&(*io)->buffer);
    avio_context_free(io);
}

static int close_again(AVFormatContext *format, AVIOContext *io)
{
    (void)format;
    close((int)(intptr_t)io->opaque);
    free_io(&io);
    return 0;
}

/* ---- set-up ---- */

zoe_status zoe_av_probe(zoe_context *ctx, zoe_container container)
{
    const container_kind *kind = &containers[container];
    const AVCodec *encoder = avcodec_find_encoder_by_name(kind->encoder);
    if (!encoder)
        return zoe_fail(
            ctx, ZOE_UNSUPPORTED,
            "the FFmpeg of this system has no encoder %s (%s); install one that has it, "
            "or write %s",
            kind->encoder, kind->what, kind->alternatives);
    if (!av_guess_format(kind->muxer, NULL, NULL))
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "the FFmpeg of this system has no muxer %s (%s); install one that has it, "
                        "or write %s",
                        kind->muxer, kind->what, kind->alternatives);
    return ZOE_OK;
}

static zoe_status no_memory(zoe_context *ctx)
{
    return zoe_fail(ctx, ZOE_NOMEM, "no memory for a video encoder");
}

static zoe_status open_codec(zoe_context *ctx, av_writer *w, const zoe_video_options *o)
{
    const AVCodec *encoder = avcodec_find_encoder_by_name(w->kind->encoder);
    AVCodecContext *c = w->codec = avcodec_alloc_context3(encoder);
    AVDictionary *options = NULL;
    char quality[32];
    if (!c)
        return no_memory(ctx);
    int num, den;
    av_reduce(&num, &den, o->fps_num, o->fps_den, INT_MAX);
    c->width = (int)(o->width + (o->width & 1));
    c->height = (int)(o->height + (o->height & 1));
    c->framerate = (AVRational){num, den};
    c->time_base = (AVRational){den, num};
    c->sample_aspect_ratio = (AVRational){1, 1};
    c->pix_fmt = AV_PIX_FMT_YUV420P;
    c->color_range = AVCOL_RANGE_MPEG;
    c->color_primaries = AVCOL_PRI_BT709;
    c->color_trc = AVCOL_TRC_BT709;
    c->colorspace = AVCOL_SPC_BT709;
    c->chroma_sample_location = AVCHROMA_LOC_CENTER;
    c->bit_rate = 0; /* constant quality */
    c->thread_count = ENCODER_THREADS;
    c->flags |= AV_CODEC_FLAG_BITEXACT;
    if (w->format->oformat->flags & AVFMT_GLOBALHEADER)
        c->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    snprintf(quality, sizeof quality, "%g", o->quality > 0.0 ? o->quality : w->kind->quality);
    int error = av_dict_set(&options, "crf", quality, 0);
    for (size_t i = 0; error >= 0 && w->kind->options[i][0]; i++)
        error = av_dict_set(&options, w->kind->options[i][0], w->kind->options[i][1], 0);
    if (error >= 0)
        error = avcodec_open2(c, encoder, &options);
    av_dict_free(&options);
    return error < 0 ? zoe_av_fail(ctx, error, ZOE_INTERNAL, w->kind->encoder) : ZOE_OK;
}

static zoe_status open_frame(zoe_context *ctx, av_writer *w)
{
    w->frame = av_frame_alloc();
    w->packet = av_packet_alloc();
    if (!w->frame || !w->packet)
        return no_memory(ctx);
    w->frame->format = w->codec->pix_fmt;
    w->frame->width = w->codec->width;
    w->frame->height = w->codec->height;
    w->frame->color_range = w->codec->color_range;
    w->frame->colorspace = w->codec->colorspace;
    w->frame->color_primaries = w->codec->color_primaries;
    w->frame->color_trc = w->codec->color_trc;
    const int error = av_frame_get_buffer(w->frame, 0);
    return error < 0 ? zoe_av_fail(ctx, error, ZOE_INTERNAL, "a video frame") : ZOE_OK;
}

static zoe_status open_format(zoe_context *ctx, av_writer *w, const zoe_video_options *o)
{
    AVFormatContext *f = NULL;
    int error = avformat_alloc_output_context2(&f, NULL, w->kind->muxer, NULL);
    w->format = f;
    if (error < 0)
        return zoe_av_fail(ctx, error, ZOE_INTERNAL, w->kind->muxer);
    uint8_t *buffer = av_malloc(IO_BUFFER);
    f->pb =
        buffer ? avio_alloc_context(buffer, IO_BUFFER, 1, w, NULL, write_bytes, seek_output) : NULL;
    if (!f->pb) {
        av_free(buffer);
        return no_memory(ctx);
    }
    f->flags |= AVFMT_FLAG_CUSTOM_IO | AVFMT_FLAG_BITEXACT;
    f->opaque = w;
    f->io_open = open_again;
    f->io_close2 = close_again;
    for (size_t i = 0; error >= 0 && i < o->n_meta; i++)
        error = av_dict_set(&f->metadata, o->metadata[i][0], o->metadata[i][1], 0);
    w->stream = avformat_new_stream(f, NULL);
    return error < 0 || !w->stream ? no_memory(ctx) : ZOE_OK;
}

static zoe_status write_header(zoe_context *ctx, av_writer *w)
{
    AVDictionary *options = NULL;
    int error = avcodec_parameters_from_context(w->stream->codecpar, w->codec);
    w->stream->time_base = w->codec->time_base;
    w->stream->avg_frame_rate = w->codec->framerate;
    w->stream->sample_aspect_ratio = w->codec->sample_aspect_ratio;
    if (error >= 0 && w->kind->flags)
        error = av_dict_set(&options, "movflags", w->kind->flags, 0);
    if (error >= 0)
        error = avformat_write_header(w->format, &options);
    av_dict_free(&options);
    if (w->status != ZOE_OK)
        return w->status;
    return error < 0 ? zoe_av_fail(ctx, error, ZOE_INTERNAL, w->kind->muxer) : ZOE_OK;
}

/* ---- frames ---- */

/* Hands a frame (NULL: no more come) to the encoder and what comes out of it to the muxer. */
static zoe_status encode(zoe_context *ctx, av_writer *w, const AVFrame *frame)
{
    int error = avcodec_send_frame(w->codec, frame);
    while (error >= 0) {
        error = avcodec_receive_packet(w->codec, w->packet);
        if (error == AVERROR(EAGAIN) || error == AVERROR_EOF)
            return ZOE_OK;
        if (error < 0)
            break;
        w->packet->duration = 1; /* in frames */
        w->packet->stream_index = w->stream->index;
        av_packet_rescale_ts(w->packet, w->codec->time_base, w->stream->time_base);
        error = av_interleaved_write_frame(w->format, w->packet);
        if (w->status != ZOE_OK)
            return w->status;
    }
    return zoe_av_fail(ctx, error, ZOE_INTERNAL, w->kind->encoder);
}

static zoe_status av_frame(zoe_context *ctx, void *self, const uint8_t *rgb)
{
    av_writer *w = self;
    w->ctx = ctx;
    const int error = av_frame_make_writable(w->frame);
    if (error < 0)
        return zoe_av_fail(ctx, error, ZOE_INTERNAL, "a video frame");
    zoe_rgb_to_yuv420(w->frame->data, w->frame->linesize, rgb, w->width, w->height);
    TRY(encode(ctx, w, w->frame));
    w->frame->pts++;
    return ZOE_OK;
}

static zoe_status av_close(zoe_context *ctx, void *self)
{
    av_writer *w = self;
    w->ctx = ctx;
    TRY(encode(ctx, w, NULL));
    int error = av_write_trailer(w->format);
    avio_flush(w->format->pb);
    if (error >= 0)
        error = w->format->pb->error;
    if (w->status != ZOE_OK)
        return w->status;
    if (error < 0)
        return zoe_av_fail(ctx, error, ZOE_IO, w->output.path);
    return zoe_output_commit(ctx, &w->output);
}

static void av_abort(void *self)
{
    av_writer *w = self;
    w->status = w->status == ZOE_OK ? ZOE_CANCELLED : w->status; /* nothing is written any more */
    av_packet_free(&w->packet);
    av_frame_free(&w->frame);
    avcodec_free_context(&w->codec);
    if (w->format)
        free_io(&w->format->pb);
    avformat_free_context(w->format);
    zoe_output_abort(&w->output);
    zoe_free(w);
}

zoe_status zoe_av_open(zoe_context *ctx, zoe_writer *writer, const char *path,
                       const zoe_video_options *options, zoe_container container)
{
    void *p;
    zoe_status status;
    zoe_av_quiet();
    TRY(zoe_av_probe(ctx, container));
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(av_writer), "a video encoder"));
    av_writer *w = p;
    w->ctx = ctx;
    w->kind = &containers[container];
    w->width = options->width;
    w->height = options->height;
    TRY_GOTO(open_format(ctx, w, options));
    TRY_GOTO(open_codec(ctx, w, options));
    TRY_GOTO(open_frame(ctx, w));
    TRY_GOTO(zoe_output_open(ctx, &w->output, path));
    TRY_GOTO(write_header(ctx, w));
    w->frame->pts = 0;
    *writer = (zoe_writer){w, av_frame, av_close, av_abort};
done:
    if (status != ZOE_OK)
        av_abort(w);
    return status;
}
