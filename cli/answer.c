/* Answers on standard output. */
#include "answer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "zoetrope/status.h"

enum { LABEL = 12, ROOM = 16384 };

static void put_safe(const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    putchar('\n');
}

void zoe_answer_line(const char *format, ...)
{
    char text[ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put_safe(text);
}

void zoe_answer_row(const char *label, const char *format, ...)
{
    char text[ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("  %-*s ", (int)LABEL, label);
    put_safe(text);
}

zoe_amount zoe_amount_of(size_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    zoe_amount a;
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    if (bytes == SIZE_MAX)
        snprintf(a.text, sizeof a.text, "unknown");
    else
        snprintf(a.text, sizeof a.text, unit && value < 99.95 ? "%.1f %s" : "%.0f %s", value,
                 units[unit]);
    return a;
}

json_t *zoe_answer_text(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    if (!text)
        return json_null();
    const size_t bytes = strlen(text);
    char *mended = bytes < SIZE_MAX / 3 ? malloc(3 * bytes + 1) : NULL;
    if (!mended)
        return NULL;
    size_t used = 0, length;
    for (size_t i = 0; i < bytes; i += length) {
        bool valid;
        length = zoe_character_length(&valid, text + i, bytes - i);
        const size_t n = valid ? length : sizeof replacement - 1;
        memcpy(mended + used, valid ? text + i : replacement, n);
        used += n;
    }
    json_t *value = json_stringn(mended, used);
    free(mended);
    return value;
}

json_t *zoe_answer_size(size_t value)
{
    return value > INT64_MAX ? json_null() : json_integer((json_int_t)value);
}

int zoe_answer_json(json_t *root)
{
    const int failed = root ? json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(15)) : -1;
    json_decref(root);
    if (failed && !ferror(stdout))
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    putchar('\n');
    return ZOE_EXIT_DONE;
}
