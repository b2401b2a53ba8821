/* The settings of a sweep as a drawing: speed to the right, fidelity up, and the front of those that
 * no other one beats in both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "machine.h"
#include "markup.h"
#include "message.h"
#include "sweep.h"

enum {
    WIDTH = 960,
    HEIGHT = 620,
    LEFT = 72,
    RIGHT = 930,
    TOP = 84,
    BASE = 552,
    LINE = 15,
    NAME = 40 /* letters of a name that are shown */
};

static const char style[] =
    "svg{color-scheme:light dark}.paper{fill:#fff}text{font:13px system-ui,sans-serif;fill:#3b444d}"
    ".head{font-size:18px;fill:#1c2126}.dim{fill:#5c6670}.end{text-anchor:end}.middle{text-anchor:"
    "middle}.grid{stroke:#e1e5e9}.axis{stroke:#8b949e}.one{stroke:#8b949e;stroke-dasharray:5 4}"
    ".front{fill:none;stroke:#2b6cb0;stroke-width:2}.on{fill:#2b6cb0}.off{fill:#fff;stroke:#8b949e;"
    "stroke-width:1.5}.lead{stroke:#8b949e;stroke-width:.8}.best{font-weight:600;fill:#1c2126}"
    "@media "
    "(prefers-color-scheme:dark){.paper,.off{fill:#15181b}text{fill:#c3cad1}.head,.best{fill:"
    "#e4e7ea}.dim{fill:#9aa4ae}.grid{stroke:#2c333a}.front{stroke:#5b9bdd}.on{fill:#5b9bdd}}";

typedef struct box {
    double left, top, right, bottom;
} box;

/* Where a name stands beside its point. */
typedef enum label_side { SIDE_LEFT, SIDE_MIDDLE, SIDE_RIGHT } label_side;

typedef struct spot {
    const zoe_setting *setting;
    double x, y;
    box label;
    label_side side;
} spot;

typedef struct plot {
    zoe_axis speed, psnr;
    spot spots[ZOE_SWEEP_SETTINGS];
    size_t n;
} plot;

static double x_of(const plot *p, double speed)
{
    return LEFT + (RIGHT - LEFT) * (speed - p->speed.from) / (p->speed.to - p->speed.from);
}

static double y_of(const plot *p, double psnr)
{
    /* Equal frames have no PSNR; they stand at the upper edge. */
    const double value = psnr < p->psnr.to ? psnr : p->psnr.to;
    return BASE - (BASE - TOP) * (value - p->psnr.from) / (p->psnr.to - p->psnr.from);
}

/* From the fastest to the slowest: the front first, as its names matter most. */
static int by_rank(const void *a, const void *b)
{
    const spot *s = a, *t = b;
    if (s->setting->front != t->setting->front)
        return s->setting->front ? -1 : 1;
    return (s->x < t->x) - (s->x > t->x);
}

static void find_axes(plot *p, const zoe_sweep *sweep)
{
    double slow = 1.0, fast = 1.0, low = (double)INFINITY, high = -(double)INFINITY;
    for (size_t i = 1; i < sweep->n; i++) {
        const zoe_setting *s = &sweep->settings[i];
        if (s->runs == 0)
            continue;
        const double speed = zoe_setting_speed(sweep, s, sweep->speed);
        slow = speed < slow ? speed : slow;
        fast = speed > fast ? speed : fast;
        if (isfinite(s->psnr)) {
            low = s->psnr < low ? s->psnr : low;
            high = s->psnr > high ? s->psnr : high;
        }
    }
    p->speed = zoe_axis_of(slow, fast, 7);
    p->psnr = isfinite(low) ? zoe_axis_of(low, high, 7) : zoe_axis_of(30.0, 60.0, 6);
}

static void find_spots(plot *p, const zoe_sweep *sweep)
{
    find_axes(p, sweep);
    for (size_t i = 1; i < sweep->n; i++) {
        const zoe_setting *s = &sweep->settings[i];
        if (s->runs > 0 && !isnan(s->psnr))
            p->spots[p->n++] = (spot){.setting = s,
                                      .x = x_of(p, zoe_setting_speed(sweep, s, sweep->speed)),
                                      .y = y_of(p, s->psnr)};
    }
    qsort(p->spots, p->n, sizeof *p->spots, by_rank);
}

/* ---- where names go ---- */

static size_t letters_of(const char *name)
{
    size_t letters = 0;
    for (; *name && letters < NAME; name++)
        letters += ((unsigned char)*name & 0xc0) != 0x80;
    return letters;
}

