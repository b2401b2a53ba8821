/* zoe doctor: what this machine offers, what the program makes of it, and whether its kernels are
 * right here. */
#define _GNU_SOURCE /* mkdtemp */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <openssl/crypto.h>
#include <png.h>
#include <unistring/version.h>

#include "answer.h"
#include "base/base.h"
#include "base/file.h"
#include "commands.h"
#include "kernel/kernel.h"
#include "machine.h"
#include "media/media.h"
#include "message.h"
#include "session.h"

typedef struct doctor_request {
    bool json, help;
} doctor_request;

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_FLAG, "json", .at = offsetof(doctor_request, json), .help = "print one JSON object"},
    {ZOE_OPTION_FLAG, "help", 'h', .at = offsetof(doctor_request, help), .help = "this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0], LIBRARIES = 10, ENCODERS = 2, FAULTS_KEPT = 16 };

typedef struct library {
    const char *name;
    char version[64];
} library;

typedef struct encoder {
    const char *format, *encoder;
    bool works;
    char why[512]; /* it does not */
} encoder;

typedef struct fault {
    const char *kernel;
    double error, tolerance;
} fault;

typedef struct doctor {
    zoe_machine machine;
    char why_isa[512], why_threads[256];
    library libraries[LIBRARIES];
    size_t n_libraries;
    encoder encoders[ENCODERS];
    const char *temporary;
    size_t kernels, guests, faults;
    fault fault[FAULTS_KEPT];
    double gflops_one, gflops_all, copy_rate; /* 0: not measured */
    double seconds;
} doctor;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what was chosen, and why ---- */

static void explain_isa(doctor *d)
{
    const zoe_isa best = zoe_cpu_best(), chosen = zoe_cpu_isa();
    const char *wish = getenv("ZOE_CPU");
    char why[320];
    if (d->machine.lacks[0])
        snprintf(why, sizeof why, "for a higher one the cpu lacks %s", d->machine.lacks);
    else
        snprintf(why, sizeof why, "the best that there are kernels for");
    if (!wish)
        snprintf(d->why_isa, sizeof d->why_isa, "%s", why);
    else if (strcmp(wish, zoe_isa_name(chosen)) == 0)
        snprintf(d->why_isa, sizeof d->why_isa, "ZOE_CPU asks for it%s%s",
                 chosen < best ? "; without it: " : "", chosen < best ? zoe_isa_name(best) : "");
    else
        snprintf(d->why_isa, sizeof d->why_isa,
                 "%s; ZOE_CPU=%.64s is passed over: no instruction set of this program and cpu",
                 why, wish);
}

static void explain_threads(doctor *d)
{
    const zoe_machine *m = &d->machine;
    const int threads = zoe_cpu_threads();
    if (m->quota > 0 && m->quota == threads && (m->affinity == 0 || m->quota < m->affinity))
        snprintf(d->why_threads, sizeof d->why_threads,
                 "the cgroup's quota is worth so many; the process may run on %d cpus",
                 m->affinity);
    else if (m->affinity > 0 && m->affinity < m->online)
        snprintf(d->why_threads, sizeof d->why_threads, "affinity allows so many of %d cpus",
                 m->online);
    else
        snprintf(d->why_threads, sizeof d->why_threads, "all cpus");
}

/* ---- libraries ---- */

static void add_library(doctor *d, const char *name, const char *version)
{
    if (d->n_libraries < LIBRARIES) {
        library *l = &d->libraries[d->n_libraries++];
        l->name = name;
        snprintf(l->version, sizeof l->version, "%s", version);
    }
}

static void add_numbered(doctor *d, const char *name, unsigned a, unsigned b, unsigned c)
{
    char version[64];
    snprintf(version, sizeof version, "%u.%u.%u", a, b, c);
    add_library(d, name, version);
}

static void list_libraries(doctor *d)
{
    const unsigned format = avformat_version(), codec = avcodec_version(), util = avutil_version();
    const unsigned string = (unsigned)_libunistring_version;
    add_numbered(d, "libavformat", format >> 16, format >> 8 & 255u, format & 255u);
    add_numbered(d, "libavcodec", codec >> 16, codec >> 8 & 255u, codec & 255u);
    add_numbered(d, "libavutil", util >> 16, util >> 8 & 255u, util & 255u);
    add_library(d, "libpng", png_get_libpng_ver(NULL));
    add_library(d, "jansson", jansson_version_str());
    add_library(d, "OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING));
    add_numbered(d, "libunistring", string >> 16, string >> 8 & 255u, string & 255u);
    add_library(d, "sentencepiece", ZOE_SENTENCEPIECE " (built with)");
    add_library(d, "gumbo", ZOE_GUMBO " (built with)");
}

/* ---- encoders: a video of one frame tells more than a list ---- */

static zoe_status encode(zoe_context *ctx, const char *path)
{
    enum { SIDE = 32 };
    static const uint8_t rgb[SIDE * SIDE * 3];
    const zoe_video_options options = {.width = SIDE, .height = SIDE, .fps_num = 16, .fps_den = 1};
    zoe_video *video;
    TRY(zoe_video_open(ctx, &video, path, &options));
    const zoe_status status = zoe_video_frame(ctx, video, rgb);
    if (status == ZOE_OK)
        return zoe_video_close(ctx, video);
    zoe_video_abort(video);
    return status;
}

static void try_encoder(zoe_context *ctx, encoder *e, const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    zoe_context_clear(ctx);
    e->works = encode(ctx, path) == ZOE_OK;
    snprintf(e->why, sizeof e->why, "%s", zoe_context_message(ctx));
    unlink(path);
}

static void try_encoders(zoe_context *ctx, doctor *d)
{
    char folder[4096];
    d->encoders[0] = (encoder){"H.264 (.mp4)", zoe_video_encoder(ZOE_VIDEO_MP4), false, ""};
    d->encoders[1] = (encoder){"VP9 (.webm)", zoe_video_encoder(ZOE_VIDEO_WEBM), false, ""};
    const int n = snprintf(folder, sizeof folder, "%s/zoe-doctor-XXXXXX", d->temporary);
    if (n < 0 || (size_t)n >= sizeof folder || !mkdtemp(folder)) {
        for (size_t i = 0; i < ENCODERS; i++)
            snprintf(d->encoders[i].why, sizeof d->encoders[i].why,
                     "could not be tried: no file can be made in %.200s: %s", d->temporary,
                     strerror(errno));
        return;
    }
    try_encoder(ctx, &d->encoders[0], folder, "try.mp4");
    try_encoder(ctx, &d->encoders[1], folder, "try.webm");
    rmdir(folder);
}

/* ---- kernels ---- */

static void see_kernel(void *user, const char *name, bool guest, double error, double tolerance)
{
    doctor *d = user;
    d->kernels++;
    d->guests += guest;
    if (error <= tolerance)
        return;
    if (d->faults < FAULTS_KEPT)
        d->fault[d->faults] = (fault){name, error, tolerance};
    d->faults++;
}

/* What each thread works on while speed is measured. */
typedef struct load {
    float *a, *panel, *c; /* of a product of DEPTH, small enough for the nearest caches */
    unsigned char *from, *to;
    size_t products, bytes;
} load;
enum { DEPTH = 512, LINES = 24, PRODUCTS = 200, COPY = 16 << 20 };

static void run_products(void *arg, size_t i, size_t worker)
{
    load *l = &((load *)arg)[i];
    (void)worker;
    for (size_t n = 0; n < l->products; n++)
        zoe_kernels_get()->gemm(l->c, ZOE_PANEL, l->a, DEPTH, l->panel, LINES, DEPTH, false);
}

static void run_copies(void *arg, size_t i, size_t worker)
{
    load *l = &((load *)arg)[i];
    (void)worker;
    memcpy(l->to, l->from, l->bytes);
}

/* Runs fn for `threads` loads for a tenth of a second; rounds a second, of the best round, since
 * other programs may run beside. */
static double rounds(const zoe_context *ctx, zoe_task_fn fn, load *loads, size_t threads)
{
    double best = INFINITY;
    zoe_parallel_for(ctx, threads, fn, loads); /* wakes threads and fills caches */
    const double begun = now();
    for (double last = begun, end; last - begun < 0.1; last = end) {
        zoe_parallel_for(ctx, threads, fn, loads);
        end = now();
        best = fmin(best, end - last);
    }
    return 1.0 / best;
}

static zoe_status new_load(zoe_context *ctx, load *l)
{
    void *p;
    const size_t a = (size_t)LINES * DEPTH, panel = (size_t)DEPTH * ZOE_PANEL;
    *l = (load){.products = PRODUCTS, .bytes = COPY};
    TRY(zoe_alloc_zero(ctx, &p, a + panel + LINES * ZOE_PANEL, sizeof(float), "a product"));
    l->a = p;
    l->panel = l->a + a;
    l->c = l->panel + panel;
    TRY(zoe_alloc_zero(ctx, &p, COPY, 1, "a copy"));
    l->from = p;
    TRY(zoe_alloc_zero(ctx, &p, COPY, 1, "a copy"));
    l->to = p;
    for (size_t i = 0; i < a + panel; i++)
        l->a[i] = 0.5f;
    return ZOE_OK;
}

static zoe_status measure(zoe_context *ctx, doctor *d)
{
    enum { MOST = 64 }; /* threads: more tell nothing new and take memory */
    const size_t all = (size_t)zoe_context_threads(ctx), threads = all < MOST ? all : MOST;
    const double work = 2.0 * LINES * DEPTH * ZOE_PANEL * PRODUCTS;
    void *p;
    TRY(zoe_alloc_zero(ctx, &p, threads, sizeof(load), "loads"));
    load *loads = p;
    zoe_status status = ZOE_OK;
    for (size_t i = 0; i < threads && status == ZOE_OK; i++)
        status = new_load(ctx, &loads[i]);
    if (status == ZOE_OK) {
        d->gflops_one = rounds(ctx, run_products, loads, 1) * work * 1e-9;
        d->gflops_all = rounds(ctx, run_products, loads, threads) * work * (double)threads * 1e-9;
        d->copy_rate =
            rounds(ctx, run_copies, loads, threads) * 2.0 * COPY * (double)threads * 1e-9;
    }
    for (size_t i = 0; i < threads; i++) {
        zoe_free(loads[i].a);
        zoe_free(loads[i].from);
        zoe_free(loads[i].to);
    }
    zoe_free(loads);
    return status;
}

static zoe_status examine(zoe_context *ctx, doctor *d)
{
    const char *temporary = getenv("TMPDIR");
    d->temporary = temporary && *temporary ? temporary : "/tmp";
    zoe_machine_read(&d->machine);
    explain_isa(d);
    explain_threads(d);
    list_libraries(d);
    const double begun = now();
    try_encoders(ctx, d);
    zoe_context_clear(ctx);
    TRY(zoe_kernels_selftest(ctx, zoe_kernels_get(), see_kernel, d));
    TRY(measure(ctx, d));
    d->seconds = now() - begun;
    return ZOE_OK;
}

/* ---- for people ---- */

static const char *known(const char *text)
{
    return *text ? text : "unknown";
}

static void print_machine(const doctor *d)
{
    const zoe_machine *m = &d->machine;
    char caches[256] = "";
    size_t used = 0;
    zoe_answer_row("system", "%s", known(m->system));
    zoe_answer_row("cpu", "%s", known(m->cpu));
    zoe_answer_row("", "has %s", known(m->features));
    zoe_answer_row("kernels", "%s: %s", zoe_isa_name(zoe_cpu_isa()), d->why_isa);
    zoe_answer_row("threads", "%d: %s", zoe_cpu_threads(), d->why_threads);
    for (size_t i = 0; i < m->n_caches && used < sizeof caches; i++)
        used += (size_t)snprintf(caches + used, sizeof caches - used, "%sL%u %s %s", i ? ", " : "",
                                 m->caches[i].level, m->caches[i].kind,
                                 zoe_amount_of(m->caches[i].bytes).text);
    zoe_answer_row("caches", "%s", known(caches));
    zoe_answer_row("memory", "%s, %s available, %s of swap free", zoe_amount_of(m->memory).text,
                   zoe_amount_of(m->available).text, zoe_amount_of(m->swap_free).text);
    zoe_answer_row("", "limit of the cgroup: %s",
                   m->memory_limit == SIZE_MAX ? "none" : zoe_amount_of(m->memory_limit).text);
    if (m->huge_pages != SIZE_MAX)
        zoe_answer_row("huge pages", "%zu of %s; transparent: %s", m->huge_pages,
                       zoe_amount_of(m->huge_page_bytes).text, known(m->transparent));
    else
        zoe_answer_row("huge pages", "unknown; transparent: %s", known(m->transparent));
    zoe_answer_row("devices", "cpu, the only one that this version computes on");
    zoe_answer_row("disk", "%s free here, %s in %s", zoe_amount_of(zoe_folder_free(".")).text,
                   zoe_amount_of(zoe_folder_free(d->temporary)).text, d->temporary);
}

static void print_tests(const doctor *d)
{
    for (size_t i = 0; i < ENCODERS; i++) {
        const encoder *e = &d->encoders[i];
        zoe_answer_row(i ? "" : "encoders", "%s: %s %s", e->format, e->encoder,
                       e->works ? "works" : e->why);
    }
    zoe_answer_row("self-test", "%zu kernels, %zu of them for this cpu: %s", d->kernels, d->guests,
                   d->faults ? "FAULTY" : "right");
    for (size_t i = 0; i < d->faults && i < FAULTS_KEPT; i++)
        zoe_answer_row("", "%s: differs by %.3g from its definition, %.3g is allowed",
                       d->fault[i].kernel, d->fault[i].error, d->fault[i].tolerance);
    zoe_answer_row("speed", "products %.1f GFLOP/s on one thread, %.1f on %d; copying %.1f GB/s",
                   d->gflops_one, d->gflops_all, zoe_cpu_threads(), d->copy_rate);
}

static void print(const doctor *d)
{
    zoe_answer_line("zoe %s", ZOE_VERSION);
    print_machine(d);
    for (size_t i = 0; i < d->n_libraries; i++)
        zoe_answer_row(i ? "" : "libraries", "%s %s", d->libraries[i].name,
                       d->libraries[i].version);
    print_tests(d);
}

/* ---- for programs ---- */

static json_t *caches_json(const zoe_machine *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->n_caches; i++)
        json_array_append_new(list, json_pack("{s:i, s:o, s:o}", "level", (int)m->caches[i].level,
                                              "kind", zoe_answer_text(m->caches[i].kind), "bytes",
                                              zoe_answer_size(m->caches[i].bytes)));
    return list;
}

static json_t *libraries_json(const doctor *d)
{
    json_t *object = json_object();
    for (size_t i = 0; i < d->n_libraries; i++)
        json_object_set_new(object, d->libraries[i].name, zoe_answer_text(d->libraries[i].version));
    return object;
}

static json_t *encoders_json(const doctor *d)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ENCODERS; i++) {
        const encoder *e = &d->encoders[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o}", "format", e->format,
                                              "encoder", e->encoder, "works", e->works, "why_not",
                                              e->works ? json_null() : zoe_answer_text(e->why)));
    }
    return list;
}

