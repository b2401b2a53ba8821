/* Between RGB and YCbCr: exactly as the IJG's decoder and libwebp do it one way, and with exact
 * rounding the other. */
#include "media/parts.h"

static uint8_t clip(int v)
{
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

/* ---- JPEG ---- */

/* Coefficient in 16 fractional bits. */
#define FIX(x) ((int)((x)*65536.0 + 0.5))

static void rgb_of_jfif(uint8_t *rgb, int y, int cb, int cr)
{
    const int half = 1 << 15;
    cb -= 128;
    cr -= 128;
    rgb[0] = clip(y + ((FIX(1.40200) * cr + half) >> 16));
    rgb[1] = clip(y + ((-FIX(0.34414) * cb - FIX(0.71414) * cr + half) >> 16));
    rgb[2] = clip(y + ((FIX(1.77200) * cb + half) >> 16));
}

/* One row at twice the columns: 3/4 of the near and 1/4 of the far sample; the rounding
 * alternates. */
static void double_columns(uint8_t *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int v = 3 * in[i];
        out[2 * i] = i > 0 ? (uint8_t)((v + in[i - 1] + 1) >> 2) : in[i];
        out[2 * i + 1] = i + 1 < n ? (uint8_t)((v + in[i + 1] + 2) >> 2) : in[i];
    }
}

/* The same in both directions, from the near and the far row. */
static void double_both(uint8_t *out, const uint8_t *near, const uint8_t *far, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int here = 3 * near[i] + far[i];
        const int left = i > 0 ? 3 * near[i - 1] + far[i - 1] : here;
        const int right = i + 1 < n ? 3 * near[i + 1] + far[i + 1] : here;
        out[2 * i] = (uint8_t)((3 * here + left + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + right + 7) >> 4);
    }
}

/* Row y of a chroma plane at full width, in the way that the IJG's decoder chooses for these
 * steps. */
static const uint8_t *chroma_row_jpeg(uint8_t *scratch, const zoe_ycc *ycc, int plane, size_t y)
{
    const size_t sx = ycc->step_x, sy = ycc->step_y;
    const size_t n = (ycc->width + sx - 1) / sx, rows = (ycc->height + sy - 1) / sy;
    const size_t row = y / sy, last = rows - 1;
    const ptrdiff_t stride = ycc->stride[plane];
    const uint8_t *near = ycc->plane[plane] + (ptrdiff_t)row * stride;
    const size_t other = y % sy == 0 ? (row > 0 ? row - 1 : 0) : (row < last ? row + 1 : last);
    const uint8_t *far = ycc->plane[plane] + (ptrdiff_t)other * stride;
    if (sx == 1 && sy == 1)
        return near;
    if (sx == 2 && sy == 1 && n > 2) {
        double_columns(scratch, near, n);
    } else if (sx == 2 && sy == 2 && n > 2) {
        double_both(scratch, near, far, n);
    } else if (sx == 1 && sy == 2) {
        const int bias = y % 2 == 0 ? 1 : 2;
        for (size_t i = 0; i < n; i++)
            scratch[i] = (uint8_t)((3 * near[i] + far[i] + bias) >> 2);
    } else {
        for (size_t x = 0; x < ycc->width; x++)
            scratch[x] = near[x / sx];
    }
    return scratch;
}

zoe_status zoe_ycc_to_rgb_jpeg(zoe_context *ctx, uint8_t *rgb, const zoe_ycc *ycc)
{
    void *scratch;
    const size_t room = ycc->width + 2;
    TRY(zoe_alloc(ctx, &scratch, room, 2, "rows of a JPEG picture"));
    for (size_t y = 0; y < ycc->height; y++) {
        const uint8_t *luma = ycc->plane[0] + (ptrdiff_t)y * ycc->stride[0];
        const uint8_t *cb = chroma_row_jpeg(scratch, ycc, 1, y);
        const uint8_t *cr = chroma_row_jpeg((uint8_t *)scratch + room, ycc, 2, y);
        for (size_t x = 0; x < ycc->width; x++)
            rgb_of_jfif(rgb + 3 * (y * ycc->width + x), luma[x], cb[x], cr[x]);
    }
    zoe_free(scratch);
    return ZOE_OK;
}

/* ---- WebP ---- */

/* Products keep 6 fractional bits. */
static int times(int v, int coefficient)
{
    return (v * coefficient) >> 8;
}

static void rgb_of_webp(uint8_t *rgb, int y, int u, int v)
{
    const int luma = times(y, 19077);
    const int r = luma + times(v, 26149) - 14234;
    const int g = luma - times(u, 6419) - times(v, 13320) + 8708;
    const int b = luma + times(u, 33050) - 17685;
    rgb[0] = clip(r >> 6);
    rgb[1] = clip(g >> 6);
    rgb[2] = clip(b >> 6);
}

