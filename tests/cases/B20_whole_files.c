/* B20: one rule for every kind of checkpoint: its pieces fill the file. A byte more, a hole and a
 * byte of two pieces are refused by name, in a safetensors file, in a shard and in a .pth.
 *
 *     case_B20_whole_files DATA */
#include "case.h"

#include <unistd.h>

#include "store/content.h"

typedef struct bytes {
    unsigned char at[8192];
    size_t n;
} bytes;

static void insert(bytes *b, size_t where, const void *data, size_t n)
{
    memmove(b->at + where + n, b->at + where, b->n - where);
    memcpy(b->at + where, data, n);
    b->n += n;
}

static void write_bytes(const char *path, const bytes *b)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(b->at, 1, b->n, f) != b->n || fclose(f) != 0)
        exit(1);
}

/* The file itself; what is wrong with it is found in the sentence. NULL: it must open. */
static void check(zoe_context *ctx, const char *path, const char *named, const char *word)
{
    zoe_store *store;
    zoe_context_clear(ctx);
    const zoe_status status = zoe_store_open(ctx, &store, path, ZOE_NAMES_AS_STORED);
    const char *message = zoe_context_message(ctx);
    if (word)
        case_expect(status == ZOE_FORMAT && strstr(message, named) && strstr(message, word),
                    "%s, \"%s\": %s: %s", path, word, zoe_status_name(status), message);
    else
        case_expect(status == ZOE_OK, "%s: %s: %s", path, zoe_status_name(status), message);
    zoe_store_close(store);
}

/* ---- safetensors ---- */

static void put_safetensors(bytes *b, const char *header, size_t data)
{
    const size_t length = strlen(header);
    memset(b, 0, sizeof *b);
    b->at[0] = (unsigned char)(length & 0xff);
    b->at[1] = (unsigned char)(length >> 8);
    memcpy(b->at + 8, header, length);
    b->n = 8 + length + data;
}

#define PAIR(x, y)                                                                                 \
    "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[" x "]},"                            \
    "\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[" y "]}}"

static const struct {
    const char *header;
    size_t data;
    const char *word; /* NULL: sound */
} tensors[] = {
    {PAIR("0,2", "2,4"), 4, NULL},
    {PAIR("2,4", "0,2"), 4, NULL}, /* in any order */
    {PAIR("0,2", "2,4"), 5, "something behind the last tensor"},
    {PAIR("0,2", "2,4"), 3, "cut short"},
    {PAIR("0,2", "3,5"), 5, "tensor y: begins at byte 3, but the data before it end at 2"},
    {PAIR("1,3", "3,5"), 5, "tensor x: begins at byte 1, but the data before it end at 0"},
    {PAIR("0,2", "0,2"), 2, "inside tensor"},
    {PAIR("0,2", "1,3"), 3, "tensor y: begins at byte 1, inside tensor x, which ends at 2"},
};

static void safetensors(zoe_context *ctx, const char *folder, const char *name)
{
    const char *path = case_path(folder, name);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        bytes b;
        put_safetensors(&b, tensors[i].header, tensors[i].data);
        write_bytes(path, &b);
        check(ctx, path, name, tensors[i].word);
    }
}

/* The same files as the one shard of an index. */
static void shards(zoe_context *ctx, const char *folder)
{
    static const char index[] = "{\"weight_map\":{\"x\":\"shard.safetensors\","
                                "\"y\":\"shard.safetensors\"}}";
    const char *path = case_path(folder, "m.safetensors.index.json");
    const char *shard = case_path(folder, "shard.safetensors");
    bytes b = {.n = sizeof index - 1};
    memcpy(b.at, index, b.n);
    write_bytes(path, &b);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        put_safetensors(&b, tensors[i].header, tensors[i].data);
        write_bytes(shard, &b);
        check(ctx, path, "shard.safetensors", tensors[i].word);
    }
    unlink(shard);
    unlink(path);
}

/* ---- .pth: its pieces are the entries of the zip ---- */

