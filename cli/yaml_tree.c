/* YAML by libyaml's events. */
#include "yaml_tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

typedef struct reader {
    yaml_parser_t parser;
    zoe_yaml *yaml;
    const char *name, *text;
    size_t size, nodes;
} reader;

static bool mistake(reader *r, size_t line, size_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool mistake(reader *r, size_t line, size_t column, const char *format, ...)
{
    char *text = r->yaml->mistake;
    const size_t room = sizeof r->yaml->mistake;
    const int used = snprintf(text, room, "%.200s:%zu:%zu: ", r->name, line, column);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - (size_t)used, format, args);
    va_end(args);
    return false;
}

static bool mistake_at(reader *r, yaml_mark_t mark, const char *text)
{
    return mistake(r, mark.line + 1, mark.column + 1, "%s", text);
}

static bool no_memory(reader *r)
{
    r->yaml->no_memory = true;
    return false;
}

/* ---- events ---- */

/* Of bytes that are no text, libyaml knows only how many came before them. */
static bool wrong_bytes(reader *r)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < r->size && i < r->parser.problem_offset; i++) {
        const unsigned char byte = (unsigned char)r->text[i];
        column = byte == '\n' ? 1 : column + ((byte & 0xc0) != 0x80);
        line += byte == '\n';
    }
    return mistake(r, line, column, "no text in UTF-8: %s", r->parser.problem);
}

static bool next_event(reader *r, yaml_event_t *event)
{
    const yaml_parser_t *p = &r->parser;
    if (yaml_parser_parse(&r->parser, event))
        return true;
    if (p->error == YAML_MEMORY_ERROR)
        return no_memory(r);
    if (p->error == YAML_READER_ERROR)
        return wrong_bytes(r);
    return mistake(r, p->problem_mark.line + 1, p->problem_mark.column + 1,
                   "this is no YAML: %s%s%s", p->problem ? p->problem : "", p->context ? " " : "",
                   p->context ? p->context : "");
}

/* ---- nodes ---- */

static zoe_yaml_kind kind_of(const char *text, yaml_scalar_style_t style)
{
    static const struct {
        const char *word;
        zoe_yaml_kind kind;
    } words[] = {
        {"", ZOE_YAML_NULL},       {"~", ZOE_YAML_NULL},      {"null", ZOE_YAML_NULL},
        {"Null", ZOE_YAML_NULL},   {"NULL", ZOE_YAML_NULL},   {"true", ZOE_YAML_TRUE},
        {"True", ZOE_YAML_TRUE},   {"TRUE", ZOE_YAML_TRUE},   {"yes", ZOE_YAML_TRUE},
        {"Yes", ZOE_YAML_TRUE},    {"YES", ZOE_YAML_TRUE},    {"on", ZOE_YAML_TRUE},
        {"On", ZOE_YAML_TRUE},     {"ON", ZOE_YAML_TRUE},     {"false", ZOE_YAML_FALSE},
        {"False", ZOE_YAML_FALSE}, {"FALSE", ZOE_YAML_FALSE}, {"no", ZOE_YAML_FALSE},
        {"No", ZOE_YAML_FALSE},    {"NO", ZOE_YAML_FALSE},    {"off", ZOE_YAML_FALSE},
        {"Off", ZOE_YAML_FALSE},   {"OFF", ZOE_YAML_FALSE},
    };
    for (size_t i = 0; style == YAML_PLAIN_SCALAR_STYLE && i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i].word) == 0)
            return words[i].kind;
    return ZOE_YAML_TEXT;
}

/* A node whose text, of `length` bytes, lies behind it. */
static bool new_node(reader *r, zoe_yaml_node **node, zoe_yaml_kind kind, yaml_mark_t mark,
                     const void *text, size_t length)
{
    if (++r->nodes > ZOE_YAML_NODES)
        return mistake(r, mark.line + 1, mark.column + 1, "more than %d values in one file",
                       (int)ZOE_YAML_NODES);
    zoe_yaml_node *n = calloc(1, sizeof *n + length + 1);
    if (!n)
        return no_memory(r);
    char *copy = (char *)(n + 1);
    if (length > 0)
        memcpy(copy, text, length);
    *n = (zoe_yaml_node){.kind = kind,
                         .text = copy,
                         .line = mark.line + 1,
                         .column = mark.column + 1,
                         .older = r->yaml->newest};
    r->yaml->newest = n;
    *node = n;
    return true;
}

static bool read_scalar(reader *r, const yaml_event_t *event, zoe_yaml_node **node)
{
    const char *text = (const char *)event->data.scalar.value;
    const size_t length = event->data.scalar.length;
    if (memchr(text, '\0', length))
        return mistake_at(r, event->start_mark, "a text with a NUL in it");
    return new_node(r, node, kind_of(text, event->data.scalar.style), event->start_mark, text,
                    length);
}

