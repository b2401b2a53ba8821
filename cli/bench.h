/* Inside `zoe bench`: what its files share. A case is something to run of which its work is known; a
 * row is what came out. */
#ifndef ZOE_BENCH_H
#define ZOE_BENCH_H

#include <jansson.h>

#include "base/base.h"
#include "comm/comm.h"
#include "store/store.h"

enum { BENCH_PEERS = 3, BENCH_SHAPE = 10, BENCH_REPEATS = 99 };

/* What the command line asks for. */
typedef struct bench_request {
    const char *threads, *filter, *dtype;
    const char *compare[8];
    size_t n_compare, repeats;
    int clock; /* of bench_clock_words */
    bool quick, json, table, full, help;
} bench_request;
enum { BENCH_CLOCK_AUTO, BENCH_CLOCK_CPU, BENCH_CLOCK_WALL };

typedef struct bench_peer bench_peer;

/* What this machine can do with so many threads. */
typedef struct bench_peak {
    double fma_f32, mul_int8;       /* operations a second */
    double read, copy, copy_stream; /* bytes a second, read and written ones counted */
} bench_peak;

/* One run of the command with one number of threads. */
typedef struct bench {
    const bench_request *request;
    zoe_context *ctx;
    zoe_comm *comm; /* ranks that share a pass; NULL: one. All run the same calls */
    int threads;
    bool cpu_time;
    size_t repeats;
    bench_peak peak;
    void *from, *to; /* two buffers for copies */
    size_t buffer_bytes;
    bench_peer *peers[BENCH_PEERS];
    size_t n_peers;
    size_t faults; /* page faults of our timed parts since it was set to 0 */
    size_t rows;   /* printed */
} bench;

/* ---- measuring ---- */

/* Seconds of `calls` calls in a row. */
typedef zoe_status (*bench_time_fn)(bench *b, void *self, size_t calls, double *seconds);
typedef struct bench_runner {
    bench_time_fn time;
    void *self;
    double seconds; /* told: the median of a call */
} bench_runner;

/* Runs them in turn, so that what the machine does besides hits all alike: first untimed, to touch
 * memory and to see how many calls make a part that can be timed, then `repeats` times. */
zoe_status zoe_bench_in_turn(bench *b, bench_runner *runners, size_t n, size_t repeats);

/* Our side of it: self is a bench_ours. */
typedef struct bench_ours {
    zoe_status (*run)(zoe_context *ctx, void *self);
    void *self;
} bench_ours;
zoe_status zoe_bench_time_ours(bench *b, void *self, size_t calls, double *seconds);
double zoe_bench_now(const bench *b);

/* Makes the buffers and finds the peaks. */
zoe_status zoe_bench_peaks(bench *b);
/* Runners of copies that read and write `bytes` together, plainly and past the caches; self is the
 * bench_copy. */
typedef struct bench_copy {
    size_t bytes; /* of the copy itself */
    bool stream;
} bench_copy;
bench_copy zoe_bench_copy_of(const bench *b, double bytes, bool stream);
zoe_status zoe_bench_time_copy(bench *b, void *self, size_t calls, double *seconds);

/* Memory with values between -1 and 1, all of it touched; of block types, bytes that are small
 * numbers. */
zoe_status zoe_bench_fill(zoe_context *ctx, void **data, zoe_dtype dtype, size_t n);

/* ---- peers: other libraries in processes of their own ---- */

/* Starts those that --compare names; one that is not installed is said on standard error and left
 * out. false: a name is no peer's, which is said as well. */
bool zoe_bench_peers_start(bench *b);
void zoe_bench_peers_stop(bench *b);
const char *zoe_bench_peer_name(const bench_peer *peer);
/* Makes the case ready in the peer. false: it has no such thing; *why is its reason, in the peer's
 * memory until the next call, and *dtype is then "". On success *dtype is the type in which it
 * works. */
typedef struct bench_case_name {
    const char *op;
    zoe_dtype x, w, y;
    const size_t *shape;
    size_t rank;
} bench_case_name;
bool zoe_bench_peer_prepare(bench *b, bench_peer *peer, const bench_case_name *name,
                            const char **dtype, const char **why);
