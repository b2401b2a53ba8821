/* What real ranks must be able to do; a launcher of MPI starts it, the scripts beside it say how.
 *
 *   ranks_check SIZE run FOLDER          every kind of exchange and collective, in a world of SIZE
 *   ranks_check SIZE WHAT STAGE RANK     what goes wrong with rank RANK at a stage; every rank that
 *                                        can says what it sees, and ends with 1
 *     WHAT   kill, stop      it sends itself SIGKILL or SIGSTOP
 *            fail            it tells of a failure of its own
 *            leave           it closes, and others want more of it
 *            size            it sends another number of bytes than are expected
 *            interrupt       its context is cancelled
 *     STAGE  early           before it has joined
 *            idle            while all compute, without exchanges
 *            exchange        between two exchanges of many
 *            large           after it has begun to send large messages
 *            last            while the others wait for it to close
 *   ranks_check 0 abi MODULE             a module refuses a program with another interface
 *   ranks_check 0 threads N              a rank gets N threads (-: as many as a program alone)
 *
 * FOLDER is empty, and the same for all ranks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "comm/transport.h"

enum { LARGE = (130 << 20) + 7 }; /* more than two messages of the module */

static size_t rank, size;

static int bad(zoe_comm *comm, const char *what, int line)
{
    char text[256];
    snprintf(text, sizeof text, "ranks_check.c:%d: %s", line, what);
    fprintf(stderr, "FAIL: rank %zu: %s\n", rank, text);
    zoe_comm_fail(comm, text);
    return 1;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return bad(comm, #condition, __LINE__);                                                \
    } while (0)
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        if ((call) != ZOE_OK)                                                                      \
            return bad(comm, zoe_context_message(ctx), __LINE__);                                  \
    } while (0)

/* ---- contents ---- */

/* Byte i of what `from` sends to `to`. */
static unsigned char byte_of(size_t from, size_t to, size_t round, size_t i)
{
    return (unsigned char)(31 * from + 57 * to + 101 * round + i + (i >> 8) + (i >> 16));
}

static void fill(unsigned char *p, size_t n, size_t from, size_t to, size_t round)
{
    for (size_t i = 0; i < n; i++)
        p[i] = byte_of(from, to, round, i);
}

static bool is_filled(const unsigned char *p, size_t n, size_t from, size_t to, size_t round)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != byte_of(from, to, round, i))
            return false;
    return true;
}

/* Bytes from `from` to `to`: none, few, or more than what MPI sends without asking. */
static size_t bytes_of(size_t from, size_t to, size_t round)
{
    static const size_t some[] = {0, 1, 7, 4095, 65537, 1000003};
    return some[(from + 2 * to + 3 * round) % 6];
}

/* ---- exchanges ---- */

enum { LAPS = 6, MOST = 8 };

typedef struct lap {
    zoe_exchange exchange;
    unsigned char *out[MOST], *in[MOST];
} lap;

static int begin_lap(zoe_context *ctx, zoe_comm *comm, lap *a, size_t number)
{
    zoe_piece out[MOST], in[MOST];
    for (size_t r = 0; r < size; r++) {
        out[r] = (zoe_piece){r, malloc(1 << 20), bytes_of(rank, r, number)};
        in[r] = (zoe_piece){r, calloc(1, 1 << 20), bytes_of(r, rank, number)};
        CHECK(out[r].data && in[r].data);
        a->out[r] = out[r].data;
        a->in[r] = in[r].data;
        fill(out[r].data, out[r].bytes, rank, r, number);
    }
    CHECK_OK(zoe_exchange_start(ctx, comm, &a->exchange, out, size, in, size, "a lap"));
    return 0;
}

static int end_lap(zoe_context *ctx, zoe_comm *comm, lap *a, size_t number)
{
    CHECK_OK(zoe_exchange_wait(ctx, comm, &a->exchange));
    for (size_t r = 0; r < size; r++) {
        CHECK(is_filled(a->in[r], bytes_of(r, rank, number), r, rank, number));
        free(a->out[r]);
        free(a->in[r]);
    }
    return 0;
}

/* All to all, each lap by itself, then all under way at once and waited for from the last to the
 * first. */
static int check_laps(zoe_context *ctx, zoe_comm *comm)
{
    lap laps[LAPS];
    for (size_t i = 0; i < LAPS; i++)
        if (begin_lap(ctx, comm, &laps[i], i) || end_lap(ctx, comm, &laps[i], i))
            return 1;
    for (size_t i = 0; i < LAPS; i++)
        if (begin_lap(ctx, comm, &laps[i], i))
            return 1;
    for (size_t i = LAPS; i-- > 0;)
        if (end_lap(ctx, comm, &laps[i], i))
            return 1;
    return 0;
}

