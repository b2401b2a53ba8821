/* Fuzz target: the record of a run, as it comes from a video of unknown origin (first byte even) or
 * from a checkpoint folder (odd). */
#include <stdlib.h>

#include "job/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a record says must be what a request may ask for. */
static void check_record(const zoe_record *record)
{
    const zoe_job_params *p = zoe_record_params(record);
    zoe_differences d = {.used = 0};
    if (!p->prompt || !p->negative_prompt || !zoe_record_json(record) || p->width == 0 ||
        p->height == 0 || p->fps_num <= 0 || p->fps_den <= 0 || p->seed < 0)
        abort();
    zoe_request_differences(&d, p, p);
    if (d.used > 0)
        abort(); /* differs from itself */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_record *record;
    if (!ctx)
        abort();
    const zoe_status status = zoe_record_parse(ctx, &record, (const char *)data + (size > 0),
                                               size - (size > 0), "input", size > 0 && data[0] & 1);
    if (status == ZOE_OK)
        check_record(record);
    else if (record || zoe_context_message(ctx)[0] == '\0')
        abort(); /* refused without a reason */
    zoe_record_free(record);
    zoe_context_free(ctx);
    return 0;
}
