/* Signal handlers. Only async-signal-safe calls in them. */
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { EXIT_INTERRUPTED = 130 };

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static zoe_context *volatile context;
static volatile sig_atomic_t count;

static void on_signal(int number)
{
    (void)number;
    const int saved = errno;
    if (count++ > 0 || !context) {
        zoe_outputs_unlink();
        _exit(EXIT_INTERRUPTED);
    }
    zoe_cancel(context);
    errno = saved;
}

static void set_handlers(void (*handler)(int))
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old, action;
        if (sigaction(signals[i], NULL, &old) != 0 || old.sa_handler == SIG_IGN)
            continue;
        memset(&action, 0, sizeof action);
        action.sa_handler = handler;
        /* No SA_RESTART: a write to a pipe that nobody reads must return. */
        sigemptyset(&action.sa_mask);
        sigaction(signals[i], &action, NULL);
    }
}

void zoe_interrupt_begin(zoe_context *ctx)
{
    count = 0;
    context = ctx;
    set_handlers(on_signal);
}

void zoe_interrupt_end(void)
{
    set_handlers(SIG_DFL);
    context = NULL;
}
