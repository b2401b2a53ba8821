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

static double try_pair(bench *b, zoe_kernel_pair *c, zoe_kernel_pair *g)
{
    c(b->want, b->x, b->y, N);
    g(b->got, b->x, b->y, N);
    return error_of(b, N, 4.0);
}

static double try_largest(bench *b, zoe_kernel_largest *c, zoe_kernel_largest *g)
{
    return fabs((double)(c(b->z, -1.5f, N) - g(b->z, -1.5f, N)));
}

static double try_exponentials(bench *b, zoe_kernel_exponentials *c, zoe_kernel_exponentials *g)
{
    const double want = c(b->want, b->z, 2.0f, N), got = g(b->got, b->z, 2.0f, N);
    return fmax(error_of(b, N, 0.0), fabs(got - want) / want);
}

static double try_squares(bench *b, zoe_kernel_squares *c, zoe_kernel_squares *g)
{
    const double want = c(b->z, N), got = g(b->z, N); /* any bytes, of whatever type */
    return got == want || (isnan(want) && isnan(got)) ? 0.0 : fabs(got - want) / want;
}

static double try_squares_rounded(bench *b, zoe_kernel_squares_rounded *c,
                                  zoe_kernel_squares_rounded *g)
{
    const double want = c(b->x, ZOE_F32, N);
    return fabs(g(b->x, ZOE_F32, N) - want) / want;
}

static double try_rms_apply(bench *b, zoe_kernel_rms_apply *c, zoe_kernel_rms_apply *g)
{
    const zoe_rms_form f = {.x = ZOE_F32, .y = ZOE_F32, .gamma = ZOE_F32, .cast = ZOE_BF16};
    c(b->want, b->z, b->x, 0.37f, &f, N);
    g(b->got, b->z, b->x, 0.37f, &f, N);
    return error_of(b, N, 0.0);
}

static double try_l2_apply(bench *b, zoe_kernel_l2_apply *c, zoe_kernel_l2_apply *g)
{
    const zoe_l2_form f = {.x = ZOE_F32, .y = ZOE_F32, .norm = 2.3f, .root = 9.8f, .silu = true};
    c(b->want, b->z, b->x, NULL, &f, N);
    g(b->got, b->z, b->x, NULL, &f, N);
    return error_of(b, N, 4.0);
}

static double try_add_rows(bench *b, zoe_kernel_add_rows *c, zoe_kernel_add_rows *g)
{
    c(b->want, b->x, b->z, ZOE_F32, false, N);
    g(b->got, b->x, b->z, ZOE_F32, false, N);
    return error_of(b, N, 0.0);
}

static double try_shift_scale(bench *b, zoe_kernel_shift_scale *c, zoe_kernel_shift_scale *g)
{
    c(b->want, b->x, b->y, b->z, N);
    g(b->got, b->x, b->y, b->z, N);
    return error_of(b, N, 0.0);
}

static double try_quantise(bench *b, zoe_kernel_quantise *c, zoe_kernel_quantise *g)
{
    int8_t want[N], got[N];
    c(want, b->z, b->x, b->y, true, N);
    g(got, b->z, b->x, b->y, true, N);
    return memcmp(want, got, sizeof want) == 0 ? 0.0 : INFINITY;
}

static double try_rotate(bench *b, zoe_kernel_rotate *c, zoe_kernel_rotate *g)
{
    const zoe_rotation r = {.x = ZOE_F32, .y = ZOE_F32, .trig = ZOE_F32};
    c(b->want, b->z, b->x, b->y, &r, N - 1);
    g(b->got, b->z, b->x, b->y, &r, N - 1);
    return error_of(b, N - 1, 0.0);
}

/* The types at the end of the names do not matter here: any bytes are values of each. */
static double try_grad_sums(bench *b, zoe_kernel_grad_sums *c, zoe_kernel_grad_sums *g)
{
    double want[2] = {0.0, 0.0}, got[2] = {0.0, 0.0}, worst = 0.0;
    c(want, b->x, b->y, b->z, 0.25f, 1.5f, N);
    g(got, b->x, b->y, b->z, 0.25f, 1.5f, N);
    for (int i = 0; i < 2; i++) /* terms are up to 14 */
        worst = fmax(worst, fabs(got[i] - want[i]) / (14.0 * N));
    return isnan(got[0]) || isnan(got[1]) ? INFINITY : worst;
}

