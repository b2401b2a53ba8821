/* Progress lines. Time left is that of the phase, from the mean of its units so far. */
#include "progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "message.h"

static const char *unit_of(zoe_phase phase)
{
    switch (phase) {
    case ZOE_PHASE_TEXT: return "prompt";
    case ZOE_PHASE_STEPS: return "step";
    case ZOE_PHASE_ENCODE:
    case ZOE_PHASE_DECODE:
    case ZOE_PHASE_COUNT: break;
    }
    return "chunk";
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void zoe_duration_print(char *text, size_t room, double seconds)
{
    const double whole = floor(seconds + 0.5);
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9)
        snprintf(text, room, "?");
    else if (seconds < 9.95)
        snprintf(text, room, seconds < 0.995 ? "%.2f s" : "%.1f s", seconds);
    else if (whole < 100)
        snprintf(text, room, "%.0f s", whole);
    else if (whole < 3600)
        snprintf(text, room, "%d:%02d", (int)whole / 60, (int)whole % 60);
    else
        snprintf(text, room, "%d:%02d:%02d", (int)whole / 3600, (int)whole / 60 % 60,
                 (int)whole % 60);
}

void zoe_progress_begin(zoe_progress *progress, zoe_progress_style style)
{
    *progress = (zoe_progress){.style = style, .begun = now()};
    if (style == ZOE_PROGRESS_AUTO && !zoe_message_on_terminal())
        progress->style = ZOE_PROGRESS_PLAIN;
}

/* A plain line: said if that is the style, and in any case written to the log. */
static void tell(const zoe_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void tell(const zoe_progress *progress, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (progress->style == ZOE_PROGRESS_PLAIN)
        zoe_note("%s", text);
    else
        zoe_log_note("%s", text);
}

static void end_phase(zoe_progress *progress, bool finished)
{
    if (!progress->running)
        return;
    progress->running = false;
    const double seconds = now() - progress->phase_begun;
    progress->seconds[progress->phase] += seconds;
    if (finished)
        tell(progress, "%s: %.2f s", zoe_phase_name(progress->phase), seconds);
}

static void draw(const zoe_progress *progress, size_t done, size_t total, double each, double left)
{
    enum { WIDEST = 24, NARROW = 8 };
    const size_t width = zoe_message_width() < 72 ? NARROW : WIDEST;
    char bar[WIDEST + 1], each_text[32], left_text[32], line[160];
    const size_t filled = total ? (size_t)((double)width * (double)done / (double)total) : 0;
    memset(bar, '.', width);
    memset(bar, '#', filled < width ? filled : width);
    bar[width] = '\0';
    zoe_duration_print(each_text, sizeof each_text, each);
    zoe_duration_print(left_text, sizeof left_text, left);
    if (done == progress->phase_done)
        snprintf(line, sizeof line, "%-6s [%s] %zu/%zu", zoe_phase_name(progress->phase), bar, done,
                 total);
    else
        snprintf(line, sizeof line, "%-6s [%s] %zu/%zu  %s/%s  %s left",
                 zoe_phase_name(progress->phase), bar, done, total, each_text,
                 unit_of(progress->phase), left_text);
    zoe_live_line(line);
}

static void write_plain(const zoe_progress *progress, size_t done, size_t total, double each,
                        double left)
{
    char each_text[32], left_text[32];
    zoe_duration_print(each_text, sizeof each_text, each);
    zoe_duration_print(left_text, sizeof left_text, left);
    const char *phase = zoe_phase_name(progress->phase), *unit = unit_of(progress->phase);
    const char *plural = total == 1 ? "" : "s";
    if (done == 0)
        tell(progress, "%s begins, %zu %s%s", phase, total, unit, plural);
    else if (done == progress->phase_done)
        tell(progress, "%s goes on after %zu of %zu %s%s", phase, done, total, unit, plural);
    else
        tell(progress, "%s %zu/%zu, %s each, %s left", phase, done, total, each_text, left_text);
}

static void write_json(const zoe_progress *progress, size_t done, size_t total, double seconds,
                       double left)
{
    zoe_json_begin("progress");
    zoe_json_text("phase", zoe_phase_name(progress->phase));
    zoe_json_size("done", done);
    zoe_json_size("total", total);
    zoe_json_real("seconds", seconds);
    zoe_json_real("eta", left);
    zoe_json_end();
}

void zoe_progress_update(void *user, zoe_phase phase, size_t done, size_t total)
{
    zoe_progress *progress = user;
    if (!progress->running || phase != progress->phase) {
        end_phase(progress, true);
        progress->running = true;
        progress->phase = phase;
        progress->phase_begun = now();
        progress->phase_done = done;
    }
    const double seconds = now() - progress->phase_begun;
    const double each =
        done > progress->phase_done ? seconds / (double)(done - progress->phase_done) : NAN;
    const double left = each * (double)(total - done);
    if (progress->style == ZOE_PROGRESS_PLAIN || zoe_log_is_open())
        write_plain(progress, done, total, each, left);
    switch (progress->style) {
    case ZOE_PROGRESS_AUTO: draw(progress, done, total, each, left); break;
    case ZOE_PROGRESS_PLAIN: break;
    case ZOE_PROGRESS_JSON: write_json(progress, done, total, seconds, left); break;
    case ZOE_PROGRESS_NONE: break;
    }
}

double zoe_progress_end(zoe_progress *progress, bool finished)
{
    end_phase(progress, finished);
    zoe_live_line(NULL);
    return now() - progress->begun;
}
