/* Every row of kernels.def: guests of each instruction set that this cpu has against the C
 * definition, over odd sizes, unaligned ends, special values, with pages behind the data that must
 * not be touched. */
#define _GNU_SOURCE
#include "kernel_case.h"
#include "kernel_conv.h"

/* ---- one check a family: c is the definition, g the guest ---- */

/* Runs that end in any place of a block; guests may read the whole of it, and nothing behind. */
static void check_widen_blocks(const char *name, zoe_dtype dtype, zoe_kernel_widen *c,
                               zoe_kernel_widen *g)
{
    const size_t elements = zoe_block_elements(dtype);
    for (size_t n = 0; n < 4 * elements; n += n < elements ? 1 : 1 + n % 37) {
        const size_t blocks = (n + elements - 1) / elements;
        guarded x = random_bytes(blocks * zoe_block_bytes(dtype));
        guarded want = guarded_new(n * 4), got = guarded_new(n * 4);
        c(want.data, x.data, n);
        g(got.data, x.data, n);
        all_close(name, n, got.data, want.data, 0.0, 0.0);
        guarded_free(x);
        guarded_free(want);
        guarded_free(got);
    }
}

static void check_widen(const char *name, zoe_kernel_widen *c, zoe_kernel_widen *g,
                        double tolerance)
{
    for (zoe_dtype dtype = ZOE_Q4_0; dtype < ZOE_DTYPES; dtype++)
        if (strstr(name, zoe_dtype_name(dtype))) {
            check_widen_blocks(name, dtype, c, g);
            return;
        }
    const size_t bytes = strstr(name, "f8") ? 1 : 2;
    for (size_t w = 0; w < WIDTHS; w++) {
        const size_t n = widths[w];
        guarded x = random_bytes(n * bytes), want = guarded_new(n * 4), got = guarded_new(n * 4);
        c(want.data, x.data, n);
        g(got.data, x.data, n);
        all_close(name, n, got.data, want.data, 0.0, tolerance);
        guarded_free(x);
        guarded_free(want);
        guarded_free(got);
    }
    /* every pattern there is */
    const size_t n = bytes == 1 ? 256 : 65536;
    unsigned char *all = malloc(n * bytes);
    float *want = malloc(n * 4), *got = malloc(n * 4);
    assert_true(all && want && got);
    for (size_t i = 0; i < n * bytes; i++)
        all[i] = (unsigned char)(bytes == 1 ? i : i % 2 ? i / 512 : i / 2);
    c(want, all, n);
    g(got, all, n);
    all_close(name, n, got, want, 0.0, tolerance);
    free(all);
    free(want);
    free(got);
}

static void check_narrow(const char *name, zoe_kernel_narrow *c, zoe_kernel_narrow *g,
                         double tolerance)
{
    (void)tolerance;
    const zoe_dtype dtype = strstr(name, "bf16") ? ZOE_BF16 : ZOE_F16;
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 20; round++) {
            const size_t n = widths[w];
            guarded x = round % 2 ? values(n, true) : random_bytes(n * 4);
            guarded want = guarded_new(n * 2), got = guarded_new(n * 2);
            c(want.data, x.data, n);
            g(got.data, x.data, n);
            for (size_t i = 0; i < n; i++)
                close_to(name, n, i, zoe_load_f32(got.data, dtype, i),
                         zoe_load_f32(want.data, dtype, i), 0.0, 0.0);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
}

static void check_map(const char *name, zoe_kernel_map *c, zoe_kernel_map *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 10; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round % 2), want = guarded_new(n * 4), got = guarded_new(n * 4);
            c(want.data, x.data, n);
            g(got.data, x.data, n);
            all_close(name, n, got.data, want.data, 0.25, tolerance);
            g(x.data, x.data, n); /* in place */
            all_close(name, n, x.data, got.data, 0.0, 0.0);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
    /* a fine sweep over where the function is curved */
    enum { STEPS = 40001 };
    float *x = malloc(3 * STEPS * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < STEPS; i++)
        x[i] = (float)((double)i / (STEPS - 1) * 40.0 - 20.0);
    c(x + STEPS, x, STEPS);
    g(x + 2 * STEPS, x, STEPS);
    all_close(name, STEPS, x + 2 * STEPS, x + STEPS, 0.25, tolerance);
    free(x);
}

