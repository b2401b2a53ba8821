/* The self-test of the kernels: right ones pass, and a wrong one is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/kernel.h"

typedef struct seen {
    size_t kernels, guests, faults;
    const char *fault;
} seen;

static void see(void *user, const char *name, bool guest, double error, double tolerance)
{
    seen *s = user;
    s->kernels++;
    s->guests += guest;
    if (error <= tolerance)
        return;
    s->faults++;
    s->fault = name;
}

static seen try_table(const zoe_kernels *table)
{
    seen s = {0};
    zoe_context *ctx = zoe_context_new(1);
    assert_non_null(ctx);
    assert_int_equal(zoe_kernels_selftest(ctx, table, see, &s), ZOE_OK);
    zoe_context_free(ctx);
    return s;
}

static void every_rung_is_right(void **state)
{
    (void)state;
    size_t rows = 0;
#define KERNEL(name, family, tolerance) rows++;
#include "kernel/kernels.def"
#undef KERNEL
    for (int isa = 0; isa < ZOE_ISA_COUNT; isa++) {
        if (!zoe_cpu_has((zoe_isa)isa))
            continue;
        zoe_kernels table;
        zoe_kernels_fill(&table, (zoe_isa)isa);
        const seen s = try_table(&table);
        if (s.faults)
            print_error("%s: %s\n", zoe_isa_name((zoe_isa)isa), s.fault);
        assert_int_equal(s.faults, 0);
        assert_int_equal(s.kernels, rows);
        if (isa == ZOE_ISA_C)
            assert_int_equal(s.guests, 0);
        else
            assert_true(s.guests > 0);
    }
}

/* ---- wrong ones, each by little ---- */

static zoe_kernels right;

static void off_scale(float *y, float factor, size_t n)
{
    right.scale(y, factor, n);
    if (n > 0)
        y[n - 1] *= 1.0001f;
}

static void off_narrow(void *y, const float *x, size_t n)
{
    uint16_t *to = y;
    for (size_t i = 0; i < n; i++)
        to[i] = (uint16_t)(zoe_bits_of_f32(x[i]) >> 16); /* cut, not rounded */
}

static void off_gemm(float *c, size_t c_stride, const float *a, size_t a_stride, const float *panel,
                     size_t rows, size_t k, bool add)
{
    right.gemm(c, c_stride, a, a_stride, panel, rows, k > 0 ? k - 1 : k, add);
}

static float off_largest(const float *x, float top, size_t n)
{
    return right.largest(x, top, n) + 1.0f;
}

static void off_silu(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = NAN;
    (void)x;
}

static void a_wrong_kernel_is_named(void **state)
{
    (void)state;
    zoe_kernels_fill(&right, zoe_cpu_isa());
    zoe_kernels wrong[5];
    static const char *const names[] = {"scale", "narrow_bf16", "gemm", "largest", "silu"};
    for (size_t i = 0; i < 5; i++)
        wrong[i] = right;
    wrong[0].scale = off_scale;
    wrong[1].narrow_bf16 = off_narrow;
    wrong[2].gemm = off_gemm;
    wrong[3].largest = off_largest;
    wrong[4].silu = off_silu;
    for (size_t i = 0; i < 5; i++) {
        const seen s = try_table(&wrong[i]);
        assert_int_equal(s.faults, 1);
        assert_string_equal(s.fault, names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rung_is_right),
        cmocka_unit_test(a_wrong_kernel_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
