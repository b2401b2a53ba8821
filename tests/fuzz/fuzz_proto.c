/* Fuzz target: prototypes of operators. What is accepted has a schema, and keeps the bounds of its tables. */
#include <stdlib.h>
#include <string.h>

#include "op_project.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const zoe_proto *p)
{
    char *schema = zoe_op_schema(p);
    if (!schema || strncmp(schema, p->name, strlen(p->name)) != 0)
        abort();
    free(schema);
    if (p->inputs == 0 || p->outputs == 0 || p->inputs + p->outputs > ZOE_PROTO_TENSORS ||
        p->flags > ZOE_PROTO_FLAGS || p->combinations == 0 ||
        p->combinations << p->flags > ZOE_PROTO_KERNELS)
        abort();
    for (size_t c = 0; c < p->combinations; c++)
        for (size_t i = 0; i < p->inputs + p->outputs; i++)
            if (!p->tensor[i].format[c] || p->tensor[i].type[c] == ZOE_NONE)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static zoe_proto proto;
    zoe_context *ctx = zoe_context_new(1);
    if (!ctx)
        return 0;
    const zoe_status status = zoe_proto_parse(ctx, &proto, (const char *)data, size, "input", NULL);
    if (status == ZOE_OK)
        check(&proto);
    else if (zoe_context_message(ctx)[0] == '\0')
        abort(); /* refused without a reason */
    zoe_context_free(ctx);
    return 0;
}
