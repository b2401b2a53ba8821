/* What a run shows of itself, kept for the page about it. */
#include <stdio.h>
#include <stdlib.h>

#include "page.h"

#include "base/file.h"

enum { SHEET_SIDE = 192, END_SIDE = 512 }; /* pixels, at most */

void zoe_page_free(zoe_page *page)
{
    if (!page)
        return;
    if (page->run)
        zoe_clock_use(page->run, NULL);
    for (size_t i = 0; i < ZOE_PAGE_SHEET; i++)
        zoe_picture_free(&page->sheet[i].picture);
    for (size_t i = 0; i < ZOE_PAGE_ENDS; i++)
        zoe_picture_free(&page->end[i].picture);
    free(page->step);
    free(page->seen);
    zoe_context_free(page->ctx);
    free(page);
}

size_t zoe_page_steps(const zoe_page *page)
{
    const zoe_plan *plan = zoe_job_plan(page->job);
    return plan->high_steps + plan->low_steps;
}

size_t zoe_page_steps_seen(const zoe_page *page)
{
    size_t seen = 0;
    for (size_t i = 0; i < zoe_page_steps(page); i++)
        seen += page->seen[i];
    return seen;
}

/* The frames that are shown, spread over the clip. */
static void choose_frames(zoe_page *page)
{
    const size_t frames = zoe_job_plan(page->job)->frames;
    const size_t n = frames < ZOE_PAGE_SHEET ? frames : ZOE_PAGE_SHEET;
    for (size_t i = 0; i < ZOE_PAGE_SHEET; i++)
        page->sheet[i].frame = i >= n ? SIZE_MAX : n > 1 ? i * (frames - 1) / (n - 1) : 0;
    page->end[0].frame = 0;
    page->end[1].frame = frames > 1 ? frames - 1 : SIZE_MAX;
}

zoe_page *zoe_page_new(zoe_context *run, const zoe_job_params *params, const zoe_job *job)
{
    zoe_page *page = calloc(1, sizeof *page);
    if (!page)
        return NULL;
    page->params = params;
    page->job = job;
    page->ctx = zoe_context_new(1);
    page->step = calloc(zoe_page_steps(page), sizeof *page->step);
    page->seen = calloc(zoe_page_steps(page), sizeof *page->seen);
    if (!page->ctx || !page->step || !page->seen) {
        zoe_page_free(page);
        return NULL;
    }
    page->run = run;
    zoe_job_list_parts(job, page->parts);
    choose_frames(page);
    return page;
}

/* ---- while it runs ---- */

void zoe_page_phase(zoe_page *page, zoe_phase phase)
{
    page->ran[phase] = true;
    zoe_clock_use(page->run, &page->clock[phase]);
}

void zoe_page_step(zoe_page *page, const zoe_job_step *step)
{
    page->step[step->step] = *step;
    page->seen[step->step] = true;
}

/* A copy with sides up to `side`. Without memory, the frame is left out. */
static void keep(zoe_page *page, zoe_page_frame *f, size_t side, const zoe_picture *from)
{
    const size_t longer = from->width > from->height ? from->width : from->height;
    const size_t most = longer > side ? side : longer;
    size_t w = (from->width * most + longer / 2) / longer;
    size_t h = (from->height * most + longer / 2) / longer;
    w += w == 0;
    h += h == 0;
    if (zoe_resize_lanczos(page->ctx, &f->picture, w, h, from) != ZOE_OK)
        zoe_context_clear(page->ctx);
}

void zoe_page_see(zoe_page *page, size_t frame, const unsigned char *rgb, size_t width,
                  size_t height)
{
    /* It is only looked at. */
    const zoe_picture picture = {
        .width = width, .height = height, .rgb = (uint8_t *)(uintptr_t)rgb};
    page->frames = frame + 1;
    for (size_t i = 0; i < ZOE_PAGE_SHEET; i++)
        if (page->sheet[i].frame == frame)
            keep(page, &page->sheet[i], SHEET_SIDE, &picture);
    for (size_t i = 0; i < ZOE_PAGE_ENDS; i++)
        if (page->end[i].frame == frame)
            keep(page, &page->end[i], END_SIDE, &picture);
}

/* ---- after it ---- */

double zoe_page_rest(const zoe_page *page, const zoe_progress *progress, zoe_phase phase)
{
    double rest = progress->seconds[phase];
    for (size_t k = 0; k < ZOE_KINDS; k++)
        rest -= page->clock[phase].seconds[k];
    return rest > 0.0 ? rest : 0.0;
}

zoe_status zoe_page_write(zoe_page *page, const zoe_page_end *end)
{
    zoe_output out = {.fd = -1};
    char *text = NULL;
    size_t size = 0;
    zoe_status status;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return zoe_fail(page->ctx, ZOE_NOMEM, "no memory for the report");
    zoe_page_print(to, page, end);
    const bool whole = !ferror(to);
    if (fclose(to) != 0 || !whole)
        TRY_GOTO(zoe_fail(page->ctx, ZOE_NOMEM, "no memory for the report"));
    TRY_GOTO(zoe_output_open(page->ctx, &out, page->params->report));
    TRY_GOTO(zoe_output_write(page->ctx, &out, text, size));
    status = zoe_output_commit(page->ctx, &out);
done:
    zoe_output_abort(&out);
    free(text);
    return status;
}
