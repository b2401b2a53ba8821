/* See unicode.h. Properties and normal forms come from libunistring. */
#include "text/unicode.h"

#include <errno.h>
#include <stdlib.h>
#include <unictype.h>
#include <uninorm.h>

static zoe_status reserve(zoe_context *ctx, zoe_chars *chars, size_t more)
{
    size_t wanted;
    if (!zoe_size_add(&wanted, chars->count, more))
        wanted = SIZE_MAX; /* zoe_alloc refuses that */
    if (wanted <= chars->room)
        return ZOE_OK;
    const size_t room = wanted < SIZE_MAX / 2 ? wanted + wanted / 2 + 16 : wanted;
    void *p;
    TRY(zoe_alloc(ctx, &p, room, sizeof *chars->at, "text"));
    if (chars->count)
        memcpy(p, chars->at, chars->count * sizeof *chars->at);
    zoe_free(chars->at);
    chars->at = p;
    chars->room = room;
    return ZOE_OK;
}

zoe_status zoe_chars_add(zoe_context *ctx, zoe_chars *chars, const uint32_t *at, size_t count)
{
    TRY(reserve(ctx, chars, count));
    if (count)
        memcpy(chars->at + chars->count, at, count * sizeof *at);
    chars->count += count;
    return ZOE_OK;
}

zoe_status zoe_chars_add_one(zoe_context *ctx, zoe_chars *chars, uint32_t c)
{
    return zoe_chars_add(ctx, chars, &c, 1);
}

void zoe_chars_free(zoe_chars *chars)
{
    zoe_free(chars->at);
    *chars = (zoe_chars){0};
}

void zoe_chars_take(zoe_chars *chars, zoe_chars *other)
{
    zoe_chars_free(chars);
    *chars = *other;
    *other = (zoe_chars){0};
}

bool zoe_chars_equal(const zoe_chars *a, const zoe_chars *b)
{
    return a->count == b->count && (!a->count || !memcmp(a->at, b->at, a->count * sizeof *a->at));
}

bool zoe_chars_are_ascii(const zoe_chars *chars)
{
    for (size_t i = 0; i < chars->count; i++)
        if (chars->at[i] >= 0x80)
            return false;
    return true;
}

/* Range of the second byte after this lead byte, and bytes of the character; 1 when it cannot
 * lead. */
static size_t lead_length(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    *high = lead == 0xf4 ? 0x8f : 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 1;
}

size_t zoe_utf8_next(uint32_t *c, const unsigned char *s, size_t n)
{
    if (s[0] < 0x80) {
        *c = s[0];
        return 1;
    }
    unsigned char low, high;
    const size_t length = lead_length(s[0], &low, &high);
    uint32_t value = s[0] & (0xffu >> (length + 1));
    *c = ZOE_NO_CHAR;
    for (size_t i = 1; i < length; i++) {
        if (i >= n || s[i] < low || s[i] > high)
            return i;
        value = value << 6 | (s[i] & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    if (length > 1)
        *c = value;
    return length;
}

size_t zoe_utf8_put(unsigned char out[4], uint32_t c)
{
    const size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (length == 1) {
        out[0] = (unsigned char)c;
        return 1;
    }
    for (size_t i = length - 1; i > 0; i--, c >>= 6)
        out[i] = (unsigned char)(0x80 | (c & 0x3f));
    out[0] = (unsigned char)((0xf00u >> length & 0xf0u) | c);
    return length;
}

zoe_status zoe_chars_decode(zoe_context *ctx, zoe_chars *chars, const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    TRY(reserve(ctx, chars, bytes));
    for (size_t i = 0; i < bytes;) {
        uint32_t c;
        i += zoe_utf8_next(&c, s + i, bytes - i);
        chars->at[chars->count++] = c == ZOE_NO_CHAR ? 0xfffd : c;
    }
    return ZOE_OK;
}

zoe_status zoe_chars_encode(zoe_context *ctx, char **text, size_t *bytes, const uint32_t *at,
                            size_t count)
{
    size_t n = 0;
    unsigned char unit[4];
    for (size_t i = 0; i < count; i++)
        n += zoe_utf8_put(unit, at[i]);
    void *p;
    *text = NULL;
    TRY(zoe_alloc(ctx, &p, n + 1, 1, "text"));
    unsigned char *out = p;
    for (size_t i = 0; i < count; i++) {
        const size_t length = zoe_utf8_put(unit, zoe_char_is_surrogate(at[i]) ? 0xfffd : at[i]);
        memcpy(out, unit, length);
        out += length;
    }
    *out = '\0';
    *text = p;
    if (bytes)
        *bytes = n;
    return ZOE_OK;
}

bool zoe_char_is_space(uint32_t c)
{
    return uc_is_property_white_space(c);
}

bool zoe_char_is_digit(uint32_t c)
{
    return uc_is_general_category(c, UC_CATEGORY_Nd);
}

bool zoe_char_is_surrogate(uint32_t c)
{
    return c >= 0xd800 && c <= 0xdfff;
}

zoe_status zoe_chars_normalize(zoe_context *ctx, zoe_chars *out, const uint32_t *at, size_t count,
                               zoe_normal_form form)
{
    const uninorm_t kind = form == ZOE_NFC    ? UNINORM_NFC
                           : form == ZOE_NFD  ? UNINORM_NFD
                           : form == ZOE_NFKC ? UNINORM_NFKC
                                              : UNINORM_NFKD;
    if (!count)
        return ZOE_OK;
    size_t n;
    uint32_t *normal = u32_normalize(kind, at, count, NULL, &n);
    if (!normal)
        return zoe_fail(ctx, errno == ENOMEM ? ZOE_NOMEM : ZOE_INTERNAL,
                        "cannot normalise a text of %zu characters", count);
    const zoe_status status = zoe_chars_add(ctx, out, normal, n);
    free(normal);
    return status;
}
