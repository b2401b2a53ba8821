/* What the files of this room share with each other, and nobody else uses. */
#ifndef ZOE_MEDIA_PARTS_H
#define ZOE_MEDIA_PARTS_H

#include "media/media.h"

/* Pictures larger than this are refused before memory for them is asked for. A build for fuzzing
 * has a lower bound: some hundred bytes may well stand for the largest, which takes its time. */
#ifndef ZOE_MAX_PIXELS
#define ZOE_MAX_PIXELS ((size_t)1 << 28)
#endif

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

/* Lays one pixel over a colour; without one (NULL) alpha is dropped. */
static inline void zoe_lay_over(uint8_t *rgb, unsigned alpha, const uint8_t *background)
{
    for (size_t c = 0; background && c < 3; c++)
        rgb[c] = (uint8_t)((rgb[c] * alpha + background[c] * (255 - alpha) + 127) / 255);
}

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

zoe_status zoe_png_decode(zoe_context *ctx, zoe_picture *picture, zoe_span file,
                          const uint8_t *background);
/* The text entry `key` of a PNG file; ZOE_MISSING if there is none. */
zoe_status zoe_png_text(zoe_context *ctx, zoe_span file, const char *key, char **value);

/* ---- everything else, on libavcodec ---- */

typedef struct zoe_av_picture {
    zoe_span file;
    int codec;                 /* an AVCodecID */
    int adobe_transform;       /* of a JPEG */
    const char *name;          /* of the kind, for sentences */
    const uint8_t *background; /* or NULL: alpha is dropped */
} zoe_av_picture;
/* Decodes one picture with FFmpeg's decoder. */
zoe_status zoe_av_decode(zoe_context *ctx, zoe_picture *picture, const zoe_av_picture *what);
/* A status and sentence for a failure of an FFmpeg call. */
zoe_status zoe_av_fail(zoe_context *ctx, int error, zoe_status status, const char *what);
/* FFmpeg's log is global to the process and goes to stderr; this turns it off. */
void zoe_av_quiet(void);

/* Frames of FFmpeg into the values of a picture that has their size; had_alpha is set when a pixel
 * is not opaque. Of a video, alpha is dropped.
 *
 * zoe_av_rgb_of_simple   grey, RGB and palettes as pictures have them
 * zoe_av_rgb_of_video    any kind that a video has; see docs/MEDIA.md
 *
 * Errors: ZOE_UNSUPPORTED (a colour kind or matrix that is not read), ZOE_NOMEM. */
struct AVFrame;
zoe_status zoe_av_rgb_of_simple(zoe_context *ctx, zoe_picture *picture, const struct AVFrame *frame,
                                const uint8_t *background);
zoe_status zoe_av_rgb_of_video(zoe_context *ctx, zoe_picture *picture, const struct AVFrame *frame);

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

/* Frames of a video: how their YCbCr values mean colours. */
typedef struct zoe_yuv {
    size_t width, height;
    size_t step_x, step_y;          /* of chroma; planes have ceil(width / step_x) columns */
    int depth;                      /* bits of a value, 8..16 */
    bool full_range;                /* else luma 16..235 and chroma 16..240, times 2^(depth - 8) */
    bool on_left, on_top;           /* chroma stands on the first of its pixels, else amid them */
    double red_weight, blue_weight; /* in luma */
} zoe_yuv;
/* One row of luma, and of u and v the two rows that it lies between. */
typedef struct zoe_yuv_row {
    const uint16_t *luma, *near[2], *far[2];
    size_t weight; /* of the far row, in parts of 2 * step_y */
} zoe_yuv_row;
/* Which chroma rows belong to luma row y. */
void zoe_yuv_chroma_rows(size_t *near, size_t *far, size_t *weight, const zoe_yuv *yuv, size_t y);
/* Chroma is interpolated linearly between the four samples around; the result is rounded once. */
void zoe_yuv_row_to_rgb(uint8_t *rgb, const zoe_yuv *yuv, const zoe_yuv_row *row);

/* ---- RGB to YCbCr ---- */

/* BT.709 limited range, 4:2:0 with chroma amid its four pixels; planes of even width W >= width
 * and height H >= height, the last column and row of the picture are repeated into what is more. */
void zoe_rgb_to_yuv420(uint8_t *const plane[3], const int stride[3], const uint8_t *rgb,
                       size_t width, size_t height);
/* BT.601 full range (JFIF), 4:4:4, dense planes y, u, v of width*height one after the other. */
void zoe_rgb_to_yuv444(uint8_t *planes, const uint8_t *rgb, size_t width, size_t height);

/* ---- videos in, on libavformat ---- */

/* The name of FFmpeg's demuxer for a file that begins with these bytes; NULL if it is none of the
 * videos that are read (GIF is one). */
const char *zoe_demuxer_of(zoe_span head);
/* Is it a kind of picture or video that has a name here, whether it is read or not? */
bool zoe_kind_is_known(zoe_span head);

/* ZOE_FORMAT unless a regular file of this kind is complete, as far as its structure tells. */
zoe_status zoe_video_check_whole(zoe_context *ctx, int fd, const char *demuxer);

typedef struct zoe_av_reader zoe_av_reader;
/* A file whose first head.size bytes were read from fd already; fd is closed by
 * zoe_av_read_close, also after a failure. Only this file is ever read, whatever is in it. */
typedef struct zoe_av_source {
    int fd;
    zoe_span head; /* is copied; at most ZOE_HEAD_BYTES */
    const char *demuxer;
} zoe_av_source;
#define ZOE_HEAD_BYTES 32
/* Errors: those of zoe_video_read_open. The sentences do not name the file. */
zoe_status zoe_av_read_open(zoe_context *ctx, zoe_av_reader **reader, zoe_video_info *info,
                            const zoe_av_source *source);
zoe_status zoe_av_read_frame(zoe_context *ctx, zoe_av_reader *reader, zoe_picture *picture,
                             bool *got);
void zoe_av_read_close(zoe_av_reader *reader); /* NULL is fine */

/* ---- kinds of video out ---- */

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
