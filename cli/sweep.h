/* zoe sweep: one request under several settings, against the run without a step cache. sweep.c is
 * the command, sweep_setting.c what is tried, sweep_run.c the runs, sweep_table.c and sweep_plot.c
 * what comes out. */
#ifndef ZOE_SWEEP_H
#define ZOE_SWEEP_H

#include <stdio.h>

#include "request.h"

enum { ZOE_SWEEP_SETTINGS = 64, ZOE_SWEEP_REPEATS = 99 };

/* What is tried, and what came out. The first one of a sweep is the request as it is. */
typedef struct zoe_setting {
    char *name, *options; /* as they were given */
    char *words;          /* the options word by word, each with its zero, */
    char **argv;          /* and the whole line of `zoe generate` */
    int argc;
    bool optional; /* of the default table: left out where the model refuses it */

    size_t steps, computed; /* in which the network ran in some branch */
    size_t runs;            /* that were finished */
    double seconds[ZOE_SWEEP_REPEATS], step_seconds[ZOE_SWEEP_REPEATS];
    double psnr, ssim; /* of all frames, against the first setting's */
    bool front;        /* no other one is both faster and closer */
} zoe_setting;

typedef struct zoe_sweep {
    zoe_context *ctx;
    const char *setting[ZOE_SWEEP_SETTINGS], *file; /* as given */
    size_t n_setting;
    const char *csv, *svg; /* NULL: standard output; none */
    size_t repeats, threads;
    int clock; /* 0 wall, 1 processor */
    int speed; /* by which the front is found: 0 of the run, 1 of its steps */
    bool help;
    const char *const *request; /* the words of the request */
    size_t n_request;

    zoe_setting *settings; /* those that are tried */
    size_t n;
    zoe_request *line; /* of the setting at work */
    zoe_plan plan;     /* of the first setting */
} zoe_sweep;

/* Fills in sweep->settings: the request as it is; then what --setting and --settings give, or a
 * table for models of this kind. Returns 0 or the exit code, as the next ones. */
int zoe_sweep_list(zoe_sweep *sweep);
/* The default table, once the model is known. */
int zoe_sweep_list_default(zoe_sweep *sweep);
void zoe_sweep_free(zoe_sweep *sweep);

/* Opens the job of every setting, without running it: a mistake in the last one ends here. */
int zoe_sweep_check(zoe_sweep *sweep);
/* Runs all settings, as often as is asked for. What was finished before an error or an interrupt
 * stands in the settings. */
int zoe_sweep_run(zoe_sweep *sweep);

/* Figures of a setting that ran: medians of its runs or of their steps alone, and the speed compared
 * with the first one. */
double zoe_setting_seconds(const zoe_setting *setting, bool steps);
double zoe_setting_speed(const zoe_sweep *sweep, const zoe_setting *setting, bool steps);
/* Marks the front. */
void zoe_sweep_find_front(zoe_sweep *sweep);

/* Writes --csv and --svg, or prints the table. */
int zoe_sweep_write(zoe_sweep *sweep);
void zoe_sweep_print_plot(FILE *to, const zoe_sweep *sweep);

#endif
