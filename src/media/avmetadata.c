/* Metadata of MP4 and WebM files, on libavformat. */
#include "media/parts.h"

#include <libavformat/avformat.h>

#define IO_BUFFER 65536

typedef struct memory_file {
    zoe_span all;
    size_t at;
} memory_file;

static int read_memory(void *self, uint8_t *data, int bytes)
{
    memory_file *m = self;
    const size_t left = m->all.size - m->at, n = left < (size_t)bytes ? left : (size_t)bytes;
    if (n == 0)
        return AVERROR_EOF;
    memcpy(data, m->all.data + m->at, n);
    m->at += n;
    return (int)n;
}

static int64_t seek_memory(void *self, int64_t offset, int whence)
{
    memory_file *m = self;
    const int64_t size = (int64_t)m->all.size;
    whence &= ~AVSEEK_FORCE;
    if (whence == AVSEEK_SIZE)
        return size;
    const int64_t base = whence == SEEK_CUR ? (int64_t)m->at : whence == SEEK_END ? size : 0;
    if (offset < -base || offset > size - base)
        return AVERROR(EINVAL);
    m->at = (size_t)(base + offset);
    return base + offset;
}

/* A file may name others; none is opened. */
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

zoe_status zoe_av_metadata(zoe_context *ctx, zoe_span file, zoe_container container,
                           const char *key, char **value)
{
    memory_file memory = {file, 0};
    zoe_status status = ZOE_NOMEM;
    *value = NULL;
    zoe_av_quiet();
    const AVInputFormat *demuxer = av_find_input_format(container == ZOE_MP4 ? "mov" : "matroska");
    AVFormatContext *format = avformat_alloc_context();
    uint8_t *buffer = av_malloc(IO_BUFFER);
    AVIOContext *io =
        buffer ? avio_alloc_context(buffer, IO_BUFFER, 0, &memory, read_memory, NULL, seek_memory)
               : NULL;
    if (!format || !io) {
        if (!io)
            av_free(buffer);
        zoe_fail(ctx, status, "no memory to read metadata");
        goto done;
    }
    format->pb = io;
    format->flags |= AVFMT_FLAG_CUSTOM_IO;
    format->io_open = open_none;
    /* Frees the context and sets it to NULL when it fails. */
    const int error = avformat_open_input(&format, NULL, demuxer, NULL);
    if (error < 0) {
        status = zoe_av_fail(ctx, error, ZOE_FORMAT, "broken video file");
        goto done;
    }
    const AVDictionaryEntry *entry = av_dict_get(format->metadata, key, NULL, 0);
    status = entry ? zoe_strdup(ctx, value, entry->value)
                   : zoe_fail(ctx, ZOE_MISSING, "has no metadata named \"%s\"", key);
done:
    avformat_close_input(&format);
    if (io)
        av_freep(&io->buffer);
    avio_context_free(&io);
    return status;
}
