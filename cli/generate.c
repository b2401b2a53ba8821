/* zoe generate: one job, from the command line to the closing line. */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "commands.h"
#include "interrupt.h"
#include "launch.h"
#include "log.h"
#include "message.h"
#include "page.h"
#include "picture_terminal.h"
#include "report.h"
#include "request.h"

typedef enum stage { STAGE_NEW, STAGE_OPEN, STAGE_RUN } stage;

static int exit_code_of(zoe_status status, stage at)
{
    switch (status) {
    case ZOE_OK: return ZOE_EXIT_DONE;
    case ZOE_NOMEM: return ZOE_EXIT_MEMORY;
    case ZOE_CANCELLED: return ZOE_EXIT_INTERRUPTED;
    case ZOE_INVALID: return at == STAGE_RUN ? ZOE_EXIT_FAILED : ZOE_EXIT_USAGE;
    case ZOE_UNSUPPORTED:
        return at == STAGE_NEW    ? ZOE_EXIT_USAGE
               : at == STAGE_OPEN ? ZOE_EXIT_INPUT
                                  : ZOE_EXIT_FAILED;
    case ZOE_IO: /* before anything is opened: an output that cannot be written */
        return at == STAGE_NEW    ? ZOE_EXIT_USAGE
               : at == STAGE_OPEN ? ZOE_EXIT_INPUT
                                  : ZOE_EXIT_FAILED;
    case ZOE_MISSING:
    case ZOE_FORMAT: return ZOE_EXIT_INPUT; /* in a run: a file that shrank meanwhile */
    case ZOE_NONFINITE: return at == STAGE_OPEN ? ZOE_EXIT_INPUT : ZOE_EXIT_FAILED;
    case ZOE_PEER:
    case ZOE_DEVICE:
    case ZOE_INTERNAL: break;
    }
    return ZOE_EXIT_FAILED;
}

static int failed(const zoe_context *ctx, zoe_status status, stage at, zoe_comm *comm)
{
    const char *message = zoe_context_message(ctx);
    /* One of several ranks speaks for all; what was heard of another one has its number already, and
     * what all find in comparing names one. */
    const bool many = zoe_comm_size(comm) > 1, own = many && status != ZOE_PEER;
    const bool named = zoe_comm_culprit(comm).found;
    /* A system call that the signal broke off may be what failed. */
    if (zoe_cancelled(ctx) && own)
        return zoe_refuse(ZOE_EXIT_INTERRUPTED, zoe_status_name(ZOE_CANCELLED),
                          "rank %zu: interrupted, by hand or by the launcher, which does so when "
                          "another rank was killed",
                          zoe_comm_rank(comm));
    if (zoe_cancelled(ctx) && !many)
        return zoe_refuse(ZOE_EXIT_INTERRUPTED, zoe_status_name(ZOE_CANCELLED), "interrupted");
    if (own && !named)
        return zoe_refuse(exit_code_of(status, at), zoe_status_name(status), "rank %zu: %s",
                          zoe_comm_rank(comm), *message ? message : zoe_status_name(status));
    return zoe_refuse(exit_code_of(status, at), zoe_status_name(status), "%s",
                      *message ? message : zoe_status_name(status));
}

/* What the callbacks of a run need. */
typedef struct view {
    const zoe_request *request;
    zoe_progress progress;
    zoe_page *page; /* NULL: no report is wanted */
    zoe_terminal_kind terminal;
    bool kept;        /* the checkpoint holds something */
    bool new_preview; /* made in this step, to be told at its end, when its file is there */
    size_t step, width, height;
} view;

static void on_log(void *user, zoe_level level, const char *text)
{
    const zoe_request *request = user;
    if (level == ZOE_WARNING)
        zoe_warn("%s", text);
    else if (level == ZOE_INFO && request->verbose)
        zoe_note("%s", text);
    else if (zoe_message_rank() == 0)
        zoe_log_write(level == ZOE_INFO ? "note" : "debug", text);
}

