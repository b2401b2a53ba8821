/* What the files of this room share with each other, and nobody else uses. */
#ifndef ZOE_MEDIA_PARTS_H
#define ZOE_MEDIA_PARTS_H

#include "media/media.h"

/* Pictures larger than this are refused before memory for them is asked for. */
#define ZOE_MAX_PIXELS ((size_t)1 << 28)

/* A picture with room for its values, not cleared.
 * Errors: ZOE_UNSUPPORTED (no pixels, or more than ZOE_MAX_PIXELS), ZOE_NOMEM. */
zoe_status zoe_picture_new(zoe_context *ctx, zoe_picture *picture, size_t width, size_t height);
/* The refusal of zoe_picture_new alone, for decoders that allocate themselves. */
zoe_status zoe_picture_check_size(zoe_context *ctx, uint64_t width, uint64_t height);
/* Turns a picture as an EXIF orientation of 1..8 asks for; other values do nothing. */
zoe_status zoe_picture_orient(zoe_context *ctx, zoe_picture *picture, int orientation);

/* 16-bit grey becomes 8-bit as in Pillow's convert("RGB"): not scaled, but cut at 255. */
static inline uint8_t zoe_grey16_to_8(unsigned v)
{
    return v > 255 ? 255 : (uint8_t)v;
}
#define ZOE_GREY16_WARNING                                                                         \
    "the picture is 16-bit grey; as in the official code, values over 255 become white. Convert "  \
    "it to 8 bits first"

/* ---- what files say about themselves; all of this reads only inside data[0, size) ---- */

typedef struct zoe_span {
    const uint8_t *data;
    size_t size;
} zoe_span;

/* Orientation from a TIFF block (the content of EXIF): 0 if it has none. */
int zoe_exif_orientation(zoe_span tiff);
/* The EXIF block of a PNG, WebP or JPEG file; empty if there is none. */
zoe_span zoe_png_exif(zoe_span file);
zoe_span zoe_webp_exif(zoe_span file);

/* A JPEG file: its first picture from start to end marker, its EXIF block, and the number that
 * Adobe's marker has for the kind of colour (-1 without the marker). Errors: ZOE_FORMAT when it
 * ends before the end marker, ZOE_UNSUPPORTED when it is too large. */
typedef struct zoe_jpeg {
    zoe_span picture, exif;
    int adobe_transform;
} zoe_jpeg;
zoe_status zoe_jpeg_parse(zoe_context *ctx, zoe_jpeg *jpeg, zoe_span file);
/* Removes from a TIFF file's first folder, in place, all entries that do not describe how pixels
 * are stored: FFmpeg's decoder, when asked to be strict about pixels, is strict about entries that
 * it does not know. Errors: ZOE_UNSUPPORTED (pixels compressed as JPEG, too large). Broken files
 * are left to the decoder. */
zoe_status zoe_tiff_reduce(zoe_context *ctx, uint8_t *data, size_t size);
/* The header's size is checked, and ZOE_FORMAT given when the file ends inside the first picture:
 * FFmpeg's decoders would give half a picture. */
zoe_status zoe_gif_check(zoe_context *ctx, zoe_span file);
zoe_status zoe_webp_check(zoe_context *ctx, zoe_span file);
zoe_status zoe_bmp_check(zoe_context *ctx, zoe_span file);
zoe_status zoe_pnm_check(zoe_context *ctx, zoe_span file);

/* ---- PNG, on libpng ---- */

zoe_status zoe_png_decode(zoe_context *ctx, zoe_picture *picture, zoe_span file);
/* The text entry `key` of a PNG file; ZOE_MISSING if there is none. */
zoe_status zoe_png_text(zoe_context *ctx, zoe_span file, const char *key, char **value);

/* ---- everything else, on libavcodec ---- */

typedef struct zoe_av_picture {
    zoe_span file;
    int codec;           /* an AVCodecID */
    int adobe_transform; /* of a JPEG */
    const char *name;    /* of the kind, for sentences */
} zoe_av_picture;
/* Decodes one picture with FFmpeg's decoder. */
zoe_status zoe_av_decode(zoe_context *ctx, zoe_picture *picture, const zoe_av_picture *what);
/* A status and sentence for a failure of an FFmpeg call. */
zoe_status zoe_av_fail(zoe_context *ctx, int error, zoe_status status, const char *what);
/* FFmpeg's log is global to the process and goes to stderr; this turns it off. */
void zoe_av_quiet(void);

/* ---- YCbCr to RGB (planes of 8 bits) ---- */

/* Planes of one frame; chroma planes have ceil(width / step_x) columns and ceil(height / step_y)
 * rows. */
typedef struct zoe_ycc {
    size_t width, height;
    size_t step_x, step_y;
    const uint8_t *plane[3];
    ptrdiff_t stride[3];
} zoe_ycc;

/* As the IJG decoder does it: full range, triangle filter for steps of 1 and 2 (else repetition).
 * Errors: ZOE_NOMEM. */
zoe_status zoe_ycc_to_rgb_jpeg(zoe_context *ctx, uint8_t *rgb, const zoe_ycc *ycc);
/* As libwebp does it: limited range, steps of 2. */
void zoe_ycc_to_rgb_webp(uint8_t *rgb, const zoe_ycc *ycc);

/* ---- RGB to YCbCr ---- */

/* BT.709 limited range, 4:2:0 with chroma amid its four pixels; planes of even width W >= width
 * and height H >= height, the last column and row of the picture are repeated into what is more. */
void zoe_rgb_to_yuv420(uint8_t *const plane[3], const int stride[3], const uint8_t *rgb,
                       size_t width, size_t height);
/* BT.601 full range (JFIF), 4:4:4, dense planes y, u, v of width*height one after the other. */
void zoe_rgb_to_yuv444(uint8_t *planes, const uint8_t *rgb, size_t width, size_t height);

/* ---- kinds of video ---- */

/* What a writer of one kind does. Its state is in `self`; ctx and rgb are those of the call. close
 * completes the file; abort removes what is not complete and frees self, also after close. */
typedef struct zoe_writer {
    void *self;
    zoe_status (*frame)(zoe_context *ctx, void *self, const uint8_t *rgb);
    zoe_status (*close)(zoe_context *ctx, void *self);
    void (*abort)(void *self);
} zoe_writer;

zoe_status zoe_y4m_open(zoe_context *ctx, zoe_writer *writer, const char *path,
                        const zoe_video_options *options);
/* H.264 in MP4, VP9 in WebM. */
typedef enum zoe_container { ZOE_MP4, ZOE_WEBM } zoe_container;
zoe_status zoe_av_open(zoe_context *ctx, zoe_writer *writer, const char *path,
                       const zoe_video_options *options, zoe_container container);
/* ZOE_UNSUPPORTED with a sentence unless this FFmpeg can write the container. */
zoe_status zoe_av_probe(zoe_context *ctx, zoe_container container);
/* A metadata value of an MP4 or WebM file; ZOE_MISSING if there is none. */
zoe_status zoe_av_metadata(zoe_context *ctx, zoe_span file, zoe_container container,
                           const char *key, char **value);

#endif
