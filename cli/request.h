/* The command line of `zoe generate`: its options and what they ask for. */
#ifndef ZOE_REQUEST_H
#define ZOE_REQUEST_H

#include "progress.h"
#include "zoetrope/job.h"

typedef struct zoe_request {
    zoe_job_params job;
    int solver, dtype, progress, task; /* indices of words */
    size_t threads;                    /* 0: as many as the machine offers */
    bool help, dry_run, verbose;
    char *mended[2]; /* prompts that were no UTF-8 */
} zoe_request;

/* Reads and checks everything that can be told without a file. Prints notes on official options
 * without meaning here. Returns 0, or the exit code after saying what is wrong; zoe_request_free in
 * any case. */
int zoe_request_read(zoe_request *request, int argc, char **argv);
void zoe_request_free(zoe_request *request);
/* Runs `zoe generate`. */
int zoe_generate_main(int argc, char **argv);

#endif
