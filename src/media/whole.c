/* Is a video file complete? Its outermost structure says how long it should be; FFmpeg takes most
 * files that are cut off for shorter ones. */
#include "media/parts.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct file {
    int fd;
    uint64_t size;
} file;

/* n <= 16 bytes from place `at`; those behind the end are 0. */
static void bytes_at(uint8_t *bytes, const file *f, uint64_t at, size_t n)
{
    memset(bytes, 0, n);
    for (size_t got = 0; got < n && at + got < f->size;) {
        const ssize_t k = pread(f->fd, bytes + got, n - got, (off_t)(at + got));
        if (k == 0 || (k < 0 && errno != EINTR))
            return;
        got += k > 0 ? (size_t)k : 0;
    }
}

static uint64_t big_endian(const uint8_t *bytes, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | bytes[i];
    return v;
}

static uint64_t little_endian(const uint8_t *bytes)
{
    return bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 | (uint64_t)bytes[3] << 24;
}

/* MP4 and MOV: boxes up to the end, the last may be of unknown size. */
static bool boxes_fit(const file *f)
{
    uint64_t at = 0;
    while (at < f->size) {
        uint8_t head[16];
        bytes_at(head, f, at, sizeof head);
        uint64_t size = big_endian(head, 4), least = 8;
        if (size == 1) {
            size = big_endian(head + 8, 8);
            least = 16;
        }
        if (size == 0)
            return true;
        if (size < least || size > f->size - at)
            return false;
        at += size;
    }
    return true;
}

/* The number of bytes of an EBML number: leading zeros of its first byte, and one. */
static size_t ebml_length(uint8_t first)
{
    size_t n = 1;
    while (n < 8 && !(first & 0x80u >> (n - 1)))
        n++;
    return n;
}

/* Matroska and WebM: a header and a segment; live recordings have segments of unknown size. */
static bool elements_fit(const file *f)
{
    uint64_t at = 0;
    while (at < f->size) {
        uint8_t head[12];
        bytes_at(head, f, at, sizeof head);
        const size_t name = ebml_length(head[0]), n = name <= 4 ? ebml_length(head[name]) : 8;
        if (name > 4)
            return false;
        const uint64_t mask = ((uint64_t)1 << 7 * n) - 1, size = big_endian(head + name, n) & mask;
        if (size == mask)
            return true;
        if (name + n > f->size - at || size > f->size - at - name - n)
            return false;
        at += name + n + size;
    }
    return true;
}

/* AVI: one or more RIFF chunks, then perhaps anything else. */
static bool chunks_fit(const file *f)
{
    uint64_t at = 0;
    while (at < f->size) {
        uint8_t head[8];
        bytes_at(head, f, at, sizeof head);
        if (memcmp(head, "RIFF", 4) != 0)
            return at > 0;
        const uint64_t size = little_endian(head + 4);
        if (8 + size > f->size - at)
            return false;
        at += 8 + size + (size & 1);
    }
    return true;
}

/* Past the colour table that these flags announce. */
static uint64_t past_colours(uint64_t at, uint8_t flags)
{
    return flags & 0x80 ? at + ((uint64_t)3 << ((flags & 7) + 1)) : at;
}

/* GIF: blocks up to the end mark; what follows does not matter. */
static bool blocks_end(const file *f)
{
    enum { EXTENSION = 0x21, IMAGE = 0x2c, END = 0x3b };
    uint8_t head[13];
    bytes_at(head, f, 0, sizeof head);
    uint64_t at = past_colours(13, head[10]);
    while (at < f->size) {
        bytes_at(head, f, at, 10);
        if (head[0] == END)
            return true;
        if (head[0] != EXTENSION && head[0] != IMAGE)
            return false;
        at = head[0] == IMAGE ? past_colours(at + 10, head[9]) + 1 : at + 2;
        do { /* pieces, each led by its size, the last of size 0 */
            bytes_at(head, f, at, 1);
            at += 1 + (uint64_t)head[0];
        } while (head[0] != 0 && at < f->size);
    }
    return false;
}

zoe_status zoe_video_check_whole(zoe_context *ctx, int fd, const char *demuxer)
{
    static const struct {
        const char *demuxer;
        bool (*is_whole)(const file *f);
    } rows[] = {
        {"mov", boxes_fit}, {"matroska", elements_fit}, {"avi", chunks_fit}, {"gif", blocks_end}};
    struct stat st;
    if (fstat(fd, &st) != 0)
        return zoe_fail(ctx, ZOE_IO, "cannot stat: %s", strerror(errno));
    const file f = {fd, (uint64_t)st.st_size};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].demuxer, demuxer) == 0 && !rows[i].is_whole(&f))
            return zoe_fail(ctx, ZOE_FORMAT,
                            "the video is broken or cut off: by its structure it is longer than "
                            "the %llu bytes that are there",
                            (unsigned long long)f.size);
    return ZOE_OK;
}