/* Ranks in pairs send each other more than one message of MPI holds. */
static int check_large(zoe_context *ctx, zoe_comm *comm)
{
    const size_t peer = rank ^ 1;
    if (peer >= size || rank > 1)
        return 0;
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    zoe_exchange exchange;
    CHECK(out && in);
    fill(out, LARGE, rank, peer, 0);
    const double begun = zoe_now();
    CHECK_OK(zoe_exchange_start(ctx, comm, &exchange, &(zoe_piece){peer, out, LARGE}, 1,
                                &(zoe_piece){peer, in, LARGE}, 1, "large"));
    CHECK_OK(zoe_exchange_wait(ctx, comm, &exchange));
    const double seconds = zoe_now() - begun;
    CHECK(is_filled(in, LARGE, peer, rank, 0));
    if (rank == 0)
        printf("large messages: %.0f MB/s each way\n", LARGE / seconds / 1e6);
    free(out);
    free(in);
    return 0;
}

/* Many small ones, for the time that one takes. */
static int check_small(zoe_context *ctx, zoe_comm *comm)
{
    enum { TURNS = 300 };
    uint32_t out = 0, in = 0;
    const double begun = zoe_now();
    for (uint32_t i = 0; i < TURNS; i++) {
        zoe_exchange exchange;
        out = 1000 * (uint32_t)rank + i;
        CHECK_OK(zoe_exchange_start(
            ctx, comm, &exchange, &(zoe_piece){(rank + 1) % size, &out, sizeof out}, 1,
            &(zoe_piece){(rank + size - 1) % size, &in, sizeof in}, 1, "small"));
        CHECK_OK(zoe_exchange_wait(ctx, comm, &exchange));
        CHECK(in == 1000 * (uint32_t)((rank + size - 1) % size) + i);
    }
    if (rank == 0)
        printf("small messages: %.1f us each\n", (zoe_now() - begun) / TURNS * 1e6);
    return 0;
}

/* Messages move while their rank computes: rank 0 computes without a call until rank 1, which got
 * what rank 0 sends, has made a file. */
static int check_overlap(zoe_context *ctx, zoe_comm *comm, const char *folder)
{
    enum { BYTES = 32 << 20 };
    char path[4096];
    snprintf(path, sizeof path, "%s/arrived", folder);
    if (size == 1 || rank > 1)
        return 0;
    unsigned char *data = calloc(1, BYTES);
    zoe_exchange exchange;
    CHECK(data);
    const zoe_piece piece = {rank ^ 1, data, BYTES};
    if (rank == 0)
        fill(data, BYTES, 0, 1, 1);
    CHECK_OK(
        zoe_exchange_start(ctx, comm, &exchange, &piece, rank == 0, &piece, rank == 1, "overlap"));
    if (rank == 0) {
        const double begun = zoe_now();
        while (access(path, F_OK) != 0 && zoe_now() - begun < 60.0)
            for (volatile unsigned i = 0; i < 100000; i++) {
            }
        CHECK(zoe_now() - begun < 60.0);
    }
    CHECK_OK(zoe_exchange_wait(ctx, comm, &exchange));
    CHECK(is_filled(data, BYTES, 0, 1, 1));
    if (rank == 1) {
        FILE *file = fopen(path, "w");
        CHECK(file);
        fclose(file);
    }
    free(data);
    return 0;
}

/* ---- collectives ---- */

static int check_collectives(zoe_context *ctx, zoe_comm *comm)
{
    size_t bytes[MOST], all = 0, own = 0;
    for (size_t r = 0; r < size; r++) {
        bytes[r] = r == 2 ? 0 : 999 * r + 13;
        own += r < rank ? bytes[r] : 0;
        all += bytes[r];
    }
    unsigned char *gathered = calloc(1, all + 1);
    CHECK(gathered);
    fill(gathered + own, bytes[rank], rank, 0, 2);
    CHECK_OK(zoe_comm_gather(ctx, comm, gathered, gathered + own, bytes, "gather"));
    for (size_t r = 0, at = 0; r < size; at += bytes[r++])
        CHECK(is_filled(gathered + at, bytes[r], r, 0, 2));
    free(gathered);

    for (size_t root = 0; root < size; root++) {
        unsigned char data[5000] = {0};
        if (rank == root)
            fill(data, sizeof data, root, 0, 3);
        CHECK_OK(zoe_comm_broadcast(ctx, comm, data, sizeof data, root, "broadcast"));
        CHECK(is_filled(data, sizeof data, root, 0, 3));
    }

    double values[3] = {(double)rank + 0.1, 1e300, rank == size - 1 ? NAN : 1.0}, sum = 0.0;
    for (size_t r = 0; r < size; r++)
        sum += (double)r + 0.1;
    CHECK_OK(zoe_comm_max(ctx, comm, values, 3));
    CHECK(values[0] == (double)(size - 1) + 0.1 && values[1] == 1e300 && isnan(values[2]));
    values[0] = (double)rank + 0.1;
    CHECK_OK(zoe_comm_sum(ctx, comm, values, 1));
    CHECK(values[0] == sum);
    return 0;
}

