/* The findings about a checkpoint, for people and for programs. */
#ifndef ZOE_INSPECTION_H
#define ZOE_INSPECTION_H

#include <jansson.h>

#include "zoetrope/inspect.h"

typedef struct zoe_inspection_view {
    const char *path; /* as it was given */
    bool tensors;     /* list every one */
} zoe_inspection_view;

void zoe_inspection_print(const zoe_inspection *inspection, const zoe_inspection_view *view);
/* One object; NULL without memory. */
json_t *zoe_inspection_json(const zoe_inspection *inspection, const zoe_inspection_view *view);

/* What is wrong, in one sentence, "" if nothing is: the first finding, and how many more. */
typedef struct zoe_verdict {
    char text[4096];
} zoe_verdict;
void zoe_inspection_verdict(const zoe_inspection *inspection, zoe_verdict *verdict);

#endif
