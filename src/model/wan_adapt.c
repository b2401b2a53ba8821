/* Wan DiT: LoRA beside the weights. Source: Hu et al. 2021 (arXiv 2106.09685). */
#include "model/wan.h"

#include <stdio.h>

/* Pairs of one layer: each LoRA may have a product and a full difference. */
enum { PAIRS = 2 * ZOE_WAN_LORAS };

/* ---- running ---- */

/* Rows first .. first + count - 1 of a tensor that may be absent. */
static zoe_tensor some_rows(zoe_tensor t, size_t first, size_t count)
{
    return t.dtype == ZOE_NONE ? t : wan_rows(t, first, count);
}

/* The terms that the pairs give for these rows; their first products go to `low`, side by side. */
static zoe_status low_products(zoe_context *ctx, const wan_pair *pairs, zoe_tensor x,
                               zoe_tensor low, zoe_workspace work, zoe_linear_term *terms,
                               size_t *n)
{
    size_t column = 0;
    *n = 0;
    for (const wan_pair *p = pairs; p; p = p->next) {
        zoe_linear_term *term = &terms[(*n)++];
        *term = (zoe_linear_term){.x = x, .w = p->up, .scale = p->scale};
        if (p->down.dtype == ZOE_NONE)
            continue;
        term->x = wan_rows(low, 0, x.shape[0]);
        term->x.data = (float *)low.data + column;
        term->x.shape[1] = p->down.shape[0];
        column += p->down.shape[0];
        TRY(zoe_linear(ctx, &(zoe_linear_args){.y = term->x, .x = x, .w = p->down}, work));
    }
    return ZOE_OK;
}

zoe_status zoe_wan_linear_run(zoe_context *ctx, const wan_linear *l, zoe_linear_args args,
                              zoe_tensor low, zoe_workspace work)
{
    args.w = l->w;
    args.bias = zoe_tensor_1d(l->bias, ZOE_F32, l->w.shape[0]);
    if (l->int8)
        return zoe_wan_linear_int8(ctx, l, &args, work);
    if (!l->pairs)
        return zoe_linear(ctx, &args, work);
    const size_t M = args.x.shape[0];
    for (size_t first = 0; first < M; first += low.shape[0]) {
        const size_t left = M - first, count = left < low.shape[0] ? left : low.shape[0];
        zoe_linear_term terms[PAIRS];
        zoe_linear_args part = args;
        part.x = wan_rows(args.x, first, count);
        part.y = wan_rows(args.y, first, count);
        part.residual = some_rows(args.residual, first, count);
        part.terms = terms;
        TRY(low_products(ctx, l->pairs, part.x, low, work, terms, &part.n_terms));
        TRY(zoe_linear(ctx, &part, work));
    }
    return ZOE_OK;
}

/* ---- attaching ---- */

typedef struct adaptation {
    zoe_wan *m;
    const zoe_lora *lora;
    float strength;
    wan_adapter *adapter; /* NULL: only look whether all fits */
    size_t met;           /* parts that have a place */
    size_t rank;          /* the greatest of one layer so far */
    bool unfit;
} adaptation;

static zoe_tensor as_matrix(zoe_tensor t, size_t rows, size_t columns)
{
    return zoe_tensor_2d(t.data, t.dtype, rows, columns);
}

/* Ranks of a layer's products. */
static size_t ranks(const wan_linear *l)
{
    size_t sum = 0;
    for (const wan_pair *p = l->pairs; p; p = p->next)
        sum += p->down.dtype == ZOE_NONE ? 0 : p->down.shape[0];
    return sum;
}

static void attach(adaptation *a, wan_linear *l, wan_pair pair)
{
    wan_pair **last = &l->pairs;
    while (*last)
        last = &(*last)->next;
    *last = &a->adapter->pairs[a->adapter->used++];
    **last = pair;
    a->rank = zoe_max(a->rank, ranks(l));
}

