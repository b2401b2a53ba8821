/* The events of --progress json as the manual page promises them. */
#ifndef ZOE_TEST_EVENTS_H
#define ZOE_TEST_EVENTS_H

#include <stdbool.h>

#include <jansson.h>

typedef struct event_check {
    size_t count; /* of lines so far */
    bool planned, ended;
    int phase; /* -1 before the first */
    json_int_t done;
    const char *fault; /* of the first line that breaks a promise; NULL while all is well */
    char text[256];
} event_check;

/* One line; user is the event_check, zeroed before the first but for phase, -1. */
void see_event(const json_t *object, void *user);

#endif
