#define _GNU_SOURCE /* memmem */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "op_project.h"

/* ---- words ---- */

static void put_upper(FILE *to, const char *name)
{
    for (; *name; name++)
        putc(toupper((unsigned char)*name), to);
}

/* The shortest decimal that reads back as the same number, and as no whole one. */
static void put_real(FILE *to, double value)
{
    char text[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fprintf(to, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_value(FILE *to, const zoe_proto_attr *a, const char *yes, const char *no)
{
    if (a->kind == ZOE_PROTO_FLOAT)
        put_real(to, a->real);
    else if (a->kind == ZOE_PROTO_INT)
        fprintf(to, "%" PRId64, a->whole);
    else
        fputs(a->whole ? yes : no, to);
}

/* An argument has a default only if all after it have one. has_<input> is no argument. */
static bool all_have_values(const zoe_proto *p, size_t tensor, size_t attr)
{
    for (; tensor < p->inputs; tensor++)
        if (!p->tensor[tensor].optional)
            return false;
    for (; attr < p->attrs; attr++)
        if (p->attr[attr].input < 0 && !p->attr[attr].has_value)
            return false;
    return true;
}

static const char *const kind_words[] = {"float", "int", "bool"};

/* The arguments, with their types as a schema has them or as parameters in Python. */
static void put_arguments(FILE *to, const zoe_proto *p, bool types)
{
    for (size_t i = 0; i < p->inputs; i++) {
        const zoe_proto_tensor *t = &p->tensor[i];
        fprintf(to, "%s%s%s%s", i ? ", " : "",
                !types        ? ""
                : t->optional ? "Tensor? "
                              : "Tensor ",
                t->name, t->optional && all_have_values(p, i, 0) ? "=None" : "");
    }
    for (size_t i = 0; i < p->attrs; i++) {
        const zoe_proto_attr *a = &p->attr[i];
        if (a->input >= 0)
            continue;
        fprintf(to, ", %s%s%s", types ? kind_words[a->kind] : "", types ? " " : "", a->name);
        if (!all_have_values(p, p->inputs, i))
            continue;
        putc('=', to);
        put_value(to, a, "True", "False");
    }
}

/* What a call must give besides tensors and flags, as a dict of Python. Without a default a number is 1. */
static void put_attributes(FILE *to, const zoe_proto *p)
{
    const char *between = "";
    putc('{', to);
    for (size_t i = 0; i < p->attrs; i++) {
        const zoe_proto_attr *a = &p->attr[i];
        if (a->kind == ZOE_PROTO_BOOL || all_have_values(p, p->inputs, i))
            continue;
        fprintf(to, "%s\"%s\": ", between, a->name);
        between = ", ";
        if (a->has_value)
            put_value(to, a, "True", "False");
        else
            fputs(a->kind == ZOE_PROTO_FLOAT ? "1.0" : "1", to);
    }
    putc('}', to);
}

static void put_schema(FILE *to, const zoe_proto *p)
{
    fprintf(to, "%s(", p->name);
    put_arguments(to, p, true);
    fputs(p->outputs == 1 ? ") -> Tensor" : ") -> (", to);
    for (size_t i = 0; p->outputs > 1 && i < p->outputs; i++)
        fprintf(to, "%sTensor", i ? ", " : "");
    fputs(p->outputs == 1 ? "" : ")", to);
}

char *zoe_op_schema(const zoe_proto *proto)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return NULL;
    put_schema(to, proto);
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- generated files ---- */

static void put_proto_enums(FILE *to, const zoe_proto *p)
{
    fputs("enum { ", to);
    for (size_t i = 0; i < p->inputs; i++) {
        fputs("INPUT_", to);
        put_upper(to, p->tensor[i].name);
        fputs(", ", to);
    }
    fputs("OP_INPUTS };\nenum { ", to);
    for (size_t i = p->inputs; i < p->inputs + p->outputs; i++) {
        fputs("OUTPUT_", to);
        put_upper(to, p->tensor[i].name);
        fputs(", ", to);
    }
    fputs("OP_OUTPUTS };\nenum { ", to);
    for (size_t i = 0; i < p->attrs; i++)
        if (p->attr[i].input < 0) {
            fputs("ATTR_", to);
            put_upper(to, p->attr[i].name);
            fputs(", ", to);
        }
    fputs("OP_ATTRS };\n", to);
}

/* The name of a flag: HAS_GAMMA of an optional input, its own of a bool attribute. */
static bool put_flag(FILE *to, const zoe_proto *p, size_t flag)
{
    for (size_t i = 0; i < p->inputs; i++)
        if (p->tensor[i].flag == (int)flag) {
            fputs("HAS_", to);
            put_upper(to, p->tensor[i].name);
            return true;
        }
    for (size_t i = 0; i < p->attrs; i++)
        if (p->attr[i].flag == (int)flag) {
            put_upper(to, p->attr[i].name);
            return true;
        }
    return false;
}

static void put_flag_of(FILE *to, const zoe_proto *p, int flag)
{
    if (flag < 0) {
        fputs("0", to);
        return;
    }
    fputs("FLAG_", to);
    put_flag(to, p, (size_t)flag);
}

static const char *type_word(zoe_dtype type, const char *f16, const char *bf16, const char *f32)
{
    return type == ZOE_F16 ? f16 : type == ZOE_BF16 ? bf16 : f32;
}

static void put_proto_rows(FILE *to, const zoe_proto *p)
{
    static const char *const kinds[] = {"OP_FLOAT", "OP_INT", "OP_BOOL"};
    const size_t tensors = p->inputs + p->outputs;
    size_t n = 0;
    fputs("\n/* Name, is it optional, its flag. */\n#define OP_INPUT_ROWS", to);
    for (size_t i = 0; i < p->inputs; i++) {
        fprintf(to, "%s {\"%s\", %s, ", i ? "," : "", p->tensor[i].name,
                p->tensor[i].optional ? "true" : "false");
        put_flag_of(to, p, p->tensor[i].flag);
        fputs("}", to);
    }
    fputs("\n#define OP_OUTPUT_ROWS", to);
    for (size_t i = p->inputs; i < tensors; i++)
        fprintf(to, "%s {\"%s\"}", i > p->inputs ? "," : "", p->tensor[i].name);
    fputs("\n/* Name, kind, flag, what it is unless given. */\n#define OP_ATTR_ROWS", to);
    for (size_t i = 0; i < p->attrs; i++) {
        const zoe_proto_attr *a = &p->attr[i];
        if (a->input >= 0)
            continue;
        fprintf(to, "%s {\"%s\", %s, ", n++ ? "," : "", a->name, kinds[a->kind]);
        put_flag_of(to, p, a->flag);
        fputs(", ", to);
        put_value(to, a, "1", "0");
        fputs("}", to);
    }
    fputs(n ? "" : " {0}", to);
    fprintf(to,
            "\n\nenum { OP_COMBINATIONS = %zu };\n/* The types of inputs, then outputs, that go "
            "together. */\n",
            p->combinations);
    fputs("#define OP_COMBINATION_ROWS {", to);
    for (size_t c = 0; c < p->combinations; c++) {
        fputs(c ? ", {" : "{", to);
        for (size_t i = 0; i < tensors; i++)
            fprintf(to, "%s%s", i ? ", " : "",
                    type_word(p->tensor[i].type[c], "OP_F16", "OP_BF16", "OP_F32"));
        fputs("}", to);
    }
    fputs("}\n", to);
}

static void put_proto(FILE *to, const zoe_proto *p)
{
    fprintf(
        to,
        "/* Made by zoe op new from %s.json; make the project again rather than change this. */\n"
        "#ifndef PROTO_H\n#define PROTO_H\n\n#define OP_NAME \"%s\"\n#define OP_SCHEMA \"",
        p->name, p->name);
    put_schema(to, p);
    fputs("\"\n\n", to);
    put_proto_enums(to, p);
    fputs("enum { ", to);
    for (size_t f = 0; f < p->flags; f++) {
        put_flag_of(to, p, (int)f);
        fprintf(to, " = 1 << %zu, ", f);
    }
    fprintf(to, "OP_FLAGS = %zu }; /* OP_FLAGS: how many */\n", p->flags);
    put_proto_rows(to, p);
    fputs("\n#endif\n", to);
}

/* One kernel: the engineer's file with the types and flags of a variant. */
static void put_variant(FILE *to, const zoe_proto *p, size_t combination, size_t flags)
{
    const size_t tensors = p->inputs + p->outputs;
    putc('\n', to);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < tensors; i++) {
            fputs(pass ? "#undef DTYPE_" : "#define DTYPE_", to);
            put_upper(to, p->tensor[i].name);
            fprintf(to, "%s%s\n", pass ? "" : " ",
                    pass ? "" : type_word(p->tensor[i].type[combination], "f16", "bf16", "float"));
        }
        for (size_t f = 0; f < p->flags; f++) {
            fputs(pass ? "#undef " : "#define ", to);
            put_flag(to, p, f);
            fprintf(to, "%s\n", pass ? "" : flags >> f & 1 ? " 1" : " 0");
        }
        if (pass)
            fputs("#undef KERNEL\n", to);
        else
            fprintf(to, "#define KERNEL %s_%zu_%zu\n#include \"%s.c\"\n", p->name, combination,
                    flags, p->name);
    }
}

/* A flag that is a macro of C already would change what the headers mean. */
static void put_guard(FILE *to, const zoe_proto *p, size_t flag)
{
    fputs("#ifdef ", to);
    put_flag(to, p, flag);
    fputs("\n#error \"the flag ", to);
    put_flag(to, p, flag);
    fputs(" is a macro of C already: choose another name in the prototype\"\n#endif\n", to);
}

static void put_variants(FILE *to, const zoe_proto *p)
{
    const size_t sets = (size_t)1 << p->flags;
    fprintf(to,
            "/* Made by zoe op new from %s.json: %s.c once for each combination of types and each "
            "set of flags.\n"
            " * A kernel is called %s_COMBINATION_FLAGS. */\n"
            "#include \"op.h\"\n#include \"proto.h\"\n#include \"tile.h\"\n",
            p->name, p->name, p->name);
    for (size_t f = 0; f < p->flags; f++)
        put_guard(to, p, f);
    for (size_t c = 0; c < p->combinations; c++)
        for (size_t f = 0; f < sets; f++)
            put_variant(to, p, c, f);
    fputs("\nconst op_kernel op_kernels[OP_COMBINATIONS][1 << OP_FLAGS] = {\n", to);
    for (size_t c = 0; c < p->combinations; c++) {
        fputs("    {", to);
        for (size_t f = 0; f < sets; f++)
            fprintf(to, "%s%s_%zu_%zu", f ? ", " : "", p->name, c, f);
        fputs("},\n", to);
    }
    fputs("};\n", to);
}

/* The prototype in msopgen's full form. Names have letters, digits and '_' alone: nothing needs an escape. */
static void put_tensor_json(FILE *to, const zoe_proto *p, const zoe_proto_tensor *t)
{
    fprintf(to, "{\"name\": \"%s\", \"param_type\": \"%s\", \"format\": [", t->name,
            t->optional ? "optional" : "required");
    for (size_t c = 0; c < p->combinations; c++)
        fprintf(to, "%s\"%s\"", c ? ", " : "", t->format[c]);
    fputs("], \"type\": [", to);
    for (size_t c = 0; c < p->combinations; c++)
        fprintf(to, "%s\"%s\"", c ? ", " : "", type_word(t->type[c], "fp16", "bf16", "float"));
    fputs("]}", to);
}

static void put_attr_json(FILE *to, const zoe_proto_attr *a)
{
    fprintf(to, "{\"name\": \"%s\", \"param_type\": \"%s\", \"type\": \"%s\"", a->name,
            a->has_value ? "optional" : "required", kind_words[a->kind]);
    if (a->has_value) {
        fputs(", \"default_value\": \"", to);
        put_value(to, a, "true", "false");
        putc('"', to);
    }
    putc('}', to);
}

/* A list, each tensor on a line of its own. */
static void put_tensors_json(FILE *to, const zoe_proto *p, const char *name, size_t first, size_t n)
{
    fprintf(to, "        \"%s\": [", name);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ",\n            " : "\n            ", to);
        put_tensor_json(to, p, &p->tensor[first + i]);
    }
    fputs("\n        ],\n", to);
}

