/* From the names in a file to the official ones, by tables of patterns. */
#include "store/names.h"

#include <stdlib.h>

#include "store/content.h"

/* ---- patterns ---- */

enum {
    NUMBERS = 4,
    GROWTH = 256
}; /* a target is never this much longer than the name that it came from */

typedef struct capture {
    const char *number[NUMBERS];
    size_t digits[NUMBERS];
    int n;
    const char *rest; /* what '*' or '@' stands for */
} capture;

static size_t count_digits(const char *text)
{
    size_t n = 0;
    while (text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

static bool match(capture *c, const char *pattern, const char *name)
{
    *c = (capture){.rest = ""};
    for (; *pattern; pattern++) {
        if (*pattern == '*' || *pattern == '@') {
            c->rest = name;
            return *name != '\0';
        }
        if (*pattern == '#') {
            const size_t digits = count_digits(name);
            if (digits == 0 || c->n == NUMBERS)
                return false;
            c->number[c->n] = name;
            c->digits[c->n++] = digits;
            name += digits;
        } else if (*pattern != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

static const zoe_name_rule *find_rule(capture *c, const zoe_name_rule *rules, const char *name)
{
    for (; rules && rules->from; rules++)
        if (match(c, rules->from, name))
            return rules;
    return NULL;
}

/* Writes the target of a match; out has room for the name and GROWTH more. */
static void write_target(char *out, const char *to, const capture *c, const zoe_name_rule *parts)
{
    int number = 0;
    for (; *to; to++) {
        capture inner;
        const zoe_name_rule *part = *to == '@' ? find_rule(&inner, parts, c->rest) : NULL;
        if (part) {
            write_target(out, part->to, &inner, NULL);
            return;
        }
        if (*to == '*' || *to == '@') {
            strcpy(out, c->rest);
            return;
        }
        if (*to == '#' && number < c->n) {
            memcpy(out, c->number[number], c->digits[number]);
            out += c->digits[number++];
        } else {
            *out++ = *to;
        }
    }
    *out = '\0';
}

/* ---- which tables ---- */

static const char *const prefixes_dit[] = {"model.diffusion_model.", "diffusion_model.", "model.",
                                           NULL};
static const char *const prefixes_none[] = {NULL};

static const zoe_name_table *const tables_dit[] = {&zoe_names_diffusers_dit, NULL};
static const zoe_name_table *const tables_vae[] = {&zoe_names_diffusers_vae22,
                                                   &zoe_names_diffusers_vae21, NULL};
static const zoe_name_table *const tables_umt5[] = {&zoe_names_transformers_umt5,
                                                    &zoe_names_llama_umt5, NULL};

static const zoe_name_table *const tables_clip[] = {&zoe_names_transformers_clip, NULL};

static const struct {
    const char *const *prefixes;
    const zoe_name_table *const *tables;
} kinds[] = {
    [ZOE_NAMES_WAN_DIT] = {prefixes_dit, tables_dit},
    [ZOE_NAMES_WAN_VAE] = {prefixes_none, tables_vae},
    [ZOE_NAMES_UMT5] = {prefixes_none, tables_umt5},
    [ZOE_NAMES_CLIP] = {prefixes_none, tables_clip},
};

static const char *strip(const char *name, const char *const *prefixes)
{
    for (; *prefixes; prefixes++) {
        const size_t n = strlen(*prefixes);
        if (strncmp(name, *prefixes, n) == 0 && name[n])
            return name + n;
    }
    return name;
}

static bool has_sign(const zoe_store *store, const zoe_name_table *table)
{
    capture c;
    for (size_t i = 0; i < store->n; i++)
        for (int k = 0; k < 2 && table->signs[k]; k++)
            if (match(&c, table->signs[k], store->entries[i].name))
                return true;
    return false;
}

static zoe_status translate(zoe_context *ctx, zoe_entry *entry, const zoe_name_table *table)
{
    capture c;
    const zoe_name_rule *rule = find_rule(&c, table->rules[0], entry->name);
    if (!rule)
        rule = find_rule(&c, table->rules[1], entry->name);
    if (!rule)
        return ZOE_OK; /* a tensor of that program's own; whoever wants it asks for it as it is */
    void *p;
    TRY(zoe_alloc(ctx, &p, strlen(entry->name) + GROWTH, 1, "name of a tensor"));
    write_target(p, rule->to, &c, table->parts);
    entry->official = p;
    entry->name = p;
    return ZOE_OK;
}

zoe_status zoe_name_foreign(zoe_context *ctx, char **name, const zoe_name_table *table,
                            const char *official)
{
    *name = NULL;
    for (const zoe_name_rule *rule = table->rules[0]; rule && rule->from; rule++) {
        capture c;
        void *p;
        if (!match(&c, rule->to, official))
            continue;
        TRY(zoe_alloc(ctx, &p, strlen(official) + GROWTH, 1, "name of a tensor"));
        write_target(p, rule->from, &c, NULL);
        *name = p;
        return ZOE_OK;
    }
    return ZOE_OK;
}

bool zoe_name_official(char *official, size_t size, const zoe_name_table *table, const char *name)
{
    capture c;
    const zoe_name_rule *rule = find_rule(&c, table->rules[0], name);
    if (!rule)
        rule = find_rule(&c, table->rules[1], name);
    if (!rule || size < GROWTH || strlen(name) > size - GROWTH)
        return false;
    write_target(official, rule->to, &c, table->parts);
    return true;
}

/* ---- order ---- */

static int entry_order(const void *a, const void *b)
{
    const zoe_entry *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->stored, y->stored);
}

static bool same_values(zoe_tensor a, zoe_tensor b)
{
    if (a.dtype != b.dtype || a.rank != b.rank)
        return false;
    for (int i = 0; i < a.rank; i++)
        if (a.shape[i] != b.shape[i])
            return false;
    const size_t bytes = zoe_tensor_bytes(a);
    return a.data == b.data || bytes == 0 || memcmp(a.data, b.data, bytes) == 0;
}

/* Two tensors of one name are fine if they are one thing under two stored names, such as tied
 * embeddings. */
static zoe_status check_twins(zoe_context *ctx, const zoe_store *store, const zoe_entry *a,
                              const zoe_entry *b)
{
    const char *path = store->files[b->file].path;
    if (strcmp(a->stored, b->stored) == 0)
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensor %s: is given twice", path, a->stored);
    if (!same_values(a->tensor, b->tensor))
        return zoe_fail(ctx, ZOE_FORMAT, "%s: tensors %s and %s both stand for %s, but differ",
                        path, a->stored, b->stored, a->name);
    return ZOE_OK;
}

/* Sorts by name and keeps one of each. */
static zoe_status settle(zoe_context *ctx, zoe_store *store)
{
    zoe_entry *const entries = store->entries;
    if (store->n == 0)
        return ZOE_OK;
    qsort(entries, store->n, sizeof *entries, entry_order);
    for (size_t i = 1; i < store->n; i++)
        if (strcmp(entries[i - 1].name, entries[i].name) == 0)
            TRY(check_twins(ctx, store, &entries[i - 1], &entries[i]));
    size_t kept = 1;
    for (size_t i = 1; i < store->n; i++) {
        if (strcmp(entries[kept - 1].name, entries[i].name) != 0) {
            entries[kept++] = entries[i];
            continue;
        }
        zoe_entry_free(&entries[i]);
    }
    store->n = kept;
    return ZOE_OK;
}

zoe_status zoe_names_apply(zoe_context *ctx, zoe_store *store, zoe_names names)
{
    if (names != ZOE_NAMES_AS_STORED) {
        if ((size_t)names >= sizeof kinds / sizeof *kinds)
            return zoe_fail(ctx, ZOE_INVALID, "%s: no such set of names: %d", store->path,
                            (int)names);
        for (size_t i = 0; i < store->n; i++)
            store->entries[i].name = strip(store->entries[i].stored, kinds[names].prefixes);
        const zoe_name_table *const *table = kinds[names].tables;
        while (*table && !has_sign(store, *table))
            table++;
        for (size_t i = 0; i < store->n && *table; i++)
            TRY(translate(ctx, &store->entries[i], *table));
    }
    return settle(ctx, store);
}
