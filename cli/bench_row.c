/* A case's way from a name to a printed line. */
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>

#include "answer.h"
#include "bench.h"

typedef struct label {
    char text[256];
} label;

/* "1560x1536x1536". */
static label shape_of(const bench_case_name *name)
{
    label l = {""};
    size_t used = 0;
    for (size_t i = 0; i < name->rank && used < sizeof l.text; i++)
        used += (size_t)snprintf(l.text + used, sizeof l.text - used, "%s%zu", i ? "x" : "",
                                 name->shape[i]);
    return l;
}

bench_types zoe_bench_types_of(const bench_case_name *name)
{
    bench_types t;
    const bool two = name->w != ZOE_NONE && name->w != name->x;
    snprintf(t.text, sizeof t.text, "%s%s%s", zoe_dtype_name(name->x), two ? "/" : "",
             two ? zoe_dtype_name(name->w) : "");
    return t;
}

bool zoe_bench_wanted(const bench *b, const bench_case_name *name, bool hidden)
{
    const char *filter = b->request->filter, *dtype = b->request->dtype;
    const bench_types types = zoe_bench_types_of(name);
    char whole[512];
    if (dtype && strcmp(dtype, zoe_dtype_name(name->x)) != 0 &&
        (name->w == ZOE_NONE || strcmp(dtype, zoe_dtype_name(name->w)) != 0))
        return false;
    if (!filter)
        return !hidden;
    snprintf(whole, sizeof whole, "%.100s %s %s", name->op, types.text, shape_of(name).text);
    return fnmatch(filter, name->op, 0) == 0 || fnmatch(filter, whole, 0) == 0;
}

/* ---- measuring ---- */

/* Peers that can run the case become runners; the row learns why others cannot. */
static size_t add_peers(bench *b, bench_row *row, bench_runner *runners)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_peers; i++) {
        bench_peer_row *p = &row->peers[row->n_peers++];
        const char *dtype, *why;
        *p = (bench_peer_row){.peer = zoe_bench_peer_name(b->peers[i])};
        if (zoe_bench_peer_prepare(b, b->peers[i], &row->name, &dtype, &why))
            runners[n++] = (bench_runner){zoe_bench_time_peer, b->peers[i], 0};
        else
            snprintf(p->why, sizeof p->why, "%s", why);
        snprintf(p->dtype, sizeof p->dtype, "%s", dtype);
    }
    return n;
}

static void take_peers(bench *b, bench_row *row, const bench_runner *runners)
{
    for (size_t i = 0, n = 0; i < b->n_peers; i++) {
        bench_peer_row *p = &row->peers[i];
        if (!p->why[0])
            p->seconds = runners[n++].seconds;
        p->memory = zoe_bench_peer_release(b, b->peers[i]);
    }
}

zoe_status zoe_bench_row_measure(bench *b, bench_row *row, bench_time_fn time, void *self)
{
    bench_runner runners[3 + BENCH_PEERS] = {{time, self, 0}};
    bench_copy copies[2];
    size_t n = 1;
    if (row->unit == BENCH_BYTES) /* the limit is that of a copy of as many bytes */
        for (size_t i = 0; i < 2; i++) {
            copies[i] = zoe_bench_copy_of(b, row->work, i == 1);
            runners[n++] = (bench_runner){zoe_bench_time_copy, &copies[i], 0};
        }
    const size_t first = n;
    n += add_peers(b, row, runners + n);
    const zoe_status status = zoe_bench_in_turn(b, runners, n, b->repeats);
    row->seconds = runners[0].seconds;
    if (row->unit == BENCH_BYTES) {
        const double plain = 2.0 * (double)copies[0].bytes / runners[1].seconds;
        const double stream = 2.0 * (double)copies[1].bytes / runners[2].seconds;
        row->peak = plain > stream ? plain : stream;
    } else {
        row->peak = row->unit == BENCH_INT8 ? b->peak.mul_int8 : b->peak.fma_f32;
    }
    take_peers(b, row, runners + first);
    return status;
}

/* ---- printing ---- */

static double percent_of(const bench_row *row)
{
    return row->peak > 0 ? 100 * row->work / row->seconds / row->peak : 0;
}