static void on_progress(void *user, zoe_phase phase, size_t done, size_t total)
{
    view *v = user;
    if (v->page && !(v->progress.running && v->progress.phase == phase))
        zoe_page_phase(v->page, phase);
    zoe_progress_update(&v->progress, phase, done, total);
    if (v->new_preview && v->request->job.preview)
        zoe_report_preview(&v->request->job, v->step, v->width, v->height);
    v->new_preview = false;
    v->kept |= phase != ZOE_PHASE_TEXT || done == total;
    /* Every step is kept before it is told. */
    if (phase == ZOE_PHASE_STEPS && done > v->progress.phase_done && v->request->job.checkpoint)
        zoe_report_checkpoint(&v->request->job, done);
}

static void on_preview(void *user, size_t step, const unsigned char *rgb, size_t width,
                       size_t height)
{
    view *v = user;
    zoe_terminal_show(v->terminal, rgb, width, height);
    v->new_preview = true;
    v->step = step;
    v->width = width;
    v->height = height;
}

static void on_step(void *user, const zoe_job_step *step)
{
    const view *v = user;
    if (v->page)
        zoe_page_step(v->page, step);
}

static void on_frame(void *user, size_t frame, const unsigned char *rgb, size_t width,
                     size_t height)
{
    const view *v = user;
    if (v->page)
        zoe_page_see(v->page, frame, rgb, width, height);
}

/* Pictures in the terminal if asked for; programs are told of every new preview file. */
static void watch_preview(view *v, zoe_request *request)
{
    enum { AUTO = ZOE_TERMINAL_SIXEL + 1 };
    v->terminal = request->show_preview == AUTO ? zoe_terminal_detect()
                                                : (zoe_terminal_kind)request->show_preview;
    if (request->show_preview == AUTO && v->terminal == ZOE_TERMINAL_NONE)
        zoe_note("--show-preview auto: this is no terminal that is known to show pictures; try "
                 "kitty, iterm or sixel, or --preview FILE");
    const bool told = request->progress == ZOE_PROGRESS_JSON && request->job.preview;
    if (v->terminal != ZOE_TERMINAL_NONE || told)
        request->job.show_preview = on_preview;
}

/* What was done of a run with a checkpoint is not lost. */
static int failed_run(const zoe_context *ctx, zoe_status status, const view *v)
{
    const char *folder = v->request->job.checkpoint;
    if (folder && status != ZOE_NONFINITE &&
        (v->kept || (v->request->resume && v->request->record)))
        zoe_note("what was done is kept in %s: --resume goes on from there", folder);
    return failed(ctx, status, STAGE_RUN, v->request->job.comm);
}

/* The page of --report; a run that failed has nothing to lose by it. */
static int write_page(const zoe_context *ctx, zoe_status status, const view *v, double seconds)
{
    const zoe_page_end end = {status, zoe_context_message(ctx), seconds, &v->progress};
    const zoe_status written = v->page ? zoe_page_write(v->page, &end) : ZOE_OK;
    if (written == ZOE_OK)
        return ZOE_EXIT_DONE;
    const char *message = zoe_context_message(v->page->ctx);
    if (status == ZOE_OK)
        return zoe_refuse(written == ZOE_NOMEM ? ZOE_EXIT_MEMORY : ZOE_EXIT_FAILED,
                          zoe_status_name(written), "%s; the other outputs are complete", message);
    zoe_warn("no report: %s", message);
    return ZOE_EXIT_DONE;
}

/* On a rank other than the first, which shows and tells everything. */
static int run_silently(zoe_context *ctx, zoe_job *job, const view *v)
{
    if (v->request->dry_run)
        return ZOE_EXIT_DONE;
    zoe_message_let_warn(true);
    const zoe_status status = zoe_job_run(ctx, job);
    zoe_message_let_warn(false);
    return status == ZOE_OK ? ZOE_EXIT_DONE : failed_run(ctx, status, v);
}

