/* The safetensors format: 8 bytes of header length, a JSON header, data.
 *
 * The rule for what is accepted is that of the official reader: the tensors' ranges, in order, fill
 * the data exactly. A hole, an overlap or a byte behind the last tensor is refused. */
#include "store/content.h"

#include <stdlib.h>

enum { PREFIX = 8 }; /* bytes of the header length */

static const struct {
    const char *name;
    zoe_dtype dtype;
} dtypes[] = {
    {"F32", ZOE_F32},         {"BF16", ZOE_BF16},       {"F16", ZOE_F16}, {"F64", ZOE_F64},
    {"F8_E4M3", ZOE_F8_E4M3}, {"F8_E5M2", ZOE_F8_E5M2}, {"I64", ZOE_I64}, {"I32", ZOE_I32},
    {"I16", ZOE_I16},         {"I8", ZOE_I8},           {"U8", ZOE_U8},   {"BOOL", ZOE_BOOL},
};

static zoe_dtype dtype_of(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return dtypes[i].dtype;
    return ZOE_NONE;
}

static const char *name_of(zoe_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

/* ---- reading ---- */

typedef struct range {
    size_t begin, end; /* bytes, counted from the end of the header */
    const char *name;  /* lives as long as the header */
    zoe_tensor tensor;
} range;

static bool size_of(size_t *value, const json_t *number)
{
    if (!json_is_integer(number) || json_integer_value(number) < 0)
        return false;
    *value = (size_t)json_integer_value(number);
    return true;
}

static zoe_status read_shape(zoe_context *ctx, range *r, const json_t *shape, const char *path)
{
    if (!json_is_array(shape))
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: its shape is no list", path, r->name);
    const size_t rank = json_array_size(shape);
    if (rank > ZOE_MAX_RANK)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s: has %zu dimensions, at most %d are supported", path,
                        r->name, rank, ZOE_MAX_RANK);
    size_t extents[ZOE_MAX_RANK];
    for (size_t i = 0; i < rank; i++)
        if (!size_of(&extents[i], json_array_get(shape, i)))
            return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: extent %zu is no size", path, r->name,
                            i);
    size_t count;
    if (!zoe_extents_check(&count, extents, (int)rank, zoe_dtype_bytes(r->tensor.dtype)))
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: its shape is larger than any memory", path,
                        r->name);
    r->tensor = zoe_tensor_of(NULL, r->tensor.dtype, (int)rank, extents);
    return ZOE_OK;
}

static zoe_status read_entry(zoe_context *ctx, range *r, const json_t *entry, const char *path)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: no dtype is given", path, r->name);
    r->tensor = (zoe_tensor){.dtype = dtype_of(dtype)};
    if (r->tensor.dtype == ZOE_NONE)
        return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s: tensor %s: unknown dtype \"%.40s\"", path,
                        r->name, dtype);
    TRY(read_shape(ctx, r, json_object_get(entry, "shape"), path));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (json_array_size(offsets) != 2 || !size_of(&r->begin, json_array_get(offsets, 0)) ||
        !size_of(&r->end, json_array_get(offsets, 1)) || r->begin > r->end)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: tensor %s: data_offsets must be two sizes, the second not smaller",
                        path, r->name);
    const size_t bytes = zoe_tensor_count(r->tensor) * zoe_dtype_bytes(r->tensor.dtype);
    if (r->end - r->begin != bytes) {
        char shape[128];
        return zoe_fail(
            ctx, ZOE_FORMAT, "%s: tensor %s: %s needs %zu bytes, its data_offsets give %zu", path,
            r->name, zoe_tensor_describe(shape, sizeof shape, r->tensor), bytes, r->end - r->begin);
    }
    return ZOE_OK;
}

static zoe_status check_metadata(zoe_context *ctx, json_t *metadata, const char *path)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata);
    json_object_foreach(metadata, key, value) good = good && json_is_string(value);
    return good ? ZOE_OK
                : zoe_fail(ctx, ZOE_FORMAT, "%s: __metadata__ must map texts to texts", path);
}

static int range_order(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end == y->end ? 0 : x->end < y->end ? -1 : 1;
}

/* The ranges, sorted, must fill the `size` bytes of data. */
static zoe_status check_ranges(zoe_context *ctx, const range *ranges, size_t n, size_t header,
                               size_t size, const char *path)
{
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].begin < end)
            return zoe_fail(
                ctx, ZOE_FORMAT,
                "%s: tensor %s: begins at byte %zu, inside tensor %s, which ends at %zu", path,
                ranges[i].name, ranges[i].begin, ranges[i - 1].name, end);
        if (ranges[i].begin > end)
            return zoe_fail(ctx, ZOE_FORMAT,
                            "%s: tensor %s: begins at byte %zu, but the data before it end at %zu",
                            path, ranges[i].name, ranges[i].begin, end);
        end = ranges[i].end;
    }
    if (end != size)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: has %zu bytes, its header describes %zu: %s", path,
                        header + size, header + end,
                        end > size ? "the file is cut short; download it again"
                                   : "there is something behind the last tensor");
    return ZOE_OK;
}

