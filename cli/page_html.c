/* The page about a run: HTML, complete in one file, readable without scripts and without a network. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <jansson.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <png.h>

#include "answer.h"
#include "machine.h"
#include "markup.h"
#include "page.h"

#include "base/file.h"

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c2126;--dim:#5c6670;--paper:#fff;--card:#f5f6f8;"
    "--line:#d9dde2;--computed:#2b6cb0;--skipped:#f0b84a;--earlier:#b8bec6;--limit:#c0392b}\n"
    "@media (prefers-color-scheme:dark){:root{--ink:#e4e7ea;--dim:#9aa4ae;--paper:#15181b;"
    "--card:#1f2428;--line:#39414a;--computed:#5b9bdd;--skipped:#c88a1c;--earlier:#555e68;"
    "--limit:#ef7a6d}}\n"
    "body{margin:0 auto;max-width:1020px;padding:24px 20px 60px;background:var(--paper);"
    "color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:26px;margin:0}h2{font-size:18px;margin:34px 0 10px}\n"
    "p{margin:6px 0}.dim,figcaption,th,caption{color:var(--dim)}\n"
    ".banner{border-left:4px solid var(--limit);background:var(--card);padding:10px 14px;"
    "margin:14px 0}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "th,td{text-align:left;vertical-align:top;padding:4px 14px 4px 0;border-bottom:1px solid "
    "var(--line);font-weight:400}\n"
    "td{overflow-wrap:anywhere}td.text{white-space:pre-wrap}\n"
    ".n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n"
    ".pairs th{width:11em}\n"
    "code,pre{font:13px/1.45 ui-monospace,monospace;overflow-wrap:anywhere}\n"
    "pre{white-space:pre-wrap;background:var(--card);padding:12px}\n"
    ".row{display:flex;flex-wrap:wrap;gap:12px}figure{margin:0}\n"
    "figure img{display:block;background:var(--card);max-width:100%;image-rendering:auto}\n"
    "img.large{image-rendering:pixelated}figcaption{font-size:13px}\n"
    ".wide{overflow-x:auto}svg{display:block;width:100%;min-width:640px;height:auto}\n"
    "svg text{font:13px system-ui,sans-serif;fill:var(--dim)}\n"
    "text.end{text-anchor:end}text.middle{text-anchor:middle}svg text.limit{fill:var(--limit)}\n"
    ".grid{stroke:var(--line)}.border{stroke:var(--dim);stroke-dasharray:4 3}\n"
    ".limit{stroke:var(--limit);stroke-dasharray:6 4}text.limit{stroke:none}\n"
    ".computed,.cond{fill:var(--computed)}.skipped{fill:var(--skipped)}.earlier{fill:"
    "var(--earlier)}\n"
    ".missing{fill:none;stroke:var(--line)}.uncond{fill:var(--paper);stroke:var(--computed);"
    "stroke-width:1.5}\n"
    ".key{display:flex;flex-wrap:wrap;gap:4px 18px;color:var(--dim);font-size:13px}\n"
    ".key svg{display:inline-block;width:12px;height:12px;min-width:0;vertical-align:-1px;"
    "margin-right:6px}\n"
    ".k0{fill:#0072b2}.k1{fill:#e69f00}.k2{fill:#009e73}.k3{fill:#cc79a7}.k4{fill:#56b4e9}"
    ".k5{fill:#d55e00}.k6{fill:#8c6d31}.rest{fill:#9aa0a6}\n";

/* ---- pieces ---- */

static void put_row(FILE *to, const char *label, const char *text)
{
    if (!text)
        return;
    fputs("<tr><th>", to);
    zoe_markup_text(to, label);
    fputs("</th><td class=\"text\">", to);
    zoe_markup_text(to, text);
    fputs("</td></tr>\n", to);
}

