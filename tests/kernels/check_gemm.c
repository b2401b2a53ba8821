/* Products: packing, the product, what happens to it on its way out. */
#include "check.h"

static const size_t depths[] = {0, 1, 2, 7, 8, 9, 16, 31, 64, 65, 255, 256, 257};
enum { DEPTHS = sizeof depths / sizeof *depths };

/* Packing (lines of w are columns of the panel) and slicing (lines of w are its rows). */
static void check_panel(const char *name, zoe_kernel_pack *c, zoe_kernel_pack *g, double tolerance,
                        bool slice)
{
    const size_t bytes = zoe_dtype_bytes(dtype_in(name));
    for (size_t d = 0; d < DEPTHS; d++)
        for (size_t count = 1; count <= ZOE_PANEL; count++) {
            const size_t k = depths[d], width = slice ? count : k, lines = slice ? k : count;
            const size_t stride = width + count % 3;
            const size_t elements = lines ? (lines - 1) * stride + width : 0;
            guarded w = random_bytes(elements * bytes);
            guarded want = guarded_new(k * ZOE_PANEL * 4), got = guarded_new(k * ZOE_PANEL * 4);
            c(want.data, w.data, (ptrdiff_t)stride, count, k);
            g(got.data, w.data, (ptrdiff_t)stride, count, k);
            all_close(name, k * ZOE_PANEL, got.data, want.data, 0.0, tolerance);
            guarded_free(w);
            guarded_free(want);
            guarded_free(got);
        }
    enum { K = 256, N = K * ZOE_PANEL };
    guarded w = random_bytes(N * bytes), panel = guarded_new(N * 4);
    BENCH(N, c, g, panel.data, w.data, slice ? ZOE_PANEL : K, ZOE_PANEL, K);
    guarded_free(w);
    guarded_free(panel);
}

void check_pack(const char *name, zoe_kernel_pack *c, zoe_kernel_pack *g, double tolerance)
{
    check_panel(name, c, g, tolerance, false);
}

void check_slice(const char *name, zoe_kernel_slice *c, zoe_kernel_slice *g, double tolerance)
{
    check_panel(name, c, g, tolerance, true);
}

void check_scale_panel(const char *name, zoe_kernel_scale_panel *c, zoe_kernel_scale_panel *g,
                       double tolerance)
{
    for (size_t d = 0; d < DEPTHS; d++) {
        const size_t k = depths[d], n = k * ZOE_PANEL;
        guarded factors = values(ZOE_PANEL, d % 2);
        guarded want = values(n, d % 2), got = guarded_copy(want, n * 4);
        c(want.data, factors.data, k);
        g(got.data, factors.data, k);
        all_close(name, n, got.data, want.data, 0.0, tolerance);
        guarded_free(factors);
        guarded_free(want);
        guarded_free(got);
    }
    enum { K = 256, N = K * ZOE_PANEL };
    guarded panel = values(N, false), ones = guarded_new(ZOE_PANEL * 4);
    for (size_t i = 0; i < ZOE_PANEL; i++)
        ((float *)ones.data)[i] = 1.0f;
    BENCH(N, c, g, panel.data, ones.data, K);
    guarded_free(panel);
    guarded_free(ones);
}

void check_gemm(const char *name, zoe_kernel_gemm *c, zoe_kernel_gemm *g, double tolerance)
{
    for (size_t d = 0; d < DEPTHS; d++)
        for (size_t rows = 0; rows < 50; rows += rows < 20 ? 1 : 7)
            for (int round = 0; round < 3; round++) {
                const size_t k = depths[d], a_stride = k + rows % 3,
                             c_stride = ZOE_PANEL + rows % 2 * 5;
                const bool add = rows % 2;
                const size_t a_count = rows ? (rows - 1) * a_stride + k : 0;
                const size_t c_count = rows ? (rows - 1) * c_stride + ZOE_PANEL : 0;
                guarded a = values(a_count, false), panel = values(k * ZOE_PANEL, false);
                for (size_t i = 0; i < a_count && round == 2; i += 1 + random_word() % 40)
                    ((float *)a.data)[i] = random_word() % 2 ? INFINITY : NAN;
                guarded want = values(c_count, false), got = guarded_copy(want, c_count * 4);
                c(want.data, c_stride, a.data, a_stride, panel.data, rows, k, add);
                g(got.data, c_stride, a.data, a_stride, panel.data, rows, k, add);
                for (size_t i = 0; i < c_count; i++) {
                    const size_t m = i / c_stride, j = i % c_stride;
                    double scale = 1e-30;
                    for (size_t t = 0; t < k && j < ZOE_PANEL; t++)
                        scale += fabs((double)((float *)a.data)[m * a_stride + t] *
                                      (double)((float *)panel.data)[t * ZOE_PANEL + j]);
                    close_to(name, k, i, ((float *)got.data)[i], ((float *)want.data)[i],
                             scale < 1e38 ? scale + 4.0 : 0.0, scale < 1e38 ? tolerance : 1.0);
                }
                guarded_free(a);
                guarded_free(panel);
                guarded_free(want);
                guarded_free(got);
            }
    enum { K = 256, ROWS = 48 };
    guarded a = values(ROWS * K, false), panel = values(K * ZOE_PANEL, false);
    guarded y = guarded_new(ROWS * ZOE_PANEL * 4);
    BENCH((size_t)ROWS * K * ZOE_PANEL, c, g, y.data, ZOE_PANEL, a.data, K, panel.data, ROWS, K,
          false);
    guarded_free(a);
    guarded_free(panel);
    guarded_free(y);
}

