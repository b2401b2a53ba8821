/* What the fuzz targets of the networks share: a small sound checkpoint of the test data, and edits of
 * its tensors that the input asks for. The result is a store as the readers could have made it of some
 * file, so that the search goes on where they end. */
#ifndef FUZZ_EDIT_H
#define FUZZ_EDIT_H

#include <stdio.h>
#include <stdlib.h>

#include "store/content.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of one tensor and of all. */
enum { FUZZ_TENSORS = 320, FUZZ_TENSOR = 1 << 20, FUZZ_ALL = 8 << 20, FUZZ_EDIT = 6 };

typedef struct fuzz_tensor {
    char name[160];
    zoe_dtype dtype;
    int rank;
    size_t shape[ZOE_MAX_RANK];
    const unsigned char *from; /* bytes to repeat */
    size_t from_bytes;
    bool patterned;
    uint8_t pattern; /* each byte, instead */
} fuzz_tensor;

typedef struct fuzz_checkpoint {
    fuzz_tensor list[FUZZ_TENSORS];
    size_t n;
    zoe_store *store; /* holds what `from` points to */
    json_t *foreign;  /* the names that another program gives: official to foreign */
} fuzz_checkpoint;

/* The tensors of a file of the test data under official names; stays for the life of the process. `map`:
 * a file of the other names, or NULL if they are those of the file. */
static inline fuzz_checkpoint *fuzz_checkpoint_open(const char *path, zoe_names names,
                                                    const char *map)
{
    fuzz_checkpoint *c = calloc(1, sizeof *c);
    zoe_context *ctx = zoe_context_new(1);
    if (!c || !ctx || zoe_store_open(ctx, &c->store, path, names) != ZOE_OK) {
        fprintf(stderr, "%s: %s (tests/fuzz is to be the present folder)\n", path,
                zoe_context_message(ctx));
        abort();
    }
    c->foreign = map ? json_load_file(map, 0, NULL) : json_object();
    if (!c->foreign)
        abort();
    c->n = zoe_store_count(c->store);
    for (size_t i = 0; i < c->n && i < FUZZ_TENSORS; i++) {
        const zoe_tensor t = zoe_store_tensor(c->store, i);
        fuzz_tensor *p = &c->list[i];
        snprintf(p->name, sizeof p->name, "%s", zoe_store_name(c->store, i));
        p->dtype = t.dtype;
        p->rank = t.rank;
        memcpy(p->shape, t.shape, sizeof p->shape);
        p->from = t.data;
        p->from_bytes = zoe_tensor_bytes(t);
        if (!map &&
            json_object_set_new(c->foreign, p->name, json_string(c->store->entries[i].stored)) != 0)
            abort();
    }
    zoe_context_free(ctx);
    return c;
}

/* Puts the number b in the place of the first one in the name: another block or layer. */
static inline void fuzz_renumber(char name[160], size_t b)
{
    char rest[160];
    const size_t lead = strcspn(name, "0123456789");
    snprintf(rest, sizeof rest, "%s", name + lead + strspn(name + lead, "0123456789"));
    snprintf(name + lead, 160 - lead, "%zu%s", b, rest);
}

static inline void fuzz_append(fuzz_checkpoint *c, const fuzz_tensor *t)
{
    if (c->n < FUZZ_TENSORS)
        c->list[c->n++] = *t;
}

/* A scale beside a weight, of one value, one a row, or any shape. */
static inline void fuzz_add_scale(fuzz_checkpoint *c, const fuzz_tensor *weight, uint8_t a,
                                  size_t b)
{
    static const float one[4] = {1.0f, 0.5f, 2.0f, 0.25f};
    fuzz_tensor scale = *weight;
    const size_t length = strlen(scale.name);
    if (length < 7 || strcmp(scale.name + length - 7, ".weight") != 0 || length > 140)
        return;
    snprintf(scale.name + length - 7, 160 - (length - 7), "%s",
             a & 1 ? ".scale_weight" : ".weight_scale");
    scale.dtype = ZOE_F32;
    scale.rank = a >> 1 & 3;
    scale.shape[0] = a & 8 ? b : weight->shape[0];
    scale.shape[1] = 1;
    scale.shape[2] = 1;
    scale.from = (const unsigned char *)one;
    scale.from_bytes = sizeof one;
    fuzz_append(c, &scale);
}

