/* Figures that `zoe compare` prints: a row a frame and one for all, as a table or as JSON. */
#ifndef ZOE_FIGURES_H
#define ZOE_FIGURES_H

#include <stdbool.h>

#include <jansson.h>

#include "base/base.h"

enum { ZOE_COLUMNS_MAX = 4 };

typedef struct zoe_column {
    const char *key;     /* in JSON */
    const char *heading; /* in the table */
    const char *format;  /* of a double, in the table */
} zoe_column;

typedef struct zoe_figures {
    const zoe_column *columns;
    size_t n;
    json_t *rows; /* NULL: a table, printed as the rows come */
} zoe_figures;

/* A table begins with its headings, at once. Errors: ZOE_NOMEM. */
zoe_status zoe_figures_begin(zoe_context *ctx, zoe_figures *figures, const zoe_column *columns,
                             size_t n, bool json);
/* The figures of one frame. inf is printed as "equal", NaN as "-"; in JSON both are null. */
void zoe_figures_frame(zoe_figures *figures, size_t frame, const double *values);
/* The row "total". As JSON, everything is one object: the members of `about`, which is used up,
 * then "frames" and "total". Errors: ZOE_NOMEM. */
zoe_status zoe_figures_total(zoe_context *ctx, zoe_figures *figures, json_t *about,
                             const double *values);
/* A zeroed struct is fine. */
void zoe_figures_free(zoe_figures *figures);

#endif
