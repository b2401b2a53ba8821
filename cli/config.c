/* Settings of a run from a YAML file: which keys there are, and which options they stand for. */
#include "config_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "commands.h"
#include "message.h"
#include "request.h"
#include "zoetrope/cache.h"

/* ---- mistakes ---- */

bool zoe_config_mistake(zoe_config *c, const zoe_yaml_node *at, const char *format, ...)
{
    const size_t room = sizeof c->mistake;
    const int used = snprintf(c->mistake, room, "%.200s:%zu:%zu: ", c->name, at->line, at->column);
    va_list args;
    va_start(args, format);
    vsnprintf(c->mistake + used, room - (size_t)used, format, args);
    va_end(args);
    return false;
}

const char *zoe_config_kind_name(const zoe_yaml_node *node)
{
    switch (node->kind) {
    case ZOE_YAML_NULL: return "nothing";
    case ZOE_YAML_TRUE:
    case ZOE_YAML_FALSE: return "true or false";
    case ZOE_YAML_TEXT: return "a value";
    case ZOE_YAML_LIST: return "a list";
    case ZOE_YAML_MAP: return "a map";
    }
    return "?";
}

bool zoe_config_wrong_kind(zoe_config *c, const zoe_yaml_node *node, const char *section,
                           const char *wanted)
{
    return zoe_config_mistake(c, node, "%s%s%.60s: %s is wanted, and this is %s", section,
                              *section ? "." : "", node->key ? node->key->text : "the file", wanted,
                              zoe_config_kind_name(node));
}

const char *zoe_config_nearest(const char *const *names, const char *text)
{
    const char *best = NULL;
    size_t least = 2 + strlen(text) / 3;
    for (size_t i = 0; names[i]; i++) {
        const bool part = strlen(text) > 3 && strstr(names[i], text);
        const size_t distance = strcasecmp(names[i], text) == 0 ? 0
                                : part                          ? 1
                                                                : zoe_name_distance(names[i], text);
        if (distance < least) {
            least = distance;
            best = names[i];
        }
    }
    return best;
}

