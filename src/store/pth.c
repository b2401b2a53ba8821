/* The .pth files of torch.save: a zip with a pickled state dict (data.pkl) and one entry of raw
 * bytes for each storage (data/0, data/1, ...), all in one folder whose name says nothing. */
#include "store/content.h"
#include "store/pickle.h"
#include "store/zip.h"

/* Some 200 kB are usual. Reading needs up to a hundred times this much memory. */
enum { PICKLE_LIMIT = 4 << 20 };

typedef struct archive {
    zoe_context *ctx;
    zoe_store *store;
    size_t file;
    const zoe_map *map;
    zoe_zip zip;
    const char *root; /* the folder with its '/', in the map, not terminated */
    size_t root_length;
} archive;

/* The entry "<root><prefix><key>", or NULL. */
static zoe_status find_entry(archive *a, const zoe_zip_entry **entry, const char *prefix,
                             const char *key, size_t key_length)
{
    const size_t n = strlen(prefix), length = a->root_length + n + key_length;
    void *p;
    TRY(zoe_alloc(a->ctx, &p, length, 1, "name of a zip entry"));
    char *name = p;
    memcpy(name, a->root, a->root_length);
    memcpy(name + a->root_length, prefix, n);
    memcpy(name + a->root_length + n, key, key_length);
    *entry = zoe_zip_find(&a->zip, name, length);
    zoe_free(name);
    return ZOE_OK;
}

/* ---- tensors ---- */

/* Extents and strides; the last element must lie within the storage of `numel` elements. */
static zoe_status read_layout(archive *a, zoe_tensor *t, size_t *offset, zoe_pickle_value v,
                              size_t numel, const char *name)
{
    const zoe_pickle_object *size = v.object->items[2].object, *stride = v.object->items[3].object;
    const int64_t first = v.object->items[1].integer;
    const char *path = a->map->path;
    size_t count, last = first < 0 ? 0 : (size_t)first;
    if (size->n > ZOE_MAX_RANK)
        return zoe_fail(a->ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s: has %zu dimensions, at most %d are supported", path, name,
                        size->n, ZOE_MAX_RANK);
    bool good = first >= 0 && stride->n == size->n;
    t->rank = (int)size->n;
    for (size_t i = 0; i < size->n && good; i++) {
        good = size->items[i].integer >= 0 && stride->items[i].integer >= 0;
        t->shape[i] = (size_t)size->items[i].integer;
        t->stride[i] = (ptrdiff_t)stride->items[i].integer;
    }
    if (!good || !zoe_extents_check(&count, t->shape, t->rank, zoe_dtype_bytes(t->dtype)))
        return zoe_fail(a->ctx, ZOE_FORMAT,
                        "%s: tensor %s: its offset, extents and strides make no tensor", path,
                        name);
    *offset = count ? last : 0;
    for (int i = 0; i < t->rank && good && count; i++) {
        size_t reach;
        good = zoe_size_mul(&reach, t->shape[i] - 1, (size_t)t->stride[i]) &&
               zoe_size_add(&last, last, reach);
    }
    if (count && (!good || last >= numel))
        return zoe_fail(a->ctx, ZOE_FORMAT,
                        "%s: tensor %s: reaches beyond its storage of %zu elements", path, name,
                        numel);
    return ZOE_OK;
}

static zoe_status add_tensor(archive *a, const char *name, size_t name_length, zoe_pickle_value v)
{
    const zoe_pickle_value storage = v.object->items[0], key = storage.object->items[2];
    const size_t numel = (size_t)storage.object->items[4].integer;
    zoe_tensor t = {.dtype = zoe_pickle_dtype(storage)};
    const size_t element = zoe_dtype_bytes(t.dtype);
    const zoe_zip_entry *entry;
    size_t offset, bytes;
    TRY(find_entry(a, &entry, "data/", key.text.bytes, key.text.length));
    if (!entry)
        return zoe_fail(a->ctx, ZOE_FORMAT,
                        "%s: tensor %s: its storage data/%.*s is not in the zip", a->map->path,
                        name, key.text.length < 40 ? (int)key.text.length : 40, key.text.bytes);
    if (!entry->plain)
        return zoe_fail(a->ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s: its storage is compressed or encrypted; save the file "
                        "again with torch.save",
                        a->map->path, name);
    if (!zoe_size_mul(&bytes, numel, element) || bytes != entry->end - entry->begin)
        return zoe_fail(a->ctx, ZOE_FORMAT,
                        "%s: tensor %s: its storage of %zu %s elements has %zu bytes", a->map->path,
                        name, numel, zoe_dtype_name(t.dtype), entry->end - entry->begin);
    TRY(read_layout(a, &t, &offset, v, numel, name));
    /* read-only by the store's contract */
    t.data = (void *)(uintptr_t)(a->map->data + entry->begin + offset * element);
    return zoe_store_add(a->ctx, a->store, a->file, name, name_length, t);
}

static zoe_status add_item(archive *a, zoe_pickle_value key, zoe_pickle_value v)
{
    void *p;
    if (key.kind != ZOE_PICKLE_TEXT || memchr(key.text.bytes, '\0', key.text.length))
        return zoe_fail(a->ctx, ZOE_FORMAT, "%s: a tensor's name in data.pkl is no text",
                        a->map->path);
    TRY(zoe_alloc(a->ctx, &p, key.text.length + 1, 1, "name of a tensor"));
    char *name = p;
    memcpy(name, key.text.bytes, key.text.length);
    name[key.text.length] = '\0';
    const zoe_status status = add_tensor(a, name, key.text.length, v);
    zoe_free(name);
    return status;
}