static void put_rowf(FILE *to, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put_rowf(FILE *to, const char *label, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_row(to, label, text);
}

/* ---- pictures ---- */

static void put_frame(FILE *to, zoe_page *page, const zoe_page_frame *f, const char *what,
                      size_t least)
{
    void *png;
    size_t size;
    const zoe_picture *p = &f->picture;
    if (!p->rgb || zoe_picture_encode_png(page->ctx, &png, &size, p) != ZOE_OK) {
        zoe_context_clear(page->ctx);
        return;
    }
    const size_t scale = p->width < least ? least / p->width : 1;
    fprintf(to,
            "<figure><img width=\"%zu\" height=\"%zu\"%s alt=\"%s %zu\" src=\"data:image/png;"
            "base64,",
            p->width * scale, p->height * scale, scale > 1 ? " class=\"large\"" : "", what,
            f->frame);
    zoe_markup_base64(to, png, size);
    fprintf(to, "\"/><figcaption>%s %zu</figcaption></figure>\n", what, f->frame);
    zoe_free(png);
}

static void put_pictures(FILE *to, zoe_page *page)
{
    enum { SMALL = 144, LARGE = 320 }; /* smaller ones are enlarged up to this */
    fputs("<h2>Frames</h2>\n", to);
    if (page->frames == 0) {
        fputs("<p class=\"dim\">No frame was decoded.</p>\n", to);
        return;
    }
    fputs("<div class=\"row\">\n", to);
    put_frame(to, page, &page->end[0], "first: frame", LARGE);
    put_frame(to, page, &page->end[1], "last: frame", LARGE);
    fputs("</div>\n<p class=\"dim\">", to);
    fputs("From the whole clip:</p>\n<div class=\"row\">\n", to);
    for (size_t i = 0; i < ZOE_PAGE_SHEET; i++)
        put_frame(to, page, &page->sheet[i], "frame", SMALL);
    fputs("</div>\n", to);
}

/* ---- what was asked for ---- */

static const char *solver_name(zoe_solver_kind solver)
{
    return solver == ZOE_SOLVER_UNIPC ? "unipc" : solver == ZOE_SOLVER_DPMPP ? "dpm++" : "euler";
}

static void put_step_list(FILE *to, const zoe_job_params *p)
{
    char text[16 * ZOE_JOB_STEP_LIST];
    size_t used = 0;
    for (size_t i = 0; i < p->step_list_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.9g", i > 0 ? ", " : "",
                                 p->step_list[i]);
    if (used > 0)
        put_row(to, "step list", text);
}

static void put_request(FILE *to, const zoe_page *page)
{
    const zoe_job_params *p = page->params;
    const zoe_plan *plan = zoe_job_plan(page->job);
    const bool pair = plan->model.transformers == 2;
    char boundary[48];
    if (p->boundary_step != ZOE_NO_BOUNDARY_STEP)
        snprintf(boundary, sizeof boundary, "boundary step %zu", p->boundary_step);
    else
        snprintf(boundary, sizeof boundary, "boundary %g", p->boundary);
    fputs("<h2>Request</h2>\n<table class=\"pairs\">\n", to);
    put_row(to, "prompt", p->prompt);
    put_row(to, "negative prompt",
            p->negative_prompt && *p->negative_prompt ? p->negative_prompt : "(the model's own)");
    put_row(to, "picture", p->image);
    put_row(to, "last picture", p->last_image);
    put_rowf(to, "video", "%zux%zu, %zu frames at %g a second", plan->width, plan->height,
             plan->frames, (double)p->fps_num / (double)p->fps_den);
    if (pair)
        put_rowf(to, "steps",
                 "%zu of %s: %zu with the high-noise expert, %zu with the low-noise expert "
                 "(%s)",
                 plan->high_steps + plan->low_steps, solver_name(p->solver), plan->high_steps,
                 plan->low_steps, boundary);
    else
        put_rowf(to, "steps", "%zu of %s", plan->high_steps, solver_name(p->solver));
    put_step_list(to, p);
    put_rowf(to, "shift", "%g", p->shift);
    if (pair)
        put_rowf(to, "guidance", "%g low noise, %g high noise", p->guide_low, p->guide_high);
    else
        put_rowf(to, "guidance", "%g", p->guide_high);
    put_rowf(to, "seed", "%lld", (long long)plan->seed);
    put_rowf(to, "arithmetic", "%s%s",
             p->bf16 ? "rounded to bf16 as the official program does" : "f32",
             p->int8 ? ", large layers in int8" : "");
    put_row(to, "step cache", p->cache ? p->cache : "none");
    for (size_t i = 0; i < p->lora_count; i++)
        put_row(to, "LoRA", p->loras[i].path);
    put_row(to, "video file", p->out && strcmp(p->out, "-") == 0 ? "standard output" : p->out);
    put_row(to, "frames", p->frames_out);
    put_row(to, "latents", p->latents_out);
    put_row(to, "checkpoint", p->checkpoint);
    fputs("</table>\n", to);
}

/* ---- steps ---- */

static void put_key(FILE *to, const char *class, const char *text)
{
    fprintf(to,
            "<span><svg viewBox=\"0 0 12 12\"><rect width=\"12\" height=\"12\" class=\"%s\"/>"
            "</svg>%s</span>\n",
            class, text);
}

static void put_steps(FILE *to, const zoe_page *page)
{
    const zoe_plan *plan = zoe_job_plan(page->job);
    const size_t steps = zoe_page_steps(page), seen = zoe_page_steps_seen(page);
    size_t skipped = 0, passes = 0, measured = 0;
    for (size_t i = 0; i < steps; i++) {
        const struct zoe_job_pass *b = page->step[i].branch;
        skipped += page->seen[i] && !b[0].computed && !b[1].computed;
        passes += (size_t)b[0].computed + (size_t)b[1].computed;
        measured += page->seen[i] && (isfinite(b[0].distance) || isfinite(b[1].distance));
    }
    fprintf(to,
            "<h2>Steps</h2>\n<p>%zu of %zu steps ran in this part of the run: %zu computed, %zu "
            "skipped; %zu passes of the transformer were computed.</p>\n",
            seen, steps, seen - skipped, skipped, passes);
    if (plan->steps_done > 0)
        fprintf(to,
                "<p>The first %zu steps were done in an earlier part of the run; only their number "
                "is known here.</p>\n",
                plan->steps_done);
    if (seen == 0)
        return;
    zoe_page_draw_steps(to, page);
    fputs("<div class=\"key\">\n", to);
    put_key(to, "computed", "computed");
    if (skipped > 0)
        put_key(to, "skipped", "skipped by the step cache");
    if (plan->steps_done > 0)
        put_key(to, "earlier", "earlier part of the run");
    if (seen + plan->steps_done < steps)
        put_key(to, "missing", "not reached");
    if (measured > 0)
        fputs("<span>distance: the relative change that the step cache measured; full dots "
              "conditional, hollow dots unconditional</span>\n",
              to);
    fputs("</div>\n", to);
}

/* ---- time ---- */

static void put_seconds(FILE *to, double seconds)
{
    fprintf(to, seconds > 0.0 ? "<td class=\"n\">%.3f</td>" : "<td class=\"n\">&#183;</td>",
            seconds);
}

/* A kind of operator; k == ZOE_KINDS: what none of them took. */
static void put_kind(FILE *to, const zoe_page *page, const zoe_progress *progress, size_t k,
                     double all)
{
    double total = 0.0;
    size_t calls = 0;
    fprintf(to, "<tr><th>%s</th>", k < ZOE_KINDS ? zoe_op_kind_name((zoe_op_kind)k) : "the rest");
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        const double seconds =
            k < ZOE_KINDS ? page->clock[i].seconds[k] : zoe_page_rest(page, progress, (zoe_phase)i);
        calls += k < ZOE_KINDS ? page->clock[i].calls[k] : 0;
        total += seconds;
        put_seconds(to, seconds);
    }
    put_seconds(to, total);
    fprintf(to, "<td class=\"n\">%.1f %%</td>", all > 0.0 ? 100.0 * total / all : 0.0);
    fprintf(to, k < ZOE_KINDS ? "<td class=\"n\">%zu</td></tr>\n" : "<td></td></tr>\n", calls);
}

