/* Weights with scales beside them (fp8 files): the scales become part of the weights.
 *
 * Programs differ in the names and in how fine the scales are:
 *
 *   <layer>.scale_weight   ComfyUI, older, with a tensor scaled_fp8 that marks the file
 *   <layer>.weight_scale   ComfyUI, with <layer>.comfy_quant, a JSON that names the format; LightX2V
 *   <layer>.scale_input, <layer>.input_scale   for quantising activations: not used
 *
 *   one element            for the whole weight
 *   [rows] or [rows, 1]    for each row
 *   [rows / 128, columns / 128], rounded up   for each square of 128
 *
 * The value of a weight's element is what is stored times its scale. */
#include "store/content.h"

enum { SQUARE = 128 };

typedef enum role { PLAIN, SCALE, FORMAT, UNUSED } role;

static const struct {
    const char *end; /* of the name */
    role role;
} roles[] = {
    {".scale_weight", SCALE}, {".weight_scale", SCALE}, {".comfy_quant", FORMAT},
    {".scale_input", UNUSED}, {".input_scale", UNUSED},
};

/* What a tensor is by its name, and how long the name of its layer is. */
static role role_of(const char *name, size_t *layer)
{
    const size_t n = strlen(name);
    *layer = 0;
    if (strcmp(name, "scaled_fp8") == 0)
        return UNUSED;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const size_t end = strlen(roles[i].end);
        if (n > end && strcmp(name + n - end, roles[i].end) == 0) {
            *layer = n - end;
            return roles[i].role;
        }
    }
    return PLAIN;
}

/* The weight of the layer that entry i belongs to. */
static zoe_status find_weight(zoe_context *ctx, const zoe_store *store, zoe_entry **weight,
                              const zoe_entry *entry, size_t layer)
{
    char *name;
    TRY(zoe_strf(ctx, &name, "%.*s.weight", (int)layer, entry->name));
    *weight = zoe_store_entry(store, name);
    const zoe_status status =
        *weight ? ZOE_OK
                : zoe_fail(ctx, ZOE_FORMAT, "%s: has %s, but no tensor %s that it belongs to",
                           store->files[entry->file].path, entry->name, name);
    zoe_free(name);
    return status;
}

/* How the elements of a scale fall on a weight. */
static bool match_shapes(zoe_scaling *s, zoe_tensor weight, zoe_tensor scale)
{
    const size_t n = zoe_tensor_count(scale), rows = weight.rank ? weight.shape[0] : 1;
    const size_t width = rows ? zoe_tensor_count(weight) / rows : 0;
    const size_t down = (rows + SQUARE - 1) / SQUARE, across = (width + SQUARE - 1) / SQUARE;
    *s = (zoe_scaling){.row_step = SIZE_MAX, .column_step = SIZE_MAX, .columns = 1};
    if (n == 1)
        return true;
    if (scale.rank > 0 && n == rows && scale.shape[0] == rows) {
        s->row_step = 1;
        return true;
    }
    if (n > 0 && scale.rank == 2 && scale.shape[0] == down && scale.shape[1] == across) {
        *s = (zoe_scaling){.row_step = SQUARE, .column_step = SQUARE, .columns = across};
        return true;
    }
    return false;
}

static zoe_status check_types(zoe_context *ctx, const char *path, const zoe_entry *weight,
                              const zoe_entry *scale)
{
    const zoe_dtype w = weight->tensor.dtype, s = scale->tensor.dtype;
    if (!zoe_dtype_is_float(w) || w == ZOE_F64)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s: is %s with the scale %s; of scaled weights, f8_e4m3 and "
                        "f8_e5m2 are supported",
                        path, weight->name, zoe_dtype_name(w), scale->name);
    if (s != ZOE_F32 && s != ZOE_F16 && s != ZOE_BF16)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s: its scale %s is %s; f32, f16 or bf16 is supported", path,
                        weight->name, scale->name, zoe_dtype_name(s));
    if (weight->scaling)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: has two scales", path, weight->name);
    return ZOE_OK;
}

