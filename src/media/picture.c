/* Pictures: memory, the choice of a decoder by content, orientation. */
#include "media/media.h"
#include "media/parts.h"

#include <libavcodec/codec_id.h>

#include "base/file.h"

zoe_status zoe_picture_check_size(zoe_context *ctx, uint64_t width, uint64_t height)
{
    if (width == 0 || height == 0)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "a picture of %llux%llu has no pixels",
                        (unsigned long long)width, (unsigned long long)height);
    if (width > ZOE_MAX_PIXELS || height > ZOE_MAX_PIXELS / width)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "a picture of %llux%llu is larger than %zu pixels",
                        (unsigned long long)width, (unsigned long long)height, ZOE_MAX_PIXELS);
    return ZOE_OK;
}

zoe_status zoe_picture_new(zoe_context *ctx, zoe_picture *picture, size_t width, size_t height)
{
    *picture = (zoe_picture){0};
    TRY(zoe_picture_check_size(ctx, width, height));
    void *rgb;
    TRY(zoe_alloc(ctx, &rgb, width * height, 3, "a picture"));
    *picture = (zoe_picture){width, height, rgb, false};
    return ZOE_OK;
}

void zoe_picture_free(zoe_picture *picture)
{
    zoe_free(picture->rgb);
    *picture = (zoe_picture){0};
}

zoe_status zoe_picture_orient(zoe_context *ctx, zoe_picture *picture, int orientation)
{
    if (orientation < 2 || orientation > 8)
        return ZOE_OK;
    const size_t w = picture->width, h = picture->height;
    const bool turned = orientation >= 5;
    /* Which corner of the stored picture is the upper left one of the shown picture. */
    const bool from_right =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool from_bottom =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const ptrdiff_t across = from_right ? -3 : 3;
    const ptrdiff_t down = (from_bottom ? -3 : 3) * (ptrdiff_t)w;
    const uint8_t *corner =
        picture->rgb + 3 * ((from_right ? w - 1 : 0) + (from_bottom ? (h - 1) * w : 0));
    zoe_picture out;
    TRY(zoe_picture_new(ctx, &out, turned ? h : w, turned ? w : h));
    const ptrdiff_t dx = turned ? down : across, dy = turned ? across : down;
    for (size_t y = 0; y < out.height; y++)
        for (size_t x = 0; x < out.width; x++)
            memcpy(out.rgb + 3 * (y * out.width + x),
                   corner + (ptrdiff_t)x * dx + (ptrdiff_t)y * dy, 3);
    out.had_alpha = picture->had_alpha;
    zoe_picture_free(picture);
    *picture = out;
    return ZOE_OK;
}

/* ---- kinds ---- */

/* A kind of file is told by some bytes at a place, some of them with a second word after them. */
typedef struct kind {
    const char *name;
    size_t at, length;
    const char *bytes;
    size_t at2, length2;
    const char *bytes2;
    enum AVCodecID codec; /* AV_CODEC_ID_NONE: not read as a picture */
    const char *demuxer;  /* for videos */
} kind;

#define MAGIC(at, bytes) at, sizeof bytes - 1, bytes
#define NO_MORE 0, 0, ""

