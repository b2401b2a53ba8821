/* Fuzz target: metadata of PNG, MP4 and WebM files. */
#include <stdlib.h>

#include "media/parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As zoe_media_metadata_read tells the kinds apart, without a file in between. */
static zoe_status read_value(zoe_context *ctx, zoe_span file, char **value)
{
    if (file.size >= 8 && memcmp(file.data, "\x89PNG\r\n\x1a\n", 8) == 0)
        return zoe_png_text(ctx, file, "comment", value);
    if (file.size >= 8 && memcmp(file.data + 4, "ftyp", 4) == 0)
        return zoe_av_metadata(ctx, file, ZOE_MP4, "comment", value);
    return zoe_av_metadata(ctx, file, ZOE_WEBM, "comment", value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zoe_context *ctx = zoe_context_new(1);
    char *value = NULL;
    if (!ctx || size == 0) {
        zoe_context_free(ctx);
        return 0;
    }
    const zoe_status status = read_value(ctx, (zoe_span){data, size}, &value);
    if (status == ZOE_OK ? !value || strlen(value) > SIZE_MAX / 2
                         : value || zoe_context_message(ctx)[0] == '\0')
        abort();
    zoe_free(value);
    zoe_context_free(ctx);
    return 0;
}
