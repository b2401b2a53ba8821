/* Resampling: torch's bicubic on float planes, Pillow's LANCZOS on 8-bit pictures. */
#include "media/media.h"
#include "media/parts.h"

/* ---- bicubic ---- */

typedef struct cubic_tap {
    size_t at[4];
    float weight[4];
} cubic_tap;

/* The cubic convolution kernel with A = -0.75, for |z| <= 1 and 1 < |z| < 2. */
static float cubic_near(float z)
{
    const float A = -0.75f;
    return fmaf(fmaf(A + 2.0f, z, -(A + 3.0f)) * z, z, 1.0f);
}

static float cubic_far(float z)
{
    const float A = -0.75f;
    return fmaf(fmaf(fmaf(A, z, -5.0f * A), z, 8.0f * A), z, -4.0f * A);
}

/* All in f32 with fused products, as the reference's build computes: f64 would give the positions
 * digits that f32 has not, and unfused products are four times as far from it. */
static void cubic_taps(cubic_tap *taps, size_t out, size_t in)
{
    const float scale = (float)in / (float)out;
    for (size_t o = 0; o < out; o++) {
        const float x = fmaf(scale, (float)o + 0.5f, -0.5f);
        const float base = floorf(x), t = x - base;
        for (int k = 0; k < 4; k++) {
            const float at = base + (float)(k - 1);
            const size_t last = in - 1;
            taps[o].at[k] = at <= 0.0f ? 0 : at >= (float)last ? last : (size_t)at;
        }
        taps[o].weight[0] = cubic_far(t + 1.0f);
        taps[o].weight[1] = cubic_near(t);
        taps[o].weight[2] = cubic_near(1.0f - t);
        taps[o].weight[3] = cubic_far(2.0f - t);
    }
}

typedef struct cubic_job {
    float *out, *middle; /* middle [C, h, W] */
    const float *in;
    const cubic_tap *columns, *rows;
    size_t H, W, h, w;
} cubic_job;

static void cubic_row(void *arg, size_t i, size_t worker)
{
    const cubic_job *job = arg;
    (void)worker;
    const float *in = job->in + i * job->w;
    float *out = job->middle + i * job->W;
    for (size_t x = 0; x < job->W; x++) {
        const cubic_tap *t = &job->columns[x];
        out[x] = in[t->at[0]] * t->weight[0] + in[t->at[1]] * t->weight[1] +
                 in[t->at[2]] * t->weight[2] + in[t->at[3]] * t->weight[3];
    }
}

static void cubic_column(void *arg, size_t i, size_t worker)
{
    const cubic_job *job = arg;
    (void)worker;
    const cubic_tap *t = &job->rows[i % job->H];
    const float *plane = job->middle + i / job->H * job->h * job->W;
    const float *in[4];
    for (int k = 0; k < 4; k++)
        in[k] = plane + t->at[k] * job->W;
    float *out = job->out + i * job->W;
    for (size_t x = 0; x < job->W; x++)
        out[x] = in[0][x] * t->weight[0] + in[1][x] * t->weight[1] + in[2][x] * t->weight[2] +
                 in[3][x] * t->weight[3];
}

zoe_status zoe_resize_bicubic(zoe_context *ctx, float *out, size_t H, size_t W, const float *in,
                              size_t C, size_t h, size_t w)
{
    if (C == 0 || H == 0 || W == 0)
        return ZOE_OK;
    if (h == 0 || w == 0)
        return zoe_fail(ctx, ZOE_INVALID, "cannot resize a picture of %zux%zu", w, h);
    size_t n;
    if (!zoe_size_product(&n, (const size_t[]){C, h, W}, 3))
        return zoe_fail(ctx, ZOE_INVALID, "cannot resize %zu planes of %zux%zu to %zux%zu", C, w, h,
                        W, H);
    void *columns = NULL, *rows = NULL, *middle = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc(ctx, &columns, W, sizeof(cubic_tap), "taps of columns"));
    TRY_GOTO(zoe_alloc(ctx, &rows, H, sizeof(cubic_tap), "taps of rows"));
    TRY_GOTO(zoe_alloc(ctx, &middle, n, sizeof(float), "a half-resized picture"));
    cubic_taps(columns, W, w);
    cubic_taps(rows, H, h);
    cubic_job job = {out, middle, in, columns, rows, H, W, h, w};
    zoe_parallel_for(ctx, C * h, cubic_row, &job);
    zoe_parallel_for(ctx, C * H, cubic_column, &job);
