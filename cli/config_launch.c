/* The launch file of cann-recipes-infer: what stands beside dit_cache in it, and what of that this
 * program takes, passes over or refuses. */
#include <stdlib.h>
#include <string.h>

#include "config_parts.h"

/* ---- model_args ---- */

typedef enum meaning {
    OPTION, /* an option of ours by the same name */
    RANKS,  /* a factor of world_size, and an option of ours */
    ONE,    /* a factor that must be 1 */
    VAE,    /* true or false: all ranks for the VAE, or one */
    IDLE,   /* harmless: true, false or a word */
    NEVER,  /* may be false, null or absent */
    LEVEL   /* 0, or a way of quantising */
} meaning;

static const struct {
    const char *key;
    meaning meaning;
    const char *why; /* ONE, NEVER, LEVEL */
} arguments[] = {
    {"task", OPTION, NULL},
    {"size", OPTION, NULL},
    {"frame_num", OPTION, NULL},
    {"ckpt_dir", OPTION, NULL},
    {"image", OPTION, NULL},
    {"prompt", OPTION, NULL},
    {"save_file", OPTION, NULL},
    {"base_seed", OPTION, NULL},
    {"sample_solver", OPTION, NULL},
    {"sample_steps", OPTION, NULL},
    {"sample_shift", OPTION, NULL},
    {"sample_guide_scale", OPTION, NULL},
    {"cfg_size", RANKS, NULL},
    {"ulysses_size", RANKS, NULL},
    {"ring_size", RANKS, NULL},
    {"tp_size", ONE,
     "layers are not split over ranks here; take cfg_size, ulysses_size or ring_size"},
    {"vae_parallel", VAE, NULL},
    {"offload_model", IDLE, NULL},
    {"convert_model_dtype", IDLE, NULL},
    {"t5_cpu", IDLE, NULL},
    {"t5_fsdp", IDLE, NULL},
    {"dit_fsdp", IDLE, NULL},
    {"quant_mode", LEVEL,
     "weights that were quantised for that program are not read here; compute: int8 under zoe: is "
     "this program's own way"},
    {"quant_data_dir", IDLE, NULL},
    {"cache_config", NEVER, "the step cache stands in this file, under dit_cache:"},
    {"use_prompt_extend", NEVER,
     "prompts are not rewritten by a language model here; give the long prompt itself"},
    {"prompt_extend_method", IDLE, NULL},
    {"prompt_extend_model", IDLE, NULL},
    {"prompt_extend_target_lang", IDLE, NULL},
};
enum { ARGUMENTS = sizeof arguments / sizeof *arguments };

/* A whole number from low to high. */
static bool read_number(zoe_config *c, const zoe_yaml_node *node, const char *section, size_t low,
                        size_t high, size_t *number)
{
    const char *text = node->kind == ZOE_YAML_TEXT ? node->text : "";
    const size_t digits = strspn(text, "0123456789");
    *number =
        digits > 0 && digits < 10 && text[digits] == '\0' ? strtoul(text, NULL, 10) : SIZE_MAX;
    if (*number < low || *number > high)
        return zoe_config_mistake(
            c, node, "%s%s%.60s: wanted is a whole number from %zu to %zu, and this is %.60s",
            section, *section ? "." : "", node->key->text, low, high,
            *text ? text : zoe_config_kind_name(node));
    return true;
}

static bool read_argument(zoe_config *c, const zoe_yaml_node *node, size_t i)
{
    const char *key = node->key->text, *why = arguments[i].why;
    size_t number;
    switch (arguments[i].meaning) {
    case OPTION: return zoe_config_read_option(c, node, "model_args", key);
    case RANKS:
        return read_number(c, node, "model_args", 1, strcmp(key, "cfg_size") == 0 ? 2 : 1000000,
                           &number) &&
               zoe_config_read_option(c, node, "model_args", key);
    case ONE:
        if (!read_number(c, node, "model_args", 1, 1000000, &number))
            return false;
        return number == 1 ||
               zoe_config_mistake(c, node, "model_args.%s %zu: %s", key, number, why);
    case VAE:
        if (node->kind != ZOE_YAML_TRUE && node->kind != ZOE_YAML_FALSE)
            return zoe_config_wrong_kind(c, node, "model_args", "true or false, without quotes,");
        return node->kind == ZOE_YAML_TRUE || /* all of them, as without a word */
               zoe_config_add(c, node, "model_args", "vae-ranks", "1");
    case IDLE: return zoe_config_read_mute(c, node, "model_args");
    case NEVER:
        return node->kind == ZOE_YAML_FALSE ||
               zoe_config_mistake(c, node, "model_args.%s: %s", key, why);
    case LEVEL:
        if (!read_number(c, node, "model_args", 0, 3, &number))
            return false;
        return number == 0 ||
               zoe_config_mistake(c, node, "model_args.%s %zu: %s", key, number, why);
    }
    return true;
}