static double ratio_of(const bench_row *row, const bench_peer_row *p)
{
    return p->why[0] ? 0 : p->seconds / row->seconds;
}

/* null if it is not known. */
static json_t *real(double value)
{
    return value > 0 ? json_real(value) : json_null();
}

static json_t *json_shape(const bench_case_name *name)
{
    json_t *list = json_array();
    for (size_t i = 0; i < name->rank; i++)
        json_array_append_new(list, json_integer((json_int_t)name->shape[i]));
    return list;
}

static void print_json(bench *b, const bench_row *row, const bench_peer_row *p)
{
    const double rate = row->work / row->seconds * 1e-9;
    const bench_types types = zoe_bench_types_of(&row->name);
    json_t *root = json_pack(
        "{s:s, s:s, s:o, s:i, s:s, s:s, s:f, s:o, s:o}", "op", row->name.op, "dtype", types.text,
        "shape", json_shape(&row->name), "threads", b->threads, "clock",
        b->cpu_time ? "cpu" : "wall", "isa", zoe_isa_name(zoe_cpu_isa()), "median_s", row->seconds,
        row->unit == BENCH_BYTES ? "gbps" : "gflops", real(rate), "percent", real(percent_of(row)));
    if (!root) {
        zoe_answer_json(NULL);
        return;
    }
    json_object_set_new(root, "peak", real(row->peak * 1e-9));
    json_object_set_new(root, "target_percent", real(row->target));
    json_object_set_new(root, "faults", json_integer((json_int_t)b->faults));
    if (b->comm)
        json_object_set_new(root, "ranks", json_integer((json_int_t)zoe_comm_size(b->comm)));
    if (row->blocks > 0) {
        json_object_set_new(root, "block_s", real(row->block));
        json_object_set_new(root, "blocks", json_integer((json_int_t)row->blocks));
        json_object_set_new(root, "blocks_run", json_integer((json_int_t)row->measured));
        json_object_set_new(root, "extrapolated", json_boolean(row->measured < row->blocks));
    }
    if (row->buffers > 0)
        json_object_set_new(root, "buffer_bytes", json_integer((json_int_t)row->buffers));
    if (row->memory > 0)
        json_object_set_new(root, "peak_bytes", json_integer((json_int_t)row->memory));
    json_object_set_new(root, "peer", p ? json_string(p->peer) : json_null());
    json_object_set_new(root, "peer_dtype", p && p->dtype[0] ? json_string(p->dtype) : json_null());
    json_object_set_new(root, "peer_median_s", p && !p->why[0] ? real(p->seconds) : json_null());
    json_object_set_new(root, "ratio", p ? real(ratio_of(row, p)) : json_null());
    if (p && p->why[0])
        json_object_set_new(root, "peer_why", zoe_answer_text(p->why));
    if (p && row->memory > 0 && p->memory > 0)
        json_object_set_new(root, "peer_peak_bytes", json_integer((json_int_t)p->memory));
    zoe_answer_json(root);
}

/* "117.2 GFLOP/s", "36.1 GB/s". */
static label rate_text(const bench_row *row)
{
    static const char *const units[] = {
        [BENCH_FLOP] = "GFLOP/s", [BENCH_INT8] = "GOP/s", [BENCH_BYTES] = "GB/s"};
    label l;
    snprintf(l.text, sizeof l.text, "%.1f %s", row->work / row->seconds * 1e-9, units[row->unit]);
    return l;
}

