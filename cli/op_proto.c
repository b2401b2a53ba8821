#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "op_proto.h"

/* ---- refusals ---- */

/* Where in the text the reader is. */
typedef struct reader {
    zoe_context *ctx;
    const char *file;
    char where[192]; /* "[0].attr[1].default_value" */
} reader;

static void at(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void at(reader *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->where, sizeof r->where, format, arguments);
    va_end(arguments);
}

/* "FILE: WHERE is FOUND, wanted WANTED". */
static zoe_status refuse(const reader *r, zoe_status status, const json_t *found,
                         const char *wanted)
{
    char *text = found ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const bool cut = text && strlen(text) > 60;
    zoe_fail(r->ctx, status, "%s: %s is %.60s%s, wanted %s", r->file, r->where,
             text    ? text
             : found ? "unreadable"
                     : "missing",
             cut ? "..." : "", wanted);
    free(text);
    return status;
}

static bool is_one_of(const char *word, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* Every member of an object is one that is known: a misspelt one would be passed over in silence. */
static zoe_status check_members(reader *r, json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (is_one_of(key, known))
            continue;
        char list[256];
        size_t used = 0;
        for (size_t i = 0; known[i] && used < sizeof list; i++)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                     i == 0         ? ""
                                     : known[i + 1] ? ", "
                                                    : " and ",
                                     known[i]);
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: %s has a member \"%.60s\"; what may be there is %s", r->file,
                        r->where[0] ? r->where : "the operator", key, list);
    }
    return ZOE_OK;
}

/* ---- names ---- */

/* Words that mean something in C, in Python, or in the files of a project. */
static const char *const reserved[] = {
    "alignas",      "alignof",  "and",           "as",      "asm",      "assert",
    "async",        "at",       "auto",          "await",   "bf16",     "block",
    "bool",         "break",    "case",          "char",    "class",    "const",
    "constexpr",    "continue", "def",           "default", "del",      "do",
    "double",       "elif",     "else",          "enum",    "eof",      "errno",
    "except",       "extern",   "f16",           "false",   "finally",  "float",
    "for",          "from",     "global",        "goto",    "if",       "import",
    "in",           "infinity", "inline",        "int",     "is",       "kernel",
    "lambda",       "linux",    "long",          "nan",     "none",     "nonlocal",
    "not",          "null",     "nullptr",       "or",      "pass",     "raise",
    "register",     "restrict", "return",        "row",     "short",    "signed",
    "sizeof",       "static",   "static_assert", "struct",  "switch",   "t",
    "thread_local", "torch",    "true",          "try",     "typedef",  "typeof",
    "union",        "unix",     "unsigned",      "void",    "volatile", "while",
    "width",        "with",     "yield",         NULL};
static const char *const reserved_beginnings[] = {"attr_", "dtype_",  "flag_", "input_",
                                                  "op_",   "output_", "tile_", NULL};

/* Files of a project, an attribute that torch.ops.custom has itself, and torch's own library. */
static const char *const reserved_operators[] = {"name", "proto", "torch_cpu", "variants", NULL};

static void lower(char *to, const char *from)
{
    do
        *to++ = (char)tolower((unsigned char)*from);
    while (*from++);
}

static bool is_reserved(const char *name)
{
    char small[ZOE_PROTO_NAME];
    lower(small, name);
    for (size_t i = 0; reserved_beginnings[i]; i++)
        if (strncmp(small, reserved_beginnings[i], strlen(reserved_beginnings[i])) == 0)
            return true;
    return is_one_of(small, reserved);
}

/* A name: letters, digits and '_', a letter first. */
static zoe_status read_name(const reader *r, char name[ZOE_PROTO_NAME], const json_t *value)
{
    const char *text = json_string_value(value);
    const size_t length = text ? strlen(text) : 0;
    bool good = length > 0 && length < ZOE_PROTO_NAME && isalpha((unsigned char)text[0]);
    for (size_t i = 0; good && i < length; i++)
        good = isalnum((unsigned char)text[i]) || text[i] == '_';
    if (!good)
        return refuse(r, ZOE_FORMAT, value,
                      "a name of letters, digits and '_', a letter first, of at most 63 bytes");
    memcpy(name, text, length + 1);
    return ZOE_OK;
}

