/* Writes a network of random weights in bf16, of any size, as safetensors: for measurements of memory
 * and speed that need a model of published size and no published model.
 *
 *     random_model wan FILE [NAME=N ...]     a Wan transformer: dim, ffn, layers, in, out, freq, text;
 *                                            first those of TI2V-5B (10 GB)
 *     random_model umt5 FILE [NAME=N ...]    an umT5 encoder: dim, ffn, layers, heads, vocab; first
 *                                            those of umT5-XXL (11 GB) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

enum { TENSORS = 4096, NAME = 64 };

typedef struct setting {
    const char *name;
    size_t value;
} setting;

typedef struct model {
    zoe_named_tensor *items;
    char (*names)[NAME];
    size_t n;
    size_t most;            /* elements of the largest tensor */
    uint16_t *small, *ones; /* what the values are taken from */
} model;

static void *take(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p) {
        fprintf(stderr, "random_model: no memory\n");
        exit(1);
    }
    return p;
}

static void add(model *m, const char *prefix, const char *name, int rank, const size_t *shape)
{
    zoe_named_tensor *t = &m->items[m->n];
    if (m->n == TENSORS) {
        fprintf(stderr, "random_model: more than %d tensors\n", (int)TENSORS);
        exit(2);
    }
    snprintf(m->names[m->n], NAME, "%s%s", prefix, name);
    t->name = m->names[m->n++];
    t->tensor = zoe_tensor_of(NULL, ZOE_BF16, rank, shape);
    const size_t count = zoe_tensor_count(t->tensor);
    m->most = count > m->most ? count : m->most;
}

static void add_vector(model *m, const char *prefix, const char *name, size_t n)
{
    add(m, prefix, name, 1, (size_t[]){n});
}

static void add_matrix(model *m, const char *prefix, const char *name, size_t out, size_t in)
{
    add(m, prefix, name, 2, (size_t[]){out, in});
}

static void add_linear(model *m, const char *prefix, const char *name, size_t out, size_t in)
{
    char full[NAME];
    snprintf(full, sizeof full, "%s.weight", name);
    add_matrix(m, prefix, full, out, in);
    snprintf(full, sizeof full, "%s.bias", name);
    add_vector(m, prefix, full, out);
}

static size_t of(const setting *list, const char *name)
{
    while (strcmp(list->name, name) != 0)
        list++;
    return list->value;
}

static void add_attention(model *m, const char *prefix, const char *part, size_t D)
{
    static const char *const linears[] = {"q", "k", "v", "o"};
    static const char *const norms[] = {"norm_q.weight", "norm_k.weight"};
    char full[NAME];
    for (size_t i = 0; i < 4; i++) {
        snprintf(full, sizeof full, "%s.%s", part, linears[i]);
        add_linear(m, prefix, full, D, D);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(full, sizeof full, "%s.%s", part, norms[i]);
        add_vector(m, prefix, full, D);
    }
}

static void lay_out_wan(model *m, const setting *s)
{
    const size_t D = of(s, "dim"), N = of(s, "ffn");
    for (size_t i = 0; i < of(s, "layers"); i++) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
        add(m, prefix, "modulation", 3, (size_t[]){1, 6, D});
        add_attention(m, prefix, "self_attn", D);
        add_attention(m, prefix, "cross_attn", D);
        add_vector(m, prefix, "norm3.weight", D);
        add_vector(m, prefix, "norm3.bias", D);
        add_linear(m, prefix, "ffn.0", N, D);
        add_linear(m, prefix, "ffn.2", D, N);
    }
    add(m, "", "patch_embedding.weight", 5, (size_t[]){D, of(s, "in"), 1, 2, 2});
    add_vector(m, "", "patch_embedding.bias", D);
    add_linear(m, "", "text_embedding.0", D, of(s, "text"));
    add_linear(m, "", "text_embedding.2", D, D);
    add_linear(m, "", "time_embedding.0", D, of(s, "freq"));
    add_linear(m, "", "time_embedding.2", D, D);
    add_linear(m, "", "time_projection.1", 6 * D, D);
    add_linear(m, "", "head.head", 4 * of(s, "out"), D);
    add(m, "", "head.modulation", 3, (size_t[]){1, 2, D});
}