static zoe_status read_ranges(zoe_context *ctx, range **ranges, size_t *n, json_t *root,
                              const char *path)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, json_object_size(root), sizeof **ranges, path));
    *ranges = p;
    *n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (strcmp(key, "__metadata__") == 0) {
            TRY(check_metadata(ctx, value, path));
            continue;
        }
        range *r = &(*ranges)[(*n)++];
        *r = (range){.name = key};
        TRY(read_entry(ctx, r, value, path));
    }
    qsort(*ranges, *n, sizeof **ranges, range_order);
    return ZOE_OK;
}

/* The header's text, after checking that it is there. */
static zoe_status find_header(zoe_context *ctx, const zoe_map *map, size_t *length)
{
    if (map->size < PREFIX)
        return zoe_fail(
            ctx, ZOE_FORMAT,
            "%s: has %zu bytes, a safetensors file has at least %d: the file is cut short; "
            "download it again",
            map->path, map->size, PREFIX + 2);
    uint64_t n = 0;
    for (int i = PREFIX - 1; i >= 0; i--)
        n = n << 8 | map->data[i];
    if (n > ZOE_JSON_LIMIT)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: claims a header of %llu bytes, more than the %d that are allowed",
                        map->path, (unsigned long long)n, ZOE_JSON_LIMIT);
    if (n > map->size - PREFIX)
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: has %zu bytes, its header alone ends at %zu: the file is cut short; "
                        "download it again",
                        map->path, map->size, (size_t)n + PREFIX);
    *length = (size_t)n;
    return ZOE_OK;
}

zoe_status zoe_safetensors_read(zoe_context *ctx, zoe_store *store, size_t file)
{
    const zoe_map *map = &store->files[file];
    json_t *root = NULL;
    range *ranges = NULL;
    size_t length, n = 0;
    zoe_status status;
    TRY(find_header(ctx, map, &length));
    TRY_GOTO(zoe_json_parse(ctx, &root, (const char *)map->data + PREFIX, length, map->path));
    TRY_GOTO(read_ranges(ctx, &ranges, &n, root, map->path));
    TRY_GOTO(check_ranges(ctx, ranges, n, PREFIX + length, map->size - PREFIX - length, map->path));
    const unsigned char *data = map->data + PREFIX + length;
    for (size_t i = 0; i < n; i++) {
        zoe_tensor t = ranges[i].tensor;
        t.data =
            (void *)(uintptr_t)(data + ranges[i].begin); /* read-only by the store's contract */
        TRY_GOTO(zoe_store_add(ctx, store, file, ranges[i].name, strlen(ranges[i].name), t));
    }
done:
    zoe_free(ranges);
    json_decref(root);
    return status;
}

zoe_status zoe_safetensors_metadata(zoe_context *ctx, char **value, const char *path,
                                    const char *key)
{
    zoe_map map;
    json_t *root = NULL;
    size_t length;
    zoe_status status;
    *value = NULL;
    TRY(zoe_map_open(ctx, &map, path));
    TRY_GOTO(find_header(ctx, &map, &length));
    TRY_GOTO(zoe_json_parse(ctx, &root, (const char *)map.data + PREFIX, length, path));
    const json_t *metadata = json_object_get(root, "__metadata__");
    const char *text = json_string_value(json_object_get(metadata, key));
    status = text ? zoe_strdup(ctx, value, text)
                  : zoe_fail(ctx, ZOE_MISSING, "%s: has no metadata named \"%s\"", path, key);
done:
    json_decref(root);
    zoe_map_close(&map);
    return status;
}

/* ---- writing ---- */

/* Room for anything that jansson makes of one entry; it does not tell a lack of memory from a text
 * that is no UTF-8. */
enum { ENTRY_ROOM = 4096 };

static zoe_status describe(zoe_context *ctx, json_t *root, const zoe_named_tensor *named,
                           size_t *offset, const char *path)
{
    const zoe_tensor t = named->tensor;
    const char *dtype = name_of(t.dtype);
    if (!dtype || !zoe_tensor_dense(t))
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: tensor %s: only dense tensors with elements can be written", path,
                        named->name);
    if (strcmp(named->name, "__metadata__") == 0 || json_object_get(root, named->name))
        return zoe_fail(ctx, ZOE_INVALID, "%s: tensor %s: this name is taken", path, named->name);
    const size_t begin = *offset;
    *offset += zoe_tensor_count(t) * zoe_dtype_bytes(t.dtype);
    json_t *shape = json_array();
    for (int i = 0; i < t.rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)t.shape[i]));
    const bool whole = json_array_size(shape) == (size_t)t.rank;
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape,
                              "data_offsets", (json_int_t)begin, (json_int_t)*offset);
    if (entry && whole && json_object_set_new(root, named->name, entry) == 0)
        return ZOE_OK;
    if (!entry || !whole) {
        json_decref(entry);
        return zoe_fail(ctx, ZOE_NOMEM, "%s: no memory for the header", path);
    }
    TRY(zoe_alloc_probe(ctx, ENTRY_ROOM, path));
    return zoe_fail(ctx, ZOE_INVALID, "%s: tensor %s: this name is no UTF-8", path, named->name);
}

