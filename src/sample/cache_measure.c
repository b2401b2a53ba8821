/* Step caches: sums and element-wise work on what is compared and kept. */
#include "sample/cache_method.h"
#include "sample/solver.h"

enum {
    PIECE = 1 << 16, /* values of one part of a sum: of the problem, not of the threads */
    SPAN = 1024      /* values widened at once */
};

static size_t rows_a_piece(size_t width)
{
    return width < PIECE ? PIECE / (width > 0 ? width : 1) : 1;
}

size_t zoe_cache_measure_parts(size_t rows, size_t width)
{
    const size_t each = rows_a_piece(width);
    return rows / each + (rows % each != 0);
}

typedef struct measure {
    const float *now;
    const unsigned char *before;
    zoe_dtype type;
    size_t rows, width, stride;
    double *partial;
} measure;

static void add_row(double sums[CACHE_SUMS], const measure *m, size_t row)
{
    float before[SPAN];
    const size_t start = row * m->width;
    for (size_t first = 0; first < m->width; first += SPAN) {
        const size_t left = m->width - first, n = left < SPAN ? left : SPAN;
        zoe_widen(before, m->before + (start + first) * zoe_dtype_bytes(m->type), m->type, n);
        const float *now = m->now + start + first;
        for (size_t i = (m->stride - first % m->stride) % m->stride; i < n; i += m->stride) {
            sums[SUM_CHANGE] += (double)fabsf(now[i] - before[i]);
            sums[SUM_BEFORE] += (double)fabsf(before[i]);
            sums[SUM_NOW] += (double)fabsf(now[i]);
            sums[SUM_COUNT] += 1.0;
        }
    }
}

static void measure_piece(void *arg, size_t i, size_t worker)
{
    const measure *m = arg;
    const size_t each = rows_a_piece(m->width), begin = i * each;
    const size_t end = m->rows - begin < each ? m->rows : begin + each;
    double sums[CACHE_SUMS] = {0.0};
    (void)worker;
    for (size_t row = begin; row < end; row++)
        add_row(sums, m, row);
    memcpy(m->partial + i * CACHE_SUMS, sums, sizeof sums);
}

void zoe_cache_measure(const zoe_context *ctx, double *partial, double sums[CACHE_SUMS],
                       const float *now, const void *before, zoe_dtype type, size_t rows,
                       size_t width, size_t stride)
{
    measure m = {.now = now,
                 .before = before,
                 .type = type,
                 .rows = rows,
                 .width = width,
                 .stride = stride,
                 .partial = partial};
    const size_t parts = zoe_cache_measure_parts(rows, width);
    zoe_parallel_for(ctx, parts, measure_piece, &m);
    for (size_t k = 0; k < CACHE_SUMS; k++)
        sums[k] = 0.0;
    for (size_t i = 0; i < parts; i++)
        for (size_t k = 0; k < CACHE_SUMS; k++)
            sums[k] += partial[i * CACHE_SUMS + k];
}

float zoe_cache_ratio(const double sums[CACHE_SUMS], cache_sum divisor, float eps)
{
    const float change = (float)(sums[SUM_CHANGE] / sums[SUM_COUNT]);
    return change / ((float)(sums[divisor] / sums[SUM_COUNT]) + eps);
}

/* ---- element-wise ---- */

typedef struct pair {
    float *y;
    const float *x;
} pair;

static void subtract_piece(const void *arg, size_t begin, size_t end)
{
    const pair *p = arg;
    for (size_t i = begin; i < end; i++)
        p->y[i] = p->x[i] - p->y[i];
}

void zoe_cache_subtract(const zoe_context *ctx, float *y, const float *x, size_t n)
{
    zoe_solver_sweep(ctx, n, subtract_piece, &(pair){.y = y, .x = x});
}

typedef struct keeping {
    unsigned char *kept;
    zoe_dtype type;
    const float *x;
} keeping;

static void keep_piece(const void *arg, size_t begin, size_t end)
{
    const keeping *k = arg;
    zoe_narrow(k->kept + begin * zoe_dtype_bytes(k->type), k->type, k->x + begin, end - begin);
}

void zoe_cache_keep(const zoe_context *ctx, void *kept, zoe_dtype type, const float *x, size_t n)
{
    zoe_solver_sweep(ctx, n, keep_piece, &(keeping){.kept = kept, .type = type, .x = x});
}

/* ---- the modulated input ---- */

typedef struct modulation {
    float *y;
    const zoe_cache_point *point;
    size_t rows, width, times;
} modulation;

static void modulate_row(const modulation *m, size_t row)
{
    const float *x = m->point->hidden + row * m->width;
    float *y = m->y + row * m->width;
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < m->width; i++)
        sum += (double)x[i];
    const double mean = sum / (double)m->width;
    for (size_t i = 0; i < m->width; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double rstd = 1.0 / sqrt(squares / (double)m->width + (double)m->point->eps);
    for (size_t i = 0; i < m->width; i++) {
        float v = (float)(((double)x[i] - mean) * rstd);
        for (size_t k = 0; k < m->times; k++)
            v = v * (1.0f + m->point->scale[i]) + m->point->shift[i];
        y[i] = v;
    }
}

static void modulate_piece(void *arg, size_t i, size_t worker)
{
    const modulation *m = arg;
    const size_t each = rows_a_piece(m->width), begin = i * each;
    const size_t end = m->rows - begin < each ? m->rows : begin + each;
    (void)worker;
    for (size_t row = begin; row < end; row++)
        modulate_row(m, row);
}

void zoe_cache_modulate(const zoe_context *ctx, float *y, const zoe_cache_point *point, size_t rows,
                        size_t width, size_t times)
{
    modulation m = {.y = y, .point = point, .rows = rows, .width = width, .times = times};
    zoe_parallel_for(ctx, zoe_cache_measure_parts(rows, width), modulate_piece, &m);
}