static void put_json(FILE *to, const zoe_proto *p)
{
    fprintf(to, "[\n    {\n        \"op\": \"%s\",\n        \"language\": \"cpp\",\n", p->title);
    put_tensors_json(to, p, "input_desc", 0, p->inputs);
    put_tensors_json(to, p, "output_desc", p->inputs, p->outputs);
    fputs("        \"attr\": [", to);
    for (size_t i = 0; i < p->attrs; i++) {
        fputs(i ? ",\n            " : "\n            ", to);
        put_attr_json(to, &p->attr[i]);
    }
    fprintf(to, "%s]\n    }\n]\n", p->attrs ? "\n        " : "");
}

/* ---- templates ---- */

static bool put_word(FILE *to, const zoe_proto *p, const char *word, size_t n,
                     const zoe_proto_tensor *t)
{
    const zoe_proto_tensor *input = &p->tensor[0], *output = &p->tensor[p->inputs];
    const struct {
        const char *word, *text;
        bool upper;
    } words[] = {
        {"op", p->name, false},
        {"OP", p->title, false},
        {"first_input", input->name, false},
        {"FIRST_INPUT", input->name, true},
        {"first_output", output->name, false},
        {"FIRST_OUTPUT", output->name, true},
        {"input", t ? t->name : NULL, false},
        {"INPUT", t ? t->name : NULL, true},
        {"output", t ? t->name : NULL, false},
        {"OUTPUT", t ? t->name : NULL, true},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].text && strlen(words[i].word) == n && memcmp(words[i].word, word, n) == 0) {
            if (words[i].upper)
                put_upper(to, words[i].text);
            else
                fputs(words[i].text, to);
            return true;
        }
    if (n == strlen("schema") && memcmp(word, "schema", n) == 0)
        put_schema(to, p);
    else if (n == strlen("parameters") && memcmp(word, "parameters", n) == 0)
        put_arguments(to, p, false);
    else if (n == strlen("attributes") && memcmp(word, "attributes", n) == 0)
        put_attributes(to, p);
    else
        return false;
    return true;
}

