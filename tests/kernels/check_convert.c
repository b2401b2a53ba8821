/* Element types: widening and narrowing. */
#include "check.h"

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
    enum { N = 4096 };
    guarded x = random_bytes(N / elements * zoe_block_bytes(dtype)), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, x.data, N);
    guarded_free(x);
    guarded_free(y);
}

void check_widen(const char *name, zoe_kernel_widen *c, zoe_kernel_widen *g, double tolerance)
{
    const zoe_dtype dtype = dtype_in(name);
    if (zoe_block_elements(dtype) > 1) {
        check_widen_blocks(name, dtype, c, g);
        return;
    }
    const size_t bytes = zoe_dtype_bytes(dtype);
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
    guarded all = guarded_new(n * bytes), want = guarded_new(n * 4), got = guarded_new(n * 4);
    for (size_t i = 0; i < n * bytes; i++)
        ((unsigned char *)all.data)[i] = (unsigned char)(bytes == 1 ? i : i % 2 ? i / 512 : i / 2);
    c(want.data, all.data, n);
    g(got.data, all.data, n);
    all_close(name, n, got.data, want.data, 0.0, tolerance);
    guarded_free(all);
    guarded_free(want);
    guarded_free(got);
    enum { N = 4096 };
    guarded x = values(N, false), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, x.data, N);
    guarded_free(x);
    guarded_free(y);
}

void check_narrow(const char *name, zoe_kernel_narrow *c, zoe_kernel_narrow *g, double tolerance)
{
    (void)tolerance;
    const zoe_dtype dtype = strstr(name, "bf16") ? ZOE_BF16 : ZOE_F16;
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 20; round++) {
            const size_t n = widths[w];
            guarded x = round % 2 ? values(n, true) : random_bytes(n * 4);
            guarded want = guarded_new(n * 2), got = guarded_new(n * 2);
            if (round == 0 && n > 0) { /* NaN with bits in its lower half alone */
                ((uint32_t *)x.data)[0] = 0x7f800001u;
                ((uint32_t *)x.data)[n - 1] = 0xff80ffffu;
            }
            c(want.data, x.data, n);
            g(got.data, x.data, n);
            for (size_t i = 0; i < n; i++)
                close_to(name, n, i, zoe_load_f32(got.data, dtype, i),
                         zoe_load_f32(want.data, dtype, i), 0.0, 0.0);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 4096 };
    guarded x = values(N, false), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, x.data, N);
    guarded_free(x);
    guarded_free(y);
}
