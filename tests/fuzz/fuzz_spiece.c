/* Fuzz target: spiece.model. What our check lets through must not break the SentencePiece library,
 * which trusts its file. */
#include "fuzz_tokenizer.h"

static void encode(zoe_context *ctx, const zoe_tokenizer *tokenizer, const char *text)
{
    enum { LIMIT = 64 };
    int32_t ids[LIMIT];
    size_t count, full;
    zoe_context_clear(ctx);
    if (zoe_tokenizer_encode(ctx, tokenizer, ids, &count, &full, LIMIT, text) == ZOE_OK) {
        if (count == 0 || count > LIMIT || full < count)
            abort();
        fuzz_ids(ids, count, zoe_tokenizer_size(tokenizer));
    } else if (zoe_context_message(ctx)[0] == '\0') {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const texts[] = {"", "A cat \xe7\x8c\xab  <pad>a</s>.",
                                        "\xef\xac\x81 \xff\xc3 e\xcc\x81 \xf0\x9f\x90\x88"};
    zoe_context *ctx = zoe_context_new(1);
    zoe_tokenizer *tokenizer;
    if (!ctx)
        abort();
    if (zoe_tokenizer_open_model(ctx, &tokenizer, data, size, "input") == ZOE_OK) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            encode(ctx, tokenizer, texts[i]);
    } else if (zoe_context_message(ctx)[0] == '\0') {
        abort(); /* refused without a reason */
    }
    zoe_tokenizer_close(tokenizer);
    zoe_context_free(ctx);
    return 0;
}
