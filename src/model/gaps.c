/* What a store lacks of a network, and what it has besides. */
#include <stdio.h>

#include "model/vae.h"

typedef struct search {
    const zoe_store *store;
    zoe_gap_fn see;
    void *user;
} search;

/* "prefix" and then "name"; cut where no known name could be as long. */
typedef struct full_name {
    char text[192];
} full_name;

static full_name join(const char *prefix, const char *name)
{
    full_name f;
    snprintf(f.text, sizeof f.text, "%s%s", prefix, name);
    return f;
}

static bool has(const search *s, const char *name)
{
    zoe_tensor t;
    return zoe_store_find(s->store, name, &t);
}

/* Does any name begin so? Names are in byte-wise order. */
static bool has_some(const search *s, const char *prefix)
{
    size_t low = 0, high = zoe_store_count(s->store);
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(zoe_store_name(s->store, middle), prefix) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < zoe_store_count(s->store) &&
           strncmp(zoe_store_name(s->store, low), prefix, strlen(prefix)) == 0;
}

static void want(const search *s, const char *prefix, const char *name)
{
    const full_name f = join(prefix, name);
    if (!has(s, f.text))
        s->see(s->user, f.text, true);
}

/* ---- networks of equal blocks ---- */

static void block_gaps(const search *s, const zoe_names_known *known)
{
    const size_t blocks = zoe_count_blocks(s->store);
    for (size_t i = 0; i + known->optional < known->top_count; i++)
        want(s, "", known->top[i]);
    for (size_t b = 0; b < blocks; b++) {
        char prefix[48];
        snprintf(prefix, sizeof prefix, "blocks.%zu.", b);
        if (!has_some(s, prefix))
            want(s, prefix, "*");
        else
            for (size_t i = 0; i < known->block_count; i++)
                want(s, prefix, known->block[i]);
    }
    if (blocks == 0)
        want(s, "blocks.0.", "*");
    for (size_t i = 0; i < zoe_store_count(s->store); i++) {
        const char *name = zoe_store_name(s->store, i);
        if (!zoe_name_is_known(known, name, blocks))
            s->see(s->user, name, false);
    }
}

/* ---- the VAE ---- */

