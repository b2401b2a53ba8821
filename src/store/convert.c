/* Checkpoints rewritten with weights of another type. */
#include <float.h>
#include <stdatomic.h>

#include "base/block.h"
#include "store/content.h"
#include "store/names.h"
#include "store/quantise.h"

/* Elements that are read, rounded and written at a time, and the part of one task; whole blocks of
 * any type. */
enum { PIECE = 1 << 20, PART = 1 << 13 };

/* What becomes of one tensor: `from` with its factors, times `factor`, as `tensor`; the bytes of the
 * tensor itself, if it has data; with a `from` besides, these are looked at for NaN. */
typedef struct item {
    char *owned; /* the name, if it is not the store's */
    zoe_tensor from, tensor;
    float factor; /* 1 / the scale of f8 */
    float scale;  /* what such an item without `from` consists of */
} item;

typedef struct converter {
    zoe_context *ctx;
    zoe_store *store;
    zoe_names names;
    zoe_conversion *conversion;
    item *items;
    zoe_named_tensor *named; /* the same tensors with their names */
    size_t n;
    float *values;        /* [PIECE] */
    unsigned char *bytes; /* [PIECE] in the new type */
    size_t read, total;   /* bytes */
} converter;

/* ---- which names, which types ---- */

static bool has(const zoe_store *store, const char *name)
{
    zoe_tensor t;
    return zoe_store_find(store, name, &t);
}