static bool unknown_key(zoe_config *c, const zoe_yaml_node *node, const char *section,
                        const char *const *names)
{
    const zoe_command *command = &zoe_generate_command;
    const char *key = node->key->text, *like = zoe_config_nearest(names, key);
    const char *dot = *section ? "." : "";
    if (like)
        return zoe_config_mistake(c, node->key, "%s%s%.60s is no key; did you mean %s?", section,
                                  dot, key, like);
    if (zoe_options_find(command->rows, command->n_rows, key) < command->n_rows)
        return zoe_config_mistake(
            c, node->key,
            "%s%s%.60s is no key; it is an option of this program, which stands under zoe:",
            section, dot, key);
    char list[1000] = "";
    for (size_t i = 0; names[i]; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return zoe_config_mistake(c, node->key, "%s%s%.60s is no key; there are %s", section, dot, key,
                              list);
}

const zoe_yaml_node *zoe_config_entry(const zoe_yaml_node *map, const char *key)
{
    for (const zoe_yaml_node *n = map && map->kind == ZOE_YAML_MAP ? map->first : NULL; n;
         n = n->next)
        if (strcmp(n->key->text, key) == 0)
            return n->kind == ZOE_YAML_NULL ? NULL : n;
    return NULL;
}

bool zoe_config_check_keys(zoe_config *c, const zoe_yaml_node *map, const char *section,
                           const char *const *names)
{
    for (const zoe_yaml_node *n = map->first; n; n = n->next) {
        size_t i = 0;
        while (names[i] && strcmp(names[i], n->key->text) != 0)
            i++;
        if (!names[i])
            return unknown_key(c, n, section, names);
    }
    return true;
}

/* ---- texts ---- */

zoe_config_text *zoe_config_text_new(zoe_config *c, size_t room)
{
    zoe_config_text *t = malloc(sizeof *t + room + 1);
    if (!t) {
        c->no_memory = true;
        return NULL;
    }
    *t = (zoe_config_text){.older = c->texts, .room = room};
    t->text[0] = '\0';
    c->texts = t;
    return t;
}

void zoe_config_text_add(zoe_config_text *t, const char *text)
{
    const size_t n = strlen(text);
    if (n > t->room - t->used)
        return;
    memcpy(t->text + t->used, text, n + 1);
    t->used += n;
}

void zoe_config_add_idle(zoe_config *c, const char *section, const char *key)
{
    const size_t used = strlen(c->idle);
    snprintf(c->idle + used, sizeof c->idle - used, "%s%s%s%.60s", used > 0 ? ", " : "", section,
             *section ? "." : "", key);
}

const char *zoe_config_join(zoe_config *c, const zoe_yaml_node *list, const char *section,
                            const char *begin, const char *between, const char *end)
{
    size_t room = strlen(begin) + strlen(end);
    for (const zoe_yaml_node *n = list->first; n; n = n->next) {
        if (n->kind != ZOE_YAML_TEXT) {
            zoe_config_mistake(c, n, "%s.%.60s: an entry of the list is %s; numbers are wanted",
                               section, list->key->text, zoe_config_kind_name(n));
            return NULL;
        }
        room += strlen(n->text) + strlen(between);
    }
    zoe_config_text *t = zoe_config_text_new(c, room);
    if (!t)
        return NULL;
    zoe_config_text_add(t, begin);
    for (const zoe_yaml_node *n = list->first; n; n = n->next) {
        zoe_config_text_add(t, n->text);
        zoe_config_text_add(t, n->next ? between : "");
    }
    zoe_config_text_add(t, end);
    return t->text;
}

/* ---- options ---- */

/* Row of an option by any of its names; the number of rows if there is none. */
static size_t row_of(const char *name)
{
    const zoe_command *command = &zoe_generate_command;
    size_t row = zoe_options_find(command->rows, command->n_rows, name);
    if (row < command->n_rows && command->rows[row].type == ZOE_OPTION_ALIAS)
        row = zoe_options_find(command->rows, command->n_rows, command->rows[row].same_as);
    return row;
}

bool zoe_config_add(zoe_config *c, const zoe_yaml_node *node, const char *section, const char *name,
                    const char *value)
{
    const char *dot = *section ? "." : "";
    const size_t row = row_of(name);
    const bool list = zoe_generate_command.rows[row].type == ZOE_OPTION_LIST;
    for (size_t i = 0; i < c->n; i++)
        if (c->settings[i].row == row && !list)
            return zoe_config_mistake(c, node, "%s%s%.60s: the same was said before, at %s",
                                      section, dot, node->key->text, c->settings[i].shown);
    if (c->n == sizeof c->settings / sizeof *c->settings)
        return zoe_config_mistake(c, node, "%s%s%.60s: too many settings", section, dot,
                                  node->key->text);
    char shown[320];
    const int n = snprintf(shown, sizeof shown, "%.200s:%zu:%zu: %s%s%.60s", c->name, node->line,
                           node->column, section, dot, node->key->text);
    zoe_config_text *t = zoe_config_text_new(c, (size_t)n);
    if (!t)
        return false;
    zoe_config_text_add(t, shown);
    c->settings[c->n++] = (zoe_config_setting){name, row, value, t->text};
    return true;
}

/* One or several mentions of an option that takes many. */
static bool read_list(zoe_config *c, const zoe_yaml_node *node, const char *section,
                      const char *name)
{
    if (node->kind != ZOE_YAML_LIST)
        return node->kind == ZOE_YAML_TEXT
                   ? zoe_config_add(c, node, section, name, node->text)
                   : zoe_config_wrong_kind(c, node, section, "a text or a list of texts");
    for (zoe_yaml_node *n = node->first; n; n = n->next) {
        n->key = node->key; /* for messages */
        if (n->kind != ZOE_YAML_TEXT)
            return zoe_config_wrong_kind(c, n, section, "a text");
        if (!zoe_config_add(c, n, section, name, n->text))
            return false;
    }
    return true;
}

bool zoe_config_read_option(zoe_config *c, const zoe_yaml_node *node, const char *section,
                            const char *name)
{
    const zoe_option_type type = zoe_generate_command.rows[row_of(name)].type;
    const bool pair = type == ZOE_OPTION_PAIR || type == ZOE_OPTION_SIZE;
    const bool several = pair || type == ZOE_OPTION_REALS;
    const bool truth = node->kind == ZOE_YAML_TRUE || node->kind == ZOE_YAML_FALSE;
    if (type == ZOE_OPTION_LIST)
        return read_list(c, node, section, name);
    if (type == ZOE_OPTION_FLAG)
        return truth ? zoe_config_add(c, node, section, name,
                                      node->kind == ZOE_YAML_TRUE ? "true" : "false")
                     : zoe_config_wrong_kind(c, node, section, "true or false, without quotes,");
    if (several && node->kind == ZOE_YAML_LIST) {
        const char *text =
            zoe_config_join(c, node, section, "", type == ZOE_OPTION_SIZE ? "x" : ",", "");
        return text && zoe_config_add(c, node, section, name, text);
    }
    if (type == ZOE_OPTION_TEXT && truth)
        return zoe_config_mistake(
            c, node, "%s.%.60s: %s without quotes is true or false; a text of that name is \"%s\"",
            section, node->key->text, node->text, node->text);
    if (node->kind != ZOE_YAML_TEXT)
        return zoe_config_wrong_kind(c, node, section,
                                     pair      ? "a value or a list of two"
                                     : several ? "a value or a list"
                                               : "a value");
    return zoe_config_add(c, node, section, name, node->text);
}

/* Options without meaning: their values are looked at when the rest is. */
bool zoe_config_read_mute(zoe_config *c, const zoe_yaml_node *node, const char *section)
{
    if (node->kind == ZOE_YAML_LIST || node->kind == ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, node, section, "a value");
    if (node->kind != ZOE_YAML_FALSE)
        zoe_config_add_idle(c, section, node->key->text);
    return true;
}

/* Is it what --cache takes? */
static bool check_cache(zoe_config *c, const zoe_yaml_node *node)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_cache_params parsed;
    if (!ctx) {
        c->no_memory = true;
        return false;
    }
    const bool good = zoe_cache_params_parse(ctx, &parsed, node->text) == ZOE_OK;
    if (!good)
        zoe_config_mistake(c, node, "zoe.cache: %s", zoe_context_message(ctx));
    zoe_context_free(ctx);
    return good;
}

