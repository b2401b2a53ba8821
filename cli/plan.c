/* zoe plan: what a run would be on many ranks. */
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "session.h"

enum { RANKS_MOST = 65536, TABLE_MOST = 1024 };

#define AT(member) .at = offsetof(zoe_planning, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_REALS, "ranks", 'n', AT(ranks), .at2 = offsetof(zoe_planning, n_ranks), .low = 1,
     .high = RANKS_MOST, .value = "N,N,...",
     .help = "how many ranks; one number prints all about them, several a\n"
             "table [1,2,4,... to 1024]"},
    {ZOE_OPTION_COUNT, "cfg-ranks", AT(cfg), .low = 1, .high = 2, .value = "N",
     .help = "as in zoe generate, this and the next three, which may also\n"
             "stand after the -- [what is quickest, but 2 if it can be]"},
    {ZOE_OPTION_COUNT, "ulysses", AT(ulysses), .low = 1, .high = RANKS_MOST, .value = "N",
     .help = "[what is quickest]"},
    {ZOE_OPTION_COUNT, "ring", AT(ring), .low = 1, .high = RANKS_MOST, .value = "N",
     .help = "[what is quickest]"},
    {ZOE_OPTION_COUNT, "vae-ranks", AT(vae), .low = 1, .high = RANKS_MOST, .value = "N",
     .help = "[all]"},
    {ZOE_OPTION_COUNT, "threads-per-rank", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "threads of a rank: kernels are timed with so many [as many\n"
             "as the process may use]"},
    {ZOE_OPTION_REAL, "bandwidth", AT(bandwidth), .low = 0.001, .high = 100000, .value = "GB/S",
     .help = "what a rank can send, and receive, in 10^9 bytes a second\n[10]"},
    {ZOE_OPTION_REAL, "latency", AT(latency), .low = 0, .high = 1e6, .value = "US",
     .help = "microseconds that each message costs [20]"},
    {ZOE_OPTION_BYTES, "memory", 'm', AT(memory), .low = 1, .value = "BYTES",
     .help = "of a rank: layouts that fit are taken before others, and\n"
             "what does not fit is marked [any]"},
    {ZOE_OPTION_FLAG, "json", AT(json), .help = "print one JSON object"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "print this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0] };

/* ---- the request ---- */

static void pass_over(void *user, size_t frame, const unsigned char *rgb, size_t width,
                      size_t height)
{
    (void)user, (void)frame, (void)rgb, (void)width, (void)height;
}

/* Numbers of ranks belong to the plan: the job itself is one of a single rank. */
static void take_layout(zoe_planning *plan)
{
    zoe_job_params *p = &plan->line->job;
    size_t *const own[] = {&plan->cfg, &plan->ulysses, &plan->ring, &plan->vae, &plan->memory};
    size_t *const given[] = {&p->cfg_ranks, &p->ulysses, &p->ring, &p->vae_ranks, &p->memory};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (!*own[i])
            *own[i] = *given[i];
        *given[i] = 0;
    }
    p->memory = ZOE_JOB_ENDLESS;
    p->frame = pass_over;
}

static int read_request(zoe_planning *plan, char **argv)
{
    zoe_request *line = plan->line;
    const int argc = (int)plan->n_request + 1;
    int code = zoe_request_parse(line, argc, argv);
    if (code != ZOE_EXIT_DONE)
        return code;
    const char *single = zoe_request_single(line);
    if (line->help)
        return zoe_refuse_line("--help: give it before the --, or ask zoe generate");
    if (single)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--%s: a plan runs nothing; leave it out of the line, or of the file of "
                          "--config",
                          single);
    if (zoe_request_gave(line, "threads"))
        return zoe_refuse_line("--threads: give --threads-per-rank, before the --");
    line->no_output = true;
    code = zoe_request_complete(plan->ctx, line, argc, argv);
    take_layout(plan);
    return code;
}

