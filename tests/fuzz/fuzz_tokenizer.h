/* What the fuzz targets of tokenizers share: what may come out of one. */
#ifndef FUZZ_TOKENIZER_H
#define FUZZ_TOKENIZER_H

#include <stdlib.h>

#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every id must be one of the tokenizer's `size`, since it becomes a row of a table. */
static inline void fuzz_ids(const int32_t *ids, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= size)
            abort();
}

/* The part behind the first NUL as a text of its own; free it. *length becomes that of the part
 * before. */
static inline char *fuzz_split(const uint8_t *data, size_t size, size_t *length)
{
    const uint8_t *end = memchr(data, '\0', size);
    *length = end ? (size_t)(end - data) : size;
    const size_t rest = end ? size - *length - 1 : 0;
    char *text = malloc(rest + 1);
    if (!text)
        abort();
    if (rest)
        memcpy(text, end + 1, rest);
    text[rest] = '\0';
    return text;
}

#endif