static zoe_status attach(zoe_context *ctx, const zoe_store *store, zoe_entry *weight,
                         const zoe_entry *scale)
{
    const char *path = store->files[scale->file].path;
    const size_t n = zoe_tensor_count(scale->tensor);
    zoe_scaling shape;
    void *p;
    TRY(check_types(ctx, path, weight, scale));
    if (!match_shapes(&shape, weight->tensor, scale->tensor)) {
        char texts[2][160];
        return zoe_fail(ctx, ZOE_FORMAT,
                        "%s: tensor %s: is %s, its scale %s is %s: neither one element, nor one "
                        "for each row, nor one for each square of %d",
                        path, weight->name,
                        zoe_tensor_describe(texts[0], sizeof *texts, weight->tensor), scale->name,
                        zoe_tensor_describe(texts[1], sizeof *texts, scale->tensor), (int)SQUARE);
    }
    /* one piece of memory: the description, then the values */
    TRY(zoe_alloc(ctx, &p, n * sizeof(float) + sizeof shape, 1, scale->name));
    float *values = (float *)(void *)((zoe_scaling *)p + 1);
    zoe_widen(values, scale->tensor.data, scale->tensor.dtype, n);
    shape.values = values;
    *(zoe_scaling *)p = shape;
    weight->scaling = p;
    weight->tensor.scaling = p;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return zoe_fail(ctx, ZOE_NONFINITE, "%s: tensor %s: element %zu is not finite", path,
                            scale->name, i);
    return ZOE_OK;
}

/* The format that a layer's JSON names must be that of its weight. */
static zoe_status check_format(zoe_context *ctx, const zoe_store *store, const zoe_entry *entry,
                               zoe_dtype dtype)
{
    const char *path = store->files[entry->file].path;
    json_t *root;
    if (entry->tensor.dtype != ZOE_U8)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: is no text", path, entry->name);
    TRY(zoe_json_parse(ctx, &root, entry->tensor.data, zoe_tensor_count(entry->tensor),
                       entry->name));
    const char *format = json_string_value(json_object_get(root, "format"));
    const bool known =
        format && strcmp(format, dtype == ZOE_F8_E4M3 ? "float8_e4m3fn" : "float8_e5m2") == 0 &&
        (dtype == ZOE_F8_E4M3 || dtype == ZOE_F8_E5M2);
    const zoe_status status =
        known ? ZOE_OK
              : zoe_fail(ctx, ZOE_UNSUPPORTED,
                         "%s: tensor %s: names the format \"%.40s\" for a weight of %s, which is "
                         "not supported; float8_e4m3fn and float8_e5m2 are",
                         path, entry->name, format ? format : "", zoe_dtype_name(dtype));
    json_decref(root);
    return status;
}

static zoe_status use(zoe_context *ctx, const zoe_store *store, const zoe_entry *entry, role r,
                      size_t layer)
{
    zoe_entry *weight;
    if (r == PLAIN || r == UNUSED)
        return ZOE_OK;
    TRY(find_weight(ctx, store, &weight, entry, layer));
    return r == SCALE ? attach(ctx, store, weight, entry)
                      : check_format(ctx, store, entry, weight->tensor.dtype);
}

zoe_status zoe_scales_apply(zoe_context *ctx, zoe_store *store)
{
    size_t layer, kept = 0;
    for (size_t i = 0; i < store->n; i++) {
        const role r = role_of(store->entries[i].name, &layer);
        TRY(use(ctx, store, &store->entries[i], r, layer));
    }
    for (size_t i = 0; i < store->n; i++) {
        zoe_entry *entry = &store->entries[i];
        if (role_of(entry->name, &layer) == PLAIN)
            store->entries[kept++] = *entry;
        else
            zoe_entry_free(entry);
    }
    store->n = kept;
    return ZOE_OK;
}
