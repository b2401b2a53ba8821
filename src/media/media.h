/* Room 2, media: pictures in, resampling, frames out. On FFmpeg's libraries. Knows nothing of
 * models. */
#ifndef ZOE_MEDIA_H
#define ZOE_MEDIA_H

#include "base/base.h"

/* An 8-bit RGB picture, rows dense, top row first. */
typedef struct zoe_picture {
    size_t width, height;
    uint8_t *rgb;
    bool had_alpha; /* some pixel was not opaque */
} zoe_picture;

/* Decodes the first frame of a picture file: PNG, JPEG, WebP, BMP, TIFF, GIF or PNM, told by
 * content. The values are those of Pillow's convert("RGB"): alpha is dropped. Any path bytes are
 * fine; pipes too. EXIF orientation 2..8 is applied unless keep_orientation; other values are
 * ignored.
 *
 * Errors: ZOE_MISSING, ZOE_IO, ZOE_FORMAT (broken or cut off), ZOE_UNSUPPORTED (a kind that cannot
 * be read, or over 2^28 pixels), ZOE_NOMEM. */
zoe_status zoe_picture_read(zoe_context *ctx, zoe_picture *picture, const char *path,
                            bool keep_orientation);
/* The same from size bytes of memory. */
zoe_status zoe_picture_decode(zoe_context *ctx, zoe_picture *picture, const void *data, size_t size,
                              bool keep_orientation);
/* The same, but laid over a colour (red, green, blue) instead of dropping alpha: value * alpha +
 * colour * (1 - alpha), rounded. NULL drops alpha. */
zoe_status zoe_picture_decode_on(zoe_context *ctx, zoe_picture *picture, const void *data,
                                 size_t size, bool keep_orientation, const uint8_t *background);
void zoe_picture_free(zoe_picture *picture); /* a zeroed picture is fine */
/* PNG with optional text entries (n_meta pairs of key, UTF-8 value), written aside and renamed. */
zoe_status zoe_picture_write_png(zoe_context *ctx, const char *path, const zoe_picture *picture,
                                 const char *const (*metadata)[2], size_t n_meta);

/* The same in memory, without text entries, made for speed; free *data with zoe_free. */
zoe_status zoe_picture_encode_png(zoe_context *ctx, void **data, size_t *size,
                                  const zoe_picture *picture);

/* torch.nn.functional.interpolate(mode="bicubic", align_corners=False, antialias=False) of planes
 * [C, h, w] into [C, H, W], f32, not clamped. Spec: A = -0.75, taps clamped to the border. */
zoe_status zoe_resize_bicubic(zoe_context *ctx, float *out, size_t H, size_t W, const float *in,
                              size_t C, size_t h, size_t w);
/* Picture to planes [3, height, width] in [-1, 1] by x/255, (x - 0.5)/0.5. */
void zoe_picture_to_planes(float *out, const zoe_picture *picture);
/* Pillow's LANCZOS on 8-bit RGB, bit-exact; *out is a new picture. */
zoe_status zoe_resize_lanczos(zoe_context *ctx, zoe_picture *out, size_t W, size_t H,
                              const zoe_picture *in);

/* Output sizes for a picture of h_img x w_img pixels and an area, in the official code's arithmetic
 * (double, same order: the results hang on the last bit).
 *
 * zoe_size_i2v    both sides are multiples of 16 (A14B and Wan 2.1)
 * zoe_size_ti2v   both sides are multiples of 32 (TI2V-5B)
 *
 * Errors: ZOE_INVALID when a side of the picture is 0, or a side of the result is 0 or over
 * ZOE_MAX_SIDE. */
#define ZOE_MAX_SIDE 16384
zoe_status zoe_size_i2v(zoe_context *ctx, size_t *H, size_t *W, size_t h_img, size_t w_img,
                        size_t max_area);
zoe_status zoe_size_ti2v(zoe_context *ctx, size_t *H, size_t *W, size_t h_img, size_t w_img,
                         size_t max_area);
/* The size h x w to which a picture is scaled so that it covers H x W, as the TI2V-5B code rounds
 * it. Errors: ZOE_INVALID when it would be 0, or over 2^28 pixels. */
zoe_status zoe_size_cover(zoe_context *ctx, size_t *h, size_t *w, size_t H, size_t W, size_t h_img,
                          size_t w_img);
/* The TI2V-5B fit: LANCZOS to the covering size, then the middle H x W of it; *out is a new
 * picture. */
zoe_status zoe_picture_cover(zoe_context *ctx, zoe_picture *out, size_t W, size_t H,
                             const zoe_picture *in);

/* Where frames go. The kind follows the path's suffix: .mp4 (H.264), .webm (VP9), .y4m, .png (one
 * frame only), upper or lower case; "-" is Y4M on standard output. Frames are encoded as they come
 * into a file PATH.RANDOM.part; nothing stands under the final name before zoe_video_close. The bytes depend on frames and
 * options only, not on threads. See docs/MEDIA.md. */
typedef enum zoe_video_kind {
    ZOE_VIDEO_MP4,
    ZOE_VIDEO_WEBM,
    ZOE_VIDEO_Y4M,
    ZOE_VIDEO_PNG,
    ZOE_VIDEO_UNKNOWN
} zoe_video_kind;
zoe_video_kind zoe_video_kind_of(const char *path);

/* FFmpeg's encoder for a kind; NULL for kinds that need none. */
const char *zoe_video_encoder(zoe_video_kind kind);

