/* The runs of a sweep. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "job/job.h"
#include "media/media.h"
#include "message.h"
#include "sweep.h"

/* A run of a setting. */
typedef struct watch {
    zoe_sweep *sweep;
    zoe_setting *setting;
    uint8_t *frames;   /* [frames, height, width, 3]; NULL: they are not wanted */
    size_t frame_size; /* bytes */
    size_t computed, steps;
    double steps_begun, steps_ended;
} watch;

static double now(const zoe_sweep *sweep)
{
    struct timespec t;
    clock_gettime(sweep->clock ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void on_progress(void *user, zoe_phase phase, size_t done, size_t total)
{
    watch *w = user;
    char line[160];
    if (phase == ZOE_PHASE_STEPS && done == 0)
        w->steps_begun = now(w->sweep);
    if (phase == ZOE_PHASE_STEPS && done == total)
        w->steps_ended = now(w->sweep);
    if (!zoe_message_on_terminal() || zoe_message_is_json())
        return;
    snprintf(line, sizeof line, "%.60s: %s %zu/%zu", w->setting->name, zoe_phase_name(phase), done,
             total);
    zoe_live_line(line);
}

static void on_step(void *user, const zoe_job_step *step)
{
    watch *w = user;
    w->steps++;
    w->computed += step->branch[0].computed || step->branch[1].computed;
}

static void on_frame(void *user, size_t frame, const unsigned char *rgb, size_t width,
                     size_t height)
{
    const watch *w = user;
    if (w->frames && 3 * width * height == w->frame_size && frame < w->sweep->plan.frames)
        memcpy(w->frames + frame * w->frame_size, rgb, w->frame_size);
}

/* ---- a job from a line ---- */

/* What belongs to the sweep itself, or to a single run. */
static int check_line(const zoe_sweep *sweep, const zoe_setting *setting)
{
    const char *single = zoe_request_single(sweep->line);
    if (single)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: --%s: the runs of a sweep write nothing and are shown in one way; "
                          "leave it out of the line, or of the file of --config",
                          setting->name, single);
    if (zoe_request_gave(sweep->line, "threads"))
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: --threads is the same for all settings: give it before the --",
                          setting->name);
    if (setting == sweep->settings && sweep->line->job.cache &&
        strcmp(sweep->line->job.cache, "NoCache") != 0)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--cache %s: the request is the run that the others are compared with, "
                          "without a step cache; make it a --setting",
                          sweep->line->job.cache);
    return ZOE_EXIT_DONE;
}

/* Where a job failed: zoe_job_new knows the line alone, zoe_job_open the files. */
typedef enum stage { STAGE_NEW, STAGE_OPEN, STAGE_RUN } stage;

static int failed(const zoe_sweep *sweep, const zoe_setting *setting, zoe_status status, stage at)
{
    const int code = status == ZOE_NOMEM                        ? ZOE_EXIT_MEMORY
                     : status == ZOE_CANCELLED                  ? ZOE_EXIT_INTERRUPTED
                     : at == STAGE_RUN                          ? ZOE_EXIT_FAILED
                     : at == STAGE_NEW || status == ZOE_INVALID ? ZOE_EXIT_USAGE
                                                                : ZOE_EXIT_INPUT;
    /* The session tells of an interrupt. */
    if (zoe_cancelled(sweep->ctx))
        return ZOE_EXIT_INTERRUPTED;
    return zoe_refuse(code, zoe_status_name(status), "%s: %s", setting->name,
                      zoe_context_message(sweep->ctx));
}

/* The request of a setting, in sweep->line; zoe_request_free in any case. */
static int read_line(zoe_sweep *sweep, zoe_setting *setting)
{
    int code = zoe_request_parse(sweep->line, setting->argc, setting->argv);
    if (code == ZOE_EXIT_DONE && sweep->line->help)
        code = zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--help: give it before the --, or ask zoe generate");
    if (code != ZOE_EXIT_DONE)
        return code;
    sweep->line->no_output = true;
    code = check_line(sweep, setting);
    if (code == ZOE_EXIT_DONE)
        code = zoe_request_complete(sweep->ctx, sweep->line, setting->argc, setting->argv);
    if (code == ZOE_EXIT_DONE && setting == sweep->settings && sweep->line->job.seed < 0)
        code = zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "--seed is missing: all runs begin with the same noise");
    sweep->line->job.progress = on_progress;
    sweep->line->job.step_done = on_step;
    sweep->line->job.frame = on_frame;
    return code;
}

