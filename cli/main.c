/* zoe: the program. Finds the sub-command and calls it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "launch.h"
#include "message.h"

static int help_main(int argc, char **argv);

typedef struct help_request {
    bool man, help;
} help_request;

static const zoe_option help_rows[] = {
    {ZOE_OPTION_FLAG, "man", .at = offsetof(help_request, man),
     .help = "the manual page, as man reads it: zoe help --man | man -l -"},
    {ZOE_OPTION_FLAG, "help", 'h', .at = offsetof(help_request, help), .help = "print this text"},
};

static const zoe_command help_command = {
    .name = "help",
    .summary = "explains a command: zoe help generate",
    .usage = "[COMMAND]\n--man",
    .rows = help_rows,
    .n_rows = sizeof help_rows / sizeof help_rows[0],
    .operands = ZOE_OPERANDS_COMMANDS,
    .run = help_main,
};

/* clang-format off */
const zoe_command *const zoe_commands[] = {
    &zoe_generate_command,
    &zoe_sweep_command,
    &zoe_calibrate_command,
    &zoe_plan_command,
    &zoe_compare_command,
    &zoe_info_command,
    &zoe_convert_command,
    &zoe_doctor_command,
    &zoe_bench_command,
    &zoe_preview_fit_command,
    &zoe_op_command,
    &zoe_version_command,
    &zoe_completion_command,
    &help_command,
    NULL,
};
/* clang-format on */

const zoe_command *zoe_command_find(const char *name)
{
    for (size_t i = 0; zoe_commands[i]; i++)
        if (strcmp(name, zoe_commands[i]->name) == 0)
            return zoe_commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    char list[512];
    size_t used = 0;
    for (size_t i = 0; zoe_commands[i] && used < sizeof list; i++) {
        const char *joint = i == 0 ? "" : zoe_commands[i + 1] ? ", " : " and ";
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", joint, zoe_commands[i]->name);
    }
    zoe_launch_hush();
    return zoe_refuse(ZOE_EXIT_USAGE, "INVALID", "%s is no command; they are %s", name, list);
}

static void print_commands(FILE *to)
{
    fputs("zoe turns a picture and a prompt into a video.\n\n    zoe COMMAND [options]\n\n", to);
    for (size_t i = 0; zoe_commands[i]; i++)
        fprintf(to, "  %-12s %s\n", zoe_commands[i]->name, zoe_commands[i]->summary);
    fputs("\nBegin with: zoe generate --help\n", to);
}

static int help_main(int argc, char **argv)
{
    help_request request = {0};
    zoe_options found;
    const zoe_command *self = &help_command;
    if (!zoe_options_parse(&found, &request, self->rows, self->n_rows, argc, argv, 1, "zoe help"))
        return zoe_refuse(ZOE_EXIT_USAGE, "INVALID", "%s", found.mistake);
    if (request.help) {
        zoe_command_help(self);
    } else if (request.man) {
        zoe_manual_print();
    } else if (found.operands == 0) {
        print_commands(stdout);
    } else {
        const zoe_command *c = zoe_command_find(found.operand[0]);
        if (!c)
            return unknown_command(found.operand[0]);
        zoe_command_help(c);
    }
    return ZOE_EXIT_DONE;
}

/* A standard stream that the caller closed would otherwise be the next file that is opened, and
 * messages would go into the video. Each is opened the wrong way round, so that its use is an
 * error. */
static int guard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            return ZOE_EXIT_FAILED;
    return ZOE_EXIT_DONE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        zoe_launch_hush();
        if (zoe_message_rank() == 0)
            print_commands(stderr);
        return ZOE_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_commands(stdout);
        return ZOE_EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0)
        return zoe_version_command.run(1, argv + 1);
    const zoe_command *c = zoe_command_find(argv[1]);
    if (!c)
        return unknown_command(argv[1]);
    const int code = c->alone ? zoe_launch_alone(c->name) : ZOE_EXIT_DONE;
    return code == ZOE_EXIT_DONE ? c->run(argc - 1, argv + 1) : code;
}

int main(int argc, char **argv)
{
    if (guard_streams() != ZOE_EXIT_DONE)
        return ZOE_EXIT_FAILED;
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of the write, with a message */
    signal(SIGXFSZ, SIG_IGN); /* and so is the limit of a file's size */
    zoe_message_init();
    int code = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == ZOE_EXIT_DONE)
        code =
            zoe_refuse(ZOE_EXIT_FAILED, "IO", "standard output: cannot write: %s", strerror(errno));
    fflush(stderr);
    return code;
}