/* A line with its words put in; `t`: the tensor that @input@ or @output@ stands for. */
static void put_line(FILE *to, const zoe_proto *p, const char *line, size_t n,
                     const zoe_proto_tensor *t)
{
    for (size_t i = 0; i < n; i++) {
        const char *end = line[i] == '@' ? memchr(line + i + 1, '@', n - i - 1) : NULL;
        if (end && put_word(to, p, line + i + 1, (size_t)(end - line) - i - 1, t))
            i = (size_t)(end - line);
        else
            putc(line[i], to);
    }
}

static bool holds(const char *line, size_t n, const char *word)
{
    return memmem(line, n, word, strlen(word)) != NULL;
}

static void put_template(FILE *to, const zoe_proto *p, const zoe_op_template *from)
{
    const char *line = from->text, *end = from->text + from->size;
    while (line < end) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        next = next ? next + 1 : end;
        const size_t n = (size_t)(next - line);
        size_t first = 0, last = 1;
        if (holds(line, n, "@output@") || holds(line, n, "@OUTPUT@")) {
            first = p->inputs;
            last = p->inputs + p->outputs;
        } else if (holds(line, n, "@input@") || holds(line, n, "@INPUT@")) {
            last = p->inputs;
        }
        for (size_t i = first; i < last; i++)
            put_line(to, p, line, n, &p->tensor[i]);
        line = next;
    }
}

