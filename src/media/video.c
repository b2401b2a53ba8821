/* Frames out: the kinds of files, the checks before, and the common course from open to close. */
#include "media/media.h"
#include "media/parts.h"

#include <fcntl.h>
#include <poll.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

struct zoe_video {
    zoe_writer writer;
    zoe_status failed; /* of the first frame that failed */
    size_t frames;
};

zoe_video_kind zoe_video_kind_of(const char *path)
{
    static const struct {
        const char *suffix;
        zoe_video_kind kind;
    } kinds[] = {{".mp4", ZOE_VIDEO_MP4},
                 {".webm", ZOE_VIDEO_WEBM},
                 {".y4m", ZOE_VIDEO_Y4M},
                 {".png", ZOE_VIDEO_PNG}};
    if (strcmp(path, "-") == 0)
        return ZOE_VIDEO_Y4M;
    const char *name = zoe_path_name(path), *dot = strrchr(name, '.');
    for (size_t i = 0; dot && dot != name && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcasecmp(dot, kinds[i].suffix) == 0)
            return kinds[i].kind;
    return ZOE_VIDEO_UNKNOWN;
}

static zoe_status check_options(zoe_context *ctx, zoe_video_kind kind, const char *path,
                                const zoe_video_options *o)
{
    if (kind == ZOE_VIDEO_UNKNOWN)
        return zoe_fail(
            ctx, ZOE_INVALID,
            "%s: the suffix names no known kind of video; .mp4, .webm, .y4m, .png, or - "
            "for Y4M on standard output is wanted",
            path);
    if (o->width < 1 || o->height < 1 || o->width > ZOE_MAX_SIDE || o->height > ZOE_MAX_SIDE)
        return zoe_fail(ctx, ZOE_INVALID, "%s: frames of %zux%zu; sides of 1 to %d are wanted",
                        path, o->width, o->height, ZOE_MAX_SIDE);
    const double fps = o->fps_den > 0 ? (double)o->fps_num / o->fps_den : 0.0;
    if (!(fps >= 0.001 && fps <= 1000.0))
        return zoe_fail(ctx, ZOE_INVALID, "%s: %d/%d frames per second; 1/1000 to 1000 are wanted",
                        path, o->fps_num, o->fps_den);
    const double worst = kind == ZOE_VIDEO_MP4 ? 51.0 : 63.0;
    if (!(o->quality >= 0.0 && o->quality <= worst))
        return zoe_fail(ctx, ZOE_INVALID, "%s: a rate factor of %g; 0 to %g is wanted", path,
                        o->quality, worst);
    for (size_t i = 0; i < o->n_meta; i++)
        if (!o->metadata[i][0] || !o->metadata[i][0][0] || !o->metadata[i][1])
            return zoe_fail(ctx, ZOE_INVALID, "%s: metadata entry %zu has no key or no value", path,
                            i);
    return ZOE_OK;
}

/* Standard output must be open for writing, and its reader still there. */
static zoe_status probe_stream(zoe_context *ctx)
{
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return zoe_fail(ctx, ZOE_IO,
                        "standard output is closed; send the video to a file or a "
                        "program");
    if (poll(&out, 1, 0) > 0 && (out.revents & POLLERR))
        return zoe_fail(ctx, ZOE_IO, "standard output has no reader any more");
    return ZOE_OK;
}

zoe_status zoe_video_probe(zoe_context *ctx, const char *path, const zoe_video_options *options)
{
    const zoe_video_kind kind = zoe_video_kind_of(path);
    TRY(check_options(ctx, kind, path, options));
    if (kind == ZOE_VIDEO_MP4 || kind == ZOE_VIDEO_WEBM)
        TRY(zoe_av_probe(ctx, kind == ZOE_VIDEO_MP4 ? ZOE_MP4 : ZOE_WEBM));
    return strcmp(path, "-") == 0 ? probe_stream(ctx) : zoe_output_probe(ctx, path);
}

/* ---- one frame as PNG ---- */

typedef struct png_writer {
    char *path;
    zoe_picture picture;
    size_t n_meta;
    char *(*metadata)[2];
} png_writer;

static void png_abort(void *self)
{
    png_writer *w = self;
    for (size_t i = 0; w->metadata && i < w->n_meta; i++) {
        zoe_free(w->metadata[i][0]);
        zoe_free(w->metadata[i][1]);
    }
    zoe_free(w->metadata);
    zoe_picture_free(&w->picture);
    zoe_free(w->path);
    zoe_free(w);
}

static zoe_status png_frame(zoe_context *ctx, void *self, const uint8_t *rgb)
{
    png_writer *w = self;
    (void)ctx;
    memcpy(w->picture.rgb, rgb, 3 * w->picture.width * w->picture.height);
    return ZOE_OK;
}

static zoe_status png_close(zoe_context *ctx, void *self)
{
    const png_writer *w = self;
    return zoe_picture_write_png(ctx, w->path, &w->picture,
                                 (const char *const(*)[2])(uintptr_t)w->metadata, w->n_meta);
}

