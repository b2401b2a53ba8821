/* The loop of a peer in C: questions as JSON lines, answers likewise. */
#include "peer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

static FILE *out;

static void answer(json_t *object)
{
    if (!object)
        exit(1);
    json_dumpf(object, out, JSON_COMPACT);
    json_decref(object);
    fputc('\n', out);
    fflush(out);
}

static double now(bool cpu)
{
    struct timespec t;
    clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float *peer_values(size_t n)
{
    uint32_t state = 1;
    float *values = NULL;
    if (n <= SIZE_MAX / sizeof *values - 64)
        values = aligned_alloc(64, (n * sizeof *values + 63) / 64 * 64);
    for (size_t i = 0; values && i < n; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
    }
    return values;
}

static const char *text_of(const json_t *question, const char *key)
{
    const char *text = json_string_value(json_object_get(question, key));
    return text ? text : "";
}

/* Returns whether a case is ready now; *cpu: its clock. */
static bool prepare(const json_t *question, bool *cpu)
{
    peer_case c = {.op = text_of(question, "op"),
                   .x = text_of(question, "x"),
                   .w = text_of(question, "w"),
                   .y = text_of(question, "y"),
                   .threads = (int)json_integer_value(json_object_get(question, "threads"))};
    const json_t *shape = json_object_get(question, "shape");
    const char *dtype = "";
    c.rank = json_array_size(shape);
    if (c.rank > sizeof c.shape / sizeof c.shape[0])
        c.rank = sizeof c.shape / sizeof c.shape[0];
    for (size_t i = 0; i < c.rank; i++)
        c.shape[i] = (size_t)json_integer_value(json_array_get(shape, i));
    *cpu = strcmp(text_of(question, "clock"), "cpu") == 0;
    const char *why = peer_prepare(&c, &dtype);
    answer(why ? json_pack("{s:s}", "unsupported", why)
               : json_pack("{s:b, s:s}", "ok", 1, "dtype", dtype));
    return !why;
}

static void run(const json_t *question, bool cpu)
{
    const json_int_t calls = json_integer_value(json_object_get(question, "calls"));
    bool good = true;
    const double begin = now(cpu);
    for (json_int_t i = 0; i < calls && good; i++)
        good = peer_run();
    const double seconds = now(cpu) - begin;
    if (!good)
        exit(1);
    answer(json_pack("{s:f}", "seconds", seconds));
}

static void release(void)
{
    struct rusage usage;
    peer_release();
    getrusage(RUSAGE_SELF, &usage);
    answer(json_pack("{s:b, s:I}", "ok", 1, "peak_bytes", (json_int_t)usage.ru_maxrss * 1024));
}

int main(void)
{
    char name[128], *line = NULL;
    size_t room = 0;
    bool ready = false, cpu = false;
    const int own = dup(STDOUT_FILENO); /* what a library prints must not be taken for an answer */
    if (own < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || !(out = fdopen(own, "w")))
        return 1;
    peer_name(name, sizeof name);
    answer(json_pack("{s:s}", "ready", name));
    while (getline(&line, &room, stdin) > 0) {
        json_t *question = json_loads(line, 0, NULL);
        const char *what = text_of(question, "do");
        if (strcmp(what, "prepare") == 0)
            ready = prepare(question, &cpu);
        else if (strcmp(what, "run") == 0 && ready)
            run(question, cpu);
        else if (strcmp(what, "release") == 0)
            release();
        else
            answer(json_pack("{s:s}", "unsupported", "this question is not understood"));
        json_decref(question);
    }
    free(line);
    return 0;
}
