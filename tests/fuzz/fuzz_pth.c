/* Fuzz target: the zip and pickle readers of .pth files. An input that does not begin as a zip is a
 * pickle with its length (two bytes) in front, and the bytes of storage data/0 behind: the zip is
 * made around them, so that a change of the pickle does not have to find the right offsets. */
#include <stdlib.h>

#include "fuzz_store.h"

enum { LOCAL = 30, CENTRAL = 46, TRAILER = 22 };

typedef struct entry {
    const char *name;
    const uint8_t *data;
    size_t size, at;
} entry;

/* A little-endian number. */
static uint8_t *put(uint8_t *p, size_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (uint8_t)(value >> (8 * i));
    return p;
}

/* Flags, method, time, checksum, sizes and the length of the name: alike in both kinds of header. */
static uint8_t *put_facts(uint8_t *p, const entry *e)
{
    p = put(put(p, 0, 4), 0, 4);
    p = put(put(put(p, 0, 4), e->size, 4), e->size, 4);
    return put(put(p, strlen(e->name), 2), 0, 2);
}

static uint8_t *put_bytes(uint8_t *p, const void *data, size_t size)
{
    if (size)
        memcpy(p, data, size);
    return p + size;
}

static size_t write_zip(uint8_t *file, entry *entries, size_t n)
{
    uint8_t *p = file;
    for (size_t i = 0; i < n; i++) {
        entry *e = &entries[i];
        e->at = (size_t)(p - file);
        p = put_facts(put(put(p, 0x04034b50, 4), 0, 2), e);
        p = put_bytes(put_bytes(p, e->name, strlen(e->name)), e->data, e->size);
    }
    const size_t begin = (size_t)(p - file);
    for (size_t i = 0; i < n; i++) {
        p = put_facts(put(put(p, 0x02014b50, 4), 0, 4), &entries[i]);
        p = put(put(put(p, 0, 4), 0, 6), entries[i].at, 4);
        p = put_bytes(p, entries[i].name, strlen(entries[i].name));
    }
    const size_t size = (size_t)(p - file) - begin;
    p = put(put(put(put(p, 0x06054b50, 4), 0, 4), n, 2), n, 2);
    p = put(put(put(p, size, 4), begin, 4), 0, 2);
    return (size_t)(p - file);
}

static void run_pickle(const uint8_t *data, size_t size)
{
    const size_t said = data[0] | (size_t)data[1] << 8, left = size - 2;
    const size_t pickle = said < left ? said : left;
    entry entries[] = {{.name = "a/data.pkl", .data = data + 2, .size = pickle},
                       {.name = "a/data/0", .data = data + 2 + pickle, .size = left - pickle}};
    uint8_t *room = malloc(size + 512), *file = NULL;
    if (room) {
        const size_t bytes = write_zip(room, entries, 2);
        file = malloc(bytes); /* of just this size, so that reading beyond is seen */
        if (file)
            fuzz_store(memcpy(file, room, bytes), bytes, ZOE_NAMES_AS_STORED);
    }
    free(room);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || memcmp(data, "PK", 2) == 0)
        fuzz_store(data, size, ZOE_NAMES_AS_STORED);
    else
        run_pickle(data, size);
    return 0;
}
