/* The folder of a new operator: tables made of its prototype, and the files of cli/op_template/, which are in the
 * program. */
#ifndef ZOE_OP_PROJECT_H
#define ZOE_OP_PROJECT_H

#include "op_proto.h"

/* A file of cli/op_template/; PLACEHOLDERS.md there says what becomes of it. */
typedef struct zoe_op_template {
    const char *name; /* NULL ends the table */
    const char *text; /* without an end of its own */
    size_t size;
} zoe_op_template;
extern const zoe_op_template zoe_op_templates[];

/* The operator's signature, "rms_norm(Tensor x, Tensor? gamma=None, float eps=1e-06) -> Tensor". NULL without memory;
 * free with free. */
char *zoe_op_schema(const zoe_proto *proto);

/* Writes the project to `folder`, which is there when it is complete, and not before. The same prototype gives the same
 * bytes. Errors: ZOE_INVALID (something is there already), ZOE_IO, ZOE_NOMEM. */
zoe_status zoe_op_project_write(zoe_context *ctx, const zoe_proto *proto, const char *folder);

#endif
