/* Time, medians, and the peaks of this machine. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "kernel/peak.h"

enum { RUNNERS = 1 + 2 + BENCH_PEERS };

/* A timed part lasts at least so long, and what is shorter than a turn gets a call before it: the
 * caches hold what the others left. */
static const double part_seconds = 4e-3, turn_seconds = 0.2;

double zoe_bench_now(const bench *b)
{
    struct timespec t;
    clock_gettime(b->cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t faults_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_minflt;
}

zoe_status zoe_bench_time_ours(bench *b, void *self, size_t calls, double *seconds)
{
    const bench_ours *ours = self;
    const size_t faults = faults_now();
    const double begin = zoe_bench_now(b);
    for (size_t i = 0; i < calls; i++)
        TRY(ours->run(b->ctx, ours->self));
    *seconds = zoe_bench_now(b) - begin;
    b->faults += faults_now() - faults;
    return zoe_check_cancel(b->ctx);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* Threads that still spin after the last part would take the cores of the next. */
static void settle(const bench *b)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    if (b->threads > 1)
        nanosleep(&pause, NULL);
}

/* Untimed calls; how many calls make a part, and how long one takes. */
static zoe_status warm(bench *b, const bench_runner *r, size_t *calls, double *once)
{
    TRY(r->time(b, r->self, 1, once));
    TRY(zoe_comm_max(b->ctx, b->comm, once, 1)); /* or ranks would decide differently */
    if (*once < turn_seconds)
        TRY(r->time(b, r->self, 1, once));
    TRY(zoe_comm_max(b->ctx, b->comm, once, 1));
    const double wanted = part_seconds / (*once + 1e-8);
    *calls = b->request->quick || wanted < 1 ? 1 : (size_t)wanted + 1;
    return ZOE_OK;
}

zoe_status zoe_bench_in_turn(bench *b, bench_runner *runners, size_t n, size_t repeats)
{
    size_t calls[RUNNERS];
    double once[RUNNERS], seconds[RUNNERS][BENCH_REPEATS];
    for (size_t i = 0; i < n; i++)
        TRY(warm(b, &runners[i], &calls[i], &once[i]));
    b->faults = 0;
    for (size_t r = 0; r < repeats; r++)
        for (size_t i = 0; i < n; i++) {
            double ignored;
            settle(b);
            if (once[i] < turn_seconds && n > 1)
                TRY(runners[i].time(b, runners[i].self, 1, &ignored));
            TRY(runners[i].time(b, runners[i].self, calls[i], &seconds[i][r]));
            seconds[i][r] /= (double)calls[i];
        }
    for (size_t i = 0; i < n; i++)
        runners[i].seconds = median(seconds[i], repeats);
    return ZOE_OK;
}

/* ---- values ---- */

zoe_status zoe_bench_fill(zoe_context *ctx, void **data, zoe_dtype dtype, size_t n)
{
    static uint32_t state = 1; /* the same values in every process */
    const size_t bytes = zoe_run_bytes(dtype, n);
    TRY(zoe_alloc(ctx, data, bytes, 1, "operands of a benchmark"));
    uint8_t *byte = *data;
    if (dtype == ZOE_I8 || dtype == ZOE_I32 || zoe_block_elements(dtype) > 1) {
        for (size_t i = 0; i < bytes; i++) { /* of blocks: bytes that keep every f16 field small */
            state = state * 1664525u + 1013904223u;
            byte[i] = state >> 24 & 0x37;
        }
        return ZOE_OK;
    }
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        const float v = (float)(state >> 8) * 0x1p-23f - 1.0f;
        if (zoe_dtype_bytes(dtype) == 1)
            byte[i] = (uint8_t)((state >> 24) % 0x38 | (state >> 9 & 0x80));
        else
            zoe_store_f32(*data, dtype, i, v);
    }
    return ZOE_OK;
}

/* ---- peaks ---- */

typedef struct peak_job {
    bench *b;
    zoe_peaks peaks;
    enum { FMA, INT8, READ, COPY, STREAM } what;
    size_t rounds; /* of loops */
    size_t bytes;  /* of copies, by all threads */
} peak_job;

static volatile float sink;