/* One option under zoe: */
static bool read_own(zoe_config *c, const zoe_yaml_node *node)
{
    const zoe_option *row = &zoe_generate_command.rows[row_of(node->key->text)];
    if (node->kind == ZOE_YAML_NULL)
        return true;
    if (row->type == ZOE_OPTION_REFUSE)
        return zoe_config_mistake(c, node->key, "zoe.%.60s: %s", node->key->text, row->help);
    if (row->type == ZOE_OPTION_MUTE)
        return zoe_config_read_mute(c, node, "zoe");
    return zoe_config_read_option(c, node, "zoe", node->key->text) &&
           (strcmp(row->name, "cache") != 0 || check_cache(c, node));
}

static bool read_ours(zoe_config *c, const zoe_yaml_node *map)
{
    static const char *const outside[] = {"help", "config", "dump-config", NULL};
    const zoe_command *command = &zoe_generate_command;
    const char *names[ZOE_OPTIONS_MAX + 1];
    size_t n = 0;
    if (map->kind != ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, map, "", "a map of options");
    for (size_t i = 0; i < command->n_rows; i++)
        if (zoe_option_shown(&command->rows[i]))
            names[n++] = command->rows[i].name;
    names[n] = NULL;
    for (const zoe_yaml_node *node = map->first; node; node = node->next) {
        const char *key = node->key->text;
        if (row_of(key) == command->n_rows)
            return unknown_key(c, node, "zoe", names);
        for (size_t i = 0; outside[i]; i++)
            if (zoe_name_distance(outside[i], key) == 0)
                return zoe_config_mistake(c, node->key, "zoe.%.60s belongs on the command line",
                                          key);
        if (!read_own(c, node))
            return false;
    }
    return true;
}

/* ---- the file ---- */

static bool read_root(zoe_config *c, const zoe_yaml_node *root)
{
    static const char *const names[] = {
        "zoe",         "dit_cache", "model_args",    "model_name", "world_size", "entry_script",
        "master_port", "launcher",  "launcher_args", "env_vars",   "sparse",     NULL};
    static bool (*const readers[])(zoe_config *, const zoe_yaml_node *) = {
        read_ours, zoe_config_read_cache, zoe_config_read_arguments};
    if (root->kind != ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, root, "", "a map of settings");
    if (!zoe_config_check_keys(c, root, "", names))
        return false;
    bool launch = false;
    for (size_t i = 2; names[i]; i++)
        launch = launch || zoe_config_entry(root, names[i]);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        const zoe_yaml_node *n = zoe_config_entry(root, names[i]);
        if (n && !readers[i](c, n))
            return false;
    }
    return !launch || zoe_config_check_launch(c, root);
}

