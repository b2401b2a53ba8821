/* Products of int8 and the quantisation of rows. */
#include "check.h"

void check_int8_peak(const char *name, zoe_kernel_int8_peak *c, zoe_kernel_int8_peak *g,
                     double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 8; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round % 2);
            close_to(name, n, 0, g(x.data, n), c(x.data, n), 0.0, tolerance);
            guarded_free(x);
        }
    guarded x = values(1536, false);
    BENCH(1536, c, g, x.data, 1536);
    guarded_free(x);
}

/* Also ties, which go to the even side, and values far outside. */
void check_int8_round(const char *name, zoe_kernel_int8_round *c, zoe_kernel_int8_round *g,
                      double tolerance)
{
    (void)tolerance;
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 8; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round & 1), want = guarded_new(n), got = guarded_new(n);
            for (size_t i = 0; i < n && round & 2; i++)
                ((float *)x.data)[i] = (float)(random_word() % 600) * 0.5f - 150.0f;
            const float factor = round & 2 ? 1.0f : round & 4 ? INFINITY : 31.7f;
            c(want.data, x.data, factor, n);
            g(got.data, x.data, factor, n);
            same_bytes(name, n, got.data, want.data, n, 1);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
    guarded x = values(1536, false), q = guarded_new(1536);
    BENCH(1536, c, g, q.data, x.data, 31.7f, 1536);
    guarded_free(x);
    guarded_free(q);
}

/* ---- products ---- */

static const size_t depths[] = {1,   2,   3,   4,   5,   63,  64,  66,
                                127, 128, 129, 255, 257, 511, 640, ZOE_INT8_DEPTH - 1};
enum { DEPTHS = sizeof depths / sizeof *depths, GROUP = 128 };

typedef struct operands {
    zoe_int8_product p;
    guarded a, w, a_scale, w_scale;
    size_t groups;
} operands;

/* round 0: any bytes; 1: -128 everywhere; 2: 127 by -128. */
static void fill(guarded g, size_t n, int round, int value)
{
    if (round > 0)
        memset(g.data, value, n);
}

/* Behind the last element of k, the weights are 0 up to a multiple of 4. */
static operands operands_new(size_t rows, size_t panels, size_t k, int round)
{
    operands o = {.groups = (k + GROUP - 1) / GROUP};
    zoe_int8_product *p = &o.p;
    const size_t whole = (k + 3) / 4 * 4;
    *p = (zoe_int8_product){.rows = rows, .panels = panels, .k = k, .group = GROUP};
    p->a_stride = k + rows % 3;
    p->w_distance = whole * ZOE_PANEL + panels % 2 * 64;
    p->a_scale_stride = o.groups + rows % 2;
    p->w_scale_distance = o.groups * ZOE_PANEL + panels % 2 * 5;
    const size_t a_count = rows ? (rows - 1) * p->a_stride + k : 0;
    const size_t w_count = (panels - 1) * p->w_distance + whole * ZOE_PANEL;
    o.a = random_bytes(a_count);
    o.w = random_bytes(w_count);
    fill(o.a, a_count, round, round == 1 ? -128 : 127);
    fill(o.w, w_count, round, -128);
    for (size_t panel = 0; panel < panels; panel++)
        for (size_t i = k; i < whole; i++)
            for (size_t j = 0; j < ZOE_PANEL; j++)
                ((int8_t *)o.w.data)[panel * p->w_distance + (i / 4 * ZOE_PANEL + j) * 4 + i % 4] =
                    0;
    o.a_scale = values(rows ? (rows - 1) * p->a_scale_stride + o.groups : 0, false);
    o.w_scale = values((panels - 1) * p->w_scale_distance + o.groups * ZOE_PANEL, false);
    p->a = o.a.data;
    p->w = o.w.data;
    p->a_scale = o.a_scale.data;
    p->w_scale = o.w_scale.data;
    return o;
}

static void operands_free(operands o)
{
    guarded_free(o.a);
    guarded_free(o.w);
    guarded_free(o.a_scale);
    guarded_free(o.w_scale);
}

