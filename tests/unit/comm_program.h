/* A random program of exchanges: all ranks run it, and each checks what it gets against what the
 * program says. Several exchanges are under way at once, in the world and in groups, and every rank
 * waits in an order of its own. */
#ifndef TEST_COMM_PROGRAM_H
#define TEST_COMM_PROGRAM_H

#include "ranks.h"

enum { PROGRAM_WINDOW = 4, PROGRAM_PIECES = 3 };

typedef struct program {
    uint64_t seed;
    size_t rounds;
    size_t starve;                /* see the tests */
    size_t exchanges[RANKS_MOST]; /* out: that the rank has started */
} program;

/* splitmix64 of four numbers. */
static uint64_t program_draw(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b * UINT64_C(0xd1b54a32d192ed03) +
                 c * UINT64_C(0x8cb92ba72f3d8dd7) + d * UINT64_C(0xaef17502108ef2d9);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Bytes of piece k from rank `from` of the world to `to`; some are none. */
static size_t program_bytes(const program *p, size_t round, size_t from, size_t to, size_t k)
{
    static const size_t sizes[] = {0, 0, 1, 7, 64, 1000, 4096, 9001, 20000, 33};
    return sizes[program_draw(p->seed, round, from * 64 + to, k) % (sizeof sizes / sizeof *sizes)];
}

static unsigned char program_byte(size_t round, size_t from, size_t to, size_t k, size_t i)
{
    return (unsigned char)(round * 89 + from * 37 + to * 11 + k * 5 + i * 3 + (i >> 8) + 1);
}

typedef struct program_slot {
    bool used;
    size_t round;
    zoe_comm *comm;
    zoe_exchange exchange;
    unsigned char *sent, *received; /* all pieces, end to end, by peer and k */
} program_slot;

/* One direction of a round: the pieces, and their bytes in one run of memory. out: what is sent. */
static zoe_status program_pieces(zoe_context *ctx, const program *p, zoe_comm *comm, size_t round,
                                 bool out, zoe_piece *pieces, unsigned char **memory)
{
    const size_t own = zoe_comm_world_rank(comm, zoe_comm_rank(comm));
    size_t total = 0, n = 0;
    void *data;
    for (size_t pass = 0; pass < 2; pass++) {
        size_t at = 0;
        n = 0;
        for (size_t r = 0; r < zoe_comm_size(comm); r++)
            for (size_t k = 0; k < PROGRAM_PIECES; k++) {
                const size_t peer = zoe_comm_world_rank(comm, r);
                const size_t from = out ? own : peer, to = out ? peer : own;
                const size_t bytes = program_bytes(p, round, from, to, k);
                if (pass == 1) {
                    pieces[n++] = (zoe_piece){r, *memory + at, bytes};
                    for (size_t i = 0; i < bytes; i++)
                        (*memory)[at + i] = out ? program_byte(round, from, to, k, i) : 0xee;
                }
                at += bytes;
            }
        total = at;
        if (pass == 0) {
            TRY(zoe_alloc(ctx, &data, total, 1, "program"));
            *memory = data;
        }
    }
    return ZOE_OK;
}

static bool program_is_right(const program *p, const program_slot *s)
{
    const size_t own = zoe_comm_world_rank(s->comm, zoe_comm_rank(s->comm));
    const unsigned char *got = s->received;
    for (size_t r = 0; r < zoe_comm_size(s->comm); r++)
        for (size_t k = 0; k < PROGRAM_PIECES; k++) {
            const size_t from = zoe_comm_world_rank(s->comm, r);
            const size_t bytes = program_bytes(p, s->round, from, own, k);
            for (size_t i = 0; i < bytes; i++)
                if (*got++ != program_byte(s->round, from, own, k, i))
                    return false;
        }
    return true;
}

static zoe_status program_start(zoe_context *ctx, const program *p, zoe_comm *comm, size_t round,
                                program_slot *s)
{
    zoe_piece sends[RANKS_MOST * PROGRAM_PIECES], recvs[RANKS_MOST * PROGRAM_PIECES];
    const size_t n = zoe_comm_size(comm) * PROGRAM_PIECES;
    *s = (program_slot){.used = true, .round = round, .comm = comm};
    TRY(program_pieces(ctx, p, comm, round, true, sends, &s->sent));
    TRY(program_pieces(ctx, p, comm, round, false, recvs, &s->received));
    return zoe_exchange_start(ctx, comm, &s->exchange, sends, n, recvs, n, "program");
}

/* Also frees: what is sent after that is another program's, or a finding of the sanitizer. */
static zoe_status program_end(zoe_context *ctx, const program *p, program_slot *s)
{
    const zoe_status status = zoe_exchange_wait(ctx, s->comm, &s->exchange);
    const bool right = status != ZOE_OK || !s->received || program_is_right(p, s);
    zoe_free(s->sent);
    zoe_free(s->received);
    s->used = false;
    RANKS_CHECK(right);
    return status;
}

static zoe_status program_rounds(zoe_context *ctx, const program *p, zoe_comm *comm, zoe_comm *rows,
                                 program_slot slots[PROGRAM_WINDOW])
{
    const size_t rank = zoe_comm_rank(comm);
    for (size_t round = 0; round < p->rounds; round++) {
        zoe_comm *c = program_draw(p->seed, round, 1, 0) % 3 == 0 ? rows : comm;
        program_slot *s = &slots[round % PROGRAM_WINDOW];
        if (s->used)
            TRY(program_end(ctx, p, s));
        TRY(program_start(ctx, p, c, round, s));
        program_slot *other = &slots[program_draw(p->seed, round, rank, 2) % PROGRAM_WINDOW];
        if (other->used && program_draw(p->seed, round, rank, 3) % 2 == 0)
            TRY(program_end(ctx, p, other));
    }
    for (size_t i = 0; i < PROGRAM_WINDOW; i++) {
        program_slot *s = &slots[(rank + 3 * i) % PROGRAM_WINDOW];
        if (s->used)
            TRY(program_end(ctx, p, s));
    }
    return zoe_comm_agree(ctx, comm, ZOE_OK);
}

/* For ranks_run; arg is a program. A failed exchange tells the others by itself; of what else fails
 * in a rank, the rank tells them. */
static zoe_status program_run(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    program *p = arg;
    program_slot slots[PROGRAM_WINDOW] = {{.used = false}};
    const size_t size = zoe_comm_size(comm);
    zoe_comm *rows = comm;
    const bool split = size % 2 == 0 && size > 2;
    zoe_status status = split ? zoe_comm_group_every(ctx, &rows, comm, 1, size / 2) : ZOE_OK;
    if (status == ZOE_OK)
        status = program_rounds(ctx, p, comm, rows, slots);
    if (status != ZOE_OK)
        zoe_comm_fail(comm, zoe_context_message(ctx));
    for (size_t i = 0; i < PROGRAM_WINDOW; i++)
        if (slots[i].used)
            program_end(ctx, p, &slots[i]);
    if (split)
        zoe_comm_group_free(rows);
    p->exchanges[rank] = (size_t)zoe_comm_traffic(comm).exchanges;
    return status;
}

#endif
