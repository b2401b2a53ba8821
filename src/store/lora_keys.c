/* Keys of LoRA files: prefix, layer, suffix. Spellings as ComfyUI (comfy/lora.py,
 * comfy/weight_adapter), PEFT, diffusers and kohya-ss write or read them. */
#include <stdio.h>
#include <stdlib.h>

#include "store/lora.h"
#include "store/names.h"

enum { NAME = 640 }; /* no layer's name is nearly as long; room for a translation */

static const struct {
    const char *suffix;
    lora_role role;
    const char *tensor; /* of the layer */
} suffixes[] = {
    {".lora_down.weight", LORA_DOWN, ".weight"},
    {".lora_up.weight", LORA_UP, ".weight"},
    {".lora_A.weight", LORA_DOWN, ".weight"},
    {".lora_B.weight", LORA_UP, ".weight"},
    {".lora_A.default.weight", LORA_DOWN, ".weight"},
    {".lora_B.default.weight", LORA_UP, ".weight"},
    {".lora_A", LORA_DOWN, ".weight"},
    {".lora_B", LORA_UP, ".weight"},
    {".lora.down.weight", LORA_DOWN, ".weight"},
    {".lora.up.weight", LORA_UP, ".weight"},
    {"_lora.down.weight", LORA_DOWN, ".weight"},
    {"_lora.up.weight", LORA_UP, ".weight"},
    {".lora_linear_layer.down.weight", LORA_DOWN, ".weight"},
    {".lora_linear_layer.up.weight", LORA_UP, ".weight"},
    {".alpha", LORA_ALPHA, ".weight"},
    {".diff", LORA_DIFFERENCE, ".weight"},
    {".diff_b", LORA_DIFFERENCE, ".bias"},
    {".diff_m", LORA_DIFFERENCE, ".modulation"},
    {".lora_B.bias", LORA_DIFFERENCE, ".bias"},
    {".lora_B.default.bias", LORA_DIFFERENCE, ".bias"},
    {".lora_up.bias", LORA_DIFFERENCE, ".bias"},
};
enum { SUFFIXES = sizeof suffixes / sizeof *suffixes };

/* Stripped one after the other. */
static const char *const prefixes[] = {"base_model.model.", "diffusion_model.", "transformer.",
                                       "model.", "unet."};
static const char flat_prefix[] = "lora_unet_";

/* Parts of names that only other kinds of adapters have, and factors with scales, whose values mean
 * nothing alone. */
static const struct {
    const char *part, *kind;
} foreign[] = {
    {".dora_scale", "DoRA"},
    {".lora_magnitude_vector", "DoRA"},
    {".hada_", "LoHa"},
    {".lokr_", "LoKr"},
    {".oft_", "OFT"},
    {".lora_mid", "LoRA with a middle factor"},
    {".reshape_weight", "LoRA that changes shapes"},
    {".set_weight", "LoRA that replaces weights"},
    {".scale_weight", "LoRA in scaled fp8"},
    {".weight_scale", "LoRA in scaled fp8"},
};

const char *zoe_lora_key_foreign(const char *key)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strstr(key, foreign[i].part))
            return foreign[i].kind;
    return NULL;
}

/* ---- layers with underscores ---- */

static void flatten(char *text)
{
    for (; *text; text++)
        if (*text == '.')
            *text = '_';
}

/* Cuts ".weight" or ".modulation" off; false if the name does not end so. */
static bool cut_tensor(char *name)
{
    static const char *const ends[] = {".weight", ".modulation"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strcmp(name + n - m, ends[i]) == 0) {
            name[n - m] = '\0';
            return true;
        }
    }
    return false;
}

/* One spelling of the layer of an official name; `text` is taken over. */
static zoe_status add_alias(zoe_context *ctx, lora_aliases *aliases, char *text,
                            const char *official)
{
    if (aliases->n == aliases->room) {
        const size_t room = aliases->room ? 2 * aliases->room : 64;
        void *p;
        const zoe_status status = zoe_alloc(ctx, &p, room, sizeof *aliases->items, "LoRA");
        if (status != ZOE_OK) {
            zoe_free(text);
            return status;
        }
        if (aliases->n)
            memcpy(p, aliases->items, aliases->n * sizeof *aliases->items);
        zoe_free(aliases->items);
        aliases->items = p;
        aliases->room = room;
    }
    lora_alias *alias = &aliases->items[aliases->n++];
    *alias = (lora_alias){.text = text};
    flatten(text);
    TRY(zoe_strdup(ctx, &alias->layer, official));
    cut_tensor(alias->layer);
    return ZOE_OK;
}

