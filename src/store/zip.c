/* See zip.h. The numbers are byte offsets of PKWARE's APPNOTE.TXT. */
#include "store/zip.h"

#include <stdlib.h>

enum {
    LOCAL = 30,      /* bytes of a local header before the name */
    CENTRAL = 46,    /* of a directory entry before the name */
    TRAILER = 22,    /* of the end record before the comment */
    LOCATOR = 20,    /* of the ZIP64 locator, right before the end record */
    TRAILER_64 = 56, /* of the ZIP64 end record, at least */
    COMMENT_MAX = 65535
};

static uint64_t little(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static bool has_signature(const unsigned char *p, unsigned char third, unsigned char fourth)
{
    return p[0] == 'P' && p[1] == 'K' && p[2] == third && p[3] == fourth;
}

/* ---- the end of the file ---- */

/* The end record: its comment, which torch never writes, must end with the file. */
static zoe_status find_trailer(zoe_context *ctx, size_t *at, const zoe_map *map)
{
    const size_t lowest = map->size > TRAILER + COMMENT_MAX ? map->size - TRAILER - COMMENT_MAX : 0;
    for (size_t i = map->size < TRAILER ? 0 : map->size - TRAILER + 1; i-- > lowest;) {
        if (!has_signature(map->data + i, 5, 6))
            continue;
        const size_t end = i + TRAILER + (size_t)little(map->data + i + 20, 2);
        if (end < map->size)
            return zoe_fail(ctx, ZOE_FORMAT,
                            "%s: has %zu bytes, but its zip directory ends at %zu: there is "
                            "something behind it",
                            map->path, map->size, end);
        if (end == map->size) {
            *at = i;
            return ZOE_OK;
        }
    }
    return zoe_fail(ctx, ZOE_FORMAT,
                    "%s: has %zu bytes and begins as a zip, but does not end with a zip directory: "
                    "the file is cut short; "
                    "more than %zu bytes are wanted; download it again",
                    map->path, map->size, map->size);
}

typedef struct directory {
    size_t begin, end, n; /* bytes of the file; entries */
} directory;

static zoe_status find_directory(zoe_context *ctx, directory *d, const zoe_map *map)
{
    size_t at;
    TRY(find_trailer(ctx, &at, map));
    const unsigned char *p = map->data + at;
    uint64_t n = little(p + 10, 2), size = little(p + 12, 4), begin = little(p + 16, 4);
    if (at >= LOCATOR && has_signature(p - LOCATOR, 6, 7)) {
        const uint64_t at_64 = little(p - LOCATOR + 8, 8);
        if (at - LOCATOR < TRAILER_64 || at_64 > at - LOCATOR - TRAILER_64 ||
            !has_signature(map->data + at_64, 6, 6) ||
            little(map->data + at_64 + 4, 8) != at - LOCATOR - at_64 - 12)
            return zoe_fail(ctx, ZOE_FORMAT, "%s: its ZIP64 end record is not where it should be",
                            map->path);
        at = (size_t)at_64;
        n = little(map->data + at + 32, 8);
        size = little(map->data + at + 40, 8);
        begin = little(map->data + at + 48, 8);
    }
    if (begin > at || size != at - begin || n > size / CENTRAL)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: its zip directory of %llu bytes at %llu does not end at %zu, where "
                        "its end record is",
                        map->path, (unsigned long long)size, (unsigned long long)begin, at);
    *d = (directory){.begin = (size_t)begin, .end = at, .n = (size_t)n};
    return ZOE_OK;
}

/* ---- entries ---- */

/* Takes the 64-bit values out of the extra field for those of size, packed size and offset that are
 * saturated. */
static bool widen(uint64_t *size, uint64_t *packed, uint64_t *offset, const unsigned char *extra,
                  size_t length)
{
    uint64_t *const values[] = {size, packed, offset};
    if (*size != UINT32_MAX && *packed != UINT32_MAX && *offset != UINT32_MAX)
        return true;
    while (length >= 4) {
        const size_t id = (size_t)little(extra, 2), n = (size_t)little(extra + 2, 2);
        extra += 4;
        length -= 4;
        if (n > length)
            return false;
        if (id == 1) {
            size_t used = 0;
            for (int i = 0; i < 3; i++)
                if (*values[i] == UINT32_MAX) {
                    if (used + 8 > n)
                        return false;
                    *values[i] = little(extra + used, 8);
                    used += 8;
                }
            return true;
        }
        extra += n;
        length -= n;
    }
    return false;
}

/* The data begin behind the local header, whose extra field differs from the directory's. */
static bool find_data(zoe_zip_entry *entry, const zoe_map *map, uint64_t offset, uint64_t packed,
                      size_t limit)
{
    if (offset > limit || limit - offset < LOCAL)
        return false;
    const unsigned char *p = map->data + offset;
    const size_t name = (size_t)little(p + 26, 2), head = LOCAL + name + (size_t)little(p + 28, 2);
    if (!has_signature(p, 3, 4) || name != entry->name_length || head > limit - offset ||
        memcmp(p + LOCAL, entry->name, name) != 0 || packed > limit - offset - head)
        return false;
    entry->head = (size_t)offset;
    entry->begin = entry->head + head;
    entry->end = entry->begin + (size_t)packed;
    return true;
}

