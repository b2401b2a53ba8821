/* Video files in, on libavformat and libavcodec. Bytes come through our own functions: any path, no
 * protocols, and no other file that the content may name. */
#include "media/media.h"
#include "media/parts.h"

#include <errno.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <unistd.h>

#define IO_BUFFER 65536

struct zoe_av_reader {
    zoe_context *ctx; /* of the call that runs */
    int fd;
    int failed; /* errno of the first read that failed */
    bool seekable;
    uint8_t head[ZOE_HEAD_BYTES]; /* of what cannot be read again */
    size_t head_size, head_at;
    AVFormatContext *format;
    AVIOContext *io;
    AVStream *stream;
    AVCodecContext *codec;
    AVFrame *frame;
    AVPacket *packet;
    int64_t end; /* of the last packet, in the file */
    size_t packets;
    int width, height;
};

/* ---- input for the demuxer ---- */

static int read_bytes(void *self, uint8_t *data, int bytes)
{
    zoe_av_reader *r = self;
    if (r->head_at < r->head_size) {
        const size_t left = r->head_size - r->head_at;
        const size_t n = left < (size_t)bytes ? left : (size_t)bytes;
        memcpy(data, r->head + r->head_at, n);
        r->head_at += n;
        return (int)n;
    }
    ssize_t n;
    do
        n = read(r->fd, data, (size_t)bytes);
    while (n < 0 && errno == EINTR && !zoe_cancelled(r->ctx));
    if (n < 0 && !r->failed)
        r->failed = errno;
    return n < 0 ? AVERROR(errno) : n == 0 ? AVERROR_EOF : (int)n;
}

/* Places behind the end are refused, so that files which are cut off are seen. */
static int64_t seek_bytes(void *self, int64_t offset, int whence)
{
    const zoe_av_reader *r = self;
    whence &= ~AVSEEK_FORCE;
    const off_t here = lseek(r->fd, 0, SEEK_CUR), size = lseek(r->fd, 0, SEEK_END);
    if (here < 0 || size < 0)
        return AVERROR(errno);
    const int64_t base = whence == SEEK_CUR ? here : whence == SEEK_END ? size : 0;
    const bool inside = offset >= -base && offset <= size - base;
    const off_t at = whence == AVSEEK_SIZE || !inside ? here : (off_t)(base + offset);
    if (lseek(r->fd, at, SEEK_SET) < 0)
        return AVERROR(errno);
    return whence == AVSEEK_SIZE ? size : inside ? at : AVERROR(EINVAL);
}

static int open_none(AVFormatContext *format, AVIOContext **io, const char *url, int flags,
                     AVDictionary **options)
{
    (void)format;
    (void)url;
    (void)flags;
    (void)options;
    *io = NULL;
    return AVERROR(EPERM);
}

/* ---- opening ---- */

static zoe_status no_memory(zoe_context *ctx)
{
    return zoe_fail(ctx, ZOE_NOMEM, "no memory for a video decoder");
}

/* The failure of a call that read from the file. FFmpeg's other codes say little of a broken one. */
static zoe_status read_failed(zoe_context *ctx, const zoe_av_reader *r, int error)
{
    TRY(zoe_check_cancel(ctx));
    if (r->failed)
        return zoe_fail(ctx, ZOE_IO, "cannot read: %s", strerror(r->failed));
    if (error == AVERROR(ENOMEM) || error == AVERROR_PATCHWELCOME)
        return zoe_av_fail(ctx, error, ZOE_FORMAT, "the video");
    return zoe_fail(ctx, ZOE_FORMAT, "the video is broken or cut off");
}

static zoe_status open_format(zoe_context *ctx, zoe_av_reader *r, const char *demuxer)
{
    const AVInputFormat *input = av_find_input_format(demuxer);
    if (!input)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "the FFmpeg of this system has no demuxer %s",
                        demuxer);
    uint8_t *buffer = av_malloc(IO_BUFFER);
    r->io = buffer ? avio_alloc_context(buffer, IO_BUFFER, 0, r, read_bytes, NULL,
                                        r->seekable ? seek_bytes : NULL)
                   : NULL;
    if (!r->io) {
        av_free(buffer);
        return no_memory(ctx);
    }
    r->format = avformat_alloc_context();
    if (!r->format)
        return no_memory(ctx);
    r->format->pb = r->io;
    r->format->flags |= AVFMT_FLAG_CUSTOM_IO;
    r->format->io_open = open_none;
    /* Frees the context and sets it to NULL when it fails. */
    int error = avformat_open_input(&r->format, NULL, input, NULL);
    /* Y4M has all in its header; what is read ahead here would hide where the file ends. */
    if (error >= 0 && strcmp(demuxer, "yuv4mpegpipe") != 0)
        error = avformat_find_stream_info(r->format, NULL);
    return error < 0 ? read_failed(ctx, r, error) : ZOE_OK;
}