static void check_geglu(const char *name, zoe_kernel_geglu *c, zoe_kernel_geglu *g,
                        double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 10; round++) {
            const size_t n = widths[w];
            guarded gate = bf16_values(n, round % 2), up = bf16_values(n, false);
            guarded want = guarded_new(n * 4), got = guarded_new(n * 4);
            c(want.data, gate.data, up.data, n);
            g(got.data, gate.data, up.data, n);
            for (size_t i = 0; i < n; i++) {
                const float a = ((float *)gate.data)[i], b = ((float *)up.data)[i];
                const double scale = fabs((double)a * (double)b);
                close_to(name, n, i, ((float *)got.data)[i], ((float *)want.data)[i],
                         isfinite(scale) ? scale : 0.0, tolerance);
            }
            guarded_free(gate);
            guarded_free(up);
            guarded_free(want);
            guarded_free(got);
        }
}

static void check_sum(const char *name, zoe_kernel_sum *c, zoe_kernel_sum *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 10; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round % 2);
            const float *p = x.data;
            const double shift = round < 2 ? 0.0 : 0.7;
            const double want = c(p, shift, n), got = g(p, shift, n);
            double scale = 0.0;
            for (size_t i = 0; i < n; i++)
                scale += fabs((double)p[i] - shift);
            scale = fmax(scale, fabs(want));
            if (!(isnan(want) && isnan(got)) && got != want &&
                !(fabs(got - want) <= tolerance * scale))
                fail_msg("%s: n = %zu: got %.17g, wanted %.17g", name, n, got, want);
            guarded_free(x);
        }
}

static void check_rms_scale(const char *name, zoe_kernel_rms_scale *c, zoe_kernel_rms_scale *g,
                            double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 8; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round & 4), gamma = values(n, round & 4);
            guarded want = guarded_new(n * 4), got = guarded_copy(x, n * 4);
            const float *weights = round & 1 ? gamma.data : NULL;
            c(want.data, x.data, 0.37f, weights, round & 2, n);
            g(got.data, got.data, 0.37f, weights, round & 2, n);
            all_close(name, n, got.data, want.data, 0.0, tolerance);
            guarded_free(x);
            guarded_free(gamma);
            guarded_free(want);
            guarded_free(got);
        }
}

static void check_layer_scale(const char *name, zoe_kernel_layer_scale *c,
                              zoe_kernel_layer_scale *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 16; round++) {
            const size_t n = widths[w];
            guarded v[5];
            for (int i = 0; i < 5; i++)
                v[i] = values(n, round & 8);
            zoe_layer_scaling s = {
                .mean = 0.3f, .mean_rest = 1e-9f, .rstd = 1.7f, .round = round & 4};
            if (round & 1) {
                s.gamma = v[1].data;
                s.beta = v[2].data;
            }
            if (round & 2) {
                s.scale = v[3].data;
                s.shift = v[4].data;
            }
            guarded want = guarded_new(n * 4), got = guarded_copy(v[0], n * 4);
            c(want.data, v[0].data, &s, n);
            g(got.data, got.data, &s, n);
            all_close(name, n, got.data, want.data, 0.0, tolerance);
            for (int i = 0; i < 5; i++)
                guarded_free(v[i]);
            guarded_free(want);
            guarded_free(got);
        }
}

