/* A short look at every kernel of this cpu's table: does it give what its definition gives? The
 * tests of the kernels look at far more; this one is for a machine that they never saw. */
#include "kernel/kernel.h"

/* Elements of an input; not a multiple of any vector. */
enum { N = 205, ROOM = 4096 };

/* Three inputs, and the results of definition and guest, which begin alike. */
typedef struct bench {
    uint32_t state;
    float x[ROOM], y[ROOM], z[ROOM];
    float want[ROOM], got[ROOM];
} bench;

static float next_value(bench *b)
{
    b->state = b->state * 1664525u + 1013904223u;
    return (float)(b->state >> 8) * 0x1p-22f - 2.0f; /* -2 .. 2 */
}

static void prepare(bench *b)
{
    b->state = 1;
    for (size_t i = 0; i < ROOM; i++) {
        b->x[i] = zoe_bf16_round(next_value(b));
        b->y[i] = zoe_bf16_round(next_value(b));
        b->z[i] = next_value(b);
        b->want[i] = b->got[i] = next_value(b);
    }
}

/* The largest difference of the first n results, relative to the larger of the wanted value and
 * `scale`; NaN equals NaN, and inf only itself. */
static double error_of(const bench *b, size_t n, double scale)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double got = (double)b->got[i], want = (double)b->want[i];
        if (got == want || (isnan(got) && isnan(want)))
            continue;
        const double size = fmax(fabs(want), scale);
        const double error = size > 0.0 ? fabs(got - want) / size : INFINITY;
        if (!(error <= worst))
            worst = isnan(error) ? INFINITY : error;
    }
    return worst;
}

/* ---- one a family: definition c and guest g on the same input; returns the error ---- */

static double try_widen(bench *b, zoe_kernel_widen *c, zoe_kernel_widen *g)
{
    /* any bytes, of any type that there is; of quantised blocks, no more than lie in x */
    const unsigned char *bytes = (const unsigned char *)b->z;
    c(b->want, bytes, N);
    g(b->got, bytes, N);
    return error_of(b, N, 0.0);
}

static double try_narrow(bench *b, zoe_kernel_narrow *c, zoe_kernel_narrow *g)
{
    uint16_t want[N], got[N];
    c(want, b->z, N);
    g(got, b->z, N);
    return memcmp(want, got, sizeof want) == 0 ? 0.0 : INFINITY;
}

static double try_map(bench *b, zoe_kernel_map *c, zoe_kernel_map *g)
{
    c(b->want, b->z, N);
    g(b->got, b->z, N);
    return error_of(b, N, 0.25);
}

static double try_geglu(bench *b, zoe_kernel_geglu *c, zoe_kernel_geglu *g)
{
    c(b->want, b->x, b->y, N);
    g(b->got, b->x, b->y, N);
    return error_of(b, N, 4.0);
}

static double try_sum(bench *b, zoe_kernel_sum *c, zoe_kernel_sum *g)
{
    const double want = c(b->z, 0.3, N), got = g(b->z, 0.3, N);
    return fabs(got - want) / (2.0 * N);
}

static double try_rms_scale(bench *b, zoe_kernel_rms_scale *c, zoe_kernel_rms_scale *g)
{
    c(b->want, b->z, 0.37f, b->x, true, N);
    g(b->got, b->z, 0.37f, b->x, true, N);
    return error_of(b, N, 0.0);
}

static double try_layer_scale(bench *b, zoe_kernel_layer_scale *c, zoe_kernel_layer_scale *g)
{
    const zoe_layer_scaling s = {.mean = 0.3f,
                                 .mean_rest = 1e-9f,
                                 .rstd = 1.7f,
                                 .gamma = b->x,
                                 .beta = b->y,
                                 .scale = b->x + N,
                                 .shift = b->y + N};
    c(b->want, b->z, &s, N);
    g(b->got, b->z, &s, N);
    return error_of(b, N, 0.0);
}

static double try_l2_scale(bench *b, zoe_kernel_l2_scale *c, zoe_kernel_l2_scale *g)
{
    c(b->want, b->z, 2.3f, 9.8f, b->x, true, N);
    g(b->got, b->z, 2.3f, 9.8f, b->x, true, N);
    return error_of(b, N, 0.25);
}

static double try_rope(bench *b, zoe_kernel_rope *c, zoe_kernel_rope *g)
{
    c(b->want, b->z, b->x, b->y, N);
    g(b->got, b->z, b->x, b->y, N);
    return error_of(b, 2 * (size_t)N, 0.0);
}

static double try_pack(bench *b, zoe_kernel_pack *c, zoe_kernel_pack *g)
{
    const size_t k = 67, columns = 13;
    c(b->want, b->z, (ptrdiff_t)k + 1, columns, k);
    g(b->got, b->z, (ptrdiff_t)k + 1, columns, k);
    return error_of(b, k * ZOE_PANEL, 0.0);
}