static void lay_out_umt5(model *m, const setting *s)
{
    const size_t D = of(s, "dim"), N = of(s, "ffn");
    for (size_t i = 0; i < of(s, "layers"); i++) {
        static const char *const squares[] = {"attn.q.weight", "attn.k.weight", "attn.v.weight",
                                              "attn.o.weight"};
        char prefix[40];
        snprintf(prefix, sizeof prefix, "blocks.%zu.", i);
        add_vector(m, prefix, "norm1.weight", D);
        for (size_t j = 0; j < 4; j++)
            add_matrix(m, prefix, squares[j], D, D);
        add_vector(m, prefix, "norm2.weight", D);
        add_matrix(m, prefix, "ffn.gate.0.weight", N, D);
        add_matrix(m, prefix, "ffn.fc1.weight", N, D);
        add_matrix(m, prefix, "ffn.fc2.weight", D, N);
        add_matrix(m, prefix, "pos_embedding.embedding.weight", 32, of(s, "heads"));
    }
    add_matrix(m, "", "token_embedding.weight", of(s, "vocab"), D);
    add_vector(m, "", "norm.weight", D);
}

/* Norms are near 1, all else is small. Every tensor is a piece of one run of random numbers, so that
 * the largest is what memory must hold; each begins at a place of its own. */
static void fill(model *m)
{
    const size_t room = m->most + 64 * TENSORS, longest = 1u << 20;
    uint16_t *small = m->small = take(room, sizeof *small);
    uint16_t *ones = m->ones = take(longest, sizeof *ones);
    uint64_t x = 1;
    for (size_t i = 0; i < room; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const float unit = (float)(x >> 40) / (float)(1u << 23) - 1.0f;
        small[i] = zoe_bf16_of_f32(0.03f * unit);
        if (i < longest)
            ones[i] = zoe_bf16_of_f32(1.0f + 0.1f * unit);
    }
    for (size_t i = 0; i < m->n; i++) {
        const bool norm = strstr(m->names[i], "norm") && strstr(m->names[i], "weight");
        m->items[i].tensor.data = norm ? ones : small + 64 * i;
    }
}

static int usage(void)
{
    fprintf(stderr, "random_model: wanted: wan|umt5 FILE [NAME=N ...]\n");
    return 2;
}

static bool set(setting *list, const char *text)
{
    const char *equals = strchr(text, '=');
    for (; equals && list->name; list++)
        if (strlen(list->name) == (size_t)(equals - text) &&
            strncmp(list->name, text, (size_t)(equals - text)) == 0)
            return sscanf(equals + 1, "%zu", &list->value) == 1 && list->value > 0;
    return false;
}

int main(int argc, char **argv)
{
    setting wan[] = {{"dim", 3072}, {"ffn", 14336}, {"layers", 30}, {"in", 48},
                     {"out", 48},   {"freq", 256},  {"text", 4096}, {NULL, 0}};
    setting umt5[] = {{"dim", 4096}, {"ffn", 10240},    {"layers", 24},
                      {"heads", 64}, {"vocab", 256384}, {NULL, 0}};
    if (argc < 3 || (strcmp(argv[1], "wan") != 0 && strcmp(argv[1], "umt5") != 0))
        return usage();
    const bool transformer = strcmp(argv[1], "wan") == 0;
    for (int i = 3; i < argc; i++)
        if (!set(transformer ? wan : umt5, argv[i]))
            return usage();
    model m = {.items = take(TENSORS, sizeof *m.items), .names = take(TENSORS, sizeof *m.names)};
    if (transformer)
        lay_out_wan(&m, wan);
    else
        lay_out_umt5(&m, umt5);
    fill(&m);
    zoe_context *ctx = zoe_context_new(1);
    const bool written =
        ctx && zoe_safetensors_write(ctx, argv[2], m.items, m.n, NULL, 0) == ZOE_OK;
    if (!written)
        fprintf(stderr, "random_model: %s\n", ctx ? zoe_context_message(ctx) : "no memory");
    zoe_context_free(ctx);
    free(m.ones);
    free(m.small);
    free(m.names);
    free(m.items);
    return written ? 0 : 1;
}