static label time_text(double seconds)
{
    label l;
    if (seconds < 1e-3)
        snprintf(l.text, sizeof l.text, "%.2f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(l.text, sizeof l.text, "%.2f ms", seconds * 1e3);
    else
        snprintf(l.text, sizeof l.text, "%.3f s", seconds);
    return l;
}

/* Remarks of a row, one after the other. */
typedef struct remarks {
    char text[1024];
    size_t used;
} remarks;

static void remark(remarks *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void remark(remarks *r, const char *format, ...)
{
    va_list args;
    if (r->used > 0 && r->used < sizeof r->text)
        r->used += (size_t)snprintf(r->text + r->used, sizeof r->text - r->used, "; ");
    if (r->used >= sizeof r->text)
        return;
    va_start(args, format);
    r->used += (size_t)vsnprintf(r->text + r->used, sizeof r->text - r->used, format, args);
    va_end(args);
}

/* reasons: also why peers did not run it. */
static remarks remarks_of(const bench_row *row, bool reasons)
{
    remarks r = {"", 0};
    if (row->blocks > 0)
        remark(&r, "block %s%s", time_text(row->block).text,
               row->measured < row->blocks ? ", whole extrapolated" : "");
    if (row->buffers > 0)
        remark(&r, "buffers %s", zoe_amount_of(row->buffers).text);
    if (row->memory > 0)
        remark(&r, "memory %s", zoe_amount_of(row->memory).text);
    for (size_t i = 0; i < row->n_peers; i++) {
        const bench_peer_row *p = &row->peers[i];
        if (p->why[0]) {
            if (reasons)
                remark(&r, "%s: %s", p->peer, p->why);
            continue;
        }
        remark(&r, "%s %s %s, %.2fx", p->peer, p->dtype, time_text(p->seconds).text,
               ratio_of(row, p));
        if (row->memory > 0 && p->memory > 0)
            remark(&r, "its memory %s", zoe_amount_of(p->memory).text);
    }
    return r;
}

static void print_text(bench *b, const bench_row *row)
{
    const bench_types types = zoe_bench_types_of(&row->name);
    printf("%-28s %-10s %-24s %3d %10s %14s %4.0f %%  %s\n", row->name.op, types.text,
           shape_of(&row->name).text, b->threads, time_text(row->seconds).text, rate_text(row).text,
           percent_of(row), remarks_of(row, true).text);
}

/* A row of the table in docs/PERFORMANCE.md. */
static void print_markdown(bench *b, const bench_row *row)
{
    const bench_types types = zoe_bench_types_of(&row->name);
    char target[32] = "";
    if (b->rows == 0)
        puts("| what | types | shape | threads | clock | time | rate | of peak | wanted | "
             "beside it |\n|---|---|---|---|---|---|---|---|---|---|");
    if (row->target > 0)
        snprintf(target, sizeof target, "%.0f %%", row->target);
    printf("| %s | %s | %s | %d | %s | %s | %s | %.0f %% | %s | %s |\n", row->name.op, types.text,
           shape_of(&row->name).text, b->threads, b->cpu_time ? "cpu" : "wall",
           time_text(row->seconds).text, rate_text(row).text, percent_of(row), target,
           remarks_of(row, false).text);
}

void zoe_bench_row_print(bench *b, const bench_row *row)
{
    if (b->request->json) {
        for (size_t i = 0; i < row->n_peers; i++)
            print_json(b, row, &row->peers[i]);
        if (row->n_peers == 0)
            print_json(b, row, NULL);
    } else if (b->request->table) {
        print_markdown(b, row);
    } else {
        print_text(b, row);
    }
    b->rows++;
    fflush(stdout);
}

void zoe_bench_peaks_print(bench *b)
{
    const struct {
        const char *op;
        zoe_dtype dtype;
        bench_unit unit;
        double rate;
    } rows[] = {
        {"peak_multiply_add", ZOE_F32, BENCH_FLOP, b->peak.fma_f32},
        {"peak_multiply_add", ZOE_I8, BENCH_INT8, b->peak.mul_int8},
        {"peak_read", ZOE_U8, BENCH_BYTES, b->peak.read},
        {"peak_copy", ZOE_U8, BENCH_BYTES, b->peak.copy},
        {"peak_copy_stream", ZOE_U8, BENCH_BYTES, b->peak.copy_stream},
    };
    b->faults = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t shape[] = {b->buffer_bytes};
        bench_row row = {.name = {rows[i].op, rows[i].dtype, ZOE_NONE, rows[i].dtype, shape,
                                  rows[i].unit == BENCH_BYTES},
                         .unit = rows[i].unit,
                         .work = 1e9, /* of operations: the time of so many */
                         .peak = rows[i].rate};
        if (row.unit == BENCH_BYTES)
            row.work = (rows[i].rate == b->peak.read ? 1 : 2) * (double)b->buffer_bytes;
        row.seconds = row.work / rows[i].rate;
        zoe_bench_row_print(b, &row);
    }
}