/* RmsNorm, RMSNorm and rms_norm are rms_norm, Conv2D is conv2d. */
static void snake_case(char *to, const char *from)
{
    for (size_t i = 0; from[i]; i++) {
        const unsigned char c = (unsigned char)from[i], next = (unsigned char)from[i + 1];
        const unsigned char before = i > 0 ? (unsigned char)from[i - 1] : '_';
        if (isupper(c) && before != '_' && (islower(before) || islower(next)))
            *to++ = '_';
        *to++ = (char)tolower(c);
    }
    *to = '\0';
}

/* ---- types ---- */

static const struct {
    const char *name;
    zoe_dtype type;
} type_names[] = {
    {"float16", ZOE_F16},   {"fp16", ZOE_F16},  {"half", ZOE_F16},
    {"bfloat16", ZOE_BF16}, {"bf16", ZOE_BF16}, {"bfp16", ZOE_BF16},
    {"float32", ZOE_F32},   {"fp32", ZOE_F32},  {"float", ZOE_F32},
};
static const char types_wanted[] =
    "float16 (fp16, half), bfloat16 (bf16, bfp16) or float32 (fp32, float)";

static zoe_status read_type(const reader *r, zoe_dtype *type, const json_t *value)
{
    const char *text = json_string_value(value);
    if (!text)
        return refuse(r, ZOE_FORMAT, value, types_wanted);
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++)
        if (strcmp(text, type_names[i].name) == 0) {
            *type = type_names[i].type;
            return ZOE_OK;
        }
    return refuse(r, ZOE_UNSUPPORTED, value, types_wanted);
}

/* All of these are dense here: the last axis fastest. */
static const char *const formats[] = {"ND", "NCHW", "NHWC", "NCDHW", "NDHWC", NULL};

static zoe_status read_format(const reader *r, const char **format, const json_t *value)
{
    const char *text = json_string_value(value);
    for (size_t i = 0; text && formats[i]; i++)
        if (strcmp(text, formats[i]) == 0) {
            *format = formats[i];
            return ZOE_OK;
        }
    return refuse(r, text ? ZOE_UNSUPPORTED : ZOE_FORMAT, value, "ND, NCHW, NHWC, NCDHW or NDHWC");
}

/* A member with one value for each combination, or one for all. *count: how many combinations there are, 1 as long as
 * that is not known. */
typedef struct column_reader {
    const char *member;
    json_t *list; /* NULL: none */
    size_t n;
} column_reader;

static zoe_status open_column(reader *r, column_reader *c, json_t *tensor, const char *member,
                              const char *tensor_at, bool needed, size_t *count)
{
    json_t *value = json_object_get(tensor, member);
    at(r, "%s.%s", tensor_at, member);
    *c = (column_reader){member, value, json_is_array(value) ? json_array_size(value) : 1};
    if (!value)
        return needed ? refuse(r, ZOE_FORMAT, NULL, types_wanted) : ZOE_OK;
    if (c->n == 0 || c->n > ZOE_PROTO_COMBINATIONS)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: %s has %zu entries, wanted from 1 to %d", r->file,
                        r->where, c->n, ZOE_PROTO_COMBINATIONS);
    if (c->n > 1 && *count > 1 && c->n != *count)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: %s has %zu entries, but lists before it have %zu; entry i of all "
                        "lists together is one "
                        "combination, so wanted %zu or one for all",
                        r->file, r->where, c->n, *count, *count);
    *count = c->n > *count ? c->n : *count;
    return ZOE_OK;
}

static const json_t *column_entry(reader *r, const column_reader *c, const char *tensor_at,
                                  size_t i)
{
    if (!json_is_array(c->list)) {
        at(r, "%s.%s", tensor_at, c->member);
        return c->list;
    }
    const size_t index = c->n == 1 ? 0 : i;
    at(r, "%s.%s[%zu]", tensor_at, c->member, index);
    return json_array_get(c->list, index);
}

/* ---- tensors ---- */

static const char *const tensor_members[] = {"name", "param_type", "format", "type", NULL};

static zoe_status read_optional(reader *r, bool *optional, json_t *object, const char *object_at)
{
    const json_t *value = json_object_get(object, "param_type");
    const char *text = value ? json_string_value(value) : "required";
    at(r, "%s.param_type", object_at);
    if (text && strcmp(text, "dynamic") == 0)
        return refuse(r, ZOE_UNSUPPORTED, value,
                      "\"required\" or \"optional\": lists of tensors are not supported");
    if (!text || (strcmp(text, "required") != 0 && strcmp(text, "optional") != 0))
        return refuse(r, ZOE_FORMAT, value, "\"required\" or \"optional\"");
    *optional = strcmp(text, "optional") == 0;
    return ZOE_OK;
}

