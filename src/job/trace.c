/* What happened when on all ranks of a run, as one file. */
#include "base/clock.h"
#include "job/ranks.h"

enum { ROUNDS = 8 }; /* of asking for the time: the quickest answer counts */

zoe_status zoe_job_trace_begin(zoe_context *ctx, zoe_job *job)
{
    if (!job->params.trace)
        return ZOE_OK;
    TRY(zoe_trace_new(ctx, &job->trace));
    job->traced = ctx;
    zoe_context_set_trace(ctx, job->trace);
    return ZOE_OK;
}

void zoe_job_trace_end(zoe_job *job)
{
    if (job->traced)
        zoe_context_set_trace(job->traced, NULL);
    zoe_trace_free(job->trace);
    job->trace = NULL;
    job->traced = NULL;
}

/* Sends eight bytes there and gets eight from there, or one of both. */
static zoe_status swap(zoe_context *ctx, zoe_comm *all, size_t rank, double *send, double *recv)
{
    const zoe_piece out = {rank, send, sizeof *send}, in = {rank, recv, sizeof *recv};
    zoe_exchange exchange;
    TRY(zoe_exchange_start(ctx, all, &exchange, &out, send != NULL, &in, recv != NULL, "time"));
    return zoe_exchange_wait(ctx, all, &exchange);
}

/* How many seconds the clock of a rank is ahead of that of the first one: it is asked a few times, and
 * its answer is taken to be from the middle of the quickest round. Both call it. */
static zoe_status find_offset(zoe_context *ctx, const zoe_job *job, size_t rank, double *offset)
{
    const bool asks = zoe_ranks_first(job);
    double best = (double)INFINITY, there = 0.0;
    for (size_t i = 0; i < ROUNDS; i++) {
        const double begun = zoe_now();
        double now = begun;
        if (asks) {
            TRY(swap(ctx, job->ranks.all, rank, &now, NULL));
            TRY(swap(ctx, job->ranks.all, rank, NULL, &there));
        } else {
            TRY(swap(ctx, job->ranks.all, 0, NULL, &there));
            now = zoe_now();
            TRY(swap(ctx, job->ranks.all, 0, &now, NULL));
        }
        const double ended = zoe_now();
        if (asks && ended - begun < best) {
            best = ended - begun;
            *offset = there - (begun + ended) / 2.0;
        }
    }
    return ZOE_OK;
}

/* The events of one other rank, on the first one. */
static zoe_status take_events(zoe_context *ctx, const zoe_job *job, size_t rank)
{
    double offset = 0.0, bytes = 0.0;
    void *data;
    TRY(find_offset(ctx, job, rank, &offset));
    TRY(swap(ctx, job->ranks.all, rank, NULL, &bytes));
    TRY(zoe_alloc(ctx, &data, (size_t)bytes, 1, "trace"));
    const zoe_piece in = {rank, data, (size_t)bytes};
    zoe_exchange exchange;
    zoe_status status =
        zoe_exchange_start(ctx, job->ranks.all, &exchange, NULL, 0, &in, 1, "trace");
    if (status == ZOE_OK)
        status = zoe_exchange_wait(ctx, job->ranks.all, &exchange);
    if (status == ZOE_OK)
        status = zoe_trace_unpack(ctx, job->trace, data, (size_t)bytes, rank, offset);
    zoe_free(data);
    return status;
}

static zoe_status give_events(zoe_context *ctx, const zoe_job *job)
{
    double unused = 0.0;
    void *data;
    size_t size;
    TRY(zoe_trace_pack(ctx, job->trace, &data, &size));
    double bytes = (double)size;
    zoe_status status = find_offset(ctx, job, 0, &unused);
    if (status == ZOE_OK)
        status = swap(ctx, job->ranks.all, 0, &bytes, NULL);
    const zoe_piece out = {0, data, size};
    zoe_exchange exchange;
    if (status == ZOE_OK)
        status = zoe_exchange_start(ctx, job->ranks.all, &exchange, &out, 1, NULL, 0, "trace");
    if (status == ZOE_OK)
        status = zoe_exchange_wait(ctx, job->ranks.all, &exchange);
    zoe_free(data);
    return status;
}

zoe_status zoe_job_trace_write(zoe_context *ctx, zoe_job *job)
{
    if (!job->trace)
        return ZOE_OK;
    zoe_context_set_trace(job->traced, NULL); /* what follows is no part of the run */
    if (!zoe_ranks_first(job))
        return give_events(ctx, job);
    for (size_t rank = 1; rank < job->ranks.count; rank++)
        TRY(take_events(ctx, job, rank));
    return zoe_trace_write(ctx, job->trace, job->params.trace);
}

void zoe_job_trace_keep(zoe_context *ctx, zoe_job *job)
{
    if (!job->trace || !zoe_ranks_first(job))
        return;
    zoe_context_set_trace(job->traced, NULL);
    zoe_context *aside = zoe_context_new(1); /* the job's has the sentence of the failure */
    if (!aside || zoe_trace_write(aside, job->trace, job->params.trace) != ZOE_OK)
        zoe_log(ctx, ZOE_WARNING, "no trace: %s",
                aside ? zoe_context_message(aside) : "memory ran out");
    zoe_context_free(aside);
}