static json_t *faults_json(const doctor *d)
{
    json_t *list = json_array();
    for (size_t i = 0; i < d->faults && i < FAULTS_KEPT; i++)
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:f}", "kernel", d->fault[i].kernel, "error",
                      isfinite(d->fault[i].error) ? json_real(d->fault[i].error) : json_null(),
                      "tolerance", d->fault[i].tolerance));
    return list;
}

static json_t *machine_json(const doctor *d)
{
    const zoe_machine *m = &d->machine;
    return json_pack(
        "{s:o, s:o, s:o, s:s, s:o, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "system", zoe_answer_text(m->system), "cpu", zoe_answer_text(m->cpu), "features",
        zoe_answer_text(m->features), "kernels", zoe_isa_name(zoe_cpu_isa()), "kernels_why",
        zoe_answer_text(d->why_isa), "threads", zoe_cpu_threads(), "cpus_online", m->online,
        "cpus_affinity", m->affinity, "cpus_quota", m->quota, "threads_why",
        zoe_answer_text(d->why_threads), "caches", caches_json(m), "memory",
        zoe_answer_size(m->memory), "memory_available", zoe_answer_size(m->available),
        "memory_limit", zoe_answer_size(m->memory_limit), "huge_pages",
        zoe_answer_size(m->huge_pages), "huge_page_bytes", zoe_answer_size(m->huge_page_bytes),
        "transparent_huge_pages", zoe_answer_text(m->transparent));
}