static double overlap(const box *a, const box *b)
{
    const double w = fmin(a->right, b->right) - fmax(a->left, b->left);
    const double h = fmin(a->bottom, b->bottom) - fmax(a->top, b->top);
    return w > 0.0 && h > 0.0 ? w * h : 0.0;
}

static box box_around(double x, double y, double radius)
{
    return (box){x - radius, y - radius, x + radius, y + radius};
}

/* What a name covers of the line of the front. */
static double cover_of_front(const plot *p, const box *b)
{
    enum { PIECES = 64 };
    double cover = 0.0;
    for (size_t i = 0; i + 1 < p->n && p->spots[i + 1].setting->front; i++) {
        const spot *from = &p->spots[i], *to = &p->spots[i + 1];
        for (int k = 1; k < PIECES; k++) {
            const double part = (double)k / PIECES;
            const box piece = box_around(from->x + part * (to->x - from->x),
                                         from->y + part * (to->y - from->y), 2.0);
            cover += overlap(b, &piece);
        }
    }
    return cover;
}

/* How bad a place is: what it covers of names, points and the line, and what leaves the drawing. */
static double cost_of(const plot *p, size_t placed, const box *b)
{
    const box inside = {LEFT + 4, TOP, RIGHT + 24, BASE - 4};
    double cost = (b->right - b->left) * (b->bottom - b->top) - overlap(b, &inside);
    for (size_t i = 0; i < placed; i++)
        cost += overlap(b, &p->spots[i].label);
    for (size_t i = 0; i < p->n; i++) {
        const box point = box_around(p->spots[i].x, p->spots[i].y, 6.0);
        cost += overlap(b, &point);
    }
    return cost + cover_of_front(p, b);
}

static box box_at(const spot *s, double angle, double far, label_side *side)
{
    const double letter = s->setting->front ? 8.2 : 7.4; /* about */
    const double width = letter * (double)letters_of(s->setting->name);
    const double x = s->x + far * cos(angle), y = s->y - far * sin(angle);
    *side = cos(angle) > 0.3 ? SIDE_RIGHT : cos(angle) < -0.3 ? SIDE_LEFT : SIDE_MIDDLE;
    const double left = *side == SIDE_RIGHT ? x : *side == SIDE_LEFT ? x - width : x - width / 2;
    return (box){left, y - LINE / 2.0, left + width, y + LINE / 2.0};
}

/* Around each point, near before far, the first place that covers nothing; else the best. */
static void place_names(plot *p)
{
    enum { ANGLES = 16, RINGS = 8 };
    static const int order[ANGLES] = {0, 1, 15, 2, 14, 8, 7, 9, 4, 12, 6, 10, 3, 13, 5, 11};
    const double turn = 2 * acos(-1.0) / ANGLES;
    for (size_t i = 0; i < p->n; i++) {
        double least = (double)INFINITY;
        for (int ring = 0; ring < RINGS && least > 0.0; ring++)
            for (int k = 0; k < ANGLES && least > 0.0; k++) {
                label_side side;
                const box b = box_at(&p->spots[i], order[k] * turn, 10 + 11 * ring, &side);
                const double cost = cost_of(p, i, &b);
                if (cost < least) {
                    least = cost;
                    p->spots[i].label = b;
                    p->spots[i].side = side;
                }
            }
    }
}

/* ---- drawing ---- */

static void put_axes(FILE *to, const plot *p, bool steps)
{
    for (size_t i = 0; i < zoe_axis_marks(&p->psnr); i++) {
        const double value = zoe_axis_mark(&p->psnr, i), y = y_of(p, value);
        fprintf(to,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"grid\"/>"
                "<text x=\"%d\" y=\"%.1f\" class=\"end dim\">%.*f</text>\n",
                LEFT, y, RIGHT, y, LEFT - 10, y + 4.5, p->psnr.decimals, value);
    }
    for (size_t i = 0; i < zoe_axis_marks(&p->speed); i++) {
        const double value = zoe_axis_mark(&p->speed, i), x = x_of(p, value);
        fprintf(to,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"grid\"/>"
                "<text x=\"%.1f\" y=\"%d\" class=\"middle dim\">%.*f</text>\n",
                x, TOP, x, BASE, x, BASE + 20, p->speed.decimals, value);
    }
    fprintf(to, "<path d=\"M%d %dV%dH%d\" fill=\"none\" class=\"axis\"/>\n", LEFT, TOP, BASE,
            RIGHT);
    fprintf(to,
            "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"one\"/>"
            "<text x=\"%.1f\" y=\"%d\" class=\"dim\">uncached</text>\n",
            x_of(p, 1.0), TOP - 14, x_of(p, 1.0), BASE, x_of(p, 1.0) + 5, TOP - 6);
    fprintf(to, "<text x=\"%d\" y=\"%d\" class=\"middle\">%s</text>\n", (LEFT + RIGHT) / 2,
            BASE + 46,
            steps ? "steps, times as fast as the uncached ones"
                  : "times as fast as the uncached run, all of its stages");
    fprintf(to,
            "<text transform=\"translate(20 %d) rotate(-90)\" class=\"middle\">PSNR against its "
            "frames, dB</text>\n",
            (TOP + BASE) / 2);
}