static int run_job(zoe_context *ctx, zoe_job *job, view *v)
{
    const zoe_request *request = v->request;
    zoe_status status = zoe_job_open(ctx, job);
    if (status == ZOE_OK && request->from)
        status = zoe_record_compare(ctx, request->record, job);
    if (status != ZOE_OK)
        return failed(ctx, status, STAGE_OPEN, request->job.comm);
    if (zoe_comm_rank(request->job.comm) > 0)
        return run_silently(ctx, job, v);
    const zoe_plan *plan = zoe_job_plan(job);
    zoe_report_plan(&request->job, plan, zoe_context_threads(ctx),
                    request->dry_run || request->progress != ZOE_PROGRESS_NONE);
    if (request->dry_run)
        return ZOE_EXIT_DONE;
    if (request->job.report && !(v->page = zoe_page_new(ctx, &request->job, job)))
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    zoe_progress_begin(&v->progress, (zoe_progress_style)request->progress);
    status = zoe_job_run(ctx, job);
    const double seconds = zoe_progress_end(&v->progress, status == ZOE_OK);
    const int written = write_page(ctx, zoe_cancelled(ctx) ? ZOE_CANCELLED : status, v, seconds);
    if (status != ZOE_OK)
        return failed_run(ctx, status, v);
    if (written != ZOE_EXIT_DONE)
        return written;
    zoe_report_done(&request->job, plan, &v->progress, seconds, zoe_job_cache_outcome(job));
    return ZOE_EXIT_DONE;
}

static int generate(zoe_context *ctx, zoe_request *request)
{
    view v = {.request = request};
    zoe_job *job;
    request->job.user = &v;
    if (zoe_comm_rank(request->job.comm) == 0) {
        request->job.progress = on_progress;
        if (request->job.report) {
            request->job.step_done = on_step;
            request->job.frame = on_frame;
        }
        watch_preview(&v, request);
    }
    const zoe_status status = zoe_job_new(ctx, &job, &request->job);
    if (status != ZOE_OK)
        return failed(ctx, status, STAGE_NEW, request->job.comm);
    const int code = run_job(ctx, job, &v);
    zoe_page_free(v.page);
    zoe_job_free(job);
    return code;
}

static int run_request(zoe_request *request, int argc, char **argv, zoe_comm *comm)
{
    zoe_context *ctx =
        zoe_context_new(request->threads ? (int)request->threads : zoe_comm_threads());
    if (!ctx)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    zoe_context_set_log(ctx, on_log, request);
    zoe_interrupt_begin(ctx);
    int code = zoe_request_complete(ctx, request, argc, argv);
    request->job.comm = comm;
    if (code == ZOE_EXIT_DONE)
        code = zoe_launch_suffices(request);
    code = zoe_launch_meet(ctx, comm, code);
    if (code == ZOE_EXIT_DONE && !request->dump_config)
        code = generate(ctx, request);
    else if (code == ZOE_EXIT_DONE && zoe_comm_rank(comm) == 0)
        code = zoe_request_dump(request);
    zoe_interrupt_end();
    zoe_context_free(ctx);
    return code;
}

int zoe_generate_main(int argc, char **argv)
{
    static zoe_request request; /* its parser keeps a long sentence */
    zoe_comm *comm;
    int code = zoe_launch_join(&comm);
    if (code != ZOE_EXIT_DONE)
        return code;
    code = zoe_request_parse(&request, argc, argv);
    if (code == ZOE_EXIT_DONE && !request.help)
        code = run_request(&request, argc, argv, comm);
    else if (code == ZOE_EXIT_DONE && zoe_comm_rank(comm) == 0)
        zoe_command_help(&zoe_generate_command);
    zoe_request_free(&request);
    zoe_launch_leave(comm, code);
    return code;
}