/* The list `member` of the operator; each entry is an object. */
static zoe_status open_list(reader *r, json_t **list, json_t *op, const char *op_at,
                            const char *member, size_t least, size_t most)
{
    *list = json_object_get(op, member);
    at(r, "%s%s", op_at, member);
    if (!*list && least == 0)
        return ZOE_OK;
    if (!json_is_array(*list))
        return refuse(r, ZOE_FORMAT, *list, "a list of objects");
    const size_t n = json_array_size(*list);
    if (n < least || n > most)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: %s has %zu entries, wanted from %zu to %zu",
                        r->file, r->where, n, least, most);
    for (size_t i = 0; i < n; i++) {
        at(r, "%s%s[%zu]", op_at, member, i);
        if (!json_is_object(json_array_get(*list, i)))
            return refuse(r, ZOE_FORMAT, json_array_get(*list, i), "an object");
    }
    return ZOE_OK;
}

/* Entry i of inputs or outputs, but its types, whose number is not known yet. */
static zoe_status read_tensor(reader *r, zoe_proto_tensor *t, json_t *object, const char *tensor_at,
                              size_t *count)
{
    column_reader column;
    at(r, "%s", tensor_at);
    TRY(check_members(r, object, tensor_members));
    at(r, "%s.name", tensor_at);
    TRY(read_name(r, t->name, json_object_get(object, "name")));
    TRY(read_optional(r, &t->optional, object, tensor_at));
    TRY(open_column(r, &column, object, "format", tensor_at, false, count));
    return open_column(r, &column, object, "type", tensor_at, true, count);
}

static zoe_status read_types(reader *r, zoe_proto_tensor *t, json_t *object, const char *tensor_at,
                             size_t count)
{
    column_reader format, type;
    TRY(open_column(r, &format, object, "format", tensor_at, false, &count));
    TRY(open_column(r, &type, object, "type", tensor_at, true, &count));
    for (size_t i = 0; i < count; i++) {
        t->format[i] = formats[0];
        if (format.list)
            TRY(read_format(r, &t->format[i], column_entry(r, &format, tensor_at, i)));
        TRY(read_type(r, &t->type[i], column_entry(r, &type, tensor_at, i)));
    }
    return ZOE_OK;
}

static zoe_status read_tensors(reader *r, zoe_proto *p, json_t *op, const char *op_at)
{
    json_t *list[2];
    static const char *const members[2] = {"input_desc", "output_desc"};
    char tensor_at[96];
    p->combinations = 1;
    for (int side = 0; side < 2; side++)
        TRY(open_list(r, &list[side], op, op_at, members[side], 1, ZOE_PROTO_TENSORS));
    p->inputs = json_array_size(list[0]);
    p->outputs = json_array_size(list[1]);
    if (p->inputs + p->outputs > ZOE_PROTO_TENSORS)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: %zu inputs and %zu outputs, wanted at most %d together", r->file,
                        p->inputs, p->outputs, ZOE_PROTO_TENSORS);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < p->inputs + p->outputs; i++) {
            const int side = i >= p->inputs;
            const size_t index = side ? i - p->inputs : i;
            json_t *object = json_array_get(list[side], index);
            snprintf(tensor_at, sizeof tensor_at, "%s%s[%zu]", op_at, members[side], index);
            zoe_proto_tensor *t = &p->tensor[i];
            if (pass == 1) {
                TRY(read_types(r, t, object, tensor_at, p->combinations));
                continue;
            }
            TRY(read_tensor(r, t, object, tensor_at, &p->combinations));
            at(r, "%s.param_type", tensor_at);
            if (t->optional && side)
                return refuse(r, ZOE_UNSUPPORTED, json_object_get(object, "param_type"),
                              "\"required\": an output is always there");
            if (t->optional && i == 0)
                return refuse(r, ZOE_UNSUPPORTED, json_object_get(object, "param_type"),
                              "\"required\": the first input is always there");
        }
    return ZOE_OK;
}

