/* What a sweep gives: a table, and the drawing of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands.h"
#include "message.h"
#include "sweep.h"

/* A text of a CSV file: in quotes if need be. */
static void put_text(FILE *to, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, to);
        return;
    }
    putc('"', to);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', to);
        putc(*text, to);
    }
    putc('"', to);
}

static void put_row(FILE *to, const zoe_sweep *sweep, const zoe_setting *s)
{
    put_text(to, s->name);
    putc(',', to);
    put_text(to, s->options + strspn(s->options, " \t"));
    fprintf(to, ",%zu,%zu,%zu,%.4f,%.4f,%.3f,%.3f,", s->steps, s->computed, s->runs,
            zoe_setting_seconds(s, false), zoe_setting_seconds(s, true),
            zoe_setting_speed(sweep, s, false), zoe_setting_speed(sweep, s, true));
    fprintf(to, isinf(s->psnr) ? "inf" : "%.3f", s->psnr);
    fprintf(to, isnan(s->ssim) ? "," : ",%.6f", s->ssim);
    fprintf(to, ",%d\n", s->front);
}

static void print_table(FILE *to, const zoe_sweep *sweep)
{
    fputs("setting,options,steps,steps_computed,runs,seconds,steps_seconds,speedup,steps_speedup,"
          "psnr_db,ssim,front\n",
          to);
    for (size_t i = 0; i < sweep->n; i++)
        if (sweep->settings[i].runs > 0)
            put_row(to, sweep, &sweep->settings[i]);
}

static zoe_status write_file(zoe_context *ctx, const char *path, const char *text, size_t size)
{
    zoe_output out = {.fd = -1};
    zoe_status status;
    TRY_GOTO(zoe_output_open(ctx, &out, path));
    TRY_GOTO(zoe_output_write(ctx, &out, text, size));
    status = zoe_output_commit(ctx, &out);
done:
    zoe_output_abort(&out);
    return status;
}

/* What print gives, as the file. ctx is not that of the runs, which may have been interrupted. */
static zoe_status write_text(zoe_context *ctx, const char *path, const zoe_sweep *sweep,
                             void (*print)(FILE *to, const zoe_sweep *sweep))
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return zoe_fail(ctx, ZOE_NOMEM, "no memory for %s", path);
    print(to, sweep);
    const bool whole = !ferror(to);
    zoe_status status = fclose(to) == 0 && whole
                            ? write_file(ctx, path, text, size)
                            : zoe_fail(ctx, ZOE_NOMEM, "no memory for %s", path);
    free(text);
    return status;
}

int zoe_sweep_write(zoe_sweep *sweep)
{
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    zoe_sweep_find_front(sweep);
    zoe_status status = ZOE_OK;
    if (!sweep->csv)
        print_table(stdout, sweep);
    else
        status = write_text(ctx, sweep->csv, sweep, print_table);
    if (sweep->svg && status == ZOE_OK)
        status = write_text(ctx, sweep->svg, sweep, zoe_sweep_print_plot);
    const int code = status == ZOE_OK
                         ? ZOE_EXIT_DONE
                         : zoe_refuse(status == ZOE_NOMEM ? ZOE_EXIT_MEMORY : ZOE_EXIT_FAILED,
                                      zoe_status_name(status), "%s", zoe_context_message(ctx));
    zoe_context_free(ctx);
    return code;
}
