/* Opening a checkpoint of any kind, and looking tensors up. */
#define _GNU_SOURCE
#include "store/content.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- filling ---- */

bool zoe_extents_check(size_t *count, const size_t *shape, int rank, size_t element_bytes)
{
    size_t bytes = element_bytes;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (shape[i] == 0)
            empty = true;
        else if (!zoe_size_mul(&bytes, bytes, shape[i]) || bytes > PTRDIFF_MAX)
            return false;
    }
    *count = empty ? 0 : bytes / element_bytes;
    return true;
}

zoe_status zoe_store_files(zoe_context *ctx, zoe_store *store, size_t n)
{
    void *p;
    TRY(zoe_alloc_zero(ctx, &p, n, sizeof *store->files, "list of files"));
    store->files = p;
    store->n_files = n;
    return ZOE_OK;
}

static zoe_status make_room(zoe_context *ctx, zoe_store *store)
{
    if (store->n < store->room)
        return ZOE_OK;
    const size_t room = store->room ? 2 * store->room : 256;
    void *p;
    TRY(zoe_alloc(ctx, &p, room, sizeof *store->entries, "list of tensors"));
    if (store->n)
        memcpy(p, store->entries, store->n * sizeof *store->entries);
    zoe_free(store->entries);
    store->entries = p;
    store->room = room;
    return ZOE_OK;
}

static size_t files_bytes(const zoe_store *store)
{
    size_t sum = 0;
    for (size_t i = 0; i < store->n_files; i++)
        sum += store->files[i].size;
    return sum;
}

/* Elements in row-major order into dst. */
static void gather(unsigned char *dst, zoe_tensor t, size_t element_bytes)
{
    size_t index[ZOE_MAX_RANK] = {0};
    const unsigned char *src = t.data;
    const size_t n = zoe_tensor_count(t);
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        for (int d = 0; d < t.rank; d++)
            at += index[d] * (size_t)t.stride[d];
        memcpy(dst + i * element_bytes, src + at * element_bytes, element_bytes);
        for (int d = t.rank - 1; d >= 0 && ++index[d] == t.shape[d]; d--)
            index[d] = 0;
    }
}

static zoe_status copy_data(zoe_context *ctx, zoe_store *store, zoe_entry *entry)
{
    const zoe_tensor t = entry->tensor;
    const size_t bytes = zoe_tensor_bytes(t);
    const char *path = store->files[entry->file].path;
    if (bytes > files_bytes(store) - store->copied)
        return zoe_fail(
            ctx, ZOE_FORMAT,
            "%s: tensor %s: repeats elements of the file until they are more than it holds", path,
            entry->stored);
    TRY(zoe_alloc(ctx, &entry->copy, bytes, 1, entry->stored));
    store->copied += bytes;
    if (zoe_tensor_dense(t))
        memcpy(entry->copy, t.data, bytes);
    else
        gather(entry->copy, t, zoe_dtype_bytes(t.dtype));
    entry->tensor = zoe_tensor_of(entry->copy, t.dtype, t.rank, t.shape);
    return ZOE_OK;
}

zoe_status zoe_store_add(zoe_context *ctx, zoe_store *store, size_t file, const char *name,
                         size_t name_length, zoe_tensor tensor)
{
    void *p;
    TRY(make_room(ctx, store));
    TRY(zoe_alloc(ctx, &p, name_length + 1, 1, "name of a tensor"));
    memcpy(p, name, name_length);
    ((char *)p)[name_length] = '\0';
    zoe_entry *entry = &store->entries[store->n++];
    *entry = (zoe_entry){.stored = p, .name = p, .tensor = tensor, .file = file};
    /* blocks are read byte by byte */
    const size_t aligned = zoe_block_elements(tensor.dtype) > 1 ? 1 : zoe_dtype_bytes(tensor.dtype);
    if (zoe_tensor_count(tensor) != 0 &&
        ((uintptr_t)tensor.data % aligned != 0 || !zoe_tensor_dense(tensor)))
        return copy_data(ctx, store, entry);
    entry->tensor = zoe_tensor_of(tensor.data, tensor.dtype, tensor.rank, tensor.shape);
    return ZOE_OK;
}

/* ---- opening ---- */

typedef enum kind { SAFETENSORS, ZIP, GGUF, INDEX } kind;

