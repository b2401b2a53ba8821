/* Drawings of the page about a run, as SVG inside HTML. Colours are classes of the page's style. */
#include <math.h>
#include <string.h>

#include "markup.h"
#include "page.h"
#include "sample/cache.h"

enum {
    WIDTH = 960,
    LEFT = 116, /* of the plots, after the labels */
    RIGHT = 948,
    TOP = 28,
    TIME = 120, /* height of the bars of time */
    ROW = 18,   /* of a branch */
    FAR = 100,  /* height of the distances */
    SPACE = 18
};

/* What of a step is the same for all that is drawn of it. */
typedef struct place {
    double x, width; /* of its bar */
} place;

static place place_of(const zoe_page *page, size_t step)
{
    const double slot = (double)(RIGHT - LEFT) / (double)zoe_page_steps(page);
    const double gap = slot * 0.2 < 4.0 ? slot * 0.2 : 4.0;
    return (place){LEFT + slot * (double)step + gap / 2, slot - gap};
}

static bool is_skipped(const zoe_job_step *s)
{
    return !s->branch[0].computed && !s->branch[1].computed;
}

/* ---- parts of every plot ---- */

static void put_label(FILE *to, double x, double y, const char *class, const char *text)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    zoe_markup_text(to, text);
    fputs("</text>\n", to);
}

static double height_of(const zoe_axis *axis, double value, double height)
{
    return height * (value - axis->from) / (axis->to - axis->from);
}

static void put_axis(FILE *to, const zoe_axis *axis, double base, double height)
{
    for (size_t i = 0; i < zoe_axis_marks(axis); i++) {
        const double value = zoe_axis_mark(axis, i), y = base - height_of(axis, value, height);
        char text[40];
        snprintf(text, sizeof text, "%.*f", axis->decimals, value);
        fprintf(to, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>\n", LEFT, y,
                RIGHT, y);
        put_label(to, LEFT - 8, y + 4, "end", text);
    }
}

/* A title, for the mouse: all that is known of the step. */
static void put_title(FILE *to, const zoe_page *page, size_t step)
{
    static const char *const names[] = {"conditional", "unconditional"};
    const zoe_job_step *s = &page->step[step];
    fprintf(to, "<title>step %zu", step + 1);
    if (!page->seen[step]) {
        fputs(": of an earlier part of the run, or not reached</title>", to);
        return;
    }
    fprintf(to, ", %.3f s, noise level %.4f", s->seconds, s->noise);
    for (size_t b = 0; b < 2; b++) {
        if (!s->branch[b].ran)
            continue;
        fprintf(to, "; %s branch %s", names[b], s->branch[b].computed ? "computed" : "skipped");
        if (isfinite(s->branch[b].distance))
            fprintf(to, ", distance %.4g", s->branch[b].distance);
    }
    fputs("</title>", to);
}

static void put_bar(FILE *to, const zoe_page *page, size_t step, double y, double height,
                    const char *class)
{
    const place p = place_of(page, step);
    fprintf(to, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"%s\">", p.x, y,
            p.width, height, class);
    put_title(to, page, step);
    fputs("</rect>\n", to);
}

/* ---- steps ---- */

static const char *class_of(const zoe_page *page, size_t step, bool skipped)
{
    const zoe_plan *plan = zoe_job_plan(page->job);
    if (page->seen[step])
        return skipped ? "skipped" : "computed";
    return step < plan->steps_done ? "earlier" : "missing";
}

static void draw_seconds(FILE *to, const zoe_page *page)
{
    double most = 0.0;
    const double base = TOP + TIME;
    for (size_t i = 0; i < zoe_page_steps(page); i++)
        if (page->seen[i] && page->step[i].seconds > most)
            most = page->step[i].seconds;
    const zoe_axis axis = zoe_axis_of(0.0, most, 4);
    put_axis(to, &axis, base, TIME);
    put_label(to, 0, TOP + 4, "name", "seconds");
    for (size_t i = 0; i < zoe_page_steps(page); i++) {
        const zoe_job_step *s = &page->step[i];
        double height = page->seen[i] ? height_of(&axis, s->seconds, TIME) : TIME;
        if (height < 1.0)
            height = 1.0;
        put_bar(to, page, i, base - height, height, class_of(page, i, is_skipped(s)));
    }
}

static void draw_branch(FILE *to, const zoe_page *page, size_t branch, double y, const char *name)
{
    put_label(to, LEFT - 8, y + ROW - 5, "end", name);
    for (size_t i = 0; i < zoe_page_steps(page); i++) {
        const struct zoe_job_pass *pass = &page->step[i].branch[branch];
        if (!page->seen[i] || pass->ran)
            put_bar(to, page, i, y, ROW - 3, class_of(page, i, !pass->computed));
    }
}

static double furthest(const zoe_page *page)
{
    double most = -1.0;
    for (size_t i = 0; i < zoe_page_steps(page); i++)
        for (size_t b = 0; b < 2; b++) {
            const double d = page->step[i].branch[b].distance;
            if (page->seen[i] && isfinite(d) && d > most)
                most = d;
        }
    return most;
}

/* The threshold that each distance is held against by itself; -1 for methods that hold a sum, or
 * nothing, against theirs. */
static double threshold_of(const zoe_page *page)
{
    zoe_cache_params params;
    double threshold = -1.0;
    if (page->params->cache &&
        zoe_cache_params_parse(page->ctx, &params, page->params->cache) == ZOE_OK &&
        (params.method == ZOE_CACHE_FIRST || params.method == ZOE_CACHE_DUAL))
        threshold = params.threshold;
    zoe_context_clear(page->ctx);
    return threshold;
}

