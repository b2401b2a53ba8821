/* Ranks, groups and collectives on thread ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ranks.h"

enum { SIZES = 9 };

/* ---- one rank, with and without a comm ---- */

static zoe_status alone(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    char all[8] = "", mine[8] = "abcdefg";
    const size_t bytes[1] = {8};
    double value = 3.5;
    zoe_comm *group = comm;
    zoe_exchange e;
    const zoe_piece sends[3] = {{0, mine, 3}, {0, NULL, 0}, {0, mine + 3, 2}};
    const zoe_piece recvs[2] = {{0, all + 2, 3}, {0, all, 2}};
    (void)arg;
    RANKS_CHECK(rank == 0 && zoe_comm_size(comm) == 1 && zoe_comm_rank(comm) == 0);
    RANKS_CHECK(zoe_comm_world_rank(comm, 0) == 0);
    TRY(zoe_comm_group(ctx, &group, comm, (size_t[]){0}, 1));
    RANKS_CHECK(!group);
    TRY(zoe_comm_group_every(ctx, &group, comm, 1, 1));
    RANKS_CHECK(!group);
    TRY(zoe_exchange_start(ctx, comm, &e, sends, 3, recvs, 2, "own pieces"));
    RANKS_CHECK(!e.state);
    TRY(zoe_exchange_wait(ctx, comm, &e));
    RANKS_CHECK(memcmp(all, "deabc", 5) == 0);
    TRY(zoe_comm_gather(ctx, comm, all, mine, bytes, "gather"));
    RANKS_CHECK(memcmp(all, mine, 8) == 0);
    TRY(zoe_comm_gather(ctx, comm, all, all, bytes, "gather"));
    RANKS_CHECK(memcmp(all, mine, 8) == 0);
    TRY(zoe_comm_broadcast(ctx, comm, all, 8, 0, "broadcast"));
    TRY(zoe_comm_sum(ctx, comm, &value, 1));
    TRY(zoe_comm_max(ctx, comm, &value, 1));
    RANKS_CHECK(value == 3.5);
    TRY(zoe_comm_agree(ctx, comm, ZOE_OK));
    const zoe_traffic t = zoe_comm_traffic(comm);
    RANKS_CHECK(t.sent == 0 && t.received == 0 && t.exchanges == 0);
    zoe_comm_close(comm); /* of a world: stays */
    TRY(zoe_comm_sum(ctx, comm, &value, 1));
    return zoe_comm_agree(ctx, comm, zoe_fail(ctx, ZOE_IO, "no disk"));
}

static void one_rank_needs_no_other(void **state)
{
    (void)state;
    ranks_result r;
    zoe_context *ctx = zoe_context_new(1);
    assert_int_equal(alone(ctx, NULL, 0, NULL), ZOE_IO);
    assert_string_equal(zoe_context_message(ctx), "no disk");
    zoe_context_clear(ctx);
    zoe_comm_fail(NULL, "nobody hears this");
    const zoe_piece other = {1, NULL, 0};
    zoe_exchange e;
    assert_int_equal(zoe_exchange_start(ctx, NULL, &e, &other, 1, NULL, 0, "x"), ZOE_INTERNAL);
    zoe_context_free(ctx);
    ranks_run(&(ranks_plan){.size = 1, .fn = alone}, &r);
    assert_int_equal(r.status, ZOE_IO);
    assert_string_equal(r.message, "no disk");
}

/* ---- shares ---- */

static void shares_are_even_and_whole(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 8, 40, 31668, 75600, SIZE_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t parts = 1; parts <= 17; parts++) {
            size_t at = 0;
            for (size_t i = 0; i < parts; i++) {
                const zoe_span s = zoe_share(counts[c], parts, i);
                assert_int_equal(s.first, at);
                assert_int_equal(s.count, counts[c] / parts + (i < counts[c] % parts ? 1u : 0u));
                at += s.count;
            }
            assert_int_equal(at, counts[c]);
        }
}

/* ---- groups ---- */

