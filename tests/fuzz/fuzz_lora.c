/* Fuzz target: matching a LoRA file to a model. The first byte chooses what PEFT's configuration
 * says; the rest is the file. */
#include <stdlib.h>

#include "fuzz_store.h"
#include "store/lora.h"

/* A model with every kind of tensor that keys can mean. */
static const char header[] =
    "{\"blocks.0.modulation\":{\"dtype\":\"F32\",\"shape\":[1,6,2],\"data_offsets\":[0,48]},"
    "\"blocks.0.self_attn.q.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[48,64]},"
    "\"blocks.0.self_attn.q.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[64,72]},"
    "\"blocks.0.cross_attn.k_img.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[72,"
    "88]},"
    "\"blocks.0.ffn.0.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[88,112]},"
    "\"blocks.0.norm3.weight\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[112,120]},"
    "\"head.head.weight\":{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[120,152]},"
    "\"patch_embedding.weight\":{\"dtype\":\"F32\",\"shape\":[2,3,1,2,2],\"data_offsets\":[152,248]"
    "}}";
enum { HEADER = sizeof header - 1, DATA = 248 };

static const char *const configurations[] = {NULL, "{\"transformer.lora_alpha\":4}",
                                             "{\"alpha_pattern\":{\"a\":1}}", "{\"r\":[]}"};

static void check_parts(const zoe_lora *lora)
{
    const zoe_lora_summary sum = zoe_lora_summary_of(lora);
    if (zoe_lora_count(lora) != sum.products + sum.differences || zoe_lora_count(lora) == 0)
        __builtin_trap();
    for (size_t i = 0; i < zoe_lora_count(lora); i++) {
        const zoe_lora_part p = zoe_lora_at(lora, i);
        const size_t found = zoe_lora_find(lora, p.name);
        if (found > i || i - found > 1 || !(p.factor == p.factor))
            __builtin_trap();
        if (p.down.dtype != ZOE_NONE) {
            if (p.up.shape[1] != p.down.shape[0] || p.up.shape[1] == 0 || p.up.shape[1] > sum.rank)
                __builtin_trap();
            fuzz_touch(p.down);
        }
        fuzz_touch(p.up);
    }
    for (size_t i = 0; i < sum.unmatched; i++)
        fuzz_sink = (uint8_t)zoe_lora_unmatched(lora, i)[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(8) uint8_t model[8 + HEADER + DATA];
    zoe_context *ctx = zoe_context_new(1);
    zoe_store *target = NULL, *store;
    zoe_lora *lora = NULL;
    if (!ctx || size == 0) {
        zoe_context_free(ctx);
        return 0;
    }
    for (size_t i = 0; i < 8; i++)
        model[i] = (uint8_t)((uint64_t)HEADER >> 8 * i);
    memcpy(model + 8, header, HEADER);
    if (zoe_store_open_memory(ctx, &target, model, sizeof model, "model", ZOE_NAMES_WAN_DIT) !=
        ZOE_OK)
        abort();
    if (zoe_store_open_memory(ctx, &store, data + 1, size - 1, "input", ZOE_NAMES_AS_STORED) ==
        ZOE_OK) {
        if (zoe_lora_of(ctx, &lora, store, target, configurations[data[0] % 4]) == ZOE_OK)
            check_parts(lora);
        else if (lora || zoe_context_message(ctx)[0] == '\0')
            __builtin_trap(); /* refused without a reason */
    }
    zoe_lora_close(lora);
    zoe_store_close(target);
    zoe_context_free(ctx);
    return 0;
}
