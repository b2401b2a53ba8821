/* A small check of XML. */
#include "markup.h"

#include <string.h>

enum { DEPTH = 64, ATTRIBUTES = 16 };

typedef struct name {
    const char *begin;
    size_t size;
} name;

typedef struct parser {
    const char *at;
    name open[DEPTH];
    size_t depth, roots;
} parser;

static bool is_name_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ':' || c == '.';
}

static name take_name(parser *p)
{
    name n = {p->at, 0};
    while (is_name_letter(p->at[n.size]))
        n.size++;
    p->at += n.size;
    return n;
}

static bool same(name a, name b)
{
    return a.size == b.size && memcmp(a.begin, b.begin, a.size) == 0;
}

static void skip_blanks(parser *p)
{
    p->at += strspn(p->at, " \t\r\n");
}

/* &amp; &lt; &gt; &quot; &apos; &#39; &#x27; */
static bool take_entity(parser *p)
{
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(p->at, names[i], strlen(names[i])) == 0) {
            p->at += strlen(names[i]);
            return true;
        }
    const char *digits = p->at[1] != '#'   ? ""
                         : p->at[2] == 'x' ? "0123456789abcdefABCDEF"
                                           : "0123456789";
    const size_t head = p->at[1] == '#' && p->at[2] == 'x' ? 3 : 2,
                 n = strspn(p->at + head, digits);
    if (n == 0 || p->at[head + n] != ';')
        return false;
    p->at += head + n + 1;
    return true;
}

/* Characters up to one of `end`. */
static bool take_text(parser *p, const char *end)
{
    while (*p->at && !strchr(end, *p->at)) {
        const unsigned char c = (unsigned char)*p->at;
        if ((c < 0x20 && !strchr("\t\r\n", c)) || c == '<')
            return false;
        if (c == '&') {
            if (!take_entity(p))
                return false;
        } else {
            p->at++;
        }
    }
    return true;
}

static bool take_attributes(parser *p)
{
    name names[ATTRIBUTES];
    for (size_t n = 0;; n++) {
        const char *before = p->at;
        skip_blanks(p);
        if (!is_name_letter(*p->at))
            return true;
        if (p->at == before || n == ATTRIBUTES)
            return false;
        names[n] = take_name(p);
        for (size_t i = 0; i < n; i++)
            if (same(names[i], names[n]))
                return false;
        if (strncmp(p->at, "=\"", 2) != 0)
            return false;
        p->at += 2;
        if (!take_text(p, "\"") || *p->at != '"')
            return false;
        p->at++;
    }
}

static bool take_tag(parser *p)
{
    const bool closing = p->at[1] == '/';
    p->at += closing ? 2 : 1;
    const name n = take_name(p);
    if (n.size == 0)
        return false;
    if (closing) {
        skip_blanks(p);
        return p->depth > 0 && same(n, p->open[--p->depth]) && *p->at++ == '>';
    }
    p->roots += p->depth == 0;
    if (!take_attributes(p))
        return false;
    if (strncmp(p->at, "/>", 2) == 0) {
        p->at += 2;
        return true;
    }
    if (*p->at != '>' || p->depth == DEPTH)
        return false;
    p->at++;
    p->open[p->depth++] = n;
    return true;
}

bool markup_check(const char *text, const char **fault)
{
    static const char doctype[] = "<!DOCTYPE html>";
    parser p = {.at = text};
    bool sound = true;
    if (strncmp(text, doctype, sizeof doctype - 1) == 0)
        p.at += sizeof doctype - 1;
    while (*p.at && sound) {
        if (*p.at == '<') {
            sound = take_tag(&p);
        } else {
            const char *begin = p.at;
            sound = take_text(&p, "<");
            const size_t n = (size_t)(p.at - begin);
            sound = sound && (p.depth > 0 || strspn(begin, " \t\r\n") >= n);
        }
    }
    *fault = p.at;
    return sound && p.depth == 0 && p.roots == 1;
}

bool markup_refers(const char *text, const char **where)
{
    static const char *const marks[] = {"src=\"", "href=\"", "url(",    "@import", "<script",
                                        "<link",  "<iframe", "<object", "<embed"};
    static const char data[] = "data:image/png;base64,";
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        for (const char *at = text; (at = strstr(at, marks[i])); at++) {
            *where = at;
            if (i > 0 || strncmp(at + strlen(marks[i]), data, sizeof data - 1) != 0)
                return true;
        }
    return false;
}