/* The part of one thread. */
static void peak_task(void *arg, size_t i, size_t worker)
{
    const peak_job *j = arg;
    const size_t threads = (size_t)j->b->threads, piece = j->bytes / threads / 256 * 256;
    const size_t first = i * piece, bytes = i + 1 == threads ? j->bytes - first : piece;
    char *to = (char *)j->b->to + first;
    const char *from = (const char *)j->b->from + first;
    (void)worker;
    switch (j->what) {
    case FMA: j->peaks.fma_f32(j->rounds); break;
    case INT8: j->peaks.mul_int8(j->rounds); break;
    case READ: sink = j->peaks.read(from, bytes); break;
    case COPY: j->peaks.copy(to, from, bytes); break;
    case STREAM: j->peaks.copy_stream(to, from, bytes); break;
    }
}

static zoe_status peak_run(zoe_context *ctx, void *self)
{
    peak_job *j = self;
    zoe_parallel_for(ctx, (size_t)j->b->threads, peak_task, j);
    return ZOE_OK;
}

bench_copy zoe_bench_copy_of(const bench *b, double bytes, bool stream)
{
    const size_t half = (size_t)(bytes / 2) / 256 * 256;
    const size_t most = b->buffer_bytes;
    return (bench_copy){.bytes = half < 256 ? 256 : half > most ? most : half, .stream = stream};
}

zoe_status zoe_bench_time_copy(bench *b, void *self, size_t calls, double *seconds)
{
    const bench_copy *copy = self;
    peak_job job = {.b = b,
                    .peaks = zoe_peaks_get(),
                    .what = copy->stream ? STREAM : COPY,
                    .bytes = copy->bytes};
    bench_ours ours = {peak_run, &job};
    const size_t faults = b->faults;
    TRY(zoe_bench_time_ours(b, &ours, calls, seconds));
    b->faults = faults;
    return ZOE_OK;
}

/* Rounds that last for about 20 ms, 2 ms if it is to be quick. */
static void find_rounds(bench *b, peak_job *job)
{
    const double wanted = b->request->quick ? 2e-3 : 2e-2;
    for (job->rounds = 1000; job->rounds < SIZE_MAX / 4; job->rounds *= 2) {
        const double begin = zoe_bench_now(b);
        peak_task(job, 0, 0);
        if (zoe_bench_now(b) - begin >= wanted)
            return;
    }
}

/* Work a second of the whole team. */
static zoe_status find_peak(bench *b, peak_job *job, double work, double *rate)
{
    bench_ours ours = {peak_run, job};
    bench_runner runner = {zoe_bench_time_ours, &ours, 0};
    TRY(zoe_bench_in_turn(b, &runner, 1, b->request->quick ? 1 : 9));
    *rate = work / runner.seconds;
    return ZOE_OK;
}

static zoe_status find_loop_peak(bench *b, peak_job *job, size_t work_of_a_round, double *rate)
{
    find_rounds(b, job);
    return find_peak(b, job, (double)job->rounds * (double)work_of_a_round * (double)b->threads,
                     rate);
}

/* Bytes of the last cache; 32 MiB if that is not known. */
static size_t last_cache(void)
{
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : (size_t)32 << 20;
}

zoe_status zoe_bench_peaks(bench *b)
{
    const bool quick = b->request->quick;
    const size_t least = (size_t)(quick ? 32 : 256) << 20, most = (size_t)(quick ? 64 : 512) << 20;
    const size_t wish = 4 * last_cache();
    b->buffer_bytes = wish < least ? least : wish > most ? most : wish / 256 * 256;
    TRY(zoe_alloc(b->ctx, &b->from, b->buffer_bytes, 1, "buffer of a benchmark"));
    TRY(zoe_alloc(b->ctx, &b->to, b->buffer_bytes, 1, "buffer of a benchmark"));
    memset(b->from, 1, b->buffer_bytes);
    memset(b->to, 2, b->buffer_bytes);
    peak_job job = {.b = b, .peaks = zoe_peaks_get(), .bytes = b->buffer_bytes};
    const double bytes = (double)b->buffer_bytes;
    job.what = FMA;
    TRY(find_loop_peak(b, &job, job.peaks.fma_f32_work, &b->peak.fma_f32));
    job.what = INT8;
    TRY(find_loop_peak(b, &job, job.peaks.mul_int8_work, &b->peak.mul_int8));
    job.what = READ;
    TRY(find_peak(b, &job, bytes, &b->peak.read));
    job.what = COPY;
    TRY(find_peak(b, &job, 2 * bytes, &b->peak.copy));
    job.what = STREAM;
    return find_peak(b, &job, 2 * bytes, &b->peak.copy_stream);
}