static void groups_are_checked(void **state)
{
    (void)state;
    zoe_context *ctx = zoe_context_new(1);
    zoe_world *w;
    zoe_comm *g, *inner;
    assert_int_equal(zoe_world_new(ctx, &w, 0), ZOE_INVALID);
    assert_null(w);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_world_new(ctx, &w, SIZE_MAX / 2), ZOE_NOMEM);
    zoe_context_clear(ctx);
    assert_int_equal(zoe_world_new(ctx, &w, 6), ZOE_OK);
    zoe_comm *own = zoe_world_comm(w, 4);
    static const struct {
        size_t ranks[3], count;
        const char *message;
    } bad[] = {{{4, 6}, 2, "group: rank 6 of 6"},
               {{4, 1, 1}, 3, "group: rank 1 is in it twice"},
               {{1, 2}, 2, "group: rank 4, which makes it, is not in it"},
               {{0}, 0, "group: rank 4, which makes it, is not in it"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        zoe_context_clear(ctx);
        assert_int_equal(zoe_comm_group(ctx, &g, own, bad[i].ranks, bad[i].count), ZOE_INVALID);
        assert_null(g);
        assert_string_equal(zoe_context_message(ctx), bad[i].message);
    }
    zoe_context_clear(ctx);
    assert_int_equal(zoe_comm_group_every(ctx, &g, own, 4, 1), ZOE_INVALID);
    assert_int_equal(zoe_comm_group_every(ctx, &g, own, 0, 1), ZOE_INVALID);
    assert_int_equal(zoe_comm_group_every(ctx, &g, own, SIZE_MAX, 2), ZOE_INVALID);
    zoe_context_clear(ctx);
    /* In groups in groups, numbers of the world come through. */
    assert_int_equal(zoe_comm_group(ctx, &g, own, (size_t[]){5, 4, 2, 0}, 4), ZOE_OK);
    assert_int_equal(zoe_comm_size(g), 4);
    assert_int_equal(zoe_comm_rank(g), 1);
    assert_int_equal(zoe_comm_group(ctx, &inner, g, (size_t[]){3, 0, 1}, 3), ZOE_OK);
    assert_int_equal(zoe_comm_rank(inner), 2);
    assert_int_equal(zoe_comm_world_rank(inner, 0), 0);
    assert_int_equal(zoe_comm_world_rank(inner, 1), 5);
    assert_int_equal(zoe_comm_world_rank(inner, 2), 4);
    zoe_comm_group_free(inner);
    zoe_comm_group_free(g);
    zoe_comm_group_free(NULL);
    assert_int_equal(zoe_comm_group_every(ctx, &g, own, 2, 3), ZOE_OK);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(zoe_comm_world_rank(g, i), 2 * i);
    assert_int_equal(zoe_comm_rank(g), 2);
    zoe_comm_group_free(g);
    zoe_comm_group_free(own); /* the world's stays */
    assert_int_equal(zoe_comm_size(own), 6);
    zoe_world_free(w);
    zoe_world_free(NULL);
    zoe_context_free(ctx);
}

/* ---- collectives ---- */

static unsigned char byte_of(size_t rank, size_t i)
{
    return (unsigned char)(rank * 131 + i * 7 + i / 256);
}

/* Bytes per rank: also none. */
static size_t length_of(size_t rank, size_t round)
{
    static const size_t lengths[] = {0, 1, 1000, 17, 0, 70000, 64, 3, 5000};
    return lengths[(rank + round) % SIZES];
}

static zoe_status gather_round(zoe_context *ctx, zoe_comm *comm, size_t round, bool in_place)
{
    const size_t size = zoe_comm_size(comm), rank = zoe_comm_rank(comm);
    size_t bytes[SIZES], total = 0, own = 0;
    void *p, *q;
    for (size_t r = 0; r < size; r++) {
        own = r == rank ? total : own;
        bytes[r] = length_of(r, round);
        total += bytes[r];
    }
    TRY(zoe_alloc(ctx, &p, total, 1, "test"));
    TRY(zoe_alloc(ctx, &q, bytes[rank], 1, "test"));
    unsigned char *all = p, *mine = in_place ? all + own : q;
    memset(all, 0xee, total);
    for (size_t i = 0; i < bytes[rank]; i++)
        mine[i] = byte_of(rank, i);
    const zoe_traffic before = zoe_comm_traffic(comm);
    const zoe_status status = zoe_comm_gather(ctx, comm, all, mine, bytes, "gather");
    const zoe_traffic after = zoe_comm_traffic(comm);
    bool same = true;
    for (size_t r = 0, at = 0; r < size; r++)
        for (size_t i = 0; i < bytes[r]; i++)
            same = same && all[at++] == byte_of(r, i);
    zoe_free(p);
    zoe_free(q);
    RANKS_CHECK(status != ZOE_OK || same);
    RANKS_CHECK(after.sent - before.sent == bytes[rank] * (size - 1));
    RANKS_CHECK(after.received - before.received == total - bytes[rank]);
    return status;
}

