/* YCbCr of videos to RGB: any matrix, range, depth, subsampling and place of chroma. Exact sums in
 * f64, rounded once; the same on every machine. Pictures have the rounding of their own decoders,
 * see ycc.c. */
#include "media/parts.h"

typedef struct scale {
    double luma, black;   /* rgb = (y - black) * luma + ... */
    double red_v, blue_u; /* of the chroma, whose middle was taken off */
    double green_u, green_v;
    double middle;
} scale;

/* Kr and Kb are the weights of red and blue in luma. */
static scale scale_of(const zoe_yuv *yuv)
{
    const double kr = yuv->red_weight, kb = yuv->blue_weight, kg = 1.0 - kr - kb;
    const double step = (double)(1u << (yuv->depth - 8));
    const double top = (double)((1u << yuv->depth) - 1u);
    const double chroma = yuv->full_range ? 255.0 / top : 255.0 / (224.0 * step);
    return (scale){
        .luma = yuv->full_range ? 255.0 / top : 255.0 / (219.0 * step),
        .black = yuv->full_range ? 0.0 : 16.0 * step,
        .red_v = chroma * 2.0 * (1.0 - kr),
        .blue_u = chroma * 2.0 * (1.0 - kb),
        .green_u = chroma * 2.0 * kb * (1.0 - kb) / kg,
        .green_v = chroma * 2.0 * kr * (1.0 - kr) / kg,
        .middle = 128.0 * step,
    };
}

static uint8_t to_byte(double v)
{
    return v <= 0.0 ? 0 : v >= 255.0 ? 255 : (uint8_t)(v + 0.5);
}

/* Between which two samples of n does position x of the full grid lie, when a sample covers `step`
 * positions and stands in their middle, or on the first of them; the weight of the second one in
 * parts of 2 * step. */
static void between(size_t *first, size_t *second, size_t *weight, size_t x, size_t n, size_t step,
                    bool amid)
{
    const size_t parts = 2 * step;
    /* Twice the distance from sample 0, one step further to the right to stay positive. */
    const size_t at = 2 * x + parts - (amid ? step - 1 : 0);
    const size_t i = at / parts;
    *weight = at % parts;
    *first = i == 0 ? 0 : i - 1;
    *second = i < n ? i : n - 1;
}

void zoe_yuv_chroma_rows(size_t *near, size_t *far, size_t *weight, const zoe_yuv *yuv, size_t y)
{
    const size_t rows = (yuv->height + yuv->step_y - 1) / yuv->step_y;
    between(near, far, weight, y, rows, yuv->step_y, !yuv->on_top);
}

void zoe_yuv_row_to_rgb(uint8_t *rgb, const zoe_yuv *yuv, const zoe_yuv_row *row)
{
    const scale s = scale_of(yuv);
    const size_t n = (yuv->width + yuv->step_x - 1) / yuv->step_x;
    const size_t below = row->weight, above = 2 * yuv->step_y - below;
    const double whole = 4.0 * (double)(yuv->step_x * yuv->step_y);
    for (size_t x = 0; x < yuv->width; x++) {
        size_t left, right, weight;
        between(&left, &right, &weight, x, n, yuv->step_x, !yuv->on_left);
        const size_t rest = 2 * yuv->step_x - weight;
        double chroma[2];
        for (int c = 0; c < 2; c++) {
            const uint16_t *a = row->near[c], *b = row->far[c];
            const size_t sum = above * (rest * a[left] + weight * a[right]) +
                               below * (rest * b[left] + weight * b[right]);
            chroma[c] = (double)sum / whole - s.middle;
        }
        const double luma = ((double)row->luma[x] - s.black) * s.luma;
        rgb[3 * x] = to_byte(luma + s.red_v * chroma[1]);
        rgb[3 * x + 1] = to_byte(luma - s.green_u * chroma[0] - s.green_v * chroma[1]);
        rgb[3 * x + 2] = to_byte(luma + s.blue_u * chroma[0]);
    }
}