static int failed(const zoe_planning *plan, zoe_status status, bool opened)
{
    const int code = status == ZOE_NOMEM                ? ZOE_EXIT_MEMORY
                     : !opened || status == ZOE_INVALID ? ZOE_EXIT_USAGE
                                                        : ZOE_EXIT_INPUT;
    if (zoe_cancelled(plan->ctx))
        return ZOE_EXIT_INTERRUPTED;
    return zoe_refuse(code, zoe_status_name(status), "%s", zoe_context_message(plan->ctx));
}

static int open_job(zoe_planning *plan)
{
    zoe_status status = zoe_job_new(plan->ctx, &plan->job, &plan->line->job);
    if (status != ZOE_OK)
        return failed(plan, status, false);
    status = zoe_job_open(plan->ctx, plan->job);
    if (status == ZOE_OK)
        status = zoe_forecast_new(plan->ctx, &plan->forecast, plan->job);
    return status == ZOE_OK ? ZOE_EXIT_DONE : failed(plan, status, true);
}

/* ---- rows ---- */

static void add(zoe_rank_sent *most, zoe_rank_sent *sum, const zoe_rank_sent *one)
{
    uint64_t values[sizeof *one / sizeof(uint64_t)], tops[sizeof *one / sizeof(uint64_t)],
        sums[sizeof *one / sizeof(uint64_t)];
    _Static_assert(sizeof *one % sizeof(uint64_t) == 0, "it is made of numbers of one kind");
    memcpy(values, one, sizeof values);
    memcpy(tops, most, sizeof tops);
    memcpy(sums, sum, sizeof sums);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        tops[i] = values[i] > tops[i] ? values[i] : tops[i];
        sums[i] += values[i];
    }
    memcpy(most, tops, sizeof tops);
    memcpy(sum, sums, sizeof sums);
}

/* What the ranks of one host hold together in each phase. */
typedef struct host_bytes {
    size_t weights[ZOE_PHASE_COUNT], work[ZOE_PHASE_COUNT];
} host_bytes;

static size_t plus(size_t a, size_t b)
{
    size_t n;
    return zoe_size_add(&n, a, b) ? n : SIZE_MAX;
}

/* Weights that all map are there once; of those that are shared out each has its part. */
static void add_rank(host_bytes *host, const zoe_rank_bytes *rank, bool shards)
{
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        host->work[i] = plus(host->work[i], rank->work[i]);
        if (shards && i == ZOE_PHASE_STEPS)
            host->weights[i] = plus(host->weights[i], rank->weights[i]);
        else if (rank->weights[i] > host->weights[i])
            host->weights[i] = rank->weights[i];
    }
}

/* All ranks of a layout. */
static zoe_status count_ranks(const zoe_planning *plan, zoe_planned *row)
{
    host_bytes host = {{0}, {0}};
    for (size_t r = 0; r < row->ranks; r++) {
        zoe_rank_bytes bytes;
        zoe_rank_sent sent;
        TRY(zoe_check_cancel(plan->ctx));
        zoe_forecast_bytes(plan->forecast, &row->layout, r, &bytes);
        zoe_forecast_sent(plan->forecast, &row->layout, r, &sent);
        const zoe_peaks_of_rank peaks = zoe_rank_peaks(&bytes);
        if (r == 0 || peaks.resident > row->peaks.resident) {
            row->largest = r;
            row->bytes = bytes;
            row->peaks = peaks;
        }
        add(&row->most, &row->sum, &sent);
        add_rank(&host, &bytes, plan->line->job.shard_weights);
    }
    for (size_t i = 0; i < ZOE_PHASE_COUNT; i++) {
        const size_t all = plus(host.weights[i], host.work[i]);
        row->together = all > row->together ? all : row->together;
    }
    return ZOE_OK;
}

