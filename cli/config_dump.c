/* --dump-config: a whole request as the file that --config reads, in the order of the option table. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "request.h"

#ifndef ZOE_VERSION
#define ZOE_VERSION "unknown"
#endif

/* One character of UTF-8, valid, of n bytes. */
static unsigned long code_of(const char *text, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned long code = n == 1 ? bytes[0] : bytes[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (bytes[i] & 0x3f);
    return code;
}

/* Does YAML want it escaped? What breaks lines, what cannot be seen, and the quotes' own signs. */
static bool is_special(unsigned long code)
{
    return code < 0x20 || code == '"' || code == '\\' || (code >= 0x7f && code < 0xa0) ||
           code == 0x2028 || code == 0x2029 || code == 0xfeff || (code & 0xfffe) == 0xfffe;
}

static bool is_utf8(const char *text)
{
    const size_t bytes = strlen(text);
    bool valid = true;
    for (size_t i = 0; i < bytes && valid;)
        i += zoe_character_length(&valid, text + i, bytes - i);
    return valid;
}

static void put_text(const char *text)
{
    const size_t bytes = strlen(text);
    bool valid;
    putchar('"');
    for (size_t i = 0, n; i < bytes; i += n) {
        n = zoe_character_length(&valid, text + i, bytes - i);
        const unsigned long code = code_of(text + i, n);
        if (!is_special(code))
            fwrite(text + i, 1, n, stdout);
        else if (code == '"' || code == '\\')
            printf("\\%c", (int)code);
        else
            printf(code < 0x100 ? "\\x%02lX" : code < 0x10000 ? "\\u%04lX" : "\\U%08lX", code);
    }
    putchar('"');
}

/* The fewest digits that give the number back. */
static void format_real(char text[40], double value)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 40, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            return;
    }
}

/* ---- values, as they lie in the request ---- */

static const char *text_at(const zoe_request *request, size_t at)
{
    const char *text;
    memcpy(&text, (const unsigned char *)request + at, sizeof text);
    return text;
}

static size_t size_at(const zoe_request *request, size_t at)
{
    size_t size;
    memcpy(&size, (const unsigned char *)request + at, sizeof size);
    return size;
}

static int int_at(const zoe_request *request, size_t at)
{
    int value;
    memcpy(&value, (const unsigned char *)request + at, sizeof value);
    return value;
}

static double real_at(const zoe_request *request, size_t at)
{
    double value;
    memcpy(&value, (const unsigned char *)request + at, sizeof value);
    return value;
}

static bool flag_at(const zoe_request *request, size_t at)
{
    bool flag;
    memcpy(&flag, (const unsigned char *)request + at, sizeof flag);
    return flag;
}

static bool is_unset(const zoe_request *request, const zoe_option *row)
{
    switch (row->type) {
    case ZOE_OPTION_TEXT: return !text_at(request, row->at);
    case ZOE_OPTION_FLAG: return !flag_at(request, row->at);
    case ZOE_OPTION_LIST: return request->job.lora_count == 0;
    case ZOE_OPTION_REALS: return size_at(request, row->at2) == 0;
    case ZOE_OPTION_COUNT:
        return (double)size_at(request, row->at) < row->low ||
               (double)size_at(request, row->at) > row->high;
    case ZOE_OPTION_BYTES: return (double)size_at(request, row->at) < row->low;
    case ZOE_OPTION_WORD: return !row->help && !zoe_request_gave(request, row->name);
    case ZOE_OPTION_WHOLE:
    case ZOE_OPTION_REAL:
    case ZOE_OPTION_SIZE:
    case ZOE_OPTION_PAIR:
    case ZOE_OPTION_RATE: return false;
    default: return true;
    }
}

/* What a file cannot or need not hold: the line's own matters, and what is already merged. */
static bool is_left_out(const zoe_request *request, const zoe_option *row)
{
    static const char *const names[] = {"help", "config", "dump-config", "dry-run", "from"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(row->name, names[i]) == 0)
            return true;
    if (strcmp(row->name, "boundary") == 0) /* only one of them counts */
        return request->job.boundary_step != ZOE_NO_BOUNDARY_STEP;
    return request->resume && strcmp(row->name, "checkpoint") == 0;
}

