/* zoe calibrate: TeaCache's polynomial and MagCache's ratios, measured. */
#include "calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "session.h"

const char *const zoe_calibrate_methods[] = {"TeaCache", "MagCache", NULL};
const char *const zoe_calibrate_judges[] = {"modulated", "embedding", "projection", NULL};
const char *const zoe_calibrate_targets[] = {"output", "residual", NULL};

#define AT(member) .at = offsetof(zoe_calibration, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_LIST, "prompt", 'p', AT(prompt), .at2 = offsetof(zoe_calibration, n_prompt),
     .high = ZOE_CALIBRATE_PROMPTS, .value = "TEXT",
     .help = "a prompt to run; again for more\n[that of the request]"},
    {ZOE_OPTION_TEXT, "prompts", AT(prompts), .value = "FILE",
     .help = "the same from a file, one a line, also as PICTURE, a\ntabulator, and the prompt; # begins a remark"},
    {ZOE_OPTION_COUNT, "seeds", AT(seeds), .low = 1, .high = 100, .value = "N",
     .help = "run each prompt with so many seeds [1]",
     .more = "Every run has a seed of its own: that of the request, or 0, and so on, one by one."},
    {ZOE_OPTION_TEXT, "out", 'o', AT(out), .value = "FILE",
     .help = "where the calibration goes, a YAML file for\nzoe generate --config"},
    {ZOE_OPTION_WORD, "method", 'm', AT(method), .words = zoe_calibrate_methods, .value = "NAME",
     .help = "the cache that the file switches on; both stand in it\n[TeaCache]"},
    {ZOE_OPTION_WORD, "judge", AT(judge), .words = zoe_calibrate_judges, .value = "NAME",
     .help = "what TeaCache will compare: modulated, embedding or\nprojection [modulated]"},
    {ZOE_OPTION_WORD, "target", AT(target), .words = zoe_calibrate_targets, .value = "NAME",
     .help = "whose change the polynomial foretells: that of the model's\noutput, or of the residual that "
             "all blocks add [output]"},
    {ZOE_OPTION_REAL, "skip", AT(skip), .low = 0, .high = 1, .value = "SHARE",
     .help = "the thresholds of the file leave out about this share of\nthe steps, at most [0.5]",
     .more = "They are foretold from the samples. Another threshold is set by threshold in the file, or "
             "after the lists of the line for --cache."},
    {ZOE_OPTION_TEXT, "csv", AT(csv), .value = "FILE",
     .help = "all that was measured: a row for each run, step and branch"},
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "number of threads [as many as the process may use]; the\nresult does not depend on it"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "print this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0] };

static int check_line(const zoe_calibration *c)
{
    const zoe_named_path paths[] = {
        {"--out", c->out}, {"--csv", c->csv}, {"--prompts", c->prompts}};
    if (c->n_request == 0)
        return zoe_refuse_line(
            "the request is missing: after --, the options of zoe generate, as in "
            "zoe calibrate --out FILE -- --model DIR --image FILE --prompt TEXT");
    if (!c->out)
        return zoe_refuse_line(
            "--out is missing: the file for the calibration, such as calibration.yaml");
    return zoe_check_paths(paths, 2, sizeof paths / sizeof paths[0]);
}

static void tell(const zoe_calibration *c, const zoe_calibrate_result *r)
{
    zoe_note("wrote %s: TeaCache from %zu samples, R2 %.3f, RMSE %.3g; MagCache from %zu run%s of "
             "%zu steps",
             c->out, r->all.n, r->all.r2, r->all.rmse, c->n, c->n == 1 ? "" : "s", c->steps);
    if (r->all.r2 < 0.5)
        zoe_warn("the polynomial explains little of what was measured (R2 %.3f): rather take a "
                 "method that measures itself, such as FBCache or EasyCache",
                 r->all.r2);
    for (size_t i = 0; i < 2; i++)
        if (r->threshold[i].value == 0.0)
            zoe_note("%s: no threshold leaves out a step and at most %g of the %zu",
                     zoe_calibrate_methods[i], c->skip * (double)c->steps, c->steps);
        else
            zoe_note("%s: threshold %g leaves out about %.0f of %zu steps",
                     zoe_calibrate_methods[i], r->threshold[i].value, r->threshold[i].skipped,
                     c->steps);
    if (r->unfit > 0)
        zoe_warn("%zu measures were no numbers and were left out", r->unfit);
}