static json_t *doctor_json(const doctor *d)
{
    return json_pack("{s:s, s:o, s:[s], s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:f, s:f, s:f,"
                     " s:f, s:b}",
                     "version", ZOE_VERSION, "machine", machine_json(d), "devices", "cpu",
                     "libraries", libraries_json(d), "encoders", encoders_json(d), "free_here",
                     zoe_answer_size(zoe_folder_free(".")), "temporary",
                     zoe_answer_text(d->temporary), "free_temporary",
                     zoe_answer_size(zoe_folder_free(d->temporary)), "kernels",
                     (json_int_t)d->kernels, "kernels_for_cpu", (json_int_t)d->guests, "faults",
                     (json_int_t)d->faults, "faulty", faults_json(d), "gflops_one_thread",
                     d->gflops_one, "gflops", d->gflops_all, "copy_gb_per_second", d->copy_rate,
                     "seconds", d->seconds, "well", d->faults == 0);
}

/* ---- the command ---- */

static int answer(const doctor_request *request, const doctor *d)
{
    int code = ZOE_EXIT_DONE;
    if (request->json)
        code = zoe_answer_json(doctor_json(d));
    else
        print(d);
    fflush(stdout);
    if (code == ZOE_EXIT_DONE && d->faults)
        return zoe_refuse(ZOE_EXIT_FAILED, zoe_status_name(ZOE_INTERNAL),
                          "%zu of %zu kernels give wrong numbers on this machine, the first is %s; "
                          "ZOE_CPU=c uses the plain ones",
                          d->faults, d->kernels, d->fault[0].kernel);
    return code;
}