static bool begins(const zoe_map *map, const char *magic, size_t n)
{
    return map->size >= n && memcmp(map->data, magic, n) == 0;
}

/* Does it begin as a JSON object? In the binary kinds a zero byte comes early. */
static bool is_json(const zoe_map *map)
{
    size_t i = 0;
    if (map->size == 0 || memchr(map->data, 0, map->size < 8 ? map->size : 8))
        return false;
    while (i < map->size && (map->data[i] == ' ' || (map->data[i] >= '\t' && map->data[i] <= '\r')))
        i++;
    return i < map->size && map->data[i] == '{';
}

/* Tells the kind by the first bytes; a file that is none is refused with what it seems to be. */
static zoe_status tell_kind(zoe_context *ctx, kind *k, const zoe_map *map)
{
    if (is_json(map)) {
        *k = INDEX;
        return ZOE_OK;
    }
    if (begins(map, "PK\3\4", 4)) {
        *k = ZIP;
        return ZOE_OK;
    }
    if (begins(map, "GGUF", 4)) {
        *k = GGUF;
        return ZOE_OK;
    }
    if (begins(map, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14))
        return zoe_fail(
            ctx, ZOE_UNSUPPORTED,
            "%s: is a .pth of the kind before PyTorch 1.6; load it in PyTorch and save it again",
            map->path);
    /* a file too short for any kind goes there too: the reader says by how much */
    if (map->size <= 10 || map->data[8] == '{') {
        *k = SAFETENSORS;
        return ZOE_OK;
    }
    if (begins(map, "\x80", 1))
        return zoe_fail(
            ctx, ZOE_UNSUPPORTED,
            "%s: is a bare pickle; only a state dict as torch.save writes it can be read",
            map->path);
    return zoe_fail(ctx, ZOE_FORMAT,
                    "%s: is no checkpoint; a safetensors file, a GGUF file, a .pth of torch.save "
                    "or a safetensors index is wanted",
                    map->path);
}

static zoe_status read_file(zoe_context *ctx, zoe_store *store, size_t file, kind k)
{
    switch (k) {
    case ZIP: return zoe_pth_read(ctx, store, file);
    case GGUF: return zoe_gguf_read(ctx, store, file);
    default: return zoe_safetensors_read(ctx, store, file);
    }
}

static zoe_status open_path(zoe_context *ctx, zoe_store *store, const char *path, bool is_index)
{
    if (is_index)
        return zoe_shards_open(ctx, store, path);
    kind k;
    TRY(zoe_store_files(ctx, store, 1));
    TRY(zoe_map_open(ctx, &store->files[0], path));
    TRY(tell_kind(ctx, &k, &store->files[0]));
    if (k != INDEX)
        return read_file(ctx, store, 0, k);
    zoe_map_close(&store->files[0]);
    zoe_free(store->files);
    store->files = NULL;
    store->n_files = 0;
    return zoe_shards_open(ctx, store, path);
}

/* Scales are part of weights where names are known at all; as stored, they are tensors as any. */
static zoe_status apply_names(zoe_context *ctx, zoe_store *store, zoe_names names)
{
    TRY(zoe_names_apply(ctx, store, names));
    if (names == ZOE_NAMES_WAN_DIT || names == ZOE_NAMES_WAN_VAE)
        zoe_convolutions_unfold(store);
    return names == ZOE_NAMES_AS_STORED ? ZOE_OK : zoe_scales_apply(ctx, store);
}

static zoe_status store_new(zoe_context *ctx, zoe_store **store, const char *path)
{
    void *p;
    TRY(zoe_alloc_zero(ctx, &p, 1, sizeof **store, "store"));
    *store = p;
    return zoe_strdup(ctx, &(*store)->path, path);
}

zoe_status zoe_store_open(zoe_context *ctx, zoe_store **store, const char *path, zoe_names names)
{
    zoe_store *s = NULL;
    char *picked = NULL;
    bool is_index = false;
    zoe_status status;
    *store = NULL;
    if (!path)
        return zoe_fail(ctx, ZOE_INVALID, "no path of a checkpoint is given");
    TRY_GOTO(store_new(ctx, &s, path));
    if (zoe_folder_exists(path))
        TRY_GOTO(zoe_folder_pick(ctx, &picked, &is_index, path));
    TRY_GOTO(open_path(ctx, s, picked ? picked : path, is_index));
    TRY_GOTO(apply_names(ctx, s, names));
    *store = s;
    s = NULL;
done:
    zoe_free(picked);
    zoe_store_close(s);
    return status;
}