/* ---- the state dict ---- */

static bool has_tensors(const zoe_pickle_object *dict)
{
    for (size_t i = 1; i < dict->n; i += 2)
        if (dict->items[i].kind == ZOE_PICKLE_TENSOR)
            return true;
    return false;
}

/* What the dict has under a key: the last of several, as in Python. */
static zoe_pickle_value look_up(const zoe_pickle_object *dict, const char *key)
{
    for (size_t i = dict->n; i >= 2; i -= 2)
        if (zoe_pickle_text_is(dict->items[i - 2], key))
            return dict->items[i - 1];
    return (zoe_pickle_value){.kind = ZOE_PICKLE_UNSET};
}

/* The dict itself, or the one that a training script has wrapped under a usual key. NULL if there
 * are no tensors. */
static const zoe_pickle_object *unwrap(zoe_pickle_value root)
{
    static const char *const keys[] = {"state_dict", "model", "module", "model_state_dict"};
    if (root.kind != ZOE_PICKLE_DICT)
        return NULL;
    if (has_tensors(root.object))
        return root.object;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const zoe_pickle_value inner = look_up(root.object, keys[k]);
        if (inner.kind == ZOE_PICKLE_DICT && has_tensors(inner.object))
            return inner.object;
    }
    return NULL;
}

static zoe_status add_state_dict(archive *a, const zoe_pickle *pickle)
{
    size_t others = 0;
    const zoe_pickle_object *dict = unwrap(pickle->root);
    if (!dict)
        return zoe_fail(a->ctx, ZOE_UNSUPPORTED,
                        "%s: its pickle is no state dict: no dict of tensors is at its top, nor "
                        "one level down under state_dict, model or module",
                        a->map->path);
    for (size_t i = 0; i < dict->n; i += 2) {
        if (dict->items[i + 1].kind == ZOE_PICKLE_TENSOR)
            TRY(add_item(a, dict->items[i], dict->items[i + 1]));
        else
            others++;
    }
    if (others)
        zoe_log(a->ctx, ZOE_WARNING,
                "%s: %zu items of the state dict are no tensors and are left out", a->map->path,
                others);
    return ZOE_OK;
}

/* ---- the archive ---- */

/* Finds "<root>/data.pkl", which fixes the root. */
static zoe_status find_pickle(archive *a, const zoe_zip_entry **pickle)
{
    static const char end[] = "/data.pkl";
    const size_t n = sizeof end - 1;
    *pickle = NULL;
    for (size_t i = 0; i < a->zip.n; i++) {
        const zoe_zip_entry *e = &a->zip.entries[i];
        if (e->name_length <= n || memcmp(e->name + e->name_length - n, end, n) != 0 ||
            memchr(e->name, '/', e->name_length - n))
            continue;
        if (*pickle)
            return zoe_fail(a->ctx, ZOE_FORMAT, "%s: holds more than one data.pkl", a->map->path);
        *pickle = e;
        a->root = e->name;
        a->root_length = e->name_length - n + 1;
    }
    if (!*pickle)
        return zoe_fail(a->ctx, ZOE_UNSUPPORTED,
                        "%s: is a zip without data.pkl, which torch.save would have written",
                        a->map->path);
    return ZOE_OK;
}

static zoe_status check_archive(archive *a, const zoe_zip_entry *pickle)
{
    const zoe_zip_entry *entry;
    const char *path = a->map->path;
    TRY(find_entry(a, &entry, "constants.pkl", "", 0));
    if (entry)
        return zoe_fail(
            a->ctx, ZOE_UNSUPPORTED,
            "%s: is a TorchScript program; a state dict saved with torch.save is wanted", path);
    TRY(find_entry(a, &entry, "byteorder", "", 0));
    if (entry &&
        (entry->end - entry->begin != 6 || memcmp(a->map->data + entry->begin, "little", 6) != 0))
        return zoe_fail(a->ctx, ZOE_UNSUPPORTED,
                        "%s: was saved on a machine of another byte order than little", path);
    if (!pickle->plain)
        return zoe_fail(
            a->ctx, ZOE_UNSUPPORTED,
            "%s: its data.pkl is compressed or encrypted; save the file again with torch.save",
            path);
    if (pickle->end - pickle->begin > PICKLE_LIMIT)
        return zoe_fail(a->ctx, ZOE_FORMAT,
                        "%s: its data.pkl has %zu bytes, more than the %d that are allowed", path,
                        pickle->end - pickle->begin, PICKLE_LIMIT);
    return ZOE_OK;
}

zoe_status zoe_pth_read(zoe_context *ctx, zoe_store *store, size_t file)
{
    archive a = {.ctx = ctx, .store = store, .file = file, .map = &store->files[file]};
    zoe_pickle pickle = {0};
    const zoe_zip_entry *entry;
    zoe_status status;
    TRY(zoe_zip_open(ctx, &a.zip, a.map));
    TRY_GOTO(find_pickle(&a, &entry));
    TRY_GOTO(check_archive(&a, entry));
    TRY_GOTO(zoe_pickle_read(ctx, &pickle, a.map->data + entry->begin, entry->end - entry->begin,
                             a.map->path));
    TRY_GOTO(add_state_dict(&a, &pickle));
done:
    zoe_pickle_free(&pickle);
    zoe_zip_close(&a.zip);
    return status;
}
