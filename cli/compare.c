/* zoe compare: how much two videos, pictures, folders of pictures or latents differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands.h"
#include "figures.h"
#include "latents.h"
#include "media/media.h"
#include "message.h"
#include "session.h"

typedef struct compare_request {
    const char *path[2];
    size_t frames; /* the first so many only; 0 for all */
    size_t threads;
    double min_psnr; /* -1: any */
    bool json, help;
} compare_request;

#define AT(member) .at = offsetof(compare_request, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_COUNT, "frames", 'f', AT(frames), .low = 1, .high = 1e9, .value = "N",
     .help = "compare only the first N frames; there may be more"},
    {ZOE_OPTION_REAL, "min-psnr", AT(min_psnr), .low = 0, .high = 1000, .value = "DB",
     .help = "exit with code 1 if the total PSNR is lower"},
    {ZOE_OPTION_FLAG, "json", AT(json), .help = "print one JSON object instead of the table"},
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "number of threads [as many as the process may use]; the\nresult does not depend on it"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0] };

/* ---- frames ---- */

enum { PSNR, SSIM, WORST, COLUMNS };
static const zoe_column columns[COLUMNS] = {
    [PSNR] = {"psnr", "PSNR dB", "%.3f"},
    [SSIM] = {"ssim", "SSIM", "%.6f"},
    [WORST] = {"max_abs", "max abs", "%.0f"},
};

typedef struct frames_run {
    zoe_context *ctx;
    const compare_request *request;
    zoe_video_reader *reader[2];
    uint8_t *rgb[2];
    size_t width, height, count;
    uint64_t squares;
    double ssim; /* sum of all frames */
    int worst;
    zoe_figures figures;
} frames_run;

static zoe_status refuse_counts(frames_run *run, const size_t frames[2])
{
    const char *const *path = run->request->path;
    const size_t less = frames[0] < frames[1] ? frames[0] : frames[1];
    return zoe_fail(run->ctx, ZOE_INVALID,
                    "%s has %zu frames, %s has %zu; --frames %zu would compare the first of them",
                    path[0], frames[0], path[1], frames[1], less);
}

static zoe_status check_frames(frames_run *run)
{
    const char *const *path = run->request->path;
    const zoe_video_info *a = zoe_video_read_info(run->reader[0]);
    const zoe_video_info *b = zoe_video_read_info(run->reader[1]);
    if (a->width != b->width || a->height != b->height)
        return zoe_fail(run->ctx, ZOE_INVALID,
                        "%s has frames of %zux%zu, %s of %zux%zu; only frames of one size can be "
                        "compared",
                        path[0], a->width, a->height, path[1], b->width, b->height);
    if (!run->request->frames && a->frames && b->frames && a->frames != b->frames)
        return refuse_counts(run, (const size_t[]){a->frames, b->frames});
    if (a->fps_num && b->fps_num &&
        (int64_t)a->fps_num * b->fps_den != (int64_t)b->fps_num * a->fps_den)
        zoe_note("the frame rates differ: %d/%d and %d/%d a second", a->fps_num, a->fps_den,
                 b->fps_num, b->fps_den);
    run->width = a->width;
    run->height = a->height;
    return ZOE_OK;
}

/* Only one of the two had another frame: how many has it? */
static zoe_status refuse_rest(frames_run *run, const bool got[2])
{
    const int longer = got[0] ? 0 : 1;
    size_t frames[2] = {run->count, run->count};
    for (bool more = true; more; frames[longer]++)
        TRY(zoe_video_read_frame(run->ctx, run->reader[longer], run->rgb[0], &more));
    return refuse_counts(run, frames);
}

static zoe_status compare_frame(frames_run *run)
{
    const size_t n = 3 * run->width * run->height;
    double values[COLUMNS];
    int worst = 0;
    for (size_t i = 0; i < n; i++) {
        const int d = abs(run->rgb[0][i] - run->rgb[1][i]);
        worst = d > worst ? d : worst;
    }
    const uint64_t squares = zoe_squares_u8(run->rgb[0], run->rgb[1], n);
    TRY(zoe_ssim_u8(run->ctx, &values[SSIM], run->rgb[0], run->rgb[1], run->width, run->height));
    values[PSNR] = zoe_psnr_of((double)squares, (double)n, 255.0);
    values[WORST] = worst;
    zoe_figures_frame(&run->figures, run->count, values);
    run->count++;
    run->squares += squares;
    run->ssim += values[SSIM];
    run->worst = worst > run->worst ? worst : run->worst;
    return ZOE_OK;
}

static zoe_status compare_all(frames_run *run)
{
    const size_t wanted = run->request->frames;
    while (!wanted || run->count < wanted) {
        bool got[2];
        for (int i = 0; i < 2; i++)
            TRY(zoe_video_read_frame(run->ctx, run->reader[i], run->rgb[i], &got[i]));
        for (int i = 0; wanted && i < 2; i++)
            if (!got[i])
                return zoe_fail(run->ctx, ZOE_INVALID, "%s has %zu frames, --frames asks for %zu",
                                run->request->path[i], run->count, wanted);
        if (got[0] != got[1])
            return refuse_rest(run, got);
        if (!got[0])
            break;
        TRY(compare_frame(run));
    }
    return ZOE_OK;
}

static zoe_status open_frames(frames_run *run)
{
    void *p;
    for (int i = 0; i < 2; i++)
        TRY(zoe_video_read_open(run->ctx, &run->reader[i], run->request->path[i]));
    TRY(check_frames(run));
    for (int i = 0; i < 2; i++) {
        TRY(zoe_alloc(run->ctx, &p, run->width * run->height, 3, "a frame"));
        run->rgb[i] = p;
    }
    return ZOE_OK;
}