static int run(int argc, char **argv)
{
    zoe_options found;
    doctor_request request = {0};
    int code;
    if (!zoe_command_read(&zoe_doctor_command, &found, &request, &request.help, argc, argv, &code))
        return code;
    if (found.operands)
        return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                          "%s: zoe doctor takes no arguments", found.operand[0]);
    zoe_context *ctx = zoe_context_new(0);
    if (!ctx)
        return zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
    doctor *d = calloc(1, sizeof *d);
    const zoe_status status = d ? examine(ctx, d) : ZOE_NOMEM;
    code = status == ZOE_OK
               ? answer(&request, d)
               : zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(status), "memory ran out");
    free(d);
    zoe_context_free(ctx);
    return code;
}

static const char text[] =
    "Tells the cpu, the instruction set that the kernels use and why, how many threads a run\n"
    "gets and what limits them, memory and its limits, versions of libraries, and which\n"
    "videos can be encoded (by encoding one frame). Then every kernel is compared with its\n"
    "plain definition on a small input, and two rough figures of speed are measured. Takes a\n"
    "second or two. Put its text into a report of a fault.\n"
    "\n"
    "Environment: ZOE_CPU=c or avx2 lowers the instruction set; TMPDIR is the folder for\n"
    "temporary files.\n"
    "\n"
    "Code 1 says that a kernel gives wrong numbers here. A missing encoder is told, but is no\n"
    "fault.\n";

const zoe_command zoe_doctor_command = {
    .name = "doctor",
    .summary = "tells what this machine offers, and tests the kernels on it",
    .usage = "[--json]",
    .text = text,
    .rows = rows,
    .n_rows = ROWS,
    .operands = ZOE_OPERANDS_NONE,
    .run = run,
};
