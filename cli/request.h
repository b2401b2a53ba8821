/* The command line of `zoe generate`: its options and what they ask for. */
#ifndef ZOE_REQUEST_H
#define ZOE_REQUEST_H

#include "config.h"
#include "options.h"
#include "progress.h"
#include "zoetrope/job.h"

typedef struct zoe_request {
    zoe_job_params job;
    int solver, dtype, compute, ring_form, progress, show_preview, task; /* indices of words */
    size_t threads; /* 0: as many as the machine offers */
    const char *config, *resume, *from, *log;
    const char *lora[ZOE_JOB_LORAS]; /* as they were given */
    size_t loras;
    bool help, dry_run, dump_config, verbose;
    bool no_output; /* set by commands that only look at the frames */

    zoe_options found;  /* what was on the line, or else in the file of --config */
    zoe_config file;    /* of --config */
    zoe_record *record; /* of --resume or --from, NULL if there is none */
    char *image;        /* where the picture of a record was found */
    char *last_image;   /* the same of the last one */
    char *mended[2];    /* prompts that were no UTF-8 */
    char *lora_path[ZOE_JOB_LORAS];
} zoe_request;

/* Reads the line, nothing more; turns on JSON and the log if they are asked for. Returns 0, or the
 * exit code after saying what is wrong; zoe_request_free in any case. */
int zoe_request_parse(zoe_request *request, int argc, char **argv);
/* Adds what a record knows and checks what can be told without the model. Prints notes on official
 * options without meaning here. Returns as above. */
int zoe_request_complete(zoe_context *ctx, zoe_request *request, int argc, char **argv);
void zoe_request_free(zoe_request *request);

/* Was the option on the line or in the file of --config, by this or another name? */
bool zoe_request_gave(const zoe_request *request, const char *option);
/* The first option given that belongs to one run alone: what it writes, keeps and shows. NULL: none. For
 * commands that run a request several times. */
const char *zoe_request_single(const zoe_request *request);
/* Reads the record that --resume or --from names and makes the request what it tells, as far as
 * nothing else is given. Returns as above. No checkpoint under --resume: nothing changes. */
int zoe_request_recall(zoe_context *ctx, zoe_request *request);

/* Prints a complete request to standard output as a file for --config. Returns as above. */
int zoe_request_dump(const zoe_request *request);

/* Runs `zoe generate`. */
int zoe_generate_main(int argc, char **argv);

#endif
