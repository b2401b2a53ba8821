/* Tables that say how another program's tensor names become the official ones; for this room only.
 */
#ifndef ZOE_STORE_NAMES_H
#define ZOE_STORE_NAMES_H

#include "base/base.h"

/* In a pattern, '#' stands for a number; a '*' at the end stands for the rest of the name, and so
 * does an '@', whose rest is translated by the table's `parts` if it is found there. The target
 * repeats the numbers in their order. */
typedef struct zoe_name_rule {
    const char *from, *to;
} zoe_name_rule;

/* Lists end with a row of NULL. */
typedef struct zoe_name_table {
    const char *signs[2]; /* patterns, the second may be NULL: a checkpoint with such a name is of
                             this kind */
    const zoe_name_rule *rules[2]; /* tried in order; the second may be NULL */
    const zoe_name_rule *parts;    /* may be NULL */
} zoe_name_table;

/* diffusers: transformer, autoencoder of Wan 2.1, autoencoder of Wan 2.2; transformers: umT5
 * encoder; llama.cpp: the same, in GGUF files; transformers: image tower of CLIP. */
extern const zoe_name_table zoe_names_diffusers_dit;
extern const zoe_name_table zoe_names_diffusers_vae21;
extern const zoe_name_table zoe_names_diffusers_vae22;
extern const zoe_name_table zoe_names_transformers_umt5;
extern const zoe_name_table zoe_names_llama_umt5;

/* The other way: from the official name to the one that the table's first rules would make it of;
 * NULL if there is none. Free with zoe_free. */
zoe_status zoe_name_foreign(zoe_context *ctx, char **name, const zoe_name_table *table,
                            const char *official);
extern const zoe_name_table zoe_names_transformers_clip;
/* From a name that the table knows to the official one, into `size` bytes; false if the table does
 * not know it, or it is too long. */
bool zoe_name_official(char *official, size_t size, const zoe_name_table *table, const char *name);

#endif
