/* Zip archives as torch.save writes them: entries are stored as they are. For this room only. */
#ifndef ZOE_STORE_ZIP_H
#define ZOE_STORE_ZIP_H

#include "base/base.h"
#include "base/file.h"

typedef struct zoe_zip_entry {
    const char *name; /* in the map, not terminated */
    size_t name_length;
    size_t head, begin, end; /* bytes of the file: local header, data */
    bool described;          /* a data descriptor follows */
    bool plain;              /* neither compressed nor encrypted */
} zoe_zip_entry;

typedef struct zoe_zip {
    const zoe_map *map;
    zoe_zip_entry *entries; /* sorted by name */
    size_t n;
} zoe_zip;

/* Reads the directory and checks all of it, ZIP64 included: the entries, each with the data
 * descriptor that its flags announce, fill the file up to the directory, which ends it: no holes,
 * no byte of two entries, nothing behind. No two entries have one name, each local header says the
 * same as the directory. Check sums are not computed. The map must outlive the zip. Errors: ZOE_FORMAT, ZOE_NOMEM. */
zoe_status zoe_zip_open(zoe_context *ctx, zoe_zip *zip, const zoe_map *map);
void zoe_zip_close(zoe_zip *zip);

/* NULL if there is no such entry. */
const zoe_zip_entry *zoe_zip_find(const zoe_zip *zip, const char *name, size_t length);

#endif
