/* zoe calibrate: what TeaCache and MagCache need to know of a model. calibrate.c is the command,
 * calibrate_run.c the runs, calibrate_fit.c what is made of them, calibrate_threshold.c how they are
 * used, calibrate_write.c the files. */
#ifndef ZOE_CALIBRATE_H
#define ZOE_CALIBRATE_H

#include <stdio.h>

#include "request.h"

enum {
    ZOE_CALIBRATE_PROMPTS = 256,
    ZOE_CALIBRATE_RUNS = 4096,
    ZOE_CALIBRATE_TERMS = 5 /* a polynomial of degree 4, as published */
};

/* What changed in a pass. */
typedef struct zoe_sample {
    bool seen; /* there was such a pass */
    bool low_noise;
    zoe_cache_change change;
} zoe_sample;

typedef struct zoe_calibrate_run {
    const char *image; /* NULL: that of the request */
    const char *prompt;
    size_t repeat; /* added to the seed, with the place in the list */
    char **argv;   /* the whole line of `zoe generate` */
    int argc;
} zoe_calibrate_run;

typedef struct zoe_calibration {
    zoe_context *ctx;
    const char *prompt[ZOE_CALIBRATE_PROMPTS], *prompts; /* as given */
    size_t n_prompt;
    const char *out, *csv;
    int method; /* 0 TeaCache, 1 MagCache: the one that the file switches on */
    int judge, target;
    double skip; /* share of the steps */
    size_t seeds, threads;
    bool help;
    const char *const *request; /* the words of the request */
    size_t n_request;

    char *lines; /* of the file of prompts */
    zoe_calibrate_run *run;
    size_t n, finished;
    zoe_request *line;   /* of the run at work */
    int64_t seed;        /* of the first run */
    zoe_plan plan;       /* of the first run */
    char *made;          /* how it was made, as remarks of the YAML file */
    size_t made_size;    /* without the zero */
    size_t steps;        /* of a run */
    zoe_sample *samples; /* [n, steps, 2] */
} zoe_calibration;

/* How well the polynomial meets the samples. */
typedef struct zoe_calibrate_error {
    size_t n;
    double low, high; /* of x */
    double rmse, r2;
} zoe_calibrate_error;

/* 0: no threshold leaves out a step and not too many. */
typedef struct zoe_calibrate_threshold {
    double value, skipped; /* steps of a run, as foretold: a mean over the runs */
} zoe_calibrate_threshold;

typedef struct zoe_calibrate_result {
    double coefficients[ZOE_CALIBRATE_TERMS];
    zoe_calibrate_error all, expert[2];   /* high noise, low noise; of a model without: the first */
    size_t unfit;                         /* samples that were no numbers */
    double ratios[ZOE_CACHE_RATIOS];      /* conditional, unconditional, step by step */
    double spread;                        /* largest standard deviation of a ratio over the runs */
    size_t ratio_step;                    /* where */
    zoe_calibrate_threshold threshold[2]; /* of each method */
    bool guided;                          /* all steps have both branches */
} zoe_calibrate_result;

/* Fills in run[]: prompts times seeds. Returns 0 or the exit code, as the next ones. */
int zoe_calibrate_list(zoe_calibration *c);
/* Opens the job of every run without running it: a mistake in the last one ends here. */
int zoe_calibrate_check(zoe_calibration *c);
int zoe_calibrate_run_all(zoe_calibration *c);
void zoe_calibrate_free(zoe_calibration *c);

/* Errors: ZOE_INVALID (the samples tell no such polynomial, or no ratios), ZOE_NOMEM. */
zoe_status zoe_calibrate_fit(const zoe_calibration *c, zoe_calibrate_result *r);
/* Fills in the thresholds. Errors: ZOE_NOMEM. */
zoe_status zoe_calibrate_thresholds(const zoe_calibration *c, zoe_calibrate_result *r);
/* The samples' columns: x of the polynomial, and y. */
double zoe_calibrate_x(const zoe_calibration *c, const zoe_sample *s);
double zoe_calibrate_y(const zoe_calibration *c, const zoe_sample *s);
extern const char *const zoe_calibrate_methods[], *const zoe_calibrate_judges[],
                                                      *const zoe_calibrate_targets[];

/* Remarks on the model and the request, of an open job; and on one run. */
void zoe_calibrate_note_model(FILE *to, const zoe_calibration *c, const zoe_job *job);
void zoe_calibrate_note_run(FILE *to, const zoe_calibration *c);
/* Writes --out and --csv. */
zoe_status zoe_calibrate_write(const zoe_calibration *c, const zoe_calibrate_result *r);

#endif
