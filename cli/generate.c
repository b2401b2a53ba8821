/* zoe generate: one job, from the command line to the closing line. */
#include <stdio.h>

#include "commands.h"
#include "interrupt.h"
#include "message.h"
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
    case ZOE_FORMAT: return at == STAGE_OPEN ? ZOE_EXIT_INPUT : ZOE_EXIT_FAILED;
    case ZOE_NONFINITE:
    case ZOE_PEER:
    case ZOE_DEVICE:
    case ZOE_INTERNAL: break;
    }
    return ZOE_EXIT_FAILED;
}

static int failed(const zoe_context *ctx, zoe_status status, stage at)
{
    /* A system call that the signal broke off may be what failed. */
    if (zoe_cancelled(ctx))
        return zoe_refuse(ZOE_EXIT_INTERRUPTED, zoe_status_name(ZOE_CANCELLED), "interrupted");
    const char *message = zoe_context_message(ctx);
    return zoe_refuse(exit_code_of(status, at), zoe_status_name(status), "%s",
                      *message ? message : zoe_status_name(status));
}

static void on_log(void *user, zoe_level level, const char *text)
{
    const zoe_request *request = user;
    if (level == ZOE_WARNING)
        zoe_warn("%s", text);
    else if (level == ZOE_INFO && request->verbose)
        zoe_note("%s", text);
}

static int run_job(zoe_context *ctx, zoe_job *job, const zoe_request *request,
                   zoe_progress *progress)
{
    zoe_status status = zoe_job_open(ctx, job);
    if (status != ZOE_OK)
        return failed(ctx, status, STAGE_OPEN);
    const zoe_plan *plan = zoe_job_plan(job);
    if (request->dry_run || request->progress != ZOE_PROGRESS_NONE)
        zoe_report_plan(&request->job, plan, zoe_context_threads(ctx));
    if (request->dry_run)
        return ZOE_EXIT_DONE;
    zoe_progress_begin(progress, (zoe_progress_style)request->progress);
    status = zoe_job_run(ctx, job);
    const double seconds = zoe_progress_end(progress, status == ZOE_OK);
    if (status != ZOE_OK)
        return failed(ctx, status, STAGE_RUN);
    zoe_report_done(&request->job, plan, progress, seconds);
    return ZOE_EXIT_DONE;
}

static int generate(zoe_context *ctx, zoe_request *request)
{
    zoe_progress progress = {0};
    zoe_job *job;
    request->job.progress = zoe_progress_update;
    request->job.user = &progress;
    const zoe_status status = zoe_job_new(ctx, &job, &request->job);
    if (status != ZOE_OK)
        return failed(ctx, status, STAGE_NEW);
    const int code = run_job(ctx, job, request, &progress);
    zoe_job_free(job);
    return code;
}

static int run_request(zoe_request *request)
{
    zoe_context *ctx = zoe_context_new((int)request->threads);
    if (!ctx)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    zoe_context_set_log(ctx, on_log, request);
    zoe_interrupt_begin(ctx);
    const int code = generate(ctx, request);
    zoe_interrupt_end();
    zoe_context_free(ctx);
    return code;
}

int zoe_generate_main(int argc, char **argv)
{
    zoe_request request;
    int code = zoe_request_read(&request, argc, argv);
    if (code == ZOE_EXIT_DONE && request.help)
        zoe_command_help(&zoe_generate_command);
    else if (code == ZOE_EXIT_DONE)
        code = run_request(&request);
    zoe_request_free(&request);
    return code;
}
