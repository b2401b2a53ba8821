/* zoe: the program. Finds the sub-command and calls it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "message.h"

typedef struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
} command;

static int help_main(int argc, char **argv);

static const command commands[] = {
    {"generate", "makes a video from a picture and a prompt", zoe_generate_main},
    {"help", "explains a command: zoe help generate", help_main},
    {"version", "what this program was built with", zoe_version_main},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    return zoe_refuse(ZOE_EXIT_USAGE, "INVALID",
                      "%s is no command; they are generate, help and version", name);
}

static void print_commands(FILE *to)
{
    fputs("zoe turns a picture and a prompt into a video.\n\n    zoe COMMAND [options]\n\n", to);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    fputs("\nBegin with: zoe generate --help\n", to);
}

static int help_main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stdout);
        return ZOE_EXIT_DONE;
    }
    const command *c = find_command(argv[1]);
    if (!c)
        return unknown_command(argv[1]);
    if (c->run == help_main) {
        print_commands(stdout);
        return ZOE_EXIT_DONE;
    }
    char help[] = "--help", *arguments[] = {argv[1], help, NULL};
    return c->run(2, arguments);
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
        print_commands(stderr);
        return ZOE_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return help_main(1, argv + 1);
    if (strcmp(argv[1], "--version") == 0)
        return zoe_version_main(1, argv + 1);
    const command *c = find_command(argv[1]);
    return c ? c->run(argc - 1, argv + 1) : unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
    if (guard_streams() != ZOE_EXIT_DONE)
        return ZOE_EXIT_FAILED;
    signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of the write, with a message */
    zoe_message_init();
    int code = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == ZOE_EXIT_DONE)
        code =
            zoe_refuse(ZOE_EXIT_FAILED, "IO", "standard output: cannot write: %s", strerror(errno));
    fflush(stderr);
    return code;
}