/* A bench_time_fn; self is the peer. */
zoe_status zoe_bench_time_peer(bench *b, void *self, size_t calls, double *seconds);
/* Forgets the case. Returns the most bytes that the peer's process has had in memory, 0 if that is
 * not known. */
size_t zoe_bench_peer_release(bench *b, bench_peer *peer);

/* ---- rows ---- */

/* BENCH_INT8: operations too, on bytes. */
typedef enum bench_unit { BENCH_FLOP, BENCH_INT8, BENCH_BYTES } bench_unit;

/* What a peer did with the case. */
typedef struct bench_peer_row {
    const char *peer;
    char dtype[16], why[256]; /* why: it did not */
    double seconds;
    size_t memory;
} bench_peer_row;

typedef struct bench_row {
    bench_case_name name;
    bench_unit unit;
    double work;             /* of a call: operations, or bytes read and written */
    double seconds;          /* median */
    double peak;             /* operations or bytes a second */
    double target;           /* what percent of the peak is asked for; 0: nothing is */
    double block;            /* seconds of one block, 0: no model */
    size_t blocks, measured; /* of the model, and how many of them ran */
    size_t memory;           /* most bytes of the process; 0: not told, also not of peers */
    size_t buffers;          /* bytes of activations and workspaces; 0: not told */
    bench_peer_row peers[BENCH_PEERS];
    size_t n_peers;
} bench_row;

/* Does the filter choose it? `hidden`: only if there is a filter. */
bool zoe_bench_wanted(const bench *b, const bench_case_name *name, bool hidden);
/* Runs the case on our side and with every peer, for a row that has name, unit, work and target. */
zoe_status zoe_bench_row_measure(bench *b, bench_row *row, bench_time_fn time, void *self);
void zoe_bench_row_print(bench *b, const bench_row *row);
void zoe_bench_peaks_print(bench *b);
/* "f32", or "f32/bf16" with weights of another type. */
typedef struct bench_types {
    char text[32];
} bench_types;
bench_types zoe_bench_types_of(const bench_case_name *name);

/* ---- models with random weights ---- */

/* Tensors of a checkpoint that is made up: small values of type F32, F16 or BF16. */
typedef struct bench_bag {
    zoe_context *ctx;
    zoe_dtype dtype;
    struct bench_bag_item {
        char *name;
        zoe_tensor tensor;
        bool owned;
    } * items;
    size_t count, room;
} bench_bag;

zoe_status zoe_bench_bag_add(bench_bag *bag, const char *name, int rank, const size_t *extents);
/* Names that begin with "PREFIX0." again as "PREFIX1." to "PREFIX<layers - 1>.", with the same values
 * from the same memory. */
zoe_status zoe_bench_bag_repeat(bench_bag *bag, const char *prefix, size_t layers);
/* Writes them to a file in TMPDIR, as weights of this type, opens that, and removes its name. */
zoe_status zoe_bench_bag_open(bench_bag *bag, zoe_store **store, zoe_names names,
                              zoe_dtype weights);
void zoe_bench_bag_free(bench_bag *bag);

/* A model of which a pass is timed with one block and with `measured` of them. */
typedef struct bench_model {
    zoe_status (*run)(zoe_context *ctx, void *self, size_t blocks);
    void *self;
    size_t blocks, measured;           /* equal: nothing is extrapolated */
    double seconds[BENCH_REPEATS + 2]; /* told: of one block, each time */
    size_t n;
} bench_model;
/* A bench_time_fn; self is a bench_model. */
zoe_status zoe_bench_time_model(bench *b, void *self, size_t calls, double *seconds);
double zoe_bench_model_block(bench_model *model);

/* Forgets the most memory that the process has had so far, where the system can; bytes of it. */
void zoe_bench_memory_reset(void);
size_t zoe_bench_memory_peak(void);

/* ---- what there is to measure ---- */

zoe_status zoe_bench_ops(bench *b);
zoe_status zoe_bench_step(bench *b);
zoe_status zoe_bench_vae(bench *b);
zoe_status zoe_bench_text(bench *b);

#endif
