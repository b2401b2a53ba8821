/* Weights of three-dimensional convolutions that a file holds with four dimensions. */
#include "store/content.h"

#include <stdio.h>

/* The number of outputs: the elements of the bias beside the weight. 0: it is no such weight. */
static size_t outputs_of(const zoe_store *store, const char *weight)
{
    static const char end[] = ".weight";
    char bias[512];
    const size_t n = strlen(weight), m = sizeof end - 1;
    if (n <= m || strcmp(weight + n - m, end) != 0 || n >= sizeof bias)
        return 0;
    snprintf(bias, sizeof bias, "%.*s.bias", (int)(n - m), weight);
    const zoe_entry *entry = zoe_store_entry(store, bias);
    return entry && entry->tensor.rank == 1 ? entry->tensor.shape[0] : 0;
}

static void unfold(const zoe_store *store, zoe_entry *entry)
{
    const size_t *s = entry->tensor.shape, outputs = outputs_of(store, entry->name);
    const bool patches = strcmp(entry->name, "patch_embedding.weight") == 0;
    size_t shape[5];
    if (outputs == 0)
        return;
    /* A picture's convolution has as many rows as outputs and stays as it is, but for that of a
     * transformer, whose patches are always one frame deep. */
    if (s[0] != outputs && s[0] % outputs == 0)
        memcpy(shape, (size_t[]){outputs, s[0] / outputs, s[1], s[2], s[3]}, sizeof shape);
    else if (s[0] == outputs && patches)
        memcpy(shape, (size_t[]){s[0], s[1], 1, s[2], s[3]}, sizeof shape);
    else
        return;
    entry->tensor = zoe_tensor_of(entry->tensor.data, entry->tensor.dtype, 5, shape);
}

void zoe_convolutions_unfold(zoe_store *store)
{
    for (size_t i = 0; i < store->n; i++)
        if (store->entries[i].tensor.rank == 4)
            unfold(store, &store->entries[i]);
}
