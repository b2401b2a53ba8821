/* Norms by the root of a mean square. */
#include "check.h"

static const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16};

/* n values of a type; special ones may be NaN with any payload. */
static guarded row_values(zoe_dtype type, size_t n, bool special)
{
    guarded f = values(n, special), g = guarded_new(n * zoe_dtype_bytes(type));
    zoe_narrow(g.data, type, f.data, n);
    uint32_t *u = g.data;
    for (size_t i = 0; i < n && special && type == ZOE_F32; i++)
        if ((u[i] & 0x7fffffffu) > 0x7f800000u)
            u[i] |= random_word() | 0x7f800001u;
    guarded_free(f);
    return g;
}

/* Compares n elements of a type as numbers. */
static void all_same(const char *name, size_t n, zoe_dtype type, const void *got, const void *want,
                     double scale, double tolerance)
{
    for (size_t i = 0; i < n; i++)
        close_to(name, n, i, zoe_load_f32(got, type, i), zoe_load_f32(want, type, i), scale,
                 tolerance);
}

void check_squares(const char *name, zoe_kernel_squares *c, zoe_kernel_squares *g, double tolerance)
{
    static const size_t more[] = {511, 512, 513, 1536, 5120};
    const zoe_dtype type = dtype_in(name);
    for (size_t w = 0; w < WIDTHS + 5; w++)
        for (int round = 0; round < 4; round++) {
            const size_t n = w < WIDTHS ? widths[w] : more[w - WIDTHS];
            guarded x = row_values(type, n, round == 1);
            /* one equal value, whose roundings all go the same way; squares that f32 cannot hold */
            for (size_t i = 0; i < n && round >= 2; i++)
                zoe_store_f32(x.data, type, i,
                              round == 2        ? 1.1f
                              : type == ZOE_F16 ? 6e4f
                              : n % 2           ? 1e30f
                                                : 1e-30f);
            close_to_double(name, n, 0, g(x.data, n), c(x.data, n), 0.0, tolerance);
            guarded_free(x);
        }
    enum { N = 5120 };
    guarded x = row_values(type, N, false);
    BENCH(N, c, g, x.data, N);
    guarded_free(x);
}

void check_squares_rounded(const char *name, zoe_kernel_squares_rounded *c,
                           zoe_kernel_squares_rounded *g, double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 6; round++) {
            const size_t n = widths[w];
            const zoe_dtype type = types[round % 3];
            guarded x = row_values(type, n, round >= 3);
            close_to_double(name, n, 0, g(x.data, type, n), c(x.data, type, n), 0.0, tolerance);
            guarded_free(x);
        }
    enum { N = 5120 };
    guarded x = row_values(ZOE_BF16, N, false);
    BENCH(N, c, g, x.data, ZOE_BF16, N);
    guarded_free(x);
}

static void check_apply(const char *name, zoe_kernel_rms_apply *c, zoe_kernel_rms_apply *g,
                        zoe_rms_form f, size_t n, bool special)
{
    const size_t bytes = n * zoe_dtype_bytes(f.y);
    guarded x = row_values(f.x, n, special);
    guarded gamma = f.gamma == ZOE_NONE ? guarded_new(0) : row_values(f.gamma, n, special);
    guarded want = guarded_new(bytes), got = guarded_new(bytes);
    c(want.data, x.data, gamma.data, 0.37f, &f, n);
    g(got.data, x.data, gamma.data, 0.37f, &f, n);
    all_same(name, n, f.y, got.data, want.data, 0.0, 0.0);
    if (f.x == f.y) { /* in place */
        guarded same = guarded_copy(x, bytes);
        g(same.data, same.data, gamma.data, 0.37f, &f, n);
        all_same(name, n, f.y, same.data, want.data, 0.0, 0.0);
        guarded_free(same);
    }
    /* with another row */
    guarded second = row_values(f.x, n, special), ahead = row_values(f.x, n, false),
            expected = guarded_new(bytes), found = guarded_new(bytes);
    const zoe_rms_row other = {found.data, second.data, 1.7f};
    c(expected.data, second.data, gamma.data, other.rstd, &f, n);
    f.other = &other;
    f.ahead[0] = f.ahead[1] = ahead.data;
    g(got.data, x.data, gamma.data, 0.37f, &f, n);
    all_same(name, n, f.y, got.data, want.data, 0.0, 0.0);
    all_same(name, n, f.y, found.data, expected.data, 0.0, 0.0);
    guarded_free(second);
    guarded_free(ahead);
    guarded_free(expected);
    guarded_free(found);
    guarded_free(x);
    guarded_free(gamma);
    guarded_free(want);
    guarded_free(got);
}