static void put_times(FILE *to, const zoe_page *page, const zoe_page_end *end)
{
    const zoe_progress *progress = end->progress;
    double all = 0.0;
    fputs("<h2>Time</h2>\n", to);
    zoe_page_draw_times(to, page, progress);
    fputs("<div class=\"key\">\n", to);
    for (size_t k = 0; k < ZOE_KINDS; k++) {
        char class[16];
        snprintf(class, sizeof class, "k%zu", k);
        put_key(to, class, zoe_op_kind_name((zoe_op_kind)k));
    }
    put_key(to, "rest", "the rest");
    fputs("</div>\n<div class=\"wide\"><table><tr><th>seconds</th>", to);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        fprintf(to, "<th class=\"n\">%s</th>", zoe_phase_name((zoe_phase)i));
        all += progress->seconds[i];
    }
    fputs("<th class=\"n\">all</th><th class=\"n\">share</th><th class=\"n\">calls</th></tr>\n",
          to);
    for (size_t k = 0; k <= ZOE_KINDS; k++)
        put_kind(to, page, progress, k, all);
    fputs("<tr><th>all</th>", to);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++)
        put_seconds(to, progress->seconds[i]);
    put_seconds(to, all);
    fputs("<td></td><td></td></tr>\n</table></div>\n", to);
    fprintf(to,
            "<p class=\"dim\">%.3f s with what lies between the stages. The rest is reading, "
            "encoding of the outputs, solver, step cache and what is no operator.</p>\n",
            end->seconds);
}

