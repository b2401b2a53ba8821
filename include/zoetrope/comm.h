/* Ranks that share one job: processes under MPI, or threads of one process.
 *
 * A zoe_comm is what one rank sees of a group of ranks. NULL is a group of one, everywhere. A rank
 * uses its groups from one thread; what is started runs beside it. */
#ifndef ZOETROPE_COMM_H
#define ZOETROPE_COMM_H

#include "zoetrope/status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct zoe_comm zoe_comm;

/* Joins the ranks that this process was started with by mpirun, mpiexec or srun; *comm is NULL if it
 * was started alone. The module for the MPI at hand is loaded only then: the program itself does not
 * need MPI. Once a process.
 * Errors: ZOE_MISSING (no module for this MPI: names what was looked for and where), ZOE_PEER (MPI
 * does not start). */
zoe_status zoe_comm_open(zoe_context *ctx, zoe_comm **comm);
/* Leaves. After a failure the others are told first, so that they end as well. NULL is fine. */
void zoe_comm_close(zoe_comm *comm);

size_t zoe_comm_size(const zoe_comm *comm);
size_t zoe_comm_rank(const zoe_comm *comm);

/* Tells all ranks of the world that this one has failed: what they wait for, and whatever they start
 * later, ends with ZOE_PEER and the sentence "rank N: MESSAGE". The first failure counts. Any thread. */
void zoe_comm_fail(zoe_comm *comm, const char *message);

/* ---- ranks as threads of this process, for tests and for trying things out ---- */

typedef struct zoe_world zoe_world;
/* A world of so many ranks. Errors: ZOE_INVALID (no ranks), ZOE_NOMEM. */
zoe_status zoe_world_new(zoe_context *ctx, zoe_world **world, size_t size);
/* When no thread uses it any more. NULL is fine. */
void zoe_world_free(zoe_world *world);
/* What rank < size sees; it lives as long as the world and is not closed. */
zoe_comm *zoe_world_comm(zoe_world *world, size_t rank);

/* What shall go wrong in such a world. */
typedef enum zoe_fault_kind {
    ZOE_FAULT_NONE,
    ZOE_FAULT_DELAY, /* what the rank sends arrives so many seconds later, from that exchange on */
    ZOE_FAULT_DEATH, /* the rank is never heard of again: its call returns ZOE_PEER, the others find
                        out as with a killed process */
    ZOE_FAULT_NOMEM  /* that exchange of the rank ends with ZOE_NOMEM */
} zoe_fault_kind;
typedef struct zoe_fault {
    zoe_fault_kind kind;
    size_t rank;     /* SIZE_MAX: every one */
    size_t exchange; /* 0: the first one of the rank */
    double seconds;
} zoe_fault;
/* Before the ranks run. The last one given counts. */
void zoe_world_set_fault(zoe_world *world, const zoe_fault *fault);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
