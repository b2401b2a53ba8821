/* B44: cancelling through the library, in every phase: the call ends with ZOE_CANCELLED, within one
 * block of the transformer, nothing is left behind, and the same context then runs a sound job.
 *
 *     case_B44_cancel DATA */
#include "case.h"

#include <dirent.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/zoe-case-XXXXXX";

/* Entries of the folder, "." and ".." not counted. */
static size_t entries(void)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n - 2;
}

static bool same_file(const char *a, const char *b)
{
    zoe_context *ctx = case_context(1);
    char *x, *y;
    size_t m, n;
    case_must(ctx, zoe_file_read(ctx, &x, &m, a, 1u << 24), a);
    case_must(ctx, zoe_file_read(ctx, &y, &n, b, 1u << 24), b);
    const bool same = m == n && memcmp(x, y, n) == 0;
    zoe_free(x);
    zoe_free(y);
    zoe_context_free(ctx);
    return same;
}

/* ---- at a unit of progress ---- */

typedef struct point {
    zoe_context *ctx;
    zoe_phase phase;
    size_t done;
    bool cancelled;
    size_t after; /* units of progress reported since */
} point;

static void cancel_there(void *user, zoe_phase phase, size_t done, size_t total)
{
    point *p = user;
    (void)total;
    p->after += p->cancelled;
    if (p->cancelled || phase != p->phase || done != p->done)
        return;
    p->cancelled = true;
    zoe_cancel(p->ctx);
}

static void phases(zoe_context *ctx, const zoe_job_params *params)
{
    static const point points[] = {
        {.phase = ZOE_PHASE_TEXT, .done = 0},   {.phase = ZOE_PHASE_TEXT, .done = 1},
        {.phase = ZOE_PHASE_ENCODE, .done = 0}, {.phase = ZOE_PHASE_ENCODE, .done = 1},
        {.phase = ZOE_PHASE_STEPS, .done = 0},  {.phase = ZOE_PHASE_STEPS, .done = 1},
        {.phase = ZOE_PHASE_DECODE, .done = 0}, {.phase = ZOE_PHASE_DECODE, .done = 1},
        {.phase = ZOE_PHASE_DECODE, .done = 2},
    };
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        zoe_job_params p = *params;
        point at = points[i];
        const char *what = zoe_phase_name(at.phase);
        at.ctx = ctx;
        p.progress = cancel_there;
        p.user = &at;
        zoe_context_clear(ctx);
        const zoe_status status = case_run(ctx, &p);
        case_expect(at.cancelled && status == ZOE_CANCELLED, "%s %zu: %s: %s", what, at.done,
                    zoe_status_name(status), zoe_context_message(ctx));
        case_expect(zoe_cancelled(ctx), "%s %zu: the context forgot it", what, at.done);
        case_expect(at.after == 0, "%s %zu: %zu more units were done", what, at.done, at.after);
        case_expect(entries() == 1, "%s %zu: %zu files left", what, at.done, entries());

        /* Still cancelled, any later call ends the same way; cleared, it runs. */
        case_expect(case_run(ctx, params) == ZOE_CANCELLED, "%s %zu: not kept", what, at.done);
        case_expect(entries() == 1, "%s %zu: files of a run that was not to be", what, at.done);
    }
}

/* ---- in a block: within one block's time ---- */

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* By a timer that counts the CPU time of this process, which no other load on the machine disturbs. */
static zoe_context *volatile working;
static volatile double cancelled_at; /* on that clock; 0: not yet */

static void on_timer(int number)
{
    (void)number;
    cancelled_at = seconds(CLOCK_PROCESS_CPUTIME_ID);
    zoe_cancel(working);
}

static void cancel_after(timer_t timer, double delay)
{
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)delay, .tv_nsec = (long)(1e9 * fmod(delay, 1.0)) + 1}};
    cancelled_at = 0.0;
    if (timer_settime(timer, 0, &when, NULL) != 0)
        exit(1);
}