static double try_grad_apply(bench *b, zoe_kernel_grad_apply *c, zoe_kernel_grad_apply *g)
{
    float sums[4][N];
    for (size_t i = 0; i < N; i++)
        sums[0][i] = sums[1][i] = sums[2][i] = sums[3][i] = b->z[N + i];
    const zoe_grad_form f = {0.25f, 1.5f, 0.1f, -0.7f, sums[0], sums[1]};
    const zoe_grad_form h = {0.25f, 1.5f, 0.1f, -0.7f, sums[2], sums[3]};
    c(b->want, b->x, b->y, b->z, &f, N);
    g(b->got, b->x, b->y, b->z, &h, N);
    if (memcmp(sums[0], sums[2], 2 * sizeof sums[0]) != 0)
        return INFINITY;
    return error_of(b, N, 0.0);
}

static double try_layer_sums(bench *b, zoe_kernel_layer_sums *c, zoe_kernel_layer_sums *g)
{
    double want[2] = {0.0, 0.0}, got[2] = {0.0, 0.0};
    c(want, b->x, 0.25f, N);
    g(got, b->x, 0.25f, N);
    if (isnan(want[1]) && isnan(got[1]))
        return 0.0;
    const double scale = fmax(sqrt(want[1] * (double)N), want[1]);
    const double errors[2] = {fabs(got[0] - want[0]) / scale, fabs(got[1] - want[1]) / want[1]};
    return errors[0] > errors[1] ? errors[0] : errors[1];
}

static double try_layer_apply(bench *b, zoe_kernel_layer_apply *c, zoe_kernel_layer_apply *g)
{
    const zoe_layer_form f = {.mean = 0.3f,
                              .rstd = 1.7f,
                              .rest = 3e-8f,
                              .offset = 1e-9f,
                              .exact = true,
                              .weight = b->y,
                              .bias = b->z};
    c(b->want, b->x, &f, N); /* bits of bf16 values: finite in every type that they are taken for */
    g(b->got, b->x, &f, N);
    return error_of(b, N / 2, 0.0);
}

static double try_layer_gate(bench *b, zoe_kernel_layer_gate *c, zoe_kernel_layer_gate *g)
{
    c(b->want, b->x, b->y, b->z, N);
    g(b->got, b->x, b->y, b->z, N);
    return error_of(b, N / 2, 0.0);
}

