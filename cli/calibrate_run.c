/* The runs of a calibration. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "calibrate.h"
#include "commands.h"
#include "job/job.h"
#include "message.h"

static int no_memory(void)
{
    return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
}

/* ---- the list ---- */

static char *word(const char *text)
{
    return (char *)(uintptr_t)text; /* only read */
}

/* A prompt, with all its seeds. NULL: that of the request. */
static int add(zoe_calibration *c, const char *image, const char *prompt)
{
    for (size_t k = 0; k < c->seeds; k++) {
        if (c->n == ZOE_CALIBRATE_RUNS)
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "more than %d runs: fewer prompts or --seeds are wanted",
                              ZOE_CALIBRATE_RUNS);
        zoe_calibrate_run *r = &c->run[c->n];
        *r = (zoe_calibrate_run){.image = image, .prompt = prompt, .repeat = c->n};
        r->argv = calloc(c->n_request + 6, sizeof *r->argv);
        if (!r->argv)
            return no_memory();
        c->n++;
        r->argv[r->argc++] = word("generate");
        for (size_t i = 0; i < c->n_request; i++)
            r->argv[r->argc++] = word(c->request[i]);
        if (prompt) {
            r->argv[r->argc++] = word("--prompt");
            r->argv[r->argc++] = word(prompt);
        }
        if (image) {
            r->argv[r->argc++] = word("--image");
            r->argv[r->argc++] = word(image);
        }
    }
    return ZOE_EXIT_DONE;
}

/* "PROMPT" or "PICTURE<TAB>PROMPT". */
static int add_line(zoe_calibration *c, char *text, size_t number)
{
    char *tab = strchr(text, '\t');
    if (text[0] == '#' || text[strspn(text, " \t")] == '\0')
        return ZOE_EXIT_DONE;
    if (!tab)
        return add(c, NULL, text);
    *tab = '\0';
    if (tab == text || tab[1] == '\0' || strchr(tab + 1, '\t'))
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s:%zu: a line is a prompt, or a picture, one tabulator and a prompt",
                          c->prompts, number);
    return add(c, text, tab + 1);
}

static int add_file(zoe_calibration *c)
{
    enum { LIMIT = 1 << 20 };
    size_t size, number = 1;
    const zoe_status status = zoe_file_read(c->ctx, &c->lines, &size, c->prompts, LIMIT);
    if (status != ZOE_OK)
        return zoe_refuse(status == ZOE_NOMEM ? ZOE_EXIT_MEMORY : ZOE_EXIT_INPUT,
                          zoe_status_name(status), "--prompts: %s", zoe_context_message(c->ctx));
    if (strlen(c->lines) != size)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: a zero byte at %zu; a text is wanted", c->prompts, strlen(c->lines));
    const size_t before = c->n;
    int code = ZOE_EXIT_DONE;
    char *begin = c->lines;
    if (strncmp(begin, "\xef\xbb\xbf", 3) == 0)
        begin += 3; /* a byte order mark */
    for (char *at = begin, *end; at && code == ZOE_EXIT_DONE; at = end, number++) {
        end = strchr(at, '\n');
        if (end)
            *end++ = '\0';
        at[strcspn(at, "\r")] = '\0';
        code = add_line(c, at, number);
    }
    if (code == ZOE_EXIT_DONE && c->n == before)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s: no prompt in it",
                          c->prompts);
    return code;
}

int zoe_calibrate_list(zoe_calibration *c)
{
    int code = ZOE_EXIT_DONE;
    c->run = calloc(ZOE_CALIBRATE_RUNS, sizeof *c->run);
    c->line = calloc(1, sizeof *c->line);
    if (!c->run || !c->line)
        return no_memory();
    for (size_t i = 0; i < c->n_prompt && code == ZOE_EXIT_DONE; i++)
        code = add(c, NULL, c->prompt[i]);
    if (code == ZOE_EXIT_DONE && c->prompts)
        code = add_file(c);
    return code == ZOE_EXIT_DONE && c->n == 0 ? add(c, NULL, NULL) : code;
}