/* Opens the checkpoint under the names that make a network of it. */
static zoe_status open_store(converter *c, const char *from)
{
    static const struct {
        zoe_names names;
        const char *sign;
    } rows[] = {{ZOE_NAMES_WAN_DIT, "blocks.0.self_attn.q.weight"},
                {ZOE_NAMES_UMT5, "blocks.0.attn.q.weight"},
                {ZOE_NAMES_WAN_VAE, "decoder.conv1.weight"},
                {ZOE_NAMES_CLIP, "visual.transformer.0.norm1.weight"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        c->names = rows[i].names;
        TRY(zoe_store_open(c->ctx, &c->store, from, c->names));
        if (has(c->store, rows[i].sign))
            return ZOE_OK;
        zoe_store_close(c->store);
        c->store = NULL;
    }
    return zoe_fail(
        c->ctx, ZOE_UNSUPPORTED,
        "%s: neither a Wan transformer, nor a umT5 encoder, a Wan VAE or a CLIP image tower", from);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static bool is_plain(zoe_dtype dtype)
{
    return dtype == ZOE_F32 || dtype == ZOE_F16 || dtype == ZOE_BF16;
}

/* Is it one of the large matrices, which products read row by row? */
static bool is_matrix(const char *name, zoe_tensor t)
{
    const bool inside = (strncmp(name, "blocks.", 7) == 0 && !strstr(name, "pos_embedding")) ||
                        strncmp(name, "visual.transformer.", 19) == 0;
    return t.rank == 2 && ends_with(name, ".weight") &&
           (inside || strcmp(name, "token_embedding.weight") == 0);
}

static zoe_dtype type_for(const char *name, zoe_tensor t, zoe_dtype wanted)
{
    if (!zoe_dtype_is_float(t.dtype))
        return t.dtype;
    if (t.rank < 2 || !ends_with(name, ".weight"))
        return ZOE_F32;
    if (is_plain(wanted))
        return wanted;
    /* q, k and v of CLIP in one matrix are taken apart by rows, which a scale of it all forbids */
    const bool joined = wanted == ZOE_F8_E4M3 && ends_with(name, ".attn.to_qkv.weight");
    if (is_matrix(name, t) && !joined && t.shape[1] % zoe_block_elements(wanted) == 0)
        return wanted;
    return t.dtype == ZOE_BF16 ? ZOE_BF16 : ZOE_F16;
}

/* ---- values ---- */

/* One piece of a tensor on its way. */
typedef struct piece {
    const converter *c;
    const item *it;
    size_t first, n;
    float most; /* that the new type holds */
    atomic_uint fault;
} piece;

enum { FINE, NOT_FINITE, TOO_LARGE };

/* The largest magnitude that the type holds; of f8, values are scaled before. */
static float most_of(zoe_dtype dtype)
{
    switch (dtype) {
    case ZOE_F32:
    case ZOE_F8_E4M3: return 0x1.fffffep127f;
    case ZOE_BF16: return 0x1.fep127f;
    default: return 65504.0f;
    }
}

static void round_part(void *arg, size_t i, size_t worker)
{
    piece *p = arg;
    (void)worker;
    const zoe_dtype dtype = p->it->tensor.dtype;
    const size_t at = i * PART, n = p->n - at < PART ? p->n - at : PART;
    float *x = p->c->values + at;
    unsigned fault = FINE;
    zoe_tensor_widen(x, p->it->from, p->first + at, n);
    for (size_t k = 0; k < n; k++) {
        x[k] *= p->it->factor;
        if (!isfinite(x[k]))
            fault = NOT_FINITE;
        else if (fabsf(x[k]) > p->most && fault == FINE)
            fault = TOO_LARGE;
    }
    if (fault == FINE && !p->it->tensor.data)
        zoe_quantise(p->c->bytes + zoe_run_bytes(dtype, at), dtype, x, n);
    else if (fault != FINE)
        atomic_store(&p->fault, fault);
}

static zoe_status refuse(const converter *c, size_t i, unsigned fault)
{
    const item *it = &c->items[i];
    if (fault == NOT_FINITE)
        return zoe_fail(c->ctx, ZOE_NONFINITE, "%s: tensor %s: holds NaN or inf",
                        zoe_store_path(c->store), c->named[i].name);
    return zoe_fail(c->ctx, ZOE_UNSUPPORTED,
                    "%s: tensor %s: has values beyond %g, which %s cannot hold; take bf16",
                    zoe_store_path(c->store), c->named[i].name, (double)most_of(it->tensor.dtype),
                    zoe_dtype_name(it->tensor.dtype));
}

static void count_read(converter *c, size_t bytes)
{
    c->read += bytes;
    if (c->conversion->done)
        c->conversion->done(c->conversion->user, c->read, c->total);
}

static zoe_status write_values(converter *c, zoe_output *out, size_t i)
{
    const item *it = &c->items[i];
    const zoe_dtype dtype = it->tensor.dtype;
    const size_t count = zoe_tensor_count(it->tensor);
    const unsigned char *kept = it->tensor.data;
    if (it->from.dtype == ZOE_NONE) {
        const void *data = kept ? kept : (const void *)&it->scale;
        count_read(c, kept ? zoe_tensor_bytes(it->tensor) : 0);
        return zoe_output_write(c->ctx, out, data, zoe_tensor_bytes(it->tensor));
    }
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t n = count - first < PIECE ? count - first : PIECE;
        piece p = {.c = c, .it = it, .first = first, .n = n};
        p.most = kept ? INFINITY : most_of(dtype);
        TRY(zoe_check_cancel(c->ctx));
        TRY(zoe_store_check(c->ctx, c->store));
        zoe_parallel_for(c->ctx, (n + PART - 1) / PART, round_part, &p);
        const unsigned fault = atomic_load(&p.fault);
        if (fault != FINE)
            return refuse(c, i, fault);
        TRY(zoe_output_write(c->ctx, out, kept ? kept + zoe_run_bytes(dtype, first) : c->bytes,
                             zoe_run_bytes(dtype, n)));
        count_read(c, zoe_run_bytes(it->from.dtype, n));
    }
    return ZOE_OK;
}

/* What was read is not needed again: without that, the file would seem to fill the memory. */
static zoe_status write_item(void *user, zoe_output *out, size_t i)
{
    converter *c = user;
    TRY(write_values(c, out, i));
    zoe_store_drop(c->store);
    return ZOE_OK;
}

/* The largest magnitude of a tensor. */
static zoe_status find_most(const converter *c, zoe_tensor t, float *most)
{
    const size_t count = zoe_tensor_count(t);
    *most = 0.0f;
    for (size_t first = 0; first < count; first += PIECE) {
        const size_t n = count - first < PIECE ? count - first : PIECE;
        TRY(zoe_check_cancel(c->ctx));
        zoe_tensor_widen(c->values, t, first, n);
        for (size_t i = 0; i < n; i++)
            *most = fmaxf(*most, fabsf(c->values[i]));
    }
    return ZOE_OK;
}

/* ---- the list of what is to be written ---- */

static item *add(converter *c, const char *name, zoe_tensor tensor)
{
    item *it = &c->items[c->n];
    *it = (item){.tensor = tensor, .factor = 1.0f};
    c->named[c->n++] = (zoe_named_tensor){name, tensor};
    return it;
}

/* A matrix in f8 and its scale, which makes its largest value the largest of f8; the scale's own
 * inverse must be a number too. */
static zoe_status add_f8(converter *c, const char *name, zoe_tensor t)
{
    float most;
    char *scale_name;
    TRY(find_most(c, t, &most));
    const float scale = most > 0.0f ? fmaxf(most / 448.0f, FLT_MIN) : 1.0f;
    item *it = add(c, name, zoe_tensor_of(NULL, ZOE_F8_E4M3, t.rank, t.shape));
    it->from = t;
    it->factor = 1.0f / scale;
    TRY(zoe_strf(c->ctx, &scale_name, "%.*s.scale_weight", (int)(strlen(name) - 7), name));
    it = add(c, scale_name, zoe_tensor_of(NULL, ZOE_F32, 0, NULL));
    it->owned = scale_name;
    it->scale = scale;
    return ZOE_OK;
}

static zoe_status add_tensor(converter *c, const char *name, zoe_tensor t, bool gguf)
{
    const zoe_dtype type = type_for(name, t, c->conversion->type);
    char *foreign = NULL;
    if (!zoe_dtype_is_float(t.dtype) && t.rank >= 2 && ends_with(name, ".weight"))
        return zoe_fail(c->ctx, ZOE_UNSUPPORTED, "%s: tensor %s: is %s; a float type is wanted",
                        zoe_store_path(c->store), name, zoe_dtype_name(t.dtype));
    c->conversion->converted += type == c->conversion->type;
    if (type == ZOE_F8_E4M3 && t.dtype != ZOE_F8_E4M3)
        return add_f8(c, name, t);
    if (type == ZOE_F8_E4M3 && t.scaling)
        return add_f8(c, name, t);
    if (gguf && c->names == ZOE_NAMES_UMT5)
        TRY(zoe_name_foreign(c->ctx, &foreign, &zoe_names_llama_umt5, name));
    zoe_tensor to = zoe_tensor_of(NULL, type, t.rank, t.shape);
    /* plain types go through f32 even so, which changes nothing, to be looked at for NaN */
    const bool same = type == t.dtype && !t.scaling && !is_plain(type);
    if (same)
        to.data = t.data;
    item *it = add(c, foreign ? foreign : name, to);
    it->owned = foreign;
    if (zoe_dtype_is_float(t.dtype))
        it->from = t;
    return ZOE_OK;
}

static zoe_status list_items(converter *c, bool gguf)
{
    static unsigned char marker[2];
    const size_t n = zoe_store_count(c->store), room = 2 * n + 1;
    void *p;
    TRY(zoe_alloc_zero(c->ctx, &p, room, sizeof *c->items, "list of tensors"));
    c->items = p;
    TRY(zoe_alloc_zero(c->ctx, &p, room, sizeof *c->named, "list of tensors"));
    c->named = p;
    for (size_t i = 0; i < n; i++) {
        const zoe_tensor t = zoe_store_tensor(c->store, i);
        if (gguf && (t.dtype == ZOE_U8 || t.dtype == ZOE_BOOL))
            zoe_log(c->ctx, ZOE_WARNING, "%s: tensor %s is left out: GGUF has no type for %s",
                    zoe_store_path(c->store), zoe_store_name(c->store, i), zoe_dtype_name(t.dtype));
        else
            TRY(add_tensor(c, zoe_store_name(c->store, i), t, gguf));
    }
    if (c->conversion->type == ZOE_F8_E4M3)
        add(c, "scaled_fp8", zoe_tensor_1d(marker, ZOE_F8_E4M3, sizeof marker));
    for (size_t i = 0; i < c->n; i++)
        c->conversion->out += zoe_tensor_bytes(c->items[i].tensor);
    c->conversion->tensors = c->n;
    c->conversion->in = c->total = zoe_store_bytes(c->store);
    return ZOE_OK;
}

static zoe_status check(zoe_context *ctx, const char *path, zoe_dtype type, bool *gguf)
{
    *gguf = ends_with(path, ".gguf");
    const bool block = zoe_block_elements(type) > 1;
    if (!*gguf && !ends_with(path, ".safetensors"))
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: a name that ends with .gguf or .safetensors is wanted", path);
    if (!is_plain(type) && !block && type != ZOE_F8_E4M3)
        return zoe_fail(ctx, ZOE_INVALID, "%s: cannot convert to %s", path, zoe_dtype_name(type));
    if (block && !*gguf)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: %s is kept in GGUF files; let the name end with .gguf", path,
                        zoe_dtype_name(type));
    if (type == ZOE_F8_E4M3 && *gguf)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s: %s is kept in safetensors; let the name end with .safetensors", path,
                        zoe_dtype_name(type));
    return ZOE_OK;
}