/* Which combination a call means is seen by its inputs alone. */
static zoe_status check_combinations(const reader *r, const zoe_proto *p, const char *op_at)
{
    for (size_t i = 0; i < p->combinations; i++)
        for (size_t j = 0; j < i; j++) {
            bool same = true;
            for (size_t k = 0; k < p->inputs; k++)
                same = same && p->tensor[k].type[i] == p->tensor[k].type[j];
            if (same)
                return zoe_fail(r->ctx, ZOE_FORMAT,
                                "%s: %sinput_desc: combinations %zu and %zu have the same types in "
                                "every input; wanted "
                                "each set of types once",
                                r->file, op_at, j, i);
        }
    return ZOE_OK;
}

/* ---- attributes ---- */

static const char *const attr_members[] = {"name",          "param_type", "type",
                                           "default_value", "default",    NULL};

static zoe_status read_kind(const reader *r, zoe_proto_kind *kind, const json_t *value)
{
    static const char *const words[] = {"float", "int", "bool", NULL};
    static const char *const others[] = {
        "str",       "string",   "list_int", "list_float",    "list_bool",   "list_str", "listInt",
        "listFloat", "listBool", "listStr",  "list_list_int", "listListInt", "tensor",   "type",
        "data_type", "dtype",    NULL};
    const char *text = json_string_value(value);
    for (int i = 0; text && words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *kind = (zoe_proto_kind)i;
            return ZOE_OK;
        }
    return refuse(r, text && is_one_of(text, others) ? ZOE_UNSUPPORTED : ZOE_FORMAT, value,
                  "float, int or bool");
}

static const char *const value_wanted[] = {
    [ZOE_PROTO_FLOAT] = "a finite number",
    [ZOE_PROTO_INT] = "a whole number of at most 2^53",
    [ZOE_PROTO_BOOL] = "true or false",
};

/* A default, as a JSON value or as text. */
static bool read_value(zoe_proto_attr *a, const json_t *value)
{
    const int64_t most = INT64_C(1) << 53;
    const char *text = json_string_value(value);
    char *end = NULL;
    if (a->kind == ZOE_PROTO_BOOL) {
        const bool yes =
            json_is_true(value) || (text && (!strcmp(text, "true") || !strcmp(text, "True")));
        const bool no =
            json_is_false(value) || (text && (!strcmp(text, "false") || !strcmp(text, "False")));
        a->whole = yes;
        return yes || no;
    }
    if (text && (!*text || isspace((unsigned char)*text) || strpbrk(text, "xXpP")))
        return false;
    if (a->kind == ZOE_PROTO_FLOAT) {
        a->real = text ? strtod(text, &end) : json_number_value(value);
        return (text ? *end == '\0' : json_is_number(value)) && isfinite(a->real);
    }
    errno = 0;
    a->whole = text ? strtoll(text, &end, 10) : json_integer_value(value);
    return (text ? *end == '\0' && errno == 0 : json_is_integer(value)) && a->whole >= -most &&
           a->whole <= most;
}

static zoe_status read_attr(reader *r, const zoe_proto *p, zoe_proto_attr *a, json_t *object,
                            const char *attr_at)
{
    bool optional;
    at(r, "%s", attr_at);
    TRY(check_members(r, object, attr_members));
    at(r, "%s.name", attr_at);
    TRY(read_name(r, a->name, json_object_get(object, "name")));
    TRY(read_optional(r, &optional, object, attr_at));
    at(r, "%s.type", attr_at);
    TRY(read_kind(r, &a->kind, json_object_get(object, "type")));
    const json_t *value = json_object_get(object, "default_value"),
                 *other = json_object_get(object, "default");
    at(r, "%s.%s", attr_at, value ? "default_value" : "default");
    if (value && other)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: %s has both default_value and default, wanted one of them", r->file,
                        attr_at);
    value = value ? value : other;
    a->has_value = value != NULL;
    if (value && !read_value(a, value))
        return refuse(r, ZOE_FORMAT, value, value_wanted[a->kind]);
    a->flag = a->input = -1;
    if (a->kind == ZOE_PROTO_BOOL && strncmp(a->name, "has_", 4) == 0)
        for (size_t i = 0; i < p->inputs; i++)
            if (strcmp(a->name + 4, p->tensor[i].name) == 0)
                a->input = (int)i;
    if (a->input == 0)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: %s.name is \"%s\", which would make the first input optional; wanted "
                        "an input that may be "
                        "missing",
                        r->file, attr_at, a->name);
    if (optional && !value && a->input < 0) {
        at(r, "%s.default_value", attr_at);
        return refuse(r, ZOE_FORMAT, NULL, value_wanted[a->kind]);
    }
    return ZOE_OK;
}

