/* What every golden runner shares: the reference tensors, the comparison, the printed line, the
 * verdict. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include "base/base.h"

typedef struct zoe_store zoe_store;

typedef struct golden {
    zoe_context *ctx;
    size_t compared, failed;
} golden;

/* Starts a run; ends the program with a message when memory fails. */
golden golden_begin(void);
/* Prints the sum and gives main's exit code: 0 only if something was compared and nothing failed.
 */
int golden_end(golden *g);

/* Ends the program with the context's message unless status is ZOE_OK. */
void golden_must(golden *g, zoe_status status, const char *what);

/* The tensor `name` of a reference file as dense f32 (I64 and I32 too); ends the program if it is
 * not there. *count gets its elements. Free with zoe_free. */
float *golden_load(golden *g, const zoe_store *store, const char *name, size_t *count);

/* Compares n values and prints: name, rel L2, max abs, ok or FAIL. Passes when rel L2 <= limit; a
 * NaN fails. */
void golden_compare(golden *g, const char *name, const float *got, const float *want, size_t n,
                    double rel_l2_limit);
/* Passes when max abs <= limit. */
void golden_compare_abs(golden *g, const char *name, const float *got, const float *want, size_t n,
                        double abs_limit);
/* A yes-or-no line, for things that are no tensors: prints name, detail, ok or FAIL. */
void golden_check(golden *g, const char *name, bool ok, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* How many tensors of a case are no inputs: their names do not begin with "in.". */
size_t golden_outputs(const zoe_store *store);

bool golden_ends_with(const char *text, const char *end);
/* "dir/name" in a static buffer; good until the fourth call after. */
const char *golden_path(const char *dir, const char *name);
/* argv[1] as the folder, or usage and exit. */
const char *golden_folder(int argc, char **argv);

#endif