/* ---- before the work ---- */

static bool same_clip(const zoe_plan *a, const zoe_plan *b)
{
    return a->width == b->width && a->height == b->height && a->frames == b->frames;
}

/* The table and the plot must be no file that is read. */
static zoe_status check_places(zoe_sweep *sweep)
{
    const char *const files[] = {sweep->csv, sweep->svg};
    for (size_t i = 0; i < 2; i++) {
        zoe_job *job;
        if (zoe_places_meet(files[i], sweep->line->config))
            return zoe_fail(sweep->ctx, ZOE_INVALID,
                            "%s is the file of --config; another name is wanted", files[i]);
        sweep->line->job.report = files[i];
        TRY(zoe_job_new(sweep->ctx, &job, &sweep->line->job));
        zoe_job_free(job);
    }
    return ZOE_OK;
}

static int check_setting(zoe_sweep *sweep, zoe_setting *setting, bool *refused)
{
    zoe_job *job = NULL;
    int code = read_line(sweep, setting);
    if (code != ZOE_EXIT_DONE)
        return code;
    zoe_status status = check_places(sweep);
    if (status == ZOE_OK)
        status = zoe_job_new(sweep->ctx, &job, &sweep->line->job);
    const stage at = status == ZOE_OK ? STAGE_OPEN : STAGE_NEW;
    if (status == ZOE_OK)
        status = zoe_job_open(sweep->ctx, job);
    *refused = status == ZOE_INVALID && setting->optional;
    if (*refused) {
        zoe_note("%s is left out: %s", setting->name, zoe_context_message(sweep->ctx));
        zoe_context_clear(sweep->ctx);
    } else if (status != ZOE_OK) {
        code = failed(sweep, setting, status, at);
    } else if (setting == sweep->settings) {
        sweep->plan = *zoe_job_plan(job);
    } else if (!same_clip(zoe_job_plan(job), &sweep->plan)) {
        const zoe_plan *p = zoe_job_plan(job);
        code =
            zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                       "%s: %zux%zu, %zu frames; the request has %zux%zu, %zu frames: only clips "
                       "of one size can be compared",
                       setting->name, p->width, p->height, p->frames, sweep->plan.width,
                       sweep->plan.height, sweep->plan.frames);
    }
    zoe_job_free(job);
    return code;
}

static void drop(zoe_sweep *sweep, size_t i)
{
    zoe_setting *s = &sweep->settings[i];
    free(s->name);
    free(s->options);
    free(s->words);
    free(s->argv);
    memmove(s, s + 1, (sweep->n - i - 1) * sizeof *s);
    sweep->n--;
}

int zoe_sweep_check(zoe_sweep *sweep)
{
    const bool none = sweep->n == 1;
    int code = ZOE_EXIT_DONE;
    for (size_t i = 0; i < sweep->n && code == ZOE_EXIT_DONE;) {
        bool refused = false;
        code = check_setting(sweep, &sweep->settings[i], &refused);
        zoe_request_free(sweep->line);
        if (code == ZOE_EXIT_DONE && i == 0 && none)
            code = zoe_sweep_list_default(sweep);
        if (refused)
            drop(sweep, i);
        else
            i++;
    }
    return code;
}

/* ---- the work ---- */

typedef struct clips {
    uint8_t *reference, *frames; /* of the first setting, and of that at work */
    size_t frame_size, count;
} clips;

static zoe_status compare(zoe_sweep *sweep, zoe_setting *setting, const clips *c)
{
    uint64_t squares = 0;
    double sum = 0.0;
    for (size_t i = 0; i < c->count; i++) {
        const uint8_t *a = c->reference + i * c->frame_size, *b = c->frames + i * c->frame_size;
        double ssim;
        squares += zoe_squares_u8(a, b, c->frame_size);
        TRY(zoe_ssim_u8(sweep->ctx, &ssim, a, b, sweep->plan.width, sweep->plan.height));
        sum += ssim;
    }
    setting->psnr = zoe_psnr_of((double)squares, (double)c->frame_size * (double)c->count, 255.0);
    setting->ssim = sum / (double)c->count;
    return ZOE_OK;
}