static double try_slice(bench *b, zoe_kernel_slice *c, zoe_kernel_slice *g)
{
    const size_t k = 67, columns = 13;
    c(b->want, b->z, ZOE_PANEL + 1, columns, k);
    g(b->got, b->z, ZOE_PANEL + 1, columns, k);
    return error_of(b, k * ZOE_PANEL, 0.0);
}

static double try_scale_panel(bench *b, zoe_kernel_scale_panel *c, zoe_kernel_scale_panel *g)
{
    c(b->want, b->x, 67);
    g(b->got, b->x, 67);
    return error_of(b, 67 * (size_t)ZOE_PANEL, 0.0);
}

static double try_gemm(bench *b, zoe_kernel_gemm *c, zoe_kernel_gemm *g)
{
    const size_t k = 101, rows = 23;
    c(b->want, ZOE_PANEL, b->z, k, b->x, rows, k, true);
    g(b->got, ZOE_PANEL, b->z, k, b->x, rows, k, true);
    return error_of(b, rows * ZOE_PANEL, (double)k);
}

static double try_finish(bench *b, zoe_kernel_finish *c, zoe_kernel_finish *g)
{
    const zoe_finishing f = {
        .bias = b->x, .gate = b->y, .residual = b->x + N, .activation = ZOE_ACT_GELU_TANH};
    c(b->want, b->z, &f, N);
    g(b->got, b->z, &f, N);
    return error_of(b, N, 4.0);
}

static double try_softmax_step(bench *b, zoe_kernel_softmax_step *c, zoe_kernel_softmax_step *g)
{
    float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
    c(b->want, N, 1.7f, b->x, &max[0], &sum[0]);
    g(b->got, N, 1.7f, b->x, &max[1], &sum[1]);
    const double of_sum = fabs((double)sum[1] - (double)sum[0]) / (2.0 * (double)sum[0]);
    return max[0] == max[1] ? fmax(of_sum, error_of(b, N, 1e-30)) : INFINITY;
}

static double try_softmax_bf16(bench *b, zoe_kernel_softmax_bf16 *c, zoe_kernel_softmax_bf16 *g)
{
    c(b->want, N, 0.9f, b->x, 1.5f);
    g(b->got, N, 0.9f, b->x, 1.5f);
    return error_of(b, N, 1e-30);
}

static double try_scale(bench *b, zoe_kernel_scale *c, zoe_kernel_scale *g)
{
    c(b->want, 0.3f, N);
    g(b->got, 0.3f, N);
    return error_of(b, N, 0.0);
}

static double try_conv(bench *b, zoe_kernel_conv *c, zoe_kernel_conv *g)
{
    enum { TAPS = 9, C = 19, WIDTH = 16 };
    const float *rows[TAPS * ZOE_CONV_ROWS];
    for (size_t i = 0; i < TAPS * ZOE_CONV_ROWS; i++)
        rows[i] = b->x + i * C;
    c(b->want, rows, b->y, TAPS, C, WIDTH);
    g(b->got, rows, b->y, TAPS, C, WIDTH);
    return error_of(b, ZOE_CONV_ROWS * WIDTH, 4.0 * TAPS * C);
}

static double try_winograd_weights(bench *b, zoe_kernel_winograd_weights *c,
                                   zoe_kernel_winograd_weights *g)
{
    const size_t n = 104;
    c(b->want, n, b->z, n, n);
    g(b->got, n, b->z, n, n);
    return error_of(b, 16 * n, 0.0);
}

static double try_winograd_input(bench *b, zoe_kernel_winograd_input *c,
                                 zoe_kernel_winograd_input *g)
{
    const size_t C = 104;
    const float *pixels[16];
    for (size_t i = 0; i < 16; i++)
        pixels[i] = b->z + i * C;
    c(b->want, C, pixels, C);
    g(b->got, C, pixels, C);
    return error_of(b, 16 * C, 0.0);
}

static double try_winograd_output(bench *b, zoe_kernel_winograd_output *c,
                                  zoe_kernel_winograd_output *g)
{
    c(b->want, b->z, ZOE_PANEL, b->x, ZOE_PANEL);
    g(b->got, b->z, ZOE_PANEL, b->x, ZOE_PANEL);
    return error_of(b, 4 * (size_t)ZOE_PANEL, 0.0);
}

/* ---- the list ---- */

zoe_status zoe_kernels_selftest(zoe_context *ctx, const zoe_kernels *table, zoe_selftest_fn see,
                                void *user)
{
    void *p;
    zoe_kernels c;
    TRY(zoe_alloc(ctx, &p, 1, sizeof(bench), "inputs of the self-test"));
    zoe_kernels_fill(&c, ZOE_ISA_C);
#define KERNEL(name, family, tolerance)                                                            \
    prepare(p);                                                                                    \
    see(user, #name, table->name != c.name, try_##family(p, c.name, table->name),                  \
        (double)(tolerance));
#include "kernel/kernels.def"
#undef KERNEL
    zoe_free(p);
    return ZOE_OK;
}