zoe_status zoe_store_open_memory(zoe_context *ctx, zoe_store **store, const void *data, size_t size,
                                 const char *path, zoe_names names)
{
    zoe_store *s = NULL;
    kind k;
    zoe_status status;
    *store = NULL;
    TRY_GOTO(store_new(ctx, &s, path));
    s->borrowed = true;
    TRY_GOTO(zoe_store_files(ctx, s, 1));
    s->files[0] = (zoe_map){.data = data, .size = size, .path = s->path};
    TRY_GOTO(tell_kind(ctx, &k, &s->files[0]));
    if (k == INDEX)
        TRY_GOTO(
            zoe_fail(ctx, ZOE_UNSUPPORTED, "%s: an index in memory has no shards beside it", path));
    TRY_GOTO(read_file(ctx, s, 0, k));
    TRY_GOTO(apply_names(ctx, s, names));
    *store = s;
    s = NULL;
done:
    zoe_store_close(s);
    return status;
}

void zoe_entry_free(zoe_entry *entry)
{
    zoe_free(entry->stored);
    zoe_free(entry->official);
    zoe_free(entry->copy);
    zoe_free(entry->scaling);
}

void zoe_store_close(zoe_store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < store->n; i++)
        zoe_entry_free(&store->entries[i]);
    zoe_free(store->entries);
    for (size_t i = 0; i < store->n_files && !store->borrowed; i++)
        zoe_map_close(&store->files[i]);
    zoe_free(store->files);
    zoe_free(store->path);
    zoe_free(store);
}

/* ---- looking up ---- */

const char *zoe_store_path(const zoe_store *store)
{
    return store->path;
}

size_t zoe_store_count(const zoe_store *store)
{
    return store->n;
}

const char *zoe_store_name(const zoe_store *store, size_t i)
{
    return store->entries[i].name;
}

zoe_tensor zoe_store_tensor(const zoe_store *store, size_t i)
{
    return store->entries[i].tensor;
}

const char *zoe_store_file(const zoe_store *store, size_t i)
{
    return store->files[store->entries[i].file].path;
}