static void check_l2_scale(const char *name, zoe_kernel_l2_scale *c, zoe_kernel_l2_scale *g,
                           double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 4; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round & 2), gamma = values(n, false);
            guarded want = guarded_new(n * 4), got = guarded_copy(x, n * 4);
            c(want.data, x.data, 2.3f, 9.8f, gamma.data, round & 1, n);
            g(got.data, got.data, 2.3f, 9.8f, gamma.data, round & 1, n);
            all_close(name, n, got.data, want.data, 0.25, round & 1 ? tolerance : 0.0);
            guarded_free(x);
            guarded_free(gamma);
            guarded_free(want);
            guarded_free(got);
        }
}

static void check_rope(const char *name, zoe_kernel_rope *c, zoe_kernel_rope *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 4; round++) {
            const size_t n = widths[w];
            guarded x = values(2 * n, round & 1), cosines = values(n, false),
                    sines = values(n, false);
            guarded want = guarded_new(n * 8), got = guarded_copy(x, n * 8);
            c(want.data, x.data, cosines.data, sines.data, n);
            g(got.data, got.data, cosines.data, sines.data, n);
            all_close(name, 2 * n, got.data, want.data, 0.0, tolerance);
            guarded_free(x);
            guarded_free(cosines);
            guarded_free(sines);
            guarded_free(want);
            guarded_free(got);
        }
}

static zoe_dtype type_in(const char *name)
{
    return strstr(name, "bf16")   ? ZOE_BF16
           : strstr(name, "e4m3") ? ZOE_F8_E4M3
           : strstr(name, "e5m2") ? ZOE_F8_E5M2
           : strstr(name, "f16")  ? ZOE_F16
                                  : ZOE_F32;
}

static const size_t depths[] = {0, 1, 2, 7, 8, 9, 16, 31, 64, 65, 255, 256, 257};
enum { DEPTHS = sizeof depths / sizeof *depths };

/* Packing (lines of w are columns of the panel) and slicing (lines of w are its rows). */
static void check_panel(const char *name, zoe_kernel_pack *c, zoe_kernel_pack *g, double tolerance,
                        bool slice)
{
    const size_t bytes = zoe_dtype_bytes(type_in(name));
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
}

static void check_pack(const char *name, zoe_kernel_pack *c, zoe_kernel_pack *g, double tolerance)
{
    check_panel(name, c, g, tolerance, false);
}

static void check_slice(const char *name, zoe_kernel_slice *c, zoe_kernel_slice *g,
                        double tolerance)
{
    check_panel(name, c, g, tolerance, true);
}

static void check_scale_panel(const char *name, zoe_kernel_scale_panel *c,
                              zoe_kernel_scale_panel *g, double tolerance)
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
}

static void check_gemm(const char *name, zoe_kernel_gemm *c, zoe_kernel_gemm *g, double tolerance)
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
}

static void check_finish(const char *name, zoe_kernel_finish *c, zoe_kernel_finish *g,
                         double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (unsigned round = 0; round < 64; round++) {
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
            }
            for (int i = 0; i < 4; i++)
                guarded_free(v[i]);
            guarded_free(want);
            guarded_free(got);
        }
}

static void check_softmax_step(const char *name, zoe_kernel_softmax_step *c,
                               zoe_kernel_softmax_step *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 8; round++) {
            float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
            for (int step = 0; step < 3; step++) {
                const size_t n = widths[w];
                guarded want = values(n, round & 4), bias = values(n, false);
                float *p = want.data;
                if (round & 2 && step == 0)
                    for (size_t i = 0; i < n; i++)
                        p[i] = -INFINITY;
                guarded got = guarded_copy(want, n * 4);
                const float *b = round & 1 ? bias.data : NULL;
                const float factor_c = c(p, n, 1.7f, b, &max[0], &sum[0]);
                const float factor_g = g(got.data, n, 1.7f, b, &max[1], &sum[1]);
                all_close(name, n, got.data, p, 1e-30, tolerance);
                close_to("softmax_step factor", n, 0, factor_g, factor_c, 1e-30, tolerance);
                close_to("softmax_step sum", n, 0, sum[1], sum[0], 1e-30, 2.0 * tolerance);
                close_to("softmax_step max", n, 0, max[1], max[0], 0.0, 0.0);
                guarded_free(want);
                guarded_free(got);
                guarded_free(bias);
            }
        }
}

