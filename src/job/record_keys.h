/* Words and members that writing and reading of records share; for the record*.c files only. */
#ifndef ZOE_RECORD_KEYS_H
#define ZOE_RECORD_KEYS_H

#include "job/record.h"

enum { ZOE_RECORD_SOLVERS = 3 };
extern const char *const zoe_record_solvers[ZOE_RECORD_SOLVERS];
extern const char *const zoe_record_weights[ZOE_WEIGHTS_COUNT];
/* In the place of high_noise, of a model without experts. */
extern const char zoe_record_single[];

/* Paths of a request. */
typedef struct zoe_record_path {
    const char *key;
    size_t at; /* of the member of zoe_job_params */
} zoe_record_path;
extern const zoe_record_path zoe_record_path_rows[ZOE_RECORD_PATHS];
const char *zoe_record_get_path(const zoe_job_params *p, size_t row);
void zoe_record_set_path(zoe_job_params *p, size_t row, const char *path);

#endif
