/* A YAML file as a tree of nodes that know where they stand. One document of maps, lists and scalars,
 * as people write settings: anchors, aliases and tags are refused, and so is a key that stands twice in
 * a map. The file may be anyone's: size, depth and number of nodes are bounded. */
#ifndef ZOE_YAML_TREE_H
#define ZOE_YAML_TREE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    ZOE_YAML_BYTES = 1 << 18, /* of a file, at most */
    ZOE_YAML_NODES = 8192,
    ZOE_YAML_DEPTH = 8
};

typedef enum zoe_yaml_kind {
    ZOE_YAML_NULL,  /* plain: nothing, ~ or null */
    ZOE_YAML_TRUE,  /* plain: true, yes or on, as YAML 1.1 has it */
    ZOE_YAML_FALSE, /* plain: false, no or off */
    ZOE_YAML_TEXT,  /* any other scalar, numbers too, and whatever stands in quotes */
    ZOE_YAML_LIST,
    ZOE_YAML_MAP
} zoe_yaml_kind;

typedef struct zoe_yaml_node zoe_yaml_node;
struct zoe_yaml_node {
    zoe_yaml_kind kind;
    const char *text;         /* of a scalar, as it stands there without its quotes; UTF-8 */
    size_t line, column;      /* from 1, of the value */
    const zoe_yaml_node *key; /* of an entry of a map */
    zoe_yaml_node *first;     /* of the entries of a list or map */
    zoe_yaml_node *next;      /* entry of the same list or map */
    zoe_yaml_node *older;     /* made before this one */
};

typedef struct zoe_yaml {
    zoe_yaml_node *root; /* NULL: the file says nothing */
    zoe_yaml_node *newest;
    bool no_memory;
    char mistake[512]; /* "NAME:LINE:COLUMN: SENTENCE", if reading failed for another reason */
} zoe_yaml;

/* Reads the text; name is the file's in messages. Free the result in any case. */
bool zoe_yaml_read(zoe_yaml *yaml, const char *name, const char *text, size_t size);
void zoe_yaml_free(zoe_yaml *yaml);

#endif
