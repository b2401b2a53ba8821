/* The MPI module: a shared object for one MPI, loaded by comm/load.c when a job was started by
 * mpirun, mpiexec or srun. One thread of its own in each rank is the only one that calls MPI: it
 * sends and receives while the others compute, tells of failures, and notices ranks that are gone.
 *
 * transport: what the program calls; thread: the life of that thread; exchange: tickets become
 * messages of MPI; control: what ranks tell each other about themselves. */
#ifndef ZOE_MPI_WORLD_H
#define ZOE_MPI_WORLD_H

#include <mpi.h>
#include <pthread.h>

#include "comm/transport.h"

enum { ZOE_MPI_SENTENCE = 2048 };

/* One message of MPI. Long messages of the program are cut into several, and the number of their
 * bytes goes ahead. */
typedef struct zoe_mpi_part {
    void *data; /* NULL: announced */
    uint64_t announced;
    size_t whole; /* bytes of the program's message that it belongs to */
    int peer, bytes;
    bool receive, first; /* first: of the program's message */
} zoe_mpi_part;

/* What one start of the program has posted. */
typedef struct zoe_mpi_ticket {
    struct zoe_mpi_ticket *next;
    int n, left; /* parts; those that are not there yet */
    zoe_mpi_part *parts;
    MPI_Request *requests;
    MPI_Status *statuses; /* and which: room for one MPI_Testsome */
    int *which;
    bool over;         /* guarded by the lock, as are the following */
    zoe_status status; /* ZOE_PEER, ZOE_INTERNAL: the sentence is that of the world */
    double ended;
} zoe_mpi_ticket;

typedef struct zoe_mpi_queue {
    zoe_mpi_ticket *first, *last;
} zoe_mpi_queue;

/* DEAD: MPI is not called any more, except to abort. */
typedef enum zoe_mpi_phase {
    ZOE_MPI_STARTING,
    ZOE_MPI_RUNNING,
    ZOE_MPI_DEAD,
    ZOE_MPI_FINALIZING,
    ZOE_MPI_ENDED
} zoe_mpi_phase;

/* What this rank knows of another. */
typedef struct zoe_mpi_peer {
    uint64_t sent, received;       /* messages of the program posted so far */
    uint64_t will_send, will_take; /* how many it has posted in all, once it has closed */
    bool closed, heard;            /* heard: it knows of our failure */
} zoe_mpi_peer;

typedef struct zoe_mpi_word zoe_mpi_word;

typedef struct zoe_mpi_world {
    zoe_transport base; /* first: what the program holds is a pointer to it */
    pthread_t thread;

    pthread_mutex_t lock;      /* guards what follows */
    pthread_cond_t wake, news; /* for the thread; for those who wait for it */
    zoe_mpi_phase phase;
    zoe_mpi_queue posted;
    size_t waiting; /* threads in wait */
    bool poked;     /* the thread has something new to look at */
    bool closing;
    bool failed, own, internal; /* own: this rank tells the others */
    bool known;                 /* the program has learnt of it */
    zoe_culprit culprit;        /* whose failure it is */
    size_t lost;                /* the rank that has vanished, or SIZE_MAX */
    size_t prefix;              /* bytes of "rank N: " before the sentence */
    char failure[ZOE_MPI_SENTENCE];
    double finalizing; /* since when */

    /* The thread's own. */
    zoe_mpi_queue active;
    zoe_mpi_peer *peers;
    zoe_mpi_word *words, *heard; /* on their way; buffer of the one that is received */
    MPI_Request listening;
    bool telling, closed, bye; /* this rank has said so */
    bool farewell;             /* the watched rank has said bye */
    double deadline, beaten, looked, silence, patience;
    double floor; /* seconds that a test of requests takes when nothing moves */
    unsigned quiet;
} zoe_mpi_world;

/* ---- thread ---- */

void *zoe_mpi_run(void *world);
/* Seconds of the monotonic clock, as zoe_now. */
double zoe_mpi_now(void);
/* What kind of failure it is. */
typedef struct zoe_mpi_kind {
    bool own;      /* the others are to be told, by this rank */
    bool internal; /* it is the fault of the exchange at hand */
    size_t lost;   /* a rank that cannot be told, or SIZE_MAX */
    zoe_culprit culprit;
} zoe_mpi_kind;
/* One of this rank. */
static inline zoe_mpi_kind zoe_mpi_ours(const zoe_mpi_world *w)
{
    return (zoe_mpi_kind){.own = true, .lost = SIZE_MAX, .culprit = {.rank = w->base.rank}};
}
/* Notes the world's failure, if it is the first. Any thread, without the lock. */
void zoe_mpi_fail(zoe_mpi_world *w, zoe_mpi_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for an error of MPI itself, in `doing`. */
void zoe_mpi_fail_mpi(zoe_mpi_world *w, int error, const char *doing);

/* ---- exchange ---- */

/* A ticket for these messages; NULL without memory. */
zoe_mpi_ticket *zoe_mpi_ticket_new(const zoe_message *sends, size_t n_sends,
                                   const zoe_message *recvs, size_t n_recvs);
void zoe_mpi_queue_put(zoe_mpi_queue *queue, zoe_mpi_ticket *ticket);
/* Posts the messages of a ticket. */
void zoe_mpi_post(zoe_mpi_world *w, zoe_mpi_ticket *ticket);
/* Looks at everything under way; true if something has moved. */
bool zoe_mpi_advance(zoe_mpi_world *w);

/* ---- control ---- */

/* Memory; begins to listen. */
bool zoe_mpi_control_open(zoe_mpi_world *w);
void zoe_mpi_control_close(zoe_mpi_world *w); /* with MPI at hand */
void zoe_mpi_control_free(zoe_mpi_world *w);
/* Hears what others say, tells that this rank lives, notices who does not; true if something was
 * heard. */
bool zoe_mpi_control(zoe_mpi_world *w);
/* Has the rank after this one been heard of, and this one been told of? */
bool zoe_mpi_has_met(zoe_mpi_world *w);
/* Tells all of the world's failure, or the one who told us that we know; true when that is done or
 * has taken too long. */
bool zoe_mpi_tell(zoe_mpi_world *w);
/* Tells all that this rank has started its last exchange; true when all have said so and MPI can be
 * left. */
bool zoe_mpi_leave(zoe_mpi_world *w);
/* Fails if a rank that has closed will not take part in what was posted with it. */
void zoe_mpi_check_peer(zoe_mpi_world *w, size_t peer);

#endif