static void put_loras(const zoe_request *request)
{
    putchar('\n');
    for (size_t i = 0; i < request->job.lora_count; i++) {
        const zoe_job_lora *l = &request->job.loras[i];
        char text[8192], high[40], low[40];
        format_real(high, l->high);
        format_real(low, l->low);
        snprintf(text, sizeof text, isnan(l->high) ? "%s" : "%s:high=%s,low=%s", l->path, high,
                 low);
        fputs("    - ", stdout);
        put_text(text);
        putchar('\n');
    }
}

static void put_numbers(const zoe_request *request, const zoe_option *row)
{
    for (size_t i = 0; i < size_at(request, row->at2); i++) {
        char text[40];
        format_real(text, real_at(request, row->at + i * sizeof(double)));
        printf("%s%s", i == 0 ? "[" : ", ", text);
    }
    putchar(']');
}

static void put_value(const zoe_request *request, const zoe_option *row)
{
    char a[40], b[40];
    int64_t whole;
    switch (row->type) {
    case ZOE_OPTION_TEXT: put_text(text_at(request, row->at)); break;
    case ZOE_OPTION_FLAG: fputs("true", stdout); break;
    case ZOE_OPTION_COUNT:
    case ZOE_OPTION_BYTES: printf("%zu", size_at(request, row->at)); break;
    case ZOE_OPTION_WHOLE:
        memcpy(&whole, (const unsigned char *)request + row->at, sizeof whole);
        printf("%" PRId64, whole);
        break;
    case ZOE_OPTION_REAL:
        format_real(a, real_at(request, row->at));
        fputs(a, stdout);
        break;
    case ZOE_OPTION_SIZE:
        printf("%zux%zu", size_at(request, row->at), size_at(request, row->at2));
        break;
    case ZOE_OPTION_PAIR:
        format_real(a, real_at(request, row->at));
        format_real(b, real_at(request, row->at2));
        printf("[%s, %s]", a, b);
        break;
    case ZOE_OPTION_REALS: put_numbers(request, row); break;
    case ZOE_OPTION_RATE:
        printf(int_at(request, row->at2) == 1 ? "%d" : "%d/%d", int_at(request, row->at),
               int_at(request, row->at2));
        break;
    case ZOE_OPTION_WORD: put_text(row->words[int_at(request, row->at)]); break;
    default: break;
    }
    putchar('\n');
}

/* Names of files are any bytes, YAML is UTF-8. */
static int check_texts(const zoe_request *request)
{
    const zoe_command *command = &zoe_generate_command;
    const char *name = NULL;
    for (size_t i = 0; i < command->n_rows && !name; i++) {
        const zoe_option *row = &command->rows[i];
        const bool text = row->type == ZOE_OPTION_TEXT && !is_unset(request, row);
        if (text && !is_left_out(request, row) && !is_utf8(text_at(request, row->at)))
            name = row->name;
    }
    for (size_t i = 0; i < request->job.lora_count && !name; i++)
        if (!is_utf8(request->job.loras[i].path))
            name = "lora";
    if (!name)
        return ZOE_EXIT_DONE;
    return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                      "--%s is no UTF-8: a file of YAML cannot hold this name", name);
}

int zoe_request_dump(const zoe_request *request)
{
    const zoe_command *command = &zoe_generate_command;
    const char *group = NULL;
    const int code = check_texts(request);
    if (code != ZOE_EXIT_DONE)
        return code;
    printf("# For `zoe generate --config`, by zoetrope %s. Paths start from the current "
           "folder.\nzoe:\n",
           ZOE_VERSION);
    for (size_t i = 0; i < command->n_rows; i++) {
        const zoe_option *row = &command->rows[i];
        if (row->type == ZOE_OPTION_GROUP) {
            group = row->help;
            continue;
        }
        if (is_unset(request, row) || is_left_out(request, row))
            continue;
        if (group)
            printf("  # %s\n", group);
        group = NULL;
        printf("  %s: ", row->name);
        if (row->type == ZOE_OPTION_LIST)
            put_loras(request);
        else
            put_value(request, row);
    }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return ZOE_EXIT_DONE;
    return zoe_refuse(ZOE_EXIT_FAILED, zoe_status_name(ZOE_IO), "standard output: %s",
                      strerror(errno));
}
