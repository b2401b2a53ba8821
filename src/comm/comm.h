/* Room 8, comm: ranks that share a job. transport: what carries bytes between ranks (threads in one
 * process; MPI, a module that is loaded at run time); group and exchange: who sends what to whom;
 * collect: gather, broadcast, sums, agreement; sequence: attention over tokens and heads that lie on
 * several ranks. All but the MPI module are free of MPI.
 *
 * All ranks run the same program: two ranks start the exchanges that they have with each other in
 * the same order, and both know the sizes. Nothing here depends on when messages come, so results
 * have the same bits in every run. */
#ifndef ZOE_COMM_INTERNAL_H
#define ZOE_COMM_INTERNAL_H

#include "base/base.h"
#include "zoetrope/comm.h"
#include "zoetrope/op.h"

/* ---- groups ---- */

/* The group of these ranks of `comm`, in this order; the caller is one of them. No message is sent:
 * every member gives the same list. NULL if the list is the caller alone.
 * Errors: ZOE_NOMEM, ZOE_INVALID (the caller is not in it, a rank is there twice or is none). */
zoe_status zoe_comm_group(zoe_context *ctx, zoe_comm **group, zoe_comm *comm, const size_t *ranks,
                          size_t count);
/* The same for ranks numbered in digits: count of them, stride apart, those that differ from the
 * caller in this digit only. With ulysses fastest, then ring, then cfg: (1, U), (U, R), (U R, 2), and
 * (1, U R) for all that share a sequence. Errors: also ZOE_INVALID if the ranks are no such grid. */
zoe_status zoe_comm_group_every(zoe_context *ctx, zoe_comm **group, zoe_comm *comm, size_t stride,
                                size_t count);
void zoe_comm_group_free(zoe_comm *group); /* NULL is fine; not for the world */

/* The number that a rank of the group has among all ranks, for messages to people. */
size_t zoe_comm_world_rank(const zoe_comm *comm, size_t rank);

/* Whose failure ended the work in common. */
typedef struct zoe_culprit {
    size_t rank; /* among all; SIZE_MAX: no failure is known */
    bool gone;   /* it ended, or fell silent, without a word: others have noticed and told */
    bool found;  /* every rank found it by itself, and says of which rank it is */
} zoe_culprit;
/* As far as this rank knows, the first one counting. */
zoe_culprit zoe_comm_culprit(const zoe_comm *comm);
/* Puts down what all ranks have found out about one of them, each by itself: no message is sent. rank: of
 * the group. */
void zoe_comm_blame(zoe_comm *comm, size_t rank);

/* Share i of n things that are dealt to `parts` ranks in runs as even as can be, the first n mod
 * parts get one more. */
typedef struct zoe_span {
    size_t first, count;
} zoe_span;
zoe_span zoe_share(size_t n, size_t parts, size_t i);

/* Threads for a rank as it was started by mpirun, mpiexec or srun: a share of its host's cpus, and no
 * more than it is bound to. Of one that was started alone, zoe_cpu_threads. */
int zoe_comm_threads(void);
/* How many ranks a launcher has started, this process among them: 1 if there is none, 0 if it does not
 * tell. Loads nothing. */
size_t zoe_comm_launched(void);
/* The number that it has given to this process, as far as is known before zoe_comm_open. */
size_t zoe_comm_launched_rank(void);
/* Before this process ends because it could not join the others: MPICH's mpiexec takes one that has never
 * spoken to it for no part of the job, and would let those wait that are starting. */
void zoe_comm_give_up(void);

/* ---- exchanges ---- */

/* Bytes for or from a rank of the group. */
typedef struct zoe_piece {
    size_t rank;
    void *data; /* only read if it is sent */
    size_t bytes;
} zoe_piece;

/* Under way between start and wait. */
typedef struct zoe_exchange {
    void *state; /* NULL: nothing is */
    const char *what;
    double begun;
} zoe_exchange;

/* Starts to send and to receive, and returns; until zoe_exchange_wait, what is sent must stay as it
 * is and what is received is not to be looked at. Pieces of 0 bytes are left out on both sides; what
 * a rank sends to itself is copied. `what` names the exchange, in traces and errors; it is not
 * copied. Of one pair of ranks, pieces meet in the order in which they were started.
 * Errors: ZOE_PEER (another rank failed: its sentence; or ended without one, or has not been heard of
 * for long), ZOE_INTERNAL (the other side has another size), ZOE_NOMEM. A failure that begins here,
 * or in the wait, is told to all ranks (zoe_comm_fail): this rank is out of step with them. */
zoe_status zoe_exchange_start(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange,
                              const zoe_piece *sends, size_t n_sends, const zoe_piece *recvs,
                              size_t n_recvs, const char *what);
/* Waits until all of it is there; also ends with ZOE_CANCELLED when the context is cancelled. After
 * an error nothing touches the memory of its pieces any more. Does nothing if nothing is under way. */
zoe_status zoe_exchange_wait(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange);

/* ---- collectives: every rank of the group calls them ---- */

/* Rank r gives bytes[r] from `mine`; all of them, in the order of ranks, end to end, go to `all` of
 * every rank. mine may lie at its place in all. The first form returns at once. */
