/* The command line parser. The program never calls setlocale, so that numbers are read with a point
 * everywhere. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct parser {
    zoe_options *found;
    unsigned char *target;
    const zoe_option *rows;
    size_t n;
    const char *command;
} parser;

static bool mistake(parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool mistake(parser *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->found->mistake, sizeof p->found->mistake, format, args);
    va_end(args);
    return false;
}

/* ---- numbers, strictly: the whole text, no blanks, no hexadecimal, no "inf" ---- */

static bool read_count(size_t *r, const char *text, size_t length)
{
    size_t value = 0;
    if (length == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        const size_t digit = (size_t)(text[i] - '0');
        if (value > (SIZE_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *r = value;
    return true;
}

static bool read_whole(int64_t *r, const char *text)
{
    const bool sign = text[0] == '-' || text[0] == '+';
    if (text[sign] == '\0' || text[sign + strspn(text + sign, "0123456789")] != '\0')
        return false;
    errno = 0;
    const intmax_t value = strtoimax(text, NULL, 10);
    if (errno != 0 || value < INT64_MIN || value > INT64_MAX)
        return false;
    *r = (int64_t)value;
    return true;
}

static bool read_real(double *r, const char *text, size_t length)
{
    char copy[64];
    if (length == 0 || length >= sizeof copy || strspn(text, "0123456789+-.eE") < length)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *end;
    const double value = strtod(copy, &end);
    if (end != copy + length || !isfinite(value))
        return false;
    *r = value;
    return true;
}

/* "832x480", with x, X, * or the multiplication sign. */
static bool read_size(size_t *width, size_t *height, const char *text)
{
    static const char *const signs[] = {"x", "X", "*", "\xc3\x97"};
    const size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        const size_t length = strlen(signs[i]);
        if (strncmp(text + digits, signs[i], length) == 0) {
            const char *rest = text + digits + length;
            return read_count(width, text, digits) && read_count(height, rest, strlen(rest));
        }
    }
    return false;
}

/* Powers of 1024 are exact in a double, and so is a product with a number of few digits. */
bool zoe_bytes_read(size_t *bytes, const char *text)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        {"", 1},       {"B", 1},        {"K", 0x1p10},   {"KiB", 0x1p10}, {"KB", 1e3},
        {"M", 0x1p20}, {"MiB", 0x1p20}, {"MB", 1e6},     {"G", 0x1p30},   {"GiB", 0x1p30},
        {"GB", 1e9},   {"T", 0x1p40},   {"TiB", 0x1p40}, {"TB", 1e12},
    };
    double value;
    const size_t digits = strspn(text, "0123456789.");
    if (!read_real(&value, text, digits))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcasecmp(text + digits, units[i].name) == 0) {
            value *= units[i].bytes;
            if (value > (double)(SIZE_MAX / 2))
                return false;
            *bytes = (size_t)value;
            return true;
        }
    return false;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t c = a % b;
        a = b;
        b = c;
    }
    return a;
}

/* "24", "24000/1001" or a decimal fraction taken as it stands: 23.976 is 2997/125. */
static bool read_rate(int *numerator, int *denominator, const char *text)
{
    uint64_t a = 0, b = 1;
    const size_t whole = strspn(text, "0123456789");
    size_t part;
    if (whole == 0 || !read_count(&part, text, whole))
        return false;
    a = part;
    if (text[whole] == '/') {
        if (!read_count(&part, text + whole + 1, strlen(text + whole + 1)) || part == 0)
            return false;
        b = part;
    } else if (text[whole] == '.') {
        const char *digit = text + whole + 1;
        if (*digit == '\0')
            return false;
        for (; *digit; digit++) {
            if (*digit < '0' || *digit > '9' || b > UINT64_MAX / 10 || a > (UINT64_MAX - 9) / 10)
                return false;
            a = 10 * a + (uint64_t)(*digit - '0');
            b *= 10;
        }
    } else if (text[whole] != '\0') {
        return false;
    }
    const uint64_t divisor = common_divisor(a, b);
    if (a == 0 || a / divisor > INT_MAX || b / divisor > INT_MAX)
        return false;
    *numerator = (int)(a / divisor);
    *denominator = (int)(b / divisor);
    return true;
}

/* ---- values ---- */

