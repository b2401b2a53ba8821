/* The GGUF format, versions 2 and 3: a header of keys with values, a table of tensors, and their
 * data, each tensor at a multiple of the alignment.
 *
 * Of the keys only those are used that change what the tensors are; the rest is skipped. The rule
 * for the data is that of the other kinds: the tensors fill the file, up to the padding that the
 * alignment asks for; a hole, an overlap or a byte behind the last tensor is refused. */
#include <stdlib.h>

#include "store/content.h"

/* ---- the header's pieces ---- */

typedef struct reader {
    zoe_context *ctx;
    const zoe_map *map;
    size_t at; /* the next byte */
} reader;

/* Bytes of the file, not terminated. */
typedef struct slice {
    const char *text;
    size_t length;
} slice;

static zoe_status cut_off(const reader *r, const char *what)
{
    return zoe_fail(r->ctx, ZOE_FORMAT,
                    "%s: ends at byte %zu, inside the GGUF header (%s): it is cut off; download it "
                    "again",
                    r->map->path, r->map->size, what);
}

static zoe_status take(reader *r, const unsigned char **p, size_t n, const char *what)
{
    if (n > r->map->size - r->at)
        return cut_off(r, what);
    *p = r->map->data + r->at;
    r->at += n;
    return ZOE_OK;
}

static uint64_t little_endian(const unsigned char *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static zoe_status take_u32(reader *r, uint32_t *v, const char *what)
{
    const unsigned char *p;
    TRY(take(r, &p, 4, what));
    *v = (uint32_t)little_endian(p, 4);
    return ZOE_OK;
}

static zoe_status take_size(reader *r, size_t *v, const char *what)
{
    const unsigned char *p;
    TRY(take(r, &p, 8, what));
    *v = (size_t)little_endian(p, 8);
    return ZOE_OK;
}

static zoe_status take_text(reader *r, slice *s, const char *what)
{
    const unsigned char *p;
    TRY(take_size(r, &s->length, what));
    TRY(take(r, &p, s->length, what));
    s->text = (const char *)p;
    return ZOE_OK;
}

static bool equals(slice s, const char *text)
{
    return s.length == strlen(text) && memcmp(s.text, text, s.length) == 0;
}

static int shown(slice s)
{
    return s.length < 100 ? (int)s.length : 100;
}

/* ---- keys and values ---- */

enum value_type {
    UINT8,
    INT8,
    UINT16,
    INT16,
    UINT32,
    INT32,
    FLOAT32,
    BOOL,
    STRING,
    ARRAY,
    UINT64,
    INT64,
    FLOAT64,
    TYPES
};

/* Bytes of a value; 0: it tells its length itself. */
static const unsigned char value_bytes[TYPES] = {
    [UINT8] = 1,  [INT8] = 1,    [UINT16] = 2,  [INT16] = 2,  [UINT32] = 4,
    [INT32] = 4,  [FLOAT32] = 4, [BOOL] = 1,    [STRING] = 0, [ARRAY] = 0,
    [UINT64] = 8, [INT64] = 8,   [FLOAT64] = 8,
};

static bool is_integer(uint32_t type)
{
    return type <= INT32 || type == UINT64 || type == INT64;
}

/* An integer that is a size. */
static bool size_of(size_t *v, const unsigned char *p, uint32_t type)
{
    const size_t bytes = value_bytes[type];
    const bool is_signed = type == INT8 || type == INT16 || type == INT32 || type == INT64;
    *v = (size_t)little_endian(p, bytes);
    return !is_signed || (p[bytes - 1] & 0x80) == 0;
}

/* The shape that a tensor had before it was folded for readers of few dimensions. */
typedef struct shape {
    slice name;
    int rank;
    size_t extents[ZOE_MAX_RANK];
} shape;

typedef struct header {
    size_t tensors, keys;
    size_t alignment;
    size_t quantization; /* version of the block formats; 0: not said */
    slice architecture;
    shape *shapes; /* sorted by name */
    size_t n_shapes, room;
} header;

static zoe_status unknown_type(const reader *r, slice key, uint32_t type)
{
    return zoe_fail(r->ctx, ZOE_FORMAT, "%s: key %.*s: has a value of type %u, which GGUF has not",
                    r->map->path, shown(key), key.text, type);
}

/* The head of an array, up to its first element. */
static zoe_status take_array(reader *r, slice key, uint32_t *type, size_t *n)
{
    TRY(take_u32(r, type, "a list"));
    TRY(take_size(r, n, "a list"));
    if (*type >= TYPES)
        return unknown_type(r, key, *type);
    if (*type == ARRAY)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED, "%s: key %.*s: lists of lists are not supported",
                        r->map->path, shown(key), key.text);
    return ZOE_OK;
}

