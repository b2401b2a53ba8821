/* What the fuzz targets of the store share: open from memory, touch every byte of every tensor. */
#ifndef FUZZ_STORE_H
#define FUZZ_STORE_H

#include "store/content.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint8_t fuzz_sink; /* keeps the reads */

/* Reads the ends of a tensor: many may be one piece of the file, so the ends stand for the rest. */
static inline void fuzz_touch(zoe_tensor t)
{
    float values[256];
    const size_t bytes = zoe_tensor_bytes(t), count = zoe_tensor_count(t);
    const size_t some = count < 256 ? count : 256;
    if (bytes == 0)
        return;
    fuzz_sink = *(const uint8_t *)t.data;
    fuzz_sink = ((const uint8_t *)t.data)[bytes - 1];
    if (zoe_dtype_is_float(t.dtype)) {
        zoe_tensor_widen(values, t, 0, some);
        zoe_tensor_widen(values, t, count - some, some);
    }
}

static inline void fuzz_store(const uint8_t *data, size_t size, zoe_names names)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_store *store;
    if (!ctx)
        return;
    if (zoe_store_open_memory(ctx, &store, data, size, "input", names) == ZOE_OK) {
        for (size_t i = 0; i < zoe_store_count(store); i++) {
            zoe_tensor found, t = zoe_store_tensor(store, i);
            if (!zoe_store_find(store, zoe_store_name(store, i), &found) || found.data != t.data)
                __builtin_trap();
            fuzz_touch(t);
        }
    } else if (zoe_context_message(ctx)[0] == '\0') {
        __builtin_trap(); /* refused without a reason */
    }
    zoe_store_close(store);
    zoe_context_free(ctx);
}

#endif
