/* Tables and JSON of figures, on standard output. */
#include "figures.h"

#include <stdio.h>

enum { WIDTH = 11 };

static zoe_status no_memory(zoe_context *ctx)
{
    return zoe_fail(ctx, ZOE_NOMEM, "no memory for the figures");
}

zoe_status zoe_figures_begin(zoe_context *ctx, zoe_figures *figures, const zoe_column *columns,
                             size_t n, bool json)
{
    *figures = (zoe_figures){columns, n, json ? json_array() : NULL};
    if (json)
        return figures->rows ? ZOE_OK : no_memory(ctx);
    printf("frame");
    for (size_t i = 0; i < n; i++)
        printf(" %*s", WIDTH, columns[i].heading);
    putchar('\n');
    return ZOE_OK;
}

static void print_values(const zoe_figures *figures, const double *values)
{
    for (size_t i = 0; i < figures->n; i++) {
        char text[64];
        if (isfinite(values[i]))
            snprintf(text, sizeof text, figures->columns[i].format, values[i]);
        else
            snprintf(text, sizeof text, "%s", isinf(values[i]) ? "equal" : "-");
        printf(" %*s", WIDTH, text);
    }
    putchar('\n');
    fflush(stdout);
}

static json_t *object_of(const zoe_figures *figures, const double *values)
{
    json_t *object = json_object();
    for (size_t i = 0; i < figures->n; i++)
        json_object_set_new(object, figures->columns[i].key,
                            isfinite(values[i]) ? json_real(values[i]) : json_null());
    return object;
}

void zoe_figures_frame(zoe_figures *figures, size_t frame, const double *values)
{
    if (figures->rows) {
        json_array_append_new(figures->rows, object_of(figures, values));
        return;
    }
    printf("%5zu", frame);
    print_values(figures, values);
}

zoe_status zoe_figures_total(zoe_context *ctx, zoe_figures *figures, json_t *about,
                             const double *values)
{
    if (!figures->rows) {
        json_decref(about);
        printf("total");
        print_values(figures, values);
        return ZOE_OK;
    }
    int failed = json_object_set(about, "frames", figures->rows);
    failed |= json_object_set_new(about, "total", object_of(figures, values));
    failed = failed || json_dumpf(about, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15));
    putchar('\n');
    json_decref(about);
    /* That standard output cannot be written is said where the program ends. */
    return failed && !ferror(stdout) ? no_memory(ctx) : ZOE_OK;
}

void zoe_figures_free(zoe_figures *figures)
{
    json_decref(figures->rows);
    *figures = (zoe_figures){0};
}