static zoe_status skip_array(reader *r, slice key)
{
    const unsigned char *p;
    uint32_t type;
    size_t n, bytes;
    TRY(take_array(r, key, &type, &n));
    if (type == STRING) {
        slice text;
        for (size_t i = 0; i < n; i++)
            TRY(take_text(r, &text, "a list of texts"));
        return ZOE_OK;
    }
    return zoe_size_mul(&bytes, n, value_bytes[type]) ? take(r, &p, bytes, "a list")
                                                      : cut_off(r, "a list");
}

static zoe_status skip_value(reader *r, slice key, uint32_t type)
{
    const unsigned char *p;
    slice text;
    if (type >= TYPES)
        return unknown_type(r, key, type);
    if (type == ARRAY)
        return skip_array(r, key);
    return type == STRING ? take_text(r, &text, "a text")
                          : take(r, &p, value_bytes[type], "a value");
}

static zoe_status take_integer(reader *r, slice key, uint32_t type, size_t *v)
{
    const unsigned char *p;
    if (!is_integer(type))
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: key %.*s: is no integer", r->map->path, shown(key),
                        key.text);
    TRY(take(r, &p, value_bytes[type], "an integer"));
    if (!size_of(v, p, type))
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: key %.*s: is negative", r->map->path, shown(key),
                        key.text);
    return ZOE_OK;
}

static zoe_status add_shape(reader *r, header *h, const shape *s)
{
    if (h->n_shapes == h->room) {
        const size_t room = h->room ? 2 * h->room : 16;
        void *p;
        TRY(zoe_alloc(r->ctx, &p, room, sizeof *h->shapes, "list of shapes"));
        if (h->n_shapes)
            memcpy(p, h->shapes, h->n_shapes * sizeof *h->shapes);
        zoe_free(h->shapes);
        h->shapes = p;
        h->room = room;
    }
    h->shapes[h->n_shapes++] = *s;
    return ZOE_OK;
}

/* "comfy.gguf.orig_shape.<tensor>": a list of integers, slowest axis first. */
static zoe_status take_shape(reader *r, header *h, slice key, uint32_t type, slice tensor)
{
    shape s = {.name = tensor};
    uint32_t element = STRING;
    size_t n = 0;
    if (type == ARRAY)
        TRY(take_array(r, key, &element, &n));
    if (!is_integer(element) || n == 0)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: key %.*s: is no list of integers", r->map->path,
                        shown(key), key.text);
    if (n > ZOE_MAX_RANK)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: key %.*s: gives %zu dimensions, at most %d are supported",
                        r->map->path, shown(key), key.text, n, ZOE_MAX_RANK);
    s.rank = (int)n;
    for (size_t i = 0; i < n; i++)
        TRY(take_integer(r, key, element, &s.extents[i]));
    return add_shape(r, h, &s);
}

static zoe_status once(const reader *r, slice key, bool again)
{
    return again ? zoe_fail(r->ctx, ZOE_FORMAT, "%s: key %.*s: is given twice", r->map->path,
                            shown(key), key.text)
                 : ZOE_OK;
}

static zoe_status take_alignment(reader *r, header *h, slice key, uint32_t type)
{
    TRY(once(r, key, h->alignment != 0));
    TRY(take_integer(r, key, type, &h->alignment));
    if (h->alignment == 0 || (h->alignment & (h->alignment - 1)) != 0 || h->alignment > 1u << 30)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: general.alignment is %zu; a power of two up to 2^30 is wanted",
                        r->map->path, h->alignment);
    return ZOE_OK;
}

static zoe_status refuse_parts(reader *r, slice key, uint32_t type)
{
    size_t parts;
    TRY(take_integer(r, key, type, &parts));
    if (parts > 1)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: is one of %zu parts of a split GGUF file; merge them with "
                        "llama-gguf-split --merge",
                        r->map->path, parts);
    return ZOE_OK;
}

