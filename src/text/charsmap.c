/* See charsmap.h. A unit packs a label (bits 0 to 7, bit 31 for values), has-value (bit 8) and
 * the distance to its children (bits 10 up, times 256 if bit 9); a value unit holds the place in
 * the pool. */
#include "text/charsmap.h"

#include "text/unicode.h"

static uint32_t unit(const zoe_charsmap *map, size_t i)
{
    const unsigned char *p = map->units + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static size_t distance(uint32_t u)
{
    return (size_t)(u >> 10) << ((u & 0x200) >> 6);
}
static bool has_value(uint32_t u)
{
    return u >> 8 & 1;
}
static uint32_t label(uint32_t u)
{
    return u & 0x800000ff;
}

/* Checks the node at i, whose children begin at `base`, and puts those not yet seen on the
 * stack. */
static bool check_node(const zoe_charsmap *map, size_t i, size_t base, unsigned char *seen,
                       uint32_t *stack, size_t *depth)
{
    /* A walk looks at base ^ byte for any byte, so the whole block of 256 must be there. */
    if ((base | 0xff) >= map->count)
        return false;
    if (has_value(unit(map, i)) && (unit(map, base) & 0x7fffffff) >= map->pool_bytes)
        return false;
    for (size_t byte = 1; byte < 256; byte++) {
        const size_t child = base ^ byte;
        if (label(unit(map, child)) == byte && !seen[child]) {
            seen[child] = 1;
            stack[(*depth)++] = (uint32_t)child;
        }
    }
    return true;
}

static zoe_status check_trie(zoe_context *ctx, const zoe_charsmap *map)
{
    void *seen = NULL, *stack = NULL;
    zoe_status status;
    TRY_GOTO(zoe_alloc_zero(ctx, &seen, map->count, 1, "character map"));
    TRY_GOTO(zoe_alloc(ctx, &stack, map->count, sizeof(uint32_t), "character map"));
    size_t depth = 0;
    bool fine = check_node(map, 0, distance(unit(map, 0)), seen, stack, &depth);
    while (fine && depth > 0) {
        const size_t i = ((uint32_t *)stack)[--depth];
        fine = check_node(map, i, i ^ distance(unit(map, i)), seen, stack, &depth);
    }
    if (!fine)
        status = zoe_fail(ctx, ZOE_FORMAT,
                          "character map: the trie of %zu units points outside itself or its texts",
                          map->count);
done:
    zoe_free(stack);
    zoe_free(seen);
    return status;
}

static bool is_utf8(const unsigned char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t c;
        i += zoe_utf8_next(&c, s + i, n - i);
        if (c == ZOE_NO_CHAR || zoe_char_is_surrogate(c))
            return false;
    }
    return true;
}

zoe_status zoe_charsmap_read(zoe_context *ctx, zoe_charsmap *map, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    *map = (zoe_charsmap){0};
    if (bytes == 0)
        return ZOE_OK;
    if (bytes < 4)
        return zoe_fail(ctx, ZOE_FORMAT, "character map: %zu bytes are too few", bytes);
    const zoe_charsmap head = {.units = p, .count = 1};
    const size_t trie = unit(&head, 0);
    if (trie < 1024 || trie % 4 != 0 || trie >= bytes - 4)
        return zoe_fail(ctx, ZOE_FORMAT, "character map: a trie of %zu bytes within %zu", trie,
                        bytes);
    *map = (zoe_charsmap){p + 4, trie / 4, p + 4 + trie, bytes - 4 - trie};
    if (map->pool[map->pool_bytes - 1] != 0 || !is_utf8(map->pool, map->pool_bytes))
        return zoe_fail(ctx, ZOE_FORMAT,
                        "character map: the replacements are no NUL-terminated UTF-8");
    return check_trie(ctx, map);
}

const char *zoe_charsmap_find(const zoe_charsmap *map, const unsigned char *text, size_t bytes)
{
    if (!map->count)
        return NULL;
    size_t node = distance(unit(map, 0));
    for (size_t i = 0; i < bytes && text[i]; i++) {
        node ^= text[i];
        const uint32_t u = unit(map, node);
        if (label(u) != text[i])
            return NULL;
        node ^= distance(u);
        if (has_value(u))
            return (const char *)map->pool + (unit(map, node) & 0x7fffffff);
    }
    return NULL;
}