/* Rows of w whose values are about 1 or 1/128 in every type. */
static guarded few_weights(size_t bytes)
{
    guarded w = guarded_new(bytes);
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        const uint16_t word = (uint16_t)(0x3c00u | (random_word() & 0x81ffu));
        memcpy((char *)w.data + i, &word, sizeof word);
    }
    return w;
}

static void check_few_once(const char *name, zoe_kernel_few *c, zoe_kernel_few *g, double tolerance,
                           size_t k, size_t rows, bool odd)
{
    const size_t bytes = zoe_dtype_bytes(dtype_in(name)), stride = k + rows % 3;
    const size_t a_stride = k + odd, c_stride = ZOE_PANEL + odd * 5u;
    const size_t a_count = rows ? (rows - 1) * a_stride + k : 0;
    const size_t c_count = rows ? (rows - 1) * c_stride + ZOE_PANEL : 0;
    guarded w = few_weights(((ZOE_PANEL - 1) * stride + k) * bytes), a = values(a_count, false);
    if (odd && a_count)
        ((float *)a.data)[random_word() % a_count] = random_word() % 2 ? INFINITY : NAN;
    guarded want = values(c_count, false), got = guarded_copy(want, c_count * 4);
    c(want.data, c_stride, a.data, a_stride, w.data, (ptrdiff_t)stride, rows, k, odd);
    g(got.data, c_stride, a.data, a_stride, w.data, (ptrdiff_t)stride, rows, k, odd);
    for (size_t i = 0; i < c_count; i++)
        close_to(name, k, i, ((float *)got.data)[i], ((float *)want.data)[i], 8.0 * (double)k + 8.0,
                 tolerance);
    guarded_free(w);
    guarded_free(a);
    guarded_free(want);
    guarded_free(got);
}

void check_few(const char *name, zoe_kernel_few *c, zoe_kernel_few *g, double tolerance)
{
    for (size_t d = 0; d < DEPTHS; d++)
        for (size_t rows = 0; rows <= ZOE_FEW_ROWS && depths[d] <= ZOE_FEW_DEPTH; rows++)
            for (int odd = 0; odd < 2; odd++)
                check_few_once(name, c, g, tolerance, depths[d], rows, odd);
    enum { K = ZOE_FEW_DEPTH };
    guarded w = few_weights(ZOE_PANEL * K * zoe_dtype_bytes(dtype_in(name)));
    guarded a = values(K, false), y = guarded_new(ZOE_PANEL * 4);
    BENCH((size_t)K * ZOE_PANEL, c, g, y.data, ZOE_PANEL, a.data, K, w.data, K, 1, K, false);
    guarded_free(w);
    guarded_free(a);
    guarded_free(y);
}

void check_finish(const char *name, zoe_kernel_finish *c, zoe_kernel_finish *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (unsigned round = 0; round < 80; round++) {
            const size_t n = widths[w];
            guarded v[4];
            for (int i = 0; i < 4; i++)
                v[i] = bf16_values(n, false);
            zoe_finishing f = {.activation = (zoe_activation)(round >> 4), .round = round & 8};
            f.bias = round & 1 ? v[1].data : NULL;
            f.gate = round & 2 ? v[2].data : NULL;
            f.residual = round & 4 ? v[3].data : NULL;
            guarded want = guarded_new(n * 4), got = guarded_copy(v[0], n * 4);
            c(want.data, v[0].data, &f, n);
            g(got.data, got.data, &f, n);
            for (size_t i = 0; i < n; i++) {
                const double gate = f.gate ? fabs((double)f.gate[i]) : 1.0;
                const double rest = f.residual ? fabs((double)f.residual[i]) : 0.0;
                /* with rounding, a last bit may tip a value to the next bf16 */
                const double most = f.round && f.activation != ZOE_ACT_NONE ? 0x1p-7 : tolerance;
                const double x = fabs((double)((float *)v[0].data)[i]) +
                                 (f.bias ? fabs((double)f.bias[i]) : 0.0);
                close_to(name, n, i, ((float *)got.data)[i], ((float *)want.data)[i],
                         gate * (x + 0.25) + rest, most);
                if (f.round && !f.gate && !f.residual)
                    close_to("rounded", n, i, ((float *)got.data)[i],
                             zoe_bf16_round(((float *)got.data)[i]), 0.0, 0.0);
            }
            for (int i = 0; i < 4; i++)
                guarded_free(v[i]);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 4096 };
    guarded x = values(N, false), bias = values(N, false), y = guarded_new(N * 4);
    const zoe_finishing f = {.bias = bias.data, .activation = ZOE_ACT_GELU_TANH};
    BENCH(N, c, g, y.data, x.data, &f, N);
    guarded_free(x);
    guarded_free(bias);
    guarded_free(y);
}
