/* Tickets become messages of MPI. */
#include <limits.h>
#include <stdlib.h>

#include "comm/mpi/world.h"

enum {
    TAG_DATA = 1,
    PART = 64 << 20 /* far from INT_MAX, and little work for the engine of MPI */
};

/* Messages of MPI for one of the program. */
static size_t parts_of(size_t bytes)
{
    return bytes <= PART ? 1 : 1 + (bytes - 1) / PART + 1;
}

static zoe_mpi_part *cut(zoe_mpi_part *part, zoe_message m, bool receive)
{
    const zoe_mpi_part like = {.peer = (int)m.peer, .whole = m.bytes, .receive = receive};
    bool first = true;
    if (m.bytes > PART) {
        *part = like;
        part->announced = m.bytes;
        part->bytes = sizeof part->announced;
        part++->first = true;
        first = false;
    }
    size_t at = 0;
    do {
        const size_t bytes = m.bytes - at < PART ? m.bytes - at : PART;
        *part = like;
        part->data = (unsigned char *)m.data + at;
        part->bytes = (int)bytes;
        part++->first = first;
        at += bytes;
    } while (at < m.bytes);
    return part;
}

zoe_mpi_ticket *zoe_mpi_ticket_new(const zoe_message *sends, size_t n_sends,
                                   const zoe_message *recvs, size_t n_recvs)
{
    size_t n = 0;
    for (size_t i = 0; i < n_recvs; i++)
        n += parts_of(recvs[i].bytes);
    for (size_t i = 0; i < n_sends; i++)
        n += parts_of(sends[i].bytes);
    if (n > INT_MAX)
        return NULL;
    zoe_mpi_ticket *t = calloc(1, sizeof *t);
    void *parts = calloc(n ? n : 1, sizeof *t->parts + sizeof *t->statuses + sizeof *t->requests +
                                        sizeof *t->which);
    if (!t || !parts) {
        free(t);
        free(parts);
        return NULL;
    }
    /* In falling order of alignment. */
    t->parts = parts;
    t->statuses = (MPI_Status *)(t->parts + n);
    t->requests = (MPI_Request *)(t->statuses + n);
    t->which = (int *)(t->requests + n);
    t->n = t->left = (int)n;
    zoe_mpi_part *part = t->parts;
    for (size_t i = 0; i < n_recvs; i++)
        part = cut(part, recvs[i], true);
    for (size_t i = 0; i < n_sends; i++)
        part = cut(part, sends[i], false);
    return t;
}

void zoe_mpi_queue_put(zoe_mpi_queue *queue, zoe_mpi_ticket *ticket)
{
    ticket->next = NULL;
    if (queue->first)
        queue->last->next = ticket;
    else
        queue->first = ticket;
    queue->last = ticket;
}

void zoe_mpi_post(zoe_mpi_world *w, zoe_mpi_ticket *t)
{
    int error = MPI_SUCCESS;
    for (int i = 0; i < t->n; i++)
        t->requests[i] = MPI_REQUEST_NULL;
    zoe_mpi_queue_put(&w->active, t);
    for (int i = 0; i < t->n && error == MPI_SUCCESS; i++) {
        zoe_mpi_part *p = &t->parts[i];
        void *data = p->data ? p->data : &p->announced;
        zoe_mpi_peer *peer = &w->peers[p->peer];
        if (p->receive)
            error = MPI_Irecv(data, p->bytes, MPI_BYTE, p->peer, TAG_DATA, MPI_COMM_WORLD,
                              &t->requests[i]);
        else
            error = MPI_Isend(data, p->bytes, MPI_BYTE, p->peer, TAG_DATA, MPI_COMM_WORLD,
                              &t->requests[i]);
        peer->received += p->receive && p->first;
        peer->sent += !p->receive && p->first;
        zoe_mpi_check_peer(w, (size_t)p->peer);
    }
    if (error != MPI_SUCCESS)
        zoe_mpi_fail_mpi(w, error, "an exchange");
}

/* Is a received part what the other side should have sent? */
static void check_part(zoe_mpi_world *w, const zoe_mpi_part *p, const MPI_Status *status, int error)
{
    int class = MPI_SUCCESS, bytes = 0;
    if (error != MPI_SUCCESS)
        MPI_Error_class(error, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) {
        zoe_mpi_fail_mpi(w, error, p->receive ? "receiving" : "sending");
        return;
    }
    if (!p->receive)
        return;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (class == MPI_ERR_TRUNCATE || bytes != p->bytes || (!p->data && p->announced != p->whole)) {
        zoe_mpi_kind kind = zoe_mpi_ours(w);
        kind.internal = true;
        zoe_mpi_fail(w, kind,
                     "rank %d sent another number of bytes than the %zu that were expected",
                     p->peer, p->whole);
    }
}

/* Whether requests of the ticket have come to an end. */
static bool test(zoe_mpi_world *w, zoe_mpi_ticket *t)
{
    int n = 0;
    const int error = MPI_Testsome(t->n, t->requests, &n, t->which, t->statuses);
    if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) {
        zoe_mpi_fail_mpi(w, error, "an exchange");
        return false;
    }
    if (n == MPI_UNDEFINED)
        n = 0;
    for (int i = 0; i < n; i++) {
        const MPI_Status *status = &t->statuses[i];
        check_part(w, &t->parts[t->which[i]], status,
                   error == MPI_SUCCESS ? MPI_SUCCESS : status->MPI_ERROR);
    }
    t->left -= n;
    return n > 0;
}

bool zoe_mpi_advance(zoe_mpi_world *w)
{
    bool moved = false;
    zoe_mpi_queue still = {0};
    if (!w->active.first)
        return false;
    const double begun = zoe_mpi_now();
    for (zoe_mpi_ticket *t = w->active.first, *next; t; t = next) {
        next = t->next;
        moved |= test(w, t);
        /* After a failure nothing ends well: what it was may be what failed. */
        pthread_mutex_lock(&w->lock);
        if (t->left == 0 && !w->failed) {
            t->over = true;
            t->ended = zoe_mpi_now();
            pthread_cond_broadcast(&w->news);
        } else {
            zoe_mpi_queue_put(&still, t);
        }
        pthread_mutex_unlock(&w->lock);
    }
    w->active = still;
    /* A test that takes long has carried bytes, though no message has come to its end. */
    const double seconds = zoe_mpi_now() - begun;
    w->floor = seconds < w->floor ? seconds : w->floor * 1.001;
    return moved || seconds > 4.0 * w->floor + 2e-6;
}
