/* See entity.h. The names come from gumbo's HTML5 parser: its list is asked by parsing "x&name"
 * as a document. */
#include "text/entity.h"

#include <gumbo.h>
#include <stdlib.h>
#include <unicase.h>

#include "text/mojibake.h"

enum { NAME_LIMIT = 32 }; /* no HTML5 name is longer */

/* What a named reference stands for. */
typedef struct meaning {
    uint32_t chars[NAME_LIMIT + 4];
    size_t count;
    bool known; /* some start of the name is an entity */
    bool whole; /* all of the name, semicolon included, is one */
} meaning;

static bool is_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(uint32_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The text of the first text node of the body, or NULL. */
static const char *body_text(const GumboOutput *page)
{
    const GumboVector *parts = &page->root->v.element.children;
    for (unsigned i = 0; i < parts->length; i++) {
        const GumboNode *part = parts->data[i];
        if (part->type != GUMBO_NODE_ELEMENT || part->v.element.tag != GUMBO_TAG_BODY)
            continue;
        if (part->v.element.children.length == 0)
            return NULL;
        const GumboNode *first = part->v.element.children.data[0];
        return first->type == GUMBO_NODE_TEXT ? first->v.text.text : NULL;
    }
    return NULL;
}

/* Looks up letters and digits and a possible semicolon, at most NAME_LIMIT + 1 characters, after
 * an ampersand. */
static zoe_status look_up(zoe_context *ctx, meaning *m, const uint32_t *name, size_t count)
{
    static const char head[] = "<!DOCTYPE html><body>x&";
    char page_text[sizeof head + NAME_LIMIT + 1];
    *m = (meaning){0};
    if (count < 2 || count > NAME_LIMIT + 1 || !is_letter(name[0]))
        return ZOE_OK; /* no name is so short, or begins with a digit */
    memcpy(page_text, head, sizeof head - 1);
    for (size_t i = 0; i < count; i++)
        page_text[sizeof head - 1 + i] = (char)name[i];
    const size_t length = sizeof head - 1 + count;
    page_text[length] = '\0';
    GumboOutput *page = gumbo_parse_with_options(&kGumboDefaultOptions, page_text, length);
    if (!page)
        return zoe_fail(ctx, ZOE_NOMEM, "no memory to read an HTML entity");
    const char *text = body_text(page);
    /* An unknown name stays as it was written; a known one is longer than what it stands for. */
    if (text && strcmp(text + 1, page_text + sizeof head - 2) != 0) {
        const size_t bytes = strlen(text + 1);
        for (size_t i = 1; i <= bytes && m->count < NAME_LIMIT + 4;)
            i += zoe_utf8_next(&m->chars[m->count++], (const unsigned char *)text + i,
                               bytes + 1 - i);
        m->known = true;
        /* If only a start was an entity, the rest with the semicolon still stands behind it. */
        m->whole = name[count - 1] == ';' && (m->count == 1 || m->chars[m->count - 1] != ';');
    }
    gumbo_destroy_output(&kGumboDefaultOptions, page);
    return ZOE_OK;
}

/* Is it a control or noncharacter that HTML forbids to refer to? */
static bool is_forbidden(uint32_t c)
{
    return (c >= 0x01 && c <= 0x08) || c == 0x0b || (c >= 0x0e && c <= 0x1f) ||
           (c >= 0x7f && c <= 0x9f) || (c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
}

/* Reads "#123;" or "#xab" at s. Returns the characters read, 0 if there is no number, semicolon
 * included. *c is ZOE_NO_CHAR when the reference means nothing at all. */
static size_t read_number(uint32_t *c, const uint32_t *s, size_t n)
{
    size_t i = 1;
    const bool hex = n > 1 && (s[1] == 'x' || s[1] == 'X');
    if (hex)
        i++;
    const size_t first = i;
    uint32_t value = 0;
    for (; i < n && (hex ? is_hex(s[i]) : is_digit(s[i])); i++) {
        const uint32_t digit = is_digit(s[i]) ? s[i] - '0' : (s[i] | 0x20) - 'a' + 10;
        if (value <= 0x10ffff)
            value = value * (hex ? 16 : 10) + digit;
    }
    if (i == first)
        return 0;
    if (i < n && s[i] == ';')
        i++;
    if (value == 0 || value > 0x10ffff || zoe_char_is_surrogate(value))
        *c = 0xfffd;
    else if (value >= 0x80 && value <= 0x9f)
        *c = zoe_windows_1252_char((unsigned char)value);
    else
        *c = is_forbidden(value) ? ZOE_NO_CHAR : value;
    return i;
}

/* Capitals of an entity's lower-case name stand for the capitals of its value, unless HTML reads
 * them its own way. */
static zoe_status look_up_capitals(zoe_context *ctx, meaning *m, const uint32_t *name, size_t count)
{
    uint32_t lower[NAME_LIMIT + 1];
    if (m->known || count > NAME_LIMIT + 1)
        return ZOE_OK;
    for (size_t i = 0; i < count; i++) {
        if (name[i] >= 'a' && name[i] <= 'z')
            return ZOE_OK;
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 0x20 : name[i];
    }
    meaning small;
    TRY(look_up(ctx, &small, lower, count));
    if (!small.whole)
        return ZOE_OK;
    size_t n = NAME_LIMIT;
    const uint32_t *upper = u32_toupper(small.chars, small.count, NULL, NULL, m->chars, &n);
    if (upper != m->chars) { /* the room was not enough, or there was no memory */
        free((void *)upper);
        return zoe_fail(ctx, ZOE_NOMEM, "no memory to read an HTML entity");
    }
    m->count = n;
    m->whole = true;
    return ZOE_OK;
}

/* One reference of the closed kind: name[0 .. count-1] is what follows the ampersand, the last a
 * semicolon. */
static zoe_status add_closed(zoe_context *ctx, zoe_chars *out, bool *done, const uint32_t *name,
                             size_t count)
{
    *done = false;
    if (name[0] == '#') {
        uint32_t c;
        /* The number must reach to the semicolon, and &#59; itself stays for the second step: a
         * semicolon that it gave could close another reference. */
        if (read_number(&c, name, count) != count || c == ';')
            return ZOE_OK;
        *done = true;
        return c == ZOE_NO_CHAR ? ZOE_OK : zoe_chars_add_one(ctx, out, c);
    }
    meaning m;
    TRY(look_up(ctx, &m, name, count));
    TRY(look_up_capitals(ctx, &m, name, count));
    *done = m.whole;
    return m.whole ? zoe_chars_add(ctx, out, m.chars, m.count) : ZOE_OK;
}

/* Length of "name;" or "#name;" at s, where the name has 1 to NAME_LIMIT letters or digits, else
 * 0. */
static size_t closed_length(const uint32_t *s, size_t n)
{
    size_t i = n > 0 && s[0] == '#';
    const size_t first = i;
    while (i < n && (is_letter(s[i]) || is_digit(s[i])))
        i++;
    return i > first && i - first <= NAME_LIMIT && i < n && s[i] == ';' ? i + 1 : 0;
}

zoe_status zoe_entities_replace_closed(zoe_context *ctx, zoe_chars *text)
{
    zoe_status status = ZOE_OK;
    zoe_chars out = {0};
    for (size_t i = 0; i < text->count;) {
        const size_t length =
            text->at[i] == '&' ? closed_length(text->at + i + 1, text->count - i - 1) : 0;
        bool replaced = false;
        if (length)
            TRY_GOTO(add_closed(ctx, &out, &replaced, text->at + i + 1, length));
        if (!replaced)
            TRY_GOTO(zoe_chars_add(ctx, &out, text->at + i, length + 1));
        i += length + 1;
    }
    zoe_chars_take(text, &out);
done:
    zoe_chars_free(&out);
    return status;
}

/* One reference after an ampersand; *length is what was read of it, 0 for none. */
static zoe_status add_any(zoe_context *ctx, zoe_chars *out, size_t *length, const uint32_t *s,
                          size_t n)
{
    *length = 0;
    if (n > 0 && s[0] == '#') {
        uint32_t c;
        *length = read_number(&c, s, n);
        return *length == 0 || c == ZOE_NO_CHAR ? ZOE_OK : zoe_chars_add_one(ctx, out, c);
    }
    size_t count = 0;
    while (count < n && count < NAME_LIMIT && (is_letter(s[count]) || is_digit(s[count])))
        count++;
    if (count < n && s[count] == ';')
        count++;
    meaning m;
    TRY(look_up(ctx, &m, s, count));
    if (!m.known)
        return ZOE_OK;
    *length = count;
    return zoe_chars_add(ctx, out, m.chars, m.count);
}

zoe_status zoe_entities_replace_all(zoe_context *ctx, zoe_chars *text)
{
    zoe_status status = ZOE_OK;
    zoe_chars out = {0};
    for (size_t i = 0; i < text->count;) {
        size_t length = 0;
        if (text->at[i] == '&')
            TRY_GOTO(add_any(ctx, &out, &length, text->at + i + 1, text->count - i - 1));
        if (length == 0)
            TRY_GOTO(zoe_chars_add_one(ctx, &out, text->at[i]));
        i += length + 1;
    }
    zoe_chars_take(text, &out);
done:
    zoe_chars_free(&out);
    return status;
}