void zoe_calibrate_free(zoe_calibration *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->run[i].argv);
    free(c->run);
    free(c->line);
    free(c->made);
    free(c->samples);
    zoe_free(c->lines);
}

/* ---- a job from a line ---- */

/* Where a job failed: zoe_job_new knows the line alone, zoe_job_open the files. */
typedef enum stage { STAGE_NEW, STAGE_OPEN, STAGE_RUN } stage;

static int failed(const zoe_calibration *c, size_t run, zoe_status status, stage at)
{
    const int code = status == ZOE_NOMEM                        ? ZOE_EXIT_MEMORY
                     : at == STAGE_RUN                          ? ZOE_EXIT_FAILED
                     : at == STAGE_NEW || status == ZOE_INVALID ? ZOE_EXIT_USAGE
                                                                : ZOE_EXIT_INPUT;
    /* The session tells of an interrupt. */
    if (zoe_cancelled(c->ctx))
        return ZOE_EXIT_INTERRUPTED;
    return zoe_refuse(code, zoe_status_name(status), "run %zu of %zu: %s", run + 1, c->n,
                      zoe_context_message(c->ctx));
}

static void on_progress(void *user, zoe_phase phase, size_t done, size_t total);
static void on_change(void *user, size_t step, bool low_noise, size_t branch,
                      const zoe_cache_change *change);

static int check_request(zoe_request *line)
{
    const char *single = zoe_request_single(line);
    if (single)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--%s: the runs of a calibration write nothing and are shown in one way; "
                          "leave it out of the line, or of the file of --config",
                          single);
    if (zoe_request_gave(line, "threads"))
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--threads is the same for all runs: give it before the --");
    line->no_output = true;
    return ZOE_EXIT_DONE;
}

static int check_numbers(const zoe_request *line)
{
    enum { FEWEST = 10, MOST = ZOE_CACHE_RATIOS / 2 };
    const zoe_job_params *p = &line->job;
    if (p->cache && strcmp(p->cache, "NoCache") != 0)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--cache %s: what a step cache needs to know is measured without one; "
                          "leave it out",
                          p->cache);
    if (p->steps < FEWEST || p->steps > MOST)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--steps %zu: %d to %d are wanted: with fewer no step cache works, and "
                          "MagCache's table holds no more",
                          p->steps, FEWEST, MOST);
    if (p->seed > INT64_MAX - ZOE_CALIBRATE_RUNS)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--seed %" PRId64 ": the runs count on from it, and it is too large",
                          p->seed);
    return ZOE_EXIT_DONE;
}

/* The request of a run, in c->line; zoe_request_free in any case. */
static int read_line(zoe_calibration *c, size_t run)
{
    const zoe_calibrate_run *r = &c->run[run];
    zoe_request *line = c->line;
    int code = zoe_request_parse(line, r->argc, r->argv);
    if (code == ZOE_EXIT_DONE && line->help)
        code = zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--help: give it before the --, or ask zoe generate");
    if (code == ZOE_EXIT_DONE)
        code = check_request(line);
    if (code == ZOE_EXIT_DONE)
        code = zoe_request_complete(c->ctx, line, r->argc, r->argv);
    if (code == ZOE_EXIT_DONE)
        code = check_numbers(line);
    if (code != ZOE_EXIT_DONE)
        return code;
    if (run == 0)
        c->seed = line->job.seed < 0 ? 0 : line->job.seed;
    line->job.seed = c->seed + (int64_t)r->repeat;
    line->job.progress = on_progress;
    line->job.changed = on_change;
    return ZOE_EXIT_DONE;
}

/* ---- before the work ---- */

/* What is written must be no file that is read. */
static zoe_status check_places(zoe_calibration *c)
{
    const char *const files[] = {c->out, c->csv};
    zoe_job *job;
    for (size_t i = 0; i < 2; i++) {
        if (zoe_places_meet(files[i], c->line->config))
            return zoe_fail(c->ctx, ZOE_INVALID,
                            "%s is the file of --config; another name is wanted", files[i]);
        c->line->job.report = files[i];
        TRY(zoe_job_new(c->ctx, &job, &c->line->job));
        zoe_job_free(job);
    }
    c->line->job.report = NULL;
    return ZOE_OK;
}