static const char *architecture_of(zoe_names names)
{
    return names == ZOE_NAMES_WAN_DIT ? "wan" : names == ZOE_NAMES_UMT5 ? "t5encoder" : NULL;
}

static void converter_free(converter *c)
{
    for (size_t i = 0; i < c->n; i++)
        zoe_free(c->items[i].owned);
    zoe_free(c->items);
    zoe_free(c->named);
    zoe_free(c->values);
    zoe_free(c->bytes);
    zoe_store_close(c->store);
}

zoe_status zoe_checkpoint_convert(zoe_context *ctx, const char *path, const char *from,
                                  zoe_conversion *conversion)
{
    converter c = {.ctx = ctx, .conversion = conversion};
    bool gguf;
    void *p;
    zoe_status status;
    conversion->tensors = conversion->converted = conversion->in = conversion->out = 0;
    TRY(check(ctx, path, conversion->type, &gguf));
    TRY_GOTO(zoe_output_probe(ctx, path));
    TRY_GOTO(open_store(&c, from));
    TRY_GOTO(zoe_alloc(ctx, &p, PIECE, sizeof *c.values, "weights to convert"));
    c.values = p;
    TRY_GOTO(zoe_alloc(ctx, &p, PIECE, sizeof(float), "weights converted"));
    c.bytes = p;
    TRY_GOTO(list_items(&c, gguf));
    if (gguf)
        TRY_GOTO(
            zoe_gguf_stream(ctx, path, c.named, c.n, architecture_of(c.names), write_item, &c));
    else
        TRY_GOTO(zoe_safetensors_stream(ctx, path, c.named, c.n, NULL, 0, write_item, &c));
done:
    converter_free(&c);
    return status;
}
