/* Cleaning of prompts: repairs line by line, HTML references twice, runs of white space to one
 * space. docs/TEXT.md says how that compares with the official code. */
#include <uninorm.h>

#include "text/entity.h"
#include "text/mojibake.h"
#include "text/text.h"
#include "text/unicode.h"

/* Longest prompt in bytes; rounds until a text must have come to rest. */
enum { PROMPT_LIMIT = 1 << 20, ROUND_LIMIT = 200 };

/* The straight quotation mark for a curly one, else c. */
static uint32_t straight(uint32_t c)
{
    if (c == 0x02bc || (c >= 0x2018 && c <= 0x201b))
        return '\'';
    return c >= 0x201c && c <= 0x201f ? '"' : c;
}

/* Is c a single character that stands for several Latin letters? */
static bool is_ligature(uint32_t c)
{
    return c == 0x132 || c == 0x133 || c == 0x149 || (c >= 0x1c4 && c <= 0x1cc) ||
           (c >= 0x1f1 && c <= 0x1f3) || (c >= 0xfb00 && c <= 0xfb06);
}

static zoe_status add_apart(zoe_context *ctx, zoe_chars *out, uint32_t c)
{
    ucs4_t parts[UC_DECOMPOSITION_MAX_LENGTH];
    int tag;
    const int count = uc_decomposition(c, &tag, parts);
    for (int i = 0; i < count; i++)
        TRY(zoe_chars_add_one(ctx, out, straight(parts[i])));
    return ZOE_OK;
}

static zoe_status add_plain(zoe_context *ctx, zoe_chars *out, uint32_t c)
{
    if (c >= 0x80 && c < 0xa0)
        c = zoe_windows_1252_char((unsigned char)c);
    if (is_ligature(c))
        return add_apart(ctx, out, c);
    if (c == 0x3000)
        c = ' ';
    if (c > 0xff00 && c < 0xfff0) /* half- and fullwidth forms */
        return zoe_chars_normalize(ctx, out, &c, 1, ZOE_NFKC);
    return zoe_chars_add_one(ctx, out, straight(c));
}

/* C1 controls as windows-1252, ligatures apart, usual widths, straight quotes. */
static zoe_status make_plain(zoe_context *ctx, zoe_chars *text)
{
    if (zoe_chars_are_ascii(text))
        return ZOE_OK;
    zoe_status status = ZOE_OK;
    zoe_chars out = {0};
    for (size_t i = 0; i < text->count; i++)
        TRY_GOTO(add_plain(ctx, &out, text->at[i]));
    zoe_chars_take(text, &out);
done:
    zoe_chars_free(&out);
    return status;
}

/* All line ends to line feeds, surrogate pairs to their characters, lone surrogates to U+FFFD. */
static void join_pairs(zoe_chars *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->count; i++) {
        const uint32_t c = text->at[i], next = i + 1 < text->count ? text->at[i + 1] : 0;
        if (c == '\r' || c == 0x2028 || c == 0x2029) {
            text->at[n++] = '\n';
            i += c == '\r' && next == '\n';
        } else if (c >= 0xd800 && c < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
            text->at[n++] = 0x10000 + ((c - 0xd800) << 10) + (next - 0xdc00);
            i++;
        } else
            text->at[n++] = zoe_char_is_surrogate(c) ? 0xfffd : c;
    }
    text->count = n;
}

/* Length of a terminal escape such as ESC [ 1 ; 3 1 m, or 0. */
static size_t escape_length(const uint32_t *at, size_t n)
{
    if (n < 3 || at[0] != 0x1b || at[1] != '[')
        return 0;
    size_t i = 2;
    while (i < n && (at[i] == ';' || zoe_char_is_digit(at[i])))
        i++;
    return i < n && ((at[i] | 0x20) >= 'a' && (at[i] | 0x20) <= 'z') ? i + 1 : 0;
}

static void drop_escapes(zoe_chars *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->count;) {
        const size_t length = escape_length(text->at + i, text->count - i);
        if (length)
            i += length;
        else
            text->at[n++] = text->at[i++];
    }
    text->count = n;
}

