/* The ranks that mpirun or srun started this process with. */
#ifndef ZOE_LAUNCH_H
#define ZOE_LAUNCH_H

#include "request.h"

/* Joins them; *comm is NULL if the process was started alone. From then on all but the first rank are
 * silent. Returns 0, or the exit code after saying what is wrong. */
int zoe_launch_join(zoe_comm **comm);
/* Leaves; code: with which this process ends, so that a failure is told. If the first rank is what is
 * gone, the second one says so. */
void zoe_launch_leave(zoe_comm *comm, int code);
/* Do the numbers of the request want other ranks than there are? Returns as above. */
int zoe_launch_suffices(const zoe_request *request);
/* Waits until all ranks are here with exit code 0. Returns the own code, or that of a failure of
 * another rank. */
int zoe_launch_meet(zoe_context *ctx, zoe_comm *comm, int code);
/* For what one process does by itself: refuses to be one of several that a launcher has started, which
 * would all do the same, and write the same files. Returns as above. */
int zoe_launch_alone(const char *command);
/* Makes all but the first of such processes silent, without joining them; they wait until the first one
 * has said why it fails, as launchers end all when one ends so. */
void zoe_launch_hush(void);

#endif
