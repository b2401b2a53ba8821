/* Pictures that libavcodec decodes: JPEG, WebP, BMP, TIFF, GIF, PNM. Only the decoders are FFmpeg's:
 * containers are not probed, and colours are converted here, as libjpeg and libwebp convert them. */
#include "media/media.h"
#include "media/parts.h"

#include <libavcodec/avcodec.h>
#include <libavutil/pixdesc.h>

void zoe_av_quiet(void)
{
    av_log_set_level(AV_LOG_QUIET);
}

zoe_status zoe_av_fail(zoe_context *ctx, int error, zoe_status status, const char *what)
{
    char reason[AV_ERROR_MAX_STRING_SIZE];
    if (error == AVERROR(ENOMEM))
        return zoe_fail(ctx, ZOE_NOMEM, "%s: no memory", what);
    if (error == AVERROR_PATCHWELCOME)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s: a kind of content that FFmpeg does not know",
                        what);
    av_strerror(error, reason, sizeof reason);
    return zoe_fail(ctx, status, "%s: %s", what, reason);
}

/* ---- frames to RGB ---- */

/* Of a frame with a fourth plane. */
static void use_alpha(zoe_picture *picture, const AVFrame *frame, const uint8_t *background)
{
    uint8_t *rgb = picture->rgb;
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++, rgb += 3) {
            const uint8_t alpha = frame->data[3][y * (ptrdiff_t)frame->linesize[3] + x];
            picture->had_alpha |= alpha != 255;
            zoe_lay_over(rgb, alpha, background);
        }
}

static zoe_status rgb_of_ycc(zoe_context *ctx, zoe_picture *picture, const AVFrame *frame,
                             const AVPixFmtDescriptor *desc, const zoe_av_picture *what)
{
    const zoe_ycc ycc = {
        .width = picture->width,
        .height = picture->height,
        .step_x = (size_t)1 << desc->log2_chroma_w,
        .step_y = (size_t)1 << desc->log2_chroma_h,
        .plane = {frame->data[0], frame->data[1], frame->data[2]},
        .stride = {frame->linesize[0], frame->linesize[1], frame->linesize[2]},
    };
    if (what->codec == AV_CODEC_ID_MJPEG)
        TRY(zoe_ycc_to_rgb_jpeg(ctx, picture->rgb, &ycc));
    else
        zoe_ycc_to_rgb_webp(picture->rgb, &ycc);
    if (desc->flags & AV_PIX_FMT_FLAG_ALPHA)
        use_alpha(picture, frame, what->background);
    return ZOE_OK;
}

/* Four components from a JPEG are CMYK or YCCK. FFmpeg multiplies by K and sets the fourth to 255
 * for the two forms that Adobe's programs write; for others it passes ink as if it were light. */
static bool is_foreign_cmyk(const AVFrame *frame, const AVPixFmtDescriptor *desc, int adobe)
{
    return desc->nb_components == 4 && !(frame->format == AV_PIX_FMT_GBRAP && adobe == 0) &&
           !(frame->format == AV_PIX_FMT_YUVA444P && adobe == 2);
}

static zoe_status rgb_of_frame(zoe_context *ctx, zoe_picture *picture, const AVFrame *frame,
                               const zoe_av_picture *what)
{
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(frame->format);
    if (!desc || frame->width <= 0 || frame->height <= 0)
        return zoe_fail(ctx, ZOE_FORMAT, "broken %s", what->name);
    const bool jpeg = what->codec == AV_CODEC_ID_MJPEG, webp = what->codec == AV_CODEC_ID_WEBP;
    const bool simple = desc->flags & AV_PIX_FMT_FLAG_RGB || desc->nb_components < 3;
    const bool ycc = desc->flags & AV_PIX_FMT_FLAG_PLANAR && desc->comp[0].depth == 8 &&
                     (jpeg || (webp && desc->log2_chroma_w == 1 && desc->log2_chroma_h == 1));
    const bool foreign = jpeg && is_foreign_cmyk(frame, desc, what->adobe_transform);
    if (foreign || desc->flags & AV_PIX_FMT_FLAG_FLOAT || !(simple || ycc))
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s of colour kind %s is not read; convert it to RGB",
                        what->name,
                        foreign ? "CMYK in a form that FFmpeg does not convert" : desc->name);
    TRY(zoe_picture_new(ctx, picture, (size_t)frame->width, (size_t)frame->height));
    return simple ? zoe_av_rgb_of_simple(ctx, picture, frame, what->background)
                  : rgb_of_ycc(ctx, picture, frame, desc, what);
}

/* ---- decoding ---- */

static zoe_status decode_frame(zoe_context *ctx, AVCodecContext *codec, AVFrame *frame,
                               AVPacket *packet, const char *name)
{
    char what[64];
    snprintf(what, sizeof what, "broken %s", name);
    int error = avcodec_send_packet(codec, packet);
    if (error >= 0)
        error = avcodec_receive_frame(codec, frame);
    if (error == AVERROR(EAGAIN) || error == AVERROR_EOF) {
        avcodec_send_packet(codec, NULL);
        error = avcodec_receive_frame(codec, frame);
    }
    if (error == AVERROR(EAGAIN) || error == AVERROR_EOF)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: no picture in it", what);
    if (error < 0)
        return zoe_av_fail(ctx, error, ZOE_FORMAT, what);
    if (frame->flags & AV_FRAME_FLAG_CORRUPT || frame->decode_error_flags)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: parts of the picture are damaged", what);
    return ZOE_OK;
}

zoe_status zoe_av_decode(zoe_context *ctx, zoe_picture *picture, const zoe_av_picture *what)
{
    const zoe_span file = what->file;
    const char *name = what->name;
    *picture = (zoe_picture){0};
    zoe_av_quiet();
    const AVCodec *decoder = avcodec_find_decoder((enum AVCodecID)what->codec);
    if (!decoder)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "the FFmpeg of this system cannot decode %s", name);
    if (file.size > INT_MAX - AV_INPUT_BUFFER_PADDING_SIZE)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s of %zu bytes is too large", name, file.size);
    zoe_status status = ZOE_NOMEM;
    AVCodecContext *codec = avcodec_alloc_context3(decoder);
    AVFrame *frame = av_frame_alloc();
    AVPacket *packet = av_packet_alloc();
    if (!codec || !frame || !packet) {
        zoe_fail(ctx, status, "no memory for a %s picture", name);
        goto done;
    }
    codec->thread_count = 1;
    codec->err_recognition = AV_EF_EXPLODE | AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER;
    codec->idct_algo =
        FF_IDCT_FAAN; /* the nearest to libjpeg's: 97.5 % of values equal, rest within 3 */
    const int error = avcodec_open2(codec, decoder, NULL);
    if (error < 0) {
        status = zoe_av_fail(ctx, error, ZOE_UNSUPPORTED, name);
        goto done;
    }
    /* Not reference counted: avcodec makes its own padded copy. */
    packet->data = (uint8_t *)(uintptr_t)file.data;
    packet->size = (int)file.size;
    TRY_GOTO(decode_frame(ctx, codec, frame, packet, name));
    TRY_GOTO(rgb_of_frame(ctx, picture, frame, what));
done:
    av_packet_free(&packet);
    av_frame_free(&frame);
    avcodec_free_context(&codec);
    if (status != ZOE_OK)
        zoe_picture_free(picture);
    return status;
}
