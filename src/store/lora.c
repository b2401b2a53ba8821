/* LoRA files: from keys to what is added to which tensor of a model. */
#include "base/digest.h"
#include "store/lora.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/names.h"

struct zoe_lora {
    zoe_store *store;
    zoe_lora_part *parts; /* names are owned */
    size_t n;
    const char **unmatched; /* names of the store */
    zoe_lora_summary summary;
};

/* A key that belongs to a tensor of the model. */
typedef struct piece {
    size_t tensor; /* of the model */
    lora_role role;
    const zoe_entry *entry;
} piece;

typedef struct reader {
    zoe_context *ctx;
    zoe_lora *lora;
    const zoe_store *target;
    const char *path;
    piece *pieces;
    size_t n;
    double alpha; /* of all products that have none of their own; 0: none */
} reader;

/* ---- which keys ---- */

static int piece_order(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    if (x->tensor != y->tensor)
        return x->tensor < y->tensor ? -1 : 1;
    if (x->role != y->role)
        return x->role < y->role ? -1 : 1;
    return strcmp(x->entry->name, y->entry->name);
}

static bool is_factor_type(zoe_dtype dtype)
{
    return dtype == ZOE_F32 || dtype == ZOE_F16 || dtype == ZOE_BF16 || dtype == ZOE_F8_E4M3 ||
           dtype == ZOE_F8_E5M2;
}

static zoe_status check_key(const reader *r, const zoe_entry *entry)
{
    const char *kind = zoe_lora_key_foreign(entry->name);
    if (kind)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED, "%s: is a %s (it has %s), which is not supported",
                        r->path, kind, entry->name);
    return ZOE_OK;
}

static zoe_status check_type(const reader *r, const piece *p)
{
    const zoe_tensor t = p->entry->tensor;
    if (p->role == LORA_ALPHA ? zoe_tensor_count(t) == 1 && zoe_block_elements(t.dtype) == 1
                              : is_factor_type(t.dtype))
        return ZOE_OK;
    char shape[160];
    return zoe_fail(r->ctx, p->role == LORA_ALPHA ? ZOE_FORMAT : ZOE_UNSUPPORTED,
                    "%s: %s is %s, %s is wanted", r->path, p->entry->name,
                    zoe_tensor_describe(shape, sizeof shape, t),
                    p->role == LORA_ALPHA ? "one number" : "f32, f16, bf16 or fp8");
}

static void leave_out(const reader *r, const char *key)
{
    r->lora->unmatched[r->lora->summary.unmatched++] = key;
}

static zoe_status resolve_keys(reader *r)
{
    const zoe_store *store = r->lora->store;
    lora_aliases aliases = {0};
    zoe_status status = ZOE_OK;
    for (size_t i = 0; i < store->n; i++)
        TRY(check_key(r, &store->entries[i]));
    for (size_t i = 0; i < store->n; i++) {
        const zoe_entry *entry = &store->entries[i];
        piece p = {.entry = entry};
        if (aliases.n == 0 && zoe_lora_key_is_flat(entry->name))
            TRY_GOTO(zoe_lora_aliases_new(r->ctx, &aliases, r->target));
        if (!zoe_lora_key_resolve(r->target, &aliases, entry->name, &p.tensor, &p.role)) {
            leave_out(r, entry->name);
            continue;
        }
        TRY_GOTO(check_type(r, &p));
        r->pieces[r->n++] = p;
    }
    if (r->n)
        qsort(r->pieces, r->n, sizeof *r->pieces, piece_order);
done:
    zoe_lora_aliases_free(&aliases);
    return status;
}

/* ---- one tensor of the model ---- */

/* The pieces that belong to it, NULL where there are none. */
typedef struct group {
    const zoe_entry *target;
    const piece *of[LORA_DIFFERENCE + 1];
} group;

static const char *name_of(const group *g, lora_role role)
{
    return g->of[role]->entry->name;
}

static zoe_status collect(const reader *r, group *g, size_t *at)
{
    const size_t tensor = r->pieces[*at].tensor;
    *g = (group){.target = &r->target->entries[tensor]};
    for (; *at < r->n && r->pieces[*at].tensor == tensor; ++*at) {
        const piece *p = &r->pieces[*at];
        if (g->of[p->role])
            return zoe_fail(r->ctx, ZOE_FORMAT, "%s: %s and %s are both meant for %s of the model",
                            r->path, name_of(g, p->role), p->entry->name, g->target->name);
        g->of[p->role] = p;
    }
    const piece *down = g->of[LORA_DOWN], *up = g->of[LORA_UP];
    if ((down != NULL) != (up != NULL))
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: has %s, but not the other factor of that product",
                        r->path, name_of(g, down ? LORA_DOWN : LORA_UP));
    if (g->of[LORA_ALPHA] && !down) {
        leave_out(r, name_of(g, LORA_ALPHA));
        g->of[LORA_ALPHA] = NULL;
    }
    return ZOE_OK;
}

