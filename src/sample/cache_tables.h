/* Step caches: published tables, by name. */
#ifndef ZOE_SAMPLE_CACHE_TABLES_H
#define ZOE_SAMPLE_CACHE_TABLES_H

#include "zoetrope/cache.h"

typedef struct zoe_cache_table {
    const char *name;
    const double *values;
    size_t count;
    zoe_cache_judge judge; /* that a polynomial was fitted to */
} zoe_cache_table;

/* Each ends with a NULL name. */
extern const zoe_cache_table zoe_cache_ratio_tables[], zoe_cache_coefficient_tables[];

#endif
