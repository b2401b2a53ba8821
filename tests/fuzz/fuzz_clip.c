/* Fuzz target: the CLIP image tower from a hostile checkpoint. The first byte: bit 0, the names of
 * transformers; the picture is encoded too from 0xe0 on. Edits of a sound tower follow (fuzz_edit.h). */
#include "fuzz_edit.h"
#include "model/model.h"

static void use(zoe_context *ctx, const zoe_clip *clip)
{
    const size_t side = zoe_clip_side(clip), tokens = zoe_clip_tokens(clip),
                 dim = zoe_clip_dim(clip);
    if (side == 0 || tokens < 2 || dim == 0)
        __builtin_trap();
    if (side > 128 || tokens > 256 || dim > 640)
        return;
    float *picture = fuzz_values(3 * side * side), *features = fuzz_values(tokens * dim);
    fuzz_reason(ctx, zoe_clip_encode(ctx, clip, features, picture));
    free(picture);
    free(features);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_checkpoint *base;
    fuzz_store_case s;
    zoe_clip *clip = NULL;
    if (!base)
        base = fuzz_checkpoint_open("../data/clip/model.safetensors", ZOE_NAMES_CLIP, NULL);
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx || size == 0) {
        zoe_context_free(ctx);
        return 0;
    }
    zoe_status status =
        fuzz_store_edited(ctx, &s, base, ZOE_NAMES_CLIP, data[0] & 1, data + 1, size - 1);
    fuzz_reason(ctx, status);
    if (status == ZOE_OK) {
        status = zoe_clip_open(ctx, &clip, s.store);
        fuzz_reason(ctx, status);
        if ((status == ZOE_OK) != (clip != NULL) || (size == 1 && !clip))
            __builtin_trap();
    }
    if (clip && fuzz_runs(data[0]))
        use(ctx, clip);
    zoe_clip_close(clip);
    fuzz_store_close(&s);
    zoe_context_free(ctx);
    return 0;
}