/* ---- memory, files, machine ---- */

static void put_memory(FILE *to, const zoe_page *page)
{
    const zoe_plan *plan = zoe_job_plan(page->job);
    struct rusage usage;
    fputs("<h2>Memory</h2>\n<table class=\"pairs\">\n", to);
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        char label[32];
        snprintf(label, sizeof label, "plan, %s", zoe_phase_name((zoe_phase)i));
        put_row(to, label, zoe_amount_of(plan->bytes[i]).text);
    }
    put_row(to, "plan, peak", zoe_amount_of(plan->peak).text);
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        put_row(to, "seen, peak",
                zoe_amount_of((size_t)usage.ru_maxrss * 1024).text); /* KiB, on Linux */
        put_rowf(to, "read from disk", "%s, %ld page faults that waited for it",
                 zoe_amount_of((size_t)usage.ru_inblock * 512).text, usage.ru_majflt);
    }
    fputs("</table>\n<p class=\"dim\">Mapped weights count as far as they were in memory at once; "
          "they can be dropped and read again.</p>\n",
          to);
}

static void put_files(FILE *to, const zoe_page *page)
{
    const zoe_plan *plan = zoe_job_plan(page->job);
    fputs("<h2>Model and files</h2>\n<p>", to);
    zoe_markup_text(to, plan->model.name);
    fprintf(to, "; %zu tokens; latent %zux%zux%zu (frames, height, width).</p>\n", plan->tokens,
            plan->latent_frames, plan->latent_height, plan->latent_width);
    fputs("<table><tr><th>read</th><th>file</th><th class=\"n\">weights</th><th>fingerprint</th>"
          "</tr>\n",
          to);
    for (size_t i = 0; i < ZOE_JOB_PARTS; i++) {
        const zoe_job_part *part = &page->parts[i];
        if (!part->path)
            continue;
        fprintf(to, "<tr><td>%s</td><td><code>", part->role);
        zoe_markup_text(to, part->path);
        fprintf(to,
                "</code></td><td class=\"n\">%s</td><td><code title=\"%s\">%.12s</code></td>"
                "</tr>\n",
                part->bytes ? zoe_amount_of(part->bytes).text : "", part->fingerprint,
                part->fingerprint);
    }
    fputs("</table>\n", to);
}