static zoe_status take_key(reader *r, header *h)
{
    static const char folded[] = "comfy.gguf.orig_shape.";
    const size_t prefix = sizeof folded - 1;
    slice key;
    uint32_t type;
    TRY(take_text(r, &key, "a key"));
    TRY(take_u32(r, &type, "the type of a value"));
    if (equals(key, "general.alignment"))
        return take_alignment(r, h, key, type);
    if (equals(key, "general.quantization_version")) {
        TRY(once(r, key, h->quantization != 0));
        return take_integer(r, key, type, &h->quantization);
    }
    if (equals(key, "general.architecture") && type == STRING)
        return take_text(r, &h->architecture, "general.architecture");
    if (equals(key, "split.count"))
        return refuse_parts(r, key, type);
    if (key.length > prefix && memcmp(key.text, folded, prefix) == 0)
        return take_shape(r, h, key, type, (slice){key.text + prefix, key.length - prefix});
    return skip_value(r, key, type);
}

static int slice_order(slice a, slice b)
{
    const size_t n = a.length < b.length ? a.length : b.length;
    const int order = memcmp(a.text, b.text, n);
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int shape_order(const void *a, const void *b)
{
    return slice_order(((const shape *)a)->name, ((const shape *)b)->name);
}

static zoe_status check_shapes(const reader *r, header *h)
{
    if (h->n_shapes)
        qsort(h->shapes, h->n_shapes, sizeof *h->shapes, shape_order);
    for (size_t i = 1; i < h->n_shapes; i++)
        if (shape_order(&h->shapes[i - 1], &h->shapes[i]) == 0)
            return zoe_fail(r->ctx, ZOE_FORMAT, "%s: the shape of tensor %.*s is given twice",
                            r->map->path, shown(h->shapes[i].name), h->shapes[i].name.text);
    return ZOE_OK;
}

/* The architecture says who made the file; what is in it, its tensors say. */
static void log_architecture(const reader *r, const header *h, uint32_t version)
{
    char name[40] = "";
    for (size_t i = 0; i < h->architecture.length && i + 1 < sizeof name; i++) {
        const char c = h->architecture.text[i];
        name[i] = c > ' ' && c <= '~' ? c : '?';
    }
    zoe_log(r->ctx, ZOE_DEBUG, "%s: GGUF version %u, architecture \"%s\", %zu tensors",
            r->map->path, version, name, h->tensors);
}

static zoe_status take_header(reader *r, header *h)
{
    const unsigned char *magic;
    uint32_t version;
    TRY(take(r, &magic, 4, "the magic number"));
    TRY(take_u32(r, &version, "the version"));
    if (version != 0 && (version & 0xffff) == 0)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: is a GGUF file for big-endian machines; get the little-endian one",
                        r->map->path);
    if (version != 2 && version != 3)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: is a GGUF file of version %u; 2 and 3 are supported", r->map->path,
                        version);
    TRY(take_size(r, &h->tensors, "the number of tensors"));
    TRY(take_size(r, &h->keys, "the number of keys"));
    for (size_t i = 0; i < h->keys; i++)
        TRY(take_key(r, h));
    if (h->alignment == 0)
        h->alignment = 32;
    log_architecture(r, h, version);
    return check_shapes(r, h);
}

/* ---- the table of tensors ---- */

/* Types by their number in the file; ZOE_NONE: known, but not read here. */
static const struct {
    uint32_t id;
    const char *name;
    zoe_dtype dtype;
} types[] = {
    {0, "F32", ZOE_F32},      {1, "F16", ZOE_F16},       {2, "Q4_0", ZOE_Q4_0},
    {3, "Q4_1", ZOE_Q4_1},    {6, "Q5_0", ZOE_Q5_0},     {7, "Q5_1", ZOE_Q5_1},
    {8, "Q8_0", ZOE_Q8_0},    {9, "Q8_1", ZOE_NONE},     {10, "Q2_K", ZOE_Q2_K},
    {11, "Q3_K", ZOE_Q3_K},   {12, "Q4_K", ZOE_Q4_K},    {13, "Q5_K", ZOE_Q5_K},
    {14, "Q6_K", ZOE_Q6_K},   {15, "Q8_K", ZOE_NONE},    {16, "IQ2_XXS", ZOE_NONE},
    {17, "IQ2_XS", ZOE_NONE}, {18, "IQ3_XXS", ZOE_NONE}, {19, "IQ1_S", ZOE_NONE},
    {20, "IQ4_NL", ZOE_NONE}, {21, "IQ3_S", ZOE_NONE},   {22, "IQ2_S", ZOE_NONE},
    {23, "IQ4_XS", ZOE_NONE}, {24, "I8", ZOE_I8},        {25, "I16", ZOE_I16},
    {26, "I32", ZOE_I32},     {27, "I64", ZOE_I64},      {28, "F64", ZOE_F64},
    {29, "IQ1_M", ZOE_NONE},  {30, "BF16", ZOE_BF16},    {34, "TQ1_0", ZOE_NONE},
    {35, "TQ2_0", ZOE_NONE},  {39, "MXFP4", ZOE_NONE},   {40, "NVFP4", ZOE_NONE},
};
enum { GGUF_TYPES = sizeof types / sizeof *types };