done:
    zoe_free(columns);
    zoe_free(rows);
    zoe_free(middle);
    return status;
}

void zoe_picture_to_planes(float *out, const zoe_picture *picture)
{
    const size_t n = picture->width * picture->height;
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++)
            out[c * n + i] = ((float)picture->rgb[3 * i + c] / 255.0f - 0.5f) / 0.5f;
}

/* ---- LANCZOS ---- */

#define LANCZOS_BITS 22
#define LANCZOS_REACH 3.0

/* For every output place: the input places first .. first + count - 1 and their weights, in fixed
 * point. */
typedef struct lanczos_taps {
    size_t reach; /* weights that a place has room for */
    size_t *first, *count;
    int32_t *weight; /* [out, reach] */
} lanczos_taps;

static void lanczos_taps_free(lanczos_taps *taps)
{
    zoe_free(taps->first);
    zoe_free(taps->count);
    zoe_free(taps->weight);
    *taps = (lanczos_taps){0};
}

static double sinc(double x)
{
    if (x == 0.0)
        return 1.0;
    x *= 3.14159265358979323846;
    return sin(x) / x;
}

static double lanczos(double x)
{
    return -LANCZOS_REACH <= x && x < LANCZOS_REACH ? sinc(x) * sinc(x / LANCZOS_REACH) : 0.0;
}

/* Weights of the output place with this centre; `real` is scratch for their values in f64. */
static void lanczos_place(lanczos_taps *taps, double *real, size_t o, double center,
                          double filter_scale, size_t in)
{
    const double support = LANCZOS_REACH * filter_scale;
    const double low = center - support + 0.5, high = center + support + 0.5;
    const size_t first = low > 0.0 ? (size_t)low : 0;
    const size_t end = high < (double)in ? (size_t)high : in;
    const double step = 1.0 / filter_scale;
    double sum = 0.0;
    for (size_t j = first; j < end; j++) {
        real[j - first] = lanczos(((double)j - center + 0.5) * step);
        sum += real[j - first];
    }
    int32_t *weight = taps->weight + o * taps->reach;
    for (size_t j = 0; j < end - first; j++) {
        const double k = sum != 0.0 ? real[j] / sum : real[j];
        weight[j] = (int32_t)(k * (1 << LANCZOS_BITS) + (k < 0.0 ? -0.5 : 0.5));
    }
    taps->first[o] = first;
    taps->count[o] = end - first;
}

static zoe_status lanczos_taps_make(zoe_context *ctx, lanczos_taps *taps, size_t out, size_t in)
{
    const double scale = (double)in / (double)out, filter_scale = scale < 1.0 ? 1.0 : scale;
    void *first = NULL, *count = NULL, *weight = NULL, *real = NULL;
    size_t n;
    zoe_status status;
    taps->reach = 2 * (size_t)ceil(LANCZOS_REACH * filter_scale) + 1;
    if (!zoe_size_mul(&n, out, taps->reach)) {
        status = zoe_fail(ctx, ZOE_INVALID, "cannot resize %zu pixels to %zu", in, out);
        goto done;
    }
    TRY_GOTO(zoe_alloc(ctx, &first, out, sizeof(size_t), "filter starts"));
    taps->first = first;
    TRY_GOTO(zoe_alloc(ctx, &count, out, sizeof(size_t), "filter lengths"));
    taps->count = count;
    TRY_GOTO(zoe_alloc(ctx, &weight, n, sizeof(int32_t), "filter weights"));
    taps->weight = weight;
    TRY_GOTO(zoe_alloc(ctx, &real, taps->reach, sizeof(double), "filter weights"));
    for (size_t o = 0; o < out; o++)
        lanczos_place(taps, real, o, ((double)o + 0.5) * scale, filter_scale, in);
done:
    zoe_free(real);
    return status;
}

