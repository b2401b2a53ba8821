/* Groups: lists of ranks of a world. */
#include "comm/group.h"

static zoe_status grow(zoe_context *ctx, void **p, size_t *room, size_t n, size_t size)
{
    if (n <= *room)
        return ZOE_OK;
    const size_t more = n + n / 2;
    void *q;
    TRY(zoe_alloc(ctx, &q, more, size, "exchange"));
    zoe_free(*p);
    *p = q;
    *room = more;
    return ZOE_OK;
}

zoe_status zoe_member_messages(zoe_context *ctx, zoe_member *m, size_t n)
{
    void *p = m->messages;
    TRY(grow(ctx, &p, &m->n_messages, n, sizeof *m->messages));
    m->messages = p;
    return ZOE_OK;
}

zoe_status zoe_member_pieces(zoe_context *ctx, zoe_member *m, size_t n)
{
    void *p = m->pieces;
    TRY(grow(ctx, &p, &m->n_pieces, n, sizeof *m->pieces));
    m->pieces = p;
    return ZOE_OK;
}

zoe_status zoe_member_values(zoe_context *ctx, zoe_member *m, size_t n)
{
    void *p = m->values;
    TRY(grow(ctx, &p, &m->n_values, n, sizeof *m->values));
    m->values = p;
    return ZOE_OK;
}

zoe_status zoe_comm_over_with(zoe_context *ctx, zoe_comm **comm, zoe_transport *t, bool closes)
{
    void *c, *m;
    *comm = NULL;
    TRY(zoe_alloc_zero(ctx, &m, 1, sizeof(zoe_member), "rank"));
    if (zoe_alloc_zero(ctx, &c, 1, sizeof(zoe_comm), "rank") != ZOE_OK) {
        zoe_free(m);
        return ZOE_NOMEM;
    }
    zoe_member *member = m;
    member->transport = t;
    member->blamed.rank = SIZE_MAX;
    *comm = c;
    **comm = (zoe_comm){.member = member, .size = t->size, .rank = t->rank, .closes = closes};
    return ZOE_OK;
}

zoe_status zoe_comm_over(zoe_context *ctx, zoe_comm **comm, zoe_transport *t)
{
    return zoe_comm_over_with(ctx, comm, t, true);
}

void zoe_comm_release(zoe_comm *comm)
{
    if (!comm)
        return;
    zoe_free(comm->member->messages);
    zoe_free(comm->member->pieces);
    zoe_free(comm->member->values);
    zoe_free(comm->member);
    zoe_free(comm);
}

void zoe_comm_close(zoe_comm *comm)
{
    if (!comm || !comm->closes)
        return;
    zoe_transport *t = comm->member->transport;
    t->functions->close(t);
    zoe_comm_release(comm);
}

size_t zoe_comm_size(const zoe_comm *comm)
{
    return comm ? comm->size : 1;
}

size_t zoe_comm_rank(const zoe_comm *comm)
{
    return comm ? comm->rank : 0;
}

size_t zoe_comm_world_rank(const zoe_comm *comm, size_t rank)
{
    return comm && comm->world ? comm->world[rank] : rank;
}

void zoe_comm_fail(zoe_comm *comm, const char *message)
{
    if (comm) {
        zoe_transport *t = comm->member->transport;
        t->functions->fail(t, message);
    }
}

zoe_culprit zoe_comm_culprit(const zoe_comm *comm)
{
    if (!comm)
        return (zoe_culprit){.rank = SIZE_MAX};
    if (comm->member->blamed.rank != SIZE_MAX)
        return comm->member->blamed;
    zoe_transport *t = comm->member->transport;
    return t->functions->culprit(t);
}

void zoe_comm_blame(zoe_comm *comm, size_t rank)
{
    if (comm && comm->member->blamed.rank == SIZE_MAX)
        comm->member->blamed =
            (zoe_culprit){.rank = zoe_comm_world_rank(comm, rank), .found = true};
}

zoe_traffic zoe_comm_traffic(const zoe_comm *comm)
{
    return comm ? comm->member->traffic : (zoe_traffic){0};
}

/* Where the caller stands in the list; count if he does not, or the list is none. */
static size_t place_of(zoe_context *ctx, const zoe_comm *comm, const size_t *ranks, size_t count)
{
    const size_t size = zoe_comm_size(comm), own = zoe_comm_rank(comm);
    size_t place = count;
    for (size_t i = 0; i < count; i++) {
        if (ranks[i] >= size) {
            zoe_note_failure(ctx, "group: rank %zu of %zu", ranks[i], size);
            return count;
        }
        for (size_t j = 0; j < i; j++)
            if (ranks[j] == ranks[i]) {
                zoe_note_failure(ctx, "group: rank %zu is in it twice", ranks[i]);
                return count;
            }
        if (ranks[i] == own)
            place = i;
    }
    if (place == count)
        zoe_note_failure(ctx, "group: rank %zu, which makes it, is not in it", own);
    return place;
}

zoe_status zoe_comm_group(zoe_context *ctx, zoe_comm **group, zoe_comm *comm, const size_t *ranks,
                          size_t count)
{
    *group = NULL;
    const size_t place = place_of(ctx, comm, ranks, count);
    if (place == count)
        return ZOE_INVALID;
    if (count == 1)
        return ZOE_OK;
    void *p, *list;
    TRY(zoe_alloc(ctx, &list, count, sizeof(size_t), "group"));
    if (zoe_alloc(ctx, &p, 1, sizeof(zoe_comm), "group") != ZOE_OK) {
        zoe_free(list);
        return ZOE_NOMEM;
    }
    zoe_comm *g = p;
    *g = (zoe_comm){.member = comm->member, .size = count, .rank = place, .world = list};
    for (size_t i = 0; i < count; i++)
        g->world[i] = zoe_comm_world_rank(comm, ranks[i]);
    *group = g;
    return ZOE_OK;
}

zoe_status zoe_comm_group_every(zoe_context *ctx, zoe_comm **group, zoe_comm *comm, size_t stride,
                                size_t count)
{
    const size_t size = zoe_comm_size(comm), rank = zoe_comm_rank(comm);
    size_t span;
    void *p;
    *group = NULL;
    if (stride == 0 || count == 0 || !zoe_size_mul(&span, stride, count) || size % span != 0)
        return zoe_fail(ctx, ZOE_INVALID, "group: %zu ranks cannot be dealt in %zu x %zu", size,
                        stride, count);
    TRY(zoe_alloc(ctx, &p, count, sizeof(size_t), "group"));
    size_t *ranks = p;
    for (size_t i = 0; i < count; i++)
        ranks[i] = rank - rank % span + rank % stride + i * stride;
    const zoe_status status = zoe_comm_group(ctx, group, comm, ranks, count);
    zoe_free(ranks);
    return status;
}

void zoe_comm_group_free(zoe_comm *group)
{
    if (!group || !group->world)
        return;
    zoe_free(group->world);
    zoe_free(group);
}

zoe_span zoe_share(size_t n, size_t parts, size_t i)
{
    const size_t base = n / parts, more = n % parts;
    return (zoe_span){.first = base * i + (i < more ? i : more), .count = base + (i < more)};
}