/* [shape[0], the rest]; false if there is no first axis or nothing in it. */
static bool as_matrix(zoe_tensor t, zoe_tensor *matrix)
{
    const size_t n = zoe_tensor_count(t);
    if (t.rank < 2 || n == 0)
        return false;
    *matrix = zoe_tensor_2d(t.data, t.dtype, t.shape[0], n / t.shape[0]);
    return true;
}

static zoe_status misfit(const reader *r, const group *g, lora_role role)
{
    char found[160], wanted[160];
    return zoe_fail(r->ctx, ZOE_FORMAT,
                    "%s: %s is %s, which does not fit %s of the model, %s (%s); this LoRA is for "
                    "another model",
                    r->path, name_of(g, role),
                    zoe_tensor_describe(found, sizeof found, g->of[role]->entry->tensor),
                    g->target->name, zoe_tensor_describe(wanted, sizeof wanted, g->target->tensor),
                    zoe_store_path(r->target));
}

/* The input channels of text-to-video and image-to-video models differ (16 and 36), all else may
 * fit. */
static bool is_other_patch(const group *g, zoe_tensor found)
{
    return strcmp(g->target->name, "patch_embedding.weight") == 0 && found.rank >= 2 &&
           g->target->tensor.rank >= 2 && found.shape[1] != g->target->tensor.shape[1];
}

static void skip(const reader *r, const group *g, lora_role first, lora_role last)
{
    char found[160], wanted[160];
    zoe_log(r->ctx, ZOE_WARNING, "%s: %s is left out: it is %s, for %s of the model, %s", r->path,
            name_of(g, first),
            zoe_tensor_describe(found, sizeof found, g->of[first]->entry->tensor), g->target->name,
            zoe_tensor_describe(wanted, sizeof wanted, g->target->tensor));
    for (lora_role role = first; role <= last; role++)
        r->lora->summary.skipped += g->of[role] != NULL;
}

static zoe_status add_part(const reader *r, const group *g, zoe_lora_part part)
{
    char *name;
    TRY(zoe_strdup(r->ctx, &name, g->target->name));
    part.name = name;
    r->lora->parts[r->lora->n++] = part;
    return ZOE_OK;
}

/* One number of any type that numbers have. */
static double number(zoe_tensor t)
{
    switch (t.dtype) {
    case ZOE_F64: return *(const double *)t.data;
    case ZOE_I64: return (double)*(const int64_t *)t.data;
    case ZOE_I32: return *(const int32_t *)t.data;
    case ZOE_I16: return *(const int16_t *)t.data;
    case ZOE_I8: return *(const int8_t *)t.data;
    case ZOE_U8:
    case ZOE_BOOL: return *(const uint8_t *)t.data;
    default: return (double)zoe_load_f32(t.data, t.dtype, 0);
    }
}

static zoe_status factor_of(const reader *r, const group *g, size_t rank, float *factor)
{
    double alpha = r->alpha != 0.0 ? r->alpha : (double)rank;
    if (g->of[LORA_ALPHA])
        alpha = number(g->of[LORA_ALPHA]->entry->tensor);
    *factor = (float)(alpha / (double)rank);
    return isfinite(*factor) ? ZOE_OK
                             : zoe_fail(r->ctx, ZOE_NONFINITE, "%s: the alpha of %s is %g", r->path,
                                        name_of(g, LORA_DOWN), alpha);
}

static zoe_status add_product(const reader *r, const group *g)
{
    zoe_tensor down, up, w;
    zoe_lora_part part = {.factor = 1.0f};
    if (!as_matrix(g->target->tensor, &w) || !as_matrix(g->of[LORA_UP]->entry->tensor, &up))
        return misfit(r, g, LORA_UP);
    if (!as_matrix(g->of[LORA_DOWN]->entry->tensor, &down))
        return misfit(r, g, LORA_DOWN);
    if (down.shape[1] != w.shape[1] && is_other_patch(g, g->of[LORA_DOWN]->entry->tensor)) {
        skip(r, g, LORA_DOWN, LORA_ALPHA);
        return ZOE_OK;
    }
    if (down.shape[1] != w.shape[1])
        return misfit(r, g, LORA_DOWN);
    if (up.shape[0] != w.shape[0])
        return misfit(r, g, LORA_UP);
    if (up.shape[1] != down.shape[0])
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: %s has rank %zu, %s has rank %zu", r->path,
                        name_of(g, LORA_DOWN), down.shape[0], name_of(g, LORA_UP), up.shape[1]);
    TRY(factor_of(r, g, down.shape[0], &part.factor));
    part.down = down;
    part.up = up;
    if (down.shape[0] > r->lora->summary.rank)
        r->lora->summary.rank = down.shape[0];
    r->lora->summary.products++;
    return add_part(r, g, part);
}