static void adapt_matrix(adaptation *a, wan_linear *l, const zoe_lora_part *part, size_t out,
                         size_t in)
{
    const bool product = part->down.dtype != ZOE_NONE;
    const size_t R = product ? part->down.shape[0] : in;
    if ((product && part->down.shape[1] != in) || zoe_tensor_count(part->up) != out * R) {
        a->unfit = true;
        return;
    }
    if (a->adapter)
        attach(a, l,
               (wan_pair){.down = part->down,
                          .up = as_matrix(part->up, out, R),
                          .scale = a->strength * part->factor});
}

static void adapt_values(adaptation *a, float *values, const zoe_lora_part *part, size_t n)
{
    if (part->down.dtype != ZOE_NONE || zoe_tensor_count(part->up) != n) {
        a->unfit = true;
        return;
    }
    for (size_t i = 0; i < n && a->adapter; i++) {
        const float change = a->strength * zoe_load_f32(part->up.data, part->up.dtype, i);
        values[i] = a->m->vectors.round ? zoe_bf16_round(values[i] + change) : values[i] + change;
    }
}

/* The parts for prefix+name, a matrix of l or a vector. */
static void adapt_tensor(adaptation *a, const char *prefix, const char *name, wan_linear *l,
                         float *values, size_t n, size_t in)
{
    char full[192];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const size_t count = zoe_lora_count(a->lora);
    for (size_t i = zoe_lora_find(a->lora, full); i < count; i++) {
        const zoe_lora_part part = zoe_lora_at(a->lora, i);
        if (strcmp(part.name, full) != 0)
            break;
        a->met++;
        if (l)
            adapt_matrix(a, l, &part, n, in);
        else
            adapt_values(a, values, &part, n);
    }
}

static zoe_status adapt_linear(void *user, wan_linear *linear, const char *name, size_t out,
                               size_t in)
{
    adapt_tensor(user, name, ".weight", linear, NULL, out, in);
    adapt_tensor(user, name, ".bias", NULL, linear->bias, out, 0);
    return ZOE_OK;
}

static zoe_status adapt_vector(void *user, float **values, const char *prefix, const char *name,
                               size_t n)
{
    adapt_tensor(user, prefix, name, NULL, *values, n, 0);
    return ZOE_OK;
}

static zoe_status check(zoe_context *ctx, adaptation *a, const wan_visitor *visitor)
{
    const char *path = zoe_store_path(zoe_lora_store(a->lora));
    size_t loras = 0;
    for (const wan_adapter *p = a->m->adapters; p; p = p->next)
        loras++;
    if (loras == ZOE_WAN_LORAS)
        return zoe_fail(ctx, ZOE_INVALID, "%s: a model takes at most %d LoRAs", path,
                        (int)ZOE_WAN_LORAS);
    if (!isfinite(a->strength))
        return zoe_fail(ctx, ZOE_INVALID, "%s: strength %g is not finite", path,
                        (double)a->strength);
    TRY(zoe_wan_visit(a->m, visitor));
    if (a->unfit || a->met != zoe_lora_count(a->lora))
        return zoe_fail(ctx, ZOE_INVALID, "%s: was opened for another network", path);
    return ZOE_OK;
}

zoe_status zoe_wan_adapt(zoe_context *ctx, zoe_wan *wan, const zoe_lora *lora, float strength)
{
    adaptation a = {.m = wan, .lora = lora, .strength = strength, .rank = wan->dims.adapter_rank};
    const wan_visitor visitor = {.linear = adapt_linear, .vector = adapt_vector, .user = &a};
    const size_t count = zoe_lora_count(lora);
    void *p;
    TRY(check(ctx, &a, &visitor));
    if (strength == 0.0f)
        return ZOE_OK;
    TRY(zoe_alloc(ctx, &p, 1, sizeof(wan_adapter) + count * sizeof(wan_pair), "LoRA"));
    a.adapter = p;
    a.adapter->next = wan->adapters;
    a.adapter->used = 0;
    wan->adapters = a.adapter;
    wan->adapter_bytes += sizeof(wan_adapter) + count * sizeof(wan_pair);
    TRY(zoe_wan_visit(wan, &visitor));
    wan->dims.adapter_rank = a.rank;
    return ZOE_OK;
}

void zoe_wan_adapters_free(zoe_wan *m)
{
    while (m->adapters) {
        wan_adapter *next = m->adapters->next;
        zoe_free(m->adapters);
        m->adapters = next;
    }
}
