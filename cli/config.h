/* The file of `zoe generate --config`: settings of a run in YAML. It may be the launch file of
 * cann-recipes-infer (model_args, dit_cache, world_size ...), options of `zoe generate` under `zoe:`, or
 * both. docs/CONFIG.md has all keys. */
#ifndef ZOE_CONFIG_H
#define ZOE_CONFIG_H

#include "options.h"
#include "yaml_tree.h"

/* An option that the file gives. */
typedef struct zoe_config_setting {
    const char *name;  /* of the option, or another name of it */
    size_t row;        /* of the option itself in the table */
    const char *value; /* as it would stand on a command line */
    const char *shown; /* "run.yaml:3:5: model_args.size" */
} zoe_config_setting;

typedef struct zoe_config {
    const char *name; /* of the file, for messages */
    zoe_yaml yaml;
    zoe_config_setting settings[ZOE_OPTIONS_MAX];
    size_t n;
    struct zoe_config_text *texts; /* made from values of the file */
    char idle[1000];               /* keys that mean nothing here, with commas between them */
    bool no_memory;
    char mistake[2048]; /* "" if there is none */
} zoe_config;

/* Reads a text and checks everything but the values of options. false: see mistake or no_memory. Free
 * it in any case. name lives as long as the config. */
bool zoe_config_parse(zoe_config *config, const char *name, const char *text, size_t size);
/* The same with a file. Returns 0, or the exit code after saying what is wrong. */
int zoe_config_read(zoe_config *config, const char *path);
/* The options of the file that *found, a command line, has not given, as if they stood there too;
 * what the line has instead of them counts as given. false: see found->mistake. */
bool zoe_config_apply(const zoe_config *config, zoe_options *found, void *target);
void zoe_config_free(zoe_config *config);

#endif