static zoe_status report_total(frames_run *run, double *psnr)
{
    const double n = 3.0 * (double)run->width * (double)run->height * (double)run->count;
    *psnr = zoe_psnr_of((double)run->squares, n, 255.0);
    const double values[COLUMNS] = {
        [PSNR] = *psnr, [SSIM] = run->ssim / (double)run->count, [WORST] = run->worst};
    json_t *about = json_pack("{s:s, s:I, s:I, s:I, s:i, s:b}", "kind", "frames", "width",
                              (json_int_t)run->width, "height", (json_int_t)run->height, "count",
                              (json_int_t)run->count, "peak", 255, "equal", run->squares == 0);
    return zoe_figures_total(run->ctx, &run->figures, about, values);
}

static zoe_status compare_frames(zoe_context *ctx, double *psnr, const compare_request *request)
{
    frames_run run = {.ctx = ctx, .request = request};
    zoe_status status;
    TRY_GOTO(open_frames(&run));
    TRY_GOTO(zoe_figures_begin(ctx, &run.figures, columns, COLUMNS, request->json));
    TRY_GOTO(compare_all(&run));
    TRY_GOTO(report_total(&run, psnr));
done:
    zoe_figures_free(&run.figures);
    for (int i = 0; i < 2; i++) {
        zoe_free(run.rgb[i]);
        zoe_video_read_close(run.reader[i]);
    }
    return status;
}

/* ---- the command ---- */

static zoe_status compare(zoe_context *ctx, double *psnr, const compare_request *request)
{
    const char *const *path = request->path;
    const bool latents[2] = {zoe_latents_are_at(path[0]), zoe_latents_are_at(path[1])};
    if (latents[0] != latents[1])
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s holds latents, %s does not; latents are compared with latents, frames "
                        "with frames",
                        path[latents[0] ? 0 : 1], path[latents[0] ? 1 : 0]);
    if (!latents[0])
        return compare_frames(ctx, psnr, request);
    const zoe_latents_request of_latents = {{path[0], path[1]}, request->frames, request->json};
    return zoe_latents_compare(ctx, psnr, &of_latents);
}

static int run_request(const compare_request *request)
{
    double psnr = 0.0;
    zoe_context *ctx = zoe_session_begin(request->threads);
    if (!ctx)
        return ZOE_EXIT_MEMORY;
    const int code = zoe_session_end(ctx, compare(ctx, &psnr, request), false);
    if (code != ZOE_EXIT_DONE)
        return code;
    if (request->min_psnr >= 0.0 && isnan(psnr))
        return zoe_refuse(
            ZOE_EXIT_FAILED, zoe_status_name(ZOE_INVALID),
            "the total PSNR is not defined, as all values of the first one are equal; "
            "--min-psnr wants %g",
            request->min_psnr);
    if (request->min_psnr >= 0.0 && psnr < request->min_psnr)
        return zoe_refuse(ZOE_EXIT_FAILED, zoe_status_name(ZOE_INVALID),
                          "the total PSNR is %.3f dB, --min-psnr wants %g", psnr,
                          request->min_psnr);
    return code;
}

static int run(int argc, char **argv)
{
    zoe_options found;
    compare_request request = {.min_psnr = -1.0};
    int code;
    if (!zoe_command_read(&zoe_compare_command, &found, &request, &request.help, argc, argv, &code))
        return code;
    if (found.operands > 2)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: one argument too many; two things can be compared",
                          found.operand[2]);
    if (found.operands < 2 || !*found.operand[0] || !*found.operand[1])
        return zoe_refuse_line("two videos, pictures, folders of pictures or latents are wanted: "
                               "zoe compare A B");
    for (int i = 0; i < 2; i++)
        request.path[i] = strcmp(found.operand[i], "-") == 0 ? "/dev/stdin" : found.operand[i];
    return run_request(&request);
}

static const char text[] =
    "A and B are videos (MP4, MOV, WebM, Matroska, Y4M, GIF, AVI), pictures, folders of\n"
    "pictures such as --frames-out makes, or latents of --latents-out; - is a Y4M video on\n"
    "standard input. Frames must have one size and be equal in number.\n"
    "\n"
    "A line a frame and one for all: PSNR over R, G and B in dB (peak 255); SSIM (Wang et\n"
    "al. 2004, mean of R, G and B; - for frames with a side below 11); the largest\n"
    "difference of two values. The total PSNR is that of all values together, the total\n"
    "SSIM the mean of the frames. For latents: PSNR with the range of A's values as the\n"
    "peak, norm of the difference by the norm of A, largest difference, cosine.\n"
    "\n"
    "Two things that could be compared give code 0, however much they differ; with\n"
    "--min-psnr, code 1 says that they differ too much. Code 3: a file is missing or unfit,\n"
    "or the two do not fit together.\n";

static const char examples[] =
    "Two videos, and the frames that one was made of:\n"
    "  zoe compare old.mp4 new.mp4\n"
    "  zoe compare --json frames/ video.mp4\n"
    "In a script:\n"
    "  zoe compare --min-psnr 60 a.safetensors b.safetensors || echo differs\n";

const zoe_command zoe_compare_command = {
    .name = "compare",
    .summary = "measures how much two videos, pictures or latents differ",
    .usage = "A B [options]",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .run = run,
};
