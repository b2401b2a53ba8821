/* The file of --log: everything that is said, and more, a line each with the time in UTC. */
#ifndef ZOE_LOG_H
#define ZOE_LOG_H

#include <stdbool.h>

/* From now on lines are appended to the file, which is made if it is not there. Only one may be
 * open. Refuses what is not a text file: a line at its end would spoil it. Returns 0, or the exit
 * code after saying what is wrong. */
int zoe_log_open(const char *path);
bool zoe_log_is_open(void);
/* Is this the file that the log goes to, by whatever name? */
bool zoe_log_is_file(const char *path);
/* "2026-01-31T12:00:00.000Z KIND: TEXT"; further lines of the text follow indented. Control
 * characters are written as \xNN. Does nothing if no log is open. A log that cannot be written any
 * more is given up with a warning: it must not cost the run. */
void zoe_log_write(const char *kind, const char *text);
/* The same with a format, for what is said to the log alone. */
void zoe_log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The line that a log begins with: the program's version and its arguments. */
void zoe_log_command(int argc, char **argv);
/* Closes it; a file that this log made goes away if `remove` is set. */
void zoe_log_close(bool remove);

#endif
