/* How unlikely it is that someone wrote a text so; see mojibake.h. Only pairs of neighbours are
 * looked at, by their general category and script. */
#include <unictype.h>

#include "text/mojibake.h"

typedef enum kind {
    PLAIN, /* proves nothing */
    DIGIT,
    UPPER,
    LOWER,
    LETTER, /* of a script without cases */
    MARK,
    SYMBOL,
    NUMBER, /* superscripts, circled digits */
    OPENING,
    LOW_OPENING, /* such as stands at no other place than before a word */
    CLOSING,
    DASH,
    CONTROL
} kind;

static kind ascii_kind(uint32_t c)
{
    if (c >= '0' && c <= '9')
        return DIGIT;
    if (c >= 'A' && c <= 'Z')
        return UPPER;
    return c >= 'a' && c <= 'z' ? LOWER : PLAIN;
}

/* Characters whose use differs from their category, or PLAIN. */
static kind special_kind(uint32_t c)
{
    switch (c) {
    case 0xa1: /* inverted marks and low quotes */
    case 0xbf:
    case 0x201a:
    case 0x201e: return LOW_OPENING;
    case 0xa7: /* section, soft hyphen, pilcrow, daggers, bullet, per mille */
    case 0xad:
    case 0xb6:
    case 0x2020:
    case 0x2021:
    case 0x2022:
    case 0x2030:
    case 0xbc: /* fractions */
    case 0xbd:
    case 0xbe:
    case 0xaa: /* letters that are used as symbols: ordinals, micro, florin */
    case 0xba:
    case 0xb5:
    case 0x192:
    case 0x2c6: /* accents that stand alone */
    case 0x2c7: return SYMBOL;
    default: return PLAIN;
    }
}

static kind kind_of(uint32_t c)
{
    static const struct {
        uint32_t mask;
        kind kind;
    } categories[] = {
        {UC_CATEGORY_MASK_Lu | UC_CATEGORY_MASK_Lt, UPPER},
        {UC_CATEGORY_MASK_Ll, LOWER},
        {UC_CATEGORY_MASK_Lo | UC_CATEGORY_MASK_Lm, LETTER},
        {UC_CATEGORY_MASK_M, MARK},
        {UC_CATEGORY_MASK_Nd, DIGIT},
        {UC_CATEGORY_MASK_S, SYMBOL},
        {UC_CATEGORY_MASK_No, NUMBER},
        {UC_CATEGORY_MASK_Pi | UC_CATEGORY_MASK_Ps, OPENING},
        {UC_CATEGORY_MASK_Pf | UC_CATEGORY_MASK_Pe, CLOSING},
        {UC_CATEGORY_MASK_Pd, DASH},
    };
    if (c < 0x80)
        return ascii_kind(c);
    if (c < 0xa0)
        return CONTROL;
    if (c == 0x2bb || c == 0x2bc) /* apostrophes */
        return PLAIN;
    if (special_kind(c) != PLAIN)
        return special_kind(c);
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (uc_is_general_category_withtable(c, categories[i].mask))
            return categories[i].kind;
    return PLAIN;
}

static bool is_letter(kind k)
{
    return k == UPPER || k == LOWER || k == LETTER;
}

/* Do two letters stand in one word only by accident? East Asian scripts mix among themselves and
 * with ASCII. */
static bool scripts_clash(uint32_t a, uint32_t b)
{
    const uc_script_t *s = uc_script(a), *t = uc_script(b);
    if (s == t || !s || !t || !strcmp(s->name, "Common") || !strcmp(t->name, "Common"))
        return false;
    const bool east_a = a >= 0x2e80 && !(a >= 0xab00 && a < 0xac00);
    const bool east_b = b >= 0x2e80 && !(b >= 0xab00 && b < 0xac00);
    return !(east_a && (east_b || b < 0x80)) && !(east_b && a < 0x80);
}

/* A letter before something that is none. */
static size_t after_letter(uint32_t a, kind next)
{
    switch (next) {
    case SYMBOL:
    case LOW_OPENING: return 1;
    case NUMBER: /* but m2, with the superscript, is common */ return a >= 0x80;
    default: return 0;
    }
}

/* A letter after something that is none. */
static size_t before_letter(kind previous, uint32_t b)
{
    switch (previous) {
    case SYMBOL: return 1;
    case NUMBER:
    case DIGIT: return b >= 0x80;
    default: return 0;
    }
}

static size_t between_others(uint32_t a, kind ka, uint32_t b, kind kb)
{
    const bool sign_a = ka == SYMBOL || ka == NUMBER, sign_b = kb == SYMBOL || kb == NUMBER;
    if (sign_a && sign_b) /* from U+2500 on: box drawing, pictures */
        return a != b && a < 0x2500 && b < 0x2500 && !(ka == NUMBER && kb == NUMBER);
    return (ka == SYMBOL && kb == DASH) || (ka == DASH && kb == SYMBOL);
}

static size_t pair_oddity(uint32_t a, kind ka, uint32_t b, kind kb)
{
    if (a < 0x80 && b < 0x80)
        return 0;
    if (is_letter(ka) && is_letter(kb))
        return (ka == LOWER && kb == UPPER) + (size_t)scripts_clash(a, b);
    if (is_letter(ka))
        return after_letter(a, kb);
    if (is_letter(kb))
        return before_letter(ka, b);
    return between_others(a, ka, b, kb);
}

/* The oddity of c between its two neighbours. */
static size_t around(kind before, uint32_t c, kind k, uint32_t next, kind after)
{
    if (c < 0x80 || c >= 0x3000)
        return 0;
    /* A quotation mark within a word, other than the apostrophe. */
    if (k == OPENING || (k == CLOSING && c != 0x2019))
        return is_letter(before) && is_letter(after) ? 2 : 0;
    /* A Latin capital that makes up the word alone, with a sign glued to it. */
    return c < 0x250 && k == UPPER && !is_letter(before) && next >= 0x80 &&
           (after == DASH || after == OPENING || after == CLOSING || after == PLAIN);
}

size_t zoe_oddity(const uint32_t *at, size_t count)
{
    size_t sum = 0;
    kind before = PLAIN, previous = PLAIN;
    for (size_t i = 0; i < count; i++) {
        const kind k = kind_of(at[i]);
        if (k == CONTROL)
            sum += 2;
        if (i > 0)
            sum += pair_oddity(at[i - 1], previous, at[i], k);
        sum += around(before, i > 0 ? at[i - 1] : 0, previous, at[i], k);
        before = previous;
        previous = k;
    }
    return sum;
}