static void list_words(char *list, size_t room, const char *const *words)
{
    size_t used = 0;
    list[0] = '\0';
    for (size_t i = 0; words[i] && used < room; i++) {
        const char *joint = i == 0 ? "" : words[i + 1] ? ", " : " or ";
        const int n = snprintf(list + used, room - used, "%s%s", joint, words[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

static bool read_word(parser *p, int *r, const zoe_option *row, const char *shown,
                      const char *value)
{
    for (int i = 0; row->words[i]; i++)
        if (strcasecmp(value, row->words[i]) == 0) {
            *r = i;
            return true;
        }
    char list[256];
    list_words(list, sizeof list, row->words);
    return mistake(p, "%s %s: wanted is %s", shown, value, list);
}

static bool read_pair(double *a, double *b, const char *value)
{
    const size_t first = strcspn(value, ",");
    if (!read_real(a, value, first))
        return false;
    if (value[first] == '\0') {
        *b = *a;
        return true;
    }
    return read_real(b, value + first + 1, strlen(value + first + 1));
}

static bool store_number(parser *p, const zoe_option *row, const char *shown, const char *value)
{
    unsigned char *at = p->target + row->at;
    if (row->type == ZOE_OPTION_COUNT) {
        size_t count;
        if (!read_count(&count, value, strlen(value)) || (double)count < row->low ||
            (double)count > row->high)
            return mistake(p, "%s %s: wanted is a whole number from %.0f to %.0f", shown, value,
                           row->low, row->high);
        memcpy(at, &count, sizeof count);
    } else if (row->type == ZOE_OPTION_BYTES) {
        size_t bytes;
        if (!zoe_bytes_read(&bytes, value) || (double)bytes < row->low)
            return mistake(p,
                           "%s %s: wanted is a number of bytes from %.0f up, such as 24G, 1.5GiB "
                           "or 800MB",
                           shown, value, row->low);
        memcpy(at, &bytes, sizeof bytes);
    } else if (row->type == ZOE_OPTION_WHOLE) {
        int64_t whole;
        if (!read_whole(&whole, value))
            return mistake(p, "%s %s: wanted is a whole number of 64 bits", shown, value);
        memcpy(at, &whole, sizeof whole);
    } else {
        double real;
        if (!read_real(&real, value, strlen(value)) || real < row->low || real > row->high)
            return mistake(p, "%s %s: wanted is a number from %g to %g", shown, value, row->low,
                           row->high);
        memcpy(at, &real, sizeof real);
    }
    return true;
}

static bool store_compound(parser *p, const zoe_option *row, const char *shown, const char *value)
{
    unsigned char *at = p->target + row->at, *at2 = p->target + row->at2;
    if (row->type == ZOE_OPTION_SIZE) {
        size_t width, height;
        const size_t side = (size_t)row->low, area = (size_t)row->high;
        if (!read_size(&width, &height, value))
            return mistake(p, "%s %s: wanted is WIDTHxHEIGHT, such as 832x480", shown, value);
        if (width < side || height < side || width > area / height)
            return mistake(p, "%s %s: wanted are sides of at least %zu and an area of at most %zu",
                           shown, value, side, area);
        memcpy(at, &width, sizeof width);
        memcpy(at2, &height, sizeof height);
    } else if (row->type == ZOE_OPTION_PAIR) {
        double a, b;
        if (!read_pair(&a, &b, value) || fmin(a, b) < row->low || fmax(a, b) > row->high)
            return mistake(p, "%s %s: wanted are two numbers A,B from %g to %g, or one for both",
                           shown, value, row->low, row->high);
        memcpy(at, &a, sizeof a);
        memcpy(at2, &b, sizeof b);
    } else {
        int a, b;
        if (!read_rate(&a, &b, value) || (double)a / b < row->low || (double)a / b > row->high)
            return mistake(p,
                           "%s %s: wanted are frames a second from %g to %g, such as 16, 23.976 "
                           "or 24000/1001",
                           shown, value, row->low, row->high);
        memcpy(at, &a, sizeof a);
        memcpy(at2, &b, sizeof b);
    }
    return true;
}

static bool store_numbers(parser *p, const zoe_option *row, const char *shown, const char *value)
{
    double numbers[ZOE_NUMBERS_MAX] = {0};
    size_t n = 0;
    const char *at = strcasecmp(value, "none") == 0 ? NULL : value;
    while (at) {
        const size_t length = strcspn(at, ",");
        if (n == ZOE_NUMBERS_MAX)
            return mistake(p, "%s %s: more than %d numbers", shown, value, (int)ZOE_NUMBERS_MAX);
        if (!read_real(&numbers[n], at, length) || numbers[n] < row->low || numbers[n] > row->high)
            return mistake(p, "%s %s: wanted are numbers A,B,... from %g to %g, or none", shown,
                           value, row->low, row->high);
        n++;
        at = at[length] ? at + length + 1 : NULL;
    }
    memcpy(p->target + row->at, numbers, n * sizeof *numbers);
    memcpy(p->target + row->at2, &n, sizeof n);
    return true;
}

/* A list begins anew on each line that mentions it. */
static bool store_item(parser *p, const zoe_option *row, const char *shown, const char *value)
{
    size_t *n = &p->found->listed[row - p->rows];
    if ((double)*n >= row->high)
        return mistake(p, "%s %s: it can be given up to %.0f times", shown, value, row->high);
    memcpy(p->target + row->at + *n * sizeof value, &value, sizeof value);
    ++*n;
    memcpy(p->target + row->at2, n, sizeof *n);
    return true;
}

static bool store_value(parser *p, const zoe_option *row, const char *shown, const char *value)
{
    int index;
    switch (row->type) {
    case ZOE_OPTION_TEXT: memcpy(p->target + row->at, &value, sizeof value); return true;
    case ZOE_OPTION_LIST: return store_item(p, row, shown, value);
    case ZOE_OPTION_COUNT:
    case ZOE_OPTION_BYTES:
    case ZOE_OPTION_WHOLE:
    case ZOE_OPTION_REAL: return store_number(p, row, shown, value);
    case ZOE_OPTION_SIZE:
    case ZOE_OPTION_PAIR:
    case ZOE_OPTION_RATE: return store_compound(p, row, shown, value);
    case ZOE_OPTION_REALS: return store_numbers(p, row, shown, value);
    case ZOE_OPTION_WORD:
        if (!read_word(p, &index, row, shown, value))
            return false;
        memcpy(p->target + row->at, &index, sizeof index);
        return true;
    case ZOE_OPTION_MUTE: return !row->words || read_word(p, &index, row, shown, value);
    default: return mistake(p, "%s cannot be used", shown);
    }
}

/* ---- names ---- */

static char name_letter(char c)
{
    return c == '_' ? '-' : c;
}

static bool name_equals(const char *name, const char *text, size_t length)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name_letter(name[i]) != name_letter(text[i]))
            return false;
    return true;
}

/* Row of a name, n if there is none. */
static size_t find_name(const zoe_option *rows, size_t n, const char *text, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].type != ZOE_OPTION_GROUP && name_equals(rows[i].name, text, length))
            return i;
    return n;
}