/* No entry of the table is shorter: length of the name, number of dimensions, type, offset. */
enum { ENTRY_LEAST = 8 + 4 + 4 + 8 };

typedef struct range {
    slice name;
    zoe_tensor tensor;
    size_t begin, bytes; /* begin counts from the start of the data */
} range;

static zoe_status tell_type(const reader *r, range *t, uint32_t id)
{
    for (size_t i = 0; i < GGUF_TYPES; i++) {
        if (types[i].id != id)
            continue;
        t->tensor.dtype = types[i].dtype;
        if (types[i].dtype != ZOE_NONE)
            return ZOE_OK;
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %.*s: is of type %s, which is not supported; take a file of "
                        "Q8_0, Q4_0 to Q5_1, or Q2_K to Q6_K",
                        r->map->path, shown(t->name), t->name.text, types[i].name);
    }
    return zoe_fail(r->ctx, ZOE_UNSUPPORTED, "%s: tensor %.*s: is of the unknown type %u",
                    r->map->path, shown(t->name), t->name.text, id);
}

/* The extents, which the file has fastest first. */
static zoe_status take_extents(reader *r, range *t)
{
    uint32_t rank;
    TRY(take_u32(r, &rank, "the number of dimensions"));
    if (rank > ZOE_MAX_RANK)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %.*s: has %u dimensions, at most %d are supported",
                        r->map->path, shown(t->name), t->name.text, rank, ZOE_MAX_RANK);
    t->tensor.rank = (int)rank;
    for (uint32_t i = rank; i-- > 0;)
        TRY(take_size(r, &t->tensor.shape[i], "the extents of a tensor"));
    return ZOE_OK;
}

/* Counts the elements, which must be sizable and whole blocks. */
static zoe_status measure(const reader *r, range *t)
{
    const zoe_dtype dtype = t->tensor.dtype;
    const size_t elements = zoe_block_elements(dtype);
    const size_t width = t->tensor.rank ? t->tensor.shape[t->tensor.rank - 1] : 1;
    /* no block type has two bytes an element */
    const size_t most = elements > 1 ? 2 : zoe_dtype_bytes(dtype);
    size_t count;
    if (!zoe_extents_check(&count, t->tensor.shape, t->tensor.rank, most))
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: tensor %.*s: its shape is larger than any memory",
                        r->map->path, shown(t->name), t->name.text);
    if (width % elements)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: tensor %.*s: its rows of %zu elements are no whole %s blocks of %zu",
                        r->map->path, shown(t->name), t->name.text, width, zoe_dtype_name(dtype),
                        elements);
    t->bytes = zoe_run_bytes(dtype, count);
    return ZOE_OK;
}

static const shape *find_shape(const header *h, slice name)
{
    const shape key = {.name = name};
    return h->n_shapes ? bsearch(&key, h->shapes, h->n_shapes, sizeof key, shape_order) : NULL;
}

/* Gives a folded tensor its shape back. */
static zoe_status unfold(const reader *r, const header *h, range *t)
{
    const shape *s = find_shape(h, t->name);
    size_t count;
    zoe_tensor whole = zoe_tensor_of(NULL, t->tensor.dtype, t->tensor.rank, t->tensor.shape);
    if (s) {
        /* the count of elements bounds what the product may come to */
        if (!zoe_extents_check(&count, s->extents, s->rank, 2) ||
            count != zoe_tensor_count(whole)) {
            char found[160];
            return zoe_fail(r->ctx, ZOE_FORMAT,
                            "%s: tensor %.*s: is %s, which is not as many elements as its "
                            "comfy.gguf.orig_shape gives",
                            r->map->path, shown(t->name), t->name.text,
                            zoe_tensor_describe(found, sizeof found, whole));
        }
        whole = zoe_tensor_of(NULL, t->tensor.dtype, s->rank, s->extents);
    }
    t->tensor = whole;
    return ZOE_OK;
}