static void draw_distances(FILE *to, const zoe_page *page, double top)
{
    const double base = top + FAR, threshold = threshold_of(page);
    double most = furthest(page);
    if (threshold > most && threshold < 4 * most)
        most = threshold;
    const zoe_axis axis = zoe_axis_of(0.0, most, 4);
    put_axis(to, &axis, base, FAR);
    put_label(to, 0, top + 4, "name", "distance");
    if (threshold > 0.0 && threshold <= axis.to) {
        const double y = base - height_of(&axis, threshold, FAR);
        fprintf(to, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"limit\"/>\n", LEFT,
                y, RIGHT, y);
        put_label(to, LEFT + 6, y - 4, "start limit", "threshold");
    }
    for (size_t i = 0; i < zoe_page_steps(page); i++)
        for (size_t b = 0; b < 2; b++) {
            const struct zoe_job_pass *pass = &page->step[i].branch[b];
            const place p = place_of(page, i);
            const double x = p.x + p.width * (b == 0 ? 0.35 : 0.65);
            if (!page->seen[i] || !isfinite(pass->distance))
                continue;
            fprintf(to, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3\" class=\"%s\">", x,
                    base - height_of(&axis, pass->distance, FAR), b == 0 ? "cond" : "uncond");
            put_title(to, page, i);
            fputs("</circle>\n", to);
        }
}

/* Numbers below, and where the experts change. */
static void draw_numbers(FILE *to, const zoe_page *page, double y)
{
    const zoe_plan *plan = zoe_job_plan(page->job);
    const size_t steps = zoe_page_steps(page);
    const size_t each = steps <= 50 ? 1 : (size_t)zoe_axis_of(0.0, (double)steps, 20).each;
    const size_t shown = steps <= 25 ? 1 : steps <= 50 ? 5 : each;
    put_label(to, LEFT - 8, y, "end", "step");
    for (size_t i = 0; i < steps; i++) {
        const place p = place_of(page, i);
        char text[32];
        snprintf(text, sizeof text, "%zu", i + 1);
        if (i == 0 || (i + 1) % shown == 0)
            put_label(to, p.x + p.width / 2, y, "middle", text);
    }
    if (plan->model.transformers < 2)
        return;
    const double slot = (double)(RIGHT - LEFT) / (double)steps;
    const double x = LEFT + slot * (double)plan->high_steps;
    if (plan->high_steps > 0)
        put_label(to, LEFT, TOP - 12, "start", "high-noise expert");
    if (plan->low_steps > 0 && (x < RIGHT - 120 || plan->high_steps == 0))
        put_label(to, x + 4, TOP - 12, "start", "low-noise expert");
    if (plan->high_steps > 0 && plan->low_steps > 0)
        fprintf(to, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" class=\"border\"/>\n", x,
                TOP - 24, x, y - 14);
}

void zoe_page_draw_steps(FILE *to, const zoe_page *page)
{
    const bool measured = furthest(page) >= 0.0;
    const double rows = TOP + TIME + SPACE, distances = rows + 2 * ROW + SPACE;
    const double numbers = (measured ? distances + FAR : rows + 2 * ROW) + 18;
    fprintf(to,
            "<div class=\"wide\"><svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"each step: "
            "its time, what was computed, what the step cache measured\">\n",
            WIDTH, numbers + 8);
    draw_seconds(to, page);
    draw_branch(to, page, 0, rows, "conditional");
    draw_branch(to, page, 1, rows + ROW, "unconditional");
    if (measured)
        draw_distances(to, page, distances);
    draw_numbers(to, page, numbers);
    fputs("</svg></div>\n", to);
}

/* ---- time ---- */

static void put_piece(FILE *to, double *x, double y, double width, const char *class,
                      const char *phase, const char *what, double seconds)
{
    if (width > 0.0)
        fprintf(to,
                "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" class=\"%s\"><title>%s, "
                "%s: %.3f s</title></rect>\n",
                *x, y, width, ROW + 4, class, phase, what, seconds);
    *x += width;
}

void zoe_page_draw_times(FILE *to, const zoe_page *page, const zoe_progress *progress)
{
    enum { LINE = 30, ROOM = 90 }; /* of a stage; for its figure */
    double most = 1e-9;
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        most = progress->seconds[i] > most ? progress->seconds[i] : most;
    fprintf(to,
            "<div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"time of each "
            "stage, by kind of operator\">\n",
            WIDTH, LINE * ZOE_PHASE_COUNT);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        const char *name = zoe_phase_name((zoe_phase)i);
        const double scale = (RIGHT - LEFT - ROOM) / most, y = (double)(LINE * i) + 4;
        char text[48];
        double x = LEFT;
        put_label(to, LEFT - 8, y + 16, "end", name);
        for (size_t k = 0; k < ZOE_KINDS; k++) {
            const double seconds = page->clock[i].seconds[k];
            char class[16];
            snprintf(class, sizeof class, "k%zu", k);
            put_piece(to, &x, y, seconds * scale, class, name, zoe_op_kind_name((zoe_op_kind)k),
                      seconds);
        }
        const double rest = zoe_page_rest(page, progress, (zoe_phase)i);
        put_piece(to, &x, y, rest * scale, "rest", name, "the rest", rest);
        zoe_duration_print(text, sizeof text, progress->seconds[i]);
        put_label(to, x + 6, y + 16, "start", page->ran[i] ? text : "not in this part of the run");
    }
    fputs("</svg></div>\n", to);
}
