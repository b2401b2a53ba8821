/* Fuzz target: the zip and pickle readers of .pth files. */
#include "fuzz_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_store(data, size, ZOE_NAMES_AS_STORED);
    return 0;
}