/* The front begins with the spots, from the fastest to the slowest. */
static void put_front(FILE *to, const plot *p)
{
    fputs("<path class=\"front\" d=\"", to);
    for (size_t i = 0; i < p->n && p->spots[i].setting->front; i++)
        fprintf(to, "%c%.1f %.1f", i == 0 ? 'M' : 'L', p->spots[i].x, p->spots[i].y);
    if (p->n == 0 || !p->spots[0].setting->front)
        fputs("M0 0", to);
    fputs("\"/>\n", to);
}

static void put_spot(FILE *to, const zoe_sweep *sweep, const spot *s)
{
    const zoe_setting *setting = s->setting;
    const bool front = setting->front;
    const box *b = &s->label;
    const double y = (b->top + b->bottom) / 2;
    const double x = s->side == SIDE_RIGHT  ? b->left
                     : s->side == SIDE_LEFT ? b->right
                                            : (b->left + b->right) / 2;
    if (hypot(x - s->x, y - s->y) > 20.0)
        fprintf(to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"lead\"/>", s->x,
                s->y, x,
                s->side != SIDE_MIDDLE ? y
                : y > s->y             ? b->top + 2
                                       : b->bottom - 2);
    fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" class=\"%s\"><title>", s->x, s->y,
            front ? "on" : "off");
    zoe_markup_text(to, setting->name);
    fprintf(to, ": %zu of %zu steps computed, %.2f times as fast, ", setting->computed,
            setting->steps, zoe_setting_speed(sweep, setting, sweep->speed));
    fprintf(to, isinf(setting->psnr) ? "the same frames" : "%.2f dB", setting->psnr);
    fprintf(to, "</title></circle>\n<text x=\"%.1f\" y=\"%.1f\" class=\"%s%s\">", x, y + 4.5,
            s->side == SIDE_RIGHT  ? "start"
            : s->side == SIDE_LEFT ? "end"
                                   : "middle",
            front ? " best" : "");
    char name[4 * NAME + 4];
    size_t used = 0, letters = 0;
    for (const char *c = setting->name; *c && used + 1 < sizeof name; c++) {
        letters += ((unsigned char)*c & 0xc0) != 0x80;
        if (letters > NAME)
            break;
        name[used++] = *c;
    }
    name[used] = '\0';
    zoe_markup_text(to, name);
    fputs("</text>\n", to);
}

static void put_head(FILE *to, const zoe_sweep *sweep)
{
    const zoe_plan *plan = &sweep->plan;
    zoe_machine machine;
    zoe_machine_read(&machine);
    fprintf(to, "<text x=\"20\" y=\"28\" class=\"head\">What faster runs of ");
    zoe_markup_text(to, plan->model.name);
    fprintf(to,
            " cost</text>\n<text x=\"20\" y=\"50\" class=\"dim\">%zux%zu, %zu frames, %zu steps; "
            "medians of %zu, %s time; %d thread%s, ",
            plan->width, plan->height, plan->frames, plan->high_steps + plan->low_steps,
            sweep->settings[0].runs, sweep->clock ? "processor" : "wall",
            zoe_context_threads(sweep->ctx), zoe_context_threads(sweep->ctx) == 1 ? "" : "s");
    zoe_markup_text(to, machine.cpu);
    fputs("; the line: no setting is faster and closer</text>\n", to);
}

void zoe_sweep_print_plot(FILE *to, const zoe_sweep *sweep)
{
    static plot p; /* many spots */
    p.n = 0;
    find_spots(&p, sweep);
    place_names(&p);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\">\n<style>%s</style>\n<rect class=\"paper\" width=\"%d\" "
            "height=\"%d\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, style, WIDTH, HEIGHT);
    put_head(to, sweep);
    put_axes(to, &p, sweep->speed);
    put_front(to, &p);
    for (size_t i = 0; i < p.n; i++)
        put_spot(to, sweep, &p.spots[i]);
    fputs("</svg>\n", to);
}
