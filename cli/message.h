/* Room 12, cli: what `zoe` says. Everything goes to standard error: sentences for people, or one
 * JSON object a line for programs; and to the file of --log. Standard output is left to the video. */
#ifndef ZOE_MESSAGE_H
#define ZOE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Buffers standard error and sees whether it is a terminal. Call once, first. */
void zoe_message_init(void);
/* From now on every message is a JSON object on a line of its own. Says so in the first, "begin". */
void zoe_message_use_json(void);
bool zoe_message_is_json(void);
/* A terminal that can erase a line. */
bool zoe_message_on_terminal(void);
/* Columns of the terminal; 80 if that is not known. */
size_t zoe_message_width(void);

/* "zoe: TEXT", "zoe: warning: TEXT"; events "note" and "warning". */
void zoe_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void zoe_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "zoe: TEXT"; event "error" with the status name and the exit code. Returns exit_code. */
int zoe_refuse(int exit_code, const char *status_name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of what is wrong with the command line: ZOE_EXIT_USAGE. */
int zoe_refuse_line(const char *text);

/* This process is one of several ranks that share a terminal and a log: all but the first one (0) keep
 * everything to themselves; once the work has begun, they warn, with their number. */
void zoe_message_set_rank(size_t rank);
size_t zoe_message_rank(void);
void zoe_message_let_warn(bool on);
/* The sentence of the last refusal, also of one that was not said; "" if there was none. */
const char *zoe_message_refusal(void);

/* How many sentences were written so far. */
size_t zoe_message_count(void);

/* A line of ASCII that stands until the next one or until a message pushes it away; cut to the
 * terminal's width. NULL erases it. Only for terminals. */
void zoe_live_line(const char *line);

/* Length of the UTF-8 character that text (n >= 1 bytes) begins with. Bytes that are no character:
 * *valid is false, and the length is that of the longest start of one, at least 1, as for the text
 * that the model reads. */
size_t zoe_character_length(bool *valid, const char *text, size_t n);

/* An event for programs: begin, members, end. Text may be any bytes: invalid UTF-8 becomes U+FFFD.
 * NULL text and NaN become null. */
void zoe_json_begin(const char *event);
void zoe_json_text(const char *key, const char *value);
void zoe_json_size(const char *key, size_t value);
void zoe_json_int(const char *key, long long value);
void zoe_json_real(const char *key, double value);   /* three decimals */
void zoe_json_figure(const char *key, double value); /* the same with 9 digits */
void zoe_json_end(void);

#endif