static zoe_status broadcast_round(zoe_context *ctx, zoe_comm *comm, size_t root, size_t bytes)
{
    const size_t rank = zoe_comm_rank(comm);
    void *p;
    TRY(zoe_alloc(ctx, &p, bytes, 1, "test"));
    unsigned char *data = p;
    for (size_t i = 0; i < bytes; i++)
        data[i] = rank == root ? byte_of(root, i) : 0;
    const zoe_status status = zoe_comm_broadcast(ctx, comm, data, bytes, root, "broadcast");
    bool same = true;
    for (size_t i = 0; i < bytes; i++)
        same = same && data[i] == byte_of(root, i);
    zoe_free(p);
    RANKS_CHECK(status != ZOE_OK || same);
    return status;
}

/* Numbers whose sum depends on the order. */
static double value_of(size_t rank, size_t i)
{
    return ldexp(1.0 + 0.37 * (double)rank, (int)((rank * 29 + i * 13) % 60) - 30) *
           ((rank + i) % 3 == 0 ? -1.0 : 1.0);
}

static zoe_status sums_round(zoe_context *ctx, zoe_comm *comm, size_t n)
{
    const size_t size = zoe_comm_size(comm), rank = zoe_comm_rank(comm);
    double sum[50], most[50];
    for (size_t i = 0; i < n; i++) {
        sum[i] = value_of(rank, i);
        most[i] = i == 3 && rank == size / 2 ? NAN : sum[i];
    }
    TRY(zoe_comm_sum(ctx, comm, sum, n));
    TRY(zoe_comm_max(ctx, comm, most, n));
    for (size_t i = 0; i < n; i++) {
        double want = value_of(0, i), top = want;
        for (size_t r = 1; r < size; r++) {
            want += value_of(r, i);
            top = value_of(r, i) > top ? value_of(r, i) : top;
        }
        RANKS_CHECK(memcmp(&want, &sum[i], sizeof want) == 0);
        RANKS_CHECK(i == 3 ? isnan(most[i]) : most[i] == top);
    }
    return ZOE_OK;
}

static zoe_status all_collectives(zoe_context *ctx, zoe_comm *comm)
{
    for (size_t round = 0; round < SIZES; round++) {
        TRY(gather_round(ctx, comm, round, false));
        TRY(gather_round(ctx, comm, round, true));
    }
    for (size_t root = 0; root < zoe_comm_size(comm); root++) {
        TRY(broadcast_round(ctx, comm, root, 4097));
        TRY(broadcast_round(ctx, comm, root, 0));
    }
    TRY(sums_round(ctx, comm, 0));
    TRY(sums_round(ctx, comm, 1));
    TRY(sums_round(ctx, comm, 50));
    return zoe_comm_agree(ctx, comm, ZOE_OK);
}

static zoe_status collectives(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    (void)rank;
    (void)arg;
    return all_collectives(ctx, comm);
}

static void collectives_give_what_they_say(void **state)
{
    (void)state;
    for (size_t size = 1; size <= SIZES; size++)
        assert_true(ranks_run_ok(&(ranks_plan){.size = size, .fn = collectives}));
}

/* The same in groups that work at once, and in groups of these. */
static zoe_status grouped(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    zoe_comm *rows, *columns, *turned;
    (void)arg;
    TRY(zoe_comm_group_every(ctx, &rows, comm, 1, 3));
    TRY(zoe_comm_group_every(ctx, &columns, comm, 3, 2));
    TRY(zoe_comm_group(ctx, &turned, rows, (size_t[]){2, 0, 1}, 3));
    RANKS_CHECK(zoe_comm_size(rows) == 3 && zoe_comm_size(columns) == 2);
    RANKS_CHECK(zoe_comm_rank(rows) == rank % 3 && zoe_comm_rank(columns) == rank / 3);
    RANKS_CHECK(zoe_comm_rank(turned) == (rank % 3 + 1) % 3);
    TRY(all_collectives(ctx, rows));
    TRY(all_collectives(ctx, columns));
    TRY(all_collectives(ctx, turned));
    TRY(all_collectives(ctx, comm));
    const zoe_traffic one = zoe_comm_traffic(rows), other = zoe_comm_traffic(comm);
    RANKS_CHECK(memcmp(&one, &other, sizeof one) == 0); /* of the rank, not of a group */
    zoe_comm_group_free(turned);
    zoe_comm_group_free(columns);
    zoe_comm_group_free(rows);
    return ZOE_OK;
}