static zoe_status add_difference(const reader *r, const group *g)
{
    const zoe_tensor t = g->of[LORA_DIFFERENCE]->entry->tensor, w = g->target->tensor;
    bool fits = zoe_tensor_count(t) == zoe_tensor_count(w);
    for (int i = 0; i < t.rank && t.rank == w.rank; i++)
        fits = fits && t.shape[i] == w.shape[i];
    if (!fits) {
        if (!is_other_patch(g, t))
            return misfit(r, g, LORA_DIFFERENCE);
        skip(r, g, LORA_DIFFERENCE, LORA_DIFFERENCE);
        return ZOE_OK;
    }
    r->lora->summary.differences++;
    return add_part(r, g, (zoe_lora_part){.down = zoe_tensor_none(), .up = t, .factor = 1.0f});
}

/* ---- the whole file ---- */

/* What PEFT's configuration says about the strength: one alpha for all. Whatever else changes it is
 * refused. */
static zoe_status read_peft(reader *r, const char *text)
{
    json_t *root, *value;
    const char *key;
    zoe_status status = ZOE_OK;
    TRY(zoe_json_parse(r->ctx, &root, text, strlen(text), r->path));
    json_object_foreach(root, key, value)
    {
        const char *field = strncmp(key, "transformer.", 12) == 0 ? key + 12 : key;
        if (strcmp(field, "lora_alpha") == 0 && json_is_number(value))
            r->alpha = json_number_value(value);
        else if (strcmp(field, "lora_alpha") == 0 && !json_is_null(value))
            status = zoe_fail(r->ctx, ZOE_FORMAT,
                              "%s: lora_alpha of its configuration is no number", r->path);
        else if (((strcmp(field, "use_rslora") == 0 || strcmp(field, "use_dora") == 0) &&
                  json_is_true(value)) ||
                 (strcmp(field, "alpha_pattern") == 0 && json_object_size(value) > 0))
            status = zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                              "%s: its configuration has %s, which is not supported", r->path, key);
    }
    json_decref(root);
    return status;
}

static zoe_status no_match(const reader *r)
{
    const zoe_lora *lora = r->lora;
    const char *ours = r->target->n ? r->target->entries[r->target->n / 2].name : "nothing";
    if (lora->store->n == 0)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: holds no tensors", r->path);
    const char *theirs = lora->store->entries[lora->store->n / 2].name;
    if (zoe_store_entry(r->target, theirs))
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: is a checkpoint and no LoRA: it has %s itself, as the model has",
                        r->path, theirs);
    return zoe_fail(r->ctx, ZOE_FORMAT,
                    "%s: none of its %zu keys fits %s: they are like %s, the model's tensors like "
                    "%s; this LoRA is for another kind of model",
                    r->path, lora->store->n, zoe_store_path(r->target), theirs, ours);
}

static int key_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void report(const reader *r)
{
    enum { LISTED = 3 };
    const zoe_lora *lora = r->lora;
    const size_t n = lora->summary.unmatched;
    char names[512] = "";
    size_t used = 0;
    if (n == 0)
        return;
    qsort(lora->unmatched, n, sizeof *lora->unmatched, key_order);
    for (size_t i = 0; i < n && i < LISTED && used < sizeof names - 1; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.160s", i ? ", " : "",
                                 lora->unmatched[i]);
    zoe_log(r->ctx, ZOE_WARNING, "%s: %zu of %zu keys fit nothing in %s and are left out: %s%s",
            r->path, n, lora->summary.keys, zoe_store_path(r->target), names,
            n > LISTED ? ", ..." : "");
}

