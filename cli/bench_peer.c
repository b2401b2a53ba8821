/* Peers: other libraries, each in a process of its own that reads cases as JSON lines and answers
 * with times. bench/peers/README.md has the protocol. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "commands.h"
#include "message.h"

enum { LINE = 8192 };

struct bench_peer {
    const char *name;
    pid_t pid; /* 0: not running */
    int to, from;
    char line[LINE]; /* what came and is not yet used */
    size_t used;
    char why[512], dtype[16];
    bool silent; /* its end was said */
};

static const struct known {
    const char *name, *file, *get;
    bool python;
} known[BENCH_PEERS] = {
    {"torch", "torch_peer.py",
     "install it (pip install torch, and diffusers for step and vae), or name a python that has it "
     "by ZOE_PYTHON",
     true},
    {"onednn", "zoe_peer_onednn",
     "install it (Debian: libdnnl-dev) and build zoe again, with its benchmark peers", false},
    {"openblas", "zoe_peer_openblas",
     "install it (Debian: libopenblas-dev) and build zoe again, with its benchmark peers", false},
};

/* ---- where they are ---- */

/* Beside the program in its build folder, or where it was installed. */
static bool find_file(char *path, size_t room, const char *file)
{
    static const char *const places[] = {"bench/peers", "../libexec/zoetrope/peers"};
    char own[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    if (n <= 0)
        return false;
    own[n] = '\0';
    char *slash = strrchr(own, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const int length = snprintf(path, room, "%s/%s/%s", own, places[i], file);
        if (length > 0 && (size_t)length < room && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* ---- lines ---- */

/* One object to the peer; uses it up. */
static bool send_object(bench_peer *p, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return false;
    const size_t n = strlen(text);
    size_t done = 0;
    text[n] = '\n'; /* in the place of the end */
    while (done < n + 1) {
        const ssize_t put = write(p->to, text + done, n + 1 - done);
        if (put < 0 && errno != EINTR)
            break;
        done += put > 0 ? (size_t)put : 0;
    }
    text[n] = '\0';
    free(text);
    return done == n + 1;
}

/* A whole line, waited for as long as it takes; NULL: the peer ended, or the run was interrupted. */
static json_t *receive_object(bench *b, bench_peer *p)
{
    for (;;) {
        char *end = memchr(p->line, '\n', p->used);
        if (end) {
            json_t *object = json_loadb(p->line, (size_t)(end - p->line), 0, NULL);
            p->used -= (size_t)(end + 1 - p->line);
            memmove(p->line, end + 1, p->used);
            return object;
        }
        struct pollfd ready = {.fd = p->from, .events = POLLIN};
        const int n = poll(&ready, 1, 200);
        if (zoe_cancelled(b->ctx) || p->used == sizeof p->line)
            return NULL;
        if (n <= 0)
            continue;
        const ssize_t got = read(p->from, p->line + p->used, sizeof p->line - p->used);
        if (got == 0 || (got < 0 && errno != EINTR))
            return NULL;
        p->used += got > 0 ? (size_t)got : 0;
    }
}

static void end_process(bench_peer *p)
{
    if (p->pid <= 0)
        return;
    close(p->to);
    close(p->from);
    kill(p->pid, SIGTERM);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    p->pid = 0;
}

/* Sends and waits for the answer. NULL: there will be none any more; *why says what happened. */
static json_t *ask(bench *b, bench_peer *p, json_t *object)
{
    json_t *answer = NULL;
    if (p->pid > 0 && send_object(p, object))
        answer = receive_object(b, p);
    else if (p->pid <= 0)
        json_decref(object);
    if (!answer) {
        end_process(p);
        snprintf(p->why, sizeof p->why, "the peer has ended");
        if (!p->silent && !zoe_cancelled(b->ctx))
            zoe_warn("--compare %s: the peer's process ended; rows from here on are without it",
                     p->name);
        p->silent = true;
    }
    return answer;
}

/* ---- begin and end ---- */

/* Freed memory is kept by the allocator: without that, most of the time of large operators of torch
 * goes into page faults of temporaries. */
static const char *const settings[][2] = {
    {"MALLOC_MMAP_THRESHOLD_", "8589934592"},
    {"MALLOC_TRIM_THRESHOLD_", "17179869184"},
    {"MALLOC_TOP_PAD_", "1073741824"},
};

static bool start_process(bench_peer *p, const struct known *k, const char *path)
{
    const char *python = getenv("ZOE_PYTHON");
    int to[2], from[2];
    if (!python || !*python)
        python = "python3";
    if (pipe2(to, O_CLOEXEC) != 0)
        return false;
    if (pipe2(from, O_CLOEXEC) != 0) {
        close(to[0]);
        close(to[1]);
        return false;
    }
    fflush(NULL);
    p->pid = fork();
    if (p->pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        signal(SIGPIPE, SIG_DFL);
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
            setenv(settings[i][0], settings[i][1], 1);
        if (k->python)
            execlp(python, python, path, (char *)NULL);
        else
            execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    if (p->pid < 0) {
        close(to[1]);
        close(from[0]);
        return false;
    }
    p->to = to[1];
    p->from = from[0];
    return true;
}

static bench_peer *start_peer(bench *b, const struct known *k)
{
    char path[PATH_MAX];
    void *memory;
    bench_peer *p;
    if (zoe_alloc_zero(b->ctx, &memory, 1, sizeof *p, "peer of a benchmark") != ZOE_OK)
        return NULL;
    p = memory;
    p->name = k->name;
    if (find_file(path, sizeof path, k->file) && start_process(p, k, path)) {
        json_t *hello = receive_object(b, p);
        const char *version = json_string_value(json_object_get(hello, "ready"));
        if (version && !b->request->json)
            zoe_note("compares with %s", version);
        json_decref(hello);
        if (version)
            return p;
        end_process(p);
    }
    zoe_free(p);
    if (!zoe_cancelled(b->ctx))
        zoe_warn("--compare %s: %s is not installed for this program; %s", k->name, k->name,
                 k->get);
    return NULL;
}

/* The peer that so many letters name; BENCH_PEERS: none. */
static size_t find_known(const char *word, size_t n)
{
    size_t i = 0;
    while (i < BENCH_PEERS && (strlen(known[i].name) != n || strncmp(known[i].name, word, n) != 0))
        i++;
    return i;
}

bool zoe_bench_peers_start(bench *b)
{
    bool asked[BENCH_PEERS] = {false};
    for (size_t i = 0; i < b->request->n_compare; i++)
        for (const char *word = b->request->compare[i]; *word;) {
            const size_t n = strcspn(word, ","), index = find_known(word, n);
            if (index == BENCH_PEERS) {
                zoe_refuse(ZOE_EXIT_USAGE, "INVALID",
                           "--compare %.*s: wanted is torch, onednn or openblas",
                           (int)(n < 100 ? n : 100), word);
                return false;
            }
            asked[index] = true;
            word += n + (word[n] == ',');
        }
    for (size_t i = 0; i < BENCH_PEERS && b->ctx; i++) {
        bench_peer *p = asked[i] && !zoe_cancelled(b->ctx) ? start_peer(b, &known[i]) : NULL;
        if (p)
            b->peers[b->n_peers++] = p;
    }
    return true;
}

void zoe_bench_peers_stop(bench *b)
{
    for (size_t i = 0; i < b->n_peers; i++) {
        end_process(b->peers[i]);
        zoe_free(b->peers[i]);
    }
    b->n_peers = 0;
}

const char *zoe_bench_peer_name(const bench_peer *peer)
{
    return peer->name;
}

/* ---- cases ---- */

bool zoe_bench_peer_prepare(bench *b, bench_peer *p, const bench_case_name *name,
                            const char **dtype, const char **why)
{
    json_t *shape = json_array();
    for (size_t i = 0; i < name->rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)name->shape[i]));
    json_t *answer = ask(b, p,
                         json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:s}", "do", "prepare",
                                   "op", name->op, "x", zoe_dtype_name(name->x), "w",
                                   zoe_dtype_name(name->w == ZOE_NONE ? name->x : name->w), "y",
                                   zoe_dtype_name(name->y), "shape", shape, "threads", b->threads,
                                   "clock", b->cpu_time ? "cpu" : "wall"));
    const char *type = json_string_value(json_object_get(answer, "dtype"));
    const char *reason = json_string_value(json_object_get(answer, "unsupported"));
    const bool ready = json_is_true(json_object_get(answer, "ok"));
    snprintf(p->dtype, sizeof p->dtype, "%s", ready && type ? type : "");
    if (answer && !ready)
        snprintf(p->why, sizeof p->why, "%s", reason ? reason : "its answer is not understood");
    json_decref(answer);
    *dtype = p->dtype;
    *why = p->why;
    return ready;
}

zoe_status zoe_bench_time_peer(bench *b, void *self, size_t calls, double *seconds)
{
    bench_peer *p = self;
    json_t *answer = ask(b, p, json_pack("{s:s, s:I}", "do", "run", "calls", (json_int_t)calls));
    const json_t *value = json_object_get(answer, "seconds");
    const bool good = json_is_number(value) && json_number_value(value) > 0;
    *seconds = good ? json_number_value(value) : INFINITY;
    json_decref(answer);
    return zoe_check_cancel(b->ctx);
}

size_t zoe_bench_peer_release(bench *b, bench_peer *p)
{
    if (p->pid <= 0)
        return 0;
    json_t *answer = ask(b, p, json_pack("{s:s}", "do", "release"));
    const json_int_t bytes = json_integer_value(json_object_get(answer, "peak_bytes"));
    json_decref(answer);
    return bytes > 0 ? (size_t)bytes : 0;
}