/* Controls without a visible effect; tabs, line ends, joiners and direction marks stay. */
static bool is_dropped(uint32_t c)
{
    return c < 0x09 || c == 0x0b || (c >= 0x0e && c < 0x20) || c == 0x7f ||
           (c >= 0x206a && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffc);
}

static void drop_controls(zoe_chars *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->count; i++)
        if (!is_dropped(text->at[i]))
            text->at[n++] = text->at[i];
    text->count = n;
}

static zoe_status compose(zoe_context *ctx, zoe_chars *text)
{
    if (zoe_chars_are_ascii(text))
        return ZOE_OK;
    zoe_chars out = {0};
    const zoe_status status = zoe_chars_normalize(ctx, &out, text->at, text->count, ZOE_NFC);
    if (status == ZOE_OK)
        zoe_chars_take(text, &out);
    zoe_chars_free(&out);
    return status;
}

/* One line, again and again until it rests. */
static zoe_status fix_line(zoe_context *ctx, zoe_chars *line, bool entities)
{
    zoe_status status = ZOE_OK;
    zoe_chars before = {0};
    for (size_t round = 0;; round++) {
        if (round == ROUND_LIMIT) {
            status = zoe_fail(
                ctx, ZOE_INVALID,
                "prompt: entities or encodings are nested more than %d deep, which no real text is",
                ROUND_LIMIT);
            break;
        }
        before.count = 0;
        TRY_GOTO(zoe_chars_add(ctx, &before, line->at, line->count));
        if (entities)
            TRY_GOTO(zoe_entities_replace_closed(ctx, line));
        TRY_GOTO(zoe_mojibake_repair(ctx, line));
        TRY_GOTO(make_plain(ctx, line));
        join_pairs(line);
        drop_escapes(line);
        drop_controls(line);
        TRY_GOTO(compose(ctx, line));
        if (zoe_chars_equal(line, &before))
            break;
    }
done:
    zoe_chars_free(&before);
    return status;
}

/* From the first line with a '<' on, the text may be HTML, and entities stay. */
static zoe_status fix_lines(zoe_context *ctx, zoe_chars *text)
{
    zoe_status status = ZOE_OK;
    zoe_chars out = {0}, line = {0};
    bool entities = true;
    for (size_t first = 0, end; first < text->count; first = end) {
        bool ended = false;
        for (end = first; end < text->count && !ended; end++) {
            ended = text->at[end] == '\n';
            entities &= text->at[end] != '<';
        }
        line.count = 0;
        TRY_GOTO(zoe_chars_add(ctx, &line, text->at + first, end - first));
        TRY_GOTO(fix_line(ctx, &line, entities));
        TRY_GOTO(zoe_chars_add(ctx, &out, line.at, line.count));
    }
    zoe_chars_take(text, &out);
done:
    zoe_chars_free(&line);
    zoe_chars_free(&out);
    return status;
}

/* Runs of white space to one space, none at the ends. */
static void collapse_spaces(zoe_chars *text)
{
    size_t n = 0;
    bool pending = false;
    for (size_t i = 0; i < text->count; i++) {
        if (zoe_char_is_space(text->at[i])) {
            pending = n > 0;
            continue;
        }
        if (pending)
            text->at[n++] = ' ';
        pending = false;
        text->at[n++] = text->at[i];
    }
    text->count = n;
}

zoe_status zoe_text_clean(zoe_context *ctx, char **clean, bool *suspect, const char *text,
                          size_t bytes)
{
    *clean = NULL;
    *suspect = false;
    if (bytes > PROMPT_LIMIT)
        return zoe_fail(ctx, ZOE_INVALID, "prompt: %zu bytes, at most %d are read", bytes,
                        PROMPT_LIMIT);
    zoe_status status;
    zoe_chars chars = {0};
    TRY_GOTO(zoe_chars_decode(ctx, &chars, text, bytes));
    TRY_GOTO(fix_lines(ctx, &chars));
    TRY_GOTO(zoe_entities_replace_all(ctx, &chars));
    TRY_GOTO(zoe_entities_replace_all(ctx, &chars));
    collapse_spaces(&chars);
    *suspect = zoe_mojibake_remains(&chars);
    TRY_GOTO(zoe_chars_encode(ctx, clean, NULL, chars.at, chars.count));
done:
    zoe_chars_free(&chars);
    return status;
}
