/* Reads every element of a store and tells where NaN or inf is. */
#include <stdio.h>

#include "store/store.h"

/* Elements are looked at in blocks, so that the compiler makes vectors of the loops: a block that
 * holds neither NaN nor inf, as all do in a sound file, costs one comparison an element. */
enum { BLOCK = 1024 };

/* A task is a piece of one tensor; a batch is so many tasks, after which the caller hears of it. */
enum { PIECE = 1 << 20, BATCH = 64 };

typedef struct counts {
    size_t nans, infs;
} counts;

typedef struct piece {
    size_t tensor, at, n; /* elements at..at+n-1 */
    counts found;
} piece;

typedef struct batch {
    const zoe_store *store;
    piece pieces[BATCH];
    size_t count;
} batch;

/* Is any of BLOCK elements, sign aside, at or above `least`, the pattern of infinity (or of the
 * only NaN, in a type without infinity)? */
static bool reaches_64(const uint64_t *x, uint64_t least)
{
    uint64_t any = 0;
    for (size_t i = 0; i < BLOCK; i++)
        any |= (x[i] & 0x7fffffffffffffffu) >= least ? 1u : 0u;
    return any;
}

static bool reaches_32(const uint32_t *x, uint32_t least)
{
    uint32_t any = 0;
    for (size_t i = 0; i < BLOCK; i++)
        any |= (x[i] & 0x7fffffffu) >= least ? 1u : 0u;
    return any;
}

static bool reaches_16(const uint16_t *x, uint16_t least)
{
    uint16_t any = 0;
    for (size_t i = 0; i < BLOCK; i++)
        any = (uint16_t)(any | ((int16_t)(x[i] & 0x7fff) >= (int16_t)least ? 1 : 0));
    return any;
}

static bool reaches_8(const uint8_t *x, uint8_t least)
{
    uint8_t any = 0;
    for (size_t i = 0; i < BLOCK; i++)
        any = (uint8_t)(any | ((int8_t)(x[i] & 0x7f) >= (int8_t)least ? 1 : 0));
    return any;
}

static bool block_is_finite(const unsigned char *x, zoe_dtype dtype)
{
    const void *p = x;
    switch (dtype) {
    case ZOE_F32: return !reaches_32(p, 0x7f800000u);
    case ZOE_F64: return !reaches_64(p, 0x7ff0000000000000u);
    case ZOE_BF16: return !reaches_16(p, 0x7f80u);
    case ZOE_F16: return !reaches_16(p, 0x7c00u);
    case ZOE_F8_E4M3: return !reaches_8(p, 0x7fu);
    case ZOE_F8_E5M2: return !reaches_8(p, 0x7cu);
    default: return false;
    }
}

/* One by one, any type. F64 is not looked at through f32, in which large values overflow. */
static void count_each(counts *c, const void *data, zoe_dtype dtype, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double value =
            dtype == ZOE_F64 ? ((const double *)data)[i] : (double)zoe_load_f32(data, dtype, i);
        c->nans += isnan(value) ? 1 : 0;
        c->infs += isinf(value) ? 1 : 0;
    }
}

/* A factor that is not finite spoils all that it multiplies; it counts once. */
static void count_factors(counts *c, zoe_tensor t)
{
    const zoe_scaling *s = t.scaling;
    const size_t rows = t.rank ? t.shape[0] : 1;
    for (size_t left = s && rows ? ((rows - 1) / s->row_step + 1) * s->columns : 0; left > 0;) {
        left--;
        count_each(c, &s->values[left], ZOE_F32, 1);
    }
}

/* Block types are looked at as the products see them. */
static void scan_blocks(piece *p, const unsigned char *data, zoe_dtype dtype)
{
    float values[BLOCK];
    for (size_t at = 0; at < p->n; at += BLOCK) {
        const size_t n = p->n - at < BLOCK ? p->n - at : BLOCK;
        zoe_widen(values, data + zoe_run_bytes(dtype, at), dtype, n);
        if (n < BLOCK || !block_is_finite((const unsigned char *)values, ZOE_F32))
            count_each(&p->found, values, ZOE_F32, n);
    }
}