/* The first stream of moving pictures; cover pictures of music are none. */
static zoe_status choose_stream(zoe_context *ctx, zoe_av_reader *r)
{
    for (unsigned i = 0; i < r->format->nb_streams; i++) {
        AVStream *s = r->format->streams[i];
        const bool video = s->codecpar->codec_type == AVMEDIA_TYPE_VIDEO &&
                           !(s->disposition & AV_DISPOSITION_ATTACHED_PIC);
        if (video && !r->stream)
            r->stream = s;
        else
            s->discard = AVDISCARD_ALL;
    }
    return r->stream ? ZOE_OK : zoe_fail(ctx, ZOE_FORMAT, "there is no video in this file");
}

static zoe_status open_decoder(zoe_context *ctx, zoe_av_reader *r)
{
    const AVCodecParameters *p = r->stream->codecpar;
    const AVCodec *decoder = avcodec_find_decoder(p->codec_id);
    if (!decoder)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "the FFmpeg of this system cannot decode %s",
                        avcodec_get_name(p->codec_id));
    if (p->width <= 0 || p->height <= 0)
        return zoe_fail(ctx, ZOE_FORMAT, "the video is broken or cut off: it has no size");
    TRY(zoe_picture_check_size(ctx, (uint64_t)p->width, (uint64_t)p->height));
    r->codec = avcodec_alloc_context3(decoder);
    r->frame = av_frame_alloc();
    r->packet = av_packet_alloc();
    if (!r->codec || !r->frame || !r->packet || avcodec_parameters_to_context(r->codec, p) < 0)
        return no_memory(ctx);
    r->codec->thread_count = 1;
    r->codec->max_pixels = (int64_t)ZOE_MAX_PIXELS;
    r->codec->err_recognition = AV_EF_EXPLODE | AV_EF_CRCCHECK;
    r->codec->pkt_timebase = r->stream->time_base;
    const int error = avcodec_open2(r->codec, decoder, NULL);
    return error < 0 ? zoe_av_fail(ctx, error, ZOE_UNSUPPORTED, decoder->name) : ZOE_OK;
}

/* Frames of a file whose index is read already: packets that an edit list leaves out do not count. */
static size_t count_indexed(const zoe_av_reader *r)
{
    size_t frames = 0;
    const int n = avformat_index_get_entries_count(r->stream);
    for (int i = 0; i < n && r->stream->nb_frames > 0; i++)
        frames += !(avformat_index_get_entry(r->stream, i)->flags & AVINDEX_DISCARD_FRAME);
    return frames;
}

static bool has_whole_index(const zoe_av_reader *r)
{
    return strstr(r->format->iformat->name, "mov") != NULL;
}

zoe_status zoe_av_read_open(zoe_context *ctx, zoe_av_reader **reader, zoe_video_info *info,
                            const zoe_av_source *source)
{
    void *p;
    zoe_status status;
    *reader = NULL;
    zoe_av_quiet();
    status = zoe_alloc_zero(ctx, &p, 1, sizeof(zoe_av_reader), "a video reader");
    if (status != ZOE_OK) {
        close(source->fd);
        return status;
    }
    zoe_av_reader *r = p;
    r->ctx = ctx;
    r->fd = source->fd;
    r->seekable = lseek(r->fd, 0, SEEK_SET) == 0;
    if (!r->seekable) {
        memcpy(r->head, source->head.data, source->head.size);
        r->head_size = source->head.size;
    }
    TRY_GOTO(open_format(ctx, r, source->demuxer));
    TRY_GOTO(choose_stream(ctx, r));
    TRY_GOTO(open_decoder(ctx, r));
    r->width = r->codec->width;
    r->height = r->codec->height;
    r->end = avio_tell(r->io);
    const AVRational rate = r->stream->avg_frame_rate;
    const bool rated = rate.num > 0 && rate.den > 0;
    *info = (zoe_video_info){
        .width = (size_t)r->width,
        .height = (size_t)r->height,
        .fps_num = rated ? rate.num : 0,
        .fps_den = rated ? rate.den : 1,
        .frames = has_whole_index(r) ? count_indexed(r) : 0,
    };
    *reader = r;
    r = NULL;
done:
    zoe_av_read_close(r);
    return status;
}