/* What of a step is more than a fair share of the work of one rank, and by whose fault. */
static const char *limit_of(const zoe_planned *row, const zoe_run_time *one)
{
    const double n = (double)row->ranks;
    const zoe_pass_time *t = &row->time.pass, *o = &one->pass;
    const double rows_time = (t->products - t->weights) + t->attention;
    const double shares = (double)row->layout.cfg / n; /* of a pass, if it were dealt evenly */
    const struct {
        const char *name;
        double seconds;
    } faults[] = {
        {"going through the weights", t->weights - o->weights * shares},
        {"uneven shares", rows_time - ((o->products - o->weights) + o->attention) * shares},
        {"Ulysses", t->ulysses},
        {"the ring", t->ring},
        {"gathering the output", t->head},
        {"shared weights", row->time.weights},
        {"CFG ranks", row->time.branches},
    };
    double all = 0.0, most = 0.0;
    const char *name = t->attention > t->products ? "attention" : "products";
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        all += faults[i].seconds > 0 ? faults[i].seconds : 0;
    if (all < 0.05 * t->total)
        return name;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (faults[i].seconds > most) {
            most = faults[i].seconds;
            name = faults[i].name;
        }
    return name;
}

static zoe_status fill_row(const zoe_planning *plan, zoe_planned *row, size_t ranks)
{
    const zoe_layout wanted = {plan->cfg, plan->ulysses, plan->ring, plan->vae};
    const zoe_layout alone = {1, 1, 1, 1};
    zoe_run_time one;
    *row = (zoe_planned){.ranks = ranks};
    TRY(zoe_forecast_choose(plan->ctx, plan->forecast, ranks, &wanted, &plan->speeds, plan->memory,
                            &row->layout));
    zoe_forecast_time(plan->forecast, &alone, &plan->speeds, &one);
    zoe_forecast_time(plan->forecast, &row->layout, &plan->speeds, &row->time);
    row->efficiency = one.step / ((double)ranks * row->time.step);
    row->limit = limit_of(row, &one);
    return count_ranks(plan, row);
}

/* The numbers of ranks that are asked for: given, told by a layout, or those of the table. */
static int list_ranks(zoe_planning *plan)
{
    if (plan->n_ranks > 0)
        return ZOE_EXIT_DONE;
    const double product = (double)plan->cfg * (double)plan->ulysses * (double)plan->ring;
    if (product > RANKS_MOST)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--cfg-ranks, --ulysses and --ring make %.0f ranks; %d are the most",
                          product, (int)RANKS_MOST);
    if (product > 0)
        plan->ranks[plan->n_ranks++] = product;
    for (size_t n = 1; n <= TABLE_MOST && product == 0; n *= 2)
        plan->ranks[plan->n_ranks++] = (double)n;
    return ZOE_EXIT_DONE;
}

static int print(const zoe_planning *plan, const zoe_planned *planned, size_t n, bool table)
{
    if (plan->json)
        return zoe_plan_print_json(plan, planned, n);
    if (table)
        zoe_plan_print_table(plan, planned, n);
    else
        zoe_plan_print_one(plan, planned);
    return ZOE_EXIT_DONE;
}

/* Rows that no layout suits are passed over in a table that was not asked for by its numbers. */
static int make_rows(zoe_planning *plan)
{
    const bool given = plan->n_ranks > 0;
    int code = list_ranks(plan);
    if (code != ZOE_EXIT_DONE)
        return code;
    zoe_planned *planned = calloc(plan->n_ranks, sizeof *planned);
    zoe_status status = planned ? zoe_plan_measure(plan) : ZOE_NOMEM;
    size_t n = 0;
    for (size_t i = 0; i < plan->n_ranks && status == ZOE_OK; i++) {
        status = fill_row(plan, &planned[n], (size_t)plan->ranks[i]);
        n += status == ZOE_OK;
        if (status == ZOE_INVALID && !given && i + 1 < plan->n_ranks) {
            zoe_context_clear(plan->ctx);
            status = ZOE_OK;
        }
    }
    code =
        status == ZOE_OK ? print(plan, planned, n, plan->n_ranks > 1) : failed(plan, status, true);
    free(planned);
    return code;
}

static int work(zoe_planning *plan, char **argv)
{
    int code = read_request(plan, argv);
    if (code == ZOE_EXIT_DONE)
        code = open_job(plan);
    if (code == ZOE_EXIT_DONE)
        code = make_rows(plan);
    zoe_forecast_free(plan->forecast);
    zoe_job_free(plan->job);
    zoe_request_free(plan->line);
    return code;
}