static int alias_order(const void *a, const void *b)
{
    const lora_alias *x = a, *y = b;
    return strcmp(x->text, y->text);
}

zoe_status zoe_lora_aliases_new(zoe_context *ctx, lora_aliases *aliases, const zoe_store *target)
{
    for (size_t i = 0; i < target->n; i++) {
        const char *official = target->entries[i].name;
        char *text;
        TRY(zoe_strdup(ctx, &text, official));
        if (!cut_tensor(text)) { /* biases have the names of their weights */
            zoe_free(text);
            continue;
        }
        TRY(add_alias(ctx, aliases, text, official));
        TRY(zoe_name_foreign(ctx, &text, &zoe_names_diffusers_dit, official));
        if (text) {
            cut_tensor(text);
            TRY(add_alias(ctx, aliases, text, official));
        }
    }
    if (aliases->n)
        qsort(aliases->items, aliases->n, sizeof *aliases->items, alias_order);
    return ZOE_OK;
}

void zoe_lora_aliases_free(lora_aliases *aliases)
{
    for (size_t i = 0; i < aliases->n; i++) {
        zoe_free(aliases->items[i].text);
        zoe_free(aliases->items[i].layer);
    }
    zoe_free(aliases->items);
    *aliases = (lora_aliases){0};
}

bool zoe_lora_key_is_flat(const char *key)
{
    return strncmp(key, flat_prefix, sizeof flat_prefix - 1) == 0;
}

/* ---- keys ---- */

static bool find(const zoe_store *target, const char *name, size_t *tensor)
{
    const zoe_entry *entry = zoe_store_entry(target, name);
    if (entry)
        *tensor = (size_t)(entry - target->entries);
    return entry != NULL;
}

/* The tensor of a layer, or the layer that is a tensor itself (blocks.0.modulation), under its
 * official or its diffusers name. */
static bool find_in_layer(const zoe_store *target, const char *layer, const char *part,
                          size_t *tensor)
{
    const char *const parts[] = {part, ""};
    for (size_t i = 0; i < 2; i++) {
        char name[NAME], official[NAME];
        const int n = snprintf(name, sizeof name, "%s%s", layer, parts[i]);
        if (n <= 0 || (size_t)n >= sizeof name)
            return false;
        if (find(target, name, tensor) ||
            (zoe_name_official(official, sizeof official, &zoe_names_diffusers_dit, name) &&
             find(target, official, tensor)))
            return true;
    }
    return false;
}

static bool find_flat(const zoe_store *target, const lora_aliases *aliases, const char *layer,
                      const char *part, size_t *tensor)
{
    char text[NAME];
    snprintf(text, sizeof text, "%s", layer);
    flatten(text);
    const lora_alias wanted = {.text = text};
    const lora_alias *found = aliases->n ? bsearch(&wanted, aliases->items, aliases->n,
                                                   sizeof *aliases->items, alias_order)
                                         : NULL;
    return found && find_in_layer(target, found->layer, part, tensor);
}

static const char *strip(const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0)
            return name + n;
    }
    return NULL;
}

bool zoe_lora_key_resolve(const zoe_store *target, const lora_aliases *aliases, const char *key,
                          size_t *tensor, lora_role *role)
{
    const size_t length = strlen(key);
    char layer[NAME];
    for (size_t i = 0; i < SUFFIXES; i++) {
        const size_t n = strlen(suffixes[i].suffix);
        if (length <= n || length - n >= sizeof layer ||
            strcmp(key + length - n, suffixes[i].suffix) != 0)
            continue;
        memcpy(layer, key, length - n);
        layer[length - n] = '\0';
        *role = suffixes[i].role;
        if (zoe_lora_key_is_flat(layer))
            return find_flat(target, aliases, layer + sizeof flat_prefix - 1, suffixes[i].tensor,
                             tensor);
        for (const char *name = layer; name; name = strip(name))
            if (find_in_layer(target, name, suffixes[i].tensor, tensor))
                return true;
        return false;
    }
    return false;
}
