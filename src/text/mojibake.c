/* See mojibake.h. Text that is UTF-8 but was read with a code page consists of units: as many
 * characters as a character of UTF-8 has bytes, which are those bytes. Well-formed units also
 * arise by accident, so a text is only read anew when it looks less odd after that. */
#include "text/mojibake.h"

#include <unictype.h>

/* A text read anew with one page. */
typedef struct reading {
    zoe_chars chars;
    size_t units;
    size_t loose; /* characters above ASCII in no unit */
    size_t need;  /* how much less odd than the original it has to be */
} reading;

/* Is c, or ZOE_NO_CHAR, a character that a text may have held? Pictures that Unicode has yet to
 * give out count. */
static bool is_plausible(uint32_t c)
{
    if (c >= 0x1f000 && c < 0x1fb00)
        return true;
    return c != ZOE_NO_CHAR &&
           !uc_is_general_category_withtable(c, UC_CATEGORY_MASK_Cn | UC_CATEGORY_MASK_Co |
                                                    UC_CATEGORY_MASK_Cs);
}

/* Characters of the unit at `at`, whose meaning goes to *c, or 0, and *c stays. One byte of three
 * or four may have been lost; U+FFFD stands there and is what is left of the whole. */
static size_t unit_length(const zoe_codepage *page, uint32_t *c, const uint32_t *at, size_t count)
{
    unsigned char bytes[4];
    if (at[0] < 0x80 || (bytes[0] = zoe_codepage_byte(page, at[0])) < 0xc2 || bytes[0] > 0xf4)
        return 0;
    const size_t length = bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
    size_t lost = 0;
    for (size_t i = 1; i < length; i++) {
        if (i == count)
            return 0;
        lost += at[i] == 0xfffd;
        bytes[i] = at[i] == 0xfffd ? 0xbf : zoe_codepage_byte(page, at[i]);
    }
    uint32_t found;
    const size_t bearable = length > 2 ? 1 : 0;
    if (lost > bearable || zoe_utf8_next(&found, bytes, length) != length || !is_plausible(found))
        return 0;
    *c = lost ? 0xfffd : found;
    return length;
}

static bool is_letter(uint32_t c)
{
    return uc_is_general_category_withtable(c, UC_CATEGORY_MASK_L);
}

static bool is_greek_or_cyrillic(uint32_t c)
{
    return c >= 0x370 && c < 0x530;
}

enum { NEED_MOST = 3 };

/* How much less odd the text has to become for the unit at `at`, which means c, to be believed. */
static size_t need_of(const uint32_t *at, size_t length, uint32_t c)
{
    /* Quotes and dashes: three characters that hardly meet by accident. */
    if (c >= 0x2010 && c < 0x2050)
        return 0;
    if (length > 2)
        return 1;
    /* Capital A with circumflex or tilde, rare as a letter, before what Western text has. U+00D6
     * is the second with an en dash, which looks like nothing much within a word. */
    const bool glued = is_letter(at[1]) && at[1] > 0xff;
    if (at[0] == 0xc2 || (at[0] == 0xc3 && c < 0x100))
        return at[0] == 0xc3 && (glued || at[1] == 0x2013) ? 0 : 1;
    if (is_greek_or_cyrillic(at[0]) || is_greek_or_cyrillic(at[1]))
        return c < 0xc0 ? NEED_MOST
                        : 2; /* a space is soon forgotten between a letter and a quote */
    /* Latin letters and signs made of such as meet in no language. */
    if (c < 0xc0)
        return is_letter(at[0]) ? 2 : 1;
    return c < 0x180 && (glued || !is_letter(at[0])) ? 1 : 2;
}

static zoe_status read_anew(zoe_context *ctx, reading *r, const zoe_codepage *page,
                            const zoe_chars *text)
{
    r->chars.count = r->units = r->loose = 0;
    r->need = NEED_MOST;
    for (size_t i = 0; i < text->count;) {
        uint32_t c = text->at[i];
        const size_t length = unit_length(page, &c, text->at + i, text->count - i);
        const size_t need = length ? need_of(text->at + i, length, c) : NEED_MOST;
        TRY(zoe_chars_add_one(ctx, &r->chars, c));
        r->units += length > 0;
        r->loose += length == 0 && c >= 0x80;
        r->need = need < r->need ? need : r->need;
        i += length ? length : 1;
    }
    return ZOE_OK;
}

/* What a text is to be replaced by, if found: less odd than any other. */
typedef struct repair {
    zoe_chars chars;
    size_t oddity;
    bool found;
} repair;

/* Reads with one page as often as it goes, since the last reading may convince where the one
 * before does not. whole: nothing above ASCII may be left over. */