static void groups_work_beside_each_other(void **state)
{
    (void)state;
    assert_true(ranks_run_ok(&(ranks_plan){.size = 6, .fn = grouped}));
}

/* ---- agreement ---- */

typedef struct opinions {
    size_t failing; /* a bit for each rank */
    size_t told;    /* ranks of these that say ZOE_PEER: a bit for each */
} opinions;

static zoe_status agree(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    const opinions *o = arg;
    zoe_status mine = ZOE_OK;
    if (o->told >> rank & 1)
        mine = zoe_fail(ctx, ZOE_PEER, "rank 77: no more");
    else if (o->failing >> rank & 1)
        mine = zoe_fail(ctx, ZOE_IO, "rank %zu's disk is full", rank);
    const zoe_status status = zoe_comm_agree(ctx, comm, mine);
    RANKS_CHECK(mine == ZOE_OK || status == mine);
    return status;
}

static size_t lowest(size_t bits)
{
    size_t i = 0;
    while (!(bits >> i & 1))
        i++;
    return i;
}

static void all_agree_whoever_fails(void **state)
{
    (void)state;
    enum { RANKS = 5 };
    for (size_t failing = 0; failing < 1 << RANKS; failing++)
        for (size_t told = 0; told <= failing; told = told ? told << 1 : 1) {
            if (told & ~failing)
                continue;
            ranks_result r[RANKS];
            opinions o = {failing, told};
            char want[64];
            const size_t own = failing & ~told;
            ranks_run(&(ranks_plan){.size = RANKS, .fn = agree, .arg = &o}, r);
            if (own)
                snprintf(want, sizeof want, "rank %zu: rank %zu's disk is full", lowest(own),
                         lowest(own));
            else
                snprintf(want, sizeof want, "rank 77: no more");
            for (size_t i = 0; i < RANKS; i++)
                if (failing >> i & 1) {
                    assert_int_equal(r[i].status, told >> i & 1 ? ZOE_PEER : ZOE_IO);
                } else {
                    assert_int_equal(r[i].status, failing ? ZOE_PEER : ZOE_OK);
                    assert_string_equal(r[i].message, failing ? want : "");
                }
        }
}

static zoe_status agree_cancelled(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    (void)arg;
    if (rank == 1)
        zoe_cancel(ctx);
    return zoe_comm_agree(ctx, comm, zoe_check_cancel(ctx));
}

static void a_cancelled_rank_says_so(void **state)
{
    (void)state;
    ranks_result r[3];
    ranks_run(&(ranks_plan){.size = 3, .fn = agree_cancelled}, r);
    assert_int_equal(r[1].status, ZOE_CANCELLED);
    for (size_t i = 0; i < 3; i += 2) {
        assert_int_equal(r[i].status, ZOE_PEER);
        assert_string_equal(r[i].message, "rank 1: interrupted");
    }
}

/* A sentence longer than what travels is cut. */
static zoe_status agree_long(zoe_context *ctx, zoe_comm *comm, size_t rank, void *arg)
{
    char text[5000];
    (void)arg;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    zoe_status mine = rank == 0 ? zoe_fail(ctx, ZOE_FORMAT, "%s", text) : ZOE_OK;
    const zoe_status status = zoe_comm_agree(ctx, comm, mine);
    RANKS_CHECK(rank == 0 || strlen(zoe_context_message(ctx)) > 1000);
    return status;
}

static void long_sentences_are_cut(void **state)
{
    (void)state;
    ranks_result r[2];
    ranks_run(&(ranks_plan){.size = 2, .fn = agree_long}, r);
    assert_int_equal(r[0].status, ZOE_FORMAT);
    assert_int_equal(r[1].status, ZOE_PEER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_needs_no_other),
        cmocka_unit_test(shares_are_even_and_whole),
        cmocka_unit_test(groups_are_checked),
        cmocka_unit_test(collectives_give_what_they_say),
        cmocka_unit_test(groups_work_beside_each_other),
        cmocka_unit_test(all_agree_whoever_fails),
        cmocka_unit_test(a_cancelled_rank_says_so),
        cmocka_unit_test(long_sentences_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