/* Levenshtein's distance; a text longer than the names are counts as far away. */
static size_t name_distance(const char *name, const char *text, size_t length)
{
    enum { LONGEST = 40 };
    size_t row[LONGEST + 1];
    const size_t width = strlen(name);
    if (width > LONGEST || length > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 1; i <= length; i++) {
        size_t corner = row[0];
        row[0] = i;
        for (size_t j = 1; j <= width; j++) {
            const size_t swap = corner + (name_letter(text[i - 1]) != name_letter(name[j - 1]));
            corner = row[j];
            row[j] = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = swap < row[j] ? swap : row[j];
        }
    }
    return row[width];
}

size_t zoe_name_distance(const char *name, const char *text)
{
    return name_distance(name, text, strlen(text));
}

static bool unknown_name(parser *p, const char *shown, const char *text, size_t length)
{
    const zoe_option *best = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < p->n; i++) {
        const zoe_option *row = &p->rows[i];
        if (row->type == ZOE_OPTION_GROUP || row->type == ZOE_OPTION_REFUSE || length < 2)
            continue;
        /* The beginning of a name is better than one wrong letter. */
        const bool begins = strlen(row->name) > length && name_equals(row->name, text, length);
        const size_t distance = begins || strncmp(row->name, text, length) == 0
                                    ? 0
                                    : name_distance(row->name, text, length);
        if (distance < least && distance <= 1 + length / 4) {
            least = distance;
            best = row;
        }
    }
    if (best)
        return mistake(p, "%s is no option; did you mean --%s? `%s --help` lists them all", shown,
                       best->name, p->command);
    return mistake(p, "%s is no option; `%s --help` lists them all", shown, p->command);
}

/* ---- the line ---- */