void check_rms_apply(const char *name, zoe_kernel_rms_apply *c, zoe_kernel_rms_apply *g,
                     double tolerance)
{
    static const zoe_dtype any[] = {ZOE_NONE, ZOE_F32, ZOE_F16, ZOE_BF16};
    (void)tolerance;
    for (size_t w = 0; w < WIDTHS; w++)
        for (size_t i = 0; i < 3 * 3 * 4; i++) {
            zoe_rms_form f = {.x = types[i % 3], .y = types[i / 3 % 3], .gamma = any[i / 9]};
            const zoe_dtype half = f.x == ZOE_F32 ? ZOE_NONE : f.x;
            f.stream = w % 2;
            check_apply(name, c, g, f, widths[w], i % 2);
            f.cast = half;
            check_apply(name, c, g, f, widths[w], i % 2);
            f.weight = half;
            f.product = f.y == half ? ZOE_NONE : half;
            check_apply(name, c, g, f, widths[w], i % 2 == 0);
            f.cast = any[random_word() % 4] == ZOE_BF16 ? ZOE_BF16 : ZOE_F16;
            f.product = f.cast;
            f.one_plus = true;
            check_apply(name, c, g, f, widths[w], i % 2);
        }
    enum { N = 5120 };
    guarded x = row_values(ZOE_BF16, N, false), y = guarded_new(N * 2),
            gamma = row_values(ZOE_BF16, N, false);
    const zoe_rms_form f = {.x = ZOE_BF16, .y = ZOE_BF16, .gamma = ZOE_BF16};
    BENCH(N, c, g, y.data, x.data, gamma.data, 0.37f, &f, N);
    guarded_free(x);
    guarded_free(y);
    guarded_free(gamma);
}

void check_l2_apply(const char *name, zoe_kernel_l2_apply *c, zoe_kernel_l2_apply *g,
                    double tolerance)
{
    static const zoe_dtype roundings[] = {ZOE_NONE, ZOE_F16, ZOE_BF16};
    for (size_t w = 0; w < WIDTHS; w++)
        for (int i = 0; i < 108; i++) {
            const size_t n = widths[w];
            zoe_l2_form f = {.x = types[i % 3],
                             .y = types[i / 3 % 3],
                             .round = roundings[i / 9 % 3],
                             .norm = i % 5   ? 2.3f
                                     : i % 2 ? 1e-35f
                                             : 1e30f,
                             .root = 9.8f,
                             .silu = i >= 54,
                             .stream = i % 2};
            guarded x = row_values(f.x, n, i % 7 == 0), gamma = values(n, i % 11 == 0),
                    bias = values(n, false);
            const size_t bytes = n * zoe_dtype_bytes(f.y);
            guarded want = guarded_new(bytes), got = guarded_new(bytes);
            const float *weights = i / 27 % 2 ? gamma.data : NULL;
            const float *add = i % 4 == 0 ? bias.data : NULL;
            c(want.data, x.data, weights, add, &f, n);
            g(got.data, x.data, weights, add, &f, n);
            /* silu alone, and division by way of the inverse, may differ; in a short type, by a unit */
            const double unit = !f.silu           ? 0.0
                                : f.y == ZOE_BF16 ? 0x1.02p-7
                                : f.y == ZOE_F16  ? 0x1.02p-10
                                                  : 0.0;
            const bool exact = !f.silu && (f.round != ZOE_NONE || f.x != f.y || f.x != ZOE_F32);
            all_same(name, n, f.y, got.data, want.data, exact ? 0.0 : 1e-3,
                     exact ? 0.0 : tolerance + unit);
            guarded_free(x);
            guarded_free(gamma);
            guarded_free(bias);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 5120 };
    guarded x = values(N, false), y = guarded_new(N * 4), gamma = values(N, false);
    const zoe_l2_form f = {.x = ZOE_F32, .y = ZOE_F32, .norm = 2.3f, .root = 9.8f, .silu = true};
    BENCH(N, c, g, y.data, x.data, gamma.data, NULL, &f, N);
    guarded_free(x);
    guarded_free(y);
    guarded_free(gamma);
}

