/* Any bytes as a picture: a picture or a refusal with a sentence, nothing else. The last byte says
 * whether it is turned as its file asks, and laid over a colour. */
#include <stdint.h>
#include <stdlib.h>

#include "media/media.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_picture picture;
    if (!ctx)
        return 0;
    static const uint8_t colour[3] = {1, 2, 3};
    const unsigned last = size ? data[size - 1] : 0;
    const zoe_status status =
        zoe_picture_decode_on(ctx, &picture, data, size, (last & 1) != 0, last & 2 ? colour : NULL);
    if (status == ZOE_OK ? !picture.rgb || picture.width == 0 || picture.height == 0
                         : picture.rgb || zoe_context_message(ctx)[0] == '\0')
        abort();
    zoe_picture_free(&picture);
    zoe_context_free(ctx);
    return 0;
}
