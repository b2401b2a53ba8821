/* Ctrl-C and its kin: the first asks the library to stop, the second ends the program. And mapped
 * files that shrink: a sentence instead of a crash. */
#ifndef ZOE_INTERRUPT_H
#define ZOE_INTERRUPT_H

#include "zoetrope/status.h"

/* From now on SIGINT, SIGTERM and SIGHUP cancel ctx; each stays ignored if it was (nohup,
 * background jobs). The second one removes the files that are being written and ends the
 * program with code 130. A SIGBUS in a mapped file names the file, removes what is being written
 * and ends the program with code 3. ctx must live until zoe_interrupt_end; from then on each signal
 * is as a second one. */
void zoe_interrupt_begin(zoe_context *ctx);
void zoe_interrupt_end(void);

#endif