static zoe_status png_open(zoe_context *ctx, zoe_writer *writer, const char *path,
                           const zoe_video_options *o)
{
    void *p;
    zoe_status status;
    TRY(zoe_output_probe(ctx, path));
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof(png_writer), "a PNG writer"));
    png_writer *w = p;
    TRY_GOTO(zoe_strdup(ctx, &w->path, path));
    TRY_GOTO(zoe_picture_new(ctx, &w->picture, o->width, o->height));
    TRY_GOTO(zoe_alloc_zero(ctx, &p, o->n_meta, sizeof w->metadata[0], "metadata"));
    w->metadata = p;
    w->n_meta = o->n_meta;
    for (size_t i = 0; i < o->n_meta; i++)
        for (size_t j = 0; j < 2; j++)
            TRY_GOTO(zoe_strdup(ctx, &w->metadata[i][j], o->metadata[i][j]));
    *writer = (zoe_writer){w, png_frame, png_close, png_abort};
done:
    if (status != ZOE_OK)
        png_abort(w);
    return status;
}

/* ---- the course of every kind ---- */

static zoe_status open_writer(zoe_context *ctx, zoe_writer *writer, zoe_video_kind kind,
                              const char *path, const zoe_video_options *options)
{
    switch (kind) {
    case ZOE_VIDEO_MP4: return zoe_av_open(ctx, writer, path, options, ZOE_MP4);
    case ZOE_VIDEO_WEBM: return zoe_av_open(ctx, writer, path, options, ZOE_WEBM);
    case ZOE_VIDEO_PNG: return png_open(ctx, writer, path, options);
    default: return zoe_y4m_open(ctx, writer, path, options);
    }
}

zoe_status zoe_video_open(zoe_context *ctx, zoe_video **video, const char *path,
                          const zoe_video_options *options)
{
    void *p;
    *video = NULL;
    const zoe_video_kind kind = zoe_video_kind_of(path);
    TRY(check_options(ctx, kind, path, options));
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **video, "a video"));
    zoe_video *v = p;
    const zoe_status status = open_writer(ctx, &v->writer, kind, path, options);
    if (status != ZOE_OK) {
        zoe_free(v);
        return status;
    }
    *video = v;
    return ZOE_OK;
}

zoe_status zoe_video_frame(zoe_context *ctx, zoe_video *video, const uint8_t *rgb)
{
    if (video->failed != ZOE_OK)
        return zoe_fail(ctx, video->failed, "an earlier frame of this video failed");
    if (video->writer.frame == png_frame && video->frames > 0)
        video->failed =
            zoe_fail(ctx, ZOE_INVALID, "a .png takes one frame; a video needs .mp4, .webm or .y4m");
    else
        video->failed = video->writer.frame(ctx, video->writer.self, rgb);
    video->frames++;
    return video->failed;
}

zoe_status zoe_video_close(zoe_context *ctx, zoe_video *video)
{
    zoe_status status = video->failed;
    if (status != ZOE_OK)
        zoe_fail(ctx, status, "an earlier frame of this video failed");
    else if (video->frames == 0)
        status = zoe_fail(ctx, ZOE_INVALID, "a video without frames cannot be written");
    else
        status = video->writer.close(ctx, video->writer.self);
    zoe_video_abort(video);
    return status;
}

void zoe_video_abort(zoe_video *video)
{
    if (!video)
        return;
    video->writer.abort(video->writer.self);
    zoe_free(video);
}

/* Encoders keep frames back to look ahead: x264 at preset medium some 55, libvpx 25 larger ones.
 * Measured: 12 MiB and 245 to 270 bytes a pixel for H.264, 20 MiB and 190 to 220 for VP9. */
size_t zoe_video_bytes(const char *path, size_t width, size_t height, size_t frames)
{
    enum { BASE = 24 << 20, KEPT = 64, BYTES = 4 }; /* BYTES of a pixel in each frame kept */
    const zoe_video_kind kind = path ? zoe_video_kind_of(path) : ZOE_VIDEO_UNKNOWN;
    if (kind != ZOE_VIDEO_MP4 && kind != ZOE_VIDEO_WEBM)
        return 0;
    return BASE + (frames < KEPT ? frames : KEPT) * BYTES * width * height;
}

/* ---- metadata ---- */

zoe_status zoe_media_metadata_read(zoe_context *ctx, const char *path, const char *key,
                                   char **value)
{
    zoe_map map;
    *value = NULL;
    TRY(zoe_map_open(ctx, &map, path));
    const zoe_span file = {map.data, map.size};
    zoe_status status;
    if (file.size >= 8 && memcmp(file.data, "\x89PNG\r\n\x1a\n", 8) == 0)
        status = zoe_png_text(ctx, file, key, value);
    else if (file.size >= 8 && memcmp(file.data + 4, "ftyp", 4) == 0)
        status = zoe_av_metadata(ctx, file, ZOE_MP4, key, value);
    else if (file.size >= 4 && memcmp(file.data, "\x1a\x45\xdf\xa3", 4) == 0)
        status = zoe_av_metadata(ctx, file, ZOE_WEBM, key, value);
    else
        status = zoe_fail(ctx, ZOE_UNSUPPORTED,
                          "is no PNG, MP4 or WebM file; metadata are read from these");
    if (status != ZOE_OK)
        zoe_fail_in(ctx, "%s", path);
    zoe_map_close(&map);
    return status;
}