static uint32_t number_at(const bytes *b, size_t at)
{
    return (uint32_t)b->at[at] | (uint32_t)b->at[at + 1] << 8 | (uint32_t)b->at[at + 2] << 16 |
           (uint32_t)b->at[at + 3] << 24;
}

static void add_at(bytes *b, size_t at, uint32_t more)
{
    const uint32_t value = number_at(b, at) + more;
    for (size_t i = 0; i < 4; i++)
        b->at[at + i] = (unsigned char)(value >> 8 * i);
}

/* torch writes all three records of the end: ZIP64, its locator, the plain one. */
typedef struct end {
    size_t directory, record, locator, trailer;
} end;

static end find_end(const bytes *b)
{
    const end e = {number_at(b, b->n - 6), b->n - 98, b->n - 42, b->n - 22};
    if (memcmp(b->at + e.record, "PK\6\6", 4) != 0 || memcmp(b->at + e.locator, "PK\6\7", 4) != 0 ||
        memcmp(b->at + e.directory, "PK\1\2", 4) != 0)
        exit(1);
    return e;
}

/* n bytes between the last entry and the directory. */
static void hole_before_directory(bytes *b, const void *data, size_t n)
{
    const end e = find_end(b);
    insert(b, e.directory, data, n);
    add_at(b, e.record + n + 48, (uint32_t)n);
    add_at(b, e.locator + n + 8, (uint32_t)n);
    add_at(b, e.trailer + n + 16, (uint32_t)n);
}

/* The first entry of the directory once more: all its bytes belong to two. */
static void same_entry_twice(bytes *b)
{
    const end e = find_end(b);
    const unsigned char *p = b->at + e.directory;
    unsigned char entry[512];
    const size_t n = 46u + p[28] + p[30] + p[32];
    if (n > sizeof entry)
        exit(1);
    memcpy(entry, p, n);
    insert(b, e.directory, entry, n);
    add_at(b, e.record + n + 24, 1); /* entries on this disk, entries, bytes */
    add_at(b, e.record + n + 32, 1);
    add_at(b, e.record + n + 40, (uint32_t)n);
    add_at(b, e.locator + n + 8, (uint32_t)n);
    add_at(b, e.trailer + n + 8, 0x00010001);
    add_at(b, e.trailer + n + 12, (uint32_t)n);
}

static void pth(zoe_context *ctx, const char *folder, const char *source)
{
    bytes whole, b;
    FILE *f = fopen(source, "rb");
    if (!f)
        exit(1);
    whole.n = fread(whole.at, 1, sizeof whole.at / 2, f);
    fclose(f);
    const char *path = case_path(folder, "made.pth");

    b = whole;
    write_bytes(path, &b);
    check(ctx, path, "made.pth", NULL);
    insert(&b, b.n, "", 1);
    write_bytes(path, &b);
    check(ctx, path, "made.pth", "there is something behind it");

    b = whole;
    hole_before_directory(&b, "x", 1);
    write_bytes(path, &b);
    check(ctx, path, "made.pth", "belong to no zip entry");

    b = whole; /* the descriptors that follow the entries are holes if no flag announces them */
    b.at[find_end(&b).directory + 8] &= (unsigned char)~8u;
    write_bytes(path, &b);
    check(ctx, path, "made.pth", "the 16 bytes from");

    b = whole;
    same_entry_twice(&b);
    write_bytes(path, &b);
    check(ctx, path, "made.pth", "two zip entries share byte 0");

    b = whole; /* a byte between the two records of the end */
    insert(&b, find_end(&b).locator, "x", 1);
    write_bytes(path, &b);
    check(ctx, path, "made.pth", "ZIP64 end record");
    unlink(path);
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/zoe-case-XXXXXX";
    if (argc != 2 || !mkdtemp(folder))
        return 2;
    zoe_context *ctx = case_context(1);
    safetensors(ctx, folder, "one.safetensors");
    unlink(case_path(folder, "one.safetensors"));
    shards(ctx, folder);
    pth(ctx, folder, case_path(argv[1], "store/state.pth"));
    rmdir(folder);
    zoe_context_free(ctx);
    return case_failures ? 1 : 0;
}