static int run_request(zoe_planning *plan)
{
    static char name[] = "generate";
    int code = ZOE_EXIT_DONE;
    char **argv = calloc(plan->n_request + 2, sizeof *argv);
    plan->line = calloc(1, sizeof *plan->line);
    plan->ctx = zoe_session_begin(plan->threads);
    if (plan->ctx && (!argv || !plan->line))
        code = zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    else if (plan->ctx) {
        argv[0] = name;
        for (size_t i = 0; i < plan->n_request; i++)
            argv[i + 1] = (char *)(uintptr_t)plan->request[i];
        code = work(plan, argv);
    }
    if (plan->ctx) {
        const int end = zoe_session_end(plan->ctx, ZOE_OK, true);
        code = end == ZOE_EXIT_DONE ? code : end;
    } else {
        code = ZOE_EXIT_MEMORY;
    }
    free(plan->line);
    free(argv);
    return code;
}

static int check_line(const zoe_planning *plan)
{
    for (size_t i = 0; i < plan->n_ranks; i++)
        if (plan->ranks[i] != floor(plan->ranks[i]))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "--ranks %g: a whole number is wanted", plan->ranks[i]);
    if (plan->n_request == 0)
        return zoe_refuse_line(
            "the request is missing: after --, the options of zoe generate, as in "
            "zoe plan --ranks 8 -- --model DIR --image FILE --prompt TEXT");
    return ZOE_EXIT_DONE;
}

static int run(int argc, char **argv)
{
    static zoe_options found; /* the request stays in it */
    zoe_planning plan = {.bandwidth = 10, .latency = 20};
    int code;
    if (!zoe_command_read(&zoe_plan_command, &found, &plan, &plan.help, argc, argv, &code))
        return code;
    plan.request = found.operand;
    plan.n_request = found.operands;
    code = check_line(&plan);
    return code == ZOE_EXIT_DONE ? run_request(&plan) : code;
}

static const char text[] =
    "After a lone -- stands the request, in the options of zoe generate, without outputs.\n"
    "Headers of the model's files are read and nothing is run but, for about a second, the\n"
    "kernels at this model's shapes, on this machine; other machines need not be there.\n"
    "\n"
    "Bytes sent are those of a run, exactly: each rank's payload, without what the transport\n"
    "adds. With --cache, it is a run that leaves out nothing. A time is an estimate: products\n"
    "and attention at the measured speeds, on the rank with most to do; each message costs\n"
    "the latency, each byte the bandwidth; of a ring, what lies under attention is free. The\n"
    "weights are in memory already. Efficiency is that of a step: 100 % is one rank's time\n"
    "divided by the ranks. docs/PARALLEL.md has what the layouts mean.\n";

static const char examples[] =
    "Which layout, on 16 machines with 25 GB/s:\n"
    "  zoe plan --ranks 16 --bandwidth 25 --latency 5 -- --model Wan2.2-I2V-A14B \\\n"
    "    --image cat.png --prompt \"A cat jumps.\" --size 832x480\n"
    "The demo model, up to 1024 ranks, and 8 of them in a layout of one's own:\n"
    "  zoe plan -- --model models/demo --image examples/red-circle.png \\\n"
    "    --prompt \"a red circle moves right\" --size 64x64 --frames 17\n"
    "  zoe plan --ranks 8 --cfg-ranks 2 --ulysses 2 --ring 2 -- --model models/demo \\\n"
    "    --image examples/red-circle.png --prompt \"a red circle moves right\" \\\n"
    "    --size 64x64 --frames 17\n";

const zoe_command zoe_plan_command = {
    .name = "plan",
    .summary = "tells what a run would be on many ranks: memory, messages, time",
    .usage = "[options] -- OPTIONS OF zoe generate",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .operands = ZOE_OPERANDS_FILES,
    .run = run,
    .alone = true,
};