/* Tensors in order of falling element size: without holes, this is what keeps every one aligned. */
static const size_t element_sizes[] = {8, 4, 2, 1};
enum { ELEMENT_SIZES = sizeof element_sizes / sizeof *element_sizes };

static zoe_status header_text(zoe_context *ctx, char **text, const char *path,
                              const zoe_named_tensor *tensors, size_t n,
                              const char *const (*metadata)[2], size_t n_meta)
{
    zoe_status status = ZOE_OK;
    size_t offset = 0;
    json_t *root = json_object(), *meta = json_object();
    for (size_t i = 0; i < n_meta; i++)
        if (json_object_set_new(meta, metadata[i][0], json_string(metadata[i][1])) != 0) {
            TRY_GOTO(zoe_alloc_probe(ctx, strlen(metadata[i][1]) + ENTRY_ROOM, path));
            status = zoe_fail(ctx, ZOE_INVALID, "%s: metadata must be UTF-8", path);
            goto done;
        }
    if (n_meta && json_object_set(root, "__metadata__", meta) != 0)
        TRY_GOTO(zoe_fail(ctx, ZOE_NOMEM, "%s: no memory for the header", path));
    for (size_t k = 0; k < ELEMENT_SIZES; k++)
        for (size_t i = 0; i < n; i++)
            if (zoe_dtype_bytes(tensors[i].tensor.dtype) == element_sizes[k])
                TRY_GOTO(describe(ctx, root, &tensors[i], &offset, path));
    if (json_object_size(root) != n + (n_meta > 0)) {
        status = zoe_fail(ctx, ZOE_INVALID, "%s: a tensor without elements' type cannot be written",
                          path);
        goto done;
    }
    *text = json_dumps(root, JSON_COMPACT);
    if (!*text)
        status = zoe_fail(ctx, ZOE_NOMEM, "%s: no memory for the header", path);
done:
    json_decref(meta);
    json_decref(root);
    return status;
}

static zoe_status write_header(zoe_context *ctx, zoe_output *out, const char *text)
{
    static const char spaces[PREFIX] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    const size_t length = strlen(text), padding = (PREFIX - length % PREFIX) % PREFIX;
    unsigned char prefix[PREFIX];
    for (int i = 0; i < PREFIX; i++)
        prefix[i] = (unsigned char)((uint64_t)(length + padding) >> 8 * i);
    TRY(zoe_output_write(ctx, out, prefix, PREFIX));
    TRY(zoe_output_write(ctx, out, text, length));
    return zoe_output_write(ctx, out, spaces, padding);
}

zoe_status zoe_safetensors_stream(zoe_context *ctx, const char *path,
                                  const zoe_named_tensor *tensors, size_t n,
                                  const char *const (*metadata)[2], size_t n_meta,
                                  zoe_tensor_writer write, void *user)
{
    char *text = NULL;
    zoe_output out = {0};
    zoe_status status;
    TRY(header_text(ctx, &text, path, tensors, n, metadata, n_meta));
    TRY_GOTO(zoe_output_open(ctx, &out, path));
    TRY_GOTO(write_header(ctx, &out, text));
    for (size_t k = 0; k < ELEMENT_SIZES; k++)
        for (size_t i = 0; i < n; i++)
            if (zoe_dtype_bytes(tensors[i].tensor.dtype) == element_sizes[k])
                TRY_GOTO(write(user, &out, i));
    TRY_GOTO(zoe_output_commit(ctx, &out));
done:
    zoe_output_abort(&out);
    free(text);
    return status;
}

typedef struct copying {
    zoe_context *ctx;
    const zoe_named_tensor *tensors;
} copying;

static zoe_status write_copy(void *user, zoe_output *out, size_t i)
{
    const copying *c = user;
    const zoe_tensor t = c->tensors[i].tensor;
    return zoe_output_write(c->ctx, out, t.data, zoe_tensor_bytes(t));
}

zoe_status zoe_safetensors_write(zoe_context *ctx, const char *path,
                                 const zoe_named_tensor *tensors, size_t n,
                                 const char *const (*metadata)[2], size_t n_meta)
{
    copying c = {.ctx = ctx, .tensors = tensors};
    return zoe_safetensors_stream(ctx, path, tensors, n, metadata, n_meta, write_copy, &c);
}