static void scan(void *arg, size_t i, size_t worker)
{
    batch *r = arg;
    piece *p = &r->pieces[i];
    (void)worker;
    const zoe_tensor t = zoe_store_tensor(r->store, p->tensor);
    const size_t element = zoe_dtype_bytes(t.dtype);
    unsigned char *data = (unsigned char *)t.data + zoe_run_bytes(t.dtype, p->at);
    zoe_store_will_need(r->store, zoe_tensor_1d(data, t.dtype, p->n));
    if (p->at == 0)
        count_factors(&p->found, t);
    if (zoe_block_elements(t.dtype) > 1) {
        scan_blocks(p, data, t.dtype);
        return;
    }
    size_t at = 0;
    for (; p->n - at >= BLOCK; at += BLOCK)
        if (!block_is_finite(data + at * element, t.dtype))
            count_each(&p->found, data + at * element, t.dtype, BLOCK);
    count_each(&p->found, data + at * element, t.dtype, p->n - at);
}

typedef struct verification {
    zoe_context *ctx;
    const zoe_store *store;
    zoe_verify_fn found;
    void (*done)(void *user, size_t bytes, size_t total);
    void *user;

    size_t tensor, at;   /* the next element to look at */
    size_t bytes;        /* looked at */
    counts sum;          /* of the tensor whose pieces are being added up */
    size_t first, unfit; /* the first tensor with a find, and how many have one */
    counts first_sum;
} verification;

static void report_tensor(verification *v, size_t tensor)
{
    if (v->sum.nans + v->sum.infs > 0) {
        if (v->unfit++ == 0) {
            v->first = tensor;
            v->first_sum = v->sum;
        }
        if (v->found)
            v->found(v->user, tensor, v->sum.nans, v->sum.infs);
    }
    v->sum = (counts){0};
}

/* The next pieces. Integers cannot be NaN; their bytes count as looked at. */
static void fill(verification *v, batch *r)
{
    r->count = 0;
    while (r->count < BATCH && v->tensor < zoe_store_count(v->store)) {
        const zoe_tensor t = zoe_store_tensor(v->store, v->tensor);
        const size_t n = zoe_tensor_count(t), left = n - v->at;
        if (left == 0 || !zoe_dtype_is_float(t.dtype)) {
            v->bytes += zoe_dtype_is_float(t.dtype) ? 0 : zoe_run_bytes(t.dtype, n);
            v->tensor++;
            v->at = 0;
            continue;
        }
        piece *p = &r->pieces[r->count++];
        *p = (piece){.tensor = v->tensor, .at = v->at, .n = left < PIECE ? left : PIECE};
        v->at += p->n;
    }
}

static void add_up(verification *v, const batch *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const piece *p = &r->pieces[i];
        const zoe_tensor t = zoe_store_tensor(v->store, p->tensor);
        v->sum.nans += p->found.nans;
        v->sum.infs += p->found.infs;
        v->bytes += zoe_run_bytes(t.dtype, p->n);
        if (p->at + p->n == zoe_tensor_count(t))
            report_tensor(v, p->tensor);
    }
}

static zoe_status nonfinite(const verification *v)
{
    char more[80] = "", shape[160];
    const zoe_store *store = v->store;
    if (v->unfit > 1)
        snprintf(more, sizeof more, "; %zu other tensor%s not finite either", v->unfit - 1,
                 v->unfit == 2 ? " is" : "s are");
    return zoe_fail(v->ctx, ZOE_NONFINITE, "%s: tensor %s, %s, has %zu NaN and %zu inf%s",
                    zoe_store_file(store, v->first), zoe_store_name(store, v->first),
                    zoe_tensor_describe(shape, sizeof shape, zoe_store_tensor(store, v->first)),
                    v->first_sum.nans, v->first_sum.infs, more);
}

zoe_status zoe_store_verify(zoe_context *ctx, const zoe_store *store, zoe_verify_fn found,
                            void (*done)(void *user, size_t bytes, size_t total), void *user)
{
    verification v = {.ctx = ctx, .store = store, .found = found, .done = done, .user = user};
    batch r = {.store = store};
    const size_t total = zoe_store_bytes(store);
    for (fill(&v, &r); r.count > 0; fill(&v, &r)) {
        TRY(zoe_check_cancel(ctx));
        TRY(zoe_store_check(ctx, store));
        zoe_parallel_for(ctx, r.count, scan, &r);
        add_up(&v, &r);
        if (done)
            done(user, v.bytes, total);
    }
    if (done)
        done(user, total, total);
    return v.unfit ? nonfinite(&v) : ZOE_OK;
}
