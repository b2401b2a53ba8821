/* zoe sweep: what faster settings cost. */
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "session.h"

static const char *const speed_words[] = {"run", "steps", NULL};
static const char *const clock_words[] = {"wall", "cpu", NULL};

#define AT(member) .at = offsetof(zoe_sweep, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_LIST, "setting", 's', AT(setting), .at2 = offsetof(zoe_sweep, n_setting),
     .high = ZOE_SWEEP_SETTINGS - 1, .value = "\"NAME: OPTIONS\"",
     .help = "options of zoe generate that are tried on top of the\nrequest; again for more\n"
             "[a table of step caches and of fewer steps]",
     .more = "OPTIONS are divided at blanks; quotes and backslashes work as in a shell. The name is "
             "what stands before the first colon; options alone are their own name. Of the default "
             "table, what the model refuses is left out, with a note."},
    {ZOE_OPTION_TEXT, "settings", AT(file), .value = "FILE",
     .help = "the same from a file, one a line; # begins a remark"},
    {ZOE_OPTION_COUNT, "repeats", 'r', AT(repeats), .low = 1, .high = ZOE_SWEEP_REPEATS, .value = "N",
     .help = "run everything so often and take medians [3]"},
    {ZOE_OPTION_TEXT, "csv", AT(csv), .value = "FILE",
     .help = "where the table goes [standard output]"},
    {ZOE_OPTION_TEXT, "svg", AT(svg), .value = "FILE",
     .help = "a drawing of it: speed, PSNR, and the Pareto front"},
    {ZOE_OPTION_WORD, "clock", AT(clock), .words = clock_words, .value = "WORD",
     .help = "wall, or cpu for the processor time of the process, with\none thread of a machine that "
             "does other things [wall]"},
    {ZOE_OPTION_WORD, "speed", AT(speed), .words = speed_words, .value = "WORD",
     .help = "what the front and the drawing go by: the whole run, or\nits steps alone [run]",
     .more = "The other stages take the same time in all settings: with small models and short runs "
             "they hide what the steps gain."},
    {ZOE_OPTION_COUNT, "threads", 't', AT(threads), .low = 1, .high = 1024, .value = "N",
     .help = "number of threads [as many as the process may use]"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "print this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0] };

static int check_paths(const zoe_sweep *sweep)
{
    const zoe_named_path paths[] = {
        {"--csv", sweep->csv}, {"--svg", sweep->svg}, {"--settings", sweep->file}};
    return zoe_check_paths(paths, 2, sizeof paths / sizeof paths[0]);
}

static int work(zoe_sweep *sweep)
{
    int code = zoe_sweep_list(sweep);
    if (code == ZOE_EXIT_DONE)
        code = zoe_sweep_check(sweep);
    if (code != ZOE_EXIT_DONE)
        return code;
    zoe_note("%zu settings, %zu time%s each", sweep->n, sweep->repeats,
             sweep->repeats == 1 ? "" : "s");
    code = zoe_sweep_run(sweep);
    if (sweep->settings[0].runs == 0)
        return code;
    /* Of a sweep that was broken off, too. */
    const int written = zoe_sweep_write(sweep);
    return code == ZOE_EXIT_DONE ? written : code;
}

static int run_request(zoe_sweep *sweep)
{
    sweep->ctx = zoe_session_begin(sweep->threads);
    if (!sweep->ctx)
        return ZOE_EXIT_MEMORY;
    const int code = work(sweep);
    zoe_sweep_free(sweep);
    const int end = zoe_session_end(sweep->ctx, ZOE_OK, true);
    return end == ZOE_EXIT_DONE ? code : end;
}

static int run(int argc, char **argv)
{
    static zoe_options found; /* the request stays in it */
    zoe_sweep sweep = {.repeats = 3};
    int code;
    if (!zoe_command_read(&zoe_sweep_command, &found, &sweep, &sweep.help, argc, argv, &code))
        return code;
    sweep.request = found.operand;
    sweep.n_request = found.operands;
    if (found.operands == 0)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "the request is missing: after --, the options of zoe generate, as in "
                          "zoe sweep -- --model DIR --image FILE --prompt TEXT --seed 1");
    code = check_paths(&sweep);
    return code == ZOE_EXIT_DONE ? run_request(&sweep) : code;
}

static const char text[] =
    "After a lone -- stands the request, in the options of zoe generate, without outputs and\n"
    "without --cache: the run that all others are measured by. Each setting is a job of its\n"
    "own with these options and its own ones, one after the other in one process, and all\n"
    "of that --repeats times. Frames must stay equal in size and number.\n"
    "\n"
    "The table has a row a setting: steps, and those of them that computed; seconds of the\n"
    "run and of its steps (medians); both as ratios to the uncached run of this call; PSNR\n"
    "over all frames and mean SSIM against the frames of that run, as zoe compare has them;\n"
    "and 1 for settings on the front: no other one is faster and closer. Everything is\n"
    "checked before the first run. Ctrl-C ends the sweep; what was finished is written.\n"
    "\n"
    "PSNR tells how far the clip is from that of the uncached run, not how good it is: with\n"
    "other steps, solvers or LoRAs a good clip may be far away.\n";

static const char examples[] =
    "What step caches cost the demo model:\n"
    "  zoe sweep --csv table.csv --svg table.svg -- --model models/demo \\\n"
    "    --image examples/red-circle.png --prompt \"a red circle moves right\" \\\n"
    "    --size 64x64 --frames 17 --steps 40 --seed 1\n"
    "A cache against fewer steps:\n"
    "  zoe sweep -s \"cached: --cache EasyCache\" -s \"half: --steps 20\" \\\n"
    "    -- --model Wan2.2-TI2V-5B --prompt \"A cat jumps.\" --seed 7\n";

const zoe_command zoe_sweep_command = {
    .name = "sweep",
    .summary = "measures what step caches and other faster settings cost",
    .usage = "[options] -- OPTIONS OF zoe generate",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .operands = ZOE_OPERANDS_FILES,
    .run = run,
    .alone = true,
};
