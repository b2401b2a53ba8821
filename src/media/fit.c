/* How large the video of a picture is: the official size rules, and the fit of TI2V-5B. */
#include "media/media.h"
#include "media/parts.h"

static zoe_status check_result(zoe_context *ctx, double H, double W, size_t h_img, size_t w_img,
                               size_t max_area, int multiple)
{
    /* Written so that NaN is refused too. */
    if (!(H >= 1.0 && W >= 1.0 && H <= ZOE_MAX_SIDE && W <= ZOE_MAX_SIDE))
        return zoe_fail(ctx, ZOE_INVALID,
                        "the picture is %zux%zu (width x height); at an area of %zu pixels the "
                        "size rule makes a video of %.0fx%.0f of it, and sides of %d to %d are "
                        "wanted: ask for another size, or crop the picture",
                        w_img, h_img, max_area, W, H, multiple, ZOE_MAX_SIDE);
    return ZOE_OK;
}

static zoe_status check_picture(zoe_context *ctx, size_t h_img, size_t w_img)
{
    if (h_img == 0 || w_img == 0)
        return zoe_fail(ctx, ZOE_INVALID, "a picture of %zux%zu has no pixels", w_img, h_img);
    return ZOE_OK;
}

zoe_status zoe_size_i2v(zoe_context *ctx, size_t *H, size_t *W, size_t h_img, size_t w_img,
                        size_t max_area)
{
    TRY(check_picture(ctx, h_img, w_img));
    const double aspect = (double)h_img / (double)w_img;
    const double vh = sqrt((double)max_area * aspect), vw = sqrt((double)max_area / aspect);
    const double h = 8.0 * rint(floor(floor(vh / 8.0) / 2.0) * 2.0);
    const double w = 8.0 * rint(floor(floor(vw / 8.0) / 2.0) * 2.0);
    TRY(check_result(ctx, h, w, h_img, w_img, max_area, 16));
    *H = (size_t)h;
    *W = (size_t)w;
    return ZOE_OK;
}

/* The multiple of 32 at or below x. */
static double down_to_32(double x)
{
    return floor(x / 32.0) * 32.0;
}

zoe_status zoe_size_ti2v(zoe_context *ctx, size_t *H, size_t *W, size_t h_img, size_t w_img,
                         size_t max_area)
{
    TRY(check_picture(ctx, h_img, w_img));
    const double area = (double)max_area, ratio = (double)w_img / (double)h_img;
    /* pow, not sqrt: the reference raises to the power 0.5, which may differ in the last bit. */
    const double w = pow(area * ratio, 0.5), h = area / w;
    TRY(check_result(ctx, down_to_32(h), down_to_32(w), h_img, w_img, max_area, 32));
    /* One side is rounded down first and the other follows, in both orders. */
    const double w1 = down_to_32(w), h1 = down_to_32(area / w1), ratio1 = w1 / h1;
    const double h2 = down_to_32(h), w2 = down_to_32(area / h2), ratio2 = w2 / h2;
    TRY(check_result(ctx, h1, w1, h_img, w_img, max_area, 32));
    TRY(check_result(ctx, h2, w2, h_img, w_img, max_area, 32));
    const bool first = fmax(ratio / ratio1, ratio1 / ratio) < fmax(ratio / ratio2, ratio2 / ratio);
    *H = (size_t)(first ? h1 : h2);
    *W = (size_t)(first ? w1 : w2);
    return ZOE_OK;
}

zoe_status zoe_size_cover(zoe_context *ctx, size_t *h, size_t *w, size_t H, size_t W, size_t h_img,
                          size_t w_img)
{
    TRY(check_picture(ctx, h_img, w_img));
    const double scale = fmax((double)W / (double)w_img, (double)H / (double)h_img);
    const double width = rint((double)w_img * scale), height = rint((double)h_img * scale);
    if (!(width >= 1.0 && height >= 1.0 && width * height <= (double)ZOE_MAX_PIXELS))
        return zoe_fail(ctx, ZOE_INVALID,
                        "a picture of %zux%zu would be scaled to %.0fx%.0f to cover %zux%zu; 1 to "
                        "%zu pixels are wanted",
                        w_img, h_img, width, height, W, H, ZOE_MAX_PIXELS);
    *w = (size_t)width;
    *h = (size_t)height;
    return ZOE_OK;
}

zoe_status zoe_picture_cover(zoe_context *ctx, zoe_picture *out, size_t W, size_t H,
                             const zoe_picture *in)
{
    *out = (zoe_picture){0};
    zoe_picture scaled = {0};
    size_t h, w;
    zoe_status status;
    TRY_GOTO(zoe_size_cover(ctx, &h, &w, H, W, in->height, in->width));
    if (h < H || w < W) {
        status = zoe_fail(ctx, ZOE_INVALID, "a picture of %zux%zu cannot cover %zux%zu", in->width,
                          in->height, W, H);
        goto done;
    }
    TRY_GOTO(zoe_resize_lanczos(ctx, &scaled, w, h, in));
    TRY_GOTO(zoe_picture_new(ctx, out, W, H));
    out->had_alpha = in->had_alpha;
    const uint8_t *from = scaled.rgb + 3 * ((h - H) / 2 * w + (w - W) / 2);
    for (size_t y = 0; y < H; y++)
        memcpy(out->rgb + 3 * y * W, from + 3 * y * w, 3 * W);
done:
    zoe_picture_free(&scaled);
    return status;
}