static uint8_t lanczos_round(int32_t sum)
{
    const int32_t v = (sum + (1 << (LANCZOS_BITS - 1))) >> LANCZOS_BITS;
    return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
}

typedef struct lanczos_job {
    const lanczos_taps *taps;
    zoe_picture *out;
    const zoe_picture *in;
} lanczos_job;

static void lanczos_row(void *arg, size_t y, size_t worker)
{
    const lanczos_job *job = arg;
    (void)worker;
    const uint8_t *row = job->in->rgb + 3 * y * job->in->width;
    uint8_t *out = job->out->rgb + 3 * y * job->out->width;
    for (size_t x = 0; x < job->out->width; x++) {
        const int32_t *weight = job->taps->weight + x * job->taps->reach;
        const uint8_t *in = row + 3 * job->taps->first[x];
        int32_t sum[3] = {0, 0, 0};
        for (size_t j = 0; j < job->taps->count[x]; j++)
            for (size_t c = 0; c < 3; c++)
                sum[c] += in[3 * j + c] * weight[j];
        for (size_t c = 0; c < 3; c++)
            out[3 * x + c] = lanczos_round(sum[c]);
    }
}

static void lanczos_column(void *arg, size_t y, size_t worker)
{
    const lanczos_job *job = arg;
    (void)worker;
    const size_t n = 3 * job->out->width;
    const int32_t *weight = job->taps->weight + y * job->taps->reach;
    const uint8_t *in = job->in->rgb + job->taps->first[y] * n;
    uint8_t *out = job->out->rgb + y * n;
    /* In blocks, so that the sums stay near while the input is read row by row. */
    int32_t sum[1024];
    for (size_t start = 0; start < n; start += 1024) {
        const size_t block = n - start < 1024 ? n - start : 1024;
        memset(sum, 0, block * sizeof sum[0]);
        for (size_t j = 0; j < job->taps->count[y]; j++)
            for (size_t i = 0; i < block; i++)
                sum[i] += in[j * n + start + i] * weight[j];
        for (size_t i = 0; i < block; i++)
            out[start + i] = lanczos_round(sum[i]);
    }
}

/* One pass: across when the sizes differ in width, down when in height. */
static zoe_status lanczos_pass(zoe_context *ctx, zoe_picture *out, size_t W, size_t H,
                               const zoe_picture *in)
{
    lanczos_taps taps = {0};
    const bool across = W != in->width;
    zoe_status status;
    TRY_GOTO(lanczos_taps_make(ctx, &taps, across ? W : H, across ? in->width : in->height));
    TRY_GOTO(zoe_picture_new(ctx, out, W, H));
    lanczos_job job = {&taps, out, in};
    zoe_parallel_for(ctx, H, across ? lanczos_row : lanczos_column, &job);
done:
    lanczos_taps_free(&taps);
    return status;
}

zoe_status zoe_resize_lanczos(zoe_context *ctx, zoe_picture *out, size_t W, size_t H,
                              const zoe_picture *in)
{
    *out = (zoe_picture){0};
    TRY(zoe_picture_check_size(ctx, W, H));
    TRY(zoe_picture_check_size(ctx, in->width, in->height));
    zoe_picture middle = {0};
    zoe_status status = ZOE_OK;
    if (W != in->width && H != in->height) {
        TRY_GOTO(lanczos_pass(ctx, &middle, W, in->height, in));
        TRY_GOTO(lanczos_pass(ctx, out, W, H, &middle));
    } else if (W != in->width || H != in->height) {
        TRY_GOTO(lanczos_pass(ctx, out, W, H, in));
    } else {
        TRY_GOTO(zoe_picture_new(ctx, out, W, H));
        memcpy(out->rgb, in->rgb, 3 * W * H);
    }
    out->had_alpha = in->had_alpha;
done:
    zoe_picture_free(&middle);
    if (status != ZOE_OK)
        zoe_picture_free(out);
    return status;
}