static zoe_status fill(reader *r)
{
    zoe_lora *lora = r->lora;
    const size_t n = lora->store->n;
    void *p;
    TRY(zoe_alloc(r->ctx, &p, n, sizeof *r->pieces, "LoRA"));
    r->pieces = p;
    TRY(zoe_alloc(r->ctx, &p, n, sizeof *lora->parts, "LoRA"));
    lora->parts = p;
    TRY(zoe_alloc(r->ctx, &p, n, sizeof *lora->unmatched, "LoRA"));
    lora->unmatched = p;
    lora->summary.keys = n;
    TRY(resolve_keys(r));
    for (size_t at = 0; at < r->n;) {
        group g;
        TRY(collect(r, &g, &at));
        if (g.of[LORA_DOWN])
            TRY(add_product(r, &g));
        if (g.of[LORA_DIFFERENCE])
            TRY(add_difference(r, &g));
    }
    if (lora->n == 0)
        return no_match(r);
    report(r);
    TRY(zoe_store_verify(r->ctx, lora->store, NULL, NULL, NULL));
    zoe_store_drop(lora->store); /* read again when a layer wants it */
    return ZOE_OK;
}

zoe_status zoe_lora_of(zoe_context *ctx, zoe_lora **lora, zoe_store *store, const zoe_store *target,
                       const char *peft)
{
    void *p;
    *lora = NULL;
    zoe_status status = zoe_alloc_zero(ctx, &p, 1, sizeof **lora, "LoRA");
    if (status != ZOE_OK) {
        zoe_store_close(store);
        return status;
    }
    zoe_lora *l = p;
    l->store = store;
    reader r = {.ctx = ctx, .lora = l, .target = target, .path = zoe_store_path(store)};
    if (peft)
        status = read_peft(&r, peft);
    if (status == ZOE_OK)
        status = fill(&r);
    zoe_free(r.pieces);
    if (status != ZOE_OK)
        zoe_lora_close(l);
    else
        *lora = l;
    return status;
}

zoe_status zoe_lora_open(zoe_context *ctx, zoe_lora **lora, const char *path,
                         const zoe_store *target)
{
    zoe_store *store;
    zoe_context *aside; /* that there is no such configuration is no failure */
    char *peft = NULL;
    *lora = NULL;
    TRY(zoe_store_open(ctx, &store, path, ZOE_NAMES_AS_STORED));
    aside = zoe_context_new(1);
    zoe_status status =
        aside ? zoe_safetensors_metadata(aside, &peft, store->n ? zoe_store_file(store, 0) : path,
                                         "lora_adapter_metadata")
              : ZOE_NOMEM;
    zoe_context_free(aside);
    if (status == ZOE_NOMEM) {
        zoe_store_close(store);
        return zoe_fail(ctx, status, "%s: no memory for its header", path);
    }
    status = zoe_lora_of(ctx, lora, store, target, peft);
    zoe_free(peft);
    return status;
}

void zoe_lora_close(zoe_lora *lora)
{
    if (!lora)
        return;
    for (size_t i = 0; i < lora->n; i++)
        zoe_free((char *)(uintptr_t)lora->parts[i].name);
    zoe_free(lora->parts);
    zoe_free(lora->unmatched);
    zoe_store_close(lora->store);
    zoe_free(lora);
}

const zoe_store *zoe_lora_store(const zoe_lora *lora)
{
    return lora->store;
}

size_t zoe_lora_count(const zoe_lora *lora)
{
    return lora->n;
}

zoe_lora_part zoe_lora_at(const zoe_lora *lora, size_t i)
{
    return lora->parts[i];
}

size_t zoe_lora_find(const zoe_lora *lora, const char *name)
{
    size_t low = 0, high = lora->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(lora->parts[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < lora->n && strcmp(lora->parts[low].name, name) == 0 ? low : lora->n;
}

zoe_lora_summary zoe_lora_summary_of(const zoe_lora *lora)
{
    return lora->summary;
}

const char *zoe_lora_unmatched(const zoe_lora *lora, size_t i)
{
    return lora->unmatched[i];
}

zoe_status zoe_lora_digest(zoe_context *ctx, const zoe_lora *lora, char text[65])
{
    zoe_digest *digest;
    char factor[40];
    TRY(zoe_store_fingerprint(ctx, lora->store, text));
    TRY(zoe_digest_new(ctx, &digest));
    zoe_digest_add_text(digest, text);
    for (size_t i = 0; i < lora->n; i++) {
        snprintf(factor, sizeof factor, "%.9g", (double)lora->parts[i].factor);
        zoe_digest_add_text(digest, lora->parts[i].name);
        zoe_digest_add_text(digest, factor);
    }
    const zoe_status status = zoe_digest_end(ctx, digest, text);
    zoe_digest_free(digest);
    return status;
}
