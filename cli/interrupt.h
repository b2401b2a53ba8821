/* Ctrl-C and its kin: the first asks the library to stop, the second ends the program. */
#ifndef ZOE_INTERRUPT_H
#define ZOE_INTERRUPT_H

#include "zoetrope/status.h"

/* From now on SIGINT, SIGTERM and SIGHUP cancel ctx; each stays ignored if it was (nohup,
 * background jobs). The second one removes the file `part`, if not NULL, and ends the program with
 * code 130. ctx and part must live until zoe_interrupt_end. */
void zoe_interrupt_begin(zoe_context *ctx, const char *part);
void zoe_interrupt_end(void);

#endif
