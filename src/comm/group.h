/* Inside comm: what a zoe_comm is. */
#ifndef ZOE_COMM_GROUP_H
#define ZOE_COMM_GROUP_H

#include "comm/transport.h"

/* A rank, once, whatever groups it is in. Its arrays grow when more is needed than ever before. */
typedef struct zoe_member {
    zoe_transport *transport;
    zoe_traffic traffic;
    zoe_message *messages;
    zoe_piece *pieces;
    double *values;
    size_t n_messages, n_pieces, n_values; /* what there is room for */
    zoe_culprit blamed; /* whose failure was agreed on, or found by all; rank SIZE_MAX: nobody's */
} zoe_member;

struct zoe_comm {
    zoe_member *member;
    size_t size, rank;
    size_t *world; /* numbers of its ranks among all; NULL: the same numbers */
    bool closes;   /* zoe_comm_close ends it; else its world does */
};

/* zoe_comm_over; closes: as in the comm. */
zoe_status zoe_comm_over_with(zoe_context *ctx, zoe_comm **comm, zoe_transport *t, bool closes);
void zoe_comm_release(zoe_comm *comm); /* the world's, without its transport */

/* Room for n of them in the member's array, which may move. */
zoe_status zoe_member_messages(zoe_context *ctx, zoe_member *m, size_t n);
zoe_status zoe_member_pieces(zoe_context *ctx, zoe_member *m, size_t n);
zoe_status zoe_member_values(zoe_context *ctx, zoe_member *m, size_t n);

/* zoe_exchange_wait that does not look at whether the context is cancelled, for what must be said
 * all the same. */
zoe_status zoe_exchange_wait_always(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange);

#endif
