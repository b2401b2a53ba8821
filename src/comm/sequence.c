/* Tokens and heads of one sequence over ranks: who has which, and what travels. */
#include "comm/sequence.h"

zoe_status zoe_sequence_new(zoe_context *ctx, zoe_sequence *sequence, zoe_comm *ranks,
                            size_t ulysses, size_t ring, bool stepwise)
{
    size_t wanted;
    *sequence = (zoe_sequence){0};
    if (ulysses == 0 || ring == 0 || !zoe_size_mul(&wanted, ulysses, ring) ||
        wanted != zoe_comm_size(ranks))
        return zoe_fail(ctx, ZOE_INVALID, "sequence: %zu x %zu ranks wanted, there are %zu",
                        ulysses, ring, zoe_comm_size(ranks));
    *sequence = (zoe_sequence){.ranks = ranks, .stepwise = stepwise};
    zoe_status status = zoe_comm_group_every(ctx, &sequence->ulysses, ranks, 1, ulysses);
    if (status == ZOE_OK)
        status = zoe_comm_group_every(ctx, &sequence->ring, ranks, ulysses, ring);
    if (status != ZOE_OK)
        zoe_sequence_free(sequence);
    return status;
}

void zoe_sequence_free(zoe_sequence *sequence)
{
    zoe_comm_group_free(sequence->ulysses);
    zoe_comm_group_free(sequence->ring);
    *sequence = (zoe_sequence){0};
}

zoe_place zoe_place_of(const zoe_sequence *s)
{
    if (!s)
        return (zoe_place){.ulysses = 1, .ring = 1};
    const size_t U = zoe_comm_size(s->ulysses);
    return (zoe_place){.ulysses = U,
                       .ring = zoe_comm_size(s->ring),
                       .rank = zoe_comm_rank(s->ulysses) + U * zoe_comm_rank(s->ring),
                       .stepwise = s->stepwise};
}

zoe_span zoe_place_tokens(const zoe_place *place, size_t tokens)
{
    return zoe_share(tokens, place->ulysses * place->ring, place->rank);
}

zoe_span zoe_sequence_tokens(const zoe_sequence *sequence, size_t tokens)
{
    const zoe_place place = zoe_place_of(sequence);
    return zoe_place_tokens(&place, tokens);
}

zoe_span zoe_place_chunk(const zoe_place *place, size_t chunk, size_t tokens)
{
    const size_t U = place->ulysses, ranks = U * place->ring;
    const zoe_span first = zoe_share(tokens, ranks, U * chunk);
    const zoe_span last = zoe_share(tokens, ranks, U * chunk + U - 1);
    return (zoe_span){first.first, last.first + last.count - first.first};
}

uint64_t zoe_sequence_ulysses_sent(const zoe_place *place, size_t tokens, size_t heads,
                                   size_t width, size_t element)
{
    const size_t U = place->ulysses;
    const size_t mine = zoe_place_tokens(place, tokens).count;
    const size_t few = zoe_share(heads, U, place->rank % U).count;
    const size_t chunk = zoe_place_chunk(place, place->rank / U, tokens).count;
    uint64_t rows = 3 * (uint64_t)mine * (heads - few); /* of one head: to the heads */
    rows += (uint64_t)(chunk - mine) * few;             /* and back to the tokens */
    return rows * width * element;
}

uint64_t zoe_sequence_attention_sent(const zoe_place *place, size_t tokens, size_t heads,
                                     size_t width, size_t element)
{
    const size_t U = place->ulysses, R = place->ring, own = place->rank / U;
    const size_t few = zoe_share(heads, U, place->rank % U).count;
    const size_t chunk = zoe_place_chunk(place, own, tokens).count;
    uint64_t rows = 0; /* of one head, round the ring */
    for (size_t step = 0; step + 1 < R; step++) {
        const size_t other = (own + step + 1) % R;
        const size_t passed = (own + R - step) % R;
        if (place->stepwise)
            rows += 2 * (uint64_t)zoe_place_chunk(place, passed, tokens).count * few;
        else if (zoe_place_chunk(place, other, tokens).count > 0)
            rows += 2 * (uint64_t)chunk * few;
    }
    return rows * width * element + zoe_sequence_ulysses_sent(place, tokens, heads, width, element);
}

/* As much of it as parts are told by. */
static zoe_shares shares_of(const zoe_place *place, size_t tokens)
{
    const size_t own = place->rank / place->ulysses;
    return (zoe_shares){
        .at = *place, .place = own, .tokens = tokens, .chunk = zoe_place_chunk(place, own, tokens)};
}

size_t zoe_sequence_parts(const zoe_place *place)
{
    const zoe_shares s = shares_of(place, 0);
    return zoe_ring_parts(&s);
}

size_t zoe_sequence_part(const zoe_place *place, size_t p, size_t tokens)
{
    const zoe_shares s = shares_of(place, tokens);
    return zoe_ring_part_tokens(&s, p);
}
