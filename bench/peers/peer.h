/* A peer of `zoe bench` in C: what peer.c wants of a library. See README.md. */
#ifndef ZOE_BENCH_PEER_H
#define ZOE_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct peer_case {
    const char *op, *x, *w, *y; /* types by name */
    size_t shape[10], rank;
    int threads;
} peer_case;

/* Writes what the library is called, with its version. */
void peer_name(char *text, size_t room);
/* Makes operands. NULL: ready, and *dtype is the type in which it works; else the reason. */
const char *peer_prepare(const peer_case *c, const char **dtype);
/* false: the library refused. */
bool peer_run(void);
void peer_release(void);

/* n floats between -1 and 1 that have been touched; NULL without memory. */
float *peer_values(size_t n);

#endif