void check_add_rows(const char *name, zoe_kernel_add_rows *c, zoe_kernel_add_rows *g,
                    double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 12; round++) {
            const size_t n = widths[w];
            const zoe_dtype type = types[round % 3];
            guarded a = row_values(type, n, round >= 6), b = row_values(type, n, round >= 6);
            guarded want = guarded_new(n * 4), got = guarded_new(n * 4);
            c(want.data, a.data, b.data, type, round & 1, n);
            g(got.data, a.data, b.data, type, round & 1, n);
            all_close(name, n, got.data, want.data, 0.0, tolerance);
            guarded_free(a);
            guarded_free(b);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 5120 };
    guarded a = values(N, false), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, a.data, a.data, ZOE_F32, false, N);
    guarded_free(a);
    guarded_free(y);
}

void check_shift_scale(const char *name, zoe_kernel_shift_scale *c, zoe_kernel_shift_scale *g,
                       double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 8; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round & 4), shift = values(n, round & 4),
                    scale = values(n, false);
            guarded want = guarded_new(n * 4), got = guarded_copy(x, n * 4);
            const float *add = round & 1 ? shift.data : NULL,
                        *times = round & 2 ? scale.data : NULL;
            c(want.data, x.data, add, times, n);
            g(got.data, got.data, add, times, n);
            all_close(name, n, got.data, want.data, 0.0, tolerance);
            guarded_free(x);
            guarded_free(shift);
            guarded_free(scale);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 5120 };
    guarded x = values(N, false), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, x.data, x.data, x.data, N);
    guarded_free(x);
    guarded_free(y);
}

void check_quantise(const char *name, zoe_kernel_quantise *c, zoe_kernel_quantise *g,
                    double tolerance)
{
    (void)tolerance;
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 16; round++) {
            const size_t n = widths[w];
            guarded x = values(n, round & 4), scale = values(n, false), offset = values(n, false);
            float *s = scale.data, *p = x.data, *o = offset.data;
            for (size_t i = 0; i < n; i++) {
                s[i] = round & 8 ? 0.5f : fabsf(s[i]) * 0.02f + 1e-4f;
                o[i] = rintf(o[i] * 30.0f);
                if (round & 8) /* ties */
                    p[i] = (float)(random_word() % 600) * 0.25f - 75.0f;
            }
            guarded want = guarded_new(n), got = guarded_new(n);
            const float *add = round & 1 ? offset.data : NULL;
            c(want.data, x.data, scale.data, add, round & 2, n);
            g(got.data, x.data, scale.data, add, round & 2, n);
            same_bytes(name, n, got.data, want.data, n, 1);
            guarded_free(x);
            guarded_free(scale);
            guarded_free(offset);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 5120 };
    guarded x = values(N, false), y = guarded_new(N);
    BENCH(N, c, g, y.data, x.data, x.data, NULL, false, N);
    guarded_free(x);
    guarded_free(y);
}