/* Reads one directory entry at *at and steps over it. */
static zoe_status read_entry(zoe_context *ctx, zoe_zip_entry *entry, size_t *at, const directory *d,
                             const zoe_map *map)
{
    const size_t left = d->end - *at;
    const unsigned char *p = map->data + *at;
    if (left < CENTRAL || !has_signature(p, 1, 2))
        return zoe_fail(ctx, ZOE_FORMAT, "%s: its zip directory is broken at byte %zu", map->path,
                        *at);
    const size_t name = (size_t)little(p + 28, 2), extra = (size_t)little(p + 30, 2);
    const size_t length = CENTRAL + name + extra + (size_t)little(p + 32, 2);
    if (length > left)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: its zip directory is broken at byte %zu", map->path,
                        *at);
    uint64_t packed = little(p + 20, 4), size = little(p + 24, 4), offset = little(p + 42, 4);
    *entry = (zoe_zip_entry){.name = (const char *)p + CENTRAL, .name_length = name};
    if (!widen(&size, &packed, &offset, p + CENTRAL + name, extra) ||
        !find_data(entry, map, offset, packed, d->begin))
        return zoe_fail(
            ctx, ZOE_FORMAT,
            "%s: zip entry %.*s of %llu bytes is not at byte %llu, where the directory has it",
            map->path, name < 200 ? (int)name : 200, entry->name, (unsigned long long)packed,
            (unsigned long long)offset);
    entry->plain = little(p + 10, 2) == 0 && (p[8] & 1) == 0 && packed == size;
    entry->described = (p[8] & 8) != 0;
    *at += length;
    return ZOE_OK;
}

static int place_order(const void *a, const void *b)
{
    const zoe_zip_entry *x = a, *y = b;
    return x->head == y->head ? 0 : x->head < y->head ? -1 : 1;
}

static int compare_names(const char *a, size_t a_length, const char *b, size_t b_length)
{
    const int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : a_length == b_length ? 0 : a_length < b_length ? -1 : 1;
}

static int name_order(const void *a, const void *b)
{
    const zoe_zip_entry *x = a, *y = b;
    return compare_names(x->name, x->name_length, y->name, y->name_length);
}

/* Is this what lies between the end of an entry and what comes next? A data descriptor has sizes of
 * 4 or 8 bytes, and mostly a signature. */
static bool is_descriptor(const unsigned char *p, size_t length)
{
    return length == 12 || length == 20 ||
           ((length == 16 || length == 24) && has_signature(p, 7, 8));
}

/* The entries, sorted by place, must fill the file up to the directory. */
static zoe_status check_places(zoe_context *ctx, const zoe_zip *zip, size_t directory_begin)
{
    const zoe_zip_entry *e = zip->entries;
    size_t end = 0;
    for (size_t i = 0; i <= zip->n; i++) {
        const size_t next = i < zip->n ? e[i].head : directory_begin;
        if (next < end)
            return zoe_fail(ctx, ZOE_FORMAT, "%s: two zip entries share byte %zu", zip->map->path,
                            next);
        const bool described = i > 0 && e[i - 1].described;
        if (next != end && !(described && is_descriptor(zip->map->data + end, next - end)))
            return zoe_fail(ctx, ZOE_FORMAT, "%s: the %zu bytes from %zu on belong to no zip entry",
                            zip->map->path, next - end, end);
        if (i < zip->n)
            end = e[i].end;
    }
    return ZOE_OK;
}

static zoe_status check_entries(zoe_context *ctx, zoe_zip *zip, size_t directory_begin)
{
    zoe_zip_entry *const e = zip->entries;
    qsort(e, zip->n, sizeof *e, place_order);
    TRY(check_places(ctx, zip, directory_begin));
    qsort(e, zip->n, sizeof *e, name_order);
    for (size_t i = 1; i < zip->n; i++)
        if (name_order(&e[i - 1], &e[i]) == 0)
            return zoe_fail(ctx, ZOE_FORMAT, "%s: zip entry %.*s is there twice", zip->map->path,
                            e[i].name_length < 200 ? (int)e[i].name_length : 200, e[i].name);
    return ZOE_OK;
}

zoe_status zoe_zip_open(zoe_context *ctx, zoe_zip *zip, const zoe_map *map)
{
    directory d;
    void *p;
    zoe_status status;
    *zip = (zoe_zip){.map = map};
    TRY(find_directory(ctx, &d, map));
    TRY(zoe_alloc(ctx, &p, d.n, sizeof *zip->entries, "zip directory"));
    zip->entries = p;
    zip->n = d.n;
    size_t at = d.begin;
    for (size_t i = 0; i < d.n; i++)
        TRY_GOTO(read_entry(ctx, &zip->entries[i], &at, &d, map));
    status = at == d.end ? check_entries(ctx, zip, d.begin)
                         : zoe_fail(ctx, ZOE_FORMAT,
                                    "%s: its zip directory has %zu bytes behind its %zu entries",
                                    map->path, d.end - at, d.n);
done:
    if (status != ZOE_OK)
        zoe_zip_close(zip);
    return status;
}

void zoe_zip_close(zoe_zip *zip)
{
    zoe_free(zip->entries);
    *zip = (zoe_zip){0};
}

const zoe_zip_entry *zoe_zip_find(const zoe_zip *zip, const char *name, size_t length)
{
    size_t low = 0, high = zip->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const zoe_zip_entry *entry = &zip->entries[middle];
        const int order = compare_names(entry->name, entry->name_length, name, length);
        if (order == 0)
            return entry;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