static int finish(const zoe_calibration *c, zoe_status *status)
{
    zoe_calibrate_result *r = calloc(1, sizeof *r);
    if (!r)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    *status = zoe_calibrate_fit(c, r);
    if (*status == ZOE_OK)
        *status = zoe_calibrate_write(c, r);
    if (*status == ZOE_OK)
        tell(c, r);
    free(r);
    return ZOE_EXIT_DONE;
}

static int work(zoe_calibration *c, zoe_status *status)
{
    int code = zoe_calibrate_list(c);
    if (code == ZOE_EXIT_DONE)
        code = zoe_calibrate_check(c);
    if (code == ZOE_EXIT_DONE)
        code = zoe_calibrate_run_all(c);
    return code == ZOE_EXIT_DONE ? finish(c, status) : code;
}

static int run_request(zoe_calibration *c)
{
    zoe_status status = ZOE_OK;
    c->ctx = zoe_session_begin(c->threads);
    if (!c->ctx)
        return ZOE_EXIT_MEMORY;
    const int code = work(c, &status);
    zoe_calibrate_free(c);
    const int end = zoe_session_end(c->ctx, status, true);
    return end == ZOE_EXIT_DONE ? code : end;
}

static int run(int argc, char **argv)
{
    static zoe_options found; /* the request stays in it */
    static zoe_calibration c;
    c = (zoe_calibration){.seeds = 1, .skip = 0.5};
    int code;
    if (!zoe_command_read(&zoe_calibrate_command, &found, &c, &c.help, argc, argv, &code))
        return code;
    c.request = found.operand;
    c.n_request = found.operands;
    code = check_line(&c);
    return code == ZOE_EXIT_DONE ? run_request(&c) : code;
}

static const char text[] =
    "After a lone -- stands the request, in the options of zoe generate, without outputs and\n"
    "without --cache. Every prompt is run with it once for each seed, all steps computed, and\n"
    "nothing is decoded. From one step to the next it is measured how much TeaCache's judge,\n"
    "the model's output and the residual of its blocks change, for each branch and within an\n"
    "expert. Least squares give the polynomial of degree 4 that foretells the change of the\n"
    "output from that of the judge; the means over all runs give MagCache's ratios.\n"
    "\n"
    "The figures hold for the model, and MagCache's for the number of steps, solver and shift\n"
    "as well: take those of the runs to come. A few prompts are enough for MagCache; others\n"
    "took some 50 for TeaCache. The file tells how it was made, and how well the polynomial\n"
    "meets the samples. Its section dit_cache is taken by --config, its lines that begin with\n"
    "--cache by the command line. SOURCE_DATE_EPOCH, if it is set, gives the date.\n"
    "\n"
    "Everything is checked before the first run. After Ctrl-C nothing is written.\n";

static const char examples[] =
    "For the demo model, and a run with what was found:\n"
    "  zoe calibrate -p \"a red circle moves right\" -p \"a red circle grows\" \\\n"
    "    --out demo.yaml -- --model models/demo --image examples/red-circle.png \\\n"
    "    --size 64x64 --frames 17 --seed 1\n"
    "  zoe generate --config demo.yaml --model models/demo \\\n"
    "    --image examples/red-circle.png --prompt \"a red circle moves left\" \\\n"
    "    --size 64x64 --frames 17 --out cached.mp4\n";

const zoe_command zoe_calibrate_command = {
    .name = "calibrate",
    .summary = "measures what TeaCache and MagCache need to know of a model",
    .usage = "--out FILE [options] -- OPTIONS OF zoe generate",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .operands = ZOE_OPERANDS_FILES,
    .run = run,
    .alone = true,
};