/* What settings have no use for, and what makes a small file a large tree. */
static bool check_properties(reader *r, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL, *tag = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT: anchor = event->data.alias.anchor; break;
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
        break;
    default: break;
    }
    if (anchor)
        return mistake(r, event->start_mark.line + 1, event->start_mark.column + 1,
                       "%.40s: anchors and aliases are not taken; write the value itself",
                       (const char *)anchor);
    if (tag)
        return mistake(r, event->start_mark.line + 1, event->start_mark.column + 1,
                       "%.80s: tags are not taken; quotes make a text of any value",
                       (const char *)tag);
    return true;
}

static bool read_node(reader *r, const yaml_event_t *event, size_t depth, zoe_yaml_node **node);

static bool add_key(reader *r, const zoe_yaml_node *map, const yaml_event_t *event,
                    zoe_yaml_node **key)
{
    if (event->type != YAML_SCALAR_EVENT)
        return mistake_at(r, event->start_mark, "a key must be a word");
    if (!check_properties(r, event) || !read_scalar(r, event, key))
        return false;
    for (const zoe_yaml_node *n = map->first; n; n = n->next)
        if (strcmp(n->key->text, (*key)->text) == 0)
            return mistake(r, (*key)->line, (*key)->column,
                           "%.80s stands here for a second time, after line %zu", (*key)->text,
                           n->key->line);
    return true;
}

/* One entry of a list or map, that begins with the event. */
static bool read_entry(reader *r, const zoe_yaml_node *parent, const yaml_event_t *event,
                       size_t depth, zoe_yaml_node **node)
{
    zoe_yaml_node *key;
    yaml_event_t value;
    if (parent->kind == ZOE_YAML_LIST)
        return read_node(r, event, depth, node);
    if (!add_key(r, parent, event, &key) || !next_event(r, &value))
        return false;
    const bool read = read_node(r, &value, depth, node);
    yaml_event_delete(&value);
    if (read)
        (*node)->key = key;
    return read;
}

static bool read_entries(reader *r, zoe_yaml_node *parent, size_t depth)
{
    const yaml_event_type_t end =
        parent->kind == ZOE_YAML_LIST ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT;
    zoe_yaml_node **tail = &parent->first, *node = NULL;
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!next_event(r, &event))
            return false;
        more = event.type != end;
        const bool read = !more || read_entry(r, parent, &event, depth, &node);
        yaml_event_delete(&event);
        if (!read)
            return false;
        if (more) {
            *tail = node;
            tail = &node->next;
        }
    }
    return true;
}

static bool read_node(reader *r, const yaml_event_t *event, size_t depth, zoe_yaml_node **node)
{
    if (!check_properties(r, event))
        return false;
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(r, event, node);
    if (depth == ZOE_YAML_DEPTH)
        return mistake_at(r, event->start_mark, "maps and lists are nested too deep");
    const zoe_yaml_kind kind =
        event->type == YAML_SEQUENCE_START_EVENT ? ZOE_YAML_LIST : ZOE_YAML_MAP;
    return new_node(r, node, kind, event->start_mark, NULL, 0) && read_entries(r, *node, depth + 1);
}

/* ---- the file ---- */

static bool read_stream(reader *r)
{
    for (bool more = true; more;) {
        yaml_event_t event;
        if (!next_event(r, &event))
            return false;
        bool read = true;
        switch (event.type) {
        case YAML_STREAM_END_EVENT: more = false; break;
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_DOCUMENT_START_EVENT:
            read = !r->yaml->root ||
                   mistake_at(r, event.start_mark, "a second document; one file has one");
            break;
        default: read = read_node(r, &event, 0, &r->yaml->root); break;
        }
        yaml_event_delete(&event);
        if (!read)
            return false;
    }
    return true;
}

bool zoe_yaml_read(zoe_yaml *yaml, const char *name, const char *text, size_t size)
{
    *yaml = (zoe_yaml){0};
    reader r = {.yaml = yaml, .name = name, .text = text, .size = size};
    if (size > ZOE_YAML_BYTES)
        return mistake(&r, 1, 1, "larger than %d bytes: this is no file of settings",
                       (int)ZOE_YAML_BYTES);
    if (!yaml_parser_initialize(&r.parser))
        return no_memory(&r);
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
    const bool read = read_stream(&r);
    yaml_parser_delete(&r.parser);
    return read;
}

void zoe_yaml_free(zoe_yaml *yaml)
{
    while (yaml->newest) {
        zoe_yaml_node *node = yaml->newest;
        yaml->newest = node->older;
        free(node);
    }
    yaml->root = NULL;
}
