/* Messages: wrapping, escaping, the line that updates, JSON lines. */
#include "message.h"

#include "commands.h"
#include "zoetrope/status.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "log.h"

enum { INDENT = 5, MESSAGE_ROOM = 16384 };

static bool json, terminal, live, others_warn;
static size_t sentences, rank; /* of several processes; 0: the only one, or the first */
static char refusal[MESSAGE_ROOM];

void zoe_message_init(void)
{
    static char buffer[MESSAGE_ROOM];
    setvbuf(stderr, buffer, _IOFBF, sizeof buffer);
    const char *kind = getenv("TERM");
    terminal = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
}

void zoe_message_use_json(void)
{
    if (json)
        return;
    json = true;
    if (rank > 0)
        return;
    zoe_json_begin("begin");
    zoe_json_size("schema", 1);
    zoe_json_text("version", ZOE_VERSION);
    zoe_json_end();
}

void zoe_message_set_rank(size_t number)
{
    rank = number;
}

size_t zoe_message_rank(void)
{
    return rank;
}

void zoe_message_let_warn(bool on)
{
    others_warn = on;
}

const char *zoe_message_refusal(void)
{
    return refusal;
}

bool zoe_message_is_json(void)
{
    return json;
}

bool zoe_message_on_terminal(void)
{
    return terminal;
}

size_t zoe_message_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return 80;
}

size_t zoe_character_length(bool *valid, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    const unsigned char c = s[0];
    size_t length = 1;
    if (c >= 0xc2 && c < 0xf5)
        length = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    *valid = c < 0x80 || length > 1;
    /* The second byte's range leaves out overlong forms, surrogates and what lies beyond U+10FFFF. */
    const unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < length; i++)
        if (i >= n || s[i] < (i == 1 ? low : 0x80) || s[i] > (i == 1 ? high : 0xbf)) {
            *valid = false;
            return i;
        }
    return length;
}

/* ---- sentences ---- */

/* Columns of a run of bytes as put_safe shows it, every character counted as one. */
static size_t columns_of(const char *text, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        columns += c < 0x20 || c == 0x7f ? 4 : (c & 0xc0) != 0x80;
    }
    return columns;
}

/* Names of files come from outside: no control character of theirs reaches the terminal. */
static void put_safe(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == 0x7f)
            fprintf(stderr, "\\x%02x", c);
        else
            fputc(c, stderr);
    }
}

static void new_line(void)
{
    fprintf(stderr, "\n%*s", INDENT, "");
}

/* prefix and text; on a terminal broken between words. A line feed starts an indented line. */
static void put_sentence(const char *prefix, const char *text)
{
    const size_t width = terminal ? zoe_message_width() : SIZE_MAX;
    size_t column = strlen(prefix);
    bool start = true;
    fputs(prefix, stderr);
    while (*text) {
        if (*text == '\n') {
            new_line();
            column = INDENT;
            start = true;
            text++;
            continue;
        }
        const size_t blanks = strspn(text, " ");
        const size_t word = strcspn(text + blanks, " \n");
        const size_t columns = columns_of(text + blanks, word);
        if (!start && word && column + blanks + columns > width) {
            new_line();
            column = INDENT;
        } else {
            fprintf(stderr, "%*s", (int)blanks, "");
            column += blanks;
        }
        put_safe(text + blanks, word);
        column += columns;
        text += blanks + word;
        start = false;
    }
    fputc('\n', stderr);
}

static void erase_live(void)
{
    if (live)
        fputs("\r\033[K", stderr);
    live = false;
}

static void say(const char *event, const char *prefix, const char *format, va_list args)
{
    char text[MESSAGE_ROOM];
    vsnprintf(text, sizeof text, format, args);
    zoe_log_write(event, text);
    if (json) {
        zoe_json_begin(event);
        zoe_json_text("message", text);
        zoe_json_end();
        return;
    }
    erase_live();
    sentences++;
    put_sentence(prefix, text);
    fflush(stderr);
}

void zoe_note(const char *format, ...)
{
    va_list args;
    if (rank > 0)
        return;
    va_start(args, format);
    say("note", "zoe: ", format, args);
    va_end(args);
}

__attribute__((format(printf, 1, 2))) static void warn_tagged(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("warning", "zoe: warning: ", format, args);
    va_end(args);
}

void zoe_warn(const char *format, ...)
{
    char text[MESSAGE_ROOM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (rank == 0)
        warn_tagged("%s", text);
    else if (others_warn)
        warn_tagged("rank %zu: %s", rank, text);
}

int zoe_refuse(int exit_code, const char *status_name, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    vsnprintf(refusal, sizeof refusal, format, again);
    va_end(again);
    if (json && rank == 0) {
        zoe_log_write("error", refusal);
        zoe_json_begin("error");
        zoe_json_text("code", status_name);
        zoe_json_int("exit", exit_code);
        zoe_json_text("message", refusal);
        zoe_json_end();
    } else if (rank == 0) {
        say("error", "zoe: ", format, args);
    }
    va_end(args);
    return exit_code;
}

int zoe_refuse_line(const char *text)
{
    return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s", text);
}

size_t zoe_message_count(void)
{
    return sentences;
}

void zoe_live_line(const char *line)
{
    if (!terminal || json)
        return;
    erase_live();
    if (line) {
        /* The last column stays free: some terminals would wrap there. */
        fprintf(stderr, "%.*s", (int)(zoe_message_width() - 1), line);
        live = true;
    }
    fflush(stderr);
}

/* ---- JSON ---- */

static void put_json_string(const char *text)
{
    size_t n = strlen(text);
    fputc('"', stderr);
    while (n > 0) {
        bool valid;
        const size_t length = zoe_character_length(&valid, text, n);
        const unsigned char c = (unsigned char)*text;
        if (!valid)
            fputs("\\ufffd", stderr);
        else if (c == '"' || c == '\\')
            fprintf(stderr, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(stderr, "\\u%04x", c);
        else
            fwrite(text, 1, length, stderr);
        text += length;
        n -= length;
    }
    fputc('"', stderr);
}

static void put_json_key(const char *key)
{
    fputc(',', stderr);
    put_json_string(key);
    fputc(':', stderr);
}

void zoe_json_begin(const char *event)
{
    fputs("{\"event\":", stderr);
    put_json_string(event);
}

void zoe_json_text(const char *key, const char *value)
{
    put_json_key(key);
    if (value)
        put_json_string(value);
    else
        fputs("null", stderr);
}

void zoe_json_size(const char *key, size_t value)
{
    put_json_key(key);
    fprintf(stderr, "%zu", value);
}

void zoe_json_int(const char *key, long long value)
{
    put_json_key(key);
    fprintf(stderr, "%lld", value);
}

void zoe_json_real(const char *key, double value)
{
    put_json_key(key);
    if (isfinite(value))
        fprintf(stderr, "%.3f", value);
    else
        fputs("null", stderr);
}

void zoe_json_figure(const char *key, double value)
{
    put_json_key(key);
    if (isfinite(value))
        fprintf(stderr, "%#.9g", value);
    else
        fputs("null", stderr);
}

void zoe_json_end(void)
{
    fputs("}\n", stderr);
    fflush(stderr);
}
