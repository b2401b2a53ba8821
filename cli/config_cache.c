/* The section dit_cache: a step cache as cann-recipes-infer has it, and more methods of the same form. */
#include <stdio.h>
#include <string.h>

#include "config_parts.h"
#include "zoetrope/cache.h"

static bool find_method(zoe_config *c, const zoe_yaml_node *node, zoe_cache_method *method)
{
    const char *names[ZOE_CACHE_METHODS + 1] = {NULL};
    *method = ZOE_CACHE_NONE;
    if (!node)
        return true;
    if (node->kind != ZOE_YAML_TEXT)
        return zoe_config_wrong_kind(c, node, "dit_cache", "the name of a method");
    for (size_t i = 0; i < ZOE_CACHE_METHODS; i++) {
        names[i] = zoe_cache_method_name((zoe_cache_method)i);
        if (strcmp(names[i], node->text) == 0) {
            *method = (zoe_cache_method)i;
            return true;
        }
    }
    const char *like = zoe_config_nearest(names, node->text);
    char list[160] = "there are";
    for (size_t i = 0; i < ZOE_CACHE_METHODS; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : " ", names[i]);
    }
    return zoe_config_mistake(
        c, node, "dit_cache.method: %.60s is no method, and capitals count; %s%s%s", node->text,
        like ? "did you mean " : list, like ? like : "", like ? "?" : "");
}

/* Parameters of a cache on their way. */
typedef struct cache_settings {
    zoe_cache_setting row[96];
    size_t n;
} cache_settings;

static bool add_param(zoe_config *c, cache_settings *s, const char *key, const char *value,
                      const zoe_yaml_node *node)
{
    char where[300];
    const int n =
        snprintf(where, sizeof where, "%.200s:%zu:%zu", c->name, node->line, node->column);
    zoe_config_text *t = zoe_config_text_new(c, (size_t)n);
    if (!t)
        return false;
    zoe_config_text_add(t, where);
    s->row[s->n++] = (zoe_cache_setting){key, value, t->text};
    return true;
}

static bool read_param(zoe_config *c, cache_settings *s, const zoe_yaml_node *node)
{
    const char *key = node->key->text, *value = node->text;
    switch (node->kind) {
    case ZOE_YAML_NULL: return true;
    case ZOE_YAML_TRUE: value = "true"; break;
    case ZOE_YAML_FALSE: value = "false"; break;
    case ZOE_YAML_TEXT:
        if (strcspn(value, ",[]") < strlen(value))
            return zoe_config_mistake(
                c, node, "dit_cache.params.%s: %.60s has a comma or a bracket in it", key, value);
        break;
    case ZOE_YAML_LIST:
        value = zoe_config_join(c, node, "dit_cache.params", "[", ", ", "]");
        if (!value)
            return false;
        break;
    case ZOE_YAML_MAP: return zoe_config_wrong_kind(c, node, "dit_cache.params", "a value");
    }
    return add_param(c, s, key, value, node);
}

static bool read_params(zoe_config *c, cache_settings *s, const zoe_yaml_node *params,
                        zoe_cache_method method)
{
    const char *names[sizeof s->row / sizeof *s->row - 2] = {NULL};
    for (size_t i = 0; i + 1 < sizeof names / sizeof *names; i++)
        names[i] = zoe_cache_key(method, i);
    if (!params)
        return true;
    if (params->kind != ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, params, "dit_cache", "a map");
    if (!zoe_config_check_keys(c, params, "dit_cache.params", names))
        return false;
    for (const zoe_yaml_node *n = params->first; n; n = n->next)
        if (!read_param(c, s, n))
            return false;
    return true;
}

/* Are they legal? What is wrong is told where it stands. */
static bool check_params(zoe_config *c, const cache_settings *s, const char *method,
                         const zoe_yaml_node *map)
{
    zoe_context *ctx = zoe_context_new(1);
    zoe_cache_params parsed;
    if (!ctx) {
        c->no_memory = true;
        return false;
    }
    const bool good = zoe_cache_params_set(ctx, &parsed, method, s->row, s->n) == ZOE_OK;
    const char *message = zoe_context_message(ctx);
    bool placed = false;
    for (size_t i = 0; i < s->n; i++)
        placed = placed || strncmp(message, s->row[i].where, strlen(s->row[i].where)) == 0;
    if (!good && placed)
        snprintf(c->mistake, sizeof c->mistake, "%s", message);
    else if (!good)
        zoe_config_mistake(c, map, "dit_cache: %s", message);
    zoe_context_free(ctx);
    return good;
}

/* "METHOD,key=value,..." NULL: no memory. */
static const char *cache_text(zoe_config *c, const cache_settings *s, const char *method)
{
    size_t room = strlen(method);
    for (size_t i = 0; i < s->n; i++)
        room += strlen(s->row[i].key) + strlen(s->row[i].value) + 2;
    zoe_config_text *t = zoe_config_text_new(c, room);
    if (!t)
        return NULL;
    zoe_config_text_add(t, method);
    for (size_t i = 0; i < s->n; i++) {
        zoe_config_text_add(t, ",");
        zoe_config_text_add(t, s->row[i].key);
        zoe_config_text_add(t, "=");
        zoe_config_text_add(t, s->row[i].value);
    }
    return t->text;
}

/* As on a command line; methods that cann-recipes-infer has go by its rule, unless another is asked
 * for. */
bool zoe_config_read_cache(zoe_config *c, const zoe_yaml_node *map)
{
    static const char *const names[] = {"method", "enable_separate_cfg", "params", NULL};
    cache_settings s = {.n = 0};
    zoe_cache_method method;
    if (map->kind != ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, map, "", "a map");
    const zoe_yaml_node *separate = zoe_config_entry(map, names[1]),
                        *params = zoe_config_entry(map, names[2]);
    if (!zoe_config_check_keys(c, map, "dit_cache", names) ||
        !find_method(c, zoe_config_entry(map, names[0]), &method))
        return false;
    if (separate && separate->kind != ZOE_YAML_TRUE && separate->kind != ZOE_YAML_FALSE)
        return zoe_config_wrong_kind(c, separate, "dit_cache", "true or false, without quotes,");
    const bool seeds =
        method == ZOE_CACHE_FIRST || method == ZOE_CACHE_TEA || method == ZOE_CACHE_TAYLOR;
    if (seeds && !zoe_config_entry(params, "rule") && !add_param(c, &s, "rule", "recipe", map))
        return false;
    if (separate && separate->kind == ZOE_YAML_FALSE &&
        !add_param(c, &s, names[1], "false", separate))
        return false;
    const char *name = zoe_cache_method_name(method), *text;
    return read_params(c, &s, params, method) && check_params(c, &s, name, map) &&
           (text = cache_text(c, &s, name)) && zoe_config_add(c, map, "", "cache", text);
}
