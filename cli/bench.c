/* zoe bench: how fast the operators and models are on this machine, beside what the machine can do
 * and beside other libraries. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "comm/comm.h"
#include "commands.h"
#include "launch.h"
#include "message.h"
#include "session.h"

#define AT(member) .at = offsetof(bench_request, member)

static const char *const clock_words[] = {"auto", "cpu", "wall", NULL};

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_TEXT, "threads", 't', AT(threads), .value = "LIST",
     .help = "numbers of threads, such as 1,2: rows for each [as many\nas the process may use]"},
    {ZOE_OPTION_TEXT, "filter", 'f', AT(filter), .value = "GLOB",
     .help = "only cases whose name, or whole line \"name types shape\",\nfits: 'linear*', '*1560x*'"},
    {ZOE_OPTION_TEXT, "dtype", AT(dtype), .value = "TYPE",
     .help = "only cases with operands or weights of this type, such\nas f32, bf16, q8_0"},
    {ZOE_OPTION_COUNT, "repeats", AT(repeats), .low = 1, .high = BENCH_REPEATS, .value = "N",
     .help = "how often each is run; the median counts [7; of models 3]"},
    {ZOE_OPTION_WORD, "time", AT(clock), .words = clock_words, .value = "CLOCK",
     .help = "cpu: the time that the process got, which other work on\n"
             "the machine spoils little; wall: the time that passed;\n"
             "auto: cpu with one thread, else wall [auto]"},
    {ZOE_OPTION_LIST, "compare", AT(compare), .at2 = offsetof(bench_request, n_compare), .high = 8,
     .value = "PEER",
     .help = "torch, onednn or openblas, or a list of them: run in turn\nwith ours, where it is installed"},
    {ZOE_OPTION_FLAG, "quick", AT(quick), .help = "one repeat and smaller buffers: to try it out"},
    {ZOE_OPTION_FLAG, "full", AT(full),
     .help = "step, text: run every layer instead of extrapolating"},
    {ZOE_OPTION_FLAG, "json", AT(json), .help = "one JSON object a line"},
    {ZOE_OPTION_FLAG, "table", AT(table), .help = "rows of a Markdown table"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0], LIST = 16 };

static const char *const words[] = {"ops", "step", "vae", "text", NULL};
static zoe_status (*const parts[])(bench *) = {zoe_bench_ops, zoe_bench_step, zoe_bench_vae,
                                               zoe_bench_text};

/* "1,2" into list; 0: it is no such text. */
static size_t read_threads(int *list, const char *text)
{
    size_t n = 0;
    if (!text) {
        list[0] = zoe_comm_threads();
        return 1;
    }
    for (;;) {
        char *end;
        const long value = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
        if (value < 1 || value > 1024 || n == LIST)
            return 0;
        list[n++] = (int)value;
        if (*end == '\0')
            return n;
        if (*end != ',')
            return 0;
        text = end + 1;
    }
}

static bool dtype_exists(const char *name)
{
    for (int t = ZOE_NONE + 1; t < ZOE_DTYPES; t++)
        if (strcmp(name, zoe_dtype_name((zoe_dtype)t)) == 0)
            return true;
    return false;
}

static void free_buffers(bench *b)
{
    zoe_free(b->from);
    zoe_free(b->to);
    b->from = b->to = NULL;
}

static zoe_status run_part(bench *b, size_t part)
{
    if (zoe_cancelled(b->ctx))
        return ZOE_CANCELLED;
    TRY(zoe_bench_peaks(b));
    zoe_bench_peaks_print(b);
    if (part >
        0) { /* no copies any more; memory that a model gives back is kept, as by the peers */
        free_buffers(b);
        malloc_trim(0);
        mallopt(M_MMAP_MAX, 0);
        mallopt(M_TRIM_THRESHOLD, -1);
    }
    const size_t before = b->rows;
    TRY(parts[part](b));
    if (b->rows == before)
        return zoe_fail(
            b->ctx, ZOE_INVALID, "%s%s%s%s%s: no case of %s fits",
            b->request->filter ? "--filter " : "", b->request->filter ? b->request->filter : "",
            b->request->dtype ? " --dtype " : "", b->request->dtype ? b->request->dtype : "",
            b->request->quick ? " --quick" : "", words[part]);
    return ZOE_OK;
}

/* All rows for one number of threads. *printed: how many so far. */
static int run_threads(const bench_request *request, size_t part, int threads, zoe_comm *comm,
                       size_t *printed)
{
    bench b = {.request = request, .comm = comm, .rows = *printed};
    b.ctx = zoe_session_begin((size_t)threads);
    if (!b.ctx)
        return ZOE_EXIT_MEMORY;
    b.threads = zoe_context_threads(b.ctx);
    b.cpu_time =
        request->clock == BENCH_CLOCK_CPU ||
        (request->clock == BENCH_CLOCK_AUTO && b.threads == 1 && !comm); /* waiting counts */
    b.repeats = request->repeats ? request->repeats : request->quick ? 1 : part == 0 ? 7 : 3;
    zoe_bench_peers_start(&b);
    const zoe_status status = run_part(&b, part);
    zoe_bench_peers_stop(&b);
    free_buffers(&b);
    *printed = b.rows;
    return zoe_session_end(b.ctx, status, true);
}

