/* Signal handlers. Only async-signal-safe calls in them. */
#define _XOPEN_SOURCE 700 /* BUS_ADRERR */
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "commands.h"
#include "message.h"

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static zoe_context *volatile context;
static volatile sig_atomic_t count;

static void on_signal(int number)
{
    (void)number;
    const int saved = errno;
    if (count++ > 0 || !context) {
        zoe_outputs_unlink();
        _exit(ZOE_EXIT_INTERRUPTED);
    }
    zoe_cancel(context);
    errno = saved;
}

static void watch_signals(void)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old, action;
        if (sigaction(signals[i], NULL, &old) != 0 || old.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = on_signal;
        /* No SA_RESTART: a write to a pipe that nobody reads must return. */
        sigemptyset(&action.sa_mask);
        sigaction(signals[i], &action, NULL);
    }
}

/* ---- a mapped file whose bytes are not there any more ---- */

typedef struct line {
    char text[8192];
    size_t used;
} line;

static void put(line *l, const char *text)
{
    while (*text && l->used < sizeof l->text)
        l->text[l->used++] = *text++;
}

/* A path as it may stand on a terminal and in JSON; what would need an escape is shown as '?'. */
static void put_path(line *l, const char *path, bool json)
{
    for (; *path && l->used < sizeof l->text; path++) {
        const unsigned char c = (unsigned char)*path;
        const bool plain =
            c >= 0x20 && c != 0x7f && !(json && (c == '"' || c == '\\' || c >= 0x80));
        l->text[l->used++] = plain ? (char)c : '?';
    }
}

static void on_bus_error(int number, siginfo_t *info, void *unused)
{
    static line l; /* not on the stack of a thread, which may be small */
    (void)unused;
    const char *path = info->si_code == BUS_ADRERR ? zoe_map_path_at(info->si_addr) : NULL;
    if (!path) { /* a fault of another kind: as if there were no handler */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    const bool json = zoe_message_is_json();
    zoe_outputs_unlink();
    put(&l, json ? "{\"event\":\"error\",\"code\":\"IO\",\"exit\":3,\"message\":\""
            : zoe_message_on_terminal() ? "\r\033[Kzoe: "
                                        : "zoe: ");
    put_path(&l, path, json);
    put(&l, ": cannot be read any more: the file became shorter while it was in use, or its disk "
            "failed; put it back and start again");
    put(&l, json ? "\"}\n" : "\n");
    (void)!write(STDERR_FILENO, l.text, l.used);
    _exit(ZOE_EXIT_INPUT);
}

static void watch_maps(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

void zoe_interrupt_begin(zoe_context *ctx)
{
    count = 0;
    context = ctx;
    watch_signals();
    watch_maps();
}

void zoe_interrupt_end(void)
{
    context = NULL; /* the handlers stay: a second Ctrl-C may come as late as this */
}
