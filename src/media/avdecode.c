/* Pictures that libavcodec decodes: JPEG, WebP, BMP, TIFF, GIF, PNM. Only the decoders are FFmpeg's:
 * containers are not probed, and colours are converted here, as libjpeg and libwebp convert them. */
#include "media/media.h"
#include "media/parts.h"

#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
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

/* v of `depth` bits in 8: wide values lose their low bits, narrow ones are stretched to 0..255. */
static uint8_t to_8_bits(unsigned v, int depth)
{
    if (depth >= 8)
        return (uint8_t)(v >> (depth - 8));
    return (uint8_t)(v * 255u / ((1u << depth) - 1u));
}

static void put_component(zoe_picture *picture, uint8_t *out, const uint16_t *line, int component,
                          const AVPixFmtDescriptor *desc, bool grey, bool inverted)
{
    const bool alpha = desc->flags & AV_PIX_FMT_FLAG_ALPHA && component == desc->nb_components - 1;
    const int depth = desc->comp[component].depth;
    const bool grey16 = grey && desc->nb_components == 1 && depth == 16;
    for (size_t x = 0; x < picture->width; x++) {
        uint8_t v = grey16 ? zoe_grey16_to_8(line[x]) : to_8_bits(line[x], depth);
        if (inverted)
            v = (uint8_t)(255 - v);
        if (alpha)
            picture->had_alpha |= v != 255;
        else if (grey)
            memset(out + 3 * x, v, 3);
        else
            out[3 * x + (size_t)component] = v;
    }
}

/* Grey and RGB frames of any layout; the last component may be alpha, which is dropped. */
static zoe_status rgb_of_components(zoe_context *ctx, zoe_picture *picture, const AVFrame *frame,
                                    const AVPixFmtDescriptor *desc)
{
    const bool grey = desc->nb_components < 3;
    const size_t w = picture->width;
    void *line;
    TRY(zoe_alloc(ctx, &line, w, sizeof(uint16_t), "a row of a picture"));
    if (desc->nb_components == 1 && desc->comp[0].depth == 16)
        zoe_log(ctx, ZOE_WARNING, ZOE_GREY16_WARNING);
    for (size_t y = 0; y < picture->height; y++)
        for (int c = 0; c < desc->nb_components; c++) {
            av_read_image_line2(line, (const uint8_t **)(uintptr_t)frame->data, frame->linesize,
                                desc, 0, (int)y, c, (int)w, 0, sizeof(uint16_t));
            put_component(picture, picture->rgb + 3 * y * w, line, c, desc, grey,
                          frame->format == AV_PIX_FMT_MONOWHITE);
        }
    zoe_free(line);
    return ZOE_OK;
}

/* A palette's colours are 32-bit words of alpha, red, green, blue from the top. */
static void rgb_of_palette(zoe_picture *picture, const AVFrame *frame)
{
    uint8_t *out = picture->rgb;
    for (size_t y = 0; y < picture->height; y++)
        for (size_t x = 0; x < picture->width; x++, out += 3) {
            uint32_t colour;
            const uint8_t index = frame->data[0][(ptrdiff_t)y * frame->linesize[0] + (ptrdiff_t)x];
            memcpy(&colour, frame->data[1] + sizeof colour * index, sizeof colour);
            picture->had_alpha |= colour >> 24 != 255;
            out[0] = (uint8_t)(colour >> 16);
            out[1] = (uint8_t)(colour >> 8);
            out[2] = (uint8_t)colour;
        }
}

static bool alpha_is_used(const AVFrame *frame)
{
    for (int y = 0; y < frame->height; y++)
        for (int x = 0; x < frame->width; x++)
            if (frame->data[3][y * (ptrdiff_t)frame->linesize[3] + x] != 255)
                return true;
    return false;
}

static zoe_status rgb_of_ycc(zoe_context *ctx, zoe_picture *picture, const AVFrame *frame,
                             const AVPixFmtDescriptor *desc, int codec)
{
    const zoe_ycc ycc = {
        .width = picture->width,
        .height = picture->height,
        .step_x = (size_t)1 << desc->log2_chroma_w,
        .step_y = (size_t)1 << desc->log2_chroma_h,
        .plane = {frame->data[0], frame->data[1], frame->data[2]},
        .stride = {frame->linesize[0], frame->linesize[1], frame->linesize[2]},
    };
    if (desc->flags & AV_PIX_FMT_FLAG_ALPHA)
        picture->had_alpha = alpha_is_used(frame);
    if (codec == AV_CODEC_ID_MJPEG)
        return zoe_ycc_to_rgb_jpeg(ctx, picture->rgb, &ycc);
    zoe_ycc_to_rgb_webp(picture->rgb, &ycc);
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
    if (frame->format == AV_PIX_FMT_PAL8) {
        rgb_of_palette(picture, frame);
        return ZOE_OK;
    }
    return simple ? rgb_of_components(ctx, picture, frame, desc)
                  : rgb_of_ycc(ctx, picture, frame, desc, what->codec);
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
