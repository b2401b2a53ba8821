/* Structural similarity. */
#include "media/media.h"

enum { WINDOW = 11, CHANNELS = 3, MOMENTS = 4, LANES = 64 };

typedef struct ssim_work {
    const uint8_t *a, *b;
    size_t values;          /* in a row: CHANNELS * width */
    size_t windows;         /* in a row, of all channels */
    double weight[WINDOW];  /* along one axis, sum 1 */
    double *rows, *scratch; /* sum of each row of windows; MOMENTS * values a worker */
} ssim_work;

/* A Gaussian of sigma 1.5 cut to the window. */
static void fill_weights(double weight[WINDOW])
{
    double sum = 0.0;
    for (int i = 0; i < WINDOW; i++) {
        const double x = (i - WINDOW / 2) / 1.5;
        weight[i] = exp(-0.5 * x * x);
        sum += weight[i];
    }
    for (int i = 0; i < WINDOW; i++)
        weight[i] /= sum;
}

/* Weighted sums down the columns of WINDOW rows: of a, b, a*a + b*b and a*b. */
static void sum_columns(double *moments, const ssim_work *w, size_t y)
{
    const size_t n = w->values;
    double *ma = moments, *mb = ma + n, *squares = mb + n, *products = squares + n;
    memset(moments, 0, MOMENTS * n * sizeof *moments);
    for (size_t k = 0; k < WINDOW; k++) {
        const double g = w->weight[k];
        const uint8_t *a = w->a + (y + k) * n, *b = w->b + (y + k) * n;
        for (size_t i = 0; i < n; i++) {
            const int va = a[i], vb = b[i];
            ma[i] += g * va;
            mb[i] += g * vb;
            squares[i] += g * (va * va + vb * vb);
            products[i] += g * (va * vb);
        }
    }
}

/* The moments of `count` windows from the sums of columns: weighted sums along the row. The order of
 * each sum does not depend on the number of windows. */
static void sum_rows(double m[MOMENTS][LANES], const double *columns, const ssim_work *w,
                     size_t first, size_t count)
{
    memset(m, 0, MOMENTS * sizeof m[0]);
    for (size_t j = 0; j < MOMENTS; j++)
        for (size_t k = 0; k < WINDOW; k++) {
            const double g = w->weight[k], *in = columns + j * w->values + first + CHANNELS * k;
            if (count == LANES) /* a constant, so that it becomes vectors */
                for (size_t i = 0; i < LANES; i++)
                    m[j][i] += g * in[i];
            else
                for (size_t i = 0; i < count; i++)
                    m[j][i] += g * in[i];
        }
}

static void ssim_row(void *arg, size_t y, size_t worker)
{
    ssim_work *w = arg;
    double *columns = w->scratch + worker * MOMENTS * w->values, m[MOMENTS][LANES];
    const double c1 = (0.01 * 255.0) * (0.01 * 255.0), c2 = (0.03 * 255.0) * (0.03 * 255.0);
    double sum = 0.0;
    sum_columns(columns, w, y);
    for (size_t first = 0; first < w->windows; first += LANES) {
        const size_t left = w->windows - first, count = left < LANES ? left : LANES;
        sum_rows(m, columns, w, first, count);
        for (size_t i = 0; i < count; i++) {
            const double both = m[0][i] * m[1][i];
            const double each = m[0][i] * m[0][i] + m[1][i] * m[1][i];
            sum += (2.0 * both + c1) * (2.0 * (m[3][i] - both) + c2) /
                   ((each + c1) * (m[2][i] - each + c2));
        }
    }
    w->rows[y] = sum;
}

zoe_status zoe_ssim_u8(zoe_context *ctx, double *ssim, const uint8_t *a, const uint8_t *b,
                       size_t width, size_t height)
{
    *ssim = NAN;
    if (width < WINDOW || height < WINDOW)
        return ZOE_OK;
    const size_t rows = height - WINDOW + 1, workers = (size_t)zoe_context_threads(ctx);
    ssim_work w = {
        .a = a, .b = b, .values = CHANNELS * width, .windows = CHANNELS * (width - WINDOW + 1)};
    void *p;
    TRY(zoe_alloc(ctx, &p, rows, sizeof *w.rows, "sums of rows"));
    w.rows = p;
    const zoe_status status = zoe_alloc(ctx, &p, workers * MOMENTS * w.values, sizeof *w.scratch,
                                        "moments of two pictures");
    if (status == ZOE_OK) {
        w.scratch = p;
        fill_weights(w.weight);
        zoe_parallel_for(ctx, rows, ssim_row, &w);
        double sum = 0.0;
        for (size_t y = 0; y < rows; y++)
            sum += w.rows[y];
        *ssim = sum / ((double)w.windows * (double)rows);
        zoe_free(w.scratch);
    }
    zoe_free(w.rows);
    return status;
}