static zoe_status try_page(zoe_context *ctx, repair *best, const zoe_codepage *page,
                           const zoe_chars *text, size_t oddity, bool whole)
{
    zoe_status status = ZOE_OK;
    reading r = {0};
    zoe_chars from = {0};
    bool found = false;
    TRY_GOTO(zoe_chars_add(ctx, &from, text->at, text->count));
    for (;;) {
        TRY_GOTO(read_anew(ctx, &r, page, &from));
        if (r.units == 0 || (whole && r.loose))
            break;
        const size_t after = zoe_oddity(r.chars.at, r.chars.count);
        const bool better = found || !best->found ? after <= best->oddity : after < best->oddity;
        if (better && after + r.need <= oddity) {
            best->chars.count = 0;
            TRY_GOTO(zoe_chars_add(ctx, &best->chars, r.chars.at, r.chars.count));
            best->oddity = after;
            best->found = found = true;
        }
        zoe_chars_take(&from, &r.chars);
    }
done:
    zoe_chars_free(&from);
    zoe_chars_free(&r.chars);
    return status;
}

/* Replaces *text by the best reading of all pages, if one is better than the text as it stands. */
static zoe_status improve(zoe_context *ctx, const zoe_codepage *pages, zoe_chars *text, bool whole,
                          bool *improved)
{
    zoe_status status = ZOE_OK;
    const size_t oddity = zoe_oddity(text->at, text->count);
    repair best = {.oddity = oddity};
    for (size_t k = 0; k < ZOE_CODEPAGE_COUNT; k++)
        TRY_GOTO(try_page(ctx, &best, &pages[k], text, oddity, whole));
    *improved = best.found;
    if (best.found)
        zoe_chars_take(text, &best.chars);
done:
    zoe_chars_free(&best.chars);
    return status;
}

/* The words of a line one by one. */
static zoe_status improve_words(zoe_context *ctx, const zoe_codepage *pages, zoe_chars *line,
                                bool *improved)
{
    zoe_status status = ZOE_OK;
    zoe_chars out = {0}, word = {0};
    *improved = false;
    for (size_t i = 0, end; i < line->count; i = end) {
        const bool blank = line->at[i] <= ' ';
        for (end = i; end < line->count && (line->at[end] <= ' ') == blank;)
            end++;
        word.count = 0;
        TRY_GOTO(zoe_chars_add(ctx, &word, line->at + i, end - i));
        bool better = false;
        if (!zoe_chars_are_ascii(&word)) {
            TRY_GOTO(improve(ctx, pages, &word, true, &better));
            if (!better)
                TRY_GOTO(improve(ctx, pages, &word, false, &better));
        }
        *improved |= better;
        TRY_GOTO(zoe_chars_add(ctx, &out, word.at, word.count));
    }
    zoe_chars_take(line, &out);
done:
    zoe_chars_free(&word);
    zoe_chars_free(&out);
    return status;
}

static bool is_lower(uint32_t c)
{
    return uc_is_general_category(c, UC_CATEGORY_Ll);
}

/* U+00E0 becomes a capital A with tilde and a no-break space, which editors turn into a space
 * and so into the end of the word. The space is kept. The no-break space itself becomes a
 * capital A with circumflex before it, which goes. */
static void restore_spaces(zoe_chars *line)
{
    size_t n = 0;
    for (size_t i = 0; i < line->count; i++) {
        const uint32_t c = line->at[i], previous = i ? line->at[i - 1] : ' ';
        const bool ends = i + 1 < line->count && line->at[i + 1] == ' ';
        const bool after_word = is_lower(previous);
        if (c == 0xc2 && ends && after_word)
            continue;
        const bool lost = c == 0xc3 && ends && (after_word || previous == ' ');
        line->at[n++] = lost ? 0xe0 : c;
    }
    line->count = n;
}

/* Each round shortens the text, and what was broken k times over is 2^k times as long. */
zoe_status zoe_mojibake_repair(zoe_context *ctx, zoe_chars *line)
{
    zoe_codepage pages[ZOE_CODEPAGE_COUNT];
    if (zoe_chars_are_ascii(line))
        return ZOE_OK;
    zoe_codepages_read(pages);
    for (bool improved = true; improved;) {
        TRY(improve(ctx, pages, line, true, &improved));
        if (!improved)
            TRY(improve_words(ctx, pages, line, &improved));
    }
    restore_spaces(line);
    return ZOE_OK;
}

bool zoe_mojibake_remains(const zoe_chars *text)
{
    enum { SUSPECT = 2 };
    for (size_t i = 0, end; i < text->count; i = end + 1) {
        for (end = i; end < text->count && text->at[end] > ' '; end++)
            if (text->at[end] == 0xfffd)
                return true;
        if (zoe_oddity(text->at + i, end - i) >= SUSPECT)
            return true;
    }
    return false;
}