/* Even and odd ranks, each in reversed order, at the same time. */
static int check_groups(zoe_context *ctx, zoe_comm *comm)
{
    size_t list[MOST], count = 0, place = 0;
    zoe_comm *group;
    for (size_t r = size; r-- > 0;)
        if (r % 2 == rank % 2) {
            place = r == rank ? count : place;
            list[count++] = r;
        }
    CHECK_OK(zoe_comm_group(ctx, &group, comm, list, count));
    CHECK(zoe_comm_size(group) == count && zoe_comm_rank(group) == place);
    double value = (double)(rank + 1), sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += (double)(list[i] + 1);
    CHECK_OK(zoe_comm_sum(ctx, group, &value, 1));
    CHECK(value == sum);
    zoe_comm_group_free(group);
    return 0;
}

static int check_agreement(zoe_context *ctx, zoe_comm *comm)
{
    char wanted[64];
    CHECK_OK(zoe_comm_agree(ctx, comm, ZOE_OK));
    zoe_status mine = ZOE_OK;
    if (rank == size - 1)
        mine = zoe_fail(ctx, ZOE_IO, "no room");
    const zoe_status status = zoe_comm_agree(ctx, comm, mine);
    snprintf(wanted, sizeof wanted, rank == size - 1 ? "no room" : "rank %zu: no room", size - 1);
    CHECK(status == (rank == size - 1 ? ZOE_IO : ZOE_PEER));
    CHECK(strcmp(zoe_context_message(ctx), wanted) == 0);
    zoe_context_clear(ctx);
    CHECK_OK(zoe_comm_agree(ctx, comm, ZOE_OK));
    return 0;
}

static int run(zoe_context *ctx, zoe_comm *comm, const char *folder)
{
    zoe_traffic before = zoe_comm_traffic(comm), after;
    CHECK(before.sent == 0 && before.received == 0);
    if (check_laps(ctx, comm) || check_small(ctx, comm) || check_collectives(ctx, comm) ||
        check_groups(ctx, comm) || check_agreement(ctx, comm) || check_large(ctx, comm) ||
        check_overlap(ctx, comm, folder))
        return 1;
    after = zoe_comm_traffic(comm);
    double values[2] = {(double)after.sent, -(double)after.received};
    CHECK_OK(zoe_comm_sum(ctx, comm, values, 2));
    CHECK(values[0] + values[1] == 0.0 && (size == 1) == (values[0] == 0.0));
    /* One that has much to do yet is waited for. */
    if (rank == 0)
        usleep(300000);
    printf("rank %zu of %zu: all well\n", rank, size);
    return 0;
}

/* ---- what goes wrong ---- */

static const char *what, *stage;
static size_t victim;

static bool is_victim(const char *now)
{
    return rank == victim && strcmp(stage, now) == 0;
}

