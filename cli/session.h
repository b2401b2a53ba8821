/* The frame of a command that reads or writes files by the library, other than generate: context,
 * warnings, interrupts, and the sentence and code at the end. */
#ifndef ZOE_SESSION_H
#define ZOE_SESSION_H

#include "zoetrope/status.h"

/* threads 0: as many as the process may use. NULL after saying that memory ran out: exit with
 * ZOE_EXIT_MEMORY. */
zoe_context *zoe_session_begin(size_t threads);
/* Says what failed, if something did, and frees ctx. Returns the exit code. A command that writes a
 * file has a wrong command line where one that only reads has an unfit input. */
int zoe_session_end(zoe_context *ctx, zoe_status status, bool writes);

#endif
