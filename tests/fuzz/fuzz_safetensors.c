/* Fuzz target: the safetensors reader and the name tables. The first byte chooses the table; its
 * highest bit says that the length of the header is not in the input but ends with the first NUL,
 * so that a change of the header does not have to find the right length as well. */
#include <stdlib.h>

#include "fuzz_store.h"

enum { PREFIX = 8, MENDED = 0x80 };

static void run_mended(const uint8_t *data, size_t size, zoe_names names)
{
    const uint8_t *end = memchr(data, '\0', size);
    const size_t header = end ? (size_t)(end - data) : size;
    const size_t rest = end ? size - header - 1 : 0;
    uint8_t *file = malloc(PREFIX + header + rest);
    if (!file)
        return;
    for (size_t i = 0; i < PREFIX; i++)
        file[i] = (uint8_t)((uint64_t)header >> (8 * i));
    memcpy(file + PREFIX, data, header);
    if (rest)
        memcpy(file + PREFIX + header, end + 1, rest);
    fuzz_store(file, PREFIX + header + rest, names);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const zoe_names names = (zoe_names)((data[0] & ~MENDED) % (ZOE_NAMES_UMT5 + 1));
    if (data[0] & MENDED)
        run_mended(data + 1, size - 1, names);
    else
        fuzz_store(data + 1, size - 1, names);
    return 0;
}
