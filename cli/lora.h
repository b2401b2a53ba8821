/* --lora of `zoe generate`. */
#ifndef ZOE_CLI_LORA_H
#define ZOE_CLI_LORA_H

#include "request.h"

/* What --lora gave, if it was given, becomes the request's. Returns 0, or the exit code after saying
 * what is wrong. */
int zoe_request_take_loras(zoe_request *request);
/* --from: the record's LoRAs, by name, as files of the current folder. Returns as above. */
int zoe_request_recall_loras(zoe_request *request);

#endif