zoe_entry *zoe_store_entry(const zoe_store *store, const char *name)
{
    size_t low = 0, high = store->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(store->entries[middle].name, name);
        if (order == 0)
            return &store->entries[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool zoe_store_find(const zoe_store *store, const char *name, zoe_tensor *tensor)
{
    const zoe_entry *entry = zoe_store_entry(store, name);
    if (entry)
        *tensor = entry->tensor;
    return entry != NULL;
}

static bool fits(zoe_tensor t, int rank, const size_t *shape)
{
    if (!zoe_dtype_is_float(t.dtype) || t.rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (shape[i] != 0 && shape[i] != t.shape[i])
            return false;
    return true;
}

/* "float [8, any]" */
static void describe_wanted(char *text, size_t size, int rank, const size_t *shape)
{
    int used = snprintf(text, size, "float [");
    for (int i = 0; i < rank && (size_t)used < size; i++)
        used += shape[i]
                    ? snprintf(text + used, size - (size_t)used, "%s%zu", i ? ", " : "", shape[i])
                    : snprintf(text + used, size - (size_t)used, "%sany", i ? ", " : "");
    if ((size_t)used < size)
        snprintf(text + used, size - (size_t)used, "]");
}

static zoe_status misfit(zoe_context *ctx, const zoe_store *store, const zoe_entry *entry, int rank,
                         const size_t *shape)
{
    char found[160], wanted[160];
    describe_wanted(wanted, sizeof wanted, rank, shape);
    return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: is %s, wanted %s",
                    store->files[entry->file].path, entry->name,
                    zoe_tensor_describe(found, sizeof found, entry->tensor), wanted);
}

zoe_status zoe_store_get(zoe_context *ctx, const zoe_store *store, zoe_tensor *tensor,
                         const char *name, int rank, const size_t *shape)
{
    const zoe_entry *entry = zoe_store_entry(store, name);
    if (!entry)
        return zoe_fail(ctx, ZOE_MISSING, "%s: tensor %s is not there", store->path, name);
    if (!fits(entry->tensor, rank, shape))
        return misfit(ctx, store, entry, rank, shape);
    *tensor = entry->tensor;
    return ZOE_OK;
}

/* A list of names in running text: the first few, then how many more. */
typedef struct list {
    char text[1024];
    size_t used, n;
} list;

enum { LISTED = 4 };

static void list_add(list *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void list_add(list *l, const char *format, ...)
{
    if (l->n++ >= LISTED || l->used >= sizeof l->text - 1)
        return;
    va_list args;
    l->used +=
        (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s", l->n > 1 ? ", " : "");
    if (l->used >= sizeof l->text - 1)
        return;
    va_start(args, format);
    l->used += (size_t)vsnprintf(l->text + l->used, sizeof l->text - l->used, format, args);
    va_end(args);
    if (l->used > sizeof l->text - 1)
        l->used = sizeof l->text - 1;
}

zoe_status zoe_store_get_all(zoe_context *ctx, const zoe_store *store, const zoe_want *wants,
                             size_t n)
{
    list missing = {.n = 0}, unfit = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        const zoe_want *w = &wants[i];
        const zoe_entry *entry = zoe_store_entry(store, w->name);
        if (!entry) {
            list_add(&missing, "%s", w->name);
        } else if (!fits(entry->tensor, w->rank, w->shape)) {
            char found[160], wanted[160];
            describe_wanted(wanted, sizeof wanted, w->rank, w->shape);
            list_add(&unfit, "%s is %s, wanted %s", w->name,
                     zoe_tensor_describe(found, sizeof found, entry->tensor), wanted);
        } else if (w->tensor) {
            *w->tensor = entry->tensor;
        }
    }
    if (missing.n)
        return zoe_fail(ctx, ZOE_MISSING, "%s: %zu of %zu tensors are missing: %s%s%s%s",
                        store->path, missing.n, n, missing.text, missing.n > LISTED ? ", ..." : "",
                        unfit.n ? "; besides, " : "", unfit.text);
    if (unfit.n)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: %zu of %zu tensors do not fit: %s%s", store->path,
                        unfit.n, n, unfit.text, unfit.n > LISTED ? ", ..." : "");
    return ZOE_OK;
}

/* ---- pages ---- */

size_t zoe_store_bytes(const zoe_store *store)
{
    size_t sum = 0;
    for (size_t i = 0; i < store->n; i++) {
        const zoe_tensor t = store->entries[i].tensor;
        if (!zoe_size_add(&sum, sum, zoe_tensor_bytes(t)))
            return SIZE_MAX; /* a file may name one range often */
    }
    return sum;
}

static bool in_a_file(const zoe_store *store, const unsigned char *p)
{
    for (size_t i = 0; i < store->n_files; i++)
        if (p >= store->files[i].data && p < store->files[i].data + store->files[i].size)
            return true;
    return false;
}

/* Linux reads no more for one piece of advice than the larger of the device's read-ahead (128 KiB by
 * default) and its largest request, and forgets the rest. */
enum { ADVISED = 128 << 10 };

void zoe_store_will_need(const zoe_store *store, zoe_tensor tensor)
{
    const uintptr_t begin = (uintptr_t)tensor.data;
    const uintptr_t page = begin - begin % (uintptr_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = zoe_tensor_bytes(tensor);
    if (!bytes || store->borrowed || !in_a_file(store, tensor.data))
        return;
    for (size_t at = 0, end = begin - page + bytes; at < end; at += ADVISED)
        madvise((void *)(page + at), end - at < ADVISED ? end - at : ADVISED, MADV_WILLNEED);
}

void zoe_store_drop(const zoe_store *store)
{
    if (store->borrowed)
        return;
    for (size_t i = 0; i < store->n_files; i++)
        if (store->files[i].size)
            madvise((void *)(uintptr_t)store->files[i].data, store->files[i].size, MADV_DONTNEED);
}

zoe_status zoe_store_check(zoe_context *ctx, const zoe_store *store)
{
    for (size_t i = 0; i < store->n_files && !store->borrowed; i++)
        TRY(zoe_map_check(ctx, &store->files[i]));
    return ZOE_OK;
}
