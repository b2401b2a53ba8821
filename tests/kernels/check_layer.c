/* LayerNorm, modulation and gated residuals. */
#include "check.h"

static const zoe_dtype types[] = {ZOE_F32, ZOE_F16, ZOE_BF16};

/* The i-th type that a kernel's name ends with, counted from the last one. */
static zoe_dtype type_at(const char *name, int from_last)
{
    const char *end = name + strlen(name);
    for (;; from_last--) {
        const char *begin = end;
        while (begin[-1] != '_')
            begin--;
        if (from_last == 0)
            for (size_t i = 0; i < 3; i++)
                if (strlen(zoe_dtype_name(types[i])) == (size_t)(end - begin) &&
                    strncmp(begin, zoe_dtype_name(types[i]), (size_t)(end - begin)) == 0)
                    return types[i];
        end = begin - 1;
    }
}

/* n values of a type. */
static guarded typed(zoe_dtype dtype, size_t n, bool special)
{
    guarded v = values(n, special), t = guarded_new(n * zoe_dtype_bytes(dtype));
    zoe_narrow(t.data, dtype, v.data, n);
    guarded_free(v);
    return t;
}

/* Any f32 bits, so NaN of all kinds. */
static guarded any_bits(zoe_dtype dtype, size_t n)
{
    return random_bytes(n * zoe_dtype_bytes(dtype));
}

/* Vectors hold one kind of NaN only. */
static guarded vector(size_t n, bool special)
{
    guarded v = values(n, special);
    float *p = v.data;
    for (size_t i = 0; i < n; i++)
        p[i] = isnan(p[i]) ? zoe_f32_from_bits(0x7fc00000u) : p[i];
    return v;
}

static void same_values(const char *name, size_t n, zoe_dtype dtype, const void *got,
                        const void *want)
{
    for (size_t i = 0; i < n; i++)
        close_to(name, n, i, zoe_load_f32(got, dtype, i), zoe_load_f32(want, dtype, i), 0.0, 0.0);
}

void check_layer_sums(const char *name, zoe_kernel_layer_sums *c, zoe_kernel_layer_sums *g,
                      double tolerance)
{
    const zoe_dtype type = type_at(name, 0);
    for (size_t n = 0; n < 3000; n += n < 140 ? 1 : 1 + n / 2)
        for (int round = 0; round < 3; round++) {
            guarded x = typed(type, n, round == 2);
            double want[2] = {0.5, 0.25}, got[2] = {0.5, 0.25}, scale = 1.0;
            const float shift = round == 0 ? 0.0f : 0.7f;
            c(want, x.data, shift, n);
            g(got, x.data, shift, n);
            for (size_t i = 0; i < n; i++)
                scale += fabs((double)zoe_load_f32(x.data, type, i) - (double)shift);
            const bool finite = isfinite(want[1]) && want[1] < 1e38;
            if (finite) {
                close_to_double(name, n, 0, got[0], want[0], scale, tolerance);
                close_to_double(name, n, 1, got[1], want[1], 0.0, tolerance);
            } else if (isfinite(got[1])) { /* what overflows f32, or is not a number, is seen */
                close_to_double(name, n, 1, got[1], want[1], 0.0, tolerance);
            }
            guarded_free(x);
        }
    enum { N = 5120 };
    guarded x = typed(type, N, false);
    double sums[2] = {0.0, 0.0};
    BENCH(N, c, g, sums, x.data, 0.7f, N);
    guarded_free(x);
}