static double try_layer_weight(bench *b, zoe_kernel_layer_weight *c, zoe_kernel_layer_weight *g)
{
    c(b->want, b->z, 1.0f, N);
    g(b->got, b->z, 1.0f, N);
    return error_of(b, N, 0.0);
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

static double try_few(bench *b, zoe_kernel_few *c, zoe_kernel_few *g)
{
    enum { K = 101, ROWS = 3 };
    uint32_t w[ZOE_PANEL * K]; /* about 1, or 1/128, in every type */
    for (uint32_t i = 0; i < ZOE_PANEL * K; i++)
        w[i] = 0x3c003c00u | (i * 2654435761u & 0x81ff81ffu);
    c(b->want, ZOE_PANEL, b->z, K, w, K, ROWS, K, true);
    g(b->got, ZOE_PANEL, b->z, K, w, K, ROWS, K, true);
    return error_of(b, (size_t)ROWS * ZOE_PANEL, (double)K);
}

static double try_finish(bench *b, zoe_kernel_finish *c, zoe_kernel_finish *g)
{
    const zoe_finishing f = {
        .bias = b->x, .gate = b->y, .residual = b->x + N, .activation = ZOE_ACT_GELU_TANH};
    c(b->want, b->z, &f, N);
    g(b->got, b->z, &f, N);
    return error_of(b, N, 4.0);
}

static double try_attend(bench *b, zoe_kernel_attend *c, zoe_kernel_attend *g)
{
    const size_t k = 101, rows = 23;
    c(b->want, ZOE_PANEL, b->y, b->z, k, b->x, rows, k);
    g(b->got, ZOE_PANEL, b->y, b->z, k, b->x, rows, k);
    return error_of(b, rows * ZOE_PANEL, (double)k);
}

static double try_spread(bench *b, zoe_kernel_spread *c, zoe_kernel_spread *g)
{
    const size_t k = 67, width = 29, distance = k * ZOE_PANEL + 3;
    c(b->want, distance, b->z, (ptrdiff_t)width + 1, width, k);
    g(b->got, distance, b->z, (ptrdiff_t)width + 1, width, k);
    return error_of(b, 2 * distance, 0.0);
}

static double try_add_weighted(bench *b, zoe_kernel_add_weighted *c, zoe_kernel_add_weighted *g)
{
    c(b->want, b->x, 0.3f, N);
    g(b->got, b->x, 0.3f, N);
    return error_of(b, N, 0.0);
}

static double try_softmax_step(bench *b, zoe_kernel_softmax_step *c, zoe_kernel_softmax_step *g)
{
    enum { ROWS = 3 };
    float max[2][ROWS], sum[2][ROWS] = {{0.0f}}, factor[2][ROWS];
    for (size_t r = 0; r < ROWS; r++)
        max[0][r] = max[1][r] = r == 0 ? -INFINITY : 0.5f;
    c(b->want, N, ROWS, N, max[0], sum[0], factor[0]);
    g(b->got, N, ROWS, N, max[1], sum[1], factor[1]);
    double worst = error_of(b, (size_t)ROWS * N, 1e-30);
    for (size_t r = 0; r < ROWS; r++) {
        const double wrong = fabs((double)sum[1][r] - (double)sum[0][r]) / (double)sum[0][r];
        worst = fmax(worst, wrong / 2.0);
        worst = fmax(worst, fabs((double)factor[1][r] - (double)factor[0][r]));
        if (max[0][r] != max[1][r])
            return INFINITY;
    }
    return worst;
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

static double try_int8_peak(bench *b, zoe_kernel_int8_peak *c, zoe_kernel_int8_peak *g)
{
    return c(b->z, N) == g(b->z, N) ? 0.0 : INFINITY;
}

static double try_int8_round(bench *b, zoe_kernel_int8_round *c, zoe_kernel_int8_round *g)
{
    int8_t want[N], got[N];
    c(want, b->z, 70.0f, N);
    g(got, b->z, 70.0f, N);
    return memcmp(want, got, sizeof want) == 0 ? 0.0 : INFINITY;
}

/* Any bytes. */
static zoe_int8_product int8_product(const bench *b)
{
    return (zoe_int8_product){.a = (const int8_t *)b->z,
                              .a_stride = 101,
                              .w = (const int8_t *)b->x,
                              .w_distance = 104 * ZOE_PANEL,
                              .panels = 3,
                              .rows = 19,
                              .k = 104,
                              .group = 64,
                              .a_scale = b->y,
                              .a_scale_stride = 2,
                              .w_scale = b->y + N,
                              .w_scale_distance = 2 * ZOE_PANEL};
}

static double try_int8_gemm(bench *b, zoe_kernel_int8_gemm *c, zoe_kernel_int8_gemm *g)
{
    enum { COUNT = 19 * 3 * ZOE_PANEL };
    int32_t want[COUNT], got[COUNT];
    const zoe_int8_product p = int8_product(b);
    c(want, 3 * ZOE_PANEL, &p, false);
    g(got, 3 * ZOE_PANEL, &p, false);
    return memcmp(want, got, sizeof want) == 0 ? 0.0 : INFINITY;
}

static double try_int8_gemm_scaled(bench *b, zoe_kernel_int8_gemm_scaled *c,
                                   zoe_kernel_int8_gemm_scaled *g)
{
    const zoe_int8_product p = int8_product(b);
    c(b->want, 3 * ZOE_PANEL, &p, true);
    g(b->got, 3 * ZOE_PANEL, &p, true);
    return error_of(b, 19 * 3 * ZOE_PANEL, 0.0);
}

static double try_int8_scale(bench *b, zoe_kernel_int8_scale *c, zoe_kernel_int8_scale *g)
{
    int32_t sums[N];
    for (size_t i = 0; i < N; i++)
        sums[i] = (int32_t)(b->z[i] * 0x1p29f);
    c(b->want, sums, b->x, 0.37f, N);
    g(b->got, sums, b->x, 0.37f, N);
    return error_of(b, N, 0.0);
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
