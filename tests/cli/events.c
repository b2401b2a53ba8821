/* Which members an event has, of which type, and in which order events come. */
#include "events.h"

#include <stdio.h>
#include <string.h>

typedef struct member {
    const char *name;
    char
        type; /* t text, T text or null, n whole number from 0 up, i any whole number, r real number
                  from 0 up, R real number or null */
} member;

typedef struct event {
    const char *name;
    member members[40];
} event;

static const event events[] = {
    {"begin", {{"schema", 'n'}, {"version", 't'}}},
    {"plan", {{"model", 't'},           {"task", 't'},
              {"picture_width", 'n'},   {"picture_height", 'n'},
              {"width", 'n'},           {"height", 'n'},
              {"frames", 'n'},          {"fps", 't'},
              {"latent_frames", 'n'},   {"latent_height", 'n'},
              {"latent_width", 'n'},    {"tokens", 'n'},
              {"prompt_tokens", 'n'},   {"negative_tokens", 'n'},
              {"high_steps", 'n'},      {"low_steps", 'n'},
              {"passes", 'n'},          {"steps_done", 'n'},
              {"text_bytes", 'n'},      {"encode_bytes", 'n'},
              {"steps_bytes", 'n'},     {"decode_bytes", 'n'},
              {"peak_bytes", 'n'},      {"text_layers", 'n'},
              {"text_resident", 'n'},   {"layers", 'n'},
              {"resident", 'n'},        {"threads", 'n'},
              {"ranks", 'n'},           {"cfg_ranks", 'n'},
              {"ulysses", 'n'},         {"ring", 'n'},
              {"vae_ranks", 'n'},       {"host_ranks", 'n'},
              {"host_peak_bytes", 'n'}, {"seed", 'i'}}},
    {"progress", {{"phase", 't'}, {"done", 'n'}, {"total", 'n'}, {"seconds", 'r'}, {"eta", 'R'}}},
    {"checkpoint", {{"path", 't'}, {"steps", 'n'}}},
    {"preview", {{"step", 'n'}, {"path", 't'}, {"width", 'n'}, {"height", 'n'}}},
    {"note", {{"message", 't'}}},
    {"warning", {{"message", 't'}}},
    {"cache",
     {{"high_computed", 'n'},
      {"high_skipped", 'n'},
      {"low_computed", 'n'},
      {"low_skipped", 'n'},
      {"smallest_distance", 'R'},
      {"median_distance", 'R'},
      {"largest_distance", 'R'}}},
    {"done",
     {{"out", 'T'},
      {"frames_out", 'T'},
      {"latents_out", 'T'},
      {"report", 'T'},
      {"trace", 'T'},
      {"width", 'n'},
      {"height", 'n'},
      {"frames", 'n'},
      {"seed", 'i'},
      {"seconds", 'r'},
      {"text_seconds", 'r'},
      {"encode_seconds", 'r'},
      {"steps_seconds", 'r'},
      {"decode_seconds", 'r'}}},
    {"error", {{"code", 't'}, {"exit", 'n'}, {"message", 't'}}},
};

static bool has_type(const json_t *value, char type)
{
    switch (type) {
    case 't': return json_is_string(value);
    case 'T': return json_is_string(value) || json_is_null(value);
    case 'n': return json_is_integer(value) && json_integer_value(value) >= 0;
    case 'i': return json_is_integer(value);
    case 'r': return json_is_real(value) && json_real_value(value) >= 0;
    case 'R': return json_is_null(value) || (json_is_real(value) && json_real_value(value) >= 0);
    default: return false;
    }
}

static void blame(event_check *c, const char *name, const char *what)
{
    if (c->fault)
        return;
    snprintf(c->text, sizeof c->text, "line %zu: %s: %s", c->count, name, what);
    c->fault = c->text;
}

/* All members are there with their type, and no others. */
static void check_members(event_check *c, const event *e, const json_t *object)
{
    size_t n = 0;
    for (; n < sizeof e->members / sizeof *e->members && e->members[n].name; n++)
        if (!has_type(json_object_get(object, e->members[n].name), e->members[n].type))
            blame(c, e->name, e->members[n].name);
    if (json_object_size(object) != n + 1)
        blame(c, e->name, "members that are not in the manual");
}

static void check_progress(event_check *c, const json_t *object)
{
    static const char *const phases[] = {"text", "encode", "steps", "decode"};
    const char *name = json_string_value(json_object_get(object, "phase"));
    const json_int_t done = json_integer_value(json_object_get(object, "done"));
    int phase = 0;
    while (phase < 4 && name && strcmp(name, phases[phase]) != 0)
        phase++;
    if (phase == 4)
        blame(c, "progress", "unknown phase");
    if (!c->planned)
        blame(c, "progress", "before the plan");
    if (phase < c->phase)
        blame(c, "progress", "phases are not in order");
    if (phase == c->phase && done != c->done + 1)
        blame(c, "progress", "does not count by one");
    if (done > json_integer_value(json_object_get(object, "total")))
        blame(c, "progress", "more is done than there is");
    c->phase = phase;
    c->done = done;
}

void see_event(const json_t *object, void *user)
{
    event_check *c = user;
    const char *name = json_string_value(json_object_get(object, "event"));
    size_t i = 0;
    c->count++;
    while (i < sizeof events / sizeof *events && strcmp(name, events[i].name) != 0)
        i++;
    if (i == sizeof events / sizeof *events) {
        blame(c, name, "unknown event");
        return;
    }
    check_members(c, &events[i], object);
    if ((c->count == 1) != (strcmp(name, "begin") == 0))
        blame(c, name, "begin is the first line and no other");
    if (c->ended)
        blame(c, name, "comes after the last event");
    if (strcmp(name, "plan") == 0 && c->planned)
        blame(c, name, "comes twice");
    if (strcmp(name, "progress") == 0)
        check_progress(c, object);
    c->planned |= strcmp(name, "plan") == 0;
    c->ended |= strcmp(name, "done") == 0 || strcmp(name, "error") == 0;
}