zoe_status zoe_comm_gather_start(zoe_context *ctx, zoe_comm *comm, zoe_exchange *exchange,
                                 void *all, const void *mine, const size_t *bytes,
                                 const char *what);
zoe_status zoe_comm_gather(zoe_context *ctx, zoe_comm *comm, void *all, const void *mine,
                           const size_t *bytes, const char *what);
/* bytes of rank `root` to all others. */
zoe_status zoe_comm_broadcast(zoe_context *ctx, zoe_comm *comm, void *data, size_t bytes,
                              size_t root, const char *what);
/* How often a rank of so many sends them on. */
size_t zoe_comm_broadcast_copies(size_t size, size_t rank, size_t root);
/* values[i] = sum or maximum over the ranks, in the order of ranks: the same bits on all. A NaN makes
 * the maximum NaN. */
zoe_status zoe_comm_sum(zoe_context *ctx, zoe_comm *comm, double *values, size_t n);
zoe_status zoe_comm_max(zoe_context *ctx, zoe_comm *comm, double *values, size_t n);
/* Waits for all and makes them agree: if the status of any rank is not ZOE_OK, none gets ZOE_OK. A
 * rank that itself did not fail gets ZOE_PEER and the sentence of the lowest rank that did, "rank N:
 * ...". For the ends of stages in which ranks do different work. */
zoe_status zoe_comm_agree(zoe_context *ctx, zoe_comm *comm, zoe_status mine);

/* ---- what was sent ---- */

/* Payload of this rank since it joined; what stays on the rank is not counted. */
typedef struct zoe_traffic {
    uint64_t sent, received; /* bytes */
    uint64_t exchanges;
} zoe_traffic;
zoe_traffic zoe_comm_traffic(const zoe_comm *comm);

/* ---- sequence parallel ---- */

/* Tokens of one sequence on ulysses x ring ranks, ulysses fastest: rank u + U j of `ranks` has share
 * u + U j of the tokens, in between it attends with share u of the heads, and chunk j of the ring is
 * what ranks [U j, U (j + 1)) have. Any number of tokens and heads; some ranks may get none. All
 * NULL: one rank. */
typedef struct zoe_sequence {
    zoe_comm *ranks, *ulysses, *ring;
    bool stepwise; /* keys and values go round in R - 1 steps, in two buffers of one chunk; else all
                      of them are gathered while the local ones are attended to */
} zoe_sequence;

/* Makes the groups from U R ranks; `ranks` must outlive them. Errors: ZOE_INVALID (another number of
 * ranks), ZOE_NOMEM. */
zoe_status zoe_sequence_new(zoe_context *ctx, zoe_sequence *sequence, zoe_comm *ranks,
                            size_t ulysses, size_t ring, bool stepwise);
void zoe_sequence_free(zoe_sequence *sequence);

/* The same in numbers, for plans: what a rank has can be told without any ranks at hand. */
typedef struct zoe_place {
    size_t ulysses, ring, rank; /* rank < ulysses ring */
    bool stepwise;
} zoe_place;
zoe_place zoe_place_of(const zoe_sequence *sequence); /* NULL: one rank */
/* The tokens of this rank, of so many in all. */
zoe_span zoe_place_tokens(const zoe_place *place, size_t tokens);
zoe_span zoe_sequence_tokens(const zoe_sequence *sequence, size_t tokens);
/* Those of a chunk of the ring, of which there are `ring`. */
zoe_span zoe_place_chunk(const zoe_place *place, size_t chunk, size_t tokens);

/* o = softmax(scale q k^T) v over all tokens of all ranks; o, q, k, v [L, N, D] are those of this
 * rank's tokens, heads dense, f32, bf16 or f16, all of one type. tokens: of all ranks. o may not
 * overlap the others. With ulysses alone, o has the bytes of a single rank; a ring adds the
 * rounding of the merge in f32. With a ring, parts of the keys are joined in a fixed order, so o has
 * the same bytes in every run.
 * Source: Jacobs et al. 2023 (arXiv 2309.14509); Liu et al. 2023 (arXiv 2310.01889); the overlap of
 * hicann/cann-recipes-infer module/unified_sp/core.py.
 * Errors: those of exchanges and of zoe_attention; then nothing is under way any more. */
typedef struct zoe_sequence_attention_args {
    zoe_tensor o, q, k, v;
    size_t tokens;
    float scale;
} zoe_sequence_attention_args;
size_t zoe_sequence_attention_workspace(const zoe_context *ctx, const zoe_place *place,
                                        const zoe_sequence_attention_args *args);
zoe_status zoe_sequence_attention(zoe_context *ctx, const zoe_sequence *sequence,
                                  const zoe_sequence_attention_args *args, zoe_workspace work);

/* Bytes that one such attention sends from the rank, for plans. element: bytes of one. */
uint64_t zoe_sequence_attention_sent(const zoe_place *place, size_t tokens, size_t heads,
                                     size_t width, size_t element);
/* That part of it that Ulysses sends; the ring sends the rest. */
uint64_t zoe_sequence_ulysses_sent(const zoe_place *place, size_t tokens, size_t heads,
                                   size_t width, size_t element);
/* In how many parts its keys come, the own chunk first, and the tokens of part p. */
size_t zoe_sequence_parts(const zoe_place *place);
size_t zoe_sequence_part(const zoe_place *place, size_t p, size_t tokens);

#endif
