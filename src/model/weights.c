/* See weights.h. */
#include "model/weights.h"

#include <stdio.h>

static zoe_status full_name(zoe_context *ctx, char *full, size_t size, const char *prefix,
                            const char *name)
{
    const int n = snprintf(full, size, "%s%s", prefix, name);
    return n > 0 && (size_t)n < size
               ? ZOE_OK
               : zoe_fail(ctx, ZOE_INTERNAL, "tensor name too long: %s", name);
}

static zoe_status find(zoe_context *ctx, const zoe_store *store, zoe_tensor *t, const char *prefix,
                       const char *name)
{
    char full[256];
    TRY(full_name(ctx, full, sizeof full, prefix, name));
    if (!zoe_store_find(store, full, t))
        return zoe_fail(ctx, ZOE_MISSING, "%s: tensor %s is not there", zoe_store_path(store),
                        full);
    if (!zoe_dtype_is_float(t->dtype) || t->dtype == ZOE_F64)
        return zoe_fail(ctx, ZOE_UNSUPPORTED,
                        "%s: tensor %s is %s; a float type up to f32 is wanted",
                        zoe_store_path(store), full, zoe_dtype_name(t->dtype));
    return ZOE_OK;
}

static zoe_status keep(zoe_context *ctx, zoe_vectors *vectors, void *piece)
{
    if (vectors->count == vectors->room) {
        const size_t room = vectors->room ? 2 * vectors->room : 64;
        void *bigger;
        TRY(zoe_alloc(ctx, &bigger, room, sizeof *vectors->pieces, "weights"));
        if (vectors->count)
            memcpy(bigger, vectors->pieces, vectors->count * sizeof *vectors->pieces);
        zoe_free(vectors->pieces);
        vectors->pieces = bigger;
        vectors->room = room;
    }
    vectors->pieces[vectors->count++] = piece;
    return ZOE_OK;
}

zoe_status zoe_vector(zoe_context *ctx, zoe_vectors *vectors, const zoe_store *store,
                      float **values, const char *prefix, const char *name, size_t n)
{
    zoe_tensor t;
    void *p;
    *values = NULL;
    TRY(find(ctx, store, &t, prefix, name));
    if (zoe_tensor_count(t) != n) {
        char shape[96];
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s%s is %s, %zu elements are wanted",
                        zoe_store_path(store), prefix, name,
                        zoe_tensor_describe(shape, sizeof shape, t), n);
    }
    TRY(zoe_alloc(ctx, &p, n, sizeof(float), name));
    const zoe_status status = keep(ctx, vectors, p);
    if (status != ZOE_OK) {
        zoe_free(p);
        return status;
    }
    vectors->bytes += n * sizeof(float);
    *values = p;
    zoe_tensor_widen(*values, t, 0, n);
    zoe_store_drop_tensor(store, t); /* the system may map 2 MiB around so small a thing */
    for (size_t i = 0; i < n && vectors->round; i++)
        (*values)[i] = zoe_bf16_round((*values)[i]);
    return ZOE_OK;
}

void zoe_vectors_free(zoe_vectors *vectors)
{
    for (size_t i = 0; i < vectors->count; i++)
        zoe_free(vectors->pieces[i]);
    zoe_free(vectors->pieces);
    *vectors = (zoe_vectors){0};
}

zoe_status zoe_matrix(zoe_context *ctx, const zoe_store *store, zoe_tensor *matrix,
                      const char *prefix, const char *name, size_t rows, size_t columns)
{
    zoe_tensor t;
    TRY(find(ctx, store, &t, prefix, name));
    size_t width = 1;
    for (int i = 1; i < t.rank; i++)
        width *= t.shape[i];
    if (t.rank < 2 || (rows && t.shape[0] != rows) || (columns && width != columns)) {
        char shape[96], wanted[2][24] = {"any", "any"};
        if (rows)
            snprintf(wanted[0], sizeof wanted[0], "%zu", rows);
        if (columns)
            snprintf(wanted[1], sizeof wanted[1], "%zu", columns);
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s%s is %s, [%s, %s] is wanted",
                        zoe_store_path(store), prefix, name,
                        zoe_tensor_describe(shape, sizeof shape, t), wanted[0], wanted[1]);
    }
    if (columns && width % zoe_block_elements(t.dtype))
        return zoe_fail(
            ctx, ZOE_UNSUPPORTED,
            "%s: tensor %s%s is %s, but its rows of %zu elements are no whole blocks of "
            "%zu, which products need",
            zoe_store_path(store), prefix, name, zoe_dtype_name(t.dtype), width,
            zoe_block_elements(t.dtype));
    *matrix = zoe_tensor_2d(t.data, t.dtype, t.shape[0], width);
    matrix->scaling = t.scaling;
    return ZOE_OK;
}

bool zoe_name_split(const char *name, const char *prefix, size_t *number, const char **rest)
{
    const size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0)
        return false;
    const char *p = name + length;
    size_t n = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        n = 10 * n + (size_t)(*p - '0');
        if (n > 1u << 20)
            return false;
    }
    const size_t digits = (size_t)(p - name) - length;
    if (digits == 0 || *p != '.' || (digits > 1 && name[length] == '0'))
        return false;
    *number = n;
    *rest = p + 1;
    return true;
}

size_t zoe_count_blocks(const zoe_store *store)
{
    size_t count = 0;
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        size_t block;
        const char *rest;
        if (zoe_name_split(zoe_store_name(store, i), "blocks.", &block, &rest))
            count = zoe_max(count, block + 1);
    }
    return count;
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* What a foreign tensor's name tells, for the refusal. */
static const char *meaning_of(const char *name)
{
    if (strstr(name, "scale") || strstr(name, "comfy_quant") || strstr(name, "scaled_fp8"))
        return "weights with separate scales of this kind (nvfp4, int8) are not supported";
    if (strstr(name, "lora") || strstr(name, ".alpha") || strstr(name, ".diff"))
        return "this is of a LoRA, which is given beside a model and not as one";
    return "it does not belong to this kind of model";
}

bool zoe_name_is_known(const zoe_names_known *known, const char *name, size_t blocks)
{
    size_t block;
    const char *rest;
    if (zoe_name_split(name, "blocks.", &block, &rest))
        return block < blocks && is_one_of(rest, known->block, known->block_count);
    return is_one_of(name, known->top, known->top_count);
}

zoe_status zoe_refuse_unknown(zoe_context *ctx, const zoe_store *store,
                              const zoe_names_known *known, size_t blocks)
{
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        const char *name = zoe_store_name(store, i);
        if (!zoe_name_is_known(known, name, blocks))
            return zoe_fail(ctx, ZOE_UNSUPPORTED, "%s: has a tensor %s: %s",
                            zoe_store_file(store, i), name, meaning_of(name));
    }
    return ZOE_OK;
}

void zoe_probe_see(const zoe_probe *probe, const char *name, zoe_tensor value)
{
    if (probe)
        probe->see(probe->user, name, value);
}

void zoe_probe_block(const zoe_probe *probe, size_t i, const char *name, zoe_tensor value)
{
    if (!probe)
        return;
    char full[64];
    snprintf(full, sizeof full, "block%zu.%s", i, name);
    probe->see(probe->user, full, value);
}