/* One edit: what to do, with which tensor (two bytes), a byte and a number of two bytes more. */
static inline void fuzz_edit_one(fuzz_checkpoint *c, const uint8_t e[FUZZ_EDIT])
{
    const size_t b = (size_t)e[4] | (size_t)e[5] << 8;
    const uint8_t a = e[3];
    if (c->n == 0)
        return;
    fuzz_tensor *t = &c->list[((size_t)e[1] | (size_t)e[2] << 8) % c->n];
    fuzz_tensor copy = *t;
    switch (e[0] % 11) {
    case 0: *t = c->list[--c->n]; break;
    case 1: memmove(t->name, c->list[b % c->n].name, sizeof t->name); break;
    case 2: t->dtype = (zoe_dtype)(1 + a % (ZOE_DTYPES - 1)); break;
    case 3: t->shape[a % ZOE_MAX_RANK] = b; break;
    case 4:
        for (int i = t->rank; i < ZOE_MAX_RANK; i++)
            t->shape[i] = 1;
        t->rank = a % (ZOE_MAX_RANK + 1);
        break;
    case 5: fuzz_renumber(t->name, b); break;
    case 6:
        fuzz_renumber(copy.name, b);
        fuzz_append(c, &copy);
        break;
    case 7:
        t->patterned = true;
        t->pattern = a;
        break;
    case 8: fuzz_add_scale(c, t, a, b); break;
    case 9: /* the same change for all that have this size */
        for (size_t i = 0; i < c->n; i++)
            for (int k = 0; k < c->list[i].rank; k++)
                if (c->list[i].shape[k] == copy.shape[a % ZOE_MAX_RANK])
                    c->list[i].shape[k] = b % 512;
        break;
    case 10: /* all of one block */
        for (size_t i = 0; i < c->n; i++)
            if (strncmp(c->list[i].name, copy.name, strcspn(copy.name, "0123456789") + 1) == 0)
                fuzz_renumber(c->list[i].name, b % 64);
        break;
    }
}

/* ---- as a store ---- */

typedef struct fuzz_store_case {
    zoe_store *store;
    void *data[FUZZ_TENSORS];
    size_t n;
} fuzz_store_case;

/* Adds a tensor with memory of just its bytes, if a file of some size could have it. */
static inline zoe_status fuzz_put(zoe_context *ctx, fuzz_store_case *s, const fuzz_tensor *t,
                                  const json_t *foreign)
{
    size_t count;
    const size_t run = zoe_block_elements(t->dtype), unit = zoe_block_bytes(t->dtype);
    if (!zoe_extents_check(&count, t->shape, t->rank, 8) || count > FUZZ_TENSOR ||
        (run > 1 && (t->rank == 0 || t->shape[t->rank - 1] % run != 0)))
        return ZOE_OK;
    const size_t bytes = count / run * unit;
    if (bytes > FUZZ_ALL - s->store->files[0].size)
        return ZOE_OK;
    unsigned char *data = malloc(bytes ? bytes : 1);
    if (!data)
        abort();
    if (t->patterned || !t->from_bytes)
        memset(data, t->pattern, bytes);
    else
        for (size_t i = 0; i < bytes; i += t->from_bytes)
            memcpy(data + i, t->from, bytes - i < t->from_bytes ? bytes - i : t->from_bytes);
    s->data[s->n++] = data;
    s->store->files[0].size += bytes;
    const char *other = foreign ? json_string_value(json_object_get(foreign, t->name)) : NULL;
    const char *name = other ? other : t->name;
    return zoe_store_add(ctx, s->store, 0, name, strlen(name),
                         zoe_tensor_of(data, t->dtype, t->rank, t->shape));
}

/* The checkpoint with the edits, as a store; foreign: under another program's names. */
static inline zoe_status fuzz_store_edited(zoe_context *ctx, fuzz_store_case *s,
                                           const fuzz_checkpoint *base, zoe_names names,
                                           bool foreign, const uint8_t *edits, size_t size)
{
    static fuzz_checkpoint c;
    void *p;
    c = *base;
    for (size_t i = 0; i + FUZZ_EDIT <= size; i += FUZZ_EDIT)
        fuzz_edit_one(&c, edits + i);
    *s = (fuzz_store_case){0};
    if (zoe_alloc_zero(ctx, &p, 1, sizeof *s->store, "store") != ZOE_OK)
        abort();
    s->store = p;
    s->store->borrowed = true;
    TRY(zoe_strdup(ctx, &s->store->path, "input"));
    TRY(zoe_store_files(ctx, s->store, 1));
    s->store->files[0].path = s->store->path;
    for (size_t i = 0; i < c.n; i++)
        TRY(fuzz_put(ctx, s, &c.list[i], foreign ? base->foreign : NULL));
    TRY(zoe_names_apply(ctx, s->store, names));
    return zoe_scales_apply(ctx, s->store);
}

static inline void fuzz_store_close(fuzz_store_case *s)
{
    zoe_store_close(s->store);
    for (size_t i = 0; i < s->n; i++)
        free(s->data[i]);
}

/* Is the network to be run too? For one in eight values of the first byte: that takes its time. */
static inline bool fuzz_runs(uint8_t first)
{
    return first >= 0xe0;
}

/* A refusal has a reason. */
static inline void fuzz_reason(const zoe_context *ctx, zoe_status status)
{
    if (status != ZOE_OK && zoe_context_message(ctx)[0] == '\0')
        __builtin_trap();
}

static inline float *fuzz_values(size_t n)
{
    float *x = malloc((n ? n : 1) * sizeof *x);
    if (!x)
        abort();
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 17) / 8.0f - 1.0f;
    return x;
}

#endif
