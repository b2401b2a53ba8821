/* Between the inspect*.c files: the inspection and its lists. */
#ifndef ZOE_INSPECT_INTERNAL_H
#define ZOE_INSPECT_INTERNAL_H

#include "job/job.h"
#include "zoetrope/inspect.h"

struct zoe_inspection {
    zoe_context *ctx;   /* whose memory, threads and cancelling it goes by */
    zoe_context *trial; /* of openings that may fail: their sentences are findings, not errors */
    char *path;
    const char *layout;
    char *model;
    bool supported;
    zoe_part_info *parts;
    size_t n_parts;
    zoe_texts problems, remarks;
};

/* Adds a copy of the text; after ZOE_TEXTS_KEPT only counts. */
enum { ZOE_TEXTS_KEPT = 1000 };
zoe_status zoe_texts_add(zoe_context *ctx, zoe_texts *texts, const char *text);
void zoe_texts_free(zoe_texts *texts);

/* Looks at one part; its path is set already. `role` decides nothing but which loader is asked when
 * the content does not tell. Errors: ZOE_NOMEM, ZOE_CANCELLED. */
zoe_status zoe_part_inspect(zoe_inspection *inspection, zoe_part_info *part);
void zoe_part_info_free(zoe_part_info *part);

/* The sentence of the trial context, which is then as new. */
zoe_status zoe_trial_sentence(zoe_inspection *inspection, char **sentence);
/* Reading failed for a reason that is not the file's: memory or cancelling. */
static inline bool zoe_is_grave(zoe_status status)
{
    return status == ZOE_NOMEM || status == ZOE_CANCELLED || status == ZOE_INTERNAL;
}

#endif
