/* Sizes, allocation and arenas. */
#define _GNU_SOURCE
#include "base/base.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

bool zoe_size_mul(size_t *r, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, r);
}

bool zoe_size_add(size_t *r, size_t a, size_t b)
{
    return !__builtin_add_overflow(a, b, r);
}

bool zoe_size_product(size_t *r, const size_t *extents, size_t n)
{
    size_t product = 1;
    for (size_t i = 0; i < n; i++)
        if (!zoe_size_mul(&product, product, extents[i]))
            return false;
    *r = product;
    return true;
}

/* Allocations left before the failing one plus 1; 0 while no failure is asked for. */
static atomic_size_t countdown;

void zoe_alloc_fail_at(size_t n)
{
    atomic_store(&countdown, n);
}

static bool failure_is_due(void)
{
    size_t n = atomic_load(&countdown);
    while (n > 1)
        if (atomic_compare_exchange_weak(&countdown, &n, n - 1))
            return false;
    return n == 1;
}

zoe_status zoe_alloc(zoe_context *ctx, void **p, size_t count, size_t size, const char *what)
{
    size_t bytes, padded;
    *p = NULL;
    if (!zoe_size_mul(&bytes, count, size) || !zoe_size_add(&padded, bytes, ALIGNMENT))
        return zoe_fail(ctx, ZOE_NOMEM,
                        "%s: %zu pieces of %zu bytes are more than memory can address", what, count,
                        size);
    padded -= padded % ALIGNMENT;
    if (!failure_is_due())
        *p = aligned_alloc(ALIGNMENT, padded);
    if (!*p)
        return zoe_fail(ctx, ZOE_NOMEM, "%s: no memory for %zu bytes", what, bytes);
    return ZOE_OK;
}

zoe_status zoe_alloc_zero(zoe_context *ctx, void **p, size_t count, size_t size, const char *what)
{
    TRY(zoe_alloc(ctx, p, count, size, what));
    memset(*p, 0, count * size);
    return ZOE_OK;
}

void zoe_free(void *p)
{
    free(p);
}

zoe_status zoe_alloc_probe(zoe_context *ctx, size_t bytes, const char *what)
{
    void *p;
    TRY(zoe_alloc(ctx, &p, bytes, 1, what));
    zoe_free(p);
    return ZOE_OK;
}

zoe_status zoe_strdup(zoe_context *ctx, char **copy, const char *text)
{
    const size_t n = strlen(text) + 1;
    void *p;
    *copy = NULL;
    TRY(zoe_alloc(ctx, &p, n, 1, "text"));
    memcpy(p, text, n);
    *copy = p;
    return ZOE_OK;
}

zoe_status zoe_strf(zoe_context *ctx, char **text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    *text = NULL;
    if (n < 0)
        return zoe_fail(ctx, ZOE_INTERNAL, "cannot format a text");
    void *p;
    TRY(zoe_alloc(ctx, &p, (size_t)n + 1, 1, "text"));
    va_start(args, format);
    vsnprintf(p, (size_t)n + 1, format, args);
    va_end(args);
    *text = p;
    return ZOE_OK;
}

size_t zoe_memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    const size_t limit = zoe_memory_limit("");
    size_t total;
    if (pages <= 0 || bytes <= 0 || !zoe_size_mul(&total, (size_t)pages, (size_t)bytes))
        total = SIZE_MAX;
    return limit > 0 && limit < total ? limit : total;
}

size_t zoe_memory_available(void)
{
    char line[128];
    size_t kib, bytes = SIZE_MAX;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1 && !zoe_size_mul(&bytes, kib, 1024))
            bytes = SIZE_MAX;
    if (f)
        fclose(f);
    return bytes;
}

size_t zoe_arena_bytes(size_t count, size_t size)
{
    size_t bytes;
    if (!zoe_size_mul(&bytes, count, size) || bytes > SIZE_MAX - (ALIGNMENT - 1))
        return SIZE_MAX;
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

zoe_status zoe_arena_new(zoe_context *ctx, zoe_arena *arena, size_t bytes, const char *what)
{
    void *p;
    *arena = (zoe_arena){0};
    TRY(zoe_alloc(ctx, &p, bytes, 1, what));
    *arena = (zoe_arena){.base = p, .size = bytes};
    return ZOE_OK;
}

void zoe_arena_free(zoe_arena *arena)
{
    zoe_free(arena->base);
    *arena = (zoe_arena){0};
}

void *zoe_arena_take(zoe_arena *arena, size_t count, size_t size)
{
    const size_t at = arena->used, bytes = zoe_arena_bytes(count, size);
    if (!zoe_size_add(&arena->used, at, bytes)) {
        arena->used = SIZE_MAX;
        return NULL;
    }
    return arena->base && arena->used <= arena->size ? arena->base + at : NULL;
}

zoe_tensor zoe_arena_2d(zoe_arena *arena, zoe_dtype dtype, size_t n0, size_t n1)
{
    size_t n;
    if (!zoe_size_mul(&n, n0, n1))
        n = SIZE_MAX;
    return zoe_tensor_2d(zoe_arena_take(arena, n, zoe_dtype_bytes(dtype)), dtype, n0, n1);
}

zoe_status zoe_arena_status(zoe_context *ctx, const zoe_arena *arena, const char *what)
{
    if (arena->base && arena->used > arena->size)
        return zoe_fail(ctx, ZOE_INTERNAL, "%s: %zu bytes planned, %zu needed", what, arena->size,
                        arena->used);
    return ZOE_OK;
}
