/* Inside the LoRA reader: what a key of such a file says; for the lora*.c files only. */
#ifndef ZOE_LORA_H
#define ZOE_LORA_H

#include "store/content.h"

/* What a tensor is to its layer, in the order in which they are put together. */
typedef enum lora_role { LORA_DOWN, LORA_UP, LORA_ALPHA, LORA_DIFFERENCE } lora_role;

/* A layer's name with underscores for dots, and the layer. */
typedef struct lora_alias {
    char *text, *layer;
} lora_alias;

typedef struct lora_aliases {
    lora_alias *items;
    size_t n, room;
} lora_aliases;

/* The aliases of every layer of the model, sorted. */
zoe_status zoe_lora_aliases_new(zoe_context *ctx, lora_aliases *aliases, const zoe_store *target);
void zoe_lora_aliases_free(lora_aliases *aliases);

/* Does the name say layers with underscores? */
bool zoe_lora_key_is_flat(const char *key);
/* Which tensor of the model a key belongs to, and as what. False if to none. */
bool zoe_lora_key_resolve(const zoe_store *target, const lora_aliases *aliases, const char *key,
                          size_t *tensor, lora_role *role);

/* A LoRA of a store that is open; the LoRA closes it, also on failure. peft: the configuration that
 * diffusers keeps in the file's metadata, JSON, or NULL. */
zoe_status zoe_lora_of(zoe_context *ctx, zoe_lora **lora, zoe_store *store, const zoe_store *target,
                       const char *peft);

#endif