bool zoe_config_read_arguments(zoe_config *c, const zoe_yaml_node *map)
{
    const char *names[ARGUMENTS + 1] = {NULL};
    if (map->kind != ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, map, "", "a map of the program's arguments");
    for (size_t i = 0; i < ARGUMENTS; i++)
        names[i] = arguments[i].key;
    if (!zoe_config_check_keys(c, map, "model_args", names))
        return false;
    for (const zoe_yaml_node *n = map->first; n; n = n->next)
        for (size_t i = 0; i < ARGUMENTS; i++)
            if (n->kind != ZOE_YAML_NULL && strcmp(arguments[i].key, n->key->text) == 0 &&
                !read_argument(c, n, i))
                return false;
    return true;
}

/* ---- the rest of a launch file ---- */

static bool read_sparse(zoe_config *c, const zoe_yaml_node *map)
{
    static const char *const names[] = {"method", "block_size_Q", "block_size_K",
                                        "model",  "params",       NULL};
    static const char *const methods[] = {"no_sparse", "TopK", "SVG"};
    if (map->kind != ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, map, "", "a map");
    const zoe_yaml_node *method = zoe_config_entry(map, "method");
    if (!zoe_config_check_keys(c, map, "sparse", names))
        return false;
    if (!method)
        return true;
    size_t i = 0;
    while (i < 3 && (method->kind != ZOE_YAML_TEXT || strcmp(method->text, methods[i]) != 0))
        i++;
    if (i == 3)
        return zoe_config_mistake(
            c, method, "sparse.method: wanted is no_sparse, TopK or SVG, capitals as here");
    if (i > 0)
        return zoe_config_mistake(
            c, method, "sparse.method %s: attention is never sparse here; wanted is no_sparse",
            methods[i]);
    zoe_config_add_idle(c, "", "sparse");
    return true;
}

/* The parallel sizes and world_size. */
static bool check_ranks(zoe_config *c, const zoe_yaml_node *root)
{
    const zoe_yaml_node *args = zoe_config_entry(root, "model_args"),
                        *world = zoe_config_entry(root, "world_size");
    size_t ranks, product = 1;
    if (!read_number(c, world, "", 1, 1000000, &ranks))
        return false;
    for (size_t i = 0; i < ARGUMENTS; i++) {
        const zoe_yaml_node *n =
            arguments[i].meaning == RANKS ? zoe_config_entry(args, arguments[i].key) : NULL;
        const size_t size = n ? strtoul(n->text, NULL, 10) : 1;
        product = product > SIZE_MAX / size ? SIZE_MAX : product * size;
    }
    return ranks == product ||
           zoe_config_mistake(
               c, world,
               "world_size is %zu, but cfg_size, ulysses_size, ring_size and tp_size make %zu",
               ranks, product);
}

/* A map of plain values. */
static bool check_plain(zoe_config *c, const zoe_yaml_node *map)
{
    if (map->kind != ZOE_YAML_MAP)
        return zoe_config_wrong_kind(c, map, "", "a map");
    for (const zoe_yaml_node *n = map->first; n; n = n->next)
        if (n->kind == ZOE_YAML_LIST || n->kind == ZOE_YAML_MAP)
            return zoe_config_wrong_kind(c, n, map->key->text, "a value");
    return true;
}

/* What cann-recipes-infer's launcher asks of its files, with what it is for. */
bool zoe_config_check_launch(zoe_config *c, const zoe_yaml_node *root)
{
    static const char *const needed[] = {"model_name", "world_size", "entry_script", NULL};
    static const char *const idle[] = {"model_name",    "entry_script", "master_port", "launcher",
                                       "launcher_args", "env_vars",     NULL};
    const zoe_yaml_node *port = zoe_config_entry(root, "master_port"),
                        *launcher = zoe_config_entry(root, "launcher");
    size_t number;
    for (size_t i = 0; needed[i]; i++)
        if (!zoe_config_entry(root, needed[i]))
            return zoe_config_mistake(
                c, root,
                "%s is missing: a file with model_args or other keys of the launcher must have "
                "model_name, world_size and entry_script; one with options under zoe: needs "
                "none of them",
                needed[i]);
    if (port && !read_number(c, port, "", 1, 65535, &number))
        return false;
    if (launcher && strcmp(launcher->text, "torchrun") != 0 &&
        strcmp(launcher->text, "accelerate") != 0)
        return zoe_config_mistake(c, launcher, "launcher: wanted is torchrun or accelerate");
    for (size_t i = 0; idle[i]; i++) {
        const zoe_yaml_node *n = zoe_config_entry(root, idle[i]);
        if (!n)
            continue;
        const bool map = i > 3;
        if (map ? !check_plain(c, n) : n->kind != ZOE_YAML_TEXT)
            return map ? false : zoe_config_wrong_kind(c, n, "", "a text");
        zoe_config_add_idle(c, "", idle[i]);
    }
    const zoe_yaml_node *sparse = zoe_config_entry(root, "sparse");
    return check_ranks(c, root) && (!sparse || read_sparse(c, sparse));
}
