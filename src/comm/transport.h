/* Inside comm: what carries bytes between the ranks of a world. */
#ifndef ZOE_COMM_TRANSPORT_H
#define ZOE_COMM_TRANSPORT_H

#include "comm/comm.h"

/* A message for or from a rank of the world. */
typedef struct zoe_message {
    size_t peer;
    void *data;
    size_t bytes;
} zoe_message;

/* Functions return a status and write the sentence of a failure, at most `room` bytes, into text;
 * the callers put it into a context. */
typedef struct zoe_transport zoe_transport;
typedef struct zoe_transport_functions {
    /* Posts messages; *ticket stands for them until wait, which it must be given to. Order between
     * two ranks is that of posting. */
    zoe_status (*start)(zoe_transport *t, void **ticket, const zoe_message *sends, size_t n_sends,
                        const zoe_message *recvs, size_t n_recvs, char *text, size_t room);
    /* cancelled(user) is asked a few times a second. The ticket is gone afterwards. *ended is set to
     * when all of it was there, a time of zoe_now that may lie before the call. */
    zoe_status (*wait)(zoe_transport *t, void *ticket, bool (*cancelled)(void *user), void *user,
                       double *ended, char *text, size_t room);
    void (*fail)(zoe_transport *t, const char *message);
    zoe_culprit (*culprit)(zoe_transport *t); /* of the failure that it ends everything with */
    void (*close)(zoe_transport *t);
} zoe_transport_functions;

/* A rank of the world; each waits for all that it starts, also after an error. */
struct zoe_transport {
    const zoe_transport_functions *functions;
    size_t size, rank;
};

/* A loadable module exports one function of this name and type. `abi` is ZOE_TRANSPORT_ABI of the
 * program: another one than the module's own is an error. */
#define ZOE_TRANSPORT_ABI 2
#define ZOE_TRANSPORT_ENTRY "zoe_transport_open"
typedef zoe_status (*zoe_transport_open_fn)(zoe_transport **t, int abi, char *text, size_t room);

/* The world's comm over a transport, which zoe_comm_close closes. */
zoe_status zoe_comm_over(zoe_context *ctx, zoe_comm **comm, zoe_transport *t);

#endif