/* A chroma sample at column x, between the near and the far row, 9:3:3:1 rounded in two steps. */
static int chroma_webp(const uint8_t *near, const uint8_t *far, size_t x, size_t width)
{
    const size_t i = x / 2;
    if (x == 0 || (x % 2 == 1 && x == width - 1))
        return (3 * near[i] + far[i] + 2) >> 2;
    /* The column of samples on the other side. */
    const size_t j = x % 2 == 1 ? i + 1 : i - 1;
    const int sum = near[i] + near[j] + far[i] + far[j] + 8;
    return (((sum + 2 * (near[j] + far[i])) >> 3) + near[i]) >> 1;
}

void zoe_ycc_to_rgb_webp(uint8_t *rgb, const zoe_ycc *ycc)
{
    const size_t last = (ycc->height + 1) / 2 - 1;
    for (size_t y = 0; y < ycc->height; y++) {
        const size_t row = y / 2;
        const size_t other = y % 2 == 0 ? (row > 0 ? row - 1 : 0) : (row < last ? row + 1 : last);
        const uint8_t *luma = ycc->plane[0] + (ptrdiff_t)y * ycc->stride[0];
        const uint8_t *near[2], *far[2];
        for (int c = 0; c < 2; c++) {
            near[c] = ycc->plane[c + 1] + (ptrdiff_t)row * ycc->stride[c + 1];
            far[c] = ycc->plane[c + 1] + (ptrdiff_t)other * ycc->stride[c + 1];
        }
        for (size_t x = 0; x < ycc->width; x++)
            rgb_of_webp(rgb + 3 * (y * ycc->width + x), luma[x],
                        chroma_webp(near[0], far[0], x, ycc->width),
                        chroma_webp(near[1], far[1], x, ycc->width));
    }
}

/* ---- RGB to YCbCr ---- */

/* Rows of a matrix with 16 fractional bits. */
typedef struct ycc_matrix {
    int y[3], u[3], v[3];
    int y_offset;
} ycc_matrix;

/* BT.709, luma 16..235, chroma 16..240: each row of the luma weights (0.2126, 0.7152, 0.0722)
 * times 219/255, of the differences times 224/255/2/(1 - weight). Rows of chroma sum to 0, so that
 * grey stays grey. */
static const ycc_matrix bt709_limited = {
    .y = {11966, 40254, 4064},
    .u = {-6596, -22189, 28785},
    .v = {28784, -26145, -2639},
    .y_offset = 16,
};

/* BT.601 as in JFIF: 0.299, 0.587, 0.114, everything 0..255. */
static const ycc_matrix jfif = {
    .y = {19595, 38470, 7471},
    .u = {-11058, -21710, 32768},
    .v = {32768, -27439, -5329},
    .y_offset = 0,
};

static uint8_t weighed(const int row[3], const uint8_t *rgb, int offset)
{
    return clip(((row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2] + 32768) >> 16) + offset);
}

void zoe_rgb_to_yuv444(uint8_t *planes, const uint8_t *rgb, size_t width, size_t height)
{
    const size_t n = width * height;
    for (size_t i = 0; i < n; i++) {
        planes[i] = weighed(jfif.y, rgb + 3 * i, jfif.y_offset);
        planes[n + i] = weighed(jfif.u, rgb + 3 * i, 128);
        planes[2 * n + i] = weighed(jfif.v, rgb + 3 * i, 128);
    }
}

/* Of the sum of four pixels, as chroma. */
static uint8_t weighed_quarters(const int row[3], const int sum[3])
{
    const int v = row[0] * sum[0] + row[1] * sum[1] + row[2] * sum[2];
    return clip(((v + (1 << 17)) >> 18) + 128);
}

void zoe_rgb_to_yuv420(uint8_t *const plane[3], const int stride[3], const uint8_t *rgb,
                       size_t width, size_t height)
{
    const ycc_matrix *m = &bt709_limited;
    const size_t last = width - 1;
    for (size_t y = 0; y < height + (height & 1); y += 2) {
        const uint8_t *row[2] = {rgb + 3 * y * width,
                                 rgb + 3 * (y + 1 < height ? y + 1 : y) * width};
        for (size_t k = 0; k < 2; k++) {
            uint8_t *luma = plane[0] + (ptrdiff_t)(y + k) * stride[0];
            for (size_t x = 0; x < width; x++)
                luma[x] = weighed(m->y, row[k] + 3 * x, m->y_offset);
            if (width & 1)
                luma[width] = luma[last];
        }
        uint8_t *u = plane[1] + (ptrdiff_t)(y / 2) * stride[1];
        uint8_t *v = plane[2] + (ptrdiff_t)(y / 2) * stride[2];
        for (size_t x = 0; x < width; x += 2) {
            const size_t right = x < last ? x + 1 : last;
            int sum[3];
            for (size_t c = 0; c < 3; c++)
                sum[c] = row[0][3 * x + c] + row[0][3 * right + c] + row[1][3 * x + c] +
                         row[1][3 * right + c];
            u[x / 2] = weighed_quarters(m->u, sum);
            v[x / 2] = weighed_quarters(m->v, sum);
        }
    }
}