/* The sum of a call against one in 64 bits. */
static void check_exact(const char *name, const operands *o, const int32_t *got, size_t c_stride)
{
    const zoe_int8_product *p = &o->p;
    for (size_t m = 0; m < p->rows; m++)
        for (size_t j = 0; j < p->panels * ZOE_PANEL; j++) {
            const int8_t *w = p->w + j / ZOE_PANEL * p->w_distance + j % ZOE_PANEL * 4;
            int64_t sum = 0;
            for (size_t i = 0; i < p->k; i++)
                sum += p->a[m * p->a_stride + i] * w[i / 4 * ZOE_PANEL * 4 + i % 4];
            close_to_double(name, p->k, m * c_stride + j, got[m * c_stride + j], (double)sum, 0.0,
                            0.0);
        }
}

void check_int8_gemm(const char *name, zoe_kernel_int8_gemm *c, zoe_kernel_int8_gemm *g,
                     double tolerance)
{
    (void)tolerance;
    for (size_t d = 0; d < DEPTHS; d++)
        for (size_t rows = 0; rows < 30; rows += rows < 7 ? 1 : 5)
            for (int round = 0; round < 3; round++) {
                const size_t panels = 1 + (d + rows) % 5;
                const size_t c_stride = panels * ZOE_PANEL + rows % 2 * 5;
                const size_t count = rows ? (rows - 1) * c_stride + panels * ZOE_PANEL : 0;
                operands o = operands_new(rows, panels, depths[d], round);
                guarded want = random_bytes(count * 4), got = guarded_copy(want, count * 4);
                c(want.data, c_stride, &o.p, true);
                g(got.data, c_stride, &o.p, true);
                same_bytes(name, depths[d], got.data, want.data, count, 4);
                g(got.data, c_stride, &o.p, false);
                check_exact(name, &o, got.data, c_stride);
                operands_free(o);
                guarded_free(want);
                guarded_free(got);
            }
    operands o = operands_new(240, 16, 2048, 0);
    guarded sums = guarded_new(240 * 16 * ZOE_PANEL * 4);
    BENCH(240 * 16 * ZOE_PANEL * 2048, c, g, sums.data, 16 * ZOE_PANEL, &o.p, true);
    operands_free(o);
    guarded_free(sums);
}

void check_int8_gemm_scaled(const char *name, zoe_kernel_int8_gemm_scaled *c,
                            zoe_kernel_int8_gemm_scaled *g, double tolerance)
{
    for (size_t d = 0; d < DEPTHS; d++)
        for (size_t rows = 0; rows < 30; rows += rows < 7 ? 1 : 5)
            for (int round = 0; round < 2; round++) {
                const size_t panels = 1 + (d + rows) % 5;
                const size_t c_stride = panels * ZOE_PANEL + rows % 2 * 5;
                const size_t count = rows ? (rows - 1) * c_stride + panels * ZOE_PANEL : 0;
                operands o = operands_new(rows, panels, depths[d], round);
                if (rows > 2 && round)
                    ((float *)o.a_scale.data)[1] = NAN;
                guarded want = values(count, false), got = guarded_copy(want, count * 4);
                c(want.data, c_stride, &o.p, rows % 2);
                g(got.data, c_stride, &o.p, rows % 2);
                all_close(name, count, got.data, want.data, 0.0, tolerance);
                operands_free(o);
                guarded_free(want);
                guarded_free(got);
            }
    operands o = operands_new(240, 16, 2048, 0);
    guarded sums = values(240 * 16 * ZOE_PANEL, false);
    BENCH(240 * 16 * ZOE_PANEL * 2048, c, g, sums.data, 16 * ZOE_PANEL, &o.p, true);
    operands_free(o);
    guarded_free(sums);
}

void check_int8_scale(const char *name, zoe_kernel_int8_scale *c, zoe_kernel_int8_scale *g,
                      double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 4; round++) {
            const size_t n = widths[w];
            guarded sums = random_bytes(n * 4), scale = values(n, round % 2);
            guarded want = guarded_new(n * 4), got = guarded_new(n * 4);
            c(want.data, sums.data, scale.data, 0.37f, n);
            g(got.data, sums.data, scale.data, 0.37f, n);
            all_close(name, n, got.data, want.data, 0.0, tolerance);
            g(sums.data, sums.data, scale.data, 0.37f, n); /* in place */
            all_close(name, n, sums.data, want.data, 0.0, tolerance);
            guarded_free(sums);
            guarded_free(scale);
            guarded_free(want);
            guarded_free(got);
        }
    guarded sums = random_bytes(256 * 4), scale = values(256, false), y = guarded_new(256 * 4);
    BENCH(256, c, g, y.data, sums.data, scale.data, 0.37f, 256);
    guarded_free(sums);
    guarded_free(scale);
    guarded_free(y);
}