static timer_t make_timer(zoe_context *ctx)
{
    timer_t timer;
    struct sigaction action = {.sa_handler = on_timer};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    working = ctx;
    if (sigaction(SIGUSR1, &action, NULL) != 0 ||
        timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0)
        exit(1);
    return timer;
}

static zoe_status forward(const case_network *n, const zoe_wan_text *text, float *velocity)
{
    return zoe_wan_forward(n->ctx, n->wan, n->work, velocity, n->latent, n->condition, text, 900.0,
                           NULL);
}

static void blocks(zoe_context *ctx, const char *expert)
{
    enum { PLACES = 8 };
    static const float context[48];
    zoe_wan_text *text;
    size_t seen = 0;
    zoe_context_clear(ctx);
    case_network n = case_network_open(ctx, expert, 3, 48, 48);
    const zoe_wan_dims *d = zoe_wan_dims_of(n.wan);
    float *velocity = case_memory(n.count, sizeof *velocity);
    if (!case_expect(d->text_dim == sizeof context / sizeof context[0], "another model"))
        return;
    case_must(ctx, zoe_wan_text_new(ctx, &text, n.wan, context, 1, NULL), "text");
    case_must(ctx, forward(&n, text, velocity), "a pass that reads the weights");
    const double begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
    case_must(ctx, forward(&n, text, velocity), "a pass");
    const double pass = seconds(CLOCK_PROCESS_CPUTIME_ID) - begin, block = pass / (double)d->layers;
    const timer_t timer = make_timer(ctx);
    for (size_t i = 0; i < PLACES; i++) {
        zoe_context_clear(ctx);
        cancel_after(timer, pass * (0.05 + 0.75 * (double)i / PLACES));
        const zoe_status status = forward(&n, text, velocity);
        const double took = seconds(CLOCK_PROCESS_CPUTIME_ID) - cancelled_at;
        cancel_after(timer, 1e6);
        if (status == ZOE_OK) /* the timer is coarse: the pass was over */
            continue;
        seen++;
        case_expect(status == ZOE_CANCELLED, "in a block, %zu: %s", i, zoe_status_name(status));
        case_expect(took < block, "in a block, %zu: %.4f s to return, a block takes %.4f", i, took,
                    block);
    }
    case_expect(seen >= PLACES / 2, "%zu of %d passes of %.4f s were cancelled", seen, (int)PLACES,
                pass);
    timer_delete(timer);
    zoe_context_clear(ctx);
    zoe_wan_text_free(text);
    free(velocity);
    case_network_close(&n);
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(folder))
        return 2;
    const char *checkpoint = case_path(argv[1], "e2e_i2v/ckpt");
    const char *picture = case_path(argv[1], "e2e_i2v/input.png");
    char want[64], out[64], frames[64], latents[64], command[96];
    snprintf(want, sizeof want, "%s/want.y4m", folder);
    snprintf(out, sizeof out, "%s/v.y4m", folder);
    snprintf(frames, sizeof frames, "%s/frames", folder);
    snprintf(latents, sizeof latents, "%s/l.safetensors", folder);
    zoe_context *fresh = case_context(1), *ctx = case_context(1);
    zoe_job_params params = case_params(checkpoint, picture);
    params.frames = 9;
    params.out = want;
    case_must(fresh, case_run(fresh, &params), "a first run");
    zoe_context_free(fresh);

    params.out = out;
    params.frames_out = frames;
    params.latents_out = latents;
    phases(ctx, &params);
    blocks(ctx, case_path(checkpoint, "high_noise_model"));

    zoe_context_clear(ctx);
    case_must(ctx, case_run(ctx, &params), "the run after all that");
    case_expect(same_file(want, out), "the run after all that gives another video");
    snprintf(command, sizeof command, "rm -r %s", folder);
    zoe_context_free(ctx);
    return system(command) == 0 && !case_failures ? 0 : 1;
}