static bool takes_value(const zoe_option *row)
{
    return row->type != ZOE_OPTION_FLAG && row->type != ZOE_OPTION_REFUSE &&
           (row->type != ZOE_OPTION_MUTE || row->value);
}

static bool store_flag(parser *p, const zoe_option *row, const char *shown, const char *value)
{
    const bool flag = row->type == ZOE_OPTION_FLAG, yes = !value || strcmp(value, "true") == 0;
    if (value && !(flag && (yes || strcmp(value, "false") == 0)))
        return mistake(p, "%s=%s: this option takes no value", shown, value);
    if (flag)
        memcpy(p->target + row->at, &yes, sizeof yes);
    return true;
}

/* One option: shown is its name with dashes, value what was joined to it or NULL, next the
 * following argument or NULL. *used: next was taken. */
static bool parse_option(parser *p, size_t index, const char *shown, const char *value,
                         const char *next, bool *used)
{
    const zoe_option *row = &p->rows[index];
    p->found->given[index] = true;
    if (row->type == ZOE_OPTION_ALIAS) {
        index = find_name(p->rows, p->n, row->same_as, strlen(row->same_as));
        row = &p->rows[index];
        p->found->given[index] = true;
    }
    if (row->type == ZOE_OPTION_REFUSE)
        return mistake(p, "%s: %s", shown, row->help);
    if (!takes_value(row))
        return store_flag(p, row, shown, value);
    if (!value) {
        const char *label = row->value ? row->value : "VALUE";
        if (!next)
            return mistake(p, "%s: its value is missing, wanted is %s %s", shown, shown, label);
        if (next[0] == '-' && next[1] == '-')
            return mistake(
                p, "%s: its value is missing, found %s; a value that begins so is written %s%s%s",
                shown, next, shown, shown[1] == '-' ? "=" : "", next);
        value = next;
        *used = true;
    }
    return store_value(p, row, shown, value);
}

static bool parse_long(parser *p, const char *argument, const char *next, bool *used, size_t *index)
{
    const char *name = argument + 2;
    const size_t length = strcspn(name, "=");
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    char shown[80];
    snprintf(shown, sizeof shown, "--%.*s", (int)(length < 60 ? length : 60), name);
    *index = find_name(p->rows, p->n, name, length);
    if (*index == p->n)
        return unknown_name(p, shown, name, length);
    return parse_option(p, *index, shown, value, next, used);
}

static bool parse_short(parser *p, const char *argument, const char *next, bool *used,
                        size_t *index)
{
    char shown[3] = {'-', argument[1], '\0'};
    for (*index = 0; *index < p->n; ++*index)
        if (p->rows[*index].letter == argument[1])
            return parse_option(p, *index, shown, argument[2] ? argument + 2 : NULL, next, used);
    return mistake(p, "%s is no option; `%s --help` lists them all", argument, p->command);
}

bool zoe_options_parse(zoe_options *found, void *target, const zoe_option *rows, size_t n, int argc,
                       char **argv, int first, const char *command)
{
    *found = (zoe_options){0};
    parser p = {found, target, rows, n, command};
    bool ended = false;
    for (int i = first; i < argc; i++) {
        const char *argument = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (ended || argument[0] != '-' || argument[1] == '\0') {
            if (found->operands == ZOE_OPERANDS_MAX)
                return mistake(&p, "%s: too many arguments; a prompt with blanks needs quotes",
                               argument);
            found->operand[found->operands++] = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            ended = true;
            continue;
        }
        bool used = false;
        size_t index = 0;
        if (!(argument[1] == '-' ? parse_long : parse_short)(&p, argument, next, &used, &index))
            return false;
        if (rows[index].type == ZOE_OPTION_FLAG && strcmp(rows[index].name, "help") == 0)
            return true;
        i += used;
    }
    return true;
}

size_t zoe_options_find(const zoe_option *rows, size_t n, const char *name)
{
    return find_name(rows, n, name, strlen(name));
}

bool zoe_options_give(zoe_options *found, void *target, const zoe_option *rows, size_t n,
                      const char *name, const char *shown, const char *value)
{
    parser p = {found, target, rows, n, NULL};
    bool used = false;
    const size_t index = find_name(rows, n, name, strlen(name));
    if (index == n)
        return mistake(&p, "%s is no option", shown);
    const zoe_option *row = &rows[index];
    if (row->type == ZOE_OPTION_MUTE && !row->value)
        value = NULL;
    return parse_option(&p, index, shown, value, NULL, &used);
}