static void check_softmax_bf16(const char *name, zoe_kernel_softmax_bf16 *c,
                               zoe_kernel_softmax_bf16 *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 8; round++) {
            const size_t n = widths[w];
            guarded want = values(n, round & 4), bias = bf16_values(n, false);
            guarded got = guarded_copy(want, n * 4);
            const float *b = round & 1 ? bias.data : NULL;
            const float extra = round & 2 ? 5.3f : 0.0f;
            c(want.data, n, 0.9f, b, extra);
            g(got.data, n, 0.9f, b, extra);
            all_close(name, n, got.data, want.data, 1e-30, tolerance);
            guarded_free(want);
            guarded_free(got);
            guarded_free(bias);
        }
}

static void check_scale(const char *name, zoe_kernel_scale *c, zoe_kernel_scale *g,
                        double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++) {
        const size_t n = widths[w];
        guarded want = values(n, true), got = guarded_copy(want, n * 4);
        c(want.data, 0.3f, n);
        g(got.data, 0.3f, n);
        all_close(name, n, got.data, want.data, 0.0, tolerance);
        guarded_free(want);
        guarded_free(got);
    }
}

/* ---- the list ---- */

/* A test for each row: all rungs above plain C that bring a guest of their own. */
#define KERNEL(name, family, tolerance)                                                            \
    static void test_##name(void **unused)                                                         \
    {                                                                                              \
        (void)unused;                                                                              \
        zoe_kernels c, guests;                                                                     \
        zoe_kernel_##family *seen;                                                                 \
        zoe_kernels_fill(&c, ZOE_ISA_C);                                                           \
        seen = c.name;                                                                             \
        assert_true(seen != NULL);                                                                 \
        check_##family(#name, c.name, c.name, tolerance);                                          \
        for (int isa = ZOE_ISA_C + 1; isa < ZOE_ISA_COUNT; isa++) {                                \
            if (!zoe_cpu_has((zoe_isa)isa))                                                        \
                continue;                                                                          \
            zoe_kernels_fill(&guests, (zoe_isa)isa);                                               \
            if (guests.name != seen)                                                               \
                check_##family(#name, c.name, guests.name, tolerance);                             \
            seen = guests.name;                                                                    \
        }                                                                                          \
    }
#include "kernel/kernels.def"
#undef KERNEL

/* The exponential of every rung's softmax, element by element, against double: with the maximum at
 * 0, a step turns x <= 0 into e^x. */
static void exponential_within_two_ulps(void **unused)
{
    (void)unused;
    zoe_kernels k;
    for (int isa = ZOE_ISA_C; isa < ZOE_ISA_COUNT; isa++) {
        if (!zoe_cpu_has((zoe_isa)isa))
            continue;
        zoe_kernels_fill(&k, (zoe_isa)isa);
        for (size_t step = 0; step < 40000; step++) {
            float x[16], y[16], max = 0.0f, sum = 0.0f;
            for (size_t i = 0; i < 16; i++)
                x[i] = y[i] = (float)((double)(step * 16 + i) * (-87.3 / 640000.0));
            k.softmax_step(y, 16, 1.0f, NULL, &max, &sum);
            for (size_t i = 0; i < 16; i++) {
                const double want = exp((double)x[i]);
                if (!(fabs((double)y[i] - want) <= 2.0 * 0x1p-24 * want))
                    fail_msg("exp(%.9g): got %.9g, wanted %.12g", (double)x[i], (double)y[i], want);
            }
        }
    }
}

int main(void)
{
#define KERNEL(name, family, tolerance) cmocka_unit_test(test_##name),
    const struct CMUnitTest tests[] = {
#include "kernel/kernels.def"
        cmocka_unit_test(exponential_within_two_ulps),
    };
#undef KERNEL
    return cmocka_run_group_tests(tests, NULL, NULL);
}