static zoe_status read_attrs(reader *r, zoe_proto *p, json_t *op, const char *op_at)
{
    json_t *list;
    char attr_at[96];
    TRY(open_list(r, &list, op, op_at, "attr", 0, ZOE_PROTO_ATTRS));
    p->attrs = json_array_size(list);
    for (size_t i = 0; i < p->attrs; i++) {
        snprintf(attr_at, sizeof attr_at, "%sattr[%zu]", op_at, i);
        TRY(read_attr(r, p, &p->attr[i], json_array_get(list, i), attr_at));
    }
    return ZOE_OK;
}

/* ---- the whole ---- */

/* Bits in the order of the schema; has_<input> shares the bit of that input. */
static zoe_status count_flags(const reader *r, zoe_proto *p)
{
    for (size_t i = 0; i < p->attrs; i++)
        if (p->attr[i].input >= 0)
            p->tensor[p->attr[i].input].optional = true;
    for (size_t i = 0; i < p->inputs + p->outputs; i++)
        p->tensor[i].flag = p->tensor[i].optional ? (int)p->flags++ : -1;
    for (size_t i = 0; i < p->attrs; i++) {
        zoe_proto_attr *a = &p->attr[i];
        if (a->input >= 0)
            a->flag = p->tensor[a->input].flag;
        else if (a->kind == ZOE_PROTO_BOOL)
            a->flag = (int)p->flags++;
    }
    if (p->flags > ZOE_PROTO_FLAGS)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: %s has %zu optional inputs and bool attributes, wanted at most %d: "
                        "each doubles the number "
                        "of kernels",
                        r->file, p->title, p->flags, ZOE_PROTO_FLAGS);
    if (p->combinations << p->flags > ZOE_PROTO_KERNELS)
        return zoe_fail(r->ctx, ZOE_UNSUPPORTED,
                        "%s: %s needs %zu kernels, %zu combinations of types for each of %d sets "
                        "of optional inputs and "
                        "bool attributes; wanted at most %d",
                        r->file, p->title, p->combinations << p->flags, p->combinations,
                        1 << p->flags, ZOE_PROTO_KERNELS);
    return ZOE_OK;
}

/* Names become macros in capitals, and HAS_<INPUT>. */
static zoe_status check_names(const reader *r, const zoe_proto *p)
{
    enum { MOST = 2 * ZOE_PROTO_TENSORS + ZOE_PROTO_ATTRS };
    char seen[MOST][ZOE_PROTO_NAME + 4];
    size_t n = 0;
    const size_t tensors = p->inputs + p->outputs;
    for (size_t i = 0; i < tensors + p->attrs; i++) {
        const bool attr = i >= tensors;
        const char *name = attr ? p->attr[i - tensors].name : p->tensor[i].name;
        if (is_reserved(name))
            return zoe_fail(r->ctx, ZOE_FORMAT,
                            "%s: %s has %s \"%s\", a word that C, Python or the project uses "
                            "itself; wanted another "
                            "name",
                            r->file, p->title, attr ? "an attribute" : "a tensor", name);
        lower(seen[n++], name);
        if (!attr && p->tensor[i].optional) {
            memcpy(seen[n], "has_", 4);
            lower(seen[n++] + 4, name);
        }
        if (attr && p->attr[i - tensors].input >= 0)
            n--; /* is there already, on purpose */
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; k < j; k++)
                if (strcmp(seen[j], seen[k]) == 0)
                    return zoe_fail(
                        r->ctx, ZOE_FORMAT,
                        "%s: %s has two names \"%s\" among its inputs, outputs and attributes "
                        "(capitals do "
                        "not count, an optional input x takes has_x too); wanted each once",
                        r->file, p->title, seen[j]);
    }
    for (size_t i = 0; i < p->attrs; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(p->attr[i].name, p->attr[j].name) == 0)
                return zoe_fail(r->ctx, ZOE_FORMAT,
                                "%s: %s has two attributes \"%s\", wanted each once", r->file,
                                p->title, p->attr[i].name);
    return ZOE_OK;
}