/* Kinds that are not read are here so that their refusal can name them. */
static const kind kinds[] = {
    {"PNG", MAGIC(0, "\x89PNG\r\n\x1a\n"), NO_MORE, AV_CODEC_ID_PNG, NULL},
    {"JPEG", MAGIC(0, "\xff\xd8\xff"), NO_MORE, AV_CODEC_ID_MJPEG, NULL},
    {"WebP", MAGIC(0, "RIFF"), MAGIC(8, "WEBP"), AV_CODEC_ID_WEBP, NULL},
    {"GIF", MAGIC(0, "GIF87a"), NO_MORE, AV_CODEC_ID_GIF, "gif"},
    {"GIF", MAGIC(0, "GIF89a"), NO_MORE, AV_CODEC_ID_GIF, "gif"},
    {"TIFF", MAGIC(0, "II*\0"), NO_MORE, AV_CODEC_ID_TIFF, NULL},
    {"TIFF", MAGIC(0, "MM\0*"), NO_MORE, AV_CODEC_ID_TIFF, NULL},
    {"BMP", MAGIC(0, "BM"), NO_MORE, AV_CODEC_ID_BMP, NULL},
    {"PBM", MAGIC(0, "P1"), NO_MORE, AV_CODEC_ID_PBM, NULL},
    {"PBM", MAGIC(0, "P4"), NO_MORE, AV_CODEC_ID_PBM, NULL},
    {"PGM", MAGIC(0, "P2"), NO_MORE, AV_CODEC_ID_PGM, NULL},
    {"PGM", MAGIC(0, "P5"), NO_MORE, AV_CODEC_ID_PGM, NULL},
    {"PPM", MAGIC(0, "P3"), NO_MORE, AV_CODEC_ID_PPM, NULL},
    {"PPM", MAGIC(0, "P6"), NO_MORE, AV_CODEC_ID_PPM, NULL},
    {"AVIF", MAGIC(4, "ftyp"), MAGIC(8, "avi"), AV_CODEC_ID_NONE, NULL},
    {"HEIC", MAGIC(4, "ftyp"), MAGIC(8, "hei"), AV_CODEC_ID_NONE, NULL},
    {"HEIC", MAGIC(4, "ftyp"), MAGIC(8, "hev"), AV_CODEC_ID_NONE, NULL},
    {"HEIF", MAGIC(4, "ftyp"), MAGIC(8, "mif1"), AV_CODEC_ID_NONE, NULL},
    {"HEIF", MAGIC(4, "ftyp"), MAGIC(8, "msf1"), AV_CODEC_ID_NONE, NULL},
    {"MP4 (a video)", MAGIC(4, "ftyp"), NO_MORE, AV_CODEC_ID_NONE, "mov"},
    {"QuickTime (a video)", MAGIC(4, "moov"), NO_MORE, AV_CODEC_ID_NONE, "mov"},
    {"QuickTime (a video)", MAGIC(4, "mdat"), NO_MORE, AV_CODEC_ID_NONE, "mov"},
    {"QuickTime (a video)", MAGIC(4, "wide"), NO_MORE, AV_CODEC_ID_NONE, "mov"},
    {"WebM (a video)", MAGIC(0, "\x1a\x45\xdf\xa3"), NO_MORE, AV_CODEC_ID_NONE, "matroska"},
    {"Y4M (a video)", MAGIC(0, "YUV4MPEG2 "), NO_MORE, AV_CODEC_ID_NONE, "yuv4mpegpipe"},
    {"AVI (a video)", MAGIC(0, "RIFF"), MAGIC(8, "AVI "), AV_CODEC_ID_NONE, "avi"},
    {"JPEG XL", MAGIC(0, "\xff\x0a"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"JPEG XL", MAGIC(4, "JXL \r\n\x87\n"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"JPEG 2000", MAGIC(4, "jP  \r\n\x87\n"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"JPEG 2000", MAGIC(0, "\xff\x4f\xff\x51"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"PSD", MAGIC(0, "8BPS"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"QOI", MAGIC(0, "qoif"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"OpenEXR", MAGIC(0, "\x76\x2f\x31\x01"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"ICO", MAGIC(0, "\0\0\1\0"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"PDF", MAGIC(0, "%PDF"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"SVG", MAGIC(0, "<svg"), NO_MORE, AV_CODEC_ID_NONE, NULL},
    {"XML or SVG", MAGIC(0, "<?xml"), NO_MORE, AV_CODEC_ID_NONE, NULL},
};

static bool has_at(zoe_span file, size_t at, const char *bytes, size_t n)
{
    return at <= file.size && n <= file.size - at && memcmp(file.data + at, bytes, n) == 0;
}

static const kind *kind_of(zoe_span file)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (has_at(file, kinds[i].at, kinds[i].bytes, kinds[i].length) &&
            has_at(file, kinds[i].at2, kinds[i].bytes2, kinds[i].length2))
            return &kinds[i];
    return NULL;
}

const char *zoe_demuxer_of(zoe_span head)
{
    const kind *k = kind_of(head);
    return k ? k->demuxer : NULL;
}

bool zoe_kind_is_known(zoe_span head)
{
    return kind_of(head) != NULL;
}

/* Is the file complete, which picture of it is meant, and where is its EXIF block? */
static zoe_status look_inside(zoe_context *ctx, zoe_av_picture *picture, zoe_span *exif)
{
    const zoe_span file = picture->file;
    zoe_jpeg jpeg;
    switch (picture->codec) {
    case AV_CODEC_ID_MJPEG:
        TRY(zoe_jpeg_parse(ctx, &jpeg, file));
        picture->file = jpeg.picture;
        picture->adobe_transform = jpeg.adobe_transform;
        *exif = jpeg.exif;
        return ZOE_OK;
    case AV_CODEC_ID_WEBP: *exif = zoe_webp_exif(file); return zoe_webp_check(ctx, file);
    case AV_CODEC_ID_PNG: *exif = zoe_png_exif(file); return ZOE_OK;
    case AV_CODEC_ID_TIFF: *exif = file; return ZOE_OK;
    case AV_CODEC_ID_BMP: return zoe_bmp_check(ctx, file);
    case AV_CODEC_ID_GIF: return zoe_gif_check(ctx, file);
    default: return zoe_pnm_check(ctx, file);
    }
}

static zoe_status decode_tiff(zoe_context *ctx, zoe_picture *picture, zoe_av_picture what)
{
    void *copy;
    TRY(zoe_alloc(ctx, &copy, what.file.size, 1, "a TIFF file"));
    memcpy(copy, what.file.data, what.file.size);
    what.file.data = copy;
    zoe_status status = zoe_tiff_reduce(ctx, copy, what.file.size);
    if (status == ZOE_OK)
        status = zoe_av_decode(ctx, picture, &what);
    zoe_free(copy);
    return status;
}

static zoe_status decode_content(zoe_context *ctx, zoe_picture *picture, const zoe_av_picture *what)
{
    switch (what->codec) {
    case AV_CODEC_ID_PNG: return zoe_png_decode(ctx, picture, what->file, what->background);
    case AV_CODEC_ID_TIFF: return decode_tiff(ctx, picture, *what);
    default: return zoe_av_decode(ctx, picture, what);
    }
}

zoe_status zoe_picture_decode_on(zoe_context *ctx, zoe_picture *picture, const void *data,
                                 size_t size, bool keep_orientation, const uint8_t *background)
{
    *picture = (zoe_picture){0};
    const zoe_span file = {data, size};
    if (size == 0)
        return zoe_fail(ctx, ZOE_FORMAT, "the file is empty, a picture is wanted");
    const kind *k = kind_of(file);
    if (!k)
        return zoe_fail(
            ctx, ZOE_UNSUPPORTED,
            "no known kind of picture; PNG, JPEG, WebP, BMP, TIFF, GIF or PNM is wanted");
    if (k->codec == AV_CODEC_ID_NONE)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s is not read; convert it to PNG, JPEG, WebP, BMP, TIFF, GIF or PNM",
                        k->name);
    zoe_av_picture what = {
        .file = file, .codec = (int)k->codec, .name = k->name, .background = background};
    zoe_span exif = {0};
    TRY(look_inside(ctx, &what, &exif));
    zoe_status status = decode_content(ctx, picture, &what);
    if (status == ZOE_OK && !keep_orientation)
        status = zoe_picture_orient(ctx, picture, zoe_exif_orientation(exif));
    if (status != ZOE_OK)
        zoe_picture_free(picture);
    return status;
}

zoe_status zoe_picture_decode(zoe_context *ctx, zoe_picture *picture, const void *data, size_t size,
                              bool keep_orientation)
{
    return zoe_picture_decode_on(ctx, picture, data, size, keep_orientation, NULL);
}

zoe_status zoe_picture_read(zoe_context *ctx, zoe_picture *picture, const char *path,
                            bool keep_orientation)
{
    *picture = (zoe_picture){0};
    char *file;
    size_t size;
    /* Read, not mapped: a file that shrinks meanwhile must not end the program, and pipes work. */
    TRY(zoe_file_read(ctx, &file, &size, path, (size_t)1 << 30));
    const zoe_status status = zoe_picture_decode(ctx, picture, file, size, keep_orientation);
    if (status != ZOE_OK)
        zoe_fail_in(ctx, "%s", path);
    zoe_free(file);
    return status;
}