static int run_request(const bench_request *request, size_t part, zoe_comm *comm)
{
    int threads[LIST];
    const size_t n = read_threads(threads, request->threads);
    bench names = {.request = request}; /* no context: names are looked at, nothing is started */
    size_t printed = 0;
    int code = ZOE_EXIT_DONE;
    if (n == 0)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--threads %s: wanted are numbers from 1 to 1024, such as 1,2",
                          request->threads);
    if (request->dtype && !dtype_exists(request->dtype))
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--dtype %s: wanted is a type such as f32, f16, bf16, i8 or q8_0",
                          request->dtype);
    if (!zoe_bench_peers_start(&names))
        return ZOE_EXIT_USAGE;
    for (size_t i = 0; i < n && code == ZOE_EXIT_DONE; i++)
        code = run_threads(request, part, threads[i], comm, &printed);
    return code;
}

static int measure(int argc, char **argv, zoe_comm *comm)
{
    static zoe_options found;
    bench_request request = {0};
    size_t part = 0;
    int code;
    if (!zoe_command_read(&zoe_bench_command, &found, &request, &request.help, argc, argv, &code))
        return code;
    if (request.json && request.table)
        return zoe_refuse_line("--json and --table: one form at a time");
    while (found.operands == 1 && words[part] && strcmp(found.operand[0], words[part]) != 0)
        part++;
    if (found.operands > 1 || !words[part])
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: wanted is one of ops, step, vae and text",
                          found.operand[found.operands - 1]);
    if (comm && parts[part] != zoe_bench_step)
        return zoe_refuse_line("of several ranks, step alone is measured: zoe bench step");
    if (comm && request.n_compare > 0)
        return zoe_refuse_line("--compare: peers run on one rank");
    return run_request(&request, part, comm);
}

/* Ranks share each pass, by Ulysses; the first one prints. */
static int run(int argc, char **argv)
{
    zoe_comm *comm;
    int code = zoe_launch_join(&comm);
    if (code != ZOE_EXIT_DONE)
        return code;
    if (zoe_comm_rank(comm) > 0 && !freopen("/dev/null", "w", stdout))
        code = zoe_refuse(ZOE_EXIT_FAILED, zoe_status_name(ZOE_IO), "/dev/null cannot be opened");
    else
        code = measure(argc, argv, comm);
    zoe_launch_leave(comm, code);
    return code;
}

static const char text[] =
    "ops runs every operator on the shapes of real models, step a pass of the Wan\n"
    "transformers of 1.3B, 5B and 14B, vae the Wan 2.1 autoencoder at 832x480, text the\n"
    "umT5 encoder; all with random weights. Without a word it is ops.\n"
    "\n"
    "First the machine's own peaks are measured: multiply-adds of f32 and of bytes, and\n"
    "reading and copying of more than the caches hold, with plain stores and with such as\n"
    "pass the caches. What is limited by arithmetic is told as a share of the multiply-add\n"
    "peak; convolutions count the multiplications of their definition, so that Winograd's\n"
    "way may be beyond it. What is limited by memory counts each input read once and each\n"
    "output written once, and is told as a share of what the better copy of as many bytes\n"
    "reaches, run in turn with it.\n"
    "\n"
    "A shape is M x N x K of products (rows, outputs, inputs), M x D of what works on rows,\n"
    "Lq x Lk x N x D of attention (queries, keys, heads, head width), M x N x D of what\n"
    "works on heads, T x H x W x Cin x Cout x kt x kh x kw of convolutions. Types are those\n"
    "of the operands and, if they differ, of the weights.\n"
    "\n"
    "Each row is the median; times of step and text are extrapolated from a few layers to\n"
    "all of them, and marked so, unless --full is given. Peers run as processes of their\n"
    "own, with preallocated results and an allocator that keeps its memory, on the same\n"
    "number of threads. The ratio is the peer's time by ours.\n"
    "\n"
    "Under mpirun, step measures a pass that the ranks share by Ulysses, as the first rank sees\n"
    "it: mpirun -n 2 zoe bench step --threads 1.\n"
    "\n"
    "With --json each line has op, dtype, shape, threads, clock, isa, median_s, gflops or\n"
    "gbps, percent (of the peak), peak, target_percent, faults (page faults in what was\n"
    "timed), peer, peer_dtype, peer_median_s and ratio; models also block_s, blocks,\n"
    "blocks_run, extrapolated, buffer_bytes and peak_bytes, and with several ranks ranks. With\n"
    "several peers there is a line for each.\n";

static const char examples[] = "The operators, one and two threads, beside PyTorch:\n"
                               "  zoe bench --threads 1,2 --compare torch\n"
                               "Products with 16-bit weights only:\n"
                               "  zoe bench ops --filter 'linear*' --dtype bf16\n"
                               "A step of the 1.3B transformer:\n"
                               "  zoe bench step --filter 'step_1.3b*'\n";

const zoe_command zoe_bench_command = {
    .name = "bench",
    .summary = "measures operators and models on this machine",
    .usage = "[ops|step|vae|text] [options]",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .operands = ZOE_OPERANDS_WORDS,
    .operand_words = words,
    .run = run,
};