static int check_run(zoe_calibration *c, size_t run, FILE *made)
{
    zoe_job *job = NULL;
    int code = read_line(c, run);
    if (code != ZOE_EXIT_DONE)
        return code;
    zoe_status status = check_places(c);
    if (status == ZOE_OK)
        status = zoe_job_new(c->ctx, &job, &c->line->job);
    const stage at = status == ZOE_OK ? STAGE_OPEN : STAGE_NEW;
    if (status == ZOE_OK)
        status = zoe_job_open(c->ctx, job);
    if (status == ZOE_OK && run == 0)
        status = zoe_sources_weights(c->ctx, job);
    if (status != ZOE_OK) {
        code = failed(c, run, status, at);
    } else {
        if (run == 0) {
            c->plan = *zoe_job_plan(job);
            c->steps = c->line->job.steps;
            zoe_calibrate_note_model(made, c, job);
        }
        zoe_calibrate_note_run(made, c);
    }
    zoe_job_free(job);
    return code;
}

int zoe_calibrate_check(zoe_calibration *c)
{
    int code = ZOE_EXIT_DONE;
    FILE *made = open_memstream(&c->made, &c->made_size);
    if (!made)
        return no_memory();
    for (size_t i = 0; i < c->n && code == ZOE_EXIT_DONE; i++) {
        code = check_run(c, i, made);
        zoe_request_free(c->line);
    }
    const bool broken = ferror(made) != 0;
    if ((fclose(made) != 0 || broken) && code == ZOE_EXIT_DONE)
        return no_memory();
    return code;
}

/* ---- the work ---- */

static void on_progress(void *user, zoe_phase phase, size_t done, size_t total)
{
    const zoe_calibration *c = user;
    char line[120];
    if (!zoe_message_on_terminal() || zoe_message_is_json())
        return;
    snprintf(line, sizeof line, "run %zu/%zu: %s %zu/%zu", c->finished + 1, c->n,
             zoe_phase_name(phase), done, total);
    zoe_live_line(line);
}

static void on_change(void *user, size_t step, bool low_noise, size_t branch,
                      const zoe_cache_change *change)
{
    zoe_calibration *c = user;
    c->samples[(c->finished * c->steps + step) * 2 + branch] =
        (zoe_sample){.seen = true, .low_noise = low_noise, .change = *change};
}

static int run_one(zoe_calibration *c)
{
    zoe_job *job = NULL;
    int code = read_line(c, c->finished);
    if (code != ZOE_EXIT_DONE)
        return code;
    c->line->job.user = c;
    const double begun = zoe_now();
    zoe_status status = zoe_job_new(c->ctx, &job, &c->line->job);
    if (status == ZOE_OK)
        status = zoe_job_open(c->ctx, job);
    if (status == ZOE_OK)
        status = zoe_job_run(c->ctx, job);
    zoe_live_line(NULL);
    if (status == ZOE_OK)
        zoe_note("run %zu/%zu: seed %" PRId64 ", %zu steps, %.2f s", c->finished + 1, c->n,
                 c->line->job.seed, c->steps, zoe_now() - begun);
    else
        code = failed(c, c->finished, status, STAGE_RUN);
    zoe_job_free(job);
    return code;
}

int zoe_calibrate_run_all(zoe_calibration *c)
{
    const size_t extents[] = {c->n, c->steps, 2};
    size_t count;
    int code = ZOE_EXIT_DONE;
    if (zoe_size_product(&count, extents, 3))
        c->samples = calloc(count, sizeof *c->samples);
    if (!c->samples)
        return no_memory();
    for (c->finished = 0; c->finished < c->n && code == ZOE_EXIT_DONE; c->finished++) {
        code = run_one(c);
        zoe_request_free(c->line);
    }
    return code;
}