static zoe_status read_op(reader *r, zoe_proto *p, json_t *op, const char *op_at)
{
    static const char *const members[] = {"op",          "language", "input_desc",
                                          "output_desc", "attr",     NULL};
    *p = (zoe_proto){0};
    at(r, "%sop", op_at);
    TRY(read_name(r, p->title, json_object_get(op, "op")));
    snake_case(p->name, p->title);
    if (is_one_of(p->name, reserved) || is_one_of(p->name, reserved_operators) ||
        strlen(p->name) >= ZOE_PROTO_NAME)
        return refuse(r, ZOE_FORMAT, json_object_get(op, "op"),
                      "another name: it must be no word of C, Python, torch or the project, and "
                      "have at most 63 letters in snake case");
    at(r, "%.*s", (int)(strlen(op_at) - (*op_at != '\0')), op_at);
    TRY(check_members(r, op, members));
    const json_t *language = json_object_get(op, "language");
    at(r, "%slanguage", op_at);
    if (language && !json_is_string(language))
        return refuse(r, ZOE_FORMAT, language, "\"cpp\"");
    TRY(read_tensors(r, p, op, op_at));
    TRY(check_combinations(r, p, op_at));
    TRY(read_attrs(r, p, op, op_at));
    TRY(count_flags(r, p));
    return check_names(r, p);
}

static bool is_named(const json_t *op, const char *name)
{
    const char *title = json_string_value(json_object_get(op, "op"));
    char snake[2 * ZOE_PROTO_NAME];
    if (!title || strlen(title) >= ZOE_PROTO_NAME)
        return false;
    snake_case(snake, title);
    return strcmp(title, name) == 0 || strcmp(snake, name) == 0;
}

static zoe_status choose_op(reader *r, zoe_proto *p, json_t *root, const char *name)
{
    const bool list = json_is_array(root);
    const size_t n = list ? json_array_size(root) : 1;
    json_t *chosen = NULL;
    char op_at[32] = "", names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        json_t *op = list ? json_array_get(root, i) : root;
        at(r, list ? "[%zu]" : "the text", i);
        if (!json_is_object(op))
            return refuse(r, ZOE_FORMAT, op, "an object with op, input_desc, output_desc and attr");
        const char *title = json_string_value(json_object_get(op, "op"));
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.63s", i ? ", " : "",
                                     title ? title : "?");
        if (name ? !is_named(op, name) : n != 1)
            continue;
        if (chosen)
            return zoe_fail(r->ctx, ZOE_FORMAT, "%s: two operators are called %s, wanted one",
                            r->file, name);
        chosen = op;
        if (list)
            snprintf(op_at, sizeof op_at, "[%zu].", i);
    }
    if (n == 0)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: the list has no operator", r->file);
    if (!chosen && name)
        return zoe_fail(r->ctx, ZOE_FORMAT, "%s: there is no operator %s; it has %s", r->file, name,
                        names);
    if (!chosen)
        return zoe_fail(r->ctx, ZOE_FORMAT,
                        "%s: it has %zu operators, wanted one chosen by --op: %s", r->file, n,
                        names);
    return read_op(r, p, chosen, op_at);
}

zoe_status zoe_proto_parse(zoe_context *ctx, zoe_proto *proto, const char *text, size_t size,
                           const char *file, const char *op)
{
    reader r = {.ctx = ctx, .file = file};
    json_error_t error;
    static const char mark[] = "\xef\xbb\xbf"; /* that some editors put before UTF-8 */
    if (size >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0) {
        text += strlen(mark);
        size -= strlen(mark);
    }
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root) { /* without memory, jansson finds syntax errors where there are none */
        TRY(zoe_alloc_probe(ctx, size, file));
        return zoe_fail(ctx, ZOE_FORMAT, "%s: bad JSON at line %d, column %d: %s", file, error.line,
                        error.column, error.text);
    }
    const zoe_status status = choose_op(&r, proto, root, op);
    json_decref(root);
    return status;
}

zoe_status zoe_proto_read(zoe_context *ctx, zoe_proto *proto, const char *file, const char *op)
{
    char *text;
    size_t size;
    TRY(zoe_file_read(ctx, &text, &size, file, ZOE_PROTO_BYTES));
    const zoe_status status = zoe_proto_parse(ctx, proto, text, size, file, op);
    zoe_free(text);
    return status;
}