/* ---- the folder ---- */

typedef struct project {
    zoe_context *ctx;
    const zoe_proto *proto;
    char *folder; /* where it is made */
    char *made[64];
    size_t n; /* of what was made, folders before what is in them */
} project;

/* Takes the path over. */
static zoe_status note_made(project *w, char *path)
{
    if (w->n == sizeof w->made / sizeof w->made[0]) {
        zoe_free(path);
        return zoe_fail(w->ctx, ZOE_INTERNAL, "%s: more files than there is room for", w->folder);
    }
    w->made[w->n++] = path;
    return ZOE_OK;
}

static zoe_status make_folder(project *w, const char *name)
{
    char *path;
    struct stat there;
    TRY(zoe_path_join(w->ctx, &path, w->folder, name));
    if (stat(path, &there) == 0) {
        zoe_free(path);
        return ZOE_OK;
    }
    const zoe_status status = zoe_folder_make(w->ctx, path);
    if (status != ZOE_OK) {
        zoe_free(path);
        return status;
    }
    return note_made(w, path);
}

/* `name` with "operator" as the operator is called. */
static zoe_status write_file(project *w, const char *name, const char *text, size_t size)
{
    static const char word[] = "operator";
    char relative[256], *path;
    const char *found = strstr(name, word), *slash = strchr(name, '/');
    zoe_output out = {.fd = -1};
    if (slash) {
        snprintf(relative, sizeof relative, "%.*s", (int)(slash - name), name);
        TRY(make_folder(w, relative));
    }
    if (found)
        snprintf(relative, sizeof relative, "%.*s%s%s", (int)(found - name), name, w->proto->name,
                 found + strlen(word));
    else
        snprintf(relative, sizeof relative, "%s", name);
    TRY(zoe_path_join(w->ctx, &path, w->folder, relative));
    zoe_status status;
    TRY_GOTO(zoe_output_open(w->ctx, &out, path));
    TRY_GOTO(zoe_output_write(w->ctx, &out, text, size));
    TRY_GOTO(zoe_output_commit(w->ctx, &out));
    status = note_made(w, path);
    path = NULL;
done:
    zoe_output_abort(&out);
    zoe_free(path);
    return status;
}