static void check_form(const char *name, zoe_kernel_layer_apply *c, zoe_kernel_layer_apply *g,
                       size_t n, int round)
{
    const zoe_dtype x_type = type_at(name, 1), y_type = type_at(name, 0);
    guarded x = round & 8 ? any_bits(x_type, n) : typed(x_type, n, round & 4);
    guarded weight = vector(n, round & 4), bias = vector(n, round & 4);
    guarded want = guarded_new(n * zoe_dtype_bytes(y_type)),
            got = guarded_new(n * zoe_dtype_bytes(y_type));
    zoe_layer_form f = {
        .mean = 0.3f, .rstd = 1.7f, .rest = 3e-8f, .offset = 1e-9f, .exact = round & 32};
    if (round & 16) { /* subnormal results */
        f.mean = 0.0f;
        f.rstd = 1e-38f;
    }
    if (round & 1) {
        f.weight = weight.data;
        f.bias = bias.data;
    }
    f.stream = round & 2;
    f.ahead[0] = x.data;
    f.ahead_bytes[0] = 4;
    c(want.data, x.data, &f, n);
    g(got.data, x.data, &f, n);
    same_values(name, n, y_type, got.data, want.data);
    /* with another row */
    guarded second = typed(x_type, n, round & 4);
    guarded expected = guarded_new(n * zoe_dtype_bytes(y_type)),
            found = guarded_new(n * zoe_dtype_bytes(y_type));
    const zoe_layer_row other = {.y = found.data,
                                 .x = second.data,
                                 .mean = -0.2f,
                                 .rstd = 0.6f,
                                 .rest = 1e-8f,
                                 .offset = 3e-9f,
                                 .ahead = {x.data, NULL}};
    const zoe_layer_form one = f;
    f.other = &other;
    const zoe_layer_form alone = zoe_layer_form_of_other(&f);
    c(expected.data, second.data, &alone, n);
    g(got.data, x.data, &f, n);
    same_values(name, n, y_type, got.data, want.data);
    same_values(name, n, y_type, found.data, expected.data);
    f = one;
    guarded_free(second);
    guarded_free(expected);
    guarded_free(found);
    if (x_type == y_type) {
        g(x.data, x.data, &f, n); /* in place */
        same_values(name, n, y_type, x.data, want.data);
    }
    guarded_free(x);
    guarded_free(weight);
    guarded_free(bias);
    guarded_free(want);
    guarded_free(got);
}

void check_layer_apply(const char *name, zoe_kernel_layer_apply *c, zoe_kernel_layer_apply *g,
                       double tolerance)
{
    (void)tolerance;
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 64; round++)
            check_form(name, c, g, widths[w], round);
    for (int round = 0; round < 64; round++) /* aligned, so that streaming stores are in use */
        check_form(name, c, g, 1024, round);
    enum { N = 5120 };
    guarded x = typed(type_at(name, 1), N, false), y = guarded_new(N * 4);
    guarded weight = vector(N, false), bias = vector(N, false);
    const zoe_layer_form f = {
        .mean = 0.3f, .rstd = 1.7f, .exact = true, .weight = weight.data, .bias = bias.data};
    BENCH(N, c, g, y.data, x.data, &f, N);
    guarded_free(x);
    guarded_free(y);
    guarded_free(weight);
    guarded_free(bias);
}

void check_layer_gate(const char *name, zoe_kernel_layer_gate *c, zoe_kernel_layer_gate *g,
                      double tolerance)
{
    (void)tolerance;
    const zoe_dtype x_type = type_at(name, 1), h_type = type_at(name, 0);
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 6; round++) {
            const size_t n = widths[w];
            guarded x = round == 2 ? any_bits(x_type, n) : typed(x_type, n, round & 1);
            guarded h = round == 4 ? any_bits(h_type, n) : typed(h_type, n, round & 1);
            guarded gate = vector(n, round & 1);
            guarded want = guarded_new(n * zoe_dtype_bytes(x_type));
            c(want.data, x.data, h.data, gate.data, n);
            g(x.data, x.data, h.data, gate.data, n);
            same_values(name, n, x_type, x.data, want.data);
            guarded_free(x);
            guarded_free(h);
            guarded_free(gate);
            guarded_free(want);
        }
    enum { N = 5120 };
    guarded x = typed(x_type, N, false), h = typed(h_type, N, false), gate = vector(N, false);
    guarded y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, x.data, h.data, gate.data, N);
    guarded_free(x);
    guarded_free(h);
    guarded_free(gate);
    guarded_free(y);
}

void check_layer_weight(const char *name, zoe_kernel_layer_weight *c, zoe_kernel_layer_weight *g,
                        double tolerance)
{
    for (size_t w = 0; w < WIDTHS; w++)
        for (int round = 0; round < 4; round++) {
            const size_t n = widths[w];
            guarded x = round & 1 ? random_bytes(n * 4) : values(n, true);
            guarded want = guarded_new(n * 4), got = guarded_copy(x, n * 4);
            const float add = round & 2 ? 1.0f : -0.0f;
            c(want.data, x.data, add, n);
            g(got.data, got.data, add, n);
            all_close(name, n, got.data, want.data, 0.0, tolerance);
            for (size_t i = 0; i < n;
                 i++) /* NaN has these bits, so that its upper half is one too */
                if (isnan(((float *)got.data)[i]))
                    same_bytes(name, n, (float *)got.data + i, &(uint32_t){0x7fc00000u}, 1, 4);
            guarded_free(x);
            guarded_free(want);
            guarded_free(got);
        }
    enum { N = 5120 };
    guarded x = values(N, false), y = guarded_new(N * 4);
    BENCH(N, c, g, y.data, x.data, 1.0f, N);
    guarded_free(x);
    guarded_free(y);
}