static zoe_status go_wrong(zoe_context *ctx, zoe_comm *comm)
{
    if (strcmp(what, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(what, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(what, "interrupt") == 0)
        zoe_cancel(ctx);
    if (strcmp(what, "fail") == 0) {
        zoe_comm_fail(comm, "the disk is full");
        return zoe_fail(ctx, ZOE_IO, "the disk is full");
    }
    return ZOE_OK;
}

/* A ring of messages. */
static zoe_status pass(zoe_context *ctx, zoe_comm *comm, unsigned char *data, size_t bytes)
{
    zoe_exchange exchange;
    const size_t more = strcmp(what, "size") == 0 && is_victim("exchange") ? 1 : 0;
    const zoe_piece out = {(rank + 1) % size, data, bytes + more},
                    in = {(rank + size - 1) % size, data + LARGE, bytes};
    TRY(zoe_exchange_start(ctx, comm, &exchange, &out, 1, &in, 1, "ring"));
    if (bytes == LARGE && is_victim("large"))
        TRY(go_wrong(ctx, comm));
    return zoe_exchange_wait(ctx, comm, &exchange);
}

static zoe_status stages(zoe_context *ctx, zoe_comm *comm)
{
    unsigned char *data = calloc(2, LARGE);
    zoe_exchange never = {0};
    zoe_status status = ZOE_OK;
    if (!data)
        return ZOE_NOMEM;
    if (strcmp(stage, "idle") == 0) { /* the others compute; then they want something */
        if (rank == victim)
            TRY_GOTO(go_wrong(ctx, comm));
        for (const double begun = zoe_now(); zoe_now() - begun < 0.5;) {
        }
    }
    if (strcmp(what, "leave") == 0 && rank == victim)
        goto done;
    if (strcmp(stage, "large") == 0)
        TRY_GOTO(pass(ctx, comm, data, LARGE));
    for (size_t i = 0; strcmp(stage, "last") != 0 && i < 1000000; i++) {
        if (i == 20 && is_victim("exchange"))
            TRY_GOTO(go_wrong(ctx, comm));
        if (zoe_cancelled(ctx)) /* it waits for what never comes */
            TRY_GOTO(zoe_exchange_start(ctx, comm, &never, NULL, 0,
                                        &(zoe_piece){(rank + 1) % size, data, 1}, 1, "never"));
        TRY_GOTO(zoe_exchange_wait(ctx, comm, &never));
        TRY_GOTO(pass(ctx, comm, data, 1 + 1000 * (i % 100)));
    }
    if (is_victim("last")) {
        sleep(1); /* the others are waiting in zoe_comm_close */
        TRY_GOTO(go_wrong(ctx, comm));
    }
done:
    free(data);
    return status;
}

/* A module is asked by a program of another version. */
static int check_abi(const char *path)
{
    void *module = dlopen(path, RTLD_NOW);
    void *entry = module ? dlsym(module, ZOE_TRANSPORT_ENTRY) : NULL;
    zoe_transport_open_fn open;
    zoe_transport *t;
    char text[256] = "";
    if (!entry) {
        fprintf(stderr, "FAIL: %s\n", dlerror());
        return 1;
    }
    memcpy(&open, &entry, sizeof open);
    if (open(&t, ZOE_TRANSPORT_ABI + 1, text, sizeof text) == ZOE_UNSUPPORTED && !t &&
        strstr(text, "version"))
        return 0;
    fprintf(stderr, "FAIL: another version: %s\n", text);
    return 1;
}

static int check_threads(const char *text)
{
    const int n = *text == '-' ? zoe_cpu_threads() : (int)strtol(text, NULL, 10);
    if (zoe_comm_threads() == n)
        return 0;
    fprintf(stderr, "FAIL: %d threads, wanted %d\n", zoe_comm_threads(), n);
    return 1;
}

static void print_log(void *user, zoe_level level, const char *text)
{
    (void)user;
    if (level == ZOE_WARNING)
        fprintf(stderr, "warning: %s\n", text);
}

/* The number that the launcher gave, before there is a world. */
static size_t early_rank(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_RANK");
    text = text ? text : getenv("PMI_RANK");
    return text ? strtoul(text, NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    if (strcmp(argv[2], "abi") == 0)
        return check_abi(argv[3]);
    if (strcmp(argv[2], "threads") == 0)
        return check_threads(argv[3]);
    zoe_context *ctx = zoe_context_new(1);
    zoe_comm *comm = NULL;
    const size_t wanted = strtoul(argv[1], NULL, 10);
    if (!ctx)
        return 1;
    zoe_context_set_log(ctx, print_log, NULL);
    what = argv[2];
    stage = argv[3];
    victim = argc > 4 ? strtoul(argv[4], NULL, 10) : SIZE_MAX;
    rank = early_rank();
    if (is_victim("early"))
        go_wrong(ctx, NULL);
    int code = 1;
    if (zoe_comm_open(ctx, &comm) != ZOE_OK) {
        fprintf(stderr, "no ranks: %s\n", zoe_context_message(ctx));
        goto done;
    }
    rank = zoe_comm_rank(comm);
    size = zoe_comm_size(comm);
    if (size != wanted) {
        fprintf(stderr, "FAIL: %zu ranks, wanted %zu\n", size, wanted);
        goto done;
    }
    if (strcmp(what, "run") == 0) {
        code = run(ctx, comm, stage);
    } else {
        const zoe_status status = stages(ctx, comm);
        code = status == ZOE_OK ? 0 : 1;
        if (status != ZOE_OK)
            fprintf(stderr, "rank %zu sees %s: %s\n", rank, zoe_status_name(status),
                    zoe_context_message(ctx));
    }
    fflush(stdout);
    zoe_comm_close(comm);
done:
    zoe_context_free(ctx);
    return code;
}
