/* Inside the file of --config; for the config*.c files only. Functions that give bool or a pointer have
 * said what is wrong, or that memory ran out, when they give false or NULL. */
#ifndef ZOE_CONFIG_PARTS_H
#define ZOE_CONFIG_PARTS_H

#include "config.h"

/* A text of the config's own. */
typedef struct zoe_config_text {
    struct zoe_config_text *older;
    size_t room, used;
    char text[];
} zoe_config_text;

/* ---- mistakes: always false. section: the names of the maps above, "" for none ---- */

bool zoe_config_mistake(zoe_config *c, const zoe_yaml_node *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* wanted: "a map" */
bool zoe_config_wrong_kind(zoe_config *c, const zoe_yaml_node *node, const char *section,
                           const char *wanted);
/* "a list" */
const char *zoe_config_kind_name(const zoe_yaml_node *node);
/* The known name that another one is most like, NULL if it is like none. names ends with NULL. */
const char *zoe_config_nearest(const char *const *names, const char *text);

/* ---- maps ---- */

/* NULL: it is not there, or null, or this is no map. */
const zoe_yaml_node *zoe_config_entry(const zoe_yaml_node *map, const char *key);
/* Are all keys of the map among the names? */
bool zoe_config_check_keys(zoe_config *c, const zoe_yaml_node *map, const char *section,
                           const char *const *names);

/* ---- texts ---- */

zoe_config_text *zoe_config_text_new(zoe_config *c, size_t room);
void zoe_config_text_add(zoe_config_text *t, const char *text);
/* A list of values as one text. */
const char *zoe_config_join(zoe_config *c, const zoe_yaml_node *list, const char *section,
                            const char *begin, const char *between, const char *end);

/* ---- options ---- */

/* The option of that name gets this value. */
bool zoe_config_add(zoe_config *c, const zoe_yaml_node *node, const char *section, const char *name,
                    const char *value);
/* It gets what the node says. */
bool zoe_config_read_option(zoe_config *c, const zoe_yaml_node *node, const char *section,
                            const char *name);
/* A key that means nothing here, to be named unless it is false. */
bool zoe_config_read_mute(zoe_config *c, const zoe_yaml_node *node, const char *section);
void zoe_config_add_idle(zoe_config *c, const char *section, const char *key);

/* ---- sections ---- */

bool zoe_config_read_cache(zoe_config *c, const zoe_yaml_node *map);
bool zoe_config_read_arguments(zoe_config *c, const zoe_yaml_node *map);
/* All but these two and zoe, of a file that has any of them. */
bool zoe_config_check_launch(zoe_config *c, const zoe_yaml_node *root);

#endif