void zoe_av_read_close(zoe_av_reader *reader)
{
    if (!reader)
        return;
    av_packet_free(&reader->packet);
    av_frame_free(&reader->frame);
    avcodec_free_context(&reader->codec);
    avformat_close_input(&reader->format);
    if (reader->io)
        av_freep(&reader->io->buffer);
    avio_context_free(&reader->io);
    close(reader->fd);
    zoe_free(reader);
}

/* ---- frames ---- */

/* The demuxer says that the file ended: where it should? */
static zoe_status check_end(zoe_context *ctx, const zoe_av_reader *r)
{
    const int indexed = avformat_index_get_entries_count(r->stream);
    if (has_whole_index(r) && indexed > 0 && r->packets < (size_t)indexed)
        return zoe_fail(ctx, ZOE_FORMAT, "the video is cut off: %zu of %d frames are there",
                        r->packets, indexed);
    if (r->codec->codec_id == AV_CODEC_ID_RAWVIDEO && avio_tell(r->io) != r->end &&
        strcmp(r->format->iformat->name, "yuv4mpegpipe") == 0)
        return zoe_fail(ctx, ZOE_FORMAT, "the video is cut off in frame %zu", r->packets);
    if (r->packets == 0)
        return zoe_fail(ctx, ZOE_FORMAT, "there are no frames in this video");
    return ZOE_OK;
}

/* Hands the next packet, or the end, to the decoder. */
static zoe_status feed(zoe_context *ctx, zoe_av_reader *r)
{
    int error;
    do {
        av_packet_unref(r->packet);
        error = av_read_frame(r->format, r->packet);
    } while (error >= 0 && r->packet->stream_index != r->stream->index);
    if (error == AVERROR_EOF && !r->failed) {
        TRY(check_end(ctx, r));
        avcodec_send_packet(r->codec, NULL);
        return ZOE_OK;
    }
    if (error < 0)
        return read_failed(ctx, r, error);
    if (r->packet->flags & AV_PKT_FLAG_CORRUPT)
        return zoe_fail(ctx, ZOE_FORMAT, "the video is broken or cut off in frame %zu", r->packets);
    r->packets++;
    r->end = avio_tell(r->io);
    error = avcodec_send_packet(r->codec, r->packet);
    return error < 0 ? zoe_av_fail(ctx, error, ZOE_FORMAT, "broken frame") : ZOE_OK;
}

static zoe_status take_frame(zoe_context *ctx, zoe_av_reader *r, zoe_picture *picture)
{
    AVFrame *f = r->frame;
    if (f->flags & AV_FRAME_FLAG_CORRUPT || f->decode_error_flags)
        return zoe_fail(ctx, ZOE_FORMAT, "broken frame: parts of it are damaged");
    if (f->width != r->width || f->height != r->height)
        return zoe_fail(ctx, ZOE_FORMAT, "the frames change from %dx%d to %dx%d", r->width,
                        r->height, f->width, f->height);
    /* What the stream's packets do not say, the file may. */
    const AVCodecParameters *p = r->stream->codecpar;
    if (f->colorspace == AVCOL_SPC_UNSPECIFIED)
        f->colorspace = p->color_space;
    if (f->color_range == AVCOL_RANGE_UNSPECIFIED)
        f->color_range = p->color_range;
    if (f->chroma_location == AVCHROMA_LOC_UNSPECIFIED)
        f->chroma_location = p->chroma_location;
    return zoe_av_rgb_of_video(ctx, picture, f);
}

zoe_status zoe_av_read_frame(zoe_context *ctx, zoe_av_reader *reader, zoe_picture *picture,
                             bool *got)
{
    zoe_av_reader *r = reader;
    *got = false;
    r->ctx = ctx;
    for (;;) {
        const int error = avcodec_receive_frame(r->codec, r->frame);
        if (error >= 0) {
            *got = true;
            const zoe_status status = take_frame(ctx, r, picture);
            av_frame_unref(r->frame);
            return status;
        }
        if (error == AVERROR_EOF)
            return ZOE_OK;
        if (error != AVERROR(EAGAIN))
            return zoe_av_fail(ctx, error, ZOE_FORMAT, "broken frame");
        TRY(feed(ctx, r));
    }
}