/* A file of what `put` prints. */
static zoe_status write_printed(project *w, const char *name,
                                void (*put)(FILE *, const zoe_proto *), const zoe_op_template *from)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return zoe_fail(w->ctx, ZOE_NOMEM, "%s: no memory for its text", name);
    if (from)
        put_template(to, w->proto, from);
    else
        put(to, w->proto);
    /* Where there is no memory for the last bytes, glibc closes with success and without a text. */
    const bool failed = ferror(to) != 0;
    const zoe_status status = fclose(to) != 0 || failed || !text
                                  ? zoe_fail(w->ctx, ZOE_NOMEM, "%s: no memory for its text", name)
                                  : write_file(w, name, text, size);
    free(text);
    return status;
}

static zoe_status write_template(project *w, const zoe_op_template *from)
{
    static const char end[] = ".in";
    char name[256];
    const size_t n = strlen(from->name), tail = strlen(end);
    if (n < tail || strcmp(from->name + n - tail, end) != 0)
        return write_file(w, from->name, from->text, from->size);
    snprintf(name, sizeof name, "%.*s", (int)(n - tail), from->name);
    return write_printed(w, name, NULL, from);
}

static zoe_status write_files(project *w)
{
    for (const zoe_op_template *t = zoe_op_templates; t->name; t++)
        TRY(write_template(w, t));
    TRY(write_printed(w, "operator.json", put_json, NULL));
    TRY(write_printed(w, "op_host/proto.h", put_proto, NULL));
    return write_printed(w, "op_kernel/variants.c", put_variants, NULL);
}

/* What was made goes again, in the opposite order. */
static void take_back(project *w)
{
    while (w->n > 0) {
        remove(w->made[--w->n]);
        zoe_free(w->made[w->n]);
    }
    rmdir(w->folder);
}

/* The folder that `path` names is in: "." for a plain name. NULL without memory. */
static char *parent_of(const char *path)
{
    size_t length;
    const size_t begin = (size_t)(zoe_path_last(path, &length) - path);
    return strndup(begin > 0 ? path : ".", begin > 0 ? begin : 1);
}

zoe_status zoe_op_project_write(zoe_context *ctx, const zoe_proto *proto, const char *folder)
{
    project w = {.ctx = ctx, .proto = proto};
    struct stat there;
    zoe_status status;
    if (lstat(folder, &there) == 0)
        return zoe_fail(ctx, ZOE_INVALID,
                        "%s is there already; name another folder with --out, or remove it",
                        folder);
    char *parent = parent_of(folder);
    if (!parent)
        return zoe_fail(ctx, ZOE_NOMEM, "%s: no memory for its name", folder);
    TRY_GOTO(zoe_folder_make_part(ctx, &w.folder, parent));
    TRY_GOTO(write_files(&w));
    if (rename(w.folder, folder) != 0)
        status = zoe_fail(ctx, ZOE_IO, "%s: cannot be made: %s", folder, strerror(errno));
    else
        zoe_folder_forget(w.folder);
done:
    if (status != ZOE_OK && w.folder) {
        take_back(&w);
        zoe_folder_forget(w.folder);
    }
    while (w.n > 0)
        zoe_free(w.made[--w.n]);
    zoe_free(w.folder);
    free(parent);
    return status;
}
