/* zoe op: projects for operators of one's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "message.h"
#include "op_project.h"
#include "session.h"

typedef struct op_request {
    const char *op, *out;
    bool help;
} op_request;

#define AT(member) .at = offsetof(op_request, member)

/* clang-format off */
static const zoe_option rows[] = {
    {ZOE_OPTION_TEXT, "op", AT(op), .value = "NAME",
     .help = "which operator, if PROTO.json has several"},
    {ZOE_OPTION_TEXT, "out", 'o', AT(out), .value = "DIR",
     .help = "the new folder [the operator's name in snake case, in\nthis folder]"},
    {ZOE_OPTION_FLAG, "help", 'h', AT(help), .help = "this text"},
};
/* clang-format on */
enum { ROWS = sizeof rows / sizeof rows[0] };

static const char *const actions[] = {"new", NULL};

static int new_project(const char *file, const op_request *request)
{
    zoe_proto proto;
    zoe_context *ctx = zoe_session_begin(1);
    if (!ctx)
        return ZOE_EXIT_MEMORY;
    zoe_status status = zoe_proto_read(ctx, &proto, file, request->op);
    const bool read = status == ZOE_OK;
    const char *folder = request->out ? request->out : proto.name;
    if (read)
        status = zoe_op_project_write(ctx, &proto, folder);
    const int code = zoe_session_end(ctx, status, read);
    if (code != ZOE_EXIT_DONE)
        return code;
    char *schema = zoe_op_schema(&proto);
    zoe_note("wrote %s: torch.ops.custom.%s, %zu %s; README.md there says what is next", folder,
             schema ? schema : proto.name, proto.combinations << proto.flags,
             proto.combinations << proto.flags == 1 ? "kernel" : "kernels");
    free(schema);
    return code;
}

static int run(int argc, char **argv)
{
    zoe_options found;
    op_request request = {0};
    int code;
    if (!zoe_command_read(&zoe_op_command, &found, &request, &request.help, argc, argv, &code))
        return code;
    if (found.operands == 0 || strcmp(found.operand[0], actions[0]) != 0)
        return zoe_refuse_line(
            "what to do is wanted, and there is one thing: zoe op new PROTO.json");
    if (found.operands != 2 || !*found.operand[1])
        return zoe_refuse_line("one prototype is wanted: zoe op new PROTO.json");
    if ((request.op && !*request.op) || (request.out && !*request.out))
        return zoe_refuse_line("--op and --out want a name; see zoe op --help");
    return new_project(found.operand[1], &request);
}

static const char text[] =
    "PROTO.json is the prototype of an operator as msopgen has it: a list of operators, or\n"
    "one, each with op, input_desc, output_desc and attr. Types of tensors are float16,\n"
    "bfloat16 and float32, those of attributes float, int and bool.\n"
    "\n"
    "The project is complete: it builds with a C compiler and CMake alone, registers the\n"
    "operator as torch.ops.custom.NAME, and passes its tests, as the identity. What the\n"
    "operator computes is then written into three files, which its README.md names: the\n"
    "reference in Python, shapes and tiling, and the kernel. An optional input and a bool\n"
    "attribute are decided when the kernels are compiled: each set of them has a kernel of\n"
    "its own.\n"
    "\n"
    "docs/CUSTOM_OPS.md is a tutorial.\n";

static const char examples[] = "The project of the tutorial:\n"
                               "  zoe op new examples/custom_op/rmsnorm/rmsnorm_custom.json\n"
                               "  cd rmsnorm_custom && cmake -B build && cmake --build build\n";

const zoe_command zoe_op_command = {
    .name = "op",
    .summary = "begins the project of an operator of your own, from its prototype",
    .usage = "new PROTO.json [options]",
    .text = text,
    .examples = examples,
    .rows = rows,
    .n_rows = ROWS,
    .operands = ZOE_OPERANDS_ACTION,
    .operand_words = actions,
    .run = run,
    .alone = true,
};
