/* FFmpeg's frames to RGB. */
#include "media/media.h"
#include "media/parts.h"

#include <libavutil/frame.h>
#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>

/* ---- grey, RGB and palettes ---- */

/* v of `depth` bits in 8: wide values lose their low bits, narrow ones are stretched to 0..255. */
static uint8_t to_8_bits(unsigned v, int depth)
{
    if (depth >= 8)
        return (uint8_t)(v >> (depth - 8));
    return (uint8_t)(v * 255u / ((1u << depth) - 1u));
}

static void put_component(zoe_picture *picture, uint8_t *out, const uint16_t *line, int component,
                          const AVPixFmtDescriptor *desc, bool grey, bool inverted,
                          const uint8_t *background)
{
    const bool alpha = desc->flags & AV_PIX_FMT_FLAG_ALPHA && component == desc->nb_components - 1;
    const int depth = desc->comp[component].depth;
    const bool grey16 = grey && desc->nb_components == 1 && depth == 16;
    for (size_t x = 0; x < picture->width; x++) {
        uint8_t v = grey16 ? zoe_grey16_to_8(line[x]) : to_8_bits(line[x], depth);
        if (inverted)
            v = (uint8_t)(255 - v);
        if (alpha) {
            picture->had_alpha |= v != 255;
            zoe_lay_over(out + 3 * x, v, background);
        } else if (grey)
            memset(out + 3 * x, v, 3);
        else
            out[3 * x + (size_t)component] = v;
    }
}

/* Grey and RGB frames of any layout; the last component may be alpha, which is dropped. */
static zoe_status rgb_of_components(zoe_context *ctx, zoe_picture *picture, const AVFrame *frame,
                                    const AVPixFmtDescriptor *desc, const uint8_t *background)
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
                          frame->format == AV_PIX_FMT_MONOWHITE, background);
        }
    zoe_free(line);
    return ZOE_OK;
}

/* A palette's colours are 32-bit words of alpha, red, green, blue from the top. */
static void rgb_of_palette(zoe_picture *picture, const AVFrame *frame, const uint8_t *background)
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
            zoe_lay_over(out, colour >> 24, background);
        }
}

zoe_status zoe_av_rgb_of_simple(zoe_context *ctx, zoe_picture *picture, const AVFrame *frame,
                                const uint8_t *background)
{
    if (frame->format != AV_PIX_FMT_PAL8)
        return rgb_of_components(ctx, picture, frame, av_pix_fmt_desc_get(frame->format),
                                 background);
    rgb_of_palette(picture, frame, background);
    return ZOE_OK;
}

/* ---- videos ---- */

/* The weights of red and blue in luma, and whether this version knows them. No matrix stated is
 * BT.601, as FFmpeg's own conversion takes it. */
static bool weights_of(zoe_yuv *yuv, enum AVColorSpace space)
{
    static const struct {
        enum AVColorSpace space;
        double red, blue;
    } rows[] = {{AVCOL_SPC_UNSPECIFIED, 0.299, 0.114}, {AVCOL_SPC_BT470BG, 0.299, 0.114},
                {AVCOL_SPC_SMPTE170M, 0.299, 0.114},   {AVCOL_SPC_BT709, 0.2126, 0.0722},
                {AVCOL_SPC_FCC, 0.30, 0.11},           {AVCOL_SPC_SMPTE240M, 0.212, 0.087},
                {AVCOL_SPC_BT2020_NCL, 0.2627, 0.0593}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].space == space) {
            yuv->red_weight = rows[i].red;
            yuv->blue_weight = rows[i].blue;
            return true;
        }
    return false;
}

static bool has_full_range(const AVFrame *frame, bool grey)
{
    switch (frame->format) {
    case AV_PIX_FMT_YUVJ420P:
    case AV_PIX_FMT_YUVJ422P:
    case AV_PIX_FMT_YUVJ444P:
    case AV_PIX_FMT_YUVJ440P:
    case AV_PIX_FMT_YUVJ411P: return true;
    default: break;
    }
    return frame->color_range == AVCOL_RANGE_JPEG ||
           (grey && frame->color_range == AVCOL_RANGE_UNSPECIFIED);
}

static void read_row(uint16_t *row, const AVFrame *frame, const AVPixFmtDescriptor *desc,
                     int component, size_t y, size_t n)
{
    av_read_image_line2(row, (const uint8_t **)(uintptr_t)frame->data, frame->linesize, desc, 0,
                        (int)y, component, (int)n, 0, sizeof *row);
}

/* rows: luma, then near and far row of u, near and far row of v; `width` values each. */
static void rgb_of_rows(zoe_picture *picture, uint16_t *rows, const AVFrame *frame,
                        const AVPixFmtDescriptor *desc, const zoe_yuv *yuv)
{
    const size_t w = yuv->width, n = (w + yuv->step_x - 1) / yuv->step_x;
    uint16_t *near[2] = {rows + w, rows + 2 * w}, *far[2] = {rows + 3 * w, rows + 4 * w};
    const bool grey = desc->nb_components < 3;
    for (size_t i = w; grey && i < 5 * w; i++)
        rows[i] = (uint16_t)(1u << (yuv->depth - 1));
    for (size_t y = 0; y < yuv->height; y++) {
        zoe_yuv_row row = {rows, {near[0], near[1]}, {far[0], far[1]}, 0};
        size_t first, second;
        zoe_yuv_chroma_rows(&first, &second, &row.weight, yuv, y);
        read_row(rows, frame, desc, 0, y, w);
        for (int c = 0; c < 2 && !grey; c++) {
            read_row(near[c], frame, desc, c + 1, first, n);
            read_row(far[c], frame, desc, c + 1, second, n);
        }
        zoe_yuv_row_to_rgb(picture->rgb + 3 * y * w, yuv, &row);
    }
}

zoe_status zoe_av_rgb_of_video(zoe_context *ctx, zoe_picture *picture, const AVFrame *frame)
{
    const AVPixFmtDescriptor *desc = av_pix_fmt_desc_get(frame->format);
    const unsigned other = AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_BAYER |
                           AV_PIX_FMT_FLAG_BITSTREAM;
    if (!desc || desc->flags & other || desc->comp[0].depth < 8)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "frames of colour kind %s are not read",
                        desc ? desc->name : "unknown");
    if (desc->flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_PAL))
        return zoe_av_rgb_of_simple(ctx, picture, frame, NULL);
    const bool grey = desc->nb_components < 3;
    const enum AVChromaLocation at = frame->chroma_location;
    zoe_yuv yuv = {
        .width = picture->width,
        .height = picture->height,
        .step_x = (size_t)1 << desc->log2_chroma_w,
        .step_y = (size_t)1 << desc->log2_chroma_h,
        .depth = desc->comp[0].depth,
        .full_range = has_full_range(frame, grey),
        /* Not stated: to the left, as in MPEG-2 and H.264. */
        .on_left = at != AVCHROMA_LOC_CENTER && at != AVCHROMA_LOC_TOP && at != AVCHROMA_LOC_BOTTOM,
        .on_top = at == AVCHROMA_LOC_TOPLEFT || at == AVCHROMA_LOC_TOP,
    };
    if (!weights_of(&yuv, frame->colorspace))
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "frames with the colour matrix %s are not read",
                        av_color_space_name(frame->colorspace));
    void *rows;
    TRY(zoe_alloc(ctx, &rows, yuv.width, 5 * sizeof(uint16_t), "rows of a frame"));
    rgb_of_rows(picture, rows, frame, desc, &yuv);
    zoe_free(rows);
    return ZOE_OK;
}
