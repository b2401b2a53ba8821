/* Fuzz target: the GGUF reader, the name tables and the joining of scales. The first byte chooses
 * the table. */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        fuzz_store(data + 1, size - 1, (zoe_names)(data[0] % (ZOE_NAMES_CLIP + 1)));
    return 0;
}
