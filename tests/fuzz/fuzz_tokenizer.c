/* Fuzz target: tokenizer.json and the text that it splits, which follows the first NUL. */
#include "fuzz_tokenizer.h"
#include "text/pipeline.h"

static void encode(zoe_context *ctx, const zoe_pipeline *pipeline, const char *text)
{
    zoe_ids ids = {0};
    zoe_context_clear(ctx);
    if (zoe_pipeline_encode(ctx, pipeline, &ids, text) == ZOE_OK)
        fuzz_ids(ids.at, ids.count, zoe_pipeline_size(pipeline));
    else if (zoe_context_message(ctx)[0] == '\0')
        abort();
    zoe_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_pipeline *pipeline;
    size_t length;
    char *text = fuzz_split(data, size, &length);
    if (!ctx)
        abort();
    if (zoe_pipeline_read(ctx, &pipeline, data, length) == ZOE_OK) {
        const int32_t end = zoe_pipeline_end(pipeline);
        fuzz_ids(&end, 1, zoe_pipeline_size(pipeline));
        encode(ctx, pipeline, text);
        encode(ctx, pipeline, "A cat \xe7\x8c\xab  <pad>a</s>.");
    } else if (zoe_context_message(ctx)[0] == '\0') {
        abort(); /* refused without a reason */
    }
    zoe_pipeline_free(pipeline);
    free(text);
    zoe_context_free(ctx);
    return 0;
}