static void tell(const zoe_sweep *sweep, const zoe_setting *s, size_t round)
{
    char speed[80] = "";
    if (s != sweep->settings)
        snprintf(speed, sizeof speed, ", %.2f times as fast, its steps %.2f",
                 zoe_setting_speed(sweep, s, false), zoe_setting_speed(sweep, s, true));
    char figures[64] = "";
    if (s != sweep->settings)
        snprintf(figures, sizeof figures, isinf(s->psnr) ? ", the same frames" : ", %.2f dB",
                 s->psnr);
    zoe_note("%zu/%zu %s: %zu of %zu steps, %.2f s%s%s", round + 1, sweep->repeats, s->name,
             s->computed, s->steps, s->seconds[round], speed, figures);
}

static zoe_status run_job(zoe_sweep *sweep, zoe_setting *setting, watch *w, double *seconds)
{
    zoe_job *job;
    TRY(zoe_job_new(sweep->ctx, &job, &sweep->line->job));
    zoe_status status = zoe_job_open(sweep->ctx, job);
    const double begun = now(sweep);
    if (status == ZOE_OK)
        status = zoe_job_run(sweep->ctx, job);
    *seconds = now(sweep) - begun;
    setting->steps = w->steps;
    setting->computed = w->computed;
    zoe_job_free(job);
    return status;
}

static int run_setting(zoe_sweep *sweep, zoe_setting *setting, size_t round, const clips *c)
{
    const bool first = setting == sweep->settings;
    watch w = {.sweep = sweep,
               .setting = setting,
               .frames = round > 0 ? NULL
                         : first   ? c->reference
                                   : c->frames,
               .frame_size = c->frame_size};
    int code = read_line(sweep, setting);
    if (code != ZOE_EXIT_DONE)
        return code;
    sweep->line->job.user = &w;
    double seconds = 0.0;
    zoe_status status = run_job(sweep, setting, &w, &seconds);
    zoe_live_line(NULL);
    if (status == ZOE_OK && round == 0 && !first)
        status = compare(sweep, setting, c);
    if (status != ZOE_OK)
        return failed(sweep, setting, status, STAGE_RUN);
    setting->seconds[round] = seconds;
    setting->step_seconds[round] = w.steps_ended - w.steps_begun;
    setting->runs++;
    tell(sweep, setting, round);
    return ZOE_EXIT_DONE;
}

static int take_clips(const zoe_sweep *sweep, clips *c)
{
    const zoe_plan *p = &sweep->plan;
    const size_t extents[] = {p->frames, p->height, p->width, 3};
    size_t bytes;
    *c = (clips){.frame_size = 3 * p->height * p->width, .count = p->frames};
    if (zoe_size_product(&bytes, extents, 4)) {
        c->reference = malloc(bytes);
        c->frames = malloc(bytes);
    }
    if (c->reference && c->frames)
        return ZOE_EXIT_DONE;
    return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM),
                      "no memory for the frames of two clips");
}

int zoe_sweep_run(zoe_sweep *sweep)
{
    clips c;
    int code = take_clips(sweep, &c);
    sweep->settings[0].psnr = (double)INFINITY;
    sweep->settings[0].ssim = 1.0;
    for (size_t round = 0; round < sweep->repeats && code == ZOE_EXIT_DONE; round++)
        for (size_t i = 0; i < sweep->n && code == ZOE_EXIT_DONE; i++) {
            code = run_setting(sweep, &sweep->settings[i], round, &c);
            zoe_request_free(sweep->line);
        }
    free(c.reference);
    free(c.frames);
    return code;
}

/* ---- figures ---- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t n)
{
    double sorted[ZOE_SWEEP_REPEATS];
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, by_value);
    return n == 0 ? (double)NAN : (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

double zoe_setting_seconds(const zoe_setting *setting, bool steps)
{
    return median(steps ? setting->step_seconds : setting->seconds, setting->runs);
}

double zoe_setting_speed(const zoe_sweep *sweep, const zoe_setting *setting, bool steps)
{
    return zoe_setting_seconds(&sweep->settings[0], steps) / zoe_setting_seconds(setting, steps);
}

void zoe_sweep_find_front(zoe_sweep *sweep)
{
    for (size_t i = 0; i < sweep->n; i++) {
        zoe_setting *s = &sweep->settings[i];
        const double speed = zoe_setting_speed(sweep, s, sweep->speed);
        s->front = s->runs > 0 && !isnan(s->psnr);
        for (size_t j = 0; j < sweep->n && s->front; j++) {
            const zoe_setting *o = &sweep->settings[j];
            const double other = zoe_setting_speed(sweep, o, sweep->speed);
            if (o->runs > 0 && other >= speed && o->psnr >= s->psnr &&
                (other > speed || o->psnr > s->psnr))
                s->front = false;
        }
    }
}