typedef struct zoe_video zoe_video;
typedef struct zoe_video_options {
    size_t width, height;             /* 1..ZOE_MAX_SIDE */
    int fps_num, fps_den;             /* frames per second as a fraction, 1/1000..1000 */
    const char *const (*metadata)[2]; /* pairs of key, UTF-8 value; "comment" is the readable one.
                                         Not kept by Y4M */
    size_t n_meta;
    double quality; /* constant rate factor: H.264 up to 51, VP9 up to 63, less is better. 0 for the
                     * default: 10 for H.264 (what the official writer's quality 8 gives), 15 for
                     * VP9. Y4M and PNG are lossless */
} zoe_video_options;

/* Can a video of this kind and size be written there? For checks before work: names an unknown
 * suffix, a missing encoder, a folder that cannot be written. 4:2:0 takes odd sizes by repeating
 * the last row or column.
 *
 * Errors: ZOE_INVALID, ZOE_UNSUPPORTED (this FFmpeg lacks the encoder),
 * ZOE_IO. */
zoe_status zoe_video_probe(zoe_context *ctx, const char *path, const zoe_video_options *options);
/* Options are copied. *video is NULL on failure. Errors: those of zoe_video_probe, ZOE_NOMEM. */
zoe_status zoe_video_open(zoe_context *ctx, zoe_video **video, const char *path,
                          const zoe_video_options *options);
/* One frame, RGB, width*height*3 bytes, rows dense. Errors: ZOE_IO (disk full, reader of the pipe
 * gone), ZOE_INVALID (a second frame for PNG), ZOE_NOMEM, ZOE_INTERNAL. After an error only close
 * or abort make sense. */
zoe_status zoe_video_frame(zoe_context *ctx, zoe_video *video, const uint8_t *rgb);
/* Completes the file: flush, fsync, rename. The video is freed in any case; on failure, also when
 * an earlier frame failed or there was none, nothing is left behind. */
zoe_status zoe_video_close(zoe_context *ctx, zoe_video *video);
/* Gives the video up and removes what was written; NULL is fine. */
void zoe_video_abort(zoe_video *video);

/* Where frames come from: a video file, told by content (MP4 and MOV, WebM and Matroska, Y4M, GIF,
 * AVI), one picture, or a folder. Of a folder, the frames are frame_00000.png and so on without a
 * gap, beginning at any number, or, when none is named so, all .png, .jpg and .jpeg files in byte
 * order of their names. Colours become RGB by the matrix, range and place of chroma that the video
 * states; see docs/MEDIA.md for what is taken when it states none. Frames come in the order in
 * which they are shown, each once, not turned; alpha is dropped with a warning. */
typedef struct zoe_video_reader zoe_video_reader;
typedef struct zoe_video_info {
    size_t width, height;
    int fps_num, fps_den; /* 0/1 where there is no rate: pictures */
    size_t frames;        /* 0: known only at the end */
} zoe_video_info;
/* *reader is NULL on failure. Errors: ZOE_MISSING (no such file, a folder without pictures, a gap
 * in it), ZOE_IO, ZOE_FORMAT, ZOE_UNSUPPORTED (an unknown kind, over 2^28 pixels), ZOE_NOMEM. */
zoe_status zoe_video_read_open(zoe_context *ctx, zoe_video_reader **reader, const char *path);
const zoe_video_info *zoe_video_read_info(const zoe_video_reader *reader);
/* The next frame, RGB, width*height*3 bytes; *got is false when there is none left. Errors: those
 * of opening; ZOE_FORMAT when the size changes, or the file is broken or cut off; ZOE_CANCELLED. */
zoe_status zoe_video_read_frame(zoe_context *ctx, zoe_video_reader *reader, uint8_t *rgb,
                                bool *got);
void zoe_video_read_close(zoe_video_reader *reader); /* NULL is fine */

/* Bytes that writing so many frames takes at most, beside the caller's own: what encoders were seen
 * to take, and some more. path: NULL for none. */
size_t zoe_video_bytes(const char *path, size_t width, size_t height, size_t frames);

/* The value of a metadata key (ASCII case is ignored) of a PNG, MP4 or WebM file, UTF-8; free with
 * zoe_free.
 *
 * Errors: ZOE_MISSING (no such file or key), ZOE_IO, ZOE_FORMAT (broken), ZOE_UNSUPPORTED (another
 * kind of file). */
zoe_status zoe_media_metadata_read(zoe_context *ctx, const char *path, const char *key,
                                   char **value);

/* Peak signal-to-noise ratio in dB of n values with this peak (255 for bytes); inf for equal ones,
 * NaN if a value is. */
double zoe_psnr(const float *a, const float *b, size_t n, double peak);
double zoe_psnr_u8(const uint8_t *a, const uint8_t *b, size_t n);
/* The same from a sum of squared differences of n values. */
double zoe_psnr_of(double squares, double n, double peak);
/* The sum of squared differences; exact. */
uint64_t zoe_squares_u8(const uint8_t *a, const uint8_t *b, size_t n);

/* Structural similarity of two RGB pictures of one size: the mean over the channels R, G and B and
 * over all windows that lie inside the picture. Windows are 11x11, weighted by a Gaussian of sigma
 * 1.5; K1 = 0.01, K2 = 0.03, L = 255; variances are those of the window (divided by the sum of
 * weights). Exactly 1 for equal pictures, NaN for pictures narrower or lower than a window. In f64,
 * the same for any number of threads. Errors: ZOE_NOMEM.
 * Source: Wang, Bovik, Sheikh and Simoncelli 2004. */
zoe_status zoe_ssim_u8(zoe_context *ctx, double *ssim, const uint8_t *a, const uint8_t *b,
                       size_t width, size_t height);

#endif
