/* See golden.h. */
#include "golden.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/store.h"

golden golden_begin(void)
{
    golden g = {.ctx = zoe_context_new(0)};
    if (!g.ctx) {
        fputs("no memory\n", stderr);
        exit(1);
    }
    printf("%-52s %10s %10s\n", "tensor", "rel L2", "max abs");
    return g;
}

int golden_end(golden *g)
{
    printf("%zu compared, %zu failed\n", g->compared, g->failed);
    const int code = g->compared > 0 && g->failed == 0 ? 0 : 1;
    zoe_context_free(g->ctx);
    return code;
}

void golden_must(golden *g, zoe_status status, const char *what)
{
    if (status == ZOE_OK)
        return;
    printf("%s: %s: %s FAIL\n", what, zoe_status_name(status), zoe_context_message(g->ctx));
    exit(1);
}

float *golden_load(golden *g, const zoe_store *store, const char *name, size_t *count)
{
    zoe_tensor t;
    if (!zoe_store_find(store, name, &t)) {
        printf("%s: not in %s FAIL\n", name, zoe_store_path(store));
        exit(1);
    }
    const size_t n = zoe_tensor_count(t);
    void *p;
    golden_must(g, zoe_alloc(g->ctx, &p, n, sizeof(float), name), name);
    float *values = p;
    for (size_t i = 0; i < n; i++)
        values[i] = t.dtype == ZOE_I64   ? (float)((const int64_t *)t.data)[i]
                    : t.dtype == ZOE_I32 ? (float)((const int32_t *)t.data)[i]
                    : t.dtype == ZOE_U8  ? (float)((const uint8_t *)t.data)[i]
                                         : zoe_load_f32(t.data, t.dtype, i);
    if (count)
        *count = n;
    return values;
}

static void measure(double *rel_l2, double *max_abs, const float *got, const float *want, size_t n)
{
    double error = 0.0, norm = 0.0;
    *max_abs = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)want[i];
        error += d * d;
        norm += (double)want[i] * (double)want[i];
        if (!(fabs(d) <= *max_abs))
            *max_abs = fabs(d);
    }
    *rel_l2 = norm > 0.0 ? sqrt(error / norm) : sqrt(error);
}

static void report(golden *g, const char *name, double rel_l2, double max_abs, bool ok)
{
    printf("%-52s %10.3e %10.3e %s\n", name, rel_l2, max_abs, ok ? "ok" : "FAIL");
    g->compared++;
    g->failed += !ok;
}

void golden_compare(golden *g, const char *name, const float *got, const float *want, size_t n,
                    double rel_l2_limit)
{
    double rel_l2, max_abs;
    measure(&rel_l2, &max_abs, got, want, n);
    report(g, name, rel_l2, max_abs, n > 0 && rel_l2 <= rel_l2_limit);
}

void golden_compare_abs(golden *g, const char *name, const float *got, const float *want, size_t n,
                        double abs_limit)
{
    double rel_l2, max_abs;
    measure(&rel_l2, &max_abs, got, want, n);
    report(g, name, rel_l2, max_abs, n > 0 && max_abs <= abs_limit);
}

void golden_check(golden *g, const char *name, bool ok, const char *format, ...)
{
    char detail[256];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    printf("%-52s %21s %s\n", name, detail, ok ? "ok" : "FAIL");
    g->compared++;
    g->failed += !ok;
}

size_t golden_outputs(const zoe_store *store)
{
    size_t n = 0;
    for (size_t i = 0; i < zoe_store_count(store); i++)
        n += strncmp(zoe_store_name(store, i), "in.", 3) != 0;
    return n;
}

bool golden_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

const char *golden_path(const char *dir, const char *name)
{
    static char buffers[4][4096];
    static unsigned next;
    char *p = buffers[next++ % 4];
    snprintf(p, sizeof buffers[0], "%s/%s", dir, name);
    return p;
}

const char *golden_folder(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        exit(2);
    }
    return argv[1];
}