static zoe_status take_tensor(reader *r, const header *h, range *t)
{
    uint32_t type;
    TRY(take_text(r, &t->name, "the name of a tensor"));
    if (t->name.length == 0 || memchr(t->name.text, '\0', t->name.length))
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: a tensor's name is empty or no text",
                        r->map->path);
    t->tensor = (zoe_tensor){.rank = 0};
    TRY(take_extents(r, t));
    TRY(take_u32(r, &type, "the type of a tensor"));
    TRY(tell_type(r, t, type));
    TRY(take_size(r, &t->begin, "the place of a tensor"));
    TRY(measure(r, t));
    if (zoe_block_elements(t->tensor.dtype) > 1 && h->quantization != 0 && h->quantization != 2)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: its quantised tensors are of version %zu; 2 is supported",
                        r->map->path, h->quantization);
    return unfold(r, h, t);
}

static zoe_status take_table(reader *r, const header *h, range **table)
{
    void *p;
    if (h->tensors > (r->map->size - r->at) / ENTRY_LEAST)
        return cut_off(r, "the table of tensors");
    TRY(zoe_alloc(r->ctx, &p, h->tensors, sizeof **table, "table of tensors"));
    *table = p;
    for (size_t i = 0; i < h->tensors; i++)
        TRY(take_tensor(r, h, &(*table)[i]));
    return ZOE_OK;
}

/* ---- the data ---- */

static int range_order(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->bytes == y->bytes ? 0 : x->bytes < y->bytes ? -1 : 1;
}

/* The next multiple of a power of two; false: overflow. */
static bool align(size_t *at, size_t alignment)
{
    if (!zoe_size_add(at, *at, alignment - 1))
        return false;
    *at &= ~(alignment - 1);
    return true;
}

static zoe_status check_begin(const reader *r, const range *t, const range *before, size_t wanted)
{
    const char *path = r->map->path;
    if (t->begin == wanted)
        return ZOE_OK;
    if (before && t->begin < before->begin + before->bytes)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: tensor %.*s: begins at byte %zu of the data, inside tensor %.*s, "
                        "which ends at %zu",
                        path, shown(t->name), t->name.text, t->begin, shown(before->name),
                        before->name.text, before->begin + before->bytes);
    return zoe_fail(r->ctx, ZOE_FORMAT,
                    "%s: tensor %.*s: begins at byte %zu of the data, where %zu is wanted", path,
                    shown(t->name), t->name.text, t->begin, wanted);
}

/* The tensors, sorted by place, must fill the file from byte `data` on. */
static zoe_status check_places(const reader *r, const header *h, const range *table, size_t data)
{
    size_t end = 0, next = 0, size;
    for (size_t i = 0; i < h->tensors; i++) {
        const range *t = &table[i];
        TRY(check_begin(r, t, i ? t - 1 : NULL, next));
        if (!zoe_size_add(&end, t->begin, t->bytes) || (next = end, !align(&next, h->alignment)) ||
            !zoe_size_add(&size, data, next))
            return zoe_fail(r->ctx, ZOE_FORMAT, "%s: tensor %.*s: ends beyond any file",
                            r->map->path, shown(t->name), t->name.text);
    }
    if (h->tensors == 0)
        return ZOE_OK;
    if (r->map->size < data + end)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: has %zu bytes, its tensors need %zu: it is cut off; download it again",
                        r->map->path, r->map->size, data + end);
    /* the padding of the last tensor may be there or not */
    if (r->map->size != data + end && r->map->size != data + next)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: has %zu bytes behind its last tensor",
                        r->map->path, r->map->size - data - end);
    return ZOE_OK;
}

static zoe_status add_tensors(const reader *r, const header *h, const range *table, size_t data,
                              zoe_store *store, size_t file)
{
    for (size_t i = 0; i < h->tensors; i++) {
        zoe_tensor t = table[i].tensor;
        /* read-only by the store's contract */
        t.data = (void *)(uintptr_t)(r->map->data + (table[i].bytes ? data + table[i].begin : 0));
        TRY(zoe_store_add(r->ctx, store, file, table[i].name.text, table[i].name.length, t));
    }
    return ZOE_OK;
}

zoe_status zoe_gguf_read(zoe_context *ctx, zoe_store *store, size_t file)
{
    reader r = {.ctx = ctx, .map = &store->files[file]};
    header h = {.tensors = 0};
    range *table = NULL;
    size_t data;
    zoe_status status;
    TRY_GOTO(take_header(&r, &h));
    TRY_GOTO(take_table(&r, &h, &table));
    data = r.at;
    if (!align(&data, h.alignment))
        TRY_GOTO(cut_off(&r, "its end"));
    if (h.tensors)
        qsort(table, h.tensors, sizeof *table, range_order);
    TRY_GOTO(check_places(&r, &h, table, data));
    TRY_GOTO(add_tensors(&r, &h, table, data, store, file));
done:
    zoe_free(table);
    zoe_free(h.shapes);
    return status;
}
