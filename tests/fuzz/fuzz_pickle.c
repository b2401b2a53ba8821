/* Fuzz target: the pickle machine alone, which a zip around it would hide from the fuzzer. */
#include "store/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_pickle pickle;
    if (!ctx)
        return 0;
    if (zoe_pickle_read(ctx, &pickle, data, size, "input") != ZOE_OK &&
        zoe_context_message(ctx)[0] == '\0')
        __builtin_trap(); /* refused without a reason */
    zoe_pickle_free(&pickle);
    zoe_context_free(ctx);
    return 0;
}