static const char *const vae_top[] = {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"};
enum { VAE_TOP = sizeof vae_top / sizeof *vae_top };

/* Lists of layers: those of the middle are known, those of the levels are told by their names. */
typedef struct vae_list {
    const char *prefix; /* before the number */
    bool down;
    size_t least; /* so many there must be */
} vae_list;
static const vae_list vae_lists[] = {
    {"encoder.downsamples.", true, 1},
    {"encoder.middle.", true, 3},
    {"decoder.middle.", false, 3},
    {"decoder.upsamples.", false, 1},
};
enum { VAE_LISTS = sizeof vae_lists / sizeof *vae_lists };

/* One list of layers of this VAE. Wan 2.2 has a list inside each level: "decoder.upsamples.0.upsamples." */
typedef struct vae_layers {
    char prefix[64];
    bool down;
    size_t least;
} vae_layers;

/* The i-th list; false behind the last one. */
static bool vae_layers_at(const search *s, size_t i, vae_layers *list)
{
    for (size_t k = 0; k < VAE_LISTS; k++) {
        const vae_list *l = &vae_lists[k];
        const bool level = strstr(l->prefix, "samples.") != NULL;
        const char *inner = strchr(l->prefix, '.') + 1;
        char probe[64];
        snprintf(probe, sizeof probe, "%s0.%s", l->prefix, inner);
        const bool nested = level && has_some(s, probe);
        const size_t count = nested ? zoe_network_blocks(s->store, l->prefix) : 1;
        if (i >= count) {
            i -= count;
            continue;
        }
        *list = (vae_layers){.down = l->down, .least = l->least};
        if (nested)
            snprintf(list->prefix, sizeof list->prefix, "%s%zu.%s", l->prefix, i, inner);
        else
            snprintf(list->prefix, sizeof list->prefix, "%s", l->prefix);
        return true;
    }
    return false;
}

static const struct {
    const char *prefix;
    vae_kind kind;
} vae_single[] = {
    {"encoder.conv1.", VAE_CONV},
    {"encoder.head.", VAE_HEAD},
    {"decoder.conv1.", VAE_CONV},
    {"decoder.head.", VAE_HEAD},
};
enum { VAE_SINGLE = sizeof vae_single / sizeof *vae_single };

static bool is_of_kind(vae_kind kind, const char *name)
{
    for (size_t i = 0; i < VAE_NAMES && zoe_vae_names[kind][i]; i++)
        if (strcmp(name, zoe_vae_names[kind][i]) == 0)
            return true;
    return false;
}

static bool is_shortcut(const char *name)
{
    return strcmp(name, zoe_vae_shortcut_names[0]) == 0 ||
           strcmp(name, zoe_vae_shortcut_names[1]) == 0;
}

/* Kinds that a list may hold; a resampler with a time convolution goes before one without. */
static const vae_kind kinds_down[] = {VAE_RESIDUAL, VAE_ATTENTION, VAE_DOWN3D};
static const vae_kind kinds_up[] = {VAE_RESIDUAL, VAE_ATTENTION, VAE_UP3D};
enum { KINDS = sizeof kinds_up / sizeof *kinds_up };

/* The kind of the layer at this prefix, by any of its tensors. */
static bool kind_at(const search *s, const char *prefix, bool down, vae_kind *kind)
{
    for (size_t k = 0; k < KINDS; k++) {
        *kind = (down ? kinds_down : kinds_up)[k];
        for (size_t i = 0; i < VAE_NAMES && zoe_vae_names[*kind][i]; i++)
            if (has(s, join(prefix, zoe_vae_names[*kind][i]).text)) {
                if (*kind == VAE_DOWN3D && !has_some(s, join(prefix, "time_conv").text))
                    *kind = VAE_DOWN2D;
                if (*kind == VAE_UP3D && !has_some(s, join(prefix, "time_conv").text))
                    *kind = VAE_UP2D;
                return true;
            }
    }
    return false;
}

static void want_layer(const search *s, const char *prefix, vae_kind kind)
{
    for (size_t i = 0; i < VAE_NAMES && zoe_vae_names[kind][i]; i++)
        want(s, prefix, zoe_vae_names[kind][i]);
    if (kind == VAE_RESIDUAL && has_some(s, join(prefix, "shortcut").text))
        for (size_t i = 0; i < 2; i++)
            want(s, prefix, zoe_vae_shortcut_names[i]);
}

static size_t layers_of(const search *s, const vae_layers *list)
{
    return zoe_max(list->least, zoe_network_blocks(s->store, list->prefix));
}

static bool vae_knows(const search *s, const char *name)
{
    for (size_t i = 0; i < VAE_TOP; i++)
        if (strcmp(name, vae_top[i]) == 0)
            return true;
    for (size_t i = 0; i < VAE_SINGLE; i++) {
        const size_t n = strlen(vae_single[i].prefix);
        if (strncmp(name, vae_single[i].prefix, n) == 0)
            return is_of_kind(vae_single[i].kind, name + n);
    }
    vae_layers list;
    for (size_t i = 0; vae_layers_at(s, i, &list); i++) {
        size_t number;
        const char *rest;
        vae_kind kind;
        char prefix[96];
        if (!zoe_name_split(name, list.prefix, &number, &rest))
            continue;
        snprintf(prefix, sizeof prefix, "%s%zu.", list.prefix, number);
        return kind_at(s, prefix, list.down, &kind) &&
               (is_of_kind(kind, rest) || (kind == VAE_RESIDUAL && is_shortcut(rest)));
    }
    return false;
}

static void vae_gaps(const search *s)
{
    for (size_t i = 0; i < VAE_TOP; i++)
        want(s, "", vae_top[i]);
    for (size_t i = 0; i < VAE_SINGLE; i++)
        want_layer(s, vae_single[i].prefix, vae_single[i].kind);
    vae_layers list;
    for (size_t i = 0; vae_layers_at(s, i, &list); i++)
        for (size_t n = layers_of(s, &list), k = 0; k < n; k++) {
            char prefix[96];
            vae_kind kind;
            snprintf(prefix, sizeof prefix, "%s%zu.", list.prefix, k);
            if (kind_at(s, prefix, list.down, &kind))
                want_layer(s, prefix, kind);
            else
                want(s, prefix, "*");
        }
    for (size_t i = 0; i < zoe_store_count(s->store); i++)
        if (!vae_knows(s, zoe_store_name(s->store, i)))
            s->see(s->user, zoe_store_name(s->store, i), false);
}

size_t zoe_network_blocks(const zoe_store *store, const char *prefix)
{
    size_t count = 0;
    for (size_t i = 0; i < zoe_store_count(store); i++) {
        size_t number;
        const char *rest;
        if (zoe_name_split(zoe_store_name(store, i), prefix, &number, &rest))
            count = zoe_max(count, number + 1);
    }
    return count;
}

void zoe_network_gaps(const zoe_store *store, zoe_network network, zoe_gap_fn see, void *user)
{
    const search s = {store, see, user};
    switch (network) {
    case ZOE_NETWORK_WAN: block_gaps(&s, zoe_wan_names(s.store)); break;
    case ZOE_NETWORK_UMT5: block_gaps(&s, &zoe_umt5_names); break;
    case ZOE_NETWORK_VAE: vae_gaps(&s); break;
    }
}
