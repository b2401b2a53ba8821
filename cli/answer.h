/* What a command answers on standard output: rows for people, or one JSON object. */
#ifndef ZOE_ANSWER_H
#define ZOE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* A line of its own. Control characters, which names from files may have, are shown as \xNN. */
void zoe_answer_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "  LABEL       TEXT"; a label of "" continues the row above. */
void zoe_answer_row(const char *label, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "26.6 GiB". */
typedef struct zoe_amount {
    char text[32];
} zoe_amount;
zoe_amount zoe_amount_of(size_t bytes);

/* A JSON text of any bytes: what is no UTF-8 becomes U+FFFD. NULL becomes null. NULL without
 * memory. */
json_t *zoe_answer_text(const char *text);
/* A number, null if it is not known (SIZE_MAX). */
json_t *zoe_answer_size(size_t value);
/* Prints the object on one line and uses it up. Returns 0, or the exit code for a lack of memory,
 * which `root` NULL also means, after saying so. */
int zoe_answer_json(json_t *root);

#endif
