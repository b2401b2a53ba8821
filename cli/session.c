/* See session.h. */
#include "session.h"

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "interrupt.h"
#include "job/job.h"
#include "message.h"

static void on_log(void *user, zoe_level level, const char *text)
{
    (void)user;
    if (level == ZOE_WARNING)
        zoe_warn("%s", text);
}

bool zoe_command_read(const zoe_command *command, zoe_options *found, void *target,
                      const bool *help, int argc, char **argv, int *code)
{
    char name[32];
    snprintf(name, sizeof name, "zoe %s", command->name);
    *code = ZOE_EXIT_DONE;
    if (!zoe_options_parse(found, target, command->rows, command->n_rows, argc, argv, 1, name)) {
        *code = zoe_refuse_line(found->mistake);
        return false;
    }
    if (*help)
        zoe_command_help(command);
    return !*help;
}

zoe_context *zoe_session_begin(size_t threads)
{
    zoe_context *ctx = zoe_context_new((int)threads);
    if (!ctx) {
        zoe_refuse(ZOE_EXIT_MEMORY, zoe_status_name(ZOE_NOMEM), "memory ran out");
        return NULL;
    }
    zoe_context_set_log(ctx, on_log, NULL);
    zoe_interrupt_begin(ctx);
    return ctx;
}

static int exit_code_of(zoe_status status, bool writes)
{
    switch (status) {
    case ZOE_OK: return ZOE_EXIT_DONE;
    case ZOE_NOMEM: return ZOE_EXIT_MEMORY;
    case ZOE_CANCELLED: return ZOE_EXIT_INTERRUPTED;
    case ZOE_INTERNAL: return ZOE_EXIT_FAILED;
    case ZOE_INVALID: return writes ? ZOE_EXIT_USAGE : ZOE_EXIT_INPUT;
    case ZOE_IO: return writes ? ZOE_EXIT_FAILED : ZOE_EXIT_INPUT;
    default: return ZOE_EXIT_INPUT;
    }
}

int zoe_session_end(zoe_context *ctx, zoe_status status, bool writes)
{
    int code = exit_code_of(status, writes);
    const char *message = zoe_context_message(ctx);
    zoe_interrupt_end();
    zoe_live_line(NULL);
    fflush(stdout);
    /* A system call that the signal broke off may be what failed. */
    if (zoe_cancelled(ctx))
        code = zoe_refuse(ZOE_EXIT_INTERRUPTED, zoe_status_name(ZOE_CANCELLED), "interrupted");
    else if (status != ZOE_OK)
        code = zoe_refuse(code, zoe_status_name(status), "%s",
                          *message ? message : zoe_status_name(status));
    zoe_context_free(ctx);
    return code;
}

int zoe_check_paths(const zoe_named_path *paths, size_t outputs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (paths[i].path && (!*paths[i].path || strcmp(paths[i].path, "-") == 0))
            return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                              "%s: the name of a file is wanted", paths[i].option);
    for (size_t i = 0; i < outputs; i++)
        for (size_t j = i + 1; j < n; j++)
            if (zoe_places_meet(paths[i].path, paths[j].path))
                return zoe_refuse(ZOE_EXIT_USAGE, zoe_status_name(ZOE_INVALID),
                                  "%s and %s are the same file; two names are wanted",
                                  paths[i].option, paths[j].option);
    return ZOE_EXIT_DONE;
}
