/* Cleaning of any bytes: the result is UTF-8 without controls at its ends, and cleaning never crashes. */
#include <stdlib.h>

#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zoe_context *ctx = zoe_context_new(1);
    char *clean;
    bool suspect;
    if (!ctx)
        return 0;
    const zoe_status status = zoe_text_clean(ctx, &clean, &suspect, (const char *)data, size);
    if (status == ZOE_OK ? clean[0] == ' ' : !zoe_context_message(ctx)[0])
        abort();
    zoe_free(clean);
    zoe_context_free(ctx);
    return 0;
}