static void put_machine(FILE *to, const zoe_page *page)
{
    zoe_machine machine;
    const unsigned format = avformat_version(), codec = avcodec_version();
    zoe_machine_read(&machine);
    fputs("<h2>Program and machine</h2>\n<table class=\"pairs\">\n", to);
    put_row(to, "zoetrope", ZOE_VERSION);
    put_rowf(to, "kernels", "%s", zoe_isa_name(zoe_cpu_isa()));
    const zoe_plan *plan = zoe_job_plan(page->job);
    if (plan->ranks > 1)
        put_rowf(to, "ranks", "%zu: CFG %zu x Ulysses %zu x ring %zu, VAE on %zu", plan->ranks,
                 plan->cfg_ranks, plan->ulysses, plan->ring, plan->vae_ranks);
    put_rowf(to, "threads", "%d%s", zoe_context_threads(page->run),
             plan->ranks > 1 ? " of each rank" : "");
    put_row(to, "cpu", machine.cpu);
    put_row(to, "system", machine.system);
    put_row(to, "memory", zoe_amount_of(machine.memory).text);
    put_rowf(to, "libraries", "libavformat %u.%u.%u, libavcodec %u.%u.%u, libpng %s, jansson %s",
             format >> 16, format >> 8 & 0xffu, format & 0xffu, codec >> 16, codec >> 8 & 0xffu,
             codec & 0xffu, png_get_libpng_ver(NULL), jansson_version_str());
    fputs("</table>\n", to);
}

/* The record, indented. */
static void put_record(FILE *to, const zoe_page *page)
{
    const char *record = zoe_job_record(page->job);
    json_t *root = record ? json_loads(record, 0, NULL) : NULL;
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    if (text) {
        fputs("<h2>Record</h2>\n<details><summary>as it is noted in the outputs</summary><pre>",
              to);
        zoe_markup_text(to, text);
        fputs("</pre></details>\n", to);
    }
    free(text);
    json_decref(root);
}

/* ---- all of it ---- */

static void put_head(FILE *to, const zoe_page *page, const zoe_page_end *end)
{
    const zoe_plan *plan = zoe_job_plan(page->job);
    const char *out = page->params->out;
    const char *title = out && strcmp(out, "-") != 0 ? zoe_path_name(out) : plan->model.name;
    char text[32];
    zoe_duration_print(text, sizeof text, end->seconds);
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n<meta "
          "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>zoe "
          "report: ",
          to);
    zoe_markup_text(to, title);
    fprintf(to, "</title>\n<style>\n%s</style></head>\n<body>\n<h1>", style);
    zoe_markup_text(to, title);
    fputs("</h1>\n<p>", to);
    zoe_markup_text(to, plan->model.name);
    fprintf(to, ", %zux%zu, %zu frame%s, seed %lld, in %s</p>\n", plan->width, plan->height,
            plan->frames, plan->frames == 1 ? "" : "s", (long long)plan->seed, text);
    if (end->status == ZOE_OK)
        return;
    fputs("<div class=\"banner\"><strong>This run did not finish.</strong> ", to);
    zoe_markup_text(to, end->status == ZOE_CANCELLED ? "It was interrupted." : end->message);
    fprintf(to, " %zu of %zu steps were done.</div>\n",
            zoe_page_steps_seen(page) + plan->steps_done, zoe_page_steps(page));
}

void zoe_page_print(FILE *to, zoe_page *page, const zoe_page_end *end)
{
    put_head(to, page, end);
    put_pictures(to, page);
    put_request(to, page);
    put_steps(to, page);
    put_times(to, page, end);
    put_memory(to, page);
    put_files(to, page);
    put_machine(to, page);
    put_record(to, page);
    fputs("</body></html>\n", to);
}