/* Are all values legal, also those that the line has others for? */
static bool check_values(zoe_config *c)
{
    const zoe_command *command = &zoe_generate_command;
    zoe_request *trial = calloc(1, sizeof *trial);
    bool good = trial != NULL;
    c->no_memory = !trial;
    for (size_t i = 0; i < c->n && good; i++) {
        const zoe_config_setting *s = &c->settings[i];
        good = zoe_options_give(&trial->found, trial, command->rows, command->n_rows, s->name,
                                s->shown, s->value);
        if (!good)
            snprintf(c->mistake, sizeof c->mistake, "%.2000s", trial->found.mistake);
    }
    free(trial);
    return good;
}

bool zoe_config_parse(zoe_config *config, const char *name, const char *text, size_t size)
{
    *config = (zoe_config){.name = name};
    if (!zoe_yaml_read(&config->yaml, name, text, size)) {
        config->no_memory = config->yaml.no_memory;
        snprintf(config->mistake, sizeof config->mistake, "%s", config->yaml.mistake);
        return false;
    }
    if (!config->yaml.root) {
        snprintf(config->mistake, sizeof config->mistake, "%.200s: the file says nothing", name);
        return false;
    }
    return read_root(config, config->yaml.root) && check_values(config);
}

int zoe_config_read(zoe_config *config, const char *path)
{
    zoe_context *ctx = zoe_context_new(1);
    char *text = NULL;
    size_t size;
    int code = ZOE_EXIT_DONE;
    if (!ctx)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    const zoe_status status = zoe_file_read(ctx, &text, &size, path, ZOE_YAML_BYTES);
    if (status != ZOE_OK)
        code = zoe_refuse(status == ZOE_NOMEM ? ZOE_EXIT_MEMORY : ZOE_EXIT_INPUT,
                          zoe_status_name(status), "--config: %s", zoe_context_message(ctx));
    else if (!zoe_config_parse(config, path, text, size))
        code =
            config->no_memory
                ? zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out")
                : zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID), "%s", config->mistake);
    zoe_free(text);
    zoe_context_free(ctx);
    return code;
}

/* Where a request comes from, what keeps it, which transformers, and where experts change: what the line
 * says of one of these stands in the place of what the file says of another. */
static bool is_displaced(const zoe_options *line, const zoe_request *request, const char *name)
{
    static const char *const instead[][2] = {
        {"from", "resume"},
        {"resume", "from"},
        {"checkpoint", "resume"},
        {"resume", "checkpoint"},
        {"transformer", "high-noise"},
        {"transformer", "low-noise"},
        {"high-noise", "transformer"},
        {"low-noise", "transformer"},
        {"boundary", "boundary-step"},
        {"boundary-step", "boundary"},
    };
    if (strcmp(name, "image") == 0 && line->operands > 0)
        return true;
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (strcmp(name, instead[i][0]) == 0 && line->given[row_of(instead[i][1])])
            return true;
    /* A step list brings their number and the solver along. */
    return (strcmp(name, "steps") == 0 || strcmp(name, "solver") == 0) &&
           line->given[row_of("step-list")] && request->job.step_list_count > 0;
}

bool zoe_config_apply(const zoe_config *config, zoe_options *found, void *target)
{
    const zoe_command *command = &zoe_generate_command;
    bool skip[ZOE_OPTIONS_MAX]; /* as the line alone has it */
    for (size_t i = 0; i < config->n; i++) {
        const size_t row = config->settings[i].row;
        skip[i] = found->given[row] || is_displaced(found, target, command->rows[row].name);
    }
    for (size_t i = 0; i < config->n; i++) {
        const zoe_config_setting *s = &config->settings[i];
        if (!skip[i] && !zoe_options_give(found, target, command->rows, command->n_rows, s->name,
                                          s->shown, s->value))
            return false;
    }
    return true;
}

void zoe_config_free(zoe_config *config)
{
    while (config->texts) {
        zoe_config_text *t = config->texts;
        config->texts = t->older;
        free(t);
    }
    zoe_yaml_free(&config->yaml);
}
