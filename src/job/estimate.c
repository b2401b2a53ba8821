/* Time of a pass on one of several ranks. A message costs latency, and bytes the bandwidth; a product
 * costs the time to go through its weight, and then its rows; attention and exchanges of a ring run
 * beside each other as comm/sequence_ring.c has them. */
#include "job/estimate.h"

double zoe_estimate_exchange(const zoe_speeds *s, double messages, double bytes)
{
    return messages * s->latency + bytes / s->bandwidth;
}

double zoe_estimate_broadcast(const zoe_speeds *s, size_t ranks, double bytes)
{
    size_t levels = 0;
    for (size_t reached = 1; reached < ranks; reached *= 2)
        levels++;
    return (double)levels * zoe_estimate_exchange(s, 1, bytes);
}

double zoe_estimate_products(const zoe_speeds *s, double rows, double elements)
{
    return rows > 0 ? elements * (s->weight + 2.0 * rows / s->product) : 0.0;
}

/* Attention of so many queries to keys, with heads of this width together. */
static double attention(const zoe_speeds *s, double queries, double keys, double width)
{
    return 4.0 * queries * keys * width / s->attention;
}

/* Self-attention of one block over a ring: what it computes, and how long it waits. */
typedef struct ring_time {
    double computes, waits, hidden;
} ring_time;

static ring_time ring_of(const zoe_pass_sizes *z, const zoe_place *place, const zoe_speeds *s,
                         size_t heads)
{
    const size_t parts = zoe_sequence_parts(place), others = place->ring - 1;
    const double own = (double)zoe_sequence_part(place, 0, z->tokens);
    const double width = (double)heads * (double)(z->dim / z->heads);
    const double row = 2.0 * width * (double)z->element; /* keys and values of a token */
    double now = 0.0, comes = 0.0, travels = 0.0;
    ring_time t = {0};
    for (size_t p = 0; p < parts; p++) {
        const double tokens = (double)zoe_sequence_part(place, p, z->tokens);
        const double computes = attention(s, own, tokens, width);
        double next = 0.0;
        if (place->stepwise && p + 1 < parts) /* what is at hand is passed on meanwhile */
            next = zoe_estimate_exchange(s, 1, tokens * row);
        if (!place->stepwise && p > 0) { /* all are under way from the beginning */
            const double share = (double)zoe_share(others, parts - 1, p - 1).count;
            const double takes = zoe_estimate_exchange(s, share, tokens * row);
            comes += takes;
            travels += takes;
            now = comes > now ? comes : now;
        }
        travels += next;
        t.computes += computes;
        now += computes > next ? computes : next;
    }
    t.waits = now - t.computes;
    t.hidden = travels - t.waits;
    return t;
}

zoe_pass_time zoe_estimate_pass(const zoe_pass_sizes *z, const zoe_place *place,
                                const zoe_speeds *s)
{
    const size_t U = place->ulysses, head_width = z->dim / z->heads;
    const double L = (double)zoe_place_tokens(place, z->tokens).count, D = (double)z->dim;
    const double layers = (double)z->layers;
    const size_t heads = zoe_share(z->heads, U, place->rank % U).count;
    const double block = 6.0 * D * D + 2.0 * D * (double)z->ffn_dim;
    const double ends = D * (double)(z->in + z->out);
    const ring_time ring = ring_of(z, place, s, heads);
    const double to_heads =
        (double)zoe_sequence_ulysses_sent(place, z->tokens, z->heads, head_width, z->element);
    const double ranks = (double)(U * place->ring);
    zoe_pass_time t = {.products = layers * zoe_estimate_products(s, L, block) +
                                   zoe_estimate_products(s, L, ends),
                       .weights = (layers * block + ends) * s->weight,
                       .attention = layers * (ring.computes + attention(s, L, (double)z->keys, D)),
                       .ring = layers * ring.waits,
                       .hidden = layers * ring.hidden};
    if (U > 1)
        t.ulysses = layers * zoe_estimate_exchange(s, 2.0 * (double)(U - 1), to_heads);
    if (ranks > 1)
        t.head =
            zoe_estimate_exchange(s, ranks - 1, (ranks - 1) * L * (double)z->out * sizeof(float));
    t.total = t.products + t.attention + t.ulysses + t.ring + t.head;
    return t;
}
