/* The frame of a command that reads or writes files by the library, other than generate: context,
 * warnings, interrupts, and the sentence and code at the end. */
#ifndef ZOE_SESSION_H
#define ZOE_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "commands.h"
#include "zoetrope/status.h"

/* Reads the line of a command into target, as its rows say. False after a mistake, which was told, or after
 * --help, for which target has the flag *help: exit with *code. */
bool zoe_command_read(const zoe_command *command, zoe_options *found, void *target,
                      const bool *help, int argc, char **argv, int *code);

/* threads 0: as many as the process may use. NULL after saying that memory ran out: exit with
 * ZOE_EXIT_MEMORY. */
zoe_context *zoe_session_begin(size_t threads);
/* Says what failed, if something did, and frees ctx. Returns the exit code. A command that writes a
 * file has a wrong command line where one that only reads has an unfit input. */
int zoe_session_end(zoe_context *ctx, zoe_status status, bool writes);

/* A path that an option gives; NULL: not given. */
typedef struct zoe_named_path {
    const char *option, *path;
} zoe_named_path;

/* Are they names of files, and is none of the first `outputs` the same file as another? Returns 0, or the
 * exit code after saying what is wrong. */
int zoe_check_paths(const zoe_named_path *paths, size_t outputs, size_t n);

#endif
